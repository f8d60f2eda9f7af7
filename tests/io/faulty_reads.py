"""Reads that fail: the n-th of those of a folder, or of the requests to a server, in some way."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.io.http_server import NOW, Answer, Request, Server

LOCAL = ("EIO", "EMFILE", "half", "end")
"""How local reads fail; of half the bytes, the rest may be asked for."""

REMOTE = ("500", "404", "403", "cut", "short", "shorter", "other", "500 once", "cut once")
"""How requests fail: for good, or once."""


@contextmanager
def local_faults(
    folder: Path, patch: pytest.MonkeyPatch, number: int | None, way: str = "EIO"
) -> Generator[list[str]]:
    """Let the n-th read of what is in a folder fail; gives what was read, so far.

    Counted are opening, looking at, listing, and reading a range.
    """
    done: list[str] = []
    right: dict[str, Callable[..., Any]] = {
        name: getattr(os, name) for name in ("open", "stat", "lstat", "scandir", "listdir", "pread")
    }

    def here(target: Any) -> bool:
        if isinstance(target, int):
            with suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{target}")
        return isinstance(target, str | os.PathLike) and str(target).startswith(str(folder))

    def failing(name: str) -> Callable[..., Any]:
        def call(target: Any, *args: Any, **kwargs: Any) -> Any:
            if not here(target):
                return right[name](target, *args, **kwargs)
            done.append(name)
            if number != len(done) - 1:
                return right[name](target, *args, **kwargs)
            if name == "pread" and way == "half":
                return right[name](target, max(args[0] // 2, 1), *args[1:])
            if name == "pread" and way == "end":
                return b""
            code = errno.EMFILE if way == "EMFILE" else errno.EIO
            raise OSError(code, os.strerror(code))

        return call

    with patch.context() as context:
        for name in right:
            context.setattr(os, name, failing(name))
        yield done


class RemoteFaults:
    """Let the n-th request fail, and all others like it that follow.

    Parameters
    ----------
    number
        Which; None for none.
    way
        How.
    """

    def __init__(self, number: int | None, way: str = "500") -> None:
        self.number = number
        self.way = way
        self.seen: list[Any] = []
        self._bad: Any = None

    def __call__(self, request: Request, answer: Answer) -> Answer:
        """What is said instead."""
        key = request.path, request.range
        self.seen.append(key)
        if len(self.seen) - 1 == self.number:
            self._bad = key
        elif self.way.endswith("once"):
            return answer
        if self.way == "other" and self._bad is not None and request.path == self._bad[0]:
            return _other(answer)  # all that comes after is of another object
        return answer if key != self._bad else _failed(answer, self.way.removesuffix(" once"))


def _failed(answer: Answer, way: str) -> Answer:
    half = len(answer.body) // 2
    match way:
        case "500" | "404" | "403":
            return Answer(int(way), {}, b"no")
        case "cut":
            return replace(answer, sent=half)
        case "short":  # with all headers as if it were whole
            return replace(answer, body=answer.body[:half])
        case "shorter":  # and with those that go with it
            headers = dict(answer.headers)
            if "Content-Range" in headers:
                first, _, size = headers["Content-Range"].partition("/")
                begin = int(first.removeprefix("bytes ").split("-")[0])
                headers["Content-Range"] = f"bytes {begin}-{begin + half - 1}/{size}"
            return replace(answer, headers=headers, body=answer.body[:half])
    return _other(answer)


def _other(answer: Answer) -> Answer:
    body = bytes(byte ^ 0x55 for byte in answer.body)
    told = {"ETag": '"another"', "Last-Modified": formatdate(NOW + 60, usegmt=True)}
    return replace(answer, status=206 if answer.status == 412 else answer.status,
                   headers=answer.headers | told, body=body)  # fmt: skip


def numbers(count: int, most: int | None) -> Sequence[int]:
    """Which of so many are tried: all, or some from the first to the last."""
    if most is None or count <= most:
        return range(count)
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})


@contextmanager
def faults(server: Server, number: int | None, way: str = "500") -> Generator[RemoteFaults]:
    """Let requests to a server fail meanwhile."""
    fault = server.fault = RemoteFaults(number, way)
    try:
        yield fault
    finally:
        server.fault = None
