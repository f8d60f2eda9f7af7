"""Batches: what comes out of one is what went in, to the bit; and it is small."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import CorruptFile, IntarsiaError
from intarsia.xarray import running
from intarsia.xarray.batches import pack
from intarsia.xarray.batches_unpacking import Unpacker
from intarsia.xarray.running import opened_all, opened_list
from tests.compare import assert_identical
from tests.unlike.families import FAMILIES
from tests.unlike.strategies import unlike_files
from tests.xarray.many import many_files
from tests.xarray.same import assert_same
from tests.xarray.ten_thousand import KINDS

NESTED: dict[str, Any] = {"combine": "nested", "concat_dim": "time"}


def flat(paths: Any) -> list[str]:
    return [paths] if isinstance(paths, str) else [p for each in paths for p in flat(each)]


def there_and_back(
    paths: Sequence[str], results: Sequence[Any], size: int, *, shared: bool
) -> list[Any]:
    """What a client gets of batches of `size` files, through a pickle."""
    unpacker = Unpacker(shared=shared)
    found: list[Any] = []
    for begin in range(0, len(paths), size):
        part = paths[begin : begin + size]
        batch = pickle.loads(pickle.dumps(pack(part, results[begin : begin + size])))
        found += unpacker.unpack(batch, part)
    return found


def assert_returns(paths: Sequence[str], results: Sequence[Any]) -> None:
    for size, shared in ((len(paths), True), (len(paths), False), (1, True), (2, True)):
        for one, two in zip(
            results, there_and_back(paths, results, size, shared=shared), strict=True
        ):
            assert_same(one, two)


@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_unlike_files_come_back_as_they_were(name: str, tmp_path: Path) -> None:
    paths = flat(FAMILIES[name].write(tmp_path))
    results = opened_list(intarsia.open_dataset, paths, stop=False)
    assert_returns(paths, results)
    batch = pack(paths, results)
    assert not batch.unpacked
    assert len(batch.whole) == sum(isinstance(result, IntarsiaError) for result in results)


@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
@settings(max_examples=6, deadline=None)
@given(pile=unlike_files())
def test_any_unlike_files_come_back_as_they_were(pile: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = pile.write(Path(folder))
        assert_returns(paths, opened_list(intarsia.open_dataset, paths, stop=False))


# -- anything that attributes and loaded variables hold ----------------------------------------

PLACE = "/data/år/\udcff.nc"
NUMBERS = st.sampled_from(["<f4", ">f8", "<i2", "u1", "<i8", "<u8", "?", "<c16", "<f2"])
SCALARS = st.one_of(
    st.text(), st.sampled_from([PLACE, "/data/år/", "\udcff.nc"]), st.none(), st.booleans(),
    st.integers(), st.floats(), st.binary(max_size=9),
    st.sampled_from([
        np.float32("nan"), np.float64(-0.0), np.int64(1), np.datetime64("2000-01-01", "ns"),
        np.timedelta64(3, "h"), np.str_("text"), np.bytes_(b"x"), np.dtype("<i2"), str, 1 << 70,
        datetime.date(2000, 1, 1), np.dtype("S4", metadata={"h5py_encoding": "ascii"}),
    ]),
)  # fmt: skip


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    dtype = draw(NUMBERS)
    shape = draw(st.sampled_from([(), (0,), (1,), (3,), (9,), (2, 3), (0, 2)]))
    data = draw(st.binary(min_size=64, max_size=64)) * 4
    values = np.frombuffer(data, dtype if dtype != "?" else "u1")[: int(np.prod(shape))]
    values = values.reshape(shape).copy()
    values = values % 2 == 0 if dtype == "?" else values
    return values.T if draw(st.booleans()) else values


VALUES = st.one_of(
    SCALARS,
    arrays(),
    st.lists(SCALARS, max_size=3),
    st.tuples(SCALARS, SCALARS),
    st.builds(lambda items: np.array([*items, None], object)[:-1], st.lists(st.text(), max_size=3)),
    st.just(np.broadcast_to(np.uint64(7), (12,))),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(VALUES, min_size=2, max_size=2), min_size=1, max_size=4))
def test_all_that_datasets_hold_comes_back(values: list[list[Any]]) -> None:
    datasets: list[xr.Dataset] = []
    for one, two in values:
        ds = xr.Dataset(attrs={"one": one, "two": two, "again": one})
        ds.encoding = {"source": PLACE, "one": two}
        datasets.append(ds)
    assert_returns([PLACE] * len(datasets), datasets)


@settings(max_examples=20, deadline=None)
@given(st.lists(arrays(), min_size=1, max_size=4))
def test_loaded_values_come_back(values: list[Any]) -> None:
    names = [("x", "y")[: array.ndim] for array in values]
    datasets = [xr.Dataset({"v": (dims, v)}) for dims, v in zip(names, values, strict=True)]
    assert_returns([f"/{n}.nc" for n in range(len(values))], datasets)


def test_indexes_come_back() -> None:
    labels: list[Any] = [
        np.arange(3), np.array([0.5, np.nan]), pd.date_range("2000", periods=4, unit="s"),
        pd.timedelta_range("1h", periods=2), np.array(["a", "b"]), np.array(["a", 1], object),
        pd.RangeIndex(5), pd.CategoricalIndex(["x", "y"]), np.array([True, False]),
        xr.date_range("0001-01-01", periods=2, use_cftime=True), pd.period_range("2000", periods=2),
        np.array([], "datetime64[ns]"), np.arange(2, dtype="u1"), np.arange(3, dtype="f4"),
    ]  # fmt: skip
    datasets = [xr.Dataset(coords={"x": each}) for each in labels]
    paths = [f"/{n}.nc" for n in range(len(labels))]
    assert_returns(paths, datasets)
    assert not pack(paths, datasets).unpacked
    other = xr.Dataset(coords={"x": [1, 2], "y": ("x", [3, 4])}).set_xindex("y")
    assert_returns(["/a.nc"], [other])


def test_errors_come_back(tmp_path: Path) -> None:
    error = CorruptFile("cut short", url="/a.nc", array="v", remedy="fetch it again")
    error.add_note("seen twice")
    (found,) = there_and_back(["/a.nc"], [error], 1, shared=True)
    assert_same(found, error)
    assert found.__notes__ == ["seen twice"]


def test_what_is_read_when_needed_is_pickled_whole(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 2)
    for number, path in enumerate(paths):
        intarsia.open_dataset(path).intarsia.save(tmp_path / f"{number}.intarsia")
    stores = [str(tmp_path / f"{number}.intarsia") for number in range(2)]
    results = opened_list(intarsia.open_dataset, stores, stop=False)
    batch = pack(stores, results)
    assert batch.unpacked == 2
    for one, two in zip(Unpacker(shared=True).unpack(batch, stores), results, strict=True):
        assert_identical(one.load(), two.load())


# -- what is shared, and what is not -----------------------------------------------------------


def test_what_is_equal_is_there_once(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 12)
    results = opened_list(intarsia.open_dataset, paths, stop=False)
    found = there_and_back(paths, results, 4, shared=True)
    for part in ("_attrs", "_encoding"):
        assert len({id(getattr(ds.field3.variable, part)) for ds in found}) == 1
    assert len({id(ds._indexes["lat"]) for ds in found}) == 1
    assert len({id(ds.field3.variable._data.segments.blocks[0]) for ds in found}) == 1
    # never what another variable has: it could be changed through the result
    assert found[0].field3.variable._encoding is not found[0].field4.variable._encoding


def test_datasets_that_are_handed_out_share_nothing_that_can_be_changed(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 3)
    results = opened_list(intarsia.open_dataset, paths, stop=False)
    names = np.array(["a", "b", "c", "d"], object)
    results = [
        ds.assign(static=("lat", np.arange(4.0), {"a": [1]}), names=("lat", names.copy()))
        for ds in results
    ]
    results[2].names.values[:] = "same as in one other"
    results[1].names.values[:] = "same as in one other"
    found = there_and_back(paths, results, 3, shared=False)
    ds = found[0]
    found[2].names.values[:] = "other"
    assert (found[1].names == results[1].names).all()
    found[2].names.values[:] = results[2].names.values
    ds.names.values[:] = "other"
    ds.attrs["new"] = ds.field1.attrs["new"] = ds.lat.attrs["new"] = 1
    ds.static.values[:] = -1
    ds.static.attrs["a"].append(2)
    ds.static.encoding["new"] = ds.encoding["new"] = 1
    ds["more"] = ("lat", np.arange(4))
    for one, two in zip(found[1:], results[1:], strict=True):
        assert_same(one, two)


def test_datasets_that_are_handed_out_share_no_equal_objects(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 3)
    names = np.array(["a", "b"], object)
    datasets = [xr.Dataset({"names": ("x", names.copy())}, attrs={"n": names}) for _ in paths]
    found = there_and_back(paths, datasets, 3, shared=False)
    found[0].names.values[:] = "other"
    found[0].attrs["n"][:] = "other"
    for one, two in zip(found[1:], datasets[1:], strict=True):
        assert_same(one, two)


def test_many_files_opened_here_share_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = many_files(tmp_path, 6)
    Path(paths[4]).write_bytes(b"no HDF5")
    alone = list(opened_all(paths, intarsia.open_dataset, None, shared=True, stop=False))
    monkeypatch.setattr(running, "ALONE", 1)
    found = list(opened_all(paths, intarsia.open_dataset, None, shared=True, stop=False))
    for one, two in zip(found, alone, strict=True):
        assert_same(one, two)
    assert found[0].field3.variable._attrs is found[3].field3.variable._attrs
    assert alone[0].field3.variable._attrs is not alone[3].field3.variable._attrs
    assert found[4].__traceback__ is not None  # the error itself, with all that led to it


def test_what_only_this_process_has_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = many_files(tmp_path, 4)

    def strange(path: str) -> xr.Dataset:
        return intarsia.open_dataset(path).assign_attrs(made=lambda: 3)

    monkeypatch.setattr(running, "ALONE", 1)
    found = list(opened_all(paths, strange, None, shared=True, stop=True))
    assert [ds.attrs["made"]() for ds in found] == [3] * 4


def test_preprocess_may_change_what_it_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ALONE", 1)
    paths = many_files(tmp_path, 5)

    def numbered(ds: xr.Dataset) -> xr.Dataset:
        ds.lat.attrs["count"] = ds.lat.attrs.get("count", 0) + 1
        ds.field2.attrs["count"] = ds.field2.attrs.get("count", 0) + 1
        return ds

    ds = intarsia.open_mfdataset(paths, preprocess=numbered, **NESTED)
    assert ds.lat.attrs["count"] == ds.field2.attrs["count"] == 1


class _Spy:
    def __init__(self, call: Any) -> None:
        self.call = call
        self.files = 0

    def __call__(self, paths: Any, *rest: Any) -> Any:
        self.files += len(paths)
        return self.call(paths, *rest)


def test_the_result_can_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ALONE", 1)  # also one file alone
    monkeypatch.setattr(running, "_sharing", shared := _Spy(running._sharing))
    paths = many_files(tmp_path, 3)
    ds = intarsia.open_mfdataset(paths, **NESTED)
    alone = intarsia.open_mfdataset(paths[:1], **NESTED)
    assert shared.files == 4
    for found in (ds, alone):
        found.field1.attrs["new"] = 1
        assert "new" not in found.field2.attrs
        found["lat"] = found.lat + 1
        found.coords["t2"] = found.time + np.timedelta64(1, "D")
        assert (
            found.time.values.flags.writeable
            == xr.load_dataset(paths[0], engine="h5netcdf").time.values.flags.writeable
        )


# -- how much is sent --------------------------------------------------------------------------


def test_files_that_are_alike_take_few_bytes(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 32)
    results = opened_list(intarsia.open_dataset, paths, stop=False)
    batch = pack(paths, results)
    assert batch.nbytes / len(paths) < 1000
    assert batch.nbytes * 8 < sum(len(pickle.dumps(ds)) for ds in results)


def test_few_objects_are_made_per_file(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 40)
    results = opened_list(intarsia.open_dataset, paths, stop=False)
    found = there_and_back(paths, results, 40, shared=True)
    segments = [ds.field3.variable._data.segments for ds in found]
    assert all(isinstance(ds.field3.variable._data, VirtualArray) for ds in found)
    assert len({id(each.cases) for each in segments}) == 1
    assert len({id(each.pages[0]) for each in segments}) == 40
    assert segments[0].pages[0].lengths.base is segments[1].pages[0].lengths.base


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute and a half where the processors are free
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak is not told")
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_files(tmp_path: Path, kind: str) -> None:
    """Opened by a process of its own, as memory is looked at."""
    folder = tmp_path / "files"
    paths = many_files(folder, 10_000, fields=1)
    broken = 6_789
    Path(paths[broken]).write_bytes(Path(paths[broken]).read_bytes()[:3000])
    run = subprocess.run(
        [sys.executable, "-m", "tests.xarray.ten_thousand", folder, kind],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["files"], found["errors"], found["pickled"]) == (10_000, 1, 0)
    assert 0 < found["per_file"] < 300
    assert 0 < found["waiting"] <= 2 * found["workers"] + 1
    assert 0 < found["grown"] < 8_000 * 10_000  # bytes; half as much again where nothing is shared
    assert f"{paths[broken]}" in found["report"]
    assert found["report"].count("left out") == 1

    ds = intarsia.open_dataset(f"{folder}.intarsia")
    assert dict(ds.sizes) == {"time": 49_995, "lat": 4, "lon": 6}
    days = np.delete(np.arange(50_000), np.s_[5 * broken : 5 * broken + 5])
    assert (ds.time.values == days * np.timedelta64(1, "D") + np.datetime64("2000-01-01")).all()
    left = [path for path in paths if path != paths[broken]]
    for number in (0, 4_321, broken - 1, broken, 9_998):
        expected = xr.load_dataset(left[number], engine="h5netcdf")
        there = ds.isel(time=slice(number * 5, number * 5 + 5)).load()
        assert_identical(there, expected)
