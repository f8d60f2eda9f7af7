"""The cases that every archive has: codec eras, months, ragged chunks, packing, dtypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from tests import oracle
from tests.check import check_chains, check_equal, is_virtual, open_both
from tests.oracle.chain import ACROSS, ALONG
from tests.unlike.families import EXPLICIT, FAMILIES, Family, choose, part, six_cases, stored

CASES = [family.name for family in six_cases()]
CHAINS = [
    (("isel", {"time": slice(None, None, -1)}),),
    (("isel", {"time": slice(1, None, 3), "lat": 1}), ("transpose", ("lon",))),
    (("isel", {"time": -1, "lon": slice(3, 0, -2)}),),
    (("rotate", ("time", 4)), ("expand_dims", {"member": 2}), ("isel", {"time": slice(2, 8)})),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("six")


@pytest.mark.parametrize("name", CASES)
def test_equal_to_xarray(tmp_path: Path, name: str) -> None:
    family = FAMILIES[name]
    check_equal(family.write(tmp_path), CHAINS, ["sst"], **family.arguments)


@pytest.mark.parametrize("name", ["packing per file", "codec eras", "ragged in every dimension"])
def test_one_element_after_the_other(tmp_path: Path, name: str) -> None:
    family = FAMILIES[name]
    actual, expected = open_both(family.write(tmp_path), **family.arguments)
    for time in range(0, expected.sizes["time"], 2):
        for lat in range(expected.sizes["lat"]):
            ours = actual["sst"][time, lat].values
            assert ours.tobytes() == expected["sst"].values[time, lat].tobytes()


def test_a_month_is_selected_by_its_name(tmp_path: Path) -> None:
    family = FAMILIES["month lengths"]
    actual, expected = open_both(family.write(tmp_path), **family.arguments)
    february = actual.sel(time="2001-02")
    assert is_virtual(february, "sst")
    assert february.sizes["time"] == 28
    check_chains(february, expected.sel(time="2001-02"))
    assert actual.sst.mean().values == expected.sst.mean().values


@pytest.fixture(scope="module")
def piles(folder: Path) -> dict[str, list[str]]:
    """Two halves of one picture, and a pile of the same shape that is packed."""
    lengths = (3, 2, 4, 2)
    files = [part(i, lengths, choose(stored("<i2"), stored("<i4"))) for i in range(4)]
    found: dict[str, list[str]] = {}
    for name, family in {
        "early": Family("early", tuple(files[:2])),
        "late": Family("late", tuple(files[2:])),
        "packed": FAMILIES["packing per file, chunked"],
    }.items():
        where = folder / name
        where.mkdir()
        found[name] = family.write(where)
    return found


def _open(side: Any, paths: list[str]) -> xr.Dataset:
    return side.open_mfdataset(paths, combine="nested", concat_dim="time", **EXPLICIT)


@pytest.mark.parametrize("second", ["late", "packed", "early"])
def test_what_was_combined_can_be_combined(piles: dict[str, list[str]], second: str) -> None:
    ours, theirs = (
        xr.concat([_open(side, piles["early"]), _open(side, piles[second])], "time", **ALONG)
        for side in (intarsia, oracle)
    )
    assert is_virtual(ours, "sst")
    check_chains(ours, theirs, CHAINS, ["sst"])


def test_what_was_combined_can_be_stacked_and_combined_again(
    piles: dict[str, list[str]],
) -> None:
    def stacked(side: Any) -> xr.Dataset:
        early = _open(side, piles["early"]).drop_vars("time")
        packed = _open(side, piles["packed"]).drop_vars("time").isel(time=slice(0, 5))
        members = xr.concat([early, packed], "member", **ACROSS)
        turned = members.isel(lat=slice(None, None, -1), member=slice(None, None, -1))
        return xr.concat(
            [members, turned.isel(lat=[0, 1, 2])], "again", **ACROSS | {"join": "override"}
        )

    def sliced(side: Any) -> xr.Dataset:
        whole = stacked(side)
        return xr.concat(
            [whole.isel(time=slice(3, None)), whole.isel(time=slice(0, 2))], "time", **ALONG
        )

    ours, theirs = stacked(intarsia), stacked(oracle)
    check_chains(ours, theirs)
    check_chains(sliced(intarsia), sliced(oracle))


def test_one_file_and_a_pile(piles: dict[str, list[str]]) -> None:
    ours, theirs = (
        xr.concat(
            [_open(side, piles["early"]), side.open_dataset(piles["late"][0])], "time", **ALONG
        )
        for side in (intarsia, oracle)
    )
    check_chains(ours, theirs, CHAINS, ["sst"])


def test_the_first_files_packing_is_not_kept(tmp_path: Path) -> None:
    """A copy written with the first file's packing would hold other values."""
    family = FAMILIES["packing per file"]
    actual, expected = open_both(family.write(tmp_path), **family.arguments)
    assert not {"scale_factor", "add_offset", "_FillValue", "dtype"} & set(actual.sst.encoding)
    copy = tmp_path / "copy.nc"
    actual.to_netcdf(copy, engine="h5netcdf")
    with xr.open_dataset(copy, engine="h5netcdf") as ds:
        assert np.array_equal(ds.sst.values, expected.sst.values, equal_nan=True)
