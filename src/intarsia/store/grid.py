"""The chunk grid that Zarr readers are shown: chosen, not inherited.

Question: of which shape should the cells of a regular grid be, over an array whose pieces have
chunks of their own? A cell is made of all source chunks that it meets, and each of them is decoded
for each of the cells that it meets. So the grid is to follow the chunks that most of the bytes are
in, unless the others would be decoded again and again; and no cell may be made of too much.
Algorithm: from the chunk shapes that most bytes are in, each dimension in turn is given the length
that costs least, until nothing gets better; cells that are small are then merged where that decodes
no chunk more often; at last they are cut down until what they hold is bounded for sure. Costs are
counted on a sample of the segments, bounds on all of them (see `intarsia.store.pieces`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd, lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.grid import chunk_count, strip_shape
from intarsia.segments import Segments
from intarsia.store.pieces import CHUNKED, EACH, RUN, Line, Pieces

type IntArray = npt.NDArray[Any]

MAX_PARTS = 1 << 13
"""Parts that a cell is made of at most."""

MAX_BYTES = 1 << 27
"""Bytes that a cell, or what it is made of, comes to at most."""

SMALL_BYTES = 1 << 19
"""Cells below this size are merged."""

SMALL_PARTS = 1 << 10
"""Cells are not merged beyond so many parts."""

GROWTH = 0.1
"""A cell twice as large must decode 2**-GROWTH times as much."""

SAMPLE = 1 << 10
"""Segments on which costs are counted."""


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
    chunks = tuple(int(edge) for edge in chunks)
    if len(chunks) != segments.ndim or any(edge < 1 for edge in chunks):
        raise ValueError(f"chunk shape {chunks} does not fit shape {segments.shape}")
    return _measured(Pieces.of(segments), chunks)


def _measured(pieces: Pieces, chunks: tuple[int, ...]) -> Grid:
    touched = pieces.touched_bytes()
    amplification = pieces.decoded_bytes(chunks) / touched if touched else 1.0
    parts, _ = pieces.most(chunks)
    return Grid(chunks, amplification, parts, chunk_count(pieces.shape, chunks))


def choose(
    segments: Segments, *, max_parts: int = MAX_PARTS, max_bytes: int = MAX_BYTES
) -> Grid:
    """Choose a regular grid.

    Parameters
    ----------
    segments
        The array.
    max_parts
        Parts that a cell is made of at most.
    max_bytes
        Bytes that a cell comes to at most, as do its parts, as they are stored and decoded. Where
        single chunks of a source are so large that several of them exceed it, a cell that is no
        larger itself may meet ``2**ndim`` of them.
    """
    pieces = Pieces.of(segments)
    choice = _Choice(pieces, max_parts, max_bytes)
    return _measured(pieces, choice.bounded(choice.merged(choice.best())))


class _Choice:
    """The search for one array."""

    def __init__(self, pieces: Pieces, max_parts: int, max_bytes: int) -> None:
        self.pieces = pieces
        self.shape = pieces.whole()
        self.max_parts = max_parts
        self.max_bytes = max_bytes
        largest = float(pieces.held.max(initial=0))
        self.enough = max(float(max_bytes), largest)
        self.bearable = max(float(max_bytes), largest * 2 ** len(self.shape))
        self.sample, natural = _sampled(pieces)
        self.touched = self.sample.touched_bytes()
        self.starts = _starts(self.sample, natural, self.shape)
        self.lengths = [
            _lengths(natural[:, axis], line, self.sample, self.shape[axis])
            for axis, line in enumerate(self.sample.lines)
        ]
        self.usual = pieces.itemsize * prod(self.starts[0]) if self.starts else 0
        self.known: dict[tuple[int, int], tuple[npt.NDArray[Any], ...]] = {}

    def along(self, axis: int, edge: int) -> tuple[npt.NDArray[Any], ...]:
        """For each sampled segment: parts and elements, of all cells and the most of one."""
        key = axis, edge
        found = self.known.get(key)
        if found is None:
            line = self.sample.lines[axis]
            total = [column.astype(np.float64) for column in line.total(edge)]
            found = self.known[key] = (*total, *line.peak(edge))
        return found

    def amplification(self, chunks: Sequence[int]) -> float:
        """How often the sampled chunks are decoded."""
        if not self.touched:
            return 1.0
        total = self.sample.decoded * self.sample.weight
        for axis, edge in enumerate(chunks):
            total = total * self.along(axis, edge)[1]
        return float(total.sum()) / self.touched

    def excess(self, chunks: Sequence[int], max_parts: int) -> float:
        """By which factor a cell is too large, or seems to be; at most 1: it is not.

        Judged by what single segments have in a cell, and by the mean.
        """
        sample = self.sample
        size = float(self.pieces.itemsize) * prod(chunks)
        cells = chunk_count(self.shape, chunks)
        parts, held = np.ones(len(sample)), sample.held
        all_parts, all_held = sample.weight, sample.held * sample.weight
        for axis, edge in enumerate(chunks):
            total_parts, total_held, most_parts, most_held = self.along(axis, edge)
            parts, held = parts * most_parts, held * most_held
            all_parts, all_held = all_parts * total_parts, all_held * total_held
        most_parts = max(float(parts.max(initial=0)), float(all_parts.sum()) / cells)
        most_held = max(float(held.max(initial=0)), float(all_held.sum()) / cells)
        return max(size / self.enough, most_held / self.enough, most_parts / max_parts)

    def cost(self, chunks: Sequence[int]) -> float:
        """What is to be least."""
        size = self.pieces.itemsize * prod(chunks)
        far = max(size, self.usual) / max(self.usual, 1)
        near = max(size, 1) / max(self.usual, 1)
        cost = self.amplification(chunks) * max(far, 1e-9) ** GROWTH
        if near < 1:  # no reason to be smaller than the chunks of the sources
            cost *= near**-0.01
        return cost * max(1.0, self.excess(chunks, self.max_parts)) ** 4

    def best(self) -> tuple[int, ...]:
        """The best of what can be reached from each of the usual chunk shapes."""
        found: dict[tuple[int, ...], float] = {}
        for start in self.starts:
            chunks, cost = start, self.cost(start)
            better = True
            while better:
                better = False
                for axis, lengths in enumerate(self.lengths):
                    for edge in lengths:
                        other = (*chunks[:axis], edge, *chunks[axis + 1 :])
                        if (price := self.cost(other)) < cost * (1 - 1e-9):
                            chunks, cost, better = other, price, True
            found[chunks] = cost
        if not found:
            return strip_shape(self.shape, self.pieces.itemsize, SMALL_BYTES)
        return min(found, key=lambda chunks: found[chunks])

    def merged(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """Small cells made larger, the last dimension first, where it costs nothing."""
        limit = self.amplification(chunks) * (1 + 1e-9)
        for axis in reversed(range(len(chunks))):
            edge = chunks[axis]
            times = SMALL_BYTES // max(self.pieces.itemsize * prod(chunks), 1)
            times = min(times, -(-self.shape[axis] // edge))
            while times > 1:
                wide = min(edge * times, self.shape[axis])
                other = (*chunks[:axis], wide, *chunks[axis + 1 :])
                few = min(self.max_parts, SMALL_PARTS)
                if self.excess(other, few) <= 1 and self.amplification(other) <= limit:
                    chunks = other
                    break
                times //= 2
        return chunks

    def bounded(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """The chunk shape, made smaller until no cell is made of too much."""
        while True:
            parts, nbytes = self.pieces.most(chunks)
            size = float(self.pieces.itemsize) * prod(chunks)
            limit = self.bearable if size <= self.enough else self.enough
            excess = max(parts / self.max_parts, nbytes / limit, size / self.enough)
            if excess <= 1 or all(edge == 1 for edge in chunks):
                return chunks
            wanted = prod(chunks) / min(excess, 16)
            while prod(chunks) > wanted:
                chunks = self.smaller(chunks)

    def smaller(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """The chunk shape, made smaller along the dimension where it costs least."""
        found: dict[tuple[int, ...], float] = {}
        for axis, edge in enumerate(chunks):
            lower = [length for length in self.lengths[axis] if length < edge][-1:]
            for length in {-(-edge // 2), *lower} - {edge}:
                other = (*chunks[:axis], length, *chunks[axis + 1 :])
                found[other] = self.amplification(other) * (edge / length) ** -GROWTH
        return min(found, key=lambda chunks: found[chunks])


def _natural(line: Line) -> IntArray:
    """Length along the whole in which the chunks of each segment repeat, or all of it."""
    step = np.maximum(np.abs(line.step), 1)
    period = line.chunk // np.gcd(line.chunk, step)
    length = np.where((line.kind == CHUNKED) | (line.kind == RUN), period, line.length)
    return np.minimum(np.where(line.kind == EACH, 1, length), line.length)


def _sampled(pieces: Pieces) -> tuple[Pieces, IntArray]:
    """Some segments of each kind, with as much weight as all of them, and their usual lengths.

    Segments are of a kind if they differ in nothing but where they lie. Those that have no bytes
    don't matter.
    """
    rows = np.flatnonzero(pieces.decoded > 0)
    natural = np.empty((len(rows), len(pieces.lines)), np.int64)
    for axis, line in enumerate(pieces.lines):
        natural[:, axis] = _natural(line)[rows]
    if len(rows) <= SAMPLE:
        return pieces.take(rows, np.ones(len(rows))), natural
    random = np.random.default_rng(0)
    kind = pieces.decoded[rows].view(np.int64).copy()
    for axis, line in enumerate(pieces.lines):
        for column in (line.length[rows], line.step[rows], line.kind[rows], natural[:, axis]):
            kind += column * random.integers(1 << 62)  # wraps around, which is fine for a digest
    _, inverse, counts = np.unique(kind, return_inverse=True, return_counts=True)
    each = max(1, SAMPLE // len(counts))
    order = np.argsort(inverse, kind="stable")
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    total = np.repeat(counts, counts)
    number = place * each // total  # `each` evenly spaced ones, or all
    chosen = np.ones(len(rows), bool)
    chosen[1:] = (number[1:] != number[:-1]) | (place[1:] == 0)
    weight = (total / np.minimum(total, each))[chosen]
    taken = order[chosen]
    if len(taken) > SAMPLE:  # hardly any are alike
        every = np.linspace(0, len(taken) - 1, SAMPLE).astype(np.int64)
        weight = weight[every] * len(taken) / SAMPLE
        taken = taken[every]
    return pieces.take(rows[taken], weight), natural[taken]


def _bytes_of(pieces: Pieces) -> npt.NDArray[np.float64]:
    """Bytes that each segment decodes to, with its weight."""
    total = pieces.decoded * pieces.weight
    for line, size in zip(pieces.lines, pieces.whole(), strict=True):
        total = total * line.total(size)[1]
    return total


def _starts(
    pieces: Pieces, natural: IntArray, shape: tuple[int, ...], most: int = 4
) -> list[tuple[int, ...]]:
    """Chunk shapes that most bytes are in, the one with the most first; and one around them."""
    if not len(pieces):
        return []
    shapes, inverse = np.unique(natural, axis=0, return_inverse=True)
    held = np.bincount(inverse.reshape(-1), _bytes_of(pieces), len(shapes))
    order = np.argsort(-held, kind="stable")[:most]
    chosen = shapes[order]
    around = chosen.max(axis=0, initial=1)
    clipped = [np.minimum(row, shape) for row in (*chosen, around)]
    return list(dict.fromkeys(tuple(row.tolist()) for row in clipped))


def _lengths(natural: IntArray, line: Line, pieces: Pieces, size: int, most: int = 5) -> list[int]:
    """Lengths of cells to be tried along a dimension, sorted."""
    held = _bytes_of(pieces)
    usual = [
        *_heaviest(natural, held, most),
        *_heaviest(line.length, held, most),
    ]
    common = [lcm(a, b) for a in usual for b in usual if a < b and lcm(a, b) < size]
    common += [gcd(a, b) for a in usual for b in usual if a < b]
    lengths = {size, *common}
    for length in usual:
        while length < size:
            lengths.add(length)
            length *= 2
    while size > 1:
        size = -(-size // 2)
        lengths.add(size)
    return sorted(lengths)


def _heaviest(values: IntArray, held: npt.NDArray[np.float64], most: int) -> Iterable[int]:
    distinct, inverse = np.unique(values, return_inverse=True)
    weight = np.bincount(inverse.reshape(-1), held, len(distinct))
    chosen: list[int] = distinct[np.argsort(-weight, kind="stable")[:most]].tolist()
    return chosen
