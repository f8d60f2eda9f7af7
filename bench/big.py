"""Chunks of 4 MiB: whether decoding keeps all cores busy."""

from __future__ import annotations

from bench import inputs, reading
from bench.scale import Scale
from bench.session import Session
from bench.tables import Table


def run(session: Session, scale: Scale) -> list[Table]:
    """Everyone reads all of them."""
    count = scale.big_chunks
    path = session.once("big.nc", lambda p: inputs.cube(p, count, inputs.BIG))
    table = session.table(
        f"Large chunks: {count} chunks of 4 MiB in one file",
        "chunk",
        reading.contenders(
            ("Intarsia", *reading.NATIVE, *reading.VIRTUAL), [path], "v", {}, count, scale.rounds
        ),
        scale.rounds,
    )
    table.at_least(
        "speed at least 0.9 of xarray + netCDF4 (by CPU)",
        table.ratio("xarray + netCDF4", "Intarsia"),
        0.9,
    )
    mine = table["Intarsia"]
    if mine is not None:
        busy = max(sample.cpu / sample.wall for sample in mine.samples)
        table.at_least("cores busy on average, of 2", busy, 1.5)
    table.at_least(
        "speed on the wall, of xarray + netCDF4's",
        table.ratio("xarray + netCDF4", "Intarsia", "wall"),
        0.9,
    )
    return [table]
