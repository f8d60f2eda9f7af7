"""Virtual datasets of VirtualiZarr, taken over: equal to what xarray reads of them when written."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import SourceChanged, SourceMissing
from intarsia.io.fetch import observe
from tests.check import is_virtual
from tests.compare import assert_identical

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")


def make(path: Path, month: int, **encoding: Any) -> str:
    rng = np.random.default_rng(month)
    values = rng.integers(0, 900, (4, 6, 8)) / 100
    values[1, 2, 3] = np.nan
    times = xr.date_range(f"2020-{month:02}-01", periods=4)
    bounds = np.stack([times, times + np.timedelta64(1, "D")], axis=1)
    ds = xr.Dataset(
        {
            "a": (("t", "y", "x"), values, {"units": "K", "coordinates": "place"}),
            "f": (("t", "x"), values[:, 0].astype("f4")),
            "t_bnds": (("t", "b"), bounds),
            "one": ((), np.float32(3)),
        },
        {
            "t": ("t", times, {"bounds": "t_bnds"}),
            "y": np.arange(6.0),
            "place": (("y", "x"), np.arange(48.0).reshape(6, 8)),
        },
        {"title": "months"},
    )
    packed = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -9, "chunksizes": (2, 3, 8)}
    packed |= {"zlib": True, "shuffle": True} | encoding
    ds.to_netcdf(path, engine="h5netcdf", encoding={"a": packed, "t": {"units": "days since 2000"}})
    return str(path)


def virtual(
    paths: list[str], loadable: list[str], dim: str = "t", data_vars: Any = "minimal"
) -> xr.Dataset:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser

    registry: Any = ObjectStoreRegistry({"file://": LocalStore()})
    with warnings.catch_warnings(action="ignore"):
        opened = [
            open_virtual_dataset(
                f"file://{path}",
                parser=HDFParser(),
                registry=registry,
                loadable_variables=loadable,
                decode_times=True,
            )
            for path in paths
        ]
        return xr.concat(opened, dim, data_vars=data_vars, coords="minimal", compat="override")


def through_icechunk(vds: xr.Dataset, folder: Path, **arguments: Any) -> xr.Dataset:
    """The dataset, written to Icechunk by VirtualiZarr and opened by xarray."""
    import icechunk

    home = f"file://{folder}/"
    config = icechunk.RepositoryConfig.default()
    store = icechunk.local_filesystem_store(str(folder))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(home, store))
    allowed = {home: icechunk.Credentials.LocalFileSystemAccess()}
    repo = icechunk.Repository.create(
        icechunk.in_memory_storage(), config, authorize_virtual_chunk_access=allowed
    )
    session = repo.writable_session("main")
    with warnings.catch_warnings(action="ignore"):
        vds.vz.to_icechunk(session.store, last_updated_at=None)
        session.commit("all")
        store = repo.readonly_session("main").store
        with xr.open_zarr(store, consolidated=False, chunks=None, **arguments) as ds:
            return ds.load()


def like(actual: xr.Dataset, expected: xr.Dataset) -> xr.Dataset:
    return expected[list(actual.data_vars)]


LOADABLE = [["t", "y"], ["t", "y", "place", "one", "t_bnds"], []]


@pytest.mark.parametrize("loadable", LOADABLE)
def test_what_is_adopted_is_what_would_be_read(tmp_path: Path, loadable: list[str]) -> None:
    count = 1 if not loadable else 3  # VirtualiZarr can't put indexes together unread
    paths = [make(tmp_path / f"{month}.nc", month) for month in range(1, count + 1)]
    vds = virtual(paths, loadable)
    with observe() as reads:
        ds = intarsia.from_virtualizarr(vds)
    read = {url for url, _, _ in reads.ranges}
    assert read <= set(paths)
    assert is_virtual(ds, "a")
    assert_identical(ds, like(ds, through_icechunk(vds, tmp_path)))
    assert set(ds.coords) == {"t", "y", "place"}
    plain = intarsia.from_virtualizarr(vds, mask_and_scale=False, decode_times=False)
    expected = through_icechunk(vds, tmp_path, mask_and_scale=False, decode_times=False)
    assert_identical(plain, like(plain, expected))


def test_along_a_new_dimension(tmp_path: Path) -> None:
    paths = [make(tmp_path / f"{name}.nc", 1) for name in "ab"]
    vds = virtual(paths, ["t", "y"], "member", ["a", "f"])
    ds = intarsia.from_virtualizarr(vds[["a", "f"]])
    assert ds.a.sizes["member"] == 2
    assert_identical(ds, like(ds, through_icechunk(vds[["a", "f"]], tmp_path)))


def test_it_is_combined_and_saved(tmp_path: Path) -> None:
    paths = [make(tmp_path / f"{month}.nc", month) for month in (1, 2, 3)]
    adopted = intarsia.from_virtualizarr(virtual(paths[:2], ["t", "y", "place", "one"]))
    ours = intarsia.open_dataset(paths[2])
    arguments: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    both = xr.concat([adopted, ours], "t", **arguments)
    assert is_virtual(both, "a")
    both.intarsia.save(tmp_path / "s.intarsia")
    again = intarsia.open_dataset(tmp_path / "s.intarsia")
    assert is_virtual(again, "a")
    with xr.open_mfdataset(
        paths, engine="h5netcdf", concat_dim="t", combine="nested", **arguments
    ) as expected:
        assert again.a.values.tobytes() == expected.a.values.tobytes()
    result = intarsia.verify(tmp_path / "s.intarsia")
    assert result.ok, result


def test_notes_say_what_a_manifest_cant(tmp_path: Path) -> None:
    vds = virtual([make(tmp_path / "1.nc", 1)], ["t"])
    report = " ".join(str(intarsia.from_virtualizarr(vds).intarsia.report()).split())
    assert "pinned as they are now" in report
    assert "filters that single chunks skipped" in report
    assert "DMR++, FITS and HDF4 say wrongly" in report


def test_files_that_changed_or_went(tmp_path: Path) -> None:
    paths = [make(tmp_path / f"{month}.nc", month) for month in (1, 2)]
    vds = virtual(paths, ["t", "y"])
    ds = intarsia.from_virtualizarr(vds)
    os.utime(paths[1], (1, 1))
    with pytest.raises(SourceChanged, match=r"2\.nc"):
        ds.a.load()
    os.remove(paths[1])
    vds = vds.drop_vars([name for name in vds if name not in ("a", "f")])
    with pytest.raises(SourceMissing, match=r"2\.nc"):
        intarsia.from_virtualizarr(vds.drop_vars("place")).a.load()


def test_what_is_none() -> None:
    with pytest.raises(TypeError, match="no variable that is a ManifestArray"):
        intarsia.from_virtualizarr(xr.Dataset({"a": ("x", [1, 2])}))
    with pytest.raises(TypeError, match=r"must be an xarray\.Dataset"):
        intarsia.from_virtualizarr("a.nc")  # pyright: ignore[reportArgumentType]
