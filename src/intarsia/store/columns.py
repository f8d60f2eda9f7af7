"""Columns that are looked up in a stored table, in place of arrays: what is needed is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptStore
from intarsia.store.tables import Table

type IntArray = npt.NDArray[Any]


class StoredColumn:
    """A column of a stored table, in place of an array: what is looked up is read, and no more."""

    __slots__ = ("_label", "_limits", "_open", "_table")

    def __init__(
        self,
        table: Table,
        label: str,
        limits: tuple[int, int],
        reopen: Callable[[], Table],
    ) -> None:
        self._table = table
        self._label = label
        self._limits = limits
        self._open = reopen

    @property
    def shape(self) -> tuple[int]:
        """Number of rows, as a shape."""
        return (self._table.rows,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return np.dtype(np.int64)

    strides = (0,)  # held is what the table has cached
    itemsize = 8
    nbytes = 8

    def __len__(self) -> int:
        return self._table.rows

    def __getitem__(self, key: Any) -> IntArray:
        if isinstance(key, slice):
            rows: IntArray | slice = cast("slice", key)
        else:
            rows = np.asarray(key)
            if not rows.ndim:
                return self[rows.reshape(1)][0]
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        values = self._table.take(self._label, rows)
        low, high = self._limits
        if len(values) and (int(values.min()) < low or int(values.max()) > high):
            raise CorruptStore(f"a reference's {self._label} is not between {low} and {high}")
        return values

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> IntArray:
        values = self[:]
        return values if dtype is None else values.astype(dtype)

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == other

    __hash__ = None  # type: ignore[assignment]

    def any(self) -> bool:
        """Whether a number differs from zero."""
        return bool(np.asarray(self).any())

    def tobytes(self) -> bytes:
        """All numbers, as bytes."""
        return np.asarray(self).tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._open, self._label, self._limits)


def _reopened(reopen: Callable[[], Table], label: str, limits: tuple[int, int]) -> StoredColumn:
    return StoredColumn(reopen(), label, limits, reopen)
