"""Cells of netCDF and HDF5."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import netCDF4
import numpy as np
import xarray as xr
from h5py import h5d, h5p, h5s, h5t

from tests.formats.cells import Made, cell, formatted

NETCDF3 = formatted("netCDF3", "CDF-1, CDF-2 and CDF-5, scanned by a parser of our own")
NETCDF4 = formatted("netCDF4", "as the netCDF library writes it, with or without groups")
HDF5 = formatted("HDF5", "of any age, with or without dimension scales")

VALUES = np.arange(600, dtype="f4").reshape(20, 30)


def _by_xarray(path: Path, engine: str, **arguments: Any) -> Made:
    return Made(path, partial(xr.open_dataset, path, engine=engine, **arguments))


def _netcdf3(folder: Path, encoding: dict[str, Any], values: Any = VALUES, **options: Any) -> Made:
    path = folder / "a.nc"
    dims = ("y", "x")[: np.ndim(values)]
    dataset = xr.Dataset({"v": (dims, values)})
    dataset.to_netcdf(path, engine="netcdf4", encoding={"v": encoding}, **options)
    return _by_xarray(path, "netcdf4" if options["format"] == "NETCDF3_64BIT_DATA" else "scipy")


def _netcdf4(folder: Path, values: Any = VALUES, kind: Any = None, **options: Any) -> Made:
    path = folder / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        dims = ("y", "x")[: np.ndim(values)]
        for dim, size in zip(dims, np.shape(values), strict=True):
            file.createDimension(dim, size)
        packing = options.pop("packing", {})
        variable = file.createVariable("v", kind or values.dtype, dims, **options)
        variable.setncatts(packing)
        variable[...] = values
    return _by_xarray(path, "h5netcdf")


def _hdf5(folder: Path, values: Any = VALUES, **options: Any) -> Made:
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=values, **options)
    return _by_xarray(path, "h5netcdf")


# -- layout ----------------------------------------------------------------------------------------

cell("one block", NETCDF3)(partial(_netcdf3, encoding={}, format="NETCDF3_64BIT"))
cell("one block", NETCDF4)(partial(_netcdf4, contiguous=True))
cell("one block", HDF5)(_hdf5)
cell("chunks", NETCDF4)(partial(_netcdf4, chunksizes=(7, 10), compression=None))
cell("chunks", HDF5)(partial(_hdf5, chunks=(7, 10)))


@cell("records that interleave", NETCDF3)
def _records(folder: Path) -> Made:
    path = folder / "a.nc"
    dataset = xr.Dataset(
        {"v": (("y", "x"), VALUES), "w": ("y", np.arange(20, dtype="i2"))},
    )
    dataset.to_netcdf(path, engine="netcdf4", format="NETCDF3_CLASSIC", unlimited_dims=["y"])
    return _by_xarray(path, "scipy")


@cell("chunks at the edge, and never written ones", NETCDF4, HDF5)
def _never_written(folder: Path) -> Made:
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        variable = file.create_dataset(
            "v", (20, 30), "f4", chunks=(7, 11), fillvalue=5, shuffle=True
        )
        variable[:7, 11:] = VALUES[:7, 11:]
    return _by_xarray(path, "h5netcdf")


@cell("within the metadata (compact)", NETCDF4, HDF5)
def _compact(folder: Path) -> Made:
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_layout(h5d.COMPACT)
        space = h5s.create_simple(VALUES.shape)
        h5py.Dataset(h5d.create(file.id, b"v", h5t.IEEE_F32LE, space, creation))[...] = VALUES
    return _by_xarray(path, "h5netcdf")


@cell("in external raw files", HDF5)
def _external_raw(folder: Path) -> Made:
    raw = folder / "a.raw"
    return _hdf5(folder, external=[(str(raw), 0, h5py.h5f.UNLIMITED)])


@cell("parts of other files (virtual dataset)", HDF5)
def _virtual_dataset(folder: Path) -> Made:
    layout = h5py.VirtualLayout((40, 30), "f4")
    for number in range(2):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            file.create_dataset(
                "part", data=VALUES + number, chunks=(5, 30), compression=number + 1
            )
        part = h5py.VirtualSource(f"{number}.h5", "part", VALUES.shape)
        layout[20 * number : 20 * (number + 1)] = part
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("v", layout)
    return _by_xarray(path, "h5netcdf")


@cell("behind a soft link", HDF5)
def _soft_link(folder: Path) -> Made:
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("g/w", data=VALUES)
        file["v"] = h5py.SoftLink("/g/w")
    return _by_xarray(path, "h5netcdf")


@cell("behind an external link", HDF5)
def _external_link(folder: Path) -> Made:
    with h5py.File(folder / "b.h5", "w") as file:
        file.create_dataset("w", data=VALUES)
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file["v"] = h5py.ExternalLink("b.h5", "w")
    return _by_xarray(path, "h5netcdf")


# -- encoding --------------------------------------------------------------------------------------

cell("deflate, shuffle, checksum", NETCDF4)(
    partial(_netcdf4, compression="zlib", shuffle=True, fletcher32=True, chunksizes=(7, 10))
)
cell("deflate, shuffle, checksum", HDF5)(
    partial(_hdf5, compression="gzip", shuffle=True, fletcher32=True, chunks=(7, 10))
)
cell("lzf", HDF5)(partial(_hdf5, compression="lzf", chunks=(7, 10)))
cell("szip", NETCDF4, HDF5)(partial(_hdf5, compression="szip", chunks=(7, 10)))
cell("scale-offset", HDF5)(partial(_hdf5, scaleoffset=3, chunks=(7, 10)))


@cell("n-bit", HDF5)
def _nbit(folder: Path) -> Made:
    path = folder / "a.h5"
    datatype = h5t.STD_I16LE.copy()
    datatype.set_precision(12)
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((7, 10))
    creation.set_filter(5, 0, ())
    with h5py.File(path, "w") as file:
        space = h5s.create_simple(VALUES.shape)
        dataset = h5py.Dataset(h5d.create(file.id, b"v", datatype, space, creation))
        dataset[...] = VALUES.astype("i2")
    return _by_xarray(path, "h5netcdf")


PLUGINS: dict[str, Callable[[], Any]] = {
    "zstd": hdf5plugin.Zstd,
    "lz4": hdf5plugin.LZ4,
    "Blosc": hdf5plugin.Blosc,
    "Blosc2": hdf5plugin.Blosc2,
    "bitshuffle": hdf5plugin.Bitshuffle,
    "bzip2": hdf5plugin.BZip2,
    "zfp": partial(hdf5plugin.Zfp, reversible=True),
}


def _plugin(folder: Path, name: str) -> Made:
    return _hdf5(folder, chunks=(7, 10), compression=PLUGINS[name]())


for _name in PLUGINS:
    cell(_name, NETCDF4, HDF5)(partial(_plugin, name=_name))

PACKING = {"scale_factor": 0.1, "add_offset": 20.0}
cell("scale_factor, add_offset, _FillValue", NETCDF3)(
    partial(_netcdf3, encoding={"dtype": "i2", "_FillValue": -9, **PACKING}, format="NETCDF3_64BIT")
)
cell("scale_factor, add_offset, _FillValue", NETCDF4)(
    partial(_netcdf4, kind="i2", fill_value=-9, packing=PACKING)
)


@cell("scale_factor, add_offset, _FillValue", HDF5)
def _packed(folder: Path) -> Made:
    made = _hdf5(folder, VALUES.astype("u1"))
    with h5py.File(made.place, "a") as file:
        file["v"].attrs.update({**PACKING, "_FillValue": np.uint8(7)})
    return made


# -- types -----------------------------------------------------------------------------------------

cell("numbers of either byte order", NETCDF4, HDF5)(partial(_hdf5, values=VALUES.astype(">f8")))
cell("numbers of either byte order", NETCDF3)(
    partial(_netcdf3, values=VALUES.astype("u8"), encoding={}, format="NETCDF3_64BIT_DATA")
)

WORDS = np.array(["a", "bcd", ""])
cell("characters", NETCDF3)(
    partial(_netcdf3, values=WORDS.astype("S"), encoding={}, format="NETCDF3_64BIT")
)


@cell("characters", NETCDF4)
def _characters(folder: Path) -> Made:
    path = folder / "a.nc"
    xr.Dataset({"v": ("x", WORDS.astype("S"))}).to_netcdf(path, engine="netcdf4")
    return _by_xarray(path, "h5netcdf")


cell("strings of fixed length", HDF5)(partial(_hdf5, values=WORDS.astype("S5")))


@cell("strings of any length", NETCDF4, HDF5)
def _strings(folder: Path) -> Made:
    return _hdf5(folder, WORDS.astype(object), dtype=h5py.string_dtype())


@cell("bool", NETCDF4, HDF5)
def _bool(folder: Path) -> Made:
    return _hdf5(folder, VALUES > 5)


@cell("enumerations", NETCDF4)
def _enumerations(folder: Path) -> Made:
    path = folder / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        kind = file.createEnumType("u1", "sky", {"clear": 0, "cloudy": 1})
        file.createVariable("v", kind, "x", fill_value=1)[:] = [0, 1, 0]
    return _by_xarray(path, "h5netcdf")


@cell("enumerations", HDF5)
def _enumerations_hdf5(folder: Path) -> Made:
    dtype = h5py.enum_dtype({"clear": 0, "cloudy": 1}, "u1")
    return _hdf5(folder, np.array([0, 1, 0], "u1"), dtype=dtype)


cell("complex", NETCDF4, HDF5)(partial(_hdf5, values=VALUES.astype("c16") * 1j))
cell("compound", NETCDF4, HDF5)(
    partial(_hdf5, values=np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")]))
)
cell("opaque", HDF5)(partial(_hdf5, values=np.array([b"ab", b"cd"], "V2")))


@cell("references to objects", HDF5)
def _references(folder: Path) -> Made:
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file["w"] = VALUES
        file.create_dataset("v", (2,), h5py.ref_dtype)[:] = file["w"].ref
    return Made(path, None)  # two references to one object are not equal


@cell("lists of any length", NETCDF4, HDF5)
def _lists(folder: Path) -> Made:
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        variable = file.create_dataset("v", (2,), h5py.vlen_dtype("i4"))
        variable[0], variable[1] = [1, 2], [3]
    return Made(path, None)  # xarray can't open it


# -- structure -------------------------------------------------------------------------------------


@cell("groups", NETCDF4, HDF5)
def _groups(folder: Path) -> Made:
    path = folder / "a.nc"
    xr.Dataset({"v": (("y", "x"), VALUES)}).to_netcdf(path, group="g/h", engine="h5netcdf")
    made = _by_xarray(path, "h5netcdf", group="g/h")
    return Made(made.place, made.oracle, {"group": "g/h"})


cell("dimensions without names", HDF5)(_hdf5)
