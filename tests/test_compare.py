"""The comparison finds each kind of difference, and only differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from tests.compare import assert_identical, differences


def _dataset() -> xr.Dataset:
    return xr.Dataset(
        {
            "f": (("y", "x"), np.array([[0.0, 1.5], [np.nan, 2.0]], "f4"), {"units": "K"}),
            "s": (("y",), np.array(["a", "b"], dtype=object)),
            "c": (("x",), np.array([1 + 2j, np.nan], "c8")),
        },
        coords={"x": np.array([1.0, 2.0]), "t": np.datetime64("2000-01-01", "ns")},
        attrs={"n": np.float32(1)},
    )


def test_a_dataset_is_identical_to_itself() -> None:
    assert_identical(_dataset(), _dataset())


def _set(name: str, index: Any, value: Any) -> Any:
    def change(ds: xr.Dataset) -> xr.Dataset:
        ds[name].values[index] = value
        return ds

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("f", (0, 0), -0.0), r"f: 1 of 4 elements differ, the first at \(0, 0\).*0x80000000"),
        (_set("f", (1, 0), 3.0), "0x40400000.*!= np.float32"),
        (_set("s", 1, "c"), "s: 1 of 2"),
        (_set("c", 0, 1 - 2j), "c: 1 of 2"),
        (lambda ds: ds.transpose(), "f: dims"),
        (
            lambda ds: ds.assign(f=ds.f.astype("f8")),
            r"f: dtype as declared: dtype\('float64'\) != dtype\('float32'\)",
        ),
        (lambda ds: ds.assign_attrs(n=1.0), "'n': 1.0 is float"),
        (lambda ds: ds.assign_attrs(n=np.float32(2)), "'n': 1 of 1 elements"),
        (lambda ds: ds.assign_attrs(m=2), "dataset: attributes"),
        (lambda ds: ds.assign_coords(x=[1.0, 2.5]), "index x: 1 of 2"),
        (lambda ds: ds.reset_coords("t"), "coordinates"),
        (lambda ds: ds.drop_indexes("x"), "indexes"),
        (lambda ds: ds.drop_vars("s"), "data variables"),
        (lambda ds: ds.isel(y=[0]), "sizes"),
        (lambda ds: ds[["s", "f", "c"]], "data variables"),
        (lambda ds: ds.assign(f=ds.f.astype(">f4")), r"f: dtype as declared: dtype\('>f4'\)"),
    ],
)
def test_a_difference_is_named(change: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_identical(change(_dataset()), _dataset())


def test_payloads_of_nan_are_no_difference() -> None:
    other = _dataset()
    other["f"].values.view("u4")[1, 0] = 0x7FC00001
    assert differences(other, _dataset()) == []
