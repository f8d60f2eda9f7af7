"""What the tests of the command share: a folder of small files, and a way to run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from intarsia.cli import main


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs the command in this process: ``run("check", "*.nc").out``."""

    def call(*argv: str | Path) -> Ran:
        try:
            status = main([str(part) for part in argv])
        except SystemExit as end:
            status = end.code
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return call


def month(number: int, *, scale: float = 0.01, units: str = "K", lat: float = 0.0) -> xr.Dataset:
    """One file's worth: two days of packed temperature."""
    time = np.arange(2 * number, 2 * number + 2)
    sst = 280 + scale * np.arange(2 * 3 * 4).reshape(2, 3, 4)
    return xr.Dataset(
        {"sst": (("time", "lat", "lon"), sst, {"units": units})},
        {
            "time": ("time", time, {"units": "days since 2020-01-01"}),
            "lat": [10.0 + lat, 20.0, 30.0],
            "lon": [0.0, 1.0, 2.0, 3.0],
        },
    )


def write(path: Path, dataset: xr.Dataset, scale: float = 0.01) -> None:
    packing = {"dtype": "i2", "scale_factor": scale, "add_offset": 280.0, "_FillValue": -1}
    dataset.to_netcdf(path, engine="h5netcdf", encoding={"sst": packing})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, made the current one, with three files of which the second is packed otherwise."""
    for number, scale in enumerate((0.01, 0.02, 0.01)):
        write(tmp_path / f"m{number}.nc", month(number, scale=scale), scale)
    monkeypatch.chdir(tmp_path)
    return tmp_path
