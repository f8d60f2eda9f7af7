"""NumPy functions that move, join and repeat virtual arrays, without loading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia.array.dispatch import implements
from intarsia.array.keys import axes_of, is_array, normal_axis
from intarsia.array.virtual import CASTABLE, VirtualArray
from intarsia.segments import Segments


def as_virtual(arrays: Sequence[Any], dtype: np.dtype[Any]) -> list[VirtualArray] | None:
    """All as virtual arrays of one dtype, or ``None`` where one can't be."""
    if dtype.kind not in CASTABLE:
        return None
    result: list[VirtualArray] = []
    for array in arrays:
        item: Any = array
        if is_array(item) and item.dtype.kind in CASTABLE:
            item = VirtualArray.inline(item)
        if not isinstance(item, VirtualArray):
            return None
        result.append(item.astype(dtype))
    return result


def merged(arrays: Sequence[VirtualArray], segments: Segments, dtype: np.dtype[Any]) -> Any:
    """An array of `segments` with the notes of those it was made from, and a name all have."""
    names = {array.name for array in arrays if array.name is not None}
    name = names.pop() if len(names) == 1 else None
    notes = frozenset[str]().union(*{array.notes for array in arrays})
    return VirtualArray(segments, dtype, name, notes)


@implements(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, **kwargs: Any) -> Any:
    arrays = list(arrays)
    if out is not None or kwargs or axis is None:
        return NotImplemented
    dtype = np.result_type(*{array.dtype for array in arrays})
    virtual = as_virtual(arrays, dtype)
    if virtual is None:
        return NotImplemented
    axis = normal_axis(axis, virtual[0].ndim)
    first = virtual[0].shape
    for array in virtual:
        if array.ndim != len(first) or any(
            a != b for n, (a, b) in enumerate(zip(array.shape, first, strict=True)) if n != axis
        ):
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match "
                f"exactly: {first} and {array.shape}"
            )
    joined = Segments.concatenate([array.segments for array in virtual], axis)
    return merged(virtual, joined, dtype)


@implements(np.stack)
def _stack(arrays: Any, axis: Any = 0, out: Any = None, **kwargs: Any) -> Any:
    arrays = list(arrays)
    if out is not None or kwargs:
        return NotImplemented
    if any(array.shape != arrays[0].shape for array in arrays):
        raise ValueError("all input arrays must have the same shape")
    place = normal_axis(axis, arrays[0].ndim + 1)
    return _concatenate([np.expand_dims(array, place) for array in arrays], place)


@implements(np.hstack)
def _hstack(tup: Any, **kwargs: Any) -> Any:
    arrays = list(tup)
    if kwargs or any(np.ndim(array) < 1 for array in arrays):
        return NotImplemented
    return _concatenate(arrays, min(arrays[0].ndim - 1, 1))


@implements(np.vstack)
def _vstack(tup: Any, **kwargs: Any) -> Any:
    arrays = list(tup)
    if kwargs or any(np.ndim(array) < 2 for array in arrays):
        return NotImplemented
    return _concatenate(arrays, 0)


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    if not isinstance(a, VirtualArray):
        return NotImplemented
    given = axes_of(axis)
    ndim = a.ndim + len(given)
    places = {normal_axis(one, ndim) for one in given}
    if len(places) < len(given):
        raise ValueError("repeated axis")
    rest = iter([slice(None)] * a.ndim)
    return a[tuple(None if n in places else next(rest) for n in range(ndim))]


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    if not isinstance(a, VirtualArray):
        return NotImplemented
    if axis is None:
        axes = {n for n, size in enumerate(a.shape) if size == 1}
    else:
        axes = {normal_axis(one, a.ndim) for one in axes_of(axis)}
        if any(a.shape[one] != 1 for one in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return a[tuple(0 if n in axes else slice(None) for n in range(a.ndim))]


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """As `numpy.broadcast_to`: dimensions are repeated without a copy."""
    if not isinstance(array, VirtualArray):
        return NotImplemented
    shape = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    if shape == array.shape:
        return array
    # raises as NumPy does where the shapes don't fit
    np.broadcast_to(np.broadcast_to(np.empty((), np.uint8), array.shape), shape)
    segments = array.segments
    for _ in range(len(shape) - array.ndim):
        segments = segments.insert(0)
    for axis, size in enumerate(shape):
        if segments.shape[axis] != size:
            segments = segments.repeat(axis, size)
    return array.replaced(segments)


@implements(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    if not isinstance(a, VirtualArray):
        return NotImplemented
    return a.transpose() if axes is None else a.transpose(tuple(axes))


@implements(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    if not isinstance(a, VirtualArray):
        return NotImplemented
    moved = [normal_axis(axis, a.ndim) for axis in axes_of(source)]
    places = [normal_axis(place, a.ndim) for place in axes_of(destination)]
    order = [axis for axis in range(a.ndim) if axis not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return a.transpose(tuple(order))


@implements(np.swapaxes)
def _swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    if not isinstance(a, VirtualArray):
        return NotImplemented
    order = list(range(a.ndim))
    one, two = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    order[one], order[two] = order[two], order[one]
    return a.transpose(tuple(order))


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    if not isinstance(m, VirtualArray):
        return NotImplemented
    given = range(m.ndim) if axis is None else axes_of(axis)
    axes = {normal_axis(one, m.ndim) for one in given}
    return m[tuple(slice(None, None, -1) if n in axes else slice(None) for n in range(m.ndim))]


@implements(np.take)
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    if not isinstance(a, VirtualArray) or isinstance(indices, VirtualArray):
        return NotImplemented
    if axis is None or out is not None or mode != "raise":
        return NotImplemented
    return a[(*[slice(None)] * normal_axis(axis, a.ndim), np.asarray(indices))]


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if not isinstance(a, VirtualArray) or axis is None:
        return NotImplemented
    shifts, axes = axes_of(shift), axes_of(axis)
    if len(shifts) != len(axes):
        return NotImplemented
    result: VirtualArray = a
    for by, place in zip(shifts, axes, strict=True):
        place = normal_axis(place, a.ndim)
        indices = np.roll(np.arange(a.shape[place]), by)
        result = result[(*[slice(None)] * place, indices)]
    return result


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is None or isinstance(repeats, VirtualArray):
        return NotImplemented
    axis = normal_axis(axis, a.ndim)
    places = np.arange(int(a.shape[axis]))
    return a[(*[slice(None)] * axis, np.repeat(places, np.asarray(repeats, np.int64)))]


@implements(np.result_type)
def _result_type(*arrays: Any) -> Any:
    return np.result_type(*(a.dtype if isinstance(a, VirtualArray) else a for a in arrays))


@implements(np.shape)
def _shape(a: Any) -> Any:
    return a.shape


@implements(np.ndim)
def _ndim(a: Any) -> Any:
    return a.ndim


@implements(np.size)
def _size(a: Any, axis: Any = None) -> Any:
    if axis is None:
        return a.size
    return int(np.prod([a.shape[one] for one in axes_of(axis)]))
