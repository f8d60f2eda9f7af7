"""Tables of chunks (path, offset, length) as segments: which boxes of chunks lie in one file.

A manifest names a file for each chunk, and a segment has one source. So the grid of chunks is cut
into boxes of chunks that lie in the same file: one box where all do, a slab per file where files
were put one after the other, a box per chunk where each chunk is an object of its own. Boxes grow
along the last dimension first, then along the others, by sorting: near linear in the chunks.
Chunks that are nowhere belong to any file, and so go along with their neighbours where those agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Case
from intarsia.references import ABSENT, DENSE, INLINE, MISSING, STORED, References, Sources
from intarsia.segments import Block, Fields, Segments

__all__ = ["Manifest", "segments_of"]

type IntArray = npt.NDArray[Any]

NOWHERE = -1
"""In place of a number of a source: the chunk is missing, or inline."""


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """Where the chunks of one array are; arrays have the shape of the grid of chunks.

    Parameters
    ----------
    sources
        Number of the source of each chunk, or `NOWHERE`.
    offsets, lengths
        Bytes of each chunk in its source; of inline ones in `inline`.
    states
        `STORED`, `INLINE` or `ABSENT`.
    inline
        The bytes of inline chunks, one after the other.
    """

    sources: IntArray
    offsets: IntArray
    lengths: IntArray
    states: IntArray
    inline: bytes = b""

    @classmethod
    def of(
        cls,
        grid: tuple[int, ...],
        sources: IntArray,
        offsets: IntArray,
        lengths: IntArray,
        inline: Mapping[int, bytes],
    ) -> Manifest:
        """Make the manifest of columns in C order.

        Parameters
        ----------
        grid
            Shape of the grid of chunks.
        sources, offsets, lengths
            One per chunk; where the source is `NOWHERE`, the others mean nothing.
        inline
            Bytes of inline chunks, by raveled index.
        """
        there = sources >= 0
        states = np.where(there, STORED, ABSENT).astype(np.uint8)
        offsets = np.where(there, offsets, 0).astype(np.uint64)
        lengths = np.where(there, lengths, 0).astype(np.uint64)
        if inline:
            numbers = np.array(list(inline), np.int64)
            sizes = np.array([len(data) for data in inline.values()], np.uint64)
            sources = np.array(sources)
            sources[numbers], states[numbers], lengths[numbers] = NOWHERE, INLINE, sizes
            offsets[numbers] = np.cumsum(sizes) - sizes
        return cls(
            sources.reshape(grid),
            offsets.reshape(grid),
            lengths.reshape(grid),
            states.reshape(grid),
            b"".join(inline.values()),
        )

    def transpose(self, axes: Sequence[int]) -> Manifest:
        """The same with its dimensions in another order."""
        return Manifest(
            self.sources.transpose(axes),
            self.offsets.transpose(axes),
            self.lengths.transpose(axes),
            self.states.transpose(axes),
            self.inline,
        )


def segments_of(
    manifest: Manifest,
    sources: Sources,
    shape: Sequence[int],
    chunks: Sequence[int],
    case: Case,
) -> Segments:
    """The array that a manifest describes.

    Parameters
    ----------
    manifest
        Its grid is that of `shape` and `chunks`.
    sources
        The table that its numbers are rows of.
    shape, chunks
        Shape of the array, and of its chunks; those at the edge are stored whole.
    case
        How chunks become values, with one row of parameters.
    """
    shape, chunks = tuple(shape), tuple(chunks)
    grid = tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))
    if manifest.sources.shape != grid:
        raise ValueError(f"a manifest of shape {manifest.sources.shape} for a grid of {grid}")
    if not prod(shape):
        return Segments.of_source(sources, 0, shape, chunks, case, References.missing())
    owners = _with_neighbours(manifest.sources)
    if not grid or (owners == owners.flat[0]).all():
        source = int(owners.flat[0])
        references = _references(manifest, slice(None))
        if not (manifest.states != ABSENT).any():
            references = References.missing()
        return Segments.of_source(sources, source, shape, chunks, case, references)
    low, high, owner = _boxes(owners)
    written = _any_written(manifest.states, low, high, owner)
    rows, counts = _cells(low[written], high[written], grid)
    references = _references(manifest, rows)
    columns = _columns(shape, chunks, low, high, owner, written, counts)
    block = Block.of_columns(Fields(len(shape), len(shape)), columns)
    return Segments(shape, (block,), (case,), (references,), sources)


def _references(manifest: Manifest, rows: IntArray | slice) -> References:
    """The chunks of these rows, in C order of the grid."""
    states = manifest.states.reshape(-1)[rows]
    dense = References.dense(manifest.offsets.reshape(-1)[rows], manifest.lengths.reshape(-1)[rows])
    kept = states if (states != STORED).any() else None
    return References(dense.offsets, dense.lengths, states=kept, inline=manifest.inline)


def _with_neighbours(sources: IntArray) -> IntArray:
    """Numbers of sources, with those that are nowhere going along where their slab has but one.

    Slabs are looked at from the widest (all chunks) to the narrowest (rows along the last
    dimension).
    """
    owners = sources.astype(np.int64)
    if (owners >= 0).all():
        return owners
    for dims in range(owners.ndim):
        flat = owners.reshape(prod(owners.shape[:dims]), -1)
        high = flat.max(axis=1)
        low = np.where(flat < 0, np.iinfo(np.int64).max, flat).min(axis=1)
        only = np.where(low == high, high, NOWHERE)
        flat = np.where(flat < 0, only[:, None], flat)
        owners = flat.reshape(owners.shape)
        if (owners >= 0).all():
            break
    return owners


def _boxes(owners: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Boxes of cells of one owner: first cells, the cells after the last, and the owners."""
    ndim, count = owners.ndim, owners.size
    owner = owners.reshape(-1)
    low = np.empty((count, ndim), np.int64)
    for dim, index in enumerate(np.unravel_index(np.arange(count), owners.shape)):
        low[:, dim] = index
    high = low + 1
    for dim in reversed(range(ndim)):
        # boxes that differ in their place along this dimension alone become neighbours
        others = [column for n in range(ndim) if n != dim for column in (low[:, n], high[:, n])]
        order = np.lexsort((low[:, dim], *others))
        low, high, owner = low[order], high[order], owner[order]
        joined = (owner[1:] == owner[:-1]) & (low[1:, dim] == high[:-1, dim])
        for n in range(ndim):
            if n != dim:
                joined &= (low[1:, n] == low[:-1, n]) & (high[1:, n] == high[:-1, n])
        starts = np.flatnonzero(np.append(True, ~joined))
        ends = np.append(starts[1:], len(owner)) - 1
        high = high[ends]
        low, owner = low[starts], owner[starts]
    order = np.lexsort(low.T[::-1])
    return low[order], high[order], owner[order]


def _any_written(states: IntArray, low: IntArray, high: IntArray, owner: IntArray) -> IntArray:
    """Whether a box has a chunk that is somewhere: it has a source, or something inline."""
    written = owner >= 0
    for number in np.flatnonzero(~written):
        box = tuple(slice(a, b) for a, b in zip(low[number], high[number], strict=True))
        written[number] = (states[box] != ABSENT).any()
    return written


def _cells(low: IntArray, high: IntArray, grid: tuple[int, ...]) -> tuple[IntArray, IntArray]:
    """Raveled indices of the cells of each box, in C order, and how many each has."""
    extent = high - low
    counts = extent.prod(axis=1)
    box = np.repeat(np.arange(len(low)), counts)
    digit = np.arange(len(box)) - np.repeat(np.cumsum(counts) - counts, counts)
    cell = np.zeros(len(box), np.int64)
    stride = 1
    for dim in reversed(range(len(grid))):
        lengths = extent[box, dim]
        cell += (low[box, dim] + digit % lengths) * stride
        digit //= lengths
        stride *= grid[dim]
    return cell, counts


def _columns(
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    low: IntArray,
    high: IntArray,
    owner: IntArray,
    written: IntArray,
    counts: IntArray,
) -> Iterator[IntArray]:
    """Columns of a block with a segment per box, in the order of `segments.blocks`."""

    def same(value: int) -> IntArray:
        return np.broadcast_to(np.int64(value), owner.shape)

    ndim = len(shape)
    held = np.zeros(len(owner), np.int64)
    held[written] = counts
    starts = [low[:, dim] * chunks[dim] for dim in range(ndim)]
    sizes = [
        np.minimum(high[:, dim] * chunks[dim], shape[dim]) - starts[dim] for dim in range(ndim)
    ]
    yield same(0)  # case
    yield same(0)  # row
    yield owner
    yield same(0)  # page
    yield np.cumsum(held) - held
    yield held
    yield np.where(written, DENSE, MISSING)
    yield from starts
    yield from sizes
    yield from (same(dim) for dim in range(ndim))  # axis
    yield from (same(0) for _ in range(ndim))  # first
    yield from (same(1) for _ in range(ndim))  # step
    yield from sizes
    yield from (same(chunk) for chunk in chunks)
