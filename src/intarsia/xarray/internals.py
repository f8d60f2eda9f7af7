"""The few private parts of xarray that are used here, each with a type and a reason."""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.core.indexing import ExplicitlyIndexed, PandasIndexingAdapter
from xarray.indexes import PandasIndex, PandasMultiIndex

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


def labels_of(dataset: xr.Dataset, name: Hashable) -> npt.NDArray[Any] | None:
    """Values of a dimension's own plain index as they are, or None where there is none such."""
    index = dataset._indexes.get(name)
    if type(index) is not PandasIndex or index.dim != name or index.index.name != name:
        return None
    labels: Any = index.index.values
    if not isinstance(labels, np.ndarray) or labels.dtype.hasobject:
        return None
    return labels if labels.dtype == index.coord_dtype else None


def concatenated_index(datasets: Sequence[xr.Dataset], dim: str) -> tuple[xr.Variable, PandasIndex]:
    """Coordinate and index of a dimension of all datasets, as `xarray.concat` makes them."""
    indexes: list[Any] = [dataset._indexes[dim] for dataset in datasets]
    index = PandasIndex.concat(indexes, dim)
    first = datasets[0]._variables[dim]
    variable = index.create_variables({dim: first})[dim]
    variable.attrs = dict(first.attrs)
    return variable, index


def data_of(variable: xr.Variable) -> Any:
    """What a variable holds, where ``variable.data`` might load it."""
    return variable._data


def dtype_of(variable: xr.Variable) -> np.dtype[Any]:
    """Type of a variable's values."""
    return variable.dtype


def values_of(variable: xr.Variable) -> npt.NDArray[Any]:
    """Values of a variable; those of an index without xarray's conversions, where it needs none."""
    if isinstance(variable._data, PandasIndexingAdapter):
        values: Any = variable._data.array.values
        if isinstance(values, np.ndarray) and values.dtype == variable._data.dtype:
            return values
    return variable.values


def with_data(variable: xr.Variable, data: Any) -> xr.Variable:
    """The variable with other data, which the public way would convert."""
    return variable._replace(data=data)


def with_encoding(variable: xr.Variable, encoding: dict[Any, Any]) -> xr.Variable:
    """The variable with other encoding."""
    return variable._replace(encoding=encoding)  # pyright: ignore[reportArgumentType]


def with_parts(
    dataset: xr.Dataset,
    variables: Variables,
    coords: set[Hashable],
    indexes: Mapping[Hashable, Any],
) -> xr.Dataset:
    """The dataset with other variables, names of coordinates and indexes; nothing is aligned."""
    sizes: dict[Any, int] = {}
    for variable in variables.values():
        sizes.update(zip(variable.dims, variable.shape, strict=True))
    return dataset._replace(
        variables=variables, coord_names=coords, dims=sizes, indexes=dict(indexes)
    )


def updated(dataset: xr.Dataset, changed: Variables) -> xr.Dataset:
    """The dataset with some variables replaced by others of the same shape."""
    if not changed:
        return dataset
    return dataset._replace(variables={**variables_of(dataset), **changed})


def assigned(dataset: xr.Dataset, coords: Any) -> xr.Dataset:
    """The dataset with further coordinates."""
    return dataset.assign_coords(coords)


def with_plain_index(dataset: xr.Dataset, name: Hashable) -> xr.Dataset:
    """The dataset with a plain index for a coordinate along another dimension."""
    return dataset.set_xindex([name], PandasIndex)


def new_defaults() -> bool:
    """Whether the user chose xarray's new defaults for combining."""
    return bool(xr.get_options()["use_new_combine_kwarg_defaults"])


def combine_nested(datasets: Any, concat_dims: list[Any], arguments: dict[str, Any]) -> xr.Dataset:
    """`xarray.combine_nested`."""
    return xr.combine_nested(datasets, concat_dims, **arguments)  # pyright: ignore[reportReturnType]


def shallow(variable: xr.Variable) -> xr.Variable:
    """A copy of a variable that shares its values."""
    return variable.copy(deep=False)


def unwrapped(data: Any) -> Any:
    """What lies under xarray's lazy wrappers."""
    while isinstance(data, ExplicitlyIndexed):
        inner = getattr(data, "array", None)
        if inner is None:
            break
        data = inner
    return data


def is_index(variable: xr.Variable) -> bool:
    """Whether a variable holds the values of an index, which are in memory."""
    return isinstance(variable._data, PandasIndexingAdapter)


def is_lazy(variable: xr.Variable) -> bool:
    """Whether a variable is of dask, or wrapped by xarray around what a file holds."""
    return isinstance(variable._data, ExplicitlyIndexed) or hasattr(variable._data, "dask")


def in_memory(variable: xr.Variable) -> bool:
    """Whether a variable's values are in memory already."""
    return bool(variable._in_memory)


def multi_index_of(dataset: xr.Dataset, name: Hashable) -> str | None:
    """Name of the dimension whose index of several levels a coordinate belongs to, if it does."""
    index = dataset._indexes.get(name)
    return str(index.dim) if isinstance(index, PandasMultiIndex) else None


def computed(variables: Sequence[xr.Variable]) -> list[npt.NDArray[Any]]:
    """Values of lazy variables; those of dask are computed together."""
    of_dask = [variable._data for variable in variables if hasattr(variable._data, "dask")]
    ready: Any = iter(())
    if of_dask:
        import dask

        compute: Any = dask.compute  # pyright: ignore[reportPrivateImportUsage]
        ready = iter(compute(*of_dask))
    return [
        np.asarray(next(ready)) if hasattr(variable._data, "dask") else variable.values
        for variable in variables
    ]


def tree_of(groups: Mapping[str, xr.Dataset]) -> xr.DataTree:
    """A tree of datasets by path."""
    return xr.DataTree.from_dict(dict(groups))


def tree_with(tree: xr.DataTree, change: Callable[[xr.Dataset], xr.Dataset]) -> xr.DataTree:
    """The tree with every dataset changed."""
    return tree.map_over_datasets(change)  # pyright: ignore[reportReturnType]


def nodes_of(tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Datasets of a tree's nodes by path, seen from its root, without what they inherit.

    But for the root: what a part of a larger tree inherits from outside would be lost.
    """
    root = tree.path.rstrip("/")
    return {
        "/" + node.path.removeprefix(root).strip("/"): node.to_dataset(inherit=node is tree)
        for node in tree.subtree
    }


def qualified_name(data: Any) -> str:
    """Name of an object's type, for messages."""
    return f"{type(data).__module__}.{type(data).__qualname__}"


def dataset_parts(dataset: xr.Dataset) -> tuple[Any, ...]:
    """All that a dataset is made of, but for what closes its file."""
    return (
        dataset._variables, dataset._coord_names, dataset._dims, dataset._attrs,
        dataset._indexes, dataset._encoding,
    )  # fmt: skip


def made_dataset(
    variables: Variables,
    coords: set[Hashable],
    sizes: dict[Any, int],
    attrs: dict[Any, Any] | None,
    indexes: dict[Any, Any],
    encoding: dict[Any, Any] | None,
) -> xr.Dataset:
    """A dataset of its parts, which belong together; nothing is checked or copied."""
    return xr.Dataset._construct_direct(variables, coords, sizes, attrs, indexes, encoding)


def variable_parts(variable: xr.Variable) -> tuple[Any, ...]:
    """All that a variable is made of."""
    return variable._dims, variable._data, variable._attrs, variable._encoding


def made_variable(
    kind: type[xr.Variable],
    dims: tuple[Hashable, ...],
    data: Any,
    attrs: dict[Any, Any] | None,
    encoding: dict[Any, Any] | None,
) -> xr.Variable:
    """A variable of its parts; attributes and encoding are not copied, as the public way would."""
    variable = kind.__new__(kind)
    variable._dims = dims
    variable._data = data
    variable._attrs = attrs
    variable._encoding = encoding
    return variable


def adapter_of(index: Any, dtype: Any) -> Any:
    """What the variable of an index holds."""
    return PandasIndexingAdapter(index, dtype)
