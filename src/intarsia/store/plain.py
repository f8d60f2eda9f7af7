"""What every Zarr reader finds: values of types that Zarr has, and attributes as readable JSON."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

__all__ = ["Plain", "plain_attributes", "plain_json"]

type Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """Values as Zarr has them.

    Parameters
    ----------
    array
        C-contiguous, in native byte order; for strings an array of str objects.
    data_type
        Name of its type in Zarr.
    attrs
        Attributes for readers that know nothing of `restore`.
    restore
        JSON by which `restored` makes of `array` what it was; empty where it is that already.
    """

    array: Array
    data_type: str
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    restore: dict[str, Any] = field(default_factory=dict[str, Any])


def plain_json(value: Any) -> Any:
    """What a plain Zarr reader sees of an attribute: readable JSON, not exact.

    NumPy's numbers become JSON's, arrays become lists, bytes become text, complex numbers become
    pairs, times become ISO 8601. What JSON can't say is written as Zarr writes it in fill values:
    ``"NaN"``, ``"Infinity"``.
    """
    if isinstance(value, np.ma.MaskedArray):  # one that is masked would hold itself
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        array = cast("npt.NDArray[Any]", value)
        listed: list[Any] = list(array) if array.ndim else [array[()]]
        plain = [plain_json(item) for item in listed]
        return plain if array.ndim else plain[0]
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, np.void):
        return plain_json(list(value.item())) if value.dtype.names else value.tobytes().hex()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 64 else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        if value != value:
            return "NaN"
        return value if abs(value) < float("inf") else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, complex):
        return [plain_json(value.real), plain_json(value.imag)]
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {str(plain_json(name)): plain_json(item) for name, item in pairs}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted((plain_json(item) for item in cast("set[Any]", value)), key=repr)
    return str(value)


def plain_attributes(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """What a plain Zarr reader sees of the attributes of an array.

    xarray writes a ``_FillValue`` among the attributes of a Zarr array as base64 of its bits where
    the array has floating-point numbers, and expects to find it so.

    Parameters
    ----------
    attrs
        Of the variable.
    dtype
        Of the array, as it is stored.
    """
    plain = {name: plain_json(value) for name, value in attrs.items()}
    fill = attrs.get("_FillValue")
    if dtype.kind == "f" and isinstance(fill, float | int | np.floating | np.integer):
        plain["_FillValue"] = _fill_bits(float(fill))
    if dtype.kind == "c" and isinstance(fill, complex | np.complexfloating):
        plain["_FillValue"] = [_fill_bits(float(fill.real)), _fill_bits(float(fill.imag))]
    return plain


def _fill_bits(fill: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", fill)).decode()
