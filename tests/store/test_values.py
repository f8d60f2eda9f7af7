"""Values as plain Zarr arrays: exactly back, readable by others, all else refused by name."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from pathlib import Path
from typing import Any

import cftime
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intarsia.errors import UnsupportedVariable
from intarsia.store.dates import NO_DATE
from intarsia.store.values import plain, restored
from tests.compare import value_differences

NAN = float("nan")


def objects(*items: Any, shape: tuple[int, ...] | None = None, dtype: Any = object) -> np.ndarray:
    array = np.empty(len(items), dtype)
    array[:] = items
    return array if shape is None else array.reshape(shape)


def dates(calendar: str) -> np.ndarray:
    numbers = np.array([0, 1.25, 58, 59.000001, 400000], "f8")
    found = cftime.num2date(
        numbers, "days since 1999-12-30", calendar=calendar, only_use_cftime_datetimes=True
    )
    return np.asarray(found)


def before_year_1(kind: Any, has_year_zero: bool) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cftime.CFWarning)
        return objects(*(kind(year, 3, 4, has_year_zero=has_year_zero) for year in (-200, 2)))


NUMBERS = {
    code: np.array([0, 1, 3]).astype(code)
    for code in ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
}
VALUES: dict[str, np.ndarray] = {
    **NUMBERS,
    "nan": np.array([np.nan, -0.0, np.inf, 1e-310]),
    "nan with bits": np.array([0x7FF8000000000123, 0xFFF0000000000000], "u8").view("f8"),
    "big-endian": np.arange(6, dtype=">i4").reshape(2, 3),
    "big-endian float": np.array([0.1, np.nan], ">f8"),
    "no dimension": np.array(5, "i2"),
    "empty": np.zeros((0, 3), "f4"),
    "strided": np.arange(24.0).reshape(4, 6)[::2, ::-3],
    "transposed": np.arange(6, dtype="i2").reshape(2, 3).T,
    **{
        f"datetime {unit}": np.array([-1, 0, 7, np.iinfo("i8").min], "i8").view(f"M8[{unit}]")
        for unit in ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]
    },
    **{
        f"timedelta {unit}": np.array([[-(2**60), 5], [np.iinfo("i8").min, 0]], f"m8[{unit}]")
        for unit in ["D", "s", "ms", "us", "ns"]
    },
    "many seconds": np.array([3, 4], "M8[25s]"),
    "big-endian time": np.array(["2001-01-01", "NaT"], ">M8[ns]"),
    "one time": np.array("2001-01-01", "M8[s]"),
    "no times": np.array([], "M8[ns]"),
    "strided times": np.arange(10).astype("M8[ns]")[::3],
    "text": np.array(["a", "ümläut 😀", "", "a\0b"]),
    "wide text": np.array(["a"], "U9"),
    "big-endian text": np.array(["ab", "c"], ">U3"),
    "text table": np.array([["a", "bc"], ["d", ""]]).T,
    "one text": np.array("abc"),
    "no text": np.array([], "U5"),
    "text of no length": np.ndarray((2,), "U0"),
    "objects": objects("a", "", "längere", "a\0"),
    "object table": objects("a", "b", "c", "d", shape=(2, 2)),
    "one object": objects("abc", shape=()),
    "no objects": np.array([], object),
    "h5py text": objects("a", "b", dtype=h5py.string_dtype()),
    "missing": objects(NAN, "a", None, None, NAN, NAN, "b"),
    "all missing": objects(NAN, NAN),
    "missing table": objects("a", NAN, NAN, "d", shape=(2, 2)).T,
    "one missing": objects(NAN, shape=()),
    "new strings": np.array(["a", "ümläut", ""], np.dtypes.StringDType()),
    "bytes": np.array([b"a", b"\0b", b""]),
    "utf-8": np.array(["ü".encode(), b"x"]),
    "no utf-8": np.array([b"\xff\xfe", "ü".encode(), b"a"]),
    "wide bytes": np.array([b"a"], "S7"),
    "characters": np.array([[b"a", b""], [b"\xc3", b"\xa9"]]),
    "one bytes": np.array(b"abc"),
    "bytes of no length": np.ndarray((2, 2), "S0"),
    "bytes objects": objects(b"a\0", b"", b"\xff"),
    "missing bytes": objects(b"a", NAN, None),
    **{
        calendar: dates(calendar)
        for calendar in [
            "standard",
            "proleptic_gregorian",
            "julian",
            "noleap",
            "all_leap",
            "360_day",
        ]
    },
    "no year 0": before_year_1(cftime.DatetimeGregorian, has_year_zero=False),
    "a year 0": before_year_1(cftime.DatetimeGregorian, has_year_zero=True),
    "plain class": objects(
        cftime.datetime(2000, 2, 30, 1, 2, 3, 999999, calendar="360_day"),
        cftime.datetime(1, 1, 1, calendar="360_day"),
    ),
    "far dates": objects(cftime.DatetimeNoLeap(250000, 12, 31, 23, 59, 59, 1)),
    "distant seconds": objects(cftime.Datetime360Day(200000, 12, 30, 23, 59, 59)),
    "date table": dates("noleap")[:4].reshape(2, 2).T,
    "one date": np.array(dates("noleap")[0], object),
    "missing dates": objects(None, *dates("noleap")[:2], NAN, NAN),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_comes_back(values: np.ndarray) -> None:
    made = plain(values)
    array = made.array
    assert array.flags.c_contiguous
    assert array.shape == values.shape
    assert array.dtype.isnative
    restore = json.loads(json.dumps(made.restore, allow_nan=False))
    json.dumps(made.attrs, allow_nan=False)
    if made.data_type == "string":
        assert array.dtype == object
        assert all(type(item) is str for item in array.ravel())
        same(restored(array.astype(np.dtypes.StringDType()), restore), values)
    else:
        assert np.dtype(made.data_type) == array.dtype
    before = array.copy()
    same(restored(array, restore), values)
    assert before.tobytes() == array.tobytes() or array.dtype == object


def same(found: np.ndarray, values: np.ndarray) -> None:
    if values.dtype.kind == "T":
        assert found.dtype == values.dtype
        assert found.tolist() == values.tolist()
        return
    assert found.dtype == values.dtype.newbyteorder("=")
    assert (found.dtype.metadata or {}) == (values.dtype.metadata or {})
    assert not value_differences("values", found, values)
    if values.dtype.kind not in "OSU":
        assert found.tobytes() == values.astype(found.dtype).tobytes()
    for ours, theirs in zip(found.ravel(), values.ravel(), strict=True):
        if isinstance(theirs, cftime.datetime):
            assert repr(ours) == repr(theirs)
            assert ours.calendar == theirs.calendar


def test_numbers_are_not_copied() -> None:
    values = np.arange(5.0)
    assert np.shares_memory(plain(values).array, values)
    assert np.shares_memory(restored(values, {}), values)
    assert not plain(values).restore


@settings(max_examples=60)
@given(
    hnp.arrays(
        hnp.scalar_dtypes()
        | hnp.byte_string_dtypes(max_len=4)
        | hnp.unicode_string_dtypes(max_len=4)
        | hnp.datetime64_dtypes(),
        hnp.array_shapes(min_dims=0, min_side=0, max_side=4),
    )
)
def test_random_values_come_back(values: np.ndarray) -> None:
    try:
        made = plain(values)
    except UnsupportedVariable as error:
        assert "Unicode" in error.reason or values.dtype.itemsize > 8
        return
    same(restored(made.array, json.loads(json.dumps(made.restore))), values)


@given(st.lists(st.none() | st.just(NAN) | st.text(max_size=3), max_size=8))
def test_random_objects_come_back(items: list[Any]) -> None:
    values = objects(*items)
    made = plain(values)
    same(restored(made.array, json.loads(json.dumps(made.restore))), values)


REFUSED: dict[str, tuple[np.ndarray, str]] = {
    "extended": (np.zeros(2, np.longdouble), "float128"),
    "extended complex": (np.zeros(2, np.clongdouble), "complex256"),
    "compound": (np.zeros(2, [("a", "i4")]), "drop it, or save its fields"),
    "void": (np.zeros(2, "V3"), "drop it"),
    "booleans with holes": (objects(True, NAN), r"fillna\(False\)"),
    "ragged": (objects(np.arange(2), np.arange(3)), "ragged"),
    "numbers": (objects(1, 2), "objects of type int"),
    "mixed": (objects(1, "a"), "objects of type int and str"),
    "times": (objects(dt.datetime(2001, 1, 1)), "datetime"),
    "timestamps": (objects(pd.NaT), "NaTType"),
    "numpy nan": (objects("a", np.float64(NAN)), "float64 and str"),
    "text": (np.array(["a\udc80"]), "not valid Unicode"),
    "text objects": (objects("a\ud800", "\udc00"), "not valid Unicode"),
    "string subclass": (objects(np.str_("a")), "str_"),
    "strings with holes": (
        np.array(["a", NAN], np.dtypes.StringDType(na_object=NAN)),
        "cast it to object",
    ),
    "calendars": (objects(dates("noleap")[0], dates("360_day")[0]), "several calendars"),
    "calendars of one class": (
        objects(*(cftime.datetime(2000, 1, 1, calendar=c) for c in ("noleap", "360_day"))),
        "several calendars",
    ),
    "no calendar": (objects(cftime.datetime(2000, 1, 1, calendar="")), "unknown"),
    "too far": (objects(cftime.DatetimeNoLeap(900000, 1, 1, 0, 0, 0, 1)), "can't be counted"),
    "many holes": (objects(*["a", None] * 10_001), "10,000 places"),
    "wide": (np.broadcast_to(np.zeros((), "S5000"), 10**6), "cast it to object"),
}


@pytest.mark.parametrize(("values", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_by_name(values: np.ndarray, reason: str) -> None:
    with pytest.raises(UnsupportedVariable, match=reason) as error:
        plain(values)
    assert error.value.remedy


TEXT = objects("a", "bc")
TIME = np.arange(2)
DATE = {
    "kind": "cftime",
    "unit": "seconds",
    "class": "DatetimeNoLeap",
    "calendar": "noleap",
    "has_year_zero": True,
}
WRONG: dict[str, tuple[np.ndarray, Any]] = {
    "no object": (TIME, ["kind"]),
    "no kind": (TIME, {"dtype": "<M8[s]"}),
    "kind": (TIME, {"kind": "code"}),
    "kind of kind": (TIME, {"kind": []}),
    "nothing": (TEXT, {}),
    "no dtype": (TIME, {"kind": "datetime64"}),
    "more": (TIME, {"kind": "datetime64", "dtype": "<M8[s]", "x": 1}),
    "dtype": (TIME, {"kind": "datetime64", "dtype": "<i8"}),
    "other kind": (TIME, {"kind": "datetime64", "dtype": "<m8[s]"}),
    "small times": (TIME.astype("i4"), {"kind": "datetime64", "dtype": "<M8[s]"}),
    "times of text": (TEXT, {"kind": "datetime64", "dtype": "<M8[s]"}),
    "text of numbers": (TIME, {"kind": "text", "dtype": "<U2"}),
    "text of objects": (objects(1, "a"), {"kind": "text", "dtype": "|O"}),
    "short": (TEXT, {"kind": "text", "dtype": "<U1"}),
    "text as numbers": (TEXT, {"kind": "text", "dtype": "<f8"}),
    "text as bytes": (TEXT, {"kind": "text", "dtype": "|S2"}),
    "missing text": (TEXT, {"kind": "text", "dtype": "<U2", "missing": []}),
    "short bytes": (TEXT, {"kind": "bytes", "dtype": "|S1", "encoding": "utf-8"}),
    "encoding": (TEXT, {"kind": "bytes", "dtype": "|S2", "encoding": "rot13"}),
    "not latin": (objects("😀"), {"kind": "bytes", "dtype": "|S4", "encoding": "latin-1"}),
    "not utf-8": (objects("\udc80"), {"kind": "bytes", "dtype": "|S4", "encoding": "utf-8"}),
    "bytes as numbers": (TEXT, {"kind": "bytes", "dtype": "<f8", "encoding": "utf-8"}),
    "missing": (TEXT, {"kind": "text", "dtype": "|O", "missing": {"a": 1}}),
    "run": (TEXT, {"kind": "text", "dtype": "|O", "missing": [[0, 1]]}),
    "run outside": (TEXT, {"kind": "text", "dtype": "|O", "missing": [[0, 3, "nan"]]}),
    "runs": (TEXT, {"kind": "text", "dtype": "|O", "missing": [[1, 2, "nan"], [0, 1, "nan"]]}),
    "run of booleans": (TEXT, {"kind": "text", "dtype": "|O", "missing": [[False, True, "nan"]]}),
    "name": (TEXT, {"kind": "text", "dtype": "|O", "missing": [[0, 1, "inf"]]}),
    "class": (TIME, {**DATE, "class": "eval"}),
    "class of class": (TIME, {**DATE, "class": []}),
    "calendar": (TIME, {**DATE, "calendar": "mayan"}),
    "class and calendar": (TIME, {**DATE, "class": "Datetime360Day", "calendar": "mayan"}),
    "year zero": (TIME, {**DATE, "has_year_zero": 1}),
    "no date": (np.array([np.iinfo("i8").min]), DATE),
    "date and missing": (TIME, {**DATE, "missing": [[0, 1, "nan"]]}),
    "other calendar": (TIME, {**DATE, "calendar": "360_day"}),
    "unit": (TIME, {**DATE, "unit": "years"}),
    "far date": (np.array([2**63 - 1]), DATE),
}


@pytest.mark.parametrize(("array", "restore"), WRONG.values(), ids=WRONG.keys())
def test_wrong_notes_are_refused_with_a_reason(array: np.ndarray, restore: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        restored(array, restore)


def test_short_strings_take_no_gigabytes() -> None:
    many = np.broadcast_to(np.array("a", object), 10**5)
    with pytest.raises(ValueError, match="100000 strings"):
        restored(many, {"kind": "text", "dtype": "<U4000000"})
    assert restored(many, {"kind": "text", "dtype": "<U5"}).dtype == "U5"


def written(folder: Path, name: str, values: np.ndarray) -> Any:
    """The variable as zarr-python and xarray read it, who know nothing of Intarsia."""
    made = plain(values)
    group = zarr.create_group(folder / "a.zarr")
    array: Any = made.array
    if made.data_type == "string":
        array = array.astype(np.dtypes.StringDType())
    dims = [f"d{n}" for n in range(values.ndim)]
    group.create_array(name, data=array, dimension_names=dims, attributes=made.attrs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Unable to decode time axis into full numpy.datetime64")
        return xr.open_zarr(folder / "a.zarr", consolidated=False, chunks=None)[name].load()


SEEN = {
    name: VALUES[name]
    for name in (
        *NUMBERS,
        *("nan", "big-endian", "strided", "no dimension", "datetime ns", "timedelta ns"),
        *("noleap", "360_day", "all_leap", "distant seconds", "one date"),
    )
}


@pytest.mark.parametrize("name", SEEN)
def test_other_readers_see_the_values(tmp_path: Path, name: str) -> None:
    same(written(tmp_path, "v", SEEN[name]).values, SEEN[name])


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
def test_other_readers_see_times_of_every_unit(tmp_path: Path, unit: str) -> None:
    numbers = np.array([10**3, -(10**2), np.iinfo("i8").min])
    found = written(tmp_path, "t", numbers.astype(f"M8[{unit}]")).values
    np.testing.assert_array_equal(found, numbers.astype(f"M8[{unit}]"))
    (tmp_path / "d").mkdir()
    if unit in ("s", "ms", "us", "ns"):
        found = written(tmp_path / "d", "t", numbers.astype(f"m8[{unit}]")).values
        assert found.dtype == f"m8[{unit}]"
        np.testing.assert_array_equal(found, numbers.astype(f"m8[{unit}]"))


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("text", ["a", "ümläut 😀", "", "a\0b"]),
        ("objects", ["a", "", "längere", "a\0"]),
        ("missing", ["", "a", "", "", "", "", "b"]),
        ("utf-8", ["ü", "x"]),
        ("no utf-8", ["ÿþ", "Ã¼", "a"]),
    ],
)
def test_other_readers_see_text(tmp_path: Path, name: str, seen: list[str]) -> None:
    assert written(tmp_path, "s", VALUES[name]).values.tolist() == seen


def test_missing_dates_are_raw_numbers_to_others(tmp_path: Path) -> None:
    found = written(tmp_path, "t", VALUES["missing dates"]).values
    assert found.dtype == "i8"
    assert found[0] == NO_DATE


def test_every_kind_of_dtype_is_settled() -> None:
    """Each is kept, or refused with what to do instead; nothing raises anything else."""
    for code in np.typecodes["All"]:
        values = np.zeros(2, np.dtype(code) if code not in "Mm" else f"{code}8[s]")
        try:
            plain(values)
        except UnsupportedVariable as error:
            assert error.remedy
