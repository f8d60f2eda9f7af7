"""Loading what is behind a network: many requests under way, as few as can be, in every setting."""

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
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from obstore.store import MemoryStore

from intarsia.array import VirtualArray, load_together
from intarsia.encoding import Codec, Encoding
from intarsia.engine import flight
from intarsia.engine.plan import plans
from intarsia.errors import ChunkError, SourceChanged, SourceError
from intarsia.io import remote_pool
from intarsia.io.access import access_of
from intarsia.io.fetch import observe
from intarsia.io.paths import split_place
from intarsia.references import References, Source, Sources
from tests.algebra import lay_out
from tests.io.http_server import NOW, Answer, Request, Server

ROOT = Path(__file__).parents[2]

forking = pytest.mark.filterwarnings("ignore:.*multi-?threaded.*:DeprecationWarning")


def put(server: Server, name: str, values: np.ndarray, rows: int = 1, gap: int = 0) -> VirtualArray:
    """Values in chunks of some rows, compressed, with gaps between them."""
    data = bytearray(b"head")
    offsets, lengths = [], []
    for begin in range(0, len(values), rows):
        raw = zlib.compress(values[begin : begin + rows].tobytes(), 1)
        offsets.append(len(data))
        lengths.append(len(raw))
        data += raw + b"-" * gap
    url = server.put(name, bytes(data))
    source = Source(*split_place(url), len(data), NOW * 10**9, server.objects[f"/{name}"].etag)
    encoding = Encoding((Codec.make("zlib"),), values.dtype)
    return VirtualArray.from_source(
        Sources.of([source]),
        0,
        values.shape,
        (rows, *values.shape[1:]),
        encoding,
        np.zeros((), encoding.parameters),
        References.dense(np.array(offsets, np.uint64), np.array(lengths, np.uint64)),
        name="v",
    )


def many(
    server: Server, count: int, shape: tuple[int, int] = (20, 30), gap: int = 0
) -> tuple[VirtualArray, np.ndarray]:
    """One array of many sources."""
    values = [
        np.arange(shape[0] * shape[1], dtype="<i4").reshape(shape) + 10_000 * number
        for number in range(count)
    ]
    arrays = [put(server, f"{n}.bin", value, gap=gap) for n, value in enumerate(values)]
    return np.concatenate(arrays), np.concatenate(values)


def test_ten_thousand_chunks_are_a_request_for_each_file(server: Server) -> None:
    """The server counts; so does the plan."""
    array, values = many(server, 100, (100, 8), gap=100)
    (plan,) = plans([array.segments])
    assert plan.chunks == 10_000
    with observe() as reads:
        np.testing.assert_array_equal(np.asarray(array), values)
    assert len(server.requests) == reads.requests == plan.requests == 100
    assert reads.nbytes == plan.nbytes
    assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize("gap", [0, 5_000, 70_000])
def test_no_more_requests_than_ranges(server: Server, gap: int) -> None:
    array, values = many(server, 5, gap=gap)
    keys = [slice(None), slice(None, None, 3), (slice(None, None, -1), slice(3, 5)), [0, 57, 99]]
    for key in keys:
        part = array[key]
        planned = sum(plan.requests for plan in plans([part.segments]))
        server.requests.clear()
        np.testing.assert_array_equal(np.asarray(part), values[key])
        assert len(server.requests) == planned <= (5 if gap < 4_096 else 100)


def test_many_requests_are_under_way(server: Server) -> None:
    """However few the cores."""
    array, values = many(server, 128)
    server.latency = 0.1
    start = time.monotonic()
    np.testing.assert_array_equal(np.asarray(array), values)
    took = time.monotonic() - start
    assert server.most == remote_pool.IN_FLIGHT
    assert took < 2, "one after the other they take 13 seconds"


def test_local_and_remote_together(server: Server, tmp_path: Path) -> None:
    there, values = many(server, 3)
    here, others = lay_out(tmp_path / "a", values[:40] * 2, (7, 9), zlevel=1)
    mixed = np.concatenate([here, there, here[::-1]])
    expected = np.concatenate([others, values, others[::-1]])
    np.testing.assert_array_equal(np.asarray(mixed), expected)
    loaded = load_together([there, here, mixed])
    for found, wanted in zip(loaded, (values, others, expected), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_large_chunks_that_pack_well(server: Server) -> None:
    """One request; decoded in pieces by several threads."""
    values = np.repeat(np.arange(12, dtype="<u1"), 3_000_000).reshape(12, 3_000_000)
    array = put(server, "a.bin", values)
    assert np.array_equal(np.asarray(array[::-1]), values[::-1])
    assert len(server.requests) == 1


def test_bytes_under_way_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    array, values = many(server, 30)
    monkeypatch.setattr("intarsia.engine.plan.TASK_COST", 1)  # a task for each source
    monkeypatch.setattr(flight, "MAX_BYTES", 10_000)
    budget = flight._budget
    most = 0
    taking = flight._Budget.take

    def take(self: flight._Budget, nbytes: int, must: bool) -> bool:
        nonlocal most
        taken = taking(self, nbytes, must)
        most = max(most, self.used)
        return taken

    monkeypatch.setattr(flight._Budget, "take", take)
    np.testing.assert_array_equal(np.asarray(array), values)
    assert 5_000 < most <= 10_000
    assert budget.used == 0
    monkeypatch.setattr(flight, "MAX_BYTES", 1)  # less than any task
    np.testing.assert_array_equal(np.asarray(array), values)
    assert budget.used == 0


def test_an_error_says_where(server: Server) -> None:
    array, _ = many(server, 30)
    server.put("17.bin", b"something else")
    with pytest.raises(SourceChanged) as error:
        np.asarray(array)
    assert error.value.url == server.url + "17.bin"
    assert error.value.array == "v"
    assert error.value.chunk == (0, 0)
    assert flight._budget.used == 0


def test_bytes_that_do_not_decode(server: Server) -> None:
    array, values = many(server, 3)
    stored = server.objects["/1.bin"]
    stored.data = stored.data[:30] + b"\0" * 50 + stored.data[80:]
    with pytest.raises(ChunkError) as error:
        np.asarray(array)
    assert error.value.url == server.url + "1.bin"
    np.testing.assert_array_equal(np.asarray(array[:20]), values[:20])
    assert flight._budget.used == 0


def test_what_has_not_begun_does_not_begin(server: Server) -> None:
    """After an error nothing more is asked for."""
    array, _ = many(server, 400)

    def fault(request: Request, answer: Answer) -> Answer:
        answer.delay = 0.0 if request.path == "/0.bin" else 0.2
        return Answer(404, {}) if request.path == "/0.bin" else answer

    server.fault = fault
    with pytest.raises(SourceError):
        np.asarray(array)
    time.sleep(0.5)
    assert len(server.requests) <= 2 * remote_pool.IN_FLIGHT


# -- settings ------------------------------------------------------------------------------------


def test_many_threads(server: Server) -> None:
    array, values = many(server, 6)
    server.latency = 0.01

    def run(number: int) -> bool:
        part = slice(number % 7, None, 1 + number % 3)
        np.testing.assert_array_equal(np.asarray(array[part]), values[part])
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(40)))


def test_in_a_running_event_loop(server: Server) -> None:
    array, values = many(server, 6)
    dataset = xr.Dataset({"x": (("t", "y"), array)})

    async def run() -> None:
        np.testing.assert_array_equal(dataset.x[::2].values, values[::2])
        loaded = await dataset.isel(t=slice(0, 9)).load_async()
        np.testing.assert_array_equal(loaded.x.values, values[:9])

    asyncio.run(run())


def test_with_dask(server: Server) -> None:
    array, values = many(server, 6)
    dataset = xr.Dataset({"x": (("t", "y"), array)}).chunk(t=25)
    np.testing.assert_array_equal(dataset.x.values, values)


@forking
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_other_processes(server: Server, method: str) -> None:
    """Also those that are forked when the client's threads are there, which do not come along."""
    array, values = many(server, 6)
    np.asarray(array)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        result = pool.submit(np.asarray, array[::-1]).result(60)
        again = pool.submit(np.asarray, array[3:50:7]).result(60)
        np.testing.assert_array_equal(result, values[::-1])
        np.testing.assert_array_equal(again, values[3:50:7])
        server.put("3.bin", b"something else")
        with pytest.raises(SourceChanged) as error:
            pool.submit(np.asarray, array).result(60)
        assert error.value.url == server.url + "3.bin"


@forking
def test_fork_while_loading(server: Server) -> None:
    array, values = many(server, 6)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            np.asarray(array)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        child = os.fork()
        if child == 0:  # no assertion may leave this branch
            signal.alarm(30)
            right = np.array_equal(np.asarray(array), values)
            os._exit(0 if right else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_interrupted(server: Server) -> None:
    """Ctrl-C ends a load at once, and the next load works."""
    array, values = many(server, 300)
    server.latency = 0.5
    timer = threading.Timer(0.7, signal.raise_signal, [signal.SIGINT])
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        np.asarray(array)
    assert time.monotonic() - start < 1.5
    timer.join()
    time.sleep(0.6)
    assert len(server.requests) <= 3 * remote_pool.IN_FLIGHT
    server.latency = 0.0
    np.testing.assert_array_equal(np.asarray(array[:60]), values[:60])


@pytest.mark.parametrize("warm", ["", "np.asarray(array)"])
def test_loads_while_the_interpreter_ends(server: Server, tmp_path: Path, warm: str) -> None:
    array, values = many(server, 6)
    (tmp_path / "array").write_bytes(pickle.dumps(array))
    script = f"""
        import atexit, pickle, sys
        import numpy as np
        array = pickle.loads(open(sys.argv[1], "rb").read())
        {warm}
        atexit.register(lambda: print(int(np.asarray(array).sum())))
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "array")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert told.stdout.strip() == str(int(values.sum())), told.stderr
    assert told.returncode == 0


def test_tokens_tell_sources_apart(server: Server) -> None:
    """Also by what is shown to nobody: a query, and how they are reached."""
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    array = put(server, "a.bin", values)
    (source,) = array.segments.sources

    def token(**changes: Any) -> Any:
        sources = Sources.of([source._replace(**changes)])
        encoding = Encoding((), values.dtype)
        row = np.zeros((), encoding.parameters)
        made = VirtualArray.from_source(
            sources, 0, (3, 4), (3, 4), encoding, row, References.contiguous(0, 48)
        )
        return made.__dask_tokenize__()

    tokens = [
        token(),
        token(key="a.bin?name=x"),
        token(key="a.bin?name=y"),
        token(access=access_of(server.url, {"headers": {"X-Who": "me"}})),
        token(access=access_of(server.url, {"headers": {"X-Who": "you"}})),
        token(access=access_of(server.url, None, {server.url: MemoryStore()})),
    ]
    assert len(set(tokens)) == len(tokens)
    assert token(key="a.bin?name=x") == tokens[1]
