"""The threads that wait for the network: what they do, and that nobody has to wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from intarsia.io.remote_pool import IN_FLIGHT, run_all, submit
from tests.io.http_server import Server, serving


def test_results_come_in_order() -> None:
    assert run_all([lambda n=n: n * n for n in range(1_000)]) == [n * n for n in range(1_000)]
    assert run_all([]) == []


def test_many_are_under_way_at_once_and_no_more() -> None:
    """All of as many as may be wait for each other."""
    barrier = threading.Barrier(IN_FLIGHT)
    assert len(run_all([lambda: barrier.wait(20)] * IN_FLIGHT)) == IN_FLIGHT
    names = {thread.name for thread in threading.enumerate() if "intarsia-io" in thread.name}
    assert len(names) == IN_FLIGHT
    assert run_all([lambda: threading.current_thread().name] * 200)[0] in names
    after = {thread.name for thread in threading.enumerate() if "intarsia-io" in thread.name}
    assert after == names


def test_who_is_one_of_them_does_not_wait_for_the_others() -> None:
    inner = [lambda: threading.current_thread().name] * 3
    for names in run_all([lambda: (threading.current_thread().name, *run_all(inner))] * 100):
        assert len(set(names)) == 1


def test_the_first_failure_is_raised_and_the_rest_given_up() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 3:
            raise KeyError(number)
        time.sleep(0.01)
        done.append(number)

    with pytest.raises(KeyError):
        run_all([lambda n=n: work(n) for n in range(5_000)])
    assert len(done) < 2_000


def test_what_was_cancelled_is_not_done() -> None:
    gate = threading.Event()
    busy = [submit(gate.wait) for _ in range(IN_FLIGHT)]
    waiting = submit(lambda: 1)
    assert waiting.cancel()
    gate.set()
    assert all(future.result() for future in busy)
    assert submit(lambda: 2).result() == 2


SCRIPT = """
import sys, intarsia
intarsia.open_mfdataset([sys.argv[1], sys.argv[2]], concat_dim="time", combine="nested")
"""


@pytest.fixture
def silent() -> Iterator[Server]:
    """A server that does not answer."""
    with serving() as server:
        server.latency = 60
        yield server


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_who_interrupts_does_not_wait_for_the_server(silent: Server) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, silent.url + "a.nc", silent.url + "b.nc"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        limit = time.monotonic() + 30
        while not silent.requests and time.monotonic() < limit:
            time.sleep(0.02)
        assert silent.requests
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        _, told = process.communicate(timeout=30)
        assert time.monotonic() - start < 10
    assert "KeyboardInterrupt" in told
    assert "FATAL" not in told


def test_at_the_end_of_the_interpreter_work_is_done_at_once() -> None:
    """Its threads are stopped then, and would be waited for in vain."""
    script = """
import atexit
atexit.register(lambda: print(run_all([lambda: 1, lambda: 2]), submit(lambda: 3).result()))
from intarsia.io.remote_pool import run_all, submit
assert run_all([lambda: 1]) == [1]
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    assert (ended.stdout, ended.stderr) == ("[1, 2] 3\n", "")
