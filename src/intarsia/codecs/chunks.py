r"""The bytes of a presented chunk: a header that lists its parts, and then the parts' own bytes.

This is what the `intarsia.switch` codec reads and the Zarr store makes. A *part* is what one chunk
of a source contributes: a box of the presented chunk, filled from the decoded source chunk with a
start and a stride per dimension. Layout (little-endian, see ``spec/switch.md``)::

    magic "ISW\x01" | parts u32 (0: one part that covers the chunk) | bytes of the header u64
    a record per part: key u8[8] | filter mask u32 | state u32 | elements i64 | begin i64
                       | strides i64[ndim]
                       and, unless there is one part that covers the chunk:
                       start i64[ndim] | count i64[ndim] | bytes i64
    a row of parameters per part, packed
    the bytes of the parts

`Parts` has the columns; `pack` makes headers of them and `unpack` reads those of strangers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cases import CaseTable
from intarsia.codecs.chunk_checks import (
    MAX_CHUNK_BYTES,
    check_boxes,
    check_disjoint,
    check_view,
    check_views,
    refuse,
)
from intarsia.codecs.parts import BYTES_FOLLOW, CONSTANT, HEAD, Parts, case_keys, record_type
from intarsia.errors import CorruptChunk, WrongLength

__all__ = [
    "BYTES_FOLLOW",
    "CONSTANT",
    "HEAD",
    "MAX_CHUNK_BYTES",
    "MAX_PARTS",
    "Parts",
    "case_keys",
    "decoded_nbytes",
    "header_nbytes",
    "pack",
    "unpack",
]

type IntArray = npt.NDArray[Any]

MAGIC = b"ISW\x01"
MAX_PARTS = 1 << 13
"""Parts of a chunk: all pairs of so many can be compared in a second or two."""
MAX_HEADER = 1 << 26
"""Bytes of a header."""
_HEAD = struct.Struct("<4sIQ")


def pack(parts: Parts, shape: Sequence[int]) -> bytes:
    """Make the header of a presented chunk; the bytes of the parts follow it, in order.

    Parameters
    ----------
    parts
        At least one.
    shape
        Of the presented chunk.

    Raises
    ------
    ValueError
        If there are no parts, or more than readers accept.
    """
    if not 0 < len(parts) <= MAX_PARTS:
        raise ValueError(f"a chunk has 1 to {MAX_PARTS} parts, not {len(parts)}")
    short = parts.covers(shape)
    records = np.zeros(len(parts), record_type(parts.ndim, short))
    records["key"] = parts.key
    records["mask"] = parts.mask
    records["state"] = parts.state
    records["elements"] = parts.elements
    records["begin"] = parts.begin
    records["strides"] = parts.strides
    if not short:
        records["start"] = parts.start
        records["count"] = parts.count
        records["nbytes"] = parts.nbytes
    size = HEAD + records.nbytes + len(parts.parameters)
    head = _HEAD.pack(MAGIC, 0 if short else len(parts), size)
    return b"".join((head, records.tobytes(), parts.parameters))


def header_nbytes(data: bytes | memoryview) -> int:
    """Bytes of a header, from the first `HEAD` bytes of it.

    Raises
    ------
    CorruptChunk
        If they are not the beginning of a header, or of one that is too long.
    WrongLength
        If there are fewer bytes.
    """
    return _head(data)[1]


def _head(data: bytes | memoryview) -> tuple[int, int]:
    if len(data) < HEAD:
        raise WrongLength(f"the chunk holds {len(data)} bytes, too few for a header")
    magic, count, size = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise CorruptChunk(f"the chunk begins with {magic!r}, not {MAGIC!r}")
    if count > MAX_PARTS:
        raise CorruptChunk(f"the chunk has {count} parts, more than {MAX_PARTS}")
    if not HEAD < size <= MAX_HEADER:
        raise CorruptChunk(f"the chunk's header has {size} bytes, which can't be")
    return count, size


def unpack(
    data: bytes | memoryview, shape: Sequence[int], table: CaseTable, size: int | None = None
) -> Parts:
    """Read the header of a chunk from anywhere.

    Parameters
    ----------
    data
        Bytes, of type ``B``, that begin with the whole header.
    shape
        Of the presented chunk.
    table
        The cases there are.
    size
        Bytes of the whole chunk, where it is known: header and parts must be of as many.

    Raises
    ------
    CorruptChunk
        If anything in it can't be: an unknown key or state, a box outside the chunk, a view that
        reaches beyond the elements, parts that overlap.
    WrongLength
        If the bytes end too early, or the parts' bytes are not those that are there.
    """
    count, end = _head(data)
    if len(data) < end:
        raise WrongLength(f"the chunk ends within its header, {len(data)} of {end} bytes")
    if count == 0:
        return _unpack_short(data, end, shape, table, size)
    dtype = record_type(len(shape), False)
    first = HEAD + count * dtype.itemsize
    if first > end:
        raise CorruptChunk(f"{count} parts don't fit in a header of {end} bytes")
    records = np.frombuffer(data, dtype, count, HEAD)
    case = _known(records["key"], table)
    width = table.widths[case]
    if first + int(width.sum()) != end:
        raise CorruptChunk(f"records and parameters don't fill a header of {end} bytes")
    start, extent = records["start"], records["count"]
    check_boxes(start, extent, shape)
    parts = Parts(
        records["key"],
        case,
        records["state"],
        records["mask"],
        records["elements"],
        records["begin"],
        np.where(extent == 1, np.int64(0), records["strides"]),
        start,
        extent,
        records["nbytes"],
        width,
        bytes(data[first:end]),
    )
    if parts.covers(shape):
        raise CorruptChunk("its one part covers it, but doesn't have the short form")
    _check_states(parts, table)
    _check_lengths(parts, end, size)
    check_disjoint(start, start + extent)
    return parts


def _unpack_short(
    data: bytes | memoryview, end: int, shape: Sequence[int], table: CaseTable, size: int | None
) -> Parts:
    """Read the header of a chunk with one part that covers it, with few calls of NumPy."""
    ndim = len(shape)
    dtype = record_type(ndim, True)
    first = HEAD + dtype.itemsize
    if first > end:
        raise CorruptChunk(f"a part doesn't fit in a header of {end} bytes")
    record = np.frombuffer(data, dtype, 1, HEAD)
    key, mask, state, elements, begin, *strides = _short_record(ndim).unpack_from(data, HEAD)
    case = table.numbers.get(key)
    if case is None:
        raise CorruptChunk(f"there is no case {key.to_bytes(8, 'little').hex()!r}")
    width = int(table.widths[case])
    if first + width != end:
        raise CorruptChunk(f"record and parameters don't fill a header of {end} bytes")
    strides = [0 if n == 1 else step for n, step in zip(shape, strides, strict=True)]
    nbytes = -1 if size is None else size - end
    if state == BYTES_FOLLOW:
        check_view(elements, int(table.itemsizes[case]), begin, strides, shape)
        if size is not None and nbytes < 0:
            raise WrongLength(f"the chunk holds {size} bytes, its header says {end}")
    elif state != CONSTANT:
        raise CorruptChunk(f"its state is {state}, which is unknown")
    elif elements or begin or mask or any(strides):
        raise CorruptChunk("it is constant, but says of which bytes it is made")
    elif size is not None and nbytes:
        raise WrongLength(f"the chunk is constant, but has {nbytes} bytes")
    else:
        nbytes = 0
    return Parts(
        record["key"],
        np.array([case]),
        record["state"],
        record["mask"],
        record["elements"],
        record["begin"],
        np.array([strides], np.int64),
        np.zeros((1, ndim), np.int64),
        np.array([shape], np.int64),
        np.array([nbytes], np.int64),
        np.array([width], np.int64),
        bytes(data[first:end]),
    )


@lru_cache(maxsize=64)
def _short_record(ndim: int) -> struct.Struct:
    return struct.Struct(f"<QII{2 + ndim}q")


def _known(keys: IntArray, table: CaseTable) -> IntArray:
    """Row of each key in the table."""
    case = np.searchsorted(table.keys, keys)
    case[case == len(table.keys)] = 0
    strange = np.flatnonzero(table.keys[case] != keys)
    if len(strange):
        key = int(keys[strange[0]]).to_bytes(8, "little").hex()
        raise CorruptChunk(f"there is no case {key!r}")
    return case


def _check_states(parts: Parts, table: CaseTable) -> None:
    refuse(parts.state > CONSTANT, "has an unknown state")
    itemsize = table.itemsizes[parts.case]
    constant = parts.state == CONSTANT
    if not constant.any():
        check_views(parts.elements, itemsize, parts.begin, parts.strides, parts.count)
        return
    says = (parts.elements != 0) | (parts.begin != 0) | (parts.mask != 0)
    says |= parts.strides.any(axis=1)
    refuse(constant & says, "is constant, but says of which bytes it is made")
    elements = np.where(constant, 1, parts.elements)
    check_views(elements, itemsize, parts.begin, parts.strides, parts.count)


def _check_lengths(parts: Parts, header: int, size: int | None) -> None:
    nbytes, constant = parts.nbytes, parts.state == CONSTANT
    wrong = (nbytes < 0) | (nbytes > 2 * MAX_CHUNK_BYTES)
    if wrong.any():
        number = int(np.argmax(wrong))
        raise WrongLength(f"part {number} of {len(parts)} can't have {nbytes[number]} bytes")
    if (constant & (nbytes > 0)).any():
        raise WrongLength("a constant part has bytes")
    total = header + int(nbytes.sum())
    if size is not None and total != size:
        raise WrongLength(f"the chunk holds {size} bytes, its header says {total}")


def decoded_nbytes(shape: Sequence[int], itemsize: int) -> int:
    """Bytes of a decoded chunk.

    Raises
    ------
    CorruptChunk
        If they are more than anyone should be made to allocate.
    """
    nbytes = prod(shape) * itemsize
    if nbytes > MAX_CHUNK_BYTES:
        raise CorruptChunk(f"a chunk of shape {tuple(shape)} would have {nbytes} bytes")
    return nbytes
