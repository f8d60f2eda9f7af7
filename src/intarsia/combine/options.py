"""What combining was asked to do: the arguments that decide what becomes of a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

__all__ = ["Options", "Promote"]

type Promote = Callable[[Sequence[np.dtype[Any]], bool], np.dtype[Any]]
"""The type that xarray gives to values of some types, with or without missing ones among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of `open_mfdataset` that decide about differences, resolved.

    Parameters
    ----------
    combine
        As xarray's.
    concat_dims
        For ``combine="nested"``: xarray's ``concat_dim`` as a tuple, outermost first; None merges.
    tiles
        For ``combine="nested"`` with several `concat_dims`: the place of each source in the nested
        lists, one integer per dimension, in the order of the sources.
    join
        None if it was *not given*; else as xarray's.
    on_conflict
        ``"raise"``, or ``"first"``: combine as xarray would, which keeps the first's attributes.
    tolerance
        Coordinates of equal length that differ by at most this much are the same ones; in the
        units of the coordinate, `numpy.timedelta64` for times. None: they are not.
    align
        ``"flip"`` turns reversed coordinates round; None does not.
    data_vars, coords, compat, combine_attrs
        As xarray's, defaults resolved by the caller (they depend on an option of xarray). They
        decide nothing here but how the outcome is described, and which variables are concatenated.
    promote
        Predicts the type that xarray gives, for the text of a difference. None: no prediction.
    """

    combine: Literal["nested", "by_coords"] = "by_coords"
    concat_dims: tuple[str | None, ...] = ()
    tiles: Sequence[tuple[int, ...]] | None = None
    join: str | None = None
    on_conflict: Literal["raise", "first"] = "raise"
    tolerance: float | np.timedelta64 | None = None
    align: Literal["flip"] | None = None
    data_vars: str | tuple[str, ...] | None = "all"
    coords: str | tuple[str, ...] | None = "different"
    compat: str = "no_conflicts"
    combine_attrs: Any = "override"
    promote: Promote | None = None

    def __post_init__(self) -> None:
        choices = {
            "combine": (self.combine, ("nested", "by_coords")),
            "on_conflict": (self.on_conflict, ("raise", "first")),
            "align": (self.align, (None, "flip")),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                listed = " or ".join(repr(choice) for choice in allowed)
                raise ValueError(f"{name} must be {listed}, got {value!r}")
        if self.combine == "by_coords" and self.concat_dims:
            raise ValueError("concat_dims goes with combine='nested'; by_coords finds its own")
        tolerance: Any = self.tolerance
        if tolerance is not None:
            if not isinstance(tolerance, int | float | np.number | np.timedelta64):
                raise TypeError(f"tolerance must be a number or a timedelta64, got {tolerance!r}")
            if float(np.asarray(cast("Any", tolerance)).astype(np.float64)) < 0:
                raise ValueError(f"tolerance must not be negative, got {tolerance!r}")
        tiles = self.tiles
        if tiles is not None and any(len(tile) != len(self.concat_dims) for tile in tiles):
            raise ValueError("each tile must have one position for each of concat_dims")

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions of concatenation that were named."""
        return tuple(dim for dim in self.concat_dims if dim is not None)

    @property
    def attributes_done(self) -> str:
        """What `combine_attrs` does with an attribute that differs."""
        told = {
            "override": "the first file's is kept",
            "drop": "dropped, as all attributes are",
            "drop_conflicts": "dropped",
            "no_conflicts": "xarray raises (combine_attrs='no_conflicts')",
            "identical": "xarray raises (combine_attrs='identical')",
        }
        given: Any = self.combine_attrs
        return told.get(given, "xarray decides") if isinstance(given, str) else "combine_attrs asks"
