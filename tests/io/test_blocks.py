"""Files of the network in blocks: what is read is right, and is asked for in few requests."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

from intarsia.access import Access
from intarsia.errors import NotAFile, ShortRead, SourceChanged, SourceMissing
from intarsia.io import ahead as ahead_module
from intarsia.io import blocks
from intarsia.io.ahead import HEAD, WINDOW, ahead
from intarsia.io.blocks import BLOCK, GAP, MOST, RemoteFile, opened_remote
from intarsia.io.fetch import fetcher_for, observe
from intarsia.io.held import held, holding, keep
from intarsia.io.remote import head
from tests.io.http_server import Answer, Request, Server

DATA = random.Random(0).randbytes(5_000_123)


def test_what_is_read_is_there(server: Server) -> None:
    url = server.put("x", DATA)
    numbers = random.Random(1)
    with opened_remote(url) as file:
        assert (file.source.size, file.source.url) == (len(DATA), url)
        for _ in range(300):
            offset = numbers.randrange(len(DATA))
            length = min(numbers.choice([0, 1, 9, 5_000, 70_000, 2_000_000]), len(DATA) - offset)
            assert file.read(offset, length) == DATA[offset : offset + length]
    assert {request.method for request in server.requests} == {"GET"}
    assert all(request.range is not None for request in server.requests)
    assert max(request.range[1] for request in server.requests if request.range) <= MOST


def test_a_small_file_is_one_request(server: Server) -> None:
    data = DATA[:HEAD]
    with observe() as reads, opened_remote(server.put("x", data)) as file:
        assert file.read(0, HEAD) == data
        assert file.read(HEAD - 3, 3) == data[-3:]
        assert file.read(HEAD, 0) == b""
        for offset, length in ((HEAD - 3, 4), (HEAD + 1, 1), (-1, 1), (0, -1)):
            with pytest.raises(ShortRead):
                file.read(offset, length)
    assert reads.requests == len(server.requests) == 1


def test_reading_on_takes_ever_larger_requests(server: Server) -> None:
    with opened_remote(server.put("x", DATA)) as file:
        for offset in range(0, len(DATA) - 512, 512):
            assert file.read(offset, 512) == DATA[offset : offset + 512]
    assert len(server.requests) < 12


def test_reading_here_and_there_takes_ever_smaller_requests(server: Server) -> None:
    with opened_remote(server.put("x", DATA)) as file, observe() as reads:
        for offset in range(HEAD, len(DATA) - HEAD, 200_000):
            file.read(offset, 100)
    assert reads.nbytes < reads.requests * 24_000


def test_several_ranges_at_once(server: Server) -> None:
    url = server.put("x", DATA)
    near = [(1_000_000 + 9_000 * number, 500) for number in range(20)]
    far = [(2_000_000 + 2 * GAP * number, 500) for number in range(15)]
    absent = [(len(DATA), 5), (1 << 62, 5), (-7, 5), (0, 0), (len(DATA) - 3, 1 << 40)]
    with opened_remote(url) as file, observe() as reads:
        server.latency = 0.05  # so that they meet
        file.prefetch([*absent, *far, *near, (5, 5)])
        server.latency = 0.0
        assert reads.requests == 1 + 15
        assert server.most > 1
        for offset, length in near + far:
            assert file.read(offset, length) == DATA[offset : offset + length]
        assert reads.requests == 1 + 15


def test_no_more_is_kept_than_was_said(server: Server) -> None:
    url = server.put("x", DATA)
    source, first = head(url, None, HEAD)
    file = RemoteFile(source, first, kept=1)
    for _ in range(2):
        for offset in range(0, len(DATA) - 9_000, 9_000):
            assert file.read(offset, 9_000) == DATA[offset : offset + 9_000]
            assert len(file._blocks) * BLOCK <= 4 * MOST
    file.prefetch((offset, 1) for offset in range(0, len(DATA), BLOCK))
    assert len(file._blocks) * BLOCK <= 4 * MOST


def test_one_failure_of_several_requests_is_raised(server: Server) -> None:
    def fail(request: Request, answer: Answer) -> Answer:
        return Answer(404, {}) if request.range and request.range[0] > 3_000_000 else answer

    with opened_remote(server.put("x", DATA)) as file:
        server.fault = fail
        collects = gc.isenabled()
        with pytest.raises(SourceMissing):
            file.prefetch((offset, 10) for offset in range(1_000_000, 4_000_000, 2 * GAP))
        assert gc.isenabled() == collects


def test_nobody_collects_garbage_while_threads_are_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a thread could wait for a lock that the one that waits for it holds: h5py's."""
    read, collects = blocks.read_range, gc.isenabled()
    seen: list[bool] = []

    def watched(*wanted: Any) -> Any:
        seen.append(gc.isenabled())
        return read(*wanted)

    monkeypatch.setattr(blocks, "read_range", watched)
    gc.enable()
    try:
        with opened_remote(server.put("x", DATA)) as file:
            file.prefetch((offset, 10) for offset in range(1_000_000, 4_000_000, 2 * GAP))
        assert len(seen) > 20
        assert not any(seen)
        assert gc.isenabled()
    finally:
        if not collects:
            gc.disable()


@pytest.mark.parametrize("pins", [{}, {"etag": None}, {"mtime": None}])
def test_a_file_that_changes_or_is_not_what_was_pinned(
    server: Server, pins: dict[str, None]
) -> None:
    url = server.put("x", DATA, **pins)
    with opened_remote(url) as file:
        pinned = file.source
        with opened_remote(url, pinned=pinned) as again:
            assert again.read(0, 5) == DATA[:5]
        told = {"mtime": 1_700_000_001} if "etag" in pins else {}
        server.put("x", DATA, **(pins | told))
        with pytest.raises(SourceChanged):
            file.read(2_000_000, 1)
        with pytest.raises(SourceChanged), opened_remote(url, pinned=pinned):
            pass


def test_an_empty_one(server: Server) -> None:
    with pytest.raises(NotAFile, match="empty"), opened_remote(server.put("x", b"")):
        pass


# -- ahead -----------------------------------------------------------------------------------------


def test_heads_are_fetched_ahead(server: Server) -> None:
    urls = [server.put(f"{number:03}", DATA[number : number + 90]) for number in range(100)]
    server.latency = 0.02
    with ahead([urls[0], "/a/path", *urls]):
        for number, url in enumerate(urls):
            with opened_remote(url) as file:
                assert file.read(0, 90) == DATA[number : number + 90]
            assert len(server.requests) <= number + 1 + WINDOW
    assert len(server.requests) == len(urls)
    assert server.most > 5
    assert not ahead_module._active


def test_what_fails_ahead_fails_when_it_is_opened(server: Server) -> None:
    good, bad = server.put("good", DATA), server.url + "bad"
    with ahead([good, bad, good]):
        with opened_remote(good):
            pass
        with pytest.raises(SourceMissing) as caught, opened_remote(bad):
            pass
        with opened_remote(good):  # opened a second time, it is looked at anew
            pass
    assert caught.value.url == bad
    assert [request.path for request in server.requests].count("/good") == 2


def test_other_ways_and_other_servers_are_not_assumed(server: Server) -> None:
    urls = [server.put(f"{number}", DATA[:9]) for number in range(3)]
    secret = Access((("header.authorization", "secret"),))
    with ahead([*urls, server.url.replace("127.0.0.1", "localhost") + "0"]):
        with opened_remote(urls[0], secret):
            pass
        with opened_remote(urls[1]) as file:
            assert file.source.access is None
    assert {request.headers["host"].partition(":")[0] for request in server.requests} == {
        "127.0.0.1"
    }


# -- held ------------------------------------------------------------------------------------------


def test_what_came_with_the_head_is_not_asked_for_again(server: Server) -> None:
    url = server.put("x", DATA)
    with holding():
        with opened_remote(url) as file:
            source = file.source
        read = fetcher_for(source).read
        with observe() as reads:
            wanted = [(5, 10), (HEAD - 7, 7), (0, 0)]
            assert read(source, wanted) == [DATA[5:15], DATA[HEAD - 7 : HEAD], b""]
            assert reads.requests == 0
            with opened_remote(url, pinned=source) as file:
                assert file.read(HEAD - 7, 7) == DATA[HEAD - 7 : HEAD]
            assert reads.requests == 0
            assert read(source, [(HEAD - 7, 8)]) == [DATA[HEAD - 7 : HEAD + 1]]
            assert reads.requests == 1
        other = source._replace(etag='"other"')
        with pytest.raises(SourceChanged):
            read(other, [(5, 10)])
    assert held(source, 5, 10) is None
    keep(source, memoryview(DATA))
    assert held(source, 5, 10) is None


def test_what_nothing_pins_is_not_held(server: Server) -> None:
    with holding(), opened_remote(server.put("x", DATA, etag=None, mtime=None)) as file:
        assert held(file.source, 5, 10) is None
