"""Tables of integers: every coding comes back, few rows cost few reads, Zarr reads the array."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import LocalStore

from intarsia.errors import CorruptStore
from intarsia.store.columns import StoredColumn
from intarsia.store.parsing import parse
from intarsia.store.tables import FEW, ROWS, Table, write_table
from tests.store.memory import Memory


def told(table: dict[str, Any]) -> Any:
    return parse(json.dumps(table).encode(), "memory")


def made(memory: Memory, columns: dict[str, Any], **keywords: Any) -> Table:
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    return Table.parse(told(write_table(memory, "t", arrays, **keywords)), memory)


RANDOM = np.random.default_rng(3)
LENGTHS = RANDOM.integers(100, 5000, 10_000)
GAPS = RANDOM.integers(0, 3, 10_000) * 8
OFFSETS = np.cumsum(LENGTHS + GAPS) - LENGTHS

COLUMNS = {
    "none": np.zeros(0, np.int64),
    "one": [7],
    "constant": np.full(9000, 5),
    "steps": np.arange(9000) * 31,
    "down": 10_000 - np.arange(9000),
    "few": [3, 1, 4, 1, 5],
    "large": [0, (1 << 62) - 1, -(1 << 62)],
    "random": RANDOM.integers(-(1 << 40), 1 << 40, 10_000),
    "offsets": OFFSETS,
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_back(name: str) -> None:
    values = np.asarray(COLUMNS[name])
    table = made(Memory(), {"a": values, "b": values[::-1]})
    assert table.rows == len(values)
    np.testing.assert_array_equal(table.column("a"), values)
    np.testing.assert_array_equal(table.column("b"), values[::-1])
    rows = RANDOM.integers(0, max(len(values), 1), 50) if len(values) else np.zeros(0, int)
    np.testing.assert_array_equal(table.take("a", rows), values[rows])
    np.testing.assert_array_equal(table.take("b", slice(2, 40, 3)), values[::-1][2:40:3])


def test_rules_need_no_array() -> None:
    memory = Memory()
    table = write_table(memory, "t", {"a": np.arange(5000), "b": np.full(5000, 3)})
    assert memory.objects == {}
    assert len(json.dumps(table)) < 150


def test_few_values_are_in_the_root() -> None:
    memory = Memory()
    write_table(memory, "t", {"a": np.array([1, 5, 2])})
    assert memory.objects == {}
    write_table(memory, "t", {"a": np.arange(FEW + 1) ** 2})
    assert sorted(memory.objects) == ["t/c/0/0", "t/zarr.json"]


def test_gaps_make_offsets_small() -> None:
    gapped, plain = Memory(), Memory()
    columns = {"offset": OFFSETS, "length": LENGTHS}
    table = made(gapped, columns, gaps={"offset": "length"})
    made(plain, columns)
    sizes = [len(memory.objects["t/c/0/0"]) for memory in (gapped, plain)]
    assert sizes[0] < 0.75 * sizes[1]
    np.testing.assert_array_equal(table.column("offset"), OFFSETS)
    np.testing.assert_array_equal(table.take("offset", np.array([9999, 0])), OFFSETS[[9999, 0]])


def test_a_few_rows_read_a_few_chunks() -> None:
    memory = Memory()
    values = RANDOM.integers(0, 1 << 40, 400 * ROWS)
    table = made(memory, {"a": values})
    memory.reads.clear()
    rows = np.array([5, 200 * ROWS + 1, 6])
    np.testing.assert_array_equal(table.take("a", rows), values[rows])
    assert len(memory.reads) == 3  # the index, and two chunks
    memory.reads.clear()
    table.take("a", np.array([7]))
    assert memory.reads == []


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(-(1 << 61), 1 << 61), max_size=40),
    repeats=st.integers(1, 300),
    data=st.data(),
)
def test_any_integers(values: list[int], repeats: int, data: Any) -> None:
    column = np.tile(np.array(values, np.int64), repeats)
    table = made(Memory(), {"a": column})
    np.testing.assert_array_equal(table.column("a"), column)
    if len(column):
        rows = np.array(data.draw(st.lists(st.integers(0, len(column) - 1), max_size=9)), int)
        np.testing.assert_array_equal(table.take("a", rows), column[rows])


def test_several_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intarsia.store.tables.SHARD_ROWS", 2 * ROWS)
    memory = Memory()
    values = RANDOM.integers(0, 1 << 40, 5 * ROWS + 3)
    table = made(memory, {"a": values, "b": values[::-1]})
    assert [name for name in memory.objects if name != "t/zarr.json"] == [
        f"t/c/0/{number}" for number in range(3)
    ]
    np.testing.assert_array_equal(table.column("a"), values)
    np.testing.assert_array_equal(table.column("b"), values[::-1])


def test_zarr_reads_the_array(tmp_path: Any) -> None:
    memory = Memory()
    values = RANDOM.integers(0, 1 << 40, ROWS + 10)
    described = write_table(memory, "t", {"a": values, "b": np.arange(len(values)) ** 2})
    for name, data in memory.objects.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    array: Any = zarr.open_array(LocalStore(tmp_path), path="t", mode="r")
    assert array.shape == (2, len(values))
    assert described["columns"]["a"] == {"array": 0, "coding": "plain"}
    np.testing.assert_array_equal(array[0], values)
    assert described["columns"]["b"]["coding"] == "delta"
    stored = array[1]
    stored = np.concatenate([np.cumsum(stored[:ROWS]), np.cumsum(stored[ROWS:])])
    np.testing.assert_array_equal(stored, np.arange(len(values)) ** 2)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_every_flipped_bit_is_noticed() -> None:
    memory = Memory()
    values = RANDOM.integers(0, 1 << 40, ROWS + 10)
    described = write_table(memory, "t", {"a": values})
    data = memory.objects["t/c/0/0"]
    for place in [*range(0, len(data), 97), *range(len(data) - 40, len(data))]:
        memory.objects["t/c/0/0"] = flipped(data, place)
        with pytest.raises(CorruptStore):
            Table.parse(told(described), memory).column("a")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.update(rows=-1), "not between"),
        (lambda t: t.update(rows=10**13), "not between"),
        (lambda t: t.update(rows=ROWS * 5), "shard"),
        (lambda t: t["columns"]["a"].update(array=3), "row 3 of 1"),
        (lambda t: t["columns"]["a"].update(coding="zip"), "should be one of"),
        (lambda t: t["columns"]["a"].update(coding="gap", lengths="x"), "not there"),
        (lambda t: t["columns"]["a"].update(coding="gap", lengths="a"), "needs another"),
        (lambda t: t["columns"]["a"].update(lengths="a"), "lengths: is not known"),
        (lambda t: t.update(more=1), "more: is not known"),
        (lambda t: t.update(rows=0), "without rows"),
        (lambda t: t["columns"].update(b={"values": [1]}), "1 values for"),
        (lambda t: t["columns"].update(b=2**60), "not between"),
        (lambda t: t["columns"].update(b={"first": 1}), "is missing"),
        (lambda t: t["columns"].update(b="x"), "should be an object"),
        (lambda t: t.update(array="../up"), "not the name of an object"),
        (lambda t: t.update(shards=[[3, 3]]), "shards can't hold"),
        (lambda t: t.update(shards=[[3]]), "list of pairs"),
        (lambda t: t["columns"].update(b={"array": 0, "coding": "plain"}), "not the chunk|row|"),
    ],
)
def test_what_the_root_says_is_checked(change: Any, reason: str) -> None:
    memory = Memory()
    described = write_table(memory, "t", {"a": RANDOM.integers(0, 1 << 40, 2 * ROWS)})
    change(described)
    with pytest.raises(CorruptStore, match=reason):
        Table.parse(told(described), memory).column("a")


def test_missing_and_short_objects_are_named() -> None:
    memory = Memory()
    described = write_table(memory, "t", {"a": RANDOM.integers(0, 1 << 40, 100)})
    del memory.objects["t/c/0/0"]
    with pytest.raises(CorruptStore, match="t/c/0/0 is missing"):
        Table.parse(told(described), memory).column("a")


MEMORY = Memory()
DESCRIBED = write_table(MEMORY, "t", {"a": np.arange(500) ** 2})


def reopened() -> Table:
    return Table.parse(told(DESCRIBED), MEMORY)


def test_a_stored_column_stands_for_an_array() -> None:
    column = StoredColumn(reopened(), "a", (0, 1 << 40), reopened)
    values = np.arange(500) ** 2
    assert len(column) == 500
    assert column.shape == (500,)
    np.testing.assert_array_equal(np.asarray(column), values)
    np.testing.assert_array_equal(column[3:9], values[3:9])
    np.testing.assert_array_equal(column[np.array([4, 400])], values[[4, 400]])
    np.testing.assert_array_equal(column[values % 2 == 0], values[values % 2 == 0])
    assert int(column[7]) == 49
    np.testing.assert_array_equal(column == 49, values == 49)
    assert column.any()
    copy = pickle.loads(pickle.dumps(column))
    np.testing.assert_array_equal(np.asarray(copy), values)


def test_numbers_out_of_bounds_are_refused() -> None:
    column = StoredColumn(reopened(), "a", (0, 1000), reopened)
    assert int(column[3]) == 9
    with pytest.raises(CorruptStore, match="not between 0 and 1000"):
        column[400]
