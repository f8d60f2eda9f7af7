"""What segments meet along one dimension: chunks, runs of bytes, or the same everywhere.

Question: a line of cells of equal length is laid over the windows of many segments; how many (cell,
chunk) pairs are there, and how many chunks does a cell hold at most? Algorithm: the first is a
difference of sums of rounded-down fractions, which Euclid's algorithm gives in logarithmic time.
Limits: the second is an upper bound, and the exact number where all cells lie alike.

A run of bytes (a contiguous array) can be cut anywhere: along its cut dimension and before, each
cell takes what it needs, and after that always whole rows (see `run_dimension`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.segments import Fields

type IntArray = npt.NDArray[Any]

# What a segment meets along a dimension of the whole.
STILL = 0
"""The same in every cell."""
CHUNKED = 1
"""Chunks, of which a cell may meet several, and several cells one."""
EACH = 2
"""Another one at each index."""
RUN = 3
"""One run of bytes, cut to the cell."""

STRIP = 1 << 18
"""Indices of a run that have no more bytes are not cut further."""

FAR = 1 << 16
"""Indices of a run that lie further apart (in bytes) are read one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """What the segments meet along one dimension of the whole; one row per segment.

    Parameters
    ----------
    start, length
        Where the segment lies.
    kind
        ``STILL``, ``CHUNKED``, ``EACH`` or ``RUN``.
    first, step, chunk
        The window into the source dimension, and the length of its chunks (or strips).
    """

    start: IntArray
    length: IntArray
    kind: IntArray
    first: IntArray
    step: IntArray
    chunk: IntArray

    def take(self, rows: IntArray) -> Line:
        """Some of the rows."""
        return Line(
            self.start[rows],
            self.length[rows],
            self.kind[rows],
            self.first[rows],
            self.step[rows],
            self.chunk[rows],
        )

    def cells(self, edge: int) -> IntArray:
        """Number of cells met."""
        return (self.start + self.length - 1) // edge - self.start // edge + 1

    def held(self, low: IntArray, length: IntArray) -> tuple[IntArray, IntArray]:
        """Chunks met by `length` indices from `low` on, and the elements that count for each."""
        begin = (self.first + self.step * low) // self.chunk
        end = (self.first + self.step * (low + length - 1)) // self.chunk
        return self._held(np.abs(end - begin) + 1, length)

    def _held(self, chunked: IntArray, length: IntArray) -> tuple[IntArray, IntArray]:
        kind = self.kind
        each = kind == EACH
        pieces = np.where(each, length, np.where(kind == CHUNKED, chunked, 1))
        run = np.abs(self.step) * (length - 1) + 1
        return pieces, np.where(kind == RUN, run, pieces)

    def peak(self, edge: int) -> tuple[IntArray, IntArray]:
        """At least as many (chunks, elements) as any one cell of length `edge` holds."""
        length = np.minimum(self.length, edge)
        reach = np.abs(self.step) * (length - 1)
        most = (reach + self.chunk - 1) // self.chunk + 1
        # where all cells lie alike, an inner one says it, be there one or not
        inner = edge - self.start % edge
        begin = (self.first + self.step * inner) // self.chunk
        end = (self.first + self.step * (inner + edge - 1)) // self.chunk
        alike = self.step * edge % self.chunk == 0
        most = np.where(alike, np.abs(end - begin) + 1, most)
        begin = self.first // self.chunk
        end = (self.first + self.step * (self.length - 1)) // self.chunk
        return self._held(np.minimum(most, np.abs(end - begin) + 1), length)

    def total(self, edge: int) -> tuple[IntArray, IntArray]:
        """Sums of (chunks, elements) over all cells of length `edge`."""
        cells = self.cells(edge)
        pieces = np.where(self.kind == EACH, self.length, cells)
        elements = pieces.copy()
        run = self.kind == RUN
        elements[run] = (np.abs(self.step) * (self.length - cells) + cells)[run]
        rows = np.flatnonzero(self.kind == CHUNKED)
        if len(rows):
            few = self.take(rows)
            pairs = few.held(np.zeros(len(rows), np.int64), few.length)[0]
            pairs += few._divided(edge, cells[rows] - 1)
            pieces[rows] = elements[rows] = pairs
        return pieces, elements

    def _divided(self, edge: int, borders: IntArray) -> IntArray:
        """How many borders of cells lie inside chunks."""
        at = self.first + self.step * (edge - self.start % edge)
        by = np.broadcast_to(self.step * edge, at.shape)
        back = self.step < 0
        low = np.where(back, at + by * (borders - 1), at)
        before = low - self.step
        none = borders < 1  # what is computed for them may be out of any range
        low, before = np.where(none, 0, low), np.where(none, 0, before)
        shift = np.abs(by) % self.chunk  # what is left out is in both sums
        after_sum = floor_sum(borders, self.chunk, shift, low)
        before_sum = floor_sum(borders, self.chunk, shift, before)
        return borders - np.abs(after_sum - before_sum)


def floor_sum(count: IntArray, divisor: IntArray, step: IntArray, first: IntArray) -> IntArray:
    """Sum of ``(first + step * i) // divisor`` over ``i < count``, for many at once.

    All arguments are non-negative, `divisor` positive. As Euclid's algorithm, it takes as many
    rounds as the numbers have digits.
    """
    result = np.zeros(count.shape, np.int64)
    where = np.arange(len(count))
    while True:
        pairs = np.where(count % 2 == 0, (count // 2) * (count - 1), ((count - 1) // 2) * count)
        whole = pairs * (step // divisor) + count * (first // divisor)
        result[where] += whole
        step, first = step % divisor, first % divisor
        highest = step * count + first
        more = highest >= divisor
        if not more.any():
            return result
        where, highest = where[more], highest[more]
        old, step = divisor[more], step[more]
        count, first = highest // old, highest % old
        divisor, step = step, old


def run_dimension(
    matrix: IntArray, fields: Fields, itemsizes: IntArray
) -> tuple[IntArray, IntArray]:
    """Source dimension along which each row's run of bytes is cut, and bytes per index of it.

    The source dimensions after it are read whole, those before it index by index. It is the first
    one whose indices have no more than `STRIP` bytes, unless the window takes indices of it that
    lie far apart: then each is read by itself, and the answer is the dimension after it (there may
    be none).

    Parameters
    ----------
    matrix
        Rows of a block.
    fields
        Which column is what.
    itemsizes
        Bytes per stored element of each row.
    """
    count = len(matrix)
    size = matrix[:, fields.size]
    cut = np.full(count, fields.source_ndim - 1, np.int64)
    inner = itemsizes.astype(np.int64)
    for dim in reversed(range(1, fields.source_ndim)):
        down = (cut == dim) & (size[:, dim] <= STRIP // inner)
        cut[down] = dim - 1
        inner[down] *= size[down, dim]
    if fields.source_ndim:
        step = np.abs(matrix[np.arange(count), fields.step.start + cut])
        apart = (step > 1) & (step > FAR // inner)
        cut[apart] += 1
        after = np.minimum(cut, fields.source_ndim - 1)
        inner[apart] //= np.where(cut < fields.source_ndim, size[np.arange(count), after], 1)[apart]
    return cut, inner
