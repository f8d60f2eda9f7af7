"""Running plans: read the ranges, decode the chunks, on all cores.

A task of local files is read and decoded by one thread. Behind a network, reading is waiting: see
`intarsia.engine.flight`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial
from itertools import compress, pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.engine.decode import Target, place_chunks, place_constants, place_inline
from intarsia.engine.flight import fly, located
from intarsia.engine.plan import TASK_COST, Plan, Read, Task, plans
from intarsia.engine.pool import submit
from intarsia.errors import SourceError
from intarsia.io.fetch import fetcher_for
from intarsia.progress import Progress
from intarsia.segments import Segments

type IntArray = npt.NDArray[Any]
type Named = tuple[Segments, np.dtype[Any], str | None]


def load(arrays: Sequence[Named]) -> list[npt.NDArray[Any]]:
    """Values of whole virtual arrays.

    Parameters
    ----------
    arrays
        Segments, dtype and name (for errors) of each array. They are loaded together: neighbouring
        chunks of different arrays are read with one request.

    Returns
    -------
    list of ndarray
        C-contiguous, writable, one per array.

    Raises
    ------
    SourceError, ChunkError
        If any byte that is needed can't be had or decoded. Nothing is returned then.
    """
    outputs: list[npt.NDArray[Any]] = []
    for segments, dtype, name in arrays:
        _check_cover(segments, name)
        outputs.append(np.empty(segments.shape, dtype))
    targets = [Target(out) for out in outputs]
    names = [name for _, _, name in arrays]
    with Progress("reading", 0) as progress:
        for plan in plans([segments for segments, _, _ in arrays]):
            progress.total = (progress.total or 0) + len(plan.tasks)
            for part in plan.parts:
                place_constants(part, targets[part.array])
                place_inline(part, targets[part.array], names[part.array])
            _run(plan, targets, names, progress)
    return outputs


def _check_cover(segments: Segments, name: str | None) -> None:
    """Boxes are disjoint by construction; that they also cover is what makes `empty` safe."""
    covered = 0
    for block in segments.blocks:
        volume = np.ones(len(block), np.int64)
        for number in range(block.fields.shape.start, block.fields.shape.stop):
            volume *= block.column(number)
        covered += int(volume.sum())
    if covered != prod(segments.shape):
        raise AssertionError(
            f"{name!r}: segments cover {covered} of {prod(segments.shape)} elements"
        )


def _run(
    plan: Plan, targets: Sequence[Target], names: Sequence[str | None], progress: Progress
) -> None:
    tasks = plan.tasks
    if plan.remote:
        is_far = [any(read.source in plan.remote for read in task) for task in tasks]
        far = list(compress(tasks, is_far))
        tasks = tuple(task for task, skip in zip(tasks, is_far, strict=True) if not skip)
        fly(plan, far, partial(_landed, plan, targets, names), names, progress)
    if len(tasks) == 1:
        _run_task(plan, tasks[0], targets, names)
        progress.advance()
        return
    waiting: set[Future[None]] = set()
    try:
        for task in tasks:
            waiting.add(submit(partial(_run_task, plan, task, targets, names)))
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_EXCEPTION, timeout=0.2)
            for future in ended:
                future.result()
            progress.advance(len(ended))
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)  # nobody writes into an output that was given up


def _run_task(
    plan: Plan, task: Task, targets: Sequence[Target], names: Sequence[str | None]
) -> None:
    buffers = [_fetched(plan, read, names) for read in task]
    _decode(plan, *_chunks(plan, task, buffers), targets, names)


def _landed(
    plan: Plan,
    targets: Sequence[Target],
    names: Sequence[str | None],
    task: Task,
    buffers: Sequence[Sequence[memoryview]],
) -> list[Callable[[], None]]:
    """The work that is left when the bytes of a task are there, for several threads."""
    members, views = _chunks(plan, task, buffers)
    elements = np.empty(len(members), np.int64)
    owner = plan.part[members]
    numbers: list[int] = np.unique(owner).tolist()
    for number in numbers:
        own = owner == number
        part = plan.parts[number]
        elements[own] = part.touches.elements[plan.touch[members[own]]]
    slot = (np.cumsum(elements) - elements) // TASK_COST
    edges = [0, *(1 + np.flatnonzero(np.diff(slot))).tolist(), len(members)]
    return [
        partial(_decode, plan, members[low:high], views[low:high], targets, names)
        for low, high in pairwise(edges)
    ]


def _chunks(
    plan: Plan, task: Task, buffers: Sequence[Sequence[memoryview]]
) -> tuple[IntArray, list[memoryview]]:
    """Numbers and bytes of a task's chunks."""
    views: list[memoryview] = []
    for read, parts in zip(task, buffers, strict=True):
        for (begin, _), numbers, buffer in zip(read.ranges, read.members, parts, strict=True):
            lows = (plan.offset[numbers] - begin).tolist()
            for low, length in zip(lows, plan.length[numbers].tolist(), strict=True):
                views.append(buffer[low : low + length])
    return np.concatenate([numbers for read in task for numbers in read.members]), views


def _decode(
    plan: Plan,
    members: IntArray,
    views: Sequence[memoryview],
    targets: Sequence[Target],
    names: Sequence[str | None],
) -> None:
    owner = plan.part[members]
    if (owner == owner[0]).all():
        groups = [np.arange(len(members))]
    else:
        order = np.argsort(owner, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(owner[order])) + 1)
    for group in groups:
        part = plan.parts[int(owner[group[0]])]
        chosen = [views[n] for n in group.tolist()]
        rows = plan.touch[members[group]]
        place_chunks(part, targets[part.array], rows, chosen, names[part.array])


def _fetched(plan: Plan, read: Read, names: Sequence[str | None]) -> list[memoryview]:
    """Bytes of each range; an error names the array and the first chunk that lacks them."""
    source = plan.sources[read.source]
    try:
        return fetcher_for(source).read(source, read.ranges)
    except SourceError as error:
        raise located(plan, read.members[0], names, error) from error.__cause__
