"""CF meaning is xarray's: for whole groups, for every option, and refused where xarray is wrong."""

from __future__ import annotations

import inspect
import itertools
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cftime
import h5netcdf.legacyapi as netcdf
import numpy as np
import pytest
import xarray as xr
from xarray.backends import H5NetCDFStore
from xarray.backends.h5netcdf_ import H5netcdfBackendEntrypoint
from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder

from intarsia.cf import (
    Decoded,
    Options,
    RawVariable,
    UnrecognisedDecoding,
    VirtualVariable,
    decode,
    time_kind,
    time_like,
)
from intarsia.codecs.cf import apply_steps
from intarsia.errors import UpstreamFault
from tests.compare import assert_identical
from tests.real import real_files

Attrs = dict[str, Any]


def raw(dtype: Any = "<i2", dims: str = "x", **attrs: Any) -> RawVariable:
    """A virtual variable with these dims (a letter each) and attributes."""
    return RawVariable(tuple(dims), (3,) * len(dims), np.dtype(dtype), attrs, {})


def held(values: Any, dims: str = "x", **attrs: Any) -> RawVariable:
    """A loaded variable."""
    data = np.asarray(values)
    return RawVariable(tuple(dims), data.shape, data.dtype, attrs, {}, data)


def xarrays(values: Any, attrs: Attrs, **options: Any) -> xr.Variable:
    variable = xr.Variable(("x",), np.asarray(values), dict(attrs))
    return xr.conventions.decode_cf_variable("v", variable, **options)


def virtual(decoded: Decoded, name: str = "v") -> VirtualVariable:
    variable = decoded.variables[name]
    assert isinstance(variable, VirtualVariable)
    return variable


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Whole groups of files, against xr.open_dataset.


class Group:
    """A file's root group as xarray's store sees it."""

    def __init__(self, path: Path) -> None:
        self.store = H5NetCDFStore.open(str(path), phony_dims="access")
        self.variables, self.attrs = self.store.load()

    def raw(self, options: Options) -> dict[str, RawVariable]:
        """The variables before decoding; what has to be is loaded."""
        bare = {
            name: RawVariable(v.dims, v.shape, v.dtype, dict(v.attrs), dict(v.encoding))
            for name, v in self.variables.items()
        }
        times = time_like(bare, options)
        return {
            name: self.loaded(name, raw) if name in times or raw.dtype.kind not in "iuf" else raw
            for name, raw in bare.items()
        }

    def loaded(self, name: str, raw: RawVariable) -> RawVariable:
        data = np.asarray(self.variables[name].values)
        return RawVariable(raw.dims, raw.shape, raw.dtype, raw.attrs, raw.encoding, data)

    def dataset(self, options: Options, **more: Any) -> xr.Dataset:
        """Decode, and carry the recipes out over all values."""
        decoded = decode(self.raw(options), self.attrs, options, **more)
        variables = {
            name: self.carried_out(name, v) if isinstance(v, VirtualVariable) else v
            for name, v in decoded.variables.items()
        }
        coords = {name: v for name, v in variables.items() if name in decoded.coord_names}
        data_vars = {name: v for name, v in variables.items() if name not in coords}
        return xr.Dataset(data_vars, coords, decoded.attrs)

    def carried_out(self, name: str, variable: VirtualVariable) -> xr.Variable:
        recipe = variable.recipe
        stored = self.variables[name].values
        fields = [("raw_fill", stored.dtype)]
        fields += [(key, number.dtype) for key, number in recipe.parameters.items()]
        row = np.array([(0, *recipe.parameters.values())], fields)
        values = apply_steps(recipe.steps, stored.reshape(1, -1), row)
        assert values.dtype == recipe.dtype
        return variable.with_data(values.reshape(stored.shape))


@contextmanager
def opened(path: Path) -> Iterator[Group]:
    group = Group(path)
    try:
        yield group
    finally:
        group.store.close()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"decode_cf": False},
    {"mask_and_scale": False},
    {"mask_and_scale": {"packed": False}},
    {"decode_times": False},
    {"decode_times": False, "decode_timedelta": True},
    {"decode_times": {"time": False}},
    {"decode_times": CFDatetimeCoder(use_cftime=True)},
    {"decode_times": CFDatetimeCoder(time_unit="s")},
    {"decode_timedelta": True},
    {"decode_timedelta": CFTimedeltaCoder(time_unit="s")},
    {"decode_coords": False},
    {"decode_coords": "all"},
    {"concat_characters": False},
    {"concat_characters": {"station": False}},
    {"drop_variables": ["time", "packed"]},
    {"drop_variables": "time"},
]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with most of what a decoder meets."""
    path = tmp_path_factory.mktemp("cf") / "everything.nc"
    rng = np.random.default_rng(0)
    with netcdf.Dataset(path, "w") as file:
        sizes = {"time": 5, "nv": 2, "lat": 3, "lon": 4, "name": 6}
        for dim, size in sizes.items():
            file.createDimension(dim, size)
        file.setncattr("title", "everything")
        file.setncattr("coordinates", "height nowhere")

        def put(name: str, values: Any, dims: tuple[str, ...], **attrs: Any) -> None:
            data = np.asarray(values)
            fill = attrs.pop("_FillValue", None)
            variable = file.createVariable(name, data.dtype, dims, fill_value=fill)
            for key, value in attrs.items():
                variable.setncattr(key, value)
            variable[...] = data

        def numbers(dtype: str, *dims: str) -> np.ndarray[Any, Any]:
            return rng.integers(0, 120, [sizes[dim] for dim in dims]).astype(dtype)

        put("time", np.arange(5), ("time",), units="days since 2000-01-01", bounds="time_bnds")
        put("time_bnds", numbers("f8", "time", "nv"), ("time", "nv"))
        put("lat", np.linspace(-1, 1, 3), ("lat",), units="degrees_north", bounds="lat_bnds")
        put("lat_bnds", numbers("f8", "lat", "nv"), ("lat", "nv"))
        put("lon", np.linspace(0, 3, 4).astype("f4"), ("lon",), units="degrees_east")
        put("area", numbers("f4", "lat", "lon"), ("lat", "lon"), units="m2")
        put("height", np.float64(2), (), units="m")
        put("crs", np.int32(0), (), grid_mapping_name="latitude_longitude")
        grid: Any = ("time", "lat", "lon")
        put(
            "packed",
            numbers("i2", *grid),
            grid,
            scale_factor=np.float32(0.01),
            add_offset=np.float32(273.15),
            _FillValue=np.int16(7),
            coordinates="height elsewhere",
            grid_mapping="crs",
            cell_measures="area: area",
            units="K",
        )
        put("big", numbers(">i4", *grid), grid, missing_value=np.array([3, 5], "i4"))
        put("bigfloat", numbers(">f4", *grid), grid, _FillValue=np.float32(3))
        put("byte", numbers("i1", *grid), grid, _Unsigned="true", _FillValue=np.int8(-1))
        put("flag", numbers("i1", "lat") % 2, ("lat",), dtype="bool")
        put("lag", numbers("f4", "lat"), ("lat",), units="hours", dtype="timedelta64[ns]")
        put("wet_days", numbers("f4", "lat"), ("lat",), units="days", _FillValue=np.float32(5))
        put(
            "leap", numbers("i4", "lat"), ("lat",), units="days since 2001-2-30", calendar="360_day"
        )
        letters = np.array(["Lisbon", "Prague", "Basel "], "S6").view("S1").reshape(3, 6)
        put("station", letters, ("lat", "name"))
        put("encoded", letters, ("lat", "name"), _Encoding="utf-8")
        label = file.createVariable("label", str, ("lat",))
        label[...] = np.array(["a", "Zürich", ""], object)
        put("plain", numbers("u4", *grid), grid)
    return path


@pytest.mark.parametrize("arguments", OPTIONS)
def test_groups_decode_to_xarrays_dataset(everything: Path, arguments: Attrs) -> None:
    drop = arguments.get("drop_variables")
    options = Options.parse(**{k: v for k, v in arguments.items() if k != "drop_variables"})
    with quiet(), opened(everything) as group:
        actual = group.dataset(options, drop_variables=drop)
    with quiet(), xr.open_dataset(everything, engine="h5netcdf", **arguments) as expected:
        assert_identical(actual, expected.load())


@pytest.mark.parametrize("arguments", [{}, {"decode_cf": False}, {"decode_coords": "all"}], ids=str)
@pytest.mark.parametrize("path", real_files("hdf5/*.nc"))
def test_real_groups_decode_to_xarrays_dataset(path: Path, arguments: Attrs) -> None:
    with quiet(), opened(path) as group:
        actual = group.dataset(Options.parse(**arguments))
    with quiet(), xr.open_dataset(path, engine="h5netcdf", **arguments) as expected:
        assert_identical(actual, expected.load())


def test_loaded_variables_have_all_of_xarrays_encoding(everything: Path) -> None:
    with quiet(), opened(everything) as group:
        decoded = decode(group.raw(Options()), group.attrs)
        with xr.open_dataset(everything, engine="h5netcdf") as expected:
            for name, variable in decoded.variables.items():
                if not isinstance(variable, VirtualVariable):
                    assert isinstance(variable._data, np.ndarray)
                    assert variable.encoding == expected[name].encoding, name


@pytest.mark.parametrize("decode_coords", [True, "all"])
def test_virtual_encoding_says_only_what_belongs_together(
    everything: Path, decode_coords: Any
) -> None:
    options = Options(decode_coords=decode_coords)
    with quiet(), opened(everything) as group:
        decoded = decode(group.raw(options), group.attrs, options)
    related = {"coordinates": "height elsewhere"}
    if decode_coords == "all":
        related |= {"grid_mapping": "crs", "cell_measures": "area: area"}
    assert virtual(decoded, "packed").encoding == related
    for name in ("big", "bigfloat", "byte", "area", "plain"):
        assert virtual(decoded, name).encoding == {}


def test_order_of_variables_is_kept_and_input_is_not_modified(everything: Path) -> None:
    with quiet(), opened(everything) as group:
        variables = group.raw(Options())
        before = pickle.dumps(variables)
        decoded = decode(variables, group.attrs)
        assert list(decoded.variables) == list(variables)
        assert pickle.dumps(variables) == before
        assert "coordinates" in group.attrs


def test_results_are_picklable(everything: Path) -> None:
    with quiet(), opened(everything) as group:
        decoded = decode(group.raw(Options()), group.attrs)
    copy = pickle.loads(pickle.dumps(decoded))
    assert virtual(copy, "packed") == virtual(decoded, "packed")


# Options.


def test_defaults_are_those_of_xarrays_engine() -> None:
    parameters = inspect.signature(H5netcdfBackendEntrypoint.open_dataset).parameters
    for name in Options.__dataclass_fields__:
        assert getattr(Options(), name) == parameters[name].default, name


def test_options_resolve_as_in_open_dataset() -> None:
    assert Options.parse() == Options()
    assert Options.parse(decode_cf=True, mask_and_scale=None) == Options()
    assert Options.parse(mask_and_scale=False) == Options(mask_and_scale=False)
    nothing = Options.parse(decode_cf=False, decode_times=True)
    assert not any(getattr(nothing, name) for name in Options.__dataclass_fields__)
    with pytest.raises(TypeError, match="decode_nothing"):
        Options.parse(decode_nothing=True)


# Times.

TIME_ATTRS: dict[str, Attrs] = {
    "since": {"units": "days since 2000-01-01"},
    "calendar": {"units": "days since 2000-01-01", "calendar": "noleap"},
    "bounded": {"units": "hours since 2000-01-01", "calendar": "noleap", "bounds": "bounds"},
    "bounds": {"bounds": "chained"},
    "chained": {},
    "space": {"units": "m", "bounds": "space_bounds"},
    "space_bounds": {},
    "days": {"units": "days"},
    "day": {"units": "day"},
    "typed": {"units": "seconds", "dtype": "timedelta64[s]"},
    "typed_only": {"dtype": "timedelta64[s]"},
    "typed_badly": {"units": "m", "dtype": "timedelta64[s]"},
    "number": {"units": np.float64(1)},
    "long": {"units": "days accumulated"},
    "none": {},
}
TIMES: list[Any] = [True, False, CFDatetimeCoder(), {"since": False, "typed": False}, {}]
DELTAS: list[Any] = [
    None,
    True,
    False,
    CFTimedeltaCoder(),
    CFTimedeltaCoder(decode_via_units=True),
    CFTimedeltaCoder(decode_via_dtype=False),
    {"days": True, "typed": False},
]


@pytest.mark.parametrize("decode_times", TIMES)
@pytest.mark.parametrize("decode_timedelta", DELTAS)
def test_times_are_known_beforehand(decode_times: Any, decode_timedelta: Any) -> None:
    options = Options(decode_times=decode_times, decode_timedelta=decode_timedelta)
    variables = {name: held([1, 2], **attrs) for name, attrs in TIME_ATTRS.items()}
    arrays = {
        name: xr.Variable(("x",), np.array([1, 2]), dict(attrs))
        for name, attrs in TIME_ATTRS.items()
    }
    with quiet():
        found, _, _ = xr.conventions.decode_cf_variables(
            arrays, {}, decode_times=decode_times, decode_timedelta=decode_timedelta
        )
    expected = {name for name, v in found.items() if v.dtype.kind in "mM" or v.dtype == object}
    assert time_like(variables, options) == expected
    # the order of variables decides whether bounds of bounds take part, as in xarray
    backwards = dict(reversed(variables.items()))
    assert "bounds" not in expected or "chained" not in time_like(backwards, options)


def test_times_that_are_not_loaded_are_named() -> None:
    variables = {"t": raw(units="days since 2000-01-01"), "v": raw()}
    with pytest.raises(UnrecognisedDecoding, match="'t': xarray looks at its values") as caught:
        decode(variables, {})
    assert caught.value.reasons.keys() == {"t"}
    variables = {"t": raw(units="days"), "v": raw(dtype="S1", dims="xy"), "w": raw()}
    with pytest.raises(UnrecognisedDecoding) as caught:
        decode(variables, {}, Options(decode_timedelta=True))
    assert caught.value.reasons.keys() == {"t", "v"}
    assert caught.value.reasons["t"] == "xarray decodes it from int16 to timedelta64[ns]"


def test_times_that_xarray_cannot_decode_raise_what_xarray_raises() -> None:
    with pytest.raises(ValueError, match="unable to decode time units") as caught:
        decode({"t": held([1, 2], units="fortnights since the flood")}, {})
    assert any("variable 't'" in note for note in caught.value.__notes__)


def test_kinds_of_time() -> None:
    assert time_kind(np.array([1], "M8[s]")) == "datetime64"
    assert time_kind(np.array([1], "m8[ns]")) == "timedelta64"
    assert time_kind(np.array([None, np.nan, cftime.DatetimeNoLeap(1, 1, 1)])) == "cftime/noleap"
    assert time_kind(np.array([cftime.Datetime360Day(1, 1, 1)])) == "cftime/360_day"
    for other in (np.array([1.0]), np.array(["a"]), np.array(["a"], object), np.array([], object)):
        assert time_kind(other) is None


# xarray's own faults: what it does, and that we refuse.


def refused(variable: RawVariable, **options: Any) -> str:
    with pytest.raises(UpstreamFault) as caught:
        decode({"v": variable}, {}, Options(**options))
    assert caught.value.array == "v"
    assert caught.value.remedy
    decoded = decode({"v": variable, "w": raw()}, {}, Options(**options), on_fault="collect")
    assert decoded.variables.keys() == {"w"}
    assert str(decoded.faults["v"]) == str(caught.value)
    return str(caught.value)


def both(values: np.ndarray[Any, Any], attrs: Attrs) -> tuple[RawVariable, RawVariable]:
    """The variable, virtual and loaded: the fault is there either way."""
    return raw(values.dtype, **attrs), held(values, **attrs)


def test_fault_big_endian_unsigned_fill() -> None:
    attrs = {"_Unsigned": "true", "_FillValue": np.int16(-2)}
    native = np.array([1, -2, 100], "i2")
    swapped = native.astype(native.dtype.newbyteorder())
    np.testing.assert_array_equal(xarrays(native, attrs), np.array([1, np.nan, 100], "f4"))
    np.testing.assert_array_equal(xarrays(swapped, attrs), np.array([1, 65534, 100], "f4"))
    for variable in both(swapped, attrs):
        assert "byte-swaps the _FillValue" in refused(variable)
        decode({"v": variable}, {}, Options(mask_and_scale={"v": False}))  # the remedy
    # not where it does no harm: no fill, the same number either way, the other direction
    for dtype, harmless in (
        (swapped.dtype, {"_Unsigned": "true"}),
        (swapped.dtype, {"_Unsigned": "true", "_FillValue": np.int16(-1)}),
        (swapped.dtype, {"_FillValue": np.int16(-2)}),
        (">u2", {"_Unsigned": "false", "_FillValue": np.uint16(65534)}),
        ("i2", attrs),
        ("i1", {"_Unsigned": "true", "_FillValue": np.int8(-2)}),
    ):
        assert virtual(decode({"v": raw(dtype, **harmless)}, {})).recipe.steps


def test_fault_integer_scale_with_a_fill() -> None:
    attrs = {"scale_factor": np.int16(2), "_FillValue": np.int16(-999)}
    values = np.array([1, 2, 3], "i2")
    lazy = xarrays(values, attrs)
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        lazy.load()
    for variable in both(values, attrs):
        assert "integer scale_factor" in refused(variable)
    for harmless in (
        {"scale_factor": np.int16(2)},
        {"scale_factor": np.int16(2), "add_offset": np.int16(0), "_FillValue": np.int16(-999)},
        {"scale_factor": np.float32(2), "_FillValue": np.int16(-999)},
    ):
        assert virtual(decode({"v": raw(**harmless)}, {})).recipe.steps


@pytest.mark.parametrize(
    ("values", "scale", "wrong"),
    [
        (np.array([0.5, 1.5], "f4"), np.int16(1), [0, 1]),
        (np.array([70000, 1], "i4"), np.int16(1), [4464, 1]),
        (np.array([300, -1], "i2"), np.uint8(1), [44, 255]),
    ],
)
def test_fault_integer_scale_that_cannot_hold_the_data(values: Any, scale: Any, wrong: Any) -> None:
    attrs = {"scale_factor": scale}
    np.testing.assert_array_equal(xarrays(values, attrs), wrong)
    for variable in both(values, attrs):
        assert "the type of its scale_factor" in refused(variable)


def test_fault_integer_durations_with_a_fill() -> None:
    attrs = {"units": "days", "_FillValue": np.int32(-999)}
    values = np.array([1, -999, 3], "i4")
    np.testing.assert_array_equal(xarrays(values, attrs), [1, np.iinfo("i8").min, 3])
    for variable in both(values, attrs):
        assert "-2**63" in refused(variable)
        numbers = decode({"v": variable}, {}, Options(decode_timedelta=False))  # the remedies
        assert "v" in numbers.variables
    durations = decode({"v": held(values, **attrs)}, {}, Options(decode_timedelta=True))
    expected = np.array([1, "NaT", 3], "m8[D]")
    np.testing.assert_array_equal(durations.variables["v"].values, expected)
    for dtype, harmless in (
        ("i4", {"units": "days"}),
        ("f4", attrs),
        ("i4", attrs | {"scale_factor": 0.1}),
        ("i4", attrs | {"units": "day"}),
    ):
        assert isinstance(decode({"v": raw(dtype, **harmless)}, {}).variables["v"], VirtualVariable)
    typed = held(values, **attrs, dtype="timedelta64[s]")
    assert decode({"v": typed}, {}).variables["v"].dtype == "m8[s]"


def concatenated(*arrays: Any) -> np.ndarray[Any, Any]:
    datasets = [xr.Dataset({"v": ("x", np.asarray(array))}) for array in arrays]
    return xr.concat(datasets, "x")["v"].values


def test_fault_durations_joined_with_integers() -> None:
    hour = np.array([1], "m8[h]").astype("m8[ns]")
    joined = concatenated(hour, np.array([1]))
    np.testing.assert_array_equal(joined, np.array([3_600_000_000_000, 1], "m8[ns]"))
    assert time_kind(hour) != time_kind(np.array([1]))


def test_fault_sorts_of_time_joined_by_nested_combine() -> None:
    times = np.array(["2000-01-01"], "M8[ns]")
    noleap = np.array([cftime.DatetimeNoLeap(2000, 1, 2)])
    days360 = np.array([cftime.Datetime360Day(2000, 1, 2)])
    for first, second in itertools.combinations([times, noleap, days360], 2):
        parts = [xr.Dataset({"v": ("t", [1.0])}, {"t": t}) for t in (first, second)]
        joined = xr.combine_nested(parts, "t")["t"].values
        assert joined.dtype == object
        with pytest.raises(TypeError):
            np.sort(joined)
        assert time_kind(first) != time_kind(second)


# Recipes.


def test_recipes_state_the_types_that_take_part() -> None:
    attrs = {
        "scale_factor": np.float32(0.01),
        "add_offset": np.float64(5),
        "missing_value": np.array([7.0, 3.0]),
        "_FillValue": np.int16(-1),
    }
    with quiet():
        recipe = virtual(decode({"v": raw(">i2", **attrs)}, {})).recipe
    assert [str(step) for step in recipe.steps] == [
        "mask(dtype=<f8, fills=3, value=nan)",
        "scale(dtype=<f8, offset=True, scale=True)",
    ]
    assert {key: number.dtype.str for key, number in recipe.parameters.items()} == {
        "fill_0": "<f8",
        "fill_1": "<f8",
        "fill_2": "<i2",
        "scale": "<f4",
        "offset": "<f8",
    }
    assert [recipe.parameters[f"fill_{i}"] for i in range(3)] == [3, 7, -1]


def test_equal_attributes_give_equal_recipes() -> None:
    for dtype in ("i2", ">i2", "f4", ">f4"):
        assert virtual(decode({"v": raw(dtype)}, {})).recipe.steps == ()
    with quiet():
        one, other = (
            virtual(decode({"v": raw(missing_value=np.array(fills, "i2"))}, {})).recipe
            for fills in ([3, 1, 2], [2, 3, 1])
        )
    assert one == other


@pytest.mark.parametrize(
    ("dtype", "attrs"),
    [
        ("i2", {"scale_factor": np.array([0.1], "f4")}),
        ("i2", {"scale_factor": "0.1"}),
        ("i2", {"_FillValue": "x"}),
        ("?", {"_FillValue": np.int8(1)}),
        ("c8", {"_FillValue": np.float32(1)}),
        ("i2", {"_Encoding": "utf-8"}),
    ],
)
def test_what_no_step_describes_has_to_be_loaded(dtype: str, attrs: Mapping[str, Any]) -> None:
    with pytest.raises(UnrecognisedDecoding):
        decode({"v": raw(dtype, **attrs)}, {})


def test_what_cannot_be_decoded_raises_what_xarray_raises() -> None:
    with pytest.raises(TypeError) as caught:
        decode({"v": held(np.array([1, 2], "i2"), scale_factor="0.1")}, {})
    assert any("variable 'v'" in note for note in caught.value.__notes__)
    with pytest.raises(ValueError, match="can only convert an array of size 1"):
        decode({"v": held(np.array([1, 2], "i2"), scale_factor=np.array([1.0, 2.0]))}, {})


def test_arrays_as_numbers_are_decoded_in_memory_as_xarray_does() -> None:
    attrs = {"scale_factor": np.array([0.5], "f4")}
    values = np.array([1, 2], "i2")
    decoded = decode({"v": held(values, **attrs)}, {}).variables["v"]
    assert isinstance(decoded, xr.Variable)
    xr.testing.assert_identical(decoded, xarrays(values, attrs))


def test_xarrays_warnings_are_passed_on() -> None:
    with pytest.warns(xr.SerializationWarning, match="'v' has multiple fill values"):
        decode({"v": raw(missing_value=np.array([1, 2], "i2"))}, {})
