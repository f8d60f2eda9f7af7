"""Blocks: segments with equally many source dimensions, as columns of integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.references import held_bytes, tight_signed

type IntArray = npt.NDArray[Any]

# Columns of a block, before the geometry.
CASE, ROW, SOURCE, PAGE, REF, COUNT, FORM = range(7)
HEAD = 7

PACK_FROM = 32
"""Blocks of fewer rows stay a plain matrix."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Column numbers of a block's geometry.

    Parameters
    ----------
    ndim
        Dimensions of the whole.
    source_ndim
        Dimensions of the source arrays.
    """

    ndim: int
    source_ndim: int

    @property
    def start(self) -> slice:
        """First index of the box along each dimension of the whole."""
        return slice(HEAD, HEAD + self.ndim)

    @property
    def shape(self) -> slice:
        """Lengths of the box."""
        return slice(HEAD + self.ndim, HEAD + 2 * self.ndim)

    def _source(self, number: int) -> slice:
        first = HEAD + 2 * self.ndim + number * self.source_ndim
        return slice(first, first + self.source_ndim)

    @property
    def axis(self) -> slice:
        """Dimension of the whole that each source dimension runs along; -1: fixed."""
        return self._source(0)

    @property
    def first(self) -> slice:
        """Source index of the box's first element."""
        return self._source(1)

    @property
    def step(self) -> slice:
        """Source indices per index of the whole; any integer."""
        return self._source(2)

    @property
    def size(self) -> slice:
        """Shape of the source array."""
        return self._source(3)

    @property
    def chunk(self) -> slice:
        """Chunk shape of the source array."""
        return self._source(4)

    @property
    def width(self) -> int:
        """Number of columns."""
        return HEAD + 2 * self.ndim + 5 * self.source_ndim


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Segments with equally many source dimensions.

    Parameters
    ----------
    fields
        Which column is what.
    columns
        Matrix of shape (segments, columns), or a tuple of narrow columns.
    """

    fields: Fields
    columns: IntArray | tuple[IntArray, ...]

    @classmethod
    def of(cls, fields: Fields, matrix: IntArray) -> Block:
        """Keep `matrix`, column by column in narrow types where it is long."""
        if matrix.shape[0] < PACK_FROM:
            return cls(fields, matrix)
        return cls(fields, tuple(tight_signed(column) for column in matrix.T))

    @classmethod
    def of_columns(cls, fields: Fields, columns: Iterable[IntArray]) -> Block:
        """Keep columns, each of which may be made only when the one before is kept."""
        kept = tuple(tight_signed(column) for column in columns)
        if len(kept[0]) >= PACK_FROM:
            return cls(fields, kept)
        return cls(fields, np.stack([column.astype(np.int64) for column in kept], axis=1))

    def __len__(self) -> int:
        return len(self.columns) if isinstance(self.columns, np.ndarray) else len(self.columns[0])

    def column(self, number: int) -> IntArray:
        """One column."""
        if isinstance(self.columns, np.ndarray):
            return self.columns[:, number]
        return self.columns[number]

    def matrix(self, rows: IntArray | slice | None = None) -> IntArray:
        """Rows as an int64 matrix (all where `rows` is None); not to be written to."""
        if isinstance(self.columns, np.ndarray):
            return self.columns if rows is None else self.columns[rows]
        columns = self.columns if rows is None else [column[rows] for column in self.columns]
        result = np.empty((len(columns[0]), len(columns)), np.int64)
        for number, column in enumerate(columns):
            result[:, number] = column
        return result

    @property
    def nbytes(self) -> int:
        """Bytes the columns hold."""
        if isinstance(self.columns, np.ndarray):
            return self.columns.nbytes
        return sum(held_bytes(column) for column in self.columns)
