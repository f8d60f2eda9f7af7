"""Coordinates that are proven equal become one object, so that xarray need not load them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
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
    firsts = _Firsts()
    result: list[xr.Dataset] = []
    for dataset in datasets:
        replaced: Variables = {}
        names, indexes = coords_of(dataset), indexes_of(dataset)
        for name, variable in variables_of(dataset).items():
            if not (among_coords if name in names else among_data):
                continue
            if name in indexes or not along.isdisjoint(variable.dims):
                continue
            data = data_of(variable)
            first = firsts.same_as((name, variable.dims), data)
            if first is not data:
                replaced[name] = with_data(variable, first)
        result.append(updated(dataset, replaced))
    return result


class _Firsts:
    """The first array of each content that was met, by variable."""

    def __init__(self) -> None:
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
        first = self._stored.setdefault((place, _type(data), content_digest(data)), data)
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
