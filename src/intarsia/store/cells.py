"""The cells of a presented grid: which parts a cell is made of, and its bytes, or some of them.

A cell's header and length are known before a byte of any source is read, so that a request for the
header, or for one part, costs no more than that part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.chunks import Parts, case_keys, pack
from intarsia.engine.plan import tasks_of
from intarsia.errors import SourceError, StoreError
from intarsia.io.fetch import fetcher_for
from intarsia.lookup import touches
from intarsia.references import INLINE, STORED
from intarsia.segments import Segments

type IntArray = npt.NDArray[Any]
type Edges = tuple[int, ...] | tuple[tuple[int, ...], ...]

REMEMBERED = 64
"""Cells whose headers are kept: a reader asks for the header first, and then for parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One cell.

    Parameters
    ----------
    header
        The bytes before those of the parts.
    ends
        Where the bytes of each part end, counted from the beginning of the cell.
    source, offset, length
        Of each part: where its bytes are. A source of -1: nowhere, or in `inline`.
    weight
        Elements that each part decodes to.
    inline
        Bytes of the parts that are in the tables of references, by number.
    """

    header: bytes
    ends: IntArray
    source: IntArray
    offset: IntArray
    length: IntArray
    weight: IntArray
    inline: dict[int, memoryview]

    @property
    def nbytes(self) -> int:
        """Bytes of the cell."""
        return int(self.ends[-1])


class Cells:
    """The cells of an array.

    Parameters
    ----------
    segments
        What the array is made of.
    chunks
        The grid: a chunk shape, or lengths of chunks along each dimension.
    name
        Name of the array, for errors.

    Raises
    ------
    StoreError
        If an encoding can't be told to a reader.
    """

    def __init__(self, segments: Segments, chunks: Edges, name: str) -> None:
        self.segments = segments
        self.name = name
        self._edges: list[int | list[int]] = [
            edge if isinstance(edge, int) else [0, *accumulate(edge)] for edge in chunks
        ]
        self._itemsizes = np.array([c.encoding.stored.itemsize for c in segments.cases], np.int64)
        try:
            self._keys = case_keys([case.encoding for case in segments.cases])
        except ValueError as error:
            raise StoreError(str(error), array=name) from error
        self._known: OrderedDict[tuple[int, ...], Cell] = OrderedDict()
        self._lock = Lock()

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of cells along each dimension."""
        return tuple(
            -(-size // edge) if isinstance(edge, int) else len(edge) - 1
            for size, edge in zip(self.segments.shape, self._edges, strict=True)
        )

    def cell(self, index: Sequence[int]) -> Cell:
        """The parts of a cell.

        Parameters
        ----------
        index
            Of a cell within the grid.

        Raises
        ------
        StoreError
            If it is made of more parts than a cell can have.
        """
        key = tuple(index)
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        made = self._made(key)
        with self._lock:
            self._known[key] = made
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return made

    def _made(self, index: tuple[int, ...]) -> Cell:
        box: list[slice] = []
        shape: list[int] = []
        for number, size, edge in zip(index, self.segments.shape, self._edges, strict=True):
            if isinstance(edge, int):
                begin, length = number * edge, edge
            else:
                begin, length = edge[number], edge[number + 1] - edge[number]
            box.append(slice(begin, min(begin + length, size)))
            shape.append(length)
        part = self.segments.select(box)
        found = [touches(block, part.pages, self._itemsizes) for block in part.blocks]
        corner = (0,) * part.ndim
        parts = Parts.joined([Parts.of(t, part.cases, self._keys, corner) for t in found])
        try:
            header = pack(parts, shape)
        except ValueError as error:
            raise StoreError(
                str(error), array=self.name, chunk=index, remedy="choose smaller chunks: grid="
            ) from error
        state = np.concatenate([t.state for t in found])
        source = np.concatenate([t.source for t in found])
        offset = np.concatenate([t.offset for t in found])
        page = np.concatenate([t.page for t in found])
        inline: dict[int, memoryview] = {}
        for number in np.flatnonzero(state == INLINE).tolist():
            data = memoryview(part.pages[int(page[number])].inline)
            inline[number] = data[int(offset[number]) : int(offset[number] + parts.nbytes[number])]
        return Cell(
            header,
            len(header) + np.cumsum(parts.nbytes),
            np.where(state == STORED, source, -1),
            offset,
            parts.nbytes,
            np.concatenate([t.elements for t in found]),
            inline,
        )

    def read(self, index: Sequence[int], begin: int = 0, end: int | None = None) -> bytes:
        """Bytes of a cell, from `begin` to `end`, clipped to what there is.

        Raises
        ------
        SourceError
            If a source that is needed can't be read, or changed.
        StoreError
            As for `cell`.
        """
        cell = self.cell(index)
        end = cell.nbytes if end is None else min(end, cell.nbytes)
        if begin >= end:
            return b""
        size = len(cell.header)
        if end <= size:
            return cell.header[begin:end]
        ends: list[int] = cell.ends.tolist()
        first, last = bisect_right(ends, begin), bisect_right(ends, end - 1)
        numbers = np.arange(first, min(last + 1, len(ends)))
        numbers = numbers[cell.length[numbers] > 0]
        starts = cell.ends[numbers] - cell.length[numbers]
        skip = np.maximum(begin - starts, 0)
        wanted = np.minimum(cell.ends[numbers], end) - starts - skip
        places = starts + skip - begin
        result = bytearray(end - begin)
        if begin < size:
            result[: size - begin] = cell.header[begin:]
        for row, number in enumerate(numbers.tolist()):
            data = cell.inline.get(number)
            if data is not None:
                low, place = int(skip[row]), int(places[row])
                result[place : place + int(wanted[row])] = data[low : low + int(wanted[row])]
        stored = np.flatnonzero(cell.source[numbers] >= 0)
        self._fetch(cell, tuple(index), result, numbers[stored], skip[stored], wanted[stored],
                    places[stored])  # fmt: skip
        return bytes(result)

    def _fetch(
        self,
        cell: Cell,
        index: tuple[int, ...],
        result: bytearray,
        numbers: IntArray,
        skip: IntArray,
        wanted: IntArray,
        places: IntArray,
    ) -> None:
        """Read the bytes of some parts, neighbours together."""
        offset = cell.offset[numbers] + skip
        for task in tasks_of(cell.source[numbers], offset, wanted, wanted):
            for read in task:
                source = self.segments.sources[read.source]
                try:
                    buffers = fetcher_for(source).read(source, read.ranges)
                except SourceError as error:
                    raise error.located(array=self.name, chunk=index) from error.__cause__
                for (low, _), members, buffer in zip(
                    read.ranges, read.members, buffers, strict=True
                ):
                    for member in members.tolist():
                        place, length = int(places[member]), int(wanted[member])
                        inside = int(offset[member]) - low
                        result[place : place + length] = buffer[inside : inside + length]
