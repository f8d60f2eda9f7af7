"""``intarsia build``: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

import intarsia
from tests.cli.conftest import Ran, month, write

type Run = Callable[..., Ran]

ASKED = ("build", "*.nc", "--concat-dim", "time")


def test_writes_a_store_and_says_how_large_it_is(run: Run, folder: Path) -> None:
    ran = run(*ASKED, "-o", "sst.intarsia")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("sst.intarsia: ")
    assert "in 3 sources" in ran.out
    assert "1 variable by reference" in ran.out
    assert "Notes" not in ran.out
    assert intarsia.open_dataset("sst.intarsia").sizes["time"] == 6
    ran = run(*ASKED, "-o", "sub/sst.zip")
    assert (ran.status, ran.err) == (1, "intarsia: the folder does not exist: sub; make it first\n")
    ran = run(*ASKED, "-o", "sst.zip", "--json")
    told = json.loads(ran.out)
    assert (told["path"], told["sources"]) == (str(folder / "sst.zip"), 3)
    assert "scale-offset" in {one["kind"] for one in told["report"]["differences"]}
    assert intarsia.open_dataset("sst.zip").sizes["time"] == 6


def test_what_is_left_out_is_named(run: Run, folder: Path) -> None:
    (folder / "m3.nc").write_text("no HDF5 file")
    with h5py.File(folder / "m2.nc", "r+") as file:
        odd = file.create_dataset(
            "odd", (2,), "f8", chunks=(2,), compression=32999, allow_unknown_filter=True
        )
        odd.id.write_direct_chunk((0,), b"?")
    ran = run(*ASKED, "-o", "sst.intarsia")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("intarsia: this is not HDF5; it looks like text (12 bytes): m3.nc")
    assert not (folder / "sst.intarsia").exists()
    ran = run(*ASKED, "-o", "sst.intarsia", "--on-error", "skip", "--unsupported", "skip")
    assert ran.status == 0
    said = " ".join(ran.out.split())
    assert "left out: this is not HDF5; it looks like text (12 bytes): m3.nc" in said
    assert "left out of m2.nc: 'odd'" in said


def test_files_that_do_not_go_together(run: Run, folder: Path) -> None:
    write(folder / "m3.nc", month(3, units="degC"))
    ran = run(*ASKED, "-o", "sst.intarsia")
    assert (ran.status, ran.out) == (1, "")
    assert "--on-conflict first" in ran.err
    assert not (folder / "sst.intarsia").exists()
    assert run(*ASKED, "-o", "sst.intarsia", "--on-conflict", "first", "-j", "2").status == 0


def test_what_is_there_stays_unless_replaced(run: Run, folder: Path) -> None:
    assert run("build", "m0.nc", "-o", "sst.intarsia").status == 0
    ran = run("build", "none-*.nc", "-o", "sst.intarsia")
    assert (ran.status, ran.err) == (1, "intarsia: no files match: none-*.nc; check the pattern\n")
    ran = run(*ASKED, "-o", "sst.intarsia")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == ("intarsia: the store exists: sst.intarsia; pass --overwrite to replace it\n")
    assert intarsia.open_dataset("sst.intarsia").sizes["time"] == 2
    assert run(*ASKED, "-o", "sst.intarsia", "--overwrite").status == 0
    assert intarsia.open_dataset("sst.intarsia").sizes["time"] == 6
    ran = run(*ASKED, "-o", str(folder), "--overwrite")
    assert ran.status == 1
    assert "there is something that is no store" in ran.err


@pytest.mark.parametrize("output", ["m1.nc", "./m1.nc", "link.nc"])
def test_an_input_is_no_output(run: Run, folder: Path, output: str) -> None:
    (folder / "link.nc").symlink_to(folder / "m1.nc")
    before = (folder / "m1.nc").read_bytes()
    ran = run("build", "m*.nc", "--concat-dim", "time", "-o", output, "--overwrite")
    assert (ran.status, ran.out) == (1, "")
    assert "can't be written onto one of the files it is made of" in ran.err
    assert (folder / "m1.nc").read_bytes() == before


def test_a_store_is_no_output_of_itself(run: Run, folder: Path) -> None:
    assert run(*ASKED, "-o", "sst.intarsia").status == 0
    ran = run("build", "sst.intarsia", "-o", "sst.intarsia", "--overwrite")
    assert ran.status == 1
    assert run("build", "sst.intarsia", "-o", "again.intarsia").status == 0
    assert intarsia.open_dataset("again.intarsia").sizes["time"] == 6


def test_containers_and_samples(run: Run, folder: Path) -> None:
    ran = run(*ASKED, "-o", "sst.intarsia", "--container", f"here={folder}", "--sample")
    assert ran.status == 0
    (container,) = json.loads(run("info", "sst.intarsia", "--json").out)["containers"]
    assert (container["name"], container["pin"], container["sources"]) == ("here", "sample", 3)
    ran = run(*ASKED, "-o", "x.intarsia", "--container", "here=/nowhere")
    assert ran.status == 1
    assert "no source lies in the container 'here'" in ran.err


@pytest.mark.parametrize(
    "argv",
    [["*.nc"], ["*.nc", "-o"], ["*.nc", "-o", "x", "--container", "here"], ["-o", "x"]],
)
def test_arguments_that_make_no_sense(run: Run, folder: Path, argv: list[str]) -> None:
    ran = run("build", *argv)
    assert (ran.status, ran.out) == (2, "")
    assert "usage: intarsia build" in ran.err
