"""Many damaged stores, read by processes that may die of it.

``python -m tests.store.hostile.campaign COUNT [SEED]`` prints what became of them.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.store.hostile import corpus
from tests.store.hostile.crafted import CRAFTED

SILENCE = 60
"""Seconds after which a process that says nothing is taken to hang; it tells where before that."""

type Outcome = dict[str, Any]


def run(
    count: int, seed: int, folder: Path, *, workers: int = 2, first: int = 0
) -> Iterator[Outcome]:
    """Outcomes of damaged stores of the numbers from `first` to `count`, as they come."""
    home = corpus.build(folder / "sound")
    waiting: queue.Queue[Outcome | None] = queue.Queue()
    threads = [
        threading.Thread(
            target=_follow,
            args=(home, folder / f"work{n}", seed, (first + n, count, workers), waiting),
        )
        for n in range(workers)
    ]
    for thread in threads:
        thread.start()
    left = workers
    while left:
        found = waiting.get()
        if found is None:
            left -= 1
        else:
            yield found
    for thread in threads:
        thread.join()


def _follow(
    home: Path,
    folder: Path,
    seed: int,
    numbers: tuple[int, int, int],
    waiting: queue.Queue[Outcome | None],
) -> None:
    """Run a process until it is through, and another where it dies."""
    start, stop, step = numbers
    try:
        place = corpus.copied(home, folder)
        while start < stop:
            begun: int | None = None
            for line in _lines(place, seed, (start, stop, step)):
                told = json.loads(line)
                if "begin" in told:
                    begun = told["begin"]
                else:
                    waiting.put(told)
                    begun, start = None, told["number"] + step
            if begun is not None:
                waiting.put(_dead(begun, "the process died, or hangs"))
                start = begun + step
            elif start < stop:
                waiting.put(_dead(start, "the process does not start"))
                return
    finally:
        waiting.put(None)


def _dead(number: int, fault: str) -> Outcome:
    outcome = {"number": number, "store": "?", "kind": "?", "sealed": True, "result": "died"}
    return outcome | {"errors": [], "faults": [fault], "seconds": 0, "nbytes": 0}


def _lines(place: Path, seed: int, numbers: tuple[int, int, int]) -> Iterator[str]:
    command = [sys.executable, "-W", "error", "-m", "tests.store.hostile.worker", str(place)]
    environment = os.environ | {"PYTHONMALLOC": "malloc", "PYTHONPATH": os.pathsep.join(sys.path)}
    command += [str(seed), *map(str, numbers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        watch = _Watch(process)
        try:
            for line in process.stdout:
                watch.alive()
                yield line
        finally:
            watch.stop()
        if process.wait() != 0:
            print(f"process ended with {process.returncode}", file=sys.stderr)


class _Watch:
    """Kills a process that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._timer: threading.Timer | None = None
        self.alive()

    def alive(self) -> None:
        self.stop()
        self._timer = threading.Timer(SILENCE, self._process.kill)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder in memory, where there is such: thousands of stores are written and removed."""
    memory = "/dev/shm"
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


def table(outcomes: Iterable[Outcome]) -> str:
    """How many ended how, by the kind of damage."""
    results: dict[tuple[str, bool], Counter[str]] = {}
    for outcome in outcomes:
        family = outcome["kind"].partition(":")[0]
        results.setdefault((family, outcome["sealed"]), Counter())[
            "FAULT" if outcome["faults"] else outcome["result"]
        ] += 1
    columns = ["same", "store", "source", "chunk", "unsupported", "other", "FAULT"]
    lines = [f"{'damage':16} {'checksums':9} " + " ".join(f"{name:>11}" for name in columns)]
    total: Counter[str] = Counter()
    for (family, sealed), counts in sorted(results.items()):
        total += counts
        numbers = " ".join(f"{counts[name]:>11}" for name in columns)
        lines.append(f"{family:16} {'right' if sealed else 'wrong':9} {numbers}")
    numbers = " ".join(f"{total[name]:>11}" for name in columns)
    lines.append(f"{'all':16} {total.total():<9} {numbers}")
    return "\n".join(lines)


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    outcomes: list[Outcome] = []
    seen: Counter[str] = Counter()
    with workplace() as folder:
        for outcome in run(count, seed, folder, first=-len(CRAFTED)):
            outcomes.append(outcome)
            for fault in outcome["faults"]:
                seen[fault[:60]] += 1
                if seen[fault[:60]] <= 2:
                    print(outcome["number"], outcome["store"], outcome["kind"], fault, flush=True)
    print(table(outcomes))
    print("slowest", sorted(outcome["seconds"] for outcome in outcomes)[-5:])
    print("most memory", sorted(outcome["nbytes"] >> 20 for outcome in outcomes)[-5:])
    sys.exit(any(outcome["faults"] for outcome in outcomes))


if __name__ == "__main__":
    main()
