"""Running plans: read the ranges, decode the chunks, on all cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.engine.decode import Target, locate, place_chunks, place_constants, place_inline
from intarsia.engine.plan import Plan, Read, Task, plans
from intarsia.errors import SourceError
from intarsia.io.fetch import fetcher_for
from intarsia.progress import Progress
from intarsia.segments import Segments

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
    if len(plan.tasks) == 1:
        _run_task(plan, plan.tasks[0], targets, names)
        progress.advance()
        return
    waiting: set[Future[None]] = set()
    try:
        for task in plan.tasks:
            waiting.add(_submit(plan, task, targets, names))
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_EXCEPTION, timeout=0.2)
            for future in ended:
                future.result()
            progress.advance(len(ended))
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)  # nobody writes into an output that was given up


def _submit(
    plan: Plan, task: Task, targets: Sequence[Target], names: Sequence[str | None]
) -> Future[None]:
    """Have a task run by the pool, or at once where the interpreter is ending."""
    try:
        return _pool().submit(_run_task, plan, task, targets, names)
    except RuntimeError:  # no thread can be started any more
        future: Future[None] = Future()
        future.set_result(_run_task(plan, task, targets, names))
        return future


def _run_task(
    plan: Plan, task: Task, targets: Sequence[Target], names: Sequence[str | None]
) -> None:
    views: list[memoryview] = []
    for read in task:
        buffers = _fetched(plan, read, names)
        for (begin, _), numbers, buffer in zip(read.ranges, read.members, buffers, strict=True):
            lows = (plan.offset[numbers] - begin).tolist()
            for low, length in zip(lows, plan.length[numbers].tolist(), strict=True):
                views.append(buffer[low : low + length])
    members = np.concatenate([numbers for read in task for numbers in read.members])
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
        first = int(read.members[0][0])
        part = plan.parts[int(plan.part[first])]
        _, chunk = locate(part, int(plan.touch[first]))
        raise error.located(array=names[part.array], chunk=chunk) from error.__cause__


_pool_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """The process's own threads: made on first use, and anew after a fork."""
    with _pool_lock:
        pool = _pools.get(os.getpid())
        if pool is None:
            _pools.clear()
            pool = ThreadPoolExecutor(max(2, _cores()), thread_name_prefix="intarsia")
            _pools[os.getpid()] = pool
        return pool


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _after_fork() -> None:
    """A lock held by another thread at the fork would never be released in the child."""
    global _pool_lock
    _pool_lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
