"""Imported once, before contenders start: the libraries that most of them share."""

import dask.array  # noqa: F401
import h5netcdf  # noqa: F401
import netCDF4  # noqa: F401
import xarray as xr

xr.Dataset({"x": ("x", [1])})  # what xarray imports on first use
