"""The table: every kind of difference between files, what is done about it, and what proves it.

The docs page "What differs, and what happens", `intarsia check` and `report()` are made from these
rows, so that they can't say different things. A row's `kind` never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["ORACLES", "SECTIONS", "TABLE", "Outcome", "Row", "row"]


class Outcome(Enum):
    """The three columns. The value is what a reader sees."""

    EQUAL = "equal to xarray"
    REFUSED = "refused"
    DIFFERS = "differs on purpose"

    def __str__(self) -> str:
        return self.value


class Row(NamedTuple):
    """One kind of difference.

    Parameters
    ----------
    kind
        Stable name, for programs.
    section
        Key of `SECTIONS`.
    title
        What differs, for people.
    outcome
        What happens when no argument says otherwise.
    done
        What is done, in a phrase that completes the outcome.
    oracle
        Key of `ORACLES`: what a right answer is.
    test
        Name of a test function that shows it.
    override
        The arguments that change the outcome, as they are written; empty where there are none.
    """

    kind: str
    section: str
    title: str
    outcome: Outcome
    done: str
    oracle: str
    test: str
    override: str = ""


SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "storage": "How the bytes are stored",
        "packing": "How numbers are packed",
        "types": "Types",
        "shape": "Variables and dimensions",
        "meaning": "Units, times and other attributes",
        "coordinates": "Coordinates",
        "sources": "Files and variables that can't be used as they are",
        "faults": "Known faults of xarray, refused by name",
        "purpose": "Where Intarsia differs from xarray on purpose",
    }
)

ORACLES: Mapping[str, str] = MappingProxyType(
    {
        "xarray": "each file opened by xarray with h5netcdf on its own, then combined by xarray "
        "with the same arguments: equal in dtype, dims, shape, coordinates, attributes and every "
        "bit of every value",
        "HDF5": "the HDF5 library (h5py) reading the same dataset",
        "none": "there is nothing to compare with: the test shows the error, or the report",
    }
)

_EQUAL, _REFUSED, _DIFFERS = Outcome.EQUAL, Outcome.REFUSED, Outcome.DIFFERS
_FIRST = "on_conflict='first'"


def _rows() -> Iterator[Row]:
    yield Row(
        "codec", "storage", "compression, its level, or the order of filters", _EQUAL,
        "each chunk is decoded by its own file's filters", "xarray", "test_codec",
    )  # fmt: skip
    yield Row(
        "skipped-filters", "storage", "filters that single chunks skip (HDF5 filter masks)", _EQUAL,
        "each chunk's mask is obeyed", "xarray", "test_skipped_filters",
    )  # fmt: skip
    yield Row(
        "checksum", "storage", "fletcher32 checksums in some files", _EQUAL,
        "checked in every chunk that has one; a mismatch is an error", "xarray", "test_checksum",
    )  # fmt: skip
    yield Row(
        "chunks", "storage", "chunk shape", _EQUAL,
        "each file keeps its own chunk grid", "xarray", "test_chunks",
    )  # fmt: skip
    yield Row(
        "partial-chunks", "storage", "a last chunk that is cut short in the middle of the whole",
        _EQUAL, "each file's last chunk is cut where the file ends", "xarray",
        "test_partial_chunks",
    )  # fmt: skip
    yield Row(
        "layout", "storage", "contiguous, chunked, compact, in an external file, or never written",
        _EQUAL, "each file is read as it is laid out", "xarray", "test_layout",
    )  # fmt: skip
    yield Row(
        "byte-order", "storage", "byte order", _EQUAL,
        "each file is decoded in its own; values are in native order", "xarray", "test_byte_order",
    )  # fmt: skip
    yield Row(
        "user-block", "storage", "a user block before the HDF5 data", _EQUAL,
        "offsets include it", "xarray", "test_user_block",
    )  # fmt: skip
    yield Row(
        "raw-fill", "storage", "the value of chunks that were never written", _EQUAL,
        "each file's own fill, decoded by that file's packing", "xarray", "test_raw_fill",
    )  # fmt: skip
    yield Row(
        "padded", "storage", "a dataset shorter than its unlimited dimension", _EQUAL,
        "padded with the dataset's own fill, as netCDF4 and h5netcdf do", "xarray", "test_padded",
    )  # fmt: skip
    yield Row(
        "scale-offset", "packing", "scale_factor or add_offset", _EQUAL,
        "each file's values are unpacked by its own", "xarray", "test_scale_offset",
    )  # fmt: skip
    yield Row(
        "fill", "packing", "_FillValue or missing_value (one or several)", _EQUAL,
        "each file's own are masked", "xarray", "test_fill",
    )  # fmt: skip
    yield Row(
        "unsigned", "packing", "_Unsigned", _EQUAL,
        "each file's integers are read as it says", "xarray", "test_unsigned",
    )  # fmt: skip
    yield Row(
        "packing-types", "packing", "types of the packing attributes (float32, float64)", _EQUAL,
        "each file is unpacked in the arithmetic xarray chooses for it", "xarray",
        "test_packing_types",
    )  # fmt: skip
    yield Row(
        "packing-attributes", "packing",
        "packing attributes of values that are not unpacked (mask_and_scale=False)", _REFUSED,
        "packed numbers of different scales in one array would all be read by the first file's",
        "none", "test_packing_attributes", _FIRST,
    )  # fmt: skip
    yield Row(
        "stored-dtype", "types", "type of the stored numbers", _EQUAL,
        "each file is decoded from its own", "xarray", "test_stored_dtype",
    )  # fmt: skip
    yield Row(
        "dtype", "types", "type of the values", _EQUAL,
        "promoted as xarray promotes them", "xarray", "test_dtype",
    )  # fmt: skip
    yield Row(
        "dtype-object", "types", "types without a common one (a string and a number)", _REFUSED,
        "xarray would make an array of Python objects, or fail", "none", "test_dtype_object",
        _FIRST,
    )  # fmt: skip
    yield Row(
        "hole-object", "types", "a bool or compound variable that is absent in some files",
        _REFUSED, "no value of its type says 'missing', and what xarray makes of it depends on how "
        "it is combined", "none", "test_hole_object", f"{_FIRST}, drop_variables=",
    )  # fmt: skip
    yield Row(
        "length", "shape", "length along the dimension of concatenation", _EQUAL,
        "the pieces are placed one after another", "xarray", "test_length",
    )  # fmt: skip
    yield Row(
        "absent-variable", "shape", "a data variable that is absent in some files", _EQUAL,
        "those files' part is missing values, the type as xarray promotes it", "xarray",
        "test_absent_variable",
    )  # fmt: skip
    yield Row(
        "absent-coordinate", "shape", "a coordinate that is absent in some files", _REFUSED,
        "xarray has no value for it (refused only where it would be concatenated)", "none",
        "test_absent_coordinate", "drop_variables=",
    )  # fmt: skip
    yield Row(
        "coordinate-or-data", "shape", "a coordinate in some files, a data variable in others",
        _REFUSED, "xarray can't tell which it is", "none", "test_coordinate_or_data",
        "decode_coords=, preprocess=",
    )  # fmt: skip
    yield Row(
        "dims-order", "shape", "order of dimensions", _EQUAL,
        "transposed to the first file's order", "xarray", "test_dims_order",
    )  # fmt: skip
    yield Row(
        "dims", "shape", "names of dimensions", _EQUAL,
        "broadcast against each other, as xarray does", "xarray", "test_dims",
    )  # fmt: skip
    yield Row(
        "static-variable", "shape", "a variable without the dimension of concatenation", _EQUAL,
        "repeated along it, or kept once, as data_vars and coords say", "xarray",
        "test_static_variable",
    )  # fmt: skip
    yield Row(
        "static-values", "shape", "values of a variable without the dimension of concatenation",
        _EQUAL, "concatenated, compared or taken from the first file, as data_vars, coords and "
        "compat say", "xarray", "test_static_values",
    )  # fmt: skip
    yield Row(
        "dimension-length", "shape", "length of a dimension without coordinates", _REFUSED,
        "nothing says which elements belong together; xarray refuses too", "none",
        "test_dimension_length",
    )  # fmt: skip
    yield Row(
        "concat-order", "shape", "files that are not in the order of their coordinate, or overlap",
        _EQUAL, "kept in the order of the files (combine='nested')", "xarray", "test_concat_order",
    )  # fmt: skip
    yield Row(
        "units", "meaning", "units of a variable", _REFUSED,
        "xarray would join the numbers under the first file's units", "none", "test_units", _FIRST,
    )  # fmt: skip
    yield Row(
        "units-spelling", "meaning", "spelling of the same units (degrees_north, degree_N, ...)",
        _EQUAL, "CF names them as spellings of one unit", "xarray", "test_units_spelling",
    )  # fmt: skip
    yield Row(
        "grid-mapping", "meaning", "grid mapping: its name, or the attributes of its variable",
        _REFUSED, "xarray would keep the first file's projection for all", "none",
        "test_grid_mapping", _FIRST,
    )  # fmt: skip
    yield Row(
        "time-epoch", "meaning", "epoch or units of times and durations", _EQUAL,
        "each file's times are decoded by its own", "xarray", "test_time_epoch",
    )  # fmt: skip
    yield Row(
        "bounds-epoch", "meaning", "epoch of time bounds that inherit their units", _EQUAL,
        "each file's bounds are decoded by its own time variable", "xarray", "test_bounds_epoch",
    )  # fmt: skip
    yield Row(
        "calendar", "meaning", "calendar (also numpy and cftime dates of one calendar)", _REFUSED,
        "xarray would mix kinds of dates in an array of objects, or fail", "none",
        "test_calendar", f"use_cftime=True where the calendar is the same, {_FIRST}",
    )  # fmt: skip
    yield Row(
        "calendar-name", "meaning", "name of a calendar whose dates are the same", _EQUAL,
        "decoded to the same type", "xarray", "test_calendar_name",
    )  # fmt: skip
    yield Row(
        "flag-meanings", "meaning", "flag_values, flag_masks or flag_meanings", _EQUAL,
        "numbers are kept as they are, attributes as combine_attrs says: check that the flags "
        "still mean the same", "xarray", "test_flag_meanings",
    )  # fmt: skip
    yield Row(
        "variable-attributes", "meaning", "other attributes of a variable", _EQUAL,
        "as combine_attrs says", "xarray", "test_variable_attributes",
    )  # fmt: skip
    yield Row(
        "global-attributes", "meaning", "global attributes", _EQUAL,
        "as combine_attrs says", "xarray", "test_global_attributes",
    )  # fmt: skip
    yield Row(
        "coordinate-jitter", "coordinates", "coordinates that differ by less than half a step",
        _REFUSED, "xarray's default join would double the axis", "none",
        "test_coordinate_jitter", "tolerance=, join=",
    )  # fmt: skip
    yield Row(
        "coordinate-reversed", "coordinates", "coordinates in reverse order", _REFUSED,
        "join='override' would misplace the values", "none", "test_coordinate_reversed",
        "align='flip', join=",
    )  # fmt: skip
    yield Row(
        "coordinate-length", "coordinates", "coordinates of another length", _REFUSED,
        "a join would pad or cut", "none", "test_coordinate_length", "join=",
    )  # fmt: skip
    yield Row(
        "coordinate-values", "coordinates", "coordinates with other values", _REFUSED,
        "a join would pad or cut", "none", "test_coordinate_values", "join=",
    )  # fmt: skip
    yield Row(
        "unreadable-source", "sources",
        "a file that is missing, empty, cut short, corrupt, or not what its suffix says",
        _REFUSED, "the error names the file", "none", "test_unreadable_source",
        "on_error='skip'",
    )  # fmt: skip
    yield Row(
        "unsupported-variable", "sources",
        "a variable that no reference can express (a plug-in filter, a virtual dataset, variable "
        "length data)", _REFUSED, "the variable is there, reading it raises and says what is "
        "missing", "none", "test_unsupported_variable", "unsupported='copy', unsupported='skip'",
    )  # fmt: skip
    yield Row(
        "short-external-file", "sources", "an external raw file that is shorter than its dataset",
        _DIFFERS, "reading past its end is an error; HDF5 reads zeros", "HDF5",
        "test_short_external_file",
    )  # fmt: skip
    yield Row(
        "xarray-fault-big-endian-unsigned", "faults",
        "big-endian integers with _Unsigned and _FillValue", _REFUSED,
        "xarray swaps the bytes of the fill and masks nothing", "none",
        "test_xarray_fault_big_endian_unsigned", "mask_and_scale=False",
    )  # fmt: skip
    yield Row(
        "xarray-fault-integer-scale", "faults", "an integer scale_factor with a fill value",
        _REFUSED, "xarray raises when the values are read", "none",
        "test_xarray_fault_integer_scale", "mask_and_scale=False",
    )  # fmt: skip
    yield Row(
        "xarray-fault-integer-duration", "faults", "integer durations (days) with a fill value",
        _REFUSED, "xarray decodes missing ones to the smallest integer", "none",
        "test_xarray_fault_integer_duration", "decode_timedelta=False",
    )  # fmt: skip
    yield Row(
        "xarray-fault-timedelta-join", "faults",
        "durations in some files, plain numbers or dates in others", _REFUSED,
        "xarray joins the bare numbers: 1 hour becomes 1 ns", "none",
        "test_xarray_fault_timedelta_join", "decode_timedelta=",
    )  # fmt: skip
    yield Row(
        "xarray-fault-same-place", "faults",
        "combine='by_coords' and several files whose coordinates begin at the same place",
        _REFUSED, "xarray keeps only the last of them, silently", "none",
        "test_xarray_fault_same_place", "combine='nested'",
    )  # fmt: skip
    yield Row(
        "virtual-by-default", "purpose", "chunks=None", _DIFFERS,
        "variables stay virtual instead of becoming dask arrays; chunks={} gives dask arrays",
        "xarray", "test_virtual_by_default", "chunks=",
    )  # fmt: skip
    yield Row(
        "no-packing-kept", "purpose", "packing in the encoding of virtual variables", _DIFFERS,
        "dropped: written with the first file's packing, other files' values would be wrong",
        "none", "test_no_packing_kept",
    )  # fmt: skip
    yield Row(
        "loaded", "purpose", "variables that are loaded at once", _EQUAL,
        "index coordinates, scalars, times, strings, bools, complex and compound values: as "
        "xarray gives them", "xarray", "test_loaded", "loadable_variables=",
    )  # fmt: skip
    yield Row(
        "engine", "purpose", "what xarray's engines read differently (bool, fixed strings, "
        "complex)", _DIFFERS, "as h5netcdf gives it, not as netCDF4 does", "xarray", "test_engine",
    )  # fmt: skip


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
