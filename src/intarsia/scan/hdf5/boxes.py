"""The boxes that mapping one selection onto another comes to.

Both selections are walked in C order, and element ``i`` of one is taken to element ``i`` of the
other. Where the axes of both sides pair off, so do their runs; everything else is cut into runs
along one dimension.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from intarsia.scan.hdf5.selections import (
    MAX_RUNS,
    Axis,
    IntArray,
    Selected,
    TooManyPieces,
    product,
)


class Boxes(NamedTuple):
    """Boxes of a whole, and where each lies in a source; a row for each.

    Parameters
    ----------
    start, shape
        First index and lengths; shape (boxes, dimensions of the whole).
    axis, first, step
        As in `intarsia.segments.Fields`; shape (boxes, dimensions of the source).
    """

    start: IntArray
    shape: IntArray
    axis: IntArray
    first: IntArray
    step: IntArray

    def __len__(self) -> int:
        return len(self.start)

    def inner(self, rows: IntArray, start: IntArray, shape: IntArray) -> Boxes:
        """Boxes within those of some rows."""
        moved = np.concatenate([start - self.start[rows], np.zeros((len(rows), 1), np.int64)], 1)
        axis, step = self.axis[rows], self.step[rows]
        first = self.first[rows] + step * np.take_along_axis(moved, axis, 1)
        return Boxes(start, shape, axis, first, step)


def mapped(whole: Selected, source: Selected) -> Boxes:
    """Take the elements of one selection to those of the other, which has as many.

    Raises
    ------
    TooManyPieces
        There are too many boxes.
    """
    if whole.axes is not None and source.axes is not None:
        several = [n for n, axis in enumerate(whole.axes) if axis.size > 1]
        others = [n for n, axis in enumerate(source.axes) if axis.size > 1]
        sizes = [whole.axes[n].size for n in several]
        if sizes == [source.axes[n].size for n in others]:
            return _paired(whole.axes, source.axes, dict(zip(several, others, strict=True)))
    return _in_runs(whole, source)


def _paired(whole: list[Axis], source: list[Axis], pairs: dict[int, int]) -> Boxes:
    """Boxes where dimension `n` of the whole runs along dimension ``pairs[n]`` of the source."""
    starts: list[IntArray] = []
    lengths: list[IntArray] = []
    firsts: list[IntArray] = []
    for n, axis in enumerate(whole):
        axis = axis.spelt()
        other = source[pairs[n]] if n in pairs else Axis.whole(1)
        numbers = np.union1d(axis.breaks, other.breaks)
        starts.append(axis.at(numbers))
        lengths.append(np.diff(numbers, append=axis.size))
        firsts.append(other.at(numbers))
    if prod(map(len, starts)) > MAX_RUNS:
        raise TooManyPieces
    first = np.stack([axis.starts[:1] for axis in source], 1) if source else np.zeros((1, 0), int)
    count = prod(map(len, starts))
    first = np.repeat(first, count, 0)
    along = product(firsts)
    axes, steps = np.full(len(source), -1), np.zeros(len(source), int)
    for n, other in pairs.items():
        axes[other], steps[other] = n, source[other].step
        first[:, other] = along[:, n]
    return Boxes(
        product(starts),
        product(lengths),
        np.repeat(axes[None], count, 0),
        first,
        np.repeat(steps[None], count, 0),
    )


def _in_runs(whole: Selected, source: Selected) -> Boxes:
    """Boxes of one run each, where the dimensions of both sides do not pair off."""
    if whole.axes is not None:
        whole = Selected([axis.spelt() for axis in whole.axes])
    mine, my_lengths, _ = whole.runs()
    theirs, their_lengths, step = source.runs()
    my_breaks = np.cumsum(my_lengths) - my_lengths
    their_breaks = np.cumsum(their_lengths) - their_lengths
    numbers = np.union1d(my_breaks, their_breaks)
    if len(numbers) > MAX_RUNS:
        raise TooManyPieces
    run = np.searchsorted(my_breaks, numbers, "right") - 1
    start = mine[run].copy()
    start[:, whole.inner] += numbers - my_breaks[run]
    shape = np.ones_like(start)
    shape[:, whole.inner] = np.diff(numbers, append=my_lengths.sum())
    run = np.searchsorted(their_breaks, numbers, "right") - 1
    first = theirs[run].copy()
    axis, steps = np.full_like(first, -1), np.zeros_like(first)
    if first.shape[1]:
        first[:, source.inner] += (numbers - their_breaks[run]) * step
        axis[:, source.inner], steps[:, source.inner] = whole.inner, step
    return Boxes(start, shape, axis, first, steps)
