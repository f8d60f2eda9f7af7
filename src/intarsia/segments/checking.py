"""Are these segments sound? Asked of those that were not made here, before anything relies on it.

Everything that the lookup takes for granted is checked in columns: numbers within their tables,
windows within their sources, chunk grids that match their references, and boxes that cover the
whole exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Case
from intarsia.references import AFFINE, DENSE, MISSING, SPARSE, STORED, References
from intarsia.segments.blocks import CASE, COUNT, FORM, PAGE, REF, ROW, SOURCE, Block
from intarsia.segments.whole import Segments

type IntArray = npt.NDArray[Any]

LIMIT = 1 << 61
"""Offsets, sizes and volumes stay below, so that sums and differences fit into 64 bits."""

MAX_PAINT = 1 << 26
"""Boxes that no cut separates are painted on a grid of at most so many cells."""


def check(segments: Segments) -> None:
    """Refuse segments that are not what segments have to be.

    Raises
    ------
    ValueError
        Saying what is wrong with the first of them.
    """
    if any(size < 0 for size in segments.shape) or prod(segments.shape) >= LIMIT:
        raise ValueError(f"an array of shape {segments.shape}")
    for block in segments.blocks:
        _check_block(segments, block)
    starts = [block.matrix()[:, block.fields.start] for block in segments.blocks]
    shapes = [block.matrix()[:, block.fields.shape] for block in segments.blocks]
    empty = np.zeros((0, segments.ndim), np.int64)
    check_tiling(np.concatenate([empty, *starts]), np.concatenate([empty, *shapes]), segments.shape)


def _check_block(segments: Segments, block: Block) -> None:
    fields, matrix = block.fields, block.matrix()
    if fields.ndim != segments.ndim:
        raise ValueError(f"boxes of {fields.ndim} dimensions in an array of {segments.ndim}")
    columns = list(matrix.T)
    start, shape = matrix[:, fields.start], matrix[:, fields.shape]
    whole = np.array(segments.shape, np.int64)
    _within("case", columns[CASE], 0, len(segments.cases) - 1)
    rows = np.array([len(case.rows) for case in segments.cases])
    _within("parameter row", columns[ROW], 0, rows[columns[CASE]] - 1)
    _within("source", columns[SOURCE], -1, len(segments.sources) - 1)
    _within("form", columns[FORM], DENSE, MISSING)
    _within("box's length", shape, 1, whole)
    _within("box's start", start, 0, whole - shape)
    missing = columns[FORM] == MISSING
    _within("table", columns[PAGE], 0, max(len(segments.pages) - 1, 0))
    held = np.array([len(page) for page in segments.pages] or [0])[columns[PAGE]]
    _within("number of references", columns[COUNT], 0, held)
    _within("first reference", columns[REF], 0, held - columns[COUNT])
    axis, first, step = (matrix[:, part] for part in (fields.axis, fields.first, fields.step))
    size, chunk = matrix[:, fields.size], matrix[:, fields.chunk]
    _within("axis", axis, -1, segments.ndim - 1)
    _within("size of a source", size, 1, LIMIT)
    _within("chunk of a source", chunk, 1, LIMIT)
    _within("step", step, -LIMIT, LIMIT)
    _within("position in a source", first, 0, size - 1)
    for dim in range(fields.source_ndim):
        for other in range(dim):
            if ((axis[:, dim] == axis[:, other]) & (axis[:, dim] >= 0) & ~missing).any():
                raise ValueError("two dimensions of a source along one of the array")
        along = axis[:, dim]
        length = np.where(along >= 0, _picked(shape, along), 1)
        # in floating point: a step near the limit, many times, would wrap round
        last = first[:, dim] + step[:, dim].astype(float) * (length - 1)
        if ((last < -0.5) | (last > size[:, dim] - 0.5)).any():
            raise ValueError("a window reaches past the end of its source")
    grid = -(-size // chunk)
    if fields.source_ndim:
        volumes = np.maximum(chunk.astype(float).prod(axis=1), size.astype(float).prod(axis=1))
        if (volumes >= LIMIT).any():
            raise ValueError("a source of 2**61 elements or more")
    counted = grid.prod(axis=1, dtype=np.int64)
    wrong = (columns[FORM] == DENSE) & (columns[COUNT] != counted)
    wrong |= (columns[FORM] == AFFINE) & (columns[COUNT] != 1)
    if wrong.any():
        raise ValueError("a segment has not as many references as chunks")
    affine = columns[FORM] == AFFINE
    if affine.any() and _no_strips(size[affine], chunk[affine]).any():
        raise ValueError("a contiguous segment whose chunks are not contiguous")
    listed = (columns[FORM] == SPARSE) & (columns[COUNT] > 0)
    if listed.any() and any(page.chunks is None for page in segments.pages):
        raise ValueError("a sparse segment without chunk numbers")
    nowhere = np.flatnonzero((columns[SOURCE] < 0) & ~missing & (columns[COUNT] > 0))
    runs: list[list[int]] = matrix[nowhere][:, [PAGE, REF, COUNT]].tolist()
    for page, begin, count in runs:
        if _is_stored(segments.pages[page], begin, count):
            raise ValueError("a reference to bytes of no source")


def _is_stored(page: References, first: int, count: int) -> bool:
    """Whether a run of references has some to bytes of a source."""
    return page.states is None or bool((page.states[first : first + count] == STORED).any())


def _no_strips(size: IntArray, chunk: IntArray) -> npt.NDArray[np.bool_]:
    """Where chunks are not runs of the array's elements in C order.

    A run cuts one dimension at most, takes one index of those before and all of those after it.
    """
    wrong = (chunk > size).any(axis=1)
    cut = np.zeros(len(size), bool)
    for dim in reversed(range(size.shape[1])):
        wrong |= cut & (chunk[:, dim] != 1)
        cut |= chunk[:, dim] < size[:, dim]
    return wrong


def _picked(shape: IntArray, axis: IntArray) -> IntArray:
    if shape.shape[1] == 0:
        return np.ones(len(shape), np.int64)
    return shape[np.arange(len(shape)), np.maximum(axis, 0)]


def _within(what: str, values: IntArray, low: Any, high: Any) -> None:
    wrong = (values < low) | (values > high)
    if wrong.any():
        raise ValueError(f"{what}: {int(values[wrong][0])} is out of bounds")


def check_cases(cases: Sequence[Case]) -> np.dtype[Any]:
    """The one type that all cases decode to.

    Raises
    ------
    ValueError
        If there is none.
    """
    dtypes = {case.encoding.dtype for case in cases}
    if len(dtypes) != 1:
        raise ValueError(f"cases that decode to {len(dtypes)} types")
    return dtypes.pop()


def check_tiling(starts: IntArray, shapes: IntArray, whole: Sequence[int]) -> None:
    """Refuse boxes that do not cover an array exactly once.

    Boxes of the right total volume cover it if no two overlap. Algorithm: groups of boxes are cut
    apart along one dimension after the other, wherever a plane meets no box; what no plane cuts
    (pinwheels) is painted on the grid of its own edges.

    Parameters
    ----------
    starts, shapes
        Shape (boxes, ndim); inside the array, lengths at least 1.
    whole
        Shape of the array.

    Raises
    ------
    ValueError
        If some overlap, or some elements are not covered.
    """
    volumes = shapes.prod(axis=1, dtype=np.int64)
    total = int(volumes.sum()) if volumes.astype(float).sum() < LIMIT else -1
    if total != prod(whole):
        raise ValueError("the boxes do not cover the array exactly once")
    ends = starts + shapes
    group = np.zeros(len(starts), np.int64)
    order = np.arange(len(starts))
    while True:
        before = int(group.max(initial=0))
        for axis in range(starts.shape[1]):
            order, group = _split(starts[:, axis], ends[:, axis], order, group)
        if int(group.max(initial=0)) == before:
            break
    sizes = np.bincount(group)
    for number in np.flatnonzero(sizes > 1).tolist():
        members = order[group == number]
        _paint(starts[members], ends[members])


def _split(
    start: IntArray, end: IntArray, order: IntArray, group: IntArray
) -> tuple[IntArray, IntArray]:
    """Cut groups where a plane across the dimension meets no box; `order` lists boxes by group."""
    if not len(order):
        return order, group
    sorting = np.lexsort((start[order], group))
    order, group = order[sorting], group[sorting]
    # the furthest end so far within the group: group numbers lift each above those before
    span = int(end.max()) + 1
    if span * (int(group[-1]) + 1) < 1 << 62:
        lifted = np.maximum.accumulate(end[order] + group * span)
        furthest = lifted - group * span
    else:
        parts = np.split(end[order], np.flatnonzero(np.diff(group)) + 1)
        furthest = np.concatenate([np.maximum.accumulate(part) for part in parts])
    new = np.ones(len(order), bool)
    new[1:] = (group[1:] != group[:-1]) | (start[order][1:] >= furthest[:-1])
    return order, np.cumsum(new) - 1


def _paint(starts: IntArray, ends: IntArray) -> None:
    """Refuse boxes that overlap, cell by cell of the grid that their edges make."""
    edges = [
        np.unique(np.concatenate([starts[:, axis], ends[:, axis]]))
        for axis in range(starts.shape[1])
    ]
    grid = [len(edge) - 1 for edge in edges]
    if prod(grid) > MAX_PAINT:
        raise ValueError("boxes too entangled to be checked")
    painted = np.zeros(grid, bool)
    lows = [np.searchsorted(edge, starts[:, axis]) for axis, edge in enumerate(edges)]
    highs = [np.searchsorted(edge, ends[:, axis]) for axis, edge in enumerate(edges)]
    for low, high in zip(np.stack(lows, 1).tolist(), np.stack(highs, 1).tolist(), strict=True):
        part = painted[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
        if part.any():
            raise ValueError("two boxes overlap")
        part[...] = True
