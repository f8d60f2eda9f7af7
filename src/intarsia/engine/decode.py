"""From the bytes of chunks to elements of the output, many chunks in one pass.

Chunks that share an encoding and a filter mask are decoded together: their streams are inflated one
by one, and everything after that (unshuffling, masking, scaling, placing) is done on all of them at
once. Each chunk is decoded once, however many boxes want parts of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cf import apply_steps
from intarsia.codecs.filters import decoder, unshuffle_batch
from intarsia.encoding import Case
from intarsia.engine.plan import Part
from intarsia.errors import (
    ChunkError,
    IntarsiaError,
    UnsupportedError,
    UnsupportedVariable,
    UpstreamFault,
)
from intarsia.references import ABSENT, INLINE

type IntArray = npt.NDArray[Any]

FLAT_LIMIT = 2048
"""Boxes of at most so many elements are placed through flat indices, larger ones as views."""

BATCH_BYTES = 1 << 22
"""Chunks decoded together come to about so many bytes."""


class Target:
    """The output array, as one flat array with strides and the offset of a box in it."""

    def __init__(self, out: npt.NDArray[Any]) -> None:
        self.flat = out.reshape(-1)
        self.strides = np.array([step // out.itemsize for step in out.strides], np.int64)

    def base(self, corner: Sequence[int], start: IntArray) -> IntArray:
        """Flat index of the first element of each box."""
        return (start + np.array(corner, np.int64)) @ self.strides


def place_constants(part: Part, target: Target) -> None:
    """Fill the boxes of chunks that were never written: each case's own decoded raw fill."""
    touches = part.touches
    gone = np.flatnonzero(touches.state == ABSENT)
    if not len(gone):
        return
    keys = np.stack([touches.case[gone], touches.row[gone]], axis=1)
    distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
    values = np.empty(len(distinct), target.flat.dtype)
    pairs: list[list[int]] = distinct.tolist()
    for number, (index, row) in enumerate(pairs):
        case = part.segments.cases[index]
        rows = case.rows[row : row + 1]
        raw: npt.NDArray[Any] = rows["raw_fill"].reshape(1, 1)
        values[number] = apply_steps(case.encoding.steps, raw, rows)[0, 0]
    _scatter(part, target, gone, values.reshape(-1, 1), inverse.reshape(-1))


def place_inline(part: Part, target: Target, name: str | None) -> None:
    """Decode the chunks whose bytes are in the tables of references."""
    touches = part.touches
    inline = np.flatnonzero(touches.state == INLINE)
    if not len(inline):
        return
    buffers: list[memoryview] = []
    for number in inline:
        data = memoryview(part.segments.pages[int(touches.page[number])].inline)
        begin = int(touches.offset[number])
        buffers.append(data[begin : begin + int(touches.length[number])])
    place_chunks(part, target, inline, buffers, name)


def place_chunks(
    part: Part,
    target: Target,
    rows: IntArray,
    buffers: Sequence[memoryview],
    name: str | None,
) -> None:
    """Decode stored chunks and put their wanted elements into the output.

    Parameters
    ----------
    part
        The touched chunks.
    target
        The output.
    rows
        Which of the part's touches.
    buffers
        Bytes of each.
    name
        Name of the array, for errors.
    """
    touches = part.touches
    kinds = np.stack([touches.case[rows], touches.mask[rows], touches.elements[rows]], axis=1)
    for group in _groups(kinds):
        first = rows[group[0]]
        case = part.segments.cases[int(touches.case[first])]
        nbytes = int(touches.elements[first]) * case.encoding.stored.itemsize
        step = max(1, BATCH_BYTES // max(nbytes, 1))
        # one decode per distinct chunk: equal ones become neighbours
        wanted = rows[group]
        columns = (touches.source, touches.page, touches.offset, touches.row)
        keys = np.stack([column[wanted] for column in columns])
        order = np.lexsort(keys[::-1])
        group, wanted, keys = group[order], wanted[order], keys[:, order]
        new = np.ones(len(group), bool)
        new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        number = np.cumsum(new) - 1
        heads = np.flatnonzero(new)
        for begin in range(0, len(heads), step):
            end = min(begin + step, len(heads))
            low = heads[begin]
            high = heads[end] if end < len(heads) else len(group)
            chosen = group[heads[begin:end]]
            members: list[memoryview] = [buffers[int(n)] for n in chosen]
            values = _decode(part, case, rows[chosen], members, nbytes, name)
            _scatter(part, target, wanted[low:high], values, number[low:high] - begin)


def _decode(
    part: Part,
    case: Case,
    rows: IntArray,
    buffers: Sequence[memoryview],
    nbytes: int,
    name: str | None,
) -> npt.NDArray[Any]:
    """Values of whole chunks, one row each."""
    encoding = case.encoding
    touches = part.touches
    mask = int(touches.mask[rows[0]])
    filters = encoding.filters
    decoded: list[Any] = []  # its length says which chunk is wrong
    try:
        if filters and filters[0].name == "refused":
            config = filters[0].config
            refusal = UpstreamFault if config["kind"] == "fault" else UnsupportedVariable
            raise refusal(config["reason"], remedy=config["remedy"])
        if filters and filters[0].name == "hdf5":
            from intarsia.codecs.hdf5 import decode as decode_hdf5

            shape = tuple(filters[0].config["chunk_shape"])
            for buffer in buffers:
                array = decode_hdf5(filters[0], buffer, mask, encoding.stored, shape)
                decoded.append(array.reshape(-1))
            raw = np.stack(decoded)
        else:
            shuffled = bool(filters) and filters[0].name == "shuffle" and not mask & 1
            rest = filters[1:] if shuffled else filters
            undo = decoder(rest, mask >> shuffled, nbytes)
            for buffer in buffers:
                decoded.append(undo(buffer))  # noqa: PERF401
            joined = np.frombuffer(decoded[0] if len(decoded) == 1 else b"".join(decoded), np.uint8)
            joined = joined.reshape(len(decoded), nbytes)
            if shuffled:
                joined = unshuffle_batch(joined, filters[0].config["elementsize"])
            raw = joined.view(encoding.stored)
    except (ChunkError, UnsupportedError, UpstreamFault) as error:
        raise _located(error, part, int(rows[len(decoded)]), name) from error.__cause__
    if not encoding.steps:
        return raw
    parameters = case.rows[touches.row[rows]]
    if len(parameters) > 1 and (touches.row[rows] == touches.row[rows[0]]).all():
        parameters = parameters[:1]
    return apply_steps(encoding.steps, raw, parameters)


def _located(error: IntarsiaError, part: Part, touch: int, name: str | None) -> IntarsiaError:
    """The error with the source, the array and the chunk it happened in."""
    url, index = locate(part, touch)
    return error.located(url=url, array=name, chunk=index)


def locate(part: Part, touch: int) -> tuple[str | None, tuple[int, ...]]:
    """URL of a touched chunk's source, and its index in the source's chunk grid."""
    touches = part.touches
    source = int(touches.source[touch])
    url = part.segments.sources.url(source) if source >= 0 else None
    fields = part.block.fields
    matrix = part.block.matrix(slice(int(touches.segment[touch]), int(touches.segment[touch]) + 1))
    size, chunk = matrix[0, fields.size], matrix[0, fields.chunk]
    grid = tuple(int(n) for n in -(-size // chunk))
    index = np.unravel_index(int(touches.chunk[touch]), grid) if grid else ()
    return url, tuple(int(n) for n in index)


def _scatter(
    part: Part,
    target: Target,
    rows: IntArray,
    values: npt.NDArray[Any],
    number: IntArray,
) -> None:
    """Put the wanted elements of decoded chunks into the output.

    Parameters
    ----------
    rows
        Touches to place.
    values
        Decoded chunks, one per row.
    number
        For each touch, which row of `values` it takes.
    """
    touches = part.touches
    ndim = part.segments.ndim
    shapes = np.concatenate([touches.count[rows], touches.strides[rows]], axis=1)
    bases = target.base(part.corner, touches.start[rows])
    begins = touches.begin[rows] + number * values.shape[1]
    flat = values.reshape(-1)
    for group in _groups(shapes):
        shape = shapes[group[0]]
        count = tuple(int(n) for n in shape[:ndim])
        strides = shape[ndim:]
        size = int(np.prod(shape[:ndim]))
        if size <= FLAT_LIMIT and len(group) > 1:
            into = _offsets(count, target.strides)
            outof = _offsets(count, strides)
            taken = flat[begins[group][:, None] + outof]
            target.flat[bases[group][:, None] + into] = taken
        else:
            for member in group:
                _view(target.flat, int(bases[member]), count, target.strides)[...] = _view(
                    flat, int(begins[member]), count, strides
                )


def _groups(keys: IntArray) -> list[IntArray]:
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


def _view(
    flat: npt.NDArray[Any], base: int, count: tuple[int, ...], strides: IntArray
) -> npt.NDArray[Any]:
    """A box of a flat array, as a view; every element of it is checked to lie inside."""
    reach = [(length - 1) * int(stride) for length, stride in zip(count, strides, strict=True)]
    low = base + sum(step for step in reach if step < 0)
    high = base + sum(step for step in reach if step > 0)
    if low < 0 or high >= len(flat):
        raise AssertionError(f"a box reaches from {low} to {high} of {len(flat)} elements")
    width = flat.itemsize
    return np.ndarray(
        count, flat.dtype, flat, base * width, tuple(int(stride) * width for stride in strides)
    )
