"""Writes the demo's files: one quantity, stored differently in each."""

# h5py is untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from intarsia.demo.field import DAYS, LATITUDES, LONGITUDES

NAME = "sst"
"""The variable that all files hold."""

NC_FILL = 9.969209968386869e36
"""What netCDF takes for the fill of floats where nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How one file stores the temperature.

    Parameters
    ----------
    dtype
        Type of the stored numbers, as NumPy writes it.
    chunks
        Chunk shape (time, lat, lon); None for one chunk that holds the whole file.
    shuffle, gzip
        Whether these filters are applied.
    scale, offset
        ``scale_factor`` and ``add_offset``; None for no such attribute.
    missing
        ``_FillValue``, which stands for land. Floats need none: land is NaN.
    fill
        HDF5's own fill value: chunks that hold nothing else are never written. By default
        `missing`, or else `NC_FILL`, as netCDF does.
    reversed
        Whether latitudes go from north to south.
    absent
        Whether the file lacks the variable.
    """

    dtype: str = "<f4"
    chunks: tuple[int, int, int] | None = (10, 20, 20)
    shuffle: bool = True
    gzip: bool = True
    scale: float | None = None
    offset: float | None = None
    missing: int | None = None
    fill: int | None = None
    reversed: bool = False
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """One file: which part of the whole it holds, and how.

    Parameters
    ----------
    days
        First day and the day after the last.
    storage
        How they are stored.
    label
        What is special about it, in a word or two.
    columns
        First longitude and the one after the last.
    """

    days: tuple[int, int]
    storage: Storage
    label: str
    columns: tuple[int, int] = (0, len(LONGITUDES))


def write(path: Path, piece: Piece, values: npt.NDArray[np.float32]) -> None:
    """Write one file, with dimension scales as netCDF-4 has them.

    Parameters
    ----------
    path
        Where to.
    piece
        What of `values`, and how.
    values
        The whole: shape (days, latitudes, longitudes), in °C, NaN on land.
    """
    storage = piece.storage
    days, columns = slice(*piece.days), slice(*piece.columns)
    order = slice(None, None, -1) if storage.reversed else slice(None)
    axes = {
        "time": np.arange(DAYS, dtype="<i4")[days],
        "lat": LATITUDES[order],
        "lon": LONGITUDES[columns],
    }
    units = {"time": "days since 2021-01-01", "lat": "degrees_north", "lon": "degrees_east"}
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["Conventions"] = "CF-1.11"
        file.attrs["comment"] = "made by `intarsia demo`: a formula, not an observation"
        for name, axis in axes.items():
            scale = file.create_dataset(name, data=axis, track_order=True)
            scale.make_scale(name)
            scale.attrs["units"] = units[name]
        if storage.absent:
            return
        stored = pack(values[days, order, columns], storage)
        dataset = _create(file, stored, storage)
        for axis, name in enumerate(axes):
            dataset.dims[axis].attach_scale(file[name])
        for name, value in attributes(storage).items():
            dataset.attrs[name] = value


def attributes(storage: Storage) -> dict[str, Any]:
    """Attributes of the variable, typed as they are written."""
    attrs: dict[str, Any] = {"units": "degree_Celsius", "long_name": "sea surface temperature"}
    if storage.scale is not None:
        attrs["scale_factor"] = np.float64(storage.scale)
    if storage.offset is not None:
        attrs["add_offset"] = np.float64(storage.offset)
    if storage.missing is not None:
        attrs["_FillValue"] = np.array([storage.missing], storage.dtype)
    return attrs


def pack(values: npt.NDArray[np.float32], storage: Storage) -> npt.NDArray[Any]:
    """The numbers that stand for `values` in a file."""
    if storage.scale is None and storage.missing is None:
        return values.astype(storage.dtype)
    exact = values.astype(np.float64)
    numbers = np.round((exact - (storage.offset or 0)) / (storage.scale or 1))
    land = np.isnan(exact)
    assert storage.missing is not None, "integers need a value that stands for land"
    return np.where(land, storage.missing, np.where(land, 0, numbers)).astype(storage.dtype)


def _create(file: h5py.File, stored: npt.NDArray[Any], storage: Storage) -> Any:
    """Create the dataset, and write its chunks but for those that hold only the fill."""
    unsaid = NC_FILL if storage.missing is None else storage.missing
    fill = unsaid if storage.fill is None else storage.fill
    chunks = stored.shape if storage.chunks is None else storage.chunks
    dataset = file.create_dataset(
        NAME,
        stored.shape,
        storage.dtype,
        chunks=chunks,
        shuffle=storage.shuffle,
        compression="gzip" if storage.gzip else None,
        compression_opts=4 if storage.gzip else None,
        fillvalue=fill,
        track_order=True,
    )
    for box in boxes(stored.shape, chunks):
        block = stored[box]
        if (block != fill).any():
            dataset[box] = block
    return dataset


def boxes(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """The box of each chunk, cut at the end of the array, in C order."""
    counts = (range(0, size, chunk) for size, chunk in zip(shape, chunks, strict=True))
    for corner in product(*counts):
        yield tuple(
            slice(low, min(low + chunk, size))
            for low, chunk, size in zip(corner, chunks, shape, strict=True)
        )
