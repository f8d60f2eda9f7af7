"""Datasets of one chunk in files in memory, with the filters of a dataset of a real file.

HDF5 lets filters derive their parameters when a dataset is created, from what its creator asks for.
Those of the library derive the same ones again. Plug-ins often don't (zfp, for one, keeps a header
of its own format in them), and no call creates a dataset with parameters as they are. So a plug-in
filter is created as a placeholder of the same form, a filter that nobody has, and gets its number
in the image of the file.

Plug-ins are trusted by the library to return as many bytes as a chunk has. A filter of our own that
comes after them sees to it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from h5py import h5d, h5f, h5p, h5s, h5z  # pyright: ignore[reportAttributeAccessIssue]

from intarsia.codecs.hdf5_filters import LIBRARY_FILTERS, Filter

__all__ = ["one_chunk"]

_PLACEHOLDER = 65400
_TESTING = range(511, 255, -1)
"""Numbers that HDF5 leaves to whoever wants one without registering it."""
_NUMBERS = itertools.count()
"""Names of files in memory must differ, as long as they are open."""


def one_chunk(
    datatype: Any, shape: tuple[int, ...], pipeline: Sequence[Filter], fill: Any, nbytes: int
) -> Any:
    """Make a file in memory, with a dataset of one chunk.

    Parameters
    ----------
    datatype
        Of the dataset.
    shape
        Of the chunk.
    pipeline
        Its filters.
    fill
        Its fill value, or None.
    nbytes
        Bytes of the chunk, which what plug-in filters return is held to.

    Returns
    -------
    DatasetID
        It keeps the file open.
    """
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk(shape)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    if fill is not None:
        creation.set_fill_value(fill)
    plugins = [entry for entry in pipeline if entry[0] not in LIBRARY_FILTERS]
    if plugins:
        creation.set_filter(_length_filter().number, 0, (nbytes,))
    placeholders = itertools.count(_PLACEHOLDER)
    for number, flags, values, _ in pipeline:
        if number in LIBRARY_FILTERS:
            creation.set_filter(number, flags, values)
        else:  # an optional filter need not be there
            creation.set_filter(next(placeholders), h5z.FLAG_OPTIONAL, values)
    access = _access()
    if plugins:  # an image without checksums
        access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    file = h5f.create(_name(), h5f.ACC_TRUNC, fapl=access)
    space = h5s.create_simple(shape)
    uncached = h5p.create(h5p.DATASET_ACCESS)
    uncached.set_chunk_cache(1, 0, 1.0)
    dataset = h5d.create(file, b"chunk", datatype, space, creation, dapl=uncached)
    if not plugins:
        return dataset
    h5f.flush(file)
    image = bytearray(file.get_file_image())
    for placeholder, (number, _, values, _) in enumerate(plugins, _PLACEHOLDER):
        # number, length of the name, flags, parameters: "Filter Description" of the file format
        told = struct.pack(f"<4H{len(values)}I", placeholder, 0, 1, len(values), *values)
        if image.count(told) != 1:
            raise RuntimeError("the filters are not found in the file that HDF5 made")
        struct.pack_into("<H", image, image.index(told), number)
    access = _access()
    access.set_file_image(bytes(image))
    return h5d.open(h5f.open(_name(), h5f.ACC_RDWR, fapl=access), b"chunk", uncached)


def _name() -> bytes:
    return b"intarsia-decoder-%d" % next(_NUMBERS)


def _access() -> Any:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(1 << 16, False)
    access.set_fclose_degree(h5f.CLOSE_WEAK)  # with its dataset
    return access


_Function = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.c_uint,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


class _Class(ctypes.Structure):
    """``H5Z_class2_t``."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("number", ctypes.c_int),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
        ("name", ctypes.c_char_p),
        ("can_apply", ctypes.c_void_p),
        ("set_local", ctypes.c_void_p),
        ("function", _Function),
    )


@_Function
def _of_length(_flags: int, _count: int, values: Any, nbytes: int, _size: Any, _buf: Any) -> int:
    """Pass bytes on if they are as many as the parameter says; 0 is failure."""
    return nbytes if nbytes == values[0] else 0


@cache
def _length_filter() -> _Class:
    """Register the filter; it and what it points to must stay."""
    number = next(number for number in _TESTING if not h5z.filter_avail(number))
    told = _Class(1, number, 1, 1, b"intarsia: length", None, None, _of_length)
    h5z.register_filter(ctypes.addressof(told))
    return told
