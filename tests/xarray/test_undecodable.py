"""A variable that xarray can't decode: it alone is refused, by name, and the others are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import IntarsiaError, UnsupportedVariable, UpstreamFault
from tests.compare import assert_identical

ARGUMENTS: dict[str, Any] = {"phony_dims": "access"}


def lists(path: Path, values: list[list[int]], **attrs: Any) -> Path:
    """A file with a variable of lists, beside numbers and text."""
    with h5py.File(path, "w") as file:
        variable = file.create_dataset("v", (len(values),), h5py.vlen_dtype("i4"))
        for number, value in enumerate(values):
            variable[number] = value
        variable.attrs.update(attrs)
        file["numbers"] = np.arange(3.0)
        file["text"] = np.array(["a", "bc"], object)
    return path


def expected(path: Path, **arguments: Any) -> xr.Dataset:
    return xr.open_dataset(path, engine="h5netcdf", **ARGUMENTS, **arguments)


def check(path: Path, name: str, reason: str, **arguments: Any) -> None:
    """`name` alone is refused: whenever it is read, and not when it is left out."""
    rest = expected(path, drop_variables=name, **arguments).load()
    ds = intarsia.open_dataset(path, **ARGUMENTS, **arguments)
    assert set(ds.variables) == {name, *rest.variables}
    assert_identical(ds.drop_vars(name), rest)
    with pytest.raises(IntarsiaError, match=reason) as error:
        ds[name].load()
    assert isinstance(error.value, UnsupportedVariable | UpstreamFault)
    assert f"{name!r} in {path}" in str(error.value)
    assert "drop" in str(error.value)
    skipped = intarsia.open_dataset(path, unsupported="skip", **ARGUMENTS, **arguments)
    assert_identical(skipped, rest)
    assert repr(name) in str(skipped.intarsia.report())
    dropped = intarsia.open_dataset(path, drop_variables=name, **ARGUMENTS, **arguments)
    assert_identical(dropped, rest)


@pytest.mark.parametrize("values", [[[1, 2], [3]], [[], [1]]], ids=["two", "none"])
def test_lists(tmp_path, values):
    path = lists(tmp_path / "a.h5", values)
    with pytest.raises(ValueError, match="size 1"):
        expected(path)
    check(path, "v", "lists of variable length")
    check(path, "v", "lists of variable length", decode_times=False)


@pytest.mark.parametrize("values", [[[1], [3, 4]], [[1], []], []], ids=["more", "less", "none"])
def test_lists_that_xarray_can_open(tmp_path, values):
    """It looks at the first of them."""
    path = lists(tmp_path / "a.h5", values)
    actual, wanted = intarsia.open_dataset(path, **ARGUMENTS), expected(path).load()
    assert list(actual.variables) == list(wanted.variables)
    assert_identical(actual.drop_vars("v"), wanted.drop_vars("v"))
    assert actual.v.dtype == wanted.v.dtype == object
    assert actual.v.shape == wanted.v.shape
    for mine, theirs in zip(actual.v.values, wanted.v.values, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "attrs",
    [{"_FillValue": np.int32(1)}, {"scale_factor": 2.0}, {"units": "days since 2000-01-01"}],
)
def test_lists_with_attributes(tmp_path, attrs):
    path = lists(tmp_path / "a.h5", [[1], [3, 4]], **attrs)
    check(path, "v", "lists of variable length")


@pytest.mark.parametrize("length", [1, 2])
def test_a_single_list(tmp_path, length):
    """Of a single number, xarray gives a variable of one dimension fewer than its values have."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", (), h5py.vlen_dtype("f4"))[()] = np.ones(length, "f4")
        file["numbers"] = np.arange(3.0)
    check(tmp_path / "a.h5", "v", "single list of variable length")


def test_lists_of_netcdf4(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for dim in ("x", "y"):
            file.createDimension(dim, 2)
        kind = file.createVLType("f8", "ragged_t")
        file.createVariable("numbers", "f4", ("x",))[:] = [1, 2]
        variable = file.createVariable("v", kind, ("x", "y"))
        for place in np.ndindex(2, 2):
            variable[place] = np.arange(2.0 + sum(place))
    check(tmp_path / "a.nc", "v", "lists of variable length")


def test_lists_that_no_index_can_be_made_of(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("v", 1)
        variable = file.createVariable("v", file.createVLType("f8", "ragged_t"), "v")
        variable[0] = np.arange(2.0)
        file.createVariable("numbers", "f4", ("v",))[:] = [1]
    with pytest.raises(UpstreamFault, match="lists of variable length.*'v'.*drop_variables"):
        intarsia.open_dataset(tmp_path / "a.nc")
    for arguments in ({"unsupported": "skip"}, {"drop_variables": "v"}):
        actual = intarsia.open_dataset(tmp_path / "a.nc", **arguments)
        assert_identical(actual, expected(tmp_path / "a.nc", drop_variables="v").load())


def test_times_that_mean_nothing(tmp_path):
    """Bounds of other times are decoded as ever."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, units in (("good", "days since 2000-01-01"), ("v", "days since nonsense")):
            file[name] = np.arange(3.0)
            file[name].attrs.update(units=units, bounds=f"{name}_bounds")
        file["good_bounds"] = np.arange(6.0).reshape(3, 2)
    check(tmp_path / "a.h5", "v", "unable to decode time units 'days since nonsense'")
    assert_identical(
        intarsia.open_dataset(tmp_path / "a.h5", decode_times=False, **ARGUMENTS),
        expected(tmp_path / "a.h5", decode_times=False).load(),
    )


def test_packing_of_several_numbers(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"], file["numbers"] = np.arange(3), np.arange(3.0)
        file["v"].attrs["scale_factor"] = np.array([1.0, 2.0])
    check(tmp_path / "a.h5", "v", "size 1")


def test_several(tmp_path):
    path = lists(tmp_path / "a.h5", [[1, 2], [3]])
    with h5py.File(path, "a") as file:
        file["when"] = np.arange(3.0)
        file["when"].attrs["units"] = "days since nonsense"
    ds = intarsia.open_dataset(path, **ARGUMENTS)
    for name, reason in (("v", "lists"), ("when", "nonsense")):
        with pytest.raises(UpstreamFault, match=reason):
            ds[name].load()
    wanted = expected(path, drop_variables=["v", "when"]).load()
    assert_identical(ds.drop_vars(["v", "when"]), wanted)


def test_in_a_pile_and_in_a_tree(tmp_path):
    paths = [lists(tmp_path / f"{n}.h5", [[1, 2], [3]]) for n in range(2)]
    ds = intarsia.open_mfdataset(
        paths, concat_dim="n", combine="nested", unsupported="skip", **ARGUMENTS
    )
    assert set(ds.variables) == {"numbers", "text"}
    np.testing.assert_array_equal(ds.numbers, [np.arange(3.0)] * 2)
    tree = intarsia.open_datatree(paths[0], **ARGUMENTS)
    np.testing.assert_array_equal(tree.numbers, np.arange(3.0))
    with pytest.raises(UpstreamFault, match="lists"):
        tree.v.load()
