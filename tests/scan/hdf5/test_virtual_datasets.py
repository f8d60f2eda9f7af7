"""Virtual datasets of HDF5: as the library gives them, or refused by name."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from h5py import h5s
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import (
    CorruptFile,
    IntarsiaError,
    SourceChanged,
    SourceMissing,
    UnsupportedError,
)
from intarsia.scan.hdf5 import mosaic, scan, selections
from intarsia.xarray.verifying import verify
from tests.check import check_equal
from tests.scan.hdf5.virtual_files import Map, U, growing, part, space, whole
from tests.scan.store import assert_as_xarray, opaque, virtual


def keys(scanned):
    """Names of the sources that segments point to."""
    data = virtual(scanned)
    used = {int(n) for block in data.segments.blocks for n in block.column(2)}
    return {scanned.sources[n].key for n in used if n >= 0}


def notes(scanned):
    return " ".join(virtual(scanned).notes)


def refused(path, match):
    """Neither references nor a loader."""
    data = opaque(scan(str(path)))
    assert data.loader is None, data.reason
    assert match in data.reason
    return data


def copied(path, match):
    """No references, but the library's values."""
    data = opaque(assert_as_xarray(path))
    assert match in data.reason
    return data


def test_parts_of_files(tmp_path):
    path = tmp_path / "x.h5"
    layout = h5py.VirtualLayout((2, 3, 4), "i4")
    for i in range(2):
        part(tmp_path / f"{i}.h5", np.arange(12, dtype="i4").reshape(3, 4) + 100 * i, chunks=(2, 3))
        layout[i] = h5py.VirtualSource(tmp_path / f"{i}.h5", "d", (3, 4))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout)
    scanned = assert_as_xarray(path)
    assert keys(scanned) == {"0.h5", "1.h5"}
    assert [source.key for source in scanned.sources] == ["x.h5", "0.h5", "1.h5"]
    for source in scanned.sources:
        stat = os.stat(source.url)
        assert (source.size, source.mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert not virtual(scanned).notes


def test_each_part_keeps_its_own_nature(tmp_path):
    path = tmp_path / "x.h5"
    values = np.arange(20, dtype="<i4").reshape(4, 5)
    part(tmp_path / "a.h5", values, chunks=(3, 2), compression="gzip", shuffle=True)
    part(tmp_path / "b.h5", values + 100)
    part(tmp_path / "c.h5", values + 200, chunks=(1, 5), fletcher32=True)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("d", (4, 5), "<i4", chunks=(2, 2), fillvalue=77)[3] = 5
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file.create_dataset("d", (4, 5), "<i4", fillvalue=78)
    names = "abcde"
    maps = [
        Map(space((6, 4, 5), (i, 0, 0), (1, 4, 5)), f"{name}.h5", "d", space((4, 5)))
        for i, name in enumerate(names)
    ]
    scanned = assert_as_xarray(whole(path, (6, 4, 5), maps))
    assert keys(scanned) == {f"{name}.h5" for name in names}


NINE = np.arange(9, dtype="<i4")

SELECTIONS = {
    "strided source": (space((12,), (1,), (5,)), space((9,), (0,), (5,), (2,))),
    "strided whole": (space((12,), (1,), (5,), (2,)), space((9,), (3,), (5,))),
    "both strided": (space((12,), (1,), (4,), (3,)), space((9,), (1,), (4,), (2,))),
    "blocks": (space((12,), (0,), (3,), (4,), (2,)), space((9,), (2,), (6,))),
    "other blocks": (space((12,), (0,), (3,), (4,), (2,)), space((9,), (0,), (2,), (5,), (3,))),
    "one": (space((12,), (11,), (1,)), space((9,), (8,), (1,))),
    "all": (space((12,), (2,), (9,)), space((9,))),
}


@pytest.mark.parametrize("pair", SELECTIONS.values(), ids=SELECTIONS)
def test_selections(tmp_path, pair):
    part(tmp_path / "a.h5", NINE, chunks=(4,))
    path = whole(tmp_path / "x.h5", (12,), [Map(pair[0], "a.h5", "d", pair[1])])
    virtual(assert_as_xarray(path))


def irregular(shape, *slabs):
    made = h5s.create_simple(shape)
    for number, (start, count) in enumerate(slabs):
        made.select_hyperslab(start, count, op=h5s.SELECT_OR if number else h5s.SELECT_SET)
    return made


@pytest.mark.parametrize(
    ("of_whole", "of_source"),
    [
        (irregular((6, 7), ((0, 0), (2, 3)), ((3, 4), (2, 2))), space((5, 2))),
        (irregular((6, 7), ((0, 0), (2, 3)), ((1, 2), (3, 2))), space((3, 11), (1, 0), (1, 11))),
        (space((6, 7), (1, 1), (2, 4)), irregular((4, 5), ((0, 0), (2, 2)), ((2, 1), (1, 4)))),
        (space((6, 7), (0, 0), (6, 1)), space((2, 3))),
        (space((6, 7), (1, 2), (2, 3)), space((6,))),
        (space((6, 7), (0, 0), (3, 2), (2, 4), (1, 2)), space((2, 6))),
        (space((6, 7), (0, 0), (2, 3)), space((1, 2, 1, 3))),
        (space((6, 7), (2, 0), (1, 7)), space((7,))),
    ],
)
def test_selections_of_unlike_shapes(tmp_path, of_whole, of_source):
    shape = of_source.shape
    part(tmp_path / "a.h5", np.arange(np.prod(shape), dtype="<i4").reshape(shape))
    path = whole(tmp_path / "x.h5", (6, 7), [Map(of_whole, "a.h5", "d", of_source)])
    virtual(assert_as_xarray(path))


# -- any regular selections, also on top of one another ------------------------------------------


@st.composite
def slabs(draw, counts):
    """A hyperslab of so many indices along each dimension, and a shape that it fits."""
    start, stride, count, block, shape = [], [], [], [], []
    for size in counts:
        per = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        step = per + draw(st.integers(0, 2))
        start.append(draw(st.integers(0, 2)))
        stride.append(step)
        count.append(size // per)
        block.append(per)
        end = start[-1] + (size // per - 1) * step + per
        shape.append(end + draw(st.integers(0, 1)))
    return (start, count, stride, block), shape


@st.composite
def mosaics(draw):
    rank = draw(st.integers(1, 3))
    maps, shape = [], [1] * rank
    for _ in range(draw(st.integers(1, 4))):
        counts = [draw(st.integers(1, 5)) for _ in range(rank)]
        mine, needed = draw(slabs(counts))
        shape = list(map(max, shape, needed))
        theirs = list(counts)
        if draw(st.booleans()):
            theirs = [n for n in theirs if n > 1]
        if draw(st.booleans()):
            theirs.insert(draw(st.integers(0, len(theirs))), 1)
        if draw(st.integers(0, 3)) == 0:
            theirs = [int(np.prod(theirs))]
        slab, extent = draw(slabs(theirs))
        there = draw(st.integers(0, 5)) > 0
        chunked = draw(st.booleans()) and bool(extent)
        maps.append((mine, slab, tuple(extent), there, chunked))
    return tuple(shape), maps


@given(made=mosaics(), fill=st.sampled_from([0, -9]))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_mosaic(tmp_path, made, fill):
    shape, maps = made
    folder = tmp_path / "files"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    mapped = []
    for number, (mine, slab, extent, there, chunked) in enumerate(maps):
        name = f"{number}.h5"
        values = np.arange(np.prod(extent), dtype="<i4").reshape(extent) + 1000 * (number + 1)
        if there:
            options = {"chunks": tuple(-(-n // 2) for n in extent)} if chunked else {}
            part(folder / name, values, **options)
        source = space(extent, *slab) if extent else h5s.create_simple(())
        mapped.append(Map(space(shape, *mine), name, "d", source))
    path = whole(folder / "x.h5", shape, mapped, fill=fill)
    data = scan(str(path)).variables["x"].data
    with h5py.File(path) as file:
        expected = file["x"][...]
    if not isinstance(data, VirtualArray):
        assert "overlap" in data.reason
        assert data.loader is None
        return
    np.testing.assert_array_equal(np.asarray(data), expected)
    assert bool(data.notes) == (not all(there for _, _, _, there, _ in maps))
    key = (slice(None, None, -1), *[slice(1, None, 2)] * (len(shape) - 1))
    np.testing.assert_array_equal(np.asarray(data[key]), expected[key])


def test_later_parts_cover_earlier_ones(tmp_path):
    part(tmp_path / "a.h5", NINE)
    part(tmp_path / "b.h5", NINE + 100)
    a = Map(space((9,)), "a.h5", "d", space((9,)))
    b = Map(space((9,), (2,), (3,)), "b.h5", "d", space((9,), (0,), (3,)))
    for number, maps in enumerate([[a, b], [b, a], [a, b, b._replace(file="gone.h5")]]):
        virtual(assert_as_xarray(whole(tmp_path / f"x{number}.h5", (9,), maps)))


def test_parts_that_overlap_and_leave_gaps_are_refused(tmp_path):
    # HDF5 leaves the gap unfilled when all is read, and fills it when a part is.
    part(tmp_path / "a.h5", NINE)
    one = Map(space((12,), (0,), (9,)), "a.h5", "d", space((9,)))
    two = Map(space((12,), (1,), (9,)), "a.h5", "d", space((9,)))
    refused(whole(tmp_path / "x.h5", (12,), [one, two]), "overlap")
    virtual(assert_as_xarray(whole(tmp_path / "y.h5", (12,), [one, two], fill=None)))


# -- names -----------------------------------------------------------------------------------------


def mapped_onto(file, dataset="d"):
    return [Map(space((9,)), file, dataset, space((9,)))]


def test_the_same_file(tmp_path):
    path = tmp_path / "x.h5"
    part(path, NINE, "g/d")
    scanned = assert_as_xarray(whole(path, (9,), mapped_onto(".", "g/d")))
    assert keys(scanned) == {"x.h5"}
    assert len(scanned.sources) == 1
    virtual(assert_as_xarray(whole(path, (9,), mapped_onto("x.h5", "/g/d"), name="y")), "y")


def test_percent_signs(tmp_path):
    part(tmp_path / "a%b%.h5", NINE, "50%")
    path = whole(tmp_path / "x.h5", (9,), mapped_onto("a%%b%%.h5", "50%%"))
    assert keys(assert_as_xarray(path)) == {"a%b%.h5"}


@pytest.mark.parametrize(
    ("name", "prefix", "there"),
    [
        ("a.h5", None, "files/a.h5"),
        ("a.h5", None, "cwd/a.h5"),
        ("sub/a.h5", None, "files/sub/a.h5"),
        ("{root}/abs/a.h5", None, "abs/a.h5"),
        ("{root}/gone/a.h5", None, "files/a.h5"),
        ("{root}/gone/a.h5", None, "cwd/a.h5"),
        ("{root}/gone/a.h5", "{root}/one", "one/a.h5"),
        ("a.h5", "{root}/one", "one/a.h5"),
        ("a.h5", "{root}/one:{root}/two", "two/a.h5"),
        ("a.h5", "rel", "cwd/rel/a.h5"),
        ("sub/../a.h5", None, "files/a.h5"),
        ("a.h5", ".", "cwd/a.h5"),
        ("a.h5", "{root}/one", "files/a.h5"),
        ("a.h5", None, "behind/a.h5"),
        ("./a.h5", None, "files/a.h5"),
        ("a.h5", None, None),
        ("sub/a.h5", None, "files/a.h5"),
        ("http://localhost:1/a.h5", None, None),
    ],
)
def test_where_files_are_looked_for(tmp_path, monkeypatch, name, prefix, there):
    for folder in ("files", "files/sub", "cwd", "cwd/rel", "abs", "one", "two", "behind"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    if prefix is not None:
        monkeypatch.setenv("HDF5_VDS_PREFIX", prefix.replace("{root}", str(tmp_path)))
    if there is not None:
        part(tmp_path / there, NINE)
    maps = mapped_onto(name.replace("{root}", str(tmp_path)))
    real = whole(tmp_path / "behind/x.h5", (9,), maps)
    path = tmp_path / "files/x.h5"
    path.symlink_to(real)
    scanned = assert_as_xarray(path)
    found = int(np.asarray(virtual(scanned))[1]) == 1
    used = [source.url for source in scanned.sources][1:]
    assert used == ([str(tmp_path / there)] if found else [])
    assert ("stands for" in notes(scanned)) == (not found)
    assert found == (there is not None and (name, there) != ("sub/a.h5", "files/a.h5"))


def test_a_prefix_that_begins_where_the_file_is(tmp_path):
    for folder in ("files", "files/sub", "cwd"):
        (tmp_path / folder).mkdir()
    part(tmp_path / "files/sub/a.h5", NINE + 5)
    path = whole(tmp_path / "files/x.h5", (9,), mapped_onto("a.h5"))
    code = (
        "import h5py, sys, numpy as np; from intarsia.scan.hdf5 import scan\n"
        "data = np.asarray(scan(sys.argv[1]).variables['x'].data)\n"
        "assert data.tolist() == h5py.File(sys.argv[1])['x'][...].tolist()\n"
        "print(data[0])"
    )
    # HDF5 asks for it when it is loaded
    environ = os.environ | {"HDF5_VDS_PREFIX": "${ORIGIN}/sub"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env=environ,
        cwd=tmp_path / "cwd",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("5\n", "")


@pytest.mark.parametrize("earlier", ["one", "files", "cwd"])
def test_the_first_file_counts(tmp_path, monkeypatch, earlier):
    for folder in ("one", "files", "cwd"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HDF5_VDS_PREFIX", str(tmp_path / "one"))
    order = ["one", "files", "cwd"]
    for number, folder in enumerate(order[order.index(earlier) :]):
        part(tmp_path / folder / "a.h5", NINE + number)
    scanned = assert_as_xarray(whole(tmp_path / "files/x.h5", (9,), mapped_onto("a.h5")))
    assert scanned.sources.url(1) == str(tmp_path / earlier / "a.h5")


# -- what is not there -----------------------------------------------------------------------------


def test_what_is_missing_is_the_fill_value_and_told(tmp_path):
    part(tmp_path / "a.h5", NINE)
    maps = [
        Map(space((30,), (start,), (9,)), file, dataset, space((9,)))
        for start, file, dataset in [(0, "a.h5", "d"), (10, "gone.h5", "d"), (20, "a.h5", "none")]
    ]
    path = whole(tmp_path / "x.h5", (30,), maps)
    told = notes(assert_as_xarray(path))
    assert "gone.h5" in told
    assert f"none in {tmp_path}/a.h5" in told
    many = [Map(space((99,), (n,), (1,)), f"{n}.h5", "d", space((1,))) for n in range(99)]
    told = notes(assert_as_xarray(whole(tmp_path / "y.h5", (99,), many)))
    assert "7.h5 and 91 more" in told


def test_links_in_a_mapped_file(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["d"] = NINE
        file["soft"] = h5py.SoftLink("d")
        file["chain"] = h5py.SoftLink("/soft")
        file["dangling"] = h5py.SoftLink("/soft/none")
        file["nothing"] = h5py.SoftLink("none")
        file["out"] = h5py.ExternalLink("b.h5", "/deep/d")
        file["lost"] = h5py.ExternalLink("c.h5", "/d")
    part(tmp_path / "b.h5", NINE + 50, "deep/d")
    for name, key in [("soft", "a.h5"), ("chain", "a.h5"), ("out", "b.h5")]:
        path = whole(tmp_path / f"{name}.h5", (9,), mapped_onto("a.h5", name))
        assert keys(assert_as_xarray(path)) == {key}
    assert "nothing" in notes(
        assert_as_xarray(whole(tmp_path / "n.h5", (9,), mapped_onto("a.h5", "nothing")))
    )
    for name in ("lost", "dangling"):
        refused(whole(tmp_path / f"{name}.h5", (9,), mapped_onto("a.h5", name)), "can't be opened")


def junk(path):
    path.write_bytes(b"junk" * 100)


def cut_short(path):
    part(path, np.arange(1000))
    os.truncate(path, 500)


def empty(path):
    path.touch()


def folder(path):
    path.mkdir()


def loop(path):
    path.symlink_to(path)


def group(path):
    with h5py.File(path, "w") as file:
        file.create_group("d")


def broken(path):
    part(path, np.arange(1000), chunks=(10,))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"TREE", b"EERT"))


@pytest.mark.parametrize(
    "spoil", [junk, cut_short, empty, folder, loop, group, broken], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("dtype", ["<i4", "text"])
def test_what_is_there_has_to_be_readable(tmp_path, spoil, dtype):
    spoil(tmp_path / "a.h5")
    kind = h5py.string_dtype() if dtype == "text" else dtype
    path = whole(tmp_path / "x.h5", (9,), mapped_onto("a.h5"), dtype=kind, fill=None)
    data = refused(path, "a.h5")
    with pytest.raises(IntarsiaError, match=r"a\.h5"):
        intarsia.open_dataset(path)["x"].load()
    assert data.dtype == (object if dtype == "text" else np.dtype("<i4"))


def test_permission_denied(tmp_path, monkeypatch):
    path = whole(tmp_path / "x.h5", (9,), mapped_onto("a.h5"))
    real = os.stat

    def stat(place, *args, **kwargs):
        if str(place).endswith("a.h5"):
            raise PermissionError(13, "Permission denied")
        return real(place, *args, **kwargs)

    monkeypatch.setattr(os, "stat", stat)
    refused(path, "Permission denied")


@pytest.mark.parametrize("of_source", [space((9,)), space((9,), (0,), (9,))])
@pytest.mark.parametrize("size", [6, 12])
def test_a_mapped_dataset_of_another_length(tmp_path, of_source, size):
    part(tmp_path / "a.h5", np.arange(size, dtype="<i4"))
    path = whole(tmp_path / "x.h5", (9,), [Map(space((9,)), "a.h5", "d", of_source)])
    if size > 9 and of_source.get_select_type() != h5s.SEL_ALL:
        virtual(assert_as_xarray(path))
        return
    refused(path, "mapped onto")  # HDF5 fails, or reads past the end


# -- without limits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (growing(), growing()),
        (growing(2), growing(1)),
        (growing(0, 3), growing(0, 2)),
        (growing(0, 5, 3), growing()),
        (growing(), growing(0, 4, 3)),
        (growing(1, 4, 2), growing(0, 3, 2)),
        (space((0,), (1,), (1,), (1,), (U,), (U,)), space((0,), (2,), (1,), (1,), (U,), (U,))),
    ],
)
@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_dimensions_without_limits(tmp_path, mine, theirs, size):
    part(tmp_path / "a.h5", np.arange(size, dtype="<i4"), chunks=(3,), maxshape=(None,))
    path = whole(tmp_path / "x.h5", (0,), [Map(mine, "a.h5", "d", theirs)], limits=(U,))
    broken_off = size == 1 and theirs.get_regular_hyperslab()[3] in [(2,), (3,)]
    # of nothing, and of a part of the first block, HDF5 reads nothing
    scanned = assert_as_xarray(path, values=size > 0 and not broken_off)
    if broken_off:
        values = np.asarray(virtual(scanned)).tolist()
        assert values.count(0) == 1
        assert values.count(-9) == len(values) - 1


def test_dimensions_without_limits_of_several_files(tmp_path):
    for name, size in [("a", 3), ("b", 7), ("c", 5)]:
        values = np.arange(size * 2, dtype="<i4").reshape(size, 2)
        part(tmp_path / f"{name}.h5", values, chunks=(2, 2), maxshape=(None, 2))
    maps = [
        Map(
            space((0, 8), (0, 2 * n), (U, 2), limits=(U, 8)),
            f"{name}.h5",
            "d",
            space((0, 2), (0, 0), (U, 2), limits=(U, 2)),
        )
        for n, name in enumerate(["a", "gone", "b", "c"])
    ]
    path = whole(tmp_path / "x.h5", (0, 8), maps, limits=(U, 8))
    scanned = assert_as_xarray(path)
    assert virtual(scanned).shape == (7, 8)
    assert "gone.h5" in notes(scanned)


def test_the_length_of_what_can_not_be_read(tmp_path):
    junk(tmp_path / "a.h5")
    path = whole(tmp_path / "x.h5", (0,), [Map(growing(), "a.h5", "d", growing())], limits=(U,))
    with pytest.raises(CorruptFile, match=r"a part of a virtual dataset.*'x' in .*x\.h5"):
        scan(str(path))  # xarray can't open the file either


@pytest.mark.parametrize("names", [(".", "x"), ("x.h5", "/x")])
def test_circles_that_grow_are_refused(tmp_path, names):
    path = whole(tmp_path / "x.h5", (0,), [Map(growing(), *names, growing())], limits=(U,))
    refused(path, "part of itself")


@pytest.mark.parametrize("numbers", [[], [0], [0, 1, 2], [0, 1, 3], [1, 2], list(range(12))])
@pytest.mark.parametrize("smallest", [0, 10])
def test_series(tmp_path, numbers, smallest):
    for number in numbers:
        part(tmp_path / f"f-{number}.h5", np.arange(3, dtype="<i4") + 10 * number, f"d{number}")
    maps = [Map(growing(1, 4, 3), "f-%b.h5", "d%b", space((3,), (0,), (3,)))]
    if smallest:
        maps.append(Map(space((10,), (9,), (1,)), "none.h5", "d", space((1,))))
    path = whole(tmp_path / "x.h5", (smallest,), maps, limits=(U,))
    scanned = assert_as_xarray(path, values=bool(smallest or 0 in numbers))
    run = next(n for n in range(13) if n not in numbers)
    assert keys(scanned) == {f"f-{n}.h5" for n in range(run)}


def test_a_series_in_one_file(tmp_path):
    path = tmp_path / "x.h5"
    for number in range(3):
        part(path, np.arange(3, dtype="<i4") + 10 * number, f"d{number}")
    maps = [Map(growing(0, 3, 3), ".", "d%b", space((3,)))]
    virtual(assert_as_xarray(whole(path, (0,), maps, limits=(U,))))


# -- virtual datasets of virtual datasets ----------------------------------------------------------


def test_nested(tmp_path):
    values = np.arange(24, dtype="<i4").reshape(4, 6)
    part(tmp_path / "a.h5", values, chunks=(3, 4), compression="gzip")
    part(tmp_path / "b.h5", values + 100)
    inner = [
        Map(space((2, 4, 6), (0, 0, 0), (1, 4, 6)), "a.h5", "d", space((4, 6))),
        Map(space((2, 4, 6), (1, 1, 0), (1, 2, 6)), "b.h5", "d", space((4, 6), (1, 0), (2, 6))),
    ]
    whole(tmp_path / "inner.h5", (2, 4, 6), inner, fill=-1)
    outer = [
        Map(
            space((5, 3, 2), (0, 0, 0), (4, 3, 2)),
            "inner.h5",
            "x",
            space((2, 4, 6), (0, 0, 0), (2, 2, 6)),
        ),
        Map(
            space((5, 3, 2), (4, 0, 0), (1, 3, 2)),
            "inner.h5",
            "x",
            space((2, 4, 6), (1, 3, 0), (1, 1, 3), (1, 1, 2), (1, 1, 2)),
        ),
    ]
    scanned = assert_as_xarray(whole(tmp_path / "x.h5", (5, 3, 2), outer))
    assert keys(scanned) == {"a.h5", "b.h5"}
    assert {source.key for source in scanned.sources} == {"x.h5", "a.h5", "b.h5", "inner.h5"}
    row = [
        Map(space((2, 2, 6)), "inner.h5", "x", space((2, 4, 6), (0, 0, 0), (2, 2, 6), (1, 3, 1)))
    ]
    virtual(assert_as_xarray(whole(tmp_path / "y.h5", (2, 2, 6), row)))


@pytest.mark.parametrize("dtype", ["<i4", "text"])
@pytest.mark.parametrize("length", [1, 2, 40])
def test_circles_are_refused(tmp_path, length, dtype):
    # HDF5 crashes when it reads them.
    kind = h5py.string_dtype() if dtype == "text" else dtype
    for number in range(length):
        maps = mapped_onto(f"{(number + 1) % length}.h5", "x")
        whole(tmp_path / f"{number}.h5", (9,), maps, dtype=kind, fill=None)
    refused(tmp_path / "0.h5", "part of itself" if length < 30 else "deep")


def test_a_circle_in_one_file_is_refused(tmp_path):
    refused(whole(tmp_path / "x.h5", (9,), mapped_onto(".", "x")), "part of itself")


def test_nested_ones_that_grow_are_copied(tmp_path):
    part(tmp_path / "a.h5", NINE, chunks=(3,), maxshape=(None,))
    whole(tmp_path / "b.h5", (9,), [Map(growing(), "a.h5", "d", growing())], limits=(U,))
    copied(whole(tmp_path / "x.h5", (9,), mapped_onto("b.h5", "x")), "grows")


# -- types -----------------------------------------------------------------------------------------

CASTS = ["<i4 >i4", ">i4 <i4", "<f8 >f8", "i1 <i4", ">u2 <i8", "<i2 <f4", "<i4 >f8", "<f4 <f8"]
OTHERS = ["<i8 <i4", "<f8 <f4", "<f8 <i4", "<i4 <f4", "<i8 <f8", ">f4 <f8", "<f2 <f4", "u1 i1"]


@pytest.mark.parametrize("pair", [*CASTS, *OTHERS])
def test_types_are_converted(tmp_path, pair):
    mine, theirs = pair.split()
    values = np.array([1, 2, 3, 100, 127]).astype(mine)
    if mine.startswith("f") or mine[1] == "f":
        values[:2] = [np.nan, -0.0]
    part(tmp_path / "a.h5", values)
    part(tmp_path / "b.h5", np.nan_to_num(values).astype(theirs))
    maps = [
        Map(space((12,), (6 * n,), (5,)), f"{name}.h5", "d", space((5,)))
        for n, name in enumerate("ab")
    ]
    path = whole(tmp_path / "x.h5", (12,), maps, dtype=theirs, fill=7)
    scanned = assert_as_xarray(path)
    if pair in CASTS:
        assert keys(scanned) == {"a.h5", "b.h5"}
        assert virtual(scanned).segments.cases[0].encoding.stored == np.dtype(theirs)
    else:
        assert "a part of which is" in opaque(scanned).reason


@pytest.mark.parametrize("dtype", ["?", "S3", "<c8", ">c16", "u1"])
def test_other_types(tmp_path, dtype):
    values = np.array([0, 1, 1]).astype(dtype)
    part(tmp_path / "a.h5", values)
    path = whole(
        tmp_path / "x.h5",
        (5,),
        [Map(space((5,), (1,), (3,)), "a.h5", "d", space((3,)))],
        dtype,
        None,
    )
    virtual(assert_as_xarray(path))


def compound():
    return np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])


def text():
    return np.array(["one", "zwei"], object)


def enum():
    return np.array([0, 1], h5py.enum_dtype({"a": 0, "b": 1}, "i1"))


@pytest.mark.parametrize("make", [compound, text], ids=lambda f: f.__name__)
def test_types_that_are_copied(tmp_path, make):
    values = make()
    dtype = h5py.string_dtype() if values.dtype == object else values.dtype
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("d", data=values, dtype=dtype)
    maps = [Map(space((2,)), "a.h5", "d", space((2,)))]
    path = whole(tmp_path / "x.h5", (2,), maps, dtype, None)
    data = opaque(assert_as_xarray(path))
    loader = pickle.loads(pickle.dumps(data.loader))
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["more"] = 1
    with pytest.raises(SourceChanged, match="not those that were scanned"):
        loader()
    (tmp_path / "a.h5").unlink()
    with pytest.raises(SourceChanged, match="not those that were scanned"):
        loader()
    junk(tmp_path / "a.h5")
    with pytest.raises(SourceChanged, match="no longer"):
        loader()


def test_enums(tmp_path):
    values = enum()
    for name, members in [("a", {"a": 0, "b": 1}), ("b", {"a": 1, "b": 0})]:
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("d", data=values, dtype=h5py.enum_dtype(members, "i1"))
        path = whole(
            tmp_path / f"x{name}.h5",
            (2,),
            [Map(space((2,)), f"{name}.h5", "d", space((2,)))],
            values.dtype,
            None,
        )
        (virtual if name == "a" else opaque)(assert_as_xarray(path))


# -- as datasets -----------------------------------------------------------------------------------


def packed(tmp_path):
    for n in range(3):
        values = np.arange(12, dtype="<i2").reshape(3, 4) + 100 * n
        part(tmp_path / f"{n}.h5", values, chunks=(2, 4), compression=[None, "gzip", "lzf"][n])
    maps = [
        Map(space((4, 3, 4), (n, 0, 0), (1, 3, 4)), f"{n}.h5", "d", space((3, 4))) for n in range(4)
    ]
    path = whole(tmp_path / "x.h5", (4, 3, 4), maps, dtype="<i2", fill=-1)
    with h5py.File(path, "a") as file:
        for name, size in [("t", 4), ("y", 3), ("z", 4)]:
            file[name] = np.arange(size)
            file[name].make_scale(name)
        for axis, name in enumerate("tyz"):
            file["x"].dims[axis].attach_scale(file[name])
        file["x"].attrs.update({"scale_factor": 0.1, "add_offset": 5.0, "units": "K"})
        file["x"].attrs["_FillValue"] = np.int16(-1)
    return path


def test_as_a_dataset(tmp_path):
    path = packed(tmp_path)
    ds = check_equal(path, virtual=["x"])
    assert "3.h5" in " ".join(ds.x.variable._data.notes)


def test_saved_reopened_and_verified(tmp_path):
    path = packed(tmp_path)
    ds = intarsia.open_dataset(path)
    ds.intarsia.save(tmp_path / "x.intarsia")
    again = intarsia.open_dataset(tmp_path / "x.intarsia")
    assert isinstance(again.x.variable._data, VirtualArray)
    assert again.identical(ds)
    assert again.x.variable._data.notes == ds.x.variable._data.notes
    result = verify(tmp_path / "x.intarsia")
    assert not result.differences
    assert all("another file's variables" in left.reason for left in result.uncompared)
    assert sum(left.elements for left in result.uncompared if left.variable == "x") == 36
    (tmp_path / "1.h5").unlink()
    with pytest.raises(SourceMissing, match=r"1\.h5"):
        intarsia.open_dataset(tmp_path / "x.intarsia").x.load()


def test_how_it_was_opened_is_kept(tmp_path):
    path = packed(tmp_path)
    ds = check_equal(path, virtual=["x"], mask_and_scale=False)
    ds.intarsia.save(tmp_path / "x.intarsia")
    again = intarsia.open_dataset(tmp_path / "x.intarsia", mask_and_scale=False)
    assert again.identical(ds)
    with pytest.raises(UnsupportedError, match="mask_and_scale=False"):
        intarsia.open_dataset(tmp_path / "x.intarsia", mask_and_scale=True)


@pytest.mark.parametrize("cast", [False, True])
def test_a_dimension_that_is_longer(tmp_path, cast):
    part(tmp_path / "a.h5", NINE.astype("<i2" if cast else "<i4"), chunks=(4,))
    path = whole(tmp_path / "x.h5", (9,), mapped_onto("a.h5"), limits=(U,))
    with h5py.File(path, "a") as file:
        file.create_dataset("t", data=np.arange(12), maxshape=(None,)).make_scale("t")
        file["x"].dims[0].attach_scale(file["t"])
    scanned = assert_as_xarray(path)
    assert np.asarray(virtual(scanned)).tolist() == [*range(9), -9, -9, -9]
    check_equal(path, virtual=["x"])


def test_combined(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    paths = [packed(tmp_path / "a"), packed(tmp_path / "b")]
    check_equal(paths, virtual=["x"], concat_dim="t", combine="nested")


# -- many ------------------------------------------------------------------------------------------


def test_many_parts_of_one_file(tmp_path):
    values = part(
        tmp_path / "a.h5", np.arange(8_000, dtype="<i4").reshape(2_000, 4), chunks=(99, 4)
    )
    order = np.random.default_rng(1).permutation(2_000)
    maps = [
        Map(space((2_000, 4), (n, 0), (1, 4)), "a.h5", "d", space((2_000, 4), (m, 0), (1, 4)))
        for n, m in enumerate(order.tolist())
    ]
    path = whole(tmp_path / "x.h5", (2_000, 4), maps)
    data = virtual(scan(str(path)))
    assert len(data.segments) == 2_000
    assert data.segments.nbytes < 60 * 2_000
    np.testing.assert_array_equal(np.asarray(data), values[order])


def test_too_many_parts_are_copied(tmp_path, monkeypatch):
    part(tmp_path / "a.h5", NINE)
    path = whole(
        tmp_path / "x.h5",
        (12,),
        [Map(*SELECTIONS["strided whole"][:1], "a.h5", "d", SELECTIONS["strided whole"][1])],
    )
    monkeypatch.setattr(selections, "MAX_RUNS", 3)
    copied(path, "too many")
    monkeypatch.undo()
    monkeypatch.setattr(mosaic, "MAX_CELLS", 3)
    copied(path, "too many")
