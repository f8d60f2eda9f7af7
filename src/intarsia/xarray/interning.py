"""Coordinates that are proven equal become one object, so that xarray need not load them."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.io.fetch import fetcher_for
from intarsia.io.paths import is_url
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

AT_ONCE = 16
"""Coordinates that are read from the network at a time, to be compared."""


def interned(
    datasets: list[xr.Dataset],
    concat_dims: Sequence[Any],
    *,
    compat: str,
    coords: Any,
    data_vars: Any,
) -> list[xr.Dataset]:
    """Replace static variables that are proven equal to the first file's by the first file's.

    Equal means: the same encoding, parameters and stored bytes. What is not proven equal is left
    to xarray, which compares values.

    Parameters
    ----------
    datasets
        To be combined.
    concat_dims
        Along which. Variables that have one of these are not compared.
    compat, coords, data_vars
        What xarray is told: variables that it won't compare are left alone.
    """
    if len(datasets) < 2:
        return datasets
    compared = compat != "override"
    among_coords = coords == "different" or (compared and coords != "all")
    among_data = data_vars == "different" or (compared and data_vars != "all")
    along = set(concat_dims)

    def is_compared(dataset: xr.Dataset, name: Hashable, variable: xr.Variable) -> bool:
        if not (among_coords if name in coords_of(dataset) else among_data):
            return False
        return name not in indexes_of(dataset) and along.isdisjoint(variable.dims)

    static = [
        {n: v for n, v in variables_of(dataset).items() if is_compared(dataset, n, v)}
        for dataset in datasets
    ]
    firsts = _Firsts(_remote_digests([data_of(v) for each in static for v in each.values()]))
    result: list[xr.Dataset] = []
    for dataset, variables in zip(datasets, static, strict=True):
        replaced: Variables = {}
        for name, variable in variables.items():
            data = data_of(variable)
            first = firsts.same_as((name, variable.dims), data)
            if first is not data:
                replaced[name] = with_data(variable, first)
        result.append(updated(dataset, replaced))
    return result


def _remote_digests(arrays: Sequence[Any]) -> dict[int, bytes]:
    """Digests of what lies in the network, by identity: many are read at a time."""
    remote = {
        id(array): array
        for array in arrays
        if isinstance(array, VirtualArray)
        and any(map(is_url, set(array.segments.sources.containers)))
    }
    if len(remote) < 2:
        return {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(remote, pool.map(content_digest, remote.values()), strict=True))


class _Firsts:
    """The first array of each content that was met, by variable.

    Parameters
    ----------
    digests
        Those that are known of arrays that live as long, by identity.
    """

    def __init__(self, digests: dict[int, bytes]) -> None:
        self._digests = digests
        self._stored: dict[Any, Any] = {}
        self._values: dict[Any, dict[bytes, Any]] = {}
        self._unread: dict[Any, Any] = {}

    def same_as(self, place: Any, data: Any) -> Any:
        """The first array with the same type, shape and bits as `data`, or `data` itself."""
        if isinstance(data, np.ndarray):
            array = cast("npt.NDArray[Any]", data)
            if array.dtype.hasobject:
                return array
            return self._stored.setdefault((place, _type(array), array.tobytes()), array)
        if not isinstance(data, VirtualArray):
            return data
        digest = self._digests.get(id(data)) or content_digest(data)
        first = self._stored.setdefault((place, _type(data), digest), data)
        if first is not data:
            return first
        # stored in another way than any before it: the values decide
        kind = (place, _type(data))
        values = self._values.get(kind)
        if values is None:
            self._values[kind] = {}
            self._unread[kind] = data
            return data
        other = self._unread.pop(kind, None)
        if other is not None:
            values[value_digest(other)] = other
        return values.setdefault(value_digest(data), data)


def _type(data: Any) -> tuple[Any, ...]:
    return (data.dtype.str, data.shape)


def value_digest(array: VirtualArray) -> bytes:
    """Digest of an array's values."""
    return hashlib.blake2b(array.load(), digest_size=16).digest()


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
