"""Plain Zarr v3 arrays of core codecs: how a store keeps everything that is not a reference.

Written so that any Zarr v3 library reads them. Read here without one: what a store from a stranger
says is compared with what its root promises before anything is decompressed, nothing is allocated
that the root does not ask for, and only these few codecs exist.

A chunk is little-endian bytes (or, for strings, ``vlen-utf8``), compressed by blosc with zstd. The
arrays that hold tables are sharded, so that a few rows are read without the rest; there each inner
chunk has a checksum of its own (``crc32c``). Of every other object, and of every shard's index,
the root holds the checksum.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptStore
from intarsia.grid import grid_shape
from intarsia.store.compression import compress, decompress

CHUNK_BYTES = 1 << 22
"""Chunks of copied arrays are cut to about so much."""

FILLS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": [0.0, 0.0], "S": ""}
"""Fill values by kind of type; no chunk is ever left out, so that none is used."""


def data_type(dtype: np.dtype[Any]) -> Any:
    """Zarr's name of a type.

    Examples
    --------
    >>> data_type(np.dtype("<f4")), data_type(np.dtype(bool)), data_type(np.dtype("S3"))
    ('float32', 'bool', {'name': 'null_terminated_bytes', 'configuration': {'length_bytes': 3}})
    """
    if dtype.kind == "S":
        return {
            "name": "null_terminated_bytes",
            "configuration": {"length_bytes": max(dtype.itemsize, 1)},
        }
    if dtype.kind not in "biufc":
        raise ValueError(f"{dtype} is not a type of plain Zarr arrays")
    return dtype.name


def metadata(
    shape: Sequence[int],
    chunks: Sequence[int],
    dtype: np.dtype[Any] | None,
    *,
    dims: Sequence[str | None] | None = None,
    attrs: Mapping[str, Any] | None = None,
    typesize: int | None = None,
    inner: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The ``zarr.json`` of an array.

    Parameters
    ----------
    shape, chunks
        Shape, and shape of a chunk (of a shard, where `inner` is given).
    dtype
        Type of the elements; None for strings.
    dims, attrs
        Names of the dimensions, and JSON attributes.
    typesize
        What blosc takes for an element, where that is not one of `dtype`.
    inner
        Shape of the chunks in a shard.
    """
    codecs: list[dict[str, Any]]
    if dtype is None:
        codecs = [{"name": "vlen-utf8"}, _blosc(1)]
    else:
        size = typesize or dtype.itemsize
        codecs = [_bytes(dtype), _blosc(size)]
    if inner is not None:
        codecs = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": list(inner),
                    "codecs": [*codecs, {"name": "crc32c"}],
                    "index_codecs": [
                        {"name": "bytes", "configuration": {"endian": "little"}},
                        {"name": "crc32c"},
                    ],
                    "index_location": "end",
                },
            }
        ]
    found: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "string" if dtype is None else data_type(dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "" if dtype is None else FILLS[dtype.kind],
        "codecs": codecs,
        "attributes": dict(attrs or {}),
    }
    if dims is not None:
        found["dimension_names"] = list(dims)
    return found


def _bytes(dtype: np.dtype[Any]) -> dict[str, Any]:
    if dtype.itemsize == 1 or dtype.kind == "S":
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": "little"}}


def _blosc(typesize: int) -> dict[str, Any]:
    return {
        "name": "blosc",
        "configuration": {
            "cname": "zstd",
            "clevel": 5,
            "shuffle": "noshuffle" if typesize == 1 else "shuffle",
            "typesize": min(typesize, 255),
            "blocksize": 0,
        },
    }


def dump(document: Any) -> bytes:
    """JSON as it is written: readable, and the same for the same content."""
    return json.dumps(document, indent=1, allow_nan=False).encode()


def encode_values(values: npt.NDArray[Any], dtype: np.dtype[Any] | None) -> bytes:
    """Encode one chunk; objects are strings where `dtype` is None."""
    if dtype is None:
        return compress(_join_strings(values.reshape(-1).tolist()), 1)
    little = dtype.newbyteorder("<")
    return compress(np.ascontiguousarray(values, little).tobytes(), dtype.itemsize)


def decode_values(
    data: bytes, shape: Sequence[int], dtype: np.dtype[Any] | None, what: str
) -> npt.NDArray[Any]:
    """Decode one chunk.

    Raises
    ------
    CorruptStore
        If it is not the chunk of this shape and type.
    """
    if dtype is None:
        strings = _split_strings(decompress(data, None, what), prod(shape), what)
        values = np.empty(len(strings), object)
        values[:] = strings
        return values.reshape(tuple(shape))
    little = dtype.newbyteorder("<")
    raw = decompress(data, prod(shape) * dtype.itemsize, what)
    if dtype.kind == "b" and raw.strip(b"\0\1"):
        raise CorruptStore(f"{what} holds booleans that are neither 0 nor 1")
    return np.frombuffer(raw, little).reshape(tuple(shape)).astype(dtype.newbyteorder("="))


def _join_strings(strings: Sequence[str]) -> bytes:
    """``vlen-utf8``: the number of strings, and before each its length in bytes."""
    parts = [len(strings).to_bytes(4, "little")]
    for text in strings:
        data = text.encode()
        parts += [len(data).to_bytes(4, "little"), data]
    return b"".join(parts)


def _split_strings(data: bytes, count: int, what: str) -> list[str]:
    if int.from_bytes(data[:4], "little") != count or 4 * count > len(data) - 4:
        raise CorruptStore(f"{what} does not hold {count} strings")
    strings: list[str] = []
    place = 4
    try:
        for _ in range(count):
            end = place + 4 + int.from_bytes(data[place : place + 4], "little")
            if end > len(data):
                raise CorruptStore(f"{what} is cut short")
            strings.append(data[place + 4 : end].decode())
            place = end
    except UnicodeDecodeError as error:
        raise CorruptStore(f"{what} holds no text: {error.reason}") from error
    if place != len(data):
        raise CorruptStore(f"{what} holds more than {count} strings")
    return strings


def chunk_shape(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Shape of the chunks of a copied array: whole, or cut along its first dimensions."""
    chunks = [max(size, 1) for size in shape]
    for axis in range(len(chunks)):
        held = itemsize * prod(chunks)
        if held <= CHUNK_BYTES:
            break
        chunks[axis] = max(1, chunks[axis] * CHUNK_BYTES // held)
    return tuple(chunks)


def pieces(
    shape: Sequence[int], chunks: Sequence[int]
) -> Iterator[tuple[str, tuple[slice, ...], tuple[int, ...]]]:
    """Key, place and true shape of each chunk, in C order.

    Examples
    --------
    >>> [(key, size) for key, _, size in pieces((3,), (2,))]
    [('c/0', (2,)), ('c/1', (1,))]
    """
    for index in np.ndindex(*grid_shape(shape, chunks)):
        key = "/".join(["c", *map(str, index)])
        place = tuple(
            slice(i * chunk, min((i + 1) * chunk, size))
            for i, chunk, size in zip(index, chunks, shape, strict=True)
        )
        yield key, place, tuple(part.stop - part.start for part in place)
