"""Values that have no fixed place in a chunk, loaded chunk by chunk: strings of any length."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.zarr_chain import decode_objects
from intarsia.errors import ChunkError
from intarsia.io.fetch import fetcher_for
from intarsia.references import INLINE, STORED, Sources
from intarsia.scan.manifests import Manifest

__all__ = ["ChunkLoader"]


@dataclass(frozen=True, slots=True)
class ChunkLoader:
    """Loads an array; picklable.

    Parameters
    ----------
    manifest, sources
        Where the chunks are.
    shape, chunks
        Shapes of the array and of its chunks.
    codecs, data_type
        How they are decoded; see `intarsia.codecs.zarr_chain.decode_objects`.
    fill
        Of chunks that are missing.
    dtype
        Of the result.
    """

    manifest: Manifest
    sources: Sources
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    codecs: list[dict[str, Any]]
    data_type: Any
    fill: Any
    dtype: np.dtype[Any]

    def __call__(self) -> npt.NDArray[Any]:
        """All values."""
        out = np.full(self.shape, self.fill, self.dtype)
        states = self.manifest.states
        for index in zip(*np.nonzero(states != 2), strict=True) if states.ndim else [()]:
            chunk = self._bytes(tuple(int(n) for n in index))
            if chunk is None:
                continue
            box = tuple(
                slice(int(n) * edge, min((int(n) + 1) * edge, size))
                for n, edge, size in zip(index, self.chunks, self.shape, strict=True)
            )
            inside = tuple(slice(0, part.stop - part.start) for part in box)
            try:
                values = decode_objects(self.codecs, self.chunks, self.data_type, chunk)
            except ChunkError as error:
                raise error.located(chunk=tuple(int(n) for n in index)) from error.__cause__
            assert values.size == prod(self.chunks)
            out[box] = values.reshape(self.chunks)[inside]
        return out

    def _bytes(self, index: tuple[int, ...]) -> memoryview | None:
        state = int(self.manifest.states[index])
        offset, length = int(self.manifest.offsets[index]), int(self.manifest.lengths[index])
        if state == INLINE:
            return memoryview(self.manifest.inline)[offset : offset + length]
        if state != STORED:
            return None
        source = self.sources[int(self.manifest.sources[index])]
        return fetcher_for(source).read(source, [(offset, length)])[0]
