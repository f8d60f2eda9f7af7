"""Values made hashable: attributes, packing numbers and coordinates that compare bit for bit.

A string stays a string; a number or an array becomes a `Typed` (type, shape, bytes), so that a
float32 scale is not a float64 scale, NaN equals itself, and 0.0 is not -0.0. The values of a small
variable become a `Content`, which compares by a digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

__all__ = ["Content", "Typed", "brief", "freeze", "freeze_items", "show", "show_value"]


class Typed(NamedTuple):
    """A number or an array of numbers, frozen with its type.

    Parameters
    ----------
    dtype
        ``dtype.str`` of the value.
    shape
        ``()`` for a scalar.
    data
        The bytes, in C order.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def value(self) -> Any:
        """The value again: a NumPy scalar, or a read-only array."""
        array = np.frombuffer(self.data, self.dtype).reshape(self.shape)
        return array if self.shape else array[()]


def freeze(value: Any) -> Hashable:
    """Make a value of an attribute hashable, keeping its type and every bit.

    Parameters
    ----------
    value
        What a netCDF or HDF5 attribute can hold: a string, a number, a NumPy scalar or array, a
        list or tuple of those, or None.

    Returns
    -------
    Hashable
        A string, an int, None, a `Typed`, or a tuple of those. Anything else is represented by
        its ``repr``.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str or kind is int or value is None:  # most are
        return value
    if kind in _SCALARS:
        return Typed(_SCALARS[kind], (), value.tobytes())
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | float | complex):
        value = np.asarray(value)[()]
    if isinstance(value, np.ndarray | np.generic):
        array: np.ndarray[Any, Any] = np.asarray(cast(Any, value))
        if array.dtype.hasobject or array.dtype.kind in "US":
            items: list[Any] = array.ravel().tolist()
            return freeze(items[0]) if not array.shape and array.size else tuple(map(freeze, items))
        return Typed(array.dtype.str, array.shape, array.tobytes())
    if isinstance(value, list | tuple):
        return tuple(freeze(member) for member in cast(Sequence[Any], value))
    return repr(value)


_SCALARS: dict[type[Any], str] = {
    np.dtype(code).type: np.dtype(code).str for code in "?bBhHiIlLefd"
}
"""Types of NumPy scalars that say all about their dtype."""


def freeze_items(attrs: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """Names and frozen values in turn, in the order of `attrs`: equal where those are equal."""
    items: list[Hashable] = []
    for name, value in attrs.items():
        items.append(name)
        items.append(value if type(value) is str else freeze(value))
    return tuple(items)


def show(frozen: Hashable, *, typed: bool = False, limit: int = 60) -> str:
    """Write a frozen value for people.

    Parameters
    ----------
    frozen
        From `freeze`.
    typed
        Whether to say the type of numbers, for values that look the same without it.
    limit
        Longer texts are cut in the middle.
    """
    if isinstance(frozen, Typed):
        value = frozen.value
        text = str(value) if not frozen.shape else np.array2string(value, threshold=6, edgeitems=2)
        text = " ".join(text.split())
        if typed:
            text = f"{text} ({np.dtype(frozen.dtype).name})"
    elif isinstance(frozen, str):
        text = repr(frozen)
    elif isinstance(frozen, tuple):
        members = cast(tuple[Hashable, ...], frozen)
        text = "[" + ", ".join(show(member, typed=typed) for member in members) + "]"
    else:
        text = "none" if frozen is None else str(frozen)
    if len(text) > limit:
        head = (limit - 3) // 2
        text = text[:head] + "..." + text[len(text) - (limit - 3 - head) :]
    return text


class Content:
    """The values of a small variable, or only a digest of them; equal where every bit is.

    Parameters
    ----------
    digest
        Anything hashable that is equal where the values are equal.
    values
        The values, where they are worth keeping.
    """

    __slots__ = ("_hash", "digest", "values")

    def __init__(self, digest: Hashable, values: np.ndarray[Any, Any] | None = None) -> None:
        self.digest = digest
        self.values = values
        self._hash = hash(digest)

    @classmethod
    def of(cls, values: np.ndarray[Any, Any]) -> Content:
        """Keep `values` (by reference) and their digest."""
        array = np.asarray(values)
        key: Hashable
        if array.dtype.hasobject:
            key = tuple((type(item).__name__, str(item)) for item in array.ravel().tolist())
        else:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            key = hashlib.blake2b(data, digest_size=16).digest()
        return cls((array.dtype.str, array.shape, key), array)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Content) and self.digest == other.digest)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Content({'digest only' if self.values is None else brief(self.values)})"


def brief(values: np.ndarray[Any, Any]) -> str:
    """Write the ends and the length of a coordinate: ``-89.5 .. 89.5 (180)``."""
    items: Any = values.reshape(-1)
    if len(items) == 0:
        return "empty"
    if len(items) == 1:
        return show_value(items[0])
    return f"{show_value(items[0])} .. {show_value(items[-1])} ({len(items)})"


def show_value(value: Any) -> str:
    """Write one value of a coordinate: seven digits, dates as short as they are."""
    kind = np.asarray(value).dtype.kind
    if kind == "M":
        return str(cast(Any, np.datetime_as_string)(value, unit="auto"))
    return f"{value:.7g}" if kind == "f" else str(value)
