"""Can these parts be? Boxes, views and overlaps of a chunk's parts, with numbers from strangers.

Every check is of columns and wraps around for no 64-bit integer: divisions stand where products
could.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptChunk

__all__ = ["check_boxes", "check_disjoint", "check_view", "check_views", "refuse"]

type IntArray = npt.NDArray[Any]
type BoolArray = npt.NDArray[np.bool_]

MAX_CHUNK_BYTES = (1 << 32) - 1
"""Bytes that one source chunk may decode to, which is HDF5's own limit; also of a chunk decoded."""

_PAIRS = 1 << 20
"""Pairs of parts that are compared at a time."""


def refuse(wrong: BoolArray, what: str) -> None:
    """Raise `CorruptChunk` for the first row that is wrong, if there is one."""
    if wrong.any():
        raise CorruptChunk(f"part {int(np.argmax(wrong))} of {len(wrong)} {what}")


def check_boxes(start: IntArray, count: IntArray, shape: Sequence[int]) -> None:
    """Refuse boxes that are empty or not inside of the chunk."""
    whole = np.array(shape, np.int64)
    wrong = (count < 1) | (count > whole) | (start < 0) | (start > whole - count)
    refuse(wrong.any(axis=1), f"is not inside of the chunk, of shape {tuple(shape)}")


def check_views(
    elements: IntArray, itemsize: IntArray, begin: IntArray, strides: IntArray, count: IntArray
) -> None:
    """Refuse views that reach beyond the elements they are of.

    Parameters
    ----------
    elements, itemsize
        Elements of each decoded source chunk, and the bytes of one.
    begin, strides
        Of the views; a stride where the count is 1 must be 0.
    count
        Positive shape of each view.
    """
    refuse((elements < 1) | (elements > MAX_CHUNK_BYTES // itemsize), "can't have its elements")
    most = elements[:, None]
    wrong = ((strides <= -most) | (strides >= most)).any(axis=1)
    refuse(wrong | (begin < 0) | (begin >= elements), "begins or strides outside of its elements")
    step = np.maximum(np.abs(strides), 1)
    near = (strides == 0) | (count - 1 <= (most - 1) // step)
    refuse(~near.all(axis=1), "reaches beyond its elements")
    reach = np.where(strides == 0, 0, count - 1) * strides
    low = begin + np.minimum(reach, 0).sum(axis=1)
    high = begin + np.maximum(reach, 0).sum(axis=1)
    refuse((low < 0) | (high >= elements), "reaches beyond its elements")


def check_view(
    elements: int, itemsize: int, begin: int, strides: Sequence[int], count: Sequence[int]
) -> None:
    """Refuse one view for the same reasons; many times as fast for one.

    Raises
    ------
    CorruptChunk
        If it reaches beyond the elements.
    """
    if not 1 <= elements <= MAX_CHUNK_BYTES // itemsize:
        raise CorruptChunk(f"the chunk can't have {elements} elements")
    reach = [(n - 1) * stride for n, stride in zip(count, strides, strict=True)]
    low = begin + sum(step for step in reach if step < 0)
    high = begin + sum(step for step in reach if step > 0)
    if begin < 0 or low < 0 or high >= elements:
        raise CorruptChunk(f"the chunk reaches from {low} to {high} of {elements} elements")


def check_disjoint(low: IntArray, high: IntArray) -> None:
    """Refuse boxes that overlap: which of them is meant, nobody could tell.

    Along the dimension in which the fewest pairs of boxes meet, those pairs are compared.

    Parameters
    ----------
    low, high
        Shape (boxes, ndim): corners of non-empty boxes.
    """
    total = len(low)
    if total == 1:
        return
    sorted_dims = sorted(
        (_sorted(low[:, dim], high[:, dim]) for dim in range(low.shape[1])), key=_pairs
    )
    if sorted_dims:
        order, meets = sorted_dims[0]
    else:  # without dimensions all boxes are the same
        order, meets = np.arange(total), np.arange(total)[::-1]
    ends = np.cumsum(meets)
    begin = 0
    while begin < total:
        done = ends[begin] - meets[begin]
        end = max(int((ends <= done + _PAIRS).sum()), begin + 1)
        few = meets[begin:end]
        left = np.repeat(np.arange(begin, end), few)
        right = np.arange(len(left)) - np.repeat(np.cumsum(few) - few, few) + left + 1
        left, right = order[left], order[right]
        for dim in range(low.shape[1]):
            clash = low[:, dim][left] < high[:, dim][right]
            clash &= low[:, dim][right] < high[:, dim][left]
            left, right = left[clash], right[clash]
        if len(left):
            pair = sorted((int(left[0]), int(right[0])))
            raise CorruptChunk(f"parts {pair[0]} and {pair[1]} of {total} overlap")
        begin = end


def _sorted(low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
    """Intervals in order, and for each how many that come after it begin before it ends."""
    order = np.argsort(low, kind="stable")
    last: Any = np.searchsorted(low[order], high[order], side="left")
    return order, last - np.arange(len(low)) - 1


def _pairs(found: tuple[IntArray, IntArray]) -> int:
    return int(found[1].sum())
