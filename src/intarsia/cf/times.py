"""Which variables are times, and which sorts of time can be joined."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import cftime
import numpy.typing as npt
from xarray.coders import CFTimedeltaCoder

from intarsia.cf import upstream
from intarsia.cf.options import DEFAULTS, Options, of_variable
from intarsia.cf.variables import RawVariable


def time_like(variables: Mapping[str, RawVariable], options: Options = DEFAULTS) -> frozenset[str]:
    """Name the variables that xarray decodes to times or durations, without looking at values.

    They have to be loaded before they are decoded: which type they get depends on all their
    values.

    Parameters
    ----------
    variables : mapping of str to RawVariable
        All of the group, as for `decode`. Only their attributes are used.
    options : Options
        What will be decoded.
    """
    attrs = {name: SimpleNamespace(attrs=dict(raw.attrs)) for name, raw in variables.items()}
    if options.decode_times:
        upstream.update_bounds_attributes(attrs)  # bounds take the units of their coordinate
    return frozenset(name for name in attrs if _is_time_like(name, attrs[name].attrs, options))


def _is_time_like(name: str, attrs: Mapping[str, Any], options: Options) -> bool:
    units = attrs.get("units")
    if not isinstance(units, str):
        return False
    decode_times = of_variable(options.decode_times, name, True)
    if decode_times and "since" in units:
        return True
    if units not in upstream.TIMEDELTA_UNITS:
        return False
    decode_timedelta = of_variable(options.decode_timedelta, name, None)
    if decode_timedelta is None:  # the default: only what was written as timedelta64
        decode_timedelta = CFTimedeltaCoder() if decode_times else False
    if not isinstance(decode_timedelta, CFTimedeltaCoder):
        return bool(decode_timedelta)
    return decode_timedelta.decode_via_units or (
        decode_timedelta.decode_via_dtype and upstream.has_timedelta_dtype(dict(attrs))
    )


def time_kind(values: npt.NDArray[Any]) -> str | None:
    """Say which sort of time an array holds, to tell which arrays can be joined.

    xarray joins different sorts without complaint, wrongly: timedelta64 with integers makes one
    hour and the number 1 into an hour and a nanosecond; datetime64 with cftime, or cftime of
    different calendars, into an array of objects that don't compare. Arrays can be joined if
    `time_kind` is the same for all.

    Parameters
    ----------
    values : ndarray
        Of any type. Objects are judged by the first that is not missing.

    Returns
    -------
    str or None
        ``"datetime64"``, ``"timedelta64"``, ``"cftime/360_day"`` and so on; None if not a time.

    Examples
    --------
    >>> import numpy as np
    >>> time_kind(np.array([1], "m8[h]"))
    'timedelta64'
    """
    match values.dtype.kind:
        case "M":
            return "datetime64"
        case "m":
            return "timedelta64"
        case "O":
            first: Any = next((value for value in values.flat if not _is_missing(value)), None)
            return f"cftime/{first.calendar}" if _is_cftime(first) else None
        case _:
            return None


def _is_missing(value: Any) -> bool:
    return value is None or isinstance(value, float)  # as in an array of objects: NaN


def _is_cftime(value: Any) -> bool:
    return isinstance(value, cftime.datetime)  # pyright: ignore[reportUnknownMemberType]
