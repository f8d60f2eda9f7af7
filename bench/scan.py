"""Scanning: many small files, and one file of very many chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench import inputs, peers
from bench.harness import Answer, Contender, Run
from bench.scale import Scale
from bench.session import Session
from bench.tables import Table


class Scan(Run):
    """Opens some of the files, others in each round.

    Parameters
    ----------
    make
        Gives the function that opens one, in the contender's process.
    paths
        All files.
    at_once
        How many are opened in a round.
    units
        Things that are counted in a round.
    """

    def __init__(
        self,
        make: Callable[[], Callable[[str], Any]],
        paths: Sequence[str],
        at_once: int,
        units: int,
    ) -> None:
        self.open = make()
        self.paths, self.at_once, self.units = paths, at_once, units
        self.open(paths[-1])  # everything that is made on first use

    def __call__(self, number: int) -> Answer:
        begin = number * self.at_once
        for place in range(begin, begin + self.at_once):
            self.open(self.paths[place % len(self.paths)])
        return Answer(self.units)


def by_intarsia() -> Callable[[str], Any]:
    from intarsia import open_dataset

    return open_dataset


def by_intarsia_scan() -> Callable[[str], Any]:
    from intarsia.scan.hdf5 import scan

    return scan


def by_virtualizarr() -> Callable[[str], Any]:
    access = peers.registry()
    return lambda path: peers.virtual(path, access)


def by_parser() -> Callable[[str], Any]:
    from virtualizarr.parsers import HDFParser

    access = peers.registry()
    return lambda path: HDFParser()(url=f"file://{path}", registry=access)


def by_kerchunk() -> Callable[[str], Any]:
    from kerchunk.hdf import SingleHdf5ToZarr

    return lambda path: SingleHdf5ToZarr(path, inline_threshold=0).translate()


def _by_engine(engine: str) -> Callable[[str], Any]:
    import xarray as xr

    def opened(path: str) -> None:
        xr.open_dataset(path, engine=engine, chunks=None).close()

    return opened


def by_netcdf4() -> Callable[[str], Any]:
    return _by_engine("netcdf4")


def by_h5netcdf() -> Callable[[str], Any]:
    return _by_engine("h5netcdf")


WAYS: dict[str, tuple[Callable[[], Callable[[str], Any]], str]] = {
    "Intarsia open_dataset": (by_intarsia, ""),
    "Intarsia, scan alone": (by_intarsia_scan, ""),
    "VirtualiZarr open_virtual_dataset": (by_virtualizarr, "virtualizarr"),
    "VirtualiZarr HDFParser": (by_parser, "virtualizarr"),
    "kerchunk SingleHdf5ToZarr": (by_kerchunk, "kerchunk"),
    "xarray + netCDF4 open_dataset": (by_netcdf4, "netcdf4"),
    "xarray + h5netcdf open_dataset": (by_h5netcdf, "h5netcdf"),
}


SLOWEST = "xarray + h5netcdf open_dataset"


def _contenders(
    names: Sequence[str], paths: Sequence[str], at_once: int, units: int, rounds: int
) -> list[Contender]:
    return [
        Contender(
            name,
            Scan,
            (WAYS[name][0], list(paths), at_once, units),
            1 if name == SLOWEST else rounds,
            peers.NEEDS.get(WAYS[name][1], ()),
        )
        for name in names
    ]


def run(session: Session, scale: Scale) -> list[Table]:
    """Small files first, then the file of tiny chunks."""
    folder = session.once("small", lambda path: inputs.small_files(path, scale.files) and str(path))
    paths = [f"{folder}/{number:05d}.nc" for number in range(scale.files)]
    at_once = scale.files_at_once
    rounds = -(-scale.files // at_once)
    small = session.table(
        f"Scanning {scale.files} small files: 13 variables, 50 chunks of data",
        "file",
        _contenders(list(WAYS), paths, at_once, at_once, rounds),
        rounds,
    )
    small.at_most(
        "at most half the CPU of VirtualiZarr's open_virtual_dataset",
        small.ratio("Intarsia open_dataset", "VirtualiZarr open_virtual_dataset"),
        0.5,
    )
    count = scale.tiny_chunks
    path = session.once("tiny.nc", lambda p: inputs.cube(p, count, inputs.TINY))
    names = [name for name in WAYS if name.startswith(("Intarsia", "VirtualiZarr", "kerchunk"))]
    large = session.table(
        f"Scanning one file of {count:,} chunks",
        "chunk",
        _contenders(names, [path], 1, count, max(scale.slow_rounds, 3)),
        scale.rounds,
    )
    large.at_most(
        "at most 0.6 of the CPU of VirtualiZarr's HDFParser",
        large.ratio("Intarsia open_dataset", "VirtualiZarr HDFParser"),
        0.6,
    )
    return [small, large]
