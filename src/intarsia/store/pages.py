"""The parts that cells of a presented grid are made of, looked up for some neighbours at once.

Segments are cut to the cells that they meet, all pairs in one pass, and what each pair touches is
listed by `intarsia.lookup.touches`, or by `intarsia.store.runs` where bytes can be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.codecs.chunks import Parts
from intarsia.lookup import Touches, touch_counts, touches
from intarsia.references import AFFINE
from intarsia.segments import CASE, FORM, Block, Fields, Segments
from intarsia.store.boxes import BoxIndex
from intarsia.store.runs import run_counts, runs

type IntArray = npt.NDArray[Any]
type Edges = tuple[int, ...] | tuple[tuple[int, ...], ...]
type Index = tuple[int, ...]

PAGES = 8
"""Pages that are kept."""

PAGE_CELLS = 64
"""Cells of a page."""

PAGE_PARTS = 1 << 12
"""Parts of a page; where there are more, pages become smaller."""


class CellGrid:
    """Where the cells of a grid lie.

    Parameters
    ----------
    shape
        Shape of the array.
    chunks
        Chunk shape, or lengths of the chunks along each dimension.
    """

    def __init__(self, shape: Sequence[int], chunks: Edges) -> None:
        self._sizes = tuple(shape)
        self._edges: list[int | list[int]] = [
            edge if isinstance(edge, int) else [0, *accumulate(edge)] for edge in chunks
        ]
        self.shape = tuple(
            -(-size // edge) if isinstance(edge, int) else len(edge) - 1
            for size, edge in zip(shape, self._edges, strict=True)
        )

    def box(self, index: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """A cell: its first corner, the one after its last in the array, and its own shape."""
        low: list[int] = []
        high: list[int] = []
        shape: list[int] = []
        for axis, number in enumerate(index):
            edge = self._edges[axis]
            if isinstance(edge, int):
                begin, length = number * edge, edge
            else:
                begin, length = edge[number], edge[number + 1] - edge[number]
            low.append(begin)
            high.append(min(begin + length, self._sizes[axis]))
            shape.append(length)
        return low, high, shape

    def cells(self, axis: int, place: IntArray) -> IntArray:
        """The cell that each index along a dimension lies in."""
        edge = self._edges[axis]
        if isinstance(edge, int):
            return place // edge
        return np.searchsorted(edge, place, "right") - 1

    def begin(self, axis: int, cell: IntArray) -> IntArray:
        """Where cells begin along a dimension."""
        edge = self._edges[axis]
        return cell * edge if isinstance(edge, int) else np.array(edge, np.int64)[cell]


class Found(NamedTuple):
    """The parts of some cells.

    Parameters
    ----------
    parts
        As they are told in headers; their boxes lie in their cells.
    state, source, page, offset
        Where the bytes of each are; see `intarsia.lookup.Touches`.
    strides
        Of each, also along dimensions of which it has one index only.
    """

    parts: Parts
    state: IntArray
    source: IntArray
    page: IntArray
    offset: IntArray
    strides: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """The parts of neighbouring cells, cell by cell.

    Parameters
    ----------
    first, shape
        Box of cells.
    begin
        Number of each cell's first part, in C order, and of the one after the last part.
    rows
        Where each cell's rows of parameters begin, and where the last ends.
    found
        The parts.
    """

    first: Index
    shape: Index
    begin: list[int]
    rows: list[int]
    found: Found

    def of(self, index: Sequence[int]) -> Found:
        """The parts of a cell."""
        number = 0
        for i, first, size in zip(index, self.first, self.shape, strict=True):
            number = number * size + i - first
        part = slice(self.begin[number], self.begin[number + 1])
        parts, *columns = self.found
        some = Parts(
            parts.key[part],
            parts.case[part],
            parts.state[part],
            parts.mask[part],
            parts.elements[part],
            parts.begin[part],
            parts.strides[part],
            parts.start[part],
            parts.count[part],
            parts.nbytes[part],
            parts.width[part],
            parts.parameters[self.rows[number] : self.rows[number + 1]],
        )
        return Found(some, *[column[part] for column in columns])


_COLUMNS = [field.name for field in fields(Touches)]


class _Piece(NamedTuple):
    """Segments of a block, each cut to a cell.

    Parameters
    ----------
    block
        The cut segments; they lie in their cells.
    cell
        Number of each one's cell in the page.
    counts
        Parts of each.
    runs
        Whether they are runs of bytes, which can be cut anywhere.
    """

    block: Block
    cell: IntArray
    counts: IntArray
    runs: bool


class Pages:
    """Looks up the parts of cells.

    Parameters
    ----------
    segments
        The array.
    grid
        Its cells.
    keys
        Key of each case.
    """

    def __init__(self, segments: Segments, grid: CellGrid, keys: npt.NDArray[np.uint64]) -> None:
        self._segments = segments
        self._grid = grid
        self._keys = keys
        encodings = [case.encoding for case in segments.cases]
        self._itemsizes = np.array([one.stored.itemsize for one in encodings], np.int64)
        self._filtered = np.array([bool(one.filters) for one in encodings])
        self._indexes = [BoxIndex(block) for block in segments.blocks]
        self._shape = _page_shape(grid.shape, PAGE_CELLS)
        self._remembered = lru_cache(PAGES)(self._page)

    def find(self, index: Index, most: int) -> Found:
        """The parts of a cell.

        Parameters
        ----------
        index
            Of the cell.
        most
            Parts that a cell may have.

        Raises
        ------
        ValueError
            If it has more; they are not listed then.
        """
        while True:
            shape = self._shape
            first = tuple(i - i % n for i, n in zip(index, shape, strict=True))
            size = tuple(
                min(n, m - i) for i, n, m in zip(first, shape, self._grid.shape, strict=True)
            )
            page = self._remembered(first, size, most)
            if isinstance(page, Page):
                return page.of(index)
            cells = min(prod(shape) // 2, prod(size) * PAGE_PARTS // page)
            self._shape = _page_shape(self._grid.shape, max(cells, 1))

    def _page(self, first: Index, size: Index, most: int) -> Page | int:
        """The parts of a box of cells; where they are too many for a page, only their number."""
        pieces = self._pieces(first, size)
        total = sum(int(piece.counts.sum()) for piece in pieces)
        if prod(size) > 1 and total > PAGE_PARTS:
            return total
        if prod(size) == 1 and total > most:
            raise ValueError(f"a cell has 1 to {most} parts, not {total}")
        several: list[Touches] = []
        owners: list[IntArray] = []
        pages = self._segments.pages
        for piece in pieces:
            if piece.runs:
                matrix = piece.block.matrix()
                found = runs(matrix, piece.block.fields, pages, self._itemsizes)
            else:
                found = touches(piece.block, pages, self._itemsizes)
            several.append(found)
            owners.append(piece.cell[found.segment])
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        columns = [np.concatenate([getattr(t, name) for t in several])[order] for name in _COLUMNS]
        every = Touches(*columns)
        parts = Parts.of(every, self._segments.cases, self._keys, (0,) * len(first))
        begin = np.searchsorted(owner[order], np.arange(prod(size) + 1))
        rows = np.append(0, np.cumsum(parts.width))[begin]
        found = Found(parts, every.state, every.source, every.page, every.offset, every.strides)
        return Page(first, size, begin.tolist(), rows.tolist(), found)

    def _pieces(self, first: Index, size: Index) -> list[_Piece]:
        """Segments, cut to the cells of a box of cells."""
        low, _, _ = self._grid.box(first)
        _, high, _ = self._grid.box([i + n - 1 for i, n in zip(first, size, strict=True)])
        found: list[_Piece] = []
        for block, index in zip(self._segments.blocks, self._indexes, strict=True):
            rows = index.rows(low, high)
            if not len(rows):
                continue
            fields = block.fields
            matrix, cell = self._cut(block.matrix(rows), fields, first, size)
            # what is filtered has to be read whole
            run = (matrix[:, FORM] == AFFINE) & ~self._filtered[matrix[:, CASE]]
            for kind, chosen in ((False, ~run), (True, run)):
                if chosen.any():
                    some = Block(fields, matrix[chosen])
                    if kind:
                        counts = run_counts(some.matrix(), fields, self._itemsizes)
                    else:
                        counts = touch_counts(some)
                    found.append(_Piece(some, cell[chosen], counts, kind))
        return found

    def _cut(
        self, matrix: IntArray, fields: Fields, first: Index, size: Index
    ) -> tuple[IntArray, IntArray]:
        """Each segment cut to each of the cells it meets, and the number of the cell."""
        start, shape = matrix[:, fields.start], matrix[:, fields.shape]
        lows: list[IntArray] = []
        counts: list[IntArray] = []
        for axis in range(fields.ndim):
            low = self._grid.cells(axis, start[:, axis]) - first[axis]
            high = self._grid.cells(axis, start[:, axis] + shape[:, axis] - 1) - first[axis]
            low, high = np.maximum(low, 0), np.minimum(high, size[axis] - 1)
            lows.append(low)
            counts.append(high - low + 1)
        pairs = np.ones(len(matrix), np.int64)
        for count in counts:
            pairs *= count
        row = np.repeat(np.arange(len(matrix)), pairs)
        digit = np.arange(len(row)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        cut = matrix[row]
        cell = np.zeros(len(row), np.int64)
        stride = 1
        for axis in reversed(range(fields.ndim)):
            count = counts[axis][row]
            number = lows[axis][row] + digit % count
            digit //= count
            cell += number * stride
            stride *= size[axis]
            self._clip(cut, fields, axis, number + first[axis])
        return cut, cell

    def _clip(self, cut: IntArray, fields: Fields, axis: int, cell: IntArray) -> None:
        """Clip segments to their cells along a dimension, and move them into these."""
        begin, end = self._grid.begin(axis, cell), self._grid.begin(axis, cell + 1)
        start = cut[:, fields.start.start + axis]
        stop = start + cut[:, fields.shape.start + axis]
        low = np.maximum(start, begin)
        skipped = low - start
        steps, along = cut[:, fields.step], cut[:, fields.axis] == axis
        cut[:, fields.first] += np.where(along, steps * skipped[:, None], 0)
        cut[:, fields.shape.start + axis] = np.minimum(stop, end) - low
        cut[:, fields.start.start + axis] = low - begin


def _page_shape(grid: Sequence[int], cells: int) -> Index:
    """Shape of a box of at most so many cells, as long as can be along the last dimensions."""
    shape: list[int] = []
    for size in reversed(grid):
        length = max(1, min(size, cells))
        shape.append(length)
        cells //= length
    return tuple(reversed(shape))


def used_cases(segments: Segments) -> list[int]:
    """Numbers of the cases that segments have."""
    columns = [np.unique(block.column(CASE)) for block in segments.blocks]
    numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *columns]))
    found: list[int] = numbers.tolist()
    return found
