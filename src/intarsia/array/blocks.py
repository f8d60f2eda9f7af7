"""Blocks in which an array is good to read, and a token for equal arrays."""

from __future__ import annotations

import hashlib
import operator
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.segments import Segments

type IntArray = npt.NDArray[Any]

WHOLE_BYTES = 1 << 27
"""Arrays up to this size are presented to xarray as one block."""

BLOCK_BYTES = 1 << 24
"""Blocks offered to dask come to about so much, where chunks are smaller."""


def preferred_chunks(segments: Segments) -> tuple[int, ...]:
    """A uniform block shape near the chunks of the largest segment.

    Small chunks are merged along the leading dimensions up to about `BLOCK_BYTES`.
    """
    shape = segments.shape
    best: tuple[int, list[int]] | None = None
    for block in segments.blocks:
        fields = block.fields
        sizes = np.ones(len(block))
        for axis in range(segments.ndim):
            sizes *= block.column(fields.shape.start + axis)
        number = int(np.argmax(sizes))
        row = block.matrix(slice(number, number + 1))[0]
        chunk = [int(size) for size in row[fields.shape]]
        for dim in range(fields.source_ndim):
            axis = int(row[fields.axis.start + dim])
            if axis >= 0:
                step = max(1, abs(int(row[fields.step.start + dim])))
                chunk[axis] = max(1, int(row[fields.chunk.start + dim]) // step)
        if best is None or sizes[number] > best[0]:
            best = int(sizes[number]), chunk
    if best is None:
        return tuple(max(size, 1) for size in shape)
    chunk = [max(1, min(edge, size)) for edge, size in zip(best[1], shape, strict=True)]
    itemsize = max(case.encoding.dtype.itemsize for case in segments.cases)
    for axis in reversed(range(len(shape))):
        held = itemsize * reduce(operator.mul, chunk, 1)
        times = max(1, min(BLOCK_BYTES // max(held, 1), -(-shape[axis] // chunk[axis])))
        chunk[axis] = min(chunk[axis] * times, max(shape[axis], 1))
    return tuple(chunk)


def digest(segments: Segments, dtype: np.dtype[Any]) -> str:
    """A token that is equal for equal segments of equal sources."""
    found = hashlib.sha256(f"{dtype.str}{segments.shape}".encode())
    for block in segments.blocks:
        found.update(repr(block.fields).encode())
        found.update(block.matrix().tobytes())
    for case in segments.cases:
        one = case.encoding  # the same types have more than one `repr`
        told = (one.filters, one.stored.str, one.steps, one.parameters.descr)
        found.update(repr(told).encode())
        found.update(case.rows.tobytes())
    for page in segments.pages:
        for column in (page.offsets, page.lengths, page.masks, page.states, page.chunks):
            found.update(b"-" if column is None else column.tobytes())
        found.update(page.inline)
    for source in segments.sources:
        access = source.access  # told whole: the same URL may mean another thing to others
        how = access and (access.options, access.prefix, access.store and id(access.store))
        found.update(repr((*source[:-1], how)).encode())
    return found.hexdigest()


MAX_EDGES = 1 << 20
"""Where sources have more chunk boundaries than this along a dimension, blocks ignore them."""


def aligned_blocks(segments: Segments) -> tuple[tuple[int, ...], ...]:
    """Blocks no larger than `preferred_chunks` that end where chunks of the sources end.

    So that a chunk at the boundary of two files is decoded once, not by two blocks.
    """
    sizes: list[tuple[int, ...]] = []
    for axis, limit in enumerate(preferred_chunks(segments)):
        size = segments.shape[axis]
        if limit >= size:
            sizes.append((size,))
            continue
        edges = _edges(segments, axis)
        cuts = [0]
        while cuts[-1] < size:
            far = cuts[-1] + limit
            near = int(edges[np.searchsorted(edges, far, "right") - 1])
            cuts.append(min(near if near > cuts[-1] else far, size))
        sizes.append(tuple(b - a for a, b in pairwise(cuts)))
    return tuple(sizes)


def _edges(segments: Segments, axis: int) -> IntArray:
    """Positions along a dimension where a segment, or a chunk within one, begins; sorted."""
    found = [np.array([0], np.int64)]
    for block in segments.blocks:
        fields, matrix = block.fields, block.matrix()
        start, length = matrix[:, fields.start.start + axis], matrix[:, fields.shape.start + axis]
        found.append(np.unique(start))
        for dim in range(fields.source_ndim):
            along = matrix[:, fields.axis.start + dim] == axis
            step = matrix[:, fields.step.start + dim]
            edge = matrix[:, fields.chunk.start + dim]
            first = matrix[:, fields.first.start + dim]
            inner = np.where(step == 1, -first % edge, (first + 1) % edge)
            counts = np.maximum(0, -(-(length - inner) // edge))
            counts[~along | (np.abs(step) != 1)] = 0
            total = int(counts.sum())
            if total <= MAX_EDGES:
                number = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
                begin = np.repeat(start + inner, counts)
                found.append(np.unique(begin + number * np.repeat(edge, counts)))
    return np.unique(np.concatenate(found))
