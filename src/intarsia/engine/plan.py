"""Which ranges to read for a set of touched chunks. A plan is a value; nothing is read here.

References are sorted by source and offset. Neighbours are read together where the gap between them
is small and the unwanted bytes stay a small part of what is read; long runs are cut between chunks
into tasks, so that several threads share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.io.paths import is_url
from intarsia.lookup import Touches, touch_counts, touches
from intarsia.references import STORED, Sources
from intarsia.segments import Block, Segments

type IntArray = npt.NDArray[Any]

MAX_GAP = 1 << 16
"""Bytes that may lie unused between two chunks read together."""

MAX_OVERREAD = 0.25
"""Unused bytes as a fraction of the bytes that are wanted."""

FREE_GAP = 1 << 12
"""A gap of so many bytes counts as nothing, lest many tiny chunks at small gaps become a request
each: it is no wider than a page of the system, which is read anyway."""

FREE_GAP_REMOTE = 1 << 13
"""The same behind a network, where a request takes as long as 8 to 40 KiB do (0.8 ms with 64 under
way at 50 ms, and 10 to 50 MB/s). Two nodes of HDF5's index of chunks fit in: they lie between the
chunks of small files."""

TASK_COST = 1 << 22
"""A task reads about so many bytes, or decodes so many elements, whichever is more."""

SOURCE_COST = 1 << 16
"""What opening a source counts, so that a task does not open too many."""

MAX_TOUCHES = 1 << 18
"""Chunks planned at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Touched chunks of one array, with the place of its box in the output."""

    array: int
    segments: Segments
    block: Block
    touches: Touches
    corner: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """Ranges of one source, and the chunks to decode from each.

    Parameters
    ----------
    source
        Row of the plan's source table.
    ranges
        (offset, length) of each read.
    members
        For each range: numbers of the plan's stored chunks that lie in it.
    """

    source: int
    ranges: tuple[tuple[int, int], ...]
    members: tuple[IntArray, ...]


type Task = tuple[Read, ...]
"""What one thread reads, and then decodes together: much of one source, or little of many."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to read and decode for some arrays.

    Parameters
    ----------
    parts
        Touched chunks, array by array.
    sources
        Table of sources for the tasks.
    part, touch
        For each stored chunk: number of its part, and of its row there.
    offset, length
        For each stored chunk: its bytes.
    tasks
        What to read.
    remote
        Rows of the sources that are behind a network.
    """

    parts: tuple[Part, ...]
    sources: Sources
    part: IntArray
    touch: IntArray
    offset: IntArray
    length: IntArray
    tasks: tuple[Task, ...]
    remote: frozenset[int] = frozenset()

    @property
    def requests(self) -> int:
        """Number of reads."""
        return sum(len(read.ranges) for task in self.tasks for read in task)

    @property
    def nbytes(self) -> int:
        """Bytes to read."""
        return sum(length for task in self.tasks for read in task for _, length in read.ranges)

    @property
    def chunks(self) -> int:
        """Number of distinct stored chunks to decode."""
        if not len(self.part):
            return 0
        keys = np.stack([self.offset, self.length, self._source()], axis=1)
        return len(np.unique(keys, axis=0))

    def _source(self) -> IntArray:
        numbers = np.zeros(len(self.part), np.int64)
        for task in self.tasks:
            for read in task:
                for members in read.members:
                    numbers[members] = read.source
        return numbers


def plans(arrays: Sequence[Segments]) -> Iterator[Plan]:
    """Plans that together load whole arrays, each with a bounded number of chunks.

    Parameters
    ----------
    arrays
        What to load; neighbouring chunks of different arrays are read together.
    """
    waiting: list[Part] = []
    total = 0
    for number, segments in enumerate(arrays):
        for box, corner in _boxes(segments, (0,) * segments.ndim):
            itemsizes = np.array([case.encoding.stored.itemsize for case in box.cases], np.int64)
            for block in box.blocks:
                found = touches(block, box.pages, itemsizes)
                if waiting and total + len(found) > MAX_TOUCHES:
                    yield _plan(waiting)
                    waiting, total = [], 0
                waiting.append(Part(number, box, block, found, corner))
                total += len(found)
    if waiting:
        yield _plan(waiting)


def _boxes(
    segments: Segments, corner: tuple[int, ...]
) -> Iterator[tuple[Segments, tuple[int, ...]]]:
    """Halve an array until each part touches a bounded number of chunks."""
    count = sum(int(touch_counts(block).sum()) for block in segments.blocks)
    axis = max(range(segments.ndim), key=lambda axis: segments.shape[axis], default=-1)
    if count <= MAX_TOUCHES or axis < 0 or segments.shape[axis] < 2:
        yield segments, corner
        return
    middle = segments.shape[axis] // 2
    before = (slice(None),) * axis
    after = (slice(None),) * (segments.ndim - axis - 1)
    yield from _boxes(segments.select((*before, slice(0, middle), *after)), corner)
    moved = (*corner[:axis], corner[axis] + middle, *corner[axis + 1 :])
    yield from _boxes(segments.select((*before, slice(middle, None), *after)), moved)


def _plan(parts: Sequence[Part]) -> Plan:
    sources, maps = Sources.union([part.segments.sources for part in parts])
    part_numbers: list[IntArray] = []
    touch_numbers: list[IntArray] = []
    source_numbers: list[IntArray] = []
    for number, (part, renumber) in enumerate(zip(parts, maps, strict=True)):
        stored = np.flatnonzero(part.touches.state == STORED)
        source = part.touches.source[stored]
        touch_numbers.append(stored)
        part_numbers.append(np.full(len(stored), number))
        source_numbers.append(source if renumber is None else renumber[source])
    part, touch = np.concatenate(part_numbers), np.concatenate(touch_numbers)
    source = np.concatenate(source_numbers)
    offset = np.concatenate(
        [p.touches.offset[t] for p, t in zip(parts, touch_numbers, strict=True)]
    )
    length = np.concatenate(
        [p.touches.length[t] for p, t in zip(parts, touch_numbers, strict=True)]
    )
    weight = np.concatenate(
        [p.touches.elements[t] for p, t in zip(parts, touch_numbers, strict=True)]
    )
    touched: list[int] = np.unique(source).tolist()
    containers = sources.containers
    remote = [n for n in touched if "://" in containers[n] and is_url(containers[n])]
    tasks = tasks_of(source, offset, length, weight, np.isin(source, remote) if remote else None)
    return Plan(tuple(parts), sources, part, touch, offset, length, tasks, frozenset(remote))


def tasks_of(
    source: IntArray,
    offset: IntArray,
    length: IntArray,
    elements: IntArray,
    remote: npt.NDArray[np.bool_] | None = None,
) -> tuple[Task, ...]:
    """Group references into ranges, and ranges into tasks.

    Parameters
    ----------
    source, offset, length
        Of each reference.
    elements
        That each decodes to.
    remote
        Which are behind a network, where any are. There, ranges are cut by what is sent alone;
        decoding is shared out later.
    """
    if not len(source):
        return ()
    order = np.lexsort((length, offset, source))
    source, offset, length = source[order], offset[order], length[order]
    # what follows the furthest end so far starts a range of its own where the gap is too wide
    apart = np.ones(len(order), bool)
    apart[1:] = source[1:] != source[:-1]
    end = _furthest(offset + length, apart)
    gap = np.zeros(len(order), np.int64)
    gap[1:] = np.maximum(offset[1:] - end[:-1], 0)
    # cut long ranges between chunks, and only then see what is over-read in each
    cost = np.maximum(length, elements[order])
    free = np.full(len(order), FREE_GAP)
    if remote is not None:
        cost = np.where(remote[order], length, cost)
        free[remote[order]] = FREE_GAP_REMOTE
    done = np.cumsum(cost)
    base = np.maximum.accumulate(np.where(apart | (gap > MAX_GAP), done - cost, 0))
    slot = (done - cost - base) // TASK_COST
    cut = apart.copy()
    cut[1:] |= (slot[1:] != slot[:-1]) & (offset[1:] >= end[:-1])
    breaks = _breaks(cut, gap, free, length * _covered(offset, end, apart))
    starts = np.flatnonzero(breaks)
    lows = offset[starts]
    highs = np.maximum.reduceat(offset + length, starts)
    owners = source[starts]
    # ranges share a task while they are short
    first = np.append(True, owners[1:] != owners[:-1])
    spent: list[int] = (np.add.reduceat(cost, starts) + first * SOURCE_COST).tolist()
    members = np.split(order, starts[1:])
    ranges = list(zip(lows.tolist(), (highs - lows).tolist(), strict=True))
    begins, used = [0], spent[0]
    for number in range(1, len(starts)):
        if used + spent[number] > TASK_COST:
            begins.append(number)
            used = 0
        used += spent[number]
    tasks: list[Task] = []
    for begin, end_of in pairwise([*begins, len(starts)]):
        reads: list[Read] = []
        edges = [begin, *(begin + 1 + np.flatnonzero(first[begin + 1 : end_of])).tolist(), end_of]
        for low, high in pairwise(edges):
            source_of = int(owners[low])
            reads.append(Read(source_of, tuple(ranges[low:high]), tuple(members[low:high])))
        tasks.append(tuple(reads))
    return tuple(tasks)


def _furthest(end: IntArray, apart: IntArray) -> IntArray:
    """Running maximum of `end` that begins anew where `apart` is true."""
    group = np.cumsum(apart) - 1
    step = int(end.max()) + 1
    if step > (1 << 62) // (int(group[-1]) + 1):  # the sum below would overflow
        parts = np.split(end, np.flatnonzero(apart)[1:])
        return np.concatenate([np.maximum.accumulate(part) for part in parts])
    return np.maximum.accumulate(end + group * step) - group * step


def _covered(offset: IntArray, end: IntArray, apart: IntArray) -> IntArray:
    """Whether a reference brings bytes that the ones before it did not."""
    new = np.ones(len(offset), bool)
    new[1:] = end[1:] > end[:-1]
    return new | apart


def _breaks(apart: IntArray, gap: IntArray, free: IntArray, wanted: IntArray) -> IntArray:
    """Where ranges begin: wide gaps first, then ever narrower ones where too much is over-read."""
    limit = MAX_GAP
    breaks = apart | (gap > limit)
    paid = np.where(gap > free, gap, 0)
    while limit > FREE_GAP:
        starts = np.flatnonzero(breaks)
        unused = np.add.reduceat(np.where(breaks, 0, paid), starts)
        asked = np.add.reduceat(wanted, starts)
        greedy = unused > asked * MAX_OVERREAD
        if not greedy.any():
            break
        limit = max(limit // 4, FREE_GAP)
        counts = np.diff(np.append(starts, len(breaks)))
        breaks = breaks | (np.repeat(greedy, counts) & (gap > np.maximum(limit, free)))
    return breaks
