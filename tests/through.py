"""A dataset on every way through a store: saved, reopened, as a Zarr, by dask, and saved again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import dask
import numpy as np
import xarray as xr

import intarsia
from intarsia.errors import UnsupportedError
from tests.check import is_virtual, tolerant
from tests.compare import assert_identical, value_differences
from tests.oracle import Chain, apply_chain


def check_store(actual: xr.Dataset, expected: xr.Dataset, folder: Path, chain: Chain) -> None:
    """Assert that nothing changes on any way through a store.

    Parameters
    ----------
    actual, expected
        Intarsia's dataset and the oracle's, known to be identical.
    folder
        Where to put stores.
    chain
        Steps after which the reopened dataset is compared, and saved again.
    """
    path = folder / "whole.intarsia"
    actual = saved(actual, path)
    dropped = [name for name in expected.variables if name not in actual.variables]
    expected = expected.drop_vars(dropped)
    chain = () if dropped else chain  # which may name what was dropped
    with tolerant():
        again = intarsia.open_dataset(path)
    assert_same(again, expected, actual)
    with dask.config.set(scheduler="synchronous"):
        assert_identical(xr.open_dataset(path, chunks={}).compute(), expected)
    assert_zarr_equal(path, expected)
    ours, theirs = apply_chain(again, chain), apply_chain(expected, chain)
    assert_identical(ours, theirs)
    ours = saved(ours, folder / "part.zip")
    dropped = [name for name in theirs.variables if name not in ours.variables]
    assert_identical(intarsia.open_dataset(folder / "part.zip"), theirs.drop_vars(dropped))


def saved(dataset: xr.Dataset, path: Path) -> xr.Dataset:
    """Save a dataset without what can't be kept, which has to be named; what was saved."""
    while True:
        try:
            dataset.intarsia.save(path)
        except UnsupportedError as error:
            assert error.array in dataset.variables, error
            assert error.remedy, error
            dataset = dataset.drop_vars(error.array)
        else:
            return dataset


def assert_same(again: xr.Dataset, expected: xr.Dataset, before: xr.Dataset) -> None:
    """Identical, in the same order, and virtual where it was."""
    assert list(again.variables) == list(before.variables)
    assert_identical(again, expected)
    for name in before.variables:
        kept = is_virtual(before, str(name)) and before[name].dtype.kind in "biuf"
        assert is_virtual(again, str(name)) == kept, name


def assert_zarr_equal(path: Path, expected: xr.Dataset) -> None:
    """xarray reads the same from the Zarr that the store presents, where Zarr has such values.

    Bytes are text there, and attributes are what JSON can say.
    """
    times = any(var.dtype.kind in "Mm" or _is_dates(var) for var in expected.variables.values())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to decode time axis into full numpy.datetime64")
        found = xr.open_zarr(
            intarsia.open_store(path), chunks=None, mask_and_scale=False, decode_times=times
        )
        found = found.load()
    for name, var in expected.variables.items():
        other = found.variables[name]
        assert other.dims == var.dims, name
        values, theirs = other.values, var.values
        if theirs.dtype.kind in "SUOT" and not _is_dates(var):
            values, theirs = _texts(values), _texts(theirs)
        problems = value_differences(str(name), values, theirs)
        assert not problems, problems


def _is_dates(var: xr.Variable) -> bool:
    return var.dtype == object and any(hasattr(item, "calendar") for item in var.values.flat)


def _texts(values: np.ndarray) -> np.ndarray:
    def text(item: Any) -> str:
        if isinstance(item, bytes):
            try:
                return item.decode()
            except UnicodeDecodeError:
                return item.decode("latin-1")
        return str(item) if isinstance(item, str) else ""  # a missing one

    return np.array([text(item) for item in values.ravel()], object).reshape(values.shape)
