"""Saving: what comes back is what was saved; what can't be kept is refused, and nothing is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from xarray.indexes import PandasIndex, RangeIndex

import intarsia
import intarsia.xarray.accessor  # registers .intarsia
from intarsia.array import VirtualArray
from intarsia.errors import StoreError, StoreExists, UnsupportedError, UnsupportedVariable
from intarsia.io.fetch import observe
from intarsia.scan.protocol import Opaque
from intarsia.xarray import saving
from intarsia.xarray.scanned import refusing
from tests.algebra import lay_out
from tests.xarray.stores import is_virtual, of_every_kind, opened, plain_series, same, write_files


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_files(tmp_path_factory.mktemp("home") / "sst")


@pytest.fixture(scope="module")
def ds(paths: list[Path]) -> xr.Dataset:
    return opened(paths)


@pytest.fixture(scope="module")
def plain(paths: list[Path]) -> xr.Dataset:
    return plain_series(paths)


def test_values_of_every_kind_come_back(tmp_path: Path) -> None:
    ds = of_every_kind()
    summary = ds.intarsia.save(tmp_path / "a.intarsia")
    assert (summary.variables, summary.copied) == (len(ds.variables), len(ds.variables))
    again = intarsia.open_dataset(tmp_path / "a.intarsia")
    same(again, ds)
    for name, variable in ds.variables.items():
        assert again[name].encoding == saving.kept_encoding(variable.encoding), name
    assert again.encoding == {
        "unlimited_dims": {"x"},
        "source": str(tmp_path / "a.intarsia"),
    }
    assert again["x"].encoding["dtype"].metadata == {"vlen": str}
    same(again.pipe(_saved, tmp_path / "b.zip"), ds)


def _saved(ds: xr.Dataset, path: Path, **arguments: Any) -> xr.Dataset:
    ds.intarsia.save(path, **arguments)
    return intarsia.open_dataset(path)


def test_virtual_variables_stay_virtual(ds: xr.Dataset, plain: xr.Dataset, tmp_path: Path) -> None:
    with observe() as reads:
        summary = ds.intarsia.save(tmp_path / "a.intarsia")
        again = intarsia.open_dataset(tmp_path / "a.intarsia")
    assert reads.requests == 0
    assert summary.sources == 3
    assert summary.variables - summary.copied == 6
    assert "3 sources" in repr(summary)
    for name in ("v", "f", "d", "land", "area", "step"):
        assert is_virtual(again, name), name
    same(again, plain)
    assert again.encoding["unlimited_dims"] == {"time"}
    assert again.time.encoding == saving.kept_encoding(ds.time.encoding)


CHANGED: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
    "sliced": lambda d: d.isel(time=slice(1, None, 3), lon=slice(None, None, -1)),
    "picked": lambda d: d.isel(time=[5, 2, 2], lat=1),
    "transposed": lambda d: d.transpose("lon", ...),
    "broadcast": lambda d: d.assign(w=d.land.broadcast_like(d.v)),
    "reindexed": lambda d: d.reindex(lat=[30.0, 15.0]),
    "padded": lambda d: d.shift(time=2),
    "cast": lambda d: d.astype("f4"),
    "constant": lambda d: d.assign(w=xr.full_like(d.v, 7)),
    "missing": lambda d: d.assign(w=d.v.isnull()),
    "renamed": lambda d: d.rename(v="a/b", f="zarr.json", d="..", time="__t"),
    "coordinates": lambda d: d.set_coords("v").reset_coords("area"),
    "empty": lambda d: d.isel(time=slice(0, 0)),
    "scalar": lambda d: d.isel(time=3, lat=0, lon=1),
    "beside memory": lambda d: xr.concat([d, d.isel(time=[0]).compute()], "time", data_vars="all"),
    "twice": lambda d: xr.concat([d, d.isel(time=slice(None, None, -1))], "time", data_vars="all"),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED.keys())
def test_what_was_made_of_virtual_variables(
    ds: xr.Dataset,
    plain: xr.Dataset,
    tmp_path: Path,
    change: Callable[[xr.Dataset], xr.Dataset],
) -> None:
    made = change(ds)
    with observe() as reads:
        again = _saved(made, tmp_path / "a.intarsia")
    assert reads.requests == 0
    virtual = {name for name in made.variables if is_virtual(made, str(name))}
    assert virtual
    assert {name for name in again.variables if is_virtual(again, str(name))} == virtual
    same(again, change(plain))


def test_virtual_values_without_a_case_are_copied(tmp_path: Path) -> None:
    """Strings have no place in a table of references; nor do casts to them."""
    text = np.array([b"ab", b"c", b""])
    array, _ = lay_out(tmp_path / "text", text, (2,))
    numbers, _ = lay_out(tmp_path / "numbers", np.arange(3, dtype="i4"), (2,))
    ds = xr.Dataset({"s": ("x", array), "u": ("x", numbers.astype("U3")), "n": ("x", numbers)})
    summary = ds.intarsia.save(tmp_path / "a.intarsia")
    assert summary.copied == 2
    again = intarsia.open_dataset(tmp_path / "a.intarsia")
    assert is_virtual(again, "n")
    same(again, ds)


def test_lazy_arrays_of_others_are_computed(
    ds: xr.Dataset, plain: xr.Dataset, paths: list[Path], tmp_path: Path
) -> None:
    lazy = xr.open_dataset(paths[0], engine="h5netcdf")
    mixed = ds.isel(time=slice(0, 4)).assign(
        chunked=ds.v.isel(time=slice(0, 4)).chunk(time=2) * 2,
        other=lazy.f,
        number=((), da.from_array(np.array(3))),
    )
    again = _saved(mixed, tmp_path / "a.intarsia")
    assert type(again.chunked.variable._data) is np.ndarray
    expected = plain.isel(time=slice(0, 4))
    same(again, expected.assign(chunked=expected.v * 2, other=lazy.f, number=3))
    lazy.close()


def test_much_is_not_loaded_to_be_copied(ds: xr.Dataset, plain: xr.Dataset, tmp_path: Path) -> None:
    large = ds.assign(big=(("a", "b"), da.zeros((20_000, 20_000))), small=("a", da.zeros(20_000)))
    with pytest.raises(
        UnsupportedVariable, match=r"3,200,160,000 bytes .* limit is 1,073"
    ) as error:
        large.intarsia.save(tmp_path / "a.intarsia")
    assert error.value.array == "big"
    assert "max_copied=" in str(error.value)
    with pytest.raises(UnsupportedVariable, match="the limit is 100"):
        ds.chunk().intarsia.save(tmp_path / "a.intarsia", max_copied=100)
    assert not any(tmp_path.iterdir())
    same(_saved(plain, tmp_path / "a.intarsia", max_copied=0), plain)


class _Duck:
    shape = (2,)
    ndim = 1
    dtype = np.dtype("f8")

    def __array_function__(self, *args: Any) -> Any:
        return NotImplemented

    def __array_ufunc__(self, *args: Any) -> Any:
        return NotImplemented


REFUSED: dict[str, tuple[Callable[[], xr.Dataset], str, str]] = {
    "multi-index": (
        lambda: xr.Dataset({"v": (("a", "b"), np.zeros((2, 2)))}).stack(z=("a", "b")),
        "z",
        "reset_index",
    ),
    "name": (lambda: xr.Dataset({3: ("x", [1])}), "3", "rename it"),
    "dimension": (lambda: xr.Dataset({"v": ((0,), [1])}), "v", "rename the dimension"),
    "duck": (lambda: xr.Dataset({"v": ("x", _Duck())}), "v", "make a NumPy array"),
    "pandas": (
        lambda: xr.Dataset({"v": ("x", pd.array([1, None], "Int64"))}),
        "v",
        "make a NumPy array",
    ),
    "category": (
        lambda: xr.Dataset(coords={"x": pd.CategoricalIndex(["a", "b"])}),
        "x",
        "make a NumPy array|cast",
    ),
    "compound": (
        lambda: xr.Dataset({"v": ("x", np.zeros(2, [("a", "i4")]))}),
        "v",
        "save its fields",
    ),
    "objects": (
        lambda: xr.Dataset({"v": ("x", np.array([1, "a"], object))}),
        "v",
        "astype",
    ),
    "a type of pandas": (
        lambda: xr.Dataset({"v": ("x", pd.array([1, None], dtype="Int64"))}),
        "v",
        "of type Int64Dtype.*a NumPy array",
    ),
    "an index of pandas' own type": (
        lambda: xr.Dataset(coords={"v": pd.period_range("2001", periods=2, freq="D")}),
        "v",
        r"of type period\[D\].*a NumPy array",
    ),
    "attribute": (
        lambda: xr.Dataset({"v": ("x", [1], {"odd": pd.Timestamp("2001")})}),
        "v",
        "attribute 'odd'.*delete it",
    ),
    "encoding": (
        lambda: xr.Dataset({"v": ("x", [1], {}, {"odd": object()})}),
        "v",
        "encoding 'odd'.*delete it",
    ),
}


@pytest.mark.parametrize(("make", "name", "remedy"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_by_name(
    tmp_path: Path, make: Callable[[], xr.Dataset], name: str, remedy: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"(?s){remedy}") as error:
        make().intarsia.save(tmp_path / "a.intarsia")
    assert error.value.array == name
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("group", ["..", "../a", "a/./b", "a/b/.."])
def test_groups_that_no_tree_can_have(tmp_path: Path, group: str) -> None:
    with pytest.raises(ValueError, match=r"can't hold '\.' or '\.\.'"):
        xr.Dataset({"v": ("x", [1])}).intarsia.save(tmp_path / "a.intarsia", group=group)
    assert not any(tmp_path.iterdir())


def test_wrong_arguments(tmp_path: Path) -> None:
    accessor = xr.Dataset({"v": ("x", [1])}).intarsia
    with pytest.raises(ValueError, match="max_copied must be 0 or more, got -1"):
        accessor.save(tmp_path / "a.intarsia", max_copied=-1)
    with pytest.raises(TypeError, match="a mapping of names to places, got 'sst'"):
        accessor.save(tmp_path / "a.intarsia", containers="sst")
    masked = xr.Dataset(attrs={"odd": np.ma.masked})
    with pytest.raises(UnsupportedError, match="attribute 'odd'.*MaskedConstant"):
        masked.intarsia.save(tmp_path / "a.intarsia")
    assert not any(tmp_path.iterdir())


def test_what_can_not_be_read_is_not_saved(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fine"] = np.arange(4)
        odd = h5py.h5t.STD_I16LE.copy()
        odd.set_precision(12)  # which the library turns into numbers; not in chunks
        h5py.h5d.create(file.id, b"far", odd, h5py.h5s.create_simple((3,)))
    ds = intarsia.open_dataset(tmp_path / "a.h5", phony_dims="sort")
    with pytest.raises(UnsupportedVariable, match="precision of its own") as error:
        ds.intarsia.save(tmp_path / "a.intarsia")
    assert error.value.array == "far"
    assert "unsupported='copy'" in str(error.value)
    assert "drop_vars()" in str(error.value)
    for ways in (
        ds.drop_vars("far"),
        intarsia.open_dataset(tmp_path / "a.h5", phony_dims="sort", unsupported="copy"),
        intarsia.open_dataset(tmp_path / "a.h5", phony_dims="sort", unsupported="skip"),
    ):
        same(_saved(ways, tmp_path / "a.intarsia", mode="w"), ways)
    skipped = intarsia.open_dataset(tmp_path / "a.intarsia").intarsia.report()
    assert "left out of a.h5: 'far'" in str(skipped)


def test_a_part_cut_away_is_not_missed(ds: xr.Dataset, tmp_path: Path) -> None:
    """What is refused in a part that the dataset no longer has is no reason to refuse the rest."""
    segments = ds.v.data.segments
    bad = refusing(Opaque((2, 3, 5), np.dtype("f4"), "no codec"), segments.sources, "v")
    both = xr.Dataset({"v": (("time", "lat", "lon"), np.concatenate([ds.v.data, bad]))})
    with pytest.raises(UnsupportedVariable, match="no codec"):
        both.intarsia.save(tmp_path / "a.intarsia")
    part = both.isel(time=slice(0, 12))
    same(_saved(part, tmp_path / "a.intarsia"), part)


def test_indexes(tmp_path: Path) -> None:
    ds = of_every_kind()
    for number, made in enumerate(
        (
            ds.drop_indexes("x"),
            ds.drop_indexes(["x", "y"]),
            ds.set_xindex("label", PandasIndex),
            ds.drop_indexes("x").set_xindex("label", PandasIndex),
            ds.swap_dims(x="label"),
        )
    ):
        again = _saved(made, tmp_path / f"{number}.intarsia")
        same(again, made)
        assert again.xindexes.keys() == made.xindexes.keys()
        same(_saved(again, tmp_path / f"{number}.zip"), made)
    bare = intarsia.open_dataset(tmp_path / "2.intarsia", create_default_indexes=False)
    assert not bare.xindexes
    ranged = xr.Dataset(coords=xr.Coordinates.from_xindex(RangeIndex.arange(0, 5, dim="z")))
    again = _saved(ranged, tmp_path / "range.intarsia")
    assert type(again.xindexes["z"]) is PandasIndex
    assert again.z.equals(ranged.z)


def test_nothing_of_the_one_who_saves_is_inside(paths: list[Path], tmp_path: Path) -> None:
    """No folder above the sources and the store: both can be given to others, and moved."""
    home = paths[0].parent.parent
    broken = home / "sst" / "3.nc"
    broken.write_bytes(b"nothing")
    ds = opened([*paths, broken], on_error="skip")
    assert str(home) in str(ds.intarsia.report())
    ds.intarsia.save(home / "a.intarsia")
    for path in (home / "a.intarsia").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for word in (*home.parts[1:], str(Path.home())):
                assert word == "sst" or word.encode() not in data, (path, word)
    moved = tmp_path / "elsewhere"
    home.rename(moved)
    try:
        again = intarsia.open_dataset(moved / "a.intarsia")
        same(again, plain_series([moved / "sst" / path.name for path in paths]))
        told = " ".join(str(again.intarsia.report()).split())
        assert "left out: this is not HDF5; it looks like text (7 bytes): sst/3.nc" in told, told
    finally:
        moved.rename(home)


def test_modes(ds: xr.Dataset, plain: xr.Dataset, paths: list[Path], tmp_path: Path) -> None:
    ds.intarsia.save(tmp_path / "a.intarsia")
    with pytest.raises(StoreExists):
        ds.intarsia.save(tmp_path / "a.intarsia")
    with pytest.raises(ValueError, match="mode must be"):
        ds.intarsia.save(tmp_path / "a.intarsia", "a")
    part = intarsia.open_dataset(tmp_path / "a.intarsia").isel(time=slice(2, 5))
    part.intarsia.save(tmp_path / "a.intarsia", mode="w")  # over the one it is a part of
    same(intarsia.open_dataset(tmp_path / "a.intarsia"), plain.isel(time=slice(2, 5)))
    with pytest.raises((StoreError, StoreExists)):
        ds.intarsia.save(paths[0], mode="w")
    assert xr.open_dataset(paths[0], engine="h5netcdf").v.size


def test_groups(ds: xr.Dataset, plain: xr.Dataset, tmp_path: Path) -> None:
    ds.intarsia.save(tmp_path / "a.intarsia", group="deep/down")
    same(intarsia.open_dataset(tmp_path / "a.intarsia", group="/deep/down/"), plain)
    assert not intarsia.open_dataset(tmp_path / "a.intarsia").variables
    assert not intarsia.open_dataset(tmp_path / "a.intarsia", group="deep").variables
    with pytest.raises(StoreError, match="no group '/other'"):
        intarsia.open_dataset(tmp_path / "a.intarsia", group="other")


def test_choices_are_kept_with_the_sources(paths: list[Path], tmp_path: Path) -> None:
    raw = intarsia.open_dataset(paths[0], mask_and_scale=False)
    assert raw.f.data.segments.sources[0].scan == '{"mask_and_scale":false}'
    decoded = intarsia.open_dataset(paths[1])
    assert decoded.f.data.segments.sources[0].scan == ""
    both = xr.merge(
        [raw[["f"]].rename(f="raw", time="t"), decoded[["d"]]], compat="override", join="outer"
    )
    both.intarsia.save(tmp_path / "a.intarsia")
    root = json.loads((tmp_path / "a.intarsia/__intarsia__/root.json").read_text())
    choices = root["groups"]["/"]["encoding"]["intarsia_choices"]
    assert choices == {"type": "tuple", "items": ["", '{"mask_and_scale":false}']}
    raw.load().intarsia.save(tmp_path / "b.intarsia")  # nothing is virtual, and still it is known
    root = json.loads((tmp_path / "b.intarsia/__intarsia__/root.json").read_text())
    choices = root["groups"]["/"]["encoding"]["intarsia_choices"]
    assert choices == {"type": "tuple", "items": ['{"mask_and_scale":false}']}


def test_wrapped_by_xarray(paths: list[Path], tmp_path: Path) -> None:
    """As xarray's own functions open a file, and select from it."""
    ds = xr.open_dataset(paths[0], engine="intarsia").isel(time=slice(1, 3))
    again = _saved(ds, tmp_path / "a.intarsia")
    assert is_virtual(again, "v")
    same(again, plain_series(paths[:1]).isel(time=slice(1, 3)))
    assert isinstance(again.v.variable._data, VirtualArray)


def test_one_variable_to_load_is_named_by_its_name(paths: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "a.intarsia"
    for name in ("air temperature", "t"):
        intarsia.open_dataset(paths[0]).rename(v=name).intarsia.save(path, mode="w")
        loaded = intarsia.open_dataset(path, loadable_variables=name)
        assert type(loaded[name].variable._data) is np.ndarray
    assert type(intarsia.open_dataset(paths[0], loadable_variables="v").v.variable._data) is (
        np.ndarray
    )


GROWING = {
    "one": ("x", {"x"}),
    "none": (None, set()),
    "list": (["x"], ["x"]),
    "keys": ({"x": 1}.keys(), {"x"}),
    "array": (np.array(["x", "y"]), {"x", "y"}),
}


@pytest.mark.parametrize(("said", "kept"), GROWING.values(), ids=GROWING.keys())
def test_dimensions_that_can_grow_as_xarray_takes_them(
    tmp_path: Path, said: Any, kept: Any
) -> None:
    made = xr.Dataset({"v": (("x", "y"), [[1]])})
    made.encoding["unlimited_dims"] = said
    made.intarsia.save(tmp_path / "a.intarsia")
    assert intarsia.open_dataset(tmp_path / "a.intarsia").encoding["unlimited_dims"] == kept
    made.encoding["unlimited_dims"] = {1}
    with pytest.raises(UnsupportedError, match="'unlimited_dims' can't be kept exactly"):
        made.intarsia.save(tmp_path / "a.intarsia", mode="w")
