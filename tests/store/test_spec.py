"""spec/store.md: its example is a store, and a reader written from the page reads others too."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from intarsia.array import VirtualArray
from intarsia.codecs import cases
from intarsia.encoding import Codec, Encoding
from intarsia.io import containers, reach
from intarsia.io.sampling import sample_of
from intarsia.references import References, Sources
from intarsia.segments import checking
from intarsia.store import compression, copies, dates, packing, parsing, tables
from intarsia.store.nodes import Group, Variable
from intarsia.store.read import read
from intarsia.store.write import write
from tests.store import by_spec
from tests.store.hostile import corpus

SPEC = Path(__file__).parents[2] / "spec/store.md"

PACKED = Encoding(
    (),
    np.dtype("<i2"),
    (
        Codec.make("cast", dtype="<f8"),
        Codec.make("scale", dtype="<f8", scale=True, offset=False),
    ),
    np.dtype([("raw_fill", "<i2"), ("scale", "<f8")]),
)


def example(folder: Path) -> VirtualArray:
    """The array of the page: two files of numbers in chunks of 2 by 3, one chunk not written."""
    first = np.arange(5)[:, None] * 10 + np.arange(4)
    second = first[:2] + 100
    one = file(folder / "a.dat", first, [100, 112, 124, None, 136, 148], 0.5)
    two = file(folder / "b.dat", second, [100, 112], 0.25)
    return np.concatenate([one, two[:, ::-1]])  # type: ignore[return-value]


def file(path: Path, values: Any, offsets: list[int | None], scale: float) -> VirtualArray:
    padded = np.full((-(-len(values) // 2) * 2, 6), -7777, "<i2")
    padded[: len(values), :4] = values
    data = bytearray(160)
    for number, offset in enumerate(offsets):
        row, column = divmod(number, 2)
        if offset is not None:
            chunk = padded[2 * row : 2 * row + 2, 3 * column : 3 * column + 3]
            data[offset : offset + 12] = chunk.tobytes()
    path.write_bytes(data)
    os.utime(path, ns=(1_600_000_000 * 10**9,) * 2)
    present = np.array([offset is not None for offset in offsets])
    references = References.dense(
        np.array([offset or 0 for offset in offsets]), np.where(present, 12, 0), None, present
    )
    row = np.zeros((), PACKED.parameters)
    row["raw_fill"], row["scale"] = -1, scale
    return VirtualArray.from_source(
        Sources.of_file(path), 0, values.shape, (2, 3), PACKED, row, references, name="sst"
    )


def saved(folder: Path) -> VirtualArray:
    array = example(folder)
    variable = Variable(("time", "lon"), array, {"units": "K", "valid_min": np.float32(0)})
    write(folder / "x.intarsia", {"/": Group({"sst": variable}, {"title": "An example"})})
    return array


def blocks(language: str) -> list[str]:
    text = SPEC.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose header begins so."""
    lines = SPEC.read_text("utf-8").splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(heading)) + 2
    end = next(n for n, line in enumerate(lines) if n > begin and not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:end]]


def test_the_example_is_a_store(tmp_path: Path) -> None:
    saved(tmp_path)
    found = by_spec.Store(tmp_path / "x.intarsia").root
    shown = json.loads(next(block for block in blocks("json") if '"digest"' in block))
    assert shown["digest"] == by_spec.digest(shown)
    # the name of parts is random, and what compression gives is up to the library
    for root in (shown, found):
        root["digest"] = ""
        table = root["sources"]["table"]
        table["array"] = re.sub("/[0-9a-f]{8}/", "/", table["array"])
        table["shards"] = [[0, 0] for _ in table["shards"]]
    assert found == shown


def test_elements_are_found_as_the_example_says(tmp_path: Path) -> None:
    values = np.asarray(saved(tmp_path))
    array = by_spec.Store(tmp_path / "x.intarsia").array("/", "sst")
    for x, *expected in rows("| x | segment |"):
        element = tuple(map(int, x.split(", ")))
        at = array.find(element)
        several = [", ".join(map(str, one)) for one in (at.position, at.chunk)]
        told: list[Any] = [at.segment, *several, at.number, at.row, at.source, at.offset]
        told += [at.length, None if at.source is None else at.inside, at.raw, at.value]
        assert ["" if one is None else str(one) for one in told] == expected
        assert at.value == values[element]


def test_the_segments_of_the_example_are_those_shown(tmp_path: Path) -> None:
    saved(tmp_path)
    ((_, columns),) = by_spec.Store(tmp_path / "x.intarsia").array("/", "sst").segments
    heads = ["case", "row", "source", "reference", "count", "form"]
    vectors = ["start", "shape", "axis", "first", "step", "size", "chunk"]
    for number, row in enumerate(rows("| case | row | source |")):
        told = [str(columns[head][number]) for head in heads]
        told += [f"{columns[f'{v}_0'][number]}, {columns[f'{v}_1'][number]}" for v in vectors]
        assert told == row


def test_a_reader_written_from_the_page_reads_other_stores(tmp_path: Path) -> None:
    home = corpus.build(tmp_path)
    generator = np.random.default_rng(5)
    forms: set[int] = set()
    compared = 0
    for name in ("mixed.intarsia", "tables.intarsia"):
        store = by_spec.Store(home / name)
        with corpus.small_parts():
            stored = read(home / name)
            for path, group in stored.groups.items():
                for variable, told in group.variables.items():
                    if isinstance(told.data, VirtualArray) and told.data.size:
                        array = store.array(path, variable)
                        forms |= {form for _, c in array.segments for form in c["form"]}
                        compared += compare(array, np.asarray(told.data), generator)
    assert forms == {0, 1, 2, 3}
    assert compared > 100


def compare(array: by_spec.Array, values: Any, generator: np.random.Generator) -> int:
    compared = 0
    for _ in range(12):
        element = tuple(int(generator.integers(size)) for size in values.shape)
        try:
            found = array.find(element).value
        except by_spec.Unknown:
            continue
        assert found.dtype == values.dtype
        assert found.tobytes() == values[element].tobytes(), element
        compared += 1
    return compared


def test_samples(tmp_path: Path) -> None:
    """Chapter 10."""
    for size in (0, 1000, 65_536, 65_537, 1_000_000):
        data = np.random.default_rng(size).bytes(size)
        (tmp_path / "file").write_bytes(data)
        starts = [i * (size - 8192) // 7 for i in range(8)] if size > 65_536 else [0]
        length = 8192 if size > 65_536 else size
        parts = [data[start : start + length] for start in starts]
        digest = hashlib.sha256(b"".join([size.to_bytes(8, "little"), *parts])).hexdigest()
        assert sample_of(tmp_path / "file") == digest


def test_bounds_are_those_of_the_library() -> None:
    """Chapter 12."""
    assert {name: _number(value) for name, value in rows("| bound | |")} == {
        "bytes of the root": parsing.MAX_BYTES,
        "rows of a table": tables.MAX_ROWS,
        "segments of an array": packing.MAX_SEGMENTS,
        "numbers in the segments of an array": packing.MAX_NUMBERS,
        "references of an array to no source, for all segments": checking.MAX_INLINE,
        "references of a sparse segment": checking.MAX_LISTED,
        "sources": packing.MAX_SOURCES,
        "containers": containers.MAX_CONTAINERS,
        "characters of a key or location": containers.MAX_KEY,
        "characters of an endpoint": reach.MAX_OPTION,
        "characters of a case": cases.MAX_TEXT,
        "bytes of a chunk of a source, decoded": checking.MAX_CHUNK,
        "bytes of a chunk in the store, decompressed": compression.MAX_CHUNK,
        "bytes of a chunk in the store, as a multiple of what is compressed": compression.MAX_RATIO,
        "bytes of keys, where they are more than 2^20, as a multiple of what is compressed": (
            packing.MAX_KEYS_RATIO
        ),
        "bytes of a copied array, or a run": copies.MAX_BYTES,
        "years of dates from 2000 on average, where they are more than 3 * 10^8 in all": dates.FAR,
    }
    assert packing.FREE_KEYS == 1 << 20
    assert dates.MAX_YEARS == 3e8


def _number(text: str) -> int:
    base, _, power = text.partition("^")
    return int(base) ** int(power or 1)


def test_sums_stand_before_the_index(tmp_path: Path) -> None:
    """Chapter 7: the end of a shard, byte by byte."""
    saved(tmp_path)
    table = by_spec.Store(tmp_path / "x.intarsia").root["sources"]["table"]
    ((size, crc),) = table["shards"]
    data = (tmp_path / "x.intarsia" / table["array"] / "c/0/0").read_bytes()
    assert len(data) == size
    sums, index, last = data[-24:-20], data[-20:-4], data[-4:]
    offset, length = struct.unpack("<QQ", index)
    assert data[offset : offset + length][-4:] == sums
    assert struct.unpack("<I", sums)[0] == google_crc32c.value(data[offset : offset + length - 4])
    assert crc == google_crc32c.value(sums + index)
    assert struct.unpack("<I", last)[0] == google_crc32c.value(index)
    assert offset + length == size - 24
