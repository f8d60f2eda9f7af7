"""Any tree of groups, with dimension scales, phony dimensions and links, is as xarray sees it."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.errors import IntarsiaError, UnsupportedVariable
from intarsia.scan.hdf5 import scan
from tests.compare import assert_identical
from tests.real import real_file
from tests.scan.store import assert_as_xarray

SIZES = st.sampled_from([1, 2, 2, 3, 3, 4])
GROUPS = ["g", "h"]
REFUSALS = (KeyError, ValueError, TypeError, IndexError, OSError, RuntimeError)


@st.composite
def nodes(draw, depth=0):
    """A group: scales, datasets, links and groups in it."""
    scales = [
        (name, draw(SIZES), draw(st.booleans()))
        for name in draw(st.lists(st.sampled_from("txy"), unique=True, max_size=2))
    ]
    datasets = [
        (name, draw(st.lists(SIZES, max_size=3)), draw(st.booleans()))
        for name in draw(st.lists(st.sampled_from("abctx"), unique=True, max_size=3))
    ]
    kinds = st.sampled_from(["soft", "hard", "out", "out to a group"])
    links = draw(st.lists(st.tuples(kinds, st.integers(0, 20)), max_size=2))
    groups = {}
    if depth < 3:
        for name in draw(st.lists(st.sampled_from(GROUPS), unique=True, max_size=2)):
            groups[name] = draw(nodes(depth + 1))
    return scales, datasets, links, groups


def written(
    group: h5py.Group, node: Any, scope: dict[int, h5py.Dataset], made: list[h5py.Dataset]
) -> None:
    """Write a group; `scope` has the scales of the groups above by their lengths."""
    scales, datasets, _, groups = node
    scope = dict(scope)
    for name, size, grows in scales:
        scale = group.create_dataset(
            name, data=np.arange(size), maxshape=(None if grows else size,)
        )
        scale.make_scale(name)
        scope[size] = scale
    for name, shape, labelled in datasets:
        if name in group:
            continue
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        data = group.create_dataset(name, data=values)
        made.append(data)
        if labelled and all(size in scope for size in shape):
            for axis, size in enumerate(shape):
                data.dims[axis].attach_scale(scope[size])
    for name, inner in groups.items():
        written(group.create_group(name), inner, scope, made)


def linked(group: h5py.Group, node: Any, made: list[h5py.Dataset]) -> None:
    """Add the links, when everything is there."""
    for number, (kind, which) in enumerate(node[2]):
        name = f"link{number}"
        if kind == "out":
            group[name] = h5py.ExternalLink("other.h5", ("/p", "/q/r")[which % 2])
        elif kind == "out to a group":
            group[name] = h5py.ExternalLink("other.h5", "/q")
        elif made:
            target = made[which % len(made)]
            group[name] = h5py.SoftLink(target.name) if kind == "soft" else target
    for name, inner in node[3].items():
        linked(group[name], inner, made)


def links(path: Path) -> list[Any]:
    """All links of a file that are not hard."""
    found: list[Any] = []
    with h5py.File(path) as file:
        file.visititems_links(lambda _, link: found.append(link))
    return found


def theirs(path: Path, **arguments: Any) -> xr.DataTree | None:
    """xarray's tree, or None where it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with xr.open_datatree(path, engine="h5netcdf", **arguments) as tree:
                return tree.load()
        except REFUSALS:
            return None


def same(actual: xr.DataTree, expected: xr.DataTree) -> None:
    assert actual.groups == expected.groups
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate dimension names")
        for where in expected.groups:
            one, other = (tree[where].to_dataset() for tree in (actual, expected))
            assert_identical(one.compute(), other.compute())


def ours(path: Path, **arguments: Any) -> xr.DataTree | None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate dimension names")
        try:
            return intarsia.open_datatree(path, **arguments)
        except (IntarsiaError, ValueError):
            return None


@given(
    node=nodes(),
    phony_dims=st.sampled_from(["access", "sort"]),
    libver=st.sampled_from(["earliest", "latest"]),
    track=st.booleans(),
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_tree(tmp_path, node, phony_dims, libver, track):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))  # xarray leaves files open where it fails
    path = folder / "x.h5"
    with h5py.File(folder / "other.h5", "w") as file:
        file["p"] = np.arange(6.0).reshape(2, 3)
        file["q/r"] = np.arange(3)
    with h5py.File(path, "w", libver=libver, track_order=track) as file:
        made: list[h5py.Dataset] = []
        written(file, node, {}, made)
        linked(file, node, made)
    expected = theirs(path, phony_dims=phony_dims)
    tree = ours(path, phony_dims=phony_dims)
    if expected is None and tree is not None:
        # xarray looks in the first file for a group that a link has led to
        assert any(isinstance(link, h5py.ExternalLink) for link in links(path))
    else:
        assert (tree is None) == (expected is None)
    if tree is None or expected is None:
        return
    same(tree, expected)
    for where in tree.groups:
        assert_as_xarray(path, where, phony_dims)
        inner = ours(path, group=f"{where}/", phony_dims=phony_dims)
        assert inner is not None
        same(inner, theirs(path, group=where, phony_dims=phony_dims))


def test_any_spelling_of_a_group(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(3)
        file["t"].make_scale("t")
        file["g/h/x"] = np.arange(3)
        file["g/h/x"].dims[0].attach_scale(file["t"])
    for group in ("g/h", "/g/h", "g/h/", "/g/h/", "//g//h//"):
        ds = intarsia.open_dataset(path, group=group)
        assert_identical(
            ds.compute(), xr.open_dataset(path, group="g/h", engine="h5netcdf").compute()
        )
        assert scan(str(path), group=group).group == "/g/h"
    for group in ("/", "", None):
        assert scan(str(path), group=group).group == "/"


REAL = [
    "groups.hdf5",
    "dim_scales.hdf5",
    "NEONDSTowerTemperatureData.hdf5",
    "test_gold.nc",
    "chunked.hdf5",
    "enum_variable.nc",
]


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("phony_dims", ["access", "sort"])
def test_trees_of_real_files(name, phony_dims, tmp_path):
    path = real_file(f"hdf5/{name}")
    expected = theirs(path, phony_dims=phony_dims, decode_times=False)
    tree = ours(path, phony_dims=phony_dims, decode_times=False)
    assert tree is not None
    assert expected is not None
    same(tree, expected)
    if name.startswith("NEON"):
        with pytest.raises(UnsupportedVariable, match="save its fields"):
            tree.intarsia.save(tmp_path / "x.intarsia")
        return
    tree.intarsia.save(tmp_path / "x.intarsia")
    same(intarsia.open_datatree(tmp_path / "x.intarsia"), expected)
