"""The header of a netCDF3 file as it is written: CDF-1, CDF-2 and CDF-5.

A header is a magic number, the number of records, and lists of dimensions, attributes and
variables, all big-endian and padded to 4 bytes. In CDF-5 counts, lengths and numbers of dimensions
take 8 bytes, in the others 4; where data begin takes 4 bytes in CDF-1 alone. The format is that of
the appendix "File Format Specifications" of the NetCDF User's Guide.

A header may come from a stranger: what it counts has to fit in the file, before any room is made
for it, and a name must not come twice in its list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia.errors import CorruptFile, FormatError, UnsupportedError
from intarsia.io.files import File

__all__ = ["CHAR", "Attribute", "Dimension", "Header", "Variable", "read_header"]

FIRST_READ = 1 << 16
"""Bytes that are read at once to begin with; each further read doubles what is there."""

MAX_HEADER = 1 << 28
"""Longer headers are refused: the memory they take is a multiple of their length."""

AGAIN = "fetch the file again"

CHAR = 2
"""The type of characters."""

_CLASSIC: dict[int, np.dtype[Any]] = {
    1: np.dtype(">i1"),
    CHAR: np.dtype("S1"),
    3: np.dtype(">i2"),
    4: np.dtype(">i4"),
    5: np.dtype(">f4"),
    6: np.dtype(">f8"),
}
_WIDE: dict[int, np.dtype[Any]] = _CLASSIC | {
    7: np.dtype(">u1"),
    8: np.dtype(">u2"),
    9: np.dtype(">u4"),
    10: np.dtype(">i8"),
    11: np.dtype(">u8"),
}

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension.

    Parameters
    ----------
    name
        Its name.
    length
        0 for the dimension of the records.
    """

    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute: a number of values of one type.

    Parameters
    ----------
    dtype
        Of one value.
    data
        The bytes of all.
    """

    dtype: np.dtype[Any]
    data: bytes


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable.

    Parameters
    ----------
    name
        Its name.
    dims
        Numbers of its dimensions.
    attributes
        By name.
    dtype
        Of an element.
    begin
        Offset of the first element.
    """

    name: str
    dims: tuple[int, ...]
    attributes: dict[str, Attribute]
    dtype: np.dtype[Any]
    begin: int


@dataclass(frozen=True, slots=True)
class Header:
    """The whole header.

    Parameters
    ----------
    version
        1, 2 or 5.
    records
        How many there are; None where a writer that streams has never said.
    dimensions, attributes, variables
        In the order of the file.
    nbytes
        Length of the header.
    """

    version: int
    records: int | None
    dimensions: tuple[Dimension, ...]
    attributes: dict[str, Attribute]
    variables: tuple[Variable, ...]
    nbytes: int


def read_header(file: File) -> Header:
    """Read and parse the header of a file.

    Parameters
    ----------
    file
        Of which no more is read than the header, rounded up.

    Raises
    ------
    FormatError
        It is no netCDF3.
    CorruptFile
        It is cut short, or says what can't be.
    UnsupportedError
        It is longer than `MAX_HEADER`.
    """
    return _Parser(file).header()


class _Parser:
    """A place in a header, and what has been read of it."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._size = file.source.size
        self._read = bytearray()
        self._at = 0
        self._width = 4

    def header(self) -> Header:
        magic = self._take(4)
        version = magic[3]
        if magic[:3] != b"CDF" or version not in (1, 2, 5):
            raise FormatError(f"this is not netCDF3; it begins with {magic!r}")
        self._width = 8 if version == 5 else 4
        types = _WIDE if version == 5 else _CLASSIC
        records = self._integer(self._width)
        streaming = records == (1 << 8 * self._width) - 1
        dimensions = self._dimensions()
        attributes = self._attributes(types)
        variables = self._variables(types, len(dimensions), 4 if version == 1 else 8)
        return Header(
            version, None if streaming else records, dimensions, attributes, variables, self._at
        )

    # -- bytes -----------------------------------------------------------------------------------

    def _take(self, length: int) -> bytes:
        start, end = self._at, self._at + length
        if end > len(self._read):
            self._fetch(end)
        self._at = end
        return bytes(self._read[start:end])

    def _fetch(self, end: int) -> None:
        if end > self._size:
            reason = f"the header is cut short: it goes on after the file's {self._size} bytes"
            raise CorruptFile(reason, remedy=AGAIN)
        if end > MAX_HEADER:
            raise UnsupportedError(f"the header has more than {MAX_HEADER} bytes")
        there = len(self._read)
        wanted = min(max(end, 2 * there, FIRST_READ), self._size)
        self._read += self._file.read(there, wanted - there)

    def _padded(self, length: int) -> bytes:
        data = self._take(length)
        self._take(-length % 4)
        return data

    def _integer(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big")

    # -- what they say ---------------------------------------------------------------------------

    def _count(self, what: str, least: int) -> int:
        """How many of something follow, each of which takes so many bytes at least."""
        count = self._integer(self._width)
        if count * least > self._size - self._at:
            reason = f"the header is broken or cut short: {what} can't be {count} in what follows"
            raise CorruptFile(reason, remedy=AGAIN)
        return count

    def _list(self, what: str, tag: int, least: int) -> int:
        """How many elements a list has, by the tag and the count in front of it."""
        found = self._integer(4)
        count = self._count(what, least)
        if found != tag and (found or count):
            reason = f"the header is broken: the list of {what} begins with {found}, not {tag}"
            raise CorruptFile(reason, remedy=AGAIN)
        return count

    def _name(self, what: str, known: set[str]) -> str:
        raw = self._padded(self._count("the letters of a name", 1)).rstrip(b"\0")
        if not raw or b"\0" in raw:
            raise CorruptFile(f"the header is broken: a {what} has the name {raw!r}", remedy=AGAIN)
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if self._width == 8:
                reason = f"the header is broken: the name {raw!r} of a {what} is not UTF-8"
                raise CorruptFile(reason, remedy=AGAIN) from error
            name = raw.decode("latin1")  # from before the format said which
        if name in known:
            reason = f"the header is broken: there are two {what}s called {name!r}"
            raise CorruptFile(reason, remedy=AGAIN)
        known.add(name)
        return name

    def _type(self, types: dict[int, np.dtype[Any]]) -> np.dtype[Any]:
        number = self._integer(4)
        if number not in types:
            reason = f"the header is broken: there is no type {number} in this version of netCDF3"
            raise CorruptFile(reason, remedy=AGAIN)
        return types[number]

    def _dimensions(self) -> tuple[Dimension, ...]:
        count = self._list("dimensions", _DIMENSIONS, 2 * self._width + 4)
        known: set[str] = set()
        return tuple(
            Dimension(self._name("dimension", known), self._integer(self._width))
            for _ in range(count)
        )

    def _attributes(self, types: dict[int, np.dtype[Any]]) -> dict[str, Attribute]:
        count = self._list("attributes", _ATTRIBUTES, 2 * self._width + 8)
        known: set[str] = set()
        found: dict[str, Attribute] = {}
        for _ in range(count):
            name = self._name("attribute", known)
            dtype = self._type(types)
            length = self._count("the values of an attribute", dtype.itemsize)
            found[name] = Attribute(dtype, self._padded(length * dtype.itemsize))
        return found

    def _variables(
        self, types: dict[int, np.dtype[Any]], dimensions: int, offset_width: int
    ) -> tuple[Variable, ...]:
        width = self._width
        least = 4 * width + 12 + offset_width
        known: set[str] = set()
        found: list[Variable] = []
        for _ in range(self._list("variables", _VARIABLES, least)):
            name = self._name("variable", known)
            dims = tuple(
                self._integer(width) for _ in range(self._count("dimensions of a variable", width))
            )
            if dims and max(dims) >= dimensions:
                reason = f"the header is broken: there is no dimension number {max(dims)}"
                raise CorruptFile(reason, array=name, remedy=AGAIN)
            attributes = self._attributes(types)
            dtype = self._type(types)
            self._integer(width)  # its size, which follows from the shape, and may be wrong here
            begin = int.from_bytes(self._take(offset_width), "big", signed=True)
            found.append(Variable(name, dims, attributes, dtype, begin))
        return tuple(found)
