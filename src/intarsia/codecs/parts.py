"""The parts of a presented chunk, as columns: made of what a lookup found, or read from bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cases import key_number, key_of
from intarsia.encoding import Case, Encoding
from intarsia.lookup import Touches
from intarsia.references import ABSENT

__all__ = ["BYTES_FOLLOW", "CONSTANT", "HEAD", "Parts", "case_keys", "record_type"]

type IntArray = npt.NDArray[Any]

HEAD = 16
"""Bytes of a header that say how long it is; see `intarsia.codecs.chunks.header_nbytes`."""

BYTES_FOLLOW, CONSTANT = 0, 1
"""States: the part has bytes, or every element of it is the decoded raw fill."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of a presented chunk: columns, one row each, in the order of their bytes.

    Parameters
    ----------
    key
        The case's key, as a little-endian integer.
    case
        Which case, in the list of cases that the maker of the columns had.
    state
        `BYTES_FOLLOW` or `CONSTANT`.
    mask
        HDF5 filter mask.
    elements
        Elements that the part's bytes decode to. 0, as `begin` and `strides`, for constants.
    begin
        Index, in the decoded source chunk, of the first wanted element.
    strides
        Shape (parts, ndim): elements of the decoded source chunk per index of the chunk.
    start, count
        Shape (parts, ndim): the box of the chunk that the part fills.
    nbytes
        Bytes that follow for the part; -1 where they reach to the end of a chunk of unknown size.
    width
        Bytes of the part's row of parameters.
    parameters
        The rows of parameters, one after the other.
    """

    key: npt.NDArray[np.uint64]
    case: IntArray
    state: IntArray
    mask: IntArray
    elements: IntArray
    begin: IntArray
    strides: IntArray
    start: IntArray
    count: IntArray
    nbytes: IntArray
    width: IntArray
    parameters: bytes

    def __len__(self) -> int:
        return len(self.key)

    @property
    def ndim(self) -> int:
        """Dimensions of the chunk."""
        return self.start.shape[1]

    @classmethod
    def of(
        cls,
        touches: Touches,
        cases: Sequence[Case],
        keys: npt.NDArray[np.uint64],
        corner: Sequence[int],
    ) -> Parts:
        """Make parts of what a lookup found.

        Parameters
        ----------
        touches
            Touched chunks; their boxes lie in the presented chunk.
        cases
            That the touches number.
        keys
            Of each case; see `case_keys`.
        corner
            Where the presented chunk begins in the whole.
        """
        constant = touches.state == ABSENT
        parameters, width = _rows(cases, touches.case, touches.row)
        zero = np.int64(0)
        return cls(
            keys[touches.case],
            touches.case,
            np.where(constant, CONSTANT, BYTES_FOLLOW),
            np.where(constant, zero, touches.mask),
            np.where(constant, zero, touches.elements),
            np.where(constant, zero, touches.begin),
            np.where(constant[:, None] | (touches.count == 1), zero, touches.strides),
            touches.start - np.array(corner, np.int64),
            touches.count,
            np.where(constant, zero, touches.length),
            width,
            parameters,
        )

    @classmethod
    def joined(cls, several: Sequence[Parts]) -> Parts:
        """Parts of several lookups of the same chunk, one after the other."""
        if len(several) == 1:
            return several[0]
        return cls(
            np.concatenate([parts.key for parts in several]),
            np.concatenate([parts.case for parts in several]),
            np.concatenate([parts.state for parts in several]),
            np.concatenate([parts.mask for parts in several]),
            np.concatenate([parts.elements for parts in several]),
            np.concatenate([parts.begin for parts in several]),
            np.concatenate([parts.strides for parts in several]),
            np.concatenate([parts.start for parts in several]),
            np.concatenate([parts.count for parts in several]),
            np.concatenate([parts.nbytes for parts in several]),
            np.concatenate([parts.width for parts in several]),
            b"".join(parts.parameters for parts in several),
        )

    def covers(self, shape: Sequence[int]) -> bool:
        """Whether there is one part only, and it is the whole chunk: the short form serves."""
        return len(self) == 1 and tuple(self.count[0].tolist()) == tuple(shape)

    def header_nbytes(self, shape: Sequence[int]) -> int:
        """Bytes of the header in a chunk of this shape."""
        record = record_type(self.ndim, self.covers(shape)).itemsize
        return HEAD + len(self) * record + int(self.width.sum())

    def total_nbytes(self, shape: Sequence[int]) -> int:
        """Bytes of the chunk."""
        return self.header_nbytes(shape) + int(self.nbytes.sum())

    def offsets(self, shape: Sequence[int]) -> IntArray:
        """Where, in the chunk, the bytes of each part begin."""
        return self.header_nbytes(shape) + np.cumsum(self.nbytes) - self.nbytes

    def rows(self, numbers: IntArray, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Rows of parameters of some parts, which have the same case.

        Parameters
        ----------
        numbers
            Of the parts.
        dtype
            The case's type of parameters.
        """
        if (self.width == dtype.itemsize).all():
            return np.frombuffer(self.parameters, dtype)[numbers]
        ends = np.cumsum(self.width)
        data = memoryview(self.parameters)
        pieces = [data[ends[n] - self.width[n] : ends[n]] for n in numbers.tolist()]
        return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), dtype)


def case_keys(encodings: Sequence[Encoding]) -> npt.NDArray[np.uint64]:
    """Keys of encodings as a column.

    Raises
    ------
    ValueError
        If one can't be written as a case.
    """
    return np.array([key_number(key_of(encoding)) for encoding in encodings], np.uint64)


@lru_cache(maxsize=128)
def record_type(ndim: int, short: bool) -> np.dtype[Any]:
    """Type of a part's record in a header of that many dimensions."""
    fields: list[Any] = [
        ("key", "<u8"),
        ("mask", "<u4"),
        ("state", "<u4"),
        ("elements", "<i8"),
        ("begin", "<i8"),
        ("strides", "<i8", (ndim,)),
    ]
    if not short:
        fields += [("start", "<i8", (ndim,)), ("count", "<i8", (ndim,)), ("nbytes", "<i8")]
    return np.dtype(fields)


def _rows(cases: Sequence[Case], case: IntArray, row: IntArray) -> tuple[bytes, IntArray]:
    """Packed rows of parameters, in order, and the bytes of each."""
    if not len(case):
        return b"", np.zeros(0, np.int64)
    if (case == case[0]).all():
        rows = cases[int(case[0])].rows[row]
        return rows.tobytes(), np.full(len(case), rows.dtype.itemsize, np.int64)
    sizes = [known.rows.dtype.itemsize for known in cases]
    width = np.array(sizes, np.int64)[case]
    begin = np.cumsum(width) - width
    out = np.empty(int(width.sum()), np.uint8)
    distinct: list[int] = np.unique(case).tolist()
    for number in distinct:
        mine = case == number
        packed = cases[number].rows[row[mine]].tobytes()
        place = begin[mine][:, None] + np.arange(sizes[number])
        out[place] = np.frombuffer(packed, np.uint8).reshape(place.shape)
    return out.tobytes(), width
