"""Attributes and encodings as JSON: what is read back is what was written, in type and bits."""

from __future__ import annotations

import datetime as dt
import enum
import json
import struct
from collections import OrderedDict
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intarsia.errors import UnsupportedError
from intarsia.store.attributes import (
    MAX_DEPTH,
    from_json,
    mapping_from_json,
    mapping_to_json,
    plain_attributes,
    plain_json,
    to_json,
)
from tests.compare import value_differences

PACKED = np.dtype([("x", "<i4"), ("y", ">f4"), ("s", "S3")])
ALIGNED = np.dtype([("a", "i1"), ("b", "f8"), ("c", "<M8[s]", (2,))], align=True)
SIGNALLING = struct.unpack("<d", bytes.fromhex("0100000000000cf4"))[0]


def objects(*items: Any) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "text": 'K "and" \\ \n ümläut 😀 \0',
    "empty text": "",
    "not unicode": "a\udcffb",
    "int": -(2**53),
    "huge int": 2**64,
    "negative": -(10**40),
    "float": 0.1,
    "nan": float("nan"),
    "odd nan": SIGNALLING,
    "inf": float("-inf"),
    "zero": -0.0,
    "bytes": b"a\0\xff\0",
    "list": ["a", 1, 2.5, None, [True]],
    "empty list": [],
    "tuple": (1, (2, "x")),
    "set": {"time", "lat"},
    "frozenset": frozenset([1.5]),
    "dict": {"b": 1, "a": {"c": (np.int8(3),)}, "type": "float"},
    "bool_": np.bool_(True),
    "int8": np.int8(-3),
    "uint64": np.uint64(2**64 - 1),
    "float16": np.float16(0.1),
    "float32": np.float32("nan"),
    "float32 zero": np.float32(-0.0),
    "float64": np.float64(0.1),
    "longdouble": np.longdouble("0.1"),
    "complex64": np.complex64(complex("nan-0j")),
    "str_": np.str_("ü\0"),
    "empty str_": np.str_(""),
    "bytes_": np.bytes_(b"a\0\0"),
    "empty bytes_": np.bytes_(b""),
    "datetime64": np.datetime64("2001-01-01T00", "h"),
    "not a time": np.datetime64("NaT", "D"),
    "timedelta64": np.timedelta64(25, "ps"),
    "void": np.void(b"abc"),
    "compound": np.array([(1, 2.5, b"x")], PACKED)[0],
    "array": np.array([[1, 2], [3, -4]], "<i2"),
    "big-endian": np.array([1.5, -0.0, np.nan], ">f4"),
    "no dimension": np.array(3, ">u8"),
    "empty": np.zeros((0, 3), "f8"),
    "booleans": np.array([True, False]),
    "complex": np.array([1j, complex("inf")]),
    "transposed": np.arange(6, dtype="i4").reshape(2, 3).T,
    "texts": np.array(["a", "längere", ""]),
    "big-endian texts": np.array(["ab"], ">U4"),
    "byte strings": np.array([b"a", b"\xff\0b"]),
    "times": np.array(["2001-01-01", "NaT"], "M8[ns]"),
    "odd times": np.array([1, 2], "M8[25s]"),
    "compounds": np.array([(1, 2.5, b"x"), (2, -0.0, b"")], PACKED),
    "aligned": np.zeros(2, ALIGNED),
    "voids": np.array([b"abc"], "V3"),
    "objects": objects("a", None, 1, np.float32(2)),
    "ragged": objects(np.arange(3, dtype="i2"), np.zeros(0), np.array(["x"])),
    "objects of two": np.array([["a", "b"], ["c", 1]], object),
    "no objects": np.array([], h5py.string_dtype()),
    "dtype": np.dtype(">i2"),
    "string dtype": h5py.string_dtype(),
    "ascii dtype": h5py.string_dtype("ascii"),
    "fixed dtype": h5py.string_dtype("utf-8", 5),
    "ragged dtype": h5py.vlen_dtype(np.dtype(">i4")),
    "enum dtype": np.dtype("u1", metadata={"enum": {"a": 1, "b": 0}, "enum_name": "e"}),
    "compound dtype": ALIGNED,
    "class": str,
    "numpy class": np.float32,
    "chunks": (1, None, 3),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_comes_back(value: Any) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert text.isascii()
    found = from_json(json.loads(text))
    assert same(found, value), found


def same(a: Any, b: Any) -> bool:
    """The same type and bits, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(b, np.dtype):
        return a == b and a.metadata == b.metadata
    if isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape or a.dtype.metadata != b.dtype.metadata:
            return False
        if b.dtype.kind == "O":
            return all(same(x, y) for x, y in zip(a.ravel(), b.ravel(), strict=True))
        return a.tobytes() == b.tobytes() and a.flags.writeable
    if isinstance(b, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(b, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in b)
    return bool(a == b)


class Flag(enum.StrEnum):
    A = "a"


class Name(str):
    __slots__ = ()


REFUSED: dict[str, tuple[Any, str]] = {
    "object": (object(), "builtins.object"),
    "datetime": (dt.datetime(2001, 1, 1), "datetime.datetime"),
    "timestamp": (pd.Timestamp("2001-01-01"), "Timestamp"),
    "str subclass": (Name("a"), "Name"),
    "enum": (Flag.A, "Flag"),
    "ordered": (OrderedDict(a=1), "OrderedDict"),
    "masked": (np.ma.masked_array([1], [True]), "MaskedArray"),
    "new strings": (np.array(["a"], np.dtypes.StringDType()), "StringDType"),
    "compound of objects": (np.array([(1, "a")], [("x", "i4"), ("y", "O")]), "array of"),
    "in a list": ([1, {2: 3}], "keys"),
    "function": (len, "builtin_function"),
    "class": (dict, "type"),
    "too long": (10**1000, "1000 digits"),
}


@pytest.mark.parametrize(("value", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_by_name(value: Any, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as error:
        mapping_to_json({"units": "K", "odd": value})
    assert "the attribute 'odd'" in str(error.value)
    assert "delete it" in str(error.value)


def test_names_are_text() -> None:
    with pytest.raises(UnsupportedError, match="'chunks' can't be kept"):
        mapping_to_json({"chunks": len}, "encoding entry")
    with pytest.raises(UnsupportedError, match="of type int"):
        mapping_to_json({1: "a"})
    with pytest.raises(UnsupportedError, match="not valid Unicode"):
        mapping_to_json({"a\udcff": "a"})
    assert mapping_from_json(mapping_to_json({"b": 1, "a": (2,)})) == {"b": 1, "a": (2,)}


def test_nested_too_deep() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert from_json(to_json(value)) == value
    with pytest.raises(UnsupportedError, match="deep"):
        to_json([value])
    with pytest.raises(ValueError, match="deep"):
        from_json([to_json(value)])


WRONG: dict[str, Any] = {
    "float": 0.5,
    "number": 2**53 + 1,
    "no type": {"hex": "00"},
    "type": {"type": "code", "hex": "00"},
    "type of type": {"type": ["float"], "hex": "00"},
    "more": {"type": "float", "hex": "00" * 8, "name": "x"},
    "less": {"type": "array", "dtype": "<i2", "hex": ""},
    "short float": {"type": "float", "hex": "00"},
    "bits": {"type": "bytes", "hex": "0g"},
    "bits of number": {"type": "bytes", "hex": 5},
    "text": {"type": "text", "hex": "ff"},
    "digits": {"type": "int", "digits": "٣"},
    "long digits": {"type": "int", "digits": "1" * 5000},
    "no digits": {"type": "int", "digits": "-"},
    "dtype": {"type": "dtype", "dtype": "i4,f8"},
    "dtype number": {"type": "dtype", "dtype": 4},
    "large": {"type": "dtype", "dtype": "|V999999999"},
    "float size": {"type": "dtype", "dtype": "<f3"},
    "time": {"type": "dtype", "dtype": "<M8[parsec]"},
    "zero time": {"type": "dtype", "dtype": "<M8[0s]"},
    "class": {"type": "class", "name": "eval"},
    "class list": {"type": "class", "name": ["str"]},
    "scalar": {"type": "scalar", "dtype": "<i4", "hex": "00"},
    "object scalar": {"type": "scalar", "dtype": "|O", "hex": "00" * 8},
    "object bits": {"type": "array", "dtype": "|O", "shape": [1], "hex": "00" * 8},
    "shape": {"type": "array", "dtype": "<i2", "shape": [3], "hex": "0000"},
    "negative": {"type": "array", "dtype": "<i2", "shape": [-1], "hex": "0000"},
    "shape of text": {"type": "array", "dtype": "<i2", "shape": "1", "hex": "0000"},
    "dimensions": {"type": "array", "dtype": "<i2", "shape": [1] * 40, "hex": "0000"},
    "huge": {"type": "array", "dtype": "|O", "shape": [2**32, 2**32, 2**32], "items": []},
    "nothing": {"type": "array", "dtype": "|S0", "shape": [2**30], "hex": ""},
    "half nothing": {"type": "array", "dtype": "<i2", "shape": [0, 2**32, 2**32], "hex": ""},
    "boolean": {"type": "array", "dtype": "|b1", "shape": [1], "hex": "02"},
    "boolean scalar": {"type": "scalar", "dtype": "|b1", "hex": "02"},
    "no unicode": {"type": "array", "dtype": "<U1", "shape": [1], "hex": "ffffff7f"},
    "no unicode scalar": {"type": "scalar", "dtype": "<U1", "hex": "ffffff7f"},
    "items": {"type": "array", "dtype": "|O", "shape": [2], "items": [1]},
    "items of numbers": {"type": "array", "dtype": "<i2", "shape": [1], "items": [1]},
    "no list": {"type": "tuple", "items": "ab"},
    "no pairs": {"type": "dict", "items": [["a"]]},
    "keys": {"type": "dict", "items": [[1, 2]]},
    "list in set": {"type": "set", "items": [[1]]},
    "compound": {"type": "dtype", "dtype": {"fields": [["x", 0, "|O"]], "itemsize": 8}},
    "outside": {"type": "dtype", "dtype": {"fields": [["x", 4, "<i4"]], "itemsize": 6}},
    "negative offset": {"type": "dtype", "dtype": {"fields": [["x", -4, "<i4"]], "itemsize": 6}},
    "field": {"type": "dtype", "dtype": {"fields": [["x", 0]], "itemsize": 6}},
    "double": {
        "type": "dtype",
        "dtype": {"fields": [["x", 0, "<i4"], ["x", 4, "<i4"]], "itemsize": 8},
    },
    "itemsize": {"type": "dtype", "dtype": {"fields": [], "itemsize": 2**60}},
    "inner shape": {"type": "dtype", "dtype": {"base": "<i4", "shape": [2**20, 2**20]}},
    "base": {"type": "dtype", "dtype": {"shape": [2]}},
    "metadata": {"type": "dtype", "dtype": {"base": "<i4", "code": "x"}},
    "vlen": {"type": "dtype", "dtype": {"base": "|O", "vlen": "eval"}},
    "enum": {"type": "dtype", "dtype": {"base": "|u1", "enum": {"a": "b"}}},
    "enum of floats": {"type": "dtype", "dtype": {"base": "<f4", "enum": {"a": 1}}},
    "enum, too large": {"type": "dtype", "dtype": {"base": "|u1", "enum": {"a": 256}}},
    "enum, bool": {"type": "dtype", "dtype": {"base": "|u1", "enum": {"a": True}}},
    "enum, twice": {"type": "dtype", "dtype": {"base": "|u1", "enum": {"a": 1, "b": 1}}},
    "enum, name": {"type": "dtype", "dtype": {"base": "|u1", "enum": {"a" * 1025: 1}}},
    "enum, its name": {
        "type": "dtype",
        "dtype": {"base": "|u1", "enum": {"a": 1}, "enum_name": "a" * 1025},
    },
    "enum, no Unicode": {"type": "dtype", "dtype": {"base": "|u1", "enum": {"\ud800": 1}}},
    "enum, members": {
        "type": "dtype",
        "dtype": {"base": "<i4", "enum": {str(n): n for n in range(65537)}},
    },
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG.keys())
def test_wrong_json_is_refused_with_a_reason(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w") as error:
        mapping_from_json({"odd": value})
    assert type(error.value) is ValueError
    assert "'odd'" in str(error.value)
    assert len(str(error.value)) < 300
    with pytest.raises(ValueError, match="object"):
        mapping_from_json([value])


def test_deep_types_are_refused() -> None:
    dtype: Any = "<i4"
    for _ in range(2000):
        dtype = {"base": dtype, "shape": [1]}
    with pytest.raises(ValueError, match="deep"):
        from_json({"type": "dtype", "dtype": dtype})


numbers = hnp.arrays(
    hnp.scalar_dtypes() | hnp.byte_string_dtypes() | hnp.datetime64_dtypes(),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=3),
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    scalars | numbers | numbers.filter(lambda a: a.size).map(lambda a: a.ravel()[0]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(values)
def test_random_values_come_back(value: Any) -> None:
    written = to_json(value)
    assert same(from_json(json.loads(json.dumps(written, allow_nan=False))), value)
    json.dumps(plain_json(value), allow_nan=False).encode("ascii")


PARTS = st.sampled_from(
    [
        "type",
        "hex",
        "items",
        "dtype",
        "shape",
        "fields",
        "itemsize",
        "base",
        "array",
        "scalar",
        "dict",
        "set",
        "vlen",
        "str",
        "|O",
        "<i4",
        "|S0",
        "<U2",
        "0000000000000000",
    ]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | PARTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PARTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.sampled_from([to_json(value) for value in VALUES.values()]), junk, st.data())
def test_damaged_json_is_refused_or_read(good: Any, other: Any, data: st.DataObject) -> None:
    """A part replaced by another thing: a ValueError, or a value that can be written again."""
    damaged = json.loads(json.dumps(good))
    place = damaged
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = other
            break
        place = place[key]
    else:
        damaged = other
    try:
        found = from_json(damaged)
    except ValueError:
        return
    to_json(found)


PLAIN: list[tuple[Any, Any]] = [
    (None, None),
    (np.bool_(False), False),
    (np.float32(0.5), 0.5),
    (np.array([1, 2], ">i2"), [1, 2]),
    (np.array(7), 7),
    (float("nan"), "NaN"),
    (np.array([np.inf, -np.inf]), ["Infinity", "-Infinity"]),
    (2**64, "18446744073709551616"),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (b"K\xff", "K\\xff"),
    ("a\udcff", "a\\udcff"),
    (1 + 2j, [1.0, 2.0]),
    (np.datetime64("2001-01-01"), "2001-01-01"),
    (np.array([(1, 2.5, b"x")], PACKED), [[1, 2.5, "x"]]),
    (np.void(b"\1\2"), "0102"),
    ({"a": (1, {2})}, {"a": [1, [2]]}),
    (np.dtype("i2"), "int16"),
    (objects("a", np.arange(2)), ["a", [0, 1]]),
]


@pytest.mark.parametrize(("value", "expected"), PLAIN, ids=lambda value: repr(value)[:40])
def test_plain_readers_see_readable_json(value: Any, expected: Any) -> None:
    found = plain_json(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("f4", np.float32(0.1)), ("f8", float("nan")), ("i2", np.int16(-1)), ("c8", np.complex64(1j))],
)
def test_fill_values_as_xarray_expects_them(dtype: str, fill: Any) -> None:
    from xarray.backends.zarr import FillValueCoder

    plain = plain_attributes({"_FillValue": fill, "units": "K"}, np.dtype(dtype))
    assert plain["units"] == "K"
    found = FillValueCoder.decode(json.loads(json.dumps(plain["_FillValue"])), np.dtype(dtype))
    assert not value_differences("fill", np.asarray(found, dtype), np.asarray(fill, dtype))
