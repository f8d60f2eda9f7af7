"""Wrong arguments, and files that xarray can't decode: told in the caller's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import CorruptFile, SourceMissing, UnsupportedError, UpstreamFault

NESTED: dict[str, Any] = {"combine": "nested", "concat_dim": "time"}


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    made: list[str] = []
    for number in range(2):
        time = xr.date_range(f"2021-0{number + 1}-01", periods=3)
        u1 = np.array([128, 54, 143], "u1")
        ds = xr.Dataset(
            {"u1": ("time", u1), "f": ("time", np.array([280.1, 2.0, -1]))}, {"time": time}
        )
        made.append(str(tmp_path / f"{number}.nc"))
        ds.to_netcdf(made[-1], engine="h5netcdf")
    return made


@pytest.mark.parametrize("dtype", [str, "U", "S", bytes, "U5", "S3", object, "f2", complex])
@pytest.mark.parametrize("name", ["u1", "f"])
def test_casts_are_numpys(paths: list[str], name: str, dtype: Any) -> None:
    ds = intarsia.open_mfdataset(paths, **NESTED)
    values = ds[name].values
    cast = ds[name].astype(dtype).values
    assert cast.dtype == values.astype(dtype).dtype
    np.testing.assert_array_equal(cast, values.astype(dtype))


def test_a_cast_that_is_not_allowed(paths: list[str]) -> None:
    ds = intarsia.open_dataset(paths[0])
    with pytest.raises(TypeError, match="safe"):
        ds.f.variable._data.astype("f4", casting="safe")


def test_paths_that_are_none(paths: list[str]) -> None:
    with pytest.raises(TypeError, match="pathlib"):
        intarsia.open_dataset(b"a.nc")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="nothing reads ftp://"):
        intarsia.open_dataset("ftp://example.com/a.nc")
    with pytest.raises(UnsupportedError, match="nothing reads ftp://"):
        intarsia.open_mfdataset([paths[0], "ftp://example.com/a.nc"], **NESTED)
    with pytest.raises(SourceMissing):
        intarsia.open_dataset("file:///nowhere/a.nc")


def test_nesting_that_does_not_fit(paths: list[str]) -> None:
    with pytest.raises(ValueError, match="2 dimension"):
        intarsia.open_mfdataset(paths, combine="nested", concat_dim=["time", "x"])


@pytest.mark.parametrize("returned", [None, 3, xr.DataArray([1])])
def test_preprocess_has_to_return_a_dataset(paths: list[str], returned: Any) -> None:
    with pytest.raises(TypeError, match="preprocess"):
        intarsia.open_mfdataset(paths, preprocess=lambda ds: returned, **NESTED)


def test_arguments_that_do_not_exist(paths: list[str]) -> None:
    with pytest.raises(TypeError, match=r"open_mfdataset\(\).*'foo'"):
        intarsia.open_mfdataset(paths, foo=3, **NESTED)
    with pytest.raises(TypeError, match="reading needs none"):
        intarsia.open_mfdataset(paths, lock=True, **NESTED)
    with pytest.raises(TypeError, match=r"check\(\)"):
        intarsia.check(paths, engine="h5netcdf")
    with pytest.raises(TypeError, match="Executor"):
        intarsia.open_mfdataset(paths, executor=3, **NESTED)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        intarsia.open_mfdataset(paths, tolerance=-1, **NESTED)
    with pytest.raises(TypeError, match="tolerance"):
        intarsia.open_mfdataset(paths, tolerance="x", **NESTED)
    assert "u1" in intarsia.open_dataset(paths[0], loadable_variables=["nope"])


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("time", {"units": "days since forever"}),
        ("time", {"units": "days since 2000-01-01", "calendar": "lunar"}),
    ],
)
def test_a_file_that_xarray_can_not_decode_is_named(
    paths: list[str], tmp_path: Path, name: str, attrs: dict[str, Any]
) -> None:
    bad = tmp_path / "bad.nc"
    with h5py.File(bad, "w") as file:
        file.create_dataset("time", data=np.arange(3)).make_scale("time")
        file["v"] = np.arange(3)
        file["v"].dims[0].attach_scale(file["time"])
        file[name].attrs.update(attrs)
    with pytest.raises(UpstreamFault, match=r"bad\.nc"):
        intarsia.open_dataset(bad)
    rest = intarsia.open_mfdataset([*paths, bad], on_error="skip", **NESTED)
    assert rest.sizes["time"] == 6
    assert "bad.nc" in str(rest.intarsia.report())


def test_a_broken_reference_to_a_dimension(paths: list[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.nc"
    with h5py.File(bad, "w") as file:
        file.create_dataset("time", data=np.arange(3)).make_scale("time")
        file["v"] = np.arange(3)
        file["v"].dims[0].attach_scale(file["time"])
        address = h5py.h5o.get_info(file["time"].id).addr
    data = bad.read_bytes()
    reference = address.to_bytes(8, "little")
    place = data.rindex(reference)
    bad.write_bytes(data[:place] + (address + 8).to_bytes(8, "little") + data[place + 8 :])
    with pytest.raises(CorruptFile, match=r"bad\.nc"):
        intarsia.open_dataset(bad)
