"""Combining in one go gives what xarray gives: values, attributes, order, indexes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from bench.inputs import small_files
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


def apart(
    datasets: list[xr.Dataset],
    run: Any,
    by: str = "nested",
    combine_attrs: str = "override",
    *,
    aligned: bool = True,
) -> xr.Dataset:
    return combine_apart(
        datasets,
        "time",
        run,
        combine_attrs=combine_attrs,
        aligned=aligned,
        in_order=by == "nested",
    )


@pytest.mark.parametrize("combine_attrs", ["override", "drop", "drop_conflicts"])
@pytest.mark.parametrize("by", ["nested", "coords"])
def test_equals_xarray(by: str, combine_attrs: str) -> None:
    order = [0, 1, 2] if by == "nested" else [2, 0, 1]
    run = combiner(by, combine_attrs)
    expected = run([make(number, virtual=False) for number in order])
    virtual = [make(number, virtual=True) for number in order]
    actual = apart(virtual, run, by, combine_attrs)
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
    actual = apart(virtual, combiner("nested", "override"))
    actual.lat.attrs["changed"] = actual.lat.encoding["changed"] = 1
    assert all("changed" not in dataset.lat.attrs for dataset in virtual)
    assert all("changed" not in dataset.lat.encoding for dataset in virtual)


@pytest.mark.parametrize("other", [np.where(LAT == 0, -0.0, LAT), LAT.astype("f4")])
def test_coordinates_of_other_bits_are_left_to_xarray(other: np.ndarray[Any, Any]) -> None:
    run = combiner("nested", "override")
    expected = run([make(0, virtual=False), make(1, virtual=False, lat=other)])
    virtual = [make(0, virtual=True), make(1, virtual=True, lat=other)]
    actual = apart(virtual, run)
    xr.testing.assert_identical(actual.compute(), expected)
    assert actual.lat.dtype == expected.lat.dtype


def bare(number: int, *, virtual: bool) -> xr.Dataset:
    """Only what needs no xarray: plain variables, shared coordinates, the dimension's own."""
    dataset = make(number, virtual=virtual).drop_vars(["x", "mask", "day", "height"])
    dataset = dataset.assign_coords(lev=("lev", [1.0, 2.0], {"units": "m"}))
    dataset.time.encoding = {"units": "days since 2000-01-01", "source": number}
    return dataset


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1], [0, 0, 1]])
@pytest.mark.parametrize("by", ["nested", "coords"])
def test_without_xarray_equals_xarray(by: str, order: list[int]) -> None:
    run = combiner(by, "override")
    virtual = [bare(number, virtual=True) for number in order]

    def called(datasets: list[xr.Dataset]) -> xr.Dataset:
        raise AssertionError

    if by == "coords" and order == [0, 0, 1]:
        with pytest.raises(AssertionError):  # xarray has the last word
            apart(virtual, called, by)
        return
    actual = apart(virtual, called, by)
    expected = run([bare(number, virtual=False) for number in order])
    xr.testing.assert_identical(actual.compute(), expected)
    assert list(actual.variables) == list(expected.variables)
    assert actual.sizes == expected.sizes
    assert actual.indexes["time"].equals(expected.indexes["time"])
    assert actual.time.encoding == expected.time.encoding
    actual.attrs["changed"] = actual.time.attrs["changed"] = 1
    assert all("changed" not in dataset.attrs | dataset.time.attrs for dataset in virtual)


def reversed_in_time(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.isel(time=slice(None, None, -1))


def test_falling_coordinates_are_ordered_by_xarray() -> None:
    run = combiner("coords", "override")
    virtual = [reversed_in_time(bare(number, virtual=True)) for number in (0, 2, 1)]
    plain = [reversed_in_time(bare(number, virtual=False)) for number in (0, 2, 1)]
    xr.testing.assert_identical(apart(virtual, run, "coords").compute(), run(plain))


@pytest.mark.parametrize("join", ["outer", "inner", "left", "exact", "override"])
@pytest.mark.parametrize("same", [True, False])
def test_any_join_of_the_same_coordinates(join: str, same: bool) -> None:
    run = partial(xr.combine_nested, concat_dim="time", join=join, combine_attrs="override")
    lat = LAT if same else LAT[::-1] + 1
    plain = [make(0, virtual=False), make(1, virtual=False, lat=lat)]
    virtual = [make(0, virtual=True), make(1, virtual=True, lat=lat)]
    run = partial(run, data_vars="minimal", coords="minimal", compat="override")
    if join == "exact" and not same:
        with pytest.raises(xr.AlignmentError):
            apart(virtual, run, aligned=False)
        return
    xr.testing.assert_identical(apart(virtual, run, aligned=False).compute(), run(plain))


@pytest.mark.parametrize("by", ["nested", "by_coords"])
@pytest.mark.parametrize(
    "options",
    [
        {"data_vars": ["field3"]},
        {"data_vars": ["field3"], "coords": "minimal"},
        {"compat": "identical", "coords": "minimal", "data_vars": "minimal"},
        {"join": "exact"},
        {"join": "override", "coords": "minimal", "compat": "override"},
    ],
)
def test_options_by_name(by: str, options: dict[str, Any], tmp_path: Path) -> None:
    paths = small_files(tmp_path / "small", 3)
    if by == "nested":
        options = options | {"concat_dim": "time"}

    def run(opened: Any, **more: Any) -> Any:
        try:
            return opened(paths, combine=by, **options, **more).compute()
        except ValueError as error:
            return str(error)

    expected = run(partial(xr.open_mfdataset, engine="h5netcdf"))
    actual = run(intarsia.open_mfdataset)
    if isinstance(expected, str):
        assert actual == expected
    else:
        xr.testing.assert_identical(actual, expected)
