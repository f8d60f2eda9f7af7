"""Writes netCDF3 files byte by byte, sound ones and others, and compares scans of them."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from xarray.backends import NetCDF4DataStore, ScipyDataStore

from intarsia.scan.netcdf3 import scan
from intarsia.scan.protocol import Scanned
from tests.compare import differences
from tests.scan.store import assert_same, assert_same_attrs, virtual

TYPES = {
    "i1": 1,
    "S1": 2,
    "i2": 3,
    "i4": 4,
    "f4": 5,
    "f8": 6,
    "u1": 7,
    "u2": 8,
    "u4": 9,
    "i8": 10,
    "u8": 11,
}
FORMATS = {1: "NETCDF3_CLASSIC", 2: "NETCDF3_64BIT_OFFSET", 5: "NETCDF3_64BIT_DATA"}


class Var(NamedTuple):
    """A variable of a header. `begin` is relative to the header's end."""

    name: str | bytes
    dims: Sequence[int]
    dtype: str
    begin: int
    attrs: Mapping[str, Any] = {}
    vsize: int = 0


def header(
    version: int,
    records: int,
    dims: Sequence[tuple[str, int]],
    variables: Sequence[Var],
    attrs: Mapping[str, Any] = {},
) -> bytes:
    """The header, as it is told; of what makes it broken, nothing is noticed."""
    wide = version == 5

    def integer(value: int) -> bytes:
        return (value % (1 << (64 if wide else 32))).to_bytes(8 if wide else 4, "big")

    def padded(data: bytes) -> bytes:
        return data + b"\0" * (-len(data) % 4)

    def name(text: str | bytes) -> bytes:
        raw = text if isinstance(text, bytes) else text.encode()
        return integer(len(raw)) + padded(raw)

    def attributes(given: Mapping[str, Any]) -> bytes:
        result = b""
        for key, value in given.items():
            if isinstance(value, bytes):
                kind, count, raw = 2, len(value), value
            else:
                values = np.atleast_1d(value)
                kind, count = TYPES[values.dtype.str[1:]], values.size
                raw = values.astype(values.dtype.newbyteorder(">")).tobytes()
            result += name(key) + struct.pack(">i", kind) + integer(count) + padded(raw)
        return listed(12, len(given), result)

    def listed(tag: int, count: int, content: bytes) -> bytes:
        return struct.pack(">i", tag if count else 0) + integer(count) + content

    def everything(end: int) -> bytes:
        result = b"CDF" + bytes([version]) + integer(records)
        lengths = b"".join(name(text) + integer(length) for text, length in dims)
        result += listed(10, len(dims), lengths) + attributes(attrs)
        told = b""
        for one in variables:
            told += name(one.name) + integer(len(one.dims))
            told += b"".join(map(integer, one.dims)) + attributes(one.attrs)
            told += struct.pack(">i", TYPES[one.dtype]) + integer(one.vsize)
            told += (one.begin + end).to_bytes(4 if version == 1 else 8, "big", signed=True)
        return result + listed(11, len(variables), told)

    return everything(len(everything(0)))


class Counting:
    """An open file that remembers what was read of it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.reads: list[tuple[int, int]] = []

    @property
    def source(self) -> Any:
        return self._file.source

    def read(self, offset: int, length: int) -> memoryview:
        self.reads.append((offset, length))
        return self._file.read(offset, length)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the other libraries warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def assert_as_store(path: Path, engine: str = "scipy") -> Scanned:
    """Assert that a scan is what one of xarray's stores gives: order, types, attributes, values."""
    scanned = scan(path)
    with quiet():
        store = (
            ScipyDataStore(str(path), mmap=False)
            if engine == "scipy"
            else NetCDF4DataStore.open(str(path))
        )
        variables, attrs = store.load()
        assert list(scanned.variables) == list(variables)
        assert_same_attrs("the file", scanned.attrs, dict(attrs))
        assert set(scanned.unlimited) == set(store.get_encoding()["unlimited_dims"])
        for name, expected in variables.items():
            actual = scanned.variables[name]
            assert actual.dims == expected.dims, name
            assert actual.data.shape == expected.shape, name
            assert tuple(scanned.sizes[dim] for dim in actual.dims) == expected.shape, name
            assert_same_attrs(name, actual.attrs, expected.attrs)
            array = virtual(scanned, name)
            assert array.dtype == expected.dtype, name
            assert_same(name, np.asarray(array), np.asarray(expected.values))
        store.close()
    return scanned


def with_native_attributes(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with numbers of its attributes in native byte order, as netCDF4 gives them."""

    def native(attrs: dict[Any, Any]) -> dict[Any, Any]:
        return {
            key: value.astype(value.dtype.newbyteorder("="))
            if isinstance(value, np.ndarray)
            else value
            for key, value in attrs.items()
        }

    result = dataset.copy()
    result.attrs = native(dataset.attrs)
    for variable in result.variables.values():
        variable.attrs = native(variable.attrs)
    return result


def differences_from(actual: xr.Dataset, path: Any, engine: str, **arguments: Any) -> list[str]:
    """How a dataset differs from that which an engine of xarray's gives of a file."""
    with quiet(), xr.open_dataset(path, engine=engine, cache=False, **arguments) as opened:
        expected = opened.load().drop_encoding()
    if engine == "netcdf4":
        actual = with_native_attributes(actual)
    return differences(actual, expected)
