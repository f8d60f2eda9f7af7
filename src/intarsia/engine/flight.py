"""Tasks whose bytes are behind a network: many requests under way, decoding as bytes arrive.

Requests are made by the waiting threads of `intarsia.io.remote_pool`, whose number has nothing to
do with that of the cores. When all bytes of a task are there, the decoding threads take over. Bytes
that were asked for and are not decoded yet are bounded.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy.typing as npt

from intarsia.engine.decode import locate
from intarsia.engine.plan import Plan, Task
from intarsia.engine.pool import submit
from intarsia.errors import SourceError
from intarsia.forks import after_fork
from intarsia.io.fetch import fetcher_for
from intarsia.progress import Progress

__all__ = ["MAX_BYTES", "fly", "located"]

MAX_BYTES = 1 << 28
"""Bytes of this process that are under way or wait to be decoded. A load that has none under way
may always ask for one task, however large."""

type Buffers = list[list[memoryview]]
type Landed = Callable[[Task, Buffers], list[Callable[[], None]]]


class _Budget:
    """Bytes under way, of all loads of the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.used = 0

    def take(self, nbytes: int, must: bool) -> bool:
        """Whether so many more may be asked for."""
        with self.lock:
            if not must and self.used + nbytes > MAX_BYTES:
                return False
            self.used += nbytes
            return True

    def give(self, nbytes: int) -> None:
        """So many are done with."""
        with self.lock:
            self.used -= nbytes


_budget = _Budget()


@after_fork
def _after_fork() -> None:
    global _budget
    _budget = _Budget()


class _Flight:
    """One task under way."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.nbytes = sum(length for read in task for _, length in read.ranges)
        empty = memoryview(b"")
        self.buffers: Buffers = [[empty] * len(read.ranges) for read in task]
        self.waiting = sum(len(read.ranges) for read in task)
        """Requests that have not been answered, and then pieces that have not been decoded."""


type _Event = tuple[_Flight, int, int, memoryview | None, BaseException | None]
"""What a thread did: bytes of one range (numbers of read and range), or a piece of decoding."""


def fly(
    plan: Plan,
    tasks: Sequence[Task],
    landed: Landed,
    names: Sequence[str | None],
    progress: Progress,
) -> None:
    """Run tasks whose sources are behind a network.

    Parameters
    ----------
    plan
        What they are of.
    tasks
        Which.
    landed
        Given a task and its bytes, says what is left to do, in pieces for several threads.
    names
        Of the arrays, for errors.
    progress
        Told of each task that is done.

    Raises
    ------
    SourceError, ChunkError
        The first that came. What has not begun then does not begin.
    """
    events: SimpleQueue[_Event] = SimpleQueue()
    given_up = threading.Event()
    to_do = deque(tasks)
    under_way: set[_Flight] = set()
    decoding: set[Future[None]] = set()
    budget = _budget
    try:
        while to_do or under_way:
            while to_do and (flight := _taken(to_do[0], budget, not under_way)):
                under_way.add(flight)
                _launch(plan, flight, events, names, given_up)
                to_do.popleft()
            try:
                flight, read, number, data, error = events.get(timeout=0.2)
            except Empty:
                progress.advance(0)
                continue
            if error is not None:
                raise error
            flight.waiting -= 1
            if data is not None:
                flight.buffers[read][number] = data
            if not flight.waiting and data is not None:
                pieces = landed(flight.task, flight.buffers)
                flight.buffers = []
                flight.waiting = len(pieces)
                for piece in pieces:
                    decoding.add(submit(partial(_decode, flight, piece, events)))
            elif not flight.waiting:
                under_way.discard(flight)
                budget.give(flight.nbytes)
                decoding = {future for future in decoding if not future.done()}
                progress.advance()
    finally:
        given_up.set()
        for flight in under_way:
            budget.give(flight.nbytes)
        for future in decoding:
            future.cancel()
        wait(decoding)  # nobody writes into an output that was given up


def _taken(task: Task, budget: _Budget, must: bool) -> _Flight | None:
    flight = _Flight(task)
    return flight if budget.take(flight.nbytes, must) else None


def _launch(
    plan: Plan,
    flight: _Flight,
    events: SimpleQueue[_Event],
    names: Sequence[str | None],
    given_up: threading.Event,
) -> None:
    from intarsia.io import remote_pool  # its client takes its time to import

    for index, read in enumerate(flight.task):
        for number in range(len(read.ranges)):
            remote_pool.submit(
                partial(_request, plan, flight, index, number, events, names, given_up)
            )


def _request(
    plan: Plan,
    flight: _Flight,
    index: int,
    number: int,
    events: SimpleQueue[_Event],
    names: Sequence[str | None],
    given_up: threading.Event,
) -> None:
    """Read one range, in a waiting thread."""
    if given_up.is_set():
        return
    read = flight.task[index]
    try:
        source = plan.sources[read.source]
        (data,) = fetcher_for(source).read(source, read.ranges[number : number + 1])
    except SourceError as error:
        where = located(plan, read.members[number], names, error)
        where.__cause__ = error.__cause__
        events.put((flight, index, number, None, where))
    except BaseException as error:  # noqa: BLE001 - raised by who asked
        events.put((flight, index, number, None, error))
    else:
        events.put((flight, index, number, data, None))


def _decode(flight: _Flight, piece: Callable[[], None], events: SimpleQueue[_Event]) -> None:
    try:
        piece()
    except BaseException as error:  # noqa: BLE001 - raised by who asked
        events.put((flight, 0, 0, None, error))
    else:
        events.put((flight, 0, 0, None, None))


def located(
    plan: Plan,
    members: npt.NDArray[Any],
    names: Sequence[str | None],
    error: SourceError,
) -> SourceError:
    """The error with the array and the first chunk that lacks its bytes."""
    first = int(members[0])
    part = plan.parts[int(plan.part[first])]
    _, chunk = locate(part, int(plan.touch[first]))
    return error.located(array=names[part.array], chunk=chunk)
