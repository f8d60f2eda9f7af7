"""Virtual arrays as text and as HTML: what they are made of, and not what their values are."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia.array.describing import Bar, Description, bars, describe
from intarsia.segments import Segments

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#888888")
"""Colours of cases that people with any kind of colour vision can tell apart (Okabe and Ito)."""

MAX_CASES = 8
"""More cases than this are counted instead of listed."""

MAX_NOTES, MAX_NOTE = 3, 100
"""More notes than this, and longer ones, are left to the report."""

FEW = 10
"""Fewer chunks than this are not worth an average."""


def inline_text(segments: Segments, max_width: int) -> str:
    """One short line, for xarray's summary of a dataset."""
    cases = {case for block in segments.blocks for case in np.unique(block.column(0)).tolist()}
    text = f"virtual: {count(len(segments), 'segment')}, {count(len(cases), 'case')}"
    return text if len(text) <= max_width else text[: max(max_width - 3, 0)] + "..."


def as_text(segments: Segments, dtype: np.dtype[Any], nbytes: int, notes: Sequence[str]) -> str:
    """A few lines: size, pieces, sources, and how each case is decoded."""
    found = describe(segments)
    size = " × ".join(f"{n:,}" for n in segments.shape) or "0-d"
    lines = [
        f"VirtualArray: {size} {dtype}, {human(nbytes)} once loaded",
        f"  {count(found.segments, 'segment')} of {_sources(found)}",
        f"  {count(found.chunks, 'chunk')}, {_held(found)}",
    ]
    lines += [
        f"  {count(case.segments, 'segment')}: {case.text}{_sets(case.parameters)}"
        for case in found.cases[:MAX_CASES]
    ]
    if len(found.cases) > MAX_CASES:
        lines.append(f"  and {count(len(found.cases) - MAX_CASES, 'further case')}")
    if found.fill:
        lines.append(f"  {count(found.fill, 'segment')}: never written, fill")
    for note in notes[:MAX_NOTES]:
        lines.append(f"  note: {note}" if len(note) <= MAX_NOTE else f"  note: {note[:MAX_NOTE]} …")
    if len(notes) > MAX_NOTES:
        lines.append(f"  and {count(len(notes) - MAX_NOTES, 'further note')}")
    return "\n".join(lines)


def as_html(segments: Segments, dtype: np.dtype[Any], nbytes: int, notes: Sequence[str]) -> str:
    """A drawing of the segments, and a table of sources and cases."""
    found = describe(segments)
    size = " × ".join(f"{n:,}" for n in segments.shape) or "0-d"
    rows = [
        _row("virtual", f"{size} {dtype}, {human(nbytes)} once loaded"),
        _row(
            "made of",
            f"{count(found.segments, 'segment')}, {count(found.chunks, 'chunk')} "
            f"<span style='opacity:.7'>({_held(found)})</span>",
        ),
        _row("from", _sources_html(found)),
    ]
    head = "decoded" if found.cases else ""
    for number, case in enumerate(found.cases[:MAX_CASES]):
        share = "" if len(found.cases) == 1 else f"{count(case.segments, 'segment')}: "
        text = f"{_swatch(number)}{share}{html.escape(case.text + _sets(case.parameters))}"
        rows.append(_row(head, text))
        head = ""
    if len(found.cases) > MAX_CASES:
        rows.append(_row("", f"and {count(len(found.cases) - MAX_CASES, 'further case')}"))
    if found.fill:
        rows.append(_row("", f"{_swatch(-1)}{count(found.fill, 'segment')}: never written, fill"))
    rows += [_row("note", _one_line(note)) for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        rows.append(_row("", f"and {count(len(notes) - MAX_NOTES, 'further note')}"))
    return (
        "<div style='max-width:720px;padding:4px 0'>"
        f"<table style='border-collapse:collapse;margin:0'>{''.join(rows)}</table>"
        f"{_drawing(segments)}</div>"
    )


def human(nbytes: int) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> human(1536)
    '1.5 kB'
    """
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def count(number: int, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> count(1, "segment"), count(1200, "segment")
    ('1 segment', '1,200 segments')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _sources(found: Description) -> str:
    if found.first is None or found.last is None:
        return "no source"
    if found.sources == 1:
        return f"1 source: {found.first}"
    return f"{count(found.sources, 'source')}: {found.first} … {_name(found.last)}"


def _sources_html(found: Description) -> str:
    if found.first is None or found.last is None:
        return "no source: constants and values in memory"
    urls = [found.first] if found.sources == 1 else [found.first, found.last]
    names = " … ".join(
        f"<span title='{html.escape(url, quote=True)}'>{html.escape(_name(url))}</span>"
        for url in urls
    )
    return f"{count(found.sources, 'source')}: {names}"


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def _held(found: Description) -> str:
    text = f"{human(found.reference_nbytes)} of references"
    if found.chunks < FEW:
        return text
    return f"{text}, {found.reference_nbytes / found.chunks:.3g} bytes each"


def _one_line(note: str) -> str:
    style = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis;max-width:480px"
    title = html.escape(note[:1000], quote=True)
    return f"<div style='{style}' title='{title}'>{html.escape(note[:200])}</div>"


def _sets(parameters: int) -> str:
    return "" if parameters < 2 else f", {parameters:,} sets of parameters"


def _row(head: str, body: str) -> str:
    style = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;border:0;background:none"
    return (
        f"<tr style='background:none'><th style='{style};font-weight:600'>{head}</th>"
        f"<td style='{style}'>{body}</td></tr>"
    )


def _colour(case: int) -> str:
    return COLOURS[min(case, len(COLOURS) - 1)] if case >= 0 else "none"


def _swatch(case: int) -> str:
    return (
        "<span style='display:inline-block;width:.7em;height:.7em;margin-right:.4em;"
        f"border:1px solid currentColor;background:{_colour(case)}'></span>"
    )


def _drawing(segments: Segments) -> str:
    across, down, drawn = bars(segments)
    if not drawn:
        return ""
    height = 22 if down is None else 72
    where = f"dimension {across}" if down is None else f"dimensions {across} (→) and {down} (↓)"
    return (
        f"<svg width='100%' height='{height}' viewBox='0 0 1000 {height}' "
        f"preserveAspectRatio='none' role='img' aria-label='segments along {where}' "
        "style='display:block;margin-top:6px;max-width:720px'>"
        f"{''.join(_rect(bar, height) for bar in drawn)}</svg>"
        f"<div style='font-size:.85em;opacity:.7'>segments along {where}</div>"
    )


def _rect(bar: Bar, height: int) -> str:
    return (
        f"<rect x='{bar.x * 1000:.6g}' y='{bar.y * height:.4g}' width='{bar.width * 1000:.6g}' "
        f"height='{bar.height * height:.4g}' fill='{_colour(bar.case)}' fill-opacity='.75' "
        "stroke='currentColor' stroke-opacity='.5' vector-effect='non-scaling-stroke'>"
        f"<title>{html.escape(bar.label)}</title></rect>"
    )
