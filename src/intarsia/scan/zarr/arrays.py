"""A described Zarr array as a virtual array: shards, order, codecs, fill, references."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from intarsia.array import VirtualArray
from intarsia.encoding import RAW_FILL, Case, Encoding
from intarsia.errors import ChunkError, FormatError, UnsupportedError
from intarsia.io.fetch import MAX_READ
from intarsia.references import Sources
from intarsia.scan.protocol import Opaque
from intarsia.scan.zarr.codecs import PLAIN, coding_of, sharding_of
from intarsia.scan.zarr.described import Described
from intarsia.scan.zarr.loaders import ChunkLoader
from intarsia.scan.zarr.manifests import segments_of
from intarsia.scan.zarr.shards import Shards

__all__ = ["array_of"]


def array_of(
    name: str, one: Described, sources: Sources, notes: Sequence[str] = ()
) -> VirtualArray | Opaque:
    """The array; one that refuses to be read, with the reason, where it makes no sense.

    Parameters
    ----------
    name
        Of the variable, for errors.
    one
        What is known of it.
    sources
        The table that its manifest's numbers are rows of.
    notes
        Remarks.
    """
    try:
        if one.fault is not None:
            raise one.fault
        parts: list[Any] = [_array_of(name, part, sources, notes) for part in one.parts()]
        joined: Any = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=one.short)
        return joined
    except (FormatError, ChunkError, UnsupportedError) as error:
        return Opaque(one.shape, one.dtype, error.reason, error.remedy or "")


def _array_of(
    name: str, one: Described, sources: Sources, notes: Sequence[str]
) -> VirtualArray | Opaque:
    manifest, chunks, codecs = one.manifest, one.chunks, one.codecs
    config = sharding_of(codecs)
    if config is not None:
        shards = Shards.of(config, chunks)
        manifest = shards.opened(manifest, sources, one.shape)
        chunks, codecs = shards.chunks, shards.codecs
    if one.dtype.kind not in PLAIN + "Mm":
        loader = ChunkLoader(
            manifest, sources, one.shape, chunks, codecs, one.data_type, one.fill, one.dtype
        )
        reason = f"elements of the type {one.dtype}, which have no fixed place"
        return Opaque(one.shape, one.dtype, reason, loader=loader)
    if prod(chunks) * one.dtype.itemsize > MAX_READ:
        raise UnsupportedError(f"a chunk has {prod(chunks) * one.dtype.itemsize} bytes")
    coding = coding_of(codecs, one.dtype, chunks)
    encoding = Encoding.shared(coding.filters, coding.stored)
    row = np.zeros(1, encoding.parameters)
    row[RAW_FILL] = one.fill
    axes = coding.axes
    segments = segments_of(
        manifest.transpose(axes),
        sources,
        [one.shape[axis] for axis in axes],
        [chunks[axis] for axis in axes],
        Case(encoding, row),
    )
    if axes != tuple(range(len(axes))):
        segments = segments.transpose([axes.index(axis) for axis in range(len(axes))])
    return VirtualArray(segments, encoding.dtype, name, [*notes, *_codec_notes(codecs)])


def _codec_notes(codecs: Sequence[dict[str, Any]]) -> list[str]:
    """What a codec does otherwise than the file's own library."""
    notes: list[str] = []
    for codec in codecs:
        scale = float((codec.get("configuration") or {}).get("scale") or 1)
        if codec.get("name") != "numcodecs.fixedscaleoffset":
            continue
        if np.frexp(scale)[0] not in (0.5, -0.5):  # by powers of two it is exact
            notes.append(
                "scaled by a division, as the parser says it: the last bit of a value may differ "
                "from the product that other readers of the file give"
            )
    return notes
