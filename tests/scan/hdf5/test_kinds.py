"""Kinds of values, as xarray gives them: text, characters, enums, compounds, references, others."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import h5netcdf
import h5py
import netCDF4
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

import intarsia
from intarsia import progress
from intarsia.errors import IntarsiaError
from intarsia.scan.hdf5 import loaders
from tests import oracle
from tests.check import open_both
from tests.compare import assert_identical
from tests.scan.store import assert_as_xarray, opaque

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunks": {"chunks": True},
    "deflated": {"chunks": True, "compression": "gzip", "shuffle": True},
}
PHONY = {"phony_dims": "access"}


def fixed(length: int, padding: int, charset: int) -> Any:
    """A string type of fixed length."""
    kind = h5t.C_S1.copy()
    kind.set_size(length)
    kind.set_strpad(padding)
    kind.set_cset(charset)
    return kind


RAW = [b"abcd", b"ab", b"a\0b", b"ab  ", b"    ", b"", b"\0\0\0c", b" \0 \0"]
WIDE = [text.encode() for text in ("äö", "ñ", "é\0", "€ ", "", "日", "a", " ")]

STRINGS = {
    f"{pad} {charset}": (fixed(4, getattr(h5t, f"STR_{pad}"), getattr(h5t, f"CSET_{charset}")), raw)
    for pad in ("NULLTERM", "NULLPAD", "SPACEPAD")
    for charset, raw in (("ASCII", RAW), ("UTF8", WIDE))
}


@pytest.mark.parametrize("kind", STRINGS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(8,), (2, 4), ()])
def test_fixed_strings(tmp_path, kind, layout, shape):
    datatype, raw = STRINGS[kind]
    path = tmp_path / "x.h5"
    values = np.array(raw, "S4")
    values = values[:1].reshape(()) if shape == () else values.reshape(shape)
    dcpl = h5p.create(h5p.DATASET_CREATE)
    if layout != "contiguous" and shape:
        dcpl.set_chunk(tuple(-(-n // 2) for n in shape))
        if layout == "deflated":
            dcpl.set_shuffle()
            dcpl.set_deflate(4)
    with h5py.File(path, "w") as file:
        space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        made = h5d.create(file.id, b"x", datatype, space, dcpl)
        made.write(h5s.ALL, h5s.ALL, values, mtype=datatype)
    check(path)


def check(path: Any, **arguments: Any) -> Any:
    """As xarray, or where xarray fails, refused by name."""
    try:
        expected = oracle.open_dataset(path, **PHONY, **arguments)
    except Exception as error:  # noqa: BLE001 - whatever xarray makes of it
        assert not isinstance(error, AssertionError | MemoryError)
        with pytest.raises((IntarsiaError, ValueError)):
            intarsia.open_dataset(path, unsupported="copy", **PHONY, **arguments).load()
        return None
    actual, expected = open_both(path, unsupported="copy", **PHONY, **arguments)
    assert_identical(actual.compute(), expected)
    return actual


def text(file: h5py.File, **options: Any) -> None:
    values = ["one", "", "äöü", "日本", "a" * 300, " padded "]
    file.create_dataset("x", data=values, dtype=h5py.string_dtype(), **options)
    file.create_dataset("z", (4,), h5py.string_dtype(), **options)  # never written


def text_of_ascii(file: h5py.File, **options: Any) -> None:
    file.create_dataset("x", data=["one", "", "two"], dtype=h5py.string_dtype("ascii"), **options)


def text_with_fill(file: h5py.File, **options: Any) -> None:
    made = file.create_dataset("x", (5,), h5py.string_dtype(), fillvalue=b"none", **options)
    made[1] = "some"


def text_in_planes(file: h5py.File, **options: Any) -> None:
    values = np.array([[f"{i}-{j}" * j for j in range(5)] for i in range(4)], object)
    file.create_dataset("x", data=values, dtype=h5py.string_dtype(), **options)


def broken_text(file: h5py.File, **options: Any) -> None:
    file.create_dataset("x", data=[b"\xff\xfe", b"ok"], dtype=h5py.string_dtype(), **options)


def bools(file: h5py.File, **options: Any) -> None:
    file.create_dataset("x", data=np.arange(12).reshape(3, 4) % 3 == 0, **options)


def complexes(file: h5py.File, **options: Any) -> None:
    values = np.array([1 + 2j, np.nan - 0j, -0.0 + 1e30j])
    file.create_dataset("x", data=values, **options)
    file.create_dataset("y", data=values.astype(">c8"), **options)


def compounds(file: h5py.File, **options: Any) -> None:
    kind = np.dtype([("a", "<i4"), ("b", ">f8"), ("s", "S3"), ("n", [("p", "u1"), ("q", "<f4")])])
    file.create_dataset("x", data=np.zeros(3, kind), **options)
    file["x"][1] = (5, 2.5, b"xy", (7, 0.5))


def compounds_with_text(file: h5py.File, **options: Any) -> None:
    kind = np.dtype([("name", h5py.string_dtype()), ("n", "<i4")])
    made = file.create_dataset("x", (2,), kind, **options)
    made[0] = ("one", 1)


def opaques(file: h5py.File, **options: Any) -> None:
    file.create_dataset("x", data=np.array([b"abcd", b"e\0f\0"], "V4"), **options)


def tagged(file: h5py.File, **options: Any) -> None:
    dates = np.array(["2020-01-01", "2021-02-03"], "datetime64[s]")
    values = dates.astype(h5py.opaque_dtype(dates.dtype))
    file.create_dataset("x", data=values, **options)


def ragged(file: h5py.File, **options: Any) -> None:
    made = file.create_dataset("x", (3,), h5py.vlen_dtype("<f4"), **options)
    for n in range(3):
        made[n] = np.arange(n, dtype="f4")


def ragged_text(file: h5py.File, **options: Any) -> None:
    made = file.create_dataset("x", (2,), h5py.vlen_dtype(h5py.string_dtype()), **options)
    made[0] = np.array(["a", "bc"], object)


def enums(file: h5py.File, **options: Any) -> None:
    kind = h5py.enum_dtype({"none": 0, "some": 3, "all": -1}, ">i2")
    file.create_dataset("x", data=np.array([0, 3, -1, 7]), dtype=kind, **options)


def times(file: h5py.File, **options: Any) -> None:
    dcpl = h5p.create(h5p.DATASET_CREATE)
    h5d.create(file.id, b"x", h5t.UNIX_D32LE, h5s.create_simple((3,)), dcpl)


def halves(file: h5py.File, **options: Any) -> None:
    file.create_dataset("x", data=np.array([1.5, np.nan, -0.0, 65504], ">f2"), **options)


def arrays(file: h5py.File, **options: Any) -> None:
    file.create_dataset("x", (2,), np.dtype(("<i4", (3,))), **options)


KINDS: list[Callable[..., None]] = [
    text,
    text_of_ascii,
    text_with_fill,
    text_in_planes,
    broken_text,
    bools,
    complexes,
    compounds,
    compounds_with_text,
    opaques,
    tagged,
    ragged,
    ragged_text,
    enums,
    times,
    halves,
    arrays,
]


@pytest.mark.parametrize("make", KINDS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kinds(tmp_path, make, layout):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make(file, **LAYOUTS[layout])
    check(path)


@pytest.mark.parametrize(
    "make", [text_in_planes, enums, bools, complexes], ids=lambda f: f.__name__
)
def test_kinds_with_attributes_that_decode(tmp_path, make):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make(file)
        file["x"].attrs["units"] = "days since 2000-01-01"
        file["x"].attrs["missing_value"] = file["x"][0] if make is enums else "none"
    check(path, decode_times=False, mask_and_scale=make is not enums)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_references(tmp_path, layout):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(4)
        file.create_dataset("x", (3,), h5py.ref_dtype, **LAYOUTS[layout])[1] = file["good"].ref
        file.create_dataset("y", (2,), h5py.regionref_dtype)[0] = file["good"].regionref[1:3]
    assert_as_xarray(path, values=False)
    ds = intarsia.open_dataset(path, drop_variables=["x", "y"], **PHONY)
    assert ds.good.values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("encoding", [None, "utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("unlimited", [False, True])
def test_characters(tmp_path, encoding, unlimited):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.set_auto_chartostring(False)
        file.createDimension("n", None if unlimited else 3)
        file.createDimension("m", 2)
        file.createDimension("len", 4)
        values = np.array([b"abcd", b"a", b"a\0c"], "S4").view("S1").reshape(3, 4)
        made = file.createVariable("x", "S1", ("n", "len"), zlib=unlimited)
        made[:] = values
        if encoding is not None:
            made.setncattr_string("_Encoding", encoding)
        plane = file.createVariable("plane", "S1", ("n", "m", "len"), fill_value=b"-")
        plane[:, 0] = values  # xarray does not pad characters along a longer dimension
        file.createVariable("single", "S1", ("len",))[:] = values[0]
        file.createVariable("scalar", "S1", ())[...] = b"c"
        file.createVariable("unwritten", "S1", ("m", "len"))
    check(path)
    check(path, concat_characters=False)
    check(path, decode_cf=False)


def test_enums_of_netcdf4(tmp_path):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("n", 4)
        cloud = file.createEnumType("i1", "cloud_t", {"clear": 0, "some": 1, "missing": -1})
        made = file.createVariable("x", cloud, ("n",), fill_value=-1, zlib=True)
        made[:3] = [0, 1, 1]
        inner = file.createGroup("g")
        inner.createVariable("y", cloud, ("n",))[:] = [1, 1, 0, 0]
    check(path)
    check(path, group="g")
    for group, name in (("/", "x"), ("/g", "y")):
        dtype = assert_as_xarray(path, group).variables[name].encoding["dtype"]
        members = {"clear": 0, "some": 1, "missing": -1}
        assert dtype.metadata == {"enum": members, "enum_name": "cloud_t"}


def test_text_of_h5netcdf(tmp_path):
    path = tmp_path / "x.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"n": 3}
        made = file.create_variable("x", ("n",), h5py.string_dtype())
        made[...] = np.array(["a", "bb", ""], object)
        made.attrs["_FillValue"] = ""
    check(path)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("chunks", [None, (7, 3), (64, 64)])
@pytest.mark.parametrize("shape", [(50, 6), (300,), (1, 300), (2, 3, 50)])
def test_large_text_is_read_in_pieces(tmp_path, monkeypatch, chunks, shape):
    path = tmp_path / "x.h5"
    values = np.array([f"text {n}" for n in range(np.prod(shape))], object).reshape(shape)
    if chunks is not None:
        chunks = tuple(map(min, shape, (*chunks, 4)))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, dtype=h5py.string_dtype(), chunks=chunks)
        made = fixed(9, h5t.STR_NULLTERM, h5t.CSET_ASCII)
        dcpl = h5p.create(h5p.DATASET_CREATE)
        if chunks is not None:
            dcpl.set_chunk(chunks)
        cut = h5d.create(file.id, b"y", made, h5s.create_simple(shape), dcpl)
        h5py.Dataset(cut)[...] = values.astype("S9")
    monkeypatch.setattr(loaders, "PIECE", 500)
    stream = Terminal()
    shown = functools.partial(progress.Progress, stream=stream, delay=0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(loaders, "Progress", shown)
    data = opaque(assert_as_xarray(path))
    assert data.loader is not None
    loaded = data.loader()
    assert loaded.shape == shape
    assert (loaded == values).all()
    assert f"of {shape[0]} rows" in stream.getvalue()
