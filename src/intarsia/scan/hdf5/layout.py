"""Where the bytes of a HDF5 dataset are, and which filters they went through."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from h5py import h5d, h5f, h5s, h5t

from intarsia.codecs.hdf5 import hdf5_codec, prepare
from intarsia.codecs.hdf5_filters import (
    BITSHUFFLE,
    Filter,
    filter_name,
    native_codec,
    remedy_for,
    unavailable,
)
from intarsia.encoding import Codec
from intarsia.errors import CorruptFile, UnsupportedVariable
from intarsia.grid import strip_shape
from intarsia.references import References
from intarsia.scan.hdf5.chunks import chunk_references
from intarsia.scan.hdf5.opening import Opened
from intarsia.scan.hdf5.types import ElementType


class Unreferable(Exception):
    """The values of a dataset are not bytes that references can point to.

    Parameters
    ----------
    reason
        Why.
    remedy
        What a reader can do about it.
    readable
        Whether the library can read the dataset.
    files
        External files and how many bytes of each are needed, where the library does not check.
    """

    def __init__(
        self,
        reason: str,
        remedy: str = "",
        readable: bool = True,
        files: tuple[tuple[str, int], ...] = (),
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.readable = readable
        self.files = files


class Piece(NamedTuple):
    """A run of elements, in C order, whose references go to one file.

    Parameters
    ----------
    elements
        How many; None for all of a dataset.
    file
        Path of an external file; None for the scanned one.
    references
        To the chunks of these elements.
    """

    elements: int | None
    file: str | None
    references: References


@dataclass(frozen=True, slots=True)
class Layout:
    """Chunks of a dataset, their filters, and where they are."""

    chunks: tuple[int, ...]
    filters: tuple[Codec, ...]
    pieces: tuple[Piece, ...]


def layout(
    file: Opened,
    dataset: Any,
    creation: Any,
    shape: tuple[int, ...],
    element: ElementType,
    fill: bytes | None,
) -> Layout:
    """Find the bytes of a dataset.

    Parameters
    ----------
    file
        That holds it.
    dataset, creation
        Low-level dataset and its creation properties.
    shape
        Of the dataset.
    element
        Its datatype, ``plain`` or ``converted``.
    fill
        Bytes of its fill value, or None where it is the default.

    Raises
    ------
    Unreferable
        They can't be expressed as references.
    CorruptFile
        They lie outside the file.
    """
    kind = creation.get_layout()
    if kind == h5d.CHUNKED:
        chunks: tuple[int, ...] = creation.get_chunk()
        entries = pipeline(creation)
        filters = _filters(dataset, entries, element, chunks, fill)
        numbers = [number for number, _, _, _ in entries]
        references = chunk_references(file, dataset, shape, chunks, numbers)
        return Layout(chunks, filters, (Piece(None, None, references),))
    whole = tuple(max(size, 1) for size in shape)
    if prod(shape) == 0:
        return Layout(whole, (), (Piece(None, None, References.missing()),))
    if kind == h5d.COMPACT:
        values = np.zeros(shape, element.stored)
        dataset.read(h5s.ALL, h5s.ALL, values, h5t.py_create(element.dtype))
        references = References.inlined(values.tobytes())
        return Layout(whole, (), (Piece(None, None, references),))
    if element.form != "plain":
        raise Unreferable(f"{element.dtype} of a precision of its own, not stored in chunks")
    strip = strip_shape(shape, element.stored.itemsize)
    nbytes = prod(shape) * element.stored.itemsize
    if creation.get_external_count():
        return Layout(strip, (), _external(file, creation, nbytes, element.stored.itemsize))
    offset = dataset.get_offset()
    # beside a user block, HDF5 gives an offset even where nothing was allocated
    if offset is None or not dataset.get_storage_size():
        return Layout(strip, (), (Piece(None, None, References.missing()),))
    offset += file.base[1]
    if offset + nbytes > file.size:
        raise CorruptFile(f"its values end at byte {offset + nbytes} of a file of {file.size}")
    return Layout(strip, (), (Piece(None, None, References.contiguous(offset, nbytes)),))


def pipeline(creation: Any) -> tuple[Filter, ...]:
    """The filters of a dataset: number, flags, parameters, name."""
    filters: list[Filter] = []
    for index in range(creation.get_nfilters()):
        number, flags, values, name = creation.get_filter(index)
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
        filters.append((number, flags, tuple(values), text))
    return tuple(filters)


def lacking(creation: Any) -> str:
    """What to install for the library to read a dataset, or nothing.

    Plug-ins that are installed are loaded by this.
    """
    missing = unavailable(pipeline(creation))
    return remedy_for(missing) if missing else ""


def _filters(
    dataset: Any,
    filters: tuple[Filter, ...],
    element: ElementType,
    chunks: tuple[int, ...],
    fill: bytes | None,
) -> tuple[Codec, ...]:
    native = [native_codec(entry, element.stored.itemsize) for entry in filters]
    needed = [entry for entry, codec in zip(filters, native, strict=True) if codec is None]
    for number, _, values, _ in needed:
        if number == BITSHUFFLE:  # its plug-in divides by them
            reason = f"bitshuffle with the parameters {list(values)}"
            raise Unreferable(reason, readable=False)
    missing = unavailable(needed)
    if missing:
        names = ", ".join(filter_name(number, name) for number, _, _, name in missing)
        raise Unreferable(f"stored with the filter {names}", remedy_for(missing), readable=False)
    if not needed and element.form == "plain":
        return tuple(codec for codec in native if codec is not None)
    datatype = dataset.get_type()
    if datatype.get_class() == h5t.ENUM and element.stored.kind != "b":
        datatype = datatype.get_super()  # the same bytes, whatever its members are called
    codec = hdf5_codec(filters, datatype.encode(), chunks, fill)
    try:
        prepare(codec)
    except UnsupportedVariable as error:
        raise Unreferable(
            error.reason, error.remedy or "", readable=not unavailable(filters)
        ) from error
    return (codec,)


def require_reachable(file: Opened, creation: Any) -> None:
    """Refuse values in external files that a file of the network names: they would be local ones.

    Raises
    ------
    Unreferable
        There are some.
    """
    if file.is_remote and creation.get_external_count():
        name = os.fsdecode(creation.get_external(0)[0])
        reason = f"values in the external file {name!r}, which only local files may lead to"
        raise Unreferable(reason, readable=False)


def _external(file: Opened, creation: Any, nbytes: int, itemsize: int) -> tuple[Piece, ...]:
    """References into external raw files, of which each holds a run of elements."""
    require_reachable(file, creation)
    runs: list[tuple[str, int, int]] = []
    left = nbytes
    for index in range(creation.get_external_count()):
        name, offset, size = creation.get_external(index)
        size = left if size == h5f.UNLIMITED else min(size, left)
        if size == 0:
            continue
        path = _external_path(os.fsdecode(name), file.source.url)
        left -= size
        if runs and runs[-1][0] == path and runs[-1][1] + runs[-1][2] == offset:
            runs[-1] = (path, runs[-1][1], runs[-1][2] + size)
        else:
            runs.append((path, offset, size))
    if left:
        raise CorruptFile(f"its external files lack {left} of {nbytes} bytes")
    if not runs:
        return (Piece(None, None, References.missing()),)
    if len(runs) == 1:
        path, offset, size = runs[0]
        return (Piece(None, path, References.contiguous(offset, size)),)
    if any(size % itemsize for _, _, size in runs):
        needed = tuple((path, offset + size) for path, offset, size in runs)
        raise Unreferable("external files that divide it within elements", files=needed)
    return tuple(
        Piece(size // itemsize, path, References.contiguous(offset, size))
        for path, offset, size in runs
    )


def _external_path(name: str, file: str) -> str:
    """Where HDF5 looks for an external file: below a prefix if there is one, else as named.

    A relative name is taken from the current directory, not from that of the HDF5 file.
    """
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "")
    if prefix in ("", ".") or os.path.isabs(name):
        return os.path.abspath(name)
    prefix = prefix.replace("${ORIGIN}", os.path.dirname(os.path.abspath(file)))
    return os.path.abspath(os.path.join(prefix, name))


def assemble(
    shape: tuple[int, ...],
    ends: Sequence[int],
    make: Callable[[tuple[int, ...], int], Any],
    begin: int = 0,
) -> Any:
    """Join an array of which each file holds a run of elements.

    Parameters
    ----------
    shape
        Of the array, which begins at element `begin` of the whole.
    ends
        Ascending numbers of elements of the whole at which a run ends.
    make
        Gives the array of a shape whose elements, from a number on, lie in one run.
    """
    inner = prod(shape[1:])
    parts: list[Any] = []
    row = 0
    while row < shape[0]:
        first = begin + row * inner
        end = ends[bisect_right(ends, first)]
        rows = min((end - first) // inner, shape[0] - row)
        if rows:
            parts.append(make((rows, *shape[1:]), first))
        else:  # the run ends within a row
            parts.append(np.expand_dims(assemble(shape[1:], ends, make, first), 0))
        row += max(rows, 1)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
