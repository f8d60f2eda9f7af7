"""One source opened for a scan: random access to its bytes, which stay those of one file.

What a scan has read is told by `File.source`, pins and all, so that what is read later can be held
against it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from stat import S_ISDIR, S_ISREG
from typing import Protocol

from intarsia.access import Access
from intarsia.errors import NotAFile, ShortRead, SourceError, SourceMissing, SourceUnreadable
from intarsia.io.descriptors import open_to_read, read_there
from intarsia.io.paths import is_url, split_place
from intarsia.references import Source

__all__ = ["File", "LocalFile", "contents", "listing", "opened_file"]


class File(Protocol):
    """Random access to the bytes of one source."""

    @property
    def source(self) -> Source:
        """Where it is, with its size (always known) and what else pins it."""
        ...

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly so many bytes; `ShortRead` past the end."""
        ...

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Say which (offset, length) will be read next; it is no error if they lie outside."""
        ...


class LocalFile:
    """A file of this machine, open for reading.

    Parameters
    ----------
    path
        Absolute.
    descriptor
        Of the open file.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        stat = os.fstat(descriptor)
        self.path = path
        self.descriptor = descriptor
        self.source = Source(*split_place(path), stat.st_size, stat.st_mtime_ns)

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly so many bytes; `ShortRead` past the end."""
        there = max(self.source.size - offset, 0)
        if offset < 0 or length > there:  # before room is made for what is not there
            raise ShortRead(
                f"asked for {length} bytes at offset {offset} of a file of {self.source.size}",
                url=self.path,
            )
        try:
            data = read_there(self.descriptor, offset, length)
        except OSError as error:
            raise _unreadable(self.path, error) from error
        if len(data) < length:
            raise ShortRead("the file became shorter while it was read", url=self.path)
        return memoryview(data)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Nothing: the system reads ahead by itself."""


@contextmanager
def opened_file(place: str, access: Access | None = None) -> Generator[File]:
    """Open a source for a scan.

    Parameters
    ----------
    place
        Absolute path or URL (see `intarsia.io.paths.place_of`).
    access
        How a URL is reached.

    Raises
    ------
    SourceMissing, SourceUnreadable, NotAFile
        It can't be had, or is empty, or no regular file.
    """
    if is_url(place):
        from intarsia.io.blocks import opened_remote  # its client takes its time to import

        with opened_remote(place, access) as file:
            yield file
        return
    descriptor = _opened(place)
    try:
        yield LocalFile(place, descriptor)
    finally:
        os.close(descriptor)


def _opened(path: str) -> int:
    try:
        descriptor = open_to_read(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceMissing("there is no such file", url=path) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        stat = os.fstat(descriptor)
        if S_ISDIR(stat.st_mode):
            raise NotAFile("this is a directory", url=path)
        if not S_ISREG(stat.st_mode):
            raise NotAFile("this is not a regular file", url=path)
        if stat.st_size == 0:
            raise NotAFile("the file is empty", url=path)
    except SourceError:
        os.close(descriptor)
        raise
    return descriptor


def _unreadable(path: str, error: OSError) -> SourceUnreadable:
    return SourceUnreadable(f"the file can't be reached ({error.strerror})", url=path)


def contents(path: str) -> tuple[bytes, os.stat_result] | None:
    """A small file of this machine, whole, and what the system says of it; None where none is.

    Raises
    ------
    NotAFile, SourceUnreadable
        If there is something else, or it can't be read: neither says that there is none.
    ShortRead
        If it is cut short meanwhile.
    """
    try:
        descriptor = open_to_read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        stat = os.fstat(descriptor)
        if not S_ISREG(stat.st_mode):
            raise NotAFile("this is not a regular file", url=path)
        data = read_there(descriptor, 0, stat.st_size)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if len(data) < stat.st_size:
        raise ShortRead(f"it has {len(data)} bytes, and had {stat.st_size}", url=path)
    return data, stat


@contextmanager
def listing(folder: str) -> Generator[Iterator[os.DirEntry[str]]]:
    """What is in a folder of this machine.

    Raises
    ------
    SourceUnreadable
        If it can't be listed, or if what is asked of an entry meanwhile can't be said.
    """
    try:
        with os.scandir(folder) as entries:
            yield entries
    except SourceError:
        raise
    except OSError as error:
        raise SourceUnreadable(f"it can't be listed ({error.strerror})", url=folder) from error
