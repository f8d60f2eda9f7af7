"""Every way in which HDF5 can hold the same values: each family of unlike files equals xarray."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import IntarsiaError, UnsupportedVariable
from tests import oracle
from tests.check import check_chains, check_equal, is_virtual, open_both
from tests.oracle.chain import ACROSS, ALONG
from tests.unlike import (
    Attribute,
    FileSpec,
    GroupSpec,
    dimension,
    text,
    typed,
    variable,
    write_file,
)
from tests.unlike.families import (
    EXPLICIT,
    FAMILIES,
    GZIP,
    filters,
    layouts,
    meanings,
    part,
)
from tests.unlike.structures import STRUCTURES

FEW_BITS = "integers of 11 bits"
STORAGE = [f.name for f in (*layouts(), *filters(), *meanings()) if f.name != FEW_BITS]
CHAINS = [
    (("isel", {"time": slice(None, None, -1), "lat": slice(1, None)}),),
    (("isel", {"time": slice(1, None, 2), "lon": 1}), ("transpose", ("lat",))),
]


@pytest.mark.parametrize("name", STORAGE)
def test_storage(tmp_path: Path, name: str) -> None:
    family = FAMILIES[name]
    check_equal(family.write(tmp_path), CHAINS, ["sst"], **family.arguments)


@pytest.mark.parametrize("name", list(STRUCTURES))
def test_structure(tmp_path: Path, name: str) -> None:
    family = STRUCTURES[name]
    paths = family.write(tmp_path)
    actual, expected = open_both(paths, **family.arguments)
    numbers = [
        n
        for n in expected.data_vars
        if expected[n].dtype.kind in "iuf" and expected[n].ndim > 1 and not n.startswith("v_")
    ]
    if not any(word in name for word in ("merged", "special", "compared")):
        assert all(is_virtual(actual, n) for n in numbers)
    chains = [(("isel", {d: slice(None, None, -1)}),) for d in expected.dims]
    check_chains(actual, expected, chains[:3])


@pytest.mark.parametrize("name", ["epoch per file", "packing per file", "szip", "big-endian"])
def test_each_file_alone(tmp_path: Path, name: str) -> None:
    family = {**FAMILIES, **STRUCTURES}[name]
    for path in family.write(tmp_path):
        check_equal(path, CHAINS[:1], ["sst"])
        check_equal(Path(path), virtual=["sst"], decode_times=False, mask_and_scale=False)


@pytest.mark.parametrize("dims", ["default", "sort", "access"])
def test_phony_dims_default_is_xarrays(tmp_path: Path, dims: str) -> None:
    paths = STRUCTURES["phony dims, sorted"].write(tmp_path)
    arguments = {} if dims == "default" else {"phony_dims": dims}
    check_equal(paths[0], **arguments)


def test_a_relative_external_file_is_found_beside_where_hdf5_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    Path("beside.raw").write_bytes(values.tobytes())
    with h5py.File("relative.h5", "w") as file:
        file.create_dataset("v", (3, 4), "<i4", external=[("beside.raw", 0, 48)])
    check_equal("relative.h5", virtual=["v"], phony_dims="sort")


def test_a_short_external_file_is_an_error(tmp_path: Path) -> None:
    """Differs on purpose: HDF5 reads zeros past the end of a raw file."""
    paths = FAMILIES["external"].write(tmp_path)
    raw = Path(paths[0] + ".sst.0.raw")
    os.truncate(raw, raw.stat().st_size - 3)
    assert not oracle.open_dataset(paths[0]).sst.values[-1, -1, -1]
    with pytest.raises(IntarsiaError, match=r"part0\.nc\.sst\.0\.raw"):
        intarsia.open_dataset(paths[0]).sst.values  # noqa: B018


def test_external_files_that_divide_a_row(tmp_path: Path) -> None:
    path = tmp_path / "divided.h5"
    for i in range(2):
        (tmp_path / f"{i}.raw").write_bytes(np.arange(10 * i, 10 * i + 10, dtype="<i2").tobytes())
    with h5py.File(path, "w") as file:
        raws = [(str(tmp_path / f"{i}.raw"), 0, 20) for i in range(2)]
        file.create_dataset("v", (5, 4), "<i2", external=raws)
    check_equal(path, [(("isel", {"phony_dim_0": slice(2, 4)}),)], ["v"], phony_dims="sort")


def test_an_absent_external_file_is_an_error(tmp_path: Path) -> None:
    paths = FAMILIES["external"].write(tmp_path)
    Path(paths[1] + ".sst.1.raw").unlink()
    with pytest.raises(IntarsiaError, match=r"part1\.nc\.sst\.1\.raw"):
        intarsia.open_dataset(paths[1]).sst.values  # noqa: B018


UNKNOWN_FILTER = 40305


def _with_unknown_filter(folder: Path) -> Path:
    """A file one of whose variables has a filter that nothing here can undo."""
    path = folder / "unknown.nc"
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.arange(4.0))
        x.make_scale("x")
        good = file.create_dataset("good", data=np.arange(4, dtype="i2"))
        good.dims[0].attach_scale(x)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((4,))
        properties.set_filter(UNKNOWN_FILTER, h5py.h5z.FLAG_OPTIONAL, (1, 2))
        space = h5py.h5s.create_simple((4,))
        created = h5py.h5d.create(file.id, b"bad", h5py.h5t.NATIVE_INT16, space, dcpl=properties)
        created.write_direct_chunk((0,), b"12345678", 0)
        h5py.Dataset(created).dims[0].attach_scale(x)
        h5py.Dataset(created).attrs["units"] = "m"
    return path


def test_an_unknown_filter_concerns_its_variable_alone(tmp_path: Path) -> None:
    path = _with_unknown_filter(tmp_path)
    ds = intarsia.open_dataset(path)
    assert ds.good.values.tolist() == [0, 1, 2, 3]
    assert (ds.bad.dtype, ds.bad.dims, ds.bad.attrs) == (np.dtype("i2"), ("x",), {"units": "m"})
    for read in (lambda: ds.bad.values, ds.bad[1:].load, ds.load):
        with pytest.raises(UnsupportedVariable, match=rf"(?s){UNKNOWN_FILTER}.*bad"):
            read()
    skipped = intarsia.open_dataset(path, unsupported="skip")
    assert set(skipped.data_vars) == {"good"}
    assert "bad" in str(skipped.intarsia.report())
    with pytest.raises(IntarsiaError, match="bad"):
        intarsia.open_dataset(path, unsupported="copy")
    assert intarsia.open_dataset(path, drop_variables="bad").load().good.shape == (4,)


def test_an_unknown_filter_in_one_file_of_many(tmp_path: Path) -> None:
    path = _with_unknown_filter(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    paths = [str(path), str(_with_unknown_filter(other))]
    arguments: dict[str, Any] = {
        "combine": "nested",
        "concat_dim": "new",
        **EXPLICIT,
        "data_vars": "all",
    }
    ds = intarsia.open_mfdataset(paths, **arguments)
    assert ds.good.values.tolist() == [[0, 1, 2, 3]] * 2
    with pytest.raises(UnsupportedVariable, match="bad"):
        ds.bad.values  # noqa: B018
    skipped = intarsia.open_mfdataset(paths, unsupported="skip", **arguments)
    assert set(skipped.data_vars) == {"good"}


def test_integers_of_a_few_bits(tmp_path: Path) -> None:
    """Their bytes are not NumPy's: refused by name, or equal; never the bytes as they lie."""
    family = FAMILIES[FEW_BITS]
    paths = family.write(tmp_path)
    check_equal(paths, CHAINS, unsupported="copy", **family.arguments)
    with pytest.raises(UnsupportedVariable, match="sst"):
        intarsia.open_dataset(paths[0]).sst.values  # noqa: B018


def test_concat_along_two_dimensions_in_two_steps(tmp_path: Path) -> None:
    family = STRUCTURES["two dimensions"]
    rows = family.write(tmp_path)

    def combined(side: Any) -> xr.Dataset:
        opened = [
            side.open_mfdataset(row, combine="nested", concat_dim="lon", **EXPLICIT) for row in rows
        ]
        return xr.concat(opened, "time", **ALONG)

    ours, theirs = combined(intarsia), combined(oracle)
    assert is_virtual(ours, "sst")
    check_chains(ours, theirs, [(("isel", {"time": slice(None, None, -1), "lon": slice(1, 5)}),)])


def test_a_mosaic_with_a_hole_stays_virtual(tmp_path: Path) -> None:
    rows = STRUCTURES["three dimensions"].write(tmp_path)[0]
    rows = [rows[0], rows[1][1:]]

    def combined(side: Any) -> xr.Dataset:
        opened = [
            side.open_mfdataset(row, combine="nested", concat_dim="lon", **EXPLICIT) for row in rows
        ]
        return xr.concat(opened, "lat", **ALONG)

    ours, theirs = combined(intarsia), combined(oracle)
    assert np.isnan(theirs.sst.values).any()
    assert is_virtual(ours, "sst")
    check_chains(ours, theirs, [(("isel", {"time": slice(None, None, -1), "lon": slice(1, 5)}),)])


def test_piles_of_piles(tmp_path: Path) -> None:
    """Concat of concats along another dimension, twice."""
    family = FAMILIES["codec eras"]
    paths = family.write(tmp_path)

    def combined(side: Any) -> xr.Dataset:
        def pile(order: tuple[int, ...]) -> xr.Dataset:
            chosen = [paths[i] for i in order]
            ds = side.open_mfdataset(chosen, combine="nested", concat_dim="time", **EXPLICIT)
            return ds.drop_vars("time")

        members = xr.concat([pile((0, 1, 2)), pile((2, 1, 0))], "member", **ACROSS)
        runs = xr.concat([members, members.isel(member=slice(None, None, -1))], "run", **ACROSS)
        return xr.concat([runs, runs.transpose("lon", ...)], "time", **ALONG)

    ours, theirs = combined(intarsia), combined(oracle)
    assert is_virtual(ours, "sst")
    check_chains(
        ours, theirs, [(("isel", {"run": 1, "member": slice(None, None, -1), "time": [3, 1]}),)]
    )


def test_defaults_of_combining_are_xarrays(tmp_path: Path) -> None:
    paths = FAMILIES["packing per file"].write(tmp_path)
    arguments = {"combine": "nested", "concat_dim": "time"}
    for new in (False, True):
        with xr.set_options(use_new_combine_kwarg_defaults=new):
            check_equal(paths, CHAINS, ["sst"], **arguments)
            check_equal(paths, CHAINS, ["sst"])  # by_coords


def test_globs_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = FAMILIES["codec eras"].write(tmp_path)
    expected = oracle.open_mfdataset(paths, **FAMILIES["codec eras"].arguments)
    for given in (
        str(tmp_path / "part*.nc"),
        tmp_path / "part*.nc",
        [Path(p) for p in paths],
        tuple(paths),
    ):
        ds = intarsia.open_mfdataset(given, **FAMILIES["codec eras"].arguments)
        check_chains(ds, expected, virtual=["sst"])
    monkeypatch.chdir(tmp_path)
    check_chains(intarsia.open_mfdataset("*.nc", **FAMILIES["codec eras"].arguments), expected)
    with pytest.raises(OSError, match=r"nothing.*\.nc"):
        intarsia.open_mfdataset("nothing*.nc", **FAMILIES["codec eras"].arguments)


def test_preprocess_sees_each_file(tmp_path: Path) -> None:
    family = FAMILIES["packing per file"]
    paths = family.write(tmp_path)
    check_equal(paths, CHAINS, ["sst"], preprocess=_double, **family.arguments)
    seen = intarsia.open_dataset(paths[0])
    assert os.path.basename(seen.encoding["source"]) == "part0.nc"


def _double(ds: xr.Dataset) -> xr.Dataset:
    turned = ds.isel(lat=slice(None, None, -1)).rename(sst="sea")
    return turned.assign_coords(run=("time", turned.time.values)).rename(sea="sst")


def test_a_variable_that_a_dimension_takes_its_name_from(tmp_path: Path) -> None:
    """netCDF-4 stores a variable that has a dimension's name but is not its coordinate apart."""
    import netCDF4

    path = tmp_path / "clash.nc"
    with netCDF4.Dataset(path, "w") as ds:
        ds.createDimension("station", 3)
        ds.createDimension("name", 4)
        ds.createVariable("station", "f4", ("name",))[:] = np.arange(4)
        ds.createVariable("name", "i2", ("station", "name"), zlib=True)[:] = np.arange(12).reshape(
            3, 4
        )
    check_equal(path)


def test_files_of_netcdf4_itself(tmp_path: Path) -> None:
    import netCDF4

    paths = []
    for i in range(2):
        paths.append(str(tmp_path / f"{i}.nc"))
        with netCDF4.Dataset(paths[-1], "w", format=("NETCDF4", "NETCDF4_CLASSIC")[i]) as ds:
            ds.createDimension("time", None)
            ds.createDimension("x", 5)
            ds.createDimension("strlen", 4)
            time = ds.createVariable("time", "f8", ("time",))
            time.units = f"days since 2000-01-0{1 + 3 * i}"
            time[:] = np.arange(3)
            v = ds.createVariable("v", "i2", ("time", "x"), zlib=True, shuffle=True, fill_value=-9)
            v.scale_factor, v.add_offset, v.units = 0.1 * (i + 1), 20.0, "K"
            v[:] = np.ma.masked_greater(np.arange(15.0).reshape(3, 5) + 20, 30 + i)
            late = ds.createVariable("late", "f4", ("time", "x"))
            late[0] = np.arange(5)
            names = ds.createVariable("names", "S1", ("time", "strlen"))
            names[:] = np.array([list("abcd")] * 3, "S1")
            ds.createVariable("empty", "f8", ("x",), fill_value=False)
    check_equal(paths, CHAINS[:0], ["v", "late"], combine="nested", concat_dim="time", **EXPLICIT)
    check_equal(paths, concat_characters=False, combine="nested", concat_dim="time", **EXPLICIT)


def test_attributes_of_every_type(tmp_path: Path) -> None:
    attrs = {
        "a_i1": typed(1, "<i1"),
        "a_u8": typed(2**63, "<u8"),
        "a_f4": typed(0.1, "<f4", scalar=True),
        "a_big": typed((1.5, 2.5), ">f8"),
        "a_text": text("é"),
        "a_texts": text(("a", "b")),
        "a_bytes": Attribute("plain", "bytes"),
        "a_empty": text(""),
        "flag_values": typed((1, 2, 3), "<i1"),
    }
    root = GroupSpec(
        dims=(dimension("x", 3),),
        variables=(variable("v", ("x",), "<i2", attrs=attrs),),
        attrs=tuple(attrs.items()),
    )
    check_equal(write_file(tmp_path, FileSpec("attributes.nc", root)))


def test_scalars_and_empty_variables(tmp_path: Path) -> None:
    root = GroupSpec(
        dims=(dimension("x", 0), dimension("t", 0, unlimited=True)),
        variables=(
            variable("scalar", (), ">i2", attrs={"scale_factor": typed(0.5, "<f4")}),
            variable("none", ("x",), "<f4"),
            variable("not_yet", ("t", "x"), "<f4", chunks=(1, 1)),
        ),
    )
    path = write_file(tmp_path, FileSpec("empty.nc", root))
    check_equal(path)
    check_equal([str(path), str(path)], combine="nested", concat_dim="t", **EXPLICIT)


def test_loading_many_variables_at_once_equals_each_alone(tmp_path: Path) -> None:
    def change(i: int, group: GroupSpec) -> GroupSpec:
        made = [
            variable(
                f"v{k}",
                ("time", "lat"),
                ("<i2", ">f4", "<f8")[(i + k) % 3],
                chunks=(1 + k % 2, 2),
                filters=(GZIP,) * (k % 2),
            )
            for k in range(4)
        ]
        return group.with_variables(*made)

    files = [part(i, (3, 2, 4)) for i in range(3)]
    files = [f.with_root(change(i, f.root)) for i, f in enumerate(files)]
    paths = [str(write_file(tmp_path, f)) for f in files]
    arguments: dict[str, Any] = {"combine": "nested", "concat_dim": "time", **EXPLICIT}
    actual, expected = open_both(paths, **arguments)
    check_chains(actual, expected)
    check_chains(actual.compute(), expected)
    loaded = actual.isel(time=slice(1, 7)).load()
    assert not any(is_virtual(loaded, n) for n in loaded.data_vars)
    check_chains(loaded, expected.isel(time=slice(1, 7)))
