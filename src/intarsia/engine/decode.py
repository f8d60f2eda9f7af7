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

from intarsia.codecs.chain import chain, constants, groups, place, values
from intarsia.encoding import Case
from intarsia.engine.plan import Part
from intarsia.errors import ChunkError, IntarsiaError, UnsupportedError, UpstreamFault
from intarsia.references import ABSENT, INLINE

type IntArray = npt.NDArray[Any]

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
    filled = np.empty(len(distinct), target.flat.dtype)
    pairs: list[list[int]] = distinct.tolist()
    for number, (index, row) in enumerate(pairs):
        case = part.segments.cases[index]
        filled[number] = constants(case.encoding, case.rows[row : row + 1])[0]
    _scatter(part, target, gone, filled.reshape(-1, 1), inverse.reshape(-1))


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
    for group in groups(kinds):
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
            decoded = _decode(part, case, rows[chosen], members, nbytes, name)
            _scatter(part, target, wanted[low:high], decoded, number[low:high] - begin)


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
    decoded: list[Any] = []  # its length says which chunk is wrong
    try:
        links = chain(encoding, int(touches.mask[rows[0]]), nbytes)
        for buffer in buffers:
            decoded.append(links.undo(buffer))  # noqa: PERF401
        stored = links.join(decoded)
    except (ChunkError, UnsupportedError, UpstreamFault) as error:
        raise _located(error, part, int(rows[len(decoded)]), name) from error.__cause__
    if not encoding.steps:
        return stored
    parameters = case.rows[touches.row[rows]]
    if len(parameters) > 1 and (touches.row[rows] == touches.row[rows[0]]).all():
        parameters = parameters[:1]
    return values(encoding, stored, parameters)


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
    decoded: npt.NDArray[Any],
    number: IntArray,
) -> None:
    """Put the wanted elements of decoded chunks into the output.

    Parameters
    ----------
    rows
        Touches to place.
    decoded
        Decoded chunks, one per row.
    number
        For each touch, which row of `decoded` it takes.
    """
    touches = part.touches
    place(
        target.flat,
        target.strides,
        target.base(part.corner, touches.start[rows]),
        decoded.reshape(-1),
        touches.begin[rows] + number * decoded.shape[1],
        touches.count[rows],
        touches.strides[rows],
    )
