"""Segments: rectangular pieces of source arrays, placed in a whole, as columns.

A virtual array is tiled by disjoint boxes. Each box is a *segment*: where it lies in the whole, and
a window into a source array (for each source dimension: which dimension of the whole it runs along,
where it starts, and by which step; or a fixed position). Slicing, flipping, transposing,
broadcasting and concatenating change these integers and never touch references.

Segments with equally many source dimensions form one `Block`: an integer matrix with one row per
segment, kept column by column in narrow types once it is long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Case, Codec, Encoding, merge_cases, unique_rows
from intarsia.grid import strip_shape
from intarsia.references import (
    AFFINE,
    INLINE,
    MISSING,
    NO_SOURCES,
    References,
    Sources,
    held_bytes,
    tight_signed,
)

type IntArray = npt.NDArray[Any]

# Columns of a block, before the geometry.
CASE, ROW, SOURCE, PAGE, REF, COUNT, FORM = range(7)
HEAD = 7

PACK_FROM = 32
"""Blocks of fewer rows stay a plain matrix."""

MAX_PAGES = 8
"""More tables of references than this are merged, the small ones first."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Column numbers of a block's geometry.

    Parameters
    ----------
    ndim
        Dimensions of the whole.
    source_ndim
        Dimensions of the source arrays.
    """

    ndim: int
    source_ndim: int

    @property
    def start(self) -> slice:
        """First index of the box along each dimension of the whole."""
        return slice(HEAD, HEAD + self.ndim)

    @property
    def shape(self) -> slice:
        """Lengths of the box."""
        return slice(HEAD + self.ndim, HEAD + 2 * self.ndim)

    def _source(self, number: int) -> slice:
        first = HEAD + 2 * self.ndim + number * self.source_ndim
        return slice(first, first + self.source_ndim)

    @property
    def axis(self) -> slice:
        """Dimension of the whole that each source dimension runs along; -1: fixed."""
        return self._source(0)

    @property
    def first(self) -> slice:
        """Source index of the box's first element."""
        return self._source(1)

    @property
    def step(self) -> slice:
        """Source indices per index of the whole; any integer."""
        return self._source(2)

    @property
    def size(self) -> slice:
        """Shape of the source array."""
        return self._source(3)

    @property
    def chunk(self) -> slice:
        """Chunk shape of the source array."""
        return self._source(4)

    @property
    def width(self) -> int:
        """Number of columns."""
        return HEAD + 2 * self.ndim + 5 * self.source_ndim


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Segments with equally many source dimensions.

    Parameters
    ----------
    fields
        Which column is what.
    columns
        Matrix of shape (segments, columns), or a tuple of narrow columns.
    """

    fields: Fields
    columns: IntArray | tuple[IntArray, ...]

    @classmethod
    def of(cls, fields: Fields, matrix: IntArray) -> Block:
        """Keep `matrix`, column by column in narrow types where it is long."""
        if matrix.shape[0] < PACK_FROM:
            return cls(fields, matrix)
        return cls(fields, tuple(tight_signed(column) for column in matrix.T))

    def __len__(self) -> int:
        return len(self.columns) if isinstance(self.columns, np.ndarray) else len(self.columns[0])

    def column(self, number: int) -> IntArray:
        """One column."""
        if isinstance(self.columns, np.ndarray):
            return self.columns[:, number]
        return self.columns[number]

    def matrix(self, rows: IntArray | slice | None = None) -> IntArray:
        """Rows as an int64 matrix (all where `rows` is None); not to be written to."""
        if isinstance(self.columns, np.ndarray):
            return self.columns if rows is None else self.columns[rows]
        columns = self.columns if rows is None else [column[rows] for column in self.columns]
        result = np.empty((len(columns[0]), len(columns)), np.int64)
        for number, column in enumerate(columns):
            result[:, number] = column
        return result

    @property
    def nbytes(self) -> int:
        """Bytes the columns hold."""
        if isinstance(self.columns, np.ndarray):
            return self.columns.nbytes
        return sum(held_bytes(column) for column in self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Disjoint boxes that tile an array, and what they refer to.

    Parameters
    ----------
    shape
        Shape of the whole.
    blocks
        The boxes. Together they cover the whole exactly once.
    cases
        Encodings and parameter rows that the boxes point into.
    pages
        Tables of references that the boxes point into.
    sources
        Table of sources that the boxes point into.
    """

    shape: tuple[int, ...]
    blocks: tuple[Block, ...]
    cases: tuple[Case, ...]
    pages: tuple[References, ...]
    sources: Sources

    @classmethod
    def of_source(
        cls,
        sources: Sources,
        source: int,
        shape: Sequence[int],
        chunks: Sequence[int],
        case: Case,
        references: References,
    ) -> Segments:
        """One segment that covers a whole source array."""
        shape = tuple(int(size) for size in shape)
        if any(chunk < 1 for chunk in chunks) or len(chunks) != len(shape):
            raise ValueError(f"chunk shape {tuple(chunks)} does not fit shape {shape}")
        count = len(shape)
        row = [0, 0, source, 0, 0, len(references), references.form, *[0] * count, *shape]
        row += [*range(count), *[0] * count, *[1] * count, *shape, *chunks]
        blocks: tuple[Block, ...] = ()
        if prod(shape):
            blocks = (Block(Fields(count, count), np.array([row], np.int64)),)
        return cls(shape, blocks, (case,), (references,), sources)

    @classmethod
    def full(cls, shape: Sequence[int], value: Any, dtype: npt.DTypeLike) -> Segments:
        """One segment of a constant."""
        encoding = Encoding((), np.dtype(dtype))
        rows = np.zeros(1, encoding.parameters)
        rows["raw_fill"] = value
        shape = tuple(int(size) for size in shape)
        count = len(shape)
        row = [0, 0, -1, 0, 0, 0, MISSING, *[0] * count, *shape]
        blocks = (Block(Fields(count, 0), np.array([row], np.int64)),) if prod(shape) else ()
        return cls(shape, blocks, (Case(encoding, rows),), (References.missing(),), NO_SOURCES)

    @classmethod
    def inline(cls, values: npt.NDArray[Any]) -> Segments:
        """One segment whose bytes are kept in the table of references."""
        encoding = Encoding((), values.dtype)
        data = np.ascontiguousarray(values).tobytes()
        references = References(
            np.zeros(1, np.uint8),
            np.array([len(data)], np.uint64),
            states=np.array([INLINE], np.uint8),
            inline=data,
            form=AFFINE,
        )
        chunks = strip_shape(values.shape, values.dtype.itemsize)
        case = Case(encoding, np.zeros(1, encoding.parameters))
        return cls.of_source(NO_SOURCES, -1, values.shape, chunks, case, references)

    # -- what they are ---------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Dimensions of the whole."""
        return len(self.shape)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def nbytes(self) -> int:
        """Bytes of segment and reference columns (parameters and sources apart)."""
        return sum(block.nbytes for block in self.blocks) + sum(page.nbytes for page in self.pages)

    @property
    def parameter_nbytes(self) -> int:
        """Bytes of the parameter rows."""
        return sum(case.rows.nbytes for case in self.cases)

    # -- operations ------------------------------------------------------------------------------

    def _with(self, shape: Sequence[int], blocks: Sequence[Block]) -> Segments:
        kept = tuple(block for block in blocks if len(block))
        return Segments(tuple(shape), kept, self.cases, self.pages, self.sources)

    def select(self, keys: Sequence[slice | int]) -> Segments:
        """Numpy basic indexing: one slice (any step) or non-negative integer per dimension."""
        windows: list[tuple[int, int, int]] = []
        dropped: list[int] = []
        for axis, key in enumerate(keys):
            if isinstance(key, slice):
                indices = range(*key.indices(self.shape[axis]))
                windows.append((indices.start, indices.step, len(indices)))
            else:
                windows.append((key, 1, 1))
                dropped.append(axis)
        kept = [axis for axis in range(self.ndim) if axis not in dropped]
        shape = tuple(windows[axis][2] for axis in kept)
        if 0 in shape:
            return self._with(shape, ())
        changed = [
            axis for axis, window in enumerate(windows) if window != (0, 1, self.shape[axis])
        ]
        blocks = [_select(block, windows, changed, kept) for block in self.blocks]
        return self._with(shape, blocks)

    def transpose(self, axes: Sequence[int]) -> Segments:
        """Dimension ``j`` of the result is dimension ``axes[j]``."""
        number = {old: new for new, old in enumerate(axes)}
        lookup = np.array([number[axis] for axis in range(self.ndim)] + [-1], np.int64)
        blocks: list[Block] = []
        for block in self.blocks:
            fields, matrix = block.fields, block.matrix().copy()
            matrix[:, fields.start] = matrix[:, fields.start][:, list(axes)]
            matrix[:, fields.shape] = matrix[:, fields.shape][:, list(axes)]
            matrix[:, fields.axis] = lookup[matrix[:, fields.axis]]
            blocks.append(Block.of(fields, matrix))
        return self._with([self.shape[axis] for axis in axes], blocks)

    def insert(self, axis: int, size: int = 1) -> Segments:
        """A new dimension at `axis`, along which everything is repeated."""
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        if size == 0:
            return self._with(shape, ())
        blocks: list[Block] = []
        for block in self.blocks:
            old, matrix = block.fields, block.matrix()
            fields = Fields(old.ndim + 1, old.source_ndim)
            matrix = np.insert(matrix, [old.start.start + axis, old.shape.start + axis], 0, axis=1)
            matrix[:, fields.shape.start + axis] = size
            axes = matrix[:, fields.axis]
            axes[axes >= axis] += 1
            blocks.append(Block.of(fields, matrix))
        return self._with(shape, blocks)

    def repeat(self, axis: int, size: int) -> Segments:
        """Repeat a dimension of length one `size` times, without copying."""
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        if size == 0:
            return self._with(shape, ())
        blocks: list[Block] = []
        for block in self.blocks:
            fields, matrix = block.fields, block.matrix().copy()
            matrix[:, fields.shape.start + axis] = size
            along = matrix[:, fields.axis] == axis
            matrix[:, fields.axis][along] = -1
            matrix[:, fields.step][along] = 0
            blocks.append(Block.of(fields, matrix))
        return self._with(shape, blocks)

    def cast(self, dtype: np.dtype[Any]) -> Segments:
        """Every value followed by ``astype(dtype)``."""
        if all(case.encoding.dtype == dtype for case in self.cases):
            return self
        cases = tuple(Case(case.encoding.cast(dtype), case.rows) for case in self.cases)
        return Segments(self.shape, self.blocks, cases, self.pages, self.sources)

    def extend(self, steps: Sequence[Codec], parameters: dict[str, np.generic]) -> Segments:
        """Every value followed by `steps`, whose parameters are the same everywhere."""
        dtypes = {name: value.dtype for name, value in parameters.items()}
        cases: list[Case] = []
        for case in self.cases:
            encoding = case.encoding.extend(steps, dtypes)
            rows = np.empty(len(case.rows), encoding.parameters)
            for name in case.encoding.parameters.names or ():
                rows[name] = case.rows[name]
            for name, value in parameters.items():
                rows[name] = value
            cases.append(Case(encoding, rows))
        return Segments(self.shape, self.blocks, tuple(cases), self.pages, self.sources)

    def renumbered(self, sources: Sources, numbers: IntArray) -> Segments:
        """The same segments, pointing into another table of sources by new numbers."""
        blocks: list[Block] = []
        for block in self.blocks:
            matrix = block.matrix().copy()
            old = matrix[:, SOURCE]
            matrix[:, SOURCE] = np.where(old < 0, -1, np.append(numbers, -1)[old])
            blocks.append(Block.of(block.fields, matrix))
        return Segments(self.shape, tuple(blocks), self.cases, self.pages, sources)

    @staticmethod
    def concatenate(parts: Sequence[Segments], axis: int) -> Segments:
        """Join along a dimension. Boxes move; references and their bytes stay as they are."""
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        lengths = [part.shape[axis] for part in parts]
        shape[axis] = sum(lengths)
        # a part without boxes refers to nothing
        offsets = np.cumsum([0, *lengths[:-1]])
        chosen = [number for number, part in enumerate(parts) if part.blocks]
        if not chosen:
            return Segments(tuple(shape), (), parts[0].cases, parts[0].pages, parts[0].sources)
        used = [parts[number] for number in chosen]
        joiner = _Joiner(used, offsets[chosen], axis)
        return Segments(tuple(shape), joiner.blocks, joiner.cases, joiner.pages, joiner.sources)


def _select(
    block: Block,
    windows: Sequence[tuple[int, int, int]],
    changed: Sequence[int],
    kept: Sequence[int],
) -> Block:
    """Cut the boxes of a block down to a window, in the window's own coordinates."""
    fields = block.fields
    keep: IntArray | None = None
    bounds: dict[int, tuple[IntArray, IntArray]] = {}
    for axis in changed:
        begin, step, count = windows[axis]
        start = block.column(fields.start.start + axis).astype(np.int64)
        length = block.column(fields.shape.start + axis).astype(np.int64)
        if step > 0:
            low = -((begin - start) // step)
            high = -((begin - start - length) // step)
        else:
            low = -((start + length - 1 - begin) // -step)
            high = (begin - start) // -step + 1
        low, high = np.maximum(low, 0), np.minimum(high, count)
        inside = high > low
        keep = inside if keep is None else keep & inside
        bounds[axis] = low, high
    rows = None if keep is None else np.flatnonzero(keep)
    matrix = block.matrix(rows)
    if rows is None:
        matrix = matrix.copy()
    starts, shapes, axes = matrix[:, fields.start], matrix[:, fields.shape], matrix[:, fields.axis]
    firsts, steps = matrix[:, fields.first], matrix[:, fields.step]
    for axis, (low, high) in bounds.items():
        begin, step, _ = windows[axis]
        low, high = low[rows], high[rows]
        moved = begin + step * low - starts[:, axis]
        along = axes == axis
        firsts += np.where(along, steps * moved[:, None], 0)
        steps *= np.where(along, step, 1)
        starts[:, axis] = low
        shapes[:, axis] = high - low
    if len(kept) == fields.ndim:
        return Block.of(fields, matrix)
    number = np.full(fields.ndim + 1, -1, np.int64)
    number[list(kept)] = np.arange(len(kept))
    fixed = (number[axes] < 0) & (axes >= 0)
    steps[fixed] = 0
    axes[...] = number[axes]
    gone = [axis for axis in range(fields.ndim) if axis not in kept]
    columns = [HEAD + axis for axis in gone] + [HEAD + fields.ndim + axis for axis in gone]
    return Block.of(Fields(len(kept), fields.source_ndim), np.delete(matrix, columns, axis=1))


class _Joiner:
    """Concatenation of many segment lists in a few NumPy calls."""

    def __init__(self, parts: Sequence[Segments], offsets: IntArray, axis: int) -> None:
        self.sources, source_maps = Sources.union([part.sources for part in parts])
        cases, places = merge_cases([part.cases for part in parts])
        self.pages, page_places = _merge_pages([part.pages for part in parts])
        groups: dict[Fields, list[tuple[int, IntArray]]] = {}
        for number, part in enumerate(parts):
            for block in part.blocks:
                groups.setdefault(block.fields, []).append((number, block.matrix()))
        matrices: list[tuple[Fields, IntArray]] = []
        for fields, group in groups.items():
            matrix = np.concatenate([rows for _, rows in group])
            counts = [len(rows) for _, rows in group]
            part = np.repeat(np.array([number for number, _ in group]), counts)
            matrix[:, fields.start.start + axis] += offsets[part]
            case, first = _relabel(places, part, matrix[:, CASE])
            matrix[:, CASE] = case
            matrix[:, ROW] += first
            page, first = _relabel(page_places, part, matrix[:, PAGE])
            matrix[:, PAGE] = page
            matrix[:, REF] += first
            if any(numbers is not None for numbers in source_maps):
                matrix[:, SOURCE] = _renumber(source_maps, parts, part, matrix[:, SOURCE])
            matrices.append((fields, matrix))
        self.cases = _distinct(cases, [matrix for _, matrix in matrices])
        self.blocks = tuple(Block.of(fields, matrix) for fields, matrix in matrices)


def _relabel(
    places: Sequence[Sequence[tuple[int, int]]], part: IntArray, label: IntArray
) -> tuple[IntArray, IntArray]:
    """Look up (new number, first row) of each (part, label)."""
    flat = np.array([pair for place in places for pair in place], np.int64).reshape(-1, 2)
    base = np.cumsum([0] + [len(place) for place in places[:-1]])
    found = flat[base[part] + label]
    return found[:, 0], found[:, 1]


def _renumber(
    maps: Sequence[IntArray | None], parts: Sequence[Segments], part: IntArray, source: IntArray
) -> IntArray:
    """New source numbers; -1 (no source) stays."""
    tables = [
        np.arange(len(segments.sources)) if numbers is None else numbers
        for numbers, segments in zip(maps, parts, strict=True)
    ]
    base = np.cumsum([0] + [len(table) for table in tables[:-1]])
    flat = np.concatenate([*tables, np.zeros(1, np.int64)])
    place = np.where(source < 0, 0, base[part] + source)
    return np.where(source < 0, -1, flat[place])


def _merge_pages(
    groups: Sequence[tuple[References, ...]],
) -> tuple[tuple[References, ...], list[list[tuple[int, int]]]]:
    """Unite tables of references: each once, and the small ones in one table."""
    distinct = {id(page): page for pages in groups for page in pages if len(page)}
    place: dict[int, tuple[int, int]] = {}
    kept: list[References] = []
    small: list[References] = list(distinct.values())
    if len(small) <= MAX_PAGES:
        kept, small = small, []
    else:
        limit = sum(len(page) for page in small) // MAX_PAGES
        kept = [page for page in small if len(page) > limit]
        small = [page for page in small if len(page) <= limit]
    for number, page in enumerate(kept):
        place[id(page)] = (number, 0)
    if small:
        start = 0
        for page in small:
            place[id(page)] = (len(kept), start)
            start += len(page)
        kept.append(References.merge(small))
    if not kept:
        kept.append(References.missing())
    return tuple(kept), [[place.get(id(page), (0, 0)) for page in pages] for pages in groups]


def _distinct(cases: tuple[Case, ...], matrices: Sequence[IntArray]) -> tuple[Case, ...]:
    """Drop repeated parameter rows of cases that were just joined."""
    result: list[Case] = []
    for number, case in enumerate(cases):
        if len(case.rows) > 1:
            rows, inverse = unique_rows(case.rows)
            for matrix in matrices:
                mine = matrix[:, CASE] == number
                matrix[mine, ROW] = inverse[matrix[mine, ROW]]
            case = Case(case.encoding, rows)
        result.append(case)
    return tuple(result)
