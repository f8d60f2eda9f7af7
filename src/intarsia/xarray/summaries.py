"""Plain summaries of datasets, for the part that decides about differences without xarray."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.cf import enum_of, meanings_of
from intarsia.combine import Part, SourceSummary, Summarizer, VariableSummary
from intarsia.combine.frozen import freeze_items
from intarsia.encoding import RAW_FILL, Encoding
from intarsia.references import (
    ABSENT,
    AFFINE,
    DENSE,
    INLINE,
    MISSING,
    SPARSE,
    References,
    Sources,
)
from intarsia.segments import (
    CASE,
    COUNT,
    FORM,
    PAGE,
    REF,
    ROW,
    SOURCE,
    Block,
    Segments,
)
from intarsia.xarray.internals import (
    coords_of,
    data_of,
    dtype_of,
    indexes_of,
    values_of,
    variables_of,
)

SMALL = 1 << 16
"""Elements of a loaded variable up to which its values take part in the comparison."""

LAYOUTS = {AFFINE: "contiguous", MISSING: "unwritten"}


def summarise(dataset: xr.Dataset, url: str, make: Summarizer) -> SourceSummary:
    """Summarise one opened file.

    Parameters
    ----------
    dataset
        As `open_dataset` gives it, or as ``preprocess`` changed it. It lives, unchanged, as long as
        `make` is in use.
    url
        How messages name the file.
    make
        Interns equal parts; one per open.
    """
    coords = coords_of(dataset)
    indexes = indexes_of(dataset)
    variables: dict[str, VariableSummary] = {}
    for name, variable in variables_of(dataset).items():
        variables[str(name)] = _variable(variable, name in coords, name in indexes, url, make)
    return make.source(
        url,
        variables,
        attrs=dataset.attrs,
        sizes={str(dim): size for dim, size in dataset.sizes.items()},
    )


def _variable(
    variable: xr.Variable, coordinate: bool, index: bool, url: str, make: Summarizer
) -> VariableSummary:
    data: Any = data_of(variable)
    attrs, encoding = variable.attrs, variable.encoding
    mapping = attrs.get("grid_mapping", encoding.get("grid_mapping"))
    mapping = mapping if isinstance(mapping, str) else None
    values: npt.NDArray[Any] | None = None
    units: str | None = None
    calendar: str | None = None
    stored: Stored | None = None
    if isinstance(data, VirtualArray):
        stored = _stored(data, url, make)
    else:
        units, calendar = encoding.get("units"), encoding.get("calendar")
        units = units if isinstance(units, str) else None
        calendar = calendar if isinstance(calendar, str) else None
        if index or (coordinate and variable.size <= SMALL):
            values = values_of(variable)
    dims, shape, dtype = variable.dims, variable.shape, dtype_of(variable)
    enum = enum_of(encoding)
    meanings = None if enum is None else meanings_of(enum)

    def build() -> VariableSummary:
        return make.variable(
            [str(dim) for dim in dims],
            shape,
            dtype,
            attrs=attrs,
            is_coordinate=coordinate,
            is_index=index,
            units=units,
            calendar=calendar,
            grid_mapping=mapping,
            meanings=meanings,
            **(stored.told() if stored is not None else {}),
        )

    key = (
        dims,
        shape,
        dtype,
        coordinate,
        index,
        stored,
        units,
        calendar,
        mapping,
        meanings,
        make.once((id(attrs),), lambda: freeze_items(attrs)),
    )
    return make.known(key, build, values)


def _stored(array: VirtualArray, url: str, make: Summarizer) -> Stored:
    """How an array is stored; found out once for all that share all but the places of chunks."""
    segments = array.segments
    if len(segments.sources) > 1 or len(segments.blocks) != 1 or len(segments.pages) != 1:
        return Stored.of(array, url)
    block, page = segments.blocks[0], segments.pages[0]
    if page.states is not None or page.masks is not None:
        return Stored.of(array, url)
    return make.once((id(block), id(segments.cases)), lambda: Stored.of(array, url))


class Stored(NamedTuple):
    """How the first segment of a virtual array is stored.

    Parameters
    ----------
    encoding, row
        Its encoding, and the bytes of its parameters.
    holes
        Whether a chunk of the array was never written.
    padded
        Whether the array has more segments, of which some are fill.
    layout, chunks, skipped_filters
        As for `VariableSummary`.
    """

    encoding: Encoding
    row: bytes
    holes: bool = False
    padded: bool = False
    layout: str | None = None
    chunks: tuple[int, ...] | None = None
    skipped_filters: bool = False

    @classmethod
    def of(cls, array: VirtualArray, url: str) -> Stored:
        """Look at the first segment of an array of the file `url`."""
        segments = array.segments
        encoding, rows = segments.cases[0]
        row = rows[:1].tobytes()
        if not segments.blocks:
            return cls(encoding, row)
        block = segments.blocks[0]
        first: list[int] = block.matrix(slice(0, 1))[0].tolist()
        page, form, place = segments.pages[first[PAGE]], first[FORM], first[REF]
        several = len(segments.blocks) > 1 or len(block) > 1
        padded = several and any(_pads(block) for block in segments.blocks)
        if several:
            holes = bool(holes_in(segments).any())
        elif form == DENSE and page.states is not None:
            holes = bool((page.states[place : place + first[COUNT]] == ABSENT).any())
        else:
            holes = form in (MISSING, SPARSE)
        layout = LAYOUTS.get(form, "chunked")
        if form != MISSING and page.states is not None and page.states[place] == INLINE:
            layout = "compact"
        source = first[SOURCE]
        own = source >= 0 and segments.sources.url(0) == url  # else `url` is that of a store
        if own and form == AFFINE and segments.sources.url(source) != url:
            layout = "external"
        chunks = tuple(first[block.fields.chunk]) if layout == "chunked" else None
        return cls(encoding, row, holes, padded, layout, chunks, page.masks is not None)

    def told(self) -> dict[str, Any]:
        """The same, as `Summarizer.variable` takes it."""
        encoding = self.encoding
        row = np.frombuffer(self.row, encoding.parameters)[0]
        names = encoding.parameters.names or ()
        return {
            "stored": encoding.stored,
            "filters": encoding.filters,
            "raw_fill": row[RAW_FILL] if self.holes else None,
            "fills": [row[name] for name in names if name.startswith("fill_")],
            "scale": row["scale"] if "scale" in names else None,
            "offset": row["offset"] if "offset" in names else None,
            "unsigned": _unsigned(encoding),
            "padded": self.padded,
            "layout": self.layout,
            "chunks": self.chunks,
            "skipped_filters": self.skipped_filters,
        }


def _pads(block: Block) -> bool:
    """Whether some segment is of a file, and of nothing that is stored in it."""
    return bool(((block.column(FORM) == MISSING) & (block.column(SOURCE) >= 0)).any())


def _unsigned(encoding: Encoding) -> str | None:
    """Whether decoding began by reading signed integers as unsigned ones, or the reverse."""
    if not encoding.steps or encoding.steps[0].name != "cast":
        return None
    first = np.dtype(encoding.steps[0].config["dtype"])
    if {first.kind, encoding.stored.kind} != {"i", "u"}:
        return None
    return "true" if first.kind == "u" else "false"


def parts_of(arrays: Mapping[Hashable, VirtualArray]) -> list[Part]:
    """What each variable is made of, as `combine.report_from_parts` takes it."""
    parts: list[Part] = []
    for name, array in arrays.items():
        segments = array.segments
        for block in segments.blocks:
            fields = block.fields
            if not fields.source_ndim:
                continue  # constants: no file is behind them
            cases = block.column(CASE)
            chunks = np.stack(
                [block.column(n) for n in range(fields.chunk.start, fields.chunk.stop)], axis=1
            )
            for number, case in enumerate(segments.cases):
                mine = np.flatnonzero(cases == number)
                if not len(mine):
                    continue
                urls = _Urls(segments.sources, block.column(SOURCE)[mine])
                rows = case.rows[block.column(ROW)[mine]]
                chunked = block.column(FORM)[mine][0] in (DENSE, SPARSE)
                cut = chunks[mine] if chunked else None
                holes = holes_of(block, segments.pages)[mine]
                parts.append(Part(str(name), case.encoding, rows, urls, cut, holes))
    return parts


def holes_in(segments: Segments) -> npt.NDArray[np.bool_]:
    """Whether each segment has chunks that were never written, block after block."""
    found = [holes_of(block, segments.pages) for block in segments.blocks]
    return np.concatenate(found) if found else np.zeros(0, bool)


def holes_of(block: Block, pages: Sequence[References]) -> npt.NDArray[np.bool_]:
    """Whether each segment of a block has chunks that were never written."""
    form = block.column(FORM)
    holes = (form == MISSING) | (form == SPARSE)
    for number, page in enumerate(pages):
        if page.states is None:
            continue
        mine = np.flatnonzero((block.column(PAGE) == number) & (form == DENSE))
        absent = np.concatenate([[0], np.cumsum(page.states == ABSENT)])
        begin = block.column(REF)[mine].astype(np.int64)
        holes[mine] = absent[begin + block.column(COUNT)[mine]] > absent[begin]
    return holes


class _Urls(Sequence[str]):
    """Names of the sources of some segments, made one by one when asked for."""

    def __init__(self, sources: Sources, numbers: npt.NDArray[Any]) -> None:
        self._sources = sources
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        number = int(self._numbers[index])
        return self._sources.url(number) if number >= 0 else ""
