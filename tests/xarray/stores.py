"""Files that are packed in different ways, and datasets of every kind of value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cftime
import h5py
import numpy as np
import pandas as pd
import xarray as xr

import intarsia
from intarsia.array import LazyArray
from tests.compare import assert_identical
from tests.xarray.surface import series
from tests.xarray.test_surface_files import EXPLICIT, PACKING

ALONG: dict[str, Any] = {"combine": "nested", "concat_dim": "time", **EXPLICIT}


def write_files(folder: Path) -> list[Path]:
    """Three pieces of a series, each packed in its own way."""
    folder.mkdir(exist_ok=True, parents=True)
    paths = []
    for number, (ds, encoding) in enumerate(zip(series(), PACKING, strict=True)):
        paths.append(folder / f"{number}.nc")
        packed = ds.assign(v=ds.v.astype("f4"))
        packed.to_netcdf(paths[-1], engine="h5netcdf", encoding=encoding, unlimited_dims=["time"])
    return paths


def plain_series(paths: list[Path]) -> xr.Dataset:
    """What the files hold, by xarray alone."""
    plain = [xr.open_dataset(path, engine="h5netcdf").load() for path in paths]
    return xr.concat(plain, "time", **EXPLICIT).drop_encoding()


def is_virtual(dataset: xr.Dataset, name: str) -> bool:
    return isinstance(dataset.variables[name]._data, LazyArray)


def same(actual: xr.Dataset, expected: xr.Dataset) -> None:
    """Identical in every bit, and in the order of all variables."""
    assert list(actual.variables) == list(expected.variables)
    assert list(actual.data_vars) == list(expected.data_vars)
    assert_identical(actual.compute(), expected.compute())


def of_every_kind() -> xr.Dataset:
    """Variables of every kind of value that a store keeps, with attributes of as many types."""
    dates = cftime.num2date(
        [0, 30.25, 400], "days since 2000-01-30", "360_day", only_use_cftime_datetimes=True
    )
    names = np.empty(3, object)
    names[:] = ["a", "ümläut", ""]
    holes = np.empty(3, object)
    holes[:] = ["a", np.nan, None]
    ds = xr.Dataset(
        {
            "last": ("x", np.array([1, 2, 3], "i2"), {"units": "K", "n": np.int16(3)}),
            "float": (("x", "y"), np.array([[1.5, np.nan], [-0.0, np.inf], [0, 1e-300]])),
            "half": ("x", np.array([0.1, 1, 2], "f2")),
            "wide": ("y", np.array([2**63, 5], "u8")),
            "flag": ("x", [True, False, True]),
            "complex": ("x", np.array([1j, np.nan, 2], "c8")),
            "when": ("x", np.array(["2001-01-01", "NaT", "1999-12-31"], "M8[ns]")),
            "coarse": ("x", np.array(["0001-01-01", "NaT", "9999-12-31"], "M8[s]")),
            "lasts": ("x", np.array([1, 2, "NaT"], "m8[ns]")),
            "calendar": ("x", dates),
            "fixed": ("x", np.array(["a", "bcd", ""])),
            "bytes": ("x", np.array([b"a", b"\xff\0c", b""])),
            "names": ("x", names),
            "holes": ("x", holes),
            "number": ((), np.float32(2.5)),
            "nothing": (("none", "y"), np.zeros((0, 2), "f4")),
            "strided": (("y", "x"), np.arange(12).reshape(4, 3)[::2]),
        },
        {
            "x": ("x", [30, 10, 20], {"axis": "X"}),
            "y": ("y", pd.date_range("2001-01-01", periods=2)),
            "label": ("x", ["p", "q", "r"]),
            "scalar": ((), np.datetime64("2002-02-02", "ns")),
            "area": (("x", "y"), np.ones((3, 2))),
        },
        {
            "title": "every kind",
            "list": ["a", 1, 2.5],
            "array": np.array([1, 2], ">i4"),
            "nan": np.float64("nan"),
            "flag": np.bool_(True),
            "text": np.array(["a", "bc"]),
            "bytes": b"\xff",
        },
    )
    ds["last"].encoding = {
        "dtype": np.dtype("i2"),
        "_FillValue": np.int16(-1),
        "scale_factor": np.float32(0.1),
        "chunksizes": (2,),
        "zlib": True,
        "source": "/home/somebody/a.nc",
        "original_shape": (9,),
        "preferred_chunks": {"x": 3},
    }
    ds["names"].encoding = {"dtype": str, "_FillValue": ""}
    ds["x"].encoding = {"dtype": h5py.string_dtype()}
    ds["when"].encoding = {"units": "days since 1970-01-01", "calendar": "standard"}
    ds.encoding = {"unlimited_dims": {"x"}, "source": "/home/somebody/a.nc"}
    return ds


def opened(paths: list[Path], **arguments: Any) -> xr.Dataset:
    return intarsia.open_mfdataset(paths, **ALONG, **arguments)
