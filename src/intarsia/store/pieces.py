"""What the cells of a grid are made of: how much in all and at most, without listing them.

Question: a regular grid of cells is laid over an array that is made of segments; how many bytes do
its (cell, source chunk) pairs decode to, and what is the most that one cell holds? Algorithm: for
one segment, pairs are the product over the dimensions of the pairs along each (see
`intarsia.store.lines`). For the most in one cell, each segment is cut into boxes of cells that hold
the same (its first, its inner and its last cells along each dimension); boxes are added up on the
grid of all their corners. Limits: that grid is made coarser where it would be too large, and where
inner cells hold unlike numbers the largest possible one is taken; both give an upper bound, not
the exact number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.references import AFFINE, MISSING, References
from intarsia.segments import CASE, COUNT, FORM, PAGE, REF, Block, Segments
from intarsia.store.lines import CHUNKED, EACH, RUN, STILL, STRIP, Line, run_dimension

type IntArray = npt.NDArray[Any]
type FloatArray = npt.NDArray[np.float64]

EXACT_PAIRS = 1 << 16
"""Up to so many pairs of a segment and a cell, each one is looked at."""

MAX_CORNERS = 1 << 22
"""Size of the grid on which boxes of cells are added up."""

BATCH = 1 << 14
"""Segments whose boxes are added up at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The segments of an array, as far as it matters to the cells of a grid.

    Parameters
    ----------
    shape
        Shape of the whole.
    itemsize
        Bytes per element of the values.
    lines
        What the segments meet along each dimension.
    decoded
        Bytes that one piece decodes to, for each segment (of a run: per element that counts).
    held
        The same or the bytes that are stored, whichever is more.
    weight
        How many segments each row stands for.
    """

    shape: tuple[int, ...]
    itemsize: int
    lines: tuple[Line, ...]
    decoded: FloatArray
    held: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, segments: Segments, *, lengths: bool = True) -> Pieces:
        """Gather the columns of all blocks.

        Parameters
        ----------
        segments
            The array.
        lengths
            Whether to look at the lengths of references, all of them; without them, `held` has
            what is decoded.
        """
        stored = np.array([case.encoding.stored.itemsize for case in segments.cases], np.int64)
        itemsize = max((case.encoding.dtype.itemsize for case in segments.cases), default=1)
        pages = segments.pages if lengths else ()
        parts = [_of_block(block, pages, stored) for block in segments.blocks]
        lines = [
            Line(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))
            for pieces in zip(*(part[0] for part in parts), strict=True)
        ]
        if not parts:
            nothing = np.empty(0, np.int64)
            lines = [Line(*[nothing] * 6) for _ in segments.shape]
        decoded = np.concatenate([np.empty(0), *(part[1] for part in parts)])
        held = np.concatenate([np.empty(0), *(part[2] for part in parts)])
        return cls(segments.shape, itemsize, tuple(lines), decoded, held, np.ones(len(decoded)))

    def __len__(self) -> int:
        return len(self.decoded)

    def take(self, rows: IntArray, weight: FloatArray) -> Pieces:
        """Some of the rows, standing for all."""
        lines = tuple(line.take(rows) for line in self.lines)
        return Pieces(self.shape, self.itemsize, lines, self.decoded[rows], self.held[rows], weight)

    def decoded_bytes(self, chunks: Sequence[int]) -> float:
        """Bytes that are decoded when each cell is read once."""
        total = self.decoded * self.weight
        for line, edge in zip(self.lines, chunks, strict=True):
            total = total * line.total(edge)[1]
        return float(total.sum())

    def touched_bytes(self) -> float:
        """Bytes that are decoded when all is read at once."""
        return self.decoded_bytes(self.whole())

    def whole(self) -> tuple[int, ...]:
        """The chunk shape of a grid that has but one cell."""
        return tuple(max(size, 1) for size in self.shape)

    def most(self, chunks: Sequence[int]) -> tuple[int, float]:
        """At least as many (parts, bytes) as any cell holds; exactly as many in small arrays."""
        pairs = np.ones(len(self))
        for line, edge in zip(self.lines, chunks, strict=True):
            pairs *= line.cells(edge)
        exact = float(pairs.sum()) <= EXACT_PAIRS
        return self.most_of(
            [
                Spans.of(line, edge, exact=exact)
                for line, edge in zip(self.lines, chunks, strict=True)
            ]
        )

    def most_of(self, spans: Sequence[Spans]) -> tuple[int, float]:
        """At least as many (parts, bytes) as any cell holds, given what each segment has in it."""
        if not len(self):
            return 0, 0.0
        corners = _corners(spans)
        shape = tuple(len(edges) for edges in corners)
        sums = np.zeros((2, prod(shape)))
        for begin in range(0, len(self), BATCH):
            rows = np.arange(begin, min(begin + BATCH, len(self)))
            for flat, sign, parts, nbytes in _boxes(spans, corners, shape, rows, self.held):
                np.add.at(sums[0], flat, sign * parts)
                np.add.at(sums[1], flat, sign * nbytes)
        field = sums.reshape(2, *shape)
        for axis in range(1, field.ndim):
            np.cumsum(field, axis, out=field)
        parts, nbytes = field.reshape(2, -1).max(axis=1)
        return round(float(parts)), float(nbytes)


def _of_block(
    block: Block, pages: Sequence[References], stored: IntArray
) -> tuple[list[tuple[IntArray, ...]], FloatArray, FloatArray]:
    """Lines of a block along each dimension of the whole, and bytes per piece."""
    matrix, fields = block.matrix(), block.fields
    itemsize = stored[matrix[:, CASE]]
    form = matrix[:, FORM]
    affine, missing = form == AFFINE, form == MISSING
    cut, row_bytes = run_dimension(matrix, fields, itemsize)
    chunk = matrix[:, fields.chunk]
    step, axes = matrix[:, fields.step], matrix[:, fields.axis]
    decoded = np.where(affine, row_bytes, itemsize).astype(np.float64)
    strip = np.maximum(STRIP // np.maximum(row_bytes, 1), 1)
    kinds: list[IntArray] = []
    for dim in range(fields.source_ndim):
        jumping = np.abs(step[:, dim]) > chunk[:, dim]
        kind = np.where(jumping, EACH, CHUNKED)
        run = np.where(dim < cut, EACH, np.where(dim == cut, RUN, STILL))
        kind = np.where(affine, run, kind)
        decoded *= np.where(affine, 1, chunk[:, dim])
        kinds.append(np.where(missing | (step[:, dim] == 0), STILL, kind))
    decoded[missing] = 0
    lines: list[tuple[IntArray, ...]] = []
    for axis in range(fields.ndim):
        kind = np.full(len(matrix), STILL)
        first, by, edge = np.zeros_like(kind), np.zeros_like(kind), np.ones_like(kind)
        for dim in range(fields.source_ndim):
            mine = axes[:, dim] == axis
            kind = np.where(mine, kinds[dim], kind)
            first = np.where(mine, matrix[:, fields.first.start + dim], first)
            by = np.where(mine, step[:, dim], by)
            edge = np.where(mine, np.where(affine, strip, chunk[:, dim]), edge)
        start = matrix[:, fields.start.start + axis]
        length = matrix[:, fields.shape.start + axis]
        lines.append((start, length, kind, first, by, edge))
    held = np.maximum(decoded, np.where(affine | missing, 0, _longest(matrix, pages)))
    return lines, decoded, held


def _longest(matrix: IntArray, pages: Sequence[References]) -> FloatArray:
    """The most bytes that any chunk of each row's source array is stored in."""
    longest = np.zeros(len(matrix))
    for number, page in enumerate(pages):
        lengths = np.asarray(page.lengths)  # those of a saved store are no array
        rows = np.flatnonzero((matrix[:, PAGE] == number) & (matrix[:, COUNT] > 0))
        if not len(rows) or not len(lengths):
            continue
        if lengths.strides == (0,):
            longest[rows] = float(lengths[0])
            continue
        begin, inverse = np.unique(matrix[rows, REF], return_inverse=True)
        count = np.zeros(len(begin), np.int64)
        np.maximum.at(count, inverse, matrix[rows, COUNT])
        end = np.minimum(begin + count, len(lengths))
        bounds = np.stack([np.minimum(begin, len(lengths)), end], axis=1).reshape(-1)
        most = np.maximum.reduceat(np.append(lengths, 0), bounds)[::2]  # the others lie between
        longest[rows] = most[inverse]
    return longest


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Runs of cells along a dimension that hold the same of a segment, sorted by segment.

    Parameters
    ----------
    first, count
        Where each segment's spans begin, and how many there are.
    low, high
        First cell, and the one after the last.
    pieces, elements
        What each of the cells holds.
    """

    first: IntArray
    count: IntArray
    low: IntArray
    high: IntArray
    pieces: IntArray
    elements: IntArray

    @classmethod
    def of(cls, line: Line, edge: int, *, exact: bool) -> Spans:
        """The first cell, the cells between, and the last, as far as there are any."""
        low, cells = line.start // edge, line.cells(edge)
        inner = np.maximum(cells - 2, 0)
        unlike = (line.kind == CHUNKED) & (line.step * edge % line.chunk != 0) & (inner > 1)
        between = np.where(unlike & exact, inner, np.minimum(inner, 1))
        count = between + np.minimum(cells, 2)
        first = np.cumsum(count) - count
        row = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(row)) - first[row]
        is_last = (number == count[row] - 1) & (number > 0)
        begin = low[row] + np.where(is_last, cells[row] - 1, number)
        grouped = (number == 1) & ~is_last & (between[row] < inner[row])
        end = begin + np.where(grouped, inner[row], 1)
        wide = line.take(row)
        offset = np.maximum(begin * edge - wide.start, 0)
        length = np.minimum((begin + 1) * edge - wide.start, wide.length) - offset
        pieces, elements = wide.held(offset, length)
        loose = grouped & unlike[row]
        bound, most = wide.peak(edge)
        pieces, elements = np.where(loose, bound, pieces), np.where(loose, most, elements)
        return cls(first, count, begin, end, pieces, elements)


def _corners(spans: Sequence[Spans]) -> list[IntArray]:
    """Cells where spans begin or end; fewer of them where the grid of all would be too large."""
    corners = [np.unique(np.concatenate([span.low, span.high])) for span in spans]
    while prod(len(edges) for edges in corners) > MAX_CORNERS:
        axis = max(range(len(corners)), key=lambda axis: len(corners[axis]))
        edges = corners[axis]
        if len(edges) <= 2:
            break  # no coarser than one box for all
        corners[axis] = np.append(edges[:-1:2], edges[-1:])
    return corners


def _boxes(
    spans: Sequence[Spans],
    corners: Sequence[IntArray],
    shape: Sequence[int],
    rows: IntArray,
    nbytes: FloatArray,
) -> Iterator[tuple[IntArray, int, FloatArray, FloatArray]]:
    """Corners of the boxes of cells of some segments: place, sign, parts and bytes."""
    parts, held = np.ones(len(rows)), nbytes[rows]
    places: list[tuple[IntArray, IntArray]] = []
    for span, edges in zip(spans, corners, strict=True):
        count = span.count[rows]
        owner = np.repeat(np.arange(len(rows)), count)
        number = span.first[rows][owner] + np.arange(len(owner))
        number -= (np.cumsum(count) - count)[owner]
        rows, parts, held = rows[owner], parts[owner], held[owner]
        places = [(low[owner], high[owner]) for low, high in places]
        low = np.searchsorted(edges, span.low[number], "right") - 1
        high = np.searchsorted(edges, span.high[number], "left")
        places.append((low, high))
        parts = parts * span.pieces[number]
        held = held * span.elements[number]
    for corner in range(1 << len(spans)):
        flat = np.zeros(len(rows), np.int64)
        sign = 1
        for axis, (low, high) in enumerate(places):
            far = corner >> axis & 1
            flat = flat * shape[axis] + (high if far else low)
            sign = -sign if far else sign
        yield flat, sign, parts, held
