"""Every group of every real file: names, order, dimensions, attributes, dtypes and values."""

from __future__ import annotations

from pathlib import Path

import pytest
from h5py import h5z

from tests.real import real_files
from tests.scan.store import assert_as_xarray, groups, opaque

PLUGINS = {
    "hdf5_compression_bitshuffle.h5": ("bitshuffle", 32008),
    "hdf5_compression_blosc_lz4_bitshuffle.h5": ("blosc", 32001),
    "hdf5_compression_lz4.h5": ("lz4", 32004),
    "hdf5_compression_zstd.h5": ("zstd", 32015),
}


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_a_scan_is_what_xarray_reads(path: Path) -> None:
    name, number = PLUGINS.get(path.name, ("", 0))
    # netCDF4 brings plug-ins for some filters, which h5py finds once that is imported
    missing = bool(name) and not h5z.filter_avail(number)
    for group in groups(path):
        scanned = assert_as_xarray(path, group, unreadable=("data",) if missing else ())
        if name:
            data = opaque(scanned, "data")
            assert data.reason == f"stored with the filter {name}"
            assert data.remedy == (f"install the HDF5 plug-in for {name}" if missing else "")


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_dimensions_without_names_are_sorted_as_by_xarray(path: Path) -> None:
    for group in groups(path):
        assert_as_xarray(path, group, "sort", values=False)
