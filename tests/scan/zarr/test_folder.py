"""Zarr folders, versions 2 and 3, equal to xarray reading them with zarr."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.dtype import VariableLengthUTF8

import intarsia
from intarsia.errors import (
    ChunkError,
    FormatError,
    SourceChanged,
    UnsupportedVariable,
    UpstreamFault,
)
from intarsia.io.fetch import observe
from intarsia.scan.zarr.scanning import scan
from intarsia.testing.scan import ScanContract
from tests.check import is_virtual
from tests.compare import assert_identical

SHAPE, CHUNKS = (7, 5, 6), (2, 3, 4)


def some(cases: Iterable[tuple[Any, ...]], fast: Callable[[int], bool]) -> list[Any]:
    """Parameters, of which those with some numbers alone are not slow."""
    return [
        pytest.param(*case, marks=() if fast(number) else pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


def values(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    if np.dtype(dtype).kind == "b":
        return rng.random(SHAPE) > 0.5
    return rng.integers(0, 100, SHAPE).astype(dtype)


def theirs(path: Path, **arguments: Any) -> xr.Dataset:
    """What xarray reads with zarr."""
    told = {"chunks": None, "consolidated": (path / ".zmetadata").exists()}
    return xr.open_dataset(path, engine="zarr", **told, **arguments)


def same(path: Path, **arguments: Any) -> xr.Dataset:
    """The dataset, which equals xarray's."""
    ours = intarsia.open_dataset(path, **arguments)
    with theirs(path, **arguments) as ds:
        assert_identical(ours, ds.load()[list(ours.data_vars)])  # zarr's order is that of the disk
    return ours


def dataset() -> xr.Dataset:
    a = values("f4")
    p = np.arange(35, dtype="f8").reshape(7, 5)
    p[2, 3] = np.nan
    return xr.Dataset(
        {
            "a": (("t", "y", "x"), a, {"units": "K", "list": [1, 2]}),
            "p": (("t", "y"), p, {"valid_min": 0.5}),
            "m": (("y", "x"), np.arange(30, dtype="i2").reshape(5, 6)),
            "flag": (("y",), np.array([True, False, True, True, False])),
            "one": ((), np.float32(3)),
        },
        {"t": xr.date_range("2020-01-01", periods=7), "y": np.arange(5.0)},
        {"title": "x"},
    )


@pytest.mark.parametrize("version", [2, 3])
def test_a_dataset(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "with a space.zarr"
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9, "chunks": (3, 5)}
    dataset().to_zarr(
        path,
        zarr_format=version,
        encoding={"a": {"chunks": CHUNKS}, "p": packed},
        consolidated=version == 2,
    )
    ds = same(path)
    assert is_virtual(ds, "a")
    assert is_virtual(ds, "p")
    with observe() as reads:
        part = xr.concat([ds.a, ds.a], "t").isel(t=slice(None, None, -3), x=[5, 0])
    assert not reads.requests
    with theirs(path) as read:
        expected = xr.concat([read.a, read.a], "t").isel(t=slice(None, None, -3), x=[5, 0])
        assert_identical(part.to_dataset(), expected.load().to_dataset())
    same(path, decode_cf=False)
    same(path, mask_and_scale=False)
    assert "p" not in intarsia.open_dataset(path, drop_variables="p")


V3: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None},
    "zstd": {"compressors": [ZstdCodec()]},
    "zstd, checked": {"compressors": [ZstdCodec(checksum=True)]},
    "blosc": {"compressors": [BloscCodec(cname="lz4", shuffle="bitshuffle")]},
    "gzip": {"compressors": [GzipCodec()]},
    "crc32c": {"compressors": [Crc32cCodec()]},
    "zstd and crc32c": {"compressors": [ZstdCodec(), Crc32cCodec()]},
    "transposed": {"filters": [TransposeCodec(order=(2, 0, 1))], "compressors": [ZstdCodec()]},
    "big-endian": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "dots": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "keys of v2": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
    "shards": {"shards": (4, 6, 8)},
    "shards, index first, transposed": {
        "chunks": (4, 6, 8),
        "filters": [],
        "compressors": None,
        "serializer": zarr.codecs.ShardingCodec(
            chunk_shape=CHUNKS,
            codecs=[TransposeCodec(order=(1, 2, 0)), zarr.codecs.BytesCodec(), GzipCodec()],
            index_location="start",
        ),
    },
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    some(itertools.product(V3, ("f4", "u1", "bool")), lambda n: n % 3 == 0 or n == 34),
)
def test_codecs_of_version_3(tmp_path: Path, name: str, dtype: str) -> None:
    if name == "big-endian" and np.dtype(dtype).itemsize == 1:
        pytest.skip("a byte has no order")
    path = tmp_path / "a.zarr"
    group = zarr.create_group(path, zarr_format=3)
    arguments: dict[str, Any] = {"chunks": CHUNKS} | V3[name]
    array = group.create_array(
        "v", shape=SHAPE, dtype=dtype, fill_value=1, dimension_names=["t", "y", "x"], **arguments
    )
    array[:] = values(dtype)
    array[2:4, 3:5, 0:4] = 1  # a chunk that is the fill value is not written
    same(path)


V2: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None},
    "zlib and shuffle": {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib()},
    "blosc": {"compressors": numcodecs.Blosc()},
    "zstd": {"compressors": numcodecs.Zstd()},
    "lz4": {"compressors": numcodecs.LZ4()},
    "bz2": {"compressors": numcodecs.BZ2()},
    "lzma": {"compressors": numcodecs.LZMA()},
    "gzip": {"compressors": numcodecs.GZip()},
    "delta": {"filters": [numcodecs.Delta("<i4")], "compressors": numcodecs.Zlib()},
    "scaled": {
        "filters": [numcodecs.FixedScaleOffset(offset=10, scale=4, dtype="<i4", astype="<i2")],
        "compressors": numcodecs.Zlib(),
    },
    "checksums": {"filters": [numcodecs.Fletcher32()], "compressors": None},
    "order": {"order": "F", "compressors": numcodecs.Zlib()},
    "order and delta": {"order": "F", "filters": [numcodecs.Delta("<i4")]},
    "folders": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
}


@pytest.mark.parametrize(
    ("name", "fill", "dtype"),
    some(itertools.product(V2, (None, 7), ("<i4", ">i4")), lambda n: n % 4 in (1, 2)),
)
def test_codecs_of_version_2(tmp_path: Path, name: str, fill: Any, dtype: str) -> None:
    if dtype == ">i4" and name in ("delta", "scaled", "order and delta"):
        pytest.skip("these have types of their own")
    path = tmp_path / "a.zarr"
    group = zarr.create_group(path, zarr_format=2)
    array = group.create_array(
        "v", shape=SHAPE, chunks=CHUNKS, dtype=dtype, fill_value=fill, **V2[name]
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["t", "y", "x"]
    array[:4] = values(dtype)[:4]  # the rest is missing
    array[0, 0, 0] = 7
    same(path)


FILTERS = {  # each sees memory as the type that it is told, and not as that of the array
    "delta": lambda dtype: [numcodecs.Delta(dtype)],
    "delta as floats": lambda dtype: [numcodecs.Delta(dtype, astype=">f8")],
    "astype": lambda dtype: [numcodecs.AsType(">f8", dtype)],
    "astype, little": lambda dtype: [numcodecs.AsType("<f8", dtype)],
    "scaled": lambda dtype: [numcodecs.FixedScaleOffset(2, 4, dtype, astype=">i2")],
    "scaled, little": lambda dtype: [numcodecs.FixedScaleOffset(2, 4, dtype, astype="<i2")],
    "quantized": lambda dtype: [numcodecs.Quantize(2, dtype)],
    "quantized as doubles": lambda dtype: [numcodecs.Quantize(2, dtype, astype=">f8")],
    "two": lambda dtype: [numcodecs.Delta(dtype), numcodecs.AsType(">f8", dtype)],
    "two, and shuffle": lambda dtype: [
        numcodecs.AsType("<f8", dtype),
        numcodecs.Delta("<f8"),
        numcodecs.Shuffle(8),
    ],
    "rounded": lambda dtype: [numcodecs.BitRound(9)],
}


@pytest.mark.parametrize(
    ("name", "dtype", "order"),
    some(
        itertools.product(FILTERS, ("<i4", ">i4", "<f4", ">f4"), "CF"), lambda n: n % 8 in (2, 5, 7)
    ),
)
def test_filters_of_version_2_that_have_types(
    tmp_path: Path, name: str, dtype: str, order: Any
) -> None:
    if (name.startswith("quantized") and "i" in dtype) or (name == "rounded" and dtype != "<f4"):
        pytest.skip("numcodecs can't write that")
    path, refs = tmp_path / "a.zarr", tmp_path / "refs.json"
    array = zarr.create_group(path, zarr_format=2).create_array(
        "v",
        shape=SHAPE,
        chunks=CHUNKS,
        dtype=dtype,
        filters=FILTERS[name](dtype),
        compressors=numcodecs.Zlib(),
        order=order,
        fill_value=1,
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["t", "y", "x"]
    array[:4] = values(dtype)[:4]
    same(path)
    told: dict[str, Any] = {".zgroup": (path / ".zgroup").read_text()}
    for file in (path / "v").iterdir():
        at = f"file://{file}"
        size = file.stat().st_size
        told[f"v/{file.name}"] = file.read_text() if file.name[0] == "." else [at, 0, size]
    refs.write_text(json.dumps(told))
    assert_identical(intarsia.open_dataset(refs), intarsia.open_dataset(path).load())


def test_times_with_a_filter_of_integers(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    array = zarr.create_group(path, zarr_format=2).create_array(
        "v", shape=(5,), chunks=(2,), dtype="<M8[ns]", filters=[numcodecs.Delta("<i8")]
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    array[:] = np.arange(5).astype("M8[ns]")
    same(path)


@pytest.mark.parametrize(
    ("dtype", "step"),
    [
        (">i4", numcodecs.Delta("<i4")),
        ("<i4", numcodecs.Delta("<i2")),
        ("<f4", numcodecs.FixedScaleOffset(0, 1, "<i4")),
        ("<i4", numcodecs.PackBits()),
    ],
)
def test_filters_of_another_type_than_the_array(tmp_path: Path, dtype: str, step: Any) -> None:
    path = tmp_path / "a.zarr"
    array = zarr.create_group(path, zarr_format=2).create_array(
        "v", shape=(8,), dtype=dtype, filters=[step]
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    with pytest.raises(UnsupportedVariable, match="its filter"):
        intarsia.open_dataset(path).v.load()


CUT: dict[str, Any] = {
    "zlib": numcodecs.Zlib(),
    "gzip": numcodecs.GZip(),
    "lzma": numcodecs.LZMA(),
    "bz2": numcodecs.BZ2(),
}


@pytest.mark.parametrize("name", CUT)
def test_streams_that_lack_only_their_checksum(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.zarr"
    array = zarr.create_group(path, zarr_format=2).create_array(
        "v", shape=(50,), dtype="<i4", filters=[numcodecs.Delta("<i4")], compressors=CUT[name]
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    array[:] = np.arange(50) ** 2
    chunk = path / "v/0"
    chunk.write_bytes(chunk.read_bytes()[:-2])
    with pytest.raises(ChunkError, match="the stream ends after"):
        intarsia.open_dataset(path).v.load()


TYPES = {
    "unicode": np.array(["a", "bb", "ccc", "é"] * 3),
    "bytes": np.array([b"a", b"bb", b"c"] * 4),
    "times": np.arange(12).astype("M8[ns]"),
    "durations": np.arange(12).astype("m8[h]"),
    "complex": np.arange(12) * 1j,
    "half": np.arange(12, dtype="f2"),
    "large": np.arange(12, dtype="u8") + 2**63,
}


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize(
    ("name", "order", "version"),
    some(itertools.product(TYPES, "<>", (2, 3)), lambda n: n % 4 in (1, 2)),
)
def test_types(tmp_path: Path, name: str, order: str, version: Any) -> None:
    values = TYPES[name].astype(TYPES[name].dtype.newbyteorder(order))  # pyright: ignore[reportArgumentType]
    told: dict[str, Any] = {"dimension_names": ["x"]} if version == 3 else {}
    if version == 3 and order == ">" and name != "bytes":
        told["serializer"] = zarr.codecs.BytesCodec(endian="big")
    path = tmp_path / "a.zarr"
    group = zarr.create_group(path, zarr_format=version)
    array = group.create_array("v", shape=(14,), chunks=(5,), dtype=values.dtype, **told)
    if version == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    array[:12] = values
    same(path)
    same(path, decode_cf=False)


def test_strings(tmp_path: Path) -> None:
    for version in (2, 3):
        path = tmp_path / f"{version}.zarr"
        names = np.array(["a", "", "weiß", "x" * 300], object)
        xr.Dataset({"s": ("n", names, {"k": 1}), "f": ("n", np.arange(4.0))}).to_zarr(
            path, zarr_format=version, encoding={"s": {"chunks": (3,)}}, consolidated=False
        )
        same(path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_string_without_dimensions_keeps_its_type(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "a.zarr"
    named = {"attributes": {"_ARRAY_DIMENSIONS": []}} if version == 2 else {}
    array = zarr.create_group(path, zarr_format=version).create_array(
        "s", shape=(), dtype=VariableLengthUTF8(), **named
    )
    array[...] = "weiß"
    same(path)
    same(path, decode_cf=False)


@pytest.mark.parametrize("compressor", [numcodecs.Zlib(), numcodecs.LZ4()], ids=["zlib", "lz4"])
@pytest.mark.parametrize("written", [True, False])
def test_what_xarray_masks_wrongly_is_refused_however_it_is_stored(
    tmp_path: Path, compressor: Any, written: bool
) -> None:
    """xarray swaps the bytes of the fill of big-endian data that are ``_Unsigned``."""
    path = tmp_path / "a.zarr"
    attrs = {"_ARRAY_DIMENSIONS": ["x"], "_Unsigned": "true"}
    array = zarr.create_group(path, zarr_format=2).create_array(
        "v", shape=(3,), dtype=">i4", fill_value=7, compressors=compressor, attributes=attrs
    )
    if written:
        array[...] = [7, 1, 2]
    same(path, mask_and_scale=False)
    ds = intarsia.open_dataset(path)
    with pytest.raises(UpstreamFault, match="byte-swaps the _FillValue"):
        ds.load()


def test_a_broken_chunk_of_strings_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    array = zarr.create_group(path, zarr_format=2).create_array(
        "v", shape=(4,), chunks=(2,), dtype=[("a", "i2"), ("b", "f4")]
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    array[2:] = np.array([(1, 2), (3, 4)], array.dtype)
    (path / "v/1").write_bytes(b"no chunk")
    with pytest.raises(ChunkError, match=rf"chunk \(1,\) of 'v' in {path}"):
        intarsia.open_dataset(path)


def test_a_dimension_twice_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    zarr.create_group(path).create_array("v", shape=(2, 2), dtype="f4", dimension_names=["x", "x"])
    with pytest.warns(UserWarning, match="[Dd]uplicate"):
        ds = intarsia.open_dataset(path)
    with pytest.raises(UnsupportedVariable, match="not all different: 'v'"):
        ds.intarsia.save(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    tree = xr.DataTree.from_dict({"/": dataset()[["m"]], "/in": dataset()[["a"]], "/in/er": None})
    tree.to_zarr(path, consolidated=False)
    ours = intarsia.open_datatree(path)
    with xr.open_datatree(path, engine="zarr", chunks=None, consolidated=False) as theirs:
        assert [node.path for node in ours.subtree] == [node.path for node in theirs.subtree]
        for node in theirs.subtree:
            found = ours[node.path].to_dataset(inherit=False)
            assert_identical(found, node.to_dataset(inherit=False).load()[list(found.data_vars)])
    same(path, group="in")
    with pytest.raises(FormatError, match="there is no group 'out'"):
        intarsia.open_dataset(path, group="out")


def test_an_array_of_another_version_than_its_group_is_refused(tmp_path: Path) -> None:
    """Which of its values are masked is told by the version, and there are two."""
    path = tmp_path / "a.zarr"
    one = xr.Dataset({"v": ("x", np.arange(3.0)), "w": ("x", np.arange(3.0))})
    one.to_zarr(path, zarr_format=2, consolidated=True)
    (path / ".zgroup").write_text("{}")  # zarr takes that for version 3
    with pytest.raises(FormatError, match="it is not of version 3 of Zarr"):
        intarsia.open_dataset(path)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("form", ["folder", "references"])
def test_nothing_beside_a_group_is_looked_at(tmp_path: Path, version: Any, form: str) -> None:
    """As by xarray: another one may be broken, and there may be thousands."""
    path = tmp_path / "a.zarr"
    tree = xr.DataTree.from_dict(
        {"/in/er": dataset()[["m"]], "/in/b": dataset()[["m"]], "/c": None}
    )
    tree.to_zarr(path, consolidated=False, zarr_format=version)
    for name in ("in/b", "c", "in/er/lost"):
        (path / name).mkdir(exist_ok=True)
        (path / name / ("zarr.json" if version == 3 else ".zgroup")).write_text("{")
    (path / "in" / "er" / "lost").rename(path / "in" / "lost")
    place = path
    if form == "references":
        place = tmp_path / "refs.json"
        files = [one for one in path.rglob("*") if one.is_file()]
        is_metadata = {one: one.name.startswith(".z") or one.name == "zarr.json" for one in files}
        refs = {
            str(one.relative_to(path)): one.read_text() if is_metadata[one] else [str(one)]
            for one in files
        }
        place.write_text(json.dumps({"version": 1, "refs": refs}))
    ours = intarsia.open_dataset(place, group="in/er")
    with theirs(path, group="in/er") as ds:
        assert_identical(ours, ds.load()[list(ours.data_vars)])
    for group in (None, "in", "../a.zarr/in/er"):
        with pytest.raises(FormatError):
            intarsia.open_dataset(place, group=group)
    with pytest.raises(FormatError):
        intarsia.open_datatree(place)
    below = intarsia.open_datatree(place, group="in/er")
    assert [node.path for node in below.subtree] == ["/"]


def test_each_chunk_is_pinned(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    dataset().to_zarr(path, encoding={"a": {"chunks": CHUNKS}}, consolidated=False)
    ds = intarsia.open_dataset(path)
    chunk = path / "a/c/1/0/1"
    chunk.write_bytes(chunk.read_bytes() + b"more")
    os.utime(chunk, (1, 1))
    ds.a[0].load()
    with pytest.raises(SourceChanged, match="a/c/1/0/1") as caught:
        ds.a[2].load()
    assert caught.value.array == "a"


def test_broken_folders(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    dataset().to_zarr(path, encoding={"a": {"chunks": CHUNKS}}, consolidated=False)
    ds = intarsia.open_dataset(path)
    chunk = path / "a/c/1/0/1"
    stat = chunk.stat()
    chunk.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(stat.st_size - 4))
    os.utime(chunk, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    with pytest.raises(ChunkError, match="'a' in"):
        ds.a[2].load()
    chunk.write_bytes(b"")
    ds = intarsia.open_dataset(path)
    with pytest.raises(UnsupportedVariable, match="the chunk a/c/1/0/1 is empty"):
        ds.a[0].load()
    assert "a" not in intarsia.open_dataset(path, unsupported="skip")
    told = json.loads((path / "a/zarr.json").read_text())
    (path / "a/zarr.json").write_text(json.dumps(told | {"codecs": [{"name": "nothing"}]}))
    with pytest.raises(FormatError, match="nothing"):
        intarsia.open_dataset(path)
    (path / "zarr.json").write_text("{")
    with pytest.raises(FormatError, match="the Zarr metadata can't be read"):
        intarsia.open_dataset(path)


def test_what_has_no_names_for_its_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    zarr.create_group(path).create_array("v", shape=(3,), dtype="f4")
    with pytest.raises(FormatError, match="have no names"):
        intarsia.open_dataset(path)


def test_some_dimensions_without_names(tmp_path: Path) -> None:
    paths = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for number, path in enumerate(paths):
        group = zarr.create_group(path)
        for name, dims in {"v": [None, "x"], "x": ["x"], "w": ["x"]}.items():
            data = number * 3 + np.arange(6.0).reshape(2, 3)[0 if len(dims) == 1 else ...]
            group.create_array(name, data=data, chunks=(2,) * len(dims), dimension_names=dims)
    ds = same(paths[0])
    assert ds.v.dims == (None, "x")
    assert is_virtual(ds, "v")
    piles: list[Any] = [
        [opened(path)[["v", "w"]] for path in paths] for opened in (intarsia.open_dataset, theirs)
    ]
    ours, expected = (xr.concat(pile, "x").isel({None: 1}) for pile in piles)
    assert_identical(ours, expected.load())
    with pytest.raises(UnsupportedVariable, match="dimension None .* rename"):
        ds.intarsia.save(tmp_path / "s")
    ds.rename({None: "y"}).intarsia.save(tmp_path / "s")
    assert_identical(intarsia.open_dataset(tmp_path / "s"), ds.rename({None: "y"}))

    odd = zarr.create_group(tmp_path / "odd.zarr")
    for name, length in {"v": 2, "w": 3}.items():
        odd.create_array(name, shape=(length,), dtype="f4", dimension_names=[None])
    with pytest.raises(FormatError, match="dimension None has the length"):
        intarsia.open_dataset(tmp_path / "odd.zarr")


def test_shards_that_are_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    array = zarr.create_group(path).create_array(
        "v", shape=(8,), chunks=(2,), shards=(4,), dtype="f4", dimension_names=["x"]
    )
    array[:] = np.arange(8)
    shard = path / "v/c/1"
    data = bytearray(shard.read_bytes())
    data[-6] ^= 1
    shard.write_bytes(data)
    with pytest.raises(UnsupportedVariable, match="checksum of the index of v/c/1 is wrong"):
        intarsia.open_dataset(path).v.load()
    shard.write_bytes(data[-20:])
    with pytest.raises(UnsupportedVariable, match="v/c/1 has 20 bytes, and no room for its index"):
        intarsia.open_dataset(path).v.load()


def test_only_the_index_of_a_shard_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    array = zarr.create_group(path).create_array(
        "v", shape=(4000,), chunks=(100,), shards=(2000,), dtype="f8", dimension_names=["x"]
    )
    array[:] = np.random.default_rng(0).random(4000)
    with observe() as reads:
        ds = intarsia.open_dataset(path)
    assert [length for _, _, length in reads.ranges] == [20 * 16 + 4] * 2
    with observe() as reads:
        assert ds.v[2150].item() == array[2150]
    assert reads.requests == 1
    assert reads.nbytes < 900


def test_nested_shards_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    inner = zarr.codecs.ShardingCodec(chunk_shape=(2,))
    zarr.create_group(path).create_array(
        "v",
        shape=(8,),
        chunks=(8,),
        dtype="f4",
        dimension_names=["x"],
        serializer=zarr.codecs.ShardingCodec(chunk_shape=(4,), codecs=[inner]),
        compressors=None,
        filters=None,
    )
    with pytest.raises(UnsupportedVariable, match="shards within shards"):
        intarsia.open_dataset(path).v.load()


def test_a_grid_that_is_not_regular_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with zarr.config.set({"array.rectilinear_chunks": True}):
        zarr.create_group(path).create_array(
            "v", shape=(8,), chunks=[[3, 5]], dtype="f4", dimension_names=["x"]
        )
        with pytest.raises(UnsupportedVariable, match="rectilinear"):
            intarsia.open_dataset(path).v.load()


class TestContract(ScanContract):
    """A scan of a folder keeps what every scan has to keep."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "a.zarr"
        encoding = {"a": {"chunks": CHUNKS}, "m": {"chunks": (5, 3), "shards": (5, 6)}}
        dataset().to_zarr(self.path, encoding=encoding, consolidated=False)

    def scan(self) -> Any:
        return scan(str(self.path))

    def holds(self) -> dict[str, np.ndarray]:
        group = zarr.open_group(self.path, mode="r")
        return {name: np.asarray(group[name][...]) for name in self.scan().variables}
