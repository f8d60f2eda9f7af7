"""What a store holds, in memory: groups of variables, as xarray's datasets have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array import VirtualArray
from intarsia.store.grid import Grid


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """One variable.

    Parameters
    ----------
    dims
        Names of the dimensions.
    data
        A virtual array, or values exactly as a dataset holds them in memory (times as
        ``datetime64``, strings as ``<U`` or objects).
    attrs
        Attributes, with the types they have in memory.
    encoding
        How xarray would write the variable; entries are kept as they are.
    coordinate
        Whether it is a coordinate.
    grid
        The chunk grid that Zarr readers are shown; chosen when a virtual variable is saved.
    """

    dims: tuple[str, ...]
    data: VirtualArray | npt.NDArray[Any]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    encoding: dict[str, Any] = field(default_factory=dict[str, Any])
    coordinate: bool = False
    grid: Grid | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.data.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The variables of one dataset.

    Parameters
    ----------
    variables
        By name, in order.
    attrs
        Attributes of the dataset.
    encoding
        What xarray keeps beside them: ``unlimited_dims``.
    """

    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    encoding: dict[str, Any] = field(default_factory=dict[str, Any])


class LazyGroups(Mapping[str, Group]):
    """Groups by absolute path, each read when it is asked for.

    Parameters
    ----------
    paths
        Of all groups.
    read
        Gives the group of a path.
    """

    def __init__(self, paths: Sequence[str], read: Callable[[str], Group]) -> None:
        self._paths = paths
        self._read = read

    def __getitem__(self, path: str) -> Group:
        return self._read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)
