"""The objects of a store: named bytes, in a folder or in a zip file.

Names are relative POSIX paths. What is read is bounded by what is there; what is written appears
under the store's own name only when all of it is (see `intarsia.store.swap`).
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from intarsia.errors import CorruptStore, NotAStore, StoreError, StoreReplaced

ROOT = "__intarsia__/root.json"
"""The one object that says what the others are."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Date of all members of a zip file, so that equal stores are equal files."""


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
        if self.replaced is not None and self.replaced():
            return StoreReplaced(
                "the store was replaced after it was opened", url=self.url, remedy="open it again"
            )
        return CorruptStore(reason, url=self.url)

    def _piece(
        self,
        file: io.BufferedReader | _Window,
        size: int,
        name: str,
        offset: int,
        length: int | None,
    ) -> bytes:
        """A piece of a file of `size` bytes, whole."""
        wanted = size - offset if length is None else length
        if wanted < 0 or offset < 0 or offset + wanted > size:
            raise self.wrong(f"{name} has {size} bytes, fewer than were expected")
        file.seek(offset)
        data = file.read(wanted)
        if len(data) < wanted:
            raise self.wrong(f"{name} is cut short: {len(data)} of {wanted} bytes")
        return data


class Folder(_Place):
    """Objects that are files in a folder."""

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file."""
        try:
            with open(os.path.join(self.url, name), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                return self._piece(file, size, name, offset, length)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(name) from error
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"{name} can't be read: {error.strerror or error}", url=self.url
            ) from error

    def names(self) -> list[str]:
        """Names of all files below the folder."""
        found: list[str] = []
        for folder, _, files in os.walk(self.url):
            inside = os.path.relpath(folder, self.url).replace(os.sep, "/")
            found += [name if inside == "." else f"{inside}/{name}" for name in files]
        return sorted(found)


class Zipped(_Place):
    """Objects that are members of a zip file, stored without the zip format's own compression."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        try:
            with zipfile.ZipFile(path) as archive:
                self._places = {info.filename: _place(info, path) for info in archive.infolist()}
        except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
            raise NotAStore(f"the zip file is damaged: {error}", url=path) from error

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a member."""
        place = self._places.get(name)
        if place is None:
            raise FileNotFoundError(name)
        header, size = place
        try:
            with open(self.url, "rb") as file:
                file.seek(header)
                fixed = file.read(30)
                if len(fixed) < 30 or fixed[:4] != b"PK\x03\x04":
                    raise self.wrong(f"{name} is not where the zip file says")
                begin = header + 30 + int.from_bytes(fixed[26:28], "little")
                begin += int.from_bytes(fixed[28:30], "little")
                part = _Window(file, begin)
                return self._piece(part, size, name, offset, length)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"{name} can't be read: {error.strerror or error}", url=self.url
            ) from error

    def names(self) -> list[str]:
        """Names of all members."""
        return sorted(self._places)


class _Window:
    """A file whose beginning is somewhere in another."""

    def __init__(self, file: io.BufferedReader, begin: int) -> None:
        self._file = file
        self._begin = begin

    def seek(self, offset: int) -> None:
        self._file.seek(self._begin + offset)

    def read(self, length: int) -> bytes:
        return self._file.read(length)


def _place(info: zipfile.ZipInfo, path: str) -> tuple[int, int]:
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise NotAStore(f"{info.filename} is compressed or encrypted by the zip file", url=path)
    return info.header_offset, info.file_size


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether there is a store at a local path, by what it holds; never raises."""
    try:
        if os.path.isdir(path):
            return os.path.isfile(os.path.join(path, ROOT))
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                return False
        with zipfile.ZipFile(path) as archive:
            return ROOT in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError):
        return False


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
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise StoreError(f"can't be read: {error.strerror or error}", url=path) from error
    if head != b"PK\x03\x04":
        raise NotAStore("neither a folder nor a zip file", url=path, remedy="check the path")
    return Zipped(path)


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
