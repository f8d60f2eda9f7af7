"""Another reader of stores, written from spec/store.md and nothing else; slow, and one by one.

It looks a single element up as the page says, in Python's integers, and reads tables with
zarr-python. It knows the codecs that need no library of ours. Chapters are those of the page.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import zarr

type Json = dict[str, Any]


class Unknown(Exception):
    """A codec that this reader does not have."""


@dataclass
class Place:
    """Where an element is: what each step of the page's chapter 9 gives."""

    segment: int
    position: tuple[int, ...] = ()
    chunk: tuple[int, ...] = ()
    number: int | None = None
    row: int | None = None
    source: str | None = None
    offset: int | None = None
    length: int | None = None
    inside: int = 0
    raw: Any = None
    value: Any = None


@dataclass
class Store:
    """A store that is a folder."""

    path: Path
    root: Json = field(init=False)

    def __post_init__(self) -> None:
        self.root = json.loads((self.path / "__intarsia__/root.json").read_text())
        assert self.root["format"] == "intarsia"
        assert self.root["version"] == "unstable-2"
        assert self.root["digest"] == digest(self.root)

    # -- chapters 6 and 7: runs of bytes, tables ---------------------------------------------------

    def run(self, told: Json) -> bytes:
        if "hex" in told:
            return bytes.fromhex(told["hex"])
        stored = zarr.open_array(self.path / told["array"], mode="r", zarr_format=3)
        assert stored.shape == (told["nbytes"],)
        return np.asarray(stored[:], np.uint8).tobytes()

    def texts(self, told: Json) -> list[str]:
        parts = self.run(told).split(b"\0")
        assert parts.pop() == b""
        return [part.decode("utf-8", "surrogateescape") for part in parts]

    def table(self, told: Json) -> dict[str, list[int]]:
        rows = told["rows"]
        stored = rows_per_chunk = None
        if "array" in told:
            array = zarr.open_array(self.path / told["array"], mode="r", zarr_format=3)
            stored, rows_per_chunk = np.asarray(array[:]), array.chunks[1]
        found: dict[str, list[int]] = {}
        later: dict[str, Json] = {}
        for name, column in told["columns"].items():
            if isinstance(column, int):
                found[name] = [column] * rows
            elif "values" in column:
                found[name] = list(column["values"])
            elif "array" not in column:
                found[name] = [column["first"] + column["step"] * row for row in range(rows)]
            elif column["coding"] == "gap":
                later[name] = column
            else:
                assert stored is not None
                found[name] = stored[column["array"]].tolist()
                if column["coding"] == "delta":
                    _add_up(found[name], [0] * rows, rows_per_chunk)
        for name, column in later.items():
            assert stored is not None
            found[name] = stored[column["array"]].tolist()
            _add_up(found[name], found[column["lengths"]], rows_per_chunk)
        return found

    # -- chapter 8: virtual arrays -----------------------------------------------------------------

    def variable(self, group: str, name: str) -> Json:
        found = [v for v in self.root["groups"][group]["variables"] if v["name"] == name]
        assert len(found) == 1
        return found[0]

    def array(self, group: str, name: str) -> Array:
        variable = self.variable(group, name)
        told = variable["virtual"]
        sources = self.root["sources"]
        containers = [container["location"] for container in self.root["containers"]]
        keys = self.texts(sources["keys"])
        at = self.table(sources["table"])["container"]
        urls = [f"{containers[number]}{key}" for number, key in zip(at, keys, strict=True)]
        return Array(
            shape=tuple(variable["shape"]),
            dtype=np.dtype(told["dtype"]),
            segments=[
                (block["source_ndim"], self.table(block["table"])) for block in told["segments"]
            ],
            cases=[
                (
                    self.root["cases"][case["case"]],
                    np.frombuffer(
                        self.run(case["parameters"]),
                        [tuple(p) for p in self.root["cases"][case["case"]]["parameters"]],
                    ),
                )
                for case in told["cases"]
            ],
            references=self.table(told["references"]),
            inline=self.run(told["inline"]) if "inline" in told else b"",
            sources=urls,
            beside=self.path.resolve().parent,
        )


def digest(root: Json) -> str:
    rest = {key: value for key, value in root.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _add_up(values: list[int], lengths: list[int], chunk: int | None) -> None:
    assert chunk is not None
    for row in range(len(values)):
        if row % chunk:
            values[row] += values[row - 1] + lengths[row - 1]


def _ravel(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    number = 0
    for place, size in zip(index, shape, strict=True):
        number = number * size + place
    return number


@dataclass
class Array:
    """A virtual array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    segments: list[tuple[int, dict[str, list[int]]]]
    cases: list[tuple[Json, np.ndarray[Any, Any]]]
    references: dict[str, list[int]]
    inline: bytes
    sources: list[str]
    beside: Path

    # -- chapter 9: finding an element -------------------------------------------------------------

    def find(self, element: tuple[int, ...]) -> Place:
        # 1: the segment whose box holds the element
        ndim = len(self.shape)
        found = []
        passed = 0
        for block, (_, columns) in enumerate(self.segments):
            for row in range(len(columns["form"])):
                start = [columns[f"start_{d}"][row] for d in range(ndim)]
                shape = [columns[f"shape_{d}"][row] for d in range(ndim)]
                if all(a <= x < a + n for a, n, x in zip(start, shape, element, strict=True)):
                    found.append((block, row, passed + row))
            passed += len(columns["form"])
        assert len(found) == 1, "boxes cover the array exactly once"
        block, row, segment = found[0]
        source_ndim, columns = self.segments[block]
        of = {name: values[row] for name, values in columns.items()}
        case, parameters = self.cases[of["case"]]
        parameter = parameters[of["row"]]
        place = Place(segment)

        def absent() -> Place:
            place.raw = parameter["raw_fill"]
            place.value = _steps(case, place.raw, parameter)
            return place

        # 2: nothing was written
        if of["form"] == 3:
            return absent()
        # 3: the position in the source array
        inside = [x - of[f"start_{d}"] for d, x in enumerate(element)]
        position, size, edges = [], [], []
        for s in range(source_ndim):
            axis = of[f"axis_{s}"]
            moved = inside[axis] if axis >= 0 else 0
            position.append(of[f"first_{s}"] + of[f"step_{s}"] * moved)
            size.append(of[f"size_{s}"])
            edges.append(of[f"chunk_{s}"])
        place.position = tuple(position)
        # 4: the chunk
        place.chunk = tuple(p // n for p, n in zip(position, edges, strict=True))
        grid = tuple(-(-n // edge) for n, edge in zip(size, edges, strict=True))
        place.number = _ravel(place.chunk, grid)
        begin = tuple(k * n for k, n in zip(place.chunk, edges, strict=True))
        within = tuple(p - b for p, b in zip(position, begin, strict=True))
        # 5: the reference
        references = self.references
        held = tuple(edges)
        skip = 0
        if of["form"] == 0:
            place.row = of["reference"] + place.number
        elif of["form"] == 1:
            rows = range(of["reference"], of["reference"] + of["count"])
            hits = [r for r in rows if references["chunk"][r] == place.number]
            if not hits:
                return absent()
            (place.row,) = hits
        else:
            place.row = of["reference"]
            held = tuple(min(n, s - b) for n, s, b in zip(edges, size, begin, strict=True))
            skip = _ravel(begin, tuple(size)) * _stored(case).itemsize
        # 6: the bytes
        state = references["state"][place.row] if "state" in references else 0
        if state == 2:
            return absent()
        place.offset = references["offset"][place.row] + skip
        place.length = references["length"][place.row]
        if of["form"] == 2:
            place.length = prod(held) * _stored(case).itemsize
            assert skip + place.length <= references["length"][place.row]
        if state == 1:
            data = self.inline[place.offset : place.offset + place.length]
        else:
            place.source = self.sources[of["source"]]
            with (self.beside / place.source).open("rb") as file:
                file.seek(place.offset)
                data = file.read(place.length)
        assert len(data) == place.length
        # 7: the value
        mask = references["mask"][place.row] if "mask" in references else 0
        decoded = _unfiltered(case, data, mask)
        stored = np.frombuffer(decoded, _stored(case))
        assert len(stored) == prod(held)
        place.inside = _ravel(within, held)
        place.raw = stored[place.inside]
        place.value = _steps(case, place.raw, parameter)
        return place


def _stored(case: Json) -> np.dtype[Any]:
    assert case["parameters"][0][0] == "raw_fill"
    return np.dtype(case["parameters"][0][1])


def _unfiltered(case: Json, data: bytes, mask: int) -> bytes:
    names = [codec["name"] for codec in case["codecs"]]
    filters = case["codecs"][names.index("bytes") + 1 :]
    for number, codec in reversed(list(enumerate(filters))):
        if mask >> number & 1:
            continue
        match codec["name"]:
            case "numcodecs.zlib":
                data = zlib.decompress(data)
            case "numcodecs.shuffle":
                size = codec["configuration"]["elementsize"]
                whole = len(data) // size * size
                planes = np.frombuffer(data[:whole], "u1").reshape(size, -1)
                data = planes.T.tobytes() + data[whole:]
            case "numcodecs.fletcher32":
                data = data[:-4]
            case name:
                raise Unknown(name)
    return data


def _steps(case: Json, raw: Any, parameter: Any) -> Any:
    values = np.array([raw])
    first = case["codecs"][0]
    for step in first["configuration"]["steps"] if first["name"] == "intarsia.cf" else ():
        told = step.get("configuration", {})
        if step["name"] in ("isnan", "not"):
            values = {"isnan": np.isnan, "not": np.logical_not}[step["name"]](values)
            continue
        before = values
        values = values.astype(told["data_type"])
        if step["name"] == "mask":
            for number in range(told["fills"]):
                values[before.astype(told["data_type"]) == parameter[f"fill_{number}"]] = np.nan
        elif step["name"] == "scale":
            for wanted, operation in (("scale", np.multiply), ("offset", np.add)):
                if told[wanted]:
                    operation(values, parameter[wanted], out=values, casting="same_kind")
    return values.astype(values.dtype.newbyteorder("="))[0]


def attribute(value: Any) -> Any:
    """Chapter 4, for the types that attributes of most files have."""
    if not isinstance(value, dict):
        return [attribute(item) for item in value] if isinstance(value, list) else value
    match value["type"]:
        case "float":
            return struct.unpack("<d", bytes.fromhex(value["hex"]))[0]
        case "scalar":
            return np.frombuffer(bytes.fromhex(value["hex"]), value["dtype"])[0]
        case "array" if "hex" in value:
            flat = np.frombuffer(bytes.fromhex(value["hex"]), value["dtype"])
            return flat.reshape(value["shape"])
        case name:
            raise Unknown(name)
