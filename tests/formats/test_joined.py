"""Files of several formats in one array: each keeps its own nature, and the whole is xarray's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from tests.check import is_virtual
from tests.compare import assert_identical

type Writer = Callable[[xr.Dataset, Path, dict[str, Any]], Callable[[], xr.Dataset]]


def part(number: int, days: int) -> xr.Dataset:
    """Some days of a field whose values tell where they belong."""
    rng = np.random.default_rng(number)
    values = 280 + rng.integers(-300, 300, (days, 6, 8)) / 16
    values[rng.random(values.shape) < 0.1] = np.nan
    time = xr.date_range(f"2020-{number + 1:02}-01", periods=days)
    return xr.Dataset(
        {"sst": (("time", "lat", "lon"), values, {"units": "K"})},
        {
            "time": time,
            "lat": ("lat", np.linspace(-50, 50, 6), {"units": "degrees_north"}),
            "lon": np.linspace(0, 350, 8),
        },
    )


def netcdf3(dataset: xr.Dataset, path: Path, packing: dict[str, Any]) -> Callable[[], xr.Dataset]:
    dataset.to_netcdf(
        path,
        engine="netcdf4",
        format="NETCDF3_64BIT",
        unlimited_dims=["time"],
        encoding={"sst": packing, "time": {"units": "hours since 1900-01-01", "dtype": "i4"}},
    )
    return lambda: xr.open_dataset(path, engine="scipy")


def netcdf4(dataset: xr.Dataset, path: Path, packing: dict[str, Any]) -> Callable[[], xr.Dataset]:
    encoding = {"sst": {**packing, "zlib": True, "chunksizes": (3, 4, 5)}}
    dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return lambda: xr.open_dataset(path, engine="h5netcdf")


def zarr(version: int) -> Writer:
    def write(dataset: xr.Dataset, path: Path, packing: dict[str, Any]) -> Callable[[], xr.Dataset]:
        # of Zarr's second version, xarray keeps the fill value where Zarr has one
        encoding = {"sst": {**packing, "chunks": (4, 6, 3)}}
        dataset.to_zarr(path, zarr_format=version, encoding=encoding, consolidated=False)
        return lambda: xr.open_zarr(path, consolidated=False, chunks=None)

    return write


WRITERS: dict[str, Writer] = {
    "3.nc": netcdf3,
    "4.nc": netcdf4,
    "v2.zarr": zarr(2),
    "v3.zarr": zarr(3),
}

PACKINGS: tuple[dict[str, Any], ...] = (
    {"dtype": "i2", "scale_factor": 1 / 16, "add_offset": 280.0, "_FillValue": -999},
    {"dtype": "i2", "scale_factor": 0.01, "add_offset": 270.0, "_FillValue": -1},
    {"dtype": "f4", "_FillValue": np.float32(1e20)},
    {"dtype": "f8"},
)


@pytest.mark.parametrize("shift", range(len(PACKINGS)))
def test_netcdf3_netcdf4_and_zarr_in_one_array(tmp_path: Path, shift: int) -> None:
    paths: list[Path] = []
    expected: list[xr.Dataset] = []
    for number, (name, write) in enumerate(WRITERS.items()):
        path = tmp_path / name
        packing = PACKINGS[(number + shift) % len(PACKINGS)]
        opened = write(part(number, 10 + number), path, packing)
        paths.append(path)
        with opened() as dataset:
            expected.append(dataset.load())
    actual = intarsia.open_mfdataset(paths, concat_dim="time", combine="nested")
    whole = xr.combine_nested(expected, concat_dim="time", combine_attrs="override")
    assert is_virtual(actual, "sst")
    assert_identical(actual, whole)

    cut = {"time": slice(25, 2, -3), "lon": [5, 1]}
    assert_identical(actual.isel(cut), whole.isel(cut))

    store = tmp_path / "all.intarsia"
    actual.intarsia.save(store)
    again = intarsia.open_dataset(store)
    assert is_virtual(again, "sst")
    assert_identical(again, whole)
    result = intarsia.verify(store)
    assert result.ok, result
    assert intarsia.verify(store, sample=50).ok
