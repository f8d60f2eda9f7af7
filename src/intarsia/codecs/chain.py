"""A chunk's whole way to values, for many chunks in one pass: filters, steps, and their place.

The engine and the `intarsia.switch` codec decode with these, each from its own columns. Streams
are inflated one by one; everything after that is done on all chunks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cf import apply_steps
from intarsia.codecs.filters import decoder, unshuffle_batch
from intarsia.encoding import RAW_FILL, Encoding
from intarsia.errors import UnsupportedVariable, UpstreamFault, WrongLength

__all__ = ["FLAT_LIMIT", "Chain", "chain", "constants", "groups", "place", "values", "view"]

type Array = npt.NDArray[Any]
type IntArray = npt.NDArray[Any]

FLAT_LIMIT = 2048
"""Boxes of at most so many elements are placed through flat indices, larger ones as views."""


class Chain(NamedTuple):
    """How the filters of some chunks are undone.

    Parameters
    ----------
    undo
        Takes the bytes of a chunk. Raises `ChunkError` where they are wrong.
    join
        Takes what `undo` gave for some chunks; gives their stored elements, a row per chunk.
    """

    undo: Callable[[Any], Any]
    join: Callable[[Sequence[Any]], Array]


@lru_cache(maxsize=4096)
def chain(encoding: Encoding, filter_mask: int, nbytes: int) -> Chain:
    """Compile the filters of an encoding.

    Parameters
    ----------
    encoding
        Of the chunks.
    filter_mask
        Bit ``i`` says that the writer skipped filter ``i`` for them.
    nbytes
        Bytes that each decodes to.

    Raises
    ------
    UnsupportedVariable, UpstreamFault
        If it can't be read, or the library at hand lacks a filter.
    WrongLength
        If chunks of this encoding have another length.
    """
    filters, stored = encoding.filters, encoding.stored
    if filters and filters[0].name == "refused":
        config = filters[0].config
        refusal = UpstreamFault if config["kind"] == "fault" else UnsupportedVariable
        raise refusal(config["reason"], remedy=config["remedy"])
    if filters and filters[0].name == "hdf5":
        return _hdf5_chain(encoding, filter_mask, nbytes)
    if filters and filters[0].name == "zarr":
        if not filter_mask & 1:
            return _zarr_chain(encoding, nbytes)
        filters = filters[1:]
    shuffled = bool(filters) and filters[0].name == "shuffle" and not filter_mask & 1
    undo = decoder(filters[1:] if shuffled else filters, filter_mask >> shuffled, nbytes)
    elementsize = filters[0].config["elementsize"] if shuffled else 1
    return Chain(undo, partial(_joined, nbytes=nbytes, elementsize=elementsize, stored=stored))


def _hdf5_chain(encoding: Encoding, filter_mask: int, nbytes: int) -> Chain:
    from intarsia.codecs.hdf5 import decode, prepare  # h5py takes its time

    codec, stored = encoding.filters[0], encoding.stored
    shape = tuple(codec.config["chunk_shape"])
    if prod(shape) * stored.itemsize != nbytes:
        raise WrongLength(f"a chunk of shape {shape} can't have {nbytes} bytes")
    try:
        prepare(codec)
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        # h5py says in many ways that something can't be
        raise UnsupportedVariable(f"the HDF5 library refuses its filters ({error})") from error

    def undo(chunk: Any) -> Array:
        return decode(codec, chunk, filter_mask, stored, shape).reshape(-1)

    return Chain(undo, np.stack)


def _zarr_chain(encoding: Encoding, nbytes: int) -> Chain:
    from intarsia.codecs.zarr_chain import decode, prepare  # zarr takes its time

    codec, stored = encoding.filters[0], encoding.stored
    shape = tuple(codec.config["shape"])
    if prod(shape) * stored.itemsize != nbytes:
        raise WrongLength(f"a chunk of shape {shape} can't have {nbytes} bytes")
    prepare(codec)

    def undo(chunk: Any) -> Array:
        return decode(codec, chunk, stored)

    return Chain(undo, np.stack)


def _joined(
    decoded: Sequence[Any], *, nbytes: int, elementsize: int, stored: np.dtype[Any]
) -> Array:
    data = np.frombuffer(decoded[0] if len(decoded) == 1 else b"".join(decoded), np.uint8)
    data = data.reshape(len(decoded), nbytes)
    if elementsize > 1:
        data = unshuffle_batch(data, elementsize)
    return data.view(stored)


def values(encoding: Encoding, stored: Array, rows: Array) -> Array:
    """Decode stored elements, a row per chunk.

    Parameters
    ----------
    encoding
        Of the chunks.
    stored
        From `Chain.join`. Not modified; returned where there is nothing to do.
    rows
        Parameters of each chunk, or one row for all.
    """
    return apply_steps(encoding.steps, stored, rows) if encoding.steps else stored


def constants(encoding: Encoding, rows: Array) -> Array:
    """The value that elements have which were never written, for each row of parameters."""
    raw: Array = rows[RAW_FILL]
    return apply_steps(encoding.steps, raw.reshape(-1, 1), rows)[:, 0]


def place(
    out: Array,
    out_strides: IntArray,
    bases: IntArray,
    data: Array,
    begins: IntArray,
    counts: IntArray,
    strides: IntArray,
) -> None:
    """Put boxes of elements of one flat array into another.

    Parameters
    ----------
    out, out_strides
        Flat array, and its elements per index of the array it stands for.
    bases
        Where each box begins in it.
    data, begins
        Flat array, and where each box begins in that.
    counts, strides
        Shape (boxes, ndim): shapes of the boxes, and elements of `data` per index.
    """
    ndim = counts.shape[1]
    shapes = np.concatenate([counts, strides], axis=1)
    for group in groups(shapes):
        shape = shapes[group[0]]
        count = tuple(int(n) for n in shape[:ndim])
        steps = shape[ndim:]
        if prod(count) <= FLAT_LIMIT and len(group) > 1:
            into = _offsets(count, out_strides)
            outof = _offsets(count, steps)
            out[bases[group][:, None] + into] = data[begins[group][:, None] + outof]
        else:
            for member in group:
                target = view(out, int(bases[member]), count, out_strides)
                target[...] = view(data, int(begins[member]), count, steps)


def groups(keys: IntArray) -> list[IntArray]:
    """Numbers of the rows that are equal, group by group."""
    if (keys == keys[:1]).all():
        return [np.arange(len(keys))]
    order = np.lexsort(keys.T)
    ordered = keys[order]
    return np.split(order, np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1)


def _offsets(count: Sequence[int], strides: IntArray) -> IntArray:
    """Flat offsets, from the first one, of the elements of a box."""
    offsets = np.zeros(1, np.int64)
    for length, stride in zip(count, strides, strict=True):
        offsets = (offsets[:, None] + np.arange(length) * stride).reshape(-1)
    return offsets


def view(
    flat: Array, base: int, count: tuple[int, ...], strides: Sequence[int] | IntArray
) -> Array:
    """A box of a flat array, as a view; every element of it is checked to lie inside."""
    reach = [(length - 1) * int(stride) for length, stride in zip(count, strides, strict=True)]
    low = base + sum(step for step in reach if step < 0)
    high = base + sum(step for step in reach if step > 0)
    if low < 0 or high >= len(flat):
        raise AssertionError(f"a box reaches from {low} to {high} of {len(flat)} elements")
    width = flat.itemsize
    # of a dimension of length one the stride may be any number, and means nothing
    steps = tuple(
        int(stride) * width if length > 1 else 0
        for length, stride in zip(count, strides, strict=True)
    )
    return np.ndarray(count, flat.dtype, flat, base * width, steps)
