"""Segments from tables: what the root says of an array is checked, and then what the tables say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cases import case_key, encoding_of
from intarsia.encoding import Case, Encoding
from intarsia.errors import CorruptStore, UnsafeStore
from intarsia.io.containers import Places, apply_pins
from intarsia.references import ABSENT, INLINE, STORED, References, Sources
from intarsia.segments import Block, Fields, Segments
from intarsia.segments.checking import check, check_cases
from intarsia.store.columns import StoredColumn
from intarsia.store.copies import read_bytes
from intarsia.store.objects import Objects
from intarsia.store.packing import (
    FREE_KEYS,
    GEOMETRY,
    HEADS,
    MAX_KEYS_RATIO,
    MAX_NUMBERS,
    MAX_SEGMENTS,
    MAX_SOURCES,
)
from intarsia.store.parsing import Reader
from intarsia.store.tables import Table

type IntArray = npt.NDArray[Any]

MAX_LOOKED_AT = 1 << 20
"""Longer tables of references are only looked at where they are used."""

LIMIT = 1 << 61

HELD = {
    "offset": (0, LIMIT),
    "length": (0, LIMIT),
    "state": (STORED, ABSENT),
    "mask": (0, (1 << 32) - 1),
    "chunk": (0, LIMIT),
}
"""The columns of references, and the bounds of their numbers."""


def read_cases(told: Reader) -> dict[str, Encoding]:
    """The cases of a store by key; each key has to be the digest of its case.

    Raises
    ------
    CorruptStore
        If one is not, or a case is not a sound one.
    """
    cases: dict[str, Encoding] = {}
    for key, case in told.children():
        try:
            encoding = encoding_of(case.value)
            right = case_key(case.value)
        except ValueError as error:
            raise case.error(str(error)) from error
        if right != key:
            raise case.error(f"the key should be {right}")
        cases[key] = encoding
    return cases


def read_segments(
    told: Reader,
    objects: Objects,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    encodings: Mapping[str, Encoding],
    sources: Sources,
    reopen: Callable[[], Table],
) -> Segments:
    """The segments of an array.

    Parameters
    ----------
    told
        What the root says of it.
    objects
        Where the tables are.
    shape, dtype
        Of the array.
    encodings
        The store's cases.
    sources
        The store's sources.
    reopen
        Gives the table of references again, in another process too.

    Raises
    ------
    CorruptStore
        If anything is missing or damaged, or is not what segments have to be.
    """
    cases = [_case(case, objects, encodings) for case in told.listed("cases")]
    table = Table.parse(told.child("references"), objects)
    inline = read_bytes(told.child("inline"), objects) if told.has("inline") else b""
    page = _references(table, inline, reopen)
    blocks: list[Block] = []
    room = MAX_NUMBERS
    for block in told.listed("segments"):
        blocks.append(_block(block, objects, len(shape), room))
        room -= len(blocks[-1]) * blocks[-1].fields.width
    if not cases:
        empty = Encoding((), dtype)
        cases = [Case(empty, np.zeros(1, empty.parameters))]
    segments = Segments(shape, tuple(blocks), tuple(cases), (page,), sources)
    try:
        found = check_cases(cases)
        check(segments)
    except ValueError as error:
        raise told.error(str(error)) from error
    if found != dtype:
        raise told.error(f"the cases decode to {found}, the array is of {dtype}")
    return segments


def _block(told: Reader, objects: Objects, ndim: int, room: int) -> Block:
    """A block of segments, whose numbers are not more than there is room for."""
    told.only("source_ndim", "table")
    fields = Fields(ndim, told.integer("source_ndim", 0, 64))
    table = Table.parse(told.child("table"), objects)
    if not 0 < table.rows <= min(MAX_SEGMENTS, room // fields.width):
        raise told.error(f"{table.rows} segments")
    labels = {number: label for label, number in HEADS.items()}
    for label in GEOMETRY:
        part: slice = getattr(fields, label)
        labels |= {n: f"{label}_{dim}" for dim, n in enumerate(range(part.start, part.stop))}
    if set(labels.values()) != set(table.labels):
        raise told.error("has other columns than segments have")
    nothing = np.broadcast_to(np.int64(0), (table.rows,))  # the number of the table, which is one
    return Block.of_columns(
        fields,
        (table.column(labels[n]) if n in labels else nothing for n in range(fields.width)),
    )


def _case(told: Reader, objects: Objects, encodings: Mapping[str, Encoding]) -> Case:
    told.only("case", "rows", "parameters")
    key = told.text("case")
    encoding = encodings.get(key)
    if encoding is None:
        raise told.error(f"there is no case {key[:40]!r}", "case")
    count = told.integer("rows", 1, 1 << 32)
    data = read_bytes(told.child("parameters"), objects)
    size = encoding.parameters.itemsize
    if len(data) != count * size:
        raise told.error(f"{len(data)} bytes where {count} rows of {size} have to be")
    return Case(encoding, np.frombuffer(data, encoding.parameters))


def _references(table: Table, inline: bytes, reopen: Callable[[], Table]) -> References:
    if not table.rows and not table.labels:
        return References.missing()

    def column(label: str) -> IntArray | None:
        if label not in table:
            return None
        return cast("IntArray", StoredColumn(table, label, HELD[label], reopen))

    offsets, lengths = column("offset"), column("length")
    if offsets is None or lengths is None or set(table.labels) - HELD.keys():
        raise CorruptStore("references have other columns than they should")
    states = column("state")
    if states is not None and table.rows <= MAX_LOOKED_AT:
        _check_inline(np.asarray(states), offsets, lengths, len(inline))
    return References(offsets, lengths, column("mask"), states, column("chunk"), inline)


def _check_inline(states: IntArray, offsets: IntArray, lengths: IntArray, held: int) -> None:
    rows = np.flatnonzero(states == INLINE)
    if len(rows) and (offsets[rows] + lengths[rows]).max() > held:
        raise CorruptStore("a reference reaches past the inline bytes")


class SourceRows:
    """The table of sources as the store has it: read once, and placed in containers."""

    def __init__(self, told: Reader, objects: Objects) -> None:
        told.only("table", "keys", "etags", "samples", "scans")
        self.table = Table.parse(told.child("table"), objects)
        if set(self.table.labels) != {"container", "size", "mtime_ns", "scan"}:
            raise told.error("has other columns than sources have", "table")
        rows = self.table.rows
        if rows > MAX_SOURCES:
            raise told.error(f"{rows} sources")
        _check_keys_size(told.child("keys"))
        self.keys = _texts(told, "keys", objects, rows)
        self.containers = self.table.column("container")
        self.sizes = self.table.column("size")
        self.mtimes_ns = self.table.column("mtime_ns")
        self.etags = _texts(told, "etags", objects, rows) if told.has("etags") else None
        self.samples = _texts(told, "samples", objects, rows) if told.has("samples") else None
        scans = told.texts("scans")
        numbers = self.table.column("scan")
        if rows and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(scans):
            raise told.error("a source was scanned in no known way", "scans")
        chosen: list[int] = numbers.tolist()
        self.scans = [scans[number] for number in chosen]

    def check_queries(self, remote: Sequence[bool]) -> None:
        """Refuse keys that ask a host for more than an object, in containers that are remote.

        Raises
        ------
        UnsafeStore
            If there is one.
        """
        if not any(remote):
            return
        numbers: list[int] = self.containers.tolist()
        for key, number in zip(self.keys, numbers, strict=True):
            if ("?" in key or "#" in key) and 0 <= number < len(remote) and remote[number]:
                raise UnsafeStore(f"the name of a source has a query or fragment: {key[:200]!r}")

    def placed(self, places: Places) -> Sources:
        """The sources, at the places where their containers are."""
        numbers: list[int] = self.containers.tolist()
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(places.locations):
            raise CorruptStore("a source is in no container")
        sizes, mtimes_ns, samples, etags = apply_pins(
            self.containers,
            places,
            self.sizes,
            self.mtimes_ns,
            self.samples,
            self.etags,
        )
        said = any(access is not None for access in places.accesses)
        accesses = tuple([places.accesses[number] for number in numbers]) if said else None
        return Sources(
            tuple([places.locations[number] for number in numbers]),
            tuple(self.keys),
            sizes,
            mtimes_ns,
            etags,
            samples,
            tuple(self.scans) if any(self.scans) else None,
            accesses,
        )


def _check_keys_size(told: Reader) -> None:
    """Refuse very many keys that say nothing, as one takes a hundred bytes of memory."""
    if told.has("objects"):
        stored = sum(size for size, _ in told.pairs("objects"))
        if told.integer("nbytes") > FREE_KEYS + stored * MAX_KEYS_RATIO:
            raise told.error(f"too many keys in {stored} bytes")


def _texts(told: Reader, key: str, objects: Objects, rows: int) -> list[str]:
    data = read_bytes(told.child(key), objects)
    try:
        texts = data.decode("utf-8", "surrogateescape").split("\0")
    except UnicodeDecodeError as error:  # pragma: no cover  surrogateescape takes everything
        raise told.error(str(error), key) from error
    if texts.pop() or len(texts) != rows:
        raise told.error(f"{len(texts)} texts for {rows} sources", key)
    return texts


def check_shape(told: Reader) -> tuple[int, ...]:
    """The shape that the root gives an array.

    Raises
    ------
    CorruptStore
        If no array can have it.
    """
    shape = told.integers("shape", 0)
    if len(shape) > 64 or prod(max(size, 1) for size in shape) >= 1 << 61:
        raise told.error(f"an array of shape {shape}", "shape")
    return shape
