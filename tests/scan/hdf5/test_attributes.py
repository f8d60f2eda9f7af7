"""Attributes, with their types, as xarray's store gives them."""

from __future__ import annotations

import h5netcdf
import h5py
import netCDF4
import numpy as np
import pytest
from h5py import h5a, h5s, h5t

from intarsia.errors import UnsupportedError
from intarsia.scan.hdf5 import scan
from tests.scan.store import assert_as_xarray

VALUES = {
    "text": "a text, ä",
    "no_text": "",
    "texts": ["a", "bb", ""],
    "one_text": ["a"],
    "bytes": np.bytes_(b"some bytes"),
    "byte": np.bytes_(b"x"),
    "fixed": np.array([b"ab", b"c"], "S4"),
    "fixed_one": np.array([b"abc"], "S4"),
    "characters": np.array([b"a", b"b"], "S1"),
    "one_character": np.array([b"a"], "S1"),
    "texts_2d": np.array([["a", "b"], ["c", "d"]], h5py.string_dtype()),
    "fixed_2d": np.array([[b"aa", b"b"], [b"c", b"d"]], "S2"),
    "utf8_fixed": np.array("é".encode(), h5py.string_dtype("utf-8", 5)),
    "i2": np.int16(3),
    "i2_one": np.array([3], "i2"),
    "i2_big": np.array([3, 4], ">i2"),
    "i2_big_one": np.array([3], ">i2"),
    "f4": np.float32(0.1),
    "f8": 0.1,
    "f8_many": np.linspace(0, 1, 5),
    "f8_2d": np.ones((2, 3)),
    "f8_1x3": np.ones((1, 3)),
    "bool": True,
    "bools": np.array([True, False]),
    "complex": 1 + 2j,
    "empty_f4": h5py.Empty("f4"),
    "empty_s1": h5py.Empty("S1"),
    "empty_s5": h5py.Empty("S5"),
    "empty_text": h5py.Empty(h5py.string_dtype()),
    "none": np.array([], "i4"),
    "enum": np.array([1, 0], h5py.enum_dtype({"a": 0, "b": 1})),
    "enum_one": np.array([1], h5py.enum_dtype({"a": 0, "b": 1})),
    "compound": np.array((1, 2.5), [("i", "i4"), ("f", "f8")]),
    "compounds": np.array([(1, 2.5), (2, 3.5)], [("i", "i4"), ("f", "f8")]),
    "opaque": np.void(b"\x01\x02"),
    "_FillValue": np.array([-9], "i2"),
    "missing_value": np.bytes_(b"--"),
    "broken_text": np.bytes_(b"caf\xe9"),
    "ascii_text": np.array("plain", h5py.string_dtype("ascii")),
}


@pytest.mark.parametrize("track_order", [False, True])
def test_attributes_have_the_values_and_types_that_xarray_gives(tmp_path, track_order):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", track_order=track_order) as file:
        dataset = file.create_dataset("x", data=np.arange(3), track_order=track_order)
        for name, value in VALUES.items():
            dataset.attrs[name] = value
            file.attrs[name] = value
        dataset.attrs.create("arrays", np.ones((2, 3)), (2, 3), np.dtype(("f8", (3,))))
        dataset.attrs.create(
            "vlen", np.array([np.arange(3), np.arange(2)], object), (2,), h5py.vlen_dtype("i4")
        )
        dataset.attrs["_Netcdf4Dimid"] = np.int32(0)
        file.attrs["_NCProperties"] = "version=2"
        file.attrs["_nc3_strict"] = np.int32(1)
    scanned = assert_as_xarray(path)
    assert scanned.attrs.keys() == VALUES.keys()


def test_netcdf_writers(tmp_path):
    values = {k: v for k, v in VALUES.items() if k in ("text", "no_text", "i2", "f4", "f8_many")}
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.setncatts(values)
        file.setncattr_string("string", "as NC_STRING")
        file.setncattr("strings", ["a", "b"])
        file.createVariable("x", "f4", (), fill_value=1.5).setncatts(values)
    with h5netcdf.File(tmp_path / "b.nc", "w") as file:
        for name, value in values.items():
            file.attrs[name] = value
        file.create_variable("x", (), "f4").attrs.update(values)
    assert_as_xarray(tmp_path / "a.nc")
    assert_as_xarray(tmp_path / "b.nc")


def test_text_that_is_not_utf8_stays_bytes_with_a_warning(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = 1
        file["x"].attrs["a"] = np.bytes_(b"\xe9")
    with pytest.warns(UnicodeWarning, match="'a' of 'x'"):
        scanned = assert_as_xarray(path)
    assert scanned.variables["x"].attrs["a"] == b"\xe9"


def test_references_become_paths(tmp_path):
    path = tmp_path / "x.h5"
    kind = np.dtype([("r", h5py.ref_dtype), ("n", "i4")])
    with h5py.File(path, "w") as file:
        file["g/x"] = 1
        file.attrs["scalar"] = file["g/x"].ref
        file.attrs.create("one", [file["g"].ref], dtype=h5py.ref_dtype)
        file.attrs.create("two", [file["g"].ref, file["g/x"].ref], dtype=h5py.ref_dtype)
        file.attrs.create("null", [h5py.Reference()], dtype=h5py.ref_dtype)
        file.attrs.create("compound", np.array([(file["g"].ref, 3)], kind), dtype=kind)
    attrs = scan(str(path)).attrs
    assert attrs["scalar"] == "/g/x"
    assert attrs["one"] == "/g"
    assert list(attrs["two"]) == ["/g", "/g/x"]
    assert attrs["null"] == ""
    assert tuple(attrs["compound"]) == ("/g", 3)


def test_an_attribute_that_h5py_can_not_read_is_named(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = 1
        h5a.create(file["x"].id, b"when", h5t.UNIX_D32LE, h5s.create(h5s.SCALAR))
    with pytest.raises(UnsupportedError, match="'when' has a type that h5py can't read") as caught:
        scan(str(path))
    assert caught.value.array == "x"
    assert caught.value.url == str(path)
