"""TensorStore: refuses virtual arrays, reads all others but strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intarsia.store.guard import KEYS
from tests.readers import zarr_ways as ways
from tests.readers.by_hand import Store
from tests.readers.optional import reader

ts = reader("tensorstore")


def by_spec(driver: str, **more: Any) -> Callable[[Store, str], Any]:
    def opened(store: Store, name: str) -> Any:
        place = {"driver": "file", "path": f"{store.path}/{name}/"}
        return ts.open({"driver": driver, "kvstore": place, **more}).result()

    return opened


WAYS: dict[str, Callable[[Store, str], Any]] = {
    "zarr3": by_spec("zarr3"),
    "auto": by_spec("auto"),
    "open or create": by_spec("zarr3", open=True, create=True),
    "without checks": by_spec("zarr3", assume_cached_metadata=False, recheck_cached_metadata=False),
    "URL": lambda store, name: ts.open(f"file://{store.path}/{name}/|zarr3:").result(),
    "URL, any driver": lambda store, name: ts.open(f"file://{store.path}/{name}/").result(),
    "zip": lambda store, name: ts.open(f"file://{store.zipped}|zip:{name}/|zarr3:").result(),
}


@pytest.mark.parametrize("way", WAYS)
def test_virtual_arrays_are_refused(store: Store, unguarded: Store, way: str) -> None:
    for name in store.virtual:
        with pytest.raises(ValueError, match=f'"chunk_key_encoding".*but received: "{KEYS}"'):
            WAYS[way](store, name)
        found = WAYS[way](unguarded, name).read().result()
        assert found.shape == store.shape(name), "it was not the guard that was refused"


@pytest.mark.parametrize("way", WAYS)
def test_copied_arrays_are_read(either: Store, way: str) -> None:
    for name, values in either.copied.items():
        if values.dtype == object:
            with pytest.raises(ValueError, match="string data type is not one of"):
                WAYS[way](either, name)
            continue
        found = WAYS[way](either, name).read().result()
        assert ways.digest(found) == ways.digest(values), name


def test_tables_are_read(either: Store) -> None:
    for name, values in either.tables.items():
        array = WAYS["zarr3"](either, name)
        half = values.shape[1] // 2
        np.testing.assert_array_equal(array.read().result(), values)
        np.testing.assert_array_equal(array[:, half:].read().result(), values[:, half:])
