"""A loopback S3 server: moto's, with what was asked of it."""

from __future__ import annotations

import gc
import http.client
import logging
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]


@dataclass
class S3Server:
    """Where it is, and what it was asked for."""

    host: str = ""
    port: int = 0
    requests: list[Asked] = field(default_factory=list[Asked])

    @property
    def endpoint(self) -> str:
        """For ``storage_options``."""
        return f"http://{self.host}:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """Storage options with credentials."""
        return {"endpoint_url": self.endpoint, "key": "access", "secret": "s3cret"}

    def ask(
        self, method: str, path: str, data: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Have the server do something, without a client that signs."""
        connection = http.client.HTTPConnection(self.host, self.port)
        told = {"Content-Length": str(len(data)), **(headers or {})}
        connection.request(method, quote(path), data, told)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status < 300, (method, path, answer.status)

    def put(self, path: str, data: bytes, *, public: bool = True) -> str:
        """Store an object, ``bucket/key``; its URL."""
        acl = "public-read" if public else "private"
        self.ask("PUT", "/" + path, data, {"x-amz-acl": acl})
        return f"s3://{path}"


@contextmanager
def serving_s3(buckets: Iterable[str] = ("bucket",)) -> Generator[S3Server]:
    """A server with empty buckets, which anyone may list, in threads of this process.

    No garbage is collected meanwhile, for the reason that `serving` gives.
    """
    collects = gc.isenabled()
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what its libraries say to each other
        from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = S3Server()
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    running: Any = moto._server
    running.app = _watched(running.app, server)
    try:
        server.host, server.port = moto.get_host_and_port()
        for bucket in buckets:
            server.ask("PUT", f"/{bucket}", headers={"x-amz-acl": "public-read"})
        yield server
    finally:
        moto.stop()
        if collects:
            gc.enable()


def _watched(app: Any, server: S3Server) -> Any:
    def call(environ: dict[str, Any], start: Any) -> Any:
        headers = {
            name[5:].lower().replace("_", "-"): str(value)
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        asked = Asked(
            environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"], headers
        )
        server.requests.append(asked)
        return app(environ, start)

    return call
