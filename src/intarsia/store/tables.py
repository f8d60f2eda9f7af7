"""Tables of integers: columns that are rules where they can be, and sharded Zarr arrays elsewhere.

A column is written in the shortest of these ways: one number that all rows have, a first value and
a step, the values themselves (few of them), or a row of the table's array. The array has one row
for each such column; a chunk of it holds `ROWS` numbers of one column, so that looking up a few
rows reads a few chunks. In a chunk, numbers may be written as differences from the one before
(``delta``), or, for offsets, from where the bytes of the reference before end (``gap``). Every
chunk begins anew, so it is read by itself.

The array is sharded. Before the index of a shard, where Zarr's readers don't look, stand the
checksums of its chunks, row by row as in the index, and the root has the checksum of these and the
index. So a chunk that is another's, though sound in itself, is noticed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptStore
from intarsia.store.compression import checksum, compress, decompress
from intarsia.store.objects import Objects, Writer
from intarsia.store.parsing import SAFE, Reader
from intarsia.store.zarrays import dump, metadata

type IntArray = npt.NDArray[Any]

ROWS = 4096
"""Numbers in a chunk."""

SHARD_ROWS = 1 << 20
"""Numbers of each column in a shard."""

FEW = 16
"""Columns of so many values are written into the root itself."""

MAX_ROWS = 1 << 40
"""More rows than this, a table can't have."""

CACHED = 2048
"""Decoded chunks that a table keeps."""

PLAIN, DELTA, GAP = "plain", "delta", "gap"


def write_table(
    writer: Writer,
    name: str,
    columns: Mapping[str, IntArray],
    *,
    gaps: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Write a table, and return what the root has to know of it.

    Parameters
    ----------
    writer
        Takes the objects.
    name
        Name of the array, should one be needed.
    columns
        Integers that fit into 64 bits with a sign, all of one length.
    gaps
        For a column of offsets, the column with the lengths.
    """
    rows = len(next(iter(columns.values()))) if columns else 0
    described: dict[str, Any] = {}
    stored: list[tuple[str, list[bytes]]] = []
    for label, column in columns.items():
        values = column.astype(np.int64)
        rule = _rule(values)
        if rule is not None:
            described[label] = rule
            continue
        beside = columns[gaps[label]].astype(np.int64) if gaps and label in gaps else None
        coding, chunks = _shortest(values, beside)
        described[label] = {"array": len(stored), "coding": coding}
        if coding == GAP and gaps:
            described[label]["lengths"] = gaps[label]
        stored.append((label, chunks))
    table: dict[str, Any] = {"rows": rows, "columns": described}
    if stored:
        table["array"] = name
        table["shards"] = _write_array(writer, name, rows, [chunks for _, chunks in stored])
    return table


def _rule(values: IntArray) -> Any:
    """A column that needs no array, as JSON; None where it does."""
    if len(values) == 0:
        return 0
    first = int(values[0])
    steps = np.diff(values)
    step = int(steps[0]) if len(steps) else 0
    if max(abs(first), abs(step)) < SAFE and (steps == step).all():
        return {"first": first, "step": step} if step else first
    if len(values) <= FEW and int(np.abs(values).max()) < SAFE:
        return {"values": values.tolist()}
    return None


def _shortest(values: IntArray, lengths: IntArray | None) -> tuple[str, list[bytes]]:
    """The coding that takes least room, and the chunks in it."""
    tried = {PLAIN: _chunks(values), DELTA: _chunks(_differences(values))}
    if lengths is not None:
        ends = values + lengths
        tried[GAP] = _chunks(_differences(values, ends))
    best = min(tried, key=lambda coding: sum(map(len, tried[coding])))
    return best, tried[best]


def _differences(values: IntArray, before: IntArray | None = None) -> IntArray:
    """Differences from `before` (the values themselves) one place earlier; chunks begin anew."""
    found = values.copy()
    found[1:] -= (values if before is None else before)[:-1]
    found[::ROWS] = values[::ROWS]
    return found


def _chunks(values: IntArray) -> list[bytes]:
    """Compressed chunks, the last one padded with zeros."""
    count = -(-len(values) // ROWS)
    padded = np.zeros(count * ROWS, "<i8")
    padded[: len(values)] = values
    chunks: list[bytes] = []
    for part in padded.reshape(count, ROWS):
        data = compress(part.tobytes(), 8)
        chunks.append(data + checksum(data).to_bytes(4, "little"))
    return chunks


def _write_array(
    writer: Writer, name: str, rows: int, columns: Sequence[Sequence[bytes]]
) -> list[list[int]]:
    """Write a sharded array, one row per column; gives size and checksum of each shard."""
    shard_rows = min(SHARD_ROWS, -(-rows // ROWS) * ROWS)
    per_shard = shard_rows // ROWS
    described = metadata(
        (len(columns), rows),
        (len(columns), shard_rows),
        np.dtype(np.int64),
        inner=(1, ROWS),
    )
    writer.put(f"{name}/zarr.json", dump(described))
    shards: list[list[int]] = []
    for number in range(-(-rows // shard_rows)):
        parts: list[bytes] = []
        index = np.full((len(columns), per_shard, 2), np.iinfo(np.uint64).max, "<u8")
        sums = np.zeros((len(columns), per_shard), "<u4")
        place = 0
        for row, chunks in enumerate(columns):
            mine = chunks[number * per_shard : (number + 1) * per_shard]
            for column, data in enumerate(mine):
                index[row, column] = place, len(data)
                sums[row, column] = int.from_bytes(data[-4:], "little")
                parts.append(data)
                place += len(data)
        tail = sums.tobytes() + index.tobytes()
        data = b"".join([*parts, tail, checksum(index.tobytes()).to_bytes(4, "little")])
        writer.put(f"{name}/c/0/{number}", data)
        shards.append([len(data), checksum(tail)])
    return shards


class Table:
    """A table that is read where it is looked at.

    Parameters
    ----------
    objects
        Where the objects are.
    rows
        Number of rows.
    columns
        For each column what the root says of it.
    array, shards
        Name of the array, and (size, checksum of its end) of each of its shards.
    """

    def __init__(
        self,
        objects: Objects,
        rows: int,
        columns: Mapping[str, Rule],
        array: str,
        shards: Sequence[tuple[int, int]],
    ) -> None:
        self.rows = rows
        self._objects = objects
        self._columns = columns
        self._array = array
        self._shards = shards
        self._indexes: dict[int, tuple[IntArray, IntArray]] = {}
        self._cache: OrderedDict[tuple[str, int], IntArray] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def parse(cls, told: Reader, objects: Objects) -> Table:
        """Make the table that the root describes.

        Raises
        ------
        CorruptStore
            If it describes what can't be.
        """
        told.only("rows", "columns", "array", "shards")
        rows = told.integer("rows", 0, MAX_ROWS)
        columns: dict[str, Rule] = {}
        arrays = 0
        described = told.child("columns")
        for label, column in described.value.items():
            if isinstance(column, int):
                rule = Rule(described.integer(label))
            else:
                rule = Rule.parse(described.child(label), rows)
            columns[label] = rule
            arrays += rule.array is not None
        shards: list[tuple[int, int]] = []
        name = ""
        if arrays:
            if not rows:
                raise told.error("an array for a table without rows")
            name = told.name("array")
            shards = [(size, crc) for size, crc in told.pairs("shards")]
            shard_rows = min(SHARD_ROWS, -(-rows // ROWS) * ROWS)
            if len(shards) != -(-rows // shard_rows) or any(size < 4 for size, _ in shards):
                raise told.error(f"{len(shards)} shards can't hold {rows} rows")
        for label, rule in columns.items():
            if rule.array is not None and not 0 <= rule.array < arrays:
                raise told.error(f"column {label!r} is row {rule.array} of {arrays}")
            if rule.lengths is not None and rule.lengths not in columns:
                raise told.error(f"column {label!r} needs {rule.lengths!r}, which is not there")
            if rule.lengths is not None and columns[rule.lengths].coding == GAP:
                raise told.error(f"column {label!r} needs {rule.lengths!r}, which needs another")
            if rule.lengths is not None and columns[rule.lengths].coding == GAP:
                raise told.error(f"column {label!r} needs {rule.lengths!r}, which needs another")
        numbers = [rule.array for rule in columns.values() if rule.array is not None]
        if len(set(numbers)) != len(numbers):
            raise told.error("two columns are one row")
        return cls(objects, rows, columns, name, shards)

    def __contains__(self, label: str) -> bool:
        return label in self._columns

    @property
    def labels(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def column(self, label: str) -> IntArray:
        """All values of a column; those of a constant one share their memory."""
        rule = self._columns[label]
        if rule.array is None and rule.values is None and rule.step == 0:
            return np.broadcast_to(np.int64(rule.first), (self.rows,))
        return self.take(label, slice(None))

    def take(self, label: str, rows: IntArray | slice) -> IntArray:
        """Values of a column at some rows; chunks that hold none of them are not read."""
        rule = self._columns[label]
        if rule.array is None:
            if isinstance(rows, slice):
                return rule.values_at(np.arange(*rows.indices(self.rows)))
            return rule.values_at(rows)
        if isinstance(rows, slice):
            begin, end, step = rows.indices(self.rows)
            if step != 1:
                return self.take(label, np.arange(begin, end, step))
            return self._run(label, begin, max(begin, end))
        if not len(rows):
            return np.empty(0, np.int64)
        low, high = int(rows.min()), int(rows.max())
        if low < 0 or high >= self.rows:
            raise self._objects.wrong(f"row {high} of a table of {self.rows}")
        if high - low < 2 * ROWS or high - low < 4 * len(rows):
            return self._run(label, low, high + 1)[rows - low]
        number = rows // ROWS
        result = np.empty(len(rows), np.int64)
        for chunk in np.unique(number).tolist():
            mine = number == chunk
            result[mine] = self._chunk(label, chunk)[rows[mine] - chunk * ROWS]
        return result

    def _run(self, label: str, begin: int, end: int) -> IntArray:
        if end <= begin:
            return np.empty(0, np.int64)
        chunks = range(begin // ROWS, -(-end // ROWS))
        found = [self._chunk(label, number) for number in chunks]
        joined = found[0] if len(found) == 1 else np.concatenate(found)
        first = chunks.start * ROWS
        return joined[begin - first : end - first]

    def _chunk(self, label: str, number: int) -> IntArray:
        """One decoded chunk of a column, cut to the rows there are."""
        with self._lock:
            found = self._cache.get((label, number))
            if found is not None:
                self._cache.move_to_end((label, number))
                return found
        rule = self._columns[label]
        assert rule.array is not None
        values = self._stored(rule.array, number)[: self.rows - number * ROWS]
        if rule.coding == DELTA:
            values = np.cumsum(values)
        elif rule.coding == GAP and rule.lengths is not None:
            begin = number * ROWS
            lengths = self.take(rule.lengths, slice(begin, begin + len(values)))
            steps = values.copy()
            steps[1:] += lengths[:-1]
            values = np.cumsum(steps)
        with self._lock:
            self._cache[label, number] = values
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return values

    def _stored(self, row: int, number: int) -> IntArray:
        shard, inside = divmod(number, SHARD_ROWS // ROWS)
        index, sums = self._index(shard)
        offset, length = (int(n) for n in index[row, inside])
        what = f"chunk {number} of row {row} of {self._array}"
        end = self._shards[shard][0] - index.nbytes - sums.nbytes - 4
        if not 4 <= length <= end - offset:
            raise self._objects.wrong(f"{what} is not in its shard")
        data = self._read(shard, offset, length)
        crc = checksum(data[:-4])
        if crc != int.from_bytes(data[-4:], "little") or crc != int(sums[row, inside]):
            raise self._objects.wrong(f"the checksum of {what} is wrong")
        try:
            return np.frombuffer(decompress(data[:-4], 8 * ROWS, what), "<i8")
        except CorruptStore as error:
            raise error.located(url=self._objects.url) from error.__cause__

    def _index(self, shard: int) -> tuple[IntArray, IntArray]:
        """Offset and length of each chunk of a shard, and their checksums."""
        found = self._indexes.get(shard)
        if found is None:
            arrays = sum(rule.array is not None for rule in self._columns.values())
            shard_rows = min(SHARD_ROWS, -(-self.rows // ROWS) * ROWS)
            chunks = arrays * (shard_rows // ROWS)
            size, crc = self._shards[shard]
            if size < chunks * 20 + 4:
                raise self._objects.wrong(f"a shard of {self._array} is too short")
            data = self._read(shard, size - chunks * 20 - 4, chunks * 20 + 4)
            sums, index, last = data[: chunks * 4], data[chunks * 4 : -4], data[-4:]
            if checksum(sums + index) != crc or checksum(index) != int.from_bytes(last, "little"):
                raise self._objects.wrong(f"the checksum of a shard of {self._array} is wrong")
            found = self._indexes[shard] = (
                np.frombuffer(index, "<u8").reshape(arrays, -1, 2),
                np.frombuffer(sums, "<u4").reshape(arrays, -1),
            )
        return found

    def _read(self, shard: int, offset: int, length: int) -> bytes:
        name = f"{self._array}/c/0/{shard}"
        try:
            return self._objects.get(name, offset, length)
        except FileNotFoundError as error:
            raise self._objects.wrong(f"{name} is missing") from error


class Rule:
    """What the root says of a column."""

    __slots__ = ("array", "coding", "first", "lengths", "step", "values")

    def __init__(
        self,
        first: int = 0,
        step: int = 0,
        values: IntArray | None = None,
        array: int | None = None,
        coding: str = PLAIN,
        lengths: str | None = None,
    ) -> None:
        self.first = first
        self.step = step
        self.values = values
        self.array = array
        self.coding = coding
        self.lengths = lengths

    @classmethod
    def parse(cls, told: Reader, rows: int) -> Rule:
        """Read a column's description."""
        if told.has("values"):
            told.only("values")
            values = told.integers("values")
            if len(values) != rows:
                raise told.error(f"{len(values)} values for {rows} rows")
            return cls(values=np.array(values, np.int64))
        if told.has("array"):
            coding = told.choice("coding", (PLAIN, DELTA, GAP))
            told.only("array", "coding", *(["lengths"] if coding == GAP else []))
            lengths = told.text("lengths") if coding == GAP else None
            return cls(array=told.integer("array", 0, 1 << 16), coding=coding, lengths=lengths)
        told.only("first", "step")
        first, step = told.integer("first"), told.integer("step")
        if abs(first) + abs(step) * rows >= 1 << 62:
            raise told.error("numbers past 2**62")
        return cls(first, step)

    def values_at(self, rows: IntArray) -> IntArray:
        """Values at some rows, of a column that has no array."""
        if self.values is not None:
            return self.values[rows]
        return self.first + self.step * rows.astype(np.int64)
