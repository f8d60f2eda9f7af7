"""The demo's cases: how the files of one archive are unlike, one difference at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from intarsia.demo.field import DAYS, LONGITUDES
from intarsia.demo.files import Piece, Storage

type Pieces = tuple[Piece, ...]
type Labelled = tuple[str, Storage]

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Case:
    """Files that are unlike in one way.

    Parameters
    ----------
    key
        Short name, for folders and figures.
    title
        What it is.
    differs
        How the files differ, in a phrase.
    groups
        The files: those of a group are combined along time, the groups then along longitude.
    day
        The day that the maps show.
    options
        Arguments for `intarsia.open_mfdataset` besides those.
    """

    key: str
    title: str
    differs: str
    groups: tuple[Pieces, ...]
    day: int
    options: Mapping[str, Any] = field(default_factory=lambda: _NO_OPTIONS)

    @property
    def pieces(self) -> Pieces:
        """All files, in order."""
        return tuple(piece for group in self.groups for piece in group)


def _along_time(
    ends: Sequence[int], *files: Labelled, columns: tuple[int, int] = (0, len(LONGITUDES))
) -> Pieces:
    """Files that follow each other, each up to one of the days `ends`."""
    spans = pairwise((0, *ends))
    return tuple(
        Piece(span, storage, label, columns)
        for span, (label, storage) in zip(spans, files, strict=True)
    )


_FLOATS = Storage()
_DAYS_15 = (15, 20, 20)
_SMALL = (10, 5, 5)


def _packed(scale: float, offset: float, missing: int, **more: Any) -> Storage:
    return Storage(dtype="<i2", scale=scale, offset=offset, missing=missing, **more)


_FINE = _packed(0.01, 0.0, -32768)
_MOVED = _packed(0.01, 6.0, -9999)
_COARSE = _packed(0.02, -5.0, 9999)

THIRDS = (30, 60, 90)
MONTHS = (31, 59, 90)
"""January, February and March of 2021."""

CASES: tuple[Case, ...] = (
    Case(
        "codec-eras",
        "Codec eras",
        "compressed by gzip, then by shuffle and gzip, then not at all",
        (
            _along_time(
                THIRDS,
                ("gzip", Storage(shuffle=False)),
                ("shuffle, gzip", _FLOATS),
                ("no filter", Storage(shuffle=False, gzip=False)),
            ),
        ),
        day=45,
    ),
    Case(
        "month-lengths",
        "Month lengths",
        "one chunk per month, and months of 31, 28 and 31 days",
        (_along_time(MONTHS, *((f"{days} days", Storage(chunks=None)) for days in (31, 28, 31))),),
        day=45,
    ),
    Case(
        "ragged-chunks",
        "Ragged inner chunks",
        "10 days each, in chunks of 4, 4 and 2 days",
        (_along_time(range(10, DAYS + 1, 10), *[("4+4+2", Storage(chunks=(4, 20, 40)))] * 9),),
        day=45,
    ),
    Case(
        "packing",
        "Packing per file",
        "scale_factor, add_offset and _FillValue are each file's own",
        (
            _along_time(
                THIRDS,
                ("0.01 n", _FINE),
                ("0.01 n + 6", _MOVED),
                ("0.02 n − 5", _COARSE),
            ),
        ),
        day=45,
    ),
    Case(
        "dtype-drift",
        "Drifting types",
        "packed int16, then float32, then float64",
        (
            _along_time(
                THIRDS, ("int16", _FINE), ("float32", _FLOATS), ("float64", Storage(dtype="<f8"))
            ),
        ),
        day=45,
    ),
    Case(
        "combined-again",
        "Combining the combined",
        "a west of three files beside an east of two, each file packed its own way",
        (
            _along_time(
                THIRDS,
                ("0.01 n", replace(_FINE, chunks=_DAYS_15)),
                ("0.01 n + 6", replace(_MOVED, chunks=_DAYS_15)),
                ("0.02 n − 5", replace(_COARSE, chunks=_DAYS_15)),
                columns=(0, 40),
            ),
            _along_time(
                (45, DAYS),
                ("0.02 n − 5", replace(_COARSE, chunks=_DAYS_15)),
                ("0.01 n", replace(_FINE, chunks=_DAYS_15)),
                columns=(40, 80),
            ),
        ),
        day=50,
    ),
    Case(
        "never-written",
        "Chunks never written",
        "from the second on they leave out chunks of ice: their fill, unpacked, is −1.8 °C",
        (
            _along_time(
                THIRDS,
                ("fill −32768: missing", replace(_FINE, chunks=_SMALL)),
                ("fill −180: ice", replace(_FINE, chunks=_SMALL, fill=-180)),
                ("fill −180: ice", replace(_FINE, chunks=_SMALL, fill=-180)),
            ),
        ),
        day=45,
    ),
    Case(
        "reversed",
        "Reversed latitudes",
        "the second file runs from north to south, the others from south to north",
        (
            _along_time(
                THIRDS,
                ("northward", _FINE),
                ("southward", replace(_FINE, reversed=True)),
                ("northward", _FINE),
            ),
        ),
        day=45,
        options=MappingProxyType({"align": "flip"}),
    ),
    Case(
        "absent",
        "A variable absent in one file",
        "the second file has no temperature at all",
        (
            _along_time(
                THIRDS,
                ("present", _FLOATS),
                ("absent", Storage(absent=True)),
                ("present", _FLOATS),
            ),
        ),
        day=45,
    ),
)
"""All of them, in the order in which they are shown."""
