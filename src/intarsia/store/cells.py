"""The bytes of the cells of a presented grid, or some of them.

A cell's header and length are known before a byte of any source is read, so that a request for the
header, or for one part, costs no more than that part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.chunks import BYTES_FOLLOW, MAX_PARTS, Parts, case_keys, pack
from intarsia.engine.plan import tasks_of
from intarsia.errors import SourceError, StoreError
from intarsia.io.fetch import fetcher_for
from intarsia.references import INLINE, STORED
from intarsia.segments import Segments
from intarsia.store.pages import CellGrid, Edges, Pages, used_cases

type IntArray = npt.NDArray[Any]

MAX_BYTES = 1 << 32
"""Bytes of a cell that are read at once, at most."""

LARGE = 1 << 26
"""Room for more bytes is only made when all of them have been read."""

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
    inline
        Bytes of the parts that are in the tables of references, by number.
    """

    header: bytes
    ends: list[int]
    source: IntArray
    offset: IntArray
    length: IntArray
    inline: dict[int, memoryview]

    @property
    def nbytes(self) -> int:
        """Bytes of the cell."""
        return self.ends[-1]


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
        self.grid = CellGrid(segments.shape, chunks)
        used = used_cases(segments)
        keys = np.zeros(len(segments.cases), np.uint64)
        try:
            keys[used] = case_keys([segments.cases[number].encoding for number in used])
        except ValueError as error:
            raise StoreError(f"can't be shown as Zarr: {error}", array=name) from error
        self._pages = Pages(segments, self.grid, keys)
        self._remembered = lru_cache(REMEMBERED)(self._made)

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
        return self._remembered(tuple(index))

    def _made(self, index: tuple[int, ...]) -> Cell:
        _, _, shape = self.grid.box(index)
        try:
            parts, state, source, page, offset, strides = self._pages.find(index, MAX_PARTS)
            if len(parts) == 1:
                parts = _padded(parts, strides[0], shape)
            header = pack(parts, shape)
        except ValueError as error:
            raise StoreError(
                str(error), array=self.name, chunk=index, remedy="choose smaller chunks: grid="
            ) from error
        inline: dict[int, memoryview] = {}
        for part in np.flatnonzero(state == INLINE).tolist():
            data = memoryview(self.segments.pages[int(page[part])].inline)
            begin = int(offset[part])
            inline[part] = data[begin : begin + int(parts.nbytes[part])]
        ends: list[int] = (len(header) + np.cumsum(parts.nbytes)).tolist()
        stored = np.where(state == STORED, source, -1)
        return Cell(header, ends, stored, offset, parts.nbytes, inline)

    def read(
        self, index: Sequence[int], begin: int = 0, end: int | None = None
    ) -> bytes | bytearray:
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
        if len(cell.ends) == 1 and begin <= size and not cell.inline:
            return cell.header[begin:] + self._one(cell, end - size, tuple(index))
        first, last = bisect_right(cell.ends, begin), bisect_right(cell.ends, end - 1)
        numbers = np.arange(first, last + 1)
        numbers = numbers[cell.length[numbers] > 0]
        starts = np.array(cell.ends[first : last + 1])[numbers - first] - cell.length[numbers]
        skip = np.maximum(begin - starts, 0)
        wanted = np.minimum(cell.length[numbers], end - starts) - skip
        places = starts + skip - begin
        if end - begin > MAX_BYTES:  # what references say, before there is room for it
            reason = f"{end - begin} bytes of a chunk are too many to be read at once"
            raise StoreError(reason, array=self.name, chunk=index)
        stored = cell.source[numbers] >= 0
        few = numbers[stored]
        columns = cell.source[few], cell.offset[few] + skip[stored], wanted[stored]
        try:
            fetched: Iterable[tuple[int, memoryview]] = self._fetch(*columns, places[stored])
            if end - begin > LARGE:  # what is not there is noticed before there is room for it
                fetched = list(fetched)
            result = bytearray(end - begin)
            for place, data in fetched:
                result[place : place + len(data)] = data
        except SourceError as error:
            raise error.located(array=self.name, chunk=tuple(index)) from error.__cause__
        if begin < size:
            result[: size - begin] = cell.header[begin:]
        for row in np.flatnonzero(~stored).tolist():
            data, low = cell.inline[int(numbers[row])], int(skip[row])
            place, length = int(places[row]), int(wanted[row])
            result[place : place + length] = data[low : low + length]
        return result

    def _one(self, cell: Cell, length: int, index: tuple[int, ...]) -> memoryview:
        """The first bytes of the only part of a cell."""
        source = self.segments.sources[int(cell.source[0])]
        try:
            (data,) = fetcher_for(source).read(source, [(int(cell.offset[0]), length)])
        except SourceError as error:
            raise error.located(array=self.name, chunk=index) from error.__cause__
        return data

    def _fetch(
        self, sources: IntArray, offsets: IntArray, lengths: IntArray, places: IntArray
    ) -> Iterator[tuple[int, memoryview]]:
        """Read ranges of sources, neighbours together; gives each with its place."""
        for task in tasks_of(sources, offsets, lengths, lengths):
            for read in task:
                source = self.segments.sources[read.source]
                buffers = fetcher_for(source).read(source, read.ranges)
                ranges = zip(read.ranges, read.members, buffers, strict=True)
                for (low, _), members, buffer in ranges:
                    columns = (offsets[members] - low, places[members], lengths[members])
                    for inside, place, length in zip(*(c.tolist() for c in columns), strict=True):
                        yield place, buffer[inside : inside + length]


def _padded(parts: Parts, strides: IntArray, shape: Sequence[int]) -> Parts:
    """One part of a cell at the edge of the array, as one that covers the cell, where it can be.

    What lies outside of the array nobody looks at. It may be anything that the part's bytes decode
    to, as long as all of it lies in these, as it does in HDF5's own chunks at the edge.

    Parameters
    ----------
    parts
        The part.
    strides
        Its strides, also where it has one index only.
    shape
        Of the cell.
    """
    if parts.covers(shape) or parts.start.any():
        return parts
    whole = np.array([shape], np.int64).reshape(1, len(shape))
    if parts.state[0] != BYTES_FOLLOW:
        return replace(parts, count=whole)
    reach = (whole[0] - 1) * strides
    low = int(parts.begin[0] + np.minimum(reach, 0).sum())
    high = int(parts.begin[0] + np.maximum(reach, 0).sum())
    if low < 0 or high >= int(parts.elements[0]):
        return parts
    strides = np.where(whole[0] == 1, 0, strides)
    return replace(parts, count=whole, strides=strides.reshape(1, -1))
