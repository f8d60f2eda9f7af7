"""``intarsia check``: what it prints, and with which status it exits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import intarsia
from tests.cli.conftest import Ran, month, write

type Run = Callable[..., Ran]


def test_says_what_differs_and_how_to_open(run: Run, folder: Path) -> None:
    ran = run("check", "*.nc", "--concat-dim", "time")
    assert (ran.status, ran.err) == (0, "")
    assert "3 sources, along time" in ran.out
    assert "scale 0.02" in ran.out
    assert "They can be combined as asked." in ran.out
    call = ran.out.splitlines()[-1].removeprefix("In Python: ")
    assert call == "intarsia.open_mfdataset('*.nc', concat_dim='time', combine='nested')"
    ds = eval(call, {"intarsia": intarsia})
    assert ds.sizes["time"] == 6


def test_by_coords_without_a_dimension(run: Run, folder: Path) -> None:
    ran = run("check", "m2.nc", "m0.nc", "m1.nc")
    assert ran.status == 0
    assert "3 sources, along time" in ran.out
    assert ran.out.splitlines()[-1] == "In Python: intarsia.open_mfdataset(files)"


def test_a_conflict_exits_with_1_and_names_the_option(run: Run, folder: Path) -> None:
    write(folder / "m3.nc", month(3, units="degC"))
    ran = run("check", "*.nc", "--concat-dim", "time")
    assert (ran.status, ran.err) == (1, "")
    assert "They can't be combined as asked:" in ran.out
    assert "--on-conflict first" in ran.out
    assert "In Python" not in ran.out
    ran = run("check", "*.nc", "--concat-dim", "time", "--on-conflict", "first")
    assert ran.status == 0
    assert "on_conflict='first'" in ran.out.splitlines()[-1]


def test_coordinates_that_differ(run: Run, folder: Path) -> None:
    write(folder / "m3.nc", month(3, lat=1e-6))
    asked = ("check", "*.nc", "--concat-dim", "time")
    refused = run(*asked)
    assert refused.status == 1
    assert "'lat'" in refused.out
    assert "--tolerance" in refused.out
    assert run(*asked, "--tolerance", "1e-5").status == 0
    assert run(*asked, "--join", "outer").status == 0
    (folder / "m3.nc").unlink()
    write(folder / "m3.nc", month(3).isel(lat=slice(None, None, -1)))
    assert run(*asked).status == 1
    assert run(*asked, "--align", "flip").status == 0


def test_files_that_can_not_be_opened(run: Run, folder: Path) -> None:
    (folder / "m3.nc").write_text("no HDF5 file")
    asked = ("check", "*.nc", "--concat-dim", "time")
    ran = run(*asked)
    assert ran.status == 1
    assert "- this is not HDF5; it looks like text (12 bytes): m3.nc" in ran.out
    ran = run(*asked, "--on-error", "skip")
    assert ran.status == 0
    assert "1 left out" in ran.out


def test_json(run: Run, folder: Path) -> None:
    ran = run("check", "*.nc", "--concat-dim", "time", "--json")
    told = json.loads(ran.out)
    assert (ran.status, told["ok"], told["problems"], told["sources"]) == (0, True, [], 3)
    assert "scale-offset" in {difference["kind"] for difference in told["differences"]}
    write(folder / "m3.nc", month(3, units="degC"))
    ran = run("check", "*.nc", "--concat-dim", "time", "--json")
    told = json.loads(ran.out)
    assert (ran.status, told["ok"]) == (1, False)
    assert "on_conflict='first'" in told["problems"][0]


def test_two_dimensions_are_rows_of_files(run: Run, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        for number in range(2):
            write(folder / name / f"m{number}.nc", month(number))
    ran = run("check", "a/*.nc", "b/*.nc", "--concat-dim", "run", "--concat-dim", "time")
    assert ran.status == 0
    assert "4 sources, along run and time" in ran.out


def test_options_of_opening(run: Run, folder: Path) -> None:
    asked = ("check", "*.nc", "--concat-dim", "time")
    assert "No differences" in run(*asked, "--drop-variables", "sst").out
    ran = run(*asked, "--no-mask-and-scale")
    assert ran.status == 1
    ran = run(*asked, "--no-decode-times", "--use-cftime", "-j", "2")
    assert ran.status == 0
    ran = run(*asked, "--group", "nowhere")
    assert ran.status == 1
    assert "nowhere" in ran.out + ran.err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["*.nc", "--concat-dim", "time", "--combine", "by_coords"],
        ["*.nc", "--concat-dim", "time", "--concat-dim", "time"],
        ["*.nc", "--concat-dim", "a", "--concat-dim", "b", "--concat-dim", "c"],
        ["*.nc", "--tolerance", "close"],
        ["*.nc", "--join", "sideways"],
        ["*.nc", "-j", "0"],
        ["*.nc", "--concat", "time"],
    ],
)
def test_arguments_that_make_no_sense(run: Run, folder: Path, argv: list[str]) -> None:
    ran = run("check", *argv)
    assert (ran.status, ran.out) == (2, "")
    assert "usage: intarsia check" in ran.err
    assert "error:" in ran.err


def test_no_such_files(run: Run, folder: Path) -> None:
    ran = run("check", "nothing-*.nc")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("intarsia: no files match: nothing-*.nc")
    assert "Traceback" not in ran.err
    ran = run("check", "absent.nc", "m0.nc")
    assert ran.status == 1
    assert "absent.nc" in ran.out


def test_tolerances() -> None:
    import numpy as np

    from intarsia.cli.combining import tolerance

    assert tolerance("0.5") == 0.5
    assert tolerance("12h") == np.timedelta64(12, "h")
