"""Dates of calendars that are not the world's, counted: cftime's objects as integers, and back."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import cftime
import numpy as np
import numpy.typing as npt

from intarsia.errors import UnsupportedVariable
from intarsia.store.holes import put_back, runs_of
from intarsia.store.plain import Plain

__all__ = ["CLASSES", "plain_dates", "restored_dates"]

type Array = npt.NDArray[Any]

UNITS = ("seconds", "microseconds")
"""In which dates are counted: seconds where all are whole, else microseconds, the finest they know.

xarray decodes them in floating-point numbers, which hold seconds exactly far longer.
"""

SINCE = "since 2000-01-01 00:00:00"

NO_DATE = np.iinfo(np.int64).min

_YEAR = {"seconds": 3.2e7, "microseconds": 3.2e13}

FAR, MAX_YEARS = 20_000, 3e8
"""Dates may be so many years from 2000 on average, or all of them together: cftime counts years."""

CALENDARS = frozenset(
    ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day", "tai"]
)
CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(cftime.datetime, cftime.DatetimeNoLeap, cftime.DatetimeAllLeap, cftime.Datetime360Day),
        *(cftime.DatetimeJulian, cftime.DatetimeGregorian, cftime.DatetimeProlepticGregorian),
    )
}


def plain_dates(array: Array, missing: list[int]) -> Plain:
    """Count dates.

    Parameters
    ----------
    array
        Objects of one of `CLASSES`, C-contiguous.
    missing
        Places of those that are none.

    Raises
    ------
    UnsupportedVariable
        If they are of several calendars, or too far away.
    """
    holes = runs_of(missing, array.reshape(-1).tolist())
    flat: list[Any] = array.reshape(-1).tolist()
    left = set(missing)
    dates = [item for n, item in enumerate(flat) if n not in left]
    first = dates[0]
    unit = UNITS[any(date.microsecond for date in dates)]
    restore: dict[str, Any] = {
        "kind": "cftime",
        "unit": unit,
        "class": type(first).__name__,
        "calendar": first.calendar,
        "has_year_zero": bool(first.has_year_zero),
    }
    uniform = {(item.calendar, bool(item.has_year_zero)) for item in dates}
    if len(uniform) > 1 or first.calendar not in CALENDARS:
        calendars = " and ".join(sorted(repr(calendar) for calendar, _ in uniform))
        reason = f"dates of several calendars, or of an unknown one: {calendars}"
        raise UnsupportedVariable(reason, remedy="convert_calendar(), or drop it")
    try:
        with _any_convention():
            counted: Any = cftime.date2num(
                dates,
                f"{unit} {SINCE}",
                calendar=first.calendar,
                has_year_zero=first.has_year_zero,
            )
            numbers = np.asarray(counted, np.int64)
            again = _of_numbers(numbers, restore)
    except (ValueError, OverflowError) as error:
        reason = f"dates that can't be counted: {error}"
        raise UnsupportedVariable(reason, remedy="drop it") from error
    if again != dates:
        raise UnsupportedVariable("dates that can't be counted exactly", remedy="drop it")
    made = np.full(len(flat), NO_DATE, np.int64)
    made[[n for n in range(len(flat)) if n not in left]] = numbers
    attrs = {} if holes else {"units": f"{unit} {SINCE}", "calendar": first.calendar}
    restore |= {"missing": holes} if holes else {}
    return Plain(made.reshape(array.shape), "int64", attrs, restore)


@contextmanager
def _any_convention() -> Generator[None]:
    """Dates before year 1 that CF does not know are dates all the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cftime.CFWarning)
        yield


def _of_numbers(numbers: Array, given: dict[str, Any]) -> list[Any]:
    kind, calendar = CLASSES[given["class"]], given["calendar"]
    year_zero = given["has_year_zero"]
    years = np.abs(numbers.astype(float)) / _YEAR[given["unit"]]
    if years.sum() > max(MAX_YEARS, len(years) * FAR):
        raise ValueError("dates too far away")
    found: Any = cftime.num2date(
        numbers,
        f"{given['unit']} {SINCE}",
        calendar=calendar,
        only_use_cftime_datetimes=True,
        has_year_zero=year_zero,
    )
    dates: list[Any] = np.asarray(found, object).reshape(-1).tolist()
    if all(type(date) is kind for date in dates):
        return dates
    more = {"calendar": calendar} if kind is cftime.datetime else {}
    made = [
        kind(
            *(date.year, date.month, date.day, date.hour, date.minute, date.second),
            date.microsecond,
            has_year_zero=year_zero,
            **more,
        )
        for date in dates
    ]
    if made[0].calendar != calendar:
        raise ValueError(f"dates of the calendar {calendar!r} are no {kind.__name__}")
    return made


def restored_dates(array: Array, given: dict[str, Any]) -> Array:
    """Make dates of their counts again; raises ValueError where `given` is not how."""
    for entry, known in (("class", CLASSES), ("calendar", CALENDARS), ("unit", UNITS)):
        if given[entry] not in list(known):
            raise ValueError(f"dates of no known {entry}")
    if not isinstance(given["has_year_zero"], bool):
        raise ValueError("dates with or without a year 0")
    numbers = array.reshape(-1)
    present = numbers != NO_DATE
    made = np.full(len(numbers), None, object)
    try:
        with _any_convention():
            made[present] = _of_numbers(numbers[present], given)
    except (ValueError, OverflowError, TypeError) as error:
        raise ValueError(f"dates that are none: {error}") from error
    result = put_back(made, given)
    listed = np.zeros(len(numbers), bool)
    for first, last, _ in given.get("missing", []):
        listed[first:last] = True
    if (listed == present).any():
        raise ValueError("missing dates that are not listed, or the reverse")
    return result.reshape(array.shape)
