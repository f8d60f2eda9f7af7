"""Loading from many threads, in other processes, after forks, in event loops, interrupted."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from intarsia.array import VirtualArray, load_together
from intarsia.engine import pool as decoding
from intarsia.errors import SourceMissing
from intarsia.io.fetch import LocalFetcher, observe
from tests.algebra import lay_out

ROOT = Path(__file__).parents[2]

forking = pytest.mark.filterwarnings("ignore:.*multi-?threaded.*:DeprecationWarning")


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[VirtualArray, np.ndarray]:
    """Several files, so that a load is several tasks."""
    folder = tmp_path_factory.mktemp("concurrency")
    parts, values = [], []
    for number in range(6):
        value = np.arange(60 * 40, dtype="<i4").reshape(60, 40) + 10_000 * number
        parts.append(lay_out(folder / f"{number}", value, (7, 9), zlevel=1)[0])
        values.append(value)
    return np.concatenate(parts), np.concatenate(values)


KEYS: list[Any] = [
    slice(None),
    slice(100, 300),
    (slice(None, None, -3), slice(5, 20)),
    ([0, 359, 7], slice(None)),
    (slice(50, 70), 3),
    (np.arange(0, 360, 11), np.arange(33) % 40),
]


def test_many_threads(laid_out: tuple[VirtualArray, np.ndarray]) -> None:
    """The same selection many times, and different ones, all at once."""
    array, values = laid_out
    selections = [array[key] for key in KEYS]
    start = threading.Barrier(8)

    def run(number: int) -> bool:
        start.wait()
        for turn in range(4):
            n = (number + turn) % len(KEYS) if number % 2 else 0
            np.testing.assert_array_equal(np.asarray(selections[n]), values[KEYS[n]])
            np.testing.assert_array_equal(np.asarray(array[KEYS[n]]), values[KEYS[n]])
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


def test_threads_build_while_others_load(laid_out: tuple[VirtualArray, np.ndarray]) -> None:
    array, values = laid_out
    dataset = xr.Dataset({"x": (("t", "y"), array)})

    def build(number: int) -> np.ndarray:
        part = xr.concat([dataset.isel(t=slice(number, None)), dataset], "t", data_vars="all")
        return part.isel(t=slice(None, None, 17)).x.values

    with ThreadPoolExecutor(8) as pool:
        for number, result in enumerate(pool.map(build, range(12))):
            expected = np.concatenate([values[number:], values])[::17]
            np.testing.assert_array_equal(result, expected)


def test_an_error_in_one_thread_is_its_own(
    laid_out: tuple[VirtualArray, np.ndarray], tmp_path: Path
) -> None:
    array, values = laid_out
    broken, _ = lay_out(tmp_path / "gone", np.arange(100, dtype="<i4").reshape(10, 10), (1, 10))
    (tmp_path / "gone").unlink()

    def run(number: int) -> bool:
        if number % 3 == 0:
            with pytest.raises(SourceMissing):
                load_together([array, broken])
        else:
            np.testing.assert_array_equal(np.asarray(array), values)
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(run, range(18)))


@forking
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_other_processes(laid_out: tuple[VirtualArray, np.ndarray], method: str) -> None:
    """A pickled array loads in processes of every kind, also after this one's pool was used."""
    array, values = laid_out
    np.asarray(array)  # there are threads now
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        result = pool.submit(np.asarray, array[::-1]).result()
        again = pool.submit(np.asarray, array[KEYS[3]]).result()
    np.testing.assert_array_equal(result, values[::-1])
    np.testing.assert_array_equal(again, values[KEYS[3]])


@forking
def test_fork_while_loading(laid_out: tuple[VirtualArray, np.ndarray]) -> None:
    """A child of a process whose threads are in the middle of things has locks of its own."""
    array, values = laid_out
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with observe():
                np.asarray(array[KEYS[1]])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            child = os.fork()
            if child == 0:  # no assertion may leave this branch
                signal.alarm(20)
                with observe() as reads:
                    right = np.array_equal(np.asarray(array), values)
                os._exit(0 if right and reads.requests else 1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_in_a_running_event_loop(laid_out: tuple[VirtualArray, np.ndarray]) -> None:
    """As in Jupyter: plain loads in coroutines, in threads of the loop, and xarray's own way."""
    array, values = laid_out
    dataset = xr.Dataset({"x": (("t", "y"), array), "y": ("y", np.arange(40))})

    async def run() -> None:
        np.testing.assert_array_equal(dataset.x.values, values)
        both = await asyncio.gather(
            asyncio.to_thread(np.asarray, array[::2]), asyncio.to_thread(dataset.compute)
        )
        np.testing.assert_array_equal(both[0], values[::2])
        np.testing.assert_array_equal(both[1].x.values, values)
        loaded = await dataset.isel(t=slice(0, 9)).load_async()
        assert isinstance(loaded.x.variable._data, np.ndarray)
        np.testing.assert_array_equal(loaded.x.values, values[:9])

    asyncio.run(run())


def test_interrupted(
    laid_out: tuple[VirtualArray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends a load at once, leaves nothing running, and the next load works."""
    array, values = laid_out
    reading = LocalFetcher.read
    slow = threading.Event()
    begun = 0

    def read(self: Any, source: Any, ranges: Any) -> Any:
        nonlocal begun
        begun += 1
        if slow.is_set():
            time.sleep(0.3)
        return reading(self, source, ranges)

    monkeypatch.setattr(LocalFetcher, "read", read)
    slow.set()
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        np.asarray(array)
    assert time.monotonic() - start < 5
    timer.join()
    after = begun
    time.sleep(0.1)
    assert begun == after < 6
    slow.clear()
    np.testing.assert_array_equal(np.asarray(array), values)


def test_loads_while_the_interpreter_ends(
    laid_out: tuple[VirtualArray, np.ndarray], tmp_path: Path
) -> None:
    """Also in functions called at exit, when no thread can be started any more."""
    (tmp_path / "array").write_bytes(pickle.dumps(laid_out[0]))
    script = """
        import atexit, pickle, sys
        import numpy as np
        array = pickle.loads(open(sys.argv[1], "rb").read())
        atexit.register(lambda: print(int(np.asarray(array).sum())))
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "array")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert told.stdout.strip() == str(int(laid_out[1].sum())), told.stderr


def test_the_pool_is_one(laid_out: tuple[VirtualArray, np.ndarray]) -> None:
    np.asarray(laid_out[0])
    pool = decoding._pool()
    np.asarray(laid_out[0])
    assert decoding._pool() is pool
    assert sum(thread.name.startswith("intarsia_") for thread in threading.enumerate()) <= max(
        2, os.process_cpu_count() or 2
    )
