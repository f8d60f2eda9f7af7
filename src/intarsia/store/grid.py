"""The chunk grid that Zarr readers are shown: chosen, not inherited.

Question: of which shape should the cells of a regular grid be, over an array whose pieces have
chunks of their own? A cell is made of all source chunks that it meets, and each of them is decoded
for each of the cells that it meets. So the grid is to follow the chunks that most of the bytes are
in, unless the others would be decoded again and again; small cells are merged; and no cell may be
made of too much. How that is found is told in `intarsia.store.search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.chunks import MAX_PARTS
from intarsia.grid import chunk_count
from intarsia.segments import Segments
from intarsia.store.lines import CHUNKED, EACH, RUN, STILL, Line
from intarsia.store.pieces import Pieces, Spans
from intarsia.store.search import Search

type IntArray = npt.NDArray[Any]

MAX_BYTES = 1 << 27
"""Bytes that a cell, or what it is made of, comes to at most."""

MAX_EDGE = (1 << 63) - 1
"""Longest edge of a cell; NumPy counts no further."""

MAX_EDGES = 1 << 16
"""Cells along a dimension of a rectilinear grid at most; readers write all of them out."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A presented grid, and what it costs.

    Parameters
    ----------
    chunks
        Chunk shape; for a rectilinear grid, the lengths of the chunks along each dimension.
    amplification
        Bytes decoded when every cell is read once, over those decoded when all is read at once.
    max_parts
        The most parts that a cell is made of; an upper bound in large arrays.
    cells
        Number of cells.
    """

    chunks: tuple[int, ...] | tuple[tuple[int, ...], ...]
    amplification: float
    max_parts: int
    cells: int


def measure(segments: Segments, chunks: Sequence[int]) -> Grid:
    """What a regular grid of a given chunk shape costs.

    Parameters
    ----------
    segments
        The array.
    chunks
        Chunk shape.

    Raises
    ------
    ValueError
        If the chunk shape does not fit the array.
    """
    try:
        chunks = tuple(map(index, chunks))
    except TypeError:
        raise ValueError(f"{chunks!r} is not a chunk shape: a tuple of whole numbers") from None
    if len(chunks) != segments.ndim or not all(0 < edge <= MAX_EDGE for edge in chunks):
        raise ValueError(f"chunk shape {chunks} does not fit shape {segments.shape}")
    return _measured(Pieces.of(segments, lengths=False), chunks)


def _measured(pieces: Pieces, chunks: tuple[int, ...]) -> Grid:
    touched = pieces.touched_bytes()
    amplification = pieces.decoded_bytes(chunks) / touched if touched else 1.0
    parts, _ = pieces.most(chunks)
    return Grid(chunks, amplification, parts, chunk_count(pieces.shape, chunks))


def choose(segments: Segments, *, max_parts: int = MAX_PARTS, max_bytes: int = MAX_BYTES) -> Grid:
    """Choose a regular grid.

    Parameters
    ----------
    segments
        The array.
    max_parts
        Parts that a cell is made of at most; readers refuse more.
    max_bytes
        Bytes that a cell comes to at most, as do its parts, as they are stored and decoded. Where
        chunks of the sources are so large that several of them exceed it, a cell that is no larger
        than `max_bytes`, or than the largest of these chunks, may be made of ``2**ndim`` of them.
    """
    pieces = Pieces.of(segments)
    return _measured(pieces, Search(pieces, max_parts, max_bytes).run())


def rectilinear(
    segments: Segments, *, max_parts: int = MAX_PARTS, max_bytes: int = MAX_BYTES
) -> Grid:
    """The grid of all chunk boundaries, where no boundary cuts a chunk of another source.

    Parameters
    ----------
    segments
        The array.
    max_parts, max_bytes
        As for `choose`.

    Raises
    ------
    ValueError
        If there is no such grid, or its cells are too many or too large. It says why.
    """
    pieces = Pieces.of(segments)
    with_bytes = pieces.decoded > 0
    edges = [
        _edges(line.take(np.flatnonzero(with_bytes)), size, axis)
        for axis, (line, size) in enumerate(zip(pieces.lines, pieces.whole(), strict=True))
    ]
    spans: list[Spans] = []
    for axis, (line, cuts) in enumerate(zip(pieces.lines, edges, strict=True)):
        low = np.searchsorted(cuts, line.start, "right") - 1
        high = np.searchsorted(cuts, line.start + line.length, "left")
        chunks = line.held(np.zeros_like(line.start), line.length)[0]
        fixed = (line.kind == CHUNKED) | (line.kind == STILL)
        torn = np.flatnonzero(with_bytes & fixed & (high - low != chunks))
        if len(torn):
            at = int(cuts[low[torn[0]] + 1])
            raise ValueError(
                f"a rectilinear grid would not be exact: along dimension {axis}, the boundary at "
                f"{at}, or one near it, lies inside chunks of other sources"
            )
        wide = np.minimum(line.length, np.diff(cuts).max())
        count = np.ones_like(line.start)
        elements = np.where(line.kind == RUN, np.abs(line.step) * (wide - 1) + 1, 1)
        spans.append(Spans(np.arange(len(count)), count, low, high, count, elements))
    lengths = tuple(tuple(np.diff(cuts).tolist()) for cuts in edges)
    parts, nbytes = pieces.most_of(spans)
    nbytes = max(nbytes, float(pieces.itemsize) * prod(max(along) for along in lengths))
    largest = float(pieces.held.max(initial=0))
    if parts > max_parts or nbytes > max(max_bytes, largest):
        raise ValueError(
            f"cells of a rectilinear grid would have up to {parts} parts and {nbytes:.0f} bytes"
        )
    return Grid(lengths, 1.0, parts, prod(len(along) for along in lengths))


def _edges(line: Line, size: int, axis: int) -> IntArray:
    """Where boxes, and chunks in them, begin along a dimension, and its end; sorted."""
    found = [np.array([0, size], np.int64), line.start, line.start + line.length]
    within = line.take(np.flatnonzero((line.kind == CHUNKED) | (line.kind == EACH)))
    columns = (within.start, within.length, within.kind, within.first, within.step, within.chunk)
    few = Line(*np.unique(np.stack(columns), axis=1))  # many lie side by side, and end alike
    count = few.held(np.zeros_like(few.start), few.length)[0] - 1
    if count.sum() <= 64 * MAX_EDGES:
        row = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + 1
        first, step, chunk = few.first[row], few.step[row], few.chunk[row]
        border = first // chunk + number
        ahead = -(-(border * chunk - first) // np.maximum(step, 1))
        border = first // chunk - number + 1
        back = (first - border * chunk) // np.maximum(-step, 1) + 1
        inner = np.where(few.kind[row] == EACH, number, np.where(step > 0, ahead, back))
        found.append(few.start[row] + inner)
        edges = np.unique(np.concatenate(found))
        if len(edges) <= MAX_EDGES:
            return edges
    raise ValueError(
        f"a rectilinear grid would have more than {MAX_EDGES} cells along dimension {axis}"
    )
