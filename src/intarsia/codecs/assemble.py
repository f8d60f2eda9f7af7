"""Presented chunks made of their parts: decoded in groups, each part put in its box.

What `intarsia.switch` does, without Zarr. A part whose case, filter mask and length another part
shares is decoded together with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cases import CaseTable
from intarsia.codecs.chain import chain, constants, groups, place, values, view
from intarsia.codecs.chunks import CONSTANT, Parts, decoded_nbytes, unpack
from intarsia.encoding import Encoding

__all__ = ["Chosen", "assemble", "decode_chunk", "meeting", "whole"]

type Array = npt.NDArray[Any]
type IntArray = npt.NDArray[Any]
type Chosen = range | IntArray
"""Selected indices along a dimension, ascending."""

BATCH_BYTES = 1 << 22
"""Parts decoded together come to about so many bytes."""


def decode_chunk(
    data: memoryview, shape: Sequence[int], table: CaseTable, dtype: np.dtype[Any], fill: Any
) -> Array:
    """Decode a whole presented chunk.

    Parameters
    ----------
    data
        Its bytes.
    shape
        Of the chunk.
    table
        The array's cases.
    dtype, fill
        The array's type and fill value, which elements have that no part covers.

    Returns
    -------
    ndarray
        Of that shape and type; it may be a view of `data`, and not writable.

    Raises
    ------
    ChunkError
        If the bytes, or numbers in them, can't be.
    UnsupportedVariable
        If the HDF5 library at hand lacks a filter.
    """
    decoded_nbytes(shape, dtype.itemsize)
    parts = unpack(data, shape, table, len(data))
    if parts.covers(shape):
        return whole(parts, data[len(data) - int(parts.nbytes[0]) :], shape, table, dtype)
    begin = parts.offsets(shape).tolist()
    buffers = [data[b : b + n] for b, n in zip(begin, parts.nbytes.tolist(), strict=True)]
    corner = (0,) * len(shape)
    return assemble(parts, np.arange(len(parts)), buffers, table, (corner, shape), dtype, fill)


def whole(
    parts: Parts, data: memoryview, shape: Sequence[int], table: CaseTable, dtype: np.dtype[Any]
) -> Array:
    """Decode a chunk that one part covers, without copying where that can be.

    Parameters
    ----------
    parts
        The one part.
    data
        Its bytes.
    shape, table, dtype
        As for `decode_chunk`.
    """
    encoding = table.encodings[int(parts.case[0])]
    rows = np.frombuffer(parts.parameters, encoding.parameters)
    if parts.state[0] == CONSTANT:
        return np.full(shape, constants(encoding, rows)[0], dtype)
    decoded = _decoded(encoding, int(parts.mask[0]), int(parts.elements[0]), [data], rows)
    strides: list[int] = parts.strides[0].tolist()
    seen = view(decoded.reshape(-1), int(parts.begin[0]), tuple(shape), strides)
    return seen.astype(dtype, copy=False)


def meeting(parts: Parts, chosen: Sequence[Chosen]) -> IntArray:
    """Numbers of the parts that have selected elements.

    Parameters
    ----------
    parts
        Of the chunk.
    chosen
        The selected indices of each dimension.
    """
    meets = np.ones(len(parts), bool)
    for dim, indices in enumerate(chosen):
        begin, end = parts.start[:, dim], parts.start[:, dim] + parts.count[:, dim]
        meets &= _before(indices, begin) < _before(indices, end)
    return np.flatnonzero(meets)


def _before(indices: Chosen, bound: IntArray) -> IntArray:
    """How many of the indices are less than each bound."""
    if isinstance(indices, range):
        return np.clip(-((indices.start - bound) // indices.step), 0, len(indices))
    return np.asarray(np.searchsorted(indices, bound), np.int64)


def assemble(
    parts: Parts,
    numbers: IntArray,
    buffers: Sequence[memoryview],
    table: CaseTable,
    box: tuple[Sequence[int], Sequence[int]],
    dtype: np.dtype[Any],
    fill: Any,
) -> Array:
    """Decode a box of a presented chunk.

    Parameters
    ----------
    parts
        Of the chunk.
    numbers
        Of those that are wanted, all of which meet the box; elements of others are filled.
    buffers
        Bytes of each of them.
    table
        The array's cases.
    box
        The box's first corner and the one after its last.
    dtype, fill
        As for `decode_chunk`.
    """
    decoded_nbytes([end - begin for begin, end in zip(*box, strict=True)], dtype.itemsize)
    if not len(numbers):
        return np.full([end - begin for begin, end in zip(*box, strict=True)], fill, dtype)
    low, high = np.array(box[0], np.int64), np.array(box[1], np.int64)
    begin = np.maximum(parts.start[numbers], low)
    count = np.minimum(parts.start[numbers] + parts.count[numbers], high) - begin
    shape = tuple((high - low).tolist())
    covered = int(count.prod(axis=1).sum()) == prod(shape)
    out = np.empty(shape, dtype) if covered else np.full(shape, fill, dtype)
    steps = np.array([step // max(out.itemsize, 1) for step in out.strides], np.int64)
    target = _Target(out.reshape(-1), steps, (begin - low) @ steps, count)
    skipped = ((begin - parts.start[numbers]) * parts.strides[numbers]).sum(axis=1)
    begins = parts.begin[numbers] + skipped
    states = parts.state[numbers]
    for group in groups(_kinds(parts, numbers)):
        chosen = numbers[group]
        encoding = table.encodings[int(parts.case[chosen[0]])]
        if states[group[0]] == CONSTANT:
            rows = parts.rows(chosen, encoding.parameters)
            alike = np.zeros((len(group), parts.ndim), np.int64)
            target.put(group, constants(encoding, rows), np.arange(len(group)), alike)
            continue
        mask, elements = int(parts.mask[chosen[0]]), int(parts.elements[chosen[0]])
        several = max(1, BATCH_BYTES // max(elements * encoding.stored.itemsize, 1))
        for first in range(0, len(group), several):
            few = group[first : first + several]
            rows = parts.rows(numbers[few], encoding.parameters)
            data = [buffers[int(n)] for n in few]
            decoded = _decoded(encoding, mask, elements, data, rows)
            places = begins[few] + np.arange(len(few)) * elements
            target.put(few, decoded.reshape(-1), places, parts.strides[numbers[few]])
    return out


def _kinds(parts: Parts, numbers: IntArray) -> IntArray:
    """What parts that are decoded together have in common."""
    columns = (parts.state, parts.case, parts.mask, parts.elements)
    return np.stack([column[numbers].astype(np.int64) for column in columns], axis=1)


class _Target:
    """The output: flat, its strides, where each part's box begins, and the shapes of the boxes."""

    def __init__(self, flat: Array, strides: IntArray, bases: IntArray, count: IntArray) -> None:
        self.flat = flat
        self.strides = strides
        self.bases = bases
        self.count = count

    def put(self, group: IntArray, data: Array, begins: IntArray, strides: IntArray) -> None:
        """Put boxes of flat data where the parts of a group have their elements."""
        bases, count = self.bases[group], self.count[group]
        place(self.flat, self.strides, bases, data, begins, count, strides)


def _decoded(
    encoding: Encoding, mask: int, elements: int, buffers: Sequence[memoryview], rows: Array
) -> Array:
    """Values of decoded source chunks, one row each."""
    links = chain(encoding, mask, elements * encoding.stored.itemsize)
    stored = links.join([links.undo(buffer) for buffer in buffers])
    return values(encoding, stored, rows)
