"""Damages stores and reads them, one after the other, in a process that may die of it.

Run as ``python -m tests.store.hostile.worker FOLDER SEED START STOP STEP``. For each number, a line
of JSON is written before and another after it, so that who started this knows what was last.
Negative numbers are those of stores that were thought of (see `tests.store.hostile.crafted`).
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

# before imports are watched: what is too damaged to be a store is scanned as a file
import intarsia.io.remote
import intarsia.scan.hdf5
import intarsia.scan.netcdf3
import intarsia.scan.zarr.scanning  # noqa: F401
from intarsia.errors import IntarsiaError
from intarsia.io.fetch import observe
from intarsia.store.objects import Zipped, open_objects
from intarsia.store.read import read
from tests.store.hostile import corpus, crafted
from tests.store.hostile.basics import Damaged, Objects
from tests.store.hostile.crafted import CRAFTED, made
from tests.store.hostile.looking import (
    STORE,
    Found,
    Refusal,
    Value,
    look,
    look_as_xarray,
    look_as_zarr,
    poisoned,
)
from tests.store.hostile.mutations import damage
from tests.store.hostile.zips import packed

CPU_SECONDS = 2.0
"""Time that reading all of a damaged store may take, of the processor; ten times that in all."""

MEMORY = 200 << 20
"""Memory that it may take, beyond what the process has."""

ZARR = 6
"""Every so many stores are read through zarr-python, too, and as many by xarray."""

ADDRESSES = 6 << 30
"""All memory that the process may ask for."""


class Late(BaseException):
    """Reading takes too long."""


def _late(number: int, frame: FrameType | None) -> None:
    raise Late(f"signal {number}")


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise `Late` in what takes too long."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def peak_memory(*, reset: bool = False) -> int:
    """Most memory that the process has had, since the last reset where the system has such."""
    if reset:
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return 0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


# -- what is done beside reading -------------------------------------------------------------------

HARMLESS = {
    *("object.__getattr__", "object.__setattr__", "sys._getframe", "builtins.id", "time.sleep"),
    *("_thread.start_new_thread", "_thread.start_joinable_thread", "sys.excepthook"),
    *("threading.Thread.start", "gc.get_objects", "cpython.run_stdin", "sys.unraisablehook"),
}


class Auditor:
    """Notes everything that a reader has no business with.

    Parameters
    ----------
    roots
        Folders and files in which a store may open files.
    """

    def __init__(self, roots: list[str]) -> None:
        self.roots = tuple(os.path.realpath(root) for root in roots)
        self.active = False
        self.faults: list[str] = []
        self.outside: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active or event in HARMLESS:
            return
        if event == "code.__new__" or (event == "compile" and args[0] == b"_getframe()"):
            return  # what Cython makes of errors
        if event in ("open", "os.listdir", "os.scandir"):
            path = args[0]
            if isinstance(path, int) or path is None:
                return
            flags = args[2] if event == "open" and len(args) > 2 else 0
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.faults.append(f"{event} for writing {path!r}")
            try:
                real = os.path.realpath(os.fsdecode(path))
            except ValueError:
                return  # a NUL: the system would refuse it
            if not any(real == root or real.startswith(f"{root}/") for root in self.roots):
                self.outside.append(real)
            return
        self.faults.append(f"{event} {args!r}"[:200])

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.faults, self.outside = [], []
        self.active = True
        try:
            yield
        finally:
            self.active = False


@dataclass
class Outcome:
    """What became of one damaged store.

    Parameters
    ----------
    number, store, kind, sealed
        Which it was.
    result
        ``same``, ``store`` (an error of the store's), ``source``, ``chunk``, ``unsupported``, or
        ``other`` values.
    errors, text
        Kinds of the errors, and what the last one says.
    faults
        What must not be.
    seconds, nbytes
        Time and memory it took.
    """

    number: int
    store: str
    kind: str
    sealed: bool
    result: str = "same"
    errors: list[str] = field(default_factory=list[str])
    text: str = ""
    faults: list[str] = field(default_factory=list[str])
    seconds: float = 0
    nbytes: int = 0


GROUPS = {
    "store": ("store", "not-a-store", "corrupt-store", "unsafe-store"),
    "source": ("source-missing", "source-changed", "short-read", "source-unreadable", "not-a-file"),
    "chunk": ("corrupt-chunk", "checksum-mismatch", "wrong-length"),
    "unsupported": ("unsupported-variable", "unsupported"),
}
"""Kinds of errors that a damaged store may have, and what they are counted as."""


class Bench:
    """Damaged stores in their places, and what is found in them.

    Parameters
    ----------
    home
        Folder with the sound stores.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.objects: dict[str, Objects] = {}
        self.sound: dict[str, Found] = {}
        for name in corpus.STORES:
            place = open_objects(str(home / name))
            # in the order of a zip file, where it is one
            names = list(place._directory[1]) if isinstance(place, Zipped) else place.names()
            self.objects[name] = {each: place.get(each) for each in names}
            first = look(str(home / name))
            assert look(str(home / name)) == first
            assert all(isinstance(value, Value) for value in first.values()), first
            opened = look_as_xarray(str(home / name))
            assert all(isinstance(value, Value) for value in opened.values()), opened
            shown, plain = look_as_zarr(str(home / name))
            assert shown == plain, name
            self.sound[name] = first
        roots = [str(home / "x.intarsia"), str(home / "x.zip"), str(home / "in")]
        self.auditor = Auditor([*roots, str(home.parent / "out")])

    def run(self, number: int, seed: int) -> Outcome:
        """Damage a store, read it, and judge."""
        draw = random.Random(f"{seed}/{number}")
        name = draw.choice(corpus.STORES)
        other = draw.choice([each for each in corpus.STORES if each != name])
        zipped = name.endswith(".zip")
        damaged = damage(number, seed, self.objects[name], self.objects[other], zipped=zipped)
        return self.judge(number, name, damaged)

    def craft(self, number: int) -> Outcome:
        """Make the store that was thought of as this number, read it, and judge."""
        name = list(CRAFTED)[number]
        what, base = CRAFTED[name], "tables.intarsia"
        damaged = made(name, self.objects[base])
        outcome = self.judge(-1 - number, base, damaged, what.seconds, what.nbytes)
        if outcome.result not in what.results or not re.search(what.reason, outcome.text):
            outcome.faults.append(f"{outcome.result}: {outcome.text[:200]}")
        return outcome

    def judge(
        self,
        number: int,
        name: str,
        damaged: Damaged,
        seconds: float = CPU_SECONDS,
        nbytes: int = MEMORY,
    ) -> Outcome:
        """Read a damaged store, twice where it has to be known what memory it shows, and judge."""
        path = self.put(damaged, zipped=name.endswith(".zip"))
        outcome = Outcome(number, name, damaged.kind, damaged.sealed)
        before = peak_memory(reset=True)
        began = time.process_time()
        first: Found = {}
        second: Found = {}
        try:
            with observe() as reads, self.auditor.watching():
                with bounded(seconds), poisoned(0x5A):
                    first = look(path)
                if damaged.sealed:
                    with bounded(seconds), poisoned(0xA5):
                        second = look(path)
                if number % ZARR == 0 or number < 0:
                    with bounded(2 * seconds):
                        self._compare_zarr(outcome, *look_as_zarr(path))
                if number % ZARR == 1 or number < 0:
                    with bounded(2 * seconds):
                        for place, value in look_as_xarray(path).items():
                            if isinstance(value, Refusal) and value.kind is None:
                                reason = f"xarray, {place!r}: {value.error}: {value.text}"
                                outcome.faults.append(reason)
        except Late as error:
            outcome.faults.append(f"late: {error}")
        outcome.seconds = (time.process_time() - began) / (1 + damaged.sealed)
        outcome.nbytes = peak_memory() - before
        if outcome.nbytes > nbytes:
            outcome.faults.append(f"memory: {outcome.nbytes >> 20} MB")
        outcome.faults += self.auditor.faults
        # a container may be anywhere, but what the store does not know there is not read
        seen = {os.path.realpath(url) for url, _, _ in reads.ranges}
        places = self._places(path)
        outcome.faults += [
            f"{'read' if outside in seen else 'opened'} {outside}"
            for outside in self.auditor.outside
            if outside in seen or not any(outside.startswith(place) for place in places)
        ]
        for place in first.keys() & second.keys():
            one, two = first.get(place), second.get(place)
            # of several errors, the one of the thread that is first is told
            if one != two and not (isinstance(one, Refusal) and isinstance(two, Refusal)):
                outcome.faults.append(f"not the same twice: {place!r} {one} {two}")
        self._compare(outcome, self.sound[name], first)
        return outcome

    def _places(self, path: str) -> list[str]:
        """Where the containers of a store are."""
        try:
            places = read(path).places
            return [os.path.join(os.path.realpath(place), "") for place in places.locations]
        except IntarsiaError:
            return []

    def _compare(self, outcome: Outcome, sound: Found, found: Found) -> None:
        errors = {place: found[place] for place in found if isinstance(found[place], Refusal)}
        for place, error in errors.items():
            assert isinstance(error, Refusal)
            groups = [group for group, kinds in GROUPS.items() if error.kind in kinds]
            if not groups:
                outcome.faults.append(f"{place!r}: {error.error}: {error.text}")
            elif not outcome.sealed and groups != ["store"]:
                outcome.faults.append(f"unsealed, but {place!r}: {error.error}: {error.text}")
            outcome.errors += [str(error.kind)]
            outcome.text = error.text
            outcome.result = (groups or ["fault"])[0]
        wrong = [
            place
            for place, value in found.items()
            if isinstance(value, Value) and value != sound.get(place)
        ]
        if wrong and not outcome.sealed:
            outcome.faults.append(f"wrong values without an error: {wrong[0]!r}")
        if STORE not in errors and not outcome.faults and not outcome.sealed:
            lacking = sound.keys() - found.keys()
            unexplained = [p for p in lacking if p.partition("\0")[0] not in errors]
            if unexplained:
                outcome.faults.append(f"missing without an error: {unexplained[0]!r}")
        if wrong and not errors:
            outcome.result = "other"

    def _compare_zarr(self, outcome: Outcome, shown: Found, plain: Found) -> None:
        for place, value in shown.items():
            if isinstance(value, Refusal):
                if value.kind is None:
                    outcome.faults.append(f"zarr, {place!r}: {value.error}: {value.text}")
            elif value != plain[place]:
                outcome.faults.append(f"zarr gives other values: {place!r}")

    def put(self, damaged: Damaged, *, zipped: bool) -> str:
        """Write a damaged store to its place."""
        folder, file = self.home / "x.intarsia", self.home / "x.zip"
        shutil.rmtree(folder, ignore_errors=True)
        file.unlink(missing_ok=True)
        if zipped and not damaged.special:
            file.write_bytes(packed(damaged.objects) if damaged.raw is None else damaged.raw)
            return str(file)
        for name, data in damaged.objects.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for name, (how, *more) in damaged.special.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if how == "link":
                target = more[0]
                if target.startswith(".."):
                    target = str(self.home.parent / "secret")
                path.symlink_to(target)
            elif how == "fifo":
                os.mkfifo(path)
            else:
                path.mkdir()
        return str(folder)


def prepare(folder: Path) -> Bench:
    """A bench in a folder of its own, in a process that is bounded."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _late)
    signal.signal(signal.SIGALRM, _late)
    crafted.prepare(folder)
    threading.excepthook = lambda args: None
    return Bench(folder)


def main() -> None:
    folder, *numbers = sys.argv[1:]
    seed, start, stop, step = map(int, numbers)
    faulthandler.enable()
    with corpus.small_parts():
        bench = prepare(Path(folder))
        for number in range(start, stop, step):
            print(json.dumps({"begin": number}), flush=True)
            faulthandler.dump_traceback_later(50)
            outcome = bench.run(number, seed) if number >= 0 else bench.craft(-1 - number)
            print(json.dumps(asdict(outcome)), flush=True)


if __name__ == "__main__":
    main()
