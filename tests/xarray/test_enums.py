"""Enumerations: their names travel with virtual variables, are written again, and are compared."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import CombineConflict, UnsupportedVariable
from tests.compare import assert_identical

SKY = {"clear": 0, "cloudy": 1, "rain": 9}
SWAPPED = {"clear": 1, "cloudy": 0, "rain": 9}
JOINED: dict[str, Any] = {"concat_dim": "x", "combine": "nested"}


def write(
    path: Path, members: Mapping[str, int] | None = SKY, kind: str = "u1", fill: int | None = None
) -> str:
    """A file of three numbers, which have names."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        named = kind if members is None else file.createEnumType(kind, "sky_t", dict(members))
        file.createVariable("v", named, "x", fill_value=fill)[:] = [0, 1, 0]
    return str(path)


def named(variable: Any, key: str = "dtype") -> dict[str, Any] | None:
    """Names in the encoding of a variable."""
    dtype = variable.encoding.get(key)
    return None if dtype is None or dtype.metadata is None else dict(dtype.metadata)


def both(paths: list[str], **arguments: Any) -> tuple[xr.Dataset, xr.Dataset]:
    """The same files through Intarsia and xarray."""
    expected = xr.open_mfdataset(paths, engine="h5netcdf", **JOINED)
    actual = intarsia.open_mfdataset(paths, **JOINED, **arguments)
    assert isinstance(actual.v.variable._data, VirtualArray)
    assert_identical(actual.copy(), expected)
    return actual, expected


SKY_T = {"enum": SKY, "enum_name": "sky_t"}

CHAINS: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
    "as it is": lambda ds: ds,
    "isel": lambda ds: ds.isel(x=slice(None, None, -2)),
    "stack": lambda ds: ds.expand_dims("y").stack(z=("y", "x"), create_index=False),
    "concat": lambda ds: xr.concat([ds, ds], "x"),
    "concat anew": lambda ds: xr.concat([ds, ds], "n"),
    "merge": lambda ds: xr.merge([ds, {"w": ("x", [1, 2, 3])}]),
    "load": lambda ds: ds.load(),
    "chunk": lambda ds: ds.chunk(),
    "pickle": lambda ds: pickle.loads(pickle.dumps(ds)),
}


@pytest.mark.filterwarnings("ignore:Creating variable with default fill_value 0")  # h5netcdf's
@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_written_again_as_by_xarray(tmp_path, chain, engine):
    path = write(tmp_path / "a.nc")
    written: list[xr.Dataset] = []
    for number, ds in enumerate(
        (intarsia.open_dataset(path), xr.open_dataset(path, engine="h5netcdf"))
    ):
        made = chain(ds)
        assert named(made.v) == SKY_T
        made.to_netcdf(tmp_path / f"{number}.nc", engine=engine)
        written.append(xr.load_dataset(tmp_path / f"{number}.nc", engine="h5netcdf"))
    assert_identical(*written)
    assert named(written[0].v) == named(written[1].v)
    # dask loses them on the way, in xarray too
    assert chain is CHAINS["chunk"] or named(written[0].v) == SKY_T


@pytest.mark.parametrize("kind", ["u1", "i4", "u8"])
def test_kept_through_stores_trees_and_groups(tmp_path, kind):
    path = write(tmp_path / "a.nc", kind=kind)
    ds = intarsia.open_dataset(path)
    for store in ("a.intarsia", "a.intarsia.zip"):
        ds.intarsia.save(tmp_path / store)
        again = intarsia.open_dataset(tmp_path / store)
        assert isinstance(again.v.variable._data, VirtualArray)
        assert named(again.v) == SKY_T
        assert again.v.encoding["dtype"] == ds.v.encoding["dtype"] == kind
    tree = intarsia.open_datatree(path)
    assert named(tree.v) == SKY_T
    tree.intarsia.save(tmp_path / "tree.intarsia")
    assert named(intarsia.open_datatree(tmp_path / "tree.intarsia").v) == SKY_T


def test_a_type_without_a_name(tmp_path):
    """xarray writes plain integers of it."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.array([0, 1], ">i2"), dtype=h5py.enum_dtype(SKY, ">i2"))
    ds = intarsia.open_dataset(tmp_path / "a.h5", phony_dims="access")
    expected = xr.open_dataset(tmp_path / "a.h5", engine="h5netcdf", phony_dims="access")
    assert named(ds.v) == named(expected.v) == {"enum": SKY}
    assert ds.v.encoding["dtype"].str == expected.v.encoding["dtype"].str
    ds.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    assert_identical(xr.load_dataset(tmp_path / "b.nc", engine="h5netcdf"), expected.load())


@pytest.mark.parametrize("parallel", [False, 2])
def test_combined(tmp_path, parallel):
    paths = [write(tmp_path / f"{number}.nc") for number in range(3)]
    actual, expected = both(paths, parallel=parallel)
    assert named(actual.v) == named(expected.v) == SKY_T
    masked = [write(tmp_path / f"m{number}.nc", fill=number) for number in range(2)]
    actual, _ = both(masked, parallel=parallel)
    assert named(actual.v, "intarsia_enum") == SKY_T


def test_masked_values_are_not_written_by_it(tmp_path):
    """Of missing values, another file may have another number."""
    ds = intarsia.open_dataset(write(tmp_path / "a.nc", fill=1))
    assert "dtype" not in ds.v.encoding
    assert named(ds.v, "intarsia_enum") == SKY_T
    ds.intarsia.save(tmp_path / "a.intarsia")
    again = intarsia.open_dataset(tmp_path / "a.intarsia")
    assert named(again.v, "intarsia_enum") == SKY_T
    again.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    assert_identical(xr.load_dataset(tmp_path / "b.nc", engine="h5netcdf"), ds)


@pytest.mark.parametrize(
    "other",
    [{"kind": "i4"}, {"fill": 1}, {"members": None, "kind": "f4"}],
    ids=["wider", "masked", "float"],
)
def test_values_of_other_types_beside_it(tmp_path, other):
    """By the first file's type, xarray would write other values."""
    paths = [write(tmp_path / "a.nc"), write(tmp_path / "b.nc", **other)]
    actual, expected = both(paths)
    assert "dtype" not in actual.v.encoding
    assert named(actual.v, "intarsia_enum") == SKY_T
    actual.to_netcdf(tmp_path / "c.nc", engine="h5netcdf")
    assert_identical(xr.load_dataset(tmp_path / "c.nc", engine="h5netcdf"), expected.load())


def test_missing_values_are_not_written_as_a_member(tmp_path):
    """xarray writes NaN as 0, which is "clear"."""
    moved = intarsia.open_dataset(write(tmp_path / "a.nc")).shift(x=1)
    with pytest.raises(UnsupportedVariable, match="not the numbers of an enumeration.*'v'.*delete"):
        moved.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    del moved.v.encoding["dtype"]
    moved.to_netcdf(tmp_path / "c.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "c.nc", engine="h5netcdf") as again:
        np.testing.assert_array_equal(again.v, [np.nan, 0, 1])


@pytest.mark.parametrize("fill", [None, 7])
def test_meanings_that_disagree(tmp_path, fill):
    paths = [write(tmp_path / "a.nc", fill=fill), write(tmp_path / "b.nc", SWAPPED, fill=fill)]
    with pytest.raises(CombineConflict) as error:
        intarsia.open_mfdataset(paths, **JOINED)
    for part in ("'v'", "0 is 'clear'", "0 is 'cloudy'", "a.nc", "b.nc", "on_conflict='first'"):
        assert part in str(error.value)
    assert "rain" not in str(error.value)
    actual, expected = both(paths, on_conflict="first")
    assert named(actual.v, "dtype" if fill is None else "intarsia_enum") == named(expected.v)


@pytest.mark.parametrize(
    "others",
    [(SKY, None), (None, SKY), (SKY, {**SKY, "snow": 3}), ({"clear": 0, "cloudy": 1}, SKY)],
    ids=["plain second", "plain first", "more", "fewer"],
)
def test_names_in_some_files_only(tmp_path, others):
    paths = [write(tmp_path / f"{n}.nc", members) for n, members in enumerate(others)]
    actual, expected = both(paths)
    assert named(actual.v) == named(expected.v)
    assert (named(actual.v) is None) == (others[0] is None)
    assert "only some files have" in str(actual.intarsia.report()).replace("\n  ", " ")


def test_names_that_no_store_keeps(tmp_path):
    long = {"enum": {"a" * 2000: 1, "b": 2}, "enum_name": "long_t"}
    ds = intarsia.open_dataset(write(tmp_path / "a.nc"))
    ds.v.encoding["dtype"] = np.dtype("u1", metadata=long)
    ds.intarsia.save(tmp_path / "a.intarsia")
    again = intarsia.open_dataset(tmp_path / "a.intarsia")
    assert again.v.encoding["dtype"] == np.uint8
    assert named(again.v) is None
    assert "names of its enumeration are not kept" in str(again.intarsia.report())
    assert_identical(again.load(), ds.load())
