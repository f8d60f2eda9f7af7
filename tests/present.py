"""A virtual array as a Zarr array in memory, with `intarsia.switch`: what a store would present."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from intarsia.array import VirtualArray
from intarsia.codecs.cases import CaseTable
from intarsia.codecs.chunks import Parts, case_keys, pack
from intarsia.codecs.switch import SwitchCodec
from intarsia.lookup import touches
from intarsia.references import INLINE, STORED

FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"
DEFAULT = "zarr.core.codec_pipeline.BatchedCodecPipeline"
ZARRS = "zarrs.ZarrsCodecPipeline"
PIPELINES = [
    pytest.param(DEFAULT, id="default"),
    pytest.param(FUSED, id="fused"),
    pytest.param(
        ZARRS, id="zarrs", marks=pytest.mark.skipif(not find_spec("zarrs"), reason="no zarrs")
    ),
]


def parts_of(array: VirtualArray) -> tuple[Parts, list[bytes]] | None:
    """The parts of an array that is to be one chunk, and the bytes of each."""
    segments = array.segments
    encodings = [case.encoding for case in segments.cases]
    keys = case_keys(encodings)
    itemsizes = np.array([encoding.stored.itemsize for encoding in encodings], np.int64)
    several, data = [], []
    for block in segments.blocks:
        found = touches(block, segments.pages, itemsizes)
        several.append(Parts.of(found, segments.cases, keys, (0,) * array.ndim))
        for number, state in enumerate(found.state):
            begin, length = int(found.offset[number]), int(found.length[number])
            if state == INLINE:
                inline = segments.pages[int(found.page[number])].inline
                data.append(bytes(inline[begin : begin + length]))
            elif state == STORED:
                path = Path(segments.sources.url(int(found.source[number])))
                data.append(path.read_bytes()[begin : begin + length])
            else:
                data.append(b"")
    return (Parts.joined(several), data) if several else None


def table_of(array: VirtualArray) -> CaseTable:
    return CaseTable.of([case.encoding for case in array.segments.cases])


def chunk_bytes(array: VirtualArray, shape: Sequence[int]) -> bytes | None:
    """The chunk of this shape that an array, which is at most as large, is presented as."""
    found = parts_of(array)
    if found is None:
        return None
    parts, data = found
    return b"".join((pack(parts, shape), *data))


def present(array: VirtualArray, chunks: Sequence[int], fill: Any = 0) -> MemoryStore:
    """Write every cell of a regular grid of chunks."""
    store = MemoryStore()
    created = zarr.create_array(
        store,
        shape=array.shape,
        chunks=tuple(chunks),
        dtype=array.dtype,
        fill_value=fill,
        filters=(),
        serializer=SwitchCodec(cases=table_of(array)),
        compressors=(),
    )
    prototype = default_buffer_prototype()
    grid = [range(-(-size // edge)) for size, edge in zip(array.shape, chunks, strict=True)]
    for index in product(*grid):
        box = tuple(
            slice(i * edge, min((i + 1) * edge, size))
            for i, edge, size in zip(index, chunks, array.shape, strict=True)
        )
        data = chunk_bytes(array[(*box, ...)], chunks)
        if data is not None:
            key = created.metadata.encode_chunk_key(index)
            sync(store.set(key, prototype.buffer.from_bytes(data)))
    return store


def opened(store: MemoryStore, pipeline: str = DEFAULT) -> zarr.Array[Any]:
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        return zarr.open_array(store, mode="r")
