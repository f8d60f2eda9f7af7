"""Differences in what variables mean: units, grid mappings, calendars, epochs, attributes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from typing import Any

from intarsia.combine.columns import Column, Group, regroup
from intarsia.combine.difference import Difference
from intarsia.combine.frozen import Typed, show
from intarsia.combine.scene import Scene
from intarsia.combine.stored import plain
from intarsia.combine.summary import VariableSummary

__all__ = ["attribute_differences", "calendar_of", "meaning_differences"]

_FIRST = "on_conflict='first'"
_LATITUDE = ("degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN")
_LONGITUDE = ("degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE")
_SPELLINGS = {
    **dict.fromkeys(_LATITUDE, _LATITUDE[0]),
    **dict.fromkeys(_LONGITUDE, _LONGITUDE[0]),
}
"""CF 4.1 and 4.2: the spellings that mean the same. No other units are taken for equal."""

_CALENDARS = {
    "standard": "standard",
    "gregorian": "standard",
    "365_day": "noleap",
    "366_day": "all_leap",
}
_PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
_FLAGS = ("flag_values", "flag_masks", "flag_meanings")
_APART: frozenset[str] = frozenset((*_PACKING, *_FLAGS, "units", "calendar", "grid_mapping"))
_SHOWN = 8
"""Members of an enumeration that are shown of each file."""

_PROSE = frozenset(("long_name", "comment", "description", "history"))
"""Attributes of a grid mapping variable that say nothing about the projection."""


def meaning_differences(column: Column, scene: Scene) -> Iterator[Difference]:
    """Find what differs in the meaning of one variable."""
    yield from _epoch(column, scene)
    if len(column.groups) < 2:
        return
    yield from _units(column, scene)
    yield from _grid_mapping(column, scene)
    yield from _calendar(column, scene)
    yield from _enumeration(column, scene)
    yield from _attributes(column, scene)


def attribute_differences(scene: Scene) -> Iterator[Difference]:
    """Find what differs in the global attributes."""
    found = scene.grouped([summary.attrs for summary in scene.summaries])
    yield from _each_attribute(found, scene, "global-attributes", None)


def _conflict(
    kind: str, column: Column, found: list[Group], scene: Scene, reason: str, **fields: Any
) -> Difference:
    given: dict[str, Any] = {"show": show, "long": _show_typed, "override": _FIRST, **fields}
    difference = Difference.found(kind, column.name, found, scene.url, reason=reason, **given)
    if scene.options.on_conflict == "first":
        return difference.equal(
            f"as xarray, since {_FIRST}: values unchanged, attributes: "
            f"{scene.options.attributes_done}"
        )
    return difference


def _units(column: Column, scene: Scene) -> Iterator[Difference]:
    if len({_is_date(entry.value) for entry in column.groups}) > 1:
        return  # decoded in some files only: a difference of types
    found = column.by(lambda summary: summary.attr("units"))
    if len(found) < 2:
        return
    if len(regroup(found, _unit)) > 1:
        yield _conflict(
            "units", column, found, scene, "units differ", remedy="convert them with preprocess="
        )
    else:
        yield Difference.found("units-spelling", column.name, found, scene.url, show)


def _unit(units: Hashable) -> Hashable:
    if not isinstance(units, str):
        return units
    text = units.strip()
    return _SPELLINGS.get(text, text)


def _grid_mapping(column: Column, scene: Scene) -> Iterator[Difference]:
    found = column.by(lambda summary: summary.grid_mapping)
    if len(found) > 1:
        yield _conflict(
            "grid-mapping", column, found, scene, "grid mappings differ",
            remedy="reproject them, or name them alike with preprocess=",
        )  # fmt: skip
    if column.name not in scene.grid_mappings:
        return

    def projection(summary: VariableSummary) -> tuple[tuple[str, Hashable], ...]:
        return tuple((name, plain(value)) for name, value in summary.attrs if name not in _PROSE)

    found = column.by(projection)
    if len(found) > 1:
        pairs = [set(entry.value) for entry in found]
        common = set[Any].intersection(*pairs)

        def differing(attributes: Any) -> str:
            parts = [
                f"{name}={_text(value)}"
                for name, value in attributes
                if (name, value) not in common
            ]
            return ", ".join(parts) or "none of these"

        yield _conflict(
            "grid-mapping", column, found, scene, "the attributes of the grid mapping differ",
            show=differing, remedy="reproject them, or correct them with preprocess=",
        )  # fmt: skip


def calendar_of(summary: VariableSummary) -> tuple[str, str] | None:
    """How the dates of a variable are held, and their calendar, where it has dates.

    Returns
    -------
    tuple or None
        ``("numpy", "standard")``: NumPy has one calendar for the standard ones.
        ``("cftime", calendar)`` or ``("numbers", calendar)`` (times that are not decoded).
    """
    if summary.dtype.kind == "M":
        return "numpy", "standard"
    if summary.calendar is not None and summary.dtype.kind == "O":
        return "cftime", _CALENDARS.get(summary.calendar.lower(), summary.calendar.lower())
    units = summary.attr("units")
    if isinstance(units, str) and " since " in units:
        name = summary.attr("calendar") or "standard"
        return "numbers", _CALENDARS.get(str(name).lower(), str(name).lower())
    return None


def _calendar(column: Column, scene: Scene) -> Iterator[Difference]:
    dated = [entry for entry in column.groups if calendar_of(entry.value) is not None]
    found = regroup(dated, calendar_of)
    if len({how == "numbers" for (how, _), _, _ in found}) > 1:
        return  # decoded in some files only: a difference of types
    names = regroup(dated, lambda summary: summary.calendar or summary.attr("calendar"))
    if len(found) > 1:
        calendars = [name for (_, name), _, _ in found]
        same = len(set(calendars)) == 1
        mixed = len({how for (how, _), _, _ in found}) > 1
        if mixed:
            reason = "dates of different kinds: NumPy holds those of some files, cftime others"
        else:
            reason = "calendars differ"
        remedy = (
            "pass use_cftime=True to hold them alike"
            if same
            else "convert one with preprocess= and Dataset.convert_calendar"
        )
        yield _conflict(
            "calendar", column, found, scene, reason, remedy=remedy, show=_show_calendar, long=None
        )
    elif len(names) > 1:
        yield Difference.found("calendar-name", column.name, names, scene.url, show)


def _enumeration(column: Column, scene: Scene) -> Iterator[Difference]:
    found = column.by(lambda summary: summary.meanings)
    if len(found) < 2:
        return
    named = [set(entry.value) for entry in found if entry.value is not None]
    pairs = set[tuple[int, str]].union(*named)
    common = set[tuple[int, str]].intersection(*named)
    numbers = Counter(number for number, _ in pairs)
    names = Counter(name for _, name in pairs)
    clashing = {(n, name) for n, name in pairs if numbers[n] > 1 or names[name] > 1}

    def differing(meanings: Any) -> str:
        if meanings is None:
            return "numbers without names"
        kept = [pair for pair in meanings if (pair in clashing if clashing else pair not in common)]
        shown = [f"{number} is {name!r}" for number, name in kept[:_SHOWN]]
        if len(kept) > _SHOWN:
            shown.append(f"and {len(kept) - _SHOWN} more")
        return ", ".join(shown) or ("none of these" if clashing else "no other names")

    if clashing:
        difference = _conflict(
            "enum-meanings", column, found, scene,
            "files disagree on what the numbers of an enumeration mean",
            show=differing, long=None, remedy="renumber or rename them with preprocess=",
        )  # fmt: skip
        if not difference.refused:
            done = f"as xarray, since {_FIRST}: numbers unchanged, named as in the first file"
            difference = difference.equal(done)
        yield difference
    else:
        yield Difference.found("enum-members", column.name, found, scene.url, differing)


def _epoch(column: Column, scene: Scene) -> Iterator[Difference]:
    found = [one for one in column.by_fine(lambda summary: summary.units) if one.value is not None]
    if len(found) > 1:
        kind = "bounds-epoch" if column.name in scene.bounds else "time-epoch"
        yield Difference.found(kind, column.name, found, scene.url, show)


def _attributes(column: Column, scene: Scene) -> Iterator[Difference]:
    found = column.by(lambda summary: summary.attrs)
    if len(found) < 2:
        return
    for name in _PACKING:
        values = column.by(lambda summary, name=name: plain(summary.attr(name)))
        if len(values) > 1:
            yield _conflict(
                "packing-attributes", column, values, scene,
                f"{name} differs, and the values are not unpacked",
                item=name, show=_text, remedy="leave mask_and_scale at True",
            )  # fmt: skip
    done = scene.options.attributes_done
    for name in _FLAGS:
        values = column.by(lambda summary, name=name: summary.attr(name))
        if len(values) > 1:
            yield Difference.found(
                "flag-meanings", column.name, values, scene.url, show, _show_typed, item=name,
                done=f"numbers are kept; {name}: {done}",
            )  # fmt: skip
    ignored = set(_APART)
    if column.name in scene.grid_mappings:
        ignored |= _projection_names(found)
    yield from _each_attribute(found, scene, "variable-attributes", column.name, ignored)


def _each_attribute(
    found: list[Group],
    scene: Scene,
    kind: str,
    variable: str | None,
    ignored: Collection[str] = (),
) -> Iterator[Difference]:
    """One difference for each attribute that differs, by name."""
    if len(found) < 2:
        return
    tables = [(dict(entry.value), entry.first, entry.sources) for entry in found]
    names = dict.fromkeys(name for table, _, _ in tables for name in table)
    for name in sorted(names):
        if name in ignored:
            continue
        values = regroup(((table.get(name), first, count) for table, first, count in tables), _same)
        if len(values) > 1:
            yield Difference.found(
                kind, variable, values, scene.url, show, _show_typed, item=name,
                done=scene.options.attributes_done,
            )  # fmt: skip


def _projection_names(found: list[Group]) -> set[str]:
    return {name for entry in found for name, _ in entry.value if name not in _PROSE}


def _is_date(summary: VariableSummary) -> bool:
    return summary.dtype.kind in "mM" or (
        summary.dtype.kind == "O" and summary.calendar is not None
    )


def _same(value: Hashable) -> Hashable:
    return value


def _show_typed(value: Any) -> str:
    return show(value, typed=True)


def _show_calendar(pair: Any) -> str:
    how, calendar = pair
    return calendar if how == "numbers" else f"{calendar} ({how})"


def _text(value: Any) -> str:
    return show(value) if value is None or isinstance(value, str | Typed) else str(value)
