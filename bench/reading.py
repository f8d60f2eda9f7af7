"""What the benchmarks of reading share: contenders that load a variable, or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench import peers
from bench.harness import Answer, Contender, Run

OPENERS: dict[str, tuple[str, Callable[..., peers.Opener], tuple[Any, ...], bool]] = {
    "Intarsia": ("", peers.intarsia, (), False),
    "xarray + netCDF4": ("netcdf4", peers.native, ("netcdf4",), False),
    "xarray + h5netcdf": ("h5netcdf", peers.native, ("h5netcdf",), False),
    "VirtualiZarr ManifestStore": ("virtualizarr", peers.manifest_store, (), False),
    "VirtualiZarr, tuned": ("virtualizarr", peers.manifest_store, (), True),
    "kerchunk": ("kerchunk", peers.kerchunk, (), False),
    "Icechunk": ("icechunk", peers.icechunk, (), False),
}
"""By name: what has to be installed, how to open, its first arguments, whether zarr is tuned."""


class Load(Run):
    """Loads a selection of one variable.

    Parameters
    ----------
    name
        Of the contender.
    paths
        Files.
    variable
        Name of the variable.
    selection
        For ``isel``.
    units
        Things that are loaded.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[str],
        variable: str,
        selection: dict[str, Any],
        units: int,
    ) -> None:
        _, opener, first, self.tuned = OPENERS[name]
        arguments = (*first, list(paths))
        if opener is peers.manifest_store:
            arguments = (*arguments, self.tuned)
        self.open = opener(*arguments)
        self.variable, self.selection, self.units = variable, selection, units
        with peers.settings(self.tuned):
            # everything that is made on first use
            last = {str(dim): slice(-1, None) for dim in self.open()[variable].dims}
            self.open()[variable].isel(last).compute()

    def __call__(self, number: int) -> Answer:
        with peers.settings(self.tuned):
            dataset = self.open()
            values = dataset[self.variable].isel(self.selection).compute().values
        dataset.close()
        return Answer(self.units, values)


def contenders(
    names: Sequence[str],
    paths: Sequence[str],
    variable: str,
    selection: dict[str, Any],
    units: int,
    slow_rounds: int,
) -> list[Contender]:
    """Those of `names`, loading a selection."""
    found: list[Contender] = []
    for name in names:
        needs = peers.NEEDS.get(OPENERS[name][0], ())
        slow = "zarr" in name or name in ("kerchunk", "Icechunk")
        found.append(
            Contender(
                name,
                Load,
                (name, list(paths), variable, selection, units),
                slow_rounds if slow else 1000,
                needs,
            )
        )
    return found


NATIVE = ("xarray + netCDF4", "xarray + h5netcdf")
VIRTUAL = ("VirtualiZarr ManifestStore", "VirtualiZarr, tuned", "kerchunk", "Icechunk")
