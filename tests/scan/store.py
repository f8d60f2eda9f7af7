"""Comparing a scan with what xarray's h5netcdf store gives for the same group."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from xarray.backends.h5netcdf_ import H5NetCDFStore

from intarsia.array import VirtualArray
from intarsia.scan.hdf5 import scan
from intarsia.scan.protocol import Opaque, Scanned, ScannedVariable


def groups(path: Path) -> list[str]:
    """Paths of all groups of a file."""
    found = ["/"]
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.append(f"/{name}") if isinstance(item, h5py.Group) else None
        )
    return found


def stored_dtype(variable: ScannedVariable) -> np.dtype[Any]:
    if isinstance(variable.data, Opaque):
        return variable.data.dtype
    return variable.data.segments.cases[0].encoding.stored


def values_of(variable: ScannedVariable) -> np.ndarray[Any, Any]:
    if isinstance(variable.data, Opaque):
        assert variable.data.loader is not None, variable.data.reason
        return variable.data.loader()
    return np.asarray(variable.data).astype(stored_dtype(variable), copy=False)


def assert_as_xarray(
    path: Path,
    group: str = "/",
    phony_dims: str | None = None,
    *,
    values: bool = True,
    unreadable: tuple[str, ...] = (),
) -> Scanned:
    """Assert that a scan is what xarray's store gives: names, order, dims, attributes, values.

    Variables in `unreadable` must be opaque without a loader.
    """
    scanned = scan(str(path), group=group, phony_dims=phony_dims)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*h5netcdf object", UnicodeWarning)
        warnings.filterwarnings("ignore", "Duplicate dimension names")
        store = H5NetCDFStore.open(str(path), group=group, phony_dims=phony_dims or "access")
        try:
            variables, attrs = store.load()
            assert list(scanned.variables) == list(variables)
            assert_same_attrs("the group", scanned.attrs, attrs)
            assert set(scanned.unlimited) == store.get_encoding()["unlimited_dims"]
            sizes = {name: item.size for name, item in store.ds.dimensions.items()}
            assert {name: scanned.sizes[name] for name in sizes} == sizes
            for name, expected in variables.items():
                actual = scanned.variables[name]
                assert actual.dims == expected.dims, name
                assert actual.data.shape == expected.shape, name
                assert stored_dtype(actual) == expected.dtype, name
                assert_same_attrs(name, actual.attrs, expected.attrs)
                for key, value in actual.encoding.items():
                    assert value == expected.encoding[key], name
                    metadata = getattr(expected.encoding[key], "metadata", None)
                    assert getattr(value, "metadata", None) == metadata, name
                if name in unreadable:
                    assert isinstance(actual.data, Opaque)
                    assert actual.data.loader is None
                elif values:
                    assert_same(name, values_of(actual), np.asarray(expected.values))
        finally:
            store.close()
    again = pickle.loads(pickle.dumps(scanned))
    assert list(again.variables) == list(scanned.variables)
    return scanned


def assert_same_attrs(where: str, actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(actual) == list(expected), where
    for key, value in expected.items():
        assert_same(f"{where}: {key}", actual[key], value)


def assert_same(where: str, actual: Any, expected: Any) -> None:
    """Equal in type and in every bit."""
    assert type(actual) is type(expected), (where, actual, expected)
    if isinstance(expected, list | tuple):
        assert len(actual) == len(expected), where
        for a, e in zip(actual, expected, strict=True):
            assert_same(where, a, e)
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype, where
        assert actual.shape == expected.shape, where
        if expected.dtype.hasobject and expected.dtype.names is None:
            for a, e in zip(actual.flat, expected.flat, strict=True):
                assert_same(where, a, e)
        elif expected.dtype.hasobject:
            assert (actual == expected).all(), where
        else:
            assert actual.tobytes() == expected.tobytes(), where
    elif isinstance(expected, np.generic):
        assert actual.dtype == expected.dtype, where
        assert actual.tobytes() == expected.tobytes(), where
    else:
        assert actual == expected, where


def virtual(scanned: Scanned, name: str = "x") -> VirtualArray:
    """The data of a variable that has to be virtual."""
    data = scanned.variables[name].data
    assert isinstance(data, VirtualArray), data.reason if isinstance(data, Opaque) else data
    return data


def opaque(scanned: Scanned, name: str = "x") -> Opaque:
    """The data of a variable that must not be virtual."""
    data = scanned.variables[name].data
    assert isinstance(data, Opaque), data
    return data
