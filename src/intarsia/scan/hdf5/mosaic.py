"""Boxes laid on top of one another, as disjoint boxes: what shows of each, and what stays bare."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

type IntArray = npt.NDArray[np.int64]

BARE = -1
"""The owner of what no box covers."""

MAX_CELLS = 1 << 23
"""Boxes whose edges make a finer grid are too entangled."""


class TooEntangled(Exception):
    """There are too many boxes of too many edges to say what shows of each."""


class Mosaic(NamedTuple):
    """Disjoint boxes that cover a whole.

    Parameters
    ----------
    owner
        Which of the boxes that were laid shows in each; `BARE` for none.
    start, shape
        First index and lengths, a row for each.
    overlapping
        Whether boxes covered others.
    """

    owner: IntArray
    start: IntArray
    shape: IntArray
    overlapping: bool


def lay(start: IntArray, shape: IntArray, whole: tuple[int, ...]) -> Mosaic:
    """Lay boxes in their order, the later ones on top.

    Parameters
    ----------
    start, shape
        Of the boxes, which lie inside; shape (boxes, dimensions).
    whole
        Shape of the whole, which has elements.

    Raises
    ------
    TooEntangled
        The grid that the edges of the boxes make is too fine.
    """
    edges = [
        np.unique(np.concatenate([start[:, n], start[:, n] + shape[:, n], [0, size]]))
        for n, size in enumerate(whole)
    ]
    grid = [len(edge) - 1 for edge in edges]
    if prod(grid) > MAX_CELLS:
        raise TooEntangled
    owners = np.full(grid, BARE, np.int32)
    low = [np.searchsorted(edge, start[:, n]).tolist() for n, edge in enumerate(edges)]
    high = [
        np.searchsorted(edge, start[:, n] + shape[:, n]).tolist() for n, edge in enumerate(edges)
    ]
    for number in range(len(start)):
        window = tuple(slice(a[number], b[number]) for a, b in zip(low, high, strict=True))
        owners[window] = number
    owner, first, last = _runs(owners)
    starts = np.stack([edge[first[:, n]] for n, edge in enumerate(edges)], 1)
    ends = np.stack([edge[last[:, n]] for n, edge in enumerate(edges)], 1)
    shapes = ends - starts
    laid, shown = (sum(map(prod, boxes.tolist())) for boxes in (shape, shapes[owner != BARE]))
    return Mosaic(owner, starts, shapes, laid != shown)


def _runs(owners: npt.NDArray[Any]) -> tuple[IntArray, IntArray, IntArray]:
    """Owner, first cells and ends of boxes of cells of one owner, as large as come easily."""
    rank = owners.ndim
    flat = owners.reshape(-1, owners.shape[-1]) if rank else owners.reshape(1, 1)
    new = np.ones(flat.shape, bool)
    new[:, 1:] = flat[:, 1:] != flat[:, :-1]
    row, column = np.nonzero(new)
    end = np.append(column[1:], 0)
    end[np.append(row[1:] != row[:-1], True)] = flat.shape[1]
    owner = flat[row, column].astype(np.int64)
    outer = np.unravel_index(row, owners.shape[:-1]) if rank > 1 else ()
    first = np.stack([*outer, column], 1)[:, :rank].astype(np.int64)
    last = np.stack([*(index + 1 for index in outer), end], 1)[:, :rank].astype(np.int64)
    for axis in range(rank - 2, -1, -1):
        owner, first, last = _merged(owner, first, last, axis)
    order = np.lexsort(first.T[::-1]) if rank else np.arange(len(owner))
    return owner[order], first[order], last[order]


def _merged(
    owner: IntArray, first: IntArray, last: IntArray, axis: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Join boxes of one owner that are the same but for their place along an axis, and adjacent."""
    others = [n for n in range(first.shape[1]) if n != axis]
    keys = [first[:, axis], *(last[:, n] for n in others), *(first[:, n] for n in others), owner]
    order = np.lexsort(keys)
    owner, first, last = owner[order], first[order], last[order]
    same = owner[1:] == owner[:-1]
    same &= (first[1:, others] == first[:-1, others]).all(axis=1)
    same &= (last[1:, others] == last[:-1, others]).all(axis=1)
    same &= first[1:, axis] == last[:-1, axis]
    begin = np.flatnonzero(np.append(True, ~same))
    end = np.append(begin[1:], len(owner)) - 1
    joined = last[begin].copy()
    joined[:, axis] = last[end, axis]
    return owner[begin], first[begin], joined
