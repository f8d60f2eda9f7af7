"""A Zarr array's chain of codecs as an encoding of ours, with fast filters where there are some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from intarsia.codecs.filters import NATIVE
from intarsia.codecs.zarr_chain import zarr_filter
from intarsia.codecs.zarr_names import LERC
from intarsia.encoding import Codec
from intarsia.errors import UnsupportedError

__all__ = ["Coding", "coding_of", "sharding_of"]

PLAIN = "biufcSU"
"""Kinds of dtype whose elements are their bytes."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How the chunks of one array are stored.

    Parameters
    ----------
    axes
        Dimension of the array that each dimension of a stored chunk is, slowest first.
    stored
        Type of the stored elements.
    filters
        As for `Encoding`.
    """

    axes: tuple[int, ...]
    stored: np.dtype[Any]
    filters: tuple[Codec, ...]


def coding_of(
    codecs: Sequence[dict[str, Any]], dtype: np.dtype[Any], chunks: tuple[int, ...]
) -> Coding:
    """How a chain of codecs stores chunks.

    Parameters
    ----------
    codecs
        As the metadata of a Zarr v3 array has them, without sharding.
    dtype
        Of the array, of one of the kinds `PLAIN`, ``M`` and ``m``.
    chunks
        Shape of a chunk.

    Raises
    ------
    UnsupportedError
        If what decodes them loses values.
    """
    named = [_named(codec) for codec in codecs]
    if any(name == LERC for name, _ in named):
        raise UnsupportedError(
            "stored with LERC, whose decoder here does not tell which values are missing",
            remedy="write the file again with another compression (deflate, zstd)",
        )
    found = _native(named, dtype, chunks)
    if found is not None:
        return found
    # not always that of the bytes, but what xarray's store gives: decoding can depend on it
    stored = dtype if dtype.byteorder == ">" else dtype.newbyteorder("<")
    whole = zarr_filter([dict(codec) for codec in codecs], chunks, stored)
    return Coding(tuple(range(len(chunks))), stored, (whole,))


def sharding_of(codecs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Configuration of the sharding codec of a chain that has nothing but that."""
    if len(codecs) != 1:
        return None
    name, config = _named(codecs[0])
    return config if name == "sharding_indexed" else None


def _named(codec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return str(codec["name"]), cast("dict[str, Any]", codec.get("configuration") or {})


def _native(
    codecs: list[tuple[str, dict[str, Any]]], dtype: np.dtype[Any], chunks: tuple[int, ...]
) -> Coding | None:
    """The chain as transposition, byte order and filters; None where it has something else."""
    axes = tuple(range(len(chunks)))
    rest = list(codecs)
    while rest and rest[0][0] == "transpose":
        order = rest.pop(0)[1].get("order")
        if not isinstance(order, list | tuple):
            return None
        axes = tuple(axes[int(n)] for n in cast("Sequence[Any]", order))
    if not rest or rest[0][0] not in ("bytes", "ChunkyCodec"):
        return None
    name, config = rest.pop(0)
    if name == "ChunkyCodec":  # the first dimension runs fastest
        axes = axes[::-1]
    stored = dtype.newbyteorder(">" if config.get("endian") == "big" else "<")
    filters: list[Codec] = []
    for name, config in rest:
        found = _filter(name, config, stored.itemsize)
        if found is None or found.name not in NATIVE:
            return None
        filters.append(found)
    return Coding(axes, stored, tuple(filters))


def _filter(name: str, config: dict[str, Any], itemsize: int) -> Codec | None:
    """One codec of bytes as a filter of ours, or None."""
    short = name.removeprefix("numcodecs.")
    if short == "shuffle":
        return Codec.make("shuffle", elementsize=int(config.get("elementsize") or itemsize))
    if short == "zlib" or (name == "imagecodecs_deflate" and not config.get("raw")):
        return Codec.make("zlib")
    if short in SAME:
        return Codec.make(SAME[short])
    return None


SAME = {
    "fletcher32": "fletcher32",
    "bz2": "bz2",
    "zstd": "zstd",
    "blosc": "blosc",
}
"""Names of codecs, and of filters that do the same whatever they are told."""
