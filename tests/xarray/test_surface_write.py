"""Writing virtual datasets: the files equal those written from memory; large ones go in blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from intarsia.array import VirtualArray, blocks
from intarsia.io.fetch import observe
from tests.algebra import lay_out
from tests.xarray.surface import Pair, pair, same, series, table

EXPLICIT: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    made = pair(tmp_path_factory.mktemp("write"), series())
    for datasets in (made.virtual, made.plain):
        datasets.append(xr.concat(datasets, "time", **EXPLICIT))
    return made


def read(path: Path, **options: Any) -> xr.Dataset:
    with xr.open_dataset(path, engine="h5netcdf", **options) as ds:
        return ds.load()


PACKED = {"d": {"dtype": "i4", "scale_factor": 0.5, "_FillValue": -1}, "f": {"zlib": True}}

NETCDF: dict[str, Callable[[xr.Dataset, Path], Any]] = {
    "h5netcdf": lambda d, p: d.to_netcdf(p, engine="h5netcdf"),
    "netcdf4": lambda d, p: d.to_netcdf(p, engine="netcdf4"),
    "packed": lambda d, p: d.to_netcdf(p, engine="h5netcdf", encoding=PACKED),
    "unlimited": lambda d, p: d.to_netcdf(p, engine="h5netcdf", unlimited_dims=["time"]),
    "group": lambda d, p: d.to_netcdf(p, engine="h5netcdf", group="/"),
    "dataarray": lambda d, p: d.v.to_netcdf(p, engine="h5netcdf"),
    "later": lambda d, p: _compute(d.to_netcdf(p, engine="h5netcdf", compute=False)),
    "chunked": lambda d, p: d.chunk(time=5).to_netcdf(p, engine="h5netcdf"),
    "sliced": lambda d, p: d.isel(time=slice(None, None, -2)).to_netcdf(p, engine="h5netcdf"),
    "many": lambda d, p: xr.save_mfdataset([d], [p], engine="h5netcdf"),
    "tree": lambda d, p: xr.DataTree(d).to_netcdf(p, engine="h5netcdf"),
}


def _compute(delayed: Any) -> None:
    if delayed is not None:  # there is nothing to put off where all is in memory
        delayed.compute(scheduler="synchronous")


@table(NETCDF)
def test_to_netcdf(both: Pair, tmp_path: Path, run: Callable[[xr.Dataset, Path], Any]) -> None:
    if run is NETCDF["netcdf4"]:
        pytest.importorskip("netCDF4")
    run(both.plain[-1], tmp_path / "plain.nc")
    run(both.virtual[-1], tmp_path / "virtual.nc")
    same(read(tmp_path / "virtual.nc"), read(tmp_path / "plain.nc"))
    raw: dict[str, Any] = {"mask_and_scale": False, "decode_times": False}
    same(read(tmp_path / "virtual.nc", **raw), read(tmp_path / "plain.nc", **raw))


def test_to_bytes(both: Pair) -> None:
    written = both.virtual[-1].to_netcdf(engine="h5netcdf")
    with xr.open_dataset(written, engine="h5netcdf") as ds:
        same(
            ds[["v", "f"]].load().drop_vars(["time"]), both.plain[-1][["v", "f"]].drop_vars("time")
        )


ZARR: dict[str, Callable[[xr.Dataset, Path], Any]] = {
    "plain": lambda d, p: d.to_zarr(p),
    "chunks": lambda d, p: d.to_zarr(p, encoding={"v": {"chunks": (5, 2, 5)}}),
    "chunked": lambda d, p: d.chunk(time=5).to_zarr(p),
}


def _append(d: xr.Dataset, path: Path) -> None:
    d.isel(time=slice(0, 4)).to_zarr(path)
    moving = d.drop_vars(["land", "area"])
    moving.isel(time=slice(4, None)).to_zarr(path, append_dim="time")


def _region(d: xr.Dataset, path: Path) -> None:
    """A part of an array; as with dask's, xarray wants to hear that writing it is safe."""
    d.to_zarr(path)
    part = d[["v"]].drop_vars(["lat", "area", "time", "step"]).isel(time=slice(5, 0, -1))
    part.to_zarr(path, region={"time": slice(2, 7)}, safe_chunks=False)


@table({**ZARR, "append": _append, "region": _region})
def test_to_zarr(both: Pair, tmp_path: Path, run: Callable[[xr.Dataset, Path], Any]) -> None:
    pytest.importorskip("zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zarr itself, the same for both
        run(both.plain[-1], tmp_path / "plain.zarr")
        run(both.virtual[-1], tmp_path / "virtual.zarr")
        expected = xr.open_zarr(tmp_path / "plain.zarr", chunks=None).load()
        same(xr.open_zarr(tmp_path / "virtual.zarr", chunks=None).load(), expected)


def test_written_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What doesn't fit is never in memory as a whole: blocks of the source are written in turn."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4000)
    values = np.arange(40_000, dtype="i4").reshape(100, 400)
    array, _ = lay_out(tmp_path / "a", values, (7, 400), zlevel=1)
    dataset = xr.Dataset({"x": (("t", "y"), np.concatenate([array, array[::-1]]))})
    largest = 0
    loading = VirtualArray.load

    def counted(self: VirtualArray) -> np.ndarray:
        nonlocal largest
        largest = max(largest, self.nbytes)
        return loading(self)

    monkeypatch.setattr(VirtualArray, "load", counted)
    with observe() as reads:
        dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert largest < values.nbytes / 5
    assert reads.nbytes <= 2.01 * (tmp_path / "a").stat().st_size
    np.testing.assert_array_equal(
        read(tmp_path / "a.nc").x.values, np.concatenate([values, values[::-1]])
    )
