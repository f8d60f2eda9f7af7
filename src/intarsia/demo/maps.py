"""Maps of one day: what one set of attributes gives, what Intarsia gives, and the difference."""

# matplotlib is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure

from intarsia.demo.oneset import Refused
from intarsia.demo.palette import DIFFERENCE, LAND, MISMATCH, PAPER, QUIET, SEA, WRONG
from intarsia.demo.verify import Outcome

NAMES = ("One set of attributes", "Intarsia", "Difference")

TEMPERATURES = Normalize(-2, 20)
"""°C, shared by all maps of temperature."""

DIFFERENCES = Normalize(-10, 10)
"""°C, shared by all maps of differences."""

WIDTH, HEIGHT = 80.0, 40.0
"""Degrees of longitude and latitude."""

STRETCH = 1.5
"""A degree of latitude is drawn so much longer: right at 48° north."""

SHAPE = WIDTH / (HEIGHT * STRETCH)
"""Width of a map by its height."""

_EXTENT = (-70.0, 10.0, 30.0, 70.0)


def draw_maps(axes: Sequence[Axes], outcome: Outcome, *, large: bool) -> None:
    """Draw the three maps of one case.

    Parameters
    ----------
    axes
        Where: three of them.
    outcome
        The case.
    large
        Whether there is room for ticks and reasons.
    """
    for ax in axes:
        ax.set_xlim(_EXTENT[:2])
        ax.set_ylim(_EXTENT[2:])
        ax.set_xticks([-60, -40, -20, 0] if large else [], None if large else [])
        ax.set_yticks([30, 40, 50, 60, 70] if large else [], None if large else [])
        ax.xaxis.set_major_formatter(lambda lon, _: f"{abs(lon):.0f}°{'W' if lon < 0 else ''}")
        ax.yaxis.set_major_formatter(lambda lat, _: f"{lat:.0f}°N")
        ax.tick_params(length=2.5, pad=2)
    left, middle, right = axes
    day = outcome.case.day
    ours = None if outcome.values is None else outcome.values[day].astype(np.float64)
    if ours is None:
        _say(middle, "failed", outcome.unequal[0] if large else "")
    else:
        _map(middle, ours, TEMPERATURES, SEA)
    if isinstance(outcome.one_set, Refused):
        _say(left, "refused", outcome.one_set.reason if large else "")
        _say(right, "nothing to compare" if large else "–", "")
        return
    picture = outcome.one_set[day].astype(np.float64)
    _map(left, picture, TEMPERATURES, SEA)
    if ours is not None:
        same = np.isnan(picture) & np.isnan(ours)
        _map(right, np.where(same, np.nan, picture - ours), DIFFERENCES, DIFFERENCE)
        only = np.isnan(picture) != np.isnan(ours)
        if only.any():
            shown = np.ma.masked_where(~only, np.ones(only.shape))
            _image(right, shown, cmap=ListedColormap([MISMATCH]))


def draw_scale(figure: Figure, box: tuple[float, float, float, float], which: str) -> None:
    """Draw a colour bar, of temperatures or of differences, into a box of the figure."""
    scale, colours = {
        "temperature": (TEMPERATURES, SEA),
        "difference": (DIFFERENCES, DIFFERENCE),
    }[which]
    upright = box[3] > box[2]
    bar = figure.add_axes(box)
    figure.colorbar(
        ScalarMappable(scale, colours), bar, extend="both",
        orientation="vertical" if upright else "horizontal",
    )  # fmt: skip
    bar.tick_params(labelsize=7.5, pad=2, length=2.5)
    label = f"{which} (°C)"
    if upright:
        bar.set_ylabel(label)
    else:
        bar.set_xlabel(label, labelpad=2)


def _map(ax: Axes, values: npt.NDArray[Any], scale: Normalize, colours: str) -> None:
    ax.set_facecolor(LAND)
    _image(ax, np.ma.masked_invalid(values), norm=scale, cmap=colours)
    if scale is not TEMPERATURES:
        return
    if np.isnan(values).all():
        _say(ax, "missing", "", QUIET)
    elif np.nanmin(values) > 1e4:
        ax.text(
            0.5, 0.5, f"{np.nanmax(values):.3g} °C", transform=ax.transAxes, ha="center",
            va="center", fontsize=_size(ax, 13), weight="bold", color=MISMATCH,
        )  # fmt: skip


def _image(ax: Axes, values: npt.NDArray[Any], **how: Any) -> None:
    ax.imshow(values, origin="lower", extent=_EXTENT, aspect="auto", interpolation="nearest", **how)


def _say(ax: Axes, word: str, reason: str, colour: str | None = None) -> None:
    """Words instead of a map."""
    if colour is None:
        ax.set_facecolor(PAPER)
        colour = WRONG if word in ("refused", "failed") else QUIET
    bold = colour == WRONG
    ax.text(
        0.5, 0.70 if reason else 0.5, word, transform=ax.transAxes, ha="center", va="center",
        fontsize=_size(ax, 13), color=colour, weight="bold" if bold else "normal",
    )  # fmt: skip
    if reason:
        ax.text(
            0.5, 0.58, textwrap.fill(reason, 36), transform=ax.transAxes, ha="center", va="top",
            fontsize=9, linespacing=1.35,
        )  # fmt: skip


def _size(ax: Axes, large: float) -> float:
    """A size of type that suits the size of a map."""
    return large if ax.get_position().width > 0.2 else 8.5
