"""What differs from file to file, as columns: one value per file, all files in one NumPy buffer.

Each kind of value has a column of its own. What is the same for all files is no column: see
`intarsia.xarray.batches`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from math import prod
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["KINDS", "Kind", "Reader", "Writer", "is_constant_column", "is_narrow"]

type Array = npt.NDArray[Any]


class Writer:
    """Puts arrays one after the other into a buffer."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._types: list[tuple[str, int]] = []

    def add(self, array: Array) -> None:
        """Append a one-dimensional array."""
        data = array.tobytes()
        self._types.append((array.dtype.str, len(array)))
        self._parts.append(data + bytes(-len(data) % 8))

    def add_bytes(self, data: bytes) -> None:
        """Append bytes."""
        self.add(np.frombuffer(data, np.uint8))

    def result(self) -> tuple[tuple[tuple[str, int], ...], bytes]:
        """Types and lengths of the arrays, and the buffer."""
        return tuple(self._types), b"".join(self._parts)


class Reader:
    """Gives arrays in the order in which they were written.

    Parameters
    ----------
    types, buffer
        What `Writer.result` gave.
    """

    def __init__(self, types: Sequence[tuple[str, int]], buffer: bytes) -> None:
        self._types = iter(types)
        self._buffer = buffer
        self._place = 0

    def take(self) -> Array:
        """The next array; it can't be written to."""
        name, count = next(self._types)
        dtype = np.dtype(name)
        array = np.frombuffer(self._buffer, dtype, count, self._place)
        size = array.nbytes
        self._place += size + -size % 8
        return array

    def take_bytes(self) -> bytes:
        """The next bytes."""
        return self.take().tobytes()


class Kind(NamedTuple):
    """A kind of value.

    Parameters
    ----------
    raw
        Tells a value, for comparing: equal where every bit is. It is what is sent of a constant.
    made
        Makes a value of what `raw` gave and the details of its place.
    write
        Writes the values of all files.
    read
        Reads so many values, given the details.
    """

    raw: Callable[[Any], Any]
    made: Callable[[Any, tuple[Any, ...]], Any]
    write: Callable[[list[Any], Writer], None]
    read: Callable[[int, tuple[Any, ...], Reader], list[Any]]


def is_narrow(array: Array) -> bool:
    """Whether an array is a column in the narrowest unsigned type that holds it."""
    if array.ndim != 1 or array.dtype.kind != "u" or array.strides == (0,):
        return False
    high = int(array.max()) if len(array) else 0
    return array.dtype == np.min_scalar_type(high)


def is_constant_column(array: Array) -> bool:
    """Whether an array repeats one integer without taking room."""
    if array.ndim != 1 or array.strides != (0,) or array.dtype.str not in ("<u8", "<i8"):
        return False
    return len(array) > 0


# -- integers, which are written in the narrowest type -----------------------------------------


def _tight(values: Array) -> Array:
    """Integers in the narrowest type."""
    if not len(values):
        return values.astype(np.uint8)
    low, high = int(values.min()), int(values.max())
    smallest = np.min_scalar_type(high if low >= 0 else min(low, -high - 1))
    return values.astype(smallest)


def _write_ints(values: list[int], writer: Writer) -> None:
    writer.add(_tight(np.array(values, np.int64)))


def _read_ints(count: int, details: tuple[Any, ...], reader: Reader) -> list[int]:
    return reader.take().tolist()


# -- text and bytes, each distinct one once ----------------------------------------------------


def _write_blobs(values: list[bytes], writer: Writer) -> None:
    distinct = dict.fromkeys(values)
    number = {value: n for n, value in enumerate(distinct)}
    repeats = len(distinct) * 2 <= len(values)
    parts = list(distinct) if repeats else values
    codes = [number[value] for value in values] if repeats else []
    writer.add(_tight(np.array(codes, np.int64)))
    writer.add(_tight(np.array([len(part) for part in parts], np.int64)))
    writer.add_bytes(b"".join(parts))


def _read_blobs[T](reader: Reader, made: Callable[[bytes], T], *, apart: bool = False) -> list[T]:
    """Make something of each; of equal ones the same object, or others where that is asked."""
    codes: list[int] = reader.take().tolist()
    lengths: list[int] = reader.take().tolist()
    data = reader.take_bytes()
    parts: list[bytes] = []
    place = 0
    for length in lengths:
        parts.append(data[place : place + length])
        place += length
    if apart:
        return [made(parts[code]) for code in codes] if codes else list(map(made, parts))
    found = list(map(made, parts))
    return [found[code] for code in codes] if codes else found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _write_text(values: list[str], writer: Writer) -> None:
    _write_blobs([value.encode("utf-8", "surrogatepass") for value in values], writer)


def _read_text(count: int, details: tuple[Any, ...], reader: Reader) -> list[str]:
    return _read_blobs(reader, _text)


def _read_bytes(count: int, details: tuple[Any, ...], reader: Reader) -> list[bytes]:
    return _read_blobs(reader, bytes)


def _read_pickled(count: int, details: tuple[Any, ...], reader: Reader) -> list[Any]:
    return _read_blobs(reader, pickle.loads, apart=not details[0])


# -- numbers -----------------------------------------------------------------------------------


def _raw_scalar(value: Any) -> bytes:
    return value.tobytes()


def _made_scalar(raw: bytes, details: tuple[Any, ...]) -> Any:
    return np.frombuffer(raw, details[0])[0]


def _write_scalars(values: list[Any], writer: Writer) -> None:
    writer.add_bytes(b"".join(map(_raw_scalar, values)))


def _read_scalars(count: int, details: tuple[Any, ...], reader: Reader) -> list[Any]:
    return list(reader.take().view(details[0]))


def _raw_float(value: float) -> bytes:
    return pack("<d", value)


def _made_float(raw: bytes, details: tuple[Any, ...]) -> float:
    return unpack("<d", raw)[0]


def _write_floats(values: list[float], writer: Writer) -> None:
    writer.add(np.array(values, np.float64))


def _read_floats(count: int, details: tuple[Any, ...], reader: Reader) -> list[float]:
    return reader.take().tolist()


# -- arrays; their details are: type, dimensions, whether nobody ever changes them -------------


def _raw_array(value: Array) -> tuple[tuple[int, ...], bytes]:
    return value.shape, value.tobytes()


def _made_array(raw: tuple[tuple[int, ...], bytes], details: tuple[Any, ...]) -> Array:
    shape, data = raw
    dtype, _, frozen = details
    held = data if frozen else bytearray(data)
    if not len(data):
        return np.empty(shape, dtype)
    return np.frombuffer(held, dtype).reshape(shape)


def _write_arrays(values: list[Array], writer: Writer) -> None:
    shapes = np.array([value.shape for value in values], np.int64)
    same = bool((shapes == shapes[0]).all())
    writer.add(_tight((shapes[:1] if same else shapes).reshape(-1)))
    writer.add_bytes(b"".join([value.tobytes() for value in values]))


def _read_arrays(count: int, details: tuple[Any, ...], reader: Reader) -> list[Array]:
    dtype, ndim, frozen = details
    shapes = reader.take().astype(np.int64).tolist()
    flat = reader.take()
    flat = flat.view(dtype) if len(flat) else np.empty(0, dtype)
    found: list[Array] = []
    if not ndim:
        found = [flat[number : number + 1].reshape(()) for number in range(count)]
    elif len(shapes) == ndim:
        found = list(flat.reshape(count, *shapes))
    else:
        place = 0
        for number in range(count):
            shape = shapes[number * ndim : (number + 1) * ndim]
            size = prod(shape)
            found.append(flat[place : place + size].reshape(shape))
            place += size
    return found if frozen else [array.copy() for array in found]


# -- columns of references: each in the narrowest type that holds it ---------------------------


def _made_narrow(raw: tuple[str, bytes], details: tuple[Any, ...]) -> Array:
    return np.frombuffer(raw[1], raw[0])


def _raw_narrow(value: Array) -> tuple[str, bytes]:
    return value.dtype.str, value.tobytes()


def _write_narrow(values: list[Array], writer: Writer) -> None:
    counts = np.array([len(value) for value in values], np.int64)
    same = bool((counts == counts[0]).all())
    writer.add(_tight(counts[:1] if same else counts))
    writer.add(np.concatenate(values))


_ENDS = np.array([0xFF, 0xFFFF, 0xFFFFFFFF], np.uint64)
_TYPES = [np.dtype(f"u{size}") for size in (1, 2, 4, 8)]


def _read_narrow(count: int, details: tuple[Any, ...], reader: Reader) -> list[Array]:
    counts = reader.take().astype(np.int64)
    flat = reader.take()
    if len(counts) == 1:
        rows = list(flat.reshape(count, int(counts[0])))
    else:
        rows = np.split(flat, np.cumsum(counts)[:-1])
    highs = np.array([row.max() if len(row) else 0 for row in rows], np.uint64)
    fits: list[int] = np.searchsorted(_ENDS, highs).tolist()
    return [
        row if flat.dtype == _TYPES[fit] else row.astype(_TYPES[fit])
        for row, fit in zip(rows, fits, strict=True)
    ]


def _raw_repeated(value: Array) -> tuple[int, int]:
    return int(value[0]), len(value)


def _made_repeated(raw: tuple[int, int], details: tuple[Any, ...]) -> Array:
    return np.broadcast_to(np.array(raw[0], details[0]), (raw[1],))


def _write_repeated(values: list[Array], writer: Writer) -> None:
    writer.add(np.array([value[0] for value in values]))
    writer.add(_tight(np.array([len(value) for value in values], np.int64)))


def _read_repeated(count: int, details: tuple[Any, ...], reader: Reader) -> list[Array]:
    values, counts = reader.take(), reader.take().tolist()
    return [np.broadcast_to(values[n], (counts[n],)) for n in range(count)]


def _same(value: Any) -> Any:
    return value


def _as_is(raw: Any, details: tuple[Any, ...]) -> Any:
    return raw


def _unpickled(raw: bytes, details: tuple[Any, ...]) -> Any:
    return pickle.loads(raw)


KINDS: dict[str, Kind] = {
    "text": Kind(_same, _as_is, _write_text, _read_text),
    "bytes": Kind(_same, _as_is, _write_blobs, _read_bytes),
    "pickled": Kind(_same, _unpickled, _write_blobs, _read_pickled),
    "int": Kind(_same, _as_is, _write_ints, _read_ints),
    "float": Kind(_raw_float, _made_float, _write_floats, _read_floats),
    "scalar": Kind(_raw_scalar, _made_scalar, _write_scalars, _read_scalars),
    "array": Kind(_raw_array, _made_array, _write_arrays, _read_arrays),
    "narrow": Kind(_raw_narrow, _made_narrow, _write_narrow, _read_narrow),
    "repeated": Kind(_raw_repeated, _made_repeated, _write_repeated, _read_repeated),
}
"""By name. Values of ``"pickled"`` are pickles already, and details whether they never change."""
