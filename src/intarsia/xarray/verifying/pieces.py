"""Segments one by one: where a piece of a virtual array lies in the whole, and in its source."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array import VirtualArray
from intarsia.references import DENSE, MISSING, SPARSE
from intarsia.segments import CASE, FORM, SOURCE, Block

type Array = npt.NDArray[Any]
type Box = tuple[tuple[int, ...], tuple[int, ...]]
"""First index, and lengths."""

BOX_BYTES = 1 << 25
"""Values are compared in boxes of about so much."""

PER_CHUNK = 32
"""A sample has about so many elements of a chunk: to read one, all of it is decoded."""

MAX_CORNERS = 32
"""Corners of a segment of more are not all looked at in a sample, but the first and the last."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A dataset of HDF5, which may be shorter than the variable of it.

    Parameters
    ----------
    shape
        Its own.
    written
        Whether anything of it is stored.
    """

    shape: tuple[int, ...]
    written: bool


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """One segment.

    Parameters
    ----------
    row
        Its row of a block.
    start, count
        Its box in the whole.
    axis, first, step, size, chunk
        For each dimension of its source: see `intarsia.segments.Fields`.
    """

    row: Array
    start: Array
    count: Array
    axis: Array
    first: Array
    step: Array
    size: Array
    chunk: Array

    @classmethod
    def of(cls, block: Block, row: Array) -> Segment:
        """Take a row of a block apart."""
        fields = block.fields
        names = ("start", "shape", "axis", "first", "step", "size", "chunk")
        return cls(row, *(row[getattr(fields, name)] for name in names))

    def arranged(self, axes: Sequence[int]) -> Segment:
        """With the dimensions of its source in the order of an array that is stored transposed.

        Parameters
        ----------
        axes
            Dimension of the array that each dimension of the source is.
        """
        order = np.argsort(axes)
        names = ("axis", "first", "step", "size", "chunk")
        return replace(self, **{name: getattr(self, name)[order] for name in names})

    @property
    def case(self) -> int:
        """Number of its case."""
        return int(self.row[CASE])

    @property
    def elements(self) -> int:
        """Elements of its box."""
        return prod(self.count.tolist())

    def sources(self, where: Array) -> Array:
        """Indices in the source of elements of the whole.

        Parameters
        ----------
        where
            Shape (elements, dimensions): indices in the whole, inside the box.
        """
        along = np.where(self.axis >= 0, self.axis, 0)
        steps = np.where(self.axis >= 0, self.step, 0)
        if not len(self.start):
            return np.broadcast_to(self.first, (len(where), len(self.first)))
        return self.first + steps * (where - self.start)[:, along]

    def line(self, dim: int, begin: int, count: int) -> Array:
        """Indices along a dimension of the source, for a range of the whole's dimension."""
        axis = int(self.axis[dim])
        if axis < 0:
            return self.first[dim : dim + 1]
        return self.first[dim] + self.step[dim] * (np.arange(count) + begin - self.start[axis])

    def around(self, place: Array) -> tuple[Array, Array]:
        """The box, from low to high, of elements in the same chunk of the source as one of them."""
        low, high = self.start.copy(), self.start + self.count
        for dim, axis in enumerate(self.axis.tolist()):
            step, edge = int(self.step[dim]), int(self.chunk[dim])
            if axis < 0 or not step:
                continue
            inside = int(self.first[dim]) + step * int(place[axis] - self.start[axis])
            down, up = inside % edge, edge - 1 - inside % edge
            before, after = (down, up) if step > 0 else (up, down)
            low[axis] = max(low[axis], place[axis] - before // abs(step))
            high[axis] = min(high[axis], place[axis] + after // abs(step) + 1)
        return low, high

    def shifts(self, shape: tuple[int, ...], extent: Extent | None = None) -> list[Array]:
        """What to add to indices in the source's array, for those in the variable of it.

        A dataset may be shorter than its unlimited dimension: then the variable goes on with fill
        where the dataset ends. Fill may be that, or the dataset itself, of which nothing was ever
        written: the dataset's own shape tells which.

        Parameters
        ----------
        shape
            Of the variable, as the source's own library gives it.
        extent
            Of the dataset, where that is known.

        Returns
        -------
        list of ndarray
            What is possible, the likeliest first; nothing where the segment is of another array
            than that variable.
        """
        none = np.zeros(len(self.size), np.int64)
        if len(shape) != len(self.size):
            return []
        lacking = np.array(shape, np.int64) - self.size
        if not lacking.any():
            return [none]
        form = int(self.row[FORM])
        if (lacking < 0).any() or form not in (DENSE, SPARSE, MISSING):
            return []
        if form != MISSING:  # the dataset, or what references that others made take of it
            sizes = tuple(self.size.tolist())
            return [none] if extent is None or extent.shape[: len(shape)] == sizes else []
        after = none.copy()
        axis = int(np.flatnonzero(lacking)[0])
        after[axis] = lacking[axis]
        if extent is None:
            return [none, after]
        own = extent.shape[: len(shape)]  # characters that make a text have one dimension more
        goes_on, itself = own[axis] == after[axis], own == tuple(self.size.tolist())
        if goes_on and itself:  # of the same length: what was written is not the dataset itself
            return [after] if extent.written else [none, after]
        if goes_on:
            return [after]
        return [none] if itself else []

    def boxes(self, itemsize: int) -> Generator[Box]:
        """Boxes that tile it, of about `BOX_BYTES` and along the source's chunks."""
        limit = max(1, BOX_BYTES // itemsize)
        edges, phases = [1] * len(self.count), [0] * len(self.count)
        for dim, axis in enumerate(self.axis.tolist()):
            if axis < 0 or abs(int(self.step[dim])) != 1:
                continue
            edge, first = int(self.chunk[dim]), int(self.first[dim])
            edges[axis] = edge
            phases[axis] = (-first if self.step[dim] > 0 else first + 1) % edge
        counts: list[int] = self.count.tolist()
        sizes = [min(edge, count) for edge, count in zip(edges, counts, strict=True)]
        for axis in range(len(sizes)):  # chunks that are larger than boxes may be
            others = prod(sizes[:axis] + sizes[axis + 1 :])
            sizes[axis] = min(sizes[axis], max(1, limit // others))
        for axis in reversed(range(len(sizes))):
            if sizes[axis] < edges[axis]:
                phases[axis] = 0
            sizes[axis] *= max(1, min(limit // prod(sizes), -(-counts[axis] // sizes[axis])))
        lines: list[list[tuple[int, int]]] = []
        for axis, size in enumerate(sizes):
            begin = (phases[axis] + size - edges[axis] if phases[axis] else size) or size
            cuts = [0, *range(begin, counts[axis], size), counts[axis]]
            lines.append([(low, high - low) for low, high in pairwise(cuts) if high > low])
        start: list[int] = self.start.tolist()
        for box in product(*lines):
            yield (
                tuple(low + at for (low, _), at in zip(box, start, strict=True)),
                tuple(length for _, length in box),
            )


class Placed:
    """The segments of a virtual array by source.

    Parameters
    ----------
    array
        The array.
    numbers
        The number of each of its sources in a larger table, if that is meant.

    Attributes
    ----------
    volumes
        Elements of the array that lie in each source.
    constants, inline
        Elements that lie in none: constants, and values that were in memory.
    """

    def __init__(self, array: VirtualArray, numbers: Array | None = None) -> None:
        self._made = array, numbers
        self._blocks: list[tuple[Block, Array, Array]] = []
        self.volumes: dict[int, int] = {}
        self.constants = self.inline = 0
        for block in array.segments.blocks:
            source = block.column(SOURCE).astype(np.int64)
            if numbers is not None:
                source = np.where(source < 0, -1, np.append(numbers, -1)[source])
            order = np.argsort(source, kind="stable")
            self._blocks.append((block, order, source[order]))
            volume = np.ones(len(block), np.int64)
            for number in range(block.fields.shape.start, block.fields.shape.stop):
                volume *= block.column(number)
            missing = block.column(FORM) == MISSING
            self.constants += int(volume[(source < 0) & missing].sum())
            self.inline += int(volume[(source < 0) & ~missing].sum())
            used, place = np.unique(source, return_inverse=True)
            sums = np.zeros(len(used), np.int64)
            np.add.at(sums, place, volume)
            for number, elements in zip(used.tolist(), sums.tolist(), strict=True):
                if number >= 0:
                    self.volumes[number] = self.volumes.get(number, 0) + elements

    def __reduce__(self) -> tuple[Any, ...]:
        return Placed, self._made  # of a store, the array crosses processes as its place there

    @property
    def elements(self) -> int:
        """Elements that lie in sources."""
        return sum(self.volumes.values())

    def of(self, number: int) -> list[Segment]:
        """The segments of one source."""
        found: list[Segment] = []
        for block, order, source in self._blocks:
            low, high = np.searchsorted(source, [number, number + 1])
            if high > low:
                found += [Segment.of(block, row) for row in block.matrix(np.sort(order[low:high]))]
        return found


def sample_of(segments: Sequence[Segment], quota: int, seed: Any) -> list[Array]:
    """Some elements of each segment: corners, and others at random up to `quota` in all.

    Returns
    -------
    list of ndarray
        For each segment, indices in the whole, of shape (elements, dimensions).
    """
    random = np.random.default_rng(seed)
    ndim = len(segments[0].start)
    few = 2**ndim if 2**ndim <= MAX_CORNERS else 2
    few = few if few * len(segments) <= quota else 2
    cornered = np.arange(len(segments))
    if 2 * len(segments) > quota:  # those at the ends, and some in between
        some = random.choice(len(segments), max(1, quota // 2), replace=False)
        cornered = np.unique([0, len(segments) - 1, *some.tolist()])
    ends = list(product((0, 1), repeat=ndim)) if few > 2 else [(0,) * ndim, (1,) * ndim]
    chosen: list[list[Array]] = [[] for _ in segments]
    for number in cornered.tolist():
        segment = segments[number]
        corners = np.array(ends, np.int64).reshape(len(ends), ndim) * (segment.count - 1)
        chosen[number].append(segment.start + corners)
    left = max(0, quota - len(cornered) * len(ends))
    volumes = np.array([segment.elements for segment in segments], float)
    drawn = random.multinomial(left, volumes / volumes.sum())
    for segment, parts, count in zip(segments, chosen, drawn.tolist(), strict=True):
        while count > 0:
            low, high = segment.around(segment.start + random.integers(0, segment.count))
            number = min(count, PER_CHUNK)
            parts.append(random.integers(low, high, (number, ndim)))
            count -= number
    return [
        np.unique(np.concatenate([np.zeros((0, ndim), np.int64), *parts]), axis=0)
        if ndim
        else np.zeros((min(1, len(parts)), 0), np.int64)
        for parts in chosen
    ]


def boxed_index(where: list[Array], axes: list[int], ndim: int) -> tuple[Array, ...]:
    """Indices along dimensions of a source, each laid along its dimension of the whole."""
    index: list[Array] = []
    for line, axis in zip(where, axes, strict=True):
        shape = [1] * ndim
        if axis >= 0:
            shape[axis] = len(line)
        index.append(line.reshape(shape))
    return tuple(index)
