"""NumPy functions that put constants beside what virtual arrays hold, without loading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array.dispatch import implements
from intarsia.array.functions import broadcast_to, merged
from intarsia.array.keys import is_array, runs_of
from intarsia.array.masks import LazyMask
from intarsia.array.virtual import CASTABLE, VirtualArray
from intarsia.segments import Segments

type Vectors = Sequence[tuple[int, npt.NDArray[np.bool_]]]

NUMBERS = "biufc"


@implements(np.where)
def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Choose whole slices, where the condition varies along one dimension, or by unions of such."""
    if x is None or y is None:
        return NotImplemented
    if isinstance(x, VirtualArray) and isinstance(y, VirtualArray) and x.segments is y.segments:
        shape = np.broadcast_shapes(np.shape(condition), x.shape)
        return broadcast_to(x, shape) if x.dtype == y.dtype else NotImplemented
    if isinstance(condition, LazyMask):
        vectors = [(n, vector) for n, vector in enumerate(condition.axes) if vector is not None]
        if condition.inverted:
            x, y = y, x
    else:
        vectors = _vectors(condition)
        if vectors is None:
            return NotImplemented
    dtype = np.result_type(x, y)
    shape = np.broadcast_shapes(condition.shape, np.shape(x), np.shape(y))
    chosen, others = _spread(x, shape, dtype), _spread(y, shape, dtype)
    if chosen is None or others is None:
        return NotImplemented
    segments = others.segments
    for axis, vector in vectors:
        axis += len(shape) - condition.ndim
        segments = _choose(segments, chosen.segments, axis, np.broadcast_to(vector, shape[axis]))
    return merged([chosen, others], segments, dtype)


def _vectors(condition: Any) -> Vectors | None:
    """The one vector that a condition consists of."""
    if not is_array(condition) or condition.dtype != bool or not condition.ndim:
        return None
    along = [axis for axis, size in enumerate(condition.shape) if size != 1]
    if len(along) > 1:
        return None
    return [(along[0] if along else condition.ndim - 1, condition.reshape(-1))]


def _spread(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> VirtualArray | None:
    """A virtual array or a constant, of the whole shape; None for all else."""
    if dtype.kind not in CASTABLE:
        return None
    if isinstance(value, VirtualArray):
        return broadcast_to(value, shape).astype(dtype)
    if np.ndim(value):
        return None
    return VirtualArray.full(shape, np.asarray(value).astype(dtype), dtype)


def _choose(
    others: Segments, chosen: Segments, axis: int, vector: npt.NDArray[np.bool_]
) -> Segments:
    """Slices of `chosen` where the vector is true, and of `others` elsewhere."""
    if vector.all():
        return chosen
    if not vector.any():
        return others
    here = np.arange(len(vector))
    both = Segments.concatenate([others, chosen], axis)
    return both.take(axis, runs_of(np.where(vector, here + len(vector), here)))


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Padding with constants, or with what lies in the array."""
    if not isinstance(array, VirtualArray) or isinstance(pad_width, dict):
        return NotImplemented
    widths = np.broadcast_to(np.asarray(pad_width, np.int64), (array.ndim, 2)).tolist()
    if mode == "constant":
        return _pad_constant(array, widths, **kwargs)
    if mode not in ("wrap", "edge", "reflect", "symmetric") or 0 in array.shape:
        return NotImplemented
    if kwargs.get("reflect_type", "even") != "even":
        return NotImplemented
    for axis, (before, after) in enumerate(widths):
        if before or after:
            indices = np.pad(np.arange(array.shape[axis]), (before, after), mode)
            array = array[(*[slice(None)] * axis, indices)]
    return array


def _pad_constant(array: VirtualArray, widths: Any, constant_values: Any = 0) -> Any:
    given = np.asarray(constant_values)
    if array.dtype.kind not in NUMBERS or given.dtype.kind not in NUMBERS:
        return NotImplemented
    # as NumPy assigns the values into an array of this type
    values = np.broadcast_to(given, (array.ndim, 2)).astype(array.dtype)
    segments = array.segments
    for axis, sides in enumerate(widths):
        before, after = (
            [Segments.full(_resized(segments.shape, axis, width), value, array.dtype)]
            if width
            else []
            for width, value in zip(sides, values[axis], strict=True)
        )
        segments = Segments.concatenate([*before, segments, *after], axis)
    return array.replaced(segments)


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


@implements(np.full_like)
def _full_like(a: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
    dtype = np.dtype(a.dtype if dtype is None else dtype)
    if dtype.kind not in CASTABLE or np.ndim(fill_value):
        return NotImplemented
    shape = kwargs.get("shape")
    shape = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    return VirtualArray.full(shape, fill_value, dtype)


@implements(np.zeros_like)
def _zeros_like(a: Any, dtype: Any = None, **kwargs: Any) -> Any:
    return _full_like(a, 0, dtype, **kwargs)


@implements(np.ones_like)
def _ones_like(a: Any, dtype: Any = None, **kwargs: Any) -> Any:
    return _full_like(a, 1, dtype, **kwargs)
