"""Opening files in other threads and processes: the same datasets, the same errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import NotAFile, NotHDF5
from tests.compare import assert_identical

NESTED = {"combine": "nested", "concat_dim": "time"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths: list[str] = []
    for number in range(4):
        days = xr.date_range(f"2021-0{number + 1}-01", periods=3 + number)
        values = np.arange(days.size * 4.0).reshape(-1, 4) + 100 * number
        ds = xr.Dataset({"v": (("time", "x"), values)}, {"time": days, "x": np.arange(4)})
        packing = {"dtype": "i2", "scale_factor": 0.5 + number, "_FillValue": -9}
        paths.append(str(tmp_path / f"{number}.nc"))
        ds.to_netcdf(paths[-1], engine="h5netcdf", encoding={"v": packing})
    return paths


@contextmanager
def distributed() -> Iterator[Executor]:
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        yield executor


MAKE = {
    "threads": lambda: ThreadPoolExecutor(2),
    "spawn": lambda: ProcessPoolExecutor(1, mp_context=get_context("spawn")),
    "forkserver": lambda: ProcessPoolExecutor(1, mp_context=get_context("forkserver")),
    "dask.distributed": distributed,
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", MAKE)
def test_files_are_opened_elsewhere(files: list[str], kind: str, tmp_path: Path) -> None:
    expected = xr.concat([xr.load_dataset(path, engine="h5netcdf") for path in files], "time")
    with MAKE[kind]() as executor:
        ds = intarsia.open_mfdataset(files, executor=executor, **NESTED)
        data = ds.v.variable._data
        assert isinstance(data, VirtualArray)
        assert [data.segments.sources.url(n) for n in range(4)] == files
        assert_identical(ds.load(), expected)
        bad = tmp_path / "bad.nc"
        bad.write_text("no HDF5")
        with pytest.raises(NotHDF5, match=r"bad\.nc"):
            intarsia.open_mfdataset([files[0], bad], executor=executor, **NESTED)
        bad.write_bytes(b"")
        some = intarsia.open_mfdataset([*files, bad], executor=executor, on_error="skip", **NESTED)
        assert_identical(some.load(), expected)
        with pytest.raises(NotAFile, match=r"bad\.nc"):
            intarsia.open_mfdataset([bad], executor=executor, on_error="skip", **NESTED)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_opens_and_computes(files: list[str]) -> None:
    from dask.distributed import Client, LocalCluster

    expected = xr.concat([xr.load_dataset(path, engine="h5netcdf") for path in files], "time")
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        ds = intarsia.open_mfdataset(files, executor=client.get_executor(), **NESTED)
        assert_identical(ds.chunk({"time": 2}).compute(), expected)
        assert float(ds.chunk().v.sum()) == float(expected.v.sum())
