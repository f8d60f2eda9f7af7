"""Datatypes: plain bytes are virtual, numbers that the library converts too, the rest is opaque."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

from intarsia.errors import SourceChanged
from intarsia.scan.hdf5 import scan
from intarsia.scan.hdf5.loaders import DatasetLoader, VariableLoader
from tests.scan.store import assert_as_xarray, opaque, virtual


def low(
    file: h5py.File, datatype: Any, values: Any, *, chunk: bool = False, deflate: bool = False
) -> None:
    """Write `values` as a dataset of a low-level datatype."""
    values = np.asarray(values)
    dcpl = h5p.create(h5p.DATASET_CREATE)
    if chunk:
        dcpl.set_chunk(values.shape)
    if deflate:
        dcpl.set_shuffle()
        dcpl.set_deflate(4)
    space = h5s.create_simple(values.shape)
    h5py.Dataset(h5d.create(file.id, b"x", datatype, space, dcpl))[...] = values


@pytest.mark.parametrize(
    "dtype",
    ["i1", "u1", "<i2", ">i2", "<u4", ">u8", "<f2", ">f2", "<f4", ">f8", "<c8", ">c16", "?", "S4"],
)
@pytest.mark.parametrize("options", [{}, {"chunks": (2, 4)}, {"chunks": (5, 7), "shuffle": True}])
def test_plain_bytes_are_virtual(tmp_path, dtype, options):
    path = tmp_path / "x.h5"
    values = np.arange(35).reshape(5, 7).astype(dtype)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, **options)
    data = virtual(assert_as_xarray(path))
    np.testing.assert_array_equal(np.asarray(data), values)


@pytest.mark.parametrize("padding", ["NULLTERM", "NULLPAD", "SPACEPAD"])
@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("charset", ["ASCII", "UTF8"])
def test_fixed_strings(tmp_path, padding, length, charset):
    path = tmp_path / "x.h5"
    datatype = h5t.C_S1.copy()
    datatype.set_size(length)
    datatype.set_strpad(getattr(h5t, f"STR_{padding}"))
    datatype.set_cset(getattr(h5t, f"CSET_{charset}"))
    with h5py.File(path, "w") as file:
        space = h5s.create_simple((4,))
        dataset = h5d.create(file.id, b"x", datatype, space)
        raw = np.array([b"ab ", b"a\0b", b"   ", b"\0\0\0"], "S3").astype(f"S{length}")
        dataset.write(h5s.ALL, h5s.ALL, raw, mtype=datatype)
    scanned = assert_as_xarray(path)
    exact = padding == "NULLPAD" or (padding == "NULLTERM" and length == 1)
    (virtual if exact else opaque)(scanned)


@pytest.mark.parametrize("padding", ["NULLTERM", "NULLPAD", "SPACEPAD"])
@pytest.mark.parametrize("charset", ["ASCII", "UTF8"])
def test_fill_values_of_fixed_strings(tmp_path, padding, charset):
    """A file with one of UTF-8 was called broken."""
    path = tmp_path / "x.h5"
    datatype = h5t.C_S1.copy()
    datatype.set_size(4)
    datatype.set_strpad(getattr(h5t, f"STR_{padding}"))
    datatype.set_cset(getattr(h5t, f"CSET_{charset}"))
    fill = np.array(b"z" if charset == "ASCII" else "é".encode(), h5py.string_dtype("utf-8", 4))
    if charset == "ASCII":
        fill = fill.astype("S4")
    dcpl = h5p.create(h5p.DATASET_CREATE)
    dcpl.set_chunk((2,))
    dcpl.set_fill_value(fill)
    with h5py.File(path, "w") as file:
        space = h5s.create_simple((6,))
        dataset = h5py.Dataset(h5d.create(file.id, b"x", datatype, space, dcpl))
        dataset[:2] = np.array([b"ab", b"c"], fill.dtype)
    assert_as_xarray(path)


def odd(name: str) -> Any:
    datatype = getattr(h5t, name).copy()
    datatype.set_precision(12)
    datatype.set_offset(4)
    return datatype


def bfloat16() -> Any:
    datatype = h5t.IEEE_F32LE.copy()
    datatype.set_fields(15, 7, 8, 0, 7)
    datatype.set_size(2)
    datatype.set_ebias(127)
    return datatype


@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("chunk", [False, True])
@pytest.mark.parametrize(
    "make", [lambda: odd("STD_I32LE"), lambda: odd("STD_U16BE"), bfloat16], ids=["i", "u", "f"]
)
def test_numbers_that_the_library_converts(tmp_path, make, chunk, deflate):
    if deflate and not chunk:
        pytest.skip("filters need chunks")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        low(file, make(), np.arange(60).reshape(6, 10), chunk=chunk, deflate=deflate)
    scanned = assert_as_xarray(path)
    if chunk:
        (codec,) = virtual(scanned).segments.cases[0].encoding.filters
        assert codec.name == "hdf5"
    else:
        assert "precision" in opaque(scanned).reason


def vlen_numbers(file: h5py.File) -> None:
    dataset = file.create_dataset("x", (3,), h5py.vlen_dtype("i4"))
    for i in range(3):
        dataset[i] = np.arange(i + 1)


def compound(file: h5py.File) -> None:
    file["x"] = np.array([(1, 2.5, b"a")], dtype=[("i", "<i4"), ("f", ">f8"), ("s", "S3")])


def bitfield(file: h5py.File) -> None:
    h5d.create(file.id, b"x", h5t.STD_B16LE, h5s.create_simple((4,)))


def opaque_bytes(file: h5py.File) -> None:
    file["x"] = np.array([b"ab", b"c"], "V2")


def array_type(file: h5py.File) -> None:
    file.create_dataset("x", (2,), np.dtype(("<i4", (3,))))[...] = np.arange(6).reshape(2, 3)


def text(file: h5py.File) -> None:
    file.create_dataset("x", data=["a", "", "äöü"], dtype=h5py.string_dtype())


def text_ascii(file: h5py.File) -> None:
    file.create_dataset("x", data=["a", "b"], dtype=h5py.string_dtype("ascii"), chunks=(1,))


def text_scalar(file: h5py.File) -> None:
    file["x"] = "one"


def long_double(file: h5py.File) -> None:
    file["x"] = np.arange(3, dtype=np.longdouble)


def wide_bool(file: h5py.File) -> None:
    kind = h5t.enum_create(h5t.STD_I16LE)
    kind.enum_insert(b"FALSE", 0)
    kind.enum_insert(b"TRUE", 1)
    h5d.create(file.id, b"x", kind, h5s.create_simple((3,)))


def region_reference(file: h5py.File) -> None:
    file["y"] = np.arange(4)
    file.create_dataset("x", (1,), h5py.regionref_dtype)[0] = file["y"].regionref[1:3]


def native_complex(file: h5py.File) -> None:
    values = np.array([1 + 2j, 3 - 4j])
    low(file, h5t.COMPLEX_IEEE_F64LE, values)


def scalar(file: h5py.File) -> None:
    file["x"] = np.int32(7)


def empty(file: h5py.File) -> None:
    file.create_dataset("x", (0, 3), "f4")


def empty_chunked(file: h5py.File) -> None:
    file.create_dataset("x", (3, 0), "f4", chunks=(2, 2), maxshape=(None, None))


@pytest.mark.parametrize(
    "make",
    [
        vlen_numbers,
        compound,
        bitfield,
        opaque_bytes,
        text,
        text_ascii,
        text_scalar,
        long_double,
        wide_bool,
        native_complex,
        scalar,
        empty,
        empty_chunked,
    ],
    ids=lambda f: f.__name__,
)
def test_other_types_are_as_xarray_gives_them(tmp_path, make: Callable[[h5py.File], None]):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make(file)
    assert_as_xarray(path)


def test_a_null_dataspace_is_opaque_and_unreadable(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = h5py.Empty("f4")
        file["y"] = np.arange(3)
    scanned = scan(str(path))
    assert opaque(scanned).loader is None
    assert "null" in opaque(scanned).reason
    virtual(scanned, "y")


def test_an_array_type_is_beyond_xarray_too(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        array_type(file)
    assert opaque(scan(str(path))).loader is None


@pytest.mark.parametrize("datatype", ["UNIX_D32LE", "three"])
def test_a_type_that_numpy_lacks_concerns_its_variable_alone(tmp_path, datatype):
    path = tmp_path / "x.h5"
    kind = h5t.STD_I32LE.copy()
    if datatype == "three":
        kind.set_size(3)
    else:
        kind = getattr(h5t, datatype)
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"x", kind, h5s.create_simple((3,)))
        file["y"] = np.arange(3)
    scanned = scan(str(path))  # xarray can't open the file
    assert opaque(scanned).loader is None
    assert opaque(scanned).dtype.kind == "V"
    virtual(scanned, "y")


def test_types_of_netcdf4(tmp_path):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("n", 3)
        clouds = file.createEnumType("u1", "cloud_t", {"none": 0, "some": 1, "missing": 255})
        file.createVariable("enum", clouds, ("n",), fill_value=255)[:] = [0, 1, 255]
        pair = file.createCompoundType(np.dtype([("a", "i4"), ("s", "S1", (4,))]), "pair_t")
        file.createVariable("compound", pair, ("n",))
        file.createVariable("text", str, ("n",))[:] = np.array(["x", "yy", ""], object)
        ragged = file.createVLType(np.int32, "ragged_t")
        file.createVariable("ragged", ragged, ("n",))[0] = np.arange(3, dtype="i4")
        file.createVariable("char", "S1", ("n",))[:] = np.array(list("abc"), "S1")
        file.createVariable("scalar", "f8", ())[...] = 2.5
        file.createVariable("unwritten", "f4", ("n",))
        group = file.createGroup("inner")
        group.createVariable("enum", clouds, ("n",))[:] = [1, 1, 0]
    scanned = assert_as_xarray(path)
    assert virtual(scanned, "enum").dtype == np.uint8
    assert scanned.variables["enum"].encoding["dtype"].metadata["enum_name"] == "cloud_t"
    assert scanned.variables["text"].encoding == {"dtype": str}
    for name in ("char", "scalar", "unwritten"):
        virtual(scanned, name)
    inner = assert_as_xarray(path, "/inner")
    assert inner.variables["enum"].encoding["dtype"].metadata["enum_name"] == "cloud_t"


@pytest.mark.parametrize("make", [text, compound], ids=lambda f: f.__name__)
def test_a_loader_refuses_another_file(tmp_path, make):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make(file)
    loader = opaque(scan(str(path))).loader
    assert isinstance(loader, DatasetLoader | VariableLoader)
    loader()
    with h5py.File(path, "w") as file:
        make(file)
        file["more"] = 1
    with pytest.raises(SourceChanged, match="not the one that was scanned"):
        loader()
