"""The oracle itself: the pool heals, and the in-process answers are those of xarray's functions."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from tests.compare import assert_identical
from tests.oracle import (
    OracleCrashed,
    OracleError,
    OraclePool,
    Question,
    open_mfdataset,
)
from tests.unlike import FileSpec, GroupSpec, dimension, text, variable, write_file

EXPLICIT = {"coords": "minimal", "compat": "override", "join": "outer", "data_vars": "minimal"}


def _die(ds: xr.Dataset) -> xr.Dataset:
    ctypes.string_at(0)
    return ds


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder: Path = tmp_path_factory.mktemp("oracle")
    found = []
    for i in range(2):
        units = {"units": text(f"days since 2000-01-0{1 + 3 * i}")}
        root = GroupSpec(
            dims=(dimension("time", 3), dimension("x", 4)),
            variables=(
                variable("time", ("time",), "<i4", attrs=units),
                variable("v", ("time", "x"), ">f4"),
            ),
        )
        found.append(str(write_file(folder, FileSpec(f"{i}.nc", root))))
    return found


def test_the_pool_answers_as_this_process_does(paths: list[str]) -> None:
    arguments: dict[str, Any] = {"combine": "nested", "concat_dim": "time", **EXPLICIT}
    chain = (("isel", {"time": slice(None, None, -2)}), ("transpose", ("x",)))
    with OraclePool() as pool:
        got = pool.ask(Question(paths, arguments, chain))
    expected = (
        open_mfdataset(paths, **arguments).isel(time=slice(None, None, -2)).transpose("x", ...)
    )
    assert_identical(got, expected)


def test_a_killed_worker_is_reported_and_replaced(paths: list[str]) -> None:
    with OraclePool(timeout=30) as pool:
        arguments = {"combine": "nested", "concat_dim": "time", **EXPLICIT}
        with pytest.raises(OracleCrashed, match="exit code -11"):
            pool.ask(Question(paths, {**arguments, "preprocess": _die}))
        assert pool.ask(Question(paths[0])).sizes == {"time": 3, "x": 4}
        with pytest.raises(OracleError, match="FileNotFoundError"):
            pool.ask(Question(paths[0] + ".absent"))
        assert pool.ask(Question(paths[0])).sizes == {"time": 3, "x": 4}


@pytest.mark.parametrize("combine", ["nested", "by_coords"])
def test_answers_equal_xarrays_own_open_mfdataset(paths: list[str], combine: str) -> None:
    arguments: dict[str, Any] = {"combine": combine, **EXPLICIT}
    if combine == "nested":
        arguments["concat_dim"] = "time"
    with xr.open_mfdataset(paths, engine="h5netcdf", **arguments) as opened:
        theirs = opened.load().drop_encoding()
    assert_identical(open_mfdataset(paths, **arguments), theirs)
