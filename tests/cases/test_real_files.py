"""Real files: every variable equals xarray's or is refused by name, and cut ones make the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import intarsia
from tests import oracle
from tests.check import check_chains, is_virtual, tolerant
from tests.compare import assert_identical, differences
from tests.oracle import OraclePool, Question
from tests.real import real_file, real_files
from tests.unlike import (
    Attribute,
    FileSpec,
    Filter,
    GroupSpec,
    VariableSpec,
    dimension,
    text,
    typed,
    write_file,
)
from tests.unlike.families import EXPLICIT

CMIP6 = "hdf5/noy_AERmonZ_UKESM1-0-LL_piControl_r1i1p1f2_gnz_200001-200012.nc"
BASINS = "hdf5/basin_mask.nc"
GZIP, SHUFFLE, CHECKSUM = Filter("gzip"), Filter("shuffle"), Filter("fletcher32")


@pytest.fixture(scope="module")
def pool() -> Iterator[OraclePool]:
    """Old files and plug-in filters: the oracle reads them in a process of its own."""
    with OraclePool() as opened:
        yield opened


def _groups(path: Path) -> list[str]:
    found = ["/"]
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.append(f"/{name}") if isinstance(item, h5py.Group) else None
        )
    return found


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_every_variable_is_xarrays(path: Path, pool: OraclePool) -> None:
    for group in _groups(path):
        arguments: dict[str, Any] = {"group": group}
        with tolerant():
            ds = intarsia.open_dataset(path, **arguments)
        expected = pool.ask(Question(str(path), arguments))
        assert set(ds.variables) == set(expected.variables)
        assert ds.attrs.keys() == expected.attrs.keys()
        for name in list(ds.variables):
            one, wanted = ds[[name]].load(), expected[[name]]
            assert set(one.coords) == set(wanted.coords)
            assert_identical(one, wanted)


@pytest.mark.parametrize("path", real_files("hdf5/*"))
@pytest.mark.parametrize(
    "arguments",
    [
        {"decode_cf": False},
        {"mask_and_scale": False, "decode_times": False},
        {"phony_dims": "sort"},
    ],
    ids=",".join,
)
def test_with_other_options(path: Path, pool: OraclePool, arguments: dict[str, Any]) -> None:
    with tolerant():
        ds = intarsia.open_dataset(path, **arguments)
    assert_identical(ds, pool.ask(Question(str(path), arguments)))


@pytest.mark.parametrize("path", real_files("hdf5/*.nc"))
def test_a_file_beside_itself(path: Path, pool: OraclePool) -> None:
    arguments: dict[str, Any] = {
        "combine": "nested",
        "concat_dim": "copy",
        **EXPLICIT,
        "data_vars": "all",
    }
    expected = pool.ask(Question([str(path)] * 2, arguments))
    with tolerant():
        ds = intarsia.open_mfdataset([path, path], **arguments)
    assert_identical(ds, expected)


# --------------------------------------------------------------------- cut into unlike parts


@dataclass(frozen=True)
class Storage:
    """How one part of a cut file stores the variable."""

    stored: str
    dims: tuple[str, ...] | None = None
    chunks: tuple[int, ...] | None = None
    filters: tuple[Filter, ...] = ()
    scale: float | None = None


def _attribute(value: Any) -> Attribute:
    if isinstance(value, str):
        return text(value)
    array = np.asarray(value)
    return typed(array.tolist(), array.dtype.str)


def _variable(raw: xr.DataArray, storage: Storage | None) -> VariableSpec:
    """`raw` as a spec; `storage` says how, with values that it can hold exactly."""
    attrs = {str(k): _attribute(v) for k, v in raw.attrs.items()}
    name = str(raw.name)
    if storage is None:
        return VariableSpec(
            name,
            tuple(str(d) for d in raw.dims),
            raw.dtype.str,
            literal=raw.values,
            attrs=tuple(attrs.items()),
        )
    turned = raw.transpose(*(storage.dims or raw.dims))
    values = turned.values
    missing = [attrs[n].value for n in ("_FillValue", "missing_value") if n in attrs]
    hole = np.isnan(values) | np.isin(values, missing)
    if storage.scale is not None:
        values = values / storage.scale
        attrs["scale_factor"] = typed(storage.scale, "<f4")
    if np.dtype(storage.stored).kind == "i":
        values = np.where(hole, -9, values)
        attrs["_FillValue"] = typed(-9, storage.stored)
        attrs.pop("missing_value", None)
    elif "_FillValue" in attrs:
        attrs["_FillValue"] = typed(attrs["_FillValue"].value, storage.stored)
    return VariableSpec(
        name,
        tuple(str(d) for d in turned.dims),
        storage.stored,
        layout="chunked" if storage.chunks else "contiguous",
        chunks=storage.chunks,
        filters=storage.filters,
        literal=values,
        attrs=tuple(attrs.items()),
    )


def _cut(
    raw: xr.Dataset, name: str, dim: str, edges: tuple[int, ...], storages: tuple[Storage, ...]
) -> list[FileSpec]:
    """A spec per stretch of `dim` between `edges`, its variable `name` stored in its own way."""
    specs = []
    for i, storage in enumerate(storages):
        part = raw.isel({dim: slice(edges[i], edges[i + 1])})
        made = tuple(
            _variable(part[n], storage if n == name else None)
            for n in part.variables
            if part[n].dtype.kind in "iuf"
        )
        dims = tuple(dimension(str(d), n) for d, n in part.sizes.items())
        root = GroupSpec(
            dims=dims,
            variables=made,
            attrs=tuple((str(k), _attribute(v)) for k, v in part.attrs.items()),
        )
        specs.append(FileSpec(f"cut{i}.nc", root))
    return specs


NOY = (
    Storage("<f4", chunks=(1, 13, 50), filters=(SHUFFLE, GZIP)),
    Storage(">f4", dims=("lat", "time", "plev"), chunks=(40, 2, 39), filters=(GZIP, CHECKSUM)),
    Storage("<f8", dims=("plev", "lat", "time")),
    Storage("<f4", chunks=(3, 39, 144), filters=(Filter("lzf"),)),
)
BASIN = (
    Storage("<f4", chunks=(1, 90, 90), filters=(SHUFFLE, GZIP)),
    Storage("<i2", chunks=(4, 180, 100), filters=(GZIP,)),
    Storage(">i4", dims=("Y", "X", "Z"), chunks=(64, 64, 5), filters=(CHECKSUM, GZIP)),
    Storage("<i2", scale=0.5, chunks=(3, 60, 360), filters=(Filter("szip", (8,)),)),
    Storage("<f8", dims=("X", "Z", "Y")),
    Storage("<i1", chunks=(4, 20, 20), filters=(GZIP,)),
)


def _whole(path: Path, drop: tuple[str, ...] = ()) -> tuple[xr.Dataset, xr.Dataset]:
    """(undecoded, decoded) content of a real file."""
    with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as ds:
        raw = ds.drop_vars(drop).load()
    return raw, oracle.open_dataset(path).drop_vars(drop)


def _same_values(ds: xr.Dataset, whole: xr.Dataset, name: str) -> None:
    """Values equal the whole's, in the float type that the parts share."""
    ours = ds[name].transpose(*whole[name].dims).values
    assert np.array_equal(ours, whole[name].values.astype(ours.dtype), equal_nan=True)


def test_cmip6_cut_and_put_together(tmp_path: Path) -> None:
    raw, whole = _whole(real_file(CMIP6))
    edges = (0, 3, 5, 9, 12)
    paths = [str(write_file(tmp_path, spec)) for spec in _cut(raw, "noy", "time", edges, NOY)]
    arguments: dict[str, Any] = {"combine": "nested", "concat_dim": "time", **EXPLICIT}
    ds = intarsia.open_mfdataset(paths, **arguments)
    assert is_virtual(ds, "noy")
    expected = oracle.open_mfdataset(paths, **arguments)
    chains = [
        (("isel", {"time": slice(None, None, -1), "plev": slice(3, 30, 5)}),),
        (("isel", {"lat": 70}), ("transpose", ("plev",))),
    ]
    check_chains(ds, expected, chains, ["noy"])
    _same_values(ds, whole, "noy")
    for name in ("time", "time_bnds", "lat", "plev"):
        assert not [d for d in differences(ds[[name]], whole[[name]]) if "attribute" not in d]


def test_basins_cut_and_put_together(tmp_path: Path) -> None:
    raw, whole = _whole(real_file(BASINS))
    edges = (0, 5, 11, 17, 20, 28, 33)
    paths = [str(write_file(tmp_path, spec)) for spec in _cut(raw, "basin", "Z", edges, BASIN)]
    arguments: dict[str, Any] = {"combine": "nested", "concat_dim": "Z", **EXPLICIT}
    ds = intarsia.open_mfdataset(paths, **arguments)
    assert is_virtual(ds, "basin")
    expected = oracle.open_mfdataset(paths, **arguments)
    check_chains(ds, expected, [(("isel", {"Z": slice(1, None, 3), "Y": slice(90, 20, -7)}),)])
    _same_values(ds, whole, "basin")
    by_coords = intarsia.open_mfdataset(paths[::-1], **EXPLICIT)
    _same_values(by_coords, whole, "basin")
