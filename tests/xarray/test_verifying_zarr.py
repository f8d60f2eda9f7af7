"""Verifying values that lie in Zarr: zarr-python reads the array that a chunk is of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import TransposeCodec
from zarr.dtype import VariableLengthUTF8
from zarr.storage import ZipStore

import intarsia
from intarsia.array import VirtualArray
from intarsia.segments import SOURCE, Block, Segments
from intarsia.xarray.verifying import originals, verify
from tests.io.s3_server import S3Server, serving_s3

CHUNKS = (2, 3)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving_s3() as server:
        yield server


def field(number: int = 0) -> xr.Dataset:
    """A field at whose edges chunks are cut, and others of few dimensions."""
    values = 100.0 * number + np.arange(35.0).reshape(5, 7)
    return xr.Dataset(
        {
            "v": (("t", "x"), values),
            "mask": (("x",), np.arange(7) % 2 == 0),
            "one": ((), 3.0 + number),
        },
        {"t": np.arange(5) + 5 * number, "x": np.linspace(0, 6, 7)},
    )


def put(path: Path, dataset: xr.Dataset, version: Any = 3, *, group: str | None = None) -> Path:
    if version == 2:  # Zarr's third version has no such type
        dataset = dataset.assign(name=("t", np.array([b"ab", b"c", b"", b"d", b"e"])))
    packed = {"dtype": "i4", "scale_factor": 0.5, "_FillValue": -1, "chunks": CHUNKS}
    encoding = {name: packed for name in ("v", "w") if name in dataset}
    dataset.to_zarr(path, group=group, zarr_format=version, encoding=encoding, consolidated=False)
    return path


def array_of(dataset: xr.Dataset, name: str = "v") -> VirtualArray:
    return dataset.intarsia.arrays[name]


def altered(dataset: xr.Dataset, change: Callable[[Segments], Segments]) -> xr.Dataset:
    """The dataset with other segments."""
    data = array_of(dataset)
    return dataset.assign(v=(dataset.v.dims, data.replaced(change(data.segments))))


# -- what is right ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("group", [None, "in/side"])
def test_what_is_right_is_equal(tmp_path: Path, version: Any, group: str | None) -> None:
    path = put(tmp_path / "a.zarr", field(), version, group=group)
    for options in ({}, {"mask_and_scale": False}, {"decode_cf": False}):
        dataset = intarsia.open_dataset(path, group=group, **options)
        dataset.intarsia.save(tmp_path / "x.intarsia", mode="w")
        for what in (dataset, dataset.isel(t=[4, 0, 1], x=slice(None, None, -2)).transpose()):
            for sample in (None, 5):
                result = verify(what, sample=sample)
                assert result.ok, result
        result = verify(tmp_path / "x.intarsia")
        assert result.ok, result
        told = {one.variable: one for one in result.variables}
        assert (told["v"].copied, told["v"].compared, told["v"].sources) == (False, 35, 9)
        assert told["v"].by_label == ("t", "x")
        assert all(one.compared == one.elements for one in result.variables)
        assert not any(one.constants for one in result.variables)


def test_one_folder_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    true = originals._dataset
    monkeypatch.setattr(
        originals,
        "_dataset",
        lambda source, folder: (opened.append(folder), true(source, folder))[1],
    )
    paths = [put(tmp_path / f"{n}.zarr", field(n).drop_vars("one")) for n in range(2)]
    dataset = intarsia.open_mfdataset(paths, concat_dim="t", combine="nested", data_vars="minimal")
    result = verify(dataset)
    assert result.ok, result
    assert opened == [str(path) for path in paths]
    assert (result.variables[0].compared, result.variables[0].sources) == (70, 18)
    with ProcessPoolExecutor(2) as executor:
        again = intarsia.verify(dataset, executor=executor)
    assert again.ok
    assert again.variables[0] == result.variables[0]


def test_shards(tmp_path: Path) -> None:
    encoding = {"v": {"chunks": CHUNKS, "shards": (4, 6)}}
    field().to_zarr(tmp_path / "a.zarr", encoding=encoding, consolidated=False)
    dataset = intarsia.open_dataset(tmp_path / "a.zarr")
    for sample in (None, 5):
        result = verify(dataset, sample=sample)
        assert result.ok, result
    assert verify(dataset).variables[0].compared == 35


@pytest.mark.parametrize(
    ("version", "how"),
    [
        (2, {"order": "F"}),
        (2, {"order": "F", "compressors": numcodecs.LZ4()}),
        (3, {"filters": [TransposeCodec(order=(1, 2, 0))]}),
        (3, {"filters": [TransposeCodec(order=(1, 2, 0)), TransposeCodec(order=(0, 2, 1))]}),
        (3, {"filters": [TransposeCodec(order=(1, 2, 0))], "shards": (4, 6, 4)}),
    ],
    ids=["F", "F, decoded as a whole", "transposed", "twice", "in shards"],
)
def test_what_is_stored_transposed(tmp_path: Path, version: Any, how: dict[str, Any]) -> None:
    """Also where the lengths of dimensions would go the other way round."""
    path, names = tmp_path / "a.zarr", ["a", "b", "c"]
    group = zarr.open_group(path, mode="w", zarr_format=version)
    for name, shape in {"v": (2, 6, 6), "w": (6, 2, 5)}.items():
        array = group.create_array(
            name,
            shape=shape,
            chunks=(2, 2, 4),
            dtype="f4",
            **{"compressors": None, **how},
            **({"dimension_names": [f"{name}{n}" for n in names]} if version == 3 else {}),
        )
        if version == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = [f"{name}{n}" for n in names]
        array[...] = 1 + np.arange(array.size).reshape(shape)
    dataset = intarsia.open_dataset(path)
    for what in (dataset, dataset.isel(va=[1, 0], wc=slice(None, None, -1)).transpose()):
        for sample in (None, 40):
            result = verify(what, sample=sample)
            assert result.ok, result
    told = {one.variable: one.compared for one in verify(dataset).variables}
    assert told == {"v": 72, "w": 60}


@pytest.mark.parametrize("version", [2, 3])
def test_texts_without_dimensions(tmp_path: Path, version: Any) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    names = {"attributes": {"_ARRAY_DIMENSIONS": []}} if version == 2 else {}
    texts = [("s", VariableLengthUTF8(), "abc"), ("b", "S3", b"ab")]
    for name, dtype, value in texts[: 4 - version]:  # Zarr's third version has no such type
        group.create_array(name, shape=(), dtype=dtype, **names)[...] = value
    names = {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}} if version == 2 else {}
    names = names or {"dimension_names": ["x"]}
    group.create_array("n", shape=(2,), dtype="f8", **names)[...] = 1
    store = tmp_path / "x.intarsia"
    intarsia.open_dataset(tmp_path / "a.zarr").intarsia.save(store)
    result = verify(store)
    assert result.ok, result
    assert {one.variable: one.compared for one in result.variables} == {
        "s": 1,
        "n": 2,
        **({"b": 1} if version == 2 else {}),
    }


@pytest.mark.parametrize("written", [[(5, 6)], [(5, 6), (5, 1)], [(0, 0), (7, 7)]])
def test_chunks_that_were_never_written(tmp_path: Path, written: list[tuple[int, int]]) -> None:
    """They may be counted to the chunk beside them, or be constants."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    array = group.create_array(
        "v", shape=(8, 9), chunks=(2, 2), dtype="f4", fill_value=7, dimension_names=["t", "x"]
    )
    for place in written:
        array[place] = 1
    result = verify(intarsia.open_dataset(tmp_path / "a.zarr"))
    assert result.ok, result
    (told,) = result.variables
    assert told.compared + told.constants == 72
    assert told.compared >= 4 * len(written)


def test_shards_with_holes_are_not_passed(tmp_path: Path) -> None:
    """Where in such a shard a chunk lies, its name does not say."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    array = group.create_array(
        "v", shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="f4", dimension_names=["t", "x"]
    )
    array[5, 6] = array[1, 1] = 1
    result = verify(intarsia.open_dataset(tmp_path / "a.zarr"))
    assert (result.equal, result.ok) == (True, False)
    assert {one.reason for one in result.uncompared} == {
        "where its chunk lies in the array is unsure"
    }


def test_zipped(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "a.zarr.zip", mode="w")
    with warnings.catch_warnings(action="ignore"):  # xarray writes metadata twice
        field()[["v", "mask"]].to_zarr(store, consolidated=False)
    store.close()
    result = verify(intarsia.open_dataset(tmp_path / "a.zarr.zip"))
    assert result.ok, result
    assert result.variables[0].compared == 35


def test_on_s3(tmp_path: Path, s3: S3Server) -> None:
    folder = put(tmp_path / "a.zarr", field(), group="in")
    for path in folder.rglob("*"):
        if path.is_file():
            s3.put(f"bucket/a.zarr/{path.relative_to(folder)}", path.read_bytes())
    dataset = intarsia.open_dataset("s3://bucket/a.zarr", group="in", storage_options=s3.options)
    result = verify(dataset)
    assert result.ok, result
    assert result.variables[0].compared == 35
    result = verify(altered(dataset, exchanged))
    assert [one.kind for one in result.differences] == ["label", "label"]


def test_variables_that_were_renamed(tmp_path: Path) -> None:
    paths = [put(tmp_path / f"{n}.zarr", field(n)) for n in range(2)]
    put(tmp_path / "2.zarr", field(2).rename(v="w"))
    dataset = intarsia.open_mfdataset(
        [*paths, tmp_path / "2.zarr"],
        concat_dim="t",
        combine="nested",
        data_vars="minimal",
        preprocess=lambda ds: ds[["v" if "v" in ds else "w"]].rename(
            {} if "v" in ds else {"w": "v"}
        ),
    )
    result = verify(dataset)
    assert result.ok, result
    assert result.variables[0].compared == 105


# -- faults ----------------------------------------------------------------------------------------


def exchanged(segments: Segments) -> Segments:
    """The first two chunks of equal shape in each other's place."""
    (block,) = segments.blocks
    matrix = block.matrix().copy()
    matrix[[0, 1], SOURCE] = matrix[[1, 0], SOURCE]
    return replace(segments, blocks=(Block.of(block.fields, matrix),))


def test_chunks_in_each_others_place_are_found(tmp_path: Path) -> None:
    path = put(tmp_path / "a.zarr", field())
    result = verify(altered(intarsia.open_dataset(path), exchanged))
    assert not result.ok
    told = {(one.kind, one.source) for one in result.differences}
    assert told == {(kind, f"{path}/v/c/0/{n}") for kind in ("label",) for n in (0, 1)}


@pytest.mark.parametrize("sharded", [False, True])
def test_another_offset_is_found(tmp_path: Path, sharded: bool) -> None:
    encoding: dict[str, Any] = {"chunks": CHUNKS, "compressors": None}
    if sharded:
        encoding["shards"] = (4, 6)
    path = tmp_path / "a.zarr"
    field().to_zarr(path, encoding={"v": encoding}, consolidated=False)

    def change(segments: Segments) -> Segments:
        (page,) = segments.pages
        offsets = np.array(page.offsets, np.uint64)
        lengths = np.array(page.lengths, np.uint64)
        if sharded:
            offsets[[0, 1]] = offsets[[1, 0]]
        else:
            offsets[0], lengths[0] = 8, lengths[0] - np.uint64(8)
        return replace(segments, pages=(replace(page, offsets=offsets, lengths=lengths),))

    dataset = altered(intarsia.open_dataset(path), change)
    for sample in (None, 40):
        (one,) = verify(dataset, sample=sample).differences
        assert one.kind == ("value" if sharded else "unreadable")
        assert one.index == one.source_index == (0, 0)
        assert one.source == f"{path}/v/c/0/0"
        assert one.expected == "0.0"
    store = tmp_path / "x.intarsia"
    dataset.intarsia.save(store)
    assert not verify(store).ok


def test_bytes_of_another_array_are_not_passed(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    dataset = field()[["v"]].assign(w=field(1).v.variable)
    encoding = {name: {"chunks": CHUNKS} for name in ("v", "w")}
    dataset.to_zarr(path, encoding=encoding, consolidated=False)
    opened = intarsia.open_dataset(path)
    wrong = array_of(opened, "v").replaced(array_of(opened, "w").segments)
    result = verify(opened.assign(v=(opened.v.dims, wrong)))
    assert not result.ok
    reasons = {one.reason for one in result.uncompared if one.variable == "v"}
    assert reasons == {"its bytes are of the variable 'w' there"}


def test_folders_that_are_gone_or_broken(tmp_path: Path) -> None:
    path = put(tmp_path / "a.zarr", field())
    dataset = intarsia.open_dataset(path)[["v"]]
    (path / "v" / "zarr.json").write_text("{")
    result = verify(dataset)
    assert not result.ok
    (path / "v" / "zarr.json").unlink()
    result = verify(dataset)
    assert not result.ok
    assert "no file of a format by itself" in result.uncompared[0].reason
