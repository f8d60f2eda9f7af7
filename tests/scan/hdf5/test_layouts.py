"""Storage layouts: where the bytes are, and what stands where there are none."""

from __future__ import annotations

import ctypes
import glob
import os

import h5py
import netCDF4
import numpy as np
import pytest
from h5py import h5d, h5f, h5p, h5s, h5t, h5z

from intarsia.errors import ShortRead, SourceMissing
from intarsia.io.fetch import observe
from intarsia.references import AFFINE, DENSE, MISSING, SPARSE
from intarsia.scan.hdf5 import opening, scan
from intarsia.scan.hdf5.opening import addresses_are_absolute
from tests.scan.store import assert_as_xarray, virtual


def references(scanned, name="x"):
    (page,) = virtual(scanned, name).segments.pages
    return page


INDEXES = {
    "one chunk": {"chunks": (9, 13)},
    "fixed": {"chunks": (4, 5)},
    "fixed, filtered": {"chunks": (4, 5), "compression": "gzip"},
    "extensible": {"chunks": (4, 5), "maxshape": (None, 13)},
    "extensible, filtered": {"chunks": (4, 5), "maxshape": (9, None), "compression": "gzip"},
    "tree": {"chunks": (4, 5), "maxshape": (None, None)},
    "tree, filtered": {"chunks": (4, 5), "maxshape": (None, None), "shuffle": True},
    "larger than the array": {"chunks": (20, 20), "maxshape": (None, None)},
    "columns": {"chunks": (9, 1)},
    "single elements": {"chunks": (1, 1)},
}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("options", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("part", ["all", "most", "few", "none"])
def test_chunks(tmp_path, libver, options, part):
    path = tmp_path / "x.h5"
    values = np.arange(9 * 13, dtype="<i4").reshape(9, 13)
    with h5py.File(path, "w", libver=libver) as file:
        dataset = file.create_dataset("x", (9, 13), "<i4", fillvalue=-7, **options)
        for key in {
            "all": [np.s_[:]],
            "most": [np.s_[:8], np.s_[8:, 6:]],
            "few": [np.s_[5, 7]],
            "none": [],
        }[part]:
            dataset[key] = values[key]
        whole = dataset.id.get_num_chunks()
    table = references(assert_as_xarray(path))
    if part == "none":
        assert table.form == MISSING
    elif whole > 20:
        assert table.form == (SPARSE if part == "few" else DENSE)
    assert len(table.offsets) <= max(9 * 13, whole)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize(
    ("shape", "limits"),
    [
        ((9, 13), (9, None)),
        ((9, 13), (30, None)),
        ((4, 40), (4, None)),
        ((5, 6, 7), (5, None, 7)),
        ((5, 6, 7), (9, None, 20)),
        ((5, 6, 7), (20, 20, None)),
        ((5, 6, 7), (None, 20, 20)),
        ((5, 6, 7), (20, None, None)),
    ],
)
@pytest.mark.parametrize("part", ["all", "half", "first row", "first column", "one"])
def test_one_dimension_that_can_grow(tmp_path, libver, compression, shape, limits, part):
    # HDF5 reports wrong coordinates of chunks where that is not the first one.
    path = tmp_path / "x.h5"
    values = np.arange(1, np.prod(shape) + 1, dtype="<i4").reshape(shape)
    keys = {
        "all": np.s_[...],
        "half": np.s_[shape[0] // 2 :],
        "first row": np.s_[:1],
        "first column": np.s_[..., :1],
        "one": np.s_[-1:, -1:],
    }
    with h5py.File(path, "w", libver=libver) as file:
        chunks = (4, 5) if len(shape) == 2 else (2, 2, 2)
        dataset = file.create_dataset(
            "x", shape, "<i4", chunks=chunks, maxshape=limits, compression=compression
        )
        dataset[keys[part]] = values[keys[part]]
    assert_as_xarray(path)


def chunk_options():
    """The function of the HDF5 library that h5py does not offer, where it can be found."""
    for path in glob.glob(os.path.join(os.path.dirname(h5py.__file__), "../h5py.libs/libhdf5-*")):
        function = ctypes.CDLL(path).H5Pset_chunk_opts
        function.argtypes = [ctypes.c_int64, ctypes.c_uint]
        return function
    pytest.skip("the HDF5 library that h5py uses is not beside it")


@pytest.mark.parametrize("option", [0, 2])
@pytest.mark.parametrize("dtype", ["<i4", ">f8", "u1"])
@pytest.mark.parametrize("filters", ["s", "d", "sd", "sdf", "f", "sl", "l"])
def test_partial_chunks_that_are_left_unfiltered(tmp_path, option, dtype, filters):
    path = tmp_path / "x.h5"
    add = {
        "s": lambda dcpl: dcpl.set_shuffle(),
        "d": lambda dcpl: dcpl.set_deflate(4),
        "f": lambda dcpl: dcpl.set_fletcher32(),
        "l": lambda dcpl: dcpl.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL),
    }
    number = np.arange(9 * 13)
    first = np.where(number % 13 == 10, 1, 0)  # the same, shuffled or not, in most chunks
    first[-1] = 300
    for values in (number, number * 0, number % 7 * 2**20 + number, first):
        values = values.reshape(9, 13).astype(dtype)
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_chunk((4, 5))
        for name in filters:
            add[name](dcpl)
        chunk_options()(dcpl.id, option)
        with h5py.File(path, "w", libver="latest") as file:
            kind, space = h5t.py_create(values.dtype), h5s.create_simple((9, 13))
            h5py.Dataset(h5d.create(file.id, b"x", kind, space, dcpl))[...] = values
        assert_as_xarray(path)


def test_chunks_allocated_early(tmp_path):
    path = tmp_path / "x.h5"
    for libver in ("earliest", "latest"):
        with h5py.File(path, "w", libver=libver) as file:
            dcpl = h5p.create(h5p.DATASET_CREATE)
            dcpl.set_chunk((4, 5))
            dcpl.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            dcpl.set_fill_value(np.array(3, "i4"))
            space = h5s.create_simple((9, 13))
            h5d.create(file.id, b"x", h5t.STD_I32LE, space, dcpl)
        assert references(assert_as_xarray(path)).form == DENSE


def test_a_shrunken_dataset(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        values = np.arange(90).reshape(9, 10)
        file.create_dataset("x", data=values, chunks=(2, 3), maxshape=(None, None))
        file["x"].resize((5, 4))
    assert_as_xarray(path)


@pytest.mark.parametrize("layout", [h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED])
@pytest.mark.parametrize("time", ["ALLOC", "NEVER", "IFSET"])
@pytest.mark.parametrize("fill", [None, 7])
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("longer", [False, True])
def test_what_was_never_written(tmp_path, layout, time, fill, written, longer):
    """The fill value, or zeros; `longer`: the unlimited dimension is longer than the dataset."""
    if longer and layout != h5d.CHUNKED:
        pytest.skip("only chunked datasets have unlimited dimensions")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_layout(layout)
        if layout == h5d.CHUNKED:
            dcpl.set_chunk((4,))
        dcpl.set_fill_time(getattr(h5d, f"FILL_TIME_{time}"))
        if fill is not None:
            dcpl.set_fill_value(np.array(fill, ">i4"))
        space = h5s.create_simple((10,), (h5s.UNLIMITED if longer else 10,))
        dataset = h5py.Dataset(h5d.create(file.id, b"x", h5t.STD_I32BE, space, dcpl))
        if written:
            dataset[:3] = [1, 2, 3]
        if longer:
            scale = file.create_dataset("t", data=np.arange(15), maxshape=(None,))
            scale.make_scale("t")
            dataset.dims[0].attach_scale(scale)
    virtual(assert_as_xarray(path))


@pytest.mark.parametrize("dtype", ["i2", "f4", "u8", "S1"])
def test_netcdf4_fills(tmp_path, dtype):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 5)
        file.createVariable("t", "f8", ("t",))[:] = np.arange(6)
        for chunked in (True, False):
            for nofill in (True, False):
                name = f"v_{chunked}_{nofill}"
                fill = False if nofill else None
                # xarray does not pad characters along a dimension that is longer than the dataset
                dims = ("t", "x") if chunked and dtype != "S1" else ("x",)
                file.createVariable(name, dtype, dims, fill_value=fill)
        if dtype != "S1":
            file.createVariable("short", dtype, ("t", "x"), fill_value=9)[:2] = 1
    assert_as_xarray(path)


def test_a_long_contiguous_dataset_is_strips(tmp_path):
    path = tmp_path / "x.h5"
    values = np.arange(3 * 500 * 300, dtype="<f4").reshape(3, 500, 300)
    with h5py.File(path, "w") as file:
        file["x"] = values
    scanned = assert_as_xarray(path)
    assert references(scanned).form == AFFINE
    with observe() as reads:
        np.testing.assert_array_equal(np.asarray(virtual(scanned)[2, 100:102]), values[2, 100:102])
    assert reads.nbytes <= 1 << 19


def test_more_than_four_gigabytes(tmp_path):
    path = tmp_path / "x.h5"
    size = (5 << 30) + 1
    with h5py.File(path, "w") as file:
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        dcpl.set_fill_time(h5d.FILL_TIME_NEVER)
        space = h5s.create_simple((size,))
        dataset = h5py.Dataset(h5d.create(file.id, b"x", h5t.STD_U8LE, space, dcpl))
        dataset[-3:] = [1, 2, 3]
    scanned = scan(str(path))
    assert int(references(scanned).lengths[0]) == size
    np.testing.assert_array_equal(np.asarray(virtual(scanned)[-4:]), [0, 1, 2, 3])


def userblocked(path):
    with h5py.File(path, "w", userblock_size=2048) as file:
        file["x"] = np.arange(100)
        file.create_dataset("chunked", data=np.arange(50), chunks=(7,))
        file.create_dataset("packed", data=np.arange(50), chunks=(7,), compression="gzip")
        file.create_dataset("nothing", (50,), "i4", fillvalue=3)
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_layout(h5d.COMPACT)
        compact = h5d.create(file.id, b"compact", h5t.STD_I32LE, h5s.create_simple((4,)), dcpl)
        h5py.Dataset(compact)[...] = [1, 2, 3, 4]


def test_a_user_block_is_counted(tmp_path):
    userblocked(tmp_path / "x.h5")
    with open(tmp_path / "x.h5", "r+b") as file:
        file.write(b"something of the user's")
    assert_as_xarray(tmp_path / "x.h5")


def test_a_user_block_is_added_where_the_library_does_not(tmp_path, monkeypatch):
    # HDF5 before 2.0 counts chunk addresses from the end of the user block.
    userblocked(tmp_path / "x.h5")
    expected = scan(str(tmp_path / "x.h5"))
    assert addresses_are_absolute() == (True, True) or h5py.version.hdf5_version_tuple < (2,)
    monkeypatch.setattr(opening, "addresses_are_absolute", lambda: (False, False))
    with open(tmp_path / "x.h5", "ab") as file:
        file.write(bytes(4096))
    shifted = scan(str(tmp_path / "x.h5"))
    for name in ("x", "chunked", "packed"):
        difference = references(shifted, name).offsets.astype(int)
        difference -= references(expected, name).offsets.astype(int)
        assert set(difference.tolist()) == {2048}


# -- external raw files --------------------------------------------------------------------------


def external(path, files, dtype="<i4", shape=(6, 5), fill=None):
    """A dataset in external files of (name, offset, size); their bytes are its values."""
    values = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    data = values.tobytes()
    for name, offset, size in files:
        part, data = (data, b"") if size == h5f.UNLIMITED else (data[:size], data[size:])
        name = os.path.join(path.parent, name)
        with open(name, "r+b" if os.path.exists(name) else "w+b") as file:
            file.seek(offset)
            file.write(part)
    with h5py.File(path, "w") as file:
        dcpl = h5p.create(h5p.DATASET_CREATE)
        for name, offset, size in files:
            dcpl.set_external(os.fsencode(name), offset, size)
        if fill is not None:
            dcpl.set_fill_value(np.array(fill, dtype))
        h5d.create(file.id, b"x", h5t.py_create(values.dtype), h5s.create_simple(shape), dcpl)
    return values


ROW = 5 * 4


@pytest.mark.parametrize(
    "files",
    [
        [("a.raw", 0, h5f.UNLIMITED)],
        [("a.raw", 100, 6 * ROW)],
        [("a.raw", 3, 2 * ROW), ("b.raw", 0, 4 * ROW)],
        [("a.raw", 0, ROW), ("b.raw", 7, ROW), ("a.raw", 200, h5f.UNLIMITED)],
        [("a.raw", 0, 2 * ROW), ("a.raw", 2 * ROW, 4 * ROW)],
        [("a.raw", 0, 2 * ROW + 8), ("b.raw", 0, ROW), ("c.raw", 0, h5f.UNLIMITED)],
    ],
)
def test_external_files(tmp_path, files, monkeypatch):
    monkeypatch.chdir(tmp_path)  # HDF5 takes relative names from there
    path = tmp_path / "x.h5"
    values = external(path, files)
    scanned = assert_as_xarray(path)
    data = virtual(scanned)
    assert len(scanned.sources) == 1 + len({name for name, _, _ in files})
    assert next(source.key for source in scanned.sources) == "x.h5"
    np.testing.assert_array_equal(np.asarray(data[1:4, ::-2]), values[1:4, ::-2])


def test_a_relative_name_is_that_of_hdf5(tmp_path, monkeypatch):
    path = tmp_path / "x.h5"
    values = external(path, [("a.raw", 0, h5f.UNLIMITED)])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with h5py.File(path) as file, pytest.raises((OSError, KeyError)):
        file["x"][...]
    with pytest.raises(SourceMissing, match=r"a\.raw"):
        np.asarray(virtual(scan(str(path))))
    monkeypatch.setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}")
    np.testing.assert_array_equal(np.asarray(virtual(scan(str(path)))), values)


def test_an_external_file_that_is_too_short_is_an_error(tmp_path, monkeypatch):
    # HDF5 gives zeros, which differs on purpose.
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.h5"
    external(path, [("a.raw", 0, h5f.UNLIMITED)])
    os.truncate(tmp_path / "a.raw", 4 * ROW)
    data = virtual(scan(str(path)))
    with pytest.raises(ShortRead, match=r"a\.raw"):
        np.asarray(data)
    with h5py.File(path) as file:
        assert (file["x"][4:] == 0).all()


def test_external_files_that_are_too_few_are_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.h5"
    values = np.arange(30, dtype="<i4")
    (tmp_path / "a.raw").write_bytes(values.tobytes())
    with h5py.File(path, "w") as file:
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_external(b"a.raw", 0, 120)
        space = h5s.create_simple((30,), (30,))
        h5d.create(file.id, b"x", h5t.STD_I32LE, space, dcpl)
    np.testing.assert_array_equal(np.asarray(virtual(scan(str(path)))), values)
