"""``intarsia info``: what a store holds, without its sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr

import intarsia
from intarsia.cli import info
from intarsia.io.fetch import observe
from intarsia.store.objects import Folder
from intarsia.xarray import notes
from tests.cli.conftest import Ran

type Run = Callable[..., Ran]


@pytest.fixture
def store(run: Run, folder: Path) -> Path:
    """A store of three files, and one that was left out."""
    (folder / "m3.nc").write_text("no HDF5 file")
    ran = run(
        "build", "*.nc", "--concat-dim", "time", "-o", "sst.intarsia", "--on-error", "skip",
        "--no-decode-times",
    )  # fmt: skip
    assert ran.status == 0
    return folder / "sst.intarsia"


def test_a_table_for_people(run: Run, store: Path) -> None:
    for number in range(3):
        (store.parent / f"m{number}.nc").unlink()  # sources are not looked at
    with observe() as reads:
        ran = run("info", "sst.intarsia")
    assert (ran.status, ran.err, reads.requests) == (0, "", 0)
    lines = ran.out.splitlines()
    assert lines[0].startswith("sst.intarsia: ")
    assert lines[0].endswith("in 3 sources")
    assert lines[1] == "1 variable by reference, 3 copied; 1 reference"
    assert "unstable" in lines[2]
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["sst"] == (
        ["sst", "time,", "lat,", "lon", "6×3×4", "float64", "referred", "3", "6×3×4", "1.00×", "3"]
    )
    assert rows["lat"] == ["lat", "lat", "3", "float64", "copied"]
    assert "int16 → mask → scale + offset → float64" in ran.out
    assert rows["sources"] == ["sources", "./", "./", "mtime", "3"]
    assert '- {"decode_times": false}' in lines
    assert "- left out: this is not HDF5; it looks like text (12 bytes): m3.nc" in lines


def test_json_for_programs(run: Run, store: Path) -> None:
    told = json.loads(run("info", "sst.intarsia", "--json").out)
    assert list(told) == [
        "store", "version", "stable", "digest", "nbytes", "references", "nbytes_per_reference",
        "groups", "sources", "containers", "cases", "opened_with",
    ]  # fmt: skip
    assert (told["store"], told["stable"], told["references"]) == (str(store), False, 1)
    assert told["nbytes"] == sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    (group,) = told["groups"].values()
    assert group["sizes"] == {"time": 6, "lat": 3, "lon": 4}
    assert "m3.nc" in group["notes"][0]
    sst = next(one for one in group["variables"] if one["name"] == "sst")
    assert sst["grid"] == {"cells": [6, 3, 4], "count": 1, "decoded": 1.0, "parts": 3}
    assert [one["parameters"] for one in sst["cases"]] == [2]
    assert told["cases"].keys() == {one["case"] for one in sst["cases"]}
    sizes = [(store.parent / f"m{number}.nc").stat().st_size for number in range(3)]
    assert told["sources"] == {"count": 3, "nbytes": sum(sizes)}
    assert told["containers"] == [
        {
            "name": "sources",
            "location": "./",
            "access": {},
            "now": f"{store.parent}/",
            "refused": None,
            "pin": "mtime",
            "sources": 3,
            "unpinned": 0,
        }
    ]
    assert told["opened_with"] == [{"decode_times": False}]


def test_tables_are_not_read(run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    get = Folder.get

    def watch(self: Folder, name: str, *args: int) -> bytes:
        seen.append(name)
        return get(self, name, *args)

    monkeypatch.setattr(Folder, "get", watch)
    assert run("info", "sst.intarsia").status == 0
    assert seen[0] == "__intarsia__/root.json"
    assert all("sources" in name for name in seen[1:])


def test_groups_zips_and_other_places(run: Run, folder: Path) -> None:
    ds = intarsia.open_dataset("m0.nc")
    tree = xr.DataTree.from_dict({"/a": ds, "/b/c": ds[["sst"]]})
    tree.intarsia.save("x.intarsia.zip")
    ran = run("info", "x.intarsia.zip", "--container", "sources=/mnt/sst", "--pin", "sources=none")
    assert ran.status == 0
    assert "Group /a\n" in ran.out
    assert "Group /b/c\n" in ran.out
    assert ["sources", "./", "/mnt/sst/", "none", "1"] in [
        line.split() for line in ran.out.splitlines()
    ]
    told = json.loads(run("info", "x.intarsia.zip", "--json").out)
    assert told["nbytes"] == (folder / "x.intarsia.zip").stat().st_size


def test_what_is_no_store(run: Run, folder: Path) -> None:
    for path in ("nowhere.intarsia", "m0.nc"):
        ran = run("info", path)
        assert (ran.status, ran.out) == (1, "")
        assert path in ran.err
    intarsia.open_dataset("m0.nc").intarsia.save("x.intarsia")
    ran = run("info", "x.intarsia", "--container", "there=/mnt")
    assert ran.status == 1
    assert "there is no container 'there'" in ran.err
    assert run("info").status == 2
    assert run("info", "x.intarsia", "--pin", "sources=everything").status == 2


def test_the_key_of_remarks_is_the_libraries() -> None:
    assert info.NOTES == notes.NOTES
