"""Reading what no reference can express, through the libraries that xarray would use.

Each loader gives what xarray's undecoded variable holds. Loaders are small and picklable; they open
the file anew, and refuse it where it is not the one that was scanned.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import h5netcdf
import h5py
import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptChunk, ShortRead, SourceChanged, UnsupportedVariable
from intarsia.io.paths import is_url
from intarsia.progress import Progress
from intarsia.references import Source
from intarsia.scan.hdf5.layout import Unreferable, lacking
from intarsia.scan.hdf5.opening import HDF5_ERRORS, Opened, opened
from intarsia.scan.hdf5.types import ElementType
from intarsia.scan.protocol import Loader

DROP = "drop it with drop_variables= or unsupported='skip'"

PIECE = 1 << 21
"""Bytes of what is read at once, as many as HDF5 holds in place of strings of any length."""


@dataclass(frozen=True, slots=True)
class DatasetLoader:
    """Reads a dataset with h5py.

    Parameters
    ----------
    source
        The file, with its pins.
    name
        Absolute path of the dataset in it.
    files
        External files and the bytes of each that the dataset needs.
    """

    source: Source
    name: str
    files: tuple[tuple[str, int], ...] = ()

    def __call__(self) -> npt.NDArray[Any]:
        """Read all values.

        Raises
        ------
        SourceChanged
            The file is not the one that was scanned.
        ShortRead
            An external file is shorter than the dataset (HDF5 would give zeros).
        CorruptChunk
            The library can't read the values.
        """
        with _opened(self.source) as file:
            for external, needed in self.files:
                found = os.path.getsize(external)
                if found < needed:
                    reason = f"the file has {found} bytes, {needed} are needed"
                    raise ShortRead(reason, url=external, array=self.name)
            dataset = h5py.File(file.id)[self.name]
            assert isinstance(dataset, h5py.Dataset)
            _require_own(dataset, self.source)
            _require_filters(dataset, self.source.url)
            try:
                return _whole(dataset)
            except HDF5_ERRORS as error:
                raise _unread(error, self.source.url, self.name) from error


@dataclass(frozen=True, slots=True)
class VariableLoader:
    """Reads a variable with h5netcdf, as xarray does, where that adds to what h5py gives.

    Parameters
    ----------
    source
        The file, with its pins.
    group, name
        Of the variable.
    """

    source: Source
    group: str
    name: str

    def __call__(self) -> npt.NDArray[Any]:
        """Read all values; errors are those of `DatasetLoader`."""
        with _opened(self.source) as file:
            try:
                root = h5netcdf.File(
                    h5py.File(file.id), "r", phony_dims="access", decode_vlen_strings=True
                )
                group = root if self.group == "/" else root[self.group]
                variable = group.variables[self.name]
                _require_own(variable._h5ds, self.source)  # pyright: ignore[reportPrivateUsage]
                _require_filters(variable._h5ds, self.source.url)  # pyright: ignore[reportPrivateUsage]
                values = variable[(slice(None),) * variable.ndim if variable.ndim else ()]
            except HDF5_ERRORS as error:
                raise _unread(error, self.source.url, self.name) from error
            return _array(values, variable.dtype)


@dataclass(frozen=True, slots=True)
class FilledLoader:
    """Fills up what is shorter than its dimensions, as the netCDF library does.

    Parameters
    ----------
    loader
        Gives what there is.
    shape
        Of the variable.
    fill
        What else it holds: a text, or the bytes of an element.
    """

    loader: Loader
    shape: tuple[int, ...]
    fill: str | bytes

    def __call__(self) -> npt.NDArray[Any]:
        """Read all values; errors are those of the loader."""
        values = self.loader()
        if isinstance(self.fill, str):
            filled = np.full(self.shape, self.fill, object)
        else:
            filled = np.full(self.shape, np.frombuffer(self.fill, values.dtype)[0])
        filled[tuple(map(slice, values.shape))] = values
        return filled


def fill_of(identifier: Any, element: ElementType) -> str | bytes:
    """The fill value of a dataset, as `FilledLoader` takes it.

    Raises
    ------
    Unreferable
        If it can't be told.
    """
    dtype = element.dtype
    try:
        fill: Any = h5py.Dataset(identifier).fillvalue
        if element.form == "string" and h5py.check_string_dtype(dtype) is not None:
            return fill if isinstance(fill, str) else bytes(fill).decode()
        if not dtype.hasobject:
            return np.array(fill, dtype).tobytes()
    except (*HDF5_ERRORS, UnicodeDecodeError) as error:
        reason = f"{element.name}, and the fill value can't be read ({error})"
        raise Unreferable(reason, DROP, readable=False) from error
    reason = f"{element.name} that are shorter than their dimensions"
    raise Unreferable(reason, DROP, readable=False)


def _whole(dataset: h5py.Dataset) -> npt.NDArray[Any]:
    info = h5py.check_string_dtype(dataset.dtype)
    text = info is not None and info.length is None
    read: Any = dataset.asstr() if text else dataset
    dtype = np.dtype(object) if text else dataset.dtype
    if dataset.size * dataset.dtype.itemsize <= PIECE:
        return _array(read[()], dtype)
    # strings of any length take long: this is seen to go on
    rows = max(1, PIECE // (dataset.size // dataset.shape[0] * dataset.dtype.itemsize))
    if dataset.chunks is not None:
        rows = -(-rows // dataset.chunks[0]) * dataset.chunks[0]
    values: npt.NDArray[Any] | None = None
    with Progress("copying values", dataset.shape[0], unit="rows") as progress:
        for row in range(0, dataset.shape[0], rows):
            piece = read[row : row + rows]
            if values is None:
                values = np.empty(dataset.shape, piece.dtype)
            values[row : row + rows] = piece
            progress.advance(len(piece))
    assert values is not None  # there are rows: it is large
    return values


def _require_own(dataset: h5py.Dataset, source: Source) -> None:
    """Refuse what lies elsewhere, where a file of the network says so: it would be read here."""
    creation = dataset.id.get_create_plist()
    virtual = creation.get_layout() == h5py.h5d.VIRTUAL
    if is_url(source.container) and (virtual or creation.get_external_count()):
        reason = "its values lie in other files, which only local files may lead to"
        raise UnsupportedVariable(reason, url=source.url, array=dataset.name)


def _require_filters(dataset: h5py.Dataset, url: str) -> None:
    """Load the plug-ins that a dataset needs; each process has to."""
    missing = lacking(dataset.id.get_create_plist())
    if missing:
        reason = "the HDF5 library lacks its filter"
        raise UnsupportedVariable(reason, url=url, array=dataset.name, remedy=missing)


def _array(values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array of what h5py gave, which for shape ``()`` is a scalar."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, str):
        return np.asarray(values)
    array = np.empty((), object if dtype.kind == "O" else dtype)
    array[()] = values
    return array


@contextmanager
def _opened(source: Source) -> Generator[Opened]:
    """The file, if it is still the one that was scanned."""
    if is_url(source.container):
        from intarsia.io.blocks import opened_remote  # its client takes its time to import

        remote = opened_remote(source.url, source.access, pinned=source)
        with remote as place, opened(place) as file:
            yield file
        return
    with opened(source.url) as file:
        if (file.source.size, file.source.mtime_ns) != (source.size, source.mtime_ns):
            raise SourceChanged("the file is not the one that was scanned", url=source.url)
        yield file


def _unread(error: Exception, path: str, name: str) -> CorruptChunk:
    return CorruptChunk(f"the HDF5 library can't read the values ({error})", url=path, array=name)
