"""Bits of values, and what joining did to them after they were decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Codec, Encoding

type Array = npt.NDArray[Any]

AFTER: Mapping[str, Callable[[Array, Mapping[str, Any]], Array]] = {
    "cast": lambda values, config: values.astype(np.dtype(config["dtype"])),
    "isnan": lambda values, _: np.isnan(values),
    "not": lambda values, _: np.logical_not(values),
}
"""Steps that follow decoding: what joining, and asking for missing values, add to it."""


def steps_after(encoding: Encoding, dtype: np.dtype[Any]) -> tuple[Codec, ...] | None:
    """The steps of an encoding that come after decoding gave values of a type.

    Returns
    -------
    tuple of Codec or None
        None where decoding never gives that type.

    Examples
    --------
    >>> encoding = Encoding((), np.dtype("<i2")).cast(np.dtype("f4")).cast(np.dtype("f8"))
    >>> [str(step) for step in steps_after(encoding, np.dtype("f4"))]
    ['cast(dtype=<f8)']
    """
    numbers = [n for n, step in enumerate(encoding.steps) if step.name not in AFTER]
    least = numbers[-1] + 1 if numbers else 0
    for count in range(least, len(encoding.steps) + 1):
        before = encoding.steps[:count]
        if Encoding(encoding.filters, encoding.stored, before, encoding.parameters).dtype == dtype:
            return encoding.steps[count:]
    return None


def apply_after(steps: Sequence[Codec], values: Array) -> Array:
    """Values after such steps."""
    with np.errstate(all="ignore"):
        for step in steps:
            values = AFTER[step.name](values, step.config)
    return values


def same_bits(one: Array, two: Array) -> npt.NDArray[np.bool_]:
    """Where two arrays have the same type and the same bits; any NaN equals any other."""
    if one.dtype != two.dtype:
        return np.zeros(one.shape, bool)
    kind = one.dtype.kind
    same: Any
    if kind == "c":
        same = same_bits(np.real(one), np.real(two))
        same = same & same_bits(np.imag(one), np.imag(two))
    elif kind == "f":
        same = (one == two) & (np.signbit(one) == np.signbit(two))
        same |= np.isnan(one) & np.isnan(two)
    elif kind in "mM":
        same = one.view(np.int64) == two.view(np.int64)
    elif kind == "O":
        pairs = zip(one.reshape(-1).tolist(), two.reshape(-1).tolist(), strict=True)
        same = np.array([_same(a, b) for a, b in pairs], bool).reshape(one.shape)
    else:
        same = one == two
    return same


def _same(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    return bool(one == two or (one != one and two != two))
