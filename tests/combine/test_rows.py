"""Each row of the table that summaries can show: found, told, and settled as the row says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from intarsia.combine import TABLE, Options, Outcome
from intarsia.encoding import Codec
from intarsia.errors import AlignmentConflict, CombineConflict, UpstreamFault
from tests.combine.make import BY_COORDS, LAT, NESTED, Archive, index, times, told

FIRST = replace(NESTED, on_conflict="first")


def test_like_files_differ_in_nothing() -> None:
    decision = Archive().decide()
    assert decision.differences == ()
    assert decision.concat_dims == ("time",)
    decision.raise_if_refused()


def test_no_source() -> None:
    archive = Archive(0)
    assert archive.decide().differences == ()
    assert archive.decide(BY_COORDS).differences == ()


def test_one_source() -> None:
    assert Archive(1).decide().differences == ()
    assert Archive(1).decide(BY_COORDS).differences == ()


# ------------------------------------------------------------------------------------ storage


def test_codec() -> None:
    archive = Archive().change(1, "sst", filters=("zlib",)).change(2, "sst", filters=())
    found = archive.the("codec")
    assert found.variable == "sst"
    assert found.outcome is Outcome.EQUAL
    assert told(found) == [
        ("shuffle > zlib", "a.nc", 1),
        ("zlib", "b.nc", 1),
        ("not compressed", "c.nc", 1),
    ]
    assert archive.kinds() == {"codec"}


def test_codec_configurations() -> None:
    deep, flat = Codec.make("zlib", level=9), Codec.make("zlib", level=1)
    archive = Archive().everywhere("sst", filters=(flat,)).change(1, "sst", filters=(deep,))
    assert told(archive.the("codec")) == [
        ("zlib(level=1)", "a.nc", 2),
        ("zlib(level=9)", "b.nc", 1),
    ]


def test_codec_size_of_elements_is_no_difference_of_its_own() -> None:
    archive = Archive()
    for file, size in enumerate((2, 4, 2)):
        archive.change(
            file, "sst", filters=(Codec.make("shuffle", elementsize=size),),
            stored=np.dtype(f"<i{size}"),
        )  # fmt: skip
    assert archive.kinds() == {"stored-dtype"}


def test_codec_of_the_library() -> None:
    pipeline = ((4, 0, (141, 32), "szip"), (2, 0, (2,), "shuffle"))
    whole = Codec.make("hdf5", pipeline=pipeline, datatype="ab", chunk_shape=(1, 4))
    other = Codec.make("hdf5", pipeline=pipeline, datatype="ab", chunk_shape=(3, 4))
    archive = Archive().change(1, "sst", filters=(whole,)).change(2, "sst", filters=(other,))
    assert told(archive.the("codec"))[1] == ("szip > shuffle", "b.nc", 2)


def test_skipped_filters() -> None:
    found = Archive().change(1, "sst", skipped_filters=True).the("skipped-filters")
    assert [text for text, _, _ in told(found)] == [
        "no chunk skips any",
        "some chunks skip filters",
    ]


def test_checksum() -> None:
    archive = Archive().change(1, "sst", filters=("shuffle", "zlib", "fletcher32"))
    assert told(archive.the("checksum")) == [("none", "a.nc", 2), ("checksums", "b.nc", 1)]
    assert archive.kinds() == {"checksum"}


def test_chunks() -> None:
    archive = Archive().change(1, "sst", chunks=(3, 2))
    assert told(archive.the("chunks")) == [("(1, 4)", "a.nc", 2), ("(3, 2)", "b.nc", 1)]
    assert archive.kinds() == {"chunks"}


def test_partial_chunks() -> None:
    archive = Archive().everywhere("sst", chunks=(2, 4))
    found = archive.the("partial-chunks")
    assert (found.item, told(found)) == ("time", [("3 in chunks of 2", "a.nc", 3)])
    assert archive.kinds() == {"partial-chunks"}


def test_layout() -> None:
    archive = Archive().change(2, "sst", layout="contiguous", chunks=None, filters=())
    assert told(archive.the("layout")) == [("chunked", "a.nc", 2), ("contiguous", "c.nc", 1)]
    assert "chunks" not in archive.kinds()


def test_storage_that_is_not_known_is_not_compared() -> None:
    archive = Archive().change(
        1, "sst", layout=None, chunks=None, filters=(), stored=None, raw_fill=None
    )
    assert archive.kinds() == set()


def test_byte_order() -> None:
    archive = Archive().change(1, "sst", stored=np.dtype(">i2"))
    assert told(archive.the("byte-order")) == [
        ("little-endian", "a.nc", 2),
        ("big-endian", "b.nc", 1),
    ]
    assert archive.kinds() == {"byte-order"}


def test_raw_fill() -> None:
    archive = Archive().change(1, "sst", raw_fill=np.int16(0))
    assert told(archive.the("raw-fill")) == [("-999", "a.nc", 2), ("0", "b.nc", 1)]


def test_padded() -> None:
    archive = Archive().change(1, "sst", padded=True)
    assert told(archive.the("padded"))[1] == ("shorter than its dimension", "b.nc", 1)


# ------------------------------------------------------------------------------------ packing


def test_scale_offset() -> None:
    archive = Archive().change(1, "sst", scale=np.float32(0.02), offset=None)
    archive.change(2, "sst", scale=None, offset=None)
    assert told(archive.the("scale-offset")) == [
        ("scale 0.01, offset 273.15", "a.nc", 1),
        ("scale 0.02", "b.nc", 1),
        ("not packed", "c.nc", 1),
    ]
    assert archive.the("scale-offset").outcome is Outcome.EQUAL


def test_fill() -> None:
    archive = Archive().change(1, "sst", fills=(np.int16(-999), np.int16(-1)))
    archive.change(2, "sst", fills=())
    assert [text for text, _, _ in told(archive.the("fill"))] == ["-999", "-999, -1", "none"]


def test_fill_of_nan_equals_itself() -> None:
    archive = Archive().everywhere("sst", fills=(np.float32("nan"),), stored=np.dtype("<f4"))
    archive.change(1, "sst", fills=(np.frombuffer(b"\x01\0\xc0\x7f", "<f4")[0],))
    assert archive.kinds() == set()


def test_unsigned() -> None:
    archive = Archive().change(1, "sst", unsigned="true")
    assert told(archive.the("unsigned")) == [("none", "a.nc", 2), ("'true'", "b.nc", 1)]


def test_packing_types() -> None:
    archive = Archive().change(1, "sst", scale=np.float64(0.01), offset=np.float64(273.15))
    assert told(archive.the("packing-types")) == [
        ("scale float32, offset float32", "a.nc", 2),
        ("scale float64, offset float64", "b.nc", 1),
    ]
    # 0.01 is not the same number in both types, and the text says which is which
    assert told(archive.the("scale-offset"))[1][0] == (
        "scale 0.01 (float64), offset 273.15 (float64)"
    )


def test_packing_types_alone() -> None:
    archive = Archive().everywhere("sst", scale=np.float32(0.5), offset=None)
    archive.change(1, "sst", scale=np.float64(0.5))
    assert archive.kinds() == {"packing-types"}


def test_packing_attributes() -> None:
    """Values that were not unpacked: joined, they would all be read by the first file's scale."""
    archive = Archive().everywhere(
        "sst", scale=None, offset=None, fills=(), dtype=np.dtype("i2"), attrs={"scale_factor": 0.1}
    )
    archive.change(1, "sst", attrs={"scale_factor": 0.2})
    found = archive.the("packing-attributes")
    assert (found.item, found.outcome) == ("scale_factor", Outcome.REFUSED)
    with pytest.raises(CombineConflict, match=r"scale_factor.*0\.1 in a\.nc and 0\.2 in b\.nc"):
        archive.decide().raise_if_refused()
    archive.decide(FIRST).raise_if_refused()


# -------------------------------------------------------------------------------------- types


def test_stored_dtype() -> None:
    archive = Archive().change(1, "sst", stored=np.dtype("<i4"))
    assert told(archive.the("stored-dtype")) == [("int16", "a.nc", 2), ("int32", "b.nc", 1)]


def test_dtype() -> None:
    archive = Archive().change(1, "sst", dtype=np.dtype("f8"))
    found = archive.the("dtype", replace(NESTED, promote=lambda dtypes, hole: max(dtypes)))
    assert told(found) == [("float32", "a.nc", 2), ("float64", "b.nc", 1)]
    assert found.what == (
        "equal to xarray: promoted as xarray promotes them (the whole is float64)"
    )


def test_dtype_lengths_of_strings_are_no_difference() -> None:
    archive = Archive().everywhere("id", dims=("time",), shape=(3,), dtype=np.dtype("U3"))
    archive.change(1, "id", dtype=np.dtype("U5"))
    assert archive.kinds() == set()


@pytest.mark.parametrize(
    ("one", "other"),
    [("f4", "U3"), ("i4", "O"), ("S3", "U3"), ("M8[ns]", "f8"), ("b1", "U3"), ("i4,f4", "f8")],
)
def test_dtype_object(one: str, other: str) -> None:
    archive = Archive().everywhere("id", dims=("time",), shape=(3,), dtype=np.dtype(one))
    archive.change(1, "id", dtype=np.dtype(other))
    assert archive.the("dtype-object").outcome is Outcome.REFUSED
    with pytest.raises(
        CombineConflict, match=r"have none in common: 'id', .* in a\.nc and .* in b"
    ):
        archive.decide().raise_if_refused()
    assert archive.the("dtype-object", FIRST).outcome is Outcome.EQUAL


def test_hole_object() -> None:
    archive = Archive().everywhere("ok", dims=("time",), shape=(3,), dtype=np.dtype("?"))
    archive.without(1, "ok")
    with pytest.raises(CombineConflict) as caught:
        archive.decide().raise_if_refused()
    assert caught.value.variable == "ok"
    assert caught.value.files == ("a.nc", "b.nc")
    assert "drop_variables='ok'" in str(caught.value)
    archive.decide(FIRST).raise_if_refused()


def test_a_number_may_have_holes() -> None:
    archive = Archive().without(1, "sst")
    archive.decide().raise_if_refused()


# -------------------------------------------------------------------------------------- shape


def test_length() -> None:
    archive = Archive()
    archive.change(1, "sst", shape=(2, 4)).files[1]["time"] = index("time", times(3, 2))
    found = archive.the("length")
    assert (found.variable, found.item) == (None, "time")
    assert told(found) == [("3", "a.nc", 2), ("2", "b.nc", 1)]


def test_absent_variable() -> None:
    archive = Archive().without(1, "sst")
    options = replace(NESTED, promote=lambda dtypes, hole: np.dtype("f8" if hole else "f4"))
    found = archive.the("absent-variable", options)
    assert told(found) == [("present, float32", "a.nc", 2), ("absent", "b.nc", 1)]
    assert found.what == (
        "equal to xarray: missing values in those files' part (the whole is float64)"
    )
    by_coords = archive.the("absent-variable", BY_COORDS)
    assert "files with the same variables are combined first" in by_coords.done


def test_absent_variable_where_files_are_merged() -> None:
    archive = Archive(4).without(0, "sst").without(2, "sst")
    for file in (0, 1):
        archive.files[file]["time"] = index("time", times(0))
        archive.files[file + 2]["time"] = index("time", times(3))
    merged = Options(
        combine="nested", concat_dims=("time", None), tiles=[(0, 0), (0, 1), (1, 0), (1, 1)]
    )
    assert archive.the("absent-variable", merged).done == (
        "merged: taken from the files that have it"
    )
    holes = replace(merged, tiles=[(0, 0), (1, 0), (0, 1), (1, 1)])
    assert "missing values" in archive.without(3, "sst").the("absent-variable", holes).done


def test_missing_tiles() -> None:
    archive = Archive(3)
    for file, row in enumerate((0, 1, 1)):
        _lat(file, LAT + 200 * row, archive)
        archive.files[file]["time"] = index("time", times(0 if file < 2 else 3))
    found = archive.the("missing-tiles", BY_COORDS)
    assert (found.item, told(found)) == ("time and lat", [("3 of 4 places", "a.nc", 3)])
    assert found.outcome is Outcome.EQUAL
    archive.decide(BY_COORDS).raise_if_refused()
    archive.everywhere("ok", dims=("time",), shape=(3,), dtype=np.dtype("?"))
    with pytest.raises(CombineConflict, match="'ok'"):
        archive.decide(BY_COORDS).raise_if_refused()


def test_absent_coordinate() -> None:
    archive = Archive().everywhere(
        "lead", dims=("time",), shape=(3,), dtype=np.dtype("i4"), is_coordinate=True
    )
    archive.without(1, "lead")
    assert archive.the("absent-coordinate").outcome is Outcome.REFUSED
    with pytest.raises(CombineConflict, match="drop_variables='lead'"):
        archive.decide().raise_if_refused()


def test_absent_coordinate_of_another_dimension() -> None:
    archive = Archive().without(1, "lat")
    assert archive.the("absent-coordinate").outcome is Outcome.EQUAL
    archive.decide().raise_if_refused()


def test_coordinate_or_data() -> None:
    archive = Archive().everywhere("lead", dims=("time",), shape=(3,), dtype=np.dtype("i4"))
    archive.change(1, "lead", is_coordinate=True)
    assert told(archive.the("coordinate-or-data")) == [
        ("data variable", "a.nc", 2),
        ("coordinate", "b.nc", 1),
    ]
    with pytest.raises(CombineConflict, match="lead"):
        archive.decide(FIRST).raise_if_refused()  # xarray can't either


def test_dims_order() -> None:
    archive = Archive().change(1, "sst", dims=("lat", "time"), shape=(4, 3), chunks=(4, 1))
    assert told(archive.the("dims-order")) == [
        ("(time, lat)", "a.nc", 2),
        ("(lat, time)", "b.nc", 1),
    ]


def test_dims() -> None:
    archive = Archive().change(1, "sst", dims=("lat",), shape=(4,), chunks=(4,))
    assert told(archive.the("dims")) == [("(time, lat)", "a.nc", 2), ("(lat)", "b.nc", 1)]
    assert "static-variable" not in archive.kinds()


def test_static_variable() -> None:
    archive = Archive().everywhere("mask", dims=("lat",), shape=(4,), dtype=np.dtype("i2"))
    assert archive.the("static-variable").done == "repeated along time (data_vars='all')"
    minimal = replace(NESTED, data_vars="minimal", compat="override")
    assert archive.the("static-variable", minimal).done == (
        "kept once (data_vars='minimal', compat='override')"
    )
    different = replace(NESTED, data_vars="different")
    assert "only if its values differ" in archive.the("static-variable", different).done
    new = replace(NESTED, concat_dims=("member",))
    assert "static-variable" not in archive.kinds(new)
    listed = replace(NESTED, data_vars=("mask",))
    assert "repeated" in archive.the("static-variable", listed).done
    defaults = replace(NESTED, data_vars=None)
    assert "kept once" in archive.the("static-variable", defaults).done


def test_static_values() -> None:
    archive = Archive().everywhere(
        "mask", dims=("lat",), shape=(4,), dtype=np.dtype("i2"), digest=b"one"
    )
    assert "static-values" not in archive.kinds()
    archive.change(1, "mask", digest=b"two")
    assert archive.the("static-values").done == "each file's own, along time"
    minimal = replace(NESTED, data_vars="minimal", compat="override")
    assert archive.the("static-values", minimal).done == "the first file's"
    archive.change(1, "mask", digest=None)
    assert "static-values" not in archive.kinds()


def test_dimension_length() -> None:
    archive = Archive().everywhere("v", dims=("time", "n"), shape=(3, 2), dtype=np.dtype("i2"))
    archive.change(1, "v", shape=(3, 5))
    for options in (NESTED, FIRST, replace(NESTED, join="outer"), BY_COORDS):
        with pytest.raises(AlignmentConflict, match=r"2 elements in a\.nc and 5 elements in b\.nc"):
            archive.decide(options).raise_if_refused()


def test_dimension_length_beside_a_coordinate() -> None:
    archive = Archive().without(1, "lat").change(1, "sst", shape=(3, 6))
    assert archive.the("dimension-length").item == "lat"


def test_concat_order() -> None:
    archive = Archive()
    assert "concat-order" not in archive.kinds()
    archive.files[1], archive.files[2] = archive.files[2], archive.files[1]
    found = archive.the("concat-order")
    assert told(found) == [
        ("1970-01-07 .. 1970-01-09 (3)", "b.nc", 1),
        ("1970-01-04 .. 1970-01-06 (3)", "c.nc", 1),
    ]
    assert found.detail == "a file does not come after the one before it (once)"


def test_concat_order_may_fall() -> None:
    archive = Archive()
    archive.files.reverse()
    assert archive.kinds() == set()


def test_concat_order_overlap() -> None:
    archive = Archive()
    archive.files[1]["time"] = index("time", times(2))
    assert archive.the("concat-order").outcome is Outcome.EQUAL


# ------------------------------------------------------------------------------------ meaning


def test_units() -> None:
    archive = Archive().change(1, "sst", attrs={"units": "degC"})
    assert archive.the("units").outcome is Outcome.REFUSED
    with pytest.raises(CombineConflict) as caught:
        archive.decide().raise_if_refused()
    assert str(caught.value) == (
        "units differ: 'sst', 'K' in a.nc and 'degC' in b.nc; convert them with preprocess=, "
        "or pass on_conflict='first' to override"
    )
    assert caught.value.values == ("K", "degC")
    assert caught.value.argument == "on_conflict='first'"
    settled = archive.the("units", FIRST)
    assert settled.outcome is Outcome.EQUAL
    assert "the first file's is kept" in settled.done
    archive.decide(FIRST).raise_if_refused()


def test_units_absent_in_one_file() -> None:
    archive = Archive().change(1, "sst", attrs={"units": None})
    with pytest.raises(CombineConflict, match=r"'K' in a\.nc and none in b\.nc"):
        archive.decide().raise_if_refused()


def test_units_of_a_coordinate() -> None:
    archive = Archive().change(1, "lat", attrs={"units": "radians"})
    assert archive.the("units").variable == "lat"


def test_units_of_times_that_are_not_decoded() -> None:
    archive = Archive()
    for file in range(3):
        archive.files[file]["time"] = index(
            "time", np.arange(3) + 3 * file, attrs={"units": "days since 2000-01-01"}
        )
    archive.change(1, "time", attrs={"units": "days since 2000-01-04"})
    assert archive.the("units").outcome is Outcome.REFUSED


@pytest.mark.parametrize("units", ["degree_north", "degrees_N", " degrees_north"])
def test_units_spelling(units: str) -> None:
    archive = Archive().change(1, "lat", attrs={"units": units})
    assert archive.the("units-spelling").outcome is Outcome.EQUAL
    archive.decide().raise_if_refused()


def test_grid_mapping() -> None:
    archive = Archive().everywhere("sst", attrs={"grid_mapping": "crs"})
    archive.change(2, "sst", attrs={"grid_mapping": "utm"})
    with pytest.raises(CombineConflict, match=r"grid mappings differ: 'sst', 'crs' in a\.nc and"):
        archive.decide().raise_if_refused()
    archive.decide(FIRST).raise_if_refused()


def test_grid_mapping_attributes() -> None:
    archive = Archive().everywhere("sst", attrs={"grid_mapping": "crs: lat lon"})
    attrs = {"grid_mapping_name": "mercator", "earth_radius": 6371229.0, "long_name": "one"}
    archive.everywhere("crs", dims=(), shape=(), dtype=np.dtype("i4"), attrs=attrs)
    archive.change(1, "crs", attrs={"long_name": "another"})
    assert "grid-mapping" not in archive.kinds()
    archive.change(1, "crs", attrs={"earth_radius": 6371000.0})
    found = archive.the("grid-mapping")
    assert found.variable == "crs"
    assert [text for text, _, _ in told(found)] == [
        "earth_radius=6371229.0",
        "earth_radius=6371000.0",
    ]
    assert {d.item for d in archive.decide().differences if d.kind == "variable-attributes"} == {
        "long_name"
    }


def test_time_epoch() -> None:
    archive = Archive().change(1, "time", units="hours since 1970-01-01")
    found = archive.the("time-epoch")
    assert found.outcome is Outcome.EQUAL
    assert told(found)[1] == ("'hours since 1970-01-01'", "b.nc", 1)
    assert "units" not in archive.kinds()


def test_bounds_epoch() -> None:
    archive = Archive().everywhere("time", attrs={"bounds": "time_bnds"})
    bounds = {"dims": ("time", "n"), "shape": (3, 2), "dtype": np.dtype("M8[ns]")}
    archive.everywhere("time_bnds", **bounds, units="days since 1970-01-01")
    archive.change(1, "time_bnds", units="hours since 1970-01-01")
    assert archive.the("bounds-epoch").variable == "time_bnds"


def _dates(archive: Archive, file: int, calendar: str, dtype: str = "O") -> None:
    archive.change(
        file, "when", dims=("time",), shape=(3,), dtype=np.dtype(dtype), calendar=calendar
    )


def test_calendar() -> None:
    archive = Archive()
    for file, calendar in enumerate(("noleap", "360_day", "noleap")):
        _dates(archive, file, calendar)
    with pytest.raises(CombineConflict, match="calendars differ: 'when'.*convert_calendar"):
        archive.decide().raise_if_refused()
    assert told(archive.the("calendar")) == [
        ("noleap (cftime)", "a.nc", 2),
        ("360_day (cftime)", "b.nc", 1),
    ]
    archive.decide(FIRST).raise_if_refused()


def test_calendar_of_numpy_beside_cftime() -> None:
    archive = Archive()
    for file, dtype in enumerate(("M8[ns]", "O", "M8[ns]")):
        _dates(archive, file, "standard", dtype)
    with pytest.raises(CombineConflict, match="use_cftime=True"):
        archive.decide().raise_if_refused()
    assert archive.kinds() == {"calendar"}


def test_calendar_that_is_not_decoded() -> None:
    archive = Archive()
    attrs = {"units": "days since 2000-01-01", "calendar": "noleap"}
    archive.everywhere("when", dims=("time",), shape=(3,), dtype=np.dtype("i4"), attrs=attrs)
    archive.change(1, "when", attrs={"calendar": "360_day"})
    assert archive.the("calendar").outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("dtype", "names"),
    [("M8[ns]", ("standard", "proleptic_gregorian")), ("O", ("noleap", "365_day"))],
)
def test_calendar_name(dtype: str, names: tuple[str, str]) -> None:
    archive = Archive()
    for file in range(3):
        _dates(archive, file, names[file % 2], dtype)
    assert archive.the("calendar-name").outcome is Outcome.EQUAL
    archive.decide().raise_if_refused()


def test_flag_meanings() -> None:
    archive = Archive().everywhere("sst", attrs={"flag_meanings": "land sea"})
    archive.change(1, "sst", attrs={"flag_meanings": "sea land"})
    found = archive.the("flag-meanings")
    assert found.item == "flag_meanings"
    assert "numbers are kept" in found.done


SKY = ((0, "clear"), (1, "cloudy"), (9, "rain"))


def test_enum_meanings() -> None:
    swapped = ((1, "clear"), (0, "cloudy"), (9, "rain"))
    archive = Archive().everywhere("sst", meanings=SKY).change(1, "sst", meanings=swapped)
    found = archive.the("enum-meanings")
    assert (found.outcome, found.variable) == (Outcome.REFUSED, "sst")
    assert told(found) == [
        ("0 is 'clear', 1 is 'cloudy'", "a.nc", 2),
        ("0 is 'cloudy', 1 is 'clear'", "b.nc", 1),
    ]
    with pytest.raises(CombineConflict, match="what the numbers .* mean: 'sst'.*a.nc.*b.nc.*first"):
        archive.decide().raise_if_refused()
    first = archive.the("enum-meanings", FIRST)
    assert first.outcome is Outcome.EQUAL
    assert "named as in the first file" in first.done
    assert archive.kinds() == {"enum-meanings"}


@pytest.mark.parametrize("other", [((0, "fair"), *SKY[1:]), ((3, "clear"), *SKY[1:])])
def test_enum_meanings_of_one_member(other: tuple[tuple[int, str], ...]) -> None:
    archive = Archive().everywhere("sst", meanings=SKY).change(2, "sst", meanings=other)
    archive.change(1, "sst", meanings=None)
    found = archive.the("enum-meanings")
    number, name = other[0]
    assert told(found) == [
        ("0 is 'clear'", "a.nc", 1),
        ("numbers without names", "b.nc", 1),
        (f"{number} is {name!r}", "c.nc", 1),
    ]


def test_enum_members() -> None:
    archive = Archive().everywhere("sst", meanings=SKY).change(0, "sst", meanings=SKY[:2])
    archive.change(2, "sst", meanings=None)
    found = archive.the("enum-members")
    assert found.outcome is Outcome.EQUAL
    assert told(found) == [
        ("no other names", "a.nc", 1),
        ("9 is 'rain'", "b.nc", 1),
        ("numbers without names", "c.nc", 1),
    ]
    assert archive.kinds() == {"enum-members"}
    many = tuple((number, f"n{number}") for number in range(20))
    archive = Archive().everywhere("sst", meanings=many).change(1, "sst", meanings=())
    assert told(archive.the("enum-members"))[0][0].endswith("7 is 'n7', and 12 more")


def test_variable_attributes() -> None:
    archive = Archive().change(1, "sst", attrs={"long_name": "SST", "valid_min": np.int16(0)})
    found = {d.item: d for d in archive.decide().differences}
    assert set(found) == {"long_name", "valid_min"}
    assert found["long_name"].done == "the first file's is kept"
    assert told(found["valid_min"]) == [("none", "a.nc", 2), ("0", "b.nc", 1)]
    dropped = replace(NESTED, combine_attrs="drop_conflicts")
    assert {d.done for d in archive.decide(dropped).differences} == {"dropped"}


def test_variable_attributes_of_other_types_are_told_apart() -> None:
    archive = Archive().everywhere("sst", attrs={"valid_min": np.float32(1)})
    archive.change(1, "sst", attrs={"valid_min": np.float64(1)})
    assert [text for text, _, _ in told(archive.the("variable-attributes"))] == [
        "1.0 (float32)",
        "1.0 (float64)",
    ]


def test_global_attributes() -> None:
    archive = Archive()
    archive.attrs[1] = {"title": "SST, again"}
    archive.attrs[2] = {"title": "SST", "history": "made"}
    found = {d.item: d for d in archive.decide().differences}
    assert set(found) == {"title", "history"}
    assert {d.kind for d in found.values()} == {"global-attributes"}
    assert {d.variable for d in found.values()} == {None}
    assert told(found["title"])[1] == ("'SST, again'", "b.nc", 1)


# -------------------------------------------------------------------------------- coordinates


def _lat(file: int, values: np.ndarray, archive: Archive | None = None) -> Archive:
    archive = archive or Archive()
    archive.files[file]["lat"] = index("lat", values, attrs={"units": "degrees_north"})
    return archive.change(file, "sst", shape=(3, len(values)))


@pytest.mark.parametrize("options", [NESTED, BY_COORDS])
def test_coordinate_jitter(options: Options) -> None:
    archive = _lat(1, LAT + 1e-7)
    _lat(2, LAT + np.array([0, 0, 0, 2e-7]), archive)
    found = archive.the("coordinate-jitter", options)
    with pytest.raises(AlignmentConflict) as caught:
        archive.decide(options).raise_if_refused()
    error = caught.value
    assert error.variable == "lat"
    assert error.files[:2] == ("a.nc", "c.nc")  # the first, and the one that is furthest off
    assert "the largest distance is 2e-07, in c.nc" in str(error)
    assert error.argument == "join='override'"
    assert "tolerance=2e-07" in str(error)
    assert found.distinct == 3

    joined = archive.the("coordinate-jitter", replace(options, join="outer"))
    assert joined.what.startswith("equal to xarray: as xarray's join='outer'")
    close = archive.decide(replace(options, tolerance=1e-6))
    close.raise_if_refused()
    assert [(a.source, a.dim, a.flip, a.relabel, a.reference) for a in close.adjustments] == [
        (1, "lat", False, True, 0),
        (2, "lat", False, True, 0),
    ]
    assert close.differences[0].outcome is Outcome.DIFFERS
    assert archive.the("coordinate-jitter", replace(options, tolerance=1e-7)).refused
    assert archive.decide(options).adjustments == ()


def test_coordinate_jitter_of_types() -> None:
    """float32 and float64 coordinates are only equal where the numbers are."""
    assert "coordinate-jitter" not in _lat(1, LAT.astype("f4")).kinds()
    archive = Archive()
    for file, dtype in enumerate(("f8", "f4", "f8")):
        _lat(file, np.linspace(0, 1, 11).astype(dtype), archive)
    assert archive.kinds() == {"coordinate-jitter", "dtype"}


def test_coordinate_jitter_of_times() -> None:
    archive = Archive()
    for file in range(3):
        late = np.timedelta64(90, "s") if file == 1 else np.timedelta64(0, "s")
        archive.files[file]["hour"] = index("hour", times(0) + late)
    found = archive.the("coordinate-jitter")
    assert found.detail == "the largest distance is 1.5 minutes"
    assert "numpy.timedelta64" in str(found.remedy)
    close = archive.decide(replace(NESTED, tolerance=np.timedelta64(2, "m")))
    assert [a.source for a in close.adjustments] == [1]
    assert archive.the("coordinate-jitter", replace(NESTED, tolerance=1e9)).refused


def test_coordinate_reversed() -> None:
    archive = _lat(1, LAT[::-1])
    for options in (NESTED, BY_COORDS):
        with pytest.raises(AlignmentConflict, match=r"reversed: 'lat'.*align='flip'"):
            archive.decide(options).raise_if_refused()
        flipped = archive.decide(replace(options, align="flip"))
        flipped.raise_if_refused()
        assert [(a.source, a.flip, a.relabel) for a in flipped.adjustments] == [(1, True, False)]


def test_coordinate_reversed_with_jitter() -> None:
    archive = _lat(1, LAT[::-1] + 1e-7)
    assert archive.the("coordinate-reversed").detail == "and up to 1e-07 off"
    assert archive.the("coordinate-reversed", replace(NESTED, align="flip")).refused
    both = archive.decide(replace(NESTED, align="flip", tolerance=1e-6))
    assert [(a.flip, a.relabel) for a in both.adjustments] == [(True, True)]


def test_coordinate_length() -> None:
    archive = _lat(1, LAT[:3])
    found = archive.the("coordinate-length")
    assert found.detail == "3 values against 4, 3 in common"
    with pytest.raises(
        AlignmentConflict, match=r"-30 \.\. 30 \(4\) in a\.nc and -30 \.\. 10 \(3\)"
    ):
        archive.decide().raise_if_refused()
    archive.decide(replace(NESTED, join="inner")).raise_if_refused()
    with pytest.raises(AlignmentConflict, match="overlap"):
        archive.decide(BY_COORDS).raise_if_refused()


def test_coordinate_values() -> None:
    archive = _lat(1, LAT + 20)
    assert archive.the("coordinate-values").detail == "up to 20 apart"
    assert archive.the("coordinate-values", FIRST).refused, "on_conflict is about attributes"


def test_coordinate_values_of_strings() -> None:
    archive = Archive()
    for file, names in enumerate((["a", "b"], ["a", "c"], ["b", "a"])):
        archive.files[file]["station"] = index("station", np.array(names, object))
    assert archive.the("coordinate-values").examples[1].url == "b.nc"
    assert archive.the("coordinate-reversed").examples[1].url == "c.nc"


def test_coordinates_in_a_mosaic() -> None:
    """Tiles of one row share their latitudes, tiles of one column their longitudes."""
    make = Archive(4)
    lon = np.array([0.0, 1.0])
    for file, (row, column) in enumerate(tiles := [(0, 0), (0, 1), (1, 0), (1, 1)]):
        _lat(file, LAT + 200 * row, make)
        make.files[file]["lon"] = index("lon", lon + 10 * column)
        make.files[file]["time"] = index("time", times(0))
    options = Options(combine="nested", concat_dims=("lat", "lon"), tiles=tiles)
    assert make.decide(options).differences == ()
    assert make.decide(BY_COORDS).differences == ()
    assert make.decide(BY_COORDS).concat_dims == ("lat", "lon")
    _lat(3, LAT + 200 + 1e-6, make)
    found = make.the("coordinate-jitter", options)
    assert [example.url for example in found.examples] == ["c.nc", "d.nc"]
    assert make.the("coordinate-jitter", BY_COORDS).refused


def test_coordinates_that_order_the_files_are_no_conflict() -> None:
    decision = Archive().decide(BY_COORDS)
    assert decision.concat_dims == ("time",)
    assert decision.differences == ()


def test_coordinates_of_wholes_made_by_coords() -> None:
    """Files with other variables are combined apart, then merged: those wholes must agree."""
    archive = Archive(4)
    for file in (2, 3):
        archive.files[file]["ice"] = archive.files[file].pop("sst")
        archive.files[file]["time"] = index("time", times(3 * (file - 2)))
    assert archive.kinds(BY_COORDS) == {"absent-variable"}
    archive.files[3]["time"] = index("time", times(3) + np.timedelta64(1, "h"))
    assert archive.the("coordinate-jitter", BY_COORDS).refused
    archive.files[2]["time"] = index("time", times(100))
    archive.files[3]["time"] = index("time", times(103))
    assert archive.kinds(BY_COORDS) == {"absent-variable"}
    archive.everywhere("ok", dims=("time",), shape=(3,), dtype=np.dtype("?"))
    assert archive.the("hole-object", BY_COORDS).refused


def test_absent_coordinate_by_coords() -> None:
    archive = Archive(4)
    lead = {"dims": ("time",), "shape": (3,), "dtype": np.dtype("i4"), "is_coordinate": True}
    for file in (2, 3):
        archive.files[file]["ice"] = archive.files[file].pop("sst")
        archive.files[file]["time"] = index("time", times(3 * (file - 2)))
        archive.change(file, "lead", **lead)
    assert archive.the("absent-coordinate", BY_COORDS).outcome is Outcome.EQUAL
    archive.without(3, "lead")
    assert archive.the("absent-coordinate", BY_COORDS).refused


# ------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("other", ["i4", "f8", "M8[ns]", "b1", "U3"])
def test_xarray_fault_timedelta_join(other: str) -> None:
    archive = Archive().everywhere("lead", dims=("time",), shape=(3,), dtype=np.dtype("m8[ns]"))
    archive.change(1, "lead", dtype=np.dtype(other))
    with pytest.raises(UpstreamFault, match=r"durations.*a\.nc.*b\.nc.*'lead'.*decode_timedelta"):
        archive.decide(FIRST).raise_if_refused()


def test_xarray_fault_same_place() -> None:
    archive = Archive()
    archive.files[2]["time"] = index("time", times(3, 2))
    archive.change(2, "sst", shape=(2, 4))
    with pytest.raises(UpstreamFault, match=r"silently \(time=1970-01-04 in b\.nc, .* in c\.nc\)"):
        archive.decide(replace(BY_COORDS, join="outer")).raise_if_refused()


def test_the_files_agree_with_the_table() -> None:
    """Every kind that these tests find is refused or not as its row says."""
    archive = Archive().change(1, "sst", attrs={"units": "degC"}, filters=())
    for difference in archive.decide().differences:
        assert difference.outcome is TABLE[difference.kind].outcome
