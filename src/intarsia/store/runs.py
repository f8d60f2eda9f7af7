"""Runs of bytes, cut to what is asked for: the parts that a contiguous array has in a cell.

The engine reads contiguous arrays in strips of a fixed place and length. A cell of a presented grid
would have to carry whole strips, of which it shows a piece; but an uncompressed run can be cut
anywhere. Along its outer dimensions each index is a run of its own, from the first to the last
element that is wanted of it (see `intarsia.store.lines.run_dimension`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.lookup import Touches
from intarsia.references import References
from intarsia.segments import CASE, PAGE, REF, ROW, SOURCE, Fields
from intarsia.store.lines import run_dimension

type IntArray = npt.NDArray[Any]


def run_counts(matrix: IntArray, fields: Fields, itemsizes: IntArray) -> IntArray:
    """How many runs each segment is read in, without listing them.

    Parameters
    ----------
    matrix
        Segments that are runs of bytes, rows of a block.
    fields
        Which column is what.
    itemsizes
        Bytes per stored element, for each case.
    """
    return _indices(matrix, fields, itemsizes).prod(axis=1)


def _indices(matrix: IntArray, fields: Fields, itemsizes: IntArray) -> IntArray:
    """Number of indices that are read one by one, for each source dimension; 1: not so."""
    cut, _ = run_dimension(matrix, fields, itemsizes[matrix[:, CASE]])
    dims = np.arange(fields.source_ndim)
    length = _lengths(matrix, fields)
    return np.where((dims < cut[:, None]) & (matrix[:, fields.step] != 0), length, 1)


def _lengths(matrix: IntArray, fields: Fields) -> IntArray:
    """Lengths of the windows along each source dimension."""
    axes = matrix[:, fields.axis]
    if not fields.ndim:
        return np.ones_like(axes)
    shape = np.take_along_axis(matrix[:, fields.shape], np.maximum(axes, 0), axis=1)
    return np.where(axes >= 0, shape, 1)


def runs(
    matrix: IntArray, fields: Fields, pages: Sequence[References], itemsizes: IntArray
) -> Touches:
    """List the runs that segments are read in, as `intarsia.lookup.touches` lists chunks.

    Parameters
    ----------
    matrix
        Segments that are runs of bytes, rows of a block.
    fields
        Which column is what.
    pages
        Tables of references they point into.
    itemsizes
        Bytes per stored element, for each case.
    """
    indices = _indices(matrix, fields, itemsizes)
    counts = indices.prod(axis=1)
    segment = np.repeat(np.arange(len(matrix)), counts)
    digit = np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts)
    wide = matrix[segment]
    length = _lengths(matrix, fields)[segment]
    start, count = wide[:, fields.start].copy(), wide[:, fields.shape].copy()
    strides = np.zeros_like(start)
    total = len(segment)
    inner = np.ones(total, np.int64)  # elements of the source array per index of the dimension
    low = np.zeros(total, np.int64)  # first and last element of the run, in the source array
    high = np.zeros(total, np.int64)
    wanted = np.zeros(total, np.int64)  # the one that the box begins with
    for dim in reversed(range(fields.source_ndim)):
        first, step = wide[:, fields.first.start + dim], wide[:, fields.step.start + dim]
        axis = wide[:, fields.axis.start + dim]
        pieces = indices[segment, dim]
        number = digit % pieces
        digit //= pieces
        # where `pieces` is 1 and the window longer, all of it belongs to the run
        begin = first + step * number
        end = np.where(pieces > 1, begin, first + step * (length[:, dim] - 1))
        low += np.minimum(begin, end) * inner
        high += np.maximum(begin, end) * inner
        wanted += begin * inner
        rows = np.flatnonzero(axis >= 0)
        single = rows[pieces[rows] > 1]
        start[single, axis[single]] += number[single]
        count[single, axis[single]] = 1
        whole = rows[pieces[rows] == 1]
        strides[whole, axis[whole]] = (step * inner)[whole]
        inner *= wide[:, fields.size.start + dim]
    state, offset, nbytes = _places(wide, pages)
    itemsize = itemsizes[wide[:, CASE]]
    skip = low * itemsize
    elements = high - low + 1
    return Touches(
        segment,
        wide[:, CASE],
        wide[:, ROW],
        wide[:, SOURCE],
        wide[:, PAGE],
        state,
        offset + skip,
        # a run shorter than its array gives short parts, which readers refuse
        np.clip(nbytes - skip, 0, elements * itemsize),
        np.zeros(total, np.int64),
        elements,
        np.zeros(total, np.int64),
        wanted - low,
        strides,
        start,
        count,
    )


def _places(wide: IntArray, pages: Sequence[References]) -> tuple[IntArray, IntArray, IntArray]:
    """State, offset and length of each segment's run."""
    state = np.zeros(len(wide), np.uint8)
    offset, nbytes = np.zeros(len(wide), np.int64), np.zeros(len(wide), np.int64)
    for number, page in enumerate(pages):
        mine = np.flatnonzero(wide[:, PAGE] == number)
        if len(mine):
            rows = wide[mine, REF]
            if page.states is not None:
                state[mine] = page.states[rows]
            offset[mine], nbytes[mine] = page.offsets[rows], page.lengths[rows]
    return state, offset, nbytes
