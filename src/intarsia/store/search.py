"""The search for a chunk shape that costs little: how often source chunks are decoded, and size.

From the chunk shapes that most of the bytes are in, the one change that helps most (another length
along one dimension) is made again and again until none helps. Small cells are then merged where
that decodes nothing more often, and cells that hold too much are cut down. Costs are counted on a
sample of the segments (see `intarsia.store.pieces` for how); what no cell may exceed is checked on
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.grid import chunk_count, strip_shape
from intarsia.store.lines import CHUNKED, EACH, RUN, Line
from intarsia.store.pieces import Pieces

type IntArray = npt.NDArray[Any]
type FloatArray = npt.NDArray[np.float64]

SMALL_BYTES = 1 << 19
"""Cells below this size are merged."""

SMALL_PARTS = 1 << 10
"""Cells are not merged beyond so many parts."""

GROWTH = 0.1
"""A cell twice as large must decode 2**-GROWTH times as much."""

SAMPLE = 1 << 10
"""Segments on which costs are counted."""

STARTS = 4
"""Usual chunk shapes to begin with."""

USUAL = 5
"""Usual lengths along a dimension, of chunks and of segments."""


class _Costs(NamedTuple):
    """What a chunk shape costs.

    Parameters
    ----------
    amplification
        How often bytes are decoded, on average.
    nbytes
        Size of a cell.
    parts, held
        Parts and bytes that a cell is made of, at least: the most of one segment, or the mean.
    """

    amplification: float
    nbytes: float
    parts: float
    held: float


class Search:
    """The search for one array.

    Parameters
    ----------
    pieces
        The segments.
    max_parts, max_bytes
        What a cell is to be made of at most.
    """

    def __init__(self, pieces: Pieces, max_parts: int, max_bytes: int) -> None:
        self.pieces = pieces
        self.shape = pieces.whole()
        self.max_parts = max_parts
        largest = float(pieces.held.max(initial=0))
        self.enough = max(float(max_bytes), largest)
        self.bearable = max(float(max_bytes), largest * 2 ** len(self.shape))
        self.sample, natural = _sampled(pieces)
        self.touched = self.sample.touched_bytes()
        nbytes = _bytes_of(self.sample)
        self.starts = _starts(natural, nbytes, self.shape) or [
            strip_shape(self.shape, pieces.itemsize, SMALL_BYTES)
        ]
        self.usual = float(pieces.itemsize * prod(self.starts[0]))
        self.lengths: list[list[int]] = []
        for axis, line in enumerate(self.sample.lines):
            usual = _heaviest(natural[:, axis], nbytes) + _heaviest(line.length, nbytes)
            self.lengths.append(_lengths(usual, self.shape[axis]))
        self.known: dict[tuple[int, int], tuple[FloatArray, ...]] = {}

    def run(self) -> tuple[int, ...]:
        """The chunk shape."""
        best, least = self.starts[0], float("inf")
        for start in self.starts:
            chunks, cost = self._descend(start)
            if cost < least:
                best, least = chunks, cost
            if least <= 1:
                break  # nothing costs less
        return self._bounded(self._merged(best))

    def _along(self, axis: int, edge: int) -> tuple[FloatArray, ...]:
        """For each sampled segment: parts and elements, of all cells and the most of one."""
        key = axis, edge
        found = self.known.get(key)
        if found is None:
            line = self.sample.lines[axis]
            columns = (*line.total(edge), *line.peak(edge))
            found = self.known[key] = tuple(column.astype(np.float64) for column in columns)
        return found

    def _costs(self, chunks: Sequence[int]) -> _Costs:
        sample = self.sample
        size = float(self.pieces.itemsize) * prod(chunks)
        if not len(sample):
            return _Costs(1.0, size, 0.0, 0.0)
        cells = chunk_count(self.shape, chunks)
        parts, elements = sample.weight, sample.weight
        most_parts = most_elements = np.ones(len(sample))
        for axis, edge in enumerate(chunks):
            columns = self._along(axis, edge)
            parts, elements = parts * columns[0], elements * columns[1]
            most_parts, most_elements = most_parts * columns[2], most_elements * columns[3]
        return _Costs(
            float(sample.decoded @ elements) / self.touched,
            size,
            max(float(most_parts.max()), float(parts.sum()) / cells),
            max(float((sample.held * most_elements).max()), float(sample.held @ elements) / cells),
        )

    def _cost(self, chunks: Sequence[int]) -> float:
        """What is to be least; at least 1."""
        costs = self._costs(chunks)
        cost = max(costs.amplification, 1.0)
        if costs.nbytes > self.usual:
            cost *= (costs.nbytes / self.usual) ** GROWTH
        else:  # no reason to be smaller than the chunks of the sources
            cost *= (self.usual / costs.nbytes) ** (GROWTH / 10)
        held = max(costs.nbytes, costs.held)
        excess = max(held / self.enough, costs.parts / self.max_parts)
        return cost * max(1.0, excess) ** 4

    def _descend(self, chunks: tuple[int, ...]) -> tuple[tuple[int, ...], float]:
        """Change one length after the other, always where it helps most."""
        cost = self._cost(chunks)
        while cost > 1 and chunks:
            others = [
                (*chunks[:axis], edge, *chunks[axis + 1 :])
                for axis, lengths in enumerate(self.lengths)
                for edge in lengths
            ]
            prices = [self._cost(other) for other in others]
            if min(prices) >= cost * (1 - 1e-9):
                break
            cost = min(prices)
            chunks = others[prices.index(cost)]
        return chunks, cost

    def _merged(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """Small cells made larger, the last dimension first, where it costs nothing."""
        limit = self._costs(chunks).amplification * (1 + 1e-9)
        most_parts = min(self.max_parts, SMALL_PARTS)
        for axis in reversed(range(len(chunks))):
            edge = chunks[axis]
            times = SMALL_BYTES // max(self.pieces.itemsize * prod(chunks), 1)
            times = min(times, -(-self.shape[axis] // edge))
            while times > 1:
                wide = min(edge * times, self.shape[axis])
                other = (*chunks[:axis], wide, *chunks[axis + 1 :])
                costs = self._costs(other)
                fits = costs.parts <= most_parts and costs.held <= self.enough
                if fits and costs.amplification <= limit:
                    chunks = other
                    break
                times //= 2
        return chunks

    def _bounded(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """The chunk shape, made smaller until no cell is made of too much."""
        while True:
            parts, held = self.pieces.most(chunks)
            size = float(self.pieces.itemsize) * prod(chunks)
            limit = self.bearable if size <= self.enough else self.enough
            excess = max(parts / self.max_parts, held / limit, size / self.enough)
            if excess <= 1 or all(edge == 1 for edge in chunks):
                return chunks
            wanted = prod(chunks) / min(excess, 16)
            while prod(chunks) > max(wanted, 1):
                chunks = self._smaller(chunks)

    def _smaller(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """The chunk shape, made smaller along the dimension where it costs least."""
        found: dict[tuple[int, ...], float] = {}
        for axis, edge in enumerate(chunks):
            lower = [length for length in self.lengths[axis] if length < edge][-1:]
            for length in {-(-edge // 2), *lower} - {edge}:
                other = (*chunks[:axis], length, *chunks[axis + 1 :])
                worse = max(self._costs(other).amplification, 1.0)
                found[other] = worse * (length / edge) ** GROWTH
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
    are left out.
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
    number = place * each // total  # which of the `each` parts of its kind it is in
    chosen = np.ones(len(rows), bool)
    chosen[1:] = (number[1:] != number[:-1]) | (place[1:] == 0)
    taken, weight = order[chosen], (total / np.minimum(total, each))[chosen]
    if len(taken) > SAMPLE:  # hardly any are alike
        every = np.linspace(0, len(taken) - 1, SAMPLE).astype(np.int64)
        taken, weight = taken[every], weight[every] * (len(taken) / SAMPLE)
    return pieces.take(rows[taken], weight), natural[taken]


def _bytes_of(pieces: Pieces) -> FloatArray:
    """Bytes that each segment decodes to, with its weight."""
    total = pieces.decoded * pieces.weight
    for line, size in zip(pieces.lines, pieces.whole(), strict=True):
        total = total * line.total(size)[1]
    return total


def _starts(natural: IntArray, nbytes: FloatArray, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Chunk shapes that most bytes are in, the one with the most first; and one around them."""
    if not len(natural):
        return []
    shapes, inverse = np.unique(natural, axis=0, return_inverse=True)
    held = np.bincount(inverse.reshape(-1), nbytes, len(shapes))
    chosen = shapes[np.argsort(-held, kind="stable")[:STARTS]]
    clipped = [np.minimum(row, shape) for row in (*chosen, chosen.max(axis=0))]
    return list(dict.fromkeys(tuple(row.tolist()) for row in clipped))


def _lengths(usual: list[int], size: int) -> list[int]:
    """Lengths of cells to be tried along a dimension, sorted."""
    lengths = {size}
    for one in usual:
        for other in usual:
            if one < other:
                lengths |= {gcd(one, other), min(lcm(one, other), size)}
        length = one
        while length < size:
            lengths.add(length)
            length *= 2
    while size > 1:
        size = -(-size // 2)
        lengths.add(size)
    return sorted(lengths)


def _heaviest(values: IntArray, nbytes: FloatArray) -> list[int]:
    """The values that stand for most bytes."""
    distinct, inverse = np.unique(values, return_inverse=True)
    weight = np.bincount(inverse.reshape(-1), nbytes, len(distinct))
    chosen: list[int] = distinct[np.argsort(-weight, kind="stable")[:USUAL]].tolist()
    return chosen
