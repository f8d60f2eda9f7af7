"""``xr.open_dataset(..., engine="intarsia")``: for reading files and saved stores.

To combine, use `intarsia.open_dataset`: xarray wraps what a backend returns, and loads such
variables when it concatenates them. ``ds.intarsia.virtual()`` takes the wrapping off again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, cast

import xarray as xr
from xarray.backends import BackendEntrypoint


class IntarsiaBackend(BackendEntrypoint):
    """xarray's way to `intarsia.open_dataset`; registered as engine ``"intarsia"``."""

    description: ClassVar[str] = "Unlike archival files as one dataset, bit for bit"
    supports_groups: ClassVar[bool] = True
    open_dataset_parameters: ClassVar[tuple[str, ...] | None] = (
        "filename_or_obj",
        "drop_variables",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "use_cftime",
        "decode_timedelta",
        "group",
        "phony_dims",
        "loadable_variables",
        "unsupported",
        "storage_options",
        "registry",
        "parser",
        "containers",
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        **kwargs: Any,
    ) -> xr.Dataset:
        """Open a file or a store; xarray makes the indexes and, where asked, the dask arrays."""
        # xarray imports every engine to open anything at all: only this one's use costs something
        from intarsia.xarray.opening import open_dataset

        return _with_preferred(
            open_dataset(
                filename_or_obj,
                drop_variables=drop_variables,
                create_default_indexes=False,
                **kwargs,
            )
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, xr.Dataset]:
        """Open all groups of a file or a store, by path; seen from `group`, where that is given."""
        from intarsia.xarray.trees import open_groups

        found = open_groups(filename_or_obj, drop_variables=drop_variables, **kwargs)
        if kwargs.get("group"):  # as xarray's own engines name them
            found = {path.strip("/") or ".": dataset for path, dataset in found.items()}
        return {path: _with_preferred(dataset) for path, dataset in found.items()}

    def open_datatree(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        **kwargs: Any,
    ) -> xr.DataTree:
        """Open all groups of a file or a store, as a tree."""
        from intarsia.xarray.internals import tree_of

        groups = self.open_groups_as_dict(filename_or_obj, drop_variables=drop_variables, **kwargs)
        return tree_of(groups)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether it is a saved store; netCDF files have engines that users expect."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        from intarsia.xarray.recognising import looks_like_store

        path = os.fspath(cast("str | os.PathLike[str]", filename_or_obj))
        return looks_like_store(os.path.expanduser(path))


class PreferredChunks(Mapping[Any, tuple[int, ...]]):
    """Blocks in which a virtual array is good to read, found out when xarray asks for them.

    Parameters
    ----------
    dims
        Names of the dimensions.
    array
        The virtual array.
    """

    def __init__(self, dims: tuple[Any, ...], array: Any) -> None:
        self._dims = dims
        self._array = array

    def __getitem__(self, dim: Any) -> tuple[int, ...]:
        if dim not in self._dims:
            raise KeyError(dim)
        return self._array.blocks[self._dims.index(dim)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dims)

    def __len__(self) -> int:
        return len(self._dims)

    def __repr__(self) -> str:
        return repr(dict(self))


def _with_preferred(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset whose virtual variables tell xarray how to cut them, where dask is wanted."""
    from intarsia.array import VirtualArray
    from intarsia.xarray.internals import data_of, updated, variables_of, with_encoding

    changed: dict[Any, xr.Variable] = {}
    for name, variable in variables_of(dataset).items():
        data = data_of(variable)
        if isinstance(data, VirtualArray):
            blocks = PreferredChunks(variable.dims, data)
            changed[name] = with_encoding(variable, {**variable.encoding, PREFERRED: blocks})
    return updated(dataset, changed)


PREFERRED = "preferred_chunks"
"""xarray's key of an encoding."""
