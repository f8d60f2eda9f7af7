"""Variables before and after decoding, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.encoding import Codec
from intarsia.errors import UpstreamFault


@dataclass(frozen=True, slots=True)
class RawVariable:
    """A variable before decoding.

    Parameters
    ----------
    dims, shape, dtype
        As stored. `dtype` has its byte order, and for strings the metadata that h5py gives it.
    attrs, encoding
        As xarray's h5netcdf store gives them before decoding. Not modified.
    data : ndarray, optional
        The stored values, if they have been loaded; None if they stay in the file.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attrs: Mapping[str, Any]
    encoding: Mapping[str, Any]
    data: npt.NDArray[Any] | None = None


class Recipe(NamedTuple):
    """How stored numbers become values.

    Parameters
    ----------
    steps
        ``cast``, ``mask`` and ``scale`` codecs for `intarsia.codecs.cf.apply_steps`.
    parameters
        The numbers that the steps name (``fill_0``, ..., ``scale``, ``offset``), of the types
        that take part in the arithmetic.
    dtype
        Of the values, in native byte order.
    """

    steps: tuple[Codec, ...]
    parameters: dict[str, np.generic]
    dtype: np.dtype[Any]


class VirtualVariable(NamedTuple):
    """A decoded variable whose values stay in the file.

    ``encoding`` holds only what says which variables belong to it (``coordinates``,
    ``grid_mapping``, ...), and the names of an enumeration. The rest would describe one file, and
    xarray would write all data by it.
    """

    dims: tuple[str, ...]
    attrs: dict[str, Any]
    encoding: dict[str, Any]
    recipe: Recipe

    def with_data(self, data: Any) -> xr.Variable:
        """Make the variable of a duck array that has carried the recipe out."""
        return xr.Variable(self.dims, data, self.attrs, self.encoding)


@dataclass(frozen=True, slots=True)
class Decoded:
    """One group, decoded.

    Parameters
    ----------
    variables
        In the order of the group. Loaded ones are in memory and have all of xarray's encoding.
    attrs
        Of the group.
    coord_names
        Which of `variables` are coordinates, dimension coordinates included.
    faults
        Variables that were left out because xarray would decode them wrongly, if the caller
        asked to have them collected.
    """

    variables: dict[str, xr.Variable | VirtualVariable]
    attrs: dict[str, Any]
    coord_names: frozenset[str]
    faults: dict[str, UpstreamFault]


class UnrecognisedDecoding(Exception):
    """xarray decodes variables in a way that no recipe describes; load them first.

    Attributes
    ----------
    reasons : dict of str to str
        Why, for each variable.
    """

    def __init__(self, reasons: dict[str, str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        listed = "; ".join(f"{name!r}: {reason}" for name, reason in self.reasons.items())
        return f"these variables can only be decoded in memory: {listed}"
