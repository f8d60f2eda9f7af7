"""Types and small checks of JSON that cases are made of."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

MAX_ITEMSIZE = 1 << 20
"""Bytes of a fixed-length string."""

NUMBERS = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_NAMES = {np.dtype(name): name for name in NUMBERS}
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
_TIMES = {"numpy.datetime64": "M", "numpy.timedelta64": "m"}
_STRINGS = {"null_terminated_bytes": ("S", 1), "fixed_length_utf32": ("U", 4)}
_NUMBER = re.compile(r"[<>|][biufc][0-9]{1,2}")
_STRING = re.compile(r"([<>|])([SU])([1-9][0-9]{0,6})")
_TIME = re.compile(r"([<>])([Mm])8(?:\[([1-9][0-9]{0,8})?([a-zA-Z]{1,2})\])?")


def text_of(value: Any) -> str:
    """A value from a stranger, short enough for a message."""
    return reprlib.repr(value)


def fail(what: str, value: Any, wanted: str) -> ValueError:
    """The error for a value that is not what it has to be."""
    return ValueError(f"{what} must be {wanted}, got {text_of(value)}")


def entries(
    value: Any, what: str, needed: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Any]:
    """An object that has all the needed entries and no unknown ones.

    Raises
    ------
    ValueError
        If it isn't.
    """
    if not isinstance(value, dict):
        raise fail(what, value, "an object")
    found = cast("dict[str, Any]", value)
    missing = [name for name in needed if name not in found]
    unknown = [name for name in found if name not in needed and name not in optional]
    if missing or unknown:
        says = [f"lacks {', '.join(missing)}"] if missing else []
        says += [f"has the unknown {text_of(unknown)}"] if unknown else []
        raise ValueError(f"{what} {' and '.join(says)}")
    return found


def data_type_json(dtype: np.dtype[Any]) -> Any:
    """Zarr's name of a type, whatever its byte order.

    Raises
    ------
    ValueError
        If Zarr has none for it.
    """
    native = dtype.newbyteorder("=")
    name = _NAMES.get(native)
    if name is not None:
        return name
    if native.kind in "SU" and 0 < native.itemsize <= MAX_ITEMSIZE:
        name = "null_terminated_bytes" if native.kind == "S" else "fixed_length_utf32"
        return {"name": name, "configuration": {"length_bytes": native.itemsize}}
    if native.kind in "Mm":
        name = "numpy.datetime64" if native.kind == "M" else "numpy.timedelta64"
        unit, factor = np.datetime_data(native)
        return {"name": name, "configuration": {"unit": unit, "scale_factor": factor}}
    raise ValueError(f"Zarr has no data type for {dtype}")


def data_type_of(value: Any) -> np.dtype[Any]:
    """The type of a name, in native byte order.

    Raises
    ------
    ValueError
        If it is not known.
    """
    if isinstance(value, str) and value in NUMBERS:
        return np.dtype(value)
    if isinstance(value, dict):
        found = entries(cast("Any", value), "data_type", ("name", "configuration"))
        name, config = found["name"], found["configuration"]
        if name in ("null_terminated_bytes", "fixed_length_utf32"):
            kind, width = _STRINGS[name]
            size = entries(config, name, ("length_bytes",))["length_bytes"]
            if type(size) is not int or not 0 < size <= MAX_ITEMSIZE or size % width:
                raise fail("length_bytes", size, f"a multiple of {width} up to {MAX_ITEMSIZE}")
            return np.dtype((kind, size // width))
        if name in ("numpy.datetime64", "numpy.timedelta64"):
            times = entries(config, name, ("unit", "scale_factor"))
            unit, factor = times["unit"], times["scale_factor"]
            if unit not in _UNITS or type(factor) is not int or not 0 < factor < 1 << 31:
                raise fail(name, config, "of a known unit and a positive factor")
            return _time(_TIMES[name], unit, factor)
    raise fail("data_type", value, "one that cases may have")


def _time(kind: str, unit: str, factor: int) -> np.dtype[Any]:
    if unit == "generic":
        if factor != 1:
            raise ValueError("times without a unit have no factor")
        return np.dtype(f"{kind}8")
    return np.dtype(f"{kind}8[{factor}{unit}]")


def _ordered(dtype: np.dtype[Any], order: Any) -> np.dtype[Any]:
    return dtype.newbyteorder(order)


def typestr(dtype: np.dtype[Any]) -> str:
    """NumPy's text of a type, byte order included.

    Raises
    ------
    ValueError
        If Zarr has no data type for it.
    """
    data_type_json(dtype)
    return dtype.str


def dtype_of(value: Any) -> np.dtype[Any]:
    """The type of such a text.

    Raises
    ------
    ValueError
        If it is none, or not written as NumPy does.
    """
    dtype: np.dtype[Any] | None = None
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            numbers = [d for d in _NAMES if d.str[1:] == value[1:]]
            dtype = _ordered(numbers[0], value[0]) if numbers else None
        elif found := _STRING.fullmatch(value):
            order, kind, length = found.groups()
            if int(length) * (4 if kind == "U" else 1) <= MAX_ITEMSIZE:
                dtype = _ordered(np.dtype((kind, int(length))), order)
        elif found := _TIME.fullmatch(value):
            order, kind, factor, unit = found.groups()
            if unit is None or unit in _UNITS:
                factor = int(factor or 1)
                if factor < 1 << 31:
                    dtype = _ordered(_time(kind, unit or "generic", factor), order)
    if dtype is None or dtype.str != value:
        raise fail("a parameter's type", value, "one that cases may have")
    return dtype
