"""Where HDF5 keeps chunks and bytes: every kind of chunk index, far offsets, odd options, paths."""

from __future__ import annotations

import ctypes
import os
import re
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import intarsia
from intarsia.errors import IntarsiaError
from tests import oracle
from tests.check import check_chains, check_equal, open_both
from tests.unlike import FileSpec, Filter, GroupSpec, dimension, text, variable, write_file
from tests.unlike.families import CHECKSUM, EXPLICIT, FAMILIES, GZIP, SHUFFLE


def test_big_files_of_one_element_chunks(tmp_path: Path) -> None:
    """An index of many chunks is a tree of several nodes in the file."""
    var = variable("v", ("y", "x"), "<u4", chunks=(1, 1), filters=(GZIP,), scattered=True)
    root = GroupSpec(dims=(dimension("y", 40), dimension("x", 60)), variables=(var,))
    for libver in ("earliest", "latest"):
        path = write_file(tmp_path, FileSpec(f"{libver}.nc", root, libver=libver))
        check_equal(path, [(("isel", {"y": slice(5, 39, 7), "x": slice(None, None, -3)}),)], ["v"])


@pytest.mark.parametrize("unlimited", [0, 1, 2])
def test_every_kind_of_chunk_index(tmp_path: Path, unlimited: int) -> None:
    """Single chunk, implicit, fixed array, extensible array and version 2 tree of new files."""
    dims = tuple(
        dimension(d, n, unlimited=i < unlimited) for i, (d, n) in enumerate((("y", 7), ("x", 9)))
    )
    made = (
        variable("one", ("y", "x"), "<i4", chunks=(7, 9)),
        variable("one_filtered", ("y", "x"), "<i4", chunks=(7, 9), filters=(GZIP,)),
        variable("many", ("y", "x"), ">i2", chunks=(2, 2)),
        variable("many_filtered", ("y", "x"), "<f4", chunks=(2, 3), filters=(SHUFFLE, GZIP)),
        variable("holes", ("y", "x"), "<f4", chunks=(2, 3), unwritten=((0, 0), (3, 2)), fill=7),
    )
    root = GroupSpec(dims=dims, variables=made)
    path = write_file(tmp_path, FileSpec("latest.nc", root, libver="latest"))
    check_equal(path, virtual=[v.name for v in made])


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("growing", [0, 5])
def test_one_unlimited_dimension_on_any_axis(
    tmp_path: Path, libver: Any, axis: int, growing: int
) -> None:
    """HDF5 2.0 gives wrong places for the chunks of new files that grow along a later axis."""
    shape, chunks = (4, 6, 5), (2, 3, 2)
    values = np.arange(120, dtype="<i4").reshape(shape)
    path = tmp_path / "growing.h5"
    with h5py.File(path, "w", libver=libver) as file:
        for name, options in (("plain", {}), ("filtered", {"compression": "gzip"})):
            limits = tuple(None if i == axis else n + growing for i, n in enumerate(shape))
            made = file.create_dataset(
                name, shape, "<i4", chunks=chunks, maxshape=limits, fillvalue=-1, **options
            )
            made[...] = values
            holed = file.create_dataset(
                f"{name}_holed",
                shape,
                "<i4",
                chunks=chunks,
                maxshape=limits,
                fillvalue=-1,
                **options,
            )
            holed[2:, 3:, :2] = values[2:, 3:, :2]
            holed[:2, :3, 4:] = values[:2, :3, 4:]
    check_equal(path, phony_dims="sort")


def test_early_allocation(tmp_path: Path) -> None:
    """Without filters and with early allocation, HDF5 stores chunks without any index."""
    path = tmp_path / "early.h5"
    with h5py.File(path, "w", libver="latest") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2, 3))
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((5, 7))
        created = h5py.h5d.create(file.id, b"v", h5py.h5t.NATIVE_INT16, space, dcpl=properties)
        h5py.Dataset(created)[:3] = np.arange(21).reshape(3, 7)
    check_equal(path, virtual=["v"], phony_dims="sort")


def test_fill_time_never(tmp_path: Path) -> None:
    """Chunks never written are fill for HDF5 even where it was told not to write any."""
    path = tmp_path / "never.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("v", (6,), "<i4", chunks=(2,), fillvalue=3, fill_time="never")
        made[2:4] = 8
    expected = oracle.open_dataset(path, phony_dims="sort")
    actual = intarsia.open_dataset(path, phony_dims="sort")
    assert actual.v.values[2:4].tolist() == [8, 8]
    check_chains(actual, expected)


def test_a_filter_skipped_in_the_only_chunk(tmp_path: Path) -> None:
    """New files keep the mask of a single chunk in the dataset's header."""
    made = tuple(
        variable(
            f"m{mask}",
            ("y", "x"),
            "<i4",
            chunks=(5, 6),
            filters=(SHUFFLE, GZIP, CHECKSUM),
            masks=(((0, 0), mask),),
        )
        for mask in range(8)
    )
    root = GroupSpec(dims=(dimension("y", 5), dimension("x", 6)), variables=made)
    for libver in ("earliest", "latest"):
        path = write_file(tmp_path, FileSpec(f"{libver}.nc", root, libver=libver))
        check_equal(path, virtual=[v.name for v in made])


@pytest.mark.parametrize("filters", [{"shuffle": True}, {"shuffle": True, "compression": "gzip"}])
def test_chunks_at_the_edge_that_are_not_filtered(tmp_path: Path, filters: Any) -> None:
    """An option of new files: chunks that are not full are stored as they are, without a mask."""
    path = tmp_path / "edges.h5"
    with h5py.File(path, "w", libver="latest") as file:
        sample = file.create_dataset("sample", (3, 4), "<i4", chunks=(3, 4), **filters)
        properties = sample.id.get_create_plist()
        _set_chunk_options(properties.id, 2)
        space = h5py.h5s.create_simple((5, 6))
        made = h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, dcpl=properties)
        h5py.Dataset(made)[...] = np.arange(30).reshape(5, 6) * 70001
    actual, expected = open_both(path, phony_dims="sort")
    try:
        check_chains(actual, expected)
    except IntarsiaError as error:
        assert "'v'" in str(error)


def _set_chunk_options(properties: int, options: int) -> None:
    """H5Pset_chunk_opts, which h5py does not have, of the library that h5py has loaded."""
    maps = Path("/proc/self/maps")
    loaded = (
        {line.split()[-1] for line in maps.read_text().splitlines()} if maps.exists() else set()
    )
    # other packages bring libraries of their own, to which h5py's property lists are unknown
    for name in sorted(loaded, key=lambda name: "h5py" not in name):
        if re.match(r"libhdf5[-.]", Path(name).name):
            function = ctypes.CDLL(name).H5Pset_chunk_opts
            function.argtypes = [ctypes.c_int64, ctypes.c_uint]
            if function(properties, options) == 0:
                return
    pytest.skip("h5py's HDF5 library is not to be found")


def test_more_than_four_gigabytes(tmp_path: Path) -> None:
    """Offsets and lengths beyond 32 bits, in a sparse file that takes no room on disk."""
    path = tmp_path / "big.h5"
    shape = (3, 2**28 + 5)
    with h5py.File(path, "w") as file:
        made = file.create_dataset("v", shape, "<f8")
        made[2, -3:] = [1.5, 2.5, 3.5]
        made[0, :2] = [7.5, 8.5]
        made[1, 2**28] = 9.5
        chunked = file.create_dataset("late", (4,), "<i2", chunks=(2,))
        chunked[...] = [1, 2, 3, 4]
        assert chunked.id.get_chunk_info(0).byte_offset > 2**32
    if os.stat(path).st_blocks * 512 > 2**30:
        pytest.skip("the file system has no sparse files")
    ds = intarsia.open_dataset(path, phony_dims="sort")
    assert ds.v.shape == shape
    assert ds.v[2, -3:].values.tolist() == [1.5, 2.5, 3.5]
    assert ds.v[:2, :2].values.tolist() == [[7.5, 8.5], [0.0, 0.0]]
    assert ds.v[::-1, 2**28].values.tolist() == [0.0, 9.5, 0.0]
    assert ds.v[2, :: 2**28].values.tolist() == [0.0, 0.0]
    assert ds.late.values.tolist() == [1, 2, 3, 4]


def test_a_dimension_twice(tmp_path: Path) -> None:
    """A matrix of one dimension with itself, of which xarray warns."""
    path = tmp_path / "covariance.nc"
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.arange(3.0))
        x.make_scale("x")
        v = file.create_dataset("v", data=np.arange(9.0).reshape(3, 3))
        v.dims[0].attach_scale(x)
        v.dims[1].attach_scale(x)
        file.create_dataset("w", data=np.arange(3.0)).dims[0].attach_scale(x)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Duplicate dimension names")
        check_equal(path)


def test_a_file_without_variables(tmp_path: Path) -> None:
    root = GroupSpec(attrs=(("title", text("nothing")),))
    path = write_file(tmp_path, FileSpec("nothing.nc", root))
    check_equal(path)
    dims = GroupSpec(dims=(dimension("x", 3), dimension("t", 0, unlimited=True)))
    check_equal(write_file(tmp_path, FileSpec("dims.nc", dims)))


@pytest.mark.parametrize(
    "name",
    ["a b.nc", "ü.nc", "100%25.nc", "a#b?c=d&e.nc", "~x.nc", "[1].nc", "a'b\"c.nc", "no_suffix"],
)
def test_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (made,) = FAMILIES["codec eras"].write(tmp_path)[:1]
    path = tmp_path / name
    os.rename(made, path)
    check_equal(path, virtual=["sst"])
    check_equal(str(path), virtual=["sst"])
    monkeypatch.chdir(tmp_path)
    actual = intarsia.open_dataset(name)
    monkeypatch.chdir("/")
    check_chains(actual, oracle.open_dataset(path), virtual=["sst"])
    if not any(c in name for c in "[]?~"):
        check_equal([str(path)], **FAMILIES["codec eras"].arguments)


def test_a_file_by_another_name(tmp_path: Path) -> None:
    """Symbolic and hard links, of which two lead to one file."""
    paths = FAMILIES["codec eras"].write(tmp_path)
    link, hard = tmp_path / "link.nc", tmp_path / "hard.nc"
    link.symlink_to(paths[0])
    os.link(paths[0], hard)
    chosen = [str(link), paths[0], str(hard), paths[1]]
    check_equal(chosen, virtual=["sst"], combine="nested", concat_dim="time", **EXPLICIT)


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = FAMILIES["codec eras"].write(tmp_path)
    expected = oracle.open_dataset(paths[0])
    check_chains(intarsia.open_dataset("~/part0.nc"), expected)


@pytest.mark.parametrize("unlimited", [False, True])
def test_many_dimensions(tmp_path: Path, unlimited: bool) -> None:
    names = tuple("abcdefg")
    dims = tuple(
        dimension(n, 2 + i % 2, unlimited=unlimited and n == "a") for i, n in enumerate(names)
    )
    var = variable("v", names, ">i2", chunks=(1, 2, 2, 1, 2, 2, 2), filters=(Filter("lzf"),))
    path = write_file(tmp_path, FileSpec("many.nc", GroupSpec(dims=dims, variables=(var,))))
    chain = (("isel", {"b": 1, "g": slice(None, None, -1)}), ("transpose", ("d", "a")))
    check_equal(path, [chain], ["v"])
