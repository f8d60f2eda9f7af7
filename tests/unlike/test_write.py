"""The generator writes what a spec says: values, layout, masks, holes, types of attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

from tests.compare import value_differences
from tests.unlike import (
    FileSpec,
    Filter,
    GroupSpec,
    Position,
    SpecialVariable,
    VariableSpec,
    chunk_grid,
    dimension,
    held_values,
    text,
    typed,
    variable,
    write_file,
)

GZIP, SHUFFLE, CHECKSUM = Filter("gzip", (6,)), Filter("shuffle"), Filter("fletcher32")
CODES = {"gzip": 1, "shuffle": 2, "fletcher32": 3, "szip": 4, "nbit": 5, "scaleoffset": 6}
CODES["lzf"] = 32000
DIMS = (dimension("time", 5, unlimited=True), dimension("lat", 3), dimension("x", 4))
FIXED = ("lat", "x")

NUMERIC = [
    variable("contiguous", FIXED, "<f8"),
    variable("big", FIXED, ">i2"),
    variable("compact", FIXED, ">f4", layout="compact"),
    variable("external", FIXED, "<i4", layout="external", pieces=3),
    variable("unallocated", FIXED, "<i2", unwritten="all", fill=-7),
    variable("scalar", (), "<f4"),
    variable("chunked", ("time", *FIXED), "<i4", chunks=(2, 2, 3), scattered=True),
    variable("short", ("time", *FIXED), "<i2", chunks=(2, 3, 4), shape=(3, 3, 4), fill=9),
    variable("nothing", ("time", *FIXED), "<f4", chunks=(2, 2, 3), unwritten="all"),
    variable(
        "holes",
        ("time", *FIXED),
        ">f4",
        chunks=(2, 2, 3),
        filters=(GZIP,),
        unwritten=((0, 0, 0), (2, 1, 1)),
        fill=-999.5,
    ),
    variable(
        "masked",
        ("time", *FIXED),
        "<i4",
        chunks=(2, 2, 3),
        filters=(SHUFFLE, GZIP, CHECKSUM),
        masks=(((0, 0, 0), 1), ((1, 0, 0), 2), ((2, 1, 1), 7), ((1, 1, 0), 4), ((0, 1, 0), 6)),
    ),
    variable("reordered", FIXED, "<u2", chunks=(2, 3), filters=(CHECKSUM, GZIP, SHUFFLE)),
    variable("szip", FIXED, "<i4", chunks=(2, 4), filters=(Filter("szip"),)),
    variable("lzf", FIXED, "<i4", chunks=(3, 4), filters=(SHUFFLE, Filter("lzf"), CHECKSUM)),
    variable("packed", FIXED, "<i2", chunks=(2, 4), filters=(Filter("scaleoffset"), GZIP)),
    variable("bits", FIXED, "<i2", chunks=(2, 3), filters=(Filter("nbit"),), precision=11),
    variable("half", FIXED, "<f2"),
    variable(
        "sprinkled",
        ("time", *FIXED),
        "<f4",
        chunks=(5, 3, 4),
        position=Position(sprinkle=(float("nan"), -0.0, 1e30), every=3),
    ),
]


def _seen(group: GroupSpec, var: VariableSpec) -> np.ndarray:
    """What a netCDF reader gives: the held values, padded with fill up to the dimensions."""
    held = held_values(group, var)
    out = np.full([group.size(d) for d in var.dims], var.fill or 0, dtype=var.dtype)
    out[tuple(slice(n) for n in held.shape)] = held
    return out


@pytest.fixture(scope="module", params=[0, 512], ids=["plain", "userblock"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = GroupSpec(dims=DIMS, variables=tuple(NUMERIC))
    spec = FileSpec("numeric.nc", root, userblock=request.param)
    return root, write_file(tmp_path_factory.mktemp("unlike"), spec)


@pytest.mark.parametrize("var", NUMERIC, ids=lambda v: v.name)
def test_xarray_reads_what_the_spec_says(written: Any, var: VariableSpec) -> None:
    root, path = written
    with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as ds:
        assert ds[var.name].dims == var.dims
        assert ds[var.name].dtype == var.dtype.newbyteorder("=")
        read = ds[var.name].values
    assert value_differences(var.name, read, _seen(root, var)) == []


@pytest.mark.parametrize(
    "var", [v for v in NUMERIC if v.name not in ("half", "lzf", "packed")], ids=lambda v: v.name
)
def test_netcdf4_reads_the_same(written: Any, var: VariableSpec) -> None:
    root, path = written
    with netCDF4.Dataset(path) as ds:
        ds.set_auto_maskandscale(False)
        assert ds[var.name].dimensions == var.dims
        read = np.asarray(ds[var.name][...])
    expected = _seen(root, var)
    assert value_differences(var.name, read.astype(read.dtype.newbyteorder("=")), expected) == []


@pytest.mark.parametrize("var", [v for v in NUMERIC if v.chunks], ids=lambda v: v.name)
def test_chunks_lie_as_the_spec_says(written: Any, var: VariableSpec) -> None:
    root, path = written
    assert var.chunks is not None
    with h5py.File(path) as file:
        dataset = file[var.name]
        assert dataset.chunks == var.chunks
        assert dataset.shape == root.extent(var)
        assert dataset.maxshape == tuple(
            next(None if d.unlimited else d.size for d in DIMS if d.name == n) for n in var.dims
        )
        properties = dataset.id.get_create_plist()
        filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        assert filters == [CODES[f.name] for f in var.filters]
        found = {}
        for i in range(dataset.id.get_num_chunks()):
            info = dataset.id.get_chunk_info(i)
            index = tuple(o // c for o, c in zip(info.chunk_offset, var.chunks, strict=True))
            found[index] = info.filter_mask
    wanted = set(chunk_grid(root.extent(var), var.chunks))
    wanted = set() if var.unwritten == "all" else wanted - set(var.unwritten)
    assert set(found) == wanted
    if all(item.name != "szip" for item in var.filters):  # szip gives up on small chunks by itself
        for index, mask in var.masks:
            assert found[index] & mask == mask
        gzipped = [i for i, item in enumerate(var.filters) if item.name in ("gzip", "lzf")]
        untouched = {i: m for i, m in found.items() if i not in dict(var.masks)}
        for mask in untouched.values():
            assert mask & ~sum(1 << i for i in gzipped) == 0


def test_layouts_are_what_they_are_called(written: Any) -> None:
    _, path = written
    with h5py.File(path) as file:
        layout = {n: file[n].id.get_create_plist().get_layout() for n in file}
        assert layout["contiguous"] == h5py.h5d.CONTIGUOUS
        assert layout["compact"] == h5py.h5d.COMPACT
        assert layout["chunked"] == h5py.h5d.CHUNKED
        assert len(file["external"].external) == 3
        # HDF5 adds the user block to "undefined", which is -1
        assert file["unallocated"].id.get_offset() in (None, file.userblock_size - 1)
        assert file["bits"].id.get_type().get_precision() == 11
        offsets = [file["chunked"].id.get_chunk_info(i).byte_offset for i in range(12)]
        assert offsets != sorted(offsets)


def test_every_element_of_a_picture_is_its_own() -> None:
    picture = GroupSpec(dims=(dimension("y", 20), dimension("x", 30)))
    for stored in ("<i2", ">u2", "<f4", ">f8", "<i8"):
        values = held_values(picture, variable("v", ("y", "x"), stored))
        assert len(np.unique(values)) == values.size
        assert values.dtype == np.dtype(stored)


def test_parts_and_transposed_parts_hold_the_same_as_the_whole() -> None:
    extent = {"y": 6, "x": 8}
    whole = GroupSpec(dims=(dimension("y", 6), dimension("x", 8)))
    all_of_it = held_values(whole, variable("v", ("y", "x"), position=Position.at({}, extent)))
    part = GroupSpec(dims=(dimension("y", 2), dimension("x", 5)))
    at = Position.at({"y": 3, "x": 1}, extent)
    assert (held_values(part, variable("v", ("y", "x"), position=at)) == all_of_it[3:5, 1:6]).all()
    turned = held_values(part, variable("v", ("x", "y"), position=at))
    assert (turned == all_of_it[3:5, 1:6].T).all()
    back = Position((("y", 4, -1, 6), ("x", 1, 1, 8)))
    reversed_part = held_values(part, variable("v", ("y", "x"), position=back))
    assert (reversed_part == all_of_it[4:2:-1, 1:6]).all()


def test_attributes_keep_their_types(tmp_path: Path) -> None:
    attrs = {
        "scale_factor": typed(0.1, "<f4"),
        "add_offset": typed(2, ">f8", scalar=True),
        "missing_value": typed((1, 2, 3), "<i2"),
        "units": text("K"),
        "flags": text(("a", "b")),
    }
    root = GroupSpec(dims=DIMS[1:], variables=(variable("v", FIXED, "<i2", attrs=attrs),))
    path = write_file(tmp_path, FileSpec("attributes.nc", root))
    with h5py.File(path) as file:
        found = file["v"].attrs
        assert found["scale_factor"].dtype == "<f4"
        assert found["scale_factor"].shape == (1,)
        assert found.get_id("add_offset").dtype == ">f8"
        assert found.get_id("add_offset").shape == ()
        assert found["missing_value"].tolist() == [1, 2, 3]
        assert found["units"] == "K"
        assert list(found["flags"]) == ["a", "b"]


@pytest.mark.parametrize(
    "kind",
    ["vlen_str", "fixed_str", "char", "bool", "enum", "complex64", "complex128", "compound"],
)
def test_special_variables_read_back(tmp_path: Path, kind: Any) -> None:
    var = SpecialVariable("v", ("lat", "x"), kind, start=3)
    path = write_file(tmp_path, FileSpec("special.nc", GroupSpec(dims=DIMS[1:], variables=(var,))))
    with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as ds:
        read = ds["v"].values
    expected = var.values((3, 4))
    assert read.shape == expected.shape
    assert np.array_equal(read, expected)


def test_groups_inherit_dimensions_and_phony_ones_have_no_scales(tmp_path: Path) -> None:
    child = GroupSpec("inner", variables=(variable("v", ("x",)),), dims=(dimension("x", 4),))
    root = GroupSpec(dims=DIMS[1:], groups=(child,))
    path = write_file(tmp_path, FileSpec("groups.nc", root))
    with xr.open_dataset(path, engine="h5netcdf", group="inner") as ds:
        assert ds["v"].dims == ("x",)
    bare = GroupSpec(dims=DIMS[1:], variables=(variable("v", FIXED),), scales=False)
    path = write_file(tmp_path, FileSpec("phony.nc", bare))
    with xr.open_dataset(path, engine="h5netcdf", phony_dims="sort") as ds:
        assert ds["v"].dims == ("phony_dim_0", "phony_dim_1")
