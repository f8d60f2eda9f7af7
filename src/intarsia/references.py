"""Where bytes are: the table of sources, and columns of references into them.

A *source* is one file or object. A *reference* says where one chunk's bytes are: at an offset of a
source, inline in the table, or nowhere (the chunk was never written). Both are kept as columns;
there is no Python object per chunk.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.access import Access
from intarsia.errors import shown

type IntArray = npt.NDArray[Any]

# How a segment finds its rows in a table of references.
DENSE = 0
"""One row per chunk of the whole grid, in C order."""
SPARSE = 1
"""One row per written chunk, sorted by chunk index."""
AFFINE = 2
"""One row for a run of bytes: chunk ``i`` lies ``i`` chunk lengths into it."""
MISSING = 3
"""No rows: nothing was written, every element is the raw fill."""

# What a row is.
STORED = 0
INLINE = 1
ABSENT = 2


class Source(NamedTuple):
    """One file or object, with what pins it.

    Parameters
    ----------
    container
        Place that holds the source: a folder or URL prefix, ending in ``/``.
    key
        Name within the container.
    size
        Bytes, or -1 where unknown.
    mtime_ns
        Modification time in nanoseconds since 1970, or -1 where unknown.
    etag
        Entity tag, or ``None``.
    sample
        Digest of some of its bytes (see `intarsia.io.sampling`), or ``None``.
    scan
        What was asked for when it was scanned, as canonical JSON: the group and the decoding
        options that are not the defaults. Empty where all are.
    access
        How it is reached, where that has to be said.
    """

    container: str
    key: str
    size: int
    mtime_ns: int
    etag: str | None = None
    sample: str | None = None
    scan: str = ""
    access: Access | None = None

    @property
    def url(self) -> str:
        """Container and key together."""
        return self.container + self.key

    def __repr__(self) -> str:
        # a URL may hold what signs it
        told = (f"{name}={value!r}" for name, value in zip(self._fields[2:], self[2:], strict=True))
        return f"Source({shown(self.url)!r}, {', '.join(told)})"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Sources:
    """An immutable table of sources, shared by the variables of one open."""

    containers: tuple[str, ...]
    keys: tuple[str, ...]
    sizes: IntArray
    mtimes_ns: IntArray
    etags: tuple[str | None, ...] | None = None
    samples: tuple[str | None, ...] | None = None
    scans: tuple[str, ...] | None = None
    accesses: tuple[Access | None, ...] | None = None

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Sources:
        """Build the table from rows."""
        etags = tuple(source.etag for source in sources)
        samples = tuple(source.sample for source in sources)
        scans = tuple(source.scan for source in sources)
        accesses = tuple(source.access for source in sources)
        return cls(
            tuple(source.container for source in sources),
            tuple(source.key for source in sources),
            np.array([source.size for source in sources], np.int64),
            np.array([source.mtime_ns for source in sources], np.int64),
            etags if any(etag is not None for etag in etags) else None,
            samples if any(sample is not None for sample in samples) else None,
            scans if any(scans) else None,
            accesses if any(access is not None for access in accesses) else None,
        )

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], stat: os.stat_result | None = None) -> Sources:
        """Table of one local file, pinned by `stat` (taken now where not given)."""
        container, key = os.path.split(os.path.abspath(path))
        stat = os.stat(path) if stat is None else stat
        container = container if container.endswith("/") else container + "/"
        return cls.of([Source(container, key, stat.st_size, stat.st_mtime_ns)])

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Source]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Source:
        return Source(
            self.containers[index],
            self.keys[index],
            int(self.sizes[index]),
            int(self.mtimes_ns[index]),
            None if self.etags is None else self.etags[index],
            None if self.samples is None else self.samples[index],
            "" if self.scans is None else self.scans[index],
            None if self.accesses is None else self.accesses[index],
        )

    def url(self, index: int) -> str:
        """Container and key of one source."""
        return self.containers[index] + self.keys[index]

    @property
    def nbytes(self) -> int:
        """Bytes held by the columns and the strings."""
        strings = sum(len(key) + 49 for key in self.keys)
        strings += sum(len(container) + 49 for container in set(self.containers))
        return strings + 16 * len(self) + self.sizes.nbytes + self.mtimes_ns.nbytes

    @staticmethod
    def union(tables: Sequence[Sources]) -> tuple[Sources, list[IntArray | None]]:
        """One table for all, with each table's row numbers in it.

        The same tables give the same union again, as long as they live (a short memory keeps the
        last unions), so that the variables of one dataset keep sharing one table.

        Returns
        -------
        sources
            The united table; the very same object where there was only one.
        maps
            For each table the new number of each row, or ``None`` where the numbers stay.
        """
        distinct = tuple({id(table): table for table in tables}.values())
        if len(distinct) == 1:
            return distinct[0], [None] * len(tables)
        united, maps = _remembered_union(distinct)
        number = {id(table): index for index, table in enumerate(distinct)}
        return united, [maps[number[id(table)]] for table in tables]


class _Union(NamedTuple):
    """A union, and the tables it was made of."""

    tables: tuple[weakref.ref[Sources], ...]
    united: Sources
    maps: tuple[IntArray, ...]


_unions: dict[tuple[int, ...], _Union] = {}
"""The last unions, by the identities of their tables; forgotten when the first table dies."""


def _remembered_union(tables: tuple[Sources, ...]) -> tuple[Sources, tuple[IntArray, ...]]:
    key = tuple(map(id, tables))
    found = _unions.get(key)
    # an identity may have passed on to another table
    if found is not None and all(
        known() is table for known, table in zip(found.tables, tables, strict=True)
    ):
        return found.united, found.maps
    united, maps = _union(tables)
    drop = partial(_forget, _unions, key)  # a global is gone when the interpreter ends
    first = weakref.ref(tables[0], drop)
    _unions[key] = _Union((first, *map(weakref.ref, tables[1:])), united, maps)
    for old in list(_unions)[:-16]:
        _unions.pop(old, None)
    return united, maps


def _forget(unions: dict[tuple[int, ...], _Union], key: tuple[int, ...], _: object) -> None:
    unions.pop(key, None)


def _union(tables: tuple[Sources, ...]) -> tuple[Sources, tuple[IntArray, ...]]:
    rows: dict[Source, int] = {}
    maps: list[IntArray] = []
    for table in tables:
        numbers = [rows.setdefault(source, len(rows)) for source in table]
        maps.append(np.array(numbers, np.int64))
    return Sources.of(list(rows)), tuple(maps)


NO_SOURCES = Sources.of([])
"""The table of arrays that are constant or inline."""


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """Immutable columns of references.

    Parameters
    ----------
    offsets, lengths
        Where a row's bytes are, and how many, in its source or in `inline`.
    masks
        Filter mask of each chunk (bit ``i``: the encoding's filter ``i`` was skipped), or ``None``
        where no chunk skipped any.
    states
        ``STORED``, ``INLINE`` or ``ABSENT`` for each row, or ``None`` where all are stored.
    chunks
        For sparse tables, the raveled chunk index of each row.
    inline
        Bytes that inline rows point into.
    form
        How a segment that covers the array these references were made for finds its rows.
    """

    offsets: IntArray
    lengths: IntArray
    masks: IntArray | None = None
    states: IntArray | None = None
    chunks: IntArray | None = None
    inline: bytes = b""
    form: int = DENSE

    def __post_init__(self) -> None:
        count = len(self.offsets)
        for name in ("lengths", "masks", "states", "chunks"):
            column = getattr(self, name)
            if column is not None and column.shape != (count,):
                raise ValueError(f"{name} has shape {column.shape}, expected ({count},)")

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def dense(
        cls,
        offsets: IntArray,
        lengths: IntArray,
        masks: IntArray | None = None,
        present: npt.NDArray[np.bool_] | None = None,
    ) -> References:
        """References to every chunk of a grid, in C order.

        Parameters
        ----------
        offsets, lengths
            One per chunk; ignored where `present` is false.
        masks
            Filter masks, or ``None``.
        present
            Which chunks were written; ``None`` for all.
        """
        states = None
        if present is not None and not present.all():
            states = np.where(present, STORED, ABSENT).astype(np.uint8)
        return cls(_tight(offsets), _tight(lengths), _masks(masks), states)

    @classmethod
    def sparse(
        cls,
        chunks: IntArray,
        offsets: IntArray,
        lengths: IntArray,
        masks: IntArray | None = None,
    ) -> References:
        """References to the written chunks alone, by raveled chunk index."""
        order = np.argsort(chunks, kind="stable")
        return cls(
            _tight(offsets[order]),
            _tight(lengths[order]),
            _masks(None if masks is None else masks[order]),
            chunks=chunks[order].astype(np.int64),
            form=SPARSE,
        )

    @classmethod
    def contiguous(cls, offset: int, nbytes: int) -> References:
        """One run of bytes that holds the whole array in C order."""
        return cls(np.array([offset], np.uint64), np.array([nbytes], np.uint64), form=AFFINE)

    @classmethod
    def missing(cls) -> References:
        """No references: the array was never written."""
        return cls(np.empty(0, np.uint8), np.empty(0, np.uint8), form=MISSING)

    @classmethod
    def inlined(cls, data: bytes) -> References:
        """One chunk that covers the array, its bytes kept here."""
        return cls(
            np.zeros(1, np.uint8),
            _tight(np.array([len(data)], np.uint64)),
            states=np.array([INLINE], np.uint8),
            inline=data,
        )

    @property
    def nbytes(self) -> int:
        """Bytes held by the columns and inline data."""
        columns = (self.offsets, self.lengths, self.masks, self.states, self.chunks)
        return sum(held_bytes(column) for column in columns if column is not None) + len(
            self.inline
        )

    @staticmethod
    def merge(tables: Sequence[References]) -> References:
        """One table with the rows of all, in order; columns of any integer type."""
        if len(tables) == 1:
            return tables[0]
        states = _column([table.states for table in tables], tables, np.uint8)
        offsets = _joined([table.offsets for table in tables], np.uint64)
        inline = b"".join(table.inline for table in tables)
        if inline and states is not None:
            shift = np.cumsum([0] + [len(table.inline) for table in tables[:-1]])
            shifts = np.repeat(shift, [len(table) for table in tables]).astype(np.uint64)
            offsets = np.where(states == INLINE, offsets + shifts, offsets)
        return References(
            _tight(offsets),
            _tight(_joined([table.lengths for table in tables], np.uint64)),
            _column([table.masks for table in tables], tables, np.uint32),
            states,
            _column([table.chunks for table in tables], tables, np.int64),
            inline,
        )


def _column(
    columns: Sequence[IntArray | None], tables: Sequence[References], dtype: npt.DTypeLike
) -> IntArray | None:
    """Concatenate an optional column; zeros stand where a table lacks it."""
    if all(column is None for column in columns):
        return None
    return _joined(
        [
            np.zeros(len(table), dtype) if column is None else column
            for column, table in zip(columns, tables, strict=True)
        ],
        dtype,
    )


def _joined(columns: Sequence[IntArray], dtype: npt.DTypeLike) -> IntArray:
    # what a store gives is int64, checked to lie in range
    return np.concatenate(columns, dtype=dtype, casting="unsafe")


def _masks(masks: IntArray | None) -> IntArray | None:
    """Filter masks, or ``None`` where no chunk skipped any filter."""
    return None if masks is None or not masks.any() else masks.astype(np.uint32)


def _tight(column: IntArray) -> IntArray:
    """The column in the narrowest unsigned type that holds it; constants take no room."""
    if len(column) == 0:
        return column.astype(np.uint8)
    if column.dtype == np.uint8 and len(column) < 2:
        return column
    low, high = int(column.min()), int(column.max())
    if low == high and len(column) > 8:
        return np.broadcast_to(np.uint64(high), column.shape)
    return column.astype(np.min_scalar_type(high))


def tight_signed(column: IntArray) -> IntArray:
    """An integer column in the narrowest type that holds it; constants take no room."""
    if column.strides == (0,):
        return column
    low, high = int(column.min()), int(column.max())
    if low == high:
        return np.broadcast_to(np.int64(high), column.shape)
    if low >= 0:
        return column.astype(np.min_scalar_type(high))
    return column.astype(np.min_scalar_type(min(low, -high - 1)))


def held_bytes(column: IntArray) -> int:
    """Bytes a column really holds: a constant one holds one element."""
    return column.itemsize if column.strides == (0,) else column.nbytes
