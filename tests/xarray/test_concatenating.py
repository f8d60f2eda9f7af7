"""Combining in one go gives what xarray gives: values, attributes, order, indexes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.xarray.concatenating import combine_apart

LAT = np.array([-1.5, 0.0, np.nan])


def make(number: int, *, virtual: bool, lat: np.ndarray[Any, Any] = LAT) -> xr.Dataset:
    values = np.arange(12.0, dtype="f4").reshape(2, 3, 2) + 100 * number
    array: Any = VirtualArray.inline(values) if virtual else values
    mask: Any = VirtualArray.inline(values[0] * 0) if virtual else values[0] * 0
    time = np.array(["2000-01-01", "2000-01-02"], "M8[ns]") + np.timedelta64(2 * number, "D")
    dataset = xr.Dataset(
        {
            "x": (("lev",), np.arange(2.0), {"note": number}),
            "sst": (("time", "lat", "lev"), array, {"units": "K", "file": number}),
            "t": (("lat", "lev", "time"), array.transpose(1, 2, 0), {"units": "K"}),
            "mask": (("lat", "lev"), mask, {"long_name": "m"}),
        },
        {
            "lat": ("lat", lat.copy(), {"axis": "Y", "file": number}),
            "time": ("time", time, {"axis": "T"}),
            "day": ("time", np.arange(2) + number),
            "height": ((), 2.0, {"units": "m"}),
        },
        {"title": "t", "number": number},
    )
    dataset.lat.encoding = {"dtype": np.dtype("f4"), "file": number}
    return dataset


def combiner(by: str, combine_attrs: str) -> Any:
    run: Any = xr.combine_by_coords
    if by == "nested":
        run = partial(xr.combine_nested, concat_dim="time")
    run = partial(run, combine_attrs=combine_attrs, data_vars="minimal", compat="override")
    return partial(run, coords="minimal", join="outer")


@pytest.mark.parametrize("combine_attrs", ["override", "drop", "drop_conflicts"])
@pytest.mark.parametrize("by", ["nested", "coords"])
def test_equals_xarray(by: str, combine_attrs: str) -> None:
    order = [0, 1, 2] if by == "nested" else [2, 0, 1]
    run = combiner(by, combine_attrs)
    expected = run([make(number, virtual=False) for number in order])
    virtual = [make(number, virtual=True) for number in order]
    actual = combine_apart(virtual, "time", combine_attrs, run)
    assert isinstance(actual.variables["t"]._data, VirtualArray)
    xr.testing.assert_identical(actual.compute(), expected)
    assert list(actual.data_vars) == list(expected.data_vars)
    assert list(actual.coords) == list(expected.coords)
    assert actual.sizes == expected.sizes
    assert actual.indexes["lat"].equals(expected.indexes["lat"])
    assert actual.lat.encoding == expected.lat.encoding
    xr.testing.assert_identical(actual.sel(lat=0.0).compute(), expected.sel(lat=0.0))


def test_what_is_shared_is_not_the_same_object() -> None:
    virtual = [make(number, virtual=True) for number in range(2)]
    actual = combine_apart(virtual, "time", "override", combiner("nested", "override"))
    actual.lat.attrs["changed"] = actual.lat.encoding["changed"] = 1
    assert all("changed" not in dataset.lat.attrs for dataset in virtual)
    assert all("changed" not in dataset.lat.encoding for dataset in virtual)


@pytest.mark.parametrize("other", [np.where(LAT == 0, -0.0, LAT), LAT.astype("f4")])
def test_coordinates_of_other_bits_are_left_to_xarray(other: np.ndarray[Any, Any]) -> None:
    run = combiner("nested", "override")
    expected = run([make(0, virtual=False), make(1, virtual=False, lat=other)])
    virtual = [make(0, virtual=True), make(1, virtual=True, lat=other)]
    actual = combine_apart(virtual, "time", "override", run)
    xr.testing.assert_identical(actual.compute(), expected)
    assert actual.lat.dtype == expected.lat.dtype
