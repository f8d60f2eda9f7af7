"""Charts along time: the mean of each day, and the segments a virtual array is made of."""

# matplotlib is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from intarsia.demo.boxes import Box
from intarsia.demo.field import DAYS, LATITUDES, LONGITUDES
from intarsia.demo.oneset import Refused
from intarsia.demo.palette import FILES, INK, LAND, QUIET, RIGHT, WRONG
from intarsia.demo.verify import Outcome

OFF_SCALE = 100.0
"""°C beyond which a mean is written instead of drawn."""

LEAST_RANGE = 4.0
"""°C that the axis of means spans at least: a season looks like a season."""


def draw_means(ax: Axes, outcome: Outcome) -> None:
    """Draw the mean of each day: of xarray alone, of Intarsia, of one set of attributes."""
    days = np.arange(DAYS)
    sea = np.isfinite(outcome.alone)
    alone = _means(outcome.alone, sea)
    low, high = float(np.nanmin(alone)), float(np.nanmax(alone))
    if not isinstance(outcome.one_set, Refused):
        means = _means(outcome.one_set, sea)
        outside = np.abs(means) > OFF_SCALE
        if not outside.all():
            low = min(low, float(np.nanmin(means[~outside])))
            high = max(high, float(np.nanmax(means[~outside])))
        ax.plot(
            days, np.where(outside, np.nan, means), color=WRONG, lw=1.6, ls=(0, (4, 2)), zorder=4,
            drawstyle="steps-mid", label="one set of attributes",
        )  # fmt: skip
        if outside.any():
            ax.text(
                float(days[outside].mean()), 0.5,
                f"one set of attributes: {means[outside][0]:.3g} °C", color=WRONG,
                transform=ax.get_xaxis_transform(), ha="center", va="center",
            )  # fmt: skip
    if outcome.values is not None:
        ax.plot(days, _means(outcome.values, sea), color=RIGHT, lw=2.2, zorder=2, label="Intarsia")
    ax.plot(
        days[::2], alone[::2], "o", ms=3.4, mfc="white", mec=RIGHT, mew=0.8, zorder=3,
        label="xarray, each file on its own",
    )  # fmt: skip
    room = max(0.12 * (high - low), (LEAST_RANGE - high + low) / 2)
    ax.set_ylim(low - room, high + room)
    ax.set_xlim(-0.5, DAYS - 0.5)
    for day in {edge for box in outcome.boxes for edge in box.days} - {0, DAYS}:
        ax.axvline(day - 0.5, color=QUIET, lw=0.6, ls=":", zorder=1)
    ax.axvline(outcome.case.day, color=INK, lw=0.7, zorder=1)
    ax.text(
        outcome.case.day + 0.4, 0.97, "maps", transform=ax.get_xaxis_transform(), va="top",
        fontsize=7.5, color=QUIET,
    )  # fmt: skip
    ax.set_ylabel("mean over\nthe sea (°C)")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(labelbottom=False, bottom=False)
    order = ("xarray, each file on its own", "Intarsia", "one set of attributes")
    handles, labels = ax.get_legend_handles_labels()
    shown = sorted(zip(labels, handles, strict=True), key=lambda pair: order.index(pair[0]))
    ax.legend(
        [handle for _, handle in shown], [label for label, _ in shown], loc="lower right",
        bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.2,
    )  # fmt: skip


def draw_segments(ax: Axes, outcome: Outcome, *, axis: bool = True) -> None:
    """Draw the segments over days and longitudes, with the chunks of each.

    Parameters
    ----------
    ax
        Where.
    outcome
        The case.
    axis
        Whether to label the days.
    """
    for box in outcome.boxes:
        _box(ax, box, outcome)
    ax.set_xlim(-0.5, DAYS - 0.5)
    ax.set_ylim(0, len(LONGITUDES))
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(labelbottom=axis, bottom=axis)
    if axis:
        ax.set_xticks(range(0, DAYS, 10))
        ax.set_xlabel("days since 2021-01-01", labelpad=2)


def _box(ax: Axes, box: Box, outcome: Outcome) -> None:
    (first, stop), (low, high) = box.days, box.columns
    colour = "white" if box.file is None else FILES[box.file % len(FILES)]
    left, right = first - 0.5, stop - 0.5
    ax.vlines([edge - 0.5 for edge in box.day_edges], low, high, color="white", lw=0.8)
    ax.hlines(box.column_edges, left, right, color="white", lw=0.8)
    corner, wide, tall = (left, low), right - left, high - low
    field = Rectangle(corner, wide, tall, facecolor=colour, edgecolor="none", zorder=0.5)
    if box.file is None:
        field.set(hatch="////", hatchcolor=LAND)
    ax.add_patch(field)
    ax.add_patch(Rectangle(corner, wide, tall, fill=False, edgecolor=INK, lw=0.8, zorder=2.5))
    ax.text(
        (left + right) / 2, (low + high) / 2, _label(box, outcome), ha="center", va="center",
        fontsize=8 if stop - first >= 15 else 7, linespacing=1.1,
        bbox={"facecolor": colour, "edgecolor": "none", "boxstyle": "square,pad=0.15"},
    )  # fmt: skip


def _label(box: Box, outcome: Outcome) -> str:
    encoding = f"[{'ABCDE'[box.encoding]}]"
    if box.file is None:
        return f"no file: missing {encoding}"
    piece = outcome.case.pieces[box.file]
    days = box.days[1] - box.days[0]
    if days < 15:
        return f"{box.file + 1}\n{piece.label}"
    return f"file {box.file + 1}: {piece.label} {encoding}"


def _means(values: npt.NDArray[Any], sea: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Mean of each day, weighted by area, over the sea (over all, where that is unknown)."""
    there = np.isfinite(values) & (sea | ~sea.any(axis=(1, 2), keepdims=True))
    weights = np.cos(np.radians(LATITUDES))[None, :, None]
    total = (np.where(there, values, 0).astype(np.float64) * weights).sum(axis=(1, 2))
    weight = (there * weights).sum(axis=(1, 2))
    return np.divide(total, weight, out=np.full(len(total), np.nan), where=weight > 0)
