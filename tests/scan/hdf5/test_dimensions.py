"""Dimensions as h5netcdf finds them: scales, ids, names of one's own, and phony ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import h5netcdf
import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import FormatError, UnsupportedError, UnsupportedVariable
from intarsia.scan.hdf5 import scan
from tests.scan.store import assert_as_xarray, groups, opaque, virtual


def all_groups(path, phony_dims=None):
    return {group: assert_as_xarray(path, group, phony_dims) for group in groups(path)}


def coordinates_of_two_dimensions(file: netCDF4.Dataset) -> None:
    file.createDimension("y", 3)
    file.createDimension("x", 4)
    file.createVariable("y", "f4", ("y", "x"))[:] = np.arange(12).reshape(3, 4)
    file.createVariable("v", "f4", ("x", "y"))[:] = 1


def a_variable_named_like_a_dimension(file: netCDF4.Dataset) -> None:
    file.createDimension("x", 3)
    file.createDimension("y", 4)
    file.createVariable("x", "f4", ("y",))[:] = np.arange(4)
    file.createVariable("v", "f4", ("x", "y"))[:] = 1


def dimensions_in_parent_groups(file: netCDF4.Dataset) -> None:
    file.createDimension("x", 3)
    file.createDimension("t", None)
    file.createVariable("x", "f4", ("x",))[:] = 1
    group = file.createGroup("a")
    group.createDimension("y", 4)
    group.createVariable("v", "f4", ("t", "y", "x"))[:] = np.ones((5, 4, 3))
    inner = group.createGroup("b")
    inner.createDimension("x", 2)  # hides the other one
    inner.createVariable("x", "f4", ("x",))[:] = 1
    inner.createVariable("w", "f4", ("t", "y", "x"))[:] = np.ones((6, 4, 2))


def unlimited_dimensions_of_many_lengths(file: netCDF4.Dataset) -> None:
    file.createDimension("t", None)
    file.createDimension("u", None)
    file.createDimension("x", 2)
    file.createVariable("t", "f8", ("t",))[:] = np.arange(3)
    file.createVariable("long", "i2", ("t", "x"))[:] = np.ones((7, 2))
    file.createVariable("short", "i2", ("t", "u"), fill_value=-1)[:2, :2] = 5
    file.createVariable("wide", "f4", ("x", "u"))[:, :5] = 2.0
    file.createVariable("empty", "i4", ("t", "u"))
    file.createVariable("scalar", "i4", ())


def dimensions_without_variables(file: netCDF4.Dataset) -> None:
    file.createDimension("x", 3)
    file.createDimension("unused", 9)
    file.createDimension("unused_t", None)
    file.createVariable("v", "f4", ("x",))[:] = 1


@pytest.mark.parametrize(
    "make",
    [
        coordinates_of_two_dimensions,
        a_variable_named_like_a_dimension,
        dimensions_in_parent_groups,
        unlimited_dimensions_of_many_lengths,
        dimensions_without_variables,
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("phony_dims", [None, "sort"])
@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF4_CLASSIC"])
def test_netcdf4(tmp_path, make: Callable[[netCDF4.Dataset], None], phony_dims, model):
    path = tmp_path / "x.nc"
    if model == "NETCDF4_CLASSIC" and "group" in make.__name__:
        pytest.skip("no groups in the classic model")
    if model == "NETCDF4_CLASSIC" and "unlimited" in make.__name__:
        pytest.skip("one unlimited dimension in the classic model")
    with netCDF4.Dataset(path, "w", format=model) as file:
        try:
            make(file)
        except RuntimeError as error:
            pytest.skip(f"not in this model: {error}")
    all_groups(path, phony_dims)


def test_h5netcdf_writes_dimensions_too(tmp_path):
    path = tmp_path / "x.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"x": 3, "t": None}
        file.create_variable("t", ("t",), "f8")
        file.create_variable("v", ("t", "x"), "f4", fillvalue=np.float32(-1))
        file.resize_dimension("t", 4)
        file.create_variable("/g/w", ("x", "t"), "i2")
        file["v"][:2] = 1
    all_groups(path)


def plain(file: h5py.File) -> None:
    file["a"] = np.zeros((3, 4, 3))
    file["b"] = np.zeros((4, 5))
    file["c"] = np.zeros(())
    file["g/a"] = np.zeros((3, 3, 7))
    file["g/h/d"] = np.zeros((8,))
    file["g/h/a"] = np.zeros((3,))
    file["z/e"] = np.zeros((4, 4, 4))


def partly_scaled(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["x"].make_scale("x")
    file["a"] = np.zeros((3, 4))
    file["b"] = np.zeros((3, 3))
    file["b"].dims[0].attach_scale(file["x"])
    file["b"].dims[1].attach_scale(file["x"])
    file["g/c"] = np.zeros((3, 4, 3, 4))


def several_scales(file: h5py.File) -> None:
    for name in ("one", "two"):
        file[name] = np.arange(3)
        file[name].make_scale(name)
    file["a"] = np.zeros((3,))
    file["a"].dims[0].attach_scale(file["one"])
    file["a"].dims[0].attach_scale(file["two"])


def named_like_a_scale(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["x"].make_scale("x")
    file["g/x"] = np.zeros((3,))
    file["g/y"] = np.zeros((3,))


def unlimited_scales(file: h5py.File) -> None:
    file.create_dataset("t", (2,), "i4", maxshape=(None,)).make_scale("t")
    file.create_dataset("a", (5, 2), "i2", maxshape=(None, 2), fillvalue=-3)
    file["a"].dims[0].attach_scale(file["t"])
    file.create_dataset("p", data=np.arange(2.0))
    file["p"].make_scale("p")
    file["a"].dims[1].attach_scale(file["p"])
    file["b"] = np.zeros((5, 2))


def in_order_of_creation(file: h5py.File) -> None:
    for name in ("z", "b", "a"):
        group = file.create_group(name, track_order=True)
        for inner in ("q", "c", "k"):
            group.create_dataset(inner, data=np.arange(3), track_order=True)
            group[inner].attrs["z"] = 1
            group[inner].attrs["a"] = 2


@pytest.mark.parametrize(
    "make",
    [
        plain,
        partly_scaled,
        several_scales,
        named_like_a_scale,
        unlimited_scales,
        in_order_of_creation,
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("phony_dims", [None, "access", "sort"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_hdf5(tmp_path, make: Callable[[h5py.File], None], phony_dims, libver):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        make(file)
    all_groups(path, phony_dims)


def refused(tmp_path, make: Callable[[h5py.File], None], match: str) -> None:
    """Refused here by name, where xarray fails too."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make(file)
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        assert_as_xarray(path)
    with pytest.raises((FormatError, UnsupportedError), match=match) as caught:
        scan(str(path))
    assert str(path) in str(caught.value)


def test_a_mixture_of_scaled_and_other_dimensions_is_refused(tmp_path):
    def make(file):
        file["x"] = np.arange(3)
        file["x"].make_scale("x")
        file["mixed"] = np.zeros((3, 4))
        file["mixed"].dims[0].attach_scale(file["x"])

    refused(tmp_path, make, "'mixed'")


def test_a_dimension_out_of_scope_is_refused(tmp_path):
    def make(file):
        file["g/x"] = np.arange(3)
        file["g/x"].make_scale("x")
        file["v"] = np.zeros((3,))
        file["v"].dims[0].attach_scale(file["g/x"])

    refused(tmp_path, make, "'x' is in no group above it")


def test_a_link_to_nowhere_is_refused(tmp_path):
    def make(file):
        file["gone"] = h5py.SoftLink("/nowhere")

    refused(tmp_path, make, "'gone' leads nowhere")


def test_a_group_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["g/x"] = 1
    for group in ("/h", "g/x", "g/h/i"):
        with pytest.raises(FormatError, match=f"no group '/{group.strip('/')}'"):
            scan(str(path), group=group)
    for group in ("g", "/g", "/g/"):
        assert list(scan(str(path), group=group).variables) == ["x"]
    with pytest.raises(ValueError, match="phony_dims"):
        scan(str(path), phony_dims="random")


def test_soft_and_hard_links_are_followed(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["g/x"] = np.arange(3)
        file["soft"] = h5py.SoftLink("/g/x")
        file["hard"] = file["g/x"]
        file["inner"] = h5py.SoftLink("/g")
    scanned = assert_as_xarray(path)
    virtual(scanned, "soft")
    virtual(scanned, "hard")
    assert_as_xarray(path, "/inner")


def test_dropped_variables_are_not_looked_at(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        file["y"] = np.arange(3)
    assert list(scan(str(path), drop_variables=["y"]).variables) == ["x"]


@pytest.mark.parametrize("rank", [1, 2])
def test_longer_than_its_dimensions(tmp_path, rank):
    """The library says one shape and gives values of another: refused by name, and only that."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(2)
        file["x"].make_scale("x")
        if rank == 1:  # named like a dimension above it
            file["g/x"] = np.arange(3)
        else:
            file["y"] = np.arange(2)
            file["y"].make_scale("y")
            file["g/v"] = np.zeros((2, 3))
            for axis, name in enumerate("xy"):
                file["g/v"].dims[axis].attach_scale(file[name])
        file["g/right"] = 7
    with h5netcdf.File(path, phony_dims="access") as file:
        variable = file["g"].variables["x" if rank == 1 else "v"]
        assert variable.shape == (2,) * rank
        assert variable[...].shape != variable.shape
    with pytest.raises(UnsupportedVariable, match="longer than its dimensions.*drop_variables"):
        intarsia.open_dataset(path, group="g", phony_dims="access").load()
    rest = intarsia.open_dataset(path, group="g", phony_dims="access", unsupported="skip")
    assert list(rest.variables) == ["right"]
    assert rest["right"] == 7


KINDS = {"text": h5py.string_dtype(), "compound": [("a", "i4")], "opaque": "V3"}


def one_dimension_of_three(path, dtype, length, **options):
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        file["x"].make_scale("x")
        file["w"] = np.arange(3)
        file.create_dataset("v", (length,), dtype, **options)
        for name in "vw":
            file[name].dims[0].attach_scale(file["x"])
    return path


@pytest.mark.parametrize("dtype", KINDS.values(), ids=KINDS)
def test_what_is_copied_is_not_longer_than_its_dimensions(tmp_path, dtype):
    path = one_dimension_of_three(tmp_path / "x.h5", dtype, 4)
    ds = intarsia.open_dataset(path)
    assert ds.w.values.tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedVariable, match=r"longer than its dimensions.*drop_variables"):
        ds.v.load()
    for what in ({"unsupported": "skip"}, {"drop_variables": "v"}):
        assert list(intarsia.open_dataset(path, **what).data_vars) == ["w"]


@pytest.mark.parametrize(
    ("kind", "first", "expected"),
    [
        ("text", "one", ["one", "none", "none"]),
        ("compound", (7,), [(7,), (0,), (0,)]),
        ("opaque", np.void(b"abc"), [b"abc", bytes(3), bytes(3)]),
    ],
)
def test_what_is_copied_is_filled_up_to_its_dimensions(tmp_path, kind, first, expected):
    """As the netCDF library does; h5netcdf fills up numbers only, and xarray fails."""
    fill = {"fillvalue": "none"} if kind == "text" else {}
    path = one_dimension_of_three(tmp_path / "x.h5", KINDS[kind], 1, **fill)
    with h5py.File(path, "r+") as file:
        file["v"][0] = first
    ds = intarsia.open_dataset(path)
    assert ds.v.shape == (3,)
    assert ds.v.values.tolist() == expected
    loader = opaque(scan(str(path)), "v").loader
    assert pickle.loads(pickle.dumps(loader))().tolist() == expected
    if kind == "text":
        ds.intarsia.save(tmp_path / "s.intarsia")
        assert intarsia.open_dataset(tmp_path / "s.intarsia").v.values.tolist() == expected


def test_what_the_netcdf_library_fills_up(tmp_path):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 2)
        file.createVariable("longer", "f8", ("time",))[:] = np.arange(4.0)
        file.createVariable("text", str, ("time",))[0] = "one"
        file.createVariable("filled", str, ("time", "x"), fill_value="gone")[0, 0] = "a"
        file.createVariable("none", str, ("time",))
        file.createVariable("characters", "S1", ("time", "x"))[0, 0] = "a"
        pair = np.dtype([("a", "i4"), ("b", "f8")])
        pairs = file.createVariable("pairs", file.createCompoundType(pair, "pair"), ("time",))
        pairs[0] = np.array((1, 2.0), pair)
    with xr.open_dataset(path, engine="netcdf4") as theirs:
        ds = intarsia.open_dataset(path).load()
        for name in theirs.variables.keys() - {"filled"}:
            assert ds[name].dims == theirs[name].dims
            assert ds[name].values.tolist() == theirs[name].values.tolist()
        for decoding in ({"mask_and_scale": False}, {}):
            with xr.open_dataset(path, engine="netcdf4", **decoding) as other:
                found = intarsia.open_dataset(path, **decoding).load()
                np.testing.assert_array_equal(
                    found["filled"].astype(str), other["filled"].astype(str)
                )
