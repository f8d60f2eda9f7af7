"""NumPy index keys, taken apart: pure functions of keys and lengths."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

type IntArray = npt.NDArray[Any]


def expand_key(key: Any, ndim: int) -> list[Any]:
    """One entry per dimension (and ``None`` for new ones)."""
    keys: list[Any] = list(key) if isinstance(key, tuple) else [key]
    used = sum(
        np.ndim(part) if _is_mask(part) else 1
        for part in keys
        if part is not None and part is not Ellipsis
    )
    if used > ndim:
        raise IndexError(f"too many indices: array is {ndim}-dimensional, got {used}")
    places = [n for n, part in enumerate(keys) if part is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = places[0] if places else len(keys)
    fill = [slice(None)] * (ndim - used)
    keys = keys[:place] + fill + keys[place + bool(places) :]
    result: list[Any] = []
    for part in keys:
        if _is_mask(part):
            result.extend(np.nonzero(np.asarray(part)))
        else:
            result.append(part)
    return result


def normal_key(part: Any, size: int, axis: int) -> slice | int | IntArray:
    """A slice, a non-negative integer, or an array of non-negative integers."""
    if isinstance(part, slice):
        return part
    if isinstance(part, SupportsIndex) and np.ndim(part) == 0:
        index = operator.index(part)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
        return index % size
    indices = np.asarray(part)
    if indices.size == 0:
        indices = indices.astype(np.int64)
    if indices.dtype.kind not in "iu":
        raise IndexError(
            "only integers, slices, ellipsis, None and integer or boolean arrays index"
        )
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise IndexError(f"an index is out of bounds for axis {axis} with size {size}")
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + size, indices)


def normal_axis(axis: Any, ndim: int) -> int:
    """A non-negative axis."""
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise np.exceptions.AxisError(index, ndim)
    return index % ndim


def are_apart(axes: Sequence[int]) -> bool:
    """Whether NumPy puts the dimensions of advanced indices along `axes` first.

    It does so where a slice stands between them, for want of a better place.
    """
    return any(b - a > 1 for a, b in pairwise(axes))


def runs_of(indices: IntArray) -> list[tuple[int, int, int]]:
    """Cut a vector into runs (start, step, count) of constant step.

    Examples
    --------
    >>> runs_of(np.array([0, 1, 2, 7, 7, 5]))
    [(0, 1, 3), (7, 0, 2), (5, 1, 1)]
    """
    runs: list[tuple[int, int, int]] = []
    steps = np.diff(indices)
    changes = np.append(np.flatnonzero(np.diff(steps)) + 1, len(steps))
    place = 0
    while place < len(indices):
        if place == len(indices) - 1:
            runs.append((int(indices[place]), 1, 1))
            break
        end = int(changes[np.searchsorted(changes, place, side="right")])
        runs.append((int(indices[place]), int(steps[place]), end - place + 1))
        place = end + 1
    return runs


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_ and np.ndim(part) > 0


def owners_of(arrays: Mapping[int, IntArray], ndim: int) -> list[int | None] | None:
    """Which array varies along each dimension of their broadcast shape.

    Returns
    -------
    list or None
        For each of the `ndim` dimensions the key of its array, or None where it is of length one.
        None as a whole if an array varies along several dimensions, or two along the same.
    """
    owners: list[int | None] = [None] * ndim
    for key, array in arrays.items():
        along = [dim + ndim - array.ndim for dim, size in enumerate(array.shape) if size != 1]
        if len(along) != 1 or owners[along[0]] is not None:
            return None
        owners[along[0]] = key
    return owners


def permutation(axes: Sequence[Any], ndim: int) -> tuple[int, ...]:
    """The order of dimensions that `transpose` is asked for."""
    if not axes or tuple(axes) == (None,):
        return tuple(reversed(range(ndim)))
    given: Any = axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes
    order = tuple(normal_axis(axis, ndim) for axis in given)
    if sorted(order) != list(range(ndim)):
        raise ValueError("axes don't match array")
    return order
