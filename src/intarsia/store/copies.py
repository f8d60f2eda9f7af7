"""Copied arrays: values, and runs of bytes, as plain Zarr arrays with checksums in the root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.store.compression import MAX_CHUNK, MAX_RATIO, checksum, compress, decompress
from intarsia.store.objects import Objects, Writer
from intarsia.store.parsing import Reader
from intarsia.store.zarrays import (
    FILLS,
    chunk_shape,
    decode_values,
    dump,
    encode_values,
    metadata,
    pieces,
)

type Json = dict[str, Any]

MAX_BYTES = 1 << 36
"""A copied array that would be larger is not read."""

MIN_STRING = 4
"""Bytes that a string takes at least, before it is compressed."""

NAMED = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
"""Types of copied arrays; beside them there are strings, and bytes of a fixed length."""


def write_values(
    writer: Writer,
    name: str,
    values: npt.NDArray[Any],
    *,
    dims: Sequence[str | None] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Json:
    """Write an array whose type Zarr has; objects are strings.

    Returns
    -------
    json
        What the root says of the array: how to read it, and size and checksum of each chunk.
    """
    dtype = None if values.dtype.kind == "O" else values.dtype
    itemsize = 32 if dtype is None else max(dtype.itemsize, 1)
    chunks = chunk_shape(values.shape, itemsize)
    described = metadata(values.shape, chunks, dtype, dims=dims, attrs=attrs)
    writer.put(f"{name}/zarr.json", dump(described))
    objects: list[list[int]] = []
    for key, place, size in pieces(values.shape, chunks):
        part = values[place]
        if size != chunks:  # the last chunk of a row is a whole one too
            whole = np.full(chunks, "" if dtype is None else FILLS[dtype.kind], values.dtype)
            whole[tuple(slice(0, n) for n in size)] = part
            part = whole
        data = encode_values(np.asarray(part), dtype)
        writer.put(f"{name}/{key}", data)
        objects.append([len(data), checksum(data)])
    told: Json = {"array": name, "shape": list(values.shape), "chunks": list(chunks)}
    told["data_type"] = described["data_type"]
    told["objects"] = objects
    return told


def read_values(told: Reader, objects: Objects) -> npt.NDArray[Any]:
    """Read an array that `write_values` has written.

    Raises
    ------
    CorruptStore
        If a chunk is missing or damaged, or the root says what can't be.
    """
    told.only("array", "shape", "chunks", "data_type", "objects")
    name = told.name("array")
    shape = told.integers("shape", 0)
    chunks = told.integers("chunks", 1)
    dtype = _dtype(told)
    itemsize = MIN_STRING if dtype is None else dtype.itemsize
    if len(shape) != len(chunks) or len(shape) > 32:
        raise told.error("chunks of other dimensions than the array's")
    if prod(chunks) * itemsize > MAX_CHUNK or prod(shape) * itemsize > MAX_BYTES:
        raise told.error(f"an array of shape {shape} is too large to be a copied one")
    expected = told.pairs("objects")
    count = prod(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))
    if len(expected) != count:
        raise told.error(f"{len(expected)} chunks where there have to be {count}")
    if sum(size for size, _ in expected) * MAX_RATIO < prod(shape) * itemsize:
        raise told.error(f"too few bytes to hold an array of shape {shape}")
    try:
        values = np.empty(shape, object if dtype is None else dtype)
    except (MemoryError, ValueError) as error:
        raise told.error(f"an array of shape {shape} does not fit into memory") from error
    for (key, place, size), promise in zip(pieces(shape, chunks), expected, strict=True):
        what = f"{name}/{key}"
        data = checked_object(objects, what, promise)
        part = decode_values(data, chunks, dtype, what)
        values[place] = part[tuple(slice(0, n) for n in size)]
    return values


def _dtype(told: Reader) -> np.dtype[Any] | None:
    found = told.value.get("data_type")
    if found == "string":
        return None
    if isinstance(found, str):
        if found not in NAMED:
            raise told.error(f"no such type: {found[:40]}", "data_type")
        return NAMED[found]
    fixed = told.child("data_type")
    fixed.only("name", "configuration")
    fixed.choice("name", ("null_terminated_bytes",))
    length = fixed.child("configuration").integer("length_bytes", 1, 1 << 20)
    return np.dtype(f"S{length}")


def checked_object(objects: Objects, name: str, promise: tuple[int, int]) -> bytes:
    """A whole object, of the size and checksum that the root promises.

    Raises
    ------
    CorruptStore
        If it is missing, or another.
    """
    size, crc = promise
    try:
        data = objects.get(name)
    except FileNotFoundError as error:
        raise objects.wrong(f"{name} is missing") from error
    if len(data) != size:
        raise objects.wrong(f"{name} has {len(data)} bytes, the root of the store says {size}")
    if checksum(data) != crc:
        raise objects.wrong(f"the checksum of {name} is wrong")
    return data


def write_bytes(writer: Writer, name: str, data: bytes, *, few: int, row: int = 1) -> Json:
    """Write a run of bytes: into the root itself where there are few, else as an array of uint8.

    Parameters
    ----------
    few
        So many bytes are few.
    row
        Bytes that belong together, which blosc shuffles.
    """
    if len(data) <= few:
        return {"hex": data.hex()}
    step = max(1, (MAX_CHUNK >> 2) // row) * row
    length = min(step, len(data))
    described = metadata((len(data),), (length,), np.dtype(np.uint8), typesize=row)
    writer.put(f"{name}/zarr.json", dump(described))
    objects: list[list[int]] = []
    for number, begin in enumerate(range(0, len(data), length)):
        part = compress(data[begin : begin + length].ljust(length, b"\0"), row)
        writer.put(f"{name}/c/{number}", part)
        objects.append([len(part), checksum(part)])
    return {"array": name, "nbytes": len(data), "chunk": length, "objects": objects}


def read_bytes(told: Reader, objects: Objects) -> bytes:
    """Read what `write_bytes` has written.

    Raises
    ------
    CorruptStore
        If it is missing or damaged.
    """
    if told.has("hex"):
        told.only("hex")
        try:
            return bytes.fromhex(told.text("hex"))
        except ValueError as error:
            raise told.error(str(error), "hex") from error
    told.only("array", "nbytes", "chunk", "objects")
    name = told.name("array")
    nbytes = told.integer("nbytes", 1, MAX_BYTES)
    length = told.integer("chunk", 1, MAX_CHUNK)
    expected = told.pairs("objects")
    if len(expected) != -(-nbytes // length):
        raise told.error(f"{len(expected)} chunks can't hold {nbytes} bytes")
    if length > nbytes:
        raise told.error(f"a chunk of {length} bytes for {nbytes}")
    parts: list[bytes] = []
    for number, promise in enumerate(expected):
        what = f"{name}/c/{number}"
        parts.append(decompress(checked_object(objects, what, promise), length, what))
    return b"".join(parts)[:nbytes]
