"""What xarray would get wrong is refused: variable, both values, both files, and the way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import intarsia
from intarsia.errors import (
    AlignmentConflict,
    CombineConflict,
    ConflictError,
    IntarsiaError,
    UpstreamFault,
)
from tests import oracle
from tests.check import check_chains, check_equal
from tests.unlike import (
    GroupSpec,
    SpecialVariable,
    VariableSpec,
    dimension,
    text,
    typed,
    variable,
)
from tests.unlike.families import EXPLICIT, Family, f8, mapped, series
from tests.unlike.structures import STRUCTURES

NESTED: dict[str, Any] = {"combine": "nested", "concat_dim": "time"}
NO_JOIN = {k: v for k, v in EXPLICIT.items() if k != "join"} | NESTED
BASE = series("")

Change = Callable[[int, GroupSpec], GroupSpec]


def _sst(group: GroupSpec) -> VariableSpec:
    found = group["sst"]
    assert isinstance(found, VariableSpec)
    return found


def _units(i: int, group: GroupSpec) -> GroupSpec:
    return group.with_variables(_sst(group).with_attrs(units=text(("K", "degC", "K")[i])))


def _crs(i: int, group: GroupSpec) -> GroupSpec:
    crs = variable(
        "crs",
        (),
        "<i4",
        literal=0,
        attrs={
            "grid_mapping_name": text("mercator"),
            "longitude_of_projection_origin": f8((0.0, 5.0, 0.0)[i]),
        },
    )
    return group.with_variables(_sst(group).with_attrs(grid_mapping=text("crs")), crs)


def _grid_mapping_name(i: int, group: GroupSpec) -> GroupSpec:
    name = ("one", "two", "one")[i]
    crs = [
        variable(n, (), "<i4", literal=0, attrs={"grid_mapping_name": text("mercator")})
        for n in ("one", "two")
    ]
    return group.with_variables(_sst(group).with_attrs(grid_mapping=text(name)), *crs)


def _calendar(i: int, group: GroupSpec) -> GroupSpec:
    time = group["time"]
    assert isinstance(time, VariableSpec)
    calendar = ("noleap", "360_day", "noleap")[i]
    return group.with_variables(time.with_attrs(calendar=text(calendar)))


def _calendar_of_the_world(i: int, group: GroupSpec) -> GroupSpec:
    """Timestamps in one file, cftime in the next."""
    time = group["time"]
    assert isinstance(time, VariableSpec)
    calendar = ("standard", "noleap", "standard")[i]
    return group.with_variables(time.with_attrs(calendar=text(calendar)))


# name: (change per file, the variable, what each of the first two files has)
REFUSED: dict[str, tuple[Change, str, tuple[str, str]]] = {
    "units": (_units, "sst", ("K", "degC")),
    "grid mapping": (_crs, "crs", ("0.0", "5.0")),
    "name of the grid mapping": (_grid_mapping_name, "sst", ("one", "two")),
    "calendars": (_calendar, "time", ("noleap", "360_day")),
    "a calendar beside the world's": (_calendar_of_the_world, "time", ("standard", "noleap")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    change, variable_name, values = REFUSED[name]
    paths = mapped(BASE, change, name).write(tmp_path)
    for arguments in (BASE.arguments, NESTED):
        with pytest.raises(CombineConflict) as caught:
            intarsia.open_mfdataset(paths, **arguments)
        error = caught.value
        message = str(error)
        assert error.variable == variable_name
        assert variable_name in message
        for value in values:
            assert value in message
        for path in paths[:2]:
            assert path in message
        assert error.remedy or error.argument
        if "calendar" not in name:
            assert error.argument is not None
            assert "on_conflict" in error.argument
            assert "on_conflict" in message


@pytest.mark.parametrize("name", ["units", "grid mapping", "name of the grid mapping"])
def test_the_first_files_value_if_asked_for(tmp_path: Path, name: str) -> None:
    family = mapped(BASE, REFUSED[name][0], name)
    paths = family.write(tmp_path)
    expected = oracle.open_mfdataset(paths, **family.arguments)
    ds = intarsia.open_mfdataset(paths, on_conflict="first", **family.arguments)
    check_chains(ds, expected, virtual=["sst"])
    report = str(ds.intarsia.report())
    assert all(value in report for value in REFUSED[name][2])


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_agree_are_not_refused(tmp_path: Path, name: str) -> None:
    family = mapped(BASE, REFUSED[name][0], name)
    paths = family.write(tmp_path)
    check_equal([paths[0], paths[2]], virtual=["sst"], **family.arguments)


def test_an_attribute_without_consequence_is_xarrays_affair(tmp_path: Path) -> None:
    def change(i: int, group: GroupSpec) -> GroupSpec:
        return group.with_variables(
            _sst(group).with_attrs(history=text(f"run {i}"), n=typed(i, "<i4"))
        )

    family = mapped(BASE, change, "")
    check_equal(family.write(tmp_path), virtual=["sst"], **family.arguments)


def test_units_of_a_coordinate_decoded_as_time_are_no_conflict(tmp_path: Path) -> None:
    family = STRUCTURES["epoch per file"]
    check_equal(family.write(tmp_path), virtual=["sst"], **NO_JOIN)


# ------------------------------------------------------------------------------- coordinates


DIFFERENT = {
    "jitter, join=outer": ("e-06", "e-07"),
    "reversed, join=outer": ("reverse",),
    "another range, join=outer": ("13",),
    "another length, join=outer": ("2",),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_coordinates_that_differ(tmp_path: Path, name: str) -> None:
    """Refused where `join` is not given, saying what differs and where; xarray's where it is."""
    paths = STRUCTURES[name].write(tmp_path)
    for arguments in (NO_JOIN, NESTED):
        with pytest.raises(AlignmentConflict) as caught:
            intarsia.open_mfdataset(paths, **arguments)
        error = caught.value
        assert isinstance(error, ConflictError)
        assert error.variable == "lat"
        assert "join" in str(error)
        for path in paths[:2]:
            assert path in str(error)
        assert any(word in str(error) for word in DIFFERENT[name]), str(error)
    check_equal(paths, virtual=["sst"], **STRUCTURES[name].arguments)


def test_coordinates_along_the_concat_dimension_may_differ(tmp_path: Path) -> None:
    check_equal(BASE.write(tmp_path), virtual=["sst"], **NO_JOIN)


def test_refused_by_coords(tmp_path: Path) -> None:
    paths = STRUCTURES["jitter, join=outer"].write(tmp_path)
    with pytest.raises(AlignmentConflict, match="lat"):
        intarsia.open_mfdataset(paths)


def test_join_exact_is_xarrays(tmp_path: Path) -> None:
    paths = STRUCTURES["jitter, join=outer"].write(tmp_path)
    arguments = NO_JOIN | {"join": "exact"}
    with pytest.raises(ValueError, match=r"exact"):
        oracle.open_mfdataset(paths, **arguments)
    with pytest.raises(ValueError, match=r"exact"):
        intarsia.open_mfdataset(paths, **arguments)


def test_a_coordinate_in_some_files_only(tmp_path: Path) -> None:
    """xarray lines up by position where a file has no labels."""

    def change(i: int, group: GroupSpec) -> GroupSpec:
        return group.without("lat") if i == 1 else group

    family = mapped(BASE, change, "")
    check_equal(family.write(tmp_path), virtual=["sst"], **family.arguments)


# ----------------------------------------------------------- values that no dtype can hold


def test_a_bool_with_a_hole(tmp_path: Path) -> None:
    def change(i: int, group: GroupSpec) -> GroupSpec:
        return group if i == 1 else group.with_variables(SpecialVariable("ok", ("time",), "bool"))

    family = mapped(BASE, change, "")
    paths = family.write(tmp_path)
    with pytest.raises(IntarsiaError, match="ok") as caught:
        intarsia.open_mfdataset(paths, **family.arguments)
    assert caught.value.remedy
    assert paths[1] in str(caught.value)
    assert "ok" in intarsia.open_mfdataset([paths[0], paths[2]], **family.arguments)


# ------------------------------------------------------------------- known faults of xarray


def _alone(var: VariableSpec) -> Family:
    def change(i: int, group: GroupSpec) -> GroupSpec:
        return group.with_variables(replace(var, position=replace(var.position, base=100 * i)))

    return mapped(BASE, change, "")


FAULTS = {
    "big-endian, unsigned, filled": variable(
        "bad",
        ("time", "lat"),
        ">i2",
        attrs={"_Unsigned": text("true"), "_FillValue": typed(5, ">i2")},
    ),
    "integer scale with a fill": variable(
        "bad",
        ("time", "lat"),
        "<i2",
        attrs={"scale_factor": typed(2, "<i4"), "_FillValue": typed(5, "<i2")},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_xarrays_is_refused(tmp_path: Path, name: str) -> None:
    path = _alone(FAULTS[name]).write(tmp_path)[0]
    with pytest.raises(UpstreamFault) as caught:
        intarsia.open_dataset(path).bad.values  # noqa: B018
    assert "bad" in str(caught.value)
    assert path in str(caught.value)
    assert caught.value.remedy
    ds = intarsia.open_dataset(path, drop_variables=["bad"])
    assert "sst" in ds.load()


def test_days_with_a_fill_that_become_the_least_integer(tmp_path: Path) -> None:
    """Integer days with a fill decode to a wrong time, not to NaT."""
    lead = variable(
        "lead",
        ("time",),
        "<i4",
        literal=(1, -9, 2),
        attrs={"units": text("days"), "_FillValue": typed(-9, "<i4")},
    )
    group = BASE.files[0].root.with_variables(lead)
    path = Family("", (BASE.files[0].with_root(group),)).write(tmp_path)[0]
    expected = oracle.open_dataset(path, decode_timedelta=True)
    if expected.lead.isnull().values.tolist() == [False, True, False]:
        check_equal(path, decode_timedelta=True)
    else:
        with pytest.raises(UpstreamFault, match="lead"):
            intarsia.open_dataset(path, decode_timedelta=True).lead.values  # noqa: B018


def test_timedeltas_beside_plain_numbers(tmp_path: Path) -> None:
    """Joined with integers, xarray turns an hour into a nanosecond."""

    def change(i: int, group: GroupSpec) -> GroupSpec:
        attrs = {"units": text("hours")} if i == 0 else {}
        return group.with_variables(
            variable(
                "lead", ("time",), "<i4", literal=tuple(range(group.size("time"))), attrs=attrs
            )
        )

    family = mapped(BASE, change, "")
    paths = family.write(tmp_path)
    with pytest.raises(IntarsiaError, match="lead") as caught:
        intarsia.open_mfdataset(paths, decode_timedelta=True, **family.arguments)
    assert paths[1] in str(caught.value)


def test_times_beside_plain_numbers(tmp_path: Path) -> None:
    def change(i: int, group: GroupSpec) -> GroupSpec:
        time = group["time"]
        assert isinstance(time, VariableSpec)
        return group if i == 0 else group.with_variables(time.with_attrs(units=None))

    family = mapped(BASE, change, "")
    with pytest.raises(IntarsiaError, match="time"):
        intarsia.open_mfdataset(family.write(tmp_path), **family.arguments)


# --------------------------------------------------------------------------- no false alarms


@pytest.mark.parametrize("name", ["static variables kept", "scalars along time", "in a group"])
def test_no_conflict_without_join(tmp_path: Path, name: str) -> None:
    family = STRUCTURES[name]
    arguments = {k: v for k, v in family.arguments.items() if k != "join"}
    paths = family.write(tmp_path)
    actual = intarsia.open_mfdataset(paths, **arguments)
    expected = oracle.open_mfdataset(paths, **arguments)
    xr.testing.assert_identical(actual.load(), expected)


def test_static_variables_that_differ_are_compared_as_asked(tmp_path: Path) -> None:
    def change(i: int, group: GroupSpec) -> GroupSpec:
        mask = variable("mask", ("lat",), "<i2", literal=(1, 2, 3 + (i == 1)))
        return group.with_variables(mask)

    family = mapped(BASE, change, "")
    paths = family.write(tmp_path)
    check_equal(paths, **family.arguments)  # compat="override": the first file's, as asked
    with pytest.raises(ValueError, match="mask"):
        intarsia.open_mfdataset(paths, **family.arguments | {"compat": "equals"})
    different = family.arguments | {"data_vars": "different", "compat": "equals"}
    check_equal(paths, **different)


def test_dimension_sizes_that_differ_without_coordinates(tmp_path: Path) -> None:
    def change(i: int, group: GroupSpec) -> GroupSpec:
        n = 2 + (i == 1)
        dims = (*group.dims, dimension("n", n))
        return replace(group, dims=dims).with_variables(variable("v", ("time", "n"), "<i2"))

    family = mapped(BASE, change, "")
    paths = family.write(tmp_path)
    with pytest.raises(ValueError, match=r"\bn\b"):
        oracle.open_mfdataset(paths, **family.arguments)
    with pytest.raises(ValueError, match=r"\bn\b"):
        intarsia.open_mfdataset(paths, **family.arguments)
