"""Shards of Zarr v3, opened into their inner chunks: the index of each is read, and only that."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import google_crc32c
import numpy as np
import numpy.typing as npt

from intarsia.errors import ChecksumMismatch, CorruptFile, FormatError, UnsupportedError
from intarsia.references import ABSENT, INLINE, STORED, Sources
from intarsia.scan.zarr.loaders import fetched
from intarsia.scan.zarr.manifests import NOWHERE, Manifest

__all__ = ["Shards"]

type IntArray = npt.NDArray[Any]

MISSING = np.uint64(2**64 - 1)
"""Offset and length of an inner chunk that was never written."""


@dataclass(frozen=True, slots=True)
class Shards:
    """How the chunks of an array are shards.

    Parameters
    ----------
    per_shard
        Inner chunks per dimension of a shard.
    chunks
        Shape of an inner chunk.
    codecs
        Chain of the inner chunks.
    at_end
        Whether the index is the last thing in a shard, or the first.
    checked
        Whether it ends in a checksum.
    """

    per_shard: tuple[int, ...]
    chunks: tuple[int, ...]
    codecs: list[dict[str, Any]]
    at_end: bool
    checked: bool

    @classmethod
    def of(cls, config: dict[str, Any], shards: tuple[int, ...]) -> Shards:
        """Read the configuration of the codec ``sharding_indexed``.

        Raises
        ------
        FormatError
            If it makes no sense.
        UnsupportedError
            If the shards are nested, or their index is stored in an unknown way.
        """
        chunks = tuple(int(n) for n in cast("Sequence[Any]", config["chunk_shape"]))
        if len(chunks) != len(shards) or any(
            inner < 1 or outer % inner for inner, outer in zip(chunks, shards, strict=True)
        ):
            raise FormatError(f"inner chunks of {chunks} do not fill shards of {shards}")
        codecs = [_told(codec) for codec in config["codecs"]]
        if any(codec["name"] == "sharding_indexed" for codec in codecs):
            raise UnsupportedError("it has shards within shards")
        index = [_told(codec) for codec in config["index_codecs"]]
        names = [codec["name"] for codec in index]
        endian = (index[0].get("configuration") or {}).get("endian") if index else None
        if names not in (["bytes"], ["bytes", "crc32c"]) or endian != "little":
            raise UnsupportedError(f"the index of its shards is stored with {', '.join(names)}")
        per_shard = tuple(a // b for a, b in zip(shards, chunks, strict=True))
        location = config.get("index_location", "end")
        location = str(getattr(location, "value", location))
        return cls(per_shard, chunks, codecs, location == "end", len(names) == 2)

    @property
    def index_bytes(self) -> int:
        """Length of an index."""
        return 16 * prod(self.per_shard) + 4 * self.checked

    def opened(self, manifest: Manifest, sources: Sources, shape: Sequence[int]) -> Manifest:
        """The manifest of the inner chunks of an array; those of an edge may lie outside of it.

        Raises
        ------
        SourceError
            If an index can't be read.
        CorruptFile, ChecksumMismatch
            If it is none.
        """
        grid = manifest.sources.shape
        inside = tuple(
            slice(-(-size // chunk)) for size, chunk in zip(shape, self.chunks, strict=True)
        )
        count, inner = manifest.sources.size, prod(self.per_shard)
        table = np.full((count, inner, 2), MISSING, np.uint64)
        states = manifest.states.reshape(-1)
        owner = manifest.sources.reshape(-1)
        begin = manifest.offsets.reshape(-1).astype(np.int64)
        length = manifest.lengths.reshape(-1).astype(np.int64)
        stored = np.flatnonzero(states == STORED)
        short = stored[length[stored] < self.index_bytes]
        if len(short):
            key = sources.keys[int(owner[short[0]])]
            raise CorruptFile(
                f"the shard {key} has {int(length[short[0]])} bytes, and no room for its index"
            )
        at = begin + np.where(self.at_end, length - self.index_bytes, 0)
        order = stored[np.argsort(owner[stored], kind="stable")]
        edges = np.flatnonzero(np.diff(owner[order])) + 1
        groups = np.split(order, edges) if len(order) else []
        wanted = [
            (sources[int(owner[group[0]])], [(int(at[n]), self.index_bytes) for n in group])
            for group in groups
        ]
        for group, (source, _), found in zip(groups, wanted, fetched(wanted), strict=True):
            for number, data in zip(group, found, strict=True):
                table[number] = self._index(data, source.key)
        if (states == INLINE).any():
            raise UnsupportedError("some of its shards are inline in the references")
        missing = (table == MISSING).all(axis=2)
        if ((table == MISSING).any(axis=2) & ~missing).any():
            raise CorruptFile("the index of a shard says half of where a chunk is")
        ends = np.where(missing, 0, table[..., 0] + table[..., 1])
        beyond = (ends > length[:, None].astype(np.uint64)) & ~missing
        if beyond.any() or (ends < np.where(missing, 0, table[..., 0])).any():
            number = int(np.flatnonzero(beyond.any(axis=1))[0]) if beyond.any() else 0
            key = sources.keys[int(owner[number])]
            raise CorruptFile(f"the index of the shard {key} points past its end")
        offsets = np.where(missing, 0, table[..., 0] + begin[:, None].astype(np.uint64))
        lengths = np.where(missing, 0, table[..., 1])
        owners = np.where(missing, NOWHERE, owner[:, None])
        inner_states = np.where(missing, ABSENT, STORED).astype(np.uint8)
        return Manifest(
            self._spread(owners, grid)[inside],
            self._spread(offsets, grid)[inside],
            self._spread(lengths, grid)[inside],
            self._spread(inner_states, grid)[inside],
        )

    def _index(self, data: memoryview, key: str) -> IntArray:
        raw = bytes(data)
        if self.checked:
            body, told = raw[:-4], int.from_bytes(raw[-4:], "little")
            if google_crc32c.value(body) != told:
                raise ChecksumMismatch(f"the checksum of the index of {key} is wrong")
            raw = body
        return np.frombuffer(raw, "<u8").reshape(-1, 2)

    def _spread(self, column: IntArray, grid: tuple[int, ...]) -> IntArray:
        """Cells by (shard, inner chunk) as cells of the whole grid."""
        ndim = len(grid)
        split = column.reshape(*grid, *self.per_shard)
        mixed = [
            axis for pair in zip(range(ndim), range(ndim, 2 * ndim), strict=True) for axis in pair
        ]
        whole = tuple(a * b for a, b in zip(grid, self.per_shard, strict=True))
        return split.transpose(mixed).reshape(whole)


def _told(codec: Any) -> dict[str, Any]:
    """A codec's JSON, where it may be an object."""
    return codec if isinstance(codec, dict) else codec.to_dict()
