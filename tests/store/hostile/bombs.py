"""Stores that say much in few bytes: counts, boxes, chunks and values that can't be."""

from __future__ import annotations

import os
import struct

import numpy as np
from numcodecs import blosc

from intarsia.codecs.hdf5 import hdf5_codec
from intarsia.encoding import Codec, Encoding
from tests.store.hostile.basics import Json, Objects
from tests.store.hostile.crafting import (
    ANY,
    array_of,
    copied_of,
    crafted,
    header,
    only,
    rule,
    source_of,
    use,
)

MANY = 1 << 22


# -- counts ----------------------------------------------------------------------------------------


@crafted("more segments than there may be", reason="segments")
def _(document: Json, objects: Objects) -> None:
    one = {"start_0": rule(0, 1), "shape_0": 1, "size_0": 1, "chunk_0": 1}
    only(document, [MANY + 1], rows=MANY + 1, **one)


@crafted("millions of segments of very many dimensions", reason="segments")
def _(document: Json, objects: Objects) -> None:
    shape = [MANY, *[1] * 60]
    only(document, shape, rows=MANY, start_0=rule(0, 1), shape_0=1, size_0=1, chunk_0=1)


@crafted("a trillion rows of segments", reason="segments")
def _(document: Json, objects: Objects) -> None:
    only(document, [1 << 40], rows=1 << 40)


@crafted("a trillion chunks", *ANY)
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = only(document, [rows], chunk_0=1, count=rows)
    virtual["references"] = {"rows": rows, "columns": {"offset": rule(0, 2), "length": 2}}


@crafted("a trillion chunks, all of them inline", *ANY)
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = only(document, [rows], chunk_0=1, count=rows)
    virtual["references"] = {"rows": rows, "columns": {"offset": 0, "length": 2, "state": 1}}
    virtual["inline"] = {"hex": "0100"}


@crafted("a trillion chunks of no source", reason="no source")
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = only(document, [rows], chunk_0=1, count=rows, source=-1)
    virtual["references"] = {"rows": rows, "columns": {"offset": 0, "length": 2, "state": 1}}


@crafted("a trillion chunks in a list", reason="listed")
def _(document: Json, objects: Objects) -> None:
    rows = 1 << 40
    virtual = only(document, [rows], chunk_0=1, count=rows, form=1)
    columns = {"offset": 0, "length": 2, "chunk": rule(0, 1)}
    virtual["references"] = {"rows": rows, "columns": columns}


@crafted("a shape of more elements than there are numbers", reason="shape")
def _(document: Json, objects: Objects) -> None:
    only(document, [1 << 50, 1 << 50])


@crafted("a shape of nothing, times too much", reason="shape")
def _(document: Json, objects: Objects) -> None:
    only(document, [0, 1 << 50, 1 << 50])


@crafted("65 dimensions", reason="shape")
def _(document: Json, objects: Objects) -> None:
    only(document, [1] * 65)


@crafted("64 dimensions", *ANY)
def _(document: Json, objects: Objects) -> None:
    only(document, [1] * 64)


@crafted("twenty million sources", reason="sources")
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    document["sources"]["table"] = {"rows": 1 << 25, "columns": {
        "container": 0, "size": 2, "mtime_ns": -1, "scan": 0}}  # fmt: skip


@crafted("sixteen million sources of the same name", reason="too many keys")
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    source_of(document, 2)
    rows = 1 << 24
    document["sources"]["table"]["rows"] = rows
    document["sources"]["keys"] = array_of(objects, b"ab\0" * rows, 1 << 26)


# -- boxes -----------------------------------------------------------------------------------------


@crafted("boxes that overlap", reason="overlap|exactly once")
def _(document: Json, objects: Objects) -> None:
    values = {"values": [0, 1]}
    only(document, [4], rows=2, start_0=values, shape_0=2, size_0=2, chunk_0=2)


@crafted("boxes with a hole between them", reason="exactly once")
def _(document: Json, objects: Objects) -> None:
    values = {"values": [0, 3]}
    only(document, [5], rows=2, start_0=values, shape_0=2, size_0=2, chunk_0=2)


@crafted("a chunk of a terabyte", reason="4 GiB")
def _(document: Json, objects: Objects) -> None:
    only(document, [4], size_0=4, chunk_0=1 << 40)


@crafted("a step past all numbers", "other", "same", "source", "chunk")
def _(document: Json, objects: Objects) -> None:
    only(document, [1, 8], step_0=1 << 53)


@crafted("a step that wraps round", reason="past the end")
def _(document: Json, objects: Objects) -> None:
    only(document, [1 << 20], step_0=1 << 53, size_0=4, chunk_0=4)


# -- references ------------------------------------------------------------------------------------


@crafted("a reference past the end", "source")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [4])
    virtual["references"]["columns"] = {"offset": 1 << 40, "length": 8}


@crafted("a reference of exabytes", "source")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [4])
    virtual["references"]["columns"] = {"offset": 0, "length": 1 << 53}


@crafted("a reference of exabytes, contiguous", "source")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [1 << 30], form=2)
    virtual["references"]["columns"] = {"offset": 0, "length": 1 << 53}


@crafted("a negative offset")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [4])
    virtual["references"]["columns"] = {"offset": -8, "length": 8}


@crafted("a terabyte of zeros in a file that is none", "source", reason="asked for")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [4])
    source_of(document, 1 << 40, "sparse.bin")
    virtual["references"]["columns"] = {"offset": 0, "length": 1 << 40}


@crafted("a deflate stream that says it is a gigabyte", "chunk")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [4], size_0=1 << 29, chunk_0=1 << 29)
    source_of(document, 1 << 16, "stream.bin")
    use(document, virtual, Encoding((Codec.make("zlib"),), np.dtype("<i2")))
    virtual["references"]["columns"] = {"offset": 0, "length": 64}


@crafted("a chunk of scaleoffset that says it is a gigabyte", "chunk", "unsupported")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [4], size_0=1 << 28, chunk_0=1 << 28)
    source_of(document, 1 << 16, "scaleoffset.bin")
    values = (2, 0, 1 << 28, 0, 4, 1, 0, 1, *[0] * 12)
    codec = hdf5_codec(
        [(6, 0, values, "")],
        bytes.fromhex("0300100800000400000000002000"),
        (1 << 28,),
        b"\0" * 4,
    )
    use(document, virtual, Encoding((codec,), np.dtype("<i4")))
    virtual["references"]["columns"] = {"offset": 0, "length": 21}


@crafted("a source that is a pipe", "source", reason="not a regular file")
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    source_of(document, -1, "pipe")


@crafted("a source that is a folder", "source", reason="directory")
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    source_of(document, -1, "deep")


# -- copied values ---------------------------------------------------------------------------------


@crafted("64 GB that nobody wrote", reason="too few bytes|does not hold|hold")
def _(document: Json, objects: Objects) -> None:
    one = copied_of(document, objects, b"x" * 100, shape=[1 << 36], chunks=[1 << 28])
    one["values"]["objects"] *= 256


@crafted("64 GB that nobody wrote, in files that are said to be large")
def _(document: Json, objects: Objects) -> None:
    one = copied_of(document, objects, b"x" * 100, shape=[1 << 36], chunks=[1 << 28])
    one["values"]["objects"] = [[1 << 28, 0]] * 256


@crafted("a chunk that says it is larger than it can be", reason="too few bytes|can't hold")
def _(document: Json, objects: Objects) -> None:
    packed = header(bytes(blosc.compress(b"\0" * 64, b"zstd", 5)), 1 << 28)
    copied_of(document, objects, packed, shape=[1 << 28], chunks=[1 << 28])


@crafted("a chunk that says it is 100 MB, in few bytes", reason="can't be decompressed")
def _(document: Json, objects: Objects) -> None:
    packed = bytes(blosc.compress(os.urandom(20_000), b"zstd", 5))
    copied_of(document, objects, header(packed, 100 << 20), shape=[100 << 20], chunks=[100 << 20])


@crafted("blocks of no length", reason="decompressed|does not hold")
def _(document: Json, objects: Objects) -> None:
    packed = header(bytes(blosc.compress(b"abcd" * 100, b"zstd", 5)), 400, 0)
    copied_of(document, objects, packed, shape=[400], chunks=[400])


@crafted("four billion strings", reason="does not hold")
def _(document: Json, objects: Objects) -> None:
    data = struct.pack("<I", (1 << 32) - 1) + b"\0" * 64
    one = copied_of(document, objects, bytes(blosc.compress(data, b"zstd", 5)), data_type="string")
    one["restore"] = {"kind": "text", "dtype": "|O"}


@crafted("a string of four gigabytes", reason="cut short")
def _(document: Json, objects: Objects) -> None:
    data = struct.pack("<I", 4) + struct.pack("<I", (1 << 32) - 1) * 4
    one = copied_of(document, objects, bytes(blosc.compress(data, b"zstd", 5)), data_type="string")
    one["restore"] = {"kind": "text", "dtype": "|O"}


@crafted("short strings that are said to be long", reason="strings of type")
def _(document: Json, objects: Objects) -> None:
    count = 1 << 18
    packed = bytes(blosc.compress(struct.pack("<I", count) + b"\0" * 4 * count, b"zstd", 5))
    one = copied_of(document, objects, packed, shape=[count], chunks=[count], data_type="string")
    one["restore"] = {"kind": "text", "dtype": "<U4000"}


@crafted("dates of years that nobody counts to", reason="too far away")
def _(document: Json, objects: Objects) -> None:
    count = 1 << 17
    data = np.full(count, 9 * 10**18).tobytes()
    packed = bytes(blosc.compress(data, b"zstd", 5))
    one = copied_of(document, objects, packed, shape=[count], chunks=[count], data_type="int64")
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


# -- much, but not too much ------------------------------------------------------------------------


@crafted("four million segments in a line", "other", "source", seconds=30, nbytes=1 << 30)
def _(document: Json, objects: Objects) -> None:
    one = {"start_0": rule(0, 1), "shape_0": 1, "size_0": 1, "chunk_0": 1}
    virtual = only(document, [MANY], rows=MANY, reference=rule(0, 1), **one)
    virtual["references"] = {"rows": MANY, "columns": {"offset": rule(0, 2), "length": 2}}


@crafted("hundreds of variables of one", *ANY, seconds=8)
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    (one,) = document["groups"]["/"]["variables"]
    document["groups"]["/"]["variables"] = [
        one | {"name": f"v{n}", "node": f"v{n}"} for n in range(300)
    ]
