"""Combining in one go: virtual variables that are simply concatenated bypass xarray.

xarray spends its time on the objects around arrays, again for each variable of each dataset. A
variable that is virtual, of one type and with the same attributes in all datasets needs none of
that: its arrays are concatenated once. Everything else (coordinates, static and absent variables,
attributes that differ, dtype drift, alignment) goes through xarray, and so does the order of the
datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.xarray.internals import coords_of, data_of, variables_of, with_variables

MARKER = "__intarsia_dataset__"
"""Temporary variable that tells in which order xarray put the datasets."""


def combine_apart(
    datasets: Sequence[xr.Dataset],
    dim: str,
    combine_attrs: Any,
    combine: Callable[[list[xr.Dataset]], xr.Dataset],
) -> xr.Dataset:
    """Combine datasets along one dimension, plain virtual variables apart from the rest.

    Parameters
    ----------
    datasets
        At least one. Coordinates along other dimensions are the same in all of them.
    dim
        The dimension of concatenation.
    combine_attrs
        What xarray will do with attributes.
    combine
        Combines the rest, by xarray.
    """
    names = _plain(datasets, dim) if isinstance(combine_attrs, str) else []
    if not names:
        return combine(list(datasets))
    rest: list[xr.Dataset] = []
    apart = set(names)
    for number, dataset in enumerate(datasets):
        variables = {n: v for n, v in variables_of(dataset).items() if n not in apart}
        variables[MARKER] = xr.Variable((dim,), np.full(dataset.sizes[dim], number))
        rest.append(with_variables(dataset, variables, dict(dataset.sizes)))
    combined = combine(rest)
    order = variables_of(combined)[MARKER].values
    order = order[np.append(True, np.diff(order) != 0)]
    joined: dict[Any, xr.Variable] = {}
    first = datasets[int(order[0])]
    for name in names:
        members = [variables_of(datasets[int(number)])[name] for number in order]
        arrays = [data_of(member) for member in members]
        model = variables_of(first)[name]
        attrs = {} if combine_attrs == "drop" else dict(model.attrs)
        data = np.concatenate(arrays, model.dims.index(dim))
        joined[name] = xr.Variable(model.dims, data, attrs, dict(model.encoding), fastpath=True)
    everything = {n: v for n, v in variables_of(combined).items() if n != MARKER} | joined
    place = {name: number for number, name in enumerate(variables_of(first))}
    ordered = sorted(
        everything, key=lambda name: (dim in everything[name].dims, place.get(name, len(place)))
    )
    return with_variables(combined, {name: everything[name] for name in ordered})


def _plain(datasets: Sequence[xr.Dataset], dim: str) -> list[Any]:
    """Names of the variables that are alike in all datasets but for their values."""
    first = datasets[0]
    if any(not dataset.sizes.get(dim) for dataset in datasets):
        return []
    names: list[Any] = []
    for name, model in variables_of(first).items():
        if name in coords_of(first) or not isinstance(data_of(model), VirtualArray):
            continue
        if dim in model.dims and all(_alike(dataset, name, model) for dataset in datasets[1:]):
            names.append(name)
    # xarray still has to see every dimension
    seen: set[Any] = {dim}
    for name, variable in variables_of(first).items():
        if name not in names:
            seen.update(variable.dims)
    kept = list(names)
    for name in names:
        if not set(variables_of(first)[name].dims) <= seen:
            seen.update(variables_of(first)[name].dims)
            kept.remove(name)
    return kept


def _alike(dataset: xr.Dataset, name: Any, model: xr.Variable) -> bool:
    variable = variables_of(dataset).get(name)
    if variable is None or name in coords_of(dataset):
        return False
    data, other = data_of(variable), data_of(model)
    if not isinstance(data, VirtualArray) or data.dtype != other.dtype:
        return False
    if variable.dims != model.dims:
        return False
    return variable.attrs is model.attrs or _same_attrs(variable.attrs, model.attrs)


def _same_attrs(one: dict[Any, Any], two: dict[Any, Any]) -> bool:
    if list(one) != list(two):
        return False
    for value, other in zip(one.values(), two.values(), strict=True):
        if value is other:
            continue
        if type(value) is not type(other):
            return False
        if isinstance(value, np.ndarray | np.generic):
            if value.dtype != other.dtype or value.shape != other.shape:
                return False
            if value.tobytes() != other.tobytes():
                return False
        elif value != other:
            return False
    return True
