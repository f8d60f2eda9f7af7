"""FITS, by VirtualiZarr's parser: what it says wrongly of images is put right, or refused.

It takes images that are compressed in tiles for plain ones, and gives the bytes of their tables for
pixels. Scales become a codec that divides by their reciprocals: values differ in the last bit from
what the standard says, and so does the value of pixels that are missing (BLANK), which are then not
known for missing. Here integers are as they are stored, and scales and BLANK are attributes. A
BLANK that no pixel can have ends it; here it is none. Numbers in ASCII tables are not scaled by it,
nor known for missing, and one of two images is lost where the name that it makes up for the second
of a name is that of another.
"""

# The parser is looked at by its attributes.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np

from intarsia.errors import UnsupportedError
from intarsia.scan.zarr.described import Described
from intarsia.scan.zarr.parsers.here import is_called_here

__all__ = ["mend", "unscaled"]

SCALED = "numcodecs.fixedscaleoffset"


BEYOND = {
    "CompImageHDU": "an image that is compressed in tiles",
    "BinTableHDU": "a binary table",
    "GroupsHDU": "made of random groups",
}
"""What can't be described by a manifest, by astropy's name for it."""


def mend() -> None:
    """Have the parser refuse what it can't describe, when it is called from here.

    Raises
    ------
    ImportError
        If VirtualiZarr, or what it needs, is not installed.
    """
    module: Any = importlib.import_module("virtualizarr.parsers.fits")
    if not isinstance(module._build_manifest_array, _Described):
        module._build_manifest_array = _Described(module._build_manifest_array)
        module._hdu_names = _Named(module._hdu_names)


class _Named:
    """Names of the parts of a file, each of which is another."""

    def __init__(self, names: Any) -> None:
        self._names = names

    def __call__(self, parts: Any) -> list[str]:
        names: list[str] = self._names(parts)
        if not is_called_here():
            return names
        found: list[str] = []
        for number, name in enumerate(names):
            while name in found:
                name = f"{name}_{number}"
            found.append(name)
        return found


class _Described:
    """Describes a part of a file, if it can be."""

    def __init__(self, describe: Any) -> None:
        self._describe = describe

    def __call__(self, hdu: Any, name: str, url: str) -> Any:
        if not is_called_here():
            return self._describe(hdu, name, url)
        what = BEYOND.get(type(hdu).__name__)
        if type(hdu).__name__ == "TableHDU" and _is_coded(hdu.header):
            what = "a table whose numbers are scaled, or stand for missing ones"
        if what is not None:
            raise NotImplementedError(
                f"{name!r} is {what}; drop_variables={[name]!r} leaves it out"
            )
        blank = hdu.header.get("BLANK")
        if not _is_beside(blank, hdu.header.get("BITPIX")):
            return self._describe(hdu, name, url)
        del hdu.header["BLANK"]
        array = self._describe(hdu, name, url)
        array.metadata.attributes["BLANK"] = blank
        return array


def _is_coded(header: Any) -> bool:
    """Whether the numbers of a table are others than it is written in it."""
    return any(
        f"TNULL{number}" in header
        or header.get(f"TSCAL{number}", 1) != 1
        or header.get(f"TZERO{number}", 0) != 0
        for number in range(1, int(header.get("TFIELDS", 0)) + 1)
    )


def _is_beside(blank: Any, bits: int) -> bool:
    """Whether BLANK is no integer of so many bits."""
    if blank is None or bits not in (8, 16, 32, 64):
        return False
    limits = np.iinfo("u1" if bits == 8 else f"i{bits // 8}")
    return not (isinstance(blank, int) and limits.min <= blank <= limits.max)


def unscaled(one: Described) -> Described:
    """The array as it is stored, with the attributes that say how values are made of it."""
    if not one.codecs or one.codecs[0].get("name") != SCALED:
        return one
    stored = np.dtype(one.codecs[0]["configuration"]["astype"]).newbyteorder("=")
    attrs = {key: value for key, value in one.attrs.items() if key != "_FillValue"}
    scale, offset = float(attrs.get("BSCALE", 1)), float(attrs.get("BZERO", 0))
    blank = attrs.get("BLANK")
    if (stored, scale, offset) == (np.dtype("i8"), 1.0, 2.0**63):
        fault = UnsupportedError(
            "its unsigned integers of 64 bits are stored as signed ones with an offset that floats "
            "can't hold",
            remedy="read it with astropy",
        )
        return Described.faulty(one.dims, one.attrs, one.shape, one.data_type, fault)
    if stored.kind in "iu" and isinstance(blank, int):
        limits = np.iinfo(stored)
        if limits.min <= blank <= limits.max:
            attrs["_FillValue"] = blank
    if (scale, offset) != (1.0, 0.0):
        attrs |= {"scale_factor": scale, "add_offset": offset}
    return replace(one, attrs=attrs, dtype=stored, codecs=one.codecs[1:], fill=stored.type(0))
