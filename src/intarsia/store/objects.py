"""The objects of a store: named bytes, in a folder or in a zip file.

Names are relative POSIX paths. What is read is bounded by what is there; what is written appears
under the store's own name only when all of it is (see `intarsia.store.swap`).
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Protocol

from intarsia.errors import CorruptStore, NotAStore, StoreError, StoreReplaced, UnsafeStore

ROOT = "__intarsia__/root.json"
"""The one object that says what the others are."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Date of all members of a zip file, so that equal stores are equal files."""

MAX_OBJECT = 1 << 29
"""Larger objects are only read in pieces; no chunk or document of a store comes near to it."""

_ATTEMPTS = 5
"""How often a root is looked for in a folder that has none: it may be replaced this moment."""

# what is no file is not waited for
_flags = os.O_RDONLY
for _flag in ("O_BINARY", "O_NONBLOCK", "O_NOCTTY"):
    _flags |= getattr(os, _flag, 0)


type Identity = tuple[int, int, int, int]


class Objects(Protocol):
    """Reads objects by name."""

    @property
    def url(self) -> str:
        """Where the store is."""
        ...

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of an object from `offset` on; all of them, where no `length` is given.

        Raises
        ------
        FileNotFoundError
            If there is no such object.
        StoreError
            If it can't be read, or is shorter than was asked for.
        """
        ...

    def names(self) -> list[str]:
        """Names of all objects, sorted."""
        ...

    def wrong(self, reason: str) -> StoreError:
        """The error for an object that is not what the root promises."""
        ...


class _Place:
    """A place of objects, which may be given to another store while this one is read.

    Attributes
    ----------
    url
        Where it is.
    replaced
        Says whether another store is there now; None while the root is not known.
    """

    def __init__(self, path: str) -> None:
        self.url = path
        self.replaced: Callable[[], bool] | None = None

    def wrong(self, reason: str) -> StoreError:
        """The error for an object that is not what the root promises."""
        if not os.path.lexists(self.url):
            return StoreReplaced("the store was removed after it was opened", url=self.url)
        if self.replaced is not None and self.replaced():
            return self._was_replaced()
        return CorruptStore(reason, url=self.url)

    def _was_replaced(self) -> StoreReplaced:
        return StoreReplaced(
            "the store was replaced after it was opened", url=self.url, remedy="open it again"
        )

    @contextmanager
    def _opened(self, path: str, name: str) -> Generator[BinaryIO]:
        """A file that is one, open; the system's errors in here are told as ours."""
        try:
            with open(os.open(path, _flags), "rb", buffering=0) as file:
                if not S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise self.wrong(f"{name} is not a file")
                yield file
        except StoreError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(name) from error
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"{name} can't be read: {reason}", url=self.url) from error

    def _piece(
        self,
        file: BinaryIO,
        place: tuple[int, int],
        name: str,
        offset: int,
        length: int | None,
    ) -> bytes:
        """A piece of what begins at a place of a file and has so many bytes."""
        begin, size = place
        wanted = size - offset if length is None else length
        if wanted < 0 or offset < 0 or offset + wanted > size:
            raise self.wrong(f"{name} has {size} bytes, fewer than were expected")
        there = os.fstat(file.fileno()).st_size  # before room is made for what is asked for
        if wanted > MAX_OBJECT or begin + offset + wanted > there:
            raise self.wrong(f"{wanted} bytes of {name} can't be read")
        file.seek(begin + offset)
        parts: list[bytes] = []
        while wanted:
            part = file.read(wanted)
            if not part:
                raise self.wrong(f"{name} is cut short: {wanted} bytes are missing")
            parts.append(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Folder(_Place):
    """Objects that are files in a folder. Links in it must not lead out of it."""

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file."""
        self._check_links(name)
        with self._opened(os.path.join(self.url, name), name) as file:
            size = os.fstat(file.fileno()).st_size
            return self._piece(file, (0, size), name, offset, length)

    def _check_links(self, name: str) -> None:
        path = self.url
        for part in name.split("/"):
            path = os.path.join(path, part)
            if os.path.islink(path):
                inside = os.path.join(os.path.realpath(self.url), "")
                if not os.path.realpath(path).startswith(inside):
                    raise UnsafeStore(f"{name} is a link that leads out of it", url=self.url)

    def names(self) -> list[str]:
        """Names of all files below the folder."""
        found: list[str] = []
        for folder, _, files in os.walk(self.url):
            inside = os.path.relpath(folder, self.url).replace(os.sep, "/")
            found += [name if inside == "." else f"{inside}/{name}" for name in files]
        return sorted(found)


class Zipped(_Place):
    """Objects that are members of a zip file, stored without the zip format's own compression.

    Where members are is read once. Another file in the place of this one is noticed, whatever is
    read of it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with self._opened(path, os.path.basename(path)) as file:
            self._directory = self._read_directory(file)

    def _read_directory(self, file: BinaryIO) -> tuple[Identity, dict[str, zipfile.ZipInfo]]:
        """Which file this is, and its members."""
        identity = _identity(file)
        try:
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except _DAMAGES as error:
            raise NotAStore(f"the zip file is damaged: {error}", url=self.url) from error
        members = {info.filename: info for info in infos}
        if len(members) < len(infos):
            raise NotAStore("the zip file has two members of one name", url=self.url)
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                reason = f"{info.filename[:200]} is compressed or encrypted by the zip file"
                remedy = "make it without compression (zip -0)"
                raise NotAStore(reason, url=self.url, remedy=remedy)
        return identity, members

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a member."""
        with self._opened(self.url, name) as file:
            identity, members = self._directory
            if _identity(file) != identity:
                if self.replaced is None or self.replaced():
                    raise self._was_replaced()
                # the same store: touched, or copied
                self._directory = _, members = self._read_directory(file)
            info = members.get(name)
            if info is None:
                raise FileNotFoundError(name)
            return self._piece(file, self._place(file, info), name, offset, length)

    def _place(self, file: BinaryIO, info: zipfile.ZipInfo) -> tuple[int, int]:
        """Where a member's bytes begin, and how many there are."""
        if info.header_offset >= 0 and info.compress_size == info.file_size:
            file.seek(info.header_offset)
            fixed = file.read(30)
            length, extra = (int.from_bytes(fixed[n : n + 2], "little") for n in (26, 28))
            text = "utf-8" if info.flag_bits & 0x800 else "cp437"
            name = file.read(length)
            if fixed[:4] == b"PK\x03\x04" and name == info.orig_filename.encode(text):
                return info.header_offset + 30 + length + extra, info.file_size
        raise self.wrong(f"{info.filename} is not where the zip file says")

    def names(self) -> list[str]:
        """Names of all members."""
        return sorted(self._directory[1])


_DAMAGES = (
    *(zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, OverflowError, LookupError),
    *(struct.error, OSError),
)
"""What Python's reader of zip files raises for those that are damaged."""


def _identity(file: BinaryIO) -> Identity:
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


_MARK = ROOT.partition("/")[0].encode() + b"/"
_LOOKED_AT = 1 << 20


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether there is a store at a local path, by what it holds; never raises."""
    try:
        if os.path.isdir(path):
            # in the folder that was there a moment ago, there may be nothing left
            return any(os.path.isfile(os.path.join(path, ROOT)) for _ in range(_ATTEMPTS))
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                return False
            try:
                with zipfile.ZipFile(file) as archive:
                    names = archive.namelist()
            except _DAMAGES:  # damaged, it still is no zip file of another kind
                file.seek(0)
                return _MARK in file.read(_LOOKED_AT)
            return any(name.startswith(_MARK.decode()) for name in names)
    except _DAMAGES:
        return False


def root_of(objects: Objects) -> bytes:
    """The bytes of the root.

    Raises
    ------
    NotAStore
        If there is none.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return objects.get(ROOT)
        except FileNotFoundError as error:
            # in the folder that was there a moment ago, there may be nothing left
            if attempt == _ATTEMPTS - 1:
                raise NotAStore(
                    f"there is no {ROOT} in it", url=objects.url, remedy="check the path"
                ) from error
    raise AssertionError


def open_objects(path: str) -> Folder | Zipped:
    """The objects of the store at a local path.

    Raises
    ------
    NotAStore
        If there is nothing, or something else.
    """
    if os.path.isdir(path):
        return Folder(path)
    if not os.path.lexists(path):
        raise NotAStore("there is no such store", url=path, remedy="check the path")
    if not os.path.isfile(path):  # a pipe would be waited for
        raise NotAStore("neither a folder nor a zip file", url=path, remedy="check the path")
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise StoreError(f"can't be read: {error.strerror or error}", url=path) from error
    if head != b"PK\x03\x04":
        raise NotAStore("neither a folder nor a zip file", url=path, remedy="check the path")
    try:
        return Zipped(path)
    except FileNotFoundError as error:
        raise NotAStore("there is no such store", url=path, remedy="check the path") from error


class Writer(Protocol):
    """Takes objects by name, each once."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        ...

    def close(self) -> None:
        """See to it that everything has reached the disk."""
        ...


class FolderWriter:
    """Writes objects as files of a new folder."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.path.mkdir()

    def put(self, name: str, data: bytes) -> None:
        """Write a file; one that is there already is a fault of the caller."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            if name == ROOT:
                os.fsync(file.fileno())

    def close(self) -> None:
        """Nothing is left to do."""


class ZipWriter:
    """Writes objects as members of a new zip file."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "xb")  # noqa: SIM115  closed by close()
        self._archive = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)

    def put(self, name: str, data: bytes) -> None:
        """Write a member."""
        info = zipfile.ZipInfo(name, EPOCH)
        info.external_attr = 0o644 << 16
        self._archive.writestr(info, data)

    def close(self) -> None:
        """Write the directory of the zip file."""
        try:
            self._archive.close()
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()
