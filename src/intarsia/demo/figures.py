"""The demo's figures: a page for each case, all at a glance, and what arrays are made of."""

# matplotlib is typed in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from intarsia.demo.finding import Finding, found
from intarsia.demo.maps import NAMES, SHAPE, draw_maps, draw_scale
from intarsia.demo.palette import MISMATCH, QUIET, RIGHT, STYLE, WRONG
from intarsia.demo.strips import draw_means, draw_segments
from intarsia.demo.verify import Outcome


def draw_case(outcome: Outcome, path: Path) -> None:
    """Draw one case: three maps of one day, the mean of each day, and the segments."""
    with mpl.rc_context(STYLE):
        finding = found(outcome)
        width, height, left, right, gap = 10.0, 7.0, 0.075, 0.98, 0.03
        figure = _figure(width, height)
        wide = (right - left - 2 * gap) / 3
        high = wide * width / SHAPE / height
        low = 0.835 - high
        maps = [
            figure.add_axes((left + number * (wide + gap), low, wide, high)) for number in range(3)
        ]
        draw_maps(maps, outcome, large=True)
        for ax, name in zip(maps, NAMES, strict=True):
            ax.set_title(name, loc="left", pad=4)
        for ax in maps[1:]:
            ax.tick_params(labelleft=False)
        both = 2 * wide + gap
        draw_scale(figure, (left + both * 0.25, low - 0.062, both * 0.5, 0.013), "temperature")
        if not finding.refused:
            third = left + 2 * (wide + gap)
            draw_scale(figure, (third + wide * 0.15, low - 0.062, wide * 0.7, 0.013), "difference")
            if finding.lost or finding.invented:
                maps[2].legend(
                    handles=[Patch(color=MISMATCH, label="missing in one of them")],
                    loc="lower right", bbox_to_anchor=(1.02, 0.995), handlelength=0.9,
                    handletextpad=0.5,
                )  # fmt: skip
        means = figure.add_axes((left, 0.205, right - left, 0.155))
        draw_means(means, outcome)
        draw_segments(figure.add_axes((left, 0.075, right - left, 0.105)), outcome)
        figure.text(0.012, 0.1275, "segments", rotation=90, va="center", fontsize=8.5)
        _heading(figure, outcome, finding)
        _save(figure, path)


def draw_overview(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw all cases at a glance, three in a row, each with its three maps."""
    with mpl.rc_context(STYLE):
        count = len(outcomes)
        rows = -(-count // 3)
        wide, gap, between, edge = 1.25, 0.06, 0.30, 0.3
        trio = 3 * wide + 2 * gap + between
        high = wide / SHAPE
        step, top = high + 0.62, 0.82
        width, height = edge + 3 * trio + 0.62, top + rows * step + 0.40
        figure = _figure(width, height)
        for number, outcome in enumerate(outcomes):
            row, column = divmod(number, 3)
            left = edge + column * trio
            low = height - top - row * step - 0.48 - high
            axes: list[Axes] = [
                figure.add_axes(
                    ((left + place * (wide + gap)) / width, low / height, wide / width,
                     high / height)
                )
                for place in range(3)
            ]  # fmt: skip
            draw_maps(axes, outcome, large=False)
            finding = found(outcome)
            above = (low + high) / height
            figure.text(
                left / width, above + 0.20 / height, outcome.case.title, weight="bold", fontsize=10
            )
            figure.text(
                left / width, above + 0.06 / height, f"One set of attributes: {finding.text}",
                color=WRONG, fontsize=8,
            )  # fmt: skip
            if row == rows - 1:
                for ax, name in zip(axes, NAMES, strict=True):
                    ax.set_xlabel(name, fontsize=8)
        right = (edge + 3 * trio - 0.12) / width
        middle = (height - top - rows * step / 2 - 0.24) / height
        draw_scale(figure, (right, middle + 0.03, 0.008, 0.30), "temperature")
        draw_scale(figure, (right, middle - 0.33, 0.008, 0.30), "difference")
        equal = sum(outcome.equal for outcome in outcomes)
        figure.text(
            edge / width, 1 - 0.32 / height, f"Unlike files combined by Intarsia: {equal} of "
            f"{count} cases equal xarray reading each file on its own, in every bit",
            fontsize=14, weight="bold", va="center",
        )  # fmt: skip
        figure.text(
            edge / width, 1 - 0.62 / height, "Beside what the first file's type, filters, chunks "
            "and attributes give when they are taken for all files. Grey: land, or missing. Black: "
            "missing in one of the two.",
            color=QUIET, va="center",
        )  # fmt: skip
        _save(figure, path)


def draw_all_segments(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw what the virtual array of each case is made of, along time and longitude."""
    with mpl.rc_context(STYLE):
        count = len(outcomes)
        step, high, top, below = 0.78, 0.58, 0.95, 0.5
        height = top + count * step + below - (step - high)
        figure = _figure(10.0, height)
        for row, outcome in enumerate(outcomes):
            low = height - top - row * step - high
            ax = figure.add_axes((0.235, low / height, 0.75, high / height))
            draw_segments(ax, outcome, axis=row == count - 1)
            figure.text(
                0.02, (low + high * 0.64) / height, outcome.case.title, weight="bold", va="center"
            )
            counted = f"{len(outcome.paths)} files, {_plural(outcome.encodings, 'encoding')}"
            figure.text(
                0.02, (low + high * 0.28) / height, counted, color=QUIET, va="center", fontsize=8
            )
        figure.text(
            0.02, 1 - 0.28 / height, "What each virtual array is made of: segments that keep their "
            "file's chunks and encoding",
            fontsize=13, weight="bold", va="center",
        )  # fmt: skip
        figure.text(
            0.02, 1 - 0.58 / height, "Boxes are segments, one colour per file, over time (across) "
            "and longitude (up). White lines: chunks. [A], [B], [C]: encodings.",
            color=QUIET, va="center",
        )  # fmt: skip
        _save(figure, path)


def _heading(figure: Figure, outcome: Outcome, finding: Finding) -> None:
    told = f"{outcome.case.title}: {finding.title}"
    if outcome.equal:
        ours = (
            f"Intarsia: all {outcome.alone.size:,} values equal xarray reading each file on its "
            "own, in every bit."
        )
    else:
        ours = f"Intarsia is NOT equal to xarray: {outcome.unequal[0]}"
    size = min(13.0, 13.0 * 84 / len(told))
    figure.text(0.02, 0.962, told, fontsize=size, weight="bold", va="center")
    figure.text(
        0.02, 0.925, ours, color=RIGHT if outcome.equal else WRONG, fontsize=10, va="center"
    )
    figure.text(0.02, 0.894, f"The files: {outcome.case.differs}.", color=QUIET, va="center")
    figure.text(
        0.98, 0.894, "grey: land, or missing", color=QUIET, va="center", ha="right", fontsize=8
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)  # no screen, no global state
    return figure


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, pil_kwargs={"compress_level": 2})  # time, not bytes
