"""Comparison of two coordinates: the same, slightly off, reversed, another length, other values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from intarsia.combine.frozen import Content

__all__ = ["Comparison", "compare", "ends", "show_distance"]

_UNITS = (
    (np.timedelta64(1, "D"), "day"),
    (np.timedelta64(1, "h"), "hour"),
    (np.timedelta64(1, "m"), "minute"),
    (np.timedelta64(1, "s"), "second"),
)

type Verdict = Literal["same", "jitter", "reversed", "length", "values"]
_Array = np.ndarray[Any, Any]

_RELATIVE = 1e-5
"""Single values nearer than this part of them are taken for the same with an error."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one coordinate differs from another.

    Parameters
    ----------
    verdict
        ``"same"``: equal by value, whatever the type. ``"jitter"``: as long, and nowhere further
        apart than half the smallest step. ``"reversed"``: the same or jitter, read from the end.
        ``"length"``, ``"values"``: none of these.
    distance
        Largest distance between paired values: a float, a `numpy.timedelta64`, or None where
        values can't be subtracted or paired.
    detail
        What a reader wants to know of it.
    """

    verdict: Verdict
    distance: Any = None
    detail: str = ""

    @property
    def kind(self) -> str:
        """The row of the table."""
        return f"coordinate-{self.verdict}"


def compare(reference: Content, other: Content) -> Comparison:
    """Compare a coordinate with the reference.

    Parameters
    ----------
    reference, other
        One-dimensional values. Those without values (only a digest) are other values.
    """
    if reference == other:
        return Comparison("same")
    if reference.values is None or other.values is None:
        return Comparison("values")
    a, b = np.asarray(reference.values), np.asarray(other.values)
    if a.size != b.size:
        return _other_length(a, b)
    numbers = _comparable(a, b)
    if numbers is None:
        if _equal(a, b):
            return Comparison("same")
        return Comparison("reversed" if _equal(a, b[::-1]) else "values")
    x, y = numbers
    if _equal(x, y):
        return Comparison("same")
    near = _distance(x, y)
    turned = _distance(x, y[::-1])
    limit = _half_step(x, y)
    if near is not None and near <= limit:
        return Comparison("jitter", near, f"the largest distance is {show_distance(near)}")
    if turned is not None and turned <= limit and a.size > 1:
        detail = f"and up to {show_distance(turned)} off" if turned else ""
        return Comparison("reversed", turned, detail)
    detail = "" if near is None else f"up to {show_distance(near)} apart"
    return Comparison("values", near, detail)


def ends(values: _Array) -> tuple[Any, Any]:
    """Smallest and largest value."""
    if values.dtype.kind in "OUST":
        items: list[Any] = values.tolist()
        return min(items), max(items)
    return values.min(), values.max()


def show_distance(distance: Any) -> str:
    """Write a distance: three digits, or a span of time in the largest unit that fits."""
    if not isinstance(distance, np.timedelta64):
        return f"{float(distance):.3g}"
    span = cast(Any, distance)
    for unit, name in _UNITS:
        count = float(span / unit)
        if count >= 1:
            return f"{count:.3g} {name}{'' if count == 1 else 's'}"
    return str(span)


def _other_length(a: _Array, b: _Array) -> Comparison:
    detail = f"{b.size} values against {a.size}"
    pair = _comparable(a, b)
    if pair is not None and max(a.size, b.size) <= 1_000_000:
        detail += f", {np.intersect1d(*pair).size} in common"
    return Comparison("length", None, detail)


def _comparable(a: _Array, b: _Array) -> tuple[_Array, _Array] | None:
    """Both as numbers or as dates of one type, or None where they aren't such."""
    kinds = {a.dtype.kind, b.dtype.kind}
    if kinds <= set("iufb"):
        if kinds <= {"i"} or a.dtype == b.dtype == np.uint64:
            wide = np.uint64 if "u" in kinds else np.int64
            return a.astype(wide), b.astype(wide)
        wide = np.longdouble if np.dtype(np.longdouble).itemsize > 8 else np.float64
        return a.astype(wide), b.astype(wide)
    if kinds in ({"M"}, {"m"}):
        dtype = np.promote_types(a.dtype, b.dtype)
        return a.astype(dtype), b.astype(dtype)
    return None


def _equal(a: _Array, b: _Array) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fMm" and b.dtype.kind in "fMm")


def _distance(a: _Array, b: _Array) -> Any:
    """Largest distance of paired values; None where some pair has none (NaN with a number)."""
    if a.size == 0:
        return None
    missing = a != a
    if not np.array_equal(missing, b != b):
        return None
    apart = np.where(a > b, a, b) - np.where(a > b, b, a)
    apart = apart[~missing]
    if apart.size == 0:
        return None
    largest = apart.max()
    return largest if largest.dtype.kind == "m" else float(largest)


def _half_step(a: _Array, b: _Array) -> Any:
    """Half the smallest step in either; of single values, a small part of the larger."""
    if a.size == 1:
        if a.dtype.kind in "mM":
            return (a - a)[0]
        return _RELATIVE * max(abs(float(a[0])), abs(float(b[0])))
    steps = [np.abs(np.diff(values)) for values in (a, b)]
    positive = [step[step > step[:1] * 0] for step in steps]
    smallest = [step.min() for step in positive if step.size]
    if not smallest:
        return steps[0][0] * 0
    half = min(smallest) / 2
    return half if half.dtype.kind == "m" else float(half)
