"""What test vectors are built of: cases, keys, chunks, arrays (see make_vectors.py)."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WINDOW = {"name": "intarsia.window"}
ZLIB = {"name": "numcodecs.zlib"}
FLETCHER = {"name": "numcodecs.fletcher32"}
BITSHUFFLE = "intarsia.hdf5-bitshuffle"


def shuffle(size: int) -> dict[str, Any]:
    return {"name": "numcodecs.shuffle", "configuration": {"elementsize": size}}


def raw(endian: str | None) -> dict[str, Any]:
    return {"name": "bytes"} | ({"configuration": {"endian": endian}} if endian else {})


def step(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name} | ({"configuration": configuration} if configuration else {})


def cf(*steps: Any) -> dict[str, Any]:
    return {"name": "intarsia.cf", "configuration": {"steps": list(steps)}}


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def key_of(case: Any) -> str:
    return hashlib.sha256(canonical(case).encode()).hexdigest()[:16]


def case_of(data_type: Any, *codecs: Any, parameters: Sequence[Sequence[str]]) -> dict[str, Any]:
    listed = [list(pair) for pair in parameters]
    return {"data_type": data_type, "codecs": list(codecs), "parameters": listed}


# -- bytes -----------------------------------------------------------------------------------------


def shuffled(data: bytes, size: int) -> bytes:
    return np.frombuffer(data, "u1").reshape(-1, size).T.tobytes()


def deflated(data: bytes) -> bytes:
    """A zlib stream of one stored block: the same bytes from whichever zlib."""
    assert len(data) < 1 << 16
    block = b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    return b"\x78\x01" + block + struct.pack(">I", zlib.adler32(data))


def checksummed(data: bytes) -> bytes:
    """Followed by HDF5's fletcher32: of big-endian words, an odd byte being a high one."""
    first = second = 0
    for (word,) in struct.iter_unpack(">H", data + b"\0" * (len(data) % 2)):
        first += word
        second += first
    folded = [number % 65535 or (65535 if number else 0) for number in (second, first)]
    return data + struct.pack("<I", folded[0] << 16 | folded[1])


@dataclass
class Part:
    """A part of a chunk; `box` is (start, count), left out in the short form."""

    case: dict[str, Any]
    row: bytes
    data: bytes = b""
    elements: int = 0
    begin: int = 0
    strides: Sequence[int] = ()
    mask: int = 0
    box: tuple[Sequence[int], Sequence[int]] | None = None


def chunk(*parts: Part, ndim: int = 2) -> bytes:
    """A presented chunk."""
    records = b""
    for part in parts:
        records += bytes.fromhex(key_of(part.case))
        records += struct.pack("<II", part.mask, 0 if part.elements else 1)
        strides = part.strides or [0] * ndim
        records += struct.pack(f"<qq{ndim}q", part.elements, part.begin, *strides)
        if part.box is not None:
            start, count = part.box
            records += struct.pack(f"<{2 * ndim}qq", *start, *count, len(part.data))
    rows = b"".join(part.row for part in parts)
    count = 0 if parts[0].box is None else len(parts)
    head = b"ISW\x01" + struct.pack("<IQ", count, 16 + len(records) + len(rows))
    return head + records + rows + b"".join(part.data for part in parts)


# -- arrays ----------------------------------------------------------------------------------------


def array(
    values: np.ndarray,
    chunks: Sequence[int],
    codecs: list[Any],
    data: dict[str, bytes],
    *,
    data_type: Any = None,
    fill: Any = 0,
) -> dict[str, bytes]:
    """Files of an array: metadata, chunks, and the values it must have."""
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(values.shape),
        "data_type": data_type or values.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": {},
    }
    files = {"zarr.json": (json.dumps(metadata, indent=2) + "\n").encode()}
    files |= {f"c/{index}" if index else "c": held for index, held in data.items()}
    little = values.astype(values.dtype.newbyteorder("<"))
    return files | {"values.raw": little.tobytes()}


def switch(*cases: Any) -> list[Any]:
    table = {key_of(case): case for case in cases}
    ordered = dict(sorted(table.items()))
    return [{"name": "intarsia.switch", "configuration": {"cases": ordered}}]
