"""Every group of every real file: names, order, dimensions, attributes, dtypes and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real import real_files
from tests.scan.store import assert_as_xarray, groups

PLUGINS = {
    "hdf5_compression_bitshuffle.h5": "bitshuffle",
    "hdf5_compression_blosc_lz4_bitshuffle.h5": "blosc",
    "hdf5_compression_lz4.h5": "lz4",
    "hdf5_compression_zstd.h5": "zstd",
}


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_a_scan_is_what_xarray_reads(path: Path) -> None:
    name = PLUGINS.get(path.name)
    for group in groups(path):
        scanned = assert_as_xarray(path, group, unreadable=("data",) if name else ())
        if name is not None:
            data = scanned.variables["data"].data
            assert data.reason == f"stored with the filter {name}"
            assert data.remedy == f"install the HDF5 plug-in for {name}"


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_dimensions_without_names_are_sorted_as_by_xarray(path: Path) -> None:
    for group in groups(path):
        assert_as_xarray(path, group, "sort", values=False)
