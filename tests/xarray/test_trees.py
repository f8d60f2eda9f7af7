"""Trees: groups of files as xarray's h5netcdf engine gives them, and trees that are saved."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import FormatError, StoreError, UnsupportedVariable
from intarsia.io.fetch import observe
from tests.compare import assert_identical
from tests.xarray.stores import of_every_kind


def nested(path: Path) -> None:
    """Groups in groups: inherited dimensions and coordinates, enums, units, empty groups."""
    with netCDF4.Dataset(path, "w") as root:
        root.title = "tree"
        root.createDimension("time", None)
        root.createDimension("x", 4)
        time = root.createVariable("time", "i4", ("time",))
        time.units = "days since 2001-01-01"
        time[:] = np.arange(3)
        root.createVariable("x", "f8", ("x",))[:] = np.arange(4) / 2
        root.createVariable("v", "f4", ("time", "x"), zlib=True)[:] = np.arange(12).reshape(3, 4)
        one = root.createGroup("one")
        one.setncattr("level", np.int16(1))
        packed = one.createVariable("w", "i2", ("time", "x"), fill_value=-1)
        packed.scale_factor = 0.1
        packed[:] = np.arange(12).reshape(3, 4)
        deep = root.createGroup("one/deep")
        deep.createDimension("y", 2)
        deep.createVariable("y", "i4", ("y",))[:] = [5, 6]
        deep.createVariable("z", "f8", ("y", "x"))[:] = np.arange(8).reshape(2, 4)
        deep.createVariable("name", str, ("y",))[:] = np.array(["a", "b"], object)
        root.createGroup("empty/inner")
        other = root.createGroup("two")
        other.createVariable("v", "i8", ("x",))[:] = [1, 2, 3, 4]


def phony(path: Path) -> None:
    """Plain HDF5: dimensions are numbered through the whole file."""
    with h5py.File(path, "w", track_order=True) as file:
        file["z"] = np.arange(6.0).reshape(2, 3)
        for name in ("b", "a", "b/inner", "c/d"):
            file[f"{name}/v"] = np.arange(20.0).reshape(4, 5)
            file[f"{name}/s"] = np.arange(5)
            file[f"{name}/w"] = np.zeros((3, 3))


FILES: dict[str, Callable[[Path], None]] = {"nested": nested, "phony": phony}
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"group": "one"},
    {"group": "/one/deep"},
    {"drop_variables": ["v", "time"]},
    {"decode_times": False, "mask_and_scale": False},
    {"phony_dims": "sort"},
    {"phony_dims": "access"},
    {"create_default_indexes": False},
    {"group": "b"},
]


@pytest.fixture(scope="module", params=FILES)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trees") / f"{request.param}.nc"
    FILES[request.param](path)
    return path


def theirs(path: Path, **arguments: Any) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The 'phony_dims' kwarg")
        with xr.open_datatree(path, engine="h5netcdf", **arguments) as tree:
            return tree.load()


def same_trees(actual: xr.DataTree, expected: xr.DataTree) -> None:
    assert actual.groups == expected.groups
    for where in expected.groups:
        for inherit in (False, True):
            one, other = (tree[where].to_dataset(inherit=inherit) for tree in (actual, expected))
            assert_identical(one.compute(), other.compute())
    xr.testing.assert_identical(actual.compute(), expected.compute())


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_groups_of_a_file(path: Path, arguments: dict[str, Any]) -> None:
    if "group" in arguments and (path.stem == "phony") != (arguments["group"] == "b"):
        with pytest.raises(FormatError, match="no group"):
            intarsia.open_datatree(path, **arguments)
        return
    expected = theirs(path, **arguments)
    same_trees(intarsia.open_datatree(path, **arguments), expected)
    given = {key: value for key, value in arguments.items() if key != "create_default_indexes"}
    same_trees(xr.open_datatree(path, engine="intarsia", **arguments), expected)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The 'phony_dims' kwarg")
        known = xr.open_groups(path, engine="h5netcdf", **given)
    groups = xr.open_groups(path, engine="intarsia", **given)
    assert list(groups) == list(known)
    for where, dataset in known.items():
        assert_identical(groups[where].compute(), dataset.compute())
        dataset.close()


def test_a_file_stays_virtual(path: Path) -> None:
    with observe() as reads:
        tree = intarsia.open_datatree(path)
        virtual = [
            f"{node.path}/{name}"
            for node in tree.subtree
            for name, variable in node.to_dataset(inherit=False).variables.items()
            if isinstance(variable._data, VirtualArray)
        ]
        repr(tree)
    assert len(virtual) >= 4
    assert reads.requests <= 12  # index coordinates
    chunked = intarsia.open_datatree(path, chunks={})
    same_trees(chunked, theirs(path))
    assert any(node.to_dataset().chunks for node in chunked.subtree)


@pytest.mark.parametrize("suffix", ["intarsia", "zip"])
def test_trees_are_saved(path: Path, tmp_path: Path, suffix: str) -> None:
    tree, expected = intarsia.open_datatree(path), theirs(path)
    store = tmp_path / f"a.{suffix}"
    with observe() as reads:
        summary = tree.intarsia.save(store)
        again = intarsia.open_datatree(store)
    assert reads.requests == 0
    assert summary.sources == len({node for node in tree.groups if tree[node].data_vars})
    assert summary.copied < summary.variables
    same_trees(again, expected)
    same_trees(xr.open_datatree(store), expected)
    same_trees(xr.open_datatree(store, chunks={}), expected)
    same_trees(intarsia.open_datatree(store, chunks={}), expected)
    assert list(xr.open_groups(store)) == list(tree.groups)
    for where in tree.groups:
        node = intarsia.open_dataset(store, group=where)
        assert_identical(node.compute(), tree[where].to_dataset(inherit=False).compute())
    inner = tree.groups[1]
    part = intarsia.open_datatree(store, group=inner)
    assert part.groups[0] == "/"
    assert set(part.groups) == {
        "/" + where.removeprefix(inner).strip("/")
        for where in tree.groups
        if where == inner or where.startswith(f"{inner}/")
    }
    again.intarsia.save(tmp_path / "b.intarsia")
    same_trees(intarsia.open_datatree(tmp_path / "b.intarsia"), expected)


def test_trees_of_datasets_in_memory(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs={"a": np.int8(1)}),
            "/odd name/é": of_every_kind(),
            "/odd name/zarr.json": xr.Dataset({"v": ("x", [1, 2])}),
        }
    )
    intarsia.open_datatree  # noqa: B018 - registers the accessor
    tree.intarsia.save(tmp_path / "a.intarsia")
    same_trees(intarsia.open_datatree(tmp_path / "a.intarsia"), tree)
    assert repr(tree.intarsia) == "<intarsia: a tree with 0 virtual variables; save()>"
    part = tree["odd name"]
    part.intarsia.save(tmp_path / "part.intarsia")
    found = intarsia.open_datatree(tmp_path / "part.intarsia")
    assert found.groups == ("/", "/é", "/zarr.json")
    with pytest.raises(StoreError, match="no group '/nowhere'"):
        intarsia.open_datatree(tmp_path / "a.intarsia", group="nowhere")


def test_what_can_not_be_saved_says_where(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/a": xr.Dataset({"v": ("x", np.array([1, "a"], object))})})
    with pytest.raises(UnsupportedVariable, match="'v'"):
        tree.intarsia.save(tmp_path / "a.intarsia")
    assert not any(tmp_path.iterdir())


def test_a_group_in_itself(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["a/b/v"] = np.arange(3)
        file["a/b/again"] = file["a"]
    with pytest.raises(FormatError, match="'/a/b/again' is in itself"):
        intarsia.open_datatree(tmp_path / "a.nc")
    assert intarsia.open_dataset(tmp_path / "a.nc", group="a/b").v.size == 3


def test_misaligned_groups(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for where, size in (("", 3), ("a/", 2)):
            file[f"{where}x"] = np.arange(size)
            file[f"{where}x"].make_scale()
    with pytest.raises(ValueError, match="not aligned"):
        xr.open_datatree(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="not aligned"):
        intarsia.open_datatree(tmp_path / "a.nc")


def test_a_part_of_a_tree_keeps_what_it_inherits(tmp_path: Path) -> None:
    whole = xr.DataTree.from_dict(
        {
            "/": xr.Dataset(coords={"x": [10, 20], "place": 5}),
            "/a": xr.Dataset({"v": ("x", [1.0, 2.0])}),
            "/a/b": xr.Dataset({"w": ("x", [3, 4])}),
        }
    )
    whole["a"].intarsia.save(tmp_path / "a.intarsia")
    again = intarsia.open_datatree(tmp_path / "a.intarsia")
    assert again.to_dataset(inherit=False).identical(whole["a"].to_dataset())
    assert again["b"].to_dataset().identical(whole["a/b"].to_dataset())
    assert again.groups == ("/", "/b")
