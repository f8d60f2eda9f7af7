"""Opening a file that should be HDF5, and saying promptly what it is where it is not."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5f, h5fd, h5p, h5s, h5t

from intarsia.errors import (
    CorruptFile,
    IntarsiaError,
    NotAFile,
    NotHDF5,
    SourceChanged,
    SourceMissing,
    SourceUnreadable,
    UnsupportedError,
)
from intarsia.io.files import File, LocalFile
from intarsia.io.paths import is_url, split_place
from intarsia.references import Source
from intarsia.scan.hdf5.prefetch import Prefetcher, prefetcher

SIGNATURE = b"\x89HDF\r\n\x1a\n"

HDF5_ERRORS = (OSError, RuntimeError, ValueError, KeyError)
"""What h5py raises where the structure of a file is broken."""

_LOOKS = (
    (b"CDF\x01", "netCDF3 (classic)"),
    (b"CDF\x02", "netCDF3 (64-bit offset)"),
    (b"CDF\x05", "netCDF3 (64-bit data)"),
    (b"GRIB", "GRIB"),
    (b"\x0e\x03\x13\x01", "HDF4"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"II+\x00", "BigTIFF"),
    (b"MM\x00+", "BigTIFF"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BUFR", "BUFR"),
    (b"\x89PNG", "a PNG image"),
    (b"%PDF", "PDF"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself"),
)


class Opened(NamedTuple):
    """An open file.

    Parameters
    ----------
    id
        h5py's low-level file.
    source
        Where it is, and the pins of the very file that HDF5 has open.
    base
        Bytes to be added to chunk addresses, and to dataset offsets, that the library reports.
    """

    id: Any
    source: Source
    base: tuple[int, int]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.source.size

    @property
    def is_remote(self) -> bool:
        """Whether it lies in the network; then it must not lead to files of this machine."""
        return is_url(self.source.container)


@contextmanager
def opened(place: str | File) -> Generator[Opened]:
    """Open a HDF5 file for reading.

    Parameters
    ----------
    place
        Path of a local file, which HDF5 reads by itself, or a file that is open already. Where
        that is one of the network, its bytes are handed to HDF5 as it asks for them.

    Raises
    ------
    SourceMissing, SourceUnreadable, NotAFile
        It can't be had, is locked by a writer, is empty, or is no regular file.
    NotHDF5
        It holds something else.
    CorruptFile
        It is cut short, or its structure is broken; also raised for what h5py raises in the body
        of the ``with`` statement.
    SourceChanged
        It was written to, or cut short, before the ``with`` statement ended.
    UnsupportedError
        A file of the network leads to another file.
    """
    if isinstance(place, LocalFile):
        place = place.path
    local = isinstance(place, str)
    with _opened_path(place) if local else _opened_file(place) as (file, source):
        try:
            yield Opened(file, source, base_of(file))
            if local:  # HDF5 gives zeros for what is no longer there
                _require_unchanged(file, source)
        except IntarsiaError:
            raise
        except HDF5_ERRORS as error:
            if not _raised_by_h5py(error):
                raise
            reason = f"the structure of the file is broken ({_text(error)})"
            raise CorruptFile(reason, url=source.url) from error
        finally:
            h5py.File(file).close()  # with every object that is still open


def base_of(file: Any) -> tuple[int, int]:
    """What is to be added to addresses that the library reports: see `Opened`."""
    userblock = file.get_create_plist().get_userblock()
    if not userblock:
        return 0, 0
    chunks, offsets = addresses_are_absolute()
    return 0 if chunks else userblock, 0 if offsets else userblock


@contextmanager
def _opened_path(path: str) -> Generator[tuple[Any, Source]]:
    _require_regular(path)
    try:
        # With the library's defaults: others would not go with a file that is open already.
        file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY)
    except HDF5_ERRORS as error:
        try:
            with open(path, "rb") as raw:
                raise _diagnosed(path, os.fstat(raw.fileno()).st_size, _reader(raw), error)
        except OSError as denied:
            if isinstance(denied, IntarsiaError):
                raise denied from error
            reason = f"the file can't be read ({denied.strerror})"
            raise SourceUnreadable(reason, url=path) from error
    yield file, Source(*split_place(path), *_pins(file, path))


def _pins(file: Any, path: str) -> tuple[int, int]:
    """Size and modification time of the very file that HDF5 has open."""
    try:
        status = os.fstat(file.get_vfd_handle())
    except OSError as error:
        raise SourceUnreadable(f"the file can't be reached ({error.strerror})", url=path) from error
    return status.st_size, status.st_mtime_ns


def _require_unchanged(file: Any, source: Source) -> None:
    if _pins(file, source.url) != (source.size, source.mtime_ns):
        raise SourceChanged(
            "the file was written to while it was read", url=source.url, remedy="open it again"
        )


@contextmanager
def _opened_file(place: File) -> Generator[tuple[Any, Source]]:
    raw = _Raw(place)
    url = place.source.url
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fileobj_driver(h5fd.fileobj_driver, raw)
    try:
        try:
            file = h5f.open(os.fsencode(url), h5f.ACC_RDONLY, fapl=access)
        except HDF5_ERRORS as error:
            raw.check()
            read = place.read
            raise _diagnosed(url, place.source.size, read, error) from error
        raw.begin()
        yield file, place.source
    except Exception as error:
        raw.check(error)
        cause = error.__cause__ if isinstance(error, SystemError) else None
        while cause is not None:  # h5py has gone on with an interruption at its back
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            cause = cause.__cause__
        raise
    raw.check()  # HDF5 may have taken what failed for something that is not there


class _Raw(io.RawIOBase):
    """A file of the network as h5py's driver for file objects wants it.

    The first failure is kept, and every read after it fails the same way: HDF5 does not tell a read
    that failed from a thing that is not there.

    HDF5 opens what external links and virtual datasets lead to through the driver of the file that
    they are in, whatever they are called: it would read this file in place of the other. Every file
    that is opened is looked at for its signature first, and this one has been.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._at = 0
        self._failure: BaseException | None = None
        self._is_open = False
        self._prefetcher: Prefetcher | None = None

    def begin(self) -> None:
        """Say that the file is open."""
        self._is_open = True

    def check(self, error: BaseException | None = None) -> None:
        """Raise what has failed, if anything did."""
        if self._failure is not None and self._failure is not error:
            raise self._failure from error

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go somewhere."""
        self._at = offset + (0, self._at, self._file.source.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as fit."""
        wanted = memoryview(buffer).cast("B")
        try:
            if self._failure is not None:
                raise self._failure
            if self._is_open and self._at == 0 and len(wanted) == len(SIGNATURE):
                raise UnsupportedError(
                    "it leads to another file, by an external link or a virtual dataset, which "
                    "is followed from local files only",
                    url=self._file.source.url,
                    remedy="fetch the files, or drop what leads there: drop_variables=[...]",
                )
            length = min(len(wanted), max(self._file.source.size - self._at, 0))
            data = self._file.read(self._at, length) if length else memoryview(b"")
            if self._prefetcher is not None:
                self._prefetcher.look(self._at, data)
            elif bytes(data[: len(SIGNATURE)]) == SIGNATURE:
                self._prefetcher = prefetcher(self._file, self._at)
        except BaseException as error:  # an interruption, too, is no reason to go on
            self._failure = error
            raise
        wanted[:length] = data
        wanted[length:] = bytes(len(wanted) - length)  # as where HDF5 reads by itself
        self._at += length
        return length


def _require_regular(path: str) -> None:
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise SourceMissing("there is no such file", url=path) from error
    except OSError as error:
        raise SourceUnreadable(f"the file can't be reached ({error.strerror})", url=path) from error
    if stat.S_ISDIR(status.st_mode):
        zarr = any(os.path.exists(os.path.join(path, n)) for n in ("zarr.json", ".zgroup"))
        raise NotAFile(f"this is a directory{', a Zarr store' if zarr else ''}", url=path)
    if not stat.S_ISREG(status.st_mode):
        raise NotAFile("this is not a regular file", url=path)
    if status.st_size == 0:
        raise NotAFile("the file is empty", url=path)


type _Read = Callable[[int, int], bytes | memoryview]


def _reader(raw: io.BufferedReader) -> _Read:
    def read(offset: int, length: int) -> bytes:
        raw.seek(offset)
        return raw.read(length)

    return read


def _diagnosed(url: str, size: int, read: _Read, error: Exception) -> IntarsiaError:
    """Say why HDF5 could not open a file."""
    head = bytes(read(0, min(size, 512)))
    start = _signature(size, read)
    if start is None:
        reason = f"this is not HDF5; it looks like {_looks(head)} ({size} bytes)"
        return NotHDF5(reason, url=url)
    text = _text(error)
    if isinstance(error, BlockingIOError):
        return SourceUnreadable("the file is locked: another program writes to it", url=url)
    if "unable to lock" in text:
        remedy = "set HDF5_USE_FILE_LOCKING=BEST_EFFORT in the environment"
        return SourceUnreadable("the file system knows no locks", url=url, remedy=remedy)
    cut = re.search(r"truncated file: .*stored_eof = (\d+)", text)
    remedy = "fetch the file again"
    if cut is not None:
        reason = f"the file is cut short: it has {size} of {cut[1]} bytes"
        return CorruptFile(reason, url=url, remedy=remedy)
    return CorruptFile(f"the file is broken: HDF5 says {text!r}", url=url, remedy=remedy)


def _signature(size: int, read: _Read) -> int | None:
    """Where the signature of HDF5 is: at the start, or after a user block of 512 * 2**n bytes."""
    position = 0
    while position + len(SIGNATURE) <= size:
        if read(position, len(SIGNATURE)) == SIGNATURE:
            return position
        position = 2 * position or 512
    return None


def _looks(head: bytes) -> str:
    for magic, name in _LOOKS:
        if head.startswith(magic):
            return name
    if not head.strip(b"\0"):
        return "zeros"
    start = head.lstrip()[:15].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "a web page"
    if start.startswith(b"<?xml"):
        return "XML"
    if SIGNATURE[:4] == head[:4]:
        return "HDF5 that was transferred as text"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return "binary data of no known format"
    return "text" if all(byte >= 32 or byte in b"\t\n\r\f" for byte in head) else "binary data"


def _raised_by_h5py(error: Exception) -> bool:
    """Whether an error came from the library, and not from a mistake of ours."""
    trace = error.__traceback__
    file = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return file.endswith(".pyx") or "h5py" in file.replace(os.sep, "/").split("/")


def _text(error: Exception) -> str:
    """The message of an error of HDF5 without h5py's preamble."""
    text = str(error.args[-1] if error.args else error)
    inner = re.search(r"\((.*)\)$", text)
    return inner.group(1) if inner else text


@lru_cache(maxsize=1)
def addresses_are_absolute() -> tuple[bool, bool]:
    """Whether the library counts chunk addresses, and dataset offsets, from the start of the file.

    HDF5 2.0 does; versions before it count chunk addresses from the end of the user block. This
    asks the library by writing a file in memory.
    """
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(1 << 16, False)
    creation = h5p.create(h5p.FILE_CREATE)
    creation.set_userblock(512)
    name = b"intarsia-userblock-%d" % os.getpid()
    file = h5f.create(name, h5f.ACC_TRUNC, fcpl=creation, fapl=access)
    values = np.frombuffer(os.urandom(64), np.uint8)
    space = h5s.create_simple((64,))
    chunked = h5p.create(h5p.DATASET_CREATE)
    chunked.set_chunk((64,))
    one = h5d.create(file, b"chunked", h5t.STD_U8LE, space, chunked)
    two = h5d.create(file, b"contiguous", h5t.STD_U8LE, space)
    one.write(h5s.ALL, h5s.ALL, values)
    two.write(h5s.ALL, h5s.ALL, values[::-1].copy())
    h5f.flush(file)
    image = file.get_file_image()
    shift = 512 if image.startswith(SIGNATURE) else 0  # the image may lack the user block
    at_one = image.index(values.tobytes()) + shift
    at_two = image.index(values[::-1].tobytes()) + shift
    result = one.get_chunk_info(0).byte_offset == at_one, two.get_offset() == at_two
    h5py.File(file).close()
    return result
