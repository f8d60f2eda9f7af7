"""Stores written here byte by byte, as the Zarr v3 specification has it, without Zarr libraries.

So that the tests compare readers with the specification, not with the code that writes stores.
"""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import blosc

from intarsia.store.guard import group_metadata, guard_metadata

ROWS = 8
"""Numbers in an inner chunk of the tables here."""


@dataclass(frozen=True)
class Store:
    """A store, and what is in it.

    `virtual` and `copied` name arrays by their path; `tables` are below ``__intarsia__``. The group
    ``copies`` has no virtual arrays, all other groups have.
    """

    path: Path
    virtual: tuple[str, ...]
    copied: Mapping[str, np.ndarray]
    tables: Mapping[str, np.ndarray]

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an array, as its metadata has it."""
        return tuple(json.loads((self.path / name / "zarr.json").read_text())["shape"])

    @property
    def zipped(self) -> Path:
        """The same as a zip file, made when it is asked for."""
        path = self.path.with_suffix(".zip")
        if not path.exists():
            with zipfile.ZipFile(path, "w") as archive:
                for member in sorted(self.path.rglob("*")):
                    if member.is_file():
                        archive.write(member, member.relative_to(self.path).as_posix())
        return path


def write(path: Path) -> Store:
    """Write a store: virtual arrays in two groups, copied ones of every type, two tables."""
    group(path)
    for name in ("g", "copies", "g/deeper"):
        group(path / name)
    virtual = {"sst": "int16", "g/chl": "float32", "g/deeper/flag": "bool", "g/z": "complex64"}
    for name, dtype in virtual.items():
        guard = guard_metadata([4, 3], np.dtype(dtype), ["time", "lat"], {"units": "1"})
        put(path / name / "zarr.json", guard)
    copied = copied_values()
    for name, values in copied.items():
        copy(path / name, values)
    rng = np.random.default_rng(5)
    tables = {
        "__intarsia__/parts/small": rng.integers(0, 1 << 40, (1, ROWS)),
        "__intarsia__/parts/large": rng.integers(-(1 << 62), 1 << 62, (3, 5 * ROWS - 3)),
    }
    for name, values in tables.items():
        table(path / name, values, per_shard=2 if "large" in name else 1)
    put(path / "__intarsia__/root.json", {})
    return Store(path, tuple(virtual), copied, tables)


def copied_values() -> dict[str, np.ndarray]:
    """Arrays of every type that a store has copies of, by their path."""
    return {
        "lat": np.array([-10.5, 0, 10.5]),
        "time": np.arange(4),
        "g/lat": np.array([1, 2, 3], "f4"),
        "copies/scalar": np.array(7.25),
        "copies/empty": np.zeros((0, 3)),
        "copies/text": np.array(["a", "", "é🌊", "longer than the others"], object),
        **{f"copies/{name}": values_of(name) for name in TYPES},
    }


TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def values_of(dtype: str) -> np.ndarray:
    """Some values, the extreme ones among them."""
    kind = np.dtype(dtype).kind
    values = np.arange(15).reshape(5, 3)
    if kind == "b":
        return values % 2 == 1
    if kind in "iu":
        ends = np.iinfo(dtype)
        values = values.astype(dtype)
        values[1, 1], values[2, 1] = ends.max, ends.min
        return values
    values = (values / 3 * (1 if kind == "f" else 1 - 2j)).astype(dtype)
    values[1, 1], values[2, 1] = np.nan, -np.inf
    return values


def put(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def group(path: Path) -> None:
    put(path / "zarr.json", group_metadata({"title": path.name}))


def copy(path: Path, values: np.ndarray) -> None:
    """Write values in chunks of two rows, the last one padded."""
    chunk = tuple(max(size, 1) for size in values.shape)
    if values.ndim == 2:
        chunk = (2, values.shape[1])
    text = values.dtype == object
    size = 1 if text else values.itemsize
    first: list[Any] = [{"name": "vlen-utf8"}] if text else [little(size)]
    document = array(values.shape, chunk, "string" if text else values.dtype.name)
    document["codecs"] = [*first, compressor(size)]
    document["fill_value"] = {"b": False, "O": "", "c": [0, 0]}.get(values.dtype.kind, 0)
    put(path / "zarr.json", document)
    if values.ndim == 0:
        chunks = {"c": values}
    elif values.ndim == 1:
        chunks = {"c/0": values}
    else:
        rows = range(0, len(values), 2)
        chunks = {f"c/{row // 2}/0": padded(values[row : row + 2], chunk) for row in rows}
    for key, part in chunks.items():
        raw = vlen(part) if text else part.astype(part.dtype.newbyteorder("<")).tobytes()
        target = path / key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(compressed(raw, size))


def padded(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    whole = np.zeros(shape, values.dtype)
    whole[: len(values)] = values
    return whole


def vlen(texts: np.ndarray) -> bytes:
    """Texts, each after its length, all after their number."""
    parts = [text.encode() for text in texts.ravel()]
    joined = b"".join(struct.pack("<I", len(part)) + part for part in parts)
    return struct.pack("<I", len(parts)) + joined


def table(path: Path, values: np.ndarray, *, per_shard: int) -> None:
    """Write integers in shards: each chunk with its checksum, the index at the end with its own."""
    columns, rows = values.shape
    document = array(values.shape, (columns, per_shard * ROWS), "int64")
    index = [little(8), {"name": "crc32c"}]
    configuration = {
        "chunk_shape": [1, ROWS],
        "codecs": [little(8), compressor(8), {"name": "crc32c"}],
        "index_codecs": index,
        "index_location": "end",
    }
    document["codecs"] = [{"name": "sharding_indexed", "configuration": configuration}]
    put(path / "zarr.json", document)
    for shard, begin in enumerate(range(0, rows, per_shard * ROWS)):
        data, places = b"", []
        for column in range(columns):
            for number in range(per_shard):
                first = begin + number * ROWS
                part = values[column, first : first + ROWS]
                if not len(part):
                    places += [2**64 - 1, 2**64 - 1]
                    continue
                raw = np.pad(part, (0, ROWS - len(part))).astype("<i8").tobytes()
                chunk = checked(compressed(raw, 8))
                places += [len(data), len(chunk)]
                data += chunk
        target = path / f"c/0/{shard}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data + checked(struct.pack(f"<{len(places)}Q", *places)))


def read_table(path: Path) -> np.ndarray:
    """Read integers in shards, and check all checksums."""
    document = json.loads((path / "zarr.json").read_text())
    columns, rows = document["shape"]
    per_shard = document["chunk_grid"]["configuration"]["chunk_shape"][1]
    (sharding,) = document["codecs"]
    height, length = sharding["configuration"]["chunk_shape"]
    assert (document["data_type"], height) == ("int64", 1)
    count = per_shard // length
    values = np.zeros((columns, -(-rows // per_shard) * per_shard), "<i8")
    for shard in range(-(-rows // per_shard)):
        data = (path / f"c/0/{shard}").read_bytes()
        index = unchecked(data[-16 * columns * count - 4 :])
        for number, place in enumerate(np.frombuffer(index, "<u8").reshape(-1, 2).tolist()):
            if place != [2**64 - 1, 2**64 - 1]:
                column, chunk = divmod(number, count)
                begin = shard * per_shard + chunk * length
                part = unchecked(data[place[0] : sum(place)])
                values[column, begin : begin + length] = np.frombuffer(
                    blosc.decompress(part), "<i8"
                )
    return values[:, :rows]


def unchecked(data: bytes) -> bytes:
    assert checked(data[:-4]) == data
    return data[:-4]


def checked(data: bytes) -> bytes:
    return data + struct.pack("<I", google_crc32c.value(data))


def compressed(raw: bytes, size: int) -> bytes:
    shuffle = blosc.SHUFFLE if size > 1 else blosc.NOSHUFFLE
    return blosc.compress(np.frombuffer(raw, f"V{size}"), b"zstd", 5, shuffle)


def array(shape: tuple[int, ...], chunk: tuple[int, ...], data_type: str) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "attributes": {"units": "1"},
        "dimension_names": [f"dim_{n}" for n in shape],
    }


def little(size: int) -> dict[str, Any]:
    return {"name": "bytes", **({"configuration": {"endian": "little"}} if size > 1 else {})}


def compressor(size: int) -> dict[str, Any]:
    shuffle = "shuffle" if size > 1 else "noshuffle"
    return {
        "name": "blosc",
        "configuration": {
            "cname": "zstd",
            "clevel": 5,
            "shuffle": shuffle,
            "typesize": size,
            "blocksize": 0,
        },
    }


def unguarded(store: Store, path: Path) -> Store:
    """The same store without guards: what every reader would make of it."""
    shutil.copytree(store.path, path)
    for name in store.virtual:
        file = path / name / "zarr.json"
        document = json.loads(file.read_text())
        document["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
        file.write_text(json.dumps(document))
    return replace(store, path=path)


def consolidated(store: Store, path: Path) -> Store:
    """The same store with consolidated metadata, as some tool may write it."""
    shutil.copytree(store.path, path)
    for group in ("", "g", "g/deeper"):
        file = path / group / "zarr.json"
        members = {
            found.parent.relative_to(file.parent).as_posix(): json.loads(found.read_text())
            for found in sorted(file.parent.rglob("zarr.json"))
            if found != file and "__intarsia__" not in found.parts
        }
        document = json.loads(file.read_text())
        document["consolidated_metadata"] = {
            "kind": "inline",
            "must_understand": False,
            "metadata": members,
        }
        file.write_text(json.dumps(document))
    return replace(store, path=path)
