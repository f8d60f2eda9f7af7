"""Reading byte ranges of pinned sources, and counting what is read.

A fetcher reads ranges of one source and checks, on the very file it read from, that it is still the
file that was scanned. A failed, short or stale read is an error; it never becomes fill.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from stat import S_ISDIR, S_ISREG
from typing import Protocol

from intarsia.errors import (
    NotAFile,
    ShortRead,
    SourceChanged,
    SourceError,
    SourceMissing,
    SourceUnreadable,
)
from intarsia.forks import after_fork
from intarsia.io.access import family_of
from intarsia.io.descriptors import open_to_read, read_there
from intarsia.io.paths import is_url
from intarsia.io.sampling import UNKNOWN, sample_of, sample_ranges
from intarsia.progress import track
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


@after_fork
def _after_fork() -> None:
    """A lock held by another thread at the fork would never be released in the child."""
    global _lock
    _lock = threading.Lock()


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
        with _opened(source.url) as descriptor:
            check_pin(source, descriptor)
            parts = [_read(descriptor, source.url, *wanted) for wanted in ranges]
            check_pin(source, descriptor)  # nor was it written to meanwhile
            return parts


@contextmanager
def _opened(path: str) -> Generator[int]:
    """A descriptor of the file; the system's errors in here are told as ours."""
    try:
        descriptor = open_to_read(path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except SourceError:
        raise
    except OSError as error:
        raise _explain(error, path) from error


def check_pin(source: Source, descriptor: int) -> None:
    """Refuse a file that is not the one that was scanned.

    Size and modification time are compared where they are known (not -1), and exactly: a copy that
    kept whole seconds only is another file. Where the time is not known and a sample is, the
    sampled content is compared, once per state of the file and process.

    Parameters
    ----------
    source
        With its pins.
    descriptor
        The very one that is read from.

    Raises
    ------
    NotAFile
        If it is a directory, a pipe or a device.
    SourceChanged
        If it differs from a pin, saying what changed.
    """
    stat = os.fstat(descriptor)
    _check_stat(source, stat)
    if is_sampled(source) and _sample(source.url, descriptor, stat) != source.sample:
        raise changed(source, "its sampled content is not what it was")


def changed_sources(sources: Iterable[Source]) -> list[tuple[int, SourceError]]:
    """All sources that are missing, changed or can't be read, with their numbers.

    Only what pins a source is looked at: no file is opened, but for those pinned by a sample. Of
    one behind a network, one byte is read.

    Raises
    ------
    UnsupportedError
        If nothing reads from a place that a source lives in.
    """
    found: list[tuple[int, SourceError]] = []
    remote: list[tuple[int, Source]] = []
    for number, source in enumerate(track(sources, "looking at sources", unit="files")):
        fetcher_for(source)
        if is_url(source.container):
            remote.append((number, source))
            continue
        try:
            if is_sampled(source):
                with _opened(source.url) as descriptor:
                    check_pin(source, descriptor)
            else:
                _check_stat(source, _stat(source.url))
        except SourceError as error:
            found.append((number, error))
    if remote:
        found += _changed_remote(remote)
        found.sort(key=lambda pair: pair[0])
    return found


def _changed_remote(remote: Sequence[tuple[int, Source]]) -> list[tuple[int, SourceError]]:
    from intarsia.io.remote import check_remote  # its client takes its time to import
    from intarsia.io.remote_pool import run_all

    errors = run_all([partial(check_remote, source) for _, source in remote])
    return [
        (number, error)
        for (number, _), error in zip(remote, errors, strict=True)
        if error is not None
    ]


def sampled(source: Source) -> Source:
    """The source with a sample of its content, which is still the content that was scanned.

    Raises
    ------
    SourceError
        If it can't be read, or changed.
    """
    if is_url(source.container):
        from intarsia.io.remote import sample_remote

        return sample_remote(source)
    with _opened(source.url) as descriptor:
        check_pin(source, descriptor)
        sample = _sample(source.url, descriptor, os.fstat(descriptor))
        check_pin(source, descriptor)
        return source._replace(sample=sample)


def is_sampled(source: Source) -> bool:
    """Whether the content decides: an unchanged time says the same for less."""
    return source.sample is not None and source.mtime_ns < 0


def is_strong(etag: str | None) -> bool:
    """Whether a tag vouches for every byte."""
    return bool(etag) and not str(etag).startswith("W/")


def _check_stat(source: Source, stat: os.stat_result) -> None:
    if not S_ISREG(stat.st_mode):
        what = "a directory" if S_ISDIR(stat.st_mode) else "not a regular file"
        raise NotAFile(f"the source is {what}", url=source.url)
    check_known(source)
    changes: list[str] = []
    if source.size >= 0 and stat.st_size != source.size:
        changes.append(f"its size was {source.size} bytes and is {stat.st_size}")
    if source.mtime_ns >= 0 and stat.st_mtime_ns != source.mtime_ns:
        changes.append(
            f"its modification time was {seconds(source.mtime_ns)} and is "
            f"{seconds(stat.st_mtime_ns)} (seconds since 1970)"
        )
    if changes:
        raise changed(source, *changes)


def check_known(source: Source) -> None:
    """Refuse a source that a store reaches for without knowing it.

    Raises
    ------
    SourceChanged
        If nothing pins it, and something has to.
    """
    if source.sample == UNKNOWN:
        raise SourceChanged(
            "nothing says that this is the file that was scanned",
            url=source.url,
            remedy="the store does not pin it, and it is not in the store's folder: name its "
            "container, and what is to be checked, when opening the store",
        )


def changed(source: Source, *how: str) -> SourceChanged:
    """The error for a source that is another one, saying in what."""
    remedy = "open the files again"
    if len(how) == 1 and "time" in how[0]:
        remedy += (
            ", or, if it was only copied, tell the store so: containers={name: {'pin': 'size'}}"
        )
    return SourceChanged(
        f"the source changed after it was scanned: {' and '.join(how)}",
        url=source.url,
        remedy=remedy,
    )


def seconds(nanoseconds: int) -> str:
    """Seconds since 1970. Exact, as two times may differ in the last digit alone."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{seconds}.{rest:09d}"


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise _explain(error, path) from error


_samples: dict[tuple[str, int, int, int, int, int], str] = {}
"""Samples by path and what the system says of the file; the oldest are forgotten."""


def _sample(path: str, descriptor: int, stat: os.stat_result) -> str:
    # the last is the time of the last change of any kind, which nobody can set
    state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    known = _samples.get((path, *state))
    if known is not None:
        return known
    for offset, length in sample_ranges(stat.st_size):
        record(path, offset, length)
    try:
        sample = sample_of(descriptor, stat.st_size)
    except ShortRead as error:
        raise error.located(url=path) from error
    for old in list(_samples)[:-_REMEMBERED] if len(_samples) >= 2 * _REMEMBERED else []:
        _samples.pop(old, None)
    _samples[path, *state] = sample
    return sample


_REMEMBERED = 1 << 16

LARGE = 1 << 24

MAX_READ = (1 << 32) + (1 << 26)
"""Bytes that are read at once: as many as the largest chunk may have, and its neighbours."""


def _read(descriptor: int, path: str, offset: int, length: int) -> memoryview:
    if length > LARGE:  # who wrote the reference may not mean well: look before making room
        there = min(max(os.fstat(descriptor).st_size - offset, 0), MAX_READ)
        if length > there:
            raise _short(path, offset, length, there)
    record(path, offset, length)
    data = read_there(descriptor, offset, length)
    if len(data) < length:
        raise _short(path, offset, length, len(data))
    return memoryview(data)


def _short(path: str, offset: int, length: int, found: int) -> ShortRead:
    return ShortRead(
        f"asked for {length} bytes at offset {offset} and got {found}",
        url=path,
        remedy="the file is shorter than its references say; fetch it again",
    )


def _explain(error: OSError, path: str) -> SourceError:
    """The error of ours that says what the system's error means."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SourceMissing("the source does not exist", url=path, remedy="was it moved?")
    return SourceUnreadable(f"the source can't be read: {error.strerror or error}", url=path)


def fetcher_for(source: Source) -> Fetcher:
    """The fetcher for the kind of place a source lives in.

    Raises
    ------
    UnsupportedError
        If nothing reads from such a place.
    """
    if not is_url(source.container):
        return LocalFetcher()
    family_of(source.url)
    from intarsia.io.remote import RemoteFetcher  # its client takes its time to import

    return RemoteFetcher()
