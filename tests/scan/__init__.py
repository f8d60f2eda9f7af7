"""The HDF5 scan against xarray's own h5netcdf store, before decoding."""
