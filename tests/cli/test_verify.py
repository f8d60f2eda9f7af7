"""``intarsia verify``: what it prints, and with which status it exits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import intarsia
from tests.cli.conftest import Ran, month, write

type Run = Callable[..., Ran]


@pytest.fixture
def store(run: Run, folder: Path) -> Path:
    """A store of three files."""
    ran = run("build", "*.nc", "--concat-dim", "time", "-o", "sst.intarsia")
    assert ran.status == 0
    return folder / "sst.intarsia"


def test_all_is_well(run: Run, store: Path) -> None:
    for more in ([], ["--sample", "10"], ["-j", "2"], ["-v", "sst"]):
        ran = run("verify", "sst.intarsia", *more)
        assert (ran.status, ran.err) == (0, "")
        assert ran.out.startswith("sst.intarsia: 3 sources\n")
        assert "Equal to the sources in every bit" in ran.out
    told = json.loads(run("verify", "sst.intarsia", "--json").out)
    assert (told["ok"], told["equal"], told["complete"], told["sources"]) == (True, True, True, 3)


def test_sources_that_changed(run: Run, store: Path) -> None:
    stat = (store.parent / "m1.nc").stat()
    os.utime("m1.nc", ns=(1, 1))
    (store.parent / "m2.nc").unlink()
    ran = run("verify", "sst.intarsia")
    assert (ran.status, ran.err) == (1, "")
    said = " ".join(ran.out.split())
    assert "- m1.nc: the source changed after it was scanned: its modification time was" in said
    assert "- m2.nc: the source does not exist" in said
    assert "Not verified: 2 sources changed or missing." in said
    write(store.parent / "m2.nc", month(2))
    ran = run("verify", "sst.intarsia", "--pin", "sources=size")
    assert ran.status == 0
    os.utime("m1.nc", ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_values_and_labels_that_differ(run: Run, store: Path) -> None:
    write(store.parent / "m0.nc", month(0, scale=0.02), 0.02)
    ran = run("verify", "sst.intarsia", "--pin", "sources=size")
    assert ran.status == 1
    said = " ".join(ran.out.split())
    assert "- sst[0, 0, 1] (time=2020-01-01, lat=10.0, lon=1.0) is 280.01, but 280.02" in said
    assert "in m0.nc[0, 0, 1] (23 elements differ)" in said
    assert "Not equal to the sources." in said
    wrong = intarsia.open_dataset("sst.intarsia").assign_coords(lat=[10.0, 20.0, 30.5])
    wrong.intarsia.save("wrong.intarsia")
    asked = ("verify", "wrong.intarsia", "--pin", "sources=size", "--sample", "3")
    told = json.loads(run(*asked, "--json").out)
    assert {(one["kind"], one["dim"]) for one in told["differences"]} >= {("label", "lat")}
    np.testing.assert_equal(
        [one["index"] for one in told["differences"] if one["kind"] == "label"], [[2]] * 3
    )
    for more in (["--no-labels"], ["--tolerance", "0.5"]):
        found = json.loads(run(*asked, *more, "--json").out)["differences"]
        assert {one["kind"] for one in found} == {"value"}


def test_mistakes(run: Run, store: Path) -> None:
    ran = run("verify", "nowhere.intarsia")
    assert (ran.status, ran.out) == (1, "")
    assert "nowhere.intarsia" in ran.err
    ran = run("verify", "sst.intarsia", "-v", "tos")
    assert ran.status == 2
    assert "no variable 'tos'; there are lat, lon, sst, time" in ran.err
    for argv in (["--sample", "0"], ["--tolerance", "close"], ["-j", "none"]):
        assert run("verify", "sst.intarsia", *argv).status == 2
