"""Random chains of xarray operations on values that say where they stand; nothing is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.array import VirtualArray
from intarsia.io.fetch import observe
from tests.algebra import lay_out
from tests.xarray.surface import same

EXAMPLES = int(os.environ.get("INTARSIA_CHAINS", "80"))

EXPLICIT: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}

DIMS = ("t", "y", "x")


@dataclass
class Twice:
    """A dataset, virtual and in memory."""

    virtual: xr.Dataset
    plain: xr.Dataset

    def map(self, run: Callable[[xr.Dataset], xr.Dataset]) -> Twice:
        return Twice(run(self.virtual), run(self.plain))

    def with_other(self, other: Twice, run: Callable[..., xr.Dataset]) -> Twice:
        return Twice(run(self.virtual, other.virtual), run(self.plain, other.plain))


class Maker:
    """Lays out new datasets in files of a folder, each value different from all others."""

    def __init__(self, folder: Path, data: st.DataObject) -> None:
        self.folder, self.data = folder, data
        self.number = count()
        self.next = 1

    def dataset(self) -> Twice:
        draw = self.data.draw
        sizes = {dim: draw(st.integers(1, 4)) for dim in DIMS}
        coords: dict[str, Any] = {
            dim: np.array(draw(st.permutations(range(6))))[:size] + 0.0
            for dim, size in sizes.items()
            if draw(st.booleans())
        }
        virtual: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        for name in draw(st.sampled_from([("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")])):
            dims = {"a": DIMS, "b": ("t", "x"), "c": ("y",)}[name]
            if draw(st.booleans()):
                dims = tuple(reversed(dims))
            virtual[name], plain[name] = self.variable(dims, sizes)
        return Twice(xr.Dataset(virtual, coords), xr.Dataset(plain, coords))

    def variable(self, dims: tuple[str, ...], sizes: dict[str, int]) -> tuple[Any, Any]:
        draw = self.data.draw
        shape = tuple(sizes[dim] for dim in dims)
        dtype = draw(st.sampled_from(["<i2", ">i4", "<f4", "<f8", "|u1"]))
        values = (np.arange(np.prod(shape)) + self.next).reshape(shape).astype(dtype)
        self.next += 100
        chunks = tuple(draw(st.integers(1, size + 1)) for size in shape)
        array, expected = lay_out(
            self.folder / str(next(self.number)),
            values,
            chunks,
            form=draw(st.sampled_from(["dense", "sparse", "missing"])),
            absent=draw(st.lists(st.integers(0, 5), max_size=2)),
            zlevel=draw(st.sampled_from([None, 1])),
            fill=7,
        )
        return (dims, array), (dims, expected.astype(expected.dtype.newbyteorder("=")))


def _dim(draw: Any, ds: xr.Dataset) -> str | None:
    dims = sorted(str(dim) for dim in ds.sizes)
    return draw(st.sampled_from(dims)) if dims else None


def _slice(draw: Any, size: int) -> slice:
    bound = st.none() | st.integers(-size - 1, size + 1)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([1, 1, 2, 3, -1, -1, -2, -5])))


def _isel(draw: Any, maker: Maker, both: Twice) -> Twice:
    indexers: dict[str, Any] = {}
    for dim, size in both.plain.sizes.items():
        kind = draw(st.sampled_from(["none", "slice", "slice", "int", "list", "mask"]))
        if kind == "slice":
            indexers[dim] = _slice(draw, size)
        elif kind == "int" and size:
            indexers[dim] = draw(st.integers(-size, size - 1))
        elif kind == "list" and size:
            indexers[dim] = draw(st.lists(st.integers(-size, size - 1), max_size=5))
        elif kind == "mask":
            indexers[dim] = np.array(
                draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool
            )
    return both.map(lambda ds: ds.isel(indexers))


def _points(draw: Any, maker: Maker, both: Twice) -> Twice:
    dims = [dim for dim, size in both.plain.sizes.items() if size]
    dims = dims[: draw(st.integers(0, 2))]
    length = draw(st.integers(0, 4))
    indexers = {
        dim: xr.DataArray(
            np.array(
                draw(
                    st.lists(
                        st.integers(0, both.plain.sizes[dim] - 1), min_size=length, max_size=length
                    )
                ),
                np.int64,
            ),
            dims="p",
        )
        for dim in dims
        if "p" not in both.plain.dims
    }
    return both.map(lambda ds: ds.isel(indexers))


def _transpose(draw: Any, maker: Maker, both: Twice) -> Twice:
    order = draw(st.permutations(sorted(map(str, both.plain.dims))))
    return both.map(lambda ds: ds.transpose(*order))


def _expand(draw: Any, maker: Maker, both: Twice) -> Twice:
    name = f"n{len(both.plain.dims)}"
    if name in both.plain.variables or name in both.plain.dims:
        return both
    how = draw(st.sampled_from([1, 3, [5.0, 4.0]]))
    return both.map(lambda ds: ds.expand_dims({name: how}))


def _broadcast(draw: Any, maker: Maker, both: Twice) -> Twice:
    return both.map(lambda ds: xr.broadcast(ds)[0])


def _rename(draw: Any, maker: Maker, both: Twice) -> Twice:
    name = draw(st.sampled_from(sorted(map(str, both.plain.data_vars)) or [""]))
    new = name + "_"
    if not name or new in both.plain.variables:
        return both
    return both.map(lambda ds: ds.rename({name: new}))


def _reindex(draw: Any, maker: Maker, both: Twice) -> Twice:
    indexed = [dim for dim in both.plain.xindexes if both.plain.indexes[dim].is_unique]
    wanted = {
        dim: np.array(draw(st.lists(st.integers(0, 7), max_size=4, unique=True)), float)
        for dim in indexed
        if draw(st.booleans())
    }
    return both.map(lambda ds: ds.reindex(wanted))


def _shift(draw: Any, maker: Maker, both: Twice) -> Twice:
    dim = _dim(draw, both.plain)
    if dim is None:
        return both
    by = draw(st.integers(-3, 3))
    run = draw(st.sampled_from(["shift", "roll", "pad"]))
    if run == "pad":
        return both.map(lambda ds: ds.pad({dim: (abs(by), 1)}))
    return both.map(lambda ds: getattr(ds, run)({dim: by}))


def _concat(draw: Any, maker: Maker, both: Twice) -> Twice:
    """With itself, flipped or with a variable left out, along a dimension or a new one."""
    dim = _dim(draw, both.plain)
    names = sorted(map(str, both.plain.data_vars))
    absent = draw(st.sampled_from([None, *names]))
    new = f"k{len(both.plain.dims)}"
    if dim is None or new in both.plain.dims or new in both.plain.variables:
        return both
    if draw(st.booleans()):
        along = {dim: slice(None, None, -1)}
    else:
        dim, along = new, {}
    order = draw(st.sampled_from([1, -1]))

    def run(ds: xr.Dataset) -> xr.Dataset:
        other = ds.isel(along)
        if absent is not None and len(names) > 1:
            other = other.drop_vars(absent)
        parts = [ds, other][::order]
        if dim == new:
            return xr.concat(
                parts, dim, data_vars="all", coords="minimal", compat="override", join="override"
            )
        return xr.concat(parts, dim, join="outer", **EXPLICIT)

    try:
        run(both.plain)
    except ValueError:  # a variable that is not in the first, or an index with duplicates
        return both
    return both.map(run)


def _outer(draw: Any, maker: Maker, both: Twice) -> Twice:
    """Merge or concatenate with another dataset whose labels differ."""
    other = maker.dataset()
    how = draw(st.sampled_from(["merge", "concat"]))

    def run(one: xr.Dataset, two: xr.Dataset) -> xr.Dataset:
        if how == "merge":
            two = two.rename({name: f"{name}{len(one.data_vars)}z" for name in two.data_vars})
            return xr.merge([one, two], join="outer", compat="override")
        return xr.concat([one, two], "t", join="outer", **EXPLICIT)

    try:
        run(both.plain, other.plain)
    except (ValueError, xr.MergeError, KeyError):  # sizes or dimensions that don't fit
        return both
    return both.with_other(other, run)


OPERATIONS = [
    *(_isel, _isel, _points, _transpose, _expand, _broadcast, _rename, _reindex, _shift, _concat),
    *(_concat, _outer, _outer),
]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="INTARSIA_CHAINS" not in os.environ,
)
@given(data=st.data())
def test_chains(data: st.DataObject, tmp_path_factory: Any) -> None:
    maker = Maker(tmp_path_factory.mktemp("chain"), data)
    both = maker.dataset()
    with observe() as reads:
        for _ in range(data.draw(st.integers(1, 6))):
            operation = data.draw(st.sampled_from(OPERATIONS))
            both = operation(data.draw, maker, both)
            if both.plain.nbytes > 100_000 or len(both.plain.dims) > 6:
                break
            if 0 in both.plain.sizes.values():  # xarray makes new arrays where there is nothing
                break
        for name, variable in both.virtual.data_vars.items():
            assert variable.dtype == both.plain[name].dtype
            assert variable.shape == both.plain[name].shape
            assert isinstance(variable.variable._data, VirtualArray) or not variable.size, name
    assert reads.requests == 0
    same(both.virtual, both.plain)
