"""What `intarsia.hdf5` may be told: pipelines and datatypes, checked before the library sees them.

The HDF5 library derives most filter parameters itself and trusts what it is given otherwise, so
what comes from a stranger is held to the filters we know, to as many parameters as each has, and
to datatypes that are plain integers or floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np

from intarsia.codecs.cases_types import entries, fail, text_of
from intarsia.codecs.hdf5_filters import (
    BZIP2,
    LZF,
    NBIT,
    SCALEOFFSET,
    SHUFFLE,
    SZIP,
    native_codec,
)
from intarsia.encoding import Codec

__all__ = ["hdf5_configuration", "hdf5_filter"]

MAX_CHUNK_BYTES = (1 << 32) - 1
"""HDF5's own limit of a chunk."""
MAX_FILTERS = 32
MAX_DIMS = 32
MAX_NAME = 256
_SIZES = {
    1: (1, 1),  # deflate: level
    2: (0, 1),  # shuffle: size of an element
    3: (0, 0),  # fletcher32
    4: (4, 4),  # szip: options, pixels per block, bits per pixel, pixels per scan line
    5: (8, 8),  # nbit, of atomic types
    6: (20, 20),  # scaleoffset
    307: (0, 8),  # bzip2: level
    32000: (0, 3),  # lzf: version of the filter, of the library, bytes of a chunk
    32001: (0, 8),  # blosc: versions, bytes of an element and chunk, level, shuffle, compressor
    32004: (0, 8),  # lz4: bytes of a block
    32008: (3, 8),  # bitshuffle: versions, bytes of an element, block, compressor, level
    32015: (0, 8),  # zstd: level
}
"""Numbers of the filters, with the fewest and most parameters they have.

The library never sees those from 307 on but lzf: they are undone without it, as they come after
its own.
"""


def hdf5_configuration(codec: Codec) -> dict[str, Any]:
    """Write the configuration of an ``hdf5`` filter down (see `intarsia.codecs.hdf5`)."""
    config = codec.config
    return {
        "pipeline": [
            [number, flags, list(values), name]
            for number, flags, values, name in config["pipeline"]
        ],
        "datatype": config["datatype"],
        "chunk_shape": list(config["chunk_shape"]),
        "fill": config["fill"],
    }


def hdf5_filter(configuration: Any, stored: np.dtype[Any]) -> Codec:
    """Read such a configuration.

    Raises
    ------
    ValueError
        If it asks for what the library should not be asked for.
    """
    names = ("pipeline", "datatype", "chunk_shape", "fill")
    config = entries(configuration, "intarsia.hdf5", names)
    if stored.kind not in "iuf":
        raise ValueError(f"intarsia.hdf5 gives integers and floats, not {stored}")
    size = _datatype_size(_bytes(config["datatype"], "datatype", 64))
    shape = _integers(config["chunk_shape"], "chunk_shape", MAX_DIMS, MAX_CHUNK_BYTES)
    if not shape or min(shape) < 1 or prod(shape) * max(size, stored.itemsize) > MAX_CHUNK_BYTES:
        raise fail("chunk_shape", shape, f"positive, of at most {MAX_CHUNK_BYTES} bytes")
    pipeline: Any = config["pipeline"]
    if not isinstance(pipeline, list):
        raise fail("pipeline", pipeline, "a list")
    filters = tuple(_entry(entry) for entry in cast("list[Any]", pipeline))
    if len(filters) > MAX_FILTERS:
        raise ValueError(f"there are more than {MAX_FILTERS} filters")
    _check_order([number for number, _, _, _ in filters])
    fill = config["fill"]
    if fill is not None:
        _bytes(fill, "fill", 16)
        if all(number != SCALEOFFSET for number, _, _, _ in filters):
            raise ValueError("fill is given, but no filter depends on it")
    return Codec.make(
        "hdf5", pipeline=filters, datatype=config["datatype"], chunk_shape=shape, fill=fill
    )


def _entry(entry: Any) -> tuple[int, int, tuple[int, ...], str]:
    if not isinstance(entry, list) or len(cast("list[Any]", entry)) != 4:
        raise fail("a filter", cast("Any", entry), "[number, flags, parameters, name]")
    number, flags, given, name = cast("list[Any]", entry)
    if type(number) is not int or number not in _SIZES:
        raise ValueError(f"the HDF5 filter {text_of(number)} is not known")
    if type(flags) is not int or flags not in (0, 1):
        raise fail("flags", flags, "0 or 1")
    low, high = _SIZES[number]
    values = _integers(given, f"parameters of the HDF5 filter {number}", high, (1 << 32) - 1)
    if len(values) < low:
        raise ValueError(f"the HDF5 filter {number} has too few parameters, {text_of(given)}")
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise fail("the name of a filter", name, f"a string of at most {MAX_NAME} characters")
    _check_values(number, values)
    if number >= BZIP2 and number != LZF and native_codec((number, flags, values, name), 1) is None:
        raise ValueError(f"the HDF5 filter {number} with {list(values)} needs a plug-in")
    return number, flags, values, name


def _check_values(number: int, values: Sequence[int]) -> None:
    """Refuse parameters that a filter would divide by, loop over or index with."""
    sound = True
    if number == 1:
        sound = values[0] <= 9
    elif number == SHUFFLE:
        sound = len(values) == 1 and 1 <= values[0] <= 64
    elif number == SZIP:
        _, block, bits, line = values
        sound = 2 <= block <= 32 and block % 2 == 0 and 1 <= bits <= 64 and line >= 1
    elif number == NBIT:
        sound = values[3] == 1 and 1 <= values[4] <= 16
    elif number == SCALEOFFSET:
        sound = 1 <= values[4] <= 16
    if not sound:
        raise ValueError(f"the HDF5 filter {number} can't have the parameters {list(values)}")


def _check_order(numbers: Sequence[int]) -> None:
    """Refuse pipelines in which the library would hand on bytes that can't be measured before.

    It trusts what one of its filters gets from the next to be long enough. All but szip, nbit and
    scaleoffset are undone, or measured, without it.
    """
    for index, number in enumerate(numbers):
        if number in (SZIP, NBIT, SCALEOFFSET) and any(n not in (2, 3) for n in numbers[:index]):
            raise ValueError(f"the HDF5 filter {number} can't come after {numbers[:index]}")


def _integers(value: Any, what: str, count: int, top: int) -> tuple[int, ...]:
    if not isinstance(value, list) or len(cast("list[Any]", value)) > count:
        raise fail(what, cast("Any", value), f"a list of at most {count}")
    numbers = cast("list[Any]", value)
    if any(type(number) is not int or not 0 <= number <= top for number in numbers):
        raise fail(what, numbers, f"integers from 0 to {top}")
    return tuple(numbers)


def _bytes(value: Any, what: str, most: int) -> bytes:
    """Bytes from hexadecimal digits as Python writes them."""
    try:
        data = bytes.fromhex(value)
    except (TypeError, ValueError):
        data = b""
    if not data or len(data) > most or data.hex() != value:
        raise fail(what, value, f"at most {most} bytes in hexadecimal")
    return data


def _datatype_size(data: bytes) -> int:
    """Size of the integer or float that HDF5's encoding of a datatype (H5Tencode) describes.

    Message type 3 and encoding version 0; then the datatype message: class (low four bits) and
    version, 24 bits of class, the size, and for integers the bit offset and precision, for floats
    also the places and sizes of exponent and mantissa, and the bias.
    """
    refusal = ValueError(f"the HDF5 datatype {data.hex()} is not a plain integer or float")
    if len(data) < 14 or data[:2] != b"\x03\x00" or not 1 <= data[2] >> 4 <= 5:
        raise refusal
    kind, bits = data[2] & 15, int.from_bytes(data[3:6], "little")
    size = int.from_bytes(data[6:10], "little")
    offset = int.from_bytes(data[10:12], "little")
    precision = int.from_bytes(data[12:14], "little")
    if not 1 <= size <= 16 or precision < 1 or offset + precision > 8 * size:
        raise refusal
    if kind == 0:
        # byte order, padding and sign
        if len(data) != 14 or size > 8 or bits & ~0b1111:
            raise refusal
    elif kind == 1:
        if len(data) != 22:
            raise refusal
        sign, norm = bits >> 8 & 255, bits >> 4 & 3
        if bits >> 16 or bits & 0b1100_0000 or norm == 3 or sign >= offset + precision:
            raise refusal
        exponent, exponent_size, mantissa, mantissa_size = data[14:18]
        ends = exponent + exponent_size, mantissa + mantissa_size
        if not exponent_size or not mantissa_size or max(ends) > offset + precision:
            raise refusal
        if exponent < ends[1] and mantissa < ends[0]:
            raise refusal
    else:
        raise refusal
    return size
