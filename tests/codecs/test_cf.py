"""CF steps: every value of small types decodes to xarray's bits, row by row or all at once."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intarsia.cf import Options, RawVariable, Recipe, VirtualVariable, decode
from intarsia.codecs import cf
from intarsia.codecs.cf import apply_steps
from intarsia.encoding import Codec
from intarsia.errors import UpstreamFault

Attrs = dict[str, Any]


def recipe(stored: np.dtype[Any], attrs: Attrs, **options: Any) -> Recipe:
    """What `intarsia.cf` says of a virtual variable with these attributes."""
    raw = RawVariable(("x",), (1,), stored, attrs, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # xarray warns of fills that are several or do not fit
        variable = decode({"v": raw}, {}, Options(**options)).variables["v"]
    assert isinstance(variable, VirtualVariable)
    return variable.recipe


def row(recipe: Recipe, stored: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """One row of parameters, packed as an `Encoding` would have them."""
    fields = [("raw_fill", stored), *((k, v.dtype) for k, v in recipe.parameters.items())]
    return np.array([(0, *recipe.parameters.values())], np.dtype(fields))


def ours(data: np.ndarray[Any, Any], attrs: Attrs, **options: Any) -> np.ndarray[Any, Any]:
    found = recipe(data.dtype, attrs, **options)
    decoded = apply_steps(found.steps, data.reshape(1, -1), row(found, data.dtype))
    assert decoded.dtype == found.dtype
    return decoded.reshape(-1)


def theirs(data: np.ndarray[Any, Any], attrs: Attrs, **options: Any) -> np.ndarray[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variable = xr.Variable(("x",), data, dict(attrs))
        return xr.conventions.decode_cf_variable("v", variable, **options).values


def assert_same_bits(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert actual.dtype == expected.dtype
    assert actual.dtype.isnative
    assert actual.shape == expected.shape
    bits = f"u{actual.itemsize}"
    np.testing.assert_array_equal(actual.view(bits), expected.view(bits))


def frozen(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    data.flags.writeable = False
    return data


def every_value(dtype: str) -> np.ndarray[Any, Any]:
    """All values of an 8 or 16 bit type."""
    size = np.dtype(dtype).itemsize
    values = np.arange(256**size, dtype=f"u{size}").view(f"{np.dtype(dtype).kind}{size}")
    return frozen(values.astype(dtype))


SMALL = ["i1", "u1", "<i2", ">i2", "<u2", ">u2"]
SCALES = [
    None,
    np.float32(0.01),
    np.float64(0.01),
    0.01,
    np.float32(1 / 280),
    np.float64(-0.005),
    np.float16(0.1),
    np.float32(1e38),
    2,
    np.int16(3),
    np.int32(-7),
    np.uint8(2),
    np.int64(10),
]
OFFSETS = [
    None,
    np.float32(273.15),
    np.float64(273.15),
    -5.5,
    7,
    np.int16(100),
    np.int32(2**31 - 1),
    np.float16(0.1),
]
FILLS: list[Attrs] = [
    {},
    {"_FillValue": np.int8(-1)},
    {"_FillValue": np.int16(-32768)},
    {"_FillValue": np.uint16(65535)},
    {"_FillValue": np.float32(77)},
    {"_FillValue": np.float64(0.5)},
    {"_FillValue": np.int32(-99999)},
    {"_FillValue": np.float64(1e20)},
    {"_FillValue": np.float32("nan")},
    {"missing_value": np.array([1, 2, 70], "i2")},
    {"missing_value": np.array([1, np.nan, 1e20, 77.0])},
    {"missing_value": np.float32(5), "_FillValue": np.int16(6)},
    {"missing_value": np.int64(2**40), "_FillValue": np.int8(7)},
]
UNSIGNED: list[Attrs] = [{}, {}, {"_Unsigned": "true"}, {"_Unsigned": "false"}, {"_Unsigned": "T"}]


def packings(fills: list[Attrs] = FILLS, signs: list[Attrs] = UNSIGNED) -> Iterator[Attrs]:
    for scale, offset, fill, sign in itertools.product(SCALES, OFFSETS, fills, signs):
        packing = {"scale_factor": scale, "add_offset": offset}
        yield {k: v for k, v in packing.items() if v is not None} | fill | sign


def may_be_refused(dtype: np.dtype[Any], attrs: Attrs) -> bool:
    """Whether xarray's faults can touch these attributes (shown one by one in `test_cf`)."""
    scale = attrs.get("scale_factor", 0.0)
    integer = np.dtype(type(scale)).kind in "iu" and "add_offset" not in attrs
    return integer or (not dtype.isnative and attrs.get("_Unsigned") == "true")


def compare(data: np.ndarray[Any, Any], attrs: Attrs) -> str:
    """Decode both ways; say what came of it."""
    try:
        expected = theirs(data, attrs)
    except (ValueError, OverflowError, KeyError) as error:
        # a fill that doesn't fit, or NaN into integers: never a value from us either
        with pytest.raises((type(error), UpstreamFault)):
            ours(data, attrs)
        return "both raise"
    try:
        actual = ours(data, attrs)
    except UpstreamFault:
        assert may_be_refused(data.dtype, attrs), attrs
        return "refused"
    try:
        assert_same_bits(actual, expected)
    except AssertionError as error:
        error.add_note(f"{data.dtype.str} {attrs}")
        raise
    return "equal"


@pytest.mark.parametrize("dtype", SMALL)
def test_every_value_is_xarrays_over_many_packings(dtype: str) -> None:
    data = every_value(dtype)
    sample = random.Random(dtype).sample(list(packings()), 500)
    outcomes = [compare(data, attrs) for attrs in sample]
    assert outcomes.count("equal") > 300


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["i1", "<u2", ">i2"])
def test_every_value_is_xarrays_over_all_packings(dtype: str) -> None:
    data = every_value(dtype)
    for attrs in packings(signs=UNSIGNED[1:]):
        compare(data, attrs)


def test_the_type_of_the_scale_takes_part() -> None:
    data = every_value("<i2").astype("f4")
    nan = {"_FillValue": np.float32("nan")}  # keeps the stored type
    narrow, wide = (ours(data, nan | {"scale_factor": t(0.01)}) for t in (np.float32, np.float64))
    assert narrow.dtype == wide.dtype == np.float32
    assert 0.2 < np.mean(narrow != wide) < 0.4
    assert_same_bits(ours(data, nan | {"scale_factor": 0.01}), narrow)  # a Python float is weak


SPECIAL = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-40, 3e38, 1e20, 65504, -999, np.inf, -np.inf, np.nan]


def floats(dtype: str) -> np.ndarray[Any, Any]:
    """Special values, and NaN of every sort: signalling, negative, with a payload."""
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL).astype(np.dtype(dtype).newbyteorder("="))
    quiet = values[-1:].view(f"u{values.itemsize}")
    top = quiet.dtype.type(1 << (8 * values.itemsize - 1))
    nans = np.concatenate([quiet + 5, quiet | top, (quiet + 5) | top]).view(values.dtype)
    return frozen(np.concatenate([values, nans]).astype(dtype))


def integers(dtype: str) -> np.ndarray[Any, Any]:
    bounds = np.iinfo(dtype)
    edges = {v for p in range(0, 65, 4) for v in (1 << p, (1 << p) - 1, (1 << p) + 1, -(1 << p))}
    edges |= {bounds.min, bounds.max, -999, 16777217, 2**53 + 1}
    return frozen(np.array(sorted(v for v in edges if bounds.min <= v <= bounds.max), dtype))


WIDE_FILLS: list[Attrs] = [
    *FILLS,
    {"_FillValue": np.int32(-2147483648)},
    {"_FillValue": np.int64(-9223372036854775808)},
    {"_FillValue": np.uint64(18446744073709551615)},
    {"_FillValue": np.int64(2**53 + 1)},
    {"_FillValue": np.float32(0.1)},
    {"_FillValue": np.float64(0.1)},
    {"_FillValue": np.float64("inf")},
    {"_FillValue": np.float64(3e38), "missing_value": np.float32(1e20)},
]


WIDE = [order + kind for kind in ("f2", "f4", "f8", "i4", "u4", "i8", "u8") for order in "<>"]


def wide_packings(dtype: str) -> Iterator[Attrs]:
    return packings(WIDE_FILLS, [{}] if "f" in dtype else UNSIGNED)  # floats have no sign to lose


@pytest.mark.parametrize("dtype", WIDE)
def test_wider_types_are_xarrays_over_many_packings(dtype: str) -> None:
    data = floats(dtype) if "f" in dtype else integers(dtype)
    for attrs in random.Random(dtype).sample(list(wide_packings(dtype)), 250):
        compare(data, attrs)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["<f4", ">f8", ">i4", "<i8"])
def test_wider_types_are_xarrays_over_all_packings(dtype: str) -> None:
    data = floats(dtype) if "f" in dtype else integers(dtype)
    for attrs in wide_packings(dtype):
        compare(data, attrs)


@pytest.mark.parametrize("dtype", ["|i1", "<i2", ">i2", "<f8"])
def test_bool_from_attributes(dtype: str) -> None:
    data = frozen(np.array([0, 1, 2, -1], dtype))
    assert_same_bits(ours(data, {"dtype": "bool"}), np.array([False, True, True, True]))
    assert_same_bits(ours(data, {"dtype": "bool"}), theirs(data, {"dtype": "bool"}))


def test_nothing_to_decode_is_no_copy() -> None:
    data = frozen(np.arange(6, dtype="=i2").reshape(2, 3))
    parameters = np.zeros(1, [("raw_fill", "i2")])
    assert apply_steps((), data, parameters) is data
    assert apply_steps([Codec.make("cast", dtype="=i2")], data, parameters) is data
    swapped = data.astype(data.dtype.newbyteorder())
    assert_same_bits(apply_steps((), swapped, parameters), np.arange(6, dtype="=i2").reshape(2, 3))


@pytest.mark.parametrize("target", ["i1", "u1", "i2", "u2", "i4", "u8", "f2", "f4", "f8", "?"])
@pytest.mark.parametrize("source", ["i1", "u2", "<i2", ">i2", ">u4", "<i8", ">f4", "<f8"])
def test_cast_is_astype(source: str, target: str) -> None:
    data = np.arange(-300, 300).astype("i8").astype(source).reshape(3, 200)
    step = Codec.make("cast", dtype=np.dtype(target).str)
    with np.errstate(all="ignore"):
        expected = data.astype(target)
    assert_same_bits(apply_steps([step], data, np.zeros(1, [("raw_fill", source)])), expected)


def test_casts_in_a_row_lose_what_each_loses() -> None:
    data = frozen(np.array([[300, -1, 70000]], ">i4"))
    steps = [Codec.make("cast", dtype=t) for t in ("<i2", "|u1", "<f4", "|i1", "<f4")]
    expected = data.astype("i2").astype("u1").astype("f4").astype("i1").astype("f4")
    assert_same_bits(apply_steps(steps, data, np.zeros(1, [("raw_fill", ">i4")])), expected)


def test_decoding_can_be_followed_by_promotion() -> None:
    data = every_value(">i2").reshape(16, -1)
    attrs = {"scale_factor": np.float32(0.01), "_FillValue": np.int16(7)}
    found = recipe(data.dtype, attrs)
    steps = [*found.steps, Codec.make("cast", dtype="<f8")]
    expected = theirs(data.reshape(-1), attrs).astype("f8").reshape(16, -1)
    assert_same_bits(apply_steps(steps, data, row(found, data.dtype)), expected)


def test_integers_can_be_masked_with_the_int64_minimum() -> None:
    data = frozen(np.array([[5, -999, 7], [5, -999, 7]], ">i4"))
    step = Codec.make("mask", dtype="<i8", fills=2, value=np.iinfo("i8").min)
    parameters = np.array([(0, -999, 2**63), (0, 5, 0)], "i4,i4,u8")
    parameters.dtype.names = ("raw_fill", "fill_0", "fill_1")
    low = np.iinfo("i8").min
    expected = np.array([[5, low, 7], [low, -999, 7]])
    assert_same_bits(apply_steps([step], data, parameters), expected)


MANY = Recipe(
    (
        Codec.make("cast", dtype="<u2"),
        Codec.make("mask", dtype="<f4", fills=2, value="nan"),
        Codec.make("scale", dtype="<f4", scale=True, offset=True),
        Codec.make("cast", dtype="<f8"),
    ),
    {},
    np.dtype("f8"),
)
MANY_ROW = np.dtype(
    [("raw_fill", ">i2"), ("fill_0", "u2"), ("fill_1", "f8"), ("scale", "f8"), ("offset", "f4")]
)


def many_rows(n: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(n)
    parameters = np.zeros(n, MANY_ROW)
    parameters["fill_0"] = rng.integers(0, 50, n)
    parameters["fill_1"] = rng.choice([0.5, 7, 1e300, np.nan, 65535], n)
    parameters["scale"] = rng.normal(size=n)
    parameters["offset"] = rng.normal(size=n)
    return parameters


def by_hand(data: np.ndarray[Any, Any], p: Any) -> np.ndarray[Any, Any]:
    """The steps of `MANY` for one row, as xarray's functions would do them."""
    values = np.array(np.asarray(data, "u2"), "f4", copy=True)
    values[(values == p["fill_0"]) | (values == p["fill_1"])] = np.nan
    values *= p["scale"]
    values += p["offset"]
    return values.astype("f8")


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("shape", [(1, 1), (1, 100), (40, 1), (40, 7), (6, 1000), (3, 0), (0, 5)])
def test_rows_at_once_are_rows_one_by_one(
    shape: tuple[int, int], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cf, "_BLOCK", block)
    n = shape[0]
    data = np.random.default_rng(1).integers(-50, 50, shape).astype(">i2")
    parameters = many_rows(n)
    for layout in (data, np.asfortranarray(data), np.repeat(data, 2, axis=1)[:, ::2]):
        actual = apply_steps(MANY.steps, frozen(layout), parameters)
        assert actual.dtype == "f8"
        assert actual.shape == shape
        for i in range(n):
            assert_same_bits(actual[i], by_hand(data[i], parameters[i]))
            alone = apply_steps(MANY.steps, layout[i : i + 1], parameters[i : i + 1])
            assert_same_bits(alone, actual[i : i + 1])
    one = many_rows(1)
    together = apply_steps(MANY.steps, data, one)
    assert_same_bits(together, apply_steps(MANY.steps, data, np.repeat(one, n)))


def test_wrong_numbers_of_rows_and_unknown_steps_are_refused() -> None:
    data = np.zeros((3, 4), "i2")
    with pytest.raises(ValueError, match="2 rows of parameters for 3 rows of data"):
        apply_steps((), data, np.zeros(2, [("raw_fill", "i2")]))
    with pytest.raises(ValueError, match="no such decoding step: unpack"):
        apply_steps([Codec.make("unpack", dtype="<f4")], data, np.zeros(1, [("raw_fill", "i2")]))


def test_overflow_does_not_warn() -> None:
    data = frozen(np.array([[3e38, np.inf, np.nan, 1]], "f4"))
    found = recipe(data.dtype, {"scale_factor": np.float32(1e5), "add_offset": np.float32(1)})
    with np.errstate(all="raise"):
        actual = apply_steps(found.steps, data, row(found, data.dtype))
    np.testing.assert_array_equal(actual, np.array([[np.inf, np.inf, np.nan, 1e5 + 1]], "f4"))


numbers = st.one_of(
    st.sampled_from(["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]).flatmap(
        lambda t: hnp.from_dtype(np.dtype(t), allow_infinity=False)
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**31), 2**31),
)
optional_numbers = st.none() | numbers
fills = st.none() | numbers | st.lists(numbers, min_size=1, max_size=4).map(np.array)
stored = st.sampled_from(
    [order + kind for order in "<>" for kind in ("f4", "f8", "i2", "u2", "i4", "u4", "i8", "u8")]
    + ["i1", "u1", "f2"]
)


@settings(max_examples=400, deadline=None)
@given(
    data=stored.flatmap(lambda t: hnp.arrays(np.dtype(t), st.integers(0, 12))),
    scale=optional_numbers,
    offset=optional_numbers,
    missing=fills,
    fill=optional_numbers,
    take_fill=st.booleans(),
    unsigned=st.sampled_from([None, None, "true", "false"]),
)
@example(np.array([1, -1], "<i8"), np.float32(1), None, None, np.int64(-1), False, "true")
@example(np.array([-1], "<i8"), np.float32(1), None, None, np.int64(-1), False, "true")
@example(np.array([2**53 + 1], "<i8"), None, None, np.int64(2**53 + 1), None, False, None)
def test_any_attributes_give_xarrays_bits(
    data: np.ndarray[Any, Any],
    scale: Any,
    offset: Any,
    missing: Any,
    fill: Any,
    take_fill: bool,
    unsigned: str | None,
) -> None:
    if take_fill and data.size:
        fill = data[0]  # so that something is masked
    attrs = {
        "scale_factor": scale,
        "add_offset": offset,
        "missing_value": missing,
        "_FillValue": fill,
        "_Unsigned": unsigned,
    }
    compare(frozen(data), {k: v for k, v in attrs.items() if v is not None})
