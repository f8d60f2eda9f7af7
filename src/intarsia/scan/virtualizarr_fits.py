"""FITS, by VirtualiZarr's parser: what it says wrongly of images is put right, or refused.

It takes images that are compressed in tiles for plain ones, and gives the bytes of their tables for
pixels. Scales become a codec that divides by their reciprocals: values differ in the last bit from
what the standard says, and so does the value of pixels that are missing (BLANK), which are then not
known for missing. Here integers are as they are stored, and scales and BLANK are attributes.
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
from intarsia.scan.virtualizarr_described import Described
from intarsia.scan.virtualizarr_here import is_called_here

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


class _Described:
    """Describes a part of a file, if it can be."""

    def __init__(self, describe: Any) -> None:
        self._describe = describe

    def __call__(self, hdu: Any, name: str, url: str) -> Any:
        what = BEYOND.get(type(hdu).__name__)
        if what is not None and is_called_here():
            raise NotImplementedError(
                f"{name!r} is {what}; drop_variables={[name]!r} leaves it out"
            )
        return self._describe(hdu, name, url)


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
    if stored.kind in "iu" and blank is not None:
        limits = np.iinfo(stored)
        if limits.min <= int(blank) <= limits.max:
            attrs["_FillValue"] = int(blank)
    if (scale, offset) != (1.0, 0.0):
        attrs |= {"scale_factor": scale, "add_offset": offset}
    return replace(one, attrs=attrs, dtype=stored, codecs=one.codecs[1:], fill=stored.type(0))
