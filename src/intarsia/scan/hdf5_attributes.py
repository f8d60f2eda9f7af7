"""Attributes of HDF5 objects, as xarray's h5netcdf store gives them before decoding.

Three layers are reproduced in one pass, for speed: h5py (types, strings of variable length),
h5netcdf (hidden names, fixed strings decoded, arrays of one element as scalars, strings in lists)
and xarray (bytes decoded as UTF-8, except fills).

In one point the result differs on purpose: a reference to another object becomes the path of that
object, where h5netcdf fails, or returns an object that is of no use once the file is closed.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import h5py
import numpy as np
from h5py import h5, h5a, h5p, h5r, h5t

from intarsia.errors import UnsupportedError

HIDDEN = frozenset(
    [
        b"REFERENCE_LIST",
        b"CLASS",
        b"DIMENSION_LIST",
        b"NAME",
        b"_Netcdf4Dimid",
        b"_Netcdf4Coordinates",
        b"_nc3_strict",
        b"_NCProperties",
    ]
)
"""Names by which netCDF-4 keeps its own structure."""

_UNDECODED = frozenset([b"_FillValue", b"missing_value"])


def attribute_names(owner: Any, creation: Any) -> list[bytes]:
    """Names of an object's attributes, in the order of creation where that is kept.

    Parameters
    ----------
    owner
        Low-level group or dataset.
    creation
        Its creation properties.
    """
    tracked = creation.get_attr_creation_order() & h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    h5a.iterate(owner, names.append, index_type=h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME)
    return names


def visible_attributes(owner: Any, names: Iterable[bytes], where: str) -> dict[str, Any]:
    """Read the attributes that are not hidden.

    Parameters
    ----------
    owner
        Low-level group or dataset.
    names
        Of its attributes, hidden ones included.
    where
        Name of the owner, for messages.

    Raises
    ------
    UnsupportedError
        An attribute has a type that h5py can't read (xarray refuses the whole file too).
    """
    attrs: dict[str, Any] = {}
    for name in names:
        if name in HIDDEN:
            continue
        key = name.decode("utf-8", "surrogateescape")
        try:
            value = _simplified(owner, h5a.open(owner, name))
        except TypeError as error:
            reason = f"the attribute {key!r} has a type that h5py can't read ({error})"
            raise UnsupportedError(reason, array=where) from error
        if isinstance(value, bytes) and name not in _UNDECODED:
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                warnings.warn(
                    f"the attribute {key!r} of {where!r} is not UTF-8; it stays bytes",
                    UnicodeWarning,
                    stacklevel=2,
                )
        attrs[key] = value
    return attrs


def _simplified(owner: Any, attribute: Any) -> Any:
    """The value as h5netcdf simplifies it."""
    datatype = attribute.get_type()
    kind = datatype.get_class()
    output = read_raw(attribute, datatype, kind)
    if output is None:
        dtype = datatype.dtype
        info = h5t.check_string_dtype(dtype)
        return b"" if info is not None and info.length == 1 else np.array([], dtype=dtype)
    if kind == h5t.STRING:
        if datatype.is_variable_str():
            output = _decoded(output, "utf-8")
            if isinstance(output, np.ndarray):
                output = output.tolist()
        elif datatype.get_size() > 1:
            encoding = "utf-8" if datatype.get_cset() == h5t.CSET_UTF8 else "ascii"
            output = _decoded(output, encoding)
            if isinstance(output, np.ndarray):
                output = list(output.flat)
        elif isinstance(output, np.ndarray):  # characters are wanted as bytes
            output = output.tolist()
    elif kind in (h5t.REFERENCE, h5t.VLEN, h5t.COMPOUND, h5t.ARRAY):
        output = _without_references(owner, output)
    if not np.isscalar(output) and len(output) == 1:
        return output[0]
    return output


def read_raw(attribute: Any, datatype: Any = None, kind: int | None = None) -> Any:
    """Read an attribute as h5py does, but strings as bytes.

    Parameters
    ----------
    attribute
        Low-level attribute.
    datatype, kind
        Its type, and the class of that, where they are known already.

    Returns
    -------
    Any
        An array, or a scalar where the shape is ``()``, or None where the dataspace is null.
    """
    datatype = attribute.get_type() if datatype is None else datatype
    kind = datatype.get_class() if kind is None else kind
    shape: tuple[int, ...] | None = attribute.shape
    if shape is None:
        return None
    if kind == h5t.STRING:
        length = 0 if datatype.is_variable_str() else datatype.get_size()
        dtype, mtype = _string(length, datatype.get_cset())
    elif kind in (h5t.INTEGER, h5t.FLOAT):
        dtype = datatype.dtype
        mtype = _number(dtype)
    else:
        dtype = datatype.dtype
        mtype = h5t.py_create(dtype)
        if dtype.subdtype is not None:
            dtype, inner = dtype.subdtype
            shape = (*shape, *inner)
    array = np.zeros(shape, dtype)
    attribute.read(array, mtype=mtype)
    return array if shape else array[()]


def _decoded(value: Any, encoding: str) -> Any:
    if not isinstance(value, np.ndarray):
        return value.decode(encoding, "surrogateescape")
    decoded = [text.decode(encoding, "surrogateescape") for text in value.flat]
    return np.array(decoded, dtype=object).reshape(value.shape)


@lru_cache(maxsize=512)
def _string(length: int, charset: int) -> tuple[Any, Any]:
    """NumPy and HDF5 types of strings of a length, or of variable length (0)."""
    encoding = "utf-8" if charset == h5t.CSET_UTF8 else "ascii"
    dtype = h5py.string_dtype(encoding, length or None)
    return dtype, h5t.py_create(dtype)


@lru_cache(maxsize=64)
def _number(dtype: np.dtype[Any]) -> Any:
    return h5t.py_create(dtype)


def _without_references(owner: Any, value: Any) -> Any:
    """The value with references to objects replaced by the paths of those objects."""
    if isinstance(value, h5r.Reference):
        return _path(owner, value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        replaced = np.empty(value.shape, object)
        for index, item in np.ndenumerate(value):
            replaced[index] = _without_references(owner, item)
        return replaced
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.names and dtype.hasobject:
        array = np.array(value)
        for name in dtype.names:
            if array.dtype[name].hasobject:
                array[name] = _without_references(owner, array[name])
        return array if array.ndim else array[()]
    return value


def _path(owner: Any, reference: Any) -> str:
    if not reference:
        return ""
    name = h5r.get_name(reference, owner)
    return "" if name is None else name.decode("utf-8", "surrogateescape")
