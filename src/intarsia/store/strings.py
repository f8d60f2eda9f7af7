"""Strings and bytes as Zarr's strings, and back: of fixed length, objects, or NumPy's new ones."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from intarsia.errors import UnsupportedError, UnsupportedVariable
from intarsia.store.dtypes import dtype_from_json, dtype_to_json
from intarsia.store.holes import put_back, runs_of
from intarsia.store.plain import Plain

__all__ = ["plain_bytes", "plain_strings", "plain_text", "restored_bytes", "restored_text"]

type Array = npt.NDArray[Any]

NEW = np.dtypes.StringDType()

MAX_WIDE, MAX_PADDED = 64, 1 << 30
"""Strings of a fixed length of more bytes than the first have to fit in the second together."""


def plain_strings(values: Array) -> Plain:
    """Strings of fixed length, bytes of fixed length, or NumPy's new strings.

    Raises
    ------
    UnsupportedVariable
        If they are not valid Unicode, much longer than needed, or new strings of which some may be
        missing.
    """
    dtype = values.dtype
    if dtype.kind == "T":
        if dtype != NEW:
            raise UnsupportedVariable(f"strings of {dtype!r}", remedy="cast it to object")
        return plain_text(_objects(values), [], "StringDType")
    if _too_wide(values.size, dtype):
        reason = f"{values.size:,} strings of {dtype.itemsize:,} bytes each"
        raise UnsupportedVariable(reason, remedy="cast it to object")
    native = dtype.newbyteorder("=")
    if dtype.kind == "S":
        return plain_bytes(_objects(values), [], native.str)
    return plain_text(_objects(values), [], native.str)


def _objects(values: Array) -> Array:
    return np.asarray(values.astype(object), order="C")


def _too_wide(count: int, dtype: np.dtype[Any]) -> bool:
    """Whether short strings that a stranger says are long would take all memory."""
    return dtype.itemsize > MAX_WIDE and count * dtype.itemsize > MAX_PADDED


def plain_text(array: Array, missing: list[int], dtype: Any = None) -> Plain:
    """Objects of type str.

    Parameters
    ----------
    array
        C-contiguous; objects that are missing are replaced in place.
    missing
        Places of those that are no strings.
    dtype
        Type to be restored, as JSON; that of `array` by default.
    """
    flat = array.reshape(-1)
    holes = runs_of(missing, flat.tolist())
    flat[missing] = ""
    try:
        "".join(flat.tolist()).encode("utf-8")
    except UnicodeEncodeError as error:
        remedy = "repair the text, or drop it"
        raise UnsupportedVariable("strings that are not valid Unicode", remedy=remedy) from error
    restore = {"kind": "text", "dtype": dtype or _dtype_of(array)}
    return Plain(array, "string", {}, restore | _noted(holes))


def plain_bytes(array: Array, missing: list[int], dtype: Any = None) -> Plain:
    """Objects of type bytes, as UTF-8 if all of them are that, else as Latin-1.

    Parameters
    ----------
    array, missing, dtype
        As for `plain_text`.
    """
    flat = array.reshape(-1)
    holes = runs_of(missing, flat.tolist())
    flat[missing] = b""
    items = cast("list[bytes]", flat.tolist())
    encoding = "utf-8"
    try:
        texts = [item.decode("utf-8") for item in items]
    except UnicodeDecodeError:
        encoding = "latin-1"
        texts = [item.decode("latin-1") for item in items]
    restore = {"kind": "bytes", "dtype": dtype or _dtype_of(array), "encoding": encoding}
    return Plain(_filled(texts, array.shape), "string", {}, restore | _noted(holes))


def _dtype_of(array: Array) -> Any:
    try:
        return dtype_to_json(array.dtype)  # with what h5py says of strings
    except UnsupportedError:
        return "|O"


def _noted(holes: list[list[Any]]) -> dict[str, Any]:
    return {"missing": holes} if holes else {}


def _filled(items: list[Any], shape: tuple[int, ...]) -> Array:
    flat = np.empty(len(items), object)
    flat[:] = items
    return flat.reshape(shape)


# -- and back --------------------------------------------------------------------------------------


def restored_text(array: Array, given: dict[str, Any]) -> Array:
    """Make of Zarr's strings what they were; raises ValueError where `given` is not how."""
    texts = _texts(array)
    if given["dtype"] == "StringDType" and "missing" not in given:
        return texts.astype(NEW)
    dtype = dtype_from_json(given["dtype"])
    if dtype.kind == "U" and "missing" not in given:
        return _fixed(texts, dtype.newbyteorder("="), 4)
    return _restored_objects(texts, dtype, given)


def restored_bytes(array: Array, given: dict[str, Any]) -> Array:
    """Make bytes of Zarr's strings; raises ValueError where `given` is not how."""
    if given["encoding"] not in ("utf-8", "latin-1"):
        raise ValueError("bytes in no known encoding")
    texts = cast("list[str]", _texts(array).reshape(-1).tolist())
    items = _filled([text.encode(given["encoding"]) for text in texts], array.shape)
    dtype = dtype_from_json(given["dtype"])
    if dtype.kind == "S" and "missing" not in given:
        return _fixed(items, dtype, 1)
    return _restored_objects(items, dtype, given)


def _texts(array: Array) -> Array:
    if array.dtype.kind not in "OT":
        raise ValueError(f"strings of type {array.dtype}")
    objects = np.array(array, object, order="C")
    if not all(type(item) is str for item in objects.reshape(-1)):
        raise ValueError("strings that are none")
    return objects


def _restored_objects(objects: Array, dtype: np.dtype[Any], given: dict[str, Any]) -> Array:
    if dtype.kind != "O":
        raise ValueError(f"strings of type {dtype}")
    made = put_back(objects, given)
    return made if dtype.metadata is None else made.astype(dtype)


def _fixed(objects: Array, dtype: np.dtype[Any], width: int) -> Array:
    longest = max(map(len, objects.reshape(-1)), default=0)
    if longest * width > dtype.itemsize:
        raise ValueError(f"strings of length {longest} are to be of type {dtype}")
    if _too_wide(objects.size, dtype):
        raise ValueError(f"{objects.size} strings of type {dtype}")
    made = np.ndarray(objects.shape, dtype)  # `numpy.empty` would make strings of length 0 longer
    made[...] = objects
    return made
