"""Segments written as tables and read again are the same array, in every shape they can have."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.array import VirtualArray
from intarsia.encoding import Codec, Encoding
from intarsia.errors import CorruptStore, UnsupportedVariable
from intarsia.grid import strip_shape
from intarsia.references import References, Sources
from intarsia.segments import Segments
from intarsia.store.packing import used_sources, write_segments
from intarsia.store.parsing import parse
from intarsia.store.tables import Table
from intarsia.store.unpacking import read_cases, read_segments
from tests.algebra import lay_out, steps
from tests.store.memory import Memory


def written(segments: Segments) -> tuple[Memory, dict[str, Any]]:
    memory, cases = Memory(), {}
    described, _ = write_segments(memory, "t", segments, cases)
    return memory, {"virtual": described, "cases": cases}


def read(memory: Memory, document: dict[str, Any], like: VirtualArray) -> VirtualArray:
    told = parse(json.dumps(document).encode(), "memory")

    def reopen() -> Table:
        return Table.parse(told.child("virtual").child("references"), memory)

    segments = read_segments(
        told.child("virtual"),
        memory,
        like.shape,
        like.dtype,
        read_cases(told.child("cases")),
        like.segments.sources,
        reopen,
    )
    return VirtualArray(segments, like.dtype)


def again(array: VirtualArray) -> VirtualArray:
    return read(*written(array.segments), array)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_chain_of_operations_comes_back(data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
        values = np.arange(np.prod(shape), dtype=data.draw(st.sampled_from(["<i2", ">f4"])))
        chunks = tuple(data.draw(st.integers(1, size)) for size in shape)
        form = data.draw(st.sampled_from(["dense", "sparse", "contiguous", "inline", "missing"]))
        if form == "contiguous":
            chunks = strip_shape(shape, values.itemsize, data.draw(st.integers(2, 100)))
        absent = data.draw(st.sets(st.integers(0, 5))) if form in ("dense", "sparse") else set()
        level = data.draw(st.sampled_from([None, 1])) if form in ("dense", "sparse") else None
        path = Path(folder, "f.bin")
        array: Any = lay_out(
            path, values.reshape(shape), chunks, form=form, absent=absent, zlevel=level, fill=9
        )[0]
        for _ in range(data.draw(st.integers(0, 4))):
            array = data.draw(steps(array.shape)).run(array)
            if not isinstance(array, VirtualArray) or array.size > 20_000:
                return
        found = again(array)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found.load(), array.load())
        # what was read can be worked on, and written again
        if found.ndim:
            both: Any = np.concatenate([found, found[::-1]])
            np.testing.assert_array_equal(again(both).load(), both.load())


def many(folder: Path, count: int, *, same: bool) -> VirtualArray:
    """Files one after the other, of the same layout or not."""
    generator = np.random.default_rng(1)
    parts = []
    for number in range(count):
        path = folder / f"{number}.bin"
        values = generator.integers(0, 9, (4, 6)).astype("i4")
        level = None if same else 1
        parts.append(lay_out(path, values, (2, 3), zlevel=level)[0])
    return np.concatenate(parts)  # type: ignore[return-value]


def test_files_of_one_layout_share_a_template(tmp_path: Path) -> None:
    array = many(tmp_path, 40, same=True)
    memory, document = written(array.segments)
    assert document["virtual"]["references"]["rows"] == 4
    assert memory.objects == {}  # everything is a rule
    assert len(json.dumps(document)) < 2500
    np.testing.assert_array_equal(read(memory, document, array).load(), array.load())


def test_references_of_other_layouts_are_written_each(tmp_path: Path) -> None:
    array = many(tmp_path, 12, same=False)
    memory, document = written(array.segments)
    assert document["virtual"]["references"]["rows"] == 48
    np.testing.assert_array_equal(read(memory, document, array).load(), array.load())


def test_only_what_is_used_is_written(tmp_path: Path) -> None:
    array = many(tmp_path, 12, same=False)
    part = array[4:8]
    memory, document = written(part.segments)
    assert document["virtual"]["references"]["rows"] == 4
    sources, arrays = used_sources({"a": part.segments, "b": array[8:12].segments})
    assert [source.key for source in sources] == ["1.bin", "2.bin"]
    np.testing.assert_array_equal(VirtualArray(arrays["b"], array.dtype).load(), array[8:12].load())
    np.testing.assert_array_equal(read(memory, document, part).load(), part.load())


def test_lookups_read_parts_of_tables(tmp_path: Path) -> None:
    """One chunk of a hundred thousand costs a few reads, and so do a few elements of any place."""
    count = 100_000
    path = tmp_path / "f.bin"
    np.arange(count, dtype="i4").tofile(path)
    encoding = Encoding((), np.dtype("i4"))
    generator = np.random.default_rng(0)
    order = generator.permutation(count).astype(np.uint64)
    array = VirtualArray.from_source(
        Sources.of_file(path), 0, (count,), (1,), encoding, np.zeros((), encoding.parameters),
        References.dense(order * 4, np.full(count, 4, np.uint64)),
    )  # fmt: skip
    memory, document = written(array.segments)
    found = read(memory, document, array)
    memory.reads.clear()
    np.testing.assert_array_equal(found[500:503].load(), order[500:503])
    assert len(memory.reads) == 2  # an index, and a chunk of offsets; lengths are a rule
    assert sum(length for _, _, length in memory.reads) < 60_000


def parametrised(tmp_path: Path, count: int) -> VirtualArray:
    """One-element chunks, each with its own scale and offset."""
    path = tmp_path / "f.bin"
    np.arange(count, dtype="<i2").tofile(path)
    steps_ = (Codec.make("scale", dtype="<f8", scale=True, offset=True),)
    fields = np.dtype([("raw_fill", "<i2"), ("scale", "<f8"), ("offset", "<f8")])
    encoding = Encoding((), np.dtype("<i2"), steps_, fields)
    generator = np.random.default_rng(2)
    parts = []
    for number in range(count):
        row = np.zeros((), fields)
        row["scale"], row["offset"] = generator.random(2)
        parts.append(
            VirtualArray.from_source(
                Sources.of_file(path), 0, (1,), (1,), encoding, row,
                References.contiguous(2 * number, 2),
            )
        )  # fmt: skip
    return np.concatenate(parts)  # type: ignore[return-value]


def test_parameters_of_every_chunk_leave_the_root_small(tmp_path: Path) -> None:
    few, more = parametrised(tmp_path, 30), parametrised(tmp_path, 900)
    sizes = [len(json.dumps(written(array.segments)[1])) for array in (few, more)]
    assert max(sizes) < 2000
    np.testing.assert_array_equal(again(more).load(), more.load())


def test_a_refused_variable_is_refused_by_name(tmp_path: Path) -> None:
    encoding = Encoding(
        (Codec.make("refused", kind="unsupported", reason="compressed with X", remedy=""),),
        np.dtype("i4"),
    )
    (tmp_path / "f").write_bytes(b"")
    array = VirtualArray.from_source(
        Sources.of_file(tmp_path / "f"), 0, (2,), (2,), encoding,
        np.zeros((), encoding.parameters), References.inlined(b""),
    )  # fmt: skip
    with pytest.raises(UnsupportedVariable, match="compressed with X.*drop it"):
        written(array.segments)


def rows(document: dict[str, Any]) -> dict[str, Any]:
    return document["virtual"]["segments"][0]["table"]["columns"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: rows(d).update(source=9), "source: 9"),
        (lambda d: rows(d).update(case=1), "case: 1"),
        (lambda d: rows(d).update(row=1), "parameter row"),
        (lambda d: rows(d).update(form=4), "form"),
        (lambda d: rows(d).update(reference=1), "first reference|out of"),
        (lambda d: rows(d).update(count=3), "as many references"),
        (lambda d: rows(d).update(start_0=1), "box's start"),
        (lambda d: rows(d).update(shape_0=3), "exactly once"),
        (lambda d: rows(d).update(axis_0=2), "axis"),
        (lambda d: rows(d).update(axis_1=0), "two dimensions"),
        (lambda d: rows(d).update(first_1=2), "past the end"),
        (lambda d: rows(d).update(step_1=9), "past the end"),
        (lambda d: rows(d).update(step_1=2**53), "past the end"),
        (lambda d: rows(d).update(chunk_0=0), "chunk of a source"),
        (lambda d: rows(d).update(size_0=2**52), "as many|elements"),
        (lambda d: rows(d).pop("size_0"), "other columns"),
        (lambda d: d["virtual"]["cases"][0].update(case="0" * 16), "there is no case"),
        (lambda d: d["virtual"]["cases"][0].update(rows=2), "bytes where"),
        (lambda d: d["cases"].update({"0" * 16: {}}), "cases/0000"),
        (lambda d: d.update(cases={"0" * 16: next(iter(d["cases"].values()))}), "key should be"),
        (lambda d: d["virtual"]["references"]["columns"].pop("length"), "other columns"),
    ],
)
def test_impossible_segments_are_refused(tmp_path: Path, change: Any, reason: str) -> None:
    array = lay_out(tmp_path / "f", np.arange(24, dtype="i2").reshape(4, 6), (2, 3))[0]
    memory, document = written(array.segments)
    read(memory, document, array)
    change(document)
    with pytest.raises(CorruptStore, match=reason):
        read(memory, document, array).load()
