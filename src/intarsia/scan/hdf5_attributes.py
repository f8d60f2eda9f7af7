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
import numpy.typing as npt
from h5py import h5, h5a, h5i, h5p, h5r, h5s, h5t

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
    space = attribute.get_space()
    if space.get_simple_extent_type() == h5s.NULL:
        dtype = attribute.dtype
        info = h5t.check_string_dtype(dtype)
        return b"" if info is not None and info.length == 1 else np.array([], dtype=dtype)
    shape: tuple[int, ...] = space.get_simple_extent_dims()
    datatype = attribute.get_type()
    kind = datatype.get_class()
    if kind == h5t.STRING:
        charset = datatype.get_cset()
        if datatype.is_variable_str():
            dtype, mtype = _variable_string(charset)
            raw = np.zeros(shape, dtype)
            attribute.read(raw, mtype=mtype)
            output: Any = np.array(
                [text.decode("utf-8", "surrogateescape") for text in raw.flat], dtype=object
            ).reshape(shape)
            output = output.tolist() if shape else output[()]
        else:
            length = datatype.get_size()
            dtype, mtype = _fixed_string(length, charset)
            raw = np.zeros(shape, dtype)
            attribute.read(raw, mtype=mtype)
            if length == 1:  # characters are wanted as bytes
                output = raw.tolist() if shape else raw[()]
            else:
                encoding = "utf-8" if charset == h5t.CSET_UTF8 else "ascii"
                decoded = [text.decode(encoding, "surrogateescape") for text in raw.flat]
                output = decoded if shape else decoded[0]
    else:
        output = read_raw(attribute, shape)
        if kind in (h5t.REFERENCE, h5t.VLEN, h5t.COMPOUND):
            output = _without_references(owner, output)
    if not np.isscalar(output) and len(output) == 1:
        return output[0]
    return output


def read_raw(attribute: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Read an attribute as h5py does, strings as bytes: an array, or a scalar of shape ``()``."""
    dtype = attribute.dtype
    mtype = h5t.py_create(dtype)
    extent: tuple[int, ...] = (
        attribute.get_space().get_simple_extent_dims() if shape is None else shape
    )
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        extent = (*extent, *inner)
    array = np.zeros(extent, dtype)
    attribute.read(array, mtype=mtype)
    return array if array.ndim else array[()]


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
    name = h5i.get_name(h5r.dereference(reference, owner))
    return "" if name is None else name.decode("utf-8", "surrogateescape")


@lru_cache(maxsize=2)
def _variable_string(charset: int) -> tuple[npt.DTypeLike, Any]:
    encoding = "utf-8" if charset == h5t.CSET_UTF8 else "ascii"
    dtype = h5py.string_dtype(encoding)
    return dtype, h5t.py_create(dtype)


@lru_cache(maxsize=512)
def _fixed_string(length: int, charset: int) -> tuple[npt.DTypeLike, Any]:
    encoding = "utf-8" if charset == h5t.CSET_UTF8 else "ascii"
    dtype = h5py.string_dtype(encoding, length)
    return dtype, h5t.py_create(dtype)
