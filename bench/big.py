"""Chunks of 4 MiB: whether decoding keeps all cores busy."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor

from bench import inputs, reading
from bench.harness import Answer, Contender, Run
from bench.scale import Scale
from bench.session import Session
from bench.tables import Table

BUSY = "(zlib alone, in two threads)"


class Inflate(Run):
    """Inflates the chunks and nothing else, to see how many cores there are to be had."""

    def __init__(self, path: str) -> None:
        import h5py

        with h5py.File(path) as file:
            dataset = file["v"].id
            count = dataset.get_num_chunks()
            places = [dataset.get_chunk_info(n).chunk_offset for n in range(count)]
            self.chunks = [dataset.read_direct_chunk(place)[1] for place in places]
        self.pool = ThreadPoolExecutor(2)
        self.pool.submit(len, b"").result()

    def __call__(self, number: int) -> Answer:
        for _ in self.pool.map(zlib.decompress, self.chunks):
            pass
        return Answer(len(self.chunks))


def run(session: Session, scale: Scale) -> list[Table]:
    """Everyone reads all of them."""
    count = scale.big_chunks
    path = session.once("big.nc", lambda p: inputs.cube(p, count, inputs.BIG))
    names = ("Intarsia", *reading.NATIVE, *reading.VIRTUAL)
    table = session.table(
        f"Large chunks: {count} chunks of 4 MiB in one file",
        "chunk",
        [
            *reading.contenders(names, [path], "v", {}, count, scale.rounds),
            Contender(BUSY, Inflate, (path,)),
        ],
        scale.rounds,
    )
    table.at_least(
        "speed at least 0.9 of xarray + netCDF4 (by CPU)",
        table.ratio("xarray + netCDF4", "Intarsia"),
        0.9,
    )
    mine, free = table["Intarsia"], table[BUSY]
    if mine is not None and free is not None:
        share = mine.busy / free.busy
        table.at_least("cores busy, of those that zlib alone keeps busy", share, 0.8)
    table.at_least(
        "speed on the wall, of xarray + netCDF4's",
        table.ratio("xarray + netCDF4", "Intarsia", "wall"),
        0.9,
    )
    return [table]
