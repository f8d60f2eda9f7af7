"""The few private parts of xarray that are used here, each with a type and a reason."""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import xarray as xr

type Variables = dict[Hashable, xr.Variable]


def variables_of(dataset: xr.Dataset) -> Variables:
    """All variables, without the copy of ``dataset.variables``; not to be changed."""
    return dataset._variables


def coords_of(dataset: xr.Dataset) -> set[Hashable]:
    """Names of the coordinates; not to be changed."""
    return dataset._coord_names


def indexes_of(dataset: xr.Dataset) -> Mapping[Hashable, Any]:
    """Indexes by coordinate, without the check of ``dataset.xindexes``."""
    return dataset._indexes


def data_of(variable: xr.Variable) -> Any:
    """What a variable holds, where ``variable.data`` might load it."""
    return variable._data


def with_data(variable: xr.Variable, data: Any) -> xr.Variable:
    """The variable with other data, which the public way would convert."""
    return variable._replace(data=data)


def with_encoding(variable: xr.Variable, encoding: dict[Any, Any]) -> xr.Variable:
    """The variable with other encoding."""
    return variable._replace(encoding=encoding)


def with_variables(
    dataset: xr.Dataset, variables: Variables, sizes: dict[Any, int] | None = None
) -> xr.Dataset:
    """The dataset with other variables and the same indexes, without aligning anything."""
    if sizes is None:
        return dataset._replace(variables=variables)
    return dataset._replace(variables=variables, dims=sizes)


def updated(dataset: xr.Dataset, changed: Variables) -> xr.Dataset:
    """The dataset with some variables replaced by others of the same shape."""
    return with_variables(dataset, {**variables_of(dataset), **changed}) if changed else dataset
