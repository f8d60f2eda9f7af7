"""Combines a case's files with Intarsia and compares every bit with xarray reading each alone."""

# Parts of xarray's signatures are untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

import intarsia
from intarsia.demo.boxes import Box, boxes_of
from intarsia.demo.cases import Case
from intarsia.demo.field import temperature
from intarsia.demo.files import NAME, write
from intarsia.demo.oneset import Refused, one_set
from intarsia.errors import IntarsiaError
from intarsia.io.fetch import observe

COMBINE: dict[str, Any] = {"data_vars": "all", "coords": "minimal", "compat": "override"}
"""How to combine: what xarray's own defaults are going to be."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case.

    Parameters
    ----------
    case
        Which.
    paths
        Its files.
    values
        What Intarsia gives: (day, latitude, longitude), in °C. None if it raised.
    alone
        What xarray gives, reading each file on its own.
    one_set
        What one set of attributes gives.
    boxes
        The segments of the virtual array.
    encodings
        Distinct encodings among the segments.
    requests, nbytes
        Reads that loading took, and their bytes.
    unequal
        What is not as xarray gives it; empty if every bit is.
    """

    case: Case
    paths: tuple[Path, ...]
    values: npt.NDArray[Any] | None
    alone: npt.NDArray[Any]
    one_set: npt.NDArray[Any] | Refused
    boxes: tuple[Box, ...]
    encodings: int
    requests: int
    nbytes: int
    unequal: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether Intarsia gives every bit that xarray gives."""
        return not self.unequal


def run(case: Case, folder: Path) -> Outcome:
    """Make the files of a case, combine them, and compare.

    Parameters
    ----------
    case
        Which.
    folder
        Where the files go; made where it is absent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole = temperature()
    groups: list[list[Path]] = []
    for number, pieces in enumerate(case.groups):
        part = "abcdef"[number] if len(case.groups) > 1 else ""
        group = [folder / f"{case.key}-{part}{n}.nc" for n in range(1, len(pieces) + 1)]
        for path, piece in zip(group, pieces, strict=True):
            write(path, piece, whole)
        groups.append(group)
    paths = tuple(path for group in groups for path in group)
    alone = _alone(case, groups)
    decoded = one_set(case, paths)
    try:
        virtual = _combined(case, groups)
        array = virtual.intarsia.arrays[NAME]
        drawn = boxes_of(array, paths)
        with observe() as reads:
            loaded = virtual.load()
    except IntarsiaError as error:
        told = (f"{type(error).__name__}: {error}",)
        return Outcome(case, paths, None, alone[NAME].values, decoded, (), 0, 0, 0, told)
    encodings = len({box.encoding for box in drawn})
    return Outcome(
        case, paths, loaded[NAME].values, alone[NAME].values, decoded, drawn, encodings,
        reads.requests, reads.nbytes, tuple(differing(loaded, alone)),
    )  # fmt: skip


def _combined(case: Case, groups: Sequence[Sequence[Path]]) -> xr.Dataset:
    """All files as one virtual dataset."""
    joined = [
        intarsia.open_mfdataset(
            group, combine="nested", concat_dim="time", **COMBINE, **case.options
        )
        for group in groups
    ]
    return joined[0] if len(joined) == 1 else _beside(joined)


def _alone(case: Case, groups: Sequence[Sequence[Path]]) -> xr.Dataset:
    """Each file read by xarray on its own, then the values combined by xarray."""
    joined: list[xr.Dataset] = []
    for group in groups:
        datasets: list[xr.Dataset] = []
        for path in group:
            with xr.open_dataset(path, engine="h5netcdf") as dataset:
                datasets.append(dataset.load())
        if case.options.get("align") == "flip":
            datasets = [dataset.sortby("lat") for dataset in datasets]
        joined.append(
            xr.combine_nested(datasets, "time", join="exact", combine_attrs="override", **COMBINE)
        )
    return joined[0] if len(joined) == 1 else _beside(joined)


def _beside(datasets: Sequence[xr.Dataset]) -> xr.Dataset:
    return xr.concat(datasets, "lon", join="exact", **COMBINE)


def differing(actual: xr.Dataset, expected: xr.Dataset) -> list[str]:
    """Say what is not the same in two datasets: names, dims, types, attributes, any bit."""
    found: list[str] = []
    if set(actual.data_vars) != set(expected.data_vars) or set(actual.coords) != set(
        expected.coords
    ):
        found.append(f"variables are {sorted(map(str, actual.variables))}")
    if actual.attrs != expected.attrs:
        found.append(f"global attributes are {actual.attrs}, not {expected.attrs}")
    for name in expected.variables.keys() & actual.variables.keys():
        mine, theirs = actual.variables[name], expected.variables[name]
        for what in ("dims", "shape", "dtype", "attrs"):
            one, two = getattr(mine, what), getattr(theirs, what)
            if one != two:
                found.append(f"{what} of {name} are {one}, not {two}")
        if mine.shape == theirs.shape and mine.dtype == theirs.dtype:
            wrong = int((~same_bits(mine.values, theirs.values)).sum())
            if wrong:
                found.append(f"{wrong} of {mine.size} values of {name} differ")
    return found


def same_bits(one: npt.NDArray[Any], two: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where two arrays of one type and shape have the same bits; NaN equals NaN."""
    bits = f"u{one.dtype.itemsize}"
    same = np.ascontiguousarray(one).view(bits) == np.ascontiguousarray(two).view(bits)
    return same | ((one != one) & (two != two))
