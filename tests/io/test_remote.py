"""Sources behind HTTP: the contract of fetchers, and what servers do wrong."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from intarsia.errors import SourceChanged, SourceMissing
from intarsia.io.access import access_of
from intarsia.io.fetch import Fetcher
from intarsia.io.remote import RemoteFetcher, head
from intarsia.references import Source
from intarsia.testing import FetcherContract
from tests.io.http_server import NOW, Answer, Fault, Request, Server


class TestHTTP(FetcherContract):
    """Objects with strong tags and times."""

    etag: str | None = ""
    mtime: int | None = NOW

    @pytest.fixture
    def fetcher(self) -> Fetcher:
        return RemoteFetcher()

    @pytest.fixture(autouse=True)
    def _own(self, server: Server) -> None:
        self.server = server

    def put(self, name: str, data: bytes) -> Source:
        url = self.server.put(name, data, etag=self.etag, mtime=self.mtime)
        return head(url, None, 1)[0]

    def replace(self, source: Source, data: bytes) -> None:
        if self.mtime is not None:
            self.mtime += 1
        self.server.put(source.key, data, etag=self.etag, mtime=self.mtime)

    def remove(self, source: Source) -> None:
        del self.server.objects["/" + source.key]


class TestWeakTags(TestHTTP):
    """Tags that vouch for less than each byte: the time counts, too."""

    etag = 'W/"1"'


class TestNoTags(TestHTTP):
    """Servers that tell the time alone."""

    etag = None


class TestNoTimes(TestHTTP):
    """Servers that tell the tag alone."""

    mtime = None


def _decoded(server: Server) -> Fault:
    """Services differ in what they encode of a key."""

    def fault(request: Request, answer: Answer) -> Answer:
        request.path = unquote(request.path)
        return server.answer(request)

    return fault


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("gs://bucket/x/a b.nc", {"base_url": "{}", "anon": True}),
        ("gcs://bucket/x/a b.nc", {"endpoint_url": "{}", "token": "anon"}),
        ("az://bucket/x/a b.nc", {"account_name": "me", "endpoint": "{}", "anon": True}),
        ("abfs://bucket/x/a b.nc", {"account_name": "me", "endpoint": "{}", "anon": True}),
        ("s3a://bucket/x/a b.nc", {"endpoint": "{}", "anon": True}),
    ],
)
def test_other_services(server: Server, url: str, told: dict[str, Any]) -> None:
    """Their requests arrive, anonymous, and what they answer is read and held against the pins."""
    data = bytes(range(200))
    server.put("bucket/x/a b.nc", data)
    server.fault = _decoded(server)
    options = {
        name: value.format(server.url.rstrip("/")) if isinstance(value, str) else value
        for name, value in told.items()
    }
    source, first = head(url, access_of(url, options), 5)
    assert (source.url, source.size, source.mtime_ns) == (url, 200, NOW * 10**9)
    assert bytes(first) == data[:5]
    assert bytes(RemoteFetcher().read(source, [(7, 3)])[0]) == data[7:10]
    assert not any("authorization" in request.headers for request in server.requests)
    server.put("bucket/x/a b.nc", data[::-1])
    with pytest.raises(SourceChanged):
        RemoteFetcher().read(source, [(7, 3)])
    server.objects.clear()
    with pytest.raises(SourceMissing):
        RemoteFetcher().read(source, [(7, 3)])
