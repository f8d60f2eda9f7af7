"""Every group of every real file: names, order, dimensions, attributes, dtypes and values."""

from __future__ import annotations

from pathlib import Path

import hdf5plugin  # noqa: F401  # so that xarray can read what plug-ins have written
import pytest

from tests.real import real_files
from tests.scan.store import assert_as_xarray, groups, virtual

PLUGINS = "hdf5_compression_"


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_a_scan_is_what_xarray_reads(path: Path) -> None:
    for group in groups(path):
        scanned = assert_as_xarray(path, group)
        if path.name.startswith(PLUGINS):
            virtual(scanned, "data")


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_dimensions_without_names_are_sorted_as_by_xarray(path: Path) -> None:
    for group in groups(path):
        assert_as_xarray(path, group, "sort", values=False)
