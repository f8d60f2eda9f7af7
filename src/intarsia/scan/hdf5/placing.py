"""A HDF5 dataset as a virtual array: its bytes found, or why there is no reference to them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from h5py import h5d, h5s, h5t

from intarsia.array import VirtualArray
from intarsia.encoding import RAW_FILL, Encoding
from intarsia.grid import strip_shape
from intarsia.references import AFFINE, NO_SOURCES, References
from intarsia.scan.hdf5.files import Files
from intarsia.scan.hdf5.layout import Layout, Unreferable, assemble, layout
from intarsia.scan.hdf5.opening import Opened
from intarsia.scan.hdf5.types import ElementType, element_type


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset and what its values are.

    Parameters
    ----------
    file
        That it lies in.
    id, creation
        h5py's low-level dataset, and its creation properties.
    shape
        Of the dataset.
    element
        Its datatype.
    """

    file: Opened
    id: Any
    creation: Any
    shape: tuple[int, ...]
    element: ElementType

    @classmethod
    def of(cls, file: Opened, identifier: Any) -> Stored:
        """Look at a dataset.

        Raises
        ------
        Unreferable
            It has no values, or such as h5py can't read.
        """
        space = identifier.get_space()
        if space.get_simple_extent_type() == h5s.NULL:
            raise Unreferable("a null dataspace: there is no value", readable=False)
        shape: tuple[int, ...] = space.get_simple_extent_dims()
        element = element_type(identifier.get_type())
        return cls(file, identifier, identifier.get_create_plist(), shape, element)

    @property
    def is_virtual(self) -> bool:
        """Whether it is made of parts of others."""
        return self.creation.get_layout() == h5d.VIRTUAL

    def fill(self) -> tuple[Any, bool]:
        """Its fill value, and whether it is one that was set."""
        stored = self.element.stored
        # the library makes no ASCII of UTF-8
        fill = np.zeros((), self.element.dtype if stored.kind == "S" else stored)
        defined = self.creation.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        if defined:
            self.creation.get_fill_value(fill)
        return fill.astype(stored, copy=False), defined


class Placed(NamedTuple):
    """A dataset whose bytes were found.

    Parameters
    ----------
    array
        Its values; sources are numbers of files, without a table.
    fill
        What stands where a dimension is longer than the dataset.
    """

    array: VirtualArray
    fill: Any


def require_plain(stored: Stored) -> None:
    """Refuse values that are not bytes of one length.

    Raises
    ------
    Unreferable
        They are not.
    """
    if stored.element.form not in ("plain", "converted"):
        raise Unreferable(stored.element.name)


def require_same_values(part: Stored, whole: Stored) -> None:
    """Refuse a part whose values HDF5 would convert in other ways than a cast does.

    Raises
    ------
    Unreferable
        It would.
    """
    require_plain(part)
    mine, theirs = whole.id.get_type(), part.id.get_type()
    if mine.equal(theirs):
        return
    before, after = part.element.stored, whole.element.stored
    numbers = (h5t.INTEGER, h5t.FLOAT)
    exact = mine.get_class() in numbers and theirs.get_class() in numbers
    exact = exact and np.can_cast(before, after, "safe")
    if exact and after.kind == "f":
        if before.kind == "f":  # which bits NaN has depends on who converts it
            native = before.isnative and after.isnative and part.element.form == "plain"
            exact = before.itemsize == after.itemsize or (native and before.itemsize >= 4)
        else:
            exact = before.itemsize < after.itemsize
        exact = exact and after.itemsize <= 8
    if not exact:
        reason = f"a virtual dataset of HDF5 of {after}, a part of which is {before}"
        raise Unreferable(reason)


def place(files: Files, stored: Stored, name: str) -> Placed:
    """Find the bytes of a dataset that is not virtual.

    Parameters
    ----------
    files
        Of the scan.
    stored
        The dataset.
    name
        Of the variable.

    Raises
    ------
    Unreferable
        They can't be expressed as references.
    CorruptFile
        They lie outside the file.
    """
    require_plain(stored)
    fill, defined = stored.fill()
    # h5py reads into zeros, and HDF5 leaves them there where no fill value is to be written.
    unwritten = fill
    if defined and stored.creation.get_fill_time() == h5d.FILL_TIME_NEVER:
        unwritten = np.zeros((), stored.element.stored)
    found = layout(
        stored.file,
        stored.id,
        stored.creation,
        stored.shape,
        stored.element,
        fill.tobytes() if defined else None,
    )
    return Placed(_array(files, stored, name, found, unwritten), fill)


def _array(files: Files, stored: Stored, name: str, found: Layout, unwritten: Any) -> VirtualArray:
    """Join the pieces of a dataset."""
    encoding = Encoding.shared(found.filters, stored.element.stored)
    itemsize = encoding.stored.itemsize
    row = np.zeros((), encoding.parameters)
    row[RAW_FILL] = unwritten

    def make(part: tuple[int, ...], path: str | None, references: References) -> VirtualArray:
        chunks = found.chunks
        if references.form == AFFINE or len(part) != len(chunks):
            chunks = strip_shape(part, itemsize)  # of a part, strips may be smaller
        if path is None:
            number = files.number(stored.file.source.url, stored.file.source)
        else:
            number = files.number(path)
        return VirtualArray.from_source(
            NO_SOURCES, number, part, chunks, encoding, row, references, name=name
        )

    pieces = found.pieces
    if len(pieces) == 1:
        return make(stored.shape, pieces[0].file, pieces[0].references)
    ends = np.cumsum([piece.elements or 0 for piece in pieces]).tolist()

    def cut(part: tuple[int, ...], first: int) -> VirtualArray:
        number = bisect_right(ends, first)
        piece = pieces[number]
        skip = first - (ends[number] - (piece.elements or 0))
        offset = int(piece.references.offsets[0]) + skip * itemsize
        return make(part, piece.file, References.contiguous(offset, prod(part) * itemsize))

    return assemble(stored.shape, ends, cut)
