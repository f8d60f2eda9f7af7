"""How ``combine="by_coords"`` will place files: along which dimensions, and where some are missing.

xarray combines files with the same data variables first. It places each of them along every
dimension whose coordinate is not the same in all of them, by the rank of the coordinate's first
value; then it merges the wholes so made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from intarsia.combine.columns import Column, Group, group
from intarsia.combine.compare import compare, ends
from intarsia.combine.difference import Difference
from intarsia.combine.frozen import Content, show_value
from intarsia.combine.scene import Scene

__all__ = ["Lines", "Placing", "Whole", "conflicting", "indexes", "overlapping", "placing"]


class Lines:
    """The distinct values that some sources have for one coordinate.

    Parameters
    ----------
    column
        The coordinate.
    members
        Numbers of the sources.

    Attributes
    ----------
    groups : list of Group
        Distinct contents, by first source.
    """

    __slots__ = ("groups", "sources")

    def __init__(self, column: Column, members: Sequence[int]) -> None:
        self.sources: dict[Content, list[int]] = {}
        known = [
            (source, summary.content)
            for source in members
            if (summary := column.by_source[source]) is not None
            and summary.is_index
            and summary.content is not None
        ]
        for source, content in known:
            self.sources.setdefault(content, []).append(source)
        found = group([content for _, content in known])
        self.groups = [Group(one.value, known[one.first][0], one.sources) for one in found]

    @property
    def values(self) -> list[Content]:
        """The distinct contents."""
        return [entry.value for entry in self.groups]

    @property
    def count(self) -> int:
        """How many sources have the coordinate."""
        return sum(entry.sources for entry in self.groups)

    @property
    def differ(self) -> bool:
        """Whether some value differs, whatever the type."""
        values = self.values
        return any(compare(values[0], other).verdict != "same" for other in values[1:])


class Whole(NamedTuple):
    """Files with the same data variables, which are combined before anything else.

    Parameters
    ----------
    members
        Numbers of the sources.
    lines
        Their coordinates by dimension.
    """

    members: list[int]
    lines: dict[str, Lines]


class Placing(NamedTuple):
    """Where files go.

    Parameters
    ----------
    concat_dims
        The dimensions along which files are placed.
    wholes
        Files by their data variables.
    holed
        Sources of wholes that have missing parts.
    differences
        Files at one place, and missing ones.
    """

    concat_dims: tuple[str, ...]
    wholes: list[Whole]
    holed: frozenset[int]
    differences: list[Difference]


def placing(scene: Scene) -> Placing:
    """Find where ``combine="by_coords"`` places files.

    A dimension whose coordinates overlap without being equal orders nothing: it is no dimension of
    concatenation here, and its difference is told elsewhere.
    """
    found: set[str] = set()
    holed: set[int] = set()
    differences: list[Difference] = []
    columns = dict(indexes(scene))
    wholes = [
        Whole(members, {dim: Lines(column, members) for dim, column in columns.items()})
        for members in _same_variables(scene)
    ]
    for whole in wholes:
        differing = {dim: lines for dim, lines in whole.lines.items() if lines.differ}
        ordering = {
            dim: lines for dim, lines in differing.items() if not any(overlapping(lines.values))
        }
        found.update(ordering)
        # what overlaps is refused or made equal, unless a join is given: then xarray places by it
        placed = ordering if scene.options.join is None else differing
        if not placed:
            continue
        places: dict[tuple[Any, ...], list[int]] = {}
        for source in whole.members:
            place = tuple(_first_value(columns[dim], source) for dim in placed)
            places.setdefault(place, []).append(source)
        differences += _same_place(tuple(placed), places, scene)
        steps = math.prod(len({place[axis] for place in places}) for axis in range(len(placed)))
        if len(places) < steps:
            holed.update(whole.members)
            differences.append(_missing(tuple(placed), len(places), steps, whole, scene))
    if any(_unequal(wholes, dim) for dim in columns):
        holed.update(range(scene.count))  # merged, each lacks a part that another has
    dims = tuple(dim for dim in scene.dims if dim in found)
    return Placing(dims, wholes, frozenset(holed), differences)


def indexes(scene: Scene) -> Iterator[tuple[str, Column]]:
    """Index coordinates by their dimension."""
    for column in scene.columns.values():
        if column.any(lambda summary: summary.is_index):
            yield column.first.dims[0] if column.first.dims else column.name, column


def overlapping(values: Sequence[Content]) -> Iterator[tuple[int, int]]:
    """Find coordinates that overlap: pairs of the first and another of those that hang together.

    Sorted by where they begin, a coordinate overlaps some earlier one exactly if it overlaps the
    one that reaches furthest.
    """
    try:
        spans = sorted(
            (*ends(content.values), place)
            for place, content in enumerate(values)
            if content.values is not None and content.values.size
        )
    except TypeError:  # dates of several calendars, strings and numbers: told as such elsewhere
        return
    clusters: list[list[int]] = []
    furthest: Any = None
    begin: Any = None
    for low, high, place in spans:
        # xarray takes coordinates that begin alike for the same
        if clusters and (low < furthest or low == begin):
            clusters[-1].append(place)
            furthest = max(furthest, high)
        else:
            clusters.append([place])
            furthest = high
        begin = low
    for cluster in clusters:
        first, *others = sorted(cluster)
        for other in others:
            if compare(values[first], values[other]).verdict != "same":
                yield first, other


def joined(values: Sequence[Content]) -> Content | None:
    """Make the coordinate of the whole, smallest first; None where that can't be told."""
    arrays = [content.values for content in values if content.values is not None]
    if len(arrays) < len(values) or not arrays:
        return None
    if len(arrays) == 1:
        return values[0]
    try:
        return Content.of(np.concatenate(sorted(arrays, key=ends)))
    except TypeError:
        return None


def _same_variables(scene: Scene) -> Iterator[list[int]]:
    """Group sources by their data variables, as ``combine_by_coords`` does."""
    known: dict[int, tuple[str, ...]] = {}
    groups: dict[tuple[str, ...], list[int]] = {}
    for source, summary in enumerate(scene.summaries):
        variables = summary.variables
        key = known.get(id(variables))
        if key is None:
            key = tuple(sorted(name for name, v in variables.items() if not v.is_coordinate))
            known[id(variables)] = key
        groups.setdefault(key, []).append(source)
    yield from groups.values()


def conflicting(wholes: Sequence[Whole], dim: str, column: Column) -> Iterator[tuple[Group, Group]]:
    """Find wholes that are merged although their coordinates neither agree nor lie apart.

    Two wholes may consist of other pieces and still be the same; and they may have no piece in
    common, as where some files lack a variable. What they may not have is pieces that overlap.

    Yields
    ------
    (Group, Group)
        The coordinates of two wholes, numbered by their first sources.
    """
    if len(wholes) < 2:
        return
    everything = Lines(column, [source for whole in wholes for source in whole.members])
    number = {source: place for place, whole in enumerate(wholes) for source in whole.members}
    owners = [
        dict.fromkeys(number[source] for source in everything.sources[content])
        for content in everything.values
    ]
    met = dict.fromkeys(
        (min(one, other), max(one, other))
        for a, b in overlapping(everything.values)
        for one in owners[a]
        for other in owners[b]
        if one != other
    )
    for one, other in met:
        pair = [wholes[place].lines[dim] for place in (one, other)]
        a, b = (joined(lines.values) for lines in pair)
        if a is not None and b is not None and compare(a, b).verdict != "same":
            firsts = [lines.groups[0].first for lines in pair]
            yield Group(a, firsts[0], pair[0].count), Group(b, firsts[1], pair[1].count)


def _unequal(wholes: Sequence[Whole], dim: str) -> bool:
    """Whether some whole has other coordinates than the first."""
    made = [joined(whole.lines[dim].values) for whole in wholes]
    known = [content for content in made if content is not None]
    return any(compare(known[0], other).verdict != "same" for other in known[1:])


def _first_value(column: Column, source: int) -> Any:
    summary = column.by_source[source]
    content = None if summary is None else summary.content
    if content is None or content.values is None or content.values.size == 0:
        return content
    value: Any = content.values[0]
    return value.item() if content.values.dtype.kind in "biuf" else value


def _same_place(
    dims: tuple[str, ...], places: dict[tuple[Any, ...], list[int]], scene: Scene
) -> Iterator[Difference]:
    """Files that xarray would put at one place, keeping only the last of them."""
    shared = [(place, sources) for place, sources in places.items() if len(sources) > 1]
    for place, sources in shared[:1]:
        text = ", ".join(
            f"{dim}={show_value(value)}" for dim, value in zip(dims, place, strict=True)
        )
        yield Difference.found(
            "xarray-fault-same-place", None, [(text, source, 1) for source in sources], scene.url,
            item=" and ".join(dims),
            detail="" if len(shared) == 1 else f"and at {len(shared) - 1} other places",
            reason="files whose coordinates begin at the same place: xarray would keep only "
            "the last of them, silently",
            remedy="leave all but one out, or use combine='nested'",
        )  # fmt: skip


def _missing(
    dims: tuple[str, ...], there: int, places: int, whole: Whole, scene: Scene
) -> Difference:
    join = scene.options.join
    told = "xarray's default join" if join is None else f"join={join!r}"
    groups = [(f"{there} of {places} places", whole.members[0], len(whole.members))]
    return Difference.found(
        "missing-tiles", None, groups, scene.url, item=" and ".join(dims),
        done=f"missing values there, as {told} says",
    )  # fmt: skip
