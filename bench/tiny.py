"""Chunks of 512 bytes, shuffled and deflated: what an engine costs per chunk."""

from __future__ import annotations

from bench import inputs, reading
from bench.scale import Scale
from bench.session import Session
from bench.tables import Table


def run(session: Session, scale: Scale) -> list[Table]:
    """Everyone reads few chunks; those that can, many."""
    path = session.once("tiny.nc", lambda p: inputs.cube(p, scale.tiny_chunks, inputs.TINY))
    few = scale.few_chunks
    everyone = ("Intarsia", *reading.NATIVE, *reading.VIRTUAL)
    some = session.table(
        f"Tiny chunks: {few:,} chunks of 512 B in one file",
        "chunk",
        reading.contenders(everyone, [path], "v", {"time": slice(0, few)}, few, scale.slow_rounds),
        scale.rounds,
    )
    some.at_least(
        "VirtualiZarr's ManifestStore takes at least 30 times the CPU",
        some.ratio("VirtualiZarr ManifestStore", "Intarsia"),
        30,
    )
    most = session.table(
        f"Tiny chunks: {scale.tiny_chunks:,} chunks of 512 B in one file",
        "chunk",
        reading.contenders(
            ("Intarsia", *reading.NATIVE), [path], "v", {}, scale.tiny_chunks, scale.rounds
        ),
        scale.rounds,
    )
    for table in (some, most):
        ratio = table.ratio("Intarsia", "xarray + netCDF4")
        table.at_most("not slower than xarray + netCDF4 (ratio of CPU)", ratio, 1)
    return [some, most]
