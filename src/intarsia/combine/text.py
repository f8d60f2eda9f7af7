"""Plain tables for a terminal: columns as wide as they need to be, the last ones wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

__all__ = ["lines_of", "table"]

_GAP = "  "
_LEAST = 16
"""Columns are not made narrower than this to fit the width."""


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int = 100) -> str:
    """Write rows under headers, aligned, in at most `width` characters if that can be done.

    Parameters
    ----------
    headers, rows
        The cells, of one or several lines; every row has as many as `headers`.
    width
        Cells are wrapped, the widest column first, until the table fits.
    """
    cells = [tuple(headers), *(tuple(row) for row in rows)]
    widths = [
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(*cells, strict=True)
    ]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        widest = max(range(len(widths)), key=lambda column: widths[column])
        if widths[widest] <= _LEAST:
            break
        others = max((w for column, w in enumerate(widths) if column != widest), default=_LEAST)
        cut = min(excess, max(widths[widest] - others, 1), widths[widest] - _LEAST)
        widths[widest] -= cut
        excess -= cut
    lines = [*_wrapped(headers, widths), _GAP.join("-" * w for w in widths)]
    for row in rows:
        lines += _wrapped(row, widths)
    return "\n".join(line.rstrip() for line in lines)


def lines_of(text: str, width: int = 100, *, bullet: str = "- ") -> str:
    """Wrap a text as an item of a list."""
    return textwrap.fill(
        text, width, initial_indent=bullet, subsequent_indent=" " * len(bullet),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [_lines(cell, width) for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, columns))
    padded = [column + [""] * (height - len(column)) for column in columns]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*padded, strict=True)
    ]


def _lines(cell: str, width: int) -> list[str]:
    parts = cell.split("\n")
    indent = "  " if len(parts) > 1 else ""
    return [
        line
        for part in parts
        for line in textwrap.wrap(part, width, subsequent_indent=indent, break_on_hyphens=False)
        or [""]
    ]
