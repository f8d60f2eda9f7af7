"""Verifying: what is right passes, and what is not is found, and told where."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from intarsia.encoding import Case
from intarsia.references import MISSING
from intarsia.segments import FORM, SOURCE, Block, Segments
from intarsia.store.nodes import Group
from intarsia.store.read import read
from intarsia.store.write import write
from intarsia.xarray.verifying import Difference, Verification, pieces, verify
from tests.check import tolerant
from tests.unlike.families import layouts, meanings
from tests.unlike.structures import (
    coordinates,
    groups,
    mosaics,
    options,
    phony,
    specials,
    times,
    variables,
)

SIZES = {"time": 2, "lat": 3, "lon": 4}
JOINING: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}


def month(number: int, **more: Any) -> xr.Dataset:
    """Two days of packed temperature, and a mask that is the same in all files."""
    shape = tuple(SIZES.values())
    sst = 280 + np.arange(np.prod(shape)).reshape(shape) + 100.0 * number
    return xr.Dataset(
        {"sst": (tuple(SIZES), sst), "mask": (("lat", "lon"), np.arange(12.0).reshape(3, 4))},
        {
            "time": ("time", np.arange(2) + 2 * number, {"units": "days since 2020-01-01"}),
            "lat": [10.0, 20.0, 30.0],
            "lon": [0.0, 1.0, 2.0, 3.0],
            **more,
        },
    )


def put(path: Path, dataset: xr.Dataset, scale: float = 1.0, **encoding: Any) -> None:
    packing = {"dtype": "i2", "scale_factor": scale, "add_offset": 280.0, "_FillValue": -1}
    dataset.to_netcdf(path, engine="h5netcdf", encoding={"sst": packing | encoding})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, each stored in another way."""
    folder = tmp_path_factory.mktemp("files")
    put(folder / "m0.nc", month(0))
    put(folder / "m1.nc", month(1), 2.0, chunksizes=(1, 2, 3), zlib=True)
    put(folder / "m2.nc", month(2), 4.0, chunksizes=(2, 3, 4), fletcher32=True)
    return folder


@pytest.fixture
def folder(tmp_path: Path, files: Path) -> Path:
    """A folder with copies of the files in ``data``."""
    shutil.copytree(files, tmp_path / "data")
    return tmp_path


def combined(folder: Path, **more: Any) -> xr.Dataset:
    given = {"concat_dim": "time", "combine": "nested", **JOINING, **more}
    return intarsia.open_mfdataset(str(folder / "data" / "*.nc"), **given)


def array_of(dataset: xr.Dataset, name: str = "sst") -> VirtualArray:
    return dataset.intarsia.arrays[name]


def altered(
    folder: Path, dataset: xr.Dataset, change: Callable[[Segments], Segments], **more: Any
) -> str:
    """A store whose variable has other segments than the dataset's."""
    place = str(folder / "altered.intarsia")
    dataset.intarsia.save(str(folder / "right.intarsia"))
    content = read(str(folder / "right.intarsia")).groups["/"]
    told = dict(content.variables)
    data = told["sst"].data
    assert isinstance(data, VirtualArray)
    wrong = data.replaced(change(data.segments))
    told["sst"] = replace(told["sst"], data=wrong)
    for name, values in more.items():
        told[name] = replace(told[name], data=values)
    write(place, {"/": Group(told, content.attrs, content.encoding)})
    return place


def one(result: Verification) -> Difference:
    assert not result.ok
    assert result.status == 1
    (difference,) = result.differences
    return difference


# -- what is right ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [None, 10])
def test_what_is_right_is_equal(folder: Path, sample: int | None) -> None:
    dataset = combined(folder)
    dataset.intarsia.save(str(folder / "x.intarsia.zip"))
    for what in (dataset, str(folder / "x.intarsia.zip")):
        result = verify(what, sample=sample)
        assert result.ok, result
        assert (result.status, result.sources, result.uncompared) == (0, 3, ())
        sst = next(one for one in result.variables if one.variable == "sst")
        assert (sst.copied, sst.elements, sst.constants, sst.sources) == (False, 72, 0, 3)
        assert sst.by_label == ("time", "lat", "lon")
        if sample is None:
            assert all(one.compared == one.elements for one in result.variables)
        else:
            assert 9 <= sst.compared <= 13
        assert "in every bit" in result.text()


def test_in_processes_it_is_the_same(folder: Path) -> None:
    dataset = combined(folder)
    dataset.intarsia.save(str(folder / "x.intarsia"))
    with ProcessPoolExecutor(2) as executor:
        result = intarsia.verify(folder / "x.intarsia", executor=executor)
    assert result.ok
    assert result == verify(folder / "x.intarsia")


VIEWS: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
    "flipped and strided": lambda ds: ds.isel(lat=slice(None, None, -1), lon=slice(3, None, -2)),
    "transposed": lambda ds: ds.transpose("lon", "time", "lat"),
    "one position": lambda ds: ds.isel(time=3, lat=1),
    "a list": lambda ds: ds.isel(time=[5, 0, 3, 3], lon=[2, 1]),
    "points": lambda ds: ds.isel(
        time=xr.DataArray([0, 5, 2], dims="p"), lat=xr.DataArray([1, 0, 2], dims="p")
    ),
    "expanded": lambda ds: ds.expand_dims(member=[1, 2]),
    "reindexed": lambda ds: ds.reindex(lat=[10.0, 15.0, 30.0]),
    "joined again": lambda ds: xr.concat(
        [ds.isel(time=slice(3, None)), ds.isel(time=slice(3))], "time", join="outer", **JOINING
    ),
    "chosen": lambda ds: ds[["sst"]].where(ds.lat > 10),
    "renamed": lambda ds: ds.rename(sst="tos", lat="latitude"),
    "missing": lambda ds: ds[["sst"]].isnull(),
    "cast": lambda ds: ds[["sst"]].astype("f4").astype("i8"),
    "without labels": lambda ds: ds.drop_vars(["time", "lat", "lon"]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_equal(folder: Path, view: str) -> None:
    dataset = VIEWS[view](combined(folder))
    for sample in (None, 12):
        result = verify(dataset, sample=sample)
        assert result.ok, result
        assert any(one.compared for one in result.variables if not one.copied)
    if view == "reindexed":
        assert [one.constants for one in result.variables[:2]] == [24, 4]
    if view == "without labels":
        assert [one.by_label for one in result.variables] == [(), ()]


BEYOND = {"external", "layouts mixed", "integers of 11 bits"}
"""Families of which something can't be compared: raw files, refused types."""

ON_PURPOSE = ("another range, join=override", "jitter, join=override", "reversed, join=override")
"""Families whose labels are not those of the files, as was asked for."""

FAMILIES = [
    *layouts(), *meanings(), *coordinates(), *groups(), *mosaics(), *options(), *phony(),
    *specials(), *times(), *variables(),
]  # fmt: skip


def check_family(family: Any, folder: Path) -> None:
    with tolerant():
        dataset = intarsia.open_mfdataset(family.write(folder), **family.arguments)
    for sample in (None, 20):
        result = verify(dataset, sample=sample)
        assert result.equal == (family.name not in ON_PURPOSE), result
        assert result.complete == (family.name not in BEYOND), result


@pytest.mark.parametrize("family", FAMILIES[::24], ids=lambda family: family.name)
def test_unlike_files(tmp_path: Path, family: Any) -> None:
    check_family(family, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_all_kinds_of_unlike_files(tmp_path: Path, family: Any) -> None:
    check_family(family, tmp_path)


def test_small_boxes_are_as_good(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "BOX_BYTES", 40)
    dataset = combined(folder)
    for what in (dataset, dataset.isel(lon=slice(None, None, -1), time=slice(1, None, 3))):
        result = verify(what)
        assert result.ok
        assert all(one.compared == one.elements for one in result.variables)


def test_boxes_tile_segments_along_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        ndim = int(random.integers(1, 4))
        size = random.integers(1, 30, ndim)
        chunk = random.integers(1, 12, ndim)
        step = random.choice([-2, -1, 1, 2], ndim)
        count = random.integers(1, np.maximum(2, size // 2), ndim)
        count = np.minimum(count, (size - 1) // np.abs(step) + 1)
        first = np.where(step > 0, 0, size - 1)
        first += np.where(step > 0, 1, -1) * np.minimum(1, size - 1 - np.abs(step) * (count - 1))
        start = random.integers(0, 5, ndim)
        segment = pieces.Segment(
            np.zeros(7, int), start, count, np.arange(ndim), first, step, size, chunk
        )
        place = start + random.integers(0, count)
        low, high = segment.around(place)
        every = np.stack(np.meshgrid(*(np.arange(n) for n in count), indexing="ij"), -1) + start
        every = every.reshape(-1, ndim)
        same = (segment.sources(every) // chunk == segment.sources(place[None]) // chunk).all(
            axis=1
        )
        assert (same == ((every >= low) & (every < high)).all(axis=1)).all()
        limit = int(random.integers(1, 400))
        monkeypatch.setattr(pieces, "BOX_BYTES", limit * 8)
        seen = np.zeros(count, int)
        for begin, lengths in segment.boxes(8):
            assert np.prod(lengths) <= limit
            inside = np.subtract(begin, start).tolist()
            seen[tuple(slice(b, b + n) for b, n in zip(inside, lengths, strict=True))] += 1
        assert (seen == 1).all()
    monkeypatch.setattr(pieces, "BOX_BYTES", 8 * 20)
    line = [np.array([n]) for n in (0, 100, 0, 3, 1, 200, 10)]
    boxes = list(pieces.Segment(np.zeros(7, int), *line).boxes(8))
    assert boxes[:2] == [((0,), (17,)), ((17,), (20,))]  # where chunks end: 3 + 17 = 20


def padded(path: Path, parent: bool = False, rows: int = 3) -> None:
    """A dataset of some rows along an unlimited dimension of 6, without labels in its group."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 8)
        name = "time" if parent else "k"
        file.createVariable(name, "i4", ("time",))[:] = np.arange(6)
        group = file.createGroup("inner") if parent else file
        values = np.arange(rows * 8).reshape(rows, 8)
        group.createVariable("w", "f4", ("time", "x"), fill_value=-9.0)[:rows] = values


WINDOWS = {
    "all": slice(None),
    "padding": slice(4, None),
    "last": slice(5, None),
    "across": slice(1, 5),
    "turned": slice(None, None, -1),
}


@pytest.mark.parametrize("parent", [False, True], ids=["no labels", "labels of the parent"])
@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("window", WINDOWS)
def test_datasets_shorter_than_their_dimension(
    tmp_path: Path, window: str, rows: int, parent: bool
) -> None:
    padded(tmp_path / "w.nc", parent, rows)
    opened = intarsia.open_dataset(tmp_path / "w.nc", group="inner" if parent else None)
    dataset = opened[["w"]].isel(time=WINDOWS[window])
    dataset.intarsia.save(str(tmp_path / "w.intarsia"))
    for sample in (None, 5):
        for by_label in (True, False):
            result = verify(str(tmp_path / "w.intarsia"), sample=sample, by_label=by_label)
            assert result.ok, result
            assert sample or result.variables[0].compared == dataset["w"].size


@pytest.mark.parametrize("size", [4, 6])
def test_datasets_of_which_nothing_was_written_and_half_is_there(tmp_path: Path, size: int) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["x"] = np.arange(size)
        file["x"].make_scale("x")
        file.create_dataset("v", (size // 2, 3), "f4", chunks=(1, 3), maxshape=(None, None))
        file["v"].dims[0].attach_scale(file["x"])
        file["y"] = np.arange(3)
        file["y"].make_scale("y")
        file["v"].dims[1].attach_scale(file["y"])
    for window in WINDOWS.values():
        result = verify(intarsia.open_dataset(tmp_path / "w.h5").isel(x=window))
        assert result.ok, result


def test_what_the_library_does_not_fill_up_is_not_compared(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["x"] = np.arange(3)
        file["x"].make_scale("x")
        file["v"] = np.array([b"abc", b"d"])
        file["w"] = np.arange(3.0)
        for name in "vw":
            file[name].dims[0].attach_scale(file["x"])
    dataset = intarsia.open_dataset(tmp_path / "w.h5")
    assert dataset.v.values.tolist() == [b"abc", b"d", b""]
    dataset.intarsia.save(tmp_path / "w.intarsia")
    result = verify(tmp_path / "w.intarsia")
    assert [one.variable for one in result.uncompared] == ["v"]
    assert "its shape is (3,), and gives (2,)" in result.uncompared[0].reason


# -- faults ----------------------------------------------------------------------------------------


def test_another_scale_is_found(folder: Path) -> None:
    def change(segments: Segments) -> Segments:
        (case,) = (case for case in segments.cases if "zlib" in str(case.encoding))
        rows = case.rows.copy()
        rows["scale"] *= 1.5
        cases = tuple(Case(c.encoding, rows) if c is case else c for c in segments.cases)
        return replace(segments, cases=cases)

    place = altered(folder, combined(folder), change)
    for sample in (None, 5):
        difference = one(verify(place, sample=sample))
        assert (difference.variable, difference.kind) == ("sst", "value")
        assert difference.source == str(folder / "data" / "m1.nc")
        assert difference.index == (2, 0, 0)
        assert difference.source_index == (0, 0, 0)
        assert difference.labels == {"time": "2020-01-03", "lat": "10.0", "lon": "0.0"}
        assert (difference.stored, difference.expected) == ("430.0", "380.0")
    assert one(verify(place)).count == 24
    assert "sst[2, 0, 0] (time=2020-01-03, lat=10.0, lon=0.0) is 430.0, but 380.0 in" in str(
        verify(place)
    ).replace("\n  ", " ")


def test_another_offset_is_found(folder: Path) -> None:
    def change(segments: Segments) -> Segments:
        (page,) = segments.pages
        offsets = np.asarray(page.offsets).astype(np.uint64)
        offsets[np.asarray(page.lengths) == 48 + 4] += 2  # the one with a checksum
        offsets[np.asarray(page.lengths) == 48] += 2  # the plain one
        return replace(segments, pages=(replace(page, offsets=offsets),))

    result = verify(altered(folder, combined(folder), change))
    plain, checked = result.differences
    assert (plain.kind, plain.source, plain.index) == (
        "value", str(folder / "data" / "m0.nc"), (0, 0, 0),
    )  # fmt: skip
    assert (plain.stored, plain.expected) == ("281.0", "280.0")
    assert (checked.kind, checked.index, checked.count) == ("unreadable", (4, 0, 0), 24)
    assert "checksum" in checked.stored
    assert "m2.nc" in checked.stored


def swapped(segments: Segments) -> Segments:
    """The segments of the first two sources in each other's place."""
    blocks: list[Block] = []
    for block in segments.blocks:
        matrix = block.matrix().copy()
        start = block.fields.start.start
        old = matrix[:, start].copy()
        matrix[:, start] = np.where(old == 0, 2, np.where(old == 2, 0, old))
        blocks.append(Block.of(block.fields, matrix))
    return replace(segments, blocks=tuple(blocks))


def test_segments_in_each_others_place_are_found_by_label(folder: Path) -> None:
    place = altered(folder, combined(folder), swapped)
    first, second = verify(place).differences
    assert (first.kind, first.dim, first.index, first.source_index) == ("label", "time", (2,), (0,))
    assert (first.stored, first.expected) == ("2020-01-03", "2020-01-01")
    assert (first.source, first.variable) == (str(folder / "data" / "m0.nc"), "sst")
    assert (second.index, second.stored, second.expected) == ((0,), "2020-01-01", "2020-01-03")
    assert "the label time[2] is 2020-01-03, but 2020-01-01 in" in str(first)
    # by position alone, each value is where its segment says
    assert verify(place, by_label=False).ok


def test_steps_that_are_turned_round_are_found_by_label(folder: Path) -> None:
    def change(segments: Segments) -> Segments:
        flipped = VirtualArray(segments, "f8")[:, ::-1]
        return flipped.segments

    difference = verify(altered(folder, combined(folder), change)).differences[0]
    assert (difference.dim, difference.index) == ("lat", (0,))
    assert (difference.stored, difference.expected) == ("10.0", "30.0")


def test_another_label_is_found(folder: Path) -> None:
    right = combined(folder)
    wrong = right.lat.values.copy()
    wrong[1] = 20.5
    result = verify(altered(folder, right, lambda segments: segments, lat=wrong))
    assert not result.ok
    assert {(d.kind, d.dim, d.index, d.stored, d.expected) for d in result.differences} == {
        ("label", "lat", (1,), "20.5", "20.0")
    }
    # sst of three sources, and the mask of the first
    assert [d.variable for d in result.differences].count("sst") == 3
    assert "so for 1 other variable and 2 other sources" in result.text().replace("\n  ", " ")
    assert verify(right.assign_coords(lat=wrong), tolerance=0.5).ok
    assert not verify(right.assign_coords(lat=wrong), tolerance=0.4).ok


def test_another_order_is_found_where_times_are_scalars(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(3):
        ds = month(number).isel(time=0)
        ds.drop_encoding().to_netcdf(tmp_path / "data" / f"m{number}.nc", engine="h5netcdf")
    dataset = combined(tmp_path)
    result = verify(dataset)
    assert result.ok, result
    assert result.variables[0].by_label == ("time", "lat", "lon")
    assert all(one.compared == one.elements for one in result.variables)
    wrong = array_of(dataset)[[1, 0, 2]]
    dataset["sst"] = dataset.sst.variable._replace(data=wrong)
    found = [(d.kind, d.index, d.source_index) for d in verify(dataset).differences]
    assert found == [("label", (1,), ()), ("label", (0,), ())]


def test_a_copied_value_that_differs_is_found(folder: Path) -> None:
    right = combined(folder)
    right["mask"].load()
    assert verify(right).ok
    wrong = right.copy(deep=True)
    wrong["mask"][1, 2] = -1
    difference = one(verify(wrong))
    assert (difference.variable, difference.index, difference.count) == ("mask", (1, 2), 1)
    assert (difference.stored, difference.expected) == ("-1.0", "6.0")
    assert difference.labels == {"lat": "20.0", "lon": "2.0"}


def test_a_copied_value_is_one_of_the_sources(folder: Path) -> None:
    other = month(1)
    other["mask"] = other["mask"] + 1
    put(folder / "data" / "m1.nc", other, 2.0)
    dataset = combined(folder, loadable_variables=["mask"])
    assert verify(dataset).ok  # that of the first file, as xarray takes it
    assert verify(dataset.assign(mask=dataset.mask + 1)).ok
    assert not verify(dataset.assign(mask=dataset.mask + 2)).ok


def test_copied_strings_along_time(folder: Path) -> None:
    for number in range(3):
        names = np.array([f"day {n}" for n in range(2 * number, 2 * number + 2)])
        put(folder / "data" / f"m{number}.nc", month(number).assign(name=("time", names)))
    dataset = combined(folder)
    result = verify(dataset)
    assert result.ok
    assert not result.uncompared
    wrong = dataset.copy()
    wrong["name"] = ("time", np.array([*dataset.name.values[:5], "day 55"]))
    difference = one(verify(wrong))
    assert (difference.stored, difference.expected) == ("'day 55'", "'day 5'")


# -- sources ---------------------------------------------------------------------------------------


def test_changed_and_missing_sources_are_listed_at_once(folder: Path) -> None:
    place = folder / "x.intarsia"
    combined(folder).intarsia.save(place)
    os.utime(folder / "data" / "m0.nc", ns=(1, 1))
    with open(folder / "data" / "m1.nc", "ab") as file:
        file.write(b"more")
    (folder / "data" / "m2.nc").unlink()
    result = verify(place)
    assert [(one.source[-5:], one.kind) for one in result.changed] == [
        ("m0.nc", "source-changed"), ("m1.nc", "source-changed"), ("m2.nc", "source-missing"),
    ]  # fmt: skip
    assert "modification time" in result.changed[0].reason
    assert "size" in result.changed[1].reason
    assert (result.ok, result.equal, result.complete) == (False, False, False)
    assert "Not verified: 3 sources changed or missing." in result.text()


def test_a_source_of_other_content(folder: Path) -> None:
    combined(folder).intarsia.save(folder / "x.intarsia", sample=True)
    combined(folder).intarsia.save(folder / "y.intarsia")
    path = folder / "data" / "m0.nc"
    stat, size = path.stat(), path.stat().st_size
    put(path, month(0), 2.0)
    assert path.stat().st_size == size
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (changed,) = verify(folder / "x.intarsia").changed
    assert (changed.source, changed.kind) == (str(path), "source-changed")
    assert "content" in changed.reason
    # where nothing but size and time is known, it is the values that differ
    difference = one(verify(folder / "y.intarsia"))
    assert (difference.kind, difference.source, difference.index) == ("value", str(path), (0, 0, 2))


def test_sources_elsewhere(folder: Path) -> None:
    combined(folder).intarsia.save(folder / "x.intarsia", containers={"sst": str(folder / "data")})
    shutil.move(folder / "data", folder / "moved")
    assert len(verify(folder / "x.intarsia").changed) == 3
    assert verify(folder / "x.intarsia", containers={"sst": folder / "moved"}).ok


def test_sources_are_opened_as_they_were(folder: Path) -> None:
    for number in range(3):
        wait = ("time", np.arange(2), {"units": "days"})
        put(folder / "data" / f"m{number}.nc", month(number).assign(wait=wait), number + 1.0)
    for given in (
        {"mask_and_scale": False},
        {"decode_times": False},
        {"mask_and_scale": {"sst": False}},
        {"decode_times": xr.coders.CFDatetimeCoder(time_unit="s")},
        {"decode_timedelta": True},
    ):
        dataset = combined(folder, on_conflict="first", **given)
        result = verify(dataset)
        assert result.ok, (given, result)


def test_variables_that_sources_call_otherwise(folder: Path) -> None:
    renamed = month(1).rename(sst="tos")
    packing = {"dtype": "i2", "scale_factor": 2.0, "add_offset": 280.0, "_FillValue": -1}
    renamed.to_netcdf(
        folder / "data" / "m1.nc", engine="h5netcdf", encoding={"tos": packing | {"zlib": True}}
    )
    dataset = combined(folder, preprocess=lambda ds: ds.rename(tos="sst") if "tos" in ds else ds)
    result = verify(dataset)
    assert result.ok, result
    assert result.variables[0].compared == 72
    # told apart by where their bytes are
    both = xr.Variable.concat([dataset.sst.variable, dataset.sst.variable], "time")
    assert verify(xr.Dataset({"x": both})).ok
    renamed.drop_vars("tos").to_netcdf(folder / "data" / "m1.nc", engine="h5netcdf")
    stat = (folder / "data" / "m1.nc").stat()
    sources = array_of(dataset).segments.sources
    sources.sizes[1], sources.mtimes_ns[1] = stat.st_size, stat.st_mtime_ns
    result = verify(dataset)
    assert (result.equal, result.complete, result.ok) == (True, False, False)
    (left,) = result.uncompared
    assert (left.variable, left.elements) == ("sst", 24)
    assert left.reason == "the source has no variable 'sst'"
    assert "Not verified: something could not be compared." in result.text()


def test_what_no_library_reads_is_not_passed(folder: Path) -> None:
    path = folder / "data" / "m1.nc"
    with h5py.File(path) as file:
        place = file["sst"].id.get_chunk_info(0).byte_offset
    stat = path.stat()
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 4)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    result = verify(combined(folder))
    assert not result.ok
    assert not result.differences
    assert all("xarray can't read it" in one.reason for one in result.uncompared)
    assert sum(one.elements for one in result.uncompared) >= 6


def test_raw_files_are_not_passed(tmp_path: Path) -> None:
    (family,) = (family for family in layouts() if family.name == "external")
    result = verify(intarsia.open_mfdataset(family.write(tmp_path), **family.arguments))
    assert (result.equal, result.ok) == (True, False)
    assert "it is no file of a format by itself" in result.uncompared[0].reason


def test_choices_that_can_not_be_had_again(folder: Path) -> None:
    for scan, said in (
        ("{", "not recorded readably"),
        ('{"engine":"netcdf4"}', "recorded in an unknown way"),
        ('{"use_cftime":"<object>"}', "can't be asked for again"),
        (
            '{"decode_times":{"coder":"CFDatetimeCoder","sort":"fortnights"}}',
            "asked for again",
        ),
        ('{"group":"nowhere"}', "xarray can't open it"),
    ):
        dataset = combined(folder)
        segments = array_of(dataset).segments
        sources = replace(segments.sources, scans=("", scan, ""))
        data = array_of(dataset).replaced(replace(segments, sources=sources))
        result = verify(xr.Dataset({"sst": (tuple(SIZES), data)}))
        assert not result.ok
        assert said in result.uncompared[0].reason


# -- what is asked for, and told -------------------------------------------------------------------


def test_groups_and_variables(folder: Path) -> None:
    tree = xr.DataTree.from_dict({"/": combined(folder)[["mask"]], "/a/b": combined(folder)})
    tree.intarsia.save(folder / "x.intarsia")
    result = verify(folder / "x.intarsia")
    assert result.ok
    assert {"mask", "/a/b/sst", "/a/b/mask"} <= {one.variable for one in result.variables}
    result = verify(folder / "x.intarsia", variables="/a/b/sst")
    assert [one.variable for one in result.variables] == ["/a/b/sst"]
    assert result.variables[0].by_label == ("time", "lat", "lon")
    with pytest.raises(ValueError, match="no variable 'sst'; there are /a/b/mask"):
        verify(folder / "x.intarsia", variables=["sst"])
    with pytest.raises(ValueError, match="sample must be 1 or more"):
        verify(folder / "x.intarsia", sample=0)
    with pytest.raises(TypeError, match="containers="):
        verify(combined(folder), containers={})
    with pytest.raises(intarsia.errors.NotAStore):
        verify(folder / "nowhere.intarsia")


def test_nothing_by_reference(folder: Path) -> None:
    result = verify(combined(folder).load())
    assert result.ok
    assert "Nothing is by reference" in result.text()
    assert {one.reason for one in result.uncompared} == {"copied; there is no source"}


def test_values_beside_those_of_sources(folder: Path) -> None:
    dataset = combined(folder)
    more = dataset.isel(time=[0]).load().assign_coords(time=[np.datetime64("2021-01-01", "ns")])
    dataset = xr.concat([dataset, more], "time", join="exact", **JOINING)
    result = verify(dataset)
    assert result.ok
    assert ("sst", 12) in [(one.variable, one.elements) for one in result.uncompared]


def test_results_are_plain_data(folder: Path) -> None:
    place = altered(folder, combined(folder), swapped)
    os.utime(folder / "data" / "m2.nc", ns=(1, 1))
    told = json.loads(json.dumps(verify(place).to_dict()))
    assert list(told) == [
        "store", "ok", "equal", "complete", "sources", "sample", "changed", "differences",
        "uncompared", "variables",
    ]  # fmt: skip
    assert (told["ok"], told["sources"], told["sample"]) == (False, 3, None)
    assert told["differences"][0]["index"] == [2]
    assert told["changed"][0]["kind"] == "source-changed"


def test_long_lists_are_cut(folder: Path) -> None:
    dataset = combined(folder)
    names = {f"v{n:02}": dataset.sst.variable for n in range(15)}
    os.utime(folder / "data" / "m2.nc", ns=(1, 1))
    wrong = dataset.assign(names).drop_vars("sst").assign_coords(time=np.arange(6))
    text = verify(wrong).text(80)
    assert text.count("so for 14 other variables") == 2
    assert max(map(len, text.splitlines()[:6])) <= 80
    values = VirtualArray(
        replace(array_of(dataset).segments, cases=_doubled(array_of(dataset).segments.cases)), "f8"
    )
    names = {f"v{n:02}": (tuple(SIZES), values) for n in range(15)}
    assert "- and 20 more" in verify(xr.Dataset(names)).text(80)


def _doubled(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    rows = [case.rows.copy() for case in cases]
    for one in rows:
        one["offset"] *= 2
    return tuple(Case(case.encoding, one) for case, one in zip(cases, rows, strict=True))


def test_constants_of_joining_are_counted(folder: Path) -> None:
    days = np.datetime64("2020-01-01", "ns") + np.arange(8) * np.timedelta64(1, "D")
    dataset = combined(folder).reindex(time=days)
    segments = array_of(dataset).segments
    constant = [block.column(FORM)[block.column(SOURCE) < 0] for block in segments.blocks]
    assert sum(map(len, constant)) == 1
    result = verify(dataset)
    assert result.ok
    assert (result.variables[0].constants, result.variables[0].compared) == (24, 72)


def remade(folder: Path, rows: int, change: Callable[[Segments], Segments]) -> xr.Dataset:
    """A dataset of what `padded` writes, whose variable has other segments."""
    padded(folder / "w.nc", rows=rows)
    array = array_of(intarsia.open_dataset(folder / "w.nc", mask_and_scale=False), "w")
    return xr.Dataset({"w": (("time", "x"), array.replaced(change(array.segments)))})


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_other_fill_of_padding_is_found(tmp_path: Path, rows: int) -> None:
    def change(segments: Segments) -> Segments:
        table = segments.cases[0].rows.copy()
        table["raw_fill"] = 0.0
        return replace(segments, cases=(Case(segments.cases[0].encoding, table),))

    dataset = remade(tmp_path, rows, change)
    for sample in (None, 20):
        difference = one(verify(dataset, sample=sample))
        assert (difference.variable, difference.kind) == ("w", "value")
        assert difference.index == difference.source_index == (rows, 0)
        assert (difference.stored, difference.expected) == ("0.0", "-9.0")
    assert one(verify(dataset)).count == (6 - rows) * 8


@pytest.mark.parametrize("rows", [2, 4])
def test_values_that_are_taken_for_unwritten_are_found(tmp_path: Path, rows: int) -> None:
    def change(segments: Segments) -> Segments:
        blocks: list[Block] = []
        for block in segments.blocks:
            matrix = block.matrix(np.arange(len(block)))
            matrix[:, FORM] = MISSING
            blocks.append(Block.of(block.fields, matrix))
        return replace(segments, blocks=tuple(blocks))

    difference = one(verify(remade(tmp_path, rows, change)))
    assert (difference.index, difference.source_index) == ((0, 0), (0, 0))
    assert (difference.stored, difference.expected, difference.count) == ("-9.0", "0.0", rows * 8)


def test_a_part_that_references_take_of_a_file(tmp_path: Path) -> None:
    """Where in the file it lies is not known: its beginning was taken for it."""
    place: list[int] = []
    for number, name in enumerate("ab"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            data = np.arange(24, dtype="<i4").reshape(4, 6) + 100 * number
            chunks = file.create_dataset("v", data=data, chunks=(2, 6)).id
            place.append(chunks.get_chunk_info(number).byte_offset)
    told = {"shape": [4, 6], "chunks": [2, 6], "dtype": "<i4", "order": "C", "zarr_format": 2}
    told |= {"fill_value": None, "filters": None, "compressor": None}
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "v/.zarray": json.dumps(told),
        "v/.zattrs": '{"_ARRAY_DIMENSIONS": ["y", "x"]}',
        "v/0.0": [str(tmp_path / "a.h5"), place[0], 48],
        "v/1.0": [str(tmp_path / "b.h5"), place[1], 48],
    }
    (tmp_path / "refs.json").write_text(json.dumps(refs))
    ds = intarsia.open_dataset(tmp_path / "refs.json")
    assert ds.v.values[:, 0].tolist() == [0, 6, 112, 118]
    ds.intarsia.save(tmp_path / "s.intarsia")
    found = intarsia.verify(tmp_path / "s.intarsia")
    assert not found.differences
    assert not found.ok
    assert "unsure" in str(found)
