"""Everything xarray computes, on virtual datasets: identical to those in memory, each byte once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import xarray as xr

from intarsia.io.fetch import observe
from tests.xarray.surface import Pair, check, pair, series, table

EXPLICIT: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    made = pair(tmp_path_factory.mktemp("compute"), series(), coords=False)
    return Pair(
        [xr.concat(made.virtual, "time", **EXPLICIT)], [xr.concat(made.plain, "time", **EXPLICIT)]
    )


@pytest.fixture(autouse=True)
def numpy_alone() -> Iterator[None]:
    """bottleneck and numbagg round otherwise than NumPy, and take arrays in memory alone."""
    with xr.set_options(use_bottleneck=False, use_numbagg=False):
        yield


def _double(x: Any) -> Any:
    assert isinstance(x, np.ndarray)
    return 2 * x


def _mean(x: Any, axis: int) -> Any:
    return np.mean(x, axis=axis)


STAYS: dict[str, Callable[[xr.Dataset], Any]] = {
    "where one dim": lambda d: d.where(d.time.dt.day < 5),
    "where lat": lambda d: d.v.where(d.lat > 15),
    "where two": lambda d: d.v.where(d.lat > 15).where(d.time.dt.day < 5),
    "where other": lambda d: d.v.where(d.lat > 15, -3),
    "where drop": lambda d: d.where(d.lat > 15, drop=True),
    "where all": lambda d: d.f.where(d.lat > 0),
    "where none": lambda d: d.f.where(d.lat > 90),
    "groupby first": lambda d: d.v.groupby("time.month").first(),
    "resample ffill": lambda d: d.v.resample(time="12h").ffill(),
    "isnull": lambda d: d.isnull(),
    "notnull": lambda d: d.f.notnull(),
    "no conflicts": lambda d: xr.merge([d[["v"]], d[["v", "f"]]], compat="no_conflicts"),
}

LOADS: dict[str, Callable[[xr.Dataset], Any]] = {
    # arithmetic
    "add": lambda d: d + 1,
    "subtract": lambda d: d.v - d.land,
    "radd": lambda d: 1 + d.v,
    "negative": lambda d: -d,
    "power": lambda d: d.d**2,
    "divide": lambda d: d.v / d.d,
    "floor divide": lambda d: d.v // 7,
    "compare": lambda d: d.v > 100,
    "equal": lambda d: d.v == d.v,
    "and": lambda d: (d.v > 100) & (d.d < 50),
    "abs": lambda d: abs(d.v),
    "round": lambda d: d.d.round(1),
    "ufunc": lambda d: np.sqrt(d.f),
    "ufunc two": lambda d: np.maximum(d.v, d.land),
    "numpy array": lambda d: d.v.variable + np.arange(5),
    "in place": lambda d: _in_place(d.copy()),
    "clip": lambda d: d.clip(3, 200),
    "matmul": lambda d: d.v @ d.land,
    "dot": lambda d: xr.dot(d.v, d.land, dim="lon"),
    # reductions
    "mean": lambda d: d.mean(),
    "mean dim": lambda d: d.mean("time"),
    "mean skipna": lambda d: d.f.mean("time", skipna=False),
    "sum": lambda d: d.sum(["lat", "lon"]),
    "sum min_count": lambda d: d.f.sum("lat", min_count=1),
    "std": lambda d: d.std("time"),
    "var ddof": lambda d: d.v.var("time", ddof=1),
    "min max": lambda d: (d.min("time"), d.max("time")),
    "median": lambda d: d.median("time"),
    "quantile": lambda d: d.f.quantile([0.1, 0.5], "time"),
    "quantile all": lambda d: d.v.quantile(0.3),
    "prod": lambda d: d.land.prod("lat"),
    "count": lambda d: d.count("time"),
    "any all": lambda d: ((d > 0).any("time"), (d > 0).all("time")),
    "argmin": lambda d: d.v.argmin("time"),
    "argmax many": lambda d: d.v.argmax(["lat", "lon"]),
    "idxmax": lambda d: d.v.idxmax("time"),
    "cumsum": lambda d: d.cumsum("time"),
    "cumprod": lambda d: d.land.cumprod("lat"),
    "reduce": lambda d: d.reduce(np.mean, "time"),
    "cov corr": lambda d: (
        xr.cov(d.f, d.d.isel(lon=1), "time"),
        xr.corr(d.f, d.d.isel(lon=1), "time"),
    ),
    "integrate": lambda d: d.integrate("lat"),
    "differentiate": lambda d: d.v.differentiate("lat"),
    "cumulative_integrate": lambda d: d.cumulative_integrate("lat"),
    "diff": lambda d: d.diff("time"),
    # missing values
    "fillna": lambda d: d.fillna(0),
    "fillna array": lambda d: d.f.fillna(d.v.isel(lon=0)),
    "dropna": lambda d: d.f.dropna("time"),
    "interpolate_na": lambda d: d.f.interpolate_na("time"),
    "where mask": lambda d: d.where(d.land > 0),
    "where values": lambda d: d.v.where(d.v > 50, d.f),
    "xr.where": lambda d: xr.where(d.v > 50, d.v, 0),
    "combine_first": lambda d: d.isel(time=slice(0, 8)).combine_first(d.isel(time=slice(4, None))),
    "isin": lambda d: d.v.isin([3, 100]),
    # other values
    "interp": lambda d: d.interp(lat=[12.0, 25.0]),
    "interp nearest": lambda d: d.v.interp(lat=[12.0, 25.0], method="nearest"),
    "interp time": lambda d: d.f.interp(time=d.time[:-1] + np.timedelta64(6, "h")),
    "interp two": lambda d: d.v.interp(lat=[12.0], lon=[1.5]),
    "interp points": lambda d: d.v.interp(
        lat=xr.DataArray([12.0, 25.0], dims="p"), lon=xr.DataArray([0.5, 1.5], dims="p")
    ),
    "interp_like": lambda d: d.interp_like(d.isel(lat=slice(0, 2)).assign_coords(lat=[11.0, 12.0])),
    "polyfit": lambda d: d.polyfit("lat", 1),
    "polyfit nan": lambda d: d.f.polyfit("time", 1, skipna=True),
    "curvefit": lambda d: (
        d.f.isel(time=0).curvefit("lat", lambda x, a: a * x).curvefit_coefficients.round(4)
    ),
    "polyval": lambda d: xr.polyval(
        d.lat,
        d.v.isel(lat=0)
        .rename(time="degree")
        .drop_vars("step")
        .assign_coords(degree=np.arange(12))[:3],
    ),
    "stack": lambda d: d.v.stack(z=("time", "lat")),
    "unstack": lambda d: d.v.stack(z=("time", "lat")).unstack("z"),
    "to_stacked_array": lambda d: d[["v"]].to_stacked_array("z", ["time"]),
    "astype bool": lambda d: d.v.astype(bool).sum(),
    "astype object": lambda d: d.land.astype(object),
    "str": lambda d: d.land.astype(str).str.len(),
    "values": lambda d: d.v.values,
    "data": lambda d: np.asarray(d.v.data),
    "item": lambda d: (
        d.v[0, 1, 2].item(),
        float(d.f[3, 1]),
        int(d.v[1, 1, 1]),
        bool(d.land[0, 1]),
    ),
    "index by value": lambda d: d.isel(
        lon=d.land.isel(lat=0, drop=True).drop_vars("area").astype(int)
    ),
    "to_dict": lambda d: d.drop_vars("f").to_dict(),
    "to_dataframe": lambda d: d.to_dataframe(),
    "to_series": lambda d: d.f.to_series(),
    "to_pandas": lambda d: d.f.to_pandas(),
    "to_masked": lambda d: d.f.to_masked_array().filled(-1),
    "drop by values": lambda d: d.sel(lat=d.f.isel(time=0, drop=True).notnull().values),
    "unique": lambda d: np.unique(d.land),
    # groups and windows
    "groupby mean": lambda d: d.groupby("time.month").mean(),
    "groupby sum": lambda d: d.v.groupby(d.step // 5).sum(),
    "groupby map": lambda d: d.groupby("time.month").map(lambda x: x - x.mean("time")),
    "groupby anomaly": lambda d: d.v.groupby("time.month") - d.v.groupby("time.month").mean(),
    "groupby values": lambda d: d.v.groupby(d.land.compute()).mean(),
    "groupby quantile": lambda d: d.v.groupby("time.month").quantile(0.5),
    "groupby_bins values": lambda d: d.v.groupby_bins(d.land, [-1, 1, 3]).mean(),
    "groupby_bins": lambda d: d.groupby_bins("lat", [0, 15, 40]).sum(),
    "groupby max": lambda d: d.groupby("time.month").max(),
    "resample mean": lambda d: d.resample(time="3D").mean(),
    "resample asfreq": lambda d: d.v.resample(time="12h").asfreq(),
    "resample sum": lambda d: d.v.resample(time="MS").sum(),
    "resample interp": lambda d: d.f.resample(time="12h").interpolate("linear"),
    "rolling mean": lambda d: d.rolling(time=3).mean(),
    "rolling center": lambda d: d.v.rolling(time=3, lat=2, center=True).sum(),
    "rolling reduce": lambda d: d.v.rolling(time=3, min_periods=1).reduce(np.nanmax),
    "rolling construct": lambda d: d.v.rolling(time=3).construct("window"),
    "cumulative": lambda d: d.v.cumulative("time").max(),
    "coarsen": lambda d: d.coarsen(time=3).mean(),
    "coarsen trim": lambda d: d.v.coarsen(lon=2, boundary="trim").max(),
    "coarsen pad": lambda d: d.v.coarsen(lon=2, boundary="pad").mean(),
    "coarsen construct": lambda d: d.v.coarsen(time=4).construct(time=("a", "b")),
    "weighted mean": lambda d: d.weighted(np.cos(np.deg2rad(d.lat))).mean("lat"),
    "weighted virtual": lambda d: d.v.weighted(d.land).mean(),
    "weighted quantile": lambda d: d.v.weighted(d.lat).quantile(0.5, dim="lat"),
    # functions
    "apply_ufunc": lambda d: xr.apply_ufunc(lambda x: 2 * x, d.v, dask="allowed"),
    "apply_ufunc parallelized": lambda d: xr.apply_ufunc(_double, d.v, dask="parallelized"),
    "apply_ufunc dataset": lambda d: xr.apply_ufunc(_double, d, dask="parallelized"),
    "apply_ufunc core": lambda d: xr.apply_ufunc(
        _mean,
        d.v,
        input_core_dims=[["time"]],
        kwargs={"axis": -1},
        dask="parallelized",
        output_dtypes=["f8"],
    ),
    "apply_ufunc two": lambda d: xr.apply_ufunc(
        lambda a, b: a * b, d.v, d.land, dask="parallelized"
    ),
    "apply_ufunc outputs": lambda d: xr.apply_ufunc(
        lambda a: (a.min(-1), a.max(-1)),
        d.v,
        input_core_dims=[["lon"]],
        output_core_dims=[[], []],
        dask="parallelized",
        output_dtypes=["i2", "i2"],
    ),
    "apply_ufunc new dim": lambda d: xr.apply_ufunc(
        lambda a: np.stack([a, -a], -1),
        d.v,
        output_core_dims=[["sign"]],
        dask="parallelized",
        output_dtypes=["i2"],
        dask_gufunc_kwargs={"output_sizes": {"sign": 2}},
    ),
    "apply_ufunc vectorize": lambda d: xr.apply_ufunc(
        lambda a: a.sum(),
        d.v,
        input_core_dims=[["lon"]],
        vectorize=True,
        dask="parallelized",
        output_dtypes=["i8"],
    ),
    "map_blocks": lambda d: xr.map_blocks(lambda x: x * 2, d),
    "pipe": lambda d: d.pipe(lambda x: x * 2),
    "map": lambda d: d.map(lambda x: x * 2),
    "assign": lambda d: d.assign(w=lambda x: x.v + 1),
    "eval": lambda d: d.eval("v + land"),
    "query": lambda d: d.query(lat="lat > 15").load(),
    "concat of computed": lambda d: xr.concat([d.v * 1, d.v * 2], "run"),
    "dt": lambda d: d.time.dt.dayofyear + d.v,
    "broadcast arithmetic": lambda d: d.f * d.land,
    "sortby values": lambda d: d.sortby(d.f.isel(lat=0).fillna(0)),
    "sel by computed": lambda d: d.sel(time=(d.v.mean(["lat", "lon"]) > 500).values),
    "numpy mean": lambda d: np.mean(d.v),
}


NUMPY: dict[str, Callable[[xr.Dataset], Any]] = {
    "mean": lambda d: np.mean(d.v.data, axis=0),
    "cumsum": lambda d: np.cumsum(d.v.data),
    "linalg.norm": lambda d: np.linalg.norm(d.d.data),
    "histogram": lambda d: np.histogram(d.v.data)[0],
    "tensordot": lambda d: np.tensordot(d.land.data, np.ones(5), 1),
    "percentile": lambda d: np.percentile(d.v.data, 30),
    "argsort": lambda d: np.argsort(d.land.data, axis=None, kind="stable"),
    "einsum": lambda d: np.einsum("ij->j", d.land.data),
    "array_equal": lambda d: np.array_equal(d.v.data, d.v.data),
    "isclose": lambda d: np.isclose(d.v.data, 3),
    "nan_to_num": lambda d: np.nan_to_num(d.f.data),
    "repeat": lambda d: np.repeat(d.land.data, 2),
    "tile": lambda d: np.tile(d.land.data, 2),
    "take": lambda d: np.take(d.land.data, [1]),
    "ravel": lambda d: np.ravel(d.land.data),
    "sum": lambda d: np.sum(d.v.data),
    "split": lambda d: np.split(d.land.data, 3)[1],
    "array": lambda d: np.array(d.land.data),
    "pad": lambda d: np.pad(d.land.data, 1, mode="mean"),
    "insert": lambda d: np.insert(d.land.data, 0, 1),
    "roll": lambda d: np.roll(d.land.data, 1),
    "block": lambda d: np.block([[d.land.data]]),
    "apply_along_axis": lambda d: np.apply_along_axis(np.sum, 0, d.land.data),
    "dot": lambda d: np.dot(d.land.data, np.ones(5)),
    "nanmean": lambda d: np.nanmean(d.f.data),
}


def _in_place(d: xr.Dataset) -> xr.Dataset:
    d += 1
    v = d.v
    v *= 2
    return d


@table(STAYS)
def test_stays_virtual(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    check(both, lambda D: run(D[0]), reads=False)


@table(LOADS)
def test_computes(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, the same for both: empty slices, degrees
        check(both, lambda D: run(D[0]), reads=True)


@table(
    {
        "ffill": lambda d: d.f.ffill("time"),
        "bfill": lambda d: d.f.bfill("time", limit=1),
        "rank": lambda d: d.v.rank("time"),
    }
)
def test_computes_with_bottleneck(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    pytest.importorskip("bottleneck")
    with xr.set_options(use_bottleneck=True):
        check(both, lambda D: run(D[0]), reads=True)


def test_computes_with_numbagg(both: Pair) -> None:
    pytest.importorskip("numbagg")
    with xr.set_options(use_numbagg=True):
        check(both, lambda D: D[0].f.rolling_exp(time=3).mean(), reads=True)


@table(NUMPY)
def test_numpy_functions(both: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    check(both, lambda D: run(D[0]))


REFUSED: dict[str, tuple[Callable[[xr.Dataset], Any], str]] = {
    "apply_ufunc": (lambda d: xr.apply_ufunc(_double, d.v), "load your data into memory first"),
    "groupby values": (lambda d: d.v.groupby(d.land).mean(), "when grouping by a chunked array"),
    "assigning": (lambda d: d.v.__setitem__((0, 0, 0), 1), "read-only; load"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_xarray_refuses_while_arrays_are_lazy(both: Pair, name: str) -> None:
    """As for dask's arrays; what is said helps, and loading does."""
    run, message = REFUSED[name]
    with observe() as reads, pytest.raises((ValueError, TypeError), match=message):
        run(both.virtual[0])
    assert reads.requests == 0
    check(Pair([both.virtual[0].compute()], [both.plain[0].copy(deep=True)]), lambda D: run(D[0]))
