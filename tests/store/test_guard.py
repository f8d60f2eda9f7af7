"""Guards: sound Zarr v3 in everything but the way to chunks, which nobody knows.

What readers make of them is in tests/readers.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.metadata.v3 import ArrayV3Metadata

from intarsia.store.guard import KEYS, REFUSAL, group_metadata, guard_metadata
from intarsia.store.plain import plain_attributes

DEFAULT = {"name": "default", "configuration": {"separator": "/"}}

TYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", ">i2", ">f8"),
]

SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (3, 0, 2), (10**9, 10**9), (2,) * 32]


def parsed(document: dict[str, Any]) -> ArrayV3Metadata:
    return ArrayV3Metadata.from_dict(json.loads(json.dumps(document, allow_nan=False)))


@pytest.mark.parametrize("dtype", TYPES)
def test_only_the_way_to_chunks_is_unknown(dtype: str) -> None:
    guard = guard_metadata([4, 3], np.dtype(dtype), ["time", "lat"], {"units": "K"})
    with pytest.raises(ValueError, match=KEYS):
        parsed(guard)
    known = parsed(guard | {"chunk_key_encoding": DEFAULT})
    assert known.shape == (4, 3)
    assert known.data_type.to_native_dtype() == np.dtype(dtype).newbyteorder("=")
    assert known.dimension_names == ("time", "lat")
    assert known.attributes == {"intarsia": REFUSAL, "units": "K"}
    assert known.extra_fields == {}
    assert guard["chunk_key_encoding"] == {"name": KEYS}
    if np.dtype(dtype).kind in "fc":
        assert np.isnan(known.fill_value)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: tuple[int, ...]) -> None:
    dims = [f"d{n}" for n in range(len(shape))]
    guard = guard_metadata(shape, np.dtype("f4"), dims, {})
    assert parsed(guard | {"chunk_key_encoding": DEFAULT}).shape == shape
    with pytest.raises(ValueError, match=KEYS):
        parsed(guard)


def test_what_zarr_has_no_type_for_is_refused() -> None:
    for dtype in ("M8[ns]", "O", "U3"):
        with pytest.raises(ValueError, match="is not a type of plain Zarr arrays"):
            guard_metadata([1], np.dtype(dtype), ["x"], {})


def test_a_human_is_told_what_to_do() -> None:
    """First of all attributes, also where there is one of that name."""
    attrs = {"long_name": "temperature", "intarsia": "something else"}
    guard = guard_metadata([1], np.dtype("f4"), ["x"], attrs)
    assert guard["attributes"] == {"intarsia": REFUSAL, "long_name": "temperature"}
    assert next(iter(guard["attributes"])) == "intarsia"
    assert "intarsia.open_dataset(path)" in REFUSAL
    assert attrs["intarsia"] == "something else"


def test_attributes_as_they_are_written() -> None:
    attrs = {"_FillValue": np.float32(np.nan), "valid_range": np.array([1.0, np.inf]), "s": "é"}
    dtype = np.dtype("f4")
    guard = guard_metadata([1], dtype, ["x"], plain_attributes(attrs, dtype))
    assert parsed(guard | {"chunk_key_encoding": DEFAULT}).attributes["s"] == "é"


def test_groups_are_not_consolidated() -> None:
    group = group_metadata({"title": "a"})
    assert group == {"zarr_format": 3, "node_type": "group", "attributes": {"title": "a"}}
    opened = zarr.Group(zarr.AsyncGroup.from_dict(_anywhere(), group))
    assert opened.metadata.consolidated_metadata is None
    assert dict(opened.attrs) == {"title": "a"}


def _anywhere() -> Any:
    return zarr.storage.StorePath(zarr.storage.MemoryStore(), "")
