"""Objects of which some are missing: runs of None and NaN, which no Zarr type has."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from typing import Any, cast

import numpy.typing as npt

from intarsia.errors import UnsupportedVariable

__all__ = ["missing_in", "put_back", "runs_of"]

type Array = npt.NDArray[Any]

MISSING = {"nan": float("nan"), "none": None}
"""What stands for a missing object."""

MAX_RUNS = 10_000
"""Runs of missing objects in one variable; more would not be small."""


def missing_in(flat: list[Any]) -> list[int]:
    """Places of the objects that are missing."""
    return [n for n, item in enumerate(flat) if item is None or _is_nan(item)]


def _is_nan(item: Any) -> bool:
    return type(item) is float and item != item


def runs_of(missing: list[int], flat: list[Any]) -> list[list[Any]]:
    """Runs of missing objects, as JSON: the first, past the last, and what stands there.

    Parameters
    ----------
    missing
        Places, in order.
    flat
        All objects.

    Raises
    ------
    UnsupportedVariable
        If there are too many to be told one by one.
    """
    runs: list[list[Any]] = []
    for number in missing:
        name = "none" if flat[number] is None else "nan"
        if runs and runs[-1][1] == number and runs[-1][2] == name:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1, name])
    if len(runs) > MAX_RUNS:
        reason = f"objects of which some are missing, in more than {MAX_RUNS:,} places"
        raise UnsupportedVariable(reason, remedy="fill them with fillna(''), or drop it")
    return runs


def put_back(array: Array, given: dict[str, Any]) -> Array:
    """Objects with those put in their places that are missing.

    Parameters
    ----------
    array
        The others; changed in place where it is contiguous.
    given
        The note, with the runs under ``missing``.

    Raises
    ------
    ValueError
        If they are none, or lie outside.
    """
    runs = given.get("missing", [])
    if not isinstance(runs, list) or len(cast("list[Any]", runs)) > MAX_RUNS:
        raise ValueError("missing objects are told by a short list")
    flat = array.reshape(-1)
    end = 0
    for run in cast("list[Any]", runs):
        if not isinstance(run, list) or len(cast("list[Any]", run)) != 3:
            raise ValueError("missing objects: not a begin, an end and a name")
        first, last, name = cast("list[Any]", run)
        if type(first) is not int or type(last) is not int or not end <= first < last <= flat.size:
            raise ValueError("missing objects: not within the values, or not in order")
        if name not in ("nan", "none"):
            raise ValueError("missing objects: neither nan nor none")
        flat[first:last] = MISSING[name]
        end = last
    return flat.reshape(array.shape)
