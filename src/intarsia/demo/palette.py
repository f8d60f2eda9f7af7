"""Colours and type that the demo's figures share."""

from __future__ import annotations

from typing import Any

INK = "#1b1f24"
QUIET = "#6b7280"
LAND = "#dcdcd8"
PAPER = "#f4f4f1"
RIGHT = "#1f4e79"
WRONG = "#c8431b"
MISMATCH = "#111111"

FILES = ("#8fb7d9", "#f2c185", "#a8cfa0", "#d7a9c9", "#c9c3a6")
"""Fills for files, in order and then again; dark text is readable on each."""

SEA = "viridis"
DIFFERENCE = "RdBu_r"

STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib; one name is found ten times faster
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.6,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "savefig.dpi": 144,
    "figure.facecolor": "white",
}
