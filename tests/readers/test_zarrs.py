"""zarrs, decoding for zarr-python: refuses virtual arrays, reads all others but strings.

zarr-python reads the metadata here, and it is what refuses. Strings zarrs hands
back to zarr-python's own pipeline, unless it is told to be strict.
"""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from intarsia.store.guard import KEYS
from tests.readers import zarr_ways as ways
from tests.readers.by_hand import Store
from tests.readers.optional import reader
from tests.readers.zarr_ways import FUSED

zarrs = reader("zarrs")

PIPELINE = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}


@pytest.mark.parametrize("way", [way for way in ways.ARRAY_WAYS if FUSED not in way])
def test_virtual_arrays_are_refused(store: Store, way: str) -> None:
    assert store.zipped.exists()
    with zarr.config.set(PIPELINE):
        for name in store.virtual:
            did, said = ways.outcome(ways.ARRAY_WAYS[way], store.path, name)
            assert (did, name) == ("refused", name)
            assert KEYS in said


@pytest.mark.parametrize("way", ways.GROUP_WAYS)
def test_groups_with_virtual_arrays_are_refused(store: Store, way: str) -> None:
    with zarr.config.set(PIPELINE):
        for group in ("", "g", "g/deeper"):
            did, said = ways.outcome(ways.GROUP_WAYS[way], store.path, group)
            assert (did, group) == ("refused", group)
            assert KEYS in said


@pytest.mark.parametrize("strict", [True, False])
def test_copied_arrays_are_read(either: Store, strict: bool) -> None:
    with zarr.config.set(PIPELINE | {"codec_pipeline.strict": strict}):
        for name, values in either.copied.items():
            if strict and values.dtype == object:
                with pytest.raises(zarrs.pipeline.UnsupportedDataTypeError):
                    zarr.open_array(either.path / name, mode="r")[...]
                continue
            found = zarr.open_array(either.path / name, mode="r")[...]
            assert ways.digest(found) == ways.digest(values), name


def test_tables_are_read(either: Store) -> None:
    with zarr.config.set(PIPELINE):
        for name, values in either.tables.items():
            array = zarr.open_array(either.path / name, mode="r")
            half = values.shape[1] // 2
            np.testing.assert_array_equal(array[...], values)
            np.testing.assert_array_equal(array[:, half:], values[:, half:])
