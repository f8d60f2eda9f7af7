"""The table: every kind of difference between files, what is done about it, and what proves it.

The docs page "What differs, and what happens", `intarsia check` and `report()` are made from these
rows, so that they can't say different things. A row's `kind` never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from intarsia.combine.row import ORACLES, SECTIONS, Outcome, Row

__all__ = ["ORACLES", "SECTIONS", "TABLE", "Outcome", "Row", "row"]


def _equal(kind: str, section: str, test: str, title: str, done: str, *, override: str = "") -> Row:
    return Row(kind, section, title, Outcome.EQUAL, done, "xarray", test, override)


def _refused(
    kind: str, section: str, test: str, title: str, done: str, *, override: str = ""
) -> Row:
    return Row(kind, section, title, Outcome.REFUSED, done, "none", test, override)


def _differs(
    kind: str,
    section: str,
    test: str,
    title: str,
    done: str,
    *,
    override: str = "",
    oracle: str = "none",
) -> Row:
    return Row(kind, section, title, Outcome.DIFFERS, done, oracle, test, override)


# fmt: off
def _rows() -> Iterator[Row]:
    yield _equal(
        "codec", "storage", "test_equal_to_xarray[codec eras]",
        "compression, its level, or the order of filters",
        "each chunk is decoded by its own file's filters",
    )
    yield _equal(
        "skipped-filters", "storage", "test_storage[filter masks, one of several]",
        "filters that single chunks skip (HDF5 filter masks)",
        "each chunk's mask is obeyed",
    )
    yield _equal(
        "checksum", "storage", "test_storage[fletcher32]",
        "fletcher32 checksums in some files",
        "checked in every chunk that has one; a mismatch is an error",
    )
    yield _equal(
        "chunks", "storage", "test_storage[chunk shapes that differ in every dimension]",
        "chunk shape",
        "each file keeps its own chunk grid",
    )
    yield _equal(
        "partial-chunks", "storage", "test_equal_to_xarray[ragged inner chunks]",
        "a last chunk that is cut short in the middle of the whole",
        "each file's last chunk is cut where the file ends",
    )
    yield _equal(
        "layout", "storage", "test_storage[layouts mixed]",
        "contiguous, chunked, compact, in an external file, or never written",
        "each file is read as it is laid out",
    )
    yield _equal(
        "byte-order", "storage", "test_storage[big-endian]",
        "byte order",
        "each file is decoded in its own; values are in native order",
    )
    yield _equal(
        "user-block", "storage", "test_storage[user block]",
        "a user block before the HDF5 data",
        "offsets include it",
    )
    yield _equal(
        "raw-fill", "storage", "test_storage[partly written, packed]",
        "the value of chunks that were never written",
        "each file's own fill, decoded by that file's packing",
    )
    yield _equal(
        "padded", "storage", "test_storage[shorter than its unlimited dimension]",
        "a dataset shorter than its unlimited dimension",
        "padded with the dataset's own fill, as netCDF4 and h5netcdf do",
    )
    yield _equal(
        "scale-offset", "packing", "test_equal_to_xarray[packing per file]",
        "scale_factor or add_offset",
        "each file's values are unpacked by its own",
    )
    yield _equal(
        "fill", "packing", "test_storage[fill drift]",
        "_FillValue or missing_value (one or several)",
        "each file's own are masked",
    )
    yield _equal(
        "unsigned", "packing", "test_storage[unsigned]",
        "_Unsigned",
        "each file's integers are read as it says",
    )
    yield _equal(
        "packing-types", "packing", "test_storage[float32 and float64 attributes]",
        "types of the packing attributes (float32, float64)",
        "each file is unpacked in the arithmetic xarray chooses for it",
    )
    yield _refused(
        "packing-attributes", "packing", "test_packing_attributes",
        "packing attributes of values that are not unpacked (mask_and_scale=False)",
        "packed numbers of different scales in one array would all be read by the first file's",
        override="on_conflict='first'",
    )
    yield _equal(
        "stored-dtype", "types", "test_storage[packed and plain]",
        "type of the stored numbers",
        "each file is decoded from its own",
    )
    yield _equal(
        "dtype", "types", "test_equal_to_xarray[dtype drift int16 with float32]",
        "type of the values",
        "promoted as xarray promotes them",
    )
    yield _refused(
        "dtype-object", "types", "test_times_beside_plain_numbers",
        "types without a common one (a string and a number)",
        "xarray would make an array of Python objects, or fail",
        override="on_conflict='first'",
    )
    yield _refused(
        "hole-object", "types", "test_a_bool_with_a_hole",
        "a bool or compound variable that is absent in some files",
        "no value of its type says 'missing', and what xarray makes of it depends on how it is "
        "combined",
        override="on_conflict='first', drop_variables=",
    )
    yield _equal(
        "length", "shape", "test_equal_to_xarray[month lengths]",
        "length along the dimension of concatenation",
        "the pieces are placed one after another",
    )
    yield _equal(
        "missing-tiles", "shape", "test_coordinates_that_order",
        "places in a mosaic (combine='by_coords') that no file fills",
        "missing values there, as join says",
        override="join=",
    )
    yield _equal(
        "absent-variable", "shape", "test_structure[a variable absent, <i2]",
        "a data variable that is absent in some files",
        "those files' part is missing values, the type as xarray promotes it",
    )
    yield _refused(
        "absent-coordinate", "shape", "test_absent_coordinate",
        "a coordinate that is absent in some files",
        "xarray has no value for it (refused only where it would be concatenated)",
        override="drop_variables=",
    )
    yield _refused(
        "coordinate-or-data", "shape", "test_coordinate_or_data",
        "a coordinate in some files, a data variable in others",
        "xarray can't tell which it is",
        override="decode_coords=, preprocess=",
    )
    yield _equal(
        "dims-order", "shape", "test_structure[dims transposed]",
        "order of dimensions",
        "transposed to the first file's order",
    )
    yield _equal(
        "dims", "shape", "test_dims",
        "names of dimensions",
        "broadcast against each other, as xarray does",
    )
    yield _equal(
        "static-variable", "shape", "test_structure[static variables broadcast]",
        "a variable without the dimension of concatenation",
        "repeated along it, or kept once, as data_vars and coords say",
    )
    yield _equal(
        "static-values", "shape", "test_static_variables_that_differ_are_compared_as_asked",
        "values of a variable without the dimension of concatenation",
        "concatenated, compared or taken from the first file, as data_vars, coords and compat say",
    )
    yield _refused(
        "dimension-length", "shape", "test_dimension_sizes_that_differ_without_coordinates",
        "length of a dimension without coordinates",
        "nothing says which elements belong together; xarray refuses too",
    )
    yield _equal(
        "concat-order", "shape", "test_structure[a list that is not in order]",
        "files that are not in the order of their coordinate, or overlap",
        "kept in the order of the files (combine='nested')",
    )
    yield _refused(
        "units", "meaning", "test_refused[units]",
        "units of a variable",
        "xarray would join the numbers under the first file's units",
        override="on_conflict='first'",
    )
    yield _equal(
        "units-spelling", "meaning", "test_units_spelling",
        "spelling of the same units (degrees_north, degree_N, ...)",
        "CF names them as spellings of one unit",
    )
    yield _refused(
        "grid-mapping", "meaning", "test_refused[grid mapping]",
        "grid mapping: its name, or the attributes of its variable",
        "xarray would keep the first file's projection for all",
        override="on_conflict='first'",
    )
    yield _equal(
        "time-epoch", "meaning", "test_structure[epoch per file]",
        "epoch or units of times and durations",
        "each file's times are decoded by its own",
    )
    yield _equal(
        "bounds-epoch", "meaning", "test_structure[bounds inherit the epoch]",
        "epoch of time bounds that inherit their units",
        "each file's bounds are decoded by its own time variable",
    )
    yield _refused(
        "calendar", "meaning", "test_refused[calendars]",
        "calendar (also numpy and cftime dates of one calendar)",
        "xarray would mix kinds of dates in an array of objects, or fail",
        override="use_cftime=True where the calendar is the same, on_conflict='first'",
    )
    yield _equal(
        "calendar-name", "meaning", "test_calendar_name",
        "name of a calendar whose dates are the same",
        "decoded to the same type",
    )
    yield _equal(
        "flag-meanings", "meaning", "test_flag_meanings",
        "flag_values, flag_masks or flag_meanings",
        "numbers are kept as they are, attributes as combine_attrs says: check that the flags "
        "still mean the same",
    )
    yield _refused(
        "enum-meanings", "meaning", "test_enum_meanings",
        "what the numbers of an enumeration mean: a number has two names, or a name two numbers",
        "xarray would join the numbers under the first file's names",
        override="on_conflict='first'",
    )
    yield _equal(
        "enum-members", "meaning", "test_names_in_some_files_only",
        "names of an enumeration that only some files have (others have plain integers, or fewer "
        "members)",
        "no number changes its meaning; the names of the first file are kept, if it has any",
    )
    yield _equal(
        "variable-attributes", "meaning", "test_an_attribute_without_consequence_is_xarrays_affair",
        "other attributes of a variable",
        "as combine_attrs says",
    )
    yield _equal(
        "global-attributes", "meaning", "test_global_attributes",
        "global attributes",
        "as combine_attrs says",
    )
    yield _refused(
        "coordinate-jitter", "coordinates", "test_coordinates_that_differ[jitter, join=outer]",
        "coordinates that differ by less than half a step",
        "xarray's default join would double the axis",
        override="tolerance=, join=",
    )
    yield _refused(
        "coordinate-reversed", "coordinates", "test_coordinates_that_differ[reversed, join=outer]",
        "coordinates in reverse order",
        "join='override' would misplace the values",
        override="align='flip', join=",
    )
    yield _refused(
        "coordinate-length", "coordinates",
        "test_coordinates_that_differ[another length, join=outer]",
        "coordinates of another length",
        "a join would pad or cut",
        override="join=",
    )
    yield _refused(
        "coordinate-values", "coordinates",
        "test_coordinates_that_differ[another range, join=outer]",
        "coordinates with other values",
        "a join would pad or cut",
        override="join=",
    )
    yield _refused(
        "unreadable-source", "sources", "test_what_is_no_hdf5_file_is_named",
        "a file that is missing, empty, cut short, corrupt, or not what its suffix says",
        "the error names the file",
        override="on_error='skip'",
    )
    yield _refused(
        "unsupported-variable", "sources", "test_an_unknown_filter_concerns_its_variable_alone",
        "a variable that no reference can express (a plug-in filter, a virtual dataset, variable "
        "length data)",
        "the variable is there, reading it raises and says what is missing",
        override="unsupported='copy', unsupported='skip'",
    )
    yield _differs(
        "short-external-file", "sources", "test_a_short_external_file_is_an_error",
        "an external raw file that is shorter than its dataset",
        "reading past its end is an error; HDF5 reads zeros",
        oracle="HDF5",
    )
    yield _refused(
        "xarray-fault-big-endian-unsigned", "faults", "test_fault_big_endian_unsigned_fill",
        "big-endian integers with _Unsigned and _FillValue",
        "xarray swaps the bytes of the fill and masks nothing",
        override="mask_and_scale=False",
    )
    yield _refused(
        "xarray-fault-integer-scale", "faults", "test_fault_integer_scale_with_a_fill",
        "an integer scale_factor with a fill value",
        "xarray raises when the values are read",
        override="mask_and_scale=False",
    )
    yield _refused(
        "xarray-fault-integer-duration", "faults", "test_fault_integer_durations_with_a_fill",
        "integer durations (days) with a fill value",
        "xarray decodes missing ones to the smallest integer",
        override="decode_timedelta=False",
    )
    yield _refused(
        "xarray-fault-timedelta-join", "faults", "test_timedeltas_beside_plain_numbers",
        "durations in some files, plain numbers or dates in others",
        "xarray joins the bare numbers: 1 hour becomes 1 ns",
        override="decode_timedelta=",
    )
    yield _refused(
        "xarray-fault-same-place", "faults", "test_xarray_fault_same_place",
        "combine='by_coords' and several files whose coordinates begin at the same place",
        "xarray keeps only the last of them, silently",
        override="combine='nested'",
    )
    yield _differs(
        "virtual-by-default", "purpose", "test_equal_to_xarray[codec eras]",
        "chunks=None",
        "variables stay virtual instead of becoming dask arrays; chunks={} gives dask arrays",
        override="chunks=", oracle="xarray",
    )
    yield _differs(
        "no-packing-kept", "purpose", "test_the_first_files_packing_is_not_kept",
        "packing in the encoding of virtual variables",
        "dropped: written with the first file's packing, other files' values would be wrong",
    )
    yield _equal(
        "loaded", "purpose", "test_structure[special types together]",
        "variables that are loaded at once",
        "index coordinates, scalars, times, strings, bools, complex and compound values: as xarray"
        " gives them",
        override="loadable_variables=",
    )
    yield _differs(
        "engine", "purpose", "test_structure[special type bool]",
        "what xarray's engines read differently (bool, fixed strings, complex)",
        "as h5netcdf gives it, not as netCDF4 does",
        oracle="xarray",
    )
# fmt: on


TABLE: Mapping[str, Row] = MappingProxyType({entry.kind: entry for entry in _rows()})
"""Every row by its kind, in the order of the docs page."""


def row(kind: str) -> Row:
    """Get the row of a kind.

    Raises
    ------
    KeyError
        If the table has no such row: a kind must be in the table before it is reported.
    """
    return TABLE[kind]
