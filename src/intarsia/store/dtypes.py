"""NumPy dtypes as JSON, and back: what attributes and encodings can have as a type.

Simple types are NumPy's own short names (``"<f4"``, ``"|S5"``, ``"<M8[ns]"``, ``"|O"``); the rest
are objects::

    {"fields": [["x", 0, "<i4"], ["y", 4, "<f4"]], "itemsize": 8}     compounds: name, offset, type
    {"base": "<i4", "shape": [2, 3]}                                  an array within a compound
    {"base": "|O", "vlen": "str"}                                     what h5py says of strings,
    {"base": "|u1", "enum": {"land": 1}, "enum_name": "mask"}         and of enums

Of a type's metadata only what h5py keeps there is written, since it says how a variable was stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from intarsia.errors import UnsupportedError

__all__ = ["dtype_from_json", "dtype_to_json"]

_SIMPLE = re.compile(
    r"\|b1|\|O|[<>|][iufcSUV][0-9]{1,9}"
    r"|[<>][mM]8\[(1|[1-9][0-9]{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]"
)
_WORDS = {"str": str, "bytes": bytes}
_WORD_OF = {word: name for name, word in _WORDS.items()}

MAX_ITEMSIZE = 1 << 24
MAX_FIELDS = 1024
MAX_DEPTH = 8
MAX_MEMBERS = 1 << 16
"""Of an enumeration; HDF5 counts them by two bytes."""
MAX_NAME = 1024
"""Characters of a name in a type's metadata."""


def dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """Write a type.

    Raises
    ------
    UnsupportedError
        If NumPy does not define it (types of other libraries, strings of `StringDType`), or its
        metadata are beyond what a store holds.
    """
    return _written(dtype, 0)


def _written(dtype: np.dtype[Any], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"the type {dtype} is nested too deeply")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _written(base, depth + 1), "shape": list(shape)}
    if dtype.names is not None:
        fields = cast("Mapping[str, tuple[Any, ...]]", dtype.fields)
        listed = [[n, fields[n][1], _written(fields[n][0], depth + 1)] for n in dtype.names]
        return {"fields": listed, "itemsize": dtype.itemsize}
    if not _SIMPLE.fullmatch(dtype.str) or np.dtype(dtype.str) != dtype:
        raise UnsupportedError(f"the type {dtype!r}")
    metadata = cast("Mapping[str, Any]", dtype.metadata or {})
    known: dict[str, Any] = {}
    if "vlen" in metadata:
        inner = metadata["vlen"]
        known["vlen"] = _WORD_OF.get(inner) or _written(np.dtype(inner), depth + 1)
    if "enum" in metadata:
        known["enum"] = _enum_json(dtype, metadata["enum"])
    for key in ("enum_name", "h5py_encoding"):
        if key in metadata:
            known[key] = str(metadata[key])
            if not _is_name(known[key]):
                raise UnsupportedError(f"the type {dtype} with a {key} that is no name")
    return {"base": dtype.str, **known} if known else dtype.str


def _enum_json(dtype: np.dtype[Any], members: Any) -> dict[str, int]:
    try:
        found = {str(name): int(number) for name, number in members.items()}
        _check_members(dtype, found)
    except (AttributeError, TypeError, ValueError) as error:
        raise UnsupportedError(f"the type {dtype} of an enumeration: {error}") from error
    return found


def _check_members(base: np.dtype[Any], members: Mapping[str, int]) -> None:
    """Raise a ValueError if there can be no such enumeration."""
    if base.kind not in "iu":
        raise ValueError("an enumeration is of integers")
    if len(members) > MAX_MEMBERS:
        raise ValueError(f"{len(members)} members")
    if not all(map(_is_name, members)):
        raise ValueError(f"a member's name is no Unicode, or longer than {MAX_NAME}")
    limits = np.iinfo(base)
    if not all(limits.min <= number <= limits.max for number in members.values()):
        raise ValueError(f"a member that {base} does not hold")
    if len(set(members.values())) < len(members):
        raise ValueError("two members of one number")


def _is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and not any("\ud800" <= letter <= "\udfff" for letter in text)


def dtype_from_json(json: Any) -> np.dtype[Any]:
    """Read what `dtype_to_json` wrote.

    Raises
    ------
    ValueError
        If it is nothing of the kind, or too large.
    """
    return _read(json, 0)


def _read(json: Any, depth: int) -> np.dtype[Any]:
    if depth > MAX_DEPTH:
        raise ValueError("a type is nested too deeply")
    if isinstance(json, str):
        return _simple(json)
    if not isinstance(json, dict):
        raise ValueError(f"a type has to be text or an object, got {type(json).__name__}")
    given = cast("dict[str, Any]", json)
    if "fields" in given:
        return _compound(given, depth)
    base = _read(given.get("base"), depth + 1)
    rest = {key: value for key, value in given.items() if key != "base"}
    if rest.keys() == {"shape"}:
        shape = _shape(rest["shape"])
        dtype = np.dtype((base, shape))
        return _sane(dtype)
    if base.names is not None or base.subdtype is not None:
        raise ValueError("only simple types have metadata")
    return np.dtype(base.str, metadata=_metadata(base, rest, depth)) if rest else base


def _simple(text: str) -> np.dtype[Any]:
    if not _SIMPLE.fullmatch(text):
        raise ValueError(f"not a type: {text[:50]!r}")
    try:
        return _sane(np.dtype(text))
    except TypeError as error:  # a size that NumPy does not have, at least not on this machine
        raise ValueError(f"NumPy has no type {text!r} here") from error


def _sane(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.itemsize > MAX_ITEMSIZE:
        raise ValueError(f"a type of {dtype.itemsize} bytes")
    return dtype


def _shape(json: Any) -> tuple[int, ...]:
    items = cast("list[Any]", json) if isinstance(json, list) else None
    if items is None or len(items) > 16:
        raise ValueError("not the shape of a type")
    if not all(type(size) is int and 0 <= size <= MAX_ITEMSIZE for size in items):
        raise ValueError("not the shape of a type")
    if int(np.prod(items, dtype=object)) > MAX_ITEMSIZE:
        raise ValueError("a type of too many elements")
    return tuple(items)


def _compound(given: dict[str, Any], depth: int) -> np.dtype[Any]:
    fields, itemsize = given["fields"], given.get("itemsize")
    if given.keys() != {"fields", "itemsize"} or not isinstance(fields, list):
        raise ValueError("a compound type has fields and an itemsize")
    listed = cast("list[Any]", fields)
    if type(itemsize) is not int or not 0 <= itemsize <= MAX_ITEMSIZE or len(listed) > MAX_FIELDS:
        raise ValueError("a compound type that is too large")
    names: list[str] = []
    offsets: list[int] = []
    formats: list[np.dtype[Any]] = []
    for field in listed:
        if not isinstance(field, list) or len(cast("list[Any]", field)) != 3:
            raise ValueError("a field of a compound type is a name, an offset and a type")
        name, offset, inner = cast("list[Any]", field)
        dtype = _read(inner, depth + 1)
        if type(name) is not str or type(offset) is not int:
            raise ValueError("a field of a compound type is a name, an offset and a type")
        if dtype.hasobject or not 0 <= offset <= itemsize - dtype.itemsize:
            raise ValueError(f"a field of a compound type that does not fit: {name[:50]!r}")
        names.append(name)
        offsets.append(offset)
        formats.append(dtype)
    spec = {"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize}
    return np.dtype(cast("Any", spec))


def _metadata(base: np.dtype[Any], rest: dict[str, Any], depth: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for key, value in rest.items():
        if key == "vlen":
            known = _WORDS.get(value) if isinstance(value, str) else None
            metadata[key] = known if known is not None else _read(value, depth + 1)
        elif key == "enum" and isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            if not all(type(number) is int for number in members.values()):
                raise ValueError("the members of an enum are integers")
            _check_members(base, members)
            metadata[key] = dict(members)
        elif key in ("enum_name", "h5py_encoding") and isinstance(value, str) and _is_name(value):
            metadata[key] = value
        else:
            raise ValueError(f"not known of a type: {key[:50]!r}")
    return metadata
