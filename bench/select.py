"""Selecting little out of much: what is read for one value, and for one series."""

from __future__ import annotations

from typing import Any

from bench import inputs, reading
from bench.scale import Scale
from bench.session import Session
from bench.tables import Table


def run(session: Session, scale: Scale) -> list[Table]:
    """A value, a day and a series, of many files as one dataset."""
    count = scale.series
    folder = session.once(
        "small", lambda path: inputs.small_files(path, max(scale.files, count)) and str(path)
    )
    paths = [f"{folder}/{number:05d}.nc" for number in range(count)]
    steps = count * inputs.STEPS
    selections: list[tuple[str, str, dict[str, Any], int, str]] = [
        ("one value", "value", {"time": steps // 2, "lat": 3, "lon": 4}, 1, ""),
        ("a series at one place", "step", {"lat": 3, "lon": 4}, steps, ""),
    ]
    tables: list[Table] = []
    for what, unit, selection, units, note in selections:
        table = session.table(
            f"Selecting {what}, out of {count} small files ({steps} steps)",
            unit,
            reading.contenders(
                ("Intarsia", "xarray + netCDF4", *reading.VIRTUAL),
                paths,
                "field3",
                selection,
                units,
                scale.rounds,
            ),
            scale.rounds,
        )
        table.note = note
        tables.append(table)
    return tables
