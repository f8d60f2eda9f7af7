"""Selections of HDF5 dataspaces: which indices, along each dimension or one by one.

Regular hyperslabs are products of *axes*, each a list of runs of indices. Irregular ones are lists
of runs along the last dimension.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from h5py import h5s

type IntArray = npt.NDArray[np.int64]

MAX_RUNS = 1 << 20
"""A mapping is not cut into more pieces than this."""


class TooManyPieces(Exception):
    """A mapping comes to more boxes than it is worth."""


class OutOfBounds(Exception):
    """A selection does not fit what it selects from, or what it is mapped onto."""


class Axis(NamedTuple):
    """Indices along one dimension, as ascending runs.

    Parameters
    ----------
    starts, lengths
        First index of each run, and how many it has.
    step
        From one index of a run to the next.
    """

    starts: IntArray
    lengths: IntArray
    step: int = 1

    @classmethod
    def whole(cls, size: int) -> Axis:
        """All of a dimension."""
        return cls(np.array([0]), np.array([size]))

    @property
    def size(self) -> int:
        """Number of indices."""
        return int(self.lengths.sum())

    @property
    def end(self) -> int:
        """One more than the last index; 0 where there is none."""
        if not self.size:
            return 0
        return int(self.starts[-1]) + (int(self.lengths[-1]) - 1) * self.step + 1

    @property
    def breaks(self) -> IntArray:
        """Number of the first element of each run."""
        return np.cumsum(self.lengths) - self.lengths

    def at(self, numbers: IntArray) -> IntArray:
        """Indices of elements, by their numbers."""
        breaks = self.breaks
        run = np.searchsorted(breaks, numbers, "right") - 1
        return self.starts[run] + (numbers - breaks[run]) * self.step

    def first(self, size: int) -> Axis:
        """The first so many indices."""
        kept = np.clip(size - self.breaks, 0, self.lengths)
        return Axis(self.starts[kept > 0], kept[kept > 0], self.step)

    def below(self, extent: int) -> Axis:
        """The indices below an extent."""
        inside = np.clip(-((self.starts - extent) // self.step), 0, self.lengths)
        return Axis(self.starts[inside > 0], inside[inside > 0], self.step)

    def spelt(self) -> Axis:
        """The same indices in runs without gaps."""
        if self.step == 1:
            return self
        if self.size > MAX_RUNS:
            raise TooManyPieces
        indices = self.at(np.arange(self.size))
        return Axis(indices, np.ones_like(indices))


class Hyperslab(NamedTuple):
    """A regular selection, as HDF5 gives it: four numbers for each dimension.

    Parameters
    ----------
    starts, strides, counts, blocks
        Of each dimension; a count or a block may be ``h5s.UNLIMITED`` along one.
    """

    starts: tuple[int, ...]
    strides: tuple[int, ...]
    counts: tuple[int, ...]
    blocks: tuple[int, ...]

    @property
    def growing(self) -> int | None:
        """The dimension without a limit."""
        for dim, pair in enumerate(zip(self.counts, self.blocks, strict=True)):
            if h5s.UNLIMITED in pair:
                return dim
        return None

    def axes(self, extents: Sequence[int]) -> list[Axis]:
        """Indices along each dimension; what has no limit ends at the extent.

        Raises
        ------
        OutOfBounds
            It reaches beyond the extents.
        TooManyPieces
            There are too many runs.
        """
        if len(extents) != len(self.starts):
            raise OutOfBounds(f"a selection of {len(self.starts)} dimensions out of {len(extents)}")
        axes: list[Axis] = []
        for start, stride, count, block, extent in zip(*self, extents, strict=True):
            end = start + (count - 1) * stride + block if count and block else 0
            if end > extent and h5s.UNLIMITED not in (count, block):
                raise OutOfBounds(f"index {end - 1} of a dimension of length {extent}")
            room = max(extent - start, 0)
            if block == h5s.UNLIMITED:
                axis = _axis(start, 1, 1, room)
            elif count == h5s.UNLIMITED:
                axis = _axis(start, stride, -(-room // stride), block).below(extent)
            else:
                axis = _axis(start, stride, count, block)
            axes.append(axis)
        return axes

    def part(self, number: int) -> Hyperslab:
        """The block of that number along the dimension without a limit."""
        dim = self.growing
        assert dim is not None
        starts, counts = list(self.starts), list(self.counts)
        starts[dim] += number * self.strides[dim]
        counts[dim] = 1
        return self._replace(starts=tuple(starts), counts=tuple(counts))


def _axis(start: int, stride: int, count: int, block: int) -> Axis:
    if count == 1 or (stride == block and count):
        return Axis(np.array([start]), np.array([count * block]))
    if block == 1:
        return Axis(np.array([start]), np.array([count]), stride)
    if count > MAX_RUNS:
        raise TooManyPieces
    return Axis(start + stride * np.arange(count), np.full(count, block))


class Selected(NamedTuple):
    """Selected elements in C order: a product of axes, or a list of runs along the last axis.

    Parameters
    ----------
    axes
        Of each dimension, where the selection is a product.
    corners, lengths
        First element of each run, shape (runs, dimensions), and how many it has, where it is not.
    """

    axes: list[Axis] | None
    corners: IntArray | None = None
    lengths: IntArray | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        if self.axes is not None:
            return prod(axis.size for axis in self.axes)
        assert self.lengths is not None
        return int(self.lengths.sum())

    def runs(self) -> tuple[IntArray, IntArray, int]:
        """Corners, lengths and step of the runs along the last axis that has several indices."""
        if self.axes is None:
            assert self.corners is not None
            assert self.lengths is not None
            return self.corners, self.lengths, 1
        inner = self.axes[self.inner] if self.axes else Axis.whole(1)
        outer = [axis for n, axis in enumerate(self.axes) if n != self.inner]
        if prod(axis.size for axis in outer) * len(inner.starts) > MAX_RUNS:
            raise TooManyPieces
        lists = [
            inner.starts if n == self.inner else axis.at(np.arange(axis.size))
            for n, axis in enumerate(self.axes)
        ]
        corners = product(lists)
        return corners, np.tile(inner.lengths, len(corners) // len(inner.starts)), inner.step

    @property
    def inner(self) -> int:
        """The last dimension along which there are several indices, or simply the last."""
        if self.axes is None:
            assert self.corners is not None
            return self.corners.shape[1] - 1
        several = [n for n, axis in enumerate(self.axes) if axis.size > 1]
        return several[-1] if several else len(self.axes) - 1


type Selection = Hyperslab | Runs | None
"""What is selected of a dataspace; None for all of it."""


class Runs(NamedTuple):
    """An irregular selection.

    Parameters
    ----------
    bounds
        One more than the last index along each dimension.
    found
        Its elements; None where they come to too many runs.
    """

    bounds: tuple[int, ...]
    found: Selected | None

    def selected(self, extents: Sequence[int]) -> Selected:
        """The elements.

        Raises
        ------
        OutOfBounds
            It reaches beyond the extents.
        TooManyPieces
            There are too many runs.
        """
        fits = len(extents) == len(self.bounds)
        if not fits or any(end > size for end, size in zip(self.bounds, extents, strict=True)):
            raise OutOfBounds(f"a selection up to {self.bounds} out of {tuple(extents)}")
        if self.found is None:
            raise TooManyPieces
        return self.found


class Points(Exception):
    """A selection of points."""


def described(space: Any) -> Selection:
    """What is selected of a dataspace.

    Raises
    ------
    Points
        Single points are.
    """
    kind = space.get_select_type()
    if kind == h5s.SEL_ALL:
        return None
    if kind == h5s.SEL_NONE:
        return Runs((), Selected([Axis.whole(0)]))
    if kind != h5s.SEL_HYPERSLABS:
        raise Points
    if space.is_regular_hyperslab():
        return Hyperslab(*space.get_regular_hyperslab())
    bounds = tuple(int(last) + 1 for last in space.get_select_bounds()[1])
    if space.get_select_hyper_nblocks() > MAX_RUNS:
        return Runs(bounds, None)
    blocks = np.array(space.get_select_hyper_blocklist(), np.int64)
    low, high = blocks[:, 0], blocks[:, 1]
    rows = (high - low + 1)[:, :-1].prod(axis=1)
    if rows.sum() > MAX_RUNS:
        return Runs(bounds, None)
    corners = np.concatenate([product(_rows(first, last)) for first, last in blocks])
    lengths = np.repeat((high - low + 1)[:, -1], rows)
    order = np.lexsort(corners.T[::-1])
    return Runs(bounds, Selected(None, corners[order], lengths[order]))


def selected(selection: Selection, extents: Sequence[int]) -> Selected:
    """The elements of a selection out of something of these extents.

    Raises
    ------
    OutOfBounds
        It reaches beyond them.
    TooManyPieces
        There are too many runs.
    """
    if selection is None:
        return Selected([Axis.whole(size) for size in extents])
    if isinstance(selection, Hyperslab):
        return Selected(selection.axes(extents))
    return selection.selected(extents) if selection.bounds else Selected([Axis.whole(0)])


def _rows(first: IntArray, last: IntArray) -> list[IntArray]:
    """Indices of the first elements of the rows of a block, along each dimension."""
    pairs = zip(first[:-1], last[:-1], strict=True)
    return [*(np.arange(low, high + 1) for low, high in pairs), first[-1:]]


def product(lists: Sequence[IntArray]) -> IntArray:
    """All combinations, in C order: shape (combinations, lists)."""
    if not lists:
        return np.zeros((1, 0), np.int64)
    grid = np.meshgrid(*lists, indexing="ij", copy=False)
    return np.stack([one.reshape(-1) for one in grid], 1).astype(np.int64)
