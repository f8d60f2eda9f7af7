"""Links within files and to other files: what they lead to is as xarray sees it."""

from __future__ import annotations

import os
import pickle
import warnings

import h5py
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import FormatError, SourceChanged, SourceMissing
from intarsia.scan.hdf5 import scan
from tests.check import check_equal
from tests.scan.hdf5.virtual_files import Map, part, space, whole
from tests.scan.store import assert_as_xarray, groups, opaque, virtual

FIVE = np.arange(5, dtype="<i4")


def source_of(scanned, name="x"):
    """Name of the one file that a variable lies in."""
    data = virtual(scanned, name)
    (number,) = {int(n) for block in data.segments.blocks for n in block.column(2)}
    return scanned.sources[number].key


def linking(path, **links):
    """A file of links."""
    with h5py.File(path, "w") as file:
        for name, link in links.items():
            file[name] = link
    return path


def xarray_fails(path, group="/"):
    """Whether xarray can't open a group."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            xr.open_dataset(path, group=group, engine="h5netcdf", phony_dims="access").close()
    except (KeyError, ValueError, OSError, RuntimeError):
        return True
    return False


def as_xarray(path, group="/"):
    """Assert that a scan is what xarray gives, or refused where xarray fails too."""
    if not xarray_fails(path, group):
        return assert_as_xarray(path, group)
    with pytest.raises(FormatError):
        scan(str(path), group=group)
    return None


# -- within a file ---------------------------------------------------------------------------------


def test_soft_and_hard_links(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["g/x"] = FIVE
        file["soft"] = h5py.SoftLink("/g/x")
        file["chain"] = h5py.SoftLink("soft")
        file["g/up"] = h5py.SoftLink("../soft")  # which HDF5 does not know: nowhere
        del file["g/up"]
        file["hard"] = file["g/x"]
        file["again"] = file["g/x"]
        file["inner"] = h5py.SoftLink("/g")
        file["twice"] = file["g"]
        file["deep/er/link"] = h5py.SoftLink("/inner/x")
    scanned = assert_as_xarray(path)
    for name in ("soft", "chain", "hard", "again"):
        assert source_of(scanned, name) == "x.h5"
    for group in ("/inner", "/twice", "/deep/er", "/deep"):
        assert_as_xarray(path, group)


def test_dimensions_behind_links(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(5)
        file["t"].make_scale("t")
        file["g/x"] = FIVE
        file["g/x"].dims[0].attach_scale(file["t"])
        file["same"] = h5py.SoftLink("/g/x")
        file["h"] = h5py.SoftLink("/g")
        file["other_t"] = file["t"]
    for group in ("/g", "/h"):
        assert_as_xarray(path, group)
    as_xarray(path)


@pytest.mark.parametrize(
    "link",
    [
        h5py.SoftLink("/nowhere"),
        h5py.SoftLink("x"),
        h5py.ExternalLink("gone.h5", "/x"),
        h5py.ExternalLink("other.h5", "/gone"),
        h5py.ExternalLink("junk.h5", "/x"),
        h5py.ExternalLink("x.h5", "/x"),
    ],
    ids=["nowhere", "circle", "no file", "no object", "no hdf5", "circle outside"],
)
def test_links_to_nowhere_are_refused(tmp_path, link):
    part(tmp_path / "other.h5", FIVE)
    (tmp_path / "junk.h5").write_bytes(b"junk" * 200)
    path = linking(tmp_path / "x.h5", x=link, rest=FIVE)
    assert xarray_fails(path)
    with pytest.raises(FormatError, match="'x' leads nowhere.*drop_variables"):
        scan(str(path))
    rest = intarsia.open_dataset(path, drop_variables="x")
    assert list(rest.variables) == ["rest"]
    np.testing.assert_array_equal(rest["rest"], FIVE)
    with pytest.raises(FormatError, match="'x' leads nowhere"):
        intarsia.open_dataset(path, drop_variables="other")


# -- to other files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (2,)},
        {"chunks": (2,), "compression": "gzip", "shuffle": True},
        {"chunks": (3,), "fillvalue": 7, "maxshape": (None,)},
    ],
)
def test_external_links(tmp_path, options):
    (tmp_path / "sub").mkdir()
    with h5py.File(tmp_path / "sub/other.h5", "w", userblock_size=512) as file:
        file.create_dataset("g/x", data=FIVE, **options)
        file["g/x"].attrs["units"] = "K"
        file.create_dataset("g/none", (5,), "<i4", **options)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink("sub/other.h5", "/g/x")
        file["none"] = h5py.ExternalLink("sub/other.h5", "/g/none")
        file["g"] = h5py.ExternalLink("sub/other.h5", "/g")
        file["through"] = h5py.SoftLink("/g/x")
        file["own"] = FIVE
    scanned = assert_as_xarray(path)
    assert source_of(scanned) == source_of(scanned, "through") == "other.h5"
    assert source_of(scanned, "own") == "x.h5"
    stat = os.stat(tmp_path / "sub/other.h5")
    assert [source.key for source in scanned.sources] == ["x.h5", "other.h5"]
    assert (scanned.sources[1].size, scanned.sources[1].mtime_ns) == (
        stat.st_size,
        stat.st_mtime_ns,
    )
    assert source_of(assert_as_xarray(path, "/g")) == "other.h5"


def test_chains_of_external_links(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    part(tmp_path / "b/c.h5", FIVE, "deep/x")
    linking(tmp_path / "a/b.h5", y=h5py.ExternalLink("../b/c.h5", "/deep/x"))
    path = linking(tmp_path / "x.h5", x=h5py.ExternalLink("a/b.h5", "/y"))
    scanned = assert_as_xarray(path)
    assert source_of(scanned) == "c.h5"
    assert scanned.sources.url(1) == str(tmp_path / "b/c.h5")


@pytest.mark.parametrize(
    ("name", "prefix", "there"),
    [
        ("a.h5", None, "files/a.h5"),
        ("a.h5", None, "cwd/a.h5"),
        ("{root}/abs/a.h5", None, "abs/a.h5"),
        ("{root}/gone/a.h5", None, "files/a.h5"),
        ("a.h5", "{root}/one:{root}/two", "two/a.h5"),
        ("a.h5", "rel", "cwd/rel/a.h5"),
        ("a.h5", None, "behind/a.h5"),
        ("sub/../a.h5", None, "files/a.h5"),
        ("link/../a.h5", None, "elsewhere/a.h5"),
    ],
)
def test_where_files_are_looked_for(tmp_path, monkeypatch, name, prefix, there):
    for folder in ("files/sub", "cwd/rel", "abs", "two", "behind", "elsewhere/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "files/link").symlink_to(tmp_path / "elsewhere/deep")
    monkeypatch.chdir(tmp_path / "cwd")
    if prefix is not None:
        monkeypatch.setenv("HDF5_EXT_PREFIX", prefix.replace("{root}", str(tmp_path)))
    part(tmp_path / there, FIVE)
    link = h5py.ExternalLink(name.replace("{root}", str(tmp_path)), "/d")
    real = linking(tmp_path / "behind/x.h5", x=link)
    (tmp_path / "files/x.h5").symlink_to(real)
    scanned = assert_as_xarray(tmp_path / "files/x.h5")
    assert scanned.sources.url(1) == str(tmp_path / there)


def test_the_same_file_by_another_name(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["g/x"] = FIVE
        file["x"] = h5py.ExternalLink("x.h5", "/g/x")
    assert source_of(assert_as_xarray(path)) == "x.h5"
    (tmp_path / "link.h5").symlink_to(path)
    assert_as_xarray(tmp_path / "link.h5")


def test_scales_of_another_file(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["pad"] = np.arange(3)
        file["t"] = np.arange(5)
        file["t"].make_scale("t")
        file["x"] = FIVE
        file["x"].dims[0].attach_scale(file["t"])
    path = linking(
        tmp_path / "x.h5",
        t=h5py.ExternalLink("other.h5", "/t"),
        x=h5py.ExternalLink("other.h5", "/x"),
    )
    # h5netcdf looks for the scale in the first file, at the place that it has in the second
    as_xarray(path)
    as_xarray(linking(tmp_path / "y.h5", g=h5py.ExternalLink("other.h5", "/")), "/g")


def test_what_is_copied_from_another_file(tmp_path):
    values = np.array(["one", "zwei"], object)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("text", data=values, dtype=h5py.string_dtype())
        file["pair"] = np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")])
    path = linking(
        tmp_path / "x.h5",
        text=h5py.ExternalLink("other.h5", "/text"),
        pair=h5py.ExternalLink("other.h5", "/pair"),
    )
    scanned = assert_as_xarray(path)
    loaders = [pickle.loads(pickle.dumps(opaque(scanned, n).loader)) for n in ("text", "pair")]
    with h5py.File(tmp_path / "other.h5", "a") as file:
        file["more"] = 1
    for loader in loaders:
        with pytest.raises(SourceChanged, match=r"other\.h5"):
            loader()
    (tmp_path / "other.h5").unlink()
    for loader in loaders:
        with pytest.raises(SourceMissing, match=r"other\.h5"):
            loader()


@pytest.mark.parametrize("dtype", ["<i4", "text"])
def test_a_virtual_dataset_behind_a_link(tmp_path, dtype):
    (tmp_path / "sub").mkdir()
    kind = h5py.string_dtype() if dtype == "text" else np.dtype(dtype)
    with h5py.File(tmp_path / "sub/a.h5", "w") as file:
        file.create_dataset(
            "d", data=FIVE.astype(str).astype(object) if dtype == "text" else FIVE, dtype=kind
        )
    maps = [Map(space((5,)), "a.h5", "d", space((5,)))]
    whole(tmp_path / "sub/v.h5", (5,), maps, kind, None)
    scanned = assert_as_xarray(linking(tmp_path / "x.h5", x=h5py.ExternalLink("sub/v.h5", "/x")))
    if dtype != "text":
        assert source_of(scanned) == "a.h5"


def test_external_raw_files_behind_a_link(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.raw").write_bytes(FIVE.tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("d", (5,), "<i4", external=[("a.raw", 0, 20)])
    path = linking(tmp_path / "x.h5", x=h5py.ExternalLink("other.h5", "/d"))
    assert source_of(assert_as_xarray(path)) == "a.raw"


def test_as_a_dataset_saved_and_reopened(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        options = {"chunks": (2, 3), "compression": "gzip"}
        file.create_dataset("x", data=np.arange(12, dtype="<i2").reshape(4, 3), **options)
        file["x"].attrs["scale_factor"] = 0.5
    path = tmp_path / "main.h5"
    with h5py.File(path, "w") as file:
        file["plain"] = h5py.ExternalLink("other.h5", "/x")
        file["own"] = np.zeros((4, 3))
    ds = check_equal(path, virtual=["plain", "own"])
    ds.intarsia.save(tmp_path / "x.intarsia")
    assert intarsia.open_dataset(tmp_path / "x.intarsia").identical(ds)


def test_a_tree_of_links_saved_and_reopened(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("g/x", data=np.arange(12.0).reshape(3, 4), chunks=(2, 2))
        file["g/inner/y"] = FIVE
    path = linking(
        tmp_path / "x.h5",
        one=h5py.ExternalLink("other.h5", "/g"),
        two=h5py.SoftLink("/one/inner"),
        x=h5py.ExternalLink("other.h5", "/g/x"),
    )
    for group in groups(path):
        assert_as_xarray(path, group)
    tree = intarsia.open_datatree(path)
    assert set(tree.groups) == {"/", "/one", "/one/inner", "/two"}
    assert isinstance(tree["one/x"].variable._data, VirtualArray)
    tree.intarsia.save(tmp_path / "x.intarsia")
    again = intarsia.open_datatree(tmp_path / "x.intarsia")
    for name in tree.groups:
        assert again[name].to_dataset().identical(tree[name].to_dataset())
    np.testing.assert_array_equal(again["one/x"].values, np.arange(12.0).reshape(3, 4))


def test_groups_that_are_in_themselves_are_refused(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["g/x"] = FIVE
        file["g/h/up"] = h5py.SoftLink("/g")
    linking(tmp_path / "y.h5", g=h5py.ExternalLink("y.h5", "/"))
    assert_as_xarray(path, "/g/h")
    with pytest.raises(FormatError, match="is in itself"):
        intarsia.open_datatree(path)
    with pytest.raises(FormatError, match="is in itself"):
        intarsia.open_datatree(tmp_path / "y.h5")
