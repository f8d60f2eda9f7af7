"""Differences in the coordinates by which values are lined up, and what to do to settle them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from intarsia.combine.by_coords import Lines, Whole, conflicting, indexes, overlapping
from intarsia.combine.columns import Column, Group
from intarsia.combine.compare import Comparison, compare, ends, show_distance
from intarsia.combine.difference import Difference
from intarsia.combine.frozen import Content, brief
from intarsia.combine.scene import Scene

__all__ = ["Adjustment", "coordinate_differences"]


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


def coordinate_differences(
    scene: Scene,
    wholes: Sequence[Whole] | None = None,
    adjustments: list[Adjustment] | None = None,
) -> Iterator[Difference]:
    """Find coordinates that differ where they should not.

    Parameters
    ----------
    scene
        Its ``concat_dims`` are known.
    wholes
        For ``combine="by_coords"``: the files by their data variables.
    adjustments
        Gets what `tolerance` and `align` ask to have done.
    """
    for dim, column in indexes(scene):
        found: dict[str, list[_Off]] = {}
        for pair in _pairs(scene, dim, column, wholes):
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
        if wholes is None and dim in scene.concat_dims:
            yield from _order(dim, column, scene)


def _pairs(
    scene: Scene, dim: str, column: Column, wholes: Sequence[Whole] | None
) -> Iterator[_Pair]:
    """Coordinates that have to be the same.

    For nested sources, those of each lane. By coordinates: those that overlap, among files with
    the same data variables, then among the wholes that these make.
    """
    if wholes is None:
        for lane in scene.lanes(dim):
            lines = Lines(column, lane)
            for other in lines.groups[1:]:
                yield _Pair(lines.groups[0], other, lines.sources[other.value])
        return
    for whole in wholes:
        lines = whole.lines[dim]
        for a, b in overlapping(lines.values):
            other = lines.groups[b]
            yield _Pair(lines.groups[a], other, lines.sources[other.value])
    for reference, other in conflicting(wholes, dim, column):
        yield _Pair(reference, other)


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
