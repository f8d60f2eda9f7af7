"""Differences in which variables there are, their types and their dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from intarsia.combine.columns import Column, Group, group, regroup
from intarsia.combine.difference import Difference
from intarsia.combine.scene import Scene
from intarsia.combine.summary import VariableSummary

__all__ = ["length_differences", "shape_differences"]

type _Found = list[tuple[str, int, int]]

_FIRST = "on_conflict='first'"


def shape_differences(column: Column, scene: Scene) -> Iterator[Difference]:
    """Find what differs in presence, type and dimensions of one variable."""
    yield from _presence(column, scene)
    yield from _types(column, scene)
    yield from _dims(column, scene)


def length_differences(scene: Scene) -> Iterator[Difference]:
    """Find what differs in the lengths of dimensions that have no coordinates."""
    for dim in scene.dims:
        lengths = [lengths.get(dim) for lengths in scene.lengths]
        found = [entry for entry in group(lengths) if entry.value is not None]
        if len(found) < 2:
            continue
        if dim in scene.concat_dims:
            yield Difference.found("length", None, found, scene.url, item=dim)
        if scene.options.combine == "by_coords":
            lanes: Sequence[list[int]] = [list(range(scene.count))]
            lanes = [] if dim in scene.concat_dims else lanes
        else:
            lanes = list(scene.lanes(dim))
        index = scene.columns.get(dim)
        for lane in lanes:
            yield from _unindexed(dim, lane, lengths, index, scene)


def _unindexed(
    dim: str,
    lane: list[int],
    lengths: list[int | None],
    index: Column | None,
    scene: Scene,
) -> Iterator[Difference]:
    """Compare lengths among sources some of which lack the coordinate (xarray refuses, too)."""
    having = [source for source in lane if lengths[source] is not None]
    bare = [
        source
        for source in having
        if index is None or (summary := index.by_source[source]) is None or not summary.is_index
    ]
    if not bare:
        return
    found = [Group(lengths[having[entry.first]], having[entry.first], entry.sources)
             for entry in group([lengths[source] for source in having])]  # fmt: skip
    if len(found) > 1:
        yield Difference.found(
            "dimension-length", None, found, scene.url, lambda length: f"{length} elements",
            item=dim, reason=f"dimension {dim!r} has other lengths, and no coordinates to align by",
            remedy=f"concatenate along {dim!r}, or give it coordinates with preprocess=",
        )  # fmt: skip


def _presence(column: Column, scene: Scene) -> Iterator[Difference]:
    roles = column.by(lambda summary: summary.is_coordinate)
    if len(roles) > 1:
        yield Difference.found(
            "coordinate-or-data", column.name, roles, scene.url,
            lambda is_coordinate: "coordinate" if is_coordinate else "data variable",
            reason="a coordinate in some files, a data variable in others",
            remedy="make it one of them with preprocess= (set_coords, reset_coords)",
        )  # fmt: skip
    if column.absent is None:
        found = [(entry.value, entry.first, entry.sources) for entry in column.by(_presented)]
    else:
        found = [
            (_presented(column.first), column.groups[0].first, column.present),
            ("absent", column.absent.first, column.absent.sources),
        ]
        if column.first.is_coordinate:
            yield _absent_coordinate(column, found, scene)
        else:
            yield _absent_variable(column, found, scene)
    holes = scene.has_holes(column) and scene.is_concatenated(column) is not False
    kinds = {entry.value.dtype.kind for entry in column.groups}
    if holes and kinds & {"b", "V"}:
        difference = Difference.found(
            "hole-object", column.name, found, scene.url,
            reason="no value of its type says 'missing', which it would be in some files' part",
            remedy=f"drop it with drop_variables={column.name!r}, or give it another type with "
            "preprocess=", override=_FIRST,
        )  # fmt: skip
        yield _overridden(difference, scene)


def _absent_variable(column: Column, found: _Found, scene: Scene) -> Difference:
    detail = ""
    if scene.options.combine == "by_coords":
        done = "files with the same variables are combined first, then the results are merged"
    elif not scene.has_holes(column):
        done = "merged: taken from the files that have it"
    elif scene.is_concatenated(column) is False:
        done = "not concatenated: taken from the files that have it"
    else:
        done = "missing values in those files' part"
        detail = _promotion(column, scene, hole=True)
    return Difference.found(
        "absent-variable", column.name, found, scene.url, done=done, detail=detail
    )


def _absent_coordinate(column: Column, found: _Found, scene: Scene) -> Difference:
    difference = Difference.found(
        "absent-coordinate", column.name, found, scene.url,
        reason="a coordinate that would be concatenated is absent in some files",
        remedy="add it with preprocess=", override=f"drop_variables={column.name!r}",
    )  # fmt: skip
    if scene.is_split(column) and scene.is_concatenated(column):
        return difference
    return difference.equal("taken from the files that have it")


def _types(column: Column, scene: Scene) -> Iterator[Difference]:
    if len(column.groups) < 2:
        return
    families = {_family(entry.value) for entry in column.groups}
    found = column.by(_type)
    if len(found) < 2:
        return
    if "durations" in families and len(families) > 1:
        yield Difference.found(
            "xarray-fault-timedelta-join", column.name, found, scene.url, _show_type_key,
            reason="durations in some files, other values in others: xarray joins the bare numbers",
            remedy="decode them alike with decode_timedelta=, or make them alike with preprocess=",
        )  # fmt: skip
    elif _joinable(families, column):
        if families == {"dates"} and any(entry.value.dtype.kind == "O" for entry in column.groups):
            return  # a difference of calendars
        yield Difference.found(
            "dtype", column.name, found, scene.url, _show_type_key,
            detail=_promotion(column, scene, hole=scene.has_holes(column)),
        )  # fmt: skip
    else:
        difference = Difference.found(
            "dtype-object", column.name, found, scene.url, _show_type_key,
            reason="these types have none in common",
            remedy="make them alike with preprocess=", override=_FIRST,
        )  # fmt: skip
        yield _overridden(difference, scene)


def _dims(column: Column, scene: Scene) -> Iterator[Difference]:
    found = column.by(lambda summary: summary.dims)
    if len(found) > 1:
        same = len({frozenset(entry.value) for entry in found}) == 1
        yield Difference.found(
            "dims-order" if same else "dims", column.name, found, scene.url, _show_dims
        )
    static = not column.any(lambda summary: not set(scene.concat_dims).isdisjoint(summary.dims))
    if not static or not scene.concat_dims or scene.count < 2 or column.first.is_index:
        return
    joined = scene.is_concatenated(column)
    dims = " and ".join(scene.concat_dims)
    role = "coords" if column.first.is_coordinate else "data_vars"
    given = scene.options.coords if column.first.is_coordinate else scene.options.data_vars
    done = {
        True: f"repeated along {dims} ({role}={given!r})",
        False: f"kept once ({role}={given!r}, compat={scene.options.compat!r})",
        None: f"repeated along {dims} only if its values differ ({role}={given!r})",
    }[joined]
    if not (scene.new_dims and joined):
        groups = column.by(lambda summary: summary.dims)
        yield Difference.found(
            "static-variable", column.name, groups, scene.url, _show_dims, done=done
        )
    contents = column.by_fine(lambda summary: summary.content)
    if len(contents) > 1 and all(entry.value is not None for entry in contents):
        told = {
            True: f"each file's own, along {dims}",
            False: "the first file's"
            if scene.options.compat == "override"
            else f"xarray compares them (compat={scene.options.compat!r})",
            None: f"each file's own, along {dims}",
        }[joined]
        yield Difference.found(
            "static-values", column.name, contents, scene.url, _show_content, done=told
        )


def _overridden(difference: Difference, scene: Scene) -> Difference:
    if scene.options.on_conflict == "first":
        return difference.equal(f"as xarray, since {_FIRST}")
    return difference


def _family(summary: VariableSummary) -> str:
    """Families of types: those of one family have a common type that is not object."""
    kind = summary.dtype.kind
    if kind == "O":
        return "dates" if summary.calendar is not None else "objects"
    return {
        "b": "bool", "U": "text", "S": "bytes", "M": "dates", "m": "durations", "V": "compound",
        "T": "objects",
    }.get(kind, "numbers")  # fmt: skip


def _joinable(families: set[str], column: Column) -> bool:
    if families <= {"bool", "numbers"} or families <= {"text", "objects"}:
        return True
    if families == {"compound"}:
        try:
            np.result_type(*(entry.value.dtype for entry in column.groups))
        except TypeError:
            return False
        return True
    return len(families) == 1


def _type(summary: VariableSummary) -> tuple[str, np.dtype[Any] | None]:
    """Type of the values; strings of all lengths are one type, dates of all calendars too."""
    family = _family(summary)
    fixed = family in ("text", "bytes", "objects") or (
        family == "dates" and summary.dtype.kind == "O"
    )
    return family, None if fixed else summary.dtype


def _promotion(column: Column, scene: Scene, *, hole: bool) -> str:
    """Tell the resulting type, where it can be told: one level of concatenation of plain types."""
    promote = scene.options.promote
    if promote is None or len(scene.options.concat_dims) > 1:
        return ""
    dtypes = [entry.value for entry in regroup(column.groups, lambda summary: summary.dtype)]
    return f"the whole is {_show_type(promote(dtypes, hole))}"


def _show_type_key(key: Any) -> str:
    family, dtype = key
    if dtype is not None:
        return _show_type(dtype)
    return {"text": "strings", "objects": "strings (objects)"}.get(family, str(family))


def _show_type(dtype: np.dtype[Any]) -> str:
    return "strings" if dtype.kind in "UT" else "bytes" if dtype.kind == "S" else str(dtype)


def _presented(summary: VariableSummary) -> str:
    return f"present, {_show_type(summary.dtype)}"


def _show_dims(dims: Any) -> str:
    return f"({', '.join(dims)})" if dims else "no dimensions"


def _show_content(content: Any) -> str:
    values = content.values
    return repr(content) if values is None else str(values.dtype) + " " + repr(content)
