"""What xarray makes of attributes, and of values without dimensions, that plain readers find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.xarray import accessor as accessor  # registers ds.intarsia
from tests.compare import value_differences

FILLS: dict[str, tuple[Any, Any]] = {
    "integers": (np.arange(3, dtype="i2"), np.int16(7)),
    "floats": (np.arange(3, dtype="f4"), np.float32(np.nan)),
    "floats, and an integer": (np.arange(3, dtype="f4"), 7),
    "complex": (np.arange(3) * 1j, np.complex128(1 + 2j)),
    "flags": (np.array([True, False]), np.True_),
    "a list of one": (np.arange(3, dtype="i2"), np.array([7], "i2")),
    "times": (np.arange(3).astype("M8[ns]"), np.datetime64(5, "ns")),
    "durations": (np.arange(3).astype("m8[ns]"), np.timedelta64("NaT", "ns")),
    "bytes": (np.array([b"a", b"bb"]), b"a"),
    "text": (np.array(["a", "bb"]), "a"),
    "text for numbers": (np.arange(3, dtype="i2"), "none"),
    "NaN for integers": (np.arange(3, dtype="i2"), np.nan),
    "text for floats": (np.arange(3, dtype="f4"), "none"),
    "no number": (np.arange(3, dtype="f4"), [1, 2]),
}
DROPPED = (
    "NaN for integers",
    "times",
    "durations",
    "bytes",
    "text",
    "text for numbers",
    "text for floats",
)


@pytest.mark.parametrize("name", FILLS)
def test_fills_among_the_attributes(tmp_path: Path, name: str) -> None:
    values, fill = FILLS[name]
    ds = xr.Dataset({"v": ("x", values, {"_FillValue": fill, "k": 1})})
    ds.intarsia.save(tmp_path / "s")
    assert "_FillValue" in intarsia.open_dataset(tmp_path / "s").v.attrs
    store = intarsia.open_store(tmp_path / "s")
    told: dict[str, Any] = {"chunks": None, "consolidated": False}
    shown = xr.open_zarr(store, decode_cf=False, **told).v
    assert shown.attrs["k"] == 1
    if name in DROPPED or name == "no number":
        assert "_FillValue" not in shown.attrs
    else:
        found = np.asarray(shown.attrs["_FillValue"], values.dtype)
        assert not value_differences("fill", found, np.ravel(fill).astype(values.dtype)[0])
    xr.open_zarr(store, **told).load()


@pytest.mark.parametrize("value", ["text", 1.5, True, np.datetime64(5, "ns")])
def test_values_without_dimensions(tmp_path: Path, value: Any) -> None:
    ds = xr.Dataset({"v": ((), value)})
    ds.intarsia.save(tmp_path / "s")
    store = intarsia.open_store(tmp_path / "s")
    shown = xr.open_zarr(store, chunks=None, consolidated=False).load()
    assert shown.v.item() == ds.v.item()


@pytest.mark.filterwarnings("ignore:Object at __intarsia__")
@pytest.mark.parametrize("unit", ["M8[ns]", "m8[s]"])
@pytest.mark.parametrize("name", ["scale_factor", "add_offset", "missing_value", "_FillValue"])
def test_times_with_attributes_of_packed_numbers(tmp_path: Path, unit: str, name: str) -> None:
    ds = xr.Dataset({"v": ("x", np.arange(5).astype(unit), {name: 2, "k": 1})})
    ds.intarsia.save(tmp_path / "s")
    store = intarsia.open_store(tmp_path / "s")
    shown = xr.open_zarr(store, chunks=None, consolidated=False, decode_timedelta=True).load()
    plain = xr.open_zarr(tmp_path / "s", chunks=None, consolidated=False, decode_timedelta=True)
    for found in (shown, plain.load()):
        assert (found.v.values == ds.v.values).all()
        assert found.v.attrs == {"k": 1}
    assert intarsia.open_dataset(tmp_path / "s").v.attrs == {name: 2, "k": 1}
