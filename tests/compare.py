"""Exact comparison of datasets: dims, dtypes, coordinates, attributes, indexes and every bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr


def assert_identical(actual: xr.Dataset, expected: xr.Dataset) -> None:
    """Assert that `actual` is `expected` in everything that a user can see.

    Compared: dimension sizes, coordinates, and data variables in order; for each variable its
    dims in order, shape, dtype (native byte order), attributes with their types, index, and every
    bit of every value. NaN equals NaN, whatever its payload; 0.0 does not equal -0.0. `actual` must
    be in native byte order even where `expected` (undecoded) is not.

    Raises
    ------
    AssertionError
        Naming each variable that differs, the first index where it does, both values and both bit
        patterns.
    """
    problems = differences(actual, expected)
    if problems:
        raise AssertionError("\n".join(["datasets differ:", *(f"  {p}" for p in problems)]))


def differences(actual: xr.Dataset, expected: xr.Dataset) -> list[str]:
    """Every difference that `assert_identical` would report; empty if there is none."""
    assert isinstance(actual, xr.Dataset), f"not a Dataset but {type(actual).__name__}"
    found: list[str] = []
    # xarray keeps names of coordinates in sets: their order depends on the process
    sizes = [sorted(map(str, dataset.sizes.items())) for dataset in (actual, expected)]
    _unequal(found, "dimension sizes", *sizes)
    coords = [sorted(map(str, dataset.coords)) for dataset in (actual, expected)]
    _unequal(found, "coordinates", *coords)
    _unequal(found, "data variables", list(actual.data_vars), list(expected.data_vars))
    found += _attr_differences("dataset", actual.attrs, expected.attrs)
    for name in expected.variables:
        if name in actual.variables:
            found += _variable_differences(
                str(name), actual.variables[name], expected.variables[name]
            )
    found += _index_differences(actual, expected)
    return found


def value_differences(label: str, actual: Any, expected: Any, *, native: bool = True) -> list[str]:
    """How two arrays differ: dtype, shape, or the first element that differs in its bits.

    With `native`, `actual` has to be in native byte order whatever that of `expected`.
    """
    a, e = np.asarray(actual), np.asarray(expected)
    if native:
        e = e.astype(_native(e.dtype), copy=False)
    if a.dtype != e.dtype:
        return [f"{label}: dtype {a.dtype!r} != {e.dtype!r}"]
    if a.shape != e.shape:
        return [f"{label}: shape {a.shape} != {e.shape}"]
    wrong = ~_same(a, e)
    if not wrong.any():
        return []
    first = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    where = tuple(int(i) for i in first)
    return [
        f"{label}: {int(wrong.sum())} of {a.size} elements differ, the first at {where}: "
        f"{a[where]!r} ({_bits(a[where])}) != {e[where]!r} ({_bits(e[where])})"
    ]


def _variable_differences(name: str, a: xr.Variable, e: xr.Variable) -> list[str]:
    found: list[str] = []
    _unequal(found, f"{name}: dims", a.dims, e.dims)
    if not found:
        _unequal(found, f"{name}: shape", a.shape, e.shape)
        _unequal(found, f"{name}: dtype as declared", a.dtype, _native(e.dtype))
    if not found:
        found = value_differences(name, a.values, e.values)
    return found + _attr_differences(name, a.attrs, e.attrs)


def _attr_differences(where: str, a: Mapping[Any, Any], e: Mapping[Any, Any]) -> list[str]:
    found: list[str] = []
    _unequal(found, f"{where}: attributes", set(a), set(e))
    for key in set(a) & set(e):
        label = f"{where}: attribute {key!r}"
        if type(a[key]) is not type(e[key]):
            found.append(
                f"{label}: {a[key]!r} is {type(a[key]).__name__}, "
                f"{e[key]!r} is {type(e[key]).__name__}"
            )
        elif isinstance(e[key], np.ndarray | np.generic):
            found += value_differences(label, a[key], e[key], native=False)
        elif not _same_object(a[key], e[key]):
            found.append(f"{label}: {a[key]!r} != {e[key]!r}")
    return found


def _index_differences(actual: xr.Dataset, expected: xr.Dataset) -> list[str]:
    found: list[str] = []
    _unequal(found, "indexes", set(actual.indexes), set(expected.indexes))
    for name in set(actual.indexes) & set(expected.indexes):
        a, e = actual.indexes[name], expected.indexes[name]
        _unequal(found, f"index {name}: type", type(a).__name__, type(e).__name__)
        if isinstance(e, pd.MultiIndex):
            _unequal(found, f"index {name}", list(a), list(e))
        elif a.dtype != e.dtype:
            found.append(f"index {name}: dtype {a.dtype} != {e.dtype}")
        else:
            found += value_differences(f"index {name}", a.to_numpy(), e.to_numpy())
    return found


def _unequal(found: list[str], label: str, a: Any, e: Any) -> None:
    if a != e:
        found.append(f"{label}: {a!r} != {e!r}")


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in native byte order, which is what is asked for; compounds stay as they are."""
    return dtype if dtype.fields or dtype.kind == "T" else dtype.newbyteorder("=")


def _same(a: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Elementwise: the same bits, or both NaN."""
    dtype = a.dtype
    if dtype.fields:
        same = np.ones(a.shape, bool)
        for name in dtype.fields:
            field = _same(a[name], e[name])
            same &= field.all(axis=tuple(range(a.ndim, field.ndim)))
        return same
    if dtype.kind == "c":
        return _same(a.real, e.real) & _same(a.imag, e.imag)
    if dtype.kind == "f" and dtype.itemsize > 8:  # padded: not all of its bits mean something
        return ((a == e) & (np.signbit(a) == np.signbit(e))) | (np.isnan(a) & np.isnan(e))
    if dtype.kind == "f":
        return (_integers(a) == _integers(e)) | (np.isnan(a) & np.isnan(e))
    if dtype.kind in "mM":
        return _integers(a) == _integers(e)
    if dtype.kind == "O":
        pairs = zip(a.ravel(), e.ravel(), strict=True)
        return np.array([_same_object(x, y) for x, y in pairs], bool).reshape(a.shape)
    return np.asarray(a == e)


def _integers(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}").reshape(a.shape)


def _same_object(a: Any, e: Any) -> bool:
    if type(a) is not type(e):
        return False
    if isinstance(e, float) and e != e:
        return a != a
    if isinstance(e, np.ndarray):
        return not value_differences("", a, e)
    return bool(a == e)


def _bits(value: Any) -> str:
    return (
        "0x" + value.tobytes()[::-1].hex() if isinstance(value, np.generic) else repr(type(value))
    )
