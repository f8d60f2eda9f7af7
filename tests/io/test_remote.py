"""Sources behind HTTP: the contract of fetchers, and what servers do wrong."""

from __future__ import annotations

import pytest

from intarsia.io.fetch import Fetcher
from intarsia.io.remote import RemoteFetcher, head
from intarsia.references import Source
from intarsia.testing import FetcherContract
from tests.io.http_server import NOW, Server


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
    """Tags that vouch for no bytes: the time counts."""

    etag = 'W/"1"'


class TestNoTags(TestHTTP):
    """Servers that tell the time alone."""

    etag = None


class TestNoTimes(TestHTTP):
    """Servers that tell the tag alone."""

    mtime = None
