"""What a scan gives: the variables of one group of one file, undecoded and unread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array import VirtualArray
from intarsia.references import Sources

type Loader = Callable[[], npt.NDArray[Any]]
"""Reads the stored values of a variable. Picklable, so that scans can cross processes."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Values that no reference can express.

    Parameters
    ----------
    shape, dtype
        As `xarray` sees the undecoded variable.
    reason
        Why: ``"compressed with zstd"``.
    remedy
        What the reader of an error can do, or an empty string.
    loader
        Gives the values through the library that the file was scanned with, exactly as xarray's
        undecoded variable holds them; None where the library can't read them either.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    reason: str
    remedy: str = ""
    loader: Loader | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class ScannedVariable:
    """One variable as it is stored, before any convention is applied.

    Parameters
    ----------
    dims
        Names of the dimensions; None where Zarr has no name for some, as xarray has it.
    data
        Where the values are.
    attrs
        The attributes as xarray's store gives them before decoding, types included.
    encoding
        What decoding needs to know beside the attributes: ``dtype``, for strings and enums.
    native
        Whether xarray's store gives the values in native byte order, however they are stored.
    """

    dims: tuple[str, ...]
    data: VirtualArray | Opaque
    attrs: dict[str, Any]
    encoding: dict[str, Any]
    native: bool = False


@dataclass(frozen=True, slots=True)
class Scanned:
    """One group of one file.

    Parameters
    ----------
    sources
        The scanned file first, then other files that its variables lie in.
    variables
        By name, in the order in which xarray's store gives them.
    attrs
        Attributes of the group.
    sizes
        Lengths of the group's own dimensions, and of those its variables take from parent groups.
    unlimited
        Names of the group's own dimensions that can grow.
    group
        Absolute path of the group.
    """

    sources: Sources
    variables: dict[str, ScannedVariable]
    attrs: dict[str, Any]
    sizes: dict[str, int]
    unlimited: frozenset[str]
    group: str
