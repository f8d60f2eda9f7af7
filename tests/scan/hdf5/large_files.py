"""HDF5 files of 1 GB with 10,000 chunks, of which nothing is written but the metadata."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
from h5py import h5d, h5p, h5s, h5t

CHUNKS = 10_000
CHUNK = (1, 160, 160)
SHAPE = (CHUNKS, 160, 160)
NBYTES = 102_400
"""Bytes of a chunk."""


class Holes(io.RawIOBase):
    """A file in which what is written at once and long, as chunks are, becomes a hole."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        self._at = 0

    def close(self) -> None:
        if not self.closed:
            os.close(self._file)
        super().close()

    def seek(self, offset: int, whence: int = 0) -> int:
        end = os.fstat(self._file).st_size
        self._at = offset + (0, self._at, end)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file, len(buffer), self._at)
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        end = self._at + len(data)
        if len(data) < NBYTES // 2:
            os.pwrite(self._file, data, self._at)
        elif os.fstat(self._file).st_size < end:
            os.ftruncate(self._file, end)
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        os.ftruncate(self._file, size)
        return size


def write_chunks(dataset: h5py.Dataset) -> None:
    """Write all chunks in their order, as filtered ones, so that they differ in length."""
    zeros = memoryview(bytes(NBYTES + 1000))
    write = dataset.id.write_direct_chunk
    for number in range(CHUNKS):
        write((number, 0, 0), zeros[: NBYTES + number % 999])


def written(path: Path, libver: Any, **arguments: Any) -> None:
    """A file whose chunks were written one by one, compressed."""
    with Holes(path) as holes, h5py.File(holes, "w", libver=libver, **arguments) as file:
        write_chunks(file.create_dataset("x", SHAPE, "f4", chunks=CHUNK, compression="gzip"))


def allocated(
    path: Path, libver: Any, growing: tuple[int, ...], filters: bool = False, **arguments: Any
) -> None:
    """A file whose chunks were allocated one by one, with dimensions that grow."""
    with h5py.File(path, "w", libver=libver, **arguments) as file:
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk(CHUNK)
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5d.FILL_TIME_NEVER)
        limits = tuple(h5s.UNLIMITED if n in growing else size for n, size in enumerate(SHAPE))
        space = h5s.create_simple(SHAPE, limits)
        h5d.create(file.id, b"x", h5t.IEEE_F32LE, space, creation)


def by_netcdf4(path: Path) -> None:
    """A file of the netCDF4 library, of which only the chunks are h5py's."""
    with netCDF4.Dataset(path, "w") as file:
        file.title = "a large file"
        for name, size in (("time", None), ("lat", 160), ("lon", 160)):
            file.createDimension(name, size)
            coordinate = file.createVariable(name, "f8", (name,))
            coordinate.standard_name = name
            coordinate[:] = np.arange(size or 1)
        x = file.createVariable("x", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=CHUNK)
        x.setncatts({f"attribute_{number}": "a text" for number in range(12)})
    with Holes(path) as holes, h5py.File(holes, "r+") as file:
        file["time"].resize((CHUNKS,))
        file["time"][:] = np.arange(CHUNKS)
        file["x"].resize(SHAPE)
        write_chunks(file["x"])


PAGES: dict[str, Any] = {"fs_strategy": "page", "fs_page_size": 1 << 20}

KINDS: dict[str, Callable[[Path], None]] = {
    "implicit": lambda path: allocated(path, "latest", ()),
    "fixed array": lambda path: written(path, "latest"),
    "extensible array": lambda path: allocated(path, "latest", (0,)),
    "B-tree 2": lambda path: allocated(path, "latest", (0, 1)),
    "B-tree 1": lambda path: allocated(path, "earliest", (0,)),
    "B-tree 1, pages": lambda path: allocated(path, ("earliest", "v110"), (0,), **PAGES),
    "B-tree 2, pages": lambda path: allocated(path, "latest", (0, 1), **PAGES),
    "netCDF4": by_netcdf4,
}
"""Makers of files by their index of chunks."""


def mapped(path: Path) -> Any:
    """The content of a file as something that can be cut like bytes."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
