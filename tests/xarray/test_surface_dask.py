"""dask beside virtual arrays: chunking, computing, mixing, and what happens without dask."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import tokenize

from intarsia.array import VirtualArray
from intarsia.array import blocks as blocks_module
from intarsia.io.fetch import observe
from tests.algebra import lay_out
from tests.xarray.surface import Datasets, Pair, check, pair, same, series, table

EXPLICIT: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    made = pair(tmp_path_factory.mktemp("dask"), series(), coords=True)
    for datasets in (made.virtual, made.plain):
        datasets.append(xr.concat(datasets, "time", **EXPLICIT))
    return made


CHUNKINGS: dict[str, Callable[[Any], Any]] = {
    "none": lambda d: d.chunk(),
    "empty": lambda d: d.chunk({}),
    "int": lambda d: d.chunk(2),
    "dict": lambda d: d.chunk({"time": 5, "lat": 2}),
    "keywords": lambda d: d.chunk(time=5),
    "all": lambda d: d.chunk(time=-1, lon=1),
    "tuples": lambda d: d.chunk(time=(5, 7)),
    "auto": lambda d: d.chunk("auto"),
    "auto dim": lambda d: d.chunk(time="auto"),
    "size": lambda d: d.chunk("40B"),
    "twice": lambda d: d.chunk(time=5).chunk(time=2),
    "frequency": lambda d: d.chunk(time=xr.groupers.TimeResampler("MS")),
    "dask manager": lambda d: d.chunk(time=5, chunked_array_type="dask"),
    "own manager": lambda d: d.chunk(time=5, chunked_array_type="intarsia"),
    "no inline": lambda d: d.chunk(time=5, inline_array=True),
}


@pytest.mark.parametrize("chunk", CHUNKINGS.values(), ids=CHUNKINGS.keys())
def test_chunking(both: Pair, chunk: Callable[[Any], Any]) -> None:
    """Any form of `chunk` reads nothing, makes all variables dask, and computes plainly."""
    whole, plain = both.virtual[-1], both.plain[-1]
    with observe() as reads:
        chunked = chunk(whole)
    assert reads.requests == 0
    for name in ("v", "f", "d", "land", "area"):
        assert isinstance(chunked[name].data, da.Array), name
    expected = chunk(plain)
    for name in ("v", "f"):
        if chunk is not CHUNKINGS["size"]:
            assert chunked[name].chunks == expected[name].chunks
    with dask.config.set(scheduler="synchronous"):
        same(chunked, plain)
        assert type(chunked.v.data.compute()) is np.ndarray
        assert type(chunked.v.data.blocks[0, 0].compute()) is np.ndarray
        assert type(chunked.v.data.persist().compute()) is np.ndarray
        (values,) = dask.compute(chunked.v)
        assert type(values.variable._data) is np.ndarray


COMPUTES: dict[str, Callable[[xr.Dataset], Any]] = {
    "sum": lambda d: d.sum("time"),
    "mean": lambda d: d.land.mean(),
    "arithmetic": lambda d: d.v * 2 + d.land,
    "isel": lambda d: d.isel(time=slice(None, None, -2), lat=[2, 0]),
    "points": lambda d: d.v.isel(
        time=xr.DataArray([0, 5], dims="p"), lon=xr.DataArray([1, 4], dims="p")
    ),
    "where": lambda d: d.where(d.land > 0),
    "groupby": lambda d: d.v.groupby("time.month").max(),
    "rolling": lambda d: d.v.rolling(time=3).max(),
    "transpose": lambda d: d.transpose("lat", ...),
    "reindex": lambda d: d.reindex(lat=[30.0, 5.0]),
    "map_blocks": lambda d: xr.map_blocks(lambda x: x * 2, d),
    "apply_ufunc": lambda d: xr.apply_ufunc(np.abs, d.v, dask="parallelized", output_dtypes=["i2"]),
    "overlap": lambda d: d.d.chunk(time=-1).interp(time=d.time[:3]),
    "stack": lambda d: d.v.stack(z=("time", "lat")).drop_vars(["z", "time", "lat"]),
}


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@table(COMPUTES)
def test_computes(both: Pair, scheduler: str, run: Callable[[xr.Dataset], Any]) -> None:
    chunked = Pair([both.virtual[-1].chunk(time=5)], [both.plain[-1].chunk(time=5)])
    with dask.config.set(scheduler=scheduler):
        check(chunked, lambda D: run(D[0]).load())


def test_auto_follows_the_source(tmp_path: Path) -> None:
    """dask's own choice ends at boundaries of the source's blocks."""
    values = np.zeros((40, 30, 20), "i2")
    array, _ = lay_out(tmp_path / "a", values, (7, 30, 20))
    variable = xr.Variable(("t", "y", "x"), array)
    with dask.config.set({"array.chunk-size": "20kB"}):
        chunks = variable.chunk("auto").chunks
    assert chunks is not None
    edges = np.cumsum(chunks[0])[:-1]
    blocks = np.cumsum(array.blocks[0])[:-1]
    assert len(edges)
    assert set(edges.tolist()) <= set(blocks.tolist()) or set(blocks.tolist()) <= set(
        edges.tolist()
    )


def test_blocks_are_made_of_whole_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 20_000)
    values = np.arange(24_000, dtype="i2").reshape(40, 30, 20)
    array, _ = lay_out(tmp_path / "a", values, (7, 30, 20))
    both = np.concatenate([array[:32], array[::-1], array[3:]])
    blocks = both.blocks
    assert sum(blocks[0]) == len(both)
    assert max(blocks[0]) == 14
    with observe() as reads:
        for start, size in zip(np.cumsum(blocks[0]) - blocks[0], blocks[0], strict=True):
            np.asarray(both[start : start + size])
    assert reads.requests == len(blocks[0])
    # 5 + 6 + 6 chunks, none of them read twice
    assert reads.nbytes <= 1.01 * (5 + 6 + 6) * 7 * 30 * 20 * 2


def test_unlike_blocks_are_unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large variables present different blocks; xarray's advice for that is what helps."""
    monkeypatch.setattr("intarsia.array.virtual.WHOLE_BYTES", 100)
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 1000)
    plain = xr.Dataset({"a": ("t", np.arange(900)), "b": ("t", np.arange(900.0))})
    virtual = plain.copy()
    for name, chunk in (("a", 70), ("b", 110)):
        virtual[name] = ("t", lay_out(tmp_path / name, plain[name].values, (chunk,))[0])
    with pytest.raises(ValueError, match="inconsistent chunks"):
        _ = virtual.chunks
    unified = virtual.unify_chunks()
    assert unified.chunks["t"]
    with dask.config.set(scheduler="synchronous"):
        same(unified, plain)
    same(virtual[["a"]].unify_chunks(), plain[["a"]])


def test_tokens(both: Pair, tmp_path: Path) -> None:
    """Equal for the same data however it was come by, different for different data."""
    first, second = both.virtual[0], both.virtual[1]
    assert tokenize(first.v) == tokenize(first.v)
    assert tokenize(first) == tokenize(first.copy())
    assert tokenize(first.v) != tokenize(second.v)
    assert tokenize(first.v[1:]) != tokenize(first.v[:-1])
    assert tokenize(first.v) != tokenize(first.v.astype("f4"))
    one = first.chunk(time=2)
    assert one.v.data.name == first.chunk(time=2).v.data.name
    assert one.v.data.name != first.chunk(time=3).v.data.name
    again = first.v.data.segments
    other = VirtualArray(again, first.v.dtype)
    assert tokenize(other) == tokenize(first.v.data)
    script = """
        import pickle, sys
        from dask.base import tokenize
        print(tokenize(pickle.loads(bytes.fromhex(sys.stdin.read()))))
    """
    import pickle

    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        input=pickle.dumps(first.v.data).hex(),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert told.stdout.strip() == tokenize(first.v.data)


def bare(array: xr.DataArray) -> xr.DataArray:
    """Without coordinates that would have to be read to be compared."""
    return array.drop_vars(["area", "step"])


def apart(ds: xr.Dataset) -> xr.Dataset:
    """Without what is not concatenated, and so stays as it is in the first."""
    return ds.drop_vars(["land", "area"])


BESIDE: dict[str, Callable[[Datasets], Any]] = {
    "concat": lambda D: xr.concat([D[0].chunk(time=2), D[1]], "time", **EXPLICIT),
    "concat other": lambda D: xr.concat(
        [apart(D[1]), apart(D[0]).chunk(time=2), apart(D[2])], "time", **EXPLICIT
    ),
    "stack": lambda D: xr.concat([bare(D[0].v).chunk(), bare(D[0].v)], "run"),
    "add": lambda D: D[0].v.chunk(time=2) + bare(D[0].v),
    "radd": lambda D: bare(D[0].v) + D[0].v.chunk(time=2),
    "compare": lambda D: D[0].land.variable < D[0].land.variable.chunk(),
    "numpy": lambda D: D[0].v.variable * D[0].v.variable.chunk().data,
}


@table(BESIDE)
def test_arrays_meet(both: Pair, run: Callable[[Datasets], Any]) -> None:
    """An operation on both gives a dask array; the virtual one is not read before."""
    with observe() as reads:
        made = run(both.virtual)
    assert reads.requests == 0
    data = (made.v if isinstance(made, xr.Dataset) else made).data
    assert isinstance(data, da.Array)
    assert not isinstance(data._meta, VirtualArray)
    with dask.config.set(scheduler="synchronous"):
        same(made, run(both.plain))


def test_mixed_datasets_say_what_to_do(both: Pair, tmp_path: Path) -> None:
    """xarray refuses to load several lazy kinds together; chunking the rest is the way out."""
    part, plain = both.virtual[0], both.plain[0]
    mixed = part.assign(w=bare(part.v).chunk(time=2) + 1)
    expected = plain.assign(w=plain.v + 1)
    for load in (mixed.load, mixed.compute, lambda: mixed.to_netcdf(tmp_path / "a.nc")):
        with pytest.raises(TypeError, match=r"call \.chunk\(\) on the dataset first"):
            load()
    with dask.config.set(scheduler="synchronous"):
        same(mixed.chunk(), expected)
        assert isinstance(bare(mixed.w).compute().variable._data, np.ndarray)
        mixed.chunk().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert isinstance(bare(mixed.v).compute().variable._data, np.ndarray)


def test_without_dask(tmp_path: Path) -> None:
    """All but chunks works where dask is not installed; asking for chunks says what to do."""
    script = """
        import sys
        sys.modules["dask"] = None
        import pathlib, warnings
        import numpy as np, pytest, xarray as xr
        from intarsia.io.fetch import observe
        from tests.xarray.surface import pair, series, same
        made = pair(pathlib.Path(sys.argv[1]), series(), coords=True)
        options = dict(data_vars="minimal", coords="minimal", compat="override")
        for run in (
            lambda D: xr.concat(D, "time", **options),
            lambda D: xr.concat(D, "time", **options).reindex(lat=[5.0, 20.0]),
            lambda D: xr.concat([D[0], D[1].drop_vars("v")], "time", **options),
            lambda D: D[0].shift(time=1),
        ):
            with observe() as reads:
                made_here = run(made.virtual)
            assert reads.requests == 0
            same(made_here, run(made.plain))
        for run in (
            lambda D: D[0].mean("time"),
            lambda D: D[0].interp(lat=[12.0]),
            lambda D: D[0].f.idxmax("time"),
            lambda D: D[0].where(D[0].land > 0),
        ):
            same(run(made.virtual), run(made.plain))
        made.virtual[0].to_netcdf(sys.argv[1] + "/out.nc", engine="h5netcdf")
        with xr.open_dataset(sys.argv[1] + "/out.nc", engine="h5netcdf") as saved:
            same(saved.v.variable.load(), made.plain[0].v.variable)
        for data in (made.virtual[0], made.plain[0], made.plain[0].step):
            with pytest.raises(ImportError, match="chunks need dask") as error:
                data.chunk(time=2)
            assert error.value.kind == "missing-package"
            assert "pip install 'intarsia[dask]'" in str(error.value)
        print("done")
    """
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert told.stdout.strip() == "done", told.stderr
