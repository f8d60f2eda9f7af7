"""Pairs of datasets, virtual and in memory, and a check that an operation can't tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from intarsia.array import LazyArray
from intarsia.io.fetch import observe
from tests.algebra import lay_out
from tests.compare import assert_identical, value_differences

type Datasets = list[xr.Dataset]


@dataclass(frozen=True)
class Pair:
    """The same datasets twice."""

    virtual: Datasets
    plain: Datasets


def virtual(dataset: xr.Dataset, folder: Path, *, coords: bool = False) -> xr.Dataset:
    """The dataset with its data variables (and coordinates without index) laid out in files."""
    changed: dict[Any, xr.Variable] = {}
    for name, variable in dataset.variables.items():
        if name in dataset.xindexes or (name in dataset.coords and not coords):
            continue
        if variable.dtype.kind not in "biufcSU":
            continue
        chunks = tuple(max(1, (size + 1) // 2) for size in variable.shape)
        folder.mkdir(exist_ok=True, parents=True)
        array, _ = lay_out(folder / str(name), variable.values, chunks)
        changed[name] = xr.Variable(variable.dims, array, variable.attrs, variable.encoding)
    return dataset._replace(variables={**dataset._variables, **changed})


def pair(folder: Path, datasets: Datasets, *, coords: bool = False) -> Pair:
    laid_out = [virtual(ds, folder / str(n), coords=coords) for n, ds in enumerate(datasets)]
    return Pair(laid_out, [ds.copy(deep=True) for ds in datasets])


def series(*, count: int = 3, length: int = 4) -> Datasets:
    """Consecutive pieces of a time series; every value says where it stands."""
    result: Datasets = []
    plane = np.arange(3)[:, None] * 10 + np.arange(5)
    for number in range(count):
        at = np.arange(number * length, (number + 1) * length)
        where = at[:, None, None] * 100 + plane
        falls = where[:, :, 0] / np.float32(8)
        falls[1, 2] = np.nan
        result.append(
            xr.Dataset(
                {
                    "v": (("time", "lat", "lon"), where.astype("i2"), {"units": "K"}),
                    "f": (("time", "lat"), falls.astype("f4")),
                    "d": (("lon", "time"), np.ascontiguousarray(where[:, 0].T) / 3),
                    "land": (("lat", "lon"), plane.astype("i1") % 3, {"flag": "land"}),
                },
                {
                    "time": pd.date_range("2001-01-30", periods=count * length)[at],
                    "lat": [10.0, 20.0, 30.0],
                    "area": (("lat", "lon"), plane / 4),
                    "step": ("time", at),
                },
                {"title": "pieces"},
            )
        )
    return result


def check(both: Pair, run: Callable[[Datasets], Any], *, reads: bool | None = None) -> Any:
    """Run on both: the results are identical; `reads` says whether bytes may be read before that.

    Returns the result of the virtual datasets before it was loaded.
    """
    with observe() as seen:
        actual = run(both.virtual)
    expected = run(both.plain)
    if reads is not None:
        assert bool(seen.requests) == reads, f"{seen.requests} requests"
    if reads is False:
        assert_virtual(actual)
    same(actual, expected)
    return actual


def assert_virtual(result: Any) -> None:
    """Something of it is still virtual."""
    if isinstance(result, xr.Dataset):
        assert any(isinstance(v._data, LazyArray) for v in result.variables.values())
    elif isinstance(result, xr.DataArray):
        assert isinstance(result.variable._data, LazyArray)


def same(actual: Any, expected: Any) -> None:
    """Identical in type, metadata and every bit, once loaded; and nothing virtual remains then."""
    assert type(actual) is type(expected)
    if isinstance(expected, xr.Dataset):
        assert {n: v.dtype for n, v in actual.variables.items()} == {
            n: v.dtype for n, v in expected.variables.items()
        }
        loaded = actual.compute()
        for variable in loaded.variables.values():
            assert not isinstance(variable._data, LazyArray)
        xr.testing.assert_identical(loaded, expected)
        if all(isinstance(v.dtype, np.dtype) for v in expected.variables.values()):
            assert_identical(loaded, expected)
    elif isinstance(expected, xr.DataArray):
        assert actual.name == expected.name
        same(actual.to_dataset(name="_"), expected.to_dataset(name="_"))
    elif isinstance(expected, xr.Variable):
        assert actual.dims == expected.dims
        assert not value_differences("", actual.values, expected.values)
    elif isinstance(expected, xr.DataTree):
        assert actual.groups == expected.groups
        for path in expected.groups:
            same(actual[path].to_dataset(), expected[path].to_dataset())
    elif isinstance(expected, tuple | list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            same(actual[key], expected[key])
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(actual, expected)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(actual, expected)
    elif isinstance(expected, np.ndarray | np.generic):
        assert not value_differences("", actual, expected)
    else:
        assert actual == expected


def table(operations: dict[str, Any]) -> pytest.MarkDecorator:
    """Parametrise over named operations."""
    return pytest.mark.parametrize("run", operations.values(), ids=operations.keys())
