"""Decides what becomes of the differences between sources: the entry point of this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from intarsia.combine.by_coords import Whole, placing
from intarsia.combine.conflicts import conflicts
from intarsia.combine.coordinates import Adjustment, coordinate_differences
from intarsia.combine.difference import Difference
from intarsia.combine.meaning import attribute_differences, meaning_differences
from intarsia.combine.options import Options
from intarsia.combine.scene import Scene
from intarsia.combine.shape import length_differences, shape_differences
from intarsia.combine.stored import stored_differences
from intarsia.combine.summary import SourceSummary
from intarsia.combine.table import TABLE

__all__ = ["Decision", "decide", "differences"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What differs between sources, and what is to be done.

    Parameters
    ----------
    sources
        Number of sources.
    concat_dims
        The dimensions of concatenation: those asked for, or those that ``by_coords`` will find.
    differences
        All of them, in the order of the table, then of the variables.
    adjustments
        What to do to single sources before combining (`tolerance`, `align`); empty by default.
    virtual
        Names of the variables whose storage is known in every source that has them.
    """

    sources: int
    concat_dims: tuple[str, ...]
    differences: tuple[Difference, ...]
    adjustments: tuple[Adjustment, ...] = ()
    virtual: frozenset[str] = frozenset()

    @property
    def refused(self) -> tuple[Difference, ...]:
        """Those for which the combination is refused."""
        return tuple(difference for difference in self.differences if difference.refused)

    def raise_if_refused(self) -> None:
        """Raise for the first difference that is refused; the error tells the others.

        Raises
        ------
        CombineConflict, AlignmentConflict, UpstreamFault
            See `conflicts`.
        """
        conflicts(self.differences)


def decide(summaries: Sequence[SourceSummary], options: Options) -> Decision:
    """Find what differs between sources, and decide what is to be done about each difference.

    Nothing is read, changed or raised. The caller then, in this order:

    1. calls `Decision.raise_if_refused`, unless it only wants to tell (``intarsia check``);
    2. carries `Decision.adjustments` out (empty unless `Options.tolerance` or `Options.align` is
       given): for each, ``ds.isel({dim: slice(None, None, -1)})`` if ``flip``, then
       ``ds.assign_coords({dim: reference_ds[dim]})`` if ``relabel``;
    3. combines with xarray, with the user's arguments. Where `join` was not given, no coordinate
       differs that xarray would align, so that any join gives the same (but for a mosaic by
       coordinates that lacks tiles: see the kind ``missing-tiles``); where it was given, xarray
       does what it says;
    4. makes the report: ``Report.of(decision, ...)``.

    A refusal by xarray itself (``compat="equals"`` and values that differ) is raised by xarray in
    step 3.

    Parameters
    ----------
    summaries
        One per source, in the order of the combination (for nested lists, flattened), made by one
        `Summarizer`: then equal variables are the same object, and ten thousand files of the
        same layout cost little more than one.
    options
        What was asked, with xarray's defaults resolved.

    Returns
    -------
    Decision

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.combine import Options, Summarizer
    >>> make = Summarizer()
    >>> kelvin, celsius = (
    ...     make.variable(("time",), (2,), np.dtype("f4"), attrs={"units": units})
    ...     for units in ("K", "degC")
    ... )
    >>> sources = [make.source("a.nc", {"sst": kelvin}), make.source("b.nc", {"sst": celsius})]
    >>> options = Options(combine="nested", concat_dims=("time",))
    >>> decision = decide(sources, options)
    >>> [(difference.kind, difference.variable) for difference in decision.refused]
    [('units', 'sst')]
    >>> decision.raise_if_refused()
    Traceback (most recent call last):
    ...
    intarsia.errors.CombineConflict: units differ: 'sst', 'K' in a.nc and 'degC' in b.nc; \
convert them with preprocess=, or pass on_conflict='first' to override
    """
    scene = Scene(summaries, options)
    adjustments: list[Adjustment] = []
    found: list[Difference] = []
    wholes: list[Whole] | None = None
    if options.combine == "by_coords":
        places = placing(scene)
        scene.concat_dims, scene.holed = places.concat_dims, places.holed
        wholes = places.wholes
        scene.wholes = [whole.members for whole in wholes]
        found += places.differences
    if summaries:
        for column in scene.columns.values():
            found += stored_differences(column, scene)
            found += shape_differences(column, scene)
            found += meaning_differences(column, scene)
        found += length_differences(scene)
        found += coordinate_differences(scene, wholes, adjustments)
        found += attribute_differences(scene)
    order = {kind: place for place, kind in enumerate(TABLE)}
    found.sort(key=lambda difference: order[difference.kind])
    virtual = frozenset(
        name
        for name, column in scene.columns.items()
        if all(entry.value.stored is not None for entry in column.groups)
    )
    return Decision(len(summaries), scene.concat_dims, tuple(found), tuple(adjustments), virtual)


def differences(
    summaries: Sequence[SourceSummary], options: Options | None = None
) -> tuple[Difference, ...]:
    """Find what differs between sources: `Decision.differences` of `decide`."""
    return decide(summaries, options or Options()).differences
