"""Values in memory as plain Zarr arrays that any reader understands, and exactly back again.

A copied variable is an ordinary Zarr array, so its values have to be of a type that Zarr has. What
is of no such type is written as something that is, with attributes by which other readers decode
it, and with a note (``restore``) by which it comes back as it was:

===========================  ==================  ======================================
in memory                    Zarr data type      attributes for other readers
===========================  ==================  ======================================
bool, integers, floats,      the same
complex numbers
datetime64 of any unit       int64               units since 1970, calendar
timedelta64 of any unit      int64               units, dtype: as xarray writes them
dates of cftime              int64               seconds since 2000, calendar
``<U``, str objects,         string
``StringDType``
``S``, bytes objects         string
===========================  ==================  ======================================

Bytes are decoded as UTF-8 where all of a variable are valid, else as Latin-1, which any are: of the
types that Zarr has for bytes none is specified yet, and text is what they mostly are. Missing
strings and dates (None, NaN) among objects are listed in the note; other readers get ``""``, and
raw numbers instead of dates. Byte order is not kept: what comes back is in that of the machine.

Everything else (compounds, objects of other types or of several, ragged arrays, extended precision)
is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from intarsia.errors import UnsupportedVariable
from intarsia.store.dates import CLASSES, plain_dates, restored_dates
from intarsia.store.dtypes import dtype_from_json
from intarsia.store.holes import missing_in
from intarsia.store.plain import Plain
from intarsia.store.strings import (
    plain_bytes,
    plain_strings,
    plain_text,
    restored_bytes,
    restored_text,
)

__all__ = ["Plain", "plain", "restored"]

type Array = npt.NDArray[Any]

NUMBERS = frozenset(
    np.dtype(code).newbyteorder("=")
    for kind, sizes in {"b": "1", "i": "1248", "u": "1248", "f": "248"}.items()
    for code in [kind + size for size in sizes]
) | {np.dtype("c8"), np.dtype("c16")}
"""Types that Zarr has too."""

UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
"""Names of NumPy's units among those of CF."""


def plain(values: Array) -> Plain:
    """Write values as Zarr has them.

    Parameters
    ----------
    values
        As a dataset holds them in memory.

    Raises
    ------
    UnsupportedVariable
        For what can't be kept exactly.
    """
    dtype = values.dtype
    if dtype.kind == "T":
        return plain_strings(values)
    native = dtype.newbyteorder("=")
    if native in NUMBERS:
        return Plain(np.asarray(values, native, order="C"), native.name)
    match dtype.kind:
        case "M" | "m":
            return _times(values, native)
        case "U" | "S":
            return plain_strings(values)
        case "O":
            return _of_objects(values)
        case "V":
            remedy = "drop it, or save its fields as variables of their own"
            raise UnsupportedVariable(f"values of type {dtype}", remedy=remedy)
        case _:
            remedy = "cast it to float64 (or complex128), which rounds"
            raise UnsupportedVariable(f"Zarr has no type for {dtype}", remedy=remedy)


def restored(array: Array, restore: Any) -> Array:
    """Make of a plain array what it was.

    Parameters
    ----------
    array
        `Plain.array` as it was read from Zarr; strings may be objects or `StringDType`.
    restore
        `Plain.restore`.

    Raises
    ------
    ValueError
        If they don't fit, or `restore` is none.
    """
    if not isinstance(restore, dict):
        raise ValueError("how to restore values is told by an object")
    given = cast("dict[str, Any]", restore)
    if not given:
        native = array.dtype.newbyteorder("=") if array.dtype.kind != "T" else array.dtype
        if native not in NUMBERS:
            raise ValueError(f"values of type {array.dtype}")
        return array.astype(native, copy=False)
    kind = given.get("kind")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise ValueError(f"values of no known kind: {str(kind)[:50]!r}")
    entries = given.keys() - {"kind"}
    if not reader.needs <= entries <= reader.needs | reader.takes:
        raise ValueError(f"values of kind {kind!r} with other entries than they have")
    return reader.read(array, given)


def _times(values: Array, dtype: np.dtype[Any]) -> Plain:
    unit, count = np.datetime_data(dtype)
    if unit == "generic":
        raise UnsupportedVariable("times without a unit", remedy="cast it to datetime64[ns]")
    attrs: dict[str, Any] = {}
    if unit in UNITS and count == 1:
        if dtype.kind == "M":
            attrs = {"units": f"{UNITS[unit]} since 1970-01-01", "calendar": "proleptic_gregorian"}
        else:
            attrs = {"units": UNITS[unit], "dtype": f"timedelta64[{unit}]"}
    kind = "datetime64" if dtype.kind == "M" else "timedelta64"
    array = np.asarray(values, dtype, order="C").view(np.int64)
    return Plain(array, "int64", attrs, {"kind": kind, "dtype": dtype.str})


def _restored_times(array: Array, given: dict[str, Any]) -> Array:
    dtype = dtype_from_json(given["dtype"])
    if dtype.kind != {"datetime64": "M", "timedelta64": "m"}[given["kind"]]:
        raise ValueError(f"times of type {dtype}")
    return _counts(array).view(dtype.newbyteorder("="))


def _restored_dates(array: Array, given: dict[str, Any]) -> Array:
    return restored_dates(_counts(array), given)


def _counts(array: Array) -> Array:
    if array.dtype != np.int64:
        raise ValueError(f"times are int64, not {array.dtype}")
    return np.asarray(array, np.int64, order="C")


def _of_objects(values: Array) -> Plain:
    """Objects of one type, some of which may be missing."""
    array = np.array(values, order="C")  # a copy: what is missing will be replaced
    flat: list[Any] = array.reshape(-1).tolist()
    missing = missing_in(flat)
    left = set(missing)
    kinds = {cast("type[Any]", type(item)) for n, item in enumerate(flat) if n not in left}
    if kinds <= {str}:
        return plain_text(array, missing)
    if kinds == {bytes}:
        return plain_bytes(array, missing)
    if len(kinds) == 1 and kinds <= set(CLASSES.values()):
        return plain_dates(array, missing)
    raise _refused(kinds, bool(missing))


def _refused(kinds: set[type[Any]], holes: bool) -> UnsupportedVariable:
    if kinds <= {bool, np.bool_}:
        reason = "booleans among objects" + (", since some are missing" if holes else "")
        remedy = "use fillna(False).astype(bool), or drop it"
        return UnsupportedVariable(reason, remedy=remedy)
    if np.ndarray in kinds:
        return UnsupportedVariable("ragged values: an array in each element", remedy="drop it")
    if len(kinds) > 1 and kinds <= set(CLASSES.values()):
        remedy = "convert_calendar(), or drop it"
        return UnsupportedVariable("dates of several calendars", remedy=remedy)
    names = " and ".join(sorted(kind.__name__ for kind in kinds)[:4])
    remedy = "cast it to a NumPy type with astype(), or drop it"
    return UnsupportedVariable(f"objects of type {names}", remedy=remedy)


class _Reader(NamedTuple):
    """How values of one kind are restored: by which entries, and by those that may be there."""

    read: Callable[[Array, dict[str, Any]], Array]
    needs: set[str]
    takes: set[str]


_READERS = {
    "datetime64": _Reader(_restored_times, {"dtype"}, set()),
    "timedelta64": _Reader(_restored_times, {"dtype"}, set()),
    "text": _Reader(restored_text, {"dtype"}, {"missing"}),
    "bytes": _Reader(restored_bytes, {"dtype", "encoding"}, {"missing"}),
    "cftime": _Reader(_restored_dates, {"unit", "class", "calendar", "has_year_zero"}, {"missing"}),
}
