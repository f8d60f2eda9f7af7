"""The tables of operations again, on files that differ in how they are stored and packed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from tests.xarray import test_surface_compute, test_surface_select
from tests.xarray.surface import Pair, check, same, series, table

EXPLICIT: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}

HALF, QUARTER = np.float32(0.5), np.float32(0.25)

PACKING: list[dict[str, dict[str, Any]]] = [
    {
        "v": {"dtype": "i2", "scale_factor": HALF, "_FillValue": -1, "zlib": True},
        "f": {"dtype": "f4", "chunksizes": (2, 2), "shuffle": True, "zlib": True},
        "d": {"dtype": "i4", "scale_factor": 0.01, "_FillValue": -5, "fletcher32": True},
    },
    {
        "v": {"dtype": "i2", "scale_factor": QUARTER, "_FillValue": -2},
        "f": {"dtype": "f4", "chunksizes": (4, 3), "zlib": True},
        "d": {"dtype": "i4", "scale_factor": 0.02, "add_offset": -1.0, "_FillValue": -9},
    },
    {"v": {"dtype": "i2", "scale_factor": HALF, "_FillValue": -1}},
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder: Path = tmp_path_factory.mktemp("files")
    paths = []
    for number, (ds, encoding) in enumerate(zip(series(), PACKING, strict=True)):
        paths.append(folder / f"{number}.nc")
        ds.assign(v=ds.v.astype("f4")).to_netcdf(paths[-1], engine="h5netcdf", encoding=encoding)
    opened = [intarsia.open_dataset(path) for path in paths]
    plain = [xr.open_dataset(path, engine="h5netcdf").load() for path in paths]
    whole = xr.concat(opened, "time", **EXPLICIT)
    assert isinstance(whole.v.variable._data, VirtualArray)
    for ds in (*opened, *plain):
        ds.encoding = {}
        for variable in ds.variables.values():
            variable.encoding = {}
    return Pair([whole], [xr.concat(plain, "time", **EXPLICIT)])


@pytest.fixture(autouse=True)
def numpy_alone() -> Iterator[None]:
    with xr.set_options(use_bottleneck=False, use_numbagg=False):
        yield


STAYS = {**test_surface_select.STAYS, **test_surface_compute.STAYS}
STAYS.pop("groupby first")  # of floating numbers: the first that is not missing
LOADS = dict(test_surface_compute.LOADS)
LOADS.pop("groupby anomaly")


@table(STAYS)
def test_stays_virtual(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    check(both, lambda D: run(D[0]), reads=False)


def test_anomalies(both: Pair) -> None:
    """xarray makes the group's means dask arrays, which it then can't load beside a coordinate."""
    whole, plain = both.virtual[0], both.plain[0]

    def run(v: xr.DataArray) -> xr.DataArray:
        return v.groupby("time.month") - v.groupby("time.month").mean()

    with pytest.raises(TypeError, match=r"call \.chunk\(\) on the dataset first"):
        run(whole.v).load()
    same(run(whole.v).chunk(), run(plain.v))
    same(run(whole.v.compute()), run(plain.v))
    bare = ["area", "step"]
    same(run(whole.v.drop_vars(bare)), run(plain.v.drop_vars(bare)))


@table(LOADS)
def test_computes(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(both, lambda D: run(D[0]), reads=True)
