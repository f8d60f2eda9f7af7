"""Runs contenders side by side: each in a process of its own, taking turns.

What is compared is CPU time (user and system, of the process with its threads and children), which
a busy machine blurs less than time on the wall; and of the rounds, the best. Contenders that take
turns see the same machine. Everything a contender prepares (imports, references, open files) stays
outside of what is measured, and what it read is compared bit for bit with what the others read.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PATIENCE = 900
"""Seconds after which a contender is given up."""


class Answer(NamedTuple):
    """What a timed call did.

    Parameters
    ----------
    units
        How many things it worked through: chunks, files, selections.
    values
        Arrays (or names and arrays) to be compared with those of other contenders, or None.
    facts
        Further numbers to tell, by name.
    """

    units: int
    values: Any = None
    facts: dict[str, float] | None = None


class Run:
    """A contender that is ready: called with the number of the round, it does the work."""

    def __call__(self, number: int) -> Answer:
        raise NotImplementedError

    def finish(self) -> dict[str, float]:
        """Facts that can only be had once no more rounds follow."""
        return {}


@dataclass(frozen=True)
class Contender:
    """Someone who does the work.

    Parameters
    ----------
    name
        As the table shows it.
    prepare
        An importable function that gets ready, in the contender's own process, and returns what is
        timed.
    arguments
        For `prepare`.
    rounds
        How often it runs at most: slow ones less often.
    needs
        Modules without which it is left out.
    """

    name: str
    prepare: Callable[..., Run | Callable[[int], Answer]]
    arguments: tuple[Any, ...] = ()
    rounds: int = 1000
    needs: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Modules that it needs and that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


class Sample(NamedTuple):
    """One timed call."""

    cpu: float
    wall: float
    reads: int
    read_bytes: int
    peak_bytes: int


@dataclass
class Result:
    """All that is known of a contender.

    Parameters
    ----------
    name
        Its name.
    samples
        One per round.
    units
        Things done in a round.
    digest
        Of the values of the first round, or None.
    facts
        Further numbers.
    problem
        Why it has no samples, or "".
    """

    name: str
    samples: list[Sample] = field(default_factory=list)
    units: int = 0
    digest: str | None = None
    facts: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    def best(self, what: str) -> float:
        """The least of the rounds."""
        return min(getattr(sample, what) for sample in self.samples)

    @property
    def busy(self) -> float:
        """Cores that were busy on average, in the best round."""
        return max(sample.cpu / sample.wall for sample in self.samples)

    @property
    def cpu(self) -> float:
        """Least seconds of CPU per unit."""
        return self.best("cpu") / max(self.units, 1)


def measure(
    contenders: Sequence[Contender], rounds: int, *, apart: bool = True, say: Callable[[str], None]
) -> list[Result]:
    """Let contenders take turns.

    Parameters
    ----------
    contenders
        Who takes part.
    rounds
        How often each runs, unless it says less.
    apart
        Each in its own process. Where false (for tests), all in this one.
    say
        Told what goes on.

    Returns
    -------
    list of Result
        In the order of `contenders`.
    """
    results = [Result(contender.name) for contender in contenders]
    seats: list[_Seat | None] = []
    for contender, result in zip(contenders, results, strict=True):
        missing = contender.missing()
        if missing:
            result.problem = f"not installed: {', '.join(missing)}"
            seats.append(None)
            continue
        say(f"{contender.name}: getting ready")
        seats.append((_Process if apart else _Here)(contender, result))
    try:
        for number in range(rounds):
            for contender, seat, result in zip(contenders, seats, results, strict=True):
                if seat is not None and not result.problem and number < contender.rounds:
                    say(f"{contender.name}: round {number + 1}")
                    seat.run(number)
        for seat in seats:
            if seat is not None and not seat.result.problem:
                seat.finish()
    finally:
        for seat in seats:
            if seat is not None:
                seat.close()
    return results


class _Seat:
    """Where a contender runs."""

    def __init__(self, contender: Contender, result: Result) -> None:
        self.contender = contender
        self.result = result

    def run(self, number: int) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything."""

    def take(self, sample: Sample, answer: Answer, digest: str | None) -> None:
        self.result.samples.append(sample)
        self.result.units = answer.units
        self.result.facts.update(answer.facts or {})
        if len(self.result.samples) == 1:
            self.result.digest = digest


class _Here(_Seat):
    """This process: nothing is isolated, but nothing has to start either."""

    def __init__(self, contender: Contender, result: Result) -> None:
        super().__init__(contender, result)
        with quiet():
            self.work = contender.prepare(*contender.arguments)

    def run(self, number: int) -> None:
        self.take(*_timed(self.work, number))

    def finish(self) -> None:
        if isinstance(self.work, Run):
            self.result.facts.update(self.work.finish())


class _Process(_Seat):
    """A process of its own."""

    def __init__(self, contender: Contender, result: Result) -> None:
        super().__init__(contender, result)
        context = _context()
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, contender.prepare, contender.arguments)
        self.process = context.Process(target=_serve, args=arguments)
        self.process.start()
        theirs.close()
        self._ask(None)

    def _ask(self, message: Any) -> Any:
        """Send a message where there is one, and wait for what comes back."""
        try:
            if message is not None:
                self.pipe.send(message)
            if not self.pipe.poll(PATIENCE):
                self.result.problem = f"no answer in {PATIENCE} s"
                return None
            answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            self.result.problem = f"its process ended ({error!r})"
            return None
        if isinstance(answer, str):
            self.result.problem = answer
            return None
        return answer

    def run(self, number: int) -> None:
        answer = self._ask(number)
        if answer is not None:
            self.take(*answer)

    def finish(self) -> None:
        self.result.facts.update(self._ask("finish") or {})

    def close(self) -> None:
        with suppress(OSError):
            self.pipe.send("end")
        self.process.join(10)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(10)
        self.pipe.close()


def _context() -> Any:
    """Processes that begin with the libraries which all share already imported, where they can."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.preload"])
    return context


def _serve(pipe: Connection, prepare: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Get ready, then do as told."""
    try:
        with quiet():
            work = prepare(*arguments)
        pipe.send(())
        while True:
            message = pipe.recv()
            if message == "end":
                return
            if message == "finish":
                pipe.send(work.finish() if isinstance(work, Run) else {})
                continue
            sample, answer, found = _timed(work, message)
            pipe.send((sample, answer._replace(values=None), found))
    except EOFError:
        return  # nobody asks any more
    except Exception as error:  # noqa: BLE001  told to the one who asked
        pipe.send(f"{type(error).__name__}: {error}")


def _timed(work: Callable[[int], Answer], number: int) -> tuple[Sample, Answer, str | None]:
    gc.collect()
    reset_peak()
    with quiet():
        held = resident("VmRSS")
        reads, nbytes = reads_so_far()
        cpu, wall = cpu_so_far(), time.perf_counter()
        answer = work(number)
        cpu, wall = cpu_so_far() - cpu, time.perf_counter() - wall
        done, got = reads_so_far()
        peak = max(resident("VmHWM") - held, 0)
        own_reads, own_bytes = own_cost()
    sample = Sample(
        cpu, wall, max(done - reads - own_reads, 0), max(got - nbytes - own_bytes, 0), peak
    )
    return sample, answer, None if answer.values is None else digest(answer.values)


class quiet(warnings.catch_warnings):
    """Whatever peers warn of is not the point here."""

    def __init__(self) -> None:
        super().__init__()

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")


def cpu_so_far() -> float:
    """Seconds of CPU of this process, all its threads and its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def reads_so_far() -> tuple[int, int]:
    """System calls that read, and bytes they returned (cached ones too), whoever made them.

    (0, 0) where the system does not tell.
    """
    try:
        text = Path("/proc/self/io").read_text("ascii")
    except OSError:
        return 0, 0
    found = dict(line.split(": ") for line in text.splitlines())
    return int(found["syscr"]), int(found["rchar"])


def own_cost() -> tuple[int, int]:
    """What it costs to ask `reads_so_far` and `resident` once."""
    first = reads_so_far()
    second = reads_so_far()
    return second[0] - first[0], second[1] - first[1]


def resident(what: str) -> int:
    """Bytes of memory: ``"VmRSS"`` now, ``"VmHWM"`` at most since `reset_peak`; else 0."""
    try:
        text = Path("/proc/self/status").read_text("ascii")
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(what)), 0
    )


def reset_peak() -> None:
    """Begin to look for the highest use of memory anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def digest(values: Any) -> str:
    """Of an array, or of a mapping of names to arrays: shape, type and bytes."""
    found = hashlib.blake2b(digest_size=16)
    items = values.items() if isinstance(values, dict) else [("", values)]
    for name, value in sorted(items):
        array = np.ascontiguousarray(value)
        found.update(f"{name} {np.shape(value)} {array.dtype.newbyteorder('=')}".encode())
        found.update(array.astype(array.dtype.newbyteorder("="), copy=False).tobytes())
    return found.hexdigest()
