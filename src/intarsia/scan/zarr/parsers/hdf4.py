"""HDF4, by VirtualiZarr's parser: what is wrong in the decoder behind it is mended or refused.

kerchunk 0.2.10 takes every float, in arrays and attributes, for little-endian, where HDF4 has the
other order as a rule and says which; and it takes all that is compressed for deflated. It does not
tell the value of chunks that were never written, which would come out as 0. It reads by fsspec,
which knows nothing of how a URL is reached here.
"""

# The decoder is looked at by its attributes.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from intarsia.errors import UnsupportedError
from intarsia.io.paths import is_url
from intarsia.references import ABSENT
from intarsia.scan.zarr.described import Described
from intarsia.scan.zarr.parsers.here import is_called_here

__all__ = ["NOTE", "REMEDY", "check_place", "mend", "without_holes"]

NOTE = (
    "read by kerchunk's decoder of HDF4: dimensions have names of its own, attributes of several "
    "values only the first, and which variables are coordinates is not told"
)
REMEDY = (
    "of HDF4 only deflated arrays of one or two dimensions can be read: convert it to netCDF or "
    "HDF5, as h4tonccf and h4toh5 do"
)
ORDERS = {1: ">", 4: "<"}
"""Byte order by the class that a number type has in the file."""

NOWHERE = (1 << 32) - 1
"""Offset of what was never written, which the decoder takes for one."""

DEFLATE = 4
"""Its number among the ways of compressing."""


def mend() -> None:
    """Have kerchunk's decoder read numbers in their byte order, and say what it can't read.

    It does so when it is called from here, and for others what it did before.

    Raises
    ------
    ImportError
        If kerchunk, or what it needs, is not installed.
    """
    module: Any = importlib.import_module("kerchunk.hdf4")
    if isinstance(module.decoders["NT"], _MendedType):
        return
    # what the table says of attributes, and of arrays where they don't say themselves
    module.dtypes = _MendedTable(module.dtypes)
    module.decoders["NT"] = _MendedType(module.decoders["NT"])
    module.HDF4ToZarr._dec_comp = _mended_compression(module)


class _MendedTable(dict[int, str]):
    """The table of number types, which has the order that HDF4 has as a rule."""

    def __getitem__(self, number: int) -> str:
        found = {5: ">f4", 6: ">f8"}.get(number) if is_called_here() else None
        return super().__getitem__(number) if found is None else found


class _MendedType:
    """The decoder of number types, which minds the order that a type has."""

    def __init__(self, decode: Any) -> None:
        self._decode = decode

    def __call__(self, decoder: Any, info: Any) -> Any:
        told = self._decode(decoder, info)
        dtype = told["typ"]
        if not is_called_here():
            return told
        if np.dtype(dtype).kind in "iuf" and np.dtype(dtype).itemsize > 1:
            if told["cls"] not in ORDERS:
                raise NotImplementedError(f"it has numbers of the class {told['cls']}")
            told["typ"] = ORDERS[told["cls"]] + np.dtype(dtype).str[1:]
        return told


def _mended_compression(module: Any) -> Any:
    """The decoder of what is compressed, which minds how."""
    decode = module.HDF4ToZarr._dec_comp

    def decoded(decoder: Any) -> Any:
        if not is_called_here():
            return decode(decoder)
        at = decoder.f.tell()
        decoder.f.seek(10, 1)  # version, length, reference, model
        number = decoder.read_int(2)
        decoder.f.seek(at)
        if number != DEFLATE:
            name = module.comp.get(number, number)
            raise NotImplementedError(f"it has arrays that are compressed by {name}")
        return decode(decoder)

    return decoded


def check_place(place: str) -> None:
    """Refuse a URL.

    Raises
    ------
    UnsupportedError
        If it is one.
    """
    if is_url(place):
        raise UnsupportedError(
            "HDF4 is read from files of this machine only",
            url=place,
            remedy="fetch it first, or convert it to netCDF",
        )


def without_holes(one: Described) -> Described:
    """The array; one that refuses to be read, where it has chunks that were never written."""
    nowhere = one.manifest.offsets == NOWHERE
    if not ((one.manifest.states == ABSENT) | nowhere).any():
        return one
    fault = UnsupportedError(
        "it has chunks that were never written, and the parser does not tell their value",
        remedy="convert it to netCDF or HDF5",
    )
    return Described.faulty(one.dims, one.attrs, one.shape, one.data_type, fault)
