"""Stores as zarr-python sees them: its contract for stores, its indexing, and xarray on top."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.testing.store import StoreTests

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import SourceMissing, StoreError, StoreReplaced, UnsupportedVariable
from intarsia.io.fetch import observe
from intarsia.store import read
from intarsia.store.grid import choose
from intarsia.store.nodes import Group, Variable
from intarsia.store.shown import shown_names
from intarsia.store.write import write
from intarsia.store.zarr_store import FLAG, IntarsiaStore
from tests.algebra import lay_out
from tests.present import DEFAULT, FUSED
from tests.store.test_cells import piles
from tests.unlike.strategies import Pile, unlike_files
from tests.xarray.stores import ALONG, of_every_kind, same, write_files

PROTOTYPE = default_buffer_prototype()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture(scope="module")
def virtual(folder: Path) -> VirtualArray:
    values = np.arange(7 * 9, dtype="<i2").reshape(7, 9)
    parts = [
        lay_out(folder / "a", values, (1, 9))[0],
        lay_out(folder / "b", values + 100, (7, 4), zlevel=1)[0],
        lay_out(folder / "c", values, (3, 9), form="missing", fill=-1)[0],
    ]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def groups(virtual: VirtualArray) -> dict[str, Group]:
    lat = Variable(("y",), np.arange(21.0), coordinate=True)
    names = np.array(["a", "ü", "c"])
    return {
        "/": Group(
            {"v": Variable(("y", "x"), virtual, {"units": "K"}), "lat": lat}, {"title": "t"}
        ),
        "/a/b": Group({"v": Variable(("x", "y"), virtual.T), "s": Variable(("n",), names)}),
    }


GRID = {"v": (5, 4)}


def open_zarr(store: IntarsiaStore, pipeline: str = DEFAULT) -> Any:
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        return zarr.open_group(store, mode="r")


# -- zarr's own tests of stores ------------------------------------------------------------------


def synchronous(cls: type) -> type:
    """Tests that are coroutines, as functions that run them."""

    def wrapped(test: Any) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            asyncio.run(test(*args, **kwargs))

        return run

    for name, test in inspect.getmembers(cls, inspect.iscoroutinefunction):
        if name.startswith("test_"):
            setattr(cls, name, wrapped(test))
    return cls


def writes(self: Any) -> None:
    """A test of writing: there is none."""
    pytest.skip("read-only")


KEYS = ["zarr.json", "v/zarr.json", "v/c/4/2", "lat/c/0", "a/b/v/c/0/1", "a/b/s/zarr.json"]


@synchronous
class TestStore(StoreTests[IntarsiaStore, cpu.Buffer]):
    """What zarr asks of stores; tests that write read what is there, or are skipped."""

    store_cls = IntarsiaStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, groups: dict[str, Group]) -> dict[str, Any]:
        return {"groups": groups, "grid": {"v": (5, 4), "a/b/v": (4, 20)}}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> IntarsiaStore:
        return asyncio.run(IntarsiaStore.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> IntarsiaStore:
        return IntarsiaStore(**store_kwargs)

    async def set(self, store: IntarsiaStore, key: str, value: Any) -> None:
        raise AssertionError("nothing can be set")

    async def get(self, store: IntarsiaStore, key: str) -> Any:
        """Without the methods of the store."""
        found = store._view.get(key)
        assert found is not None
        return cpu.Buffer.from_bytes(found)

    def test_store_repr(self, store: IntarsiaStore) -> None:
        assert repr(store) == "IntarsiaStore(in memory)"
        assert str(store) == "intarsia://in memory"

    def test_store_supports_writes(self, store: IntarsiaStore) -> None:
        assert not store.supports_writes
        assert not store.supports_deletes

    def test_store_supports_listing(self, store: IntarsiaStore) -> None:
        assert store.supports_listing
        assert store.supports_consolidated_metadata

    def test_store_read_only(self, store: IntarsiaStore) -> None:
        assert store.read_only
        with pytest.raises(AttributeError):
            store.read_only = False

    @pytest.mark.parametrize("read_only", [True, False])
    async def test_store_open_read_only(self, open_kwargs: dict[str, Any], read_only: bool) -> None:
        if read_only:
            assert (await IntarsiaStore.open(**open_kwargs, read_only=True)).read_only
            return
        with pytest.raises(ValueError, match="can only be read"):
            await IntarsiaStore.open(**open_kwargs, read_only=False)

    async def test_serializable_store(self, store: IntarsiaStore) -> None:
        again = pickle.loads(pickle.dumps(store))
        assert again == store
        assert again.read_only
        assert again.__dask_tokenize__() == store.__dask_tokenize__()
        for key in KEYS:
            one, two = await again.get(key, PROTOTYPE), await store.get(key, PROTOTYPE)
            assert one.to_bytes() == two.to_bytes()

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize(
        ("byte_range", "part"),
        [
            (None, slice(None)),
            (RangeByteRequest(1, 4), slice(1, 4)),
            (RangeByteRequest(3, 1 << 20), slice(3, None)),
            (RangeByteRequest(5, 5), slice(0, 0)),
            (RangeByteRequest(1 << 20, 1 << 21), slice(0, 0)),
            (OffsetByteRequest(1), slice(1, None)),
            (OffsetByteRequest(1 << 20), slice(0, 0)),
            (SuffixByteRequest(3), slice(-3, None)),
            (SuffixByteRequest(0), slice(0, 0)),
            (SuffixByteRequest(1 << 20), slice(None)),
        ],
    )
    async def test_get(self, store: IntarsiaStore, key: str, byte_range: Any, part: slice) -> None:
        whole = (await self.get(store, key)).to_bytes()
        observed = await store.get(key, PROTOTYPE, byte_range)
        assert observed is not None
        assert observed.to_bytes() == whole[part]
        direct = store.get_sync(key, byte_range=byte_range)
        assert direct is not None
        assert direct.to_bytes() == whole[part]

    test_get_sync_byte_range_parity = writes  # is part of test_get

    async def test_get_not_open(self, store_not_open: IntarsiaStore) -> None:
        assert not store_not_open._is_open
        observed = await store_not_open.get("v/c/0/0", PROTOTYPE)
        assert observed == await self.get(store_not_open, "v/c/0/0")

    async def test_get_raises(self, store: IntarsiaStore) -> None:
        with pytest.raises((ValueError, TypeError), match=r"Unexpected byte_range, got.*"):
            await store.get("v/c/0/0", PROTOTYPE, (0, 2))  # type: ignore[arg-type]

    async def test_get_many(self, store: IntarsiaStore) -> None:
        asked = [(key, PROTOTYPE, None) for key in KEYS]
        observed = {key: buffer async for key, buffer in store._get_many(asked)}
        assert list(observed) == KEYS
        for key, buffer in observed.items():
            assert buffer == await self.get(store, key)

    @pytest.mark.parametrize("key", KEYS)
    async def test_getsize(self, store: IntarsiaStore, key: str) -> None:
        with observe() as reads:
            assert await store.getsize(key) == len(await self.get(store, key))
            size = reads.nbytes
            await store.getsize(key)
            assert reads.nbytes == size  # no source is read for it

    async def test_getsize_prefix(self, store: IntarsiaStore) -> None:
        keys = [key async for key in store.list_prefix("v/")]
        expected = sum([len(await self.get(store, key)) for key in keys])
        assert await store.getsize_prefix("v") == expected

    @pytest.mark.parametrize(
        "key_ranges",
        [
            [],
            [("zarr.json", RangeByteRequest(0, 2))],
            [("v/c/0/0", RangeByteRequest(0, 2)), ("zarr.json", None)],
            [("v/c/0/0", SuffixByteRequest(2)), ("lat/c/0", OffsetByteRequest(2)), ("no", None)],
        ],
    )
    async def test_get_partial_values(self, store: IntarsiaStore, key_ranges: list[Any]) -> None:
        observed = await store.get_partial_values(PROTOTYPE, (pair for pair in key_ranges))
        expected = [await store.get(key, PROTOTYPE, asked) for key, asked in key_ranges]
        assert observed == expected

    async def test_exists(self, store: IntarsiaStore) -> None:
        for key in KEYS:
            assert await store.exists(key)
        for key in (
            *("foo", "", "v", "v/", "v/c", "v/c/0", "v/c/0/0/0", "v/c/5/0", "v/c/00/0", "v/c/-1/0"),
            *("v/c/0/0/", "/zarr.json", "zarr.json/", "c/0/0", "lat/c/1", "lat/c", "v/.zarray"),
            *("a/b", "a/zarr.json/x", ".zgroup", ".zmetadata", "v/zarr.jsonx", "vzarr.json"),
            f"v/c/{10**30}/0",
        ):
            assert not await store.exists(key), key
            assert await store.get(key, PROTOTYPE) is None, key
            assert store.get_sync(key, byte_range=RangeByteRequest(0, 0)) is None, key

    async def test_is_empty(self, store: IntarsiaStore) -> None:
        for prefix, empty in [
            ("", False),
            ("v", False),
            ("v/", False),
            ("fo", True),
            ("a/", False),
        ]:
            assert await store.is_empty(prefix) == empty

    async def test_list(self, store: IntarsiaStore) -> None:
        keys = [key async for key in store.list()]
        assert len(keys) == len(set(keys))
        chunks = [f"v/c/{i}/{j}" for i in range(5) for j in range(3)]
        chunks += [f"a/b/v/c/{i}/{j}" for i in range(3) for j in range(2)]
        nodes = ["", "a/", "a/b/", "v/", "lat/", "a/b/v/", "a/b/s/"]
        documents = [f"{node}zarr.json" for node in nodes]
        assert sorted(keys) == sorted([*documents, *chunks, "lat/c/0", "a/b/s/c/0"])
        for key in keys:
            assert await store.exists(key)

    async def test_list_prefix(self, store: IntarsiaStore) -> None:
        keys = [key async for key in store.list()]
        for prefix in (
            *("", "v", "v/", "v/c/", "v/c/1", "v/c/1/", "v/c/1/2", "v/c/01/", "v/c/9/", "v/c/x"),
            *("v/z", "a", "a/b/", "lat/c/0", "lat/c/0/", "q", "zarr"),
        ):
            found = [key async for key in store.list_prefix(prefix)]
            assert found == [key for key in keys if key.startswith(prefix)], prefix

    test_list_empty_path = writes  # is part of test_list_prefix

    async def test_list_dir(self, store: IntarsiaStore) -> None:
        keys = [key async for key in store.list()]
        for prefix in (
            "",
            "v",
            "v/c",
            "v/c/1",
            "v/c/7",
            "v/c/1/2",
            "a",
            "a/b",
            "lat",
            "lat/c",
            "q",
        ):
            for given_ in (prefix, f"{prefix}/"):
                found = [name async for name in store.list_dir(given_)]
                begin = f"{prefix}/" if prefix else ""
                inside = {k.removeprefix(begin).split("/")[0] for k in keys if k.startswith(begin)}
                assert sorted(found) == sorted(inside), given_

    def test_get_sync(self, store: IntarsiaStore) -> None:
        for key in KEYS:
            assert store.get_sync(key) == asyncio.run(self.get(store, key))

    def test_set_sync(self, store: IntarsiaStore) -> None:
        with pytest.raises(ValueError, match="does not support writing"):
            store.set_sync("foo", cpu.Buffer.from_bytes(b"bar"))
        with pytest.raises(ValueError, match="does not support writing"):
            store.delete_sync("foo")

    async def test_clear(self, store: IntarsiaStore) -> None:
        with pytest.raises(NotImplementedError):
            await store.clear()

    test_set = writes
    test_set_not_open = writes
    test_set_many = writes
    test_set_if_not_exists = writes
    test_sync_async_set_get_parity = writes


# -- values --------------------------------------------------------------------------------------

PIPELINES = pytest.mark.parametrize("pipeline", [DEFAULT, FUSED], ids=["default", "fused"])

CHAINS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "everything": lambda z, _: z[...],
    "an element": lambda z, _: z[3, 8],
    "a row": lambda z, _: z[13],
    "a box": lambda z, _: z[4:15, 2:7],
    "steps": lambda z, _: z[1:20:3, ::4],
    "nothing": lambda z, _: z[5:5],
    "orthogonal": lambda z, _: z.oindex[[0, 3, 3, 20, 14], 1:8:2],
    "orthogonal, two": lambda z, _: z.oindex[[20, 7, 0], [8, 8, 1]],
    "a mask": lambda z, v: z.get_mask_selection(v % 7 == 3),
    "a mask of rows": lambda z, _: z.oindex[np.arange(21) % 4 == 1],
    "points": lambda z, _: z.vindex[[0, 13, 13, 20, 6], [8, 0, 4, 8, 3]],
    "coordinates": lambda z, _: z.get_coordinate_selection(([20, 0, 9], [2, 8, 8])),
}


@PIPELINES
@pytest.mark.parametrize("chunks", [(5, 4), (21, 9), (1, 9), (2, 1), None], ids=str)
def test_indexing(
    groups: dict[str, Group], virtual: VirtualArray, pipeline: str, chunks: Any
) -> None:
    """All kinds of it give what NumPy gives of the engine's values."""
    expected = virtual.load()
    plain = zarr.array(expected, chunks=(4, 5))
    array = open_zarr(IntarsiaStore(groups, grid=chunks and {"/v": chunks}), pipeline)["v"]
    if pipeline == FUSED:  # children get the default again
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            array = zarr.open_array(array.store, path="v", mode="r")
    for name, select in CHAINS.items():
        np.testing.assert_array_equal(select(array, expected), select(plain, expected), name)
    for index in ((0, 0), (1, slice(None)), (slice(None), 0)):
        if all(n == slice(None) or n < m for n, m in zip(index, array.cdata_shape, strict=True)):
            box = tuple(
                slice(n * c, (n + 1) * c) if isinstance(n, int) else slice(None)
                for n, c in zip(index, array.chunks, strict=True)
            )
            np.testing.assert_array_equal(array.get_block_selection(index), expected[box])


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_indexing_of_any_pile(data: st.DataObject, folder: Path) -> None:
    """Of any shape, on the chosen grid and on any other."""
    array = data.draw(piles(folder))
    expected = array.load()
    dims = tuple(f"d{n}" for n in range(array.ndim))
    grid = None
    if data.draw(st.booleans()):
        grid = {"v": tuple(data.draw(st.integers(1, max(n, 1))) for n in array.shape)}
    store = IntarsiaStore({"/": Group({"v": Variable(dims, array)})}, grid=grid)
    with zarr.config.set({"codec_pipeline.path": data.draw(st.sampled_from([DEFAULT, FUSED]))}):
        shown = zarr.open_array(store, path="v", mode="r")
        assert shown.dtype == array.dtype
        np.testing.assert_array_equal(shown[...], expected)
        if 0 in array.shape or not array.ndim:
            return
        chosen = tuple(data.draw(st.lists(st.integers(0, n - 1), min_size=1)) for n in array.shape)
        np.testing.assert_array_equal(shown.oindex[chosen], expected[np.ix_(*chosen)])
        points = tuple(
            data.draw(st.lists(st.integers(0, n - 1), min_size=3, max_size=3)) for n in array.shape
        )
        np.testing.assert_array_equal(shown.vindex[points], expected[points])
        box = tuple(slice(data.draw(st.integers(0, n)), None, 2) for n in array.shape)
        np.testing.assert_array_equal(shown[box], expected[box])


@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(pile=unlike_files(), pipeline=st.sampled_from([DEFAULT, FUSED]))
def test_unlike_files(pile: Pile, pipeline: str) -> None:
    with tempfile.TemporaryDirectory() as path, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dataset = intarsia.open_mfdataset(pile.write(Path(path)), **pile.arguments)
        except (ValueError, TypeError, OverflowError, KeyError):  # nor can xarray
            assume(False)
            raise
        held = {
            str(name): Variable(tuple(map(str, var.dims)), var._data)
            for name, var in dataset.variables.items()
            if isinstance(var._data, VirtualArray)
        }
        for name, variable in held.items():
            try:
                store = IntarsiaStore({"/": Group({name: variable})})
                (shown,) = [one for _, one in open_zarr(store, pipeline).arrays()]
            except UnsupportedVariable as error:
                assert error.array == name
                continue
            np.testing.assert_array_equal(shown[...], variable.data.load())
            if variable.data.ndim:
                np.testing.assert_array_equal(shown[::2], variable.data[::2].load())


# -- what is fetched -----------------------------------------------------------------------------


@PIPELINES
def test_a_small_selection_reads_little(tmp_path: Path, pipeline: str) -> None:
    """Of a cell of twenty large parts, those that are asked for, each with one request."""
    values = np.arange(20 * 40_000, dtype="<i4").reshape(20, 40_000)
    parts = [
        lay_out(tmp_path / f"{n}", values[2 * n : 2 * n + 2], (1, 40_000))[0] for n in range(10)
    ]
    data = np.concatenate(parts)
    store = IntarsiaStore({"/": Group({"v": Variable(("y", "x"), data)})}, grid={"v": (20, 40_000)})
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        array = zarr.open_array(store, path="v", mode="r")
        with observe() as reads:
            assert array[7, 100] == values[7, 100]
        assert [Path(url).name for url, _, _ in reads.ranges] == ["3"]
        assert reads.nbytes == 160_000
        with observe() as reads:
            np.testing.assert_array_equal(array.oindex[[0, 19], :5], values[[0, 19], :5])
        assert sorted(Path(url).name for url, _, _ in reads.ranges) == ["0", "9"]
        assert reads.nbytes == 320_000
        with observe() as reads:
            np.testing.assert_array_equal(array[...], values)
        assert reads.requests == 10
        assert reads.nbytes < 1.01 * values.nbytes


@PIPELINES
def test_opening_reads_no_source(groups: dict[str, Group], pipeline: str) -> None:
    with observe() as reads:
        group = open_zarr(IntarsiaStore(groups), pipeline)
        assert [name for name, _ in group.members(max_depth=None)] != []
        xr.open_zarr(IntarsiaStore(groups))
    assert reads.requests == 0


@PIPELINES
def test_a_missing_source_is_no_fill(tmp_path: Path, pipeline: str) -> None:
    data, _ = lay_out(tmp_path / "f", np.arange(10, dtype="<i2"), (2,))
    store = IntarsiaStore({"/": Group({"v": Variable(("x",), data)})})
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        array = zarr.open_array(store, path="v", mode="r")
        (tmp_path / "f").unlink()
        with pytest.raises(SourceMissing, match="of 'v' in"):
            array[...]
        with pytest.raises(SourceMissing):
            array[3]


# -- xarray --------------------------------------------------------------------------------------


def test_xarray_reads_the_dataset(tmp_path: Path) -> None:
    """With its coordinates and attributes, from memory and from a saved store."""
    paths = write_files(tmp_path / "files")
    ds = intarsia.open_mfdataset(paths, **ALONG)
    ds.intarsia.save(tmp_path / "s.intarsia")
    store = intarsia.open_store(tmp_path / "s.intarsia")
    for chunks in ({}, None):
        with xr.open_zarr(store, chunks=chunks) as found:
            assert list(found.coords) == list(ds.coords)
            same(found.drop_encoding(), ds.load())


def test_xarray_reads_every_kind_of_value(tmp_path: Path) -> None:
    ds = of_every_kind().drop_vars("coarse")  # xarray can't decode NaT beside the year 9999
    ds.intarsia.save(tmp_path / "s.intarsia")
    store = intarsia.open_store(tmp_path / "s.intarsia")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to decode time axis")
        found = xr.open_zarr(store).load()
    assert set(found.variables) == set(ds.variables)
    assert set(found.coords) == set(ds.coords)
    for name, variable in ds.variables.items():
        kind = variable.dtype.kind
        if kind in "biufcmMU":
            np.testing.assert_array_equal(found[name].values.astype(variable.dtype), variable)


def test_coordinates_are_named(virtual: VirtualArray) -> None:
    """Where CF has words for it: by the variables they fit, or else by the group."""
    flat = virtual[0]
    number = Variable((), np.array(3.0), coordinate=True)
    root = Group(
        {
            "v": Variable(("y", "x"), virtual, {"units": "K"}, {"grid_mapping": "crs", "dtype": 1}),
            "x": Variable(("x",), flat, coordinate=True),
            "area": Variable(("x",), flat, coordinate=True),
            "a/b": Variable(("x",), flat, coordinate=True),
            "two words": Variable(("x",), flat, coordinate=True),
            "level": number,
            "far": Variable(("z",), np.arange(2), coordinate=True),
            "crs": Variable((), np.array(0)),
        },
        {"title": "t"},
    )
    store = IntarsiaStore({"/": root})
    shown = open_zarr(store)
    assert shown["v"].attrs["coordinates"] == "a=2Fb area level"
    assert shown["v"].attrs["grid_mapping"] == "crs"
    assert shown["v"].attrs["units"] == "K"
    assert shown["crs"].attrs["coordinates"] == "level"
    assert "coordinates" not in shown["area"].attrs
    assert dict(shown.attrs) == {"title": "t", "coordinates": "far"}
    found = xr.open_zarr(store, decode_coords="all")
    assert set(found.coords) == {"x", "area", "a=2Fb", "level", "far", "crs"}
    assert "two words" in found.data_vars
    given_ = Group({"v": Variable(("x",), flat, {"coordinates": "mine"}), "level": number})
    assert open_zarr(IntarsiaStore({"/": given_}))["v"].attrs["coordinates"] == "mine"


def test_names_that_zarr_has_no_words_for() -> None:
    names = ["a", "T", "t", "a b", "température", "a/b", "..", ".x", "__x", "", "a\\b", "zarr.json",
             "a=b", "a=2Fb", "=", "\ud800"]  # fmt: skip
    shown = shown_names(names)
    assert len(set(shown.values())) == len(names)
    assert [name for name in names if shown[name] == name] == [*names[:5], "a=b"]
    store = IntarsiaStore(
        {"/": Group({name: Variable((), np.array(n)) for n, name in enumerate(names)})}
    )
    group = open_zarr(store)
    assert {name: int(array[()]) for name, array in group.arrays()} == {
        shown[name]: n for n, name in enumerate(names)
    }
    assert len(xr.open_zarr(store).variables) == len(names)
    nested = IntarsiaStore({"/__g/x y": Group({"v": Variable((), np.array(7))})})
    assert open_zarr(nested)["=5F_g/x y/v"][()] == 7


# -- grids ---------------------------------------------------------------------------------------


def test_grids_are_told_and_can_be_chosen(groups: dict[str, Group], virtual: VirtualArray) -> None:
    store = IntarsiaStore(groups)
    assert store.grids["v"] == choose(virtual.segments)
    assert set(store.grids) == {"v", "a/b/v"}
    both = IntarsiaStore(groups, grid={"v": (7, 9)})
    assert {grid.chunks for grid in both.grids.values()} == {(7, 9)}
    one = IntarsiaStore(groups, grid={"/a/b/v": (4, 20)})
    assert one.grids["v"] == store.grids["v"]
    assert one.grids["a/b/v"].chunks == (4, 20)
    assert one.grids["a/b/v"].amplification > 1
    assert one != store
    assert one == IntarsiaStore(groups, grid={"/a/b/v": (4, 20)})
    assert "lat" not in store.grids


@pytest.mark.parametrize(
    ("grid", "reason"),
    [
        ({"w": (1, 1)}, "no virtual variable: 'w'"),
        ({"lat": (1,)}, "no virtual variable: 'lat'"),
        ({"v": (1,)}, "does not fit shape"),
        ({"v": (0, 3)}, "does not fit shape"),
        ({"v": ("a", 3)}, "'v'"),
        ({"v": "rect"}, "not 'rect'"),
        ("rect", "not 'rect'"),
    ],
)
def test_grids_that_do_not_fit(groups: dict[str, Group], grid: Any, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        IntarsiaStore(groups, grid=grid)


def test_cells_of_too_many_parts_are_refused_at_once(tmp_path: Path) -> None:
    data, _ = lay_out(tmp_path / "f", np.arange(10_000, dtype="<i2"), (1,))
    groups = {"/": Group({"v": Variable(("x",), data)})}
    with pytest.raises(StoreError, match="10000 parts, and can be of 8192: 'v'"):
        IntarsiaStore(groups, grid={"v": (10_000,)})


def test_uneven_grids_need_a_switch(groups: dict[str, Group], virtual: VirtualArray) -> None:
    pieces = {"/": Group({"v": Variable(("y", "x"), virtual[7:])})}
    with pytest.raises(StoreError, match=r"zarr\.config\.set\(.*array\.rectilinear_chunks"):
        IntarsiaStore(pieces, grid={"v": "rectilinear"})
    with zarr.config.set({FLAG: True}):
        with pytest.raises(StoreError, match=r"would not be exact.*'v'"):
            IntarsiaStore(groups, grid="rectilinear")
        store = IntarsiaStore(pieces, grid="rectilinear")
        assert store.grids["v"].chunks == ((7, 7), (4, 4, 1))
        array = open_zarr(store)["v"]
        np.testing.assert_array_equal(array[...], virtual[7:].load())
        np.testing.assert_array_equal(array[5:9, 3:], virtual[12:16, 3:].load())
        found = xr.open_zarr(store)
        assert found["v"].chunks == ((7, 7), (4, 4, 1))
        np.testing.assert_array_equal(found["v"].values, virtual[7:].load())


# -- what is shown -------------------------------------------------------------------------------


def test_metadata_stays_flat(tmp_path: Path) -> None:
    """However many chunks there are, each with parameters of its own."""
    sizes = []
    for count in (10, 1000):
        data, _ = lay_out(tmp_path / f"{count}", np.arange(count, dtype="<i2"), (1,))
        store = IntarsiaStore({"/": Group({"v": Variable(("x",), data)})}, grid={"v": (1,)})
        sizes.append(len(store.get_sync("v/zarr.json")))
    assert sizes[1] - sizes[0] == 2  # two digits of the shape
    assert sizes[1] < 2000


def test_documents(groups: dict[str, Group]) -> None:
    store = IntarsiaStore(groups, grid=GRID)
    root = json.loads(store.get_sync("zarr.json").to_bytes())
    inside = root["consolidated_metadata"]["metadata"]
    assert set(inside) == {"a", "a/b", "v", "lat", "a/b/v", "a/b/s"}
    assert inside["v"] == json.loads(store.get_sync("v/zarr.json").to_bytes())
    assert [codec["name"] for codec in inside["v"]["codecs"]] == ["intarsia.switch"]
    assert inside["v"]["dimension_names"] == ["y", "x"]
    assert inside["v"]["chunk_grid"]["configuration"] == {"chunk_shape": [5, 4]}
    nested = json.loads(store.get_sync("a/b/zarr.json").to_bytes())
    assert set(nested["consolidated_metadata"]["metadata"]) == {"v", "s"}
    assert open_zarr(store)["a/b/s"][:].tolist() == ["a", "ü", "c"]


def test_arrays_without_elements_or_dimensions(tmp_path: Path) -> None:
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    data, _ = lay_out(tmp_path / "f", values, (1, 3))
    held = {
        "none": Variable(("z", "x"), data[:0]),
        "one": Variable((), data[1, 2]),
        "bytes": Variable(("z",), data[:0, 0].astype("i1")),
    }
    store = IntarsiaStore({"/": Group(held)})
    group = open_zarr(store)
    assert group["none"][...].shape == (0, 3)
    assert group["one"][()] == 5
    assert group["bytes"].dtype == np.int8
    assert [key for key in store._view.keys("none/")] == ["none/zarr.json"]  # noqa: C416
    xr.open_zarr(store).load()


def test_types_that_can_not_be_shown(virtual: VirtualArray) -> None:
    text = virtual.astype("U6")
    assert isinstance(text, VirtualArray)
    store = IntarsiaStore({"/": Group({"v": Variable(("y", "x"), text)})})
    with pytest.raises(UnsupportedVariable, match="type <U6 can't be shown as Zarr: 'v'"):
        open_zarr(store)
    mixed = np.array(["a", 3], object)
    with pytest.raises(UnsupportedVariable, match="'m'"):
        IntarsiaStore({"/": Group({"m": Variable(("n",), mixed)})})


# -- saved stores --------------------------------------------------------------------------------


class Counted:
    """Objects of a store, counted."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self.names_read: list[str] = []

    def get(self, name: str, *args: Any, **kwargs: Any) -> bytes:
        self.names_read.append(name)
        return self._objects.get(name, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, xr.Dataset]:
    ds = intarsia.open_mfdataset(write_files(tmp_path / "files"), **ALONG)
    ds.intarsia.save(tmp_path / "s.intarsia")
    return tmp_path / "s.intarsia", ds


def test_a_saved_store_is_compared_by_its_place(saved: tuple[Path, xr.Dataset]) -> None:
    path, ds = saved
    store = intarsia.open_store(path)
    assert repr(store) == f"IntarsiaStore({path})"
    assert store == intarsia.open_store(path)
    assert hash(store) == hash(intarsia.open_store(path))
    assert store != intarsia.open_store(path, grid={"v": (1, 3, 5)})
    assert store != "store"
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    np.testing.assert_array_equal(open_zarr(again)["v"][...], ds["v"].values)
    pickled = pickle.dumps(intarsia.open_store(path, grid={"v": (1, 3, 5)}))
    assert pickle.loads(pickled).grids["v"].chunks == (1, 3, 5)
    ds[["v"]].intarsia.save(path, mode="w")
    with pytest.raises(StoreReplaced):
        pickle.loads(pickled)


def test_opening_reads_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata comes from the root; tables are read for the variables that are read."""
    random = np.random.default_rng(0)
    held: dict[str, Variable] = {}
    for name in ("v", "w"):
        values = random.integers(0, 99, (3000, 4)).astype("<i2")
        held[name] = Variable(("y", "x"), lay_out(tmp_path / name, values, (1, 4), zlevel=1)[0])
    write(tmp_path / "s.intarsia", {"/": Group(held)})
    made: list[Counted] = []
    real = read.open_objects
    monkeypatch.setattr(
        read, "open_objects", lambda where: made.append(Counted(real(where))) or made[-1]
    )
    store = intarsia.open_store(tmp_path / "s.intarsia")
    group = open_zarr(store)
    assert store.grids["v"].cells < 10
    (objects,) = made
    assert objects.names_read == ["__intarsia__/root.json"]
    np.testing.assert_array_equal(group["v"][7], held["v"].data[7].load())
    assert [name for name in objects.names_read if "/arrays/v." in name]
    assert not [name for name in objects.names_read if "/arrays/w." in name]


def test_a_grid_of_a_saved_store(saved: tuple[Path, xr.Dataset]) -> None:
    path, ds = saved
    chosen = intarsia.open_store(path).grids
    for name, array in intarsia.open_dataset(path).intarsia.arrays.items():
        again = choose(array.segments)  # whose references are read when they are asked for
        assert again.chunks == chosen[str(name)].chunks
        assert again.max_parts == chosen[str(name)].max_parts
    store = intarsia.open_store(path, grid={"v": (2, 3, 2), "d": (5, 1)})
    group = open_zarr(store)
    assert group["v"].chunks == (2, 3, 2)
    for name in ("v", "d", "f", "area"):
        np.testing.assert_array_equal(group[name][...], ds[name].values)
    assert store.grids["v"].amplification > 1
