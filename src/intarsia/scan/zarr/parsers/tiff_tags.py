"""Tags of TIFF that async-tiff, below virtual-tiff, drops where it doesn't know their value."""

from __future__ import annotations

import struct

from intarsia.errors import ShortRead, UnsupportedError
from intarsia.io.files import File

__all__ = ["check_predictors"]

PREDICTOR = 317
KNOWN = (1, 2, 3)
"""None, differences of integers, and of floats; others are taken for none."""

SHORT = 3
"""The type of such a tag."""

MOST = 1 << 16
"""Tags of a directory that are looked at; classic TIFF has no more."""


def check_predictors(file: File) -> None:
    """Refuse an image whose pixels would come out as they are stored, which is as differences.

    What else is wrong with the file, the parser says.

    Raises
    ------
    UnsupportedError
        If a directory has a predictor that isn't known.
    """
    try:
        predictors = _predictors(file)
    except ShortRead:
        return
    for predictor in predictors:
        if predictor not in KNOWN:
            raise UnsupportedError(
                f"it has the predictor {predictor}, which nothing here undoes", url=file.source.url
            )


def _predictors(file: File) -> list[int]:
    order = "<" if bytes(file.read(0, 2)) == b"II" else ">"
    (magic,) = struct.unpack(f"{order}H", file.read(2, 2))
    large = magic == 43
    number, entry = ("Q", "HHQ8s") if large else ("I", "HHI4s")
    counted = struct.Struct(f"{order}{'Q' if large else 'H'}")
    tags, link = struct.Struct(order + entry), struct.Struct(order + number)
    (at,) = link.unpack(file.read(8 if large else 4, link.size))
    seen: set[int] = set()
    found: list[int] = []
    while at and at not in seen:
        seen.add(at)
        (count,) = counted.unpack(file.read(at, counted.size))
        if count > MOST:
            break
        start, length = at + counted.size, count * tags.size
        table = file.read(start, length + link.size)
        for tag, kind, _, value in tags.iter_unpack(table[:length]):
            if tag == PREDICTOR and kind == SHORT:
                found.append(struct.unpack(f"{order}H", value[:2])[0])
        (at,) = link.unpack(table[length:])
    return found
