"""Which segments lie in a box? Asked again and again, of an array of very many.

Along the dimension in which the segments of a block begin in most places, they are sorted by where
they begin, those of about the same length together. Those that meet an interval then begin in an
interval that is hardly longer; the other dimensions are looked at for these alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.segments import Block

type IntArray = npt.NDArray[Any]

FEW = 64
"""So many segments are all looked at."""


class _Class(NamedTuple):
    """Segments of about the same length, sorted by where they begin."""

    longest: int
    starts: IntArray
    rows: IntArray


class BoxIndex:
    """The boxes of a block's segments, so that those in a box are found.

    Parameters
    ----------
    block
        The segments.
    """

    def __init__(self, block: Block) -> None:
        fields = block.fields
        self._bounds: list[tuple[IntArray, IntArray]] = []
        for axis in range(fields.ndim):
            start = block.column(fields.start.start + axis).astype(np.int64)
            self._bounds.append((start, start + block.column(fields.shape.start + axis)))
        self._all = np.arange(len(block))
        self._classes: list[_Class] = []
        if len(block) <= FEW or not self._bounds:
            return
        places = [len(np.unique(start)) for start, _ in self._bounds]
        self._axis = int(np.argmax(places))
        start, end = self._bounds[self._axis]
        size = np.frexp((end - start).astype(np.float64))[1]
        sizes: list[int] = np.unique(size).tolist()
        for one in sizes:
            rows = np.flatnonzero(size == one)
            rows = rows[np.argsort(start[rows], kind="stable")]
            longest = int((end[rows] - start[rows]).max())
            self._classes.append(_Class(longest, start[rows], rows))

    def rows(self, low: Sequence[int], high: Sequence[int]) -> IntArray:
        """Numbers of the segments that have elements in a box, ascending.

        Parameters
        ----------
        low, high
            The box's first corner, and the one after its last.
        """
        rows = self._all
        if self._classes:
            begin, end = low[self._axis], high[self._axis]
            found: list[IntArray] = []
            for longest, starts, members in self._classes:
                first, last = np.searchsorted(starts, (begin - longest + 1, end))
                found.append(members[first:last])
            rows = np.sort(np.concatenate(found))
        for (start, stop), begin, end in zip(self._bounds, low, high, strict=True):
            rows = rows[(start[rows] < end) & (stop[rows] > begin)]
        return rows
