"""Masks that xarray makes when it reindexes: unions of whole slices, never spread out in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array.dispatch import Unloaded, call_function

type IntArray = npt.NDArray[Any]


class LazyMask(Unloaded):
    """A boolean array that is the union of whole slices: along each axis, which indices are in.

    Parameters
    ----------
    axes
        For each axis, a boolean vector or ``None`` (no slice along it).
    shape
        Shape of the mask.
    inverted
        Whether the mask is true outside the slices instead.
    """

    __slots__ = ("axes", "inverted", "shape")

    dtype = np.dtype(bool)

    def __init__(
        self,
        axes: tuple[npt.NDArray[np.bool_] | None, ...],
        shape: tuple[int, ...],
        inverted: bool = False,
    ) -> None:
        self.axes = axes
        self.shape = shape
        self.inverted = inverted

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def astype(self, dtype: npt.DTypeLike, *args: Any, **kwargs: Any) -> Any:
        """The mask itself for bool, else its values cast."""
        if np.dtype(dtype) == self.dtype:
            return self
        return np.asarray(self).astype(dtype)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, LazyMask) or self.inverted or other.inverted:
            return np.asarray(self) | np.asarray(other)
        axes = tuple(
            mine if theirs is None else theirs if mine is None else mine | theirs
            for mine, theirs in zip(self.axes, other.axes, strict=True)
        )
        return LazyMask(axes, np.broadcast_shapes(self.shape, other.shape))

    __ror__ = __or__

    def __invert__(self) -> LazyMask:
        return LazyMask(self.axes, self.shape, not self.inverted)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        inside = np.zeros(self.shape, bool)
        for axis, vector in enumerate(self.axes):
            if vector is not None:
                inside |= vector.reshape([-1 if n == axis else 1 for n in range(self.ndim)])
        values = ~inside if self.inverted else inside
        return values if dtype is None else values.astype(dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            if ufunc in (np.logical_not, np.invert):
                return ~self
            if ufunc in (np.logical_or, np.bitwise_or) and len(inputs) == 2:
                return inputs[0] | inputs[1] if inputs[0] is self else inputs[1] | inputs[0]
        plain = [np.asarray(item) if isinstance(item, LazyMask) else item for item in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return call_function(func, types, args, kwargs)


class LazyKey:
    """Indices along one axis, as xarray hands them to be compared with -1.

    Parameters
    ----------
    indices
        Integer array with at most one dimension longer than one.
    """

    __slots__ = ("indices",)

    def __init__(self, indices: IntArray) -> None:
        self.indices = indices

    def __eq__(self, other: object) -> Any:
        found = self.indices == other
        axes: list[npt.NDArray[np.bool_] | None] = [None] * found.ndim
        along = [axis for axis, size in enumerate(found.shape) if size != 1]
        axis = along[0] if along else 0
        axes[axis] = found.reshape(-1)
        return LazyMask(tuple(axes), found.shape)

    __hash__ = None  # type: ignore[assignment]
