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

MAX_CHUNK = 1 << 32
"""Bytes that a chunk decodes to at most, before steps; the limit of HDF5, the largest there is."""

MAX_LISTED = 1 << 26
"""Written chunks that a sparse segment lists at most; all of them are looked at for a lookup."""

MAX_INLINE = 1 << 24
"""References of an array to bytes in the store itself."""

MAX_ROUNDS = 32
"""Boxes are cut apart so often along each dimension; those joined from others need a few."""

FEW = 16
"""So many boxes that no cut separates are compared pair by pair."""

_NOT_ONCE = "the boxes do not cover the array exactly once"

MAX_PAINT = 1 << 25
"""Larger groups are painted on grids of at most so many cells in all."""


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
        _check_block(segments, _Columns(block))
    if sum(_Columns(block).volume() for block in segments.blocks) != prod(segments.shape):
        raise ValueError(_NOT_ONCE)  # before there is room for them
    boxes = [_Columns(block).boxes() for block in segments.blocks]
    empty = np.zeros((0, segments.ndim), np.int64)
    check_tiling(
        np.concatenate([empty, *(starts for starts, _ in boxes)]),
        np.concatenate([empty, *(shapes for _, shapes in boxes)]),
        segments.shape,
    )


class _Columns:
    """The columns of a block as 64-bit integers; those of equal numbers have one row."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.fields = block.fields

    def __getitem__(self, number: int) -> IntArray:
        column = self.block.column(number)
        if len(column) > 1 and column.strides == (0,):
            column = column[:1]
        return column.astype(np.int64)

    def of(self, part: slice) -> list[IntArray]:
        """Some columns next to each other."""
        return [self[number] for number in range(part.start, part.stop)]

    def volume(self) -> int:
        """Elements of all boxes, which lie in the array."""
        volumes = _product(self.of(self.fields.shape))
        repeated = len(self.block) // len(volumes)
        if volumes.astype(float).sum() * repeated >= LIMIT:
            return -1
        return int(volumes.sum()) * repeated

    def boxes(self) -> tuple[IntArray, IntArray]:
        """Starts and shapes, a row for each segment."""
        made: list[IntArray] = []
        for part in (self.fields.start, self.fields.shape):
            rows = np.empty((len(self.block), part.stop - part.start), np.int64)
            for dim, column in enumerate(self.of(part)):
                rows[:, dim] = column
            made.append(rows)
        return made[0], made[1]


def _check_block(segments: Segments, columns: _Columns) -> None:
    fields, pages = columns.fields, segments.pages
    if fields.ndim != segments.ndim:
        raise ValueError(f"boxes of {fields.ndim} dimensions in an array of {segments.ndim}")
    case, form, count, first = (columns[number] for number in (CASE, FORM, COUNT, REF))
    _within("case", case, 0, len(segments.cases) - 1)
    rows = np.array([len(case.rows) for case in segments.cases])
    _within("parameter row", columns[ROW], 0, rows[case] - 1)
    _within("source", columns[SOURCE], -1, len(segments.sources) - 1)
    _within("form", form, DENSE, MISSING)
    shape = columns.of(fields.shape)
    for start, length, whole in zip(columns.of(fields.start), shape, segments.shape, strict=True):
        _within("box's length", length, 1, whole)
        _within("box's start", start, 0, whole - length)
    missing = form == MISSING
    page = columns[PAGE]
    _within("table", page, 0, max(len(pages) - 1, 0))
    held = np.array([len(page) for page in pages] or [0])[page]
    _within("number of references", count, 0, held)
    _within("first reference", first, 0, held - count)
    _check_windows(columns, shape, missing)
    size, chunk = columns.of(fields.size), columns.of(fields.chunk)
    itemsizes = np.array([case.encoding.stored.itemsize for case in segments.cases])
    _check_volumes(size, chunk, itemsizes[case])
    counted = _product([-(-n // edge) for n, edge in zip(size, chunk, strict=True)])
    wrong = (form == DENSE) & (count != counted)
    wrong |= (form == AFFINE) & (count != 1)
    if wrong.any():
        raise ValueError("a segment has not as many references as chunks")
    if ((form == AFFINE) & _no_strips(size, chunk)).any():
        raise ValueError("a contiguous segment whose chunks are not contiguous")
    listed = (form == SPARSE) & (count > 0)
    if listed.any():
        unnumbered = np.array([page.chunks is None for page in pages])
        if (unnumbered[page] & listed).any():
            raise ValueError("a sparse segment without chunk numbers")
        _within("number of chunks listed", np.where(listed, count, 0), 0, MAX_LISTED)
    nowhere = (columns[SOURCE] < 0) & ~missing & (count > 0)
    if nowhere.any():
        runs = np.stack(np.broadcast_arrays(page, first, count, nowhere), axis=-1)
        _check_inline(pages, np.unique(runs[runs[:, 3] != 0, :3], axis=0))


def _check_windows(columns: _Columns, shape: list[IntArray], missing: npt.NDArray[Any]) -> None:
    """Windows lie in their sources, each of whose dimensions runs along another of the array."""
    fields = columns.fields
    axes = columns.of(fields.axis)
    geometry = (columns.of(part) for part in (fields.first, fields.step, fields.size, fields.chunk))
    for axis, first, step, size, chunk in zip(axes, *geometry, strict=True):
        _within("axis", axis, -1, fields.ndim - 1)
        _within("size of a source", size, 1, LIMIT)
        _within("chunk of a source", chunk, 1, LIMIT)
        _within("step", step, -LIMIT, LIMIT)
        _within("position in a source", first, 0, size - 1)
        length: IntArray = np.ones(1, np.int64)
        for dim, lengths in enumerate(shape):
            length = np.where(axis == dim, lengths, length)
        # in floating point: a step near the limit, many times, would wrap round
        last = first + step.astype(float) * (length - 1)
        if ((last < -0.5) | (last > size - 0.5)).any():
            raise ValueError("a window reaches past the end of its source")
    for number, axis in enumerate(axes):
        for other in axes[:number]:
            if ((axis == other) & (axis >= 0) & ~missing).any():
                raise ValueError("two dimensions of a source along one of the array")


def _check_volumes(size: list[IntArray], chunk: list[IntArray], itemsize: IntArray) -> None:
    """Sources whose bytes can be counted, and chunks that can be held."""
    with np.errstate(over="ignore"):
        if (_product(size, float) * itemsize >= LIMIT).any():
            raise ValueError("a source of 2**61 bytes or more")
        if (_product(chunk, float) * itemsize > MAX_CHUNK).any():
            raise ValueError("a chunk of more than 4 GiB")


def _product(columns: list[IntArray], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    product: npt.NDArray[Any] = np.ones(1, dtype)
    for column in columns:
        product = product * column
    return product


def _check_inline(pages: Sequence[References], runs: IntArray) -> None:
    """References of segments without a source are to bytes in the table, or to none."""
    if runs[:, 2].astype(float).sum() > MAX_INLINE:
        raise ValueError("too many references to bytes of no source")
    for number, page in enumerate(pages):
        mine = runs[runs[:, 0] == number]
        rows = np.arange(int(mine[:, 2].sum()))
        rows += np.repeat(mine[:, 1] - np.cumsum(mine[:, 2]) + mine[:, 2], mine[:, 2])
        if len(rows) and (page.states is None or (page.states[rows] == STORED).any()):
            raise ValueError("a reference to bytes of no source")


def _no_strips(size: list[IntArray], chunk: list[IntArray]) -> npt.NDArray[np.bool_]:
    """Where chunks are not runs of the array's elements in C order.

    A run cuts one dimension at most, takes one index of those before and all of those after it.
    """
    wrong, cut = np.zeros(1, bool), np.zeros(1, bool)
    for length, edge in zip(reversed(size), reversed(chunk), strict=True):
        wrong = wrong | (edge > length) | cut & (edge != 1)
        cut = cut | (edge < length)
    return wrong


def _within(what: str, values: IntArray, low: Any, high: Any) -> None:
    wrong = (values < low) | (values > high)
    if wrong.any():
        first = int(np.broadcast_to(values, wrong.shape)[wrong][0])
        raise ValueError(f"{what}: {first} is out of bounds")


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
    apart along one dimension after the other, wherever a plane meets no box. What is left (boxes
    around each other, as in a pinwheel) is compared pair by pair in small groups, and painted on
    the grid of its own edges in large ones. Boxes that would take too long are refused.

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
        raise ValueError(_NOT_ONCE)
    ends = starts + shapes
    group = np.zeros(len(starts), np.int64)
    order = np.arange(len(starts))
    for _ in range(MAX_ROUNDS):
        before = int(group.max(initial=0))
        for axis in range(starts.shape[1]):
            order, group = _split(starts[:, axis], ends[:, axis], order, group)
        cut = int(group.max(initial=0)) > before
        left = (np.bincount(group) > 1)[group]  # who is alone is done with
        order, group = order[left], np.unique(group[left], return_inverse=True)[1]
        if not cut:
            break
    sizes = np.bincount(group)
    members = np.split(order, np.cumsum(sizes)[:-1])
    for size in np.unique(sizes[sizes <= FEW]).tolist():
        _compare(*(a[np.stack([m for m in members if len(m) == size])] for a in (starts, ends)))
    room = MAX_PAINT
    for mine in members:
        if len(mine) > FEW:
            room -= _paint(starts[mine], ends[mine], room)


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


def _compare(starts: IntArray, ends: IntArray) -> None:
    """Refuse boxes that overlap, of groups of the same size: shape (groups, boxes, ndim)."""
    for one in range(starts.shape[1]):
        for two in range(one):
            low = np.maximum(starts[:, one], starts[:, two])
            if (low < np.minimum(ends[:, one], ends[:, two])).all(axis=1).any():
                raise ValueError("two boxes overlap")


def _paint(starts: IntArray, ends: IntArray, room: int) -> int:
    """Refuse boxes that overlap, cell by cell of the grid that their edges make; gives its size."""
    lows: list[IntArray] = []
    spans: list[IntArray] = []
    grid: list[int] = []
    for axis in range(starts.shape[1]):
        edges = np.unique(np.concatenate([starts[:, axis], ends[:, axis]]))
        lows.append(np.searchsorted(edges, starts[:, axis]))
        spans.append(np.searchsorted(edges, ends[:, axis]) - lows[-1])
        grid.append(len(edges) - 1)
    if prod(grid) > room:
        raise ValueError("boxes too entangled to be checked")
    volumes = _product(spans)
    if volumes.sum() > prod(grid):
        raise ValueError("two boxes overlap")
    owner = np.repeat(np.arange(len(volumes)), volumes)
    digit = np.arange(len(owner)) - np.repeat(np.cumsum(volumes) - volumes, volumes)
    cells = np.zeros(len(owner), np.int64)
    step = 1
    for low, span, size in zip(reversed(lows), reversed(spans), reversed(grid), strict=True):
        digit, place = np.divmod(digit, span[owner])
        cells += (low[owner] + place) * step
        step *= size
    painted = np.zeros(prod(grid), bool)
    painted[cells] = True
    if np.count_nonzero(painted) < len(cells):
        raise ValueError("two boxes overlap")
    return prod(grid)
