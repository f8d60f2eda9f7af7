"""NumPy functions that lazy arrays carry out without being loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array.base import FUNCTIONS, LazyArray
from intarsia.array.keys import normal_axis
from intarsia.array.masks import LazyMask
from intarsia.array.virtual import CASTABLE, VirtualArray
from intarsia.segments import Segments


def _as_virtual(arrays: Sequence[Any], dtype: np.dtype[Any]) -> list[VirtualArray] | None:
    """All as virtual arrays of one dtype, or ``None`` where one can't be."""
    if dtype.kind not in CASTABLE:
        return None
    result: list[VirtualArray] = []
    for array in arrays:
        if isinstance(array, np.ndarray) and array.dtype.kind in CASTABLE:
            array = VirtualArray.inline(array)
        if not isinstance(array, VirtualArray):
            return None
        result.append(array.astype(dtype))
    return result


def _merged(arrays: Sequence[VirtualArray], segments: Segments, dtype: np.dtype[Any]) -> Any:
    name = next((array.name for array in arrays if array.name is not None), None)
    sets = {array.notes for array in arrays}
    notes = frozenset[str]().union(*sets)
    return VirtualArray(segments, dtype, name, notes)


def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, **kwargs: Any) -> Any:
    arrays = list(arrays)
    if out is not None or kwargs or axis is None:
        return NotImplemented
    dtype = np.result_type(*{array.dtype for array in arrays})
    virtual = _as_virtual(arrays, dtype)
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
    return _merged(virtual, joined, dtype)


def _stack(arrays: Any, axis: Any = 0, out: Any = None, **kwargs: Any) -> Any:
    arrays = list(arrays)
    if out is not None or kwargs:
        return NotImplemented
    place = normal_axis(axis, arrays[0].ndim + 1)
    return _concatenate([np.expand_dims(array, place) for array in arrays], place)


def _expand_dims(array: Any, axis: Any) -> Any:
    if not isinstance(array, VirtualArray):
        return NotImplemented
    axes = axis if isinstance(axis, Sequence) else (axis,)
    ndim = array.ndim + len(axes)
    segments = array.segments
    for place in sorted(normal_axis(one, ndim) for one in axes):
        segments = segments.insert(place)
    return array._with(segments)


def _squeeze(array: Any, axis: Any = None) -> Any:
    if not isinstance(array, VirtualArray):
        return NotImplemented
    if axis is None:
        axes = {n for n, size in enumerate(array.shape) if size == 1}
    else:
        given = axis if isinstance(axis, Sequence) else (axis,)
        axes = {normal_axis(one, array.ndim) for one in given}
        if any(array.shape[one] != 1 for one in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return array[tuple(0 if n in axes else slice(None) for n in range(array.ndim))]


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    if not isinstance(array, VirtualArray):
        return NotImplemented
    shape = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    # raises as NumPy does where the shapes don't fit
    np.broadcast_to(np.broadcast_to(np.empty((), np.uint8), array.shape), shape)
    segments = array.segments
    for _ in range(len(shape) - array.ndim):
        segments = segments.insert(0)
    for axis, size in enumerate(shape):
        if segments.shape[axis] != size:
            segments = segments.repeat(axis, size)
    return array._with(segments)


def _transpose(a: LazyArray, axes: Any = None) -> Any:
    return a.transpose() if axes is None else a.transpose(tuple(axes))


def _moveaxis(a: LazyArray, source: Any, destination: Any) -> Any:
    sources = [source] if np.ndim(source) == 0 else list(source)
    places = [destination] if np.ndim(destination) == 0 else list(destination)
    moved = [normal_axis(axis, a.ndim) for axis in sources]
    order = [axis for axis in range(a.ndim) if axis not in moved]
    for place, axis in sorted(zip([normal_axis(p, a.ndim) for p in places], moved, strict=True)):
        order.insert(place, axis)
    return a.transpose(tuple(order))


def _swapaxes(a: LazyArray, axis1: Any, axis2: Any) -> Any:
    order = list(range(a.ndim))
    one, two = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    order[one], order[two] = order[two], order[one]
    return a.transpose(tuple(order))


def _flip(m: Any, axis: Any = None) -> Any:
    if not isinstance(m, VirtualArray):
        return NotImplemented
    given = range(m.ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    axes = {normal_axis(one, m.ndim) for one in given}
    return m[tuple(slice(None, None, -1) if n in axes else slice(None) for n in range(m.ndim))]


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Keep `x` outside whole slices, and put the constant `y` into them."""
    if not isinstance(condition, LazyMask) or not condition.inverted:
        return NotImplemented
    if not isinstance(x, VirtualArray) or np.ndim(y) or isinstance(y, LazyArray):
        return NotImplemented
    dtype = np.result_type(x, y)
    if dtype.kind not in CASTABLE or condition.shape != x.shape:
        return NotImplemented
    segments: Segments = x.astype(dtype).segments
    for axis, vector in enumerate(condition.axes):
        if vector is not None and vector.any():
            segments = _fill(segments, axis, vector, y, dtype)
    return VirtualArray(segments, dtype, x.name, x.notes)


def _fill(
    segments: Segments, axis: int, vector: npt.NDArray[np.bool_], value: Any, dtype: np.dtype[Any]
) -> Segments:
    edges = np.flatnonzero(np.diff(vector)) + 1
    parts: list[Segments] = []
    begin = 0
    for end in [*edges.tolist(), len(vector)]:
        if vector[begin]:
            shape = _resized(segments.shape, axis, end - begin)
            parts.append(Segments.full(shape, value, dtype))
        else:
            key = [slice(None)] * segments.ndim
            key[axis] = slice(begin, end)
            parts.append(segments.select(key))
        begin = end
    return Segments.concatenate(parts, axis)


def _result_type(*arrays: Any) -> Any:
    return np.result_type(*(a.dtype if isinstance(a, LazyArray) else a for a in arrays))


def _full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, **kwargs: Any) -> Any:
    dtype = np.dtype(a.dtype if dtype is None else dtype)
    if dtype.kind not in CASTABLE or np.ndim(fill_value):
        return NotImplemented
    return VirtualArray.full(a.shape if shape is None else shape, fill_value, dtype)


def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Constant padding, one value for all sides."""
    value = kwargs.pop("constant_values", 0)
    if mode != "constant" or kwargs or np.ndim(value) or not isinstance(array, VirtualArray):
        return NotImplemented
    if array.dtype.kind not in "biufc" or np.asarray(value).dtype.kind not in "biufc":
        return NotImplemented
    widths = np.broadcast_to(np.asarray(pad_width, np.int64), (array.ndim, 2)).tolist()
    # as NumPy assigns the value into an array of this type
    filled = np.full((), value, array.dtype)
    segments = array.segments
    for axis, sides in enumerate(widths):
        before, after = (
            [Segments.full(_resized(segments.shape, axis, n), filled, array.dtype)] if n else []
            for n in sides
        )
        segments = Segments.concatenate([*before, segments, *after], axis)
    return VirtualArray(segments, array.dtype, array.name, array.notes)


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


FUNCTIONS |= {
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.expand_dims: _expand_dims,
    np.squeeze: _squeeze,
    np.broadcast_to: _broadcast_to,
    np.transpose: _transpose,
    np.moveaxis: _moveaxis,
    np.swapaxes: _swapaxes,
    np.flip: _flip,
    np.pad: _pad,
    np.where: _where,
    np.result_type: _result_type,
    np.full_like: _full_like,
    np.zeros_like: lambda a, dtype=None, **kwargs: _full_like(a, 0, dtype),
    np.ones_like: lambda a, dtype=None, **kwargs: _full_like(a, 1, dtype),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
}
