"""Values that have no fixed place in a chunk, loaded chunk by chunk: strings of any length."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.zarr_chain import decode_objects
from intarsia.errors import ChunkError
from intarsia.io.fetch import fetcher_for
from intarsia.io.paths import is_url
from intarsia.references import ABSENT, INLINE, STORED, Source, Sources
from intarsia.scan.zarr.manifests import Manifest

__all__ = ["ChunkLoader", "fetched"]


def fetched(wanted: Sequence[tuple[Source, Sequence[tuple[int, int]]]]) -> list[list[memoryview]]:
    """Bytes of ranges of many sources; those of the network are asked for at the same time."""
    works = [partial(fetcher_for(source).read, source, ranges) for source, ranges in wanted]
    if not any(is_url(source.url) for source, _ in wanted):
        return [work() for work in works]
    from intarsia.io.remote_pool import run_all

    return run_all(works)


TOGETHER = 256
"""Chunks that are fetched before they are decoded."""


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
        there = [index for index in np.ndindex(self.manifest.states.shape) if self._is(index)]
        for begin in range(0, len(there), TOGETHER):
            some = there[begin : begin + TOGETHER]
            for index, chunk in zip(some, self._bytes(some), strict=True):
                box = tuple(
                    slice(n * edge, min((n + 1) * edge, size))
                    for n, edge, size in zip(index, self.chunks, self.shape, strict=True)
                )
                inside = tuple(slice(0, part.stop - part.start) for part in box)
                try:
                    values = decode_objects(self.codecs, self.chunks, self.data_type, chunk)
                except ChunkError as error:
                    number = int(self.manifest.sources[index])
                    url = self.sources[number].url if number >= 0 else None
                    raise error.located(chunk=index, url=url) from error.__cause__
                out[box] = values.reshape(self.chunks)[inside]
        return out

    def _is(self, index: tuple[int, ...], state: int | None = None) -> bool:
        found = int(self.manifest.states[index])
        return found != ABSENT if state is None else found == state

    def _bytes(self, indices: Sequence[tuple[int, ...]]) -> list[memoryview]:
        one = self.manifest
        stored = [index for index in indices if self._is(index, STORED)]
        found = fetched(
            [
                (
                    self.sources[int(one.sources[index])],
                    [(int(one.offsets[index]), int(one.lengths[index]))],
                )
                for index in stored
            ]
        )
        data = {index: parts[0] for index, parts in zip(stored, found, strict=True)}
        for index in indices:
            if self._is(index, INLINE):
                begin = int(one.offsets[index])
                data[index] = memoryview(one.inline)[begin : begin + int(one.lengths[index])]
        return [data[index] for index in indices]
