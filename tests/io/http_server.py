"""A loopback HTTP server with ranges, tags, latency, and faults that a test switches on."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import sha256
from http import HTTPStatus

NOW = 1_700_000_000
"""Seconds since 1970 at which objects are put, unless told otherwise."""


@dataclass
class Stored:
    """One object; a tag or time of None is not told."""

    data: bytes
    etag: str | None
    mtime: int | None


@dataclass
class Request:
    """What a client asked for."""

    method: str
    path: str
    query: str
    headers: dict[str, str]

    @property
    def range(self) -> tuple[int, int] | None:
        """(offset, length) asked for; None where the whole object was."""
        said = self.headers.get("range", "")
        if not said.startswith("bytes=") or said.endswith("-"):
            return None
        first, _, last = said.removeprefix("bytes=").partition("-")
        return int(first), int(last) + 1 - int(first)


@dataclass
class Answer:
    """What the server says; a fault changes it before it is sent.

    Parameters
    ----------
    status, headers, body
        Of the response.
    sent
        Bytes of the body that are sent before the connection is cut; None for all.
    delay, pause
        Seconds before the response begins, and before its last byte.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    sent: int | None = None
    delay: float = 0.0
    pause: float = 0.0


type Fault = Callable[[Request, Answer], Answer]


@dataclass
class Server:
    """Objects by path, and what was asked of them."""

    latency: float = 0.0
    objects: dict[str, Stored] = field(default_factory=dict[str, Stored])
    requests: list[Request] = field(default_factory=list[Request])
    fault: Fault | None = None
    most: int = 0
    port: int = 0
    _active: int = 0
    _puts: int = 0

    @property
    def url(self) -> str:
        """Root of the server, ending in a slash."""
        return f"http://127.0.0.1:{self.port}/"

    def put(self, path: str, data: bytes, *, etag: str | None = "", mtime: int | None = NOW) -> str:
        """Store an object, tagged by its content unless told otherwise; its URL."""
        if etag == "":
            self._puts += 1
            etag = f'"{sha256(data).hexdigest()[:16]}-{self._puts}"'
        self.objects["/" + path] = Stored(data, etag, mtime)
        return self.url + path

    def answer(self, request: Request) -> Answer:
        """What a sound server says."""
        stored = self.objects.get(request.path)
        if stored is None:
            return Answer(404, {}, b"there is no such thing")
        headers = {"Accept-Ranges": "bytes"}
        if stored.etag is not None:
            headers["ETag"] = stored.etag
        if stored.mtime is not None:
            headers["Last-Modified"] = formatdate(stored.mtime, usegmt=True)
        wanted = request.headers.get("if-match")
        if wanted not in (None, "*", stored.etag):
            return Answer(412, headers)
        size = len(stored.data)
        if request.range is None:
            return Answer(200, headers, stored.data)
        offset, length = request.range
        if offset >= size:
            return Answer(416, {**headers, "Content-Range": f"bytes */{size}"})
        end = min(offset + length, size)
        headers["Content-Range"] = f"bytes {offset}-{end - 1}/{size}"
        return Answer(206, headers, stored.data[offset:end])

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        try:
            while True:
                request = _parsed(await reader.readuntil(b"\r\n\r\n"))
                self._active += 1
                self.most = max(self.most, self._active)
                try:
                    if not await self._serve(request, writer):
                        break
                finally:
                    self._active -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has what it wanted
        finally:
            writer.close()

    async def _serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection lasts."""
        self.requests.append(request)
        answer = self.answer(request)
        if self.fault is not None:
            answer = self.fault(request, answer)
        await asyncio.sleep(self.latency + answer.delay)
        headers = {"Content-Length": str(len(answer.body)), **answer.headers}
        if "Transfer-Encoding" in headers:  # which tells where the body ends
            del headers["Content-Length"]
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        body = b"" if request.method == "HEAD" else answer.body[: answer.sent]
        if answer.pause and body:
            writer.write(head + body[:-1])
            await writer.drain()
            await asyncio.sleep(answer.pause)
            head, body = b"", body[-1:]
        writer.write(head + body)
        await writer.drain()
        return answer.sent is None


def _parsed(text: bytes) -> Request:
    first, *lines = text.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    path, _, query = target.partition("?")
    pairs = [line.partition(":") for line in lines if line]
    return Request(method, path, query, {name.lower(): value.strip() for name, _, value in pairs})


async def serve(server: Server, started: Callable[[], object], ended: asyncio.Event) -> None:
    """Serve until the end is told; `started` is called when the server has a port."""
    listener = await asyncio.start_server(server.talk, "127.0.0.1", 0, backlog=256)
    server.port = listener.sockets[0].getsockname()[1]
    started()
    await ended.wait()
    listener.close()
    here = asyncio.current_task()
    talks = [task for task in asyncio.all_tasks() if task is not here]
    for task in talks:
        task.cancel()
    await asyncio.gather(*talks, return_exceptions=True)


@contextmanager
def serving(latency: float = 0.0) -> Generator[Server]:
    """A server that lives in a thread of this process, in which no garbage is collected.

    Collecting objects of h5py takes its lock. Who reads with h5py through this server holds it, and
    waits for this thread.
    """
    server = Server(latency)
    collects = gc.isenabled()
    gc.disable()
    started = threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    def run() -> None:
        loop.run_until_complete(serve(server, started.set, ended))
        loop.close()

    thread = threading.Thread(target=run, name="http-server", daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        if collects:
            gc.enable()
