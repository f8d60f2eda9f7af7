"""Plain summaries of datasets, for the part that decides about differences without xarray."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.combine import Part, SourceSummary, Summarizer, VariableSummary
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
from intarsia.xarray.internals import coords_of, data_of, dtype_of, indexes_of, variables_of

SMALL = 1 << 16
"""Elements of a loaded variable up to which its values take part in the comparison."""

LAYOUTS = {AFFINE: "contiguous", MISSING: "unwritten"}


def summarise(dataset: xr.Dataset, url: str, make: Summarizer) -> SourceSummary:
    """Summarise one opened file.

    Parameters
    ----------
    dataset
        As `open_dataset` gives it, or as ``preprocess`` changed it.
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
    encoding = variable.encoding
    known: dict[str, Any] = {
        "attrs": variable.attrs,
        "is_coordinate": coordinate,
        "is_index": index,
        "grid_mapping": variable.attrs.get("grid_mapping", encoding.get("grid_mapping")),
    }
    if isinstance(data, VirtualArray):
        known |= stored_as(data, url)
    else:
        units, calendar = encoding.get("units"), encoding.get("calendar")
        known["units"] = units if isinstance(units, str) else None
        known["calendar"] = calendar if isinstance(calendar, str) else None
        if index or (coordinate and variable.size <= SMALL):
            known["values"] = variable.values
    dims = tuple(str(dim) for dim in variable.dims)
    return make.variable(dims, variable.shape, dtype_of(variable), **known)


def stored_as(array: VirtualArray, url: str) -> dict[str, Any]:
    """How the first segment of a virtual array is stored, as `Summarizer.variable` takes it."""
    segments = array.segments
    case = segments.cases[0]
    encoding, row = case.encoding, case.rows[0]
    names = encoding.parameters.names or ()
    known: dict[str, Any] = {
        "stored": encoding.stored,
        "filters": encoding.filters,
        "raw_fill": row["raw_fill"] if holes_in(segments).any() else None,
        "fills": [row[name] for name in names if name.startswith("fill_")],
        "scale": row["scale"] if "scale" in names else None,
        "offset": row["offset"] if "offset" in names else None,
        "unsigned": _unsigned(array),
        "padded": len(segments) > 1,
    }
    if not segments.blocks:
        return known
    block = segments.blocks[0]
    first = block.matrix(slice(0, 1))[0]
    page = segments.pages[int(first[PAGE])]
    form = int(first[FORM])
    layout = LAYOUTS.get(form, "chunked")
    if form != MISSING and page.states is not None and page.states[int(first[REF])] == INLINE:
        layout = "compact"
    source = int(first[SOURCE])
    if source >= 0 and segments.sources.url(source) != url:
        layout = "external"
    known["layout"] = layout
    known["skipped_filters"] = page.masks is not None
    if layout == "chunked":
        known["chunks"] = tuple(int(n) for n in first[block.fields.chunk])
    return known


def _unsigned(array: VirtualArray) -> str | None:
    """Whether decoding began by reading signed integers as unsigned ones, or the reverse."""
    encoding = array.segments.cases[0].encoding
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
