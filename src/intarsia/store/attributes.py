"""Attributes as JSON: typed, so that they come back exactly, and plain, for every Zarr reader.

JSON knows no float32, no big-endian arrays, no tuples and no NaN, and writes 0.1 differently in
different languages. What it does hold exactly stands for itself: text, booleans, null, lists, and
integers up to 2**53. Everything else is an object that names its type, with bits in hexadecimal::

    {"type": "float", "hex": "000000000000f8ff"}                      little-endian
    {"type": "int", "digits": "18446744073709551616"}
    {"type": "bytes", "hex": "6162"}
    {"type": "text", "hex": "61eda080"}                 text that is not valid Unicode
    {"type": "scalar", "dtype": "<f4", "hex": "0000c03f"}
    {"type": "array", "dtype": ">i2", "shape": [2], "hex": "00010002"}
    {"type": "array", "dtype": "|O", "shape": [1], "items": ["a"]}
    {"type": "tuple", "items": [1, 2]}                  also "set" and "frozenset"
    {"type": "dict", "items": [["key", 1]]}
    {"type": "dtype", "dtype": "<i2"}                   as `intarsia.store.dtypes` writes it
    {"type": "class", "name": "str"}                    a class that stands for a dtype

Stores come from strangers: `from_json` takes nothing else, and raises a `ValueError` that says why.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from intarsia.errors import UnsupportedError
from intarsia.store.dtypes import dtype_from_json, dtype_to_json
from intarsia.store.plain import plain_attributes, plain_json

__all__ = [
    "from_json",
    "mapping_from_json",
    "mapping_to_json",
    "plain_attributes",
    "plain_json",
    "to_json",
]

EXACT = 1 << 53
"""Integers up to here are the same in every JSON library."""

MAX_DEPTH = 32
"""Values nested deeper than this are refused, in both directions."""

MAX_NDIM = 32

MAX_DIGITS = 1000
"""Of an integer."""

_NAMES = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "str_", "bytes_"),
)
_CLASSES: dict[str, type[Any]] = {
    **{kind.__name__: kind for kind in (bool, bytes, complex, float, int, object, str)},
    **{f"numpy.{name}": getattr(np, name) for name in _NAMES},
}
_CLASS_NAMES = {kind: name for name, kind in _CLASSES.items()}

_GROUPS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}


# -- writing ---------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """Write a value so that `from_json` gives it back: the same type, the same bits.

    Parameters
    ----------
    value
        None, bool, int, float, str, bytes; NumPy scalars, arrays and dtypes, and classes that stand
        for a dtype; lists, tuples, sets, and dictionaries by str, of those.

    Raises
    ------
    UnsupportedError
        For anything else, subclasses of these included.
    """
    return _written(value, 0)


def mapping_to_json(values: Mapping[Any, Any], what: str = "attribute") -> dict[str, Any]:
    """Write attributes, or an encoding.

    Parameters
    ----------
    values
        By name.
    what
        How to call one of them in messages.

    Raises
    ------
    UnsupportedError
        Naming the one that can't be kept, and what helps.
    """
    result: dict[str, Any] = {}
    for name, value in values.items():
        try:
            if type(name) is not str:
                raise UnsupportedError(f"its name is of type {type(name).__name__}, not str")
            if not _is_unicode(name):
                raise UnsupportedError("its name is not valid Unicode")
            result[name] = to_json(value)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"the {what} {name!r} can't be kept exactly: {error.reason}",
                remedy="delete it, or convert it to a NumPy or plain Python value",
            ) from error
    return result


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _written(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"values nested more than {MAX_DEPTH} deep")
    kind: Any = type(value)  # exactly: a subclass would not come back as it is
    if value is None or kind is bool:
        return value
    if kind is str:
        if _is_unicode(value):
            return value
        return {"type": "text", "hex": value.encode("utf-8", "surrogatepass").hex()}
    if kind is int:
        if abs(value) <= EXACT:
            return value
        if abs(value) >= 10**MAX_DIGITS:
            raise UnsupportedError(f"an integer of more than {MAX_DIGITS} digits")
        return {"type": "int", "digits": str(value)}
    if kind is float:
        return {"type": "float", "hex": struct.pack("<d", value).hex()}
    if kind is bytes:
        return {"type": "bytes", "hex": value.hex()}
    if kind is list:
        return [_written(item, depth + 1) for item in value]
    if kind is tuple:
        return {"type": "tuple", "items": [_written(item, depth + 1) for item in value]}
    if kind is set or kind is frozenset:
        items = [_written(item, depth + 1) for item in value]
        return {"type": kind.__name__, "items": sorted(items, key=repr)}
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise UnsupportedError("a dictionary whose keys are not all of type str")
        pairs = [[_written(k, depth + 1), _written(v, depth + 1)] for k, v in value.items()]
        return {"type": "dict", "items": pairs}
    if isinstance(value, np.dtype):
        return {"type": "dtype", "dtype": dtype_to_json(value)}
    if isinstance(value, type) and value in _CLASS_NAMES:
        return {"type": "class", "name": _CLASS_NAMES[value]}
    if isinstance(value, np.generic):
        return _written_scalar(value)
    if kind is np.ndarray:
        return _written_array(cast("npt.NDArray[Any]", value), depth)
    raise UnsupportedError(f"a value of type {kind.__module__}.{kind.__qualname__}")


def _written_scalar(value: np.generic) -> dict[str, Any]:
    dtype = value.dtype
    if type(value) is not dtype.type or dtype.hasobject:
        raise UnsupportedError(f"a value of type {type(value).__name__} ({dtype})")
    bits = value.tobytes() if dtype.itemsize else b""  # of empty strings NumPy gives one zero
    return {"type": "scalar", "dtype": dtype_to_json(dtype), "hex": bits.hex()}


def _written_array(value: npt.NDArray[Any], depth: int) -> dict[str, Any]:
    head = {"type": "array", "dtype": dtype_to_json(value.dtype), "shape": list(value.shape)}
    if value.dtype.kind == "O":
        return head | {"items": [_written(item, depth + 1) for item in value.ravel()]}
    if value.dtype.hasobject:
        raise UnsupportedError(f"an array of {value.dtype}")
    return head | {"hex": value.tobytes().hex()}


# -- reading ---------------------------------------------------------------------------------------


def from_json(json: Any) -> Any:
    """Read what `to_json` wrote.

    Raises
    ------
    ValueError
        If it is nothing of the kind, saying why.
    """
    return _read(json, 0)


def mapping_from_json(json: Any) -> dict[str, Any]:
    """Read what `mapping_to_json` wrote.

    Raises
    ------
    ValueError
        Naming the entry that is wrong.
    """
    if not isinstance(json, dict):
        raise ValueError(f"attributes have to be an object, got {type(json).__name__}")
    result: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", json).items():
        try:
            result[name] = from_json(value)
        except ValueError as error:
            raise ValueError(f"{name[:100]!r}: {error}") from error
    return result


def _read(json: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"values nested more than {MAX_DEPTH} deep")
    if json is None or isinstance(json, bool | str):
        return json
    if isinstance(json, int):
        if abs(json) > EXACT:
            raise ValueError("a number beyond 2**53")
        return json
    if isinstance(json, list):
        return [_read(item, depth + 1) for item in cast("list[Any]", json)]
    if not isinstance(json, dict):
        raise ValueError(f"a value of type {type(json).__name__}")
    given = cast("dict[str, Any]", json)
    kind = given.get("type")
    entries = _ENTRIES.get(kind) if isinstance(kind, str) else None
    if entries is None:
        raise ValueError(f"a value of no known type: {str(kind)[:50]!r}")
    assert isinstance(kind, str)
    if given.keys() - {"type"} not in entries:
        raise ValueError(f"a value of type {kind!r} with other entries than it has")
    if "hex" in given:
        return _of_bits(kind, given, _bits(given["hex"]))
    if kind == "int":
        digits = given["digits"]
        if not isinstance(digits, str) or len(digits) > MAX_DIGITS + 1:
            raise ValueError("an integer that is too long")
        if not digits.removeprefix("-").isdecimal() or not digits.isascii():
            raise ValueError("an integer that is none")
        return int(digits)
    if kind == "dtype":
        return dtype_from_json(given["dtype"])
    if kind == "class":
        found = _CLASSES.get(given["name"]) if isinstance(given["name"], str) else None
        if found is None:
            raise ValueError("a class that stands for no dtype")
        return found
    items = given["items"]
    if not isinstance(items, list):
        raise ValueError(f"the items of a value of type {kind!r} are no list")
    return _of_items(kind, given, cast("list[Any]", items), depth)


_ENTRIES: dict[str, tuple[set[str], ...]] = {
    **{kind: ({"hex"},) for kind in ("float", "bytes", "text")},
    **{kind: ({"items"},) for kind in ("tuple", "set", "frozenset", "dict")},
    "int": ({"digits"},),
    "scalar": ({"dtype", "hex"},),
    "array": ({"dtype", "shape", "hex"}, {"dtype", "shape", "items"}),
    "dtype": ({"dtype"},),
    "class": ({"name"},),
}
"""What an object has beside its type."""


def _bits(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("bits have to be hexadecimal text")
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ValueError("bits that are not hexadecimal") from error


def _of_bits(kind: str, given: dict[str, Any], bits: bytes) -> Any:
    if kind == "bytes":
        return bits
    if kind == "text":
        return bits.decode("utf-8", "surrogatepass")  # its error is a ValueError
    if kind == "float":
        if len(bits) != 8:
            raise ValueError("a float that has not 8 bytes")
        return struct.unpack("<d", bits)[0]
    dtype = dtype_from_json(given["dtype"])
    if dtype.hasobject or dtype.subdtype is not None:
        raise ValueError(f"bits of type {dtype}")
    if kind == "array":
        return _array(dtype, _shape_of(given), bits)
    return _scalar(dtype, bits)


def _scalar(dtype: np.dtype[Any], bits: bytes) -> Any:
    if len(bits) != dtype.itemsize:
        raise ValueError(f"a scalar of type {dtype} that has not {dtype.itemsize} bytes")
    if dtype.kind == "S":
        return np.bytes_(bits)  # an array would cut trailing zeros off
    if dtype.kind == "U":
        order = "utf-32-be" if dtype.byteorder == ">" else "utf-32-le"
        return np.str_(bits.decode(order, "surrogatepass"))
    if not bits:
        return np.zeros((), dtype)[()]
    return _array(dtype, (), bits)[()]


def _array(dtype: np.dtype[Any], shape: tuple[int, ...], bits: bytes) -> npt.NDArray[Any]:
    count = int(np.prod(shape, dtype=object))
    if count * dtype.itemsize != len(bits) or (count > len(bits) and not dtype.itemsize):
        raise ValueError(f"{len(bits)} bytes for an array of type {dtype} and shape {shape}")
    array = np.ndarray(shape, dtype, bytearray(bits))
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError("a boolean that is neither 0 nor 1")
    if dtype.kind == "U" and (array.reshape(-1).view(f"{dtype.str[0]}u4") > 0x10FFFF).any():
        raise ValueError("text that is no Unicode")
    return array


def _shape_of(given: dict[str, Any]) -> tuple[int, ...]:
    shape = given["shape"]
    sizes = cast("list[Any]", shape) if isinstance(shape, list) else None
    if sizes is None or len(sizes) > MAX_NDIM:
        raise ValueError("not the shape of an array")
    if not all(type(size) is int and 0 <= size <= 1 << 32 for size in sizes):
        raise ValueError("not the shape of an array")
    if int(np.prod([max(size, 1) for size in sizes], dtype=object)) > EXACT:
        raise ValueError("not the shape of an array")
    return tuple(sizes)


def _of_items(kind: str, given: dict[str, Any], items: list[Any], depth: int) -> Any:
    values = [_read(item, depth + 1) for item in items]
    if kind == "array":
        dtype, shape = dtype_from_json(given["dtype"]), _shape_of(given)
        if dtype.kind != "O" or int(np.prod(shape, dtype=object)) != len(values):
            raise ValueError(f"{len(values)} items for an array of type {dtype}, shape {shape}")
        array = np.empty(len(values), dtype)
        for number, value in enumerate(values):
            array[number] = value
        return array.reshape(shape)
    if kind == "dict":
        pairs = [cast("list[Any]", item) for item in values if isinstance(item, list)]
        if len(pairs) < len(values) or not all(
            len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
        ):
            raise ValueError("a dictionary has pairs of a name and a value")
        return dict(pairs)
    try:
        return _GROUPS[kind](values)
    except TypeError as error:  # a list in a set
        raise ValueError(f"a {kind} of values that can't be in one") from error
