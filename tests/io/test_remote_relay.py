"""Forked processes, in which the client can't run: they read through a helper, or are refused."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

import pytest
from obstore.store import MemoryStore

from intarsia.errors import SourceMissing, SourceUnreadable
from intarsia.io import remote_relay
from intarsia.io.access import access_of
from intarsia.io.fetch import fetcher_for, observe
from intarsia.io.listing import expand
from intarsia.io.remote import head
from tests.io.http_server import Server
from tests.io.s3_server import S3Server

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-?threaded.*:DeprecationWarning")


def forked(work: Callable[[], Any]) -> Any:
    """What a function gives in a forked process; its error is raised here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # no assertion may leave this branch
        signal.alarm(30)
        try:
            result: Any = (True, work())
        except BaseException as error:  # noqa: BLE001
            result = (False, error)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    assert data, "the child was killed: it waited for ever"
    right, result = pickle.loads(data)
    if not right:
        raise result
    return result


def test_all_is_read_and_told(server: Server) -> None:
    url = server.put("a.nc", b"0123456789")
    source, _ = head(url, None, 1)
    assert not remote_relay.is_needed()

    def work() -> Any:
        with observe() as reads:
            parts = fetcher_for(source).read(source, [(2, 3), (7, 1)])
        again, data = head(url, None, 4)
        return [bytes(part) for part in parts], reads.ranges, again, bytes(data)

    found = forked(work)
    assert found == ([b"234", b"7"], [(url, 2, 3), (url, 7, 1)], source, b"0123")
    # a child of the child has its own
    assert forked(lambda: forked(work)) == found
    assert not remote_relay.is_needed()


def test_errors_come_back(server: Server) -> None:
    head(server.put("a.nc", b"0123456789"), None, 1)
    with pytest.raises(SourceMissing) as error:
        forked(lambda: head(server.url + "b.nc", None, 1))
    assert error.value.url == server.url + "b.nc"


def test_servers_without_ranges(server: Server) -> None:
    url = server.put("a.nc", b"0123456789")
    head(url, None, 1)

    def fault(request: Any, answer: Any) -> Any:
        request.headers.pop("range", None)
        return server.answer(request)

    server.fault = fault
    assert forked(lambda: bytes(head(url, None, 4)[1])) == b"0123"


def test_listing(s3: S3Server) -> None:
    access = access_of("s3://bucket/", s3.options)
    for name in ("1.nc", "2.nc"):
        s3.put(f"bucket/forked/{name}", b"x")
    head("s3://bucket/forked/1.nc", access, 1)
    found = forked(lambda: expand("s3://bucket/forked/*.nc", access))
    assert found == ["s3://bucket/forked/1.nc", "s3://bucket/forked/2.nc"]


def test_stores_that_live_in_one_process(server: Server) -> None:
    head(server.put("a.nc", b"0123456789"), None, 1)  # the client has threads now
    store = MemoryStore()
    store.put("a.nc", b"0123456789")
    access = access_of("s3://mine/a.nc", None, {"s3://mine": store})
    with pytest.raises(SourceUnreadable, match="forked") as error:
        forked(lambda: head("s3://mine/a.nc", access, 1))
    assert "spawn" in str(error.value)


def test_a_helper_that_dies_is_replaced(server: Server) -> None:
    url = server.put("a.nc", b"0123456789")
    head(url, None, 1)

    def work() -> Any:
        found = [bytes(head(url, None, 2)[1])]
        (relay,) = remote_relay._relays.values()
        os.kill(relay.process.pid, signal.SIGKILL)
        relay.process.wait()
        try:
            found.append(bytes(head(url, None, 2)[1]))
        except SourceUnreadable as error:
            found.append(error.reason.encode())
        found.append(bytes(head(url, None, 2)[1]))
        return found

    first, second, third = forked(work)
    assert first == third == b"01"
    assert second in (b"01", b"the process that reads for this one ended")
