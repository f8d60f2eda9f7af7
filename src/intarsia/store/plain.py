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

__all__ = ["Plain", "plain_attributes", "plain_json", "with_own"]

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
    the array has floating-point numbers or bytes, and expects to find it so. One that it could not
    decode is left out: of times, which are stored as integers, of text, and of other types.

    Parameters
    ----------
    attrs
        Of the variable.
    dtype
        Of the array, as it is stored.
    """
    plain = {name: plain_json(value) for name, value in attrs.items()}
    if "_FillValue" in plain:
        plain.pop("_FillValue")
        fill = _plain_fill(attrs["_FillValue"], dtype)
        plain |= {} if fill is None else {"_FillValue": fill}
    return plain


PACKING = ("scale_factor", "add_offset", "missing_value", "_FillValue", "_Unsigned")


def with_own(attrs: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with those by which plain values are understood.

    Those of times are units; what a reader would take for their packing is left out then.

    Parameters
    ----------
    attrs
        From `plain_attributes`.
    own
        Those of `Plain`.
    """
    kept = {k: v for k, v in attrs.items() if k not in PACKING} if "units" in own else attrs
    return {**kept, **own}


def _plain_fill(fill: Any, dtype: np.dtype[Any]) -> Any:
    """A ``_FillValue`` as xarray decodes it, or None where it could not."""
    if isinstance(fill, np.ndarray):
        fill = cast("Array", fill).reshape(-1)[0] if fill.size == 1 else None
    if isinstance(fill, np.timedelta64):  # NumPy takes it for an integer
        return None
    if dtype.kind == "f" and isinstance(fill, float | int | np.floating | np.integer):
        return _fill_bits(float(fill))
    if dtype.kind == "c" and isinstance(fill, complex | float | int | np.number):
        return [_fill_bits(float(fill.real)), _fill_bits(float(fill.imag))]
    if dtype.kind in "iu" and isinstance(fill, float | int | np.floating | np.integer):
        number = plain_json(fill)  # NaN is no number to JSON
        return None if isinstance(number, str) else number
    if dtype.kind == "S" and isinstance(fill, bytes):
        return base64.standard_b64encode(fill).decode()
    if dtype.kind == "U" and isinstance(fill, str):
        return plain_json(fill)
    return plain_json(fill) if dtype.kind == "b" else None


def _fill_bits(fill: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", fill)).decode()
