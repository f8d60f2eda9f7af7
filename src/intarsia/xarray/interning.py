"""Coordinates that are proven equal become one object, so that xarray need not load them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.io.fetch import fetcher_for
from intarsia.lookup import touches
from intarsia.references import STORED
from intarsia.xarray.internals import (
    Variables,
    coords_of,
    data_of,
    indexes_of,
    updated,
    variables_of,
    with_data,
)


def interned(datasets: list[xr.Dataset], concat_dims: Sequence[Any]) -> list[xr.Dataset]:
    """Coordinates that are proven equal become one object, so that xarray need not load them.

    Equal means: the same encoding, parameters and stored bytes. What is not proven equal is left
    to xarray, which compares values.
    """
    if len(datasets) < 2:
        return datasets
    seen: dict[Any, Any] = {}
    result: list[xr.Dataset] = []
    for dataset in datasets:
        replaced: Variables = {}
        for name in coords_of(dataset):
            variable = variables_of(dataset)[name]
            data = data_of(variable)
            if name in indexes_of(dataset) or set(variable.dims) & set(concat_dims):
                continue
            key: Any
            if isinstance(data, VirtualArray):
                key = (name, variable.dims, content_digest(data))
            elif isinstance(data, np.ndarray) and not data.dtype.hasobject:
                key = (name, variable.dims, data.shape, data.dtype.str, data.tobytes())
            else:
                continue
            first = seen.setdefault(key, data)
            if first is not data:
                replaced[name] = with_data(variable, first)
        result.append(updated(dataset, replaced))
    return result


def content_digest(array: VirtualArray) -> bytes:
    """Digest of an array's encodings, parameters and stored bytes: equal digests, equal values.

    The bytes are read, but not decoded.
    """
    found = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=16)
    segments = array.segments
    for case in segments.cases:
        found.update(repr(case.encoding).encode() + case.rows.tobytes())
    itemsizes = np.array([case.encoding.stored.itemsize for case in segments.cases])
    for block in segments.blocks:
        matrix = block.matrix()
        found.update(matrix[:, [0, 1, 6]].tobytes() + matrix[:, 7:].tobytes())
        touched = touches(block, segments.pages, itemsizes)
        found.update(touched.state.tobytes() + touched.mask.tobytes() + touched.chunk.tobytes())
        order = np.arange(len(touched))
        for number in np.unique(touched.source[touched.state == STORED]):
            mine = order[(touched.source == number) & (touched.state == STORED)]
            source = segments.sources[int(number)]
            ranges = [(int(touched.offset[n]), int(touched.length[n])) for n in mine]
            for data in fetcher_for(source).read(source, ranges):
                found.update(len(data).to_bytes(8, "little") + hashlib.blake2b(data).digest())
        for page in segments.pages:
            found.update(page.inline)
    return found.digest()
