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
from typing import Any, NamedTuple

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


class _Memory(NamedTuple):
    """How attributes of one datatype are read.

    Parameters
    ----------
    dtype, mtype
        Of the array they are read into, for NumPy and for HDF5.
    inner
        Dimensions that the datatype adds to those of the dataspace.
    text
        Encoding of strings; None for other types and for single characters, which stay bytes.
    fixed
        Whether the strings have a fixed length.
    points
        Whether there may be references to objects in it.
    declared
        The type as h5py gives it.
    """

    dtype: np.dtype[Any]
    mtype: Any
    inner: tuple[int, ...]
    text: str | None
    fixed: bool
    points: bool
    declared: np.dtype[Any]


_MEMORY: dict[bytes, _Memory] = {}
"""By the encoded datatype: asking for the type anew costs more than reading the attribute."""


def _memory(datatype: Any) -> _Memory:
    encoded = datatype.encode()
    known = _MEMORY.get(encoded)
    if known is not None:
        return known
    declared = dtype = datatype.dtype
    kind = datatype.get_class()
    mtype = h5t.py_create(dtype)
    inner: tuple[int, ...] = ()
    text: str | None = None
    fixed = False
    if kind == h5t.STRING:
        fixed = not datatype.is_variable_str()
        if not fixed:
            text = "utf-8"
        elif datatype.get_size() > 1:
            text = "utf-8" if datatype.get_cset() == h5t.CSET_UTF8 else "ascii"
    elif dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
    if len(_MEMORY) > 4096:
        _MEMORY.clear()
    points = kind in (h5t.REFERENCE, h5t.VLEN, h5t.COMPOUND, h5t.ARRAY)
    known = _MEMORY[encoded] = _Memory(dtype, mtype, inner, text, fixed, points, declared)
    return known


def _simplified(owner: Any, attribute: Any) -> Any:
    """The value as h5netcdf simplifies it."""
    memory = _memory(attribute.get_type())
    output = _read(attribute, memory)
    if output is None:
        info = h5t.check_string_dtype(memory.declared)
        empty = np.array([], dtype=memory.declared)
        return b"" if info is not None and info.length == 1 else empty
    if memory.text is not None:
        if not isinstance(output, np.ndarray):
            return output.decode(memory.text, "surrogateescape")
        decoded = [text.decode(memory.text, "surrogateescape") for text in output.flat]
        if memory.fixed:
            output = decoded
        else:
            output = np.array(decoded, dtype=object).reshape(output.shape).tolist()
    elif memory.fixed:
        output = output.tolist() if isinstance(output, np.ndarray) else output
    elif memory.points:
        output = _without_references(owner, output)
    if not np.isscalar(output) and len(output) == 1:
        return output[0]
    return output


def read_raw(attribute: Any) -> Any:
    """Read an attribute as h5py does, but strings as bytes.

    Returns
    -------
    Any
        An array, or a scalar where the shape is ``()``, or None where the dataspace is null.
    """
    return _read(attribute, _memory(attribute.get_type()))


def _read(attribute: Any, memory: _Memory) -> Any:
    shape: tuple[int, ...] | None = attribute.shape
    if shape is None:
        return None
    shape = (*shape, *memory.inner)
    array = np.zeros(shape, memory.dtype)
    attribute.read(array, mtype=memory.mtype)
    return array if shape else array[()]


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
