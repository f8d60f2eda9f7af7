"""What one set of attributes would give: the picture of a manifest that has a single encoding.

A manifest that describes an array by *one* type, *one* chain of filters, *one* chunk grid, *one*
fill value and *one* set of attributes, the first file's, can only refer to the others' chunks as if
they were the first's. Either that is impossible, and refused; or it is possible, and every number
is decoded as the first file says.

Nothing is asserted here: the numbers are read from the files, as they are stored.
"""

# h5py is untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.demo.cases import Case
from intarsia.demo.field import DAYS, LATITUDES, LONGITUDES
from intarsia.demo.files import NAME, boxes


@dataclass(frozen=True, slots=True)
class Refused:
    """That one set of attributes can't describe the files, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """The numbers of one file as they are stored, and how.

    Parameters
    ----------
    numbers
        The stored numbers.
    unwritten
        Boxes of chunks that were never written.
    dtype, filters, chunks
        How they are stored.
    fill
        HDF5's fill value.
    attrs
        Attributes of the variable.
    """

    numbers: npt.NDArray[Any]
    unwritten: tuple[tuple[slice, ...], ...]
    dtype: str
    filters: str
    chunks: tuple[int, ...]
    fill: Any
    attrs: dict[str, Any]


def one_set(case: Case, paths: Sequence[Path]) -> npt.NDArray[Any] | Refused:
    """Decode the numbers of all files under the first file's encoding and attributes.

    Parameters
    ----------
    case
        Says where in the whole each file lies.
    paths
        Its files, in order.

    Returns
    -------
    ndarray or Refused
        The whole as one encoding gives it, or why it can't be had.
    """
    files = [_read(path) for path in paths]
    first = files[0]
    assert first is not None, "the first file has the variable"
    present = [file for file in files if file is not None]
    reason = _differing(present) or _ragged(case, files, first.chunks)
    if reason:
        return Refused(reason)
    shape = (DAYS, len(LATITUDES), len(LONGITUDES))
    numbers = np.full(shape, first.fill, first.dtype)
    for file, piece in zip(files, case.pieces, strict=True):
        if file is not None:
            part = file.numbers.copy()
            for box in file.unwritten:
                part[box] = first.fill
            numbers[slice(*piece.days), :, slice(*piece.columns)] = part
    raw = xr.Dataset({NAME: (("time", "lat", "lon"), numbers, first.attrs)})
    return xr.decode_cf(raw)[NAME].values


def _read(path: Path) -> _Stored | None:
    with h5py.File(path) as file:
        if NAME not in file:
            return None
        dataset: Any = file[NAME]
        layout = dataset.id
        written = {
            layout.get_chunk_info(number).chunk_offset for number in range(layout.get_num_chunks())
        }
        unwritten = tuple(
            box
            for box in boxes(dataset.shape, dataset.chunks)
            if tuple(side.start for side in box) not in written
        )
        names = ["shuffle"] * bool(dataset.shuffle) + ["gzip"] * bool(dataset.compression)
        hidden = ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME")
        return _Stored(
            dataset[...],
            unwritten,
            dataset.dtype.name,
            " and ".join(names) or "no filter",
            dataset.chunks,
            dataset.fillvalue,
            {name: value for name, value in dataset.attrs.items() if name not in hidden},
        )


def _differing(files: Sequence[_Stored]) -> str:
    """Why files can't share one encoding, or ""."""
    for what, values in (
        ("type of number", [file.dtype for file in files]),
        ("chain of filters", [file.filters for file in files]),
        ("chunk shape", ["x".join(map(str, file.chunks)) for file in files]),
    ):
        distinct = list(dict.fromkeys(values))
        if len(distinct) > 1:
            return f"one array has one {what}, the files have {'; '.join(distinct)}"
    return ""


def _ragged(case: Case, files: Sequence[_Stored | None], chunks: tuple[int, ...]) -> str:
    """Why files can't share one regular chunk grid, or ""."""
    for file, piece in zip(files, case.pieces, strict=True):
        (first, stop), days = piece.days, chunks[0]
        if file is not None and stop < DAYS and (stop - first) % days:
            return (
                "in a regular chunk grid only the last chunk may be cut short, "
                f"but files of {stop - first} days in chunks of {days} follow one another"
            )
    return ""
