"""Which values an unlike file holds: each element encodes its own position in the whole picture.

Two elements of a picture never share a stored value (as far as the element type has room), so that
a chunk put at the wrong place, a wrong step, or a swapped axis shows in the values themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.unlike.brief import Brief

if TYPE_CHECKING:
    from tests.unlike.specs import GroupSpec, VariableSpec


@dataclass(frozen=True, repr=False)
class Position(Brief):
    """Where a variable lies in the whole picture.

    Attributes
    ----------
    axes
        ``(dim, start, step, extent)``: element i of `dim` is element ``start + i * step`` of
        `extent` elements of the whole. Dimensions not named lie at ``(0, 1, size)``.
    base
        Added to every value, so that two variables differ.
    sprinkle
        Every `every`-th position (by a fixed scramble) holds one of these values instead: fill
        values, NaN, infinities, extremes of the type.
    every
        How sparse the sprinkled values are.
    """

    axes: tuple[tuple[str, int, int, int], ...] = ()
    base: int = 0
    sprinkle: tuple[float | int, ...] = ()
    every: int = 7

    @classmethod
    def at(cls, start: Mapping[str, int], extent: Mapping[str, int], **options: Any) -> Position:
        """A position from starts and extents per dimension, step 1."""
        return cls(tuple((d, start.get(d, 0), 1, n) for d, n in sorted(extent.items())), **options)

    def ravelled(self, dims: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
        """int64 array of `shape`: each element's number in the whole, whatever the order of dims.

        The whole is ravelled in C order over the sorted dimension names.
        """
        known = {d: (start, step, extent) for d, start, step, extent in self.axes}
        number = np.zeros(shape, dtype=np.int64)
        stride = 1
        for dim in sorted(dims, reverse=True):
            axis = dims.index(dim)
            start, step, extent = known.get(dim, (0, 1, shape[axis]))
            where = start + step * np.arange(shape[axis], dtype=np.int64)
            lined_up = where.reshape([-1 if i == axis else 1 for i in range(len(dims))])
            number = number + stride * lined_up
            stride *= max(extent, 1)
        return number


def stored_values(group: GroupSpec, var: VariableSpec) -> np.ndarray:
    """The elements of `var` as written, of type `var.dtype`, before any filter.

    Chunks that are never written hold these values nowhere; `held_values` is what a reader sees.
    """
    shape = group.extent(var)
    if var.literal is not None:
        values = np.asarray(var.literal)
        return np.ascontiguousarray(np.broadcast_to(values, shape).astype(var.dtype))
    number = var.position.ravelled(var.dims, shape) + var.position.base
    out = _cast(number, var.dtype)
    if var.position.sprinkle:
        scramble = (number * 2654435761) % 2**32
        chosen = scramble % var.position.every == 0
        which = (scramble // var.position.every) % len(var.position.sprinkle)
        options = _exact(var.position.sprinkle, var.dtype)
        out[chosen] = options[which[chosen]]
    return out


def held_values(group: GroupSpec, var: VariableSpec) -> np.ndarray:
    """The stored elements that HDF5 gives back: `stored_values`, with fill where never written."""
    values = stored_values(group, var)
    fill = np.zeros((), var.dtype) if var.fill is None else _exact((var.fill,), var.dtype)[0]
    if var.unwritten == "all":
        values[...] = fill
        return values
    for index in var.unwritten:
        assert var.chunks is not None, f"{var.name}: only chunked data has unwritten chunks"
        window = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, var.chunks, strict=True))
        values[window] = fill
    return values


def _cast(number: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        wrapped = number.astype(np.int64) & np.int64(-1 if bits == 64 else 2**bits - 1)
        return (
            wrapped.astype(f"u{dtype.itemsize}").view(f"{dtype.kind}{dtype.itemsize}").astype(dtype)
        )
    if dtype.kind == "f":
        # a half keeps every number distinct past the integers, and rounding differs per type
        return (number.astype(np.float64) * 1.0625 + 0.1).astype(dtype)
    raise TypeError(f"no coordinate values for {dtype}")


def _exact(values: tuple[float | int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    return np.array([np.array(v).astype(dtype) for v in values], dtype=dtype)
