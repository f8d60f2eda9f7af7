"""Opening a file that should be HDF5, and saying promptly what it is where it is not."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5f, h5p, h5s, h5t

from intarsia.errors import (
    CorruptFile,
    IntarsiaError,
    NotAFile,
    NotHDF5,
    SourceMissing,
    SourceUnreadable,
)

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
    stat
        Of the very file that HDF5 has open.
    base
        Bytes to be added to chunk addresses, and to dataset offsets, that the library reports.
    """

    id: Any
    stat: os.stat_result
    base: tuple[int, int]


@contextmanager
def opened(path: str) -> Generator[Opened]:
    """Open a local HDF5 file for reading.

    Raises
    ------
    SourceMissing, SourceUnreadable, NotAFile
        It can't be had, is locked by a writer, is empty, or is no regular file.
    NotHDF5
        It holds something else.
    CorruptFile
        It is cut short, or its structure is broken; also raised for what h5py raises in the body
        of the ``with`` statement.
    """
    _require_regular(path)
    try:
        # With the library's defaults: others would not go with a file that is open already.
        file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY)
    except HDF5_ERRORS as error:
        raise _diagnosed(path, error) from error
    try:
        status = os.fstat(file.get_vfd_handle())
        userblock = file.get_create_plist().get_userblock()
        base = (0, 0)
        if userblock:
            chunks, offsets = addresses_are_absolute()
            base = (0 if chunks else userblock, 0 if offsets else userblock)
        yield Opened(file, status, base)
    except IntarsiaError:
        raise
    except HDF5_ERRORS as error:
        if not _raised_by_h5py(error):
            raise
        reason = f"the structure of the file is broken ({_text(error)})"
        raise CorruptFile(reason, url=path) from error
    finally:
        h5py.File(file).close()  # with every object that is still open


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


def _diagnosed(path: str, error: Exception) -> IntarsiaError:
    """Say why HDF5 could not open a file."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
            start = _signature(path, head)
    except OSError as denied:
        return SourceUnreadable(f"the file can't be read ({denied.strerror})", url=path)
    if start is None:
        size = os.path.getsize(path)
        reason = f"this is not HDF5; it looks like {_looks(head)} ({size} bytes)"
        return NotHDF5(reason, url=path)
    text = _text(error)
    if isinstance(error, BlockingIOError):
        return SourceUnreadable("the file is locked: another program writes to it", url=path)
    if "unable to lock" in text:
        remedy = "set HDF5_USE_FILE_LOCKING=BEST_EFFORT in the environment"
        return SourceUnreadable("the file system knows no locks", url=path, remedy=remedy)
    cut = re.search(r"truncated file: .*stored_eof = (\d+)", text)
    remedy = "fetch the file again"
    if cut is not None:
        reason = f"the file is cut short: it has {os.path.getsize(path)} of {cut[1]} bytes"
        return CorruptFile(reason, url=path, remedy=remedy)
    return CorruptFile(f"the file is broken: HDF5 says {text!r}", url=path, remedy=remedy)


def _signature(path: str, head: bytes) -> int | None:
    """Where the signature of HDF5 is: at the start, or after a user block of 512 * 2**n bytes."""
    if head.startswith(SIGNATURE):
        return 0
    size, position = os.path.getsize(path), 512
    with open(path, "rb") as file:
        while position < size:
            file.seek(position)
            if file.read(len(SIGNATURE)) == SIGNATURE:
                return position
            position *= 2
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
