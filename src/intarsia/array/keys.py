"""NumPy index keys, taken apart: pure functions of keys and lengths."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, SupportsIndex, TypeGuard

import numpy as np
import numpy.typing as npt

type IntArray = npt.NDArray[Any]


def expand_key(key: Any, ndim: int) -> list[Any]:
    """One entry per dimension (and ``None`` for new ones)."""
    keys: list[Any] = [*key] if is_tuple(key) else [key]
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
            mask: npt.NDArray[Any] = np.asarray(part)
            result.extend(np.nonzero(mask))
        else:
            result.append(part)
    return result


def normal_key(part: Any, size: int, axis: int) -> slice[Any, Any, Any] | int | IntArray:
    """A slice, a non-negative integer, or an array of non-negative integers."""
    if is_slice(part):
        return part
    given: Any = part
    if isinstance(part, SupportsIndex) and np.ndim(given) == 0:
        index = operator.index(part)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
        return index % size
    indices = np.asarray(given)
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


def window(indices: range) -> slice[int, int | None, int]:
    """The slice, the same for the same indices, that selects a range of non-negative indices."""
    if not indices:
        return slice(0, 0, 1)
    if len(indices) == 1:
        return slice(indices[0], indices[0] + 1, 1)
    stop = indices[-1] + (1 if indices.step > 0 else -1)
    return slice(indices[0], stop if stop >= 0 else None, indices.step)


def normal_axis(axis: Any, ndim: int) -> int:
    """A non-negative axis."""
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise np.exceptions.AxisError(index, ndim)
    return index % ndim


def is_slice(part: Any) -> TypeGuard[slice[Any, Any, Any]]:
    """Whether part of a key is a slice."""
    return isinstance(part, slice)


def is_tuple(key: Any) -> TypeGuard[tuple[Any, ...]]:
    """Whether a key has several parts."""
    return isinstance(key, tuple)


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a sequence."""
    return isinstance(value, Sequence)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value is a list."""
    return isinstance(value, list)


def is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value is a mapping."""
    return isinstance(value, Mapping)


def is_iterable(value: Any) -> TypeGuard[Iterable[Any]]:
    """Whether a value can be iterated over."""
    return isinstance(value, Iterable)


def is_array(value: Any) -> TypeGuard[npt.NDArray[Any]]:
    """Whether a value is a NumPy array."""
    return isinstance(value, np.ndarray)


def unpacked(arguments: Sequence[Any]) -> Sequence[Any]:
    """Arguments that may be given as one sequence."""
    return arguments[0] if len(arguments) == 1 and is_sequence(arguments[0]) else arguments


def axes_of(axis: Any) -> tuple[Any, ...]:
    """One or several axes (or shifts) as a tuple."""
    return tuple(axis) if is_iterable(axis) else (axis,)


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


def common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Shape of index arrays broadcast against each other."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        texts = " ".join(str(shape) for shape in shapes)
        raise IndexError(f"indexing arrays could not be broadcast together: {texts}") from error


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
    order = tuple(normal_axis(axis, ndim) for axis in unpacked(axes))
    if sorted(order) != list(range(ndim)):
        raise ValueError("axes don't match array")
    return order
