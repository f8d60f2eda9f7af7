"""The errors Intarsia raises: one tree, stable kinds, and a location on each.

The tree is grouped by what a handler can do about it::

    IntarsiaError                    "error"
    ├── SourceError (OSError)        "source"               the bytes could not be had
    │   ├── SourceMissing            "source-missing"       (also a FileNotFoundError)
    │   ├── SourceChanged            "source-changed"       not the bytes that were scanned
    │   ├── ShortRead                "short-read"           fewer bytes than were asked for
    │   ├── SourceUnreadable         "source-unreadable"    permission, device failure
    │   └── NotAFile                 "not-a-file"           a directory, or nothing in it
    ├── FormatError (ValueError)     "format"               the file is not what it should be
    │   ├── NotHDF5                  "not-hdf5"             says what it looks like instead
    │   └── CorruptFile              "corrupt-file"
    ├── ChunkError                   "chunk"                one chunk's bytes are wrong
    │   ├── CorruptChunk             "corrupt-chunk"        the compressed stream is broken
    │   ├── ChecksumMismatch         "checksum-mismatch"
    │   └── WrongLength              "wrong-length"         decodes to another number of bytes
    ├── UnsupportedError             "unsupported"          sound, but beyond Intarsia
    │   ├── UnsupportedVariable      "unsupported-variable"
    │   └── MissingPackage           "missing-package"      (also an ImportError)
    ├── ConflictError (ValueError)   "conflict"             sources disagree
    │   ├── CombineConflict          "combine-conflict"     attributes, calendars, dtypes, ...
    │   └── AlignmentConflict        "alignment-conflict"   coordinates
    ├── StoreError (ValueError)      "store"                a saved store can't be read or written
    │   ├── NotAStore                "not-a-store"          nothing of ours is there
    │   ├── CorruptStore             "corrupt-store"        damaged, or impossible in itself
    │   ├── UnsafeStore              "unsafe-store"         it reaches for what it must not have
    │   ├── StoreExists              "store-exists"         (also a FileExistsError)
    │   └── StoreReplaced            "store-replaced"       it is gone, or another is in its place
    └── UpstreamFault                "upstream-fault"       a known fault of a library below

``kind`` is part of the public interface: it never changes, so programs may compare it, and reports
that leave Python may carry it.

The layer that notices a fault rarely knows where it is. It raises with what it knows, and each
layer above adds its part::

    except ChunkError as error:
        raise error.located(url=url, array=name, chunk=index) from error.__cause__
"""

from __future__ import annotations

import copy
import re
import reprlib
from collections.abc import Iterable
from typing import Any, ClassVar, Self

__all__ = [
    "AlignmentConflict",
    "ChecksumMismatch",
    "ChunkError",
    "CombineConflict",
    "ConflictError",
    "CorruptChunk",
    "CorruptFile",
    "CorruptStore",
    "FormatError",
    "IntarsiaError",
    "MissingPackage",
    "NotAFile",
    "NotAStore",
    "NotHDF5",
    "ShortRead",
    "SourceChanged",
    "SourceError",
    "SourceMissing",
    "SourceUnreadable",
    "StoreError",
    "StoreExists",
    "StoreReplaced",
    "UnsafeStore",
    "UnsupportedError",
    "UnsupportedVariable",
    "UpstreamFault",
    "WrongLength",
]


class IntarsiaError(Exception):
    """Base of every error that Intarsia raises on purpose.

    Parameters
    ----------
    reason : str
        What is wrong, without saying where: ``"the deflate stream is broken"``.
    url : str, optional
        The source (path or URL) in which it is wrong.
    array : str, optional
        The variable, as the source or the dataset names it.
    chunk : iterable of int, optional
        Index of the chunk in the array's own chunk grid.
    remedy : str, optional
        What the reader can do: ``"fetch the file again"``.

    Attributes
    ----------
    kind : str
        Stable name of the class, for programs.
    reason, url, array, chunk, remedy
        As given; ``chunk`` as a tuple of int. What is not known is None.
    """

    kind: ClassVar[str] = "error"

    reason: str
    url: str | None
    array: str | None
    chunk: tuple[int, ...] | None
    remedy: str | None

    def __init__(
        self,
        reason: str,
        *,
        url: str | None = None,
        array: str | None = None,
        chunk: Iterable[int] | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.url = url
        self.array = array
        self.chunk = _index(chunk)
        self.remedy = remedy

    def located(
        self,
        *,
        url: str | None = None,
        array: str | None = None,
        chunk: Iterable[int] | None = None,
    ) -> Self:
        """Return a copy that says where, keeping each location that is known already.

        The copy has the cause, notes and traceback of the original.

        Parameters
        ----------
        url, array, chunk
            As for the class. Those the error has already are ignored.

        Returns
        -------
        IntarsiaError
            Of the same class.
        """
        new = copy.copy(self)
        if new.url is None:
            new.url = url
        if new.array is None:
            new.array = array
        if new.chunk is None:
            new.chunk = _index(chunk)
        if hasattr(self, "__notes__"):
            new.__notes__ = list(self.__notes__)
        new.__cause__ = self.__cause__
        new.__context__ = self.__context__
        new.__suppress_context__ = self.__suppress_context__
        return new.with_traceback(self.__traceback__)

    def __str__(self) -> str:
        text = self.reason.rstrip(".")
        where = self._where()
        if where:
            text = f"{text}: {where}"
        remedy = self._what_to_do()
        if remedy:
            text = f"{text}; {remedy}"
        return text if text.isprintable() else _printable(text)

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args`, which would lose everything but the reason.
        return _rebuild, (type(self), self.args), self.__dict__

    def _where(self) -> str:
        """Say where: ``chunk (0, 1) of 'sst' in a.nc``, as far as it is known."""
        inner = " of ".join(
            part
            for part in (
                f"chunk {self.chunk}" if self.chunk is not None else "",
                repr(self.array) if self.array is not None else "",
            )
            if part
        )
        return " in ".join(part for part in (inner, self.url and shown(self.url)) if part)

    def _what_to_do(self) -> str:
        return self.remedy.rstrip(".") if self.remedy else ""


class SourceError(IntarsiaError, OSError):
    """The bytes of a source could not be had."""

    kind = "source"


class SourceMissing(SourceError, FileNotFoundError):
    """There is no such file or object."""

    kind = "source-missing"


class SourceChanged(SourceError):
    """The source is not the one that was scanned: its size, time or etag differs."""

    kind = "source-changed"


class ShortRead(SourceError):
    """A read returned fewer bytes than were asked for."""

    kind = "short-read"


class SourceUnreadable(SourceError):
    """The source exists but can't be read: no permission, or the device fails."""

    kind = "source-unreadable"


class NotAFile(SourceError):
    """The source is a directory or another thing without content, or is empty."""

    kind = "not-a-file"


class FormatError(IntarsiaError, ValueError):
    """A file is not what its name or the caller says."""

    kind = "format"


class NotHDF5(FormatError):
    """The file is not HDF5; the reason says what it looks like instead."""

    kind = "not-hdf5"


class CorruptFile(FormatError):
    """The file is of the right format, but its structure is broken or cut short."""

    kind = "corrupt-file"


class ChunkError(IntarsiaError):
    """The bytes of one chunk do not decode."""

    kind = "chunk"


class CorruptChunk(ChunkError):
    """A compressed stream is broken."""

    kind = "corrupt-chunk"


class ChecksumMismatch(ChunkError):
    """A stored checksum is not that of the bytes."""

    kind = "checksum-mismatch"


class WrongLength(ChunkError):
    """A chunk decodes to more or fewer bytes than its shape and dtype say."""

    kind = "wrong-length"


class UnsupportedError(IntarsiaError):
    """The input is sound, but Intarsia can't give it."""

    kind = "unsupported"


class UnsupportedVariable(UnsupportedError):
    """One variable needs a codec, dtype or layout that Intarsia lacks."""

    kind = "unsupported-variable"


class MissingPackage(UnsupportedError, ImportError):
    """It takes a package that is not installed; the remedy is the command that installs it."""

    kind = "missing-package"


class ConflictError(IntarsiaError, ValueError):
    """Sources disagree in what has to be the same.

    Parameters
    ----------
    reason : str
        What differs: ``"units differ"``.
    variable : str, optional
        The variable in which they disagree. The same thing as ``array``.
    values : iterable, optional
        What each of ``files`` has, in their order.
    files : iterable of str, optional
        The sources that disagree.
    argument : str, optional
        The argument that overrides the refusal, as it is written: ``"on_conflict='first'"``.
    url, array, chunk, remedy
        As for `IntarsiaError`.
    """

    kind = "conflict"

    values: tuple[Any, ...]
    files: tuple[str, ...]
    argument: str | None

    def __init__(
        self,
        reason: str,
        *,
        variable: str | None = None,
        values: Iterable[Any] = (),
        files: Iterable[str] = (),
        argument: str | None = None,
        url: str | None = None,
        array: str | None = None,
        chunk: Iterable[int] | None = None,
        remedy: str | None = None,
    ) -> None:
        name = variable if variable is not None else array
        super().__init__(reason, url=url, array=name, chunk=chunk, remedy=remedy)
        self.values = tuple(values)
        self.files = tuple(files)
        self.argument = argument

    @property
    def variable(self) -> str | None:
        """The variable in which the sources disagree."""
        return self.array

    def _where(self) -> str:
        if len(self.values) == len(self.files):
            pairs = zip(self.values, self.files, strict=True)
            parts = [f"{_short(value)} in {shown(file)}" for value, file in pairs]
        else:
            parts = [_short(value) for value in self.values]
            parts += [f"in {shown(file)}" for file in self.files]
        if len(parts) > _SHOWN:
            parts = [*parts[:_SHOWN], f"{len(parts) - _SHOWN} more"]
        listed = ", ".join([*parts[:-2], " and ".join(parts[-2:])]) if parts else ""
        return ", ".join(part for part in (super()._where(), listed) if part)

    def _what_to_do(self) -> str:
        given = super()._what_to_do()
        override = f"pass {self.argument} to override" if self.argument else ""
        return ", or ".join(part for part in (given, override) if part)


class CombineConflict(ConflictError):
    """Attributes, calendars or dtypes of a variable differ between sources."""

    kind = "combine-conflict"


class AlignmentConflict(ConflictError):
    """Coordinates differ between sources, so their values can't be lined up as asked."""

    kind = "alignment-conflict"


class StoreError(IntarsiaError, ValueError):
    """A saved store can't be read or written."""

    kind = "store"


class NotAStore(StoreError):
    """There is no store, or what is there is not one."""

    kind = "not-a-store"


class CorruptStore(StoreError):
    """A part of the store is missing or damaged, or says what can't be."""

    kind = "corrupt-store"


class UnsafeStore(StoreError):
    """The store reaches for what a store must not have: paths outside its containers."""

    kind = "unsafe-store"


class StoreExists(StoreError, FileExistsError):
    """Something is there already where the store was to be written."""

    kind = "store-exists"


class StoreReplaced(StoreError):
    """The store was replaced or removed after it was opened, so that the rest of it is gone."""

    kind = "store-replaced"


class UpstreamFault(IntarsiaError):
    """The answer would come from a known fault of a library below, so it is refused by name."""

    kind = "upstream-fault"


_SHOWN = 4
"""How many disagreeing sources a message lists before it only counts them."""


_SECRET = re.compile(r"(?<=://)[^/?#]*@(?=[^/?#]+)|[?#].*", re.DOTALL)


def shown(place: str) -> str:
    """A place as it may be told: URLs without user, password and query, which may sign them.

    Examples
    --------
    >>> shown("https://me:secret@host/a.nc?sig=abc"), shown("/data/a?.nc")
    ('https://host/a.nc?...', '/data/a?.nc')
    """
    if "://" not in place:
        return place
    abfs = place.lower().startswith(("abfs", "az", "adl"))  # container@account is no secret
    return _SECRET.sub(lambda found: _kept(found[0], abfs), place)


def _kept(part: str, abfs: bool) -> str:
    if part.startswith(("?", "#")):
        return "?..." if part.startswith("?") else ""
    return part if abfs and ":" not in part else ""


def _index(chunk: Iterable[int] | None) -> tuple[int, ...] | None:
    return None if chunk is None else tuple(int(i) for i in chunk)


def _printable(text: str) -> str:
    """Names from files and stores may hold what a terminal obeys, or can't show."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )


def _short(value: object) -> str:
    return reprlib.repr(value)


def _rebuild(cls: type[IntarsiaError], args: tuple[Any, ...]) -> IntarsiaError:
    # of the bases that are built in, the one that decides how an instance is laid out
    base = next((one for one in (OSError, ImportError) if issubclass(cls, one)), Exception)
    error: IntarsiaError = base.__new__(cls)  # pyright: ignore[reportAssignmentType]
    error.args = args
    return error
