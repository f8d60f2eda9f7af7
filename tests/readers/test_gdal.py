"""GDAL, through rasterio: refuses virtual arrays, reads others as rasters.

A whole store or group opens as a list of its arrays, in which virtual ones are not: GDAL passes
over what it can't open. As rasters it reads no arrays without dimensions or without elements, no
strings, booleans as uint8, and no tables: it has no sharding. Its interface for arrays is not in
rasterio, so that is not tested.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.readers import zarr_ways as ways
from tests.readers.by_hand import Store
from tests.readers.optional import reader

rasterio = reader("rasterio")

WAYS: dict[str, Callable[[Store, str], str]] = {
    "store and name": lambda store, name: f'ZARR:"{store.path}":/{name}',
    "path of the array": lambda store, name: f'ZARR:"{store.path}/{name}"',
    "without quotes": lambda store, name: f"ZARR:{store.path}/{name}",
    "plain path": lambda store, name: f"{store.path}/{name}",
    "metadata": lambda store, name: f"{store.path}/{name}/zarr.json",
    "file URL": lambda store, name: f"file://{store.path}/{name}",
    "zip, store and name": lambda store, name: f'ZARR:"/vsizip/{store.zipped}":/{name}',
    "zip, path of the array": lambda store, name: f"/vsizip/{store.zipped}/{name}",
    "zip URL": lambda store, name: f"zip://{store.zipped}!/{name}",
}


@pytest.fixture(autouse=True)
def not_georeferenced() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        yield


def read(place: str, **options: Any) -> np.ndarray:
    with rasterio.open(place, **options) as opened:
        return opened.read()


@pytest.mark.parametrize("way", WAYS)
def test_virtual_arrays_are_refused(store: Store, unguarded: Store, way: str) -> None:
    for name in store.virtual:
        place = WAYS[way](store, name)
        with pytest.raises(rasterio.errors.RasterioIOError, match="Unsupported chunk_key_encoding"):
            read(place)
        with pytest.raises(rasterio.errors.RasterioIOError, match="Unsupported chunk_key_encoding"):
            read(place, driver="Zarr")
        found = read(WAYS[way](unguarded, name))
        assert found.shape == (1, *store.shape(name)), "it was not the guard that was refused"


@pytest.mark.parametrize("group", ["", "/g", "/g/deeper"])
@pytest.mark.parametrize("options", [{}, {"LIST_ALL_ARRAYS": "YES"}, {"USE_ZMETADATA": "NO"}])
def test_lists_are_without_virtual_arrays(
    store: Store, unguarded: Store, group: str, options: dict[str, str]
) -> None:
    with rasterio.open(f"{unguarded.path}{group}", **options) as opened:
        assert opened.subdatasets or opened.count == 1
    with rasterio.open(f"{store.path}{group}", **options) as opened:
        assert opened.count == 0
        names = {place.rpartition(":/")[2] for place in opened.subdatasets}
        assert names <= store.copied.keys() | {"lat"}
        assert not names & set(store.virtual)
        for place in opened.subdatasets:
            assert "__intarsia__" not in place


@pytest.mark.parametrize("way", WAYS)
def test_copied_arrays_are_read(either: Store, way: str) -> None:
    for name, values in either.copied.items():
        place = WAYS[way](either, name)
        if values.ndim == 0 or values.size == 0 or values.dtype == object:
            with pytest.raises(rasterio.errors.RasterioIOError):
                read(place)
            continue
        found = read(place).reshape(values.shape)
        if values.dtype == bool:
            values = values.astype("u1")
        assert ways.digest(found) == ways.digest(values), name


def test_tables_are_refused(either: Store) -> None:
    for name in either.tables:
        with pytest.raises(rasterio.errors.RasterioIOError, match="sharding_indexed"):
            read(f'ZARR:"{either.path}/{name}"')
