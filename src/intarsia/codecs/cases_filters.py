"""The filters of cases that need no HDF5 library: JSON of those in `intarsia.codecs.filters`."""

from __future__ import annotations

from typing import Any

from intarsia.codecs.cases_types import entries, fail
from intarsia.encoding import Codec

__all__ = ["filter_json", "filter_of"]

MAX_ELEMENTSIZE = 1 << 20
MAX_BLOCKSIZE = 1 << 30
FILTERS = {
    "zlib": "numcodecs.zlib",
    "shuffle": "numcodecs.shuffle",
    "fletcher32": "numcodecs.fletcher32",
    "zstd": "numcodecs.zstd",
    "blosc": "numcodecs.blosc",
    "bz2": "numcodecs.bz2",
    "lz4": "intarsia.hdf5-lz4",
    "bitshuffle": "intarsia.hdf5-bitshuffle",
}
_NAMES = {name: ours for ours, name in FILTERS.items()}
_CONFIGURED = ("shuffle", "bitshuffle")


def filter_json(codec: Codec) -> dict[str, Any]:
    """Write a filter down; levels don't matter to who decodes.

    Raises
    ------
    ValueError
        If there is no case with it.
    """
    if codec.name not in FILTERS:
        raise ValueError(f"there is no case with the filter {codec}")
    configured = {"configuration": dict(codec.config)} if codec.name in _CONFIGURED else {}
    return {"name": FILTERS[codec.name]} | configured


def filter_of(name: str, configuration: Any) -> Codec:
    """Read a filter.

    Raises
    ------
    ValueError
        If it isn't known, or its configuration is not what it has to be.
    """
    ours = _NAMES.get(name)
    if ours is None:
        raise ValueError(f"there is no codec {name[:64]!r} for a case's bytes")
    if ours not in _CONFIGURED:
        if configuration is not None:
            raise ValueError(f"{name} has a configuration, which cases leave out")
        return Codec.make(ours)
    if ours == "shuffle":
        size = entries(configuration, name, ("elementsize",))["elementsize"]
        return Codec.make("shuffle", elementsize=_size(size))
    config = entries(configuration, name, ("elementsize",), ("compressor", "blocksize"))
    size = _size(config["elementsize"])
    if len(config) != 2:
        raise fail(name, config, "told a compressor or the size of its blocks")
    if "compressor" in config:
        compressor = config["compressor"]
        if compressor not in ("lz4", "zstd"):
            raise fail("compressor", compressor, "'lz4' or 'zstd'")
        return Codec.make(ours, elementsize=size, compressor=compressor)
    block = config["blocksize"]
    if type(block) is not int or not 8 <= block <= MAX_BLOCKSIZE or block % 8:
        raise fail("blocksize", block, f"a multiple of 8 up to {MAX_BLOCKSIZE}")
    return Codec.make(ours, elementsize=size, blocksize=block)


def _size(size: Any) -> int:
    if type(size) is not int or not 1 <= size <= MAX_ELEMENTSIZE:
        raise fail("elementsize", size, f"an integer from 1 to {MAX_ELEMENTSIZE}")
    return size
