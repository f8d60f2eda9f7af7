"""Selecting and rearranging virtual datasets: identical to those in memory, nothing read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.io.fetch import observe
from tests.xarray.surface import Pair, check, pair, same, series, table

EXPLICIT: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Three pieces and, last, the whole."""
    made = pair(tmp_path_factory.mktemp("select"), series(), coords=True)
    for datasets in (made.virtual, made.plain):
        datasets.append(xr.concat(datasets, "time", **EXPLICIT))
    return made


def points(**indices: list[int]) -> dict[str, xr.DataArray]:
    return {dim: xr.DataArray(where, dims="point") for dim, where in indices.items()}


STAYS: dict[str, Callable[[xr.Dataset], Any]] = {
    "isel slice": lambda d: d.isel(time=slice(2, 9), lon=slice(1, None)),
    "isel step": lambda d: d.isel(time=slice(1, None, 3), lat=slice(None, None, 2)),
    "isel wide step": lambda d: d.isel(time=slice(0, None, 7)),
    "isel reversed": lambda d: d.isel(time=slice(None, None, -1), lat=slice(None, None, -2)),
    "isel from the end": lambda d: d.isel(time=slice(-3, None), lon=slice(-4, -1)),
    "isel empty": lambda d: d.isel(time=slice(5, 5)),
    "isel integer": lambda d: d.isel(time=5),
    "isel negative integer": lambda d: d.isel(time=-1, lat=-2),
    "isel all integers": lambda d: d.isel(time=1, lat=2, lon=3),
    "isel list": lambda d: d.isel(time=[0, 7, 7, 2], lon=[4, 0]),
    "isel negative list": lambda d: d.isel(time=[-1, 0, -12]),
    "isel empty list": lambda d: d.isel(time=[]),
    "isel boolean": lambda d: d.isel(time=np.arange(d.sizes["time"]) % 3 == 1),
    "isel array": lambda d: d.isel(lat=np.array([2, 0])),
    "isel pointwise": lambda d: d.isel(points(time=[0, 5, 11], lon=[1, 1, 4])),
    "isel pointwise all": lambda d: d.isel(points(time=[0, 5], lat=[0, 2], lon=[1, 4])),
    "isel pointwise and slice": lambda d: d.isel(
        points(time=[0, 5, 11], lat=[1, 1, 0]) | {"lon": slice(1, 3)}
    ),
    "isel outer grid": lambda d: d.isel(time=xr.DataArray([[0, 3], [7, 7]], dims=("a", "b"))),
    "isel new dim": lambda d: d.isel(time=xr.DataArray([3, 4], dims="run")),
    "sel label": lambda d: d.sel(time="2001-02-03", lat=20),
    "sel range": lambda d: d.sel(time=slice("2001-02-01", "2001-02-07"), lat=slice(15, None)),
    "sel month": lambda d: d.sel(time="2001-02"),
    "sel list": lambda d: d.sel(lat=[30, 10]),
    "sel nearest": lambda d: d.sel(lat=18, method="nearest"),
    "sel boolean": lambda d: d.sel(time=d.time.dt.day < 4),
    "loc": lambda d: d.v.loc["2001-02", 20],
    "getitem": lambda d: d.v[::-1, 1:, -1],
    "getitem ellipsis": lambda d: d.v[..., 2],
    "getitem names": lambda d: d[["v", "d"]],
    "head": lambda d: d.head(time=2),
    "tail": lambda d: d.tail(lon=2),
    "thin": lambda d: d.thin(time=3),
    "transpose": lambda d: d.transpose("lon", "time", "lat"),
    "transpose ellipsis": lambda d: d.transpose("lat", ...),
    "T": lambda d: d.v.T,
    "transposed list": lambda d: d.transpose("lat", ...).isel(time=[4, 2, 9], lat=[2, 0]),
    "expand_dims": lambda d: d.drop_vars("time").expand_dims("run"),
    "expand_dims size": lambda d: d.v.expand_dims(run=3),
    "expand_dims labels": lambda d: d.v.expand_dims(run=["a", "b"], axis=2),
    "expand_dims scalar": lambda d: d.isel(time=3).expand_dims("time"),
    "broadcast": lambda d: xr.broadcast(d.land, d.v),
    "broadcast_like": lambda d: d.land.broadcast_like(d.v),
    "broadcast dataset": lambda d: xr.broadcast(d[["land", "f"]])[0],
    "rename": lambda d: d.rename(v="w", lat="y", area="size"),
    "rename_dims": lambda d: d.drop_vars("lon", errors="ignore").rename_dims(lon="x"),
    "rename_vars": lambda d: d.rename_vars(v="w"),
    "swap_dims": lambda d: d.assign_coords(number=("time", np.arange(d.sizes["time"]))).swap_dims(
        time="number"
    ),
    "set_coords": lambda d: d.set_coords("land").reset_coords("area"),
    "assign_coords": lambda d: d.assign_coords(lon=np.arange(5) * 2),
    "assign_attrs": lambda d: d.assign_attrs(more=1),
    "drop": lambda d: d.drop_vars("v").drop_sel(lat=[20]).drop_isel(lon=[0, 3]),
    "drop_duplicates": lambda d: d.drop_duplicates("time"),
    "reindex": lambda d: d.reindex(lat=[30.0, 15.0, 10.0]),
    "reindex two": lambda d: d.reindex(lat=[30.0, 15.0], time=d.time[[3, 1]]),
    "reindex fill": lambda d: d.v.reindex(lat=[30.0, 15.0], fill_value=-1),
    "reindex same": lambda d: d.reindex(lat=[30.0, 10.0]),
    "reindex nearest": lambda d: d.reindex(lat=[12.0, 29.0, 90.0], method="nearest", tolerance=5),
    "reindex pad": lambda d: d.reindex(lat=[5.0, 12.0, 29.0], method="ffill"),
    "reindex none": lambda d: d.reindex(lat=[1.0, 2.0]),
    "reindex_like": lambda d: d.reindex_like(d.isel(time=slice(3, 5), lat=[2])),
    "shift": lambda d: d.shift(time=2),
    "shift back": lambda d: d.v.shift(time=-1, lon=1),
    "shift fill": lambda d: d.v.shift(time=1, fill_value=7),
    "shift far": lambda d: d.v.shift(time=30),
    "roll": lambda d: d.roll(time=2, lon=-1),
    "roll coords": lambda d: d.roll(time=5, roll_coords=True),
    "pad": lambda d: d.pad(time=(1, 2)),
    "pad value": lambda d: d.v.pad(lat=1, constant_values=3),
    "pad values": lambda d: d.v.pad(
        lat=(1, 2), lon=(0, 1), constant_values={"lat": (3, 4), "lon": 5}
    ),
    "pad wrap": lambda d: d.v.pad(time=(2, 3), mode="wrap"),
    "pad edge": lambda d: d.v.pad(time=1, mode="edge"),
    "pad reflect": lambda d: d.v.pad(lon=2, mode="reflect"),
    "pad symmetric": lambda d: d.v.pad(lon=2, mode="symmetric"),
    "sortby": lambda d: d.sortby("time", ascending=False),
    "sortby list": lambda d: d.isel(time=[4, 2, 9]).sortby(["time", "lat"]),
    "squeeze": lambda d: d.isel(time=[0], lon=[2]).squeeze(),
    "squeeze one": lambda d: d.isel(time=[0], lon=[2]).squeeze("lon", drop=True),
    "stack dims of one": lambda d: d.isel(time=[0])[["v"]].v.expand_dims("run"),
    "astype": lambda d: d.astype("f4"),
    "astype wide": lambda d: d.v.astype("i8"),
    "astype same": lambda d: d.v.astype("i2", copy=False),
    "copy": lambda d: d.copy(),
    "copy deep": lambda d: d.copy(deep=True),
    "copy module": copy.deepcopy,
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "zeros_like": xr.zeros_like,
    "full_like": lambda d: xr.full_like(d.v, 3.5, dtype="f8"),
    "ones_like": lambda d: xr.ones_like(d.f),
    "pipe": lambda d: d.pipe(lambda x: x.isel(time=0)),
    "map": lambda d: d.map(lambda x: x.isel(time=0) if "time" in x.dims else x),
    "filter_by_attrs": lambda d: d.filter_by_attrs(units="K"),
    "to_dataarray": lambda d: d[["v", "f"]].to_dataarray(),
    "to_dataset": lambda d: d.v.to_dataset(),
    "split dim": lambda d: d.v.to_dataset(dim="lon"),
    "convert_calendar": lambda d: d.convert_calendar("noleap"),
    "stack index only": lambda d: d.isel(time=slice(0, 1)).swap_dims(time="time"),
    "iterate": lambda d: list(d.v)[2],
    "groups": lambda d: dict(d.groupby("time.month"))[2],
    "variables": lambda d: d.v.variable.isel(lat=[1, 0]),
    "set_dims": lambda d: d.v.variable.set_dims({"run": 2, **d.v.sizes}),
    "where mask": lambda d: d.isel(time=d.time.dt.month.values == 2),
    "chained": lambda d: (
        d.isel(time=slice(None, None, -2)).transpose("lat", ...).reindex(lat=[30, 5]).v[:, [2, 0]]
    ),
}


@table(STAYS)
def test_selects_without_reading(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    check(both, lambda D: run(D[-1]), reads=False)


@table(STAYS)
def test_of_one_piece(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    """Also where the array is a single segment; indices that don't fit raise the same error."""
    try:
        run(both.plain[1])
    except (KeyError, IndexError) as error:
        with pytest.raises(type(error)):
            run(both.virtual[1])
        return
    check(both, lambda D: run(D[1]), reads=False)


ERRORS: dict[str, Callable[[xr.Dataset], Any]] = {
    "integer": lambda d: d.isel(time=12),
    "list": lambda d: d.isel(time=[0, 12]),
    "array": lambda d: d.isel(time=np.array([-13])),
    "boolean length": lambda d: d.isel(time=np.array([True, False])),
    "no such dim": lambda d: d.isel(nowhere=1),
    "label": lambda d: d.sel(lat=11),
    "transpose": lambda d: d.v.transpose("time", "lat"),
    "squeeze": lambda d: d.v.squeeze("time"),
    "float": lambda d: d.v[1.5],
}


@table(ERRORS)
def test_the_same_errors(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011
        run(both.plain[-1])
    with observe() as reads, pytest.raises(type(expected.value)):
        run(both.virtual[-1])
    assert reads.requests == 0


def test_describes_without_reading(both: Pair) -> None:
    whole, plain = both.virtual[-1], both.plain[-1]
    with observe() as reads:
        text = repr(whole)
        html = whole._repr_html_()
        assert "VirtualArray" in repr(whole.v)
        assert whole.v._repr_html_()
        assert repr(whole.isel(points(time=[0, 5], lon=[1, 1])))
        assert whole.sizes == plain.sizes
        assert whole.dtypes == plain.dtypes
        assert whole.nbytes == plain.nbytes
        assert whole.v.size == plain.v.size
        assert len(whole.v) == len(plain.v)
        assert whole.info(buf=_Nowhere()) is None
        assert whole.xindexes.keys() == plain.xindexes.keys()
        assert not whole.v.equals(whole.v[1:])
    assert reads.requests == 0
    assert "virtual: 3 segments" in text
    assert "virtual: 3 segments" in html


class _Nowhere:
    def write(self, text: str) -> None:
        pass


def test_compares(both: Pair) -> None:
    """Equal objects are known to be equal; others are compared by their values."""
    whole, plain = both.virtual[-1], both.plain[-1]
    with observe() as reads:
        assert whole.equals(whole)
        assert whole.identical(whole.copy())
    assert reads.requests == 0
    assert whole.equals(plain)
    assert plain.identical(whole)
    assert whole.broadcast_equals(plain)
    changed = plain.copy(deep=True)
    changed.v[3, 2, 1] = 0
    assert not whole.equals(changed)
    assert not whole.v.identical(plain.v.rename("w"))
    xr.testing.assert_equal(whole, plain)
    xr.testing.assert_allclose(whole, plain)
    xr.testing.assert_duckarray_equal(whole.v.data, plain.v.data)


def test_assigns_in_memory_only(both: Pair) -> None:
    """Values of a virtual variable can't be set; once loaded, they can."""
    part = both.virtual[0].copy()
    with pytest.raises(TypeError, match="read-only"):
        part.v[0, 0, 0] = 1
    part = part.load()
    part.v[0, 0, 0] = 1
    assert int(part.v[0, 0, 0]) == 1
    assert int(both.virtual[0].v[0, 0, 0]) == 0


def test_loading_changes_the_dataset_alone(both: Pair) -> None:
    """`load` is in place, `compute` is not, and what was virtual elsewhere stays so."""
    whole = both.virtual[-1]
    part = whole.isel(time=slice(0, 6))
    computed = part.compute()
    assert isinstance(part.v.variable._data, VirtualArray)
    assert isinstance(computed.v.variable._data, np.ndarray)
    assert part.load() is part
    assert isinstance(part.v.variable._data, np.ndarray)
    assert isinstance(whole.v.variable._data, VirtualArray)
    with observe() as reads:
        part.load()
        part.v.mean()
    assert reads.requests == 0
    same(whole.persist(), both.plain[-1])
    assert isinstance(whole.v.values, np.ndarray)
    assert isinstance(whole.v.variable._data, VirtualArray)
    assert whole.v.values.flags.writeable


def test_a_dataset_is_loaded_together(both: Pair) -> None:
    """One read per file and neighbourhood, not one per variable; an object twice is read once."""
    part = both.virtual[0][["v"]].drop_vars(["area", "step"])
    part = part.assign(w=part.v)
    with observe() as reads:
        part.load()
    assert reads.requests == 1


def test_points_read_their_chunks_alone(both: Pair) -> None:
    whole = both.virtual[-1]
    chosen = whole.v.isel(points(time=[0, 1], lat=[0, 0], lon=[1, 2]))
    assert isinstance(chosen.variable._data, VirtualArray)
    with observe() as reads:
        chosen.variable.load()
    assert reads.requests == 1
    assert reads.nbytes == 2 * 2 * 3 * 2
