"""Combining in one go: virtual variables that are simply concatenated bypass xarray.

xarray spends its time on the objects around arrays, again for each variable of each dataset. A
variable that is virtual and of one type in all datasets needs none of that: its arrays are
concatenated once. Nor does a coordinate along another dimension that is the same everywhere, bit
for bit. Everything else (other coordinates, static and absent variables, attributes that are to be
compared, dtype drift, alignment) goes through xarray, and so does the order of the datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.xarray.internals import (
    Variables,
    concatenated_index,
    coords_of,
    data_of,
    indexes_of,
    labels_of,
    shallow,
    variables_of,
    with_parts,
)

MARKER = "__intarsia_dataset__"
"""Temporary variable that tells in which order xarray put the datasets."""

FIRST_COUNTS = frozenset(["override", "drop"])
"""Values of ``combine_attrs`` for which later datasets' attributes do not matter."""


def combine_apart(
    datasets: Sequence[xr.Dataset],
    dim: str,
    combine: Callable[[list[xr.Dataset]], xr.Dataset],
    *,
    combine_attrs: Any,
    aligned: bool,
    in_order: bool,
) -> xr.Dataset:
    """Combine datasets along one dimension, plain virtual variables apart from the rest.

    Where nothing is left but the coordinate of that dimension, xarray is not asked at all.

    Parameters
    ----------
    datasets
        At least one.
    dim
        The dimension of concatenation.
    combine
        Combines the rest, by xarray. It is not told to treat variables by name, nor to compare
        global attributes.
    combine_attrs
        What xarray will do with attributes.
    aligned
        Whether coordinates along other dimensions are known to be the same in all datasets. If
        not, this is found out, and where they are not all is left to xarray.
    in_order
        Whether the datasets stay in their order; else their coordinates order them.
    """
    if not isinstance(combine_attrs, str):
        return combine(list(datasets))
    shared = _shared(datasets, dim)
    if not aligned and any(indexes_of(ds).keys() - shared - {dim} for ds in datasets):
        return combine(list(datasets))
    # where xarray merges once more, only "override" leaves the first one's attributes as they are
    simple = combine_attrs == "override"
    shared = shared if simple else set[Hashable]()
    plain = _plain(datasets, dim, shared, combine_attrs in FIRST_COUNTS)
    if not plain:
        return combine(list(datasets))
    apart = shared.union(plain)
    ranked = _ranked(datasets, dim, in_order) if simple and _alone(datasets, dim, apart) else None
    joined: Variables = {}
    if ranked is not None:
        combined = ranked[0]
        variable, index = concatenated_index(ranked, dim)
        joined[dim] = variable
        indexes: dict[Hashable, Any] = {dim: index}
    else:
        combined = combine([_rest(ds, dim, number, apart) for number, ds in enumerate(datasets)])
        marks: npt.NDArray[np.int64] = np.asarray(variables_of(combined)[MARKER].values, np.int64)
        order: list[int] = marks[np.append(True, np.diff(marks) != 0)].tolist()
        ranked = [datasets[number] for number in order]
        joined = {n: v for n, v in variables_of(combined).items() if n != MARKER}
        indexes = dict(indexes_of(combined))
    first = ranked[0]
    for name in shared:
        joined[name] = shallow(variables_of(first)[name])
        indexes[name] = indexes_of(first)[name]
    for name in plain:
        arrays = [data_of(variables_of(dataset)[name]) for dataset in ranked]
        model = variables_of(first)[name]
        attrs = {} if combine_attrs == "drop" else dict(model.attrs)
        data = np.concatenate(arrays, model.dims.index(dim))
        joined[name] = xr.Variable(model.dims, data, attrs, dict(model.encoding), fastpath=True)
    place = {name: number for number, name in enumerate(variables_of(first))}
    ordered = sorted(joined, key=lambda name: place.get(name, len(place)))
    coords = coords_of(combined) | shared
    return with_parts(combined, {name: joined[name] for name in ordered}, coords, indexes)


def _alone(datasets: Sequence[xr.Dataset], dim: str, apart: set[Hashable]) -> bool:
    """Whether nothing is left of any dataset but the plain index of the dimension."""
    count = len(apart) + 1
    return all(
        len(variables_of(dataset)) == count and labels_of(dataset, dim) is not None
        for dataset in datasets
    )


def _ranked(
    datasets: Sequence[xr.Dataset], dim: str, in_order: bool
) -> Sequence[xr.Dataset] | None:
    """The datasets in the order of the result, or None where that is for xarray to say."""
    if in_order:
        return datasets
    found = [labels_of(dataset, dim) for dataset in datasets]
    labels = [each for each in found if each is not None and len(each)]
    if len(labels) != len(datasets) or len({each.dtype for each in labels}) > 1:
        return None
    firsts: npt.NDArray[Any] = np.stack([each[0] for each in labels])
    order: list[int] = np.argsort(firsts).tolist()
    whole: npt.NDArray[Any] = np.concatenate([labels[number] for number in order])
    rising = bool((whole[1:] > whole[:-1]).all())  # which it is not where a label is NaN
    return [datasets[number] for number in order] if rising else None


def _rest(dataset: xr.Dataset, dim: str, number: int, apart: set[Hashable]) -> xr.Dataset:
    """What xarray still has to see of a dataset, and the marker."""
    variables = {n: v for n, v in variables_of(dataset).items() if n not in apart}
    marks = np.full(dataset.sizes[dim], number)
    variables[MARKER] = xr.Variable((dim,), marks, fastpath=True)
    indexes = {n: index for n, index in indexes_of(dataset).items() if n not in apart}
    return with_parts(dataset, variables, coords_of(dataset) - apart, indexes)


def _shared(datasets: Sequence[xr.Dataset], dim: str) -> set[Hashable]:
    """Index coordinates along other dimensions whose values are the same in all datasets."""
    first = datasets[0]
    names: set[Hashable] = set()
    for name in indexes_of(first):
        labels = labels_of(first, name)
        if name == dim or labels is None:
            continue
        known = (labels.dtype, labels.tobytes())
        for dataset in datasets[1:]:
            others = labels_of(dataset, name)
            if others is None:
                break
            if others is not labels and (others.dtype, others.tobytes()) != known:
                break
        else:
            names.add(name)
    return names


def _plain(
    datasets: Sequence[xr.Dataset], dim: str, shared: set[Hashable], first_counts: bool
) -> list[Hashable]:
    """Names of the variables that are alike in all datasets but for their values."""
    first = datasets[0]
    if any(not dataset.sizes.get(dim) for dataset in datasets):
        return []
    names: list[Hashable] = []
    for name, model in variables_of(first).items():
        if name in coords_of(first) or not isinstance(data_of(model), VirtualArray):
            continue
        if dim in model.dims and all(
            _alike(dataset, name, model, first_counts) for dataset in datasets[1:]
        ):
            names.append(name)
    # xarray still has to see every dimension
    seen: set[Hashable] = {dim, *shared}
    for name, variable in variables_of(first).items():
        if name not in names:
            seen.update(variable.dims)
    kept = list(names)
    for name in names:
        if not set(variables_of(first)[name].dims) <= seen:
            seen.update(variables_of(first)[name].dims)
            kept.remove(name)
    return kept


def _alike(dataset: xr.Dataset, name: Hashable, model: xr.Variable, first_counts: bool) -> bool:
    variable = variables_of(dataset).get(name)
    if variable is None or variable.dims != model.dims or name in coords_of(dataset):
        return False
    data = data_of(variable)
    if not isinstance(data, VirtualArray) or data.dtype != data_of(model).dtype:
        return False
    return first_counts or _same_attrs(variable.attrs, model.attrs)


def _same_attrs(one: dict[Any, Any], two: dict[Any, Any]) -> bool:
    if list(one) != list(two):
        return False
    for value, other in zip(one.values(), two.values(), strict=True):
        if value is other:
            continue
        if type(value) is not type(other):
            return False
        if isinstance(value, np.ndarray | np.generic):
            mine, theirs = cast("tuple[npt.NDArray[Any], npt.NDArray[Any]]", (value, other))
            if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
                return False
            if mine.tobytes() != theirs.tobytes():
                return False
        elif value != other:
            return False
    return True
