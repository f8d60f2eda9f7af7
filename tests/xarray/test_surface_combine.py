"""xarray's ways of combining, on virtual datasets: identical to those in memory, nothing read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from intarsia.array import VirtualArray
from tests.xarray.surface import Datasets, Pair, check, pair, same, series, table


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair(tmp_path_factory.mktemp("combine"), series())


@pytest.fixture(params=[False, True], ids=["old-defaults", "new-defaults"])
def defaults(request: pytest.FixtureRequest) -> Iterator[None]:
    with xr.set_options(use_new_combine_kwarg_defaults=request.param):
        yield


def apart(D: Datasets) -> Datasets:
    """The same without what is equal everywhere and would have to be compared."""
    return [ds.drop_vars(["land", "area"]) for ds in D]


def shifted(D: Datasets, by: float = 10.0) -> Datasets:
    return [ds.assign_coords(lat=ds.lat + by * n) for n, ds in enumerate(D)]


def mosaic(D: Datasets) -> list[list[xr.Dataset]]:
    """Pieces along time and lat, nested."""
    return [[ds.isel(lat=slice(0, 2)), ds.isel(lat=slice(2, None))] for ds in D]


def flat(rows: list[list[xr.Dataset]]) -> Datasets:
    return [ds for row in rows for ds in row]


EXPLICIT: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}

STAYS = {
    "concat": lambda D: xr.concat(D, "time", data_vars="all"),
    "concat minimal": lambda D: xr.concat(D, "time", **EXPLICIT),
    "concat named": lambda D: xr.concat(D, "time", data_vars=["land"], coords=["area"]),
    "concat all coords": lambda D: xr.concat(D, "time", data_vars="all", coords="all"),
    "concat one": lambda D: xr.concat(D[:1], "time", data_vars="all"),
    "concat generator": lambda D: xr.concat((ds for ds in D), "time", **EXPLICIT),
    "concat of concats": lambda D: xr.concat(
        [xr.concat(D[:2], "time", **EXPLICIT), D[2]], "time", **EXPLICIT
    ),
    "concat variable": lambda D: xr.concat([ds.v for ds in D], "time"),
    "concat dataarray dim": lambda D: xr.concat(
        [ds.v for ds in D], xr.DataArray([3, 1, 2], dims="run", name="run"), join="override"
    ),
    "concat other order": lambda D: xr.concat(
        [D[0], D[1].transpose("lat", ...)], "time", **EXPLICIT
    ),
    "concat not monotonic": lambda D: xr.concat([D[2], D[0], D[1]], "time", **EXPLICIT),
    "concat reversed lat": lambda D: xr.concat(
        [D[0], D[1].isel(lat=slice(None, None, -1))], "time", join="outer", **EXPLICIT
    ),
    "concat new dim": lambda D: xr.concat(
        [ds.isel(time=0, drop=True) for ds in D], "run", data_vars="all"
    ),
    "concat scalars": lambda D: xr.concat(
        [ds.isel(time=0, lat=1, lon=2) for ds in D],
        "time",
        data_vars="all",
        coords="minimal",
        compat="override",
    ),
    "concat scalar coordinate": lambda D: xr.concat(
        [ds.isel(time=1) for ds in D], "time", data_vars="all", coords="minimal", compat="override"
    ),
    "concat new dim outer": lambda D: xr.concat(apart(D), "run", join="outer"),
    "concat empty piece": lambda D: xr.concat(
        [D[0], D[1].isel(time=slice(0, 0))], "time", **EXPLICIT
    ),
    "concat fill value": lambda D: xr.concat(
        [D[0], D[1].drop_vars("v")], "time", fill_value=-7, **EXPLICIT
    ),
    "concat fill values": lambda D: xr.concat(
        shifted(D), "time", fill_value={"v": 5, "f": 2.5}, join="outer", **EXPLICIT
    ),
    "nested": lambda D: xr.combine_nested(D, "time", **EXPLICIT),
    "nested 2-D": lambda D: xr.combine_nested(
        mosaic(apart(D)), ["time", "lat"], data_vars="minimal", coords="minimal", compat="override"
    ),
    "nested new dim": lambda D: xr.combine_nested(
        apart(D), "run", join="override", data_vars="all", coords="minimal", compat="override"
    ),
    "by coords": lambda D: xr.combine_by_coords(
        [ds.drop_vars("step") for ds in (D[2], D[0], D[1])],
        data_vars="minimal",
        coords="minimal",
        compat="override",
    ),
    "by coords 2-D": lambda D: xr.combine_by_coords(
        [ds.drop_vars(["d", "step"]) for ds in flat(mosaic(apart(D)))],
        data_vars="minimal",
        coords="minimal",
        compat="override",
    ),
    "merge": lambda D: xr.merge([D[0][["v"]], D[0][["f", "d"]]]),
    "merge renamed": lambda D: xr.merge([D[0], D[0].rename(v="w").drop_vars(["f", "d", "land"])]),
    "merge override": lambda D: xr.merge([D[0], D[0]], compat="override"),
    "merge method": lambda D: D[0][["v"]].merge(D[0][["f"]]),
    "assign": lambda D: D[0].assign(w=D[0].v, x=("lat", [1, 2, 3])),
    "update": lambda D: D[0].copy().update({"w": D[0].v}),
    "setitem": lambda D: _set(D[0].copy(), "w", D[0].v),
    "align": lambda D: xr.align(D[0], D[1].assign_coords(time=D[0].time[::-1]), join="left"),
    "tree": lambda D: xr.DataTree.from_dict({"/a": D[0], "/b": D[1]}),
    "to_dataarray": lambda D: D[0][["v", "f"]].to_dataarray(),
}


def _set(ds: xr.Dataset, name: str, value: Any) -> xr.Dataset:
    ds[name] = value
    return ds


@table(STAYS)
def test_combines_without_reading(both: Pair, run: Callable[[Datasets], Any]) -> None:
    check(both, run, reads=False)


def test_defaults(both: Pair, defaults: None) -> None:
    """With what xarray's defaults are, old and new."""
    for run in (
        lambda D: xr.concat(apart(D), "time"),
        lambda D: xr.concat(apart(D), "run", join="override"),
        lambda D: xr.combine_nested(apart(D), "time"),
        lambda D: xr.combine_by_coords([ds.drop_vars("step") for ds in apart(D)]),
        lambda D: xr.merge([D[0][["v"]], D[0][["f"]]]),
    ):
        check(both, run, reads=False)


@pytest.mark.parametrize("join", ["outer", "inner", "left", "right", "override"])
@pytest.mark.parametrize("way", ["concat", "merge", "nested"])
def test_joins(both: Pair, join: Any, way: str) -> None:
    def run(D: Datasets) -> Any:
        if way == "merge":
            others = shifted([ds.drop_vars("land") for ds in D])
            others = [
                ds.drop_vars("area")
                .rename(v=f"v{n}", f=f"f{n}", d=f"d{n}")
                .assign_coords(time=D[0].time, step=D[0].step)
                for n, ds in enumerate(others)
            ]
            return xr.merge(others, join=join, compat="override")
        if way == "nested":
            return xr.combine_nested(shifted(apart(D)), "time", join=join, **EXPLICIT)
        return xr.concat(shifted(D), "time", join=join, **EXPLICIT)

    check(both, run, reads=False)


def test_join_exact_refuses(both: Pair) -> None:
    with pytest.raises(xr.AlignmentError):
        xr.concat(shifted(both.virtual), "time", join="exact")


CHOICES = list(
    product(
        ["minimal", "different", "all"],
        ["minimal", "different", "all"],
        ["equals", "no_conflicts", "identical", "override", "broadcast_equals"],
    )
)


@pytest.mark.parametrize(("data_vars", "coords", "compat"), CHOICES)
def test_options(both: Pair, data_vars: Any, coords: Any, compat: Any) -> None:
    """Every way of telling xarray what to compare; only comparing what differs may read."""
    chosen: dict[str, Any] = {"data_vars": data_vars, "coords": coords, "compat": compat}

    def run(D: Datasets) -> Any:
        return xr.concat(D, "time", **chosen)

    try:
        run(both.plain)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[:20]):
            run(both.virtual)
        return
    # static variables are laid out once per file here, so that they have to be read to be compared
    check(both, run)


def test_equal_objects_are_not_compared(tmp_path: Path) -> None:
    """A static variable that is one object in all datasets is known to be equal."""
    made = pair(tmp_path, series())
    shared = made.virtual[0].land.variable
    datasets = [ds.assign(land=shared) for ds in made.virtual]
    both = Pair(datasets, made.plain)
    for compat in ("equals", "identical", "broadcast_equals", "no_conflicts"):
        options: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": compat}

        def concatenated(D: Datasets, options: Any = options) -> Any:
            return xr.concat(D, "time", **options)

        def merged(D: Datasets, compat: Any = compat) -> Any:
            return xr.merge([D[0][["land"]], D[1][["land"]]], compat=compat)

        check(both, concatenated, reads=False)
        check(both, merged, reads=False)


ABSENT = ["v", "f", "d"]


@pytest.mark.parametrize("name", ABSENT)
@pytest.mark.parametrize("where", [0, 1, 2])
def test_absent(both: Pair, name: str, where: int) -> None:
    def run(D: Datasets) -> Any:
        return xr.concat(
            [ds.drop_vars(name) if n == where else ds for n, ds in enumerate(D)], "time", **EXPLICIT
        )

    check(both, run, reads=False)


KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16", "S3", "U2"]


def of_kind(kind: str, size: int = 4) -> np.ndarray:
    values = np.arange(2 * size).reshape(2, size)
    return values.astype(kind) if kind != "?" else values % 3 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_absent_of_any_kind(tmp_path: Path, kind: str) -> None:
    """A hole takes xarray's own type and fill; what becomes objects is loaded."""
    one = xr.Dataset({"x": (("t", "y"), of_kind(kind)), "z": (("t", "y"), of_kind("f4"))})
    made = pair(tmp_path, [one, one.copy()])

    def run(D: Datasets) -> Any:
        return xr.concat([D[0], D[1].drop_vars("x")], "t", **EXPLICIT)

    whole = check(made, run)
    numeric = np.dtype(kind).kind in "iufcb"
    assert isinstance(whole.x.variable._data, VirtualArray) == numeric
    check(made, lambda D: D[0].assign_coords(y=[0, 1, 2, 3]).reindex(y=[3, 9, 0]))
    check(made, lambda D: D[0].x.shift(t=1))
    check(made, lambda D: D[0].pad(t=1))


@pytest.mark.parametrize(("one", "other"), [(a, b) for a in KINDS for b in KINDS if a != b])
def test_types_meet(tmp_path: Path, one: str, other: str) -> None:
    """Concatenating unlike types promotes as xarray does, or raises the same."""
    datasets = [
        xr.Dataset({"x": (("t", "y"), of_kind(one))}),
        xr.Dataset({"x": (("t", "y"), of_kind(other))}),
    ]
    made = pair(tmp_path, datasets)

    def run(D: Datasets) -> Any:
        return xr.concat(D, "t", **EXPLICIT)

    try:
        expected = run(made.plain)
    except (TypeError, np.exceptions.DTypePromotionError) as error:
        with pytest.raises(type(error)):
            run(made.virtual)
        return
    actual = run(made.virtual)
    if expected.x.dtype != object:
        assert isinstance(actual.x.variable._data, VirtualArray)
    same(actual, expected)


def test_virtual_beside_memory(both: Pair) -> None:
    """What is in memory becomes part of the virtual whole."""
    mixed = Pair([both.virtual[0], both.plain[1], both.virtual[2]], both.plain)
    check(mixed, lambda D: xr.concat(D, "time", **EXPLICIT), reads=False)
    check(mixed, lambda D: xr.concat([D[1], D[0]], "time", **EXPLICIT), reads=False)
    check(
        mixed,
        lambda D: xr.merge([D[0][["v"]], D[1][["f"]]], join="outer", compat="override"),
        reads=False,
    )
