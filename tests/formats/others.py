"""Cells of the formats that others have parsers for: Zarr, TIFF, FITS, references."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import icechunk
import numcodecs
import numpy as np
import rasterio
import xarray as xr
import zarr
import zarr.codecs as codecs
from astropy.io import fits
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_dataset
from virtualizarr.parsers import HDFParser
from zarr.codecs import numcodecs as wrapped

from tests.formats.cells import Made, cell, formatted
from tests.formats.netcdf import PACKING, VALUES, WORDS

ZARR2 = formatted(
    "Zarr 2", "folders, of this machine and of the network; chunks are files, listed once"
)
ZARR3 = formatted("Zarr 3", "the same; shards are opened into their inner chunks")
TIFF = formatted(
    "TIFF",
    "and cloud-optimised GeoTIFF, through virtual-tiff; `parser=VirtualTIFF(ifd=1)` for overviews",
)
REFERENCES = formatted(
    "references", "of kerchunk, in JSON or Parquet, of Icechunk, and of VirtualiZarr in memory"
)
FITS = formatted("FITS", "through VirtualiZarr and astropy")


def _zarr(folder: Path, version: int, values: Any = VALUES, **options: Any) -> Made:
    path = folder / "a.zarr"
    chunks = options.pop("chunks", (7, 10)[: np.ndim(values)])
    names = ["y", "x"][: np.ndim(values)]
    written = options.pop("written", np.s_[...])
    attributes = options.pop("attributes", {})
    group = zarr.create_group(path, zarr_format=version)
    if version == 3:
        options["dimension_names"] = names
    else:
        attributes = {"_ARRAY_DIMENSIONS": names, **attributes}
    array = group.create_array(
        "v", shape=values.shape, chunks=chunks, dtype=values.dtype, attributes=attributes, **options
    )
    array[written] = values[written]
    return Made(path, partial(_open_zarr, path))


def _open_zarr(path: Path, **arguments: Any) -> xr.Dataset:
    return xr.open_zarr(path, consolidated=False, chunks=None, **arguments)


RAW = {"compressors": None}

for _version, _name in ((2, ZARR2), (3, ZARR3)):
    _make = partial(_zarr, version=_version)
    cell("one block", _name)(partial(_make, chunks=VALUES.shape, **RAW))
    cell("chunks", _name)(partial(_make, **RAW))
    cell("chunks at the edge, and never written ones", _name)(
        partial(_make, written=np.s_[:7, 10:], fill_value=5, **RAW)
    )
    cell("scale_factor, add_offset, _FillValue", _name)(
        partial(_make, values=VALUES.astype("i2"), fill_value=-9, attributes=PACKING)
    )
    cell("numbers of either byte order", _name)(partial(_make, values=VALUES.astype(">f8")))
    cell("strings of fixed length", _name)(partial(_make, values=WORDS.astype("S5")))
    cell("strings of any length", _name)(
        partial(_make, values=WORDS.astype(np.dtypes.StringDType()))
    )
    cell("bool", _name)(partial(_make, values=VALUES > 5))
    cell("complex", _name)(partial(_make, values=VALUES.astype("c16") * 1j))

cell("deflate, shuffle, checksum", ZARR2)(
    partial(_zarr, version=2, filters=[numcodecs.Shuffle(4)], compressors=numcodecs.Zlib(5))
)
cell("zstd", ZARR2)(partial(_zarr, version=2, compressors=numcodecs.Zstd()))
cell("lz4", ZARR2)(partial(_zarr, version=2, compressors=numcodecs.LZ4()))
cell("Blosc", ZARR2)(partial(_zarr, version=2, compressors=numcodecs.Blosc()))
cell("bzip2", ZARR2)(partial(_zarr, version=2, compressors=numcodecs.BZ2()))
cell("deflate, shuffle, checksum", ZARR3)(
    partial(_zarr, version=3, compressors=[codecs.GzipCodec(), codecs.Crc32cCodec()])
)
cell("zstd", ZARR3)(partial(_zarr, version=3, compressors=codecs.ZstdCodec()))
cell("lz4", ZARR3)(partial(_zarr, version=3, compressors=wrapped.LZ4()))
cell("Blosc", ZARR3)(partial(_zarr, version=3, compressors=codecs.BloscCodec()))
cell("bzip2", ZARR3)(partial(_zarr, version=3, compressors=wrapped.BZ2()))
cell("shards", ZARR3)(partial(_zarr, version=3, chunks=(5, 6), shards=(10, 12)))


@cell("groups", ZARR2)
def _groups2(folder: Path) -> Made:
    return _in_group(_zarr(folder, 2), 2)


@cell("groups", ZARR3)
def _groups3(folder: Path) -> Made:
    return _in_group(_zarr(folder, 3), 3)


def _in_group(made: Made, version: int) -> Made:
    path = Path(made.place)
    group = zarr.open_group(path, mode="a").create_group("g/h")
    copy = xr.open_zarr(path, consolidated=False).load()
    copy.to_zarr(path, group=group.path, mode="a", consolidated=False, zarr_format=version)
    return Made(path, partial(_open_zarr, path, group="g/h"), {"group": "g/h"})


# -- TIFF ------------------------------------------------------------------------------------------


def _tiff(folder: Path, values: Any = VALUES, part: Any = None, **options: Any) -> Made:
    path = folder / "a.tif"
    window = None if part is None else rasterio.windows.Window.from_slices(*part)
    height, width = values.shape
    with rasterio.open(
        path, "w", driver="GTiff", height=height, width=width, count=1, dtype=values.dtype,
        transform=rasterio.transform.from_origin(0, 0, 1, 1), **options,
    ) as file:  # fmt: skip
        file.write(values if part is None else values[part], 1, window=window)

    def read() -> xr.Dataset:
        with rasterio.open(path) as file:
            return xr.Dataset({"v": (("y", "x"), file.read(1))})

    return Made(path, read, like="0")


TILED = {"tiled": True, "blockxsize": 16, "blockysize": 16}
cell("one block", TIFF)(_tiff)
cell("chunks", TIFF)(partial(_tiff, **TILED))
cell("chunks at the edge, and never written ones", TIFF)(
    partial(_tiff, part=(slice(0, 16), slice(16, 30)), sparse_ok=True, **TILED)
)
cell("deflate, shuffle, checksum", TIFF)(partial(_tiff, compress="deflate", **TILED))
cell("zstd", TIFF)(partial(_tiff, compress="zstd", **TILED))
cell("LZW, predictor", TIFF)(
    partial(_tiff, values=VALUES.astype("u2"), compress="lzw", predictor=2, **TILED)
)
cell("numbers of either byte order", TIFF)(partial(_tiff, ENDIANNESS="BIG", **TILED))

# -- FITS ------------------------------------------------------------------------------------------


@cell("one block", FITS)
def _fits(folder: Path) -> Made:
    path = folder / "a.fits"
    fits.PrimaryHDU(VALUES).writeto(path)

    def read() -> xr.Dataset:
        return xr.Dataset({"v": (("y", "x"), fits.getdata(path))})

    return Made(path, read, like="PRIMARY")


# -- references ------------------------------------------------------------------------------------


def _referred(folder: Path, **options: Any) -> tuple[xr.Dataset, Callable[[], xr.Dataset]]:
    path = folder / "a.nc"
    xr.Dataset({"v": (("y", "x"), VALUES)}).to_netcdf(
        path, engine="h5netcdf", encoding={"v": {"chunksizes": (7, 10), **options}}
    )
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    virtual = open_virtual_dataset(f"file://{path}", registry=registry, parser=HDFParser())
    return virtual, partial(xr.open_dataset, path, engine="h5netcdf")


@cell("chunks", REFERENCES)
def _kerchunk(folder: Path) -> Made:
    virtual, oracle = _referred(folder)
    path = folder / "refs.json"
    path.write_text(json.dumps(virtual.vz.to_kerchunk(format="dict")))
    return Made(path, oracle, like="v")


@cell("deflate, shuffle, checksum", REFERENCES)
def _parquet(folder: Path) -> Made:
    virtual, oracle = _referred(folder, zlib=True, shuffle=True)
    path = folder / "refs.parquet"
    virtual.vz.to_kerchunk(str(path), format="parquet")
    return Made(path, oracle, like="v")


@cell("scale_factor, add_offset, _FillValue", REFERENCES)
def _icechunk(folder: Path) -> Made:
    virtual, oracle = _referred(folder, dtype="i2", _FillValue=-9, **PACKING)
    path = folder / "a.icechunk"
    prefix = f"file://{folder}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(folder)))
    )
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(path)), config=config
    )
    session = repository.writable_session("main")
    virtual.vz.to_icechunk(session.store)
    session.commit("all of it")
    return Made(path, oracle, like="v")
