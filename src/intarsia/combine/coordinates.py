"""Differences in the coordinates by which values are lined up, and what to do to settle them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from intarsia.combine.columns import Column, Group, group
from intarsia.combine.compare import Comparison, compare, disjoint, ends, show_distance
from intarsia.combine.difference import Difference
from intarsia.combine.frozen import Content, brief, show_value
from intarsia.combine.scene import Scene

__all__ = ["Adjustment", "coordinate_differences", "ordering_dims"]


class Adjustment(NamedTuple):
    """What to do to one source before combining, so that a coordinate is the reference's.

    Parameters
    ----------
    source
        Number of the source.
    dim
        The dimension.
    flip
        Reverse the source along `dim`.
    relabel
        Then give it the coordinate of `reference`.
    reference
        Number of the source whose coordinate is kept.
    """

    source: int
    dim: str
    flip: bool
    relabel: bool
    reference: int


class _Pair(NamedTuple):
    """Two coordinates that should be the same: the reference's, another, and who has the other."""

    reference: Group
    other: Group
    members: Sequence[int] = ()


class _Off(NamedTuple):
    """A coordinate that is not the reference's, how it differs, and what settles it."""

    pair: _Pair
    comparison: Comparison
    settled: tuple[bool, bool] | None

    @property
    def distance(self) -> float:
        """For ordering, whatever the unit of the coordinate."""
        distance = self.comparison.distance
        if isinstance(distance, np.timedelta64):
            return float(distance / np.timedelta64(1, "ns"))
        return -1.0 if distance is None else float(distance)


def ordering_dims(scene: Scene) -> tuple[str, ...]:
    """Find the dimensions along which ``combine="by_coords"`` concatenates.

    As xarray finds them: files with the same data variables are combined first, along each
    dimension whose coordinate is not the same in all of them. A dimension whose coordinates
    overlap without being equal orders nothing, and is left out here.
    """
    found: dict[str, None] = {}
    for members in _same_variables(scene):
        for dim, column in _indexes(scene):
            contents = _contents(column, members)
            values = [entry.value for entry in contents]
            if len(values) > 1 and _distinct(values) and not any(_overlapping(values)):
                found[dim] = None
    return tuple(dim for dim in scene.dims if dim in found)


def coordinate_differences(
    scene: Scene, adjustments: list[Adjustment] | None = None
) -> Iterator[Difference]:
    """Find coordinates that differ where they should not.

    Parameters
    ----------
    scene
        Its ``concat_dims`` are known.
    adjustments
        Gets what `tolerance` and `align` ask to have done.
    """
    for dim, column in _indexes(scene):
        found: dict[str, list[_Off]] = {}
        by_coords = scene.options.combine == "by_coords"
        pairs = _by_coords_pairs(scene, column) if by_coords else _lane_pairs(scene, dim, column)
        for pair in pairs:
            comparison = compare(pair.reference.value, pair.other.value)
            if comparison.verdict == "same":
                continue
            settled = _settle(comparison, scene) if pair.members else None
            found.setdefault(comparison.kind, []).append(_Off(pair, comparison, settled))
            if settled is not None and adjustments is not None:
                reference = pair.reference.first
                adjustments += (
                    Adjustment(source, dim, *settled, reference) for source in pair.members
                )
        for kind, off in found.items():
            yield _difference(kind, column.name, off, scene)
        if not by_coords and dim in scene.concat_dims:
            yield from _order(dim, column, scene)
    if scene.options.combine == "by_coords":
        yield from _same_place(scene)


def _indexes(scene: Scene) -> Iterator[tuple[str, Column]]:
    """Index coordinates by their dimension."""
    for column in scene.columns.values():
        if column.any(lambda summary: summary.is_index and summary.content is not None):
            yield column.first.dims[0] if column.first.dims else column.name, column


def _contents(column: Column, members: Sequence[int]) -> list[Group]:
    """Distinct values of a coordinate in some of the sources, sources numbered as in the whole."""
    known = [
        (source, summary.content)
        for source in members
        if (summary := column.by_source[source]) is not None
        and summary.is_index
        and summary.content is not None
    ]
    found = group([content for _, content in known])
    return [Group(entry.value, known[entry.first][0], entry.sources) for entry in found]


def _members(column: Column, members: Sequence[int], content: Content) -> list[int]:
    return [
        source
        for source in members
        if (summary := column.by_source[source]) is not None and summary.content == content
    ]


def _lane_pairs(scene: Scene, dim: str, column: Column) -> Iterator[_Pair]:
    """Coordinates of nested sources that have to be the same."""
    for lane in scene.lanes(dim):
        contents = _contents(column, lane)
        for other in contents[1:]:
            yield _Pair(contents[0], other, _members(column, lane, other.value))


def _by_coords_pairs(scene: Scene, column: Column) -> Iterator[_Pair]:
    """Coordinates that overlap without being equal: they neither order files nor line them up.

    First among files with the same data variables, then among the wholes that these make.
    """
    wholes: list[Group] = []
    for members in _same_variables(scene):
        contents = _contents(column, members)
        if not contents:
            continue
        values = [entry.value for entry in contents]
        for a, b in _overlapping(values):
            yield _Pair(contents[a], contents[b], _members(column, members, values[b]))
        joined = _joined(values)
        if joined is not None:
            wholes.append(Group(joined, contents[0].first, len(members)))
    for other in wholes[1:]:
        if not disjoint(wholes[0].value, other.value):
            yield _Pair(wholes[0], other)


def _same_place(scene: Scene) -> Iterator[Difference]:
    """Files that xarray would put at one place, keeping only the last of them.

    It places a file by the first values of its coordinates.
    """
    for members in _same_variables(scene):
        columns = {
            dim: column
            for dim, column in _indexes(scene)
            if len(contents := _contents(column, members)) > 1
            and _distinct([entry.value for entry in contents])
        }
        if not columns:
            continue
        places: dict[tuple[Any, ...], list[int]] = {}
        for source in members:
            firsts = tuple(_first_value(column, source) for column in columns.values())
            places.setdefault(firsts, []).append(source)
        shared = [(place, sources) for place, sources in places.items() if len(sources) > 1]
        for place, sources in shared[:1]:
            text = ", ".join(
                f"{dim}={show_value(value)}" for dim, value in zip(columns, place, strict=True)
            )
            values = [(text, source, 1) for source in sources]
            yield Difference.found(
                "xarray-fault-same-place", None, values, scene.url, item=" and ".join(columns),
                detail="" if len(shared) == 1 else f"and at {len(shared) - 1} other places",
                reason="files whose coordinates begin at the same place: xarray would keep only "
                "the last of them, silently",
                remedy="leave all but one out, or use combine='nested'",
            )  # fmt: skip


def _first_value(column: Column, source: int) -> Any:
    summary = column.by_source[source]
    content = None if summary is None else summary.content
    if content is None or content.values is None or content.values.size == 0:
        return content
    value: Any = content.values[0]
    return value.item() if content.values.dtype.kind in "biuf" else value


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


def _distinct(values: Sequence[Content]) -> bool:
    return any(compare(values[0], other).verdict != "same" for other in values[1:])


def _overlapping(values: Sequence[Content]) -> Iterator[tuple[int, int]]:
    """Pairs of coordinates that overlap, each with the first of those that hang together with it.

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


def _joined(values: Sequence[Content]) -> Content | None:
    """Make the coordinate of the whole, smallest first; None where that can't be told."""
    arrays = [content.values for content in values if content.values is not None]
    if len(arrays) < len(values):
        return None
    if len(arrays) == 1:
        return values[0]
    try:
        return Content.of(np.concatenate(sorted(arrays, key=ends)))
    except TypeError:
        return None


def _settle(comparison: Comparison, scene: Scene) -> tuple[bool, bool] | None:
    """(flip, relabel) if `tolerance` and `align` settle it, else None."""
    flip = comparison.verdict == "reversed"
    if flip and scene.options.align != "flip":
        return None
    distance, tolerance = comparison.distance, scene.options.tolerance
    if flip and not distance:
        return True, False
    if distance is None or tolerance is None or comparison.verdict == "length":
        return None
    if isinstance(distance, np.timedelta64) != isinstance(tolerance, np.timedelta64):
        return None
    close: Any = distance <= tolerance
    return (flip, True) if close else None


def _difference(kind: str, name: str, off: list[_Off], scene: Scene) -> Difference:
    """One difference for all coordinates that differ in one way, the furthest off shown first."""
    worst = max(off, key=lambda one: (one.distance, -one.pair.other.first))
    reference = worst.pair.reference
    groups = dict.fromkeys([reference, worst.pair.other])
    groups.update(dict.fromkeys(group for one in off for group in one.pair[:2]))
    detail = worst.comparison.detail
    if detail and len(off) > 1:
        detail = f"{detail}, in {scene.url(worst.pair.other.first)}"
    overlap = scene.options.combine == "by_coords" and kind[11:] in ("length", "values")
    ways_out: dict[str, Any] = _ways_out(kind, name, worst.comparison, overlap=overlap)
    difference = Difference.found(
        kind, name, groups, scene.url, _show, keep_order=True, detail=detail,
        reason=_reason(kind, detail, overlap=overlap),
        **ways_out,
    )  # fmt: skip
    if all(one.settled for one in off):
        if kind == "coordinate-reversed":
            return difference.on_purpose("turned round (align='flip')")
        return difference.on_purpose("the first file's coordinates are taken for all (tolerance=)")
    if scene.options.join is not None:
        return difference.equal(f"as xarray's join={scene.options.join!r}")
    return difference


def _reason(kind: str, detail: str, *, overlap: bool) -> str:
    told = {
        "coordinate-jitter": "coordinates are slightly off",
        "coordinate-reversed": "coordinates are reversed",
        "coordinate-length": "coordinates have other lengths",
        "coordinate-values": "coordinates differ",
    }[kind]
    if overlap:
        told = "coordinates overlap without being the same"
    return f"{told}: {detail}" if detail else told


def _ways_out(kind: str, name: str, worst: Comparison, *, overlap: bool) -> dict[str, str]:
    if kind == "coordinate-jitter":
        near = show_distance(worst.distance)
        if isinstance(worst.distance, np.timedelta64):
            ask = f"pass tolerance= (a numpy.timedelta64 of at least {near})"
        else:
            ask = f"pass tolerance={_rounded_up(worst.distance)} to take the first file's for all"
        return {"remedy": ask, "override": "join='override'"}
    if kind == "coordinate-reversed":
        return {"remedy": "pass align='flip' to turn it round", "override": "join='outer'"}
    remedy = f"select the same part of {name!r} with preprocess="
    if overlap:
        remedy = f"cut the overlap along {name!r} with preprocess="
    return {"remedy": remedy, "override": "join='outer'"}


def _rounded_up(distance: float) -> str:
    """Write a round number that is not below the distance."""
    text = f"{distance:.0e}"
    return text if float(text) >= distance else f"{distance * 1.5:.0e}"


def _content(column: Column, source: int) -> Content:
    summary = column.by_source[source]
    assert summary is not None
    assert summary.content is not None
    return summary.content


def _show(content: Any) -> str:
    return "other values" if content.values is None else brief(content.values)


def _order(dim: str, column: Column, scene: Scene) -> Iterator[Difference]:
    """Files along a dimension of concatenation that are not in the order of its coordinate."""
    if len(scene.options.concat_dims) > 1:
        return
    spans: list[tuple[Any, Any, int]] = []
    for source, summary in enumerate(column.by_source):
        content = None if summary is None else summary.content
        if content is None or content.values is None:
            return
        if content.values.size:
            spans.append((*ends(content.values), source))
    try:
        turns = [(before, after) for before, after in pairwise(spans) if after[0] <= before[1]]
        falling = all(after[1] < before[0] for before, after in pairwise(spans))
    except TypeError:  # dates of several calendars: told as such
        return
    if not turns or falling:
        return
    before, after = turns[0]
    values = [
        (_content(column, before[2]), before[2], 1),
        (_content(column, after[2]), after[2], 1),
    ]
    times = "once" if len(turns) == 1 else f"{len(turns)} times"
    yield Difference.found(
        "concat-order", column.name, values, scene.url, _show, item=dim,
        detail=f"a file does not come after the one before it ({times})",
    )  # fmt: skip
