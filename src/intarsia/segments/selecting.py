"""Cutting boxes down to what is selected: windows, lists of indices, and points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.segments.blocks import HEAD, Block, Fields

type IntArray = npt.NDArray[Any]


def cut(
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


def pieces(block: Block, axis: int, runs: IntArray) -> Block:
    """Put runs of indices along an axis one after the other.

    Parameters
    ----------
    block
        The boxes.
    axis
        Dimension of the whole.
    runs
        Matrix with one row (start, step, count) per run, of any step; 0 repeats an index.
    """
    fields = block.fields
    runs = _shortened(runs, np.sort(block.column(fields.start.start + axis).astype(np.int64)))
    begin, step, count = runs[:, 0], runs[:, 1], runs[:, 2]
    place = np.cumsum(count) - count
    end = begin + step * (count - 1)
    row, run = meeting(
        block.column(fields.start.start + axis).astype(np.int64),
        block.column(fields.shape.start + axis).astype(np.int64),
        np.minimum(begin, end),
        np.maximum(begin, end),
    )
    matrix = block.matrix(row)
    start, length = matrix[:, fields.start.start + axis], matrix[:, fields.shape.start + axis]
    begin, step, count = begin[run], step[run], count[run]
    width = np.where(step == 0, 1, np.abs(step))
    near = np.where(step > 0, start - begin, begin - start - length + 1)
    far = np.where(step > 0, start + length - begin, begin - start + 1)
    still = step == 0
    low = np.where(still, 0, np.maximum(-(-near // width), 0))
    high = np.where(still, count, np.minimum(-(-far // width), count))
    inside = high > low  # a step may jump over a box
    matrix, low, high = matrix[inside], low[inside], high[inside]
    begin, step, run = begin[inside], step[inside], run[inside]
    along = matrix[:, fields.axis] == axis
    moved = begin + step * low - matrix[:, fields.start.start + axis]
    firsts, steps = matrix[:, fields.first], matrix[:, fields.step]
    firsts += np.where(along, steps * moved[:, None], 0)
    steps *= np.where(along, step[:, None], 1)
    matrix[:, fields.axis][along & (step == 0)[:, None]] = -1
    matrix[:, fields.start.start + axis] = place[run] + low
    matrix[:, fields.shape.start + axis] = high - low
    return Block.of(fields, matrix)


def _shortened(runs: IntArray, starts: IntArray) -> IntArray:
    """Runs, those that jump over more boxes than they have indices taken apart into indices.

    Parameters
    ----------
    runs
        Matrix with one row (start, step, count) per run.
    starts
        Where boxes begin, sorted.
    """
    begin, step, count = runs[:, 0], runs[:, 1], runs[:, 2]
    end = begin + step * (count - 1)
    met = np.searchsorted(starts, np.maximum(begin, end), "right") - np.searchsorted(
        starts, np.minimum(begin, end), "right"
    )
    apart = (met >= count) & (step != 0)
    if not apart.any():
        return runs
    row, number = _spread(np.zeros(len(runs), np.int64), np.where(apart, count, 1))
    short = runs[row]
    single = apart[row]
    short[single, 0] += short[single, 1] * number[single]
    short[single, 1:] = 1
    return short


def pick(block: Block, points: dict[int, IntArray], shape: tuple[int, ...], place: int) -> Block:
    """Take points: one index along each of some dimensions, for each element of new dimensions.

    Parameters
    ----------
    block
        The boxes.
    points
        For each dimension that is indexed, the raveled indices.
    shape
        Shape of the new dimensions.
    place
        How many of the other dimensions come before the new ones.
    """
    fields = block.fields
    axes = sorted(points)
    spread = [len(np.unique(block.column(fields.start.start + axis))) for axis in axes]
    driver = axes[int(np.argmax(spread))]
    row, point = meeting(
        block.column(fields.start.start + driver).astype(np.int64),
        block.column(fields.shape.start + driver).astype(np.int64),
        points[driver],
        points[driver],
    )
    for axis in axes:
        if axis != driver:
            offset = points[axis][point] - block.column(fields.start.start + axis)[row]
            inside = (offset >= 0) & (offset < block.column(fields.shape.start + axis)[row])
            row, point = row[inside], point[inside]
    matrix = block.matrix(row)
    firsts, steps, along = matrix[:, fields.first], matrix[:, fields.step], matrix[:, fields.axis]
    for axis in axes:
        moved = points[axis][point] - matrix[:, fields.start.start + axis]
        mine = along == axis
        firsts += np.where(mine, steps * moved[:, None], 0)
        steps[mine] = 0
        along[mine] = -1
    kept = [axis for axis in range(fields.ndim) if axis not in points]
    number = np.full(fields.ndim + 1, -1, np.int64)
    number[kept] = [axis + (len(shape) if axis >= place else 0) for axis in range(len(kept))]
    along[...] = number[along]
    where = np.stack(np.unravel_index(point, shape), axis=1)
    starts = matrix[:, [fields.start.start + axis for axis in kept]]
    shapes = matrix[:, [fields.shape.start + axis for axis in kept]]
    parts = [
        matrix[:, :HEAD],
        *(starts[:, :place], where, starts[:, place:]),
        *(shapes[:, :place], np.ones_like(where), shapes[:, place:]),
        matrix[:, fields.axis.start :],
    ]
    new = Fields(len(kept) + len(shape), fields.source_ndim)
    return Block.of(new, np.concatenate(parts, axis=1))


def meeting(
    start: IntArray, length: IntArray, low: IntArray, high: IntArray
) -> tuple[IntArray, IntArray]:
    """All pairs of an interval ``[start, start + length)`` and a range ``[low, high]`` that meet.

    They meet where the range begins in the interval, or the interval begins within the range (but
    not where the range begins): both are runs of a sorted list.

    Returns
    -------
    interval, range
        Numbers of each pair.
    """
    order = np.argsort(low, kind="stable")
    lows = low[order]
    interval, position = _spread(
        np.searchsorted(lows, start), np.searchsorted(lows, start + length)
    )
    ranges = order[position]
    by_start = np.argsort(start, kind="stable")
    starts = start[by_start]
    others, position = _spread(
        np.searchsorted(starts, low, "right"), np.searchsorted(starts, high, "right")
    )
    return (
        np.concatenate([interval, by_start[position]]),
        np.concatenate([ranges, others]),
    )


def _spread(begin: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Owner and position of every number in many ranges."""
    counts = np.maximum(end - begin, 0)
    owner = np.repeat(np.arange(len(counts)), counts)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts - begin, counts)
    return owner, position
