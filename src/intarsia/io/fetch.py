"""Reading byte ranges of pinned sources, and counting what is read.

A fetcher reads ranges of one source and checks, on the very file it read from, that it is still the
file that was scanned. A failed, short or stale read is an error; it never becomes fill.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from intarsia.errors import (
    NotAFile,
    ShortRead,
    SourceChanged,
    SourceMissing,
    SourceUnreadable,
    UnsupportedError,
)
from intarsia.references import Source


class Fetcher(Protocol):
    """Reads byte ranges of one source.

    Every range is read whole or an error is raised. Ranges of length zero give empty bytes. A
    range past the end is a `ShortRead`.
    """

    def read(self, source: Source, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Bytes of each (offset, length) of `source`, in the order asked for."""
        ...


@dataclass(slots=True)
class Reads:
    """What was read while `observe` was active.

    Parameters
    ----------
    ranges
        (url, offset, length) of each request.
    """

    ranges: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.ranges)

    @property
    def nbytes(self) -> int:
        """Bytes read."""
        return sum(length for _, _, length in self.ranges)


_observers: list[Reads] = []
_lock = threading.Lock()


@contextmanager
def observe() -> Generator[Reads]:
    """Record every request made in this process, by any thread.

    Examples
    --------
    >>> with observe() as reads:
    ...     pass
    >>> reads.requests, reads.nbytes
    (0, 0)
    """
    reads = Reads()
    with _lock:
        _observers.append(reads)
    try:
        yield reads
    finally:
        with _lock:
            # by identity: two observers may have seen the same
            _observers[:] = [other for other in _observers if other is not reads]


def _after_fork() -> None:
    """A lock held by another thread at the fork would never be released in the child."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def record(url: str, offset: int, length: int) -> None:
    """Tell the observers of a request; fetchers call this once for each."""
    if _observers:
        with _lock:
            for reads in _observers:
                reads.ranges.append((url, offset, length))


class LocalFetcher:
    """Reads files of this machine."""

    def read(self, source: Source, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Bytes of each (offset, length) of `source`, in the order asked for."""
        path = source.url
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise _explain(error, path) from error
        try:
            check_pin(source, os.fstat(descriptor))
            return [_read(descriptor, path, *wanted) for wanted in ranges]
        except IsADirectoryError as error:
            raise _explain(error, path) from error
        finally:
            os.close(descriptor)


def check_pin(source: Source, stat: os.stat_result) -> None:
    """Refuse a file that is not the one that was scanned.

    Raises
    ------
    SourceChanged
        If size or modification time differ from the pin.
    """
    changes: list[str] = []
    if source.size >= 0 and stat.st_size != source.size:
        changes.append(f"its size was {source.size} bytes and is {stat.st_size}")
    if source.mtime_ns >= 0 and stat.st_mtime_ns != source.mtime_ns:
        changes.append(
            f"its modification time was {source.mtime_ns / 1e9:.9f} and is "
            f"{stat.st_mtime_ns / 1e9:.9f} (seconds since 1970)"
        )
    if changes:
        raise SourceChanged(
            f"the source changed after it was scanned: {' and '.join(changes)}",
            url=source.url,
            remedy="open the files again",
        )


def _read(descriptor: int, path: str, offset: int, length: int) -> memoryview:
    record(path, offset, length)
    try:
        data = os.pread(descriptor, length, offset) if length else b""
        if len(data) < length:  # the system may return less than asked for at once
            parts = [data]
            done = len(data)
            while done < length:
                part = os.pread(descriptor, length - done, offset + done)
                if not part:
                    break
                parts.append(part)
                done += len(part)
            data = b"".join(parts)
    except OSError as error:
        raise _explain(error, path) from error
    if len(data) < length:
        raise ShortRead(
            f"asked for {length} bytes at offset {offset} and got {len(data)}",
            url=path,
            remedy="the file is shorter than its references say; fetch it again",
        )
    return memoryview(data)


def _explain(error: OSError, path: str) -> Exception:
    """The error of ours that says what the system's error means."""
    if isinstance(error, FileNotFoundError):
        return SourceMissing("the source does not exist", url=path, remedy="was it moved?")
    if isinstance(error, IsADirectoryError):
        return NotAFile("the source is a directory", url=path)
    return SourceUnreadable(f"the source can't be read: {error.strerror or error}", url=path)


_fetchers: dict[str, Callable[[], Fetcher]] = {"": LocalFetcher, "file": LocalFetcher}


def fetcher_for(source: Source) -> Fetcher:
    """The fetcher for the kind of place a source lives in.

    Raises
    ------
    UnsupportedError
        If nothing reads from such a place.
    """
    scheme = source.container.partition("://")[0] if "://" in source.container else ""
    make = _fetchers.get(scheme)
    if make is None:
        raise UnsupportedError(
            f"nothing reads {scheme}:// sources",
            url=source.url,
            remedy="use a local path",
        )
    return make()
