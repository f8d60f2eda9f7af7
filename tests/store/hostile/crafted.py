"""Stores made by someone who means it: bombs, loops, and ways out. Each by its name."""

from __future__ import annotations

import copy
import json
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import blosc

from intarsia.codecs.cases import case_json, case_key
from intarsia.codecs.hdf5 import hdf5_codec
from intarsia.encoding import Codec, Encoding
from intarsia.store.compression import checksum
from intarsia.store.objects import ROOT
from tests.store.hostile.mutations import Damaged, Json, Objects, sealed

type Change = Callable[[Any, Objects], None]

REFUSED = ("store",)
ANY = ("store", "source", "chunk", "unsupported", "other", "same")


@dataclass(frozen=True)
class Crafted:
    """A store, and what may come of it.

    Parameters
    ----------
    change
        What is done to the root and the objects of a sound store.
    results
        What may come of it.
    reason
        Part of what an error says, where it has to say something in particular.
    seconds, nbytes
        How long reading it may take, and how much memory.
    special
        Links and the like.
    text
        What is done to the text of the root at last.
    """

    change: Change
    results: tuple[str, ...] = REFUSED
    reason: str = ""
    seconds: float = 2
    nbytes: int = 200 << 20
    special: dict[str, tuple[str, ...]] | None = None
    text: Callable[[bytes], bytes] | None = None


CRAFTED: dict[str, Crafted] = {}


def crafted(name: str, *results: str, **more: Any) -> Callable[[Change], Change]:
    """Register a store."""

    def register(change: Change) -> Change:
        CRAFTED[name] = Crafted(change, results or REFUSED, **more)
        return change

    return register


def made(name: str, objects: Objects) -> Damaged:
    """The store of a name, of the objects of a sound one."""
    what = CRAFTED[name]
    objects = dict(objects)
    document = json.loads(objects[ROOT])
    what.change(document, objects)
    objects[ROOT] = sealed(document)
    if what.text is not None:
        objects[ROOT] = what.text(objects[ROOT])
    special = what.special or {}
    for place in special:
        objects.pop(place, None)
    return Damaged(f"crafted: {name}", True, objects, dict(special))


# -- a variable of one's own -----------------------------------------------------------------------


def _only(document: Json, shape: list[int], **columns: Any) -> Json:
    """Leave one virtual variable, of int16 and a shape, with one block of segments.

    All its columns are rules; those that are not told are those of one segment.
    """
    name = document["groups"]["/"]["variables"]
    (explicit,) = [variable for variable in name if variable["name"] == "explicit"]
    document["groups"] = {"/": {"attributes": {}, "encoding": {}, "variables": [explicit]}}
    encoding = Encoding((), np.dtype("<i2"))
    case = case_json(encoding)
    key = case_key(case)
    document["cases"] = {key: case}
    ndim = len(shape)
    told: dict[str, Any] = {
        **dict.fromkeys(("case", "row", "source", "reference", "form"), 0),
        "count": 1,
        **{f"start_{d}": 0 for d in range(ndim)},
        **{f"shape_{d}": shape[d] for d in range(ndim)},
        **{f"axis_{d}": d for d in range(ndim)},
        **{f"first_{d}": 0 for d in range(ndim)},
        **{f"step_{d}": 1 for d in range(ndim)},
        **{f"size_{d}": shape[d] for d in range(ndim)},
        **{f"chunk_{d}": shape[d] for d in range(ndim)},
    }
    explicit["dims"] = [f"d{d}" for d in range(ndim)]
    explicit["shape"] = shape
    explicit["virtual"] = {
        "dtype": "<i2",
        "source_name": "",
        "notes": [],
        "grid": {"chunks": [min(n, 16) for n in shape], "amplification_percent": 100,
                 "max_parts": 1, "cells": 1},
        "segments": [{"source_ndim": ndim,
                      "table": {"rows": columns.pop("rows", 1), "columns": told | columns}}],
        "cases": [{"case": key, "rows": 1, "parameters": {"hex": "0000"}}],
        "references": {"rows": 1, "columns": {"offset": 0, "length": 2}},
    }  # fmt: skip
    return explicit["virtual"]


def _use(document: Json, virtual: Json, encoding: Encoding) -> None:
    """Give the one variable another encoding, with zeros for parameters."""
    case = case_json(encoding)
    key = case_key(case)
    document["cases"] = {key: case}
    size = encoding.parameters.itemsize
    virtual["cases"] = [{"case": key, "rows": 1, "parameters": {"hex": "00" * size}}]
    virtual["dtype"] = encoding.dtype.str


def _source(document: Json, size: int, key: str = "one.bin") -> None:
    """Leave one source, in the container that is in the store's folder."""
    document["containers"] = [{"name": "in", "location": "./in/", "pin": "size"}]
    columns = {"container": 0, "size": size, "mtime_ns": -1, "scan": 0}
    document["sources"] = {
        "table": {"rows": 1, "columns": columns},
        "keys": {"hex": f"{key}\0".encode().hex()},
        "scans": [""],
    }


def rule(first: int, step: int) -> Json:
    """A column."""
    return {"first": first, "step": step}


# -- counts ----------------------------------------------------------------------------------------

MANY = 1 << 22


@crafted("more segments than there may be", reason="segments")
def _(document: Json, objects: Objects) -> None:
    one = {"start_0": rule(0, 1), "shape_0": 1, "size_0": 1, "chunk_0": 1}
    _only(document, [MANY + 1], rows=MANY + 1, **one)


@crafted("millions of segments of very many dimensions", reason="segments")
def _(document: Json, objects: Objects) -> None:
    shape = [MANY, *[1] * 60]
    _only(document, shape, rows=MANY, start_0=rule(0, 1), shape_0=1, size_0=1, chunk_0=1)


@crafted("a trillion rows of segments", reason="segments")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1 << 40], rows=1 << 40)


@crafted("a trillion chunks", *ANY)
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = _only(document, [rows], chunk_0=1, count=rows)
    virtual["references"] = {"rows": rows, "columns": {"offset": rule(0, 2), "length": 2}}


@crafted("a trillion chunks, all of them inline", *ANY)
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = _only(document, [rows], chunk_0=1, count=rows)
    virtual["references"] = {"rows": rows, "columns": {"offset": 0, "length": 2, "state": 1}}
    virtual["inline"] = {"hex": "0100"}


@crafted("a trillion chunks of no source", reason="no source")
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = _only(document, [rows], chunk_0=1, count=rows, source=-1)
    virtual["references"] = {"rows": rows, "columns": {"offset": 0, "length": 2, "state": 1}}


@crafted("a trillion chunks in a list", reason="listed")
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = _only(document, [rows], chunk_0=1, count=rows, form=1)
    columns = {"offset": 0, "length": 2, "chunk": rule(0, 1)}
    virtual["references"] = {"rows": rows, "columns": columns}


@crafted("a shape of more elements than there are numbers", reason="shape")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1 << 50, 1 << 50])


@crafted("a shape of nothing, times too much", reason="shape")
def _(document: Json, objects: Objects) -> None:
    _only(document, [0, 1 << 50, 1 << 50])


@crafted("65 dimensions", reason="shape")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1] * 65)


@crafted("64 dimensions", *ANY)
def _(document: Json, objects: Objects) -> None:
    _only(document, [1] * 64)


@crafted("twenty million sources", reason="sources")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1])
    document["sources"]["table"] = {"rows": 1 << 25, "columns": {
        "container": 0, "size": 2, "mtime_ns": -1, "scan": 0}}  # fmt: skip


@crafted("sixteen million sources of the same name", reason="too many keys")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1])
    _source(document, 2)
    rows = 1 << 24
    document["sources"]["table"]["rows"] = rows
    document["sources"]["keys"] = _array(objects, b"ab\0" * rows, 1 << 26)


# -- boxes -----------------------------------------------------------------------------------------


@crafted("boxes that overlap", reason="overlap|exactly once")
def _(document: Json, objects: Objects) -> None:
    values = {"values": [0, 1]}
    _only(document, [4], rows=2, start_0=values, shape_0=2, size_0=2, chunk_0=2)


@crafted("boxes with a hole between them", reason="exactly once")
def _(document: Json, objects: Objects) -> None:
    values = {"values": [0, 3]}
    _only(document, [5], rows=2, start_0=values, shape_0=2, size_0=2, chunk_0=2)


@crafted("a chunk of a terabyte", reason="4 GiB")
def _(document: Json, objects: Objects) -> None:
    _only(document, [4], size_0=4, chunk_0=1 << 40)


@crafted("a step past all numbers", "other", "same", "source", "chunk")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1, 8], step_0=1 << 53)


@crafted("a step that wraps round", reason="past the end")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1 << 20], step_0=1 << 53, size_0=4, chunk_0=4)


# -- references ------------------------------------------------------------------------------------


@crafted("a reference past the end", "source")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [4])
    virtual["references"]["columns"] = {"offset": 1 << 40, "length": 8}


@crafted("a reference of exabytes", "source")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [4])
    virtual["references"]["columns"] = {"offset": 0, "length": 1 << 53}


@crafted("a reference of exabytes, contiguous", "source")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [1 << 30], form=2)
    virtual["references"]["columns"] = {"offset": 0, "length": 1 << 53}


@crafted("a negative offset")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [4])
    virtual["references"]["columns"] = {"offset": -8, "length": 8}


@crafted("a terabyte of zeros in a file that is none", "source", reason="asked for")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [4])
    _source(document, 1 << 40, "sparse.bin")
    virtual["references"]["columns"] = {"offset": 0, "length": 1 << 40}


@crafted("a deflate stream that says it is a gigabyte", "chunk")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [4], size_0=1 << 29, chunk_0=1 << 29)
    _source(document, 1 << 16, "stream.bin")
    _use(document, virtual, Encoding((Codec.make("zlib"),), np.dtype("<i2")))
    virtual["references"]["columns"] = {"offset": 0, "length": 64}


@crafted("a chunk of scaleoffset that says it is a gigabyte", "chunk", "unsupported")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [4], size_0=1 << 28, chunk_0=1 << 28)
    _source(document, 1 << 16, "scaleoffset.bin")
    values = (2, 0, 1 << 28, 0, 4, 1, 0, 1, *[0] * 12)
    codec = hdf5_codec(
        [(6, 0, values, "")],
        bytes.fromhex("0300100800000400000000002000"),
        (1 << 28,),
        b"\0" * 4,
    )
    _use(document, virtual, Encoding((codec,), np.dtype("<i4")))
    virtual["references"]["columns"] = {"offset": 0, "length": 21}


@crafted("a source that is a pipe", "source", reason="not a regular file")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1])
    _source(document, -1, "pipe")


@crafted("a source that is a folder", "source", reason="directory")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1])
    _source(document, -1, "deep")


# -- copied values ---------------------------------------------------------------------------------


def _array(objects: Objects, data: bytes, length: int) -> Json:
    """A run of bytes as an array, well compressed."""
    told: list[list[int]] = []
    for number, begin in enumerate(range(0, len(data), length)):
        part = bytes(blosc.compress(data[begin : begin + length].ljust(length, b"\0"), b"zstd", 5))
        objects[f"bomb/c/{number}"] = part
        told.append([len(part), checksum(part)])
    return {"array": "bomb", "nbytes": len(data), "chunk": length, "objects": told}


def _copied(document: Json, objects: Objects, packed: bytes, **told: Any) -> Json:
    """Leave one copied variable, of one chunk."""
    objects["bomb/c/0"] = packed
    values = {"array": "bomb", "shape": [4], "chunks": [4], "data_type": "int8",
              "objects": [[len(packed), checksum(packed)]]} | told  # fmt: skip
    document["groups"]["/"]["variables"] = [{
        "name": "bomb", "node": "bomb", "dims": [f"d{n}" for n in range(len(values["shape"]))],
        "shape": values["shape"], "coordinate": False, "attributes": {}, "encoding": {},
        "values": values, "restore": {},
    }]  # fmt: skip
    return document["groups"]["/"]["variables"][0]


def header(packed: bytes, nbytes: int, blocksize: int | None = None) -> bytes:
    """A compressed chunk that says it holds so many bytes."""
    blocksize = nbytes if blocksize is None else blocksize
    return packed[:4] + struct.pack("<II", nbytes, blocksize) + packed[12:]


@crafted("64 GB that nobody wrote", reason="too few bytes|does not hold|hold")
def _(document: Json, objects: Objects) -> None:
    one = _copied(document, objects, b"x" * 100, shape=[1 << 36], chunks=[1 << 28])
    one["values"]["objects"] *= 256


@crafted("64 GB that nobody wrote, in files that are said to be large")
def _(document: Json, objects: Objects) -> None:
    one = _copied(document, objects, b"x" * 100, shape=[1 << 36], chunks=[1 << 28])
    one["values"]["objects"] = [[1 << 28, 0]] * 256


@crafted("a chunk that says it is larger than it can be", reason="too few bytes|can't hold")
def _(document: Json, objects: Objects) -> None:
    packed = header(bytes(blosc.compress(b"\0" * 64, b"zstd", 5)), 1 << 28)
    _copied(document, objects, packed, shape=[1 << 28], chunks=[1 << 28])


@crafted("a chunk that says it is 100 MB, in few bytes", reason="can't be decompressed")
def _(document: Json, objects: Objects) -> None:
    packed = bytes(blosc.compress(os.urandom(20_000), b"zstd", 5))
    _copied(document, objects, header(packed, 100 << 20), shape=[100 << 20], chunks=[100 << 20])


@crafted("blocks of no length", reason="decompressed|does not hold")
def _(document: Json, objects: Objects) -> None:
    packed = header(bytes(blosc.compress(b"abcd" * 100, b"zstd", 5)), 400, 0)
    _copied(document, objects, packed, shape=[400], chunks=[400])


@crafted("four billion strings", reason="does not hold")
def _(document: Json, objects: Objects) -> None:
    data = struct.pack("<I", (1 << 32) - 1) + b"\0" * 64
    one = _copied(document, objects, bytes(blosc.compress(data, b"zstd", 5)), data_type="string")
    one["restore"] = {"kind": "text", "dtype": "|O"}


@crafted("a string of four gigabytes", reason="cut short")
def _(document: Json, objects: Objects) -> None:
    data = struct.pack("<I", 4) + struct.pack("<I", (1 << 32) - 1) * 4
    one = _copied(document, objects, bytes(blosc.compress(data, b"zstd", 5)), data_type="string")
    one["restore"] = {"kind": "text", "dtype": "|O"}


@crafted("short strings that are said to be long", reason="strings of type")
def _(document: Json, objects: Objects) -> None:
    count = 1 << 18
    packed = bytes(blosc.compress(struct.pack("<I", count) + b"\0" * 4 * count, b"zstd", 5))
    one = _copied(document, objects, packed, shape=[count], chunks=[count], data_type="string")
    one["restore"] = {"kind": "text", "dtype": "<U4000"}


@crafted("dates of years that nobody counts to", reason="too far away")
def _(document: Json, objects: Objects) -> None:
    count = 1 << 17
    data = np.full(count, 9 * 10**18).tobytes()
    packed = bytes(blosc.compress(data, b"zstd", 5))
    one = _copied(document, objects, packed, shape=[count], chunks=[count], data_type="int64")
    one["restore"] = {"kind": "cftime", "unit": "microseconds", "class": "DatetimeGregorian",
                      "calendar": "standard", "has_year_zero": False}  # fmt: skip


@crafted("arrays of empty text in attributes")
def _(document: Json, objects: Objects) -> None:
    shape = [1 << 32, 1 << 20]
    document["groups"]["/"]["attributes"] = {
        "a": {"type": "array", "dtype": "<U0", "shape": shape, "hex": ""}
    }


@crafted("attributes of very many dimensions")
def _(document: Json, objects: Objects) -> None:
    document["groups"]["/"]["attributes"] = {
        "a": {"type": "array", "dtype": "<i2", "shape": [1] * 60, "hex": "0000"}
    }


# -- loops -----------------------------------------------------------------------------------------


@crafted("a column that needs itself", reason="needs")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [1])
    virtual["references"] = {"rows": 1, "array": "x", "shards": [[100, 0]], "columns": {
        "offset": {"array": 0, "coding": "gap", "lengths": "offset"}, "length": 2}}  # fmt: skip


@crafted("two columns that need each other", reason="needs")
def _(document: Json, objects: Objects) -> None:
    virtual = _only(document, [1])
    virtual["references"] = {"rows": 1, "array": "x", "shards": [[100, 0]], "columns": {
        "offset": {"array": 0, "coding": "gap", "lengths": "length"},
        "length": {"array": 1, "coding": "gap", "lengths": "offset"}}}  # fmt: skip


def _nested(text: bytes) -> bytes:
    return text.replace(b'"@"', b"[" * 500_000 + b"]" * 500_000)


@crafted("a document that nests very deeply", reason="nests", text=_nested)
def _(document: Json, objects: Objects) -> None:
    document["groups"]["/"]["attributes"] = {"a": "@"}


@crafted("a variable twice", reason="second variable")
def _(document: Json, objects: Objects) -> None:
    variables = document["groups"]["/"]["variables"]
    variables.append(copy.deepcopy(variables[0]))


# -- ways out --------------------------------------------------------------------------------------

WAYS_OUT = [
    *("../secret", "/etc/passwd", "in/../../secret", "a\0b", "a\\..\\b", "..", "C:/x", "./x"),
    *("%2e%2e/secret", "a//b", "\ud800", "\x1b[2J", ""),
]


def _way_out(key: str) -> None:
    results = ("source",) if key == "\ud800" else REFUSED  # bytes that are no text: a name

    @crafted(f"a source called {key!r}", *results, reason="name of a source|texts|not exist")
    def _(document: Json, objects: Objects) -> None:
        _only(document, [1])
        _source(document, -1)
        data = f"{key}\0".encode("utf-8", "surrogatepass")
        document["sources"]["keys"] = {"hex": data.hex()}

    @crafted(f"a part called {key!r}", "store", reason="name of an object|is missing")
    def _(document: Json, objects: Objects) -> None:
        packed = bytes(blosc.compress(b"abcd", b"zstd", 5))
        one = _copied(document, objects, packed)
        one["values"]["array"] = key

    @crafted(f"a node called {key!r}", reason="name of a")
    def _(document: Json, objects: Objects) -> None:
        _copied(document, objects, bytes(blosc.compress(b"abcd", b"zstd", 5)))["node"] = key


for _key in WAYS_OUT:
    _way_out(_key)


def _place(location: str, pin: str) -> None:
    @crafted(f"a container at {location!r} with {pin}", reason="container")
    def _(document: Json, objects: Objects) -> None:
        _only(document, [1])
        _source(document, -1, "secret")
        document["containers"] = [{"name": "in", "location": location, "pin": pin}]


for _location in (
    *("/etc/", "file:///etc/", "s3://bucket/", "http://127.0.0.1:1/", "./../", "./in/../../"),
    *("../" * 300, "", ".", "in/", "./in", "./a\0b/", ".\\in\\", "~/", "../%2e%2e/"),
):
    _place(_location, "mtime")
_place("../", "size")
_place("../", "none")


@crafted("a file that the store does not know", "source", reason="nothing says")
def _(document: Json, objects: Objects) -> None:
    _only(document, [1])
    _source(document, -1, "secret")
    document["containers"] = [{"name": "in", "location": "../", "pin": "mtime"}]


@crafted("a root that leads out", special={ROOT: ("link", "../../secret")}, reason="leads out")
@crafted("a root that is a pipe", special={ROOT: ("fifo",)}, reason="not a file")
@crafted("a root that is a folder", special={ROOT: ("folder",)}, reason="not a file|read")
@crafted("a root that is a device", special={ROOT: ("link", "/dev/zero")}, reason="leads out")
@crafted("a root that leads to itself", special={ROOT: ("link", "root.json")})
def _(document: Json, objects: Objects) -> None:
    pass


@crafted("a folder of a store that leads out", special={"lat": ("link", "../..")},
         reason="leads out")  # fmt: skip
def _(document: Json, objects: Objects) -> None:
    packed = bytes(blosc.compress(b"abcd", b"zstd", 5))
    one = _copied(document, objects, packed)
    one["values"]["array"] = "lat/x"


# -- much, but not too much ------------------------------------------------------------------------

LIGHT = len(CRAFTED)
"""Those up to here take no time."""


@crafted("four million segments in a line", "other", "source", seconds=30, nbytes=1 << 30)
def _(document: Json, objects: Objects) -> None:
    one = {"start_0": rule(0, 1), "shape_0": 1, "size_0": 1, "chunk_0": 1}
    virtual = _only(document, [MANY], rows=MANY, reference=rule(0, 1), **one)
    virtual["references"] = {"rows": MANY, "columns": {"offset": rule(0, 2), "length": 2}}


@crafted("hundreds of variables of one", *ANY, seconds=8)
def _(document: Json, objects: Objects) -> None:
    _only(document, [1])
    (one,) = document["groups"]["/"]["variables"]
    document["groups"]["/"]["variables"] = [
        one | {"name": f"v{n}", "node": f"v{n}"} for n in range(300)
    ]


# -- what they refer to ----------------------------------------------------------------------------


def prepare(home: Path) -> None:
    """Files that these stores refer to."""
    inside = home / "in"
    (inside / "one.bin").write_bytes(b"\1\0" * 8)
    with (inside / "sparse.bin").open("wb") as file:
        file.truncate(1 << 40)
    (inside / "stream.bin").write_bytes(zlib.compress(bytes(60_000)).ljust(1 << 16, b"\0"))
    data = struct.pack("<IB", 0, 8) + b"\0" * 16
    (inside / "scaleoffset.bin").write_bytes(data.ljust(1 << 16, b"\0"))
    if not (inside / "pipe").exists():
        os.mkfifo(inside / "pipe")
