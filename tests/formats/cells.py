"""The cells of the table of formats: a small file for each thing that a format can hold.

Each maker writes, into an empty folder, something with a variable ``v``, and says how the oracle
reads it. A format has a column in the table, a feature has a row; what has no maker, the format
does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

type Oracle = Callable[[], xr.Dataset]


@dataclass(frozen=True)
class Made:
    """What a maker has written.

    Parameters
    ----------
    place
        To be opened.
    oracle
        Reads it with its own library; None where no library can.
    arguments
        For `intarsia.open_dataset`.
    like
        Name of the variable, where only its values are to be compared, as the oracle has no view
        of the rest.
    """

    place: Path | str
    oracle: Oracle | None
    arguments: dict[str, Any] = field(default_factory=dict)
    like: str = ""


type Maker = Callable[[Path], Made]

MAKERS: dict[tuple[str, str], Maker] = {}
"""By feature and format."""

FEATURES: dict[str, str] = {
    # how values lie in the file
    "one block": "layout",
    "chunks": "layout",
    "chunks at the edge, and never written ones": "layout",
    "records that interleave": "layout",
    "within the metadata (compact)": "layout",
    "in external raw files": "layout",
    "shards": "layout",
    "parts of other files (virtual dataset)": "layout",
    "behind a soft link": "layout",
    "behind an external link": "layout",
    # how they are encoded
    "deflate, shuffle, checksum": "encoding",
    "zstd": "encoding",
    "lz4": "encoding",
    "Blosc": "encoding",
    "Blosc2": "encoding",
    "bitshuffle": "encoding",
    "bzip2": "encoding",
    "zfp": "encoding",
    "szip": "encoding",
    "lzf": "encoding",
    "scale-offset": "encoding",
    "n-bit": "encoding",
    "LZW, predictor": "encoding",
    "scale_factor, add_offset, _FillValue": "encoding",
    # of what type they are
    "numbers of either byte order": "type",
    "characters": "type",
    "strings of fixed length": "type",
    "strings of any length": "type",
    "bool": "type",
    "enumerations": "type",
    "complex": "type",
    "compound": "type",
    "opaque": "type",
    "references to objects": "type",
    "lists of any length": "type",
    # how variables are put together
    "groups": "structure",
    "dimensions without names": "structure",
}
"""Rows of the table in order, with the section that each is in."""

FORMATS: dict[str, str] = {}
"""Columns in order: what each is called, and what is said of it below the table."""


def cell(feature: str, *formats: str) -> Callable[[Maker], Maker]:
    """Register a maker."""
    assert feature in FEATURES, feature

    def register(maker: Maker) -> Maker:
        for name in formats:
            assert (feature, name) not in MAKERS, (feature, name)
            MAKERS[feature, name] = maker
        return maker

    return register


def formatted(name: str, said: str = "") -> str:
    """Register a format."""
    FORMATS[name] = said
    return name
