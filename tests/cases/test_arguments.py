"""Arguments of combining: xarray's where it has them, and what tolerance and align do beyond."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import AlignmentConflict
from tests import oracle
from tests.check import check_chains, check_equal, is_virtual
from tests.unlike import GroupSpec, VariableSpec, variable
from tests.unlike.families import EXPLICIT, FAMILIES, mapped, series
from tests.unlike.structures import STRUCTURES

NESTED: dict[str, Any] = {"combine": "nested", "concat_dim": "time"}
NO_JOIN = {k: v for k, v in EXPLICIT.items() if k != "join"} | NESTED


@pytest.mark.parametrize("data_vars", [None, "all", "minimal", "different", ["mask"]])
@pytest.mark.parametrize("new", [False, True])
def test_data_vars(tmp_path: Path, data_vars: Any, new: bool) -> None:
    family = STRUCTURES["static variables kept"]
    arguments = family.arguments | {"compat": "equals", "data_vars": data_vars}
    with xr.set_options(use_new_combine_kwarg_defaults=new):
        check_equal(family.write(tmp_path), virtual=["sst"], **arguments)


@pytest.mark.parametrize("coords", ["all", "minimal", "different", ["area"]])
def test_coords(tmp_path: Path, coords: Any) -> None:
    family = STRUCTURES["a static coordinate of two dims"]
    arguments = family.arguments | {"compat": "equals", "coords": coords}
    check_equal(family.write(tmp_path), virtual=["sst"], **arguments)


@pytest.mark.parametrize("compat", ["equals", "no_conflicts", "override", "identical", "minimal"])
def test_compat(tmp_path: Path, compat: str) -> None:
    family = STRUCTURES["static variables kept"]
    paths = family.write(tmp_path)
    arguments = family.arguments | {"compat": compat}
    try:
        oracle.open_mfdataset(paths, **arguments)
    except ValueError:
        with pytest.raises(ValueError, match="compat|differ|conflict|identical|equal"):
            intarsia.open_mfdataset(paths, **arguments)
    else:
        check_equal(paths, virtual=["sst"], **arguments)


@pytest.mark.parametrize("new", [False, True])
def test_warnings_are_xarrays(tmp_path: Path, new: bool) -> None:
    """Where xarray warns that a default will change the result, so does Intarsia; nowhere else."""
    for name in ("static variables kept", "epoch per file"):
        folder = tmp_path / name
        folder.mkdir()
        paths = STRUCTURES[name].write(folder)
        told = []
        with xr.set_options(use_new_combine_kwarg_defaults=new):
            for opening in (
                intarsia.open_mfdataset,
                partial(xr.open_mfdataset, engine="h5netcdf"),
            ):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    opening(paths, **NESTED).close()
                told.append({(w.category, str(w.message)) for w in caught})
        assert told[0] == told[1]


def test_attrs_file(tmp_path: Path) -> None:
    paths = FAMILIES["codec eras"].write(tmp_path)
    for given in (paths[1], Path(paths[1])):
        ds = intarsia.open_mfdataset(paths, attrs_file=given, **NESTED, **EXPLICIT)
        assert ds.attrs == oracle.open_dataset(paths[1]).attrs


def test_coordinates_within_a_tolerance_are_the_first_files(tmp_path: Path) -> None:
    paths = STRUCTURES["jitter, join=outer"].write(tmp_path)
    ds = intarsia.open_mfdataset(paths, tolerance=1e-5, **NO_JOIN)
    check_chains(ds, oracle.open_mfdataset(paths, join="override", **NO_JOIN), virtual=["sst"])
    assert "lat" in str(ds.intarsia.report())
    with pytest.raises(AlignmentConflict, match=r"tolerance"):
        intarsia.open_mfdataset(paths, tolerance=1e-8, **NO_JOIN)


def test_a_tolerance_is_of_labels_at_one_place(tmp_path: Path) -> None:
    """A reversed coordinate is never within a tolerance, nor is one of another length."""
    for name in ("reversed, join=outer", "another length, join=outer"):
        folder = tmp_path / name[:8].strip()
        folder.mkdir()
        paths = STRUCTURES[name].write(folder)
        with pytest.raises(AlignmentConflict, match="lat"):
            intarsia.open_mfdataset(paths, tolerance=0.5, **NO_JOIN)


def test_reversed_coordinates_are_turned_round(tmp_path: Path) -> None:
    paths = STRUCTURES["reversed, join=outer"].write(tmp_path)
    ds = intarsia.open_mfdataset(paths, align="flip", **NO_JOIN)
    expected = oracle.open_mfdataset(paths, join="exact", preprocess=_sorted, **NO_JOIN)
    chains = [(("isel", {"lat": slice(None, None, -1), "time": slice(1, None, 2)}),)]
    check_chains(ds, expected, chains, ["sst"])
    assert "lat" in str(ds.intarsia.report())


def _sorted(ds: xr.Dataset) -> xr.Dataset:
    return ds.sortby("lat")


def test_turning_round_and_a_tolerance(tmp_path: Path) -> None:
    """Both together; and what is neither is still refused."""

    def change(shift: float) -> Any:
        def one(i: int, group: GroupSpec) -> GroupSpec:
            sst = group["sst"]
            assert isinstance(sst, VariableSpec)
            lat = (10, 11, 12) if i != 1 else (12, 11 + shift, 10)
            return group.with_variables(variable("lat", ("lat",), "<f8", literal=lat))

        return one

    paths = mapped(series(""), change(1e-7), "").write(tmp_path)
    ds = intarsia.open_mfdataset(paths, align="flip", tolerance=1e-6, **NO_JOIN)
    assert is_virtual(ds, "sst")
    assert ds.lat.values.tolist() == [10, 11, 12]
    for i, (start, stop) in enumerate(((0, 3), (3, 5), (5, 9))):
        alone = oracle.open_dataset(paths[i]).sst.values
        wanted = alone[:, ::-1] if i == 1 else alone
        assert np.array_equal(ds.sst[start:stop].values, wanted)
    for arguments in ({"align": "flip"}, {"tolerance": 1e-6}):
        with pytest.raises(AlignmentConflict, match="lat"):
            intarsia.open_mfdataset(paths, **arguments, **NO_JOIN)
    off = mapped(series(""), change(0.1), "").write(tmp_path)
    with pytest.raises(AlignmentConflict, match="lat"):
        intarsia.open_mfdataset(off, align="flip", tolerance=1e-6, **NO_JOIN)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("combine", "sideways"), ("on_conflict", "last"), ("align", "turn"), ("unsupported", "no")],
)
def test_unknown_values_are_refused(tmp_path: Path, argument: str, value: str) -> None:
    paths = FAMILIES["codec eras"].write(tmp_path)
    with pytest.raises(ValueError, match=value):
        intarsia.open_mfdataset(paths, **NESTED | {argument: value})


def test_unknown_arguments_are_refused(tmp_path: Path) -> None:
    paths = FAMILIES["codec eras"].write(tmp_path)
    with pytest.raises(TypeError, match="on_conflicts"):
        intarsia.open_mfdataset(paths, on_conflicts="first", **NESTED)
    with pytest.raises(TypeError, match="grupe"):
        intarsia.open_dataset(paths[0], grupe="x")


def test_loadable_variables(tmp_path: Path) -> None:
    paths = FAMILIES["packing per file"].write(tmp_path)
    ds = intarsia.open_mfdataset(paths, loadable_variables=["sst"], **NESTED, **EXPLICIT)
    assert not is_virtual(ds, "sst")
    check_chains(ds, oracle.open_mfdataset(paths, **NESTED, **EXPLICIT))


def test_chunks_gives_dask_arrays(tmp_path: Path) -> None:
    paths = FAMILIES["ragged inner chunks"].write(tmp_path)
    expected = oracle.open_mfdataset(paths, **NESTED, **EXPLICIT)
    for chunks in ({}, {"time": 7}, "auto", 5):
        ds = intarsia.open_mfdataset(paths, chunks=chunks, **NESTED, **EXPLICIT)
        assert type(ds.sst.data).__module__.startswith("dask.")
        check_chains(ds, expected)
