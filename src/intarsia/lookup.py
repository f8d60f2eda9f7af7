"""Which chunks do segments touch, and where does each element go? Answered in columns.

Question: given the boxes of a virtual array, list every source chunk that a box's window meets,
with the reference to its bytes, the part of it that is wanted and the place of that part in the
whole. Algorithm: per source dimension, the window ``first + step * i`` meets a run of chunks (or,
where the step is wider than a chunk, one chunk per index); the chunks of a box are the product of
those runs, enumerated by mixed-radix arithmetic over all boxes at once. Limits: the answer has one
row per touched chunk, so callers with very many ask for them piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.references import ABSENT, AFFINE, DENSE, MISSING, SPARSE, References
from intarsia.segments import CASE, COUNT, FORM, PAGE, REF, ROW, SOURCE, Block, Fields

type IntArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Touches:
    """Touched chunks, one row each.

    Parameters
    ----------
    segment
        Row of the block.
    case, row
        Encoding and parameter row.
    source, page, state
        Where the bytes are: a row of the source table, or inline bytes of a page; see
        `references.STORED`, `INLINE`, `ABSENT`.
    offset, length, mask
        The reference.
    elements
        Elements that the chunk's bytes decode to.
    chunk
        Raveled index of the chunk in its source array's grid.
    begin
        Index, in the decoded chunk, of the first wanted element.
    strides
        Shape (rows, ndim): elements of the decoded chunk per index of the whole.
    start, count
        Shape (rows, ndim): box of the whole that the wanted elements fill.
    """

    segment: IntArray
    case: IntArray
    row: IntArray
    source: IntArray
    page: IntArray
    state: IntArray
    offset: IntArray
    length: IntArray
    mask: IntArray
    elements: IntArray
    chunk: IntArray
    begin: IntArray
    strides: IntArray
    start: IntArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.case)


def touch_counts(block: Block) -> IntArray:
    """How many chunks each segment of the block touches, without listing them."""
    matrix, fields = block.matrix(), block.fields
    counts = np.ones(len(matrix), np.int64)
    for dim in range(fields.source_ndim):
        counts *= _runs(matrix, fields, dim)[0]
    return np.where(matrix[:, FORM] == MISSING, 1, counts)


def touches(block: Block, pages: Sequence[References], itemsizes: IntArray) -> Touches:
    """List the chunks that the segments of a block touch.

    Parameters
    ----------
    block
        The segments.
    pages
        Tables of references the segments point into.
    itemsizes
        Bytes per stored element, for each case.
    """
    matrix, fields = block.matrix(), block.fields
    runs = [_runs(matrix, fields, dim) for dim in range(fields.source_ndim)]
    missing = matrix[:, FORM] == MISSING
    counts = np.ones(len(matrix), np.int64)
    for pieces, *_ in runs:
        counts *= pieces
    counts[missing] = 1
    total = int(counts.sum())
    segment = np.repeat(np.arange(len(matrix)), counts)
    digit = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)

    start = matrix[segment, fields.start]
    count = matrix[segment, fields.shape]
    strides = np.zeros((total, fields.ndim), np.int64)
    begin = np.zeros(total, np.int64)
    chunk = np.zeros(total, np.int64)
    whole = np.ones(total, np.int64)  # elements of an unclipped chunk
    clipped = np.ones(total, np.int64)  # elements of the chunk that lie in the array
    before = np.zeros(total, np.int64)  # elements of the array before the chunk, in C order
    grid = np.ones(total, np.int64)
    inner = np.ones(total, np.int64)
    absent = missing[segment]
    for dim in reversed(range(fields.source_ndim)):
        pieces, low_chunk, direction = runs[dim]
        pieces = np.where(absent, 1, pieces[segment])
        number = digit % pieces
        digit //= pieces
        first = matrix[segment, fields.first.start + dim]
        step = matrix[segment, fields.step.start + dim]
        size = matrix[segment, fields.size.start + dim]
        edge = matrix[segment, fields.chunk.start + dim]
        axis = matrix[segment, fields.axis.start + dim]
        length = _length(matrix, fields, dim)[segment]
        run = low_chunk[segment] + direction[segment] * number
        jumping = np.abs(step) > edge
        index = np.where(jumping, (first + step * number) // edge, run)
        low, high = _inside(first, step, length, index * edge, edge)
        low = np.where(jumping, number, low)
        high = np.where(jumping, number + 1, high)
        local = first + step * low - index * edge
        begin += local * whole
        mapped = (axis >= 0) & ~absent
        rows = np.flatnonzero(mapped)
        columns = axis[rows]
        start[rows, columns] += low[rows]
        count[rows, columns] = (high - low)[rows]
        strides[rows, columns] = (step * whole)[rows]
        chunk += index * grid
        before += index * edge * inner
        clipped *= np.minimum(edge, size - index * edge)
        whole *= edge
        grid *= -(-size // edge)
        inner *= size
    references = _resolve(matrix, segment, chunk, before, clipped, pages, itemsizes)
    state, offset, length, mask = references
    gone = state == ABSENT
    begin[gone] = 0
    strides[gone] = 0
    affine = matrix[segment, FORM] == AFFINE
    return Touches(
        segment,
        matrix[segment, CASE],
        matrix[segment, ROW],
        matrix[segment, SOURCE],
        matrix[segment, PAGE],
        state,
        offset,
        length,
        mask,
        np.where(affine, clipped, whole),
        chunk,
        begin,
        strides,
        start,
        count,
    )


def _length(matrix: IntArray, fields: Fields, dim: int) -> IntArray:
    """Length of each segment's window along a source dimension."""
    axis = matrix[:, fields.axis.start + dim]
    shape = matrix[:, fields.shape]
    if fields.ndim == 0:
        return np.ones(len(matrix), np.int64)
    return np.where(axis >= 0, shape[np.arange(len(matrix)), axis], 1)


def _runs(matrix: IntArray, fields: Fields, dim: int) -> tuple[IntArray, IntArray, IntArray]:
    """Number of chunks met along a source dimension, the first of them, and the direction."""
    first = matrix[:, fields.first.start + dim]
    step = matrix[:, fields.step.start + dim]
    edge = matrix[:, fields.chunk.start + dim]
    length = _length(matrix, fields, dim)
    begin = first // edge
    end = (first + step * (length - 1)) // edge
    pieces = np.where(np.abs(step) > edge, length, np.abs(end - begin) + 1)
    return pieces, begin, np.where(step < 0, -1, 1)


def _inside(
    first: IntArray, step: IntArray, length: IntArray, low: IntArray, edge: IntArray
) -> tuple[IntArray, IntArray]:
    """Range of ``i`` in ``[0, length)`` for which ``low <= first + step * i < low + edge``."""
    forward = step > 0
    width = np.where(step == 0, 1, np.abs(step))
    near = np.where(forward, low - first, first - low - edge + 1)
    far = np.where(forward, low + edge - first, first - low + 1)
    begin = np.maximum(-(-near // width), 0)
    end = np.minimum(-(-far // width), length)
    still = step == 0
    return np.where(still, 0, begin), np.where(still, length, end)


def _resolve(
    matrix: IntArray,
    segment: IntArray,
    chunk: IntArray,
    before: IntArray,
    clipped: IntArray,
    pages: Sequence[References],
    itemsizes: IntArray,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """State, offset, length and filter mask of each touched chunk."""
    total = len(segment)
    state = np.full(total, ABSENT, np.uint8)
    offset = np.zeros(total, np.int64)
    length = np.zeros(total, np.int64)
    mask = np.zeros(total, np.int64)
    form = matrix[segment, FORM]
    page = matrix[segment, PAGE]
    base = matrix[segment, REF]
    for number, table in enumerate(pages):
        mine = (page == number) & (form != MISSING)
        if not mine.any():
            continue
        row = base + np.where(form == DENSE, chunk, 0)
        sparse = np.flatnonzero(mine & (form == SPARSE))
        if len(sparse):
            found = _find(matrix, segment[sparse], chunk[sparse], table)
            row[sparse] = found
            mine[sparse[found < 0]] = False
        rows = row[mine]
        state[mine] = 0 if table.states is None else table.states[rows]
        offset[mine] = table.offsets[rows]
        length[mine] = table.lengths[rows]
        if table.masks is not None:
            mask[mine] = table.masks[rows]
    strip = form == AFFINE
    if strip.any():
        itemsize = itemsizes[matrix[segment[strip], CASE]]
        skip = before[strip] * itemsize
        offset[strip] += skip
        # a run shorter than its array gives short strips, which the reader refuses
        length[strip] = np.clip(length[strip] - skip, 0, clipped[strip] * itemsize)
    return state, offset, length, mask


def _find(matrix: IntArray, segment: IntArray, chunk: IntArray, table: References) -> IntArray:
    """Row of each chunk in its segment's sorted part of a sparse table, or -1."""
    found = np.full(len(segment), -1, np.int64)
    chunks = table.chunks
    if chunks is None:  # no chunk of any sparse segment here was written
        return found
    for number in np.unique(segment):
        mine = segment == number
        begin, count = matrix[number, REF], matrix[number, COUNT]
        part = chunks[begin : begin + count]
        place = np.searchsorted(part, chunk[mine])
        hit = place < count
        hit[hit] = part[place[hit]] == chunk[mine][hit]
        found[mine] = np.where(hit, begin + place, -1)
    return found
