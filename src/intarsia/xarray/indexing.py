"""Indexes: the default ones, and those that a saved dataset has or lacks besides."""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr
from xarray.indexes import PandasIndex

from intarsia.xarray.internals import assigned, indexes_of, variables_of, with_plain_index

__all__ = ["INDEXES", "indexed_names", "with_default_indexes", "with_indexes"]

INDEXES = "intarsia_indexes"
"""Key of the encoding of a saved group: which coordinates have an index, if not the default."""


def default_names(dataset: xr.Dataset) -> list[str]:
    """Coordinates that get an index by default: those of dimensions."""
    return [str(name) for name, v in variables_of(dataset).items() if v.dims == (name,)]


def with_default_indexes(dataset: xr.Dataset) -> xr.Dataset:
    """Default indexes for dimension coordinates, as `xarray.open_dataset` makes them."""
    return with_indexes(dataset, default_names(dataset))


def with_indexes(dataset: xr.Dataset, names: Iterable[str]) -> xr.Dataset:
    """Plain indexes for some coordinates that have none.

    Raises
    ------
    ValueError
        If there is no such coordinate, or it can't have one.
    """
    variables = variables_of(dataset)
    wanted = [name for name in names if name not in indexes_of(dataset)]
    default = {name: variables[name] for name in wanted if variables[name].dims == (name,)}
    if default:
        dataset = assigned(dataset, xr.Coordinates(default))
    for name in wanted:
        if name not in default:
            dataset = with_plain_index(dataset, name)
    return dataset


def indexed_names(dataset: xr.Dataset) -> list[str]:
    """Coordinates with a plain index of their own, and those of dimensions with another kind.

    What other kinds of index know beside the values of their coordinates is not kept.
    """
    found: list[str] = []
    for name, index in indexes_of(dataset).items():
        if type(index) is PandasIndex or variables_of(dataset)[name].dims == (name,):
            found.append(str(name))
    return found
