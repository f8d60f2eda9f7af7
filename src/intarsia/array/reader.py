"""A plain reader of blocks, for dask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from intarsia.array.base import LazyArray


class BlockReader:
    """Reads blocks of a lazy array: an array-like without NumPy's protocols.

    dask computes on what a block of its source is; of this one it is always in memory.

    Parameters
    ----------
    array
        What to read from.
    """

    __slots__ = ("array",)

    def __init__(self, array: LazyArray) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.array.ndim

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that are good to read."""
        return self.array.blocks

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        return np.asarray(self.array[key])

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return self.array.__array__(dtype)

    def __dask_tokenize__(self) -> Any:
        return self.array.__dask_tokenize__()

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockReader, (self.array,)
