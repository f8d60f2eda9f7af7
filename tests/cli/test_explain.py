"""``intarsia explain``: the plan of a load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from intarsia.io.fetch import observe
from tests.cli.conftest import Ran, month, write

type Run = Callable[..., Ran]

ASKED = ("explain", "*.nc", "--concat-dim", "time")


def test_counts_what_loading_would_read(run: Run, folder: Path) -> None:
    ran = run(*ASKED)
    assert (ran.status, ran.err) == (0, "")
    row = next(line.split() for line in ran.out.splitlines() if line.split()[0] == "sst")
    assert row[1:3] == ["3", "3"]
    told = json.loads(run(*ASKED, "--isel", "time=0:2", "--json").out)
    assert told["variables"]["sst"]["segments"] == 1
    assert told["together"]["read_nbytes"] > 0


def test_reads_no_values(run: Run, folder: Path) -> None:
    with observe() as before:
        run(*ASKED, "--isel", "time=0")
    with observe() as after:
        run(*ASKED)
    assert before.nbytes == after.nbytes


@pytest.mark.parametrize(
    ("given", "values"),
    [("time=0", 96), ("time=-1", 96), ("time=0:4", 384), ("time=::3", 192), ("time=-2:", 192)],
)
def test_selections(run: Run, folder: Path, given: str, values: int) -> None:
    told = json.loads(run(*ASKED, "--isel", given, "-v", "sst", "--json").out)
    assert told["variables"]["sst"]["nbytes"] == values


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--isel", "time"], "not a selection"),
        (["--isel", "time=a:b"], "not a selection"),
        (["--isel", "time=::0"], "a step can't be 0"),
        (["--isel", "tim=0"], "no dimension 'tim'; there are lat, lon, time"),
        (["--isel", "time=6"], "'time' has 6 positions"),
        (["-v", "tos"], "no variable 'tos'; there are"),
    ],
)
def test_mistakes(run: Run, folder: Path, argv: list[str], said: str) -> None:
    ran = run(*ASKED, *argv)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_refusals_are_no_tracebacks_unless_asked_for(run: Run, folder: Path) -> None:
    write(folder / "m3.nc", month(3, units="degC"))
    write(folder / "m4.nc", month(4, lat=1.0))
    ran = run(*ASKED)
    assert (ran.status, ran.out) == (1, "")
    first, second = ran.err.splitlines()
    assert first.startswith("intarsia: units differ")
    assert "--on-conflict first" in first
    assert second.startswith("intarsia: also refused:")
    with pytest.raises(ValueError, match="units differ"):
        run(*ASKED, "--debug")


def test_what_xarray_refuses_is_no_traceback_either(run: Run, folder: Path) -> None:
    for number in range(2):
        month(number).drop_vars(["time", "lat", "lon"]).to_netcdf(
            folder / f"bare{number}.nc", engine="h5netcdf"
        )
    ran = run("explain", "bare*.nc")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("intarsia: can't be combined as asked:")
