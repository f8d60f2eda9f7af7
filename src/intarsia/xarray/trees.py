"""Groups of a file or a store as a tree of datasets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import xarray as xr

from intarsia.cf import Options
from intarsia.io.access import way_to
from intarsia.io.held import holding
from intarsia.scan.dispatch import Parser, scan_groups
from intarsia.xarray import accessor as accessor  # registers tree.intarsia
from intarsia.xarray.choices import choices_json
from intarsia.xarray.indexing import with_default_indexes
from intarsia.xarray.internals import tree_of, tree_with
from intarsia.xarray.opening import check_unsupported, chunk, no_containers, place_of
from intarsia.xarray.recognising import looks_like_store
from intarsia.xarray.reopening import reopened_groups
from intarsia.xarray.scanned import Unsupported, dataset_of

__all__ = ["open_datatree", "open_groups"]


def open_datatree(
    filename_or_obj: str | os.PathLike[str],
    *,
    chunks: Any = None,
    create_default_indexes: bool = True,
    **open_kwargs: Any,
) -> xr.DataTree:
    """Open all groups of a file, or of a saved store, as a tree.

    Of a file, the tree equals what ``xarray.open_datatree`` gives with the engine for its format,
    bit for bit; of a store, it equals the tree, or the dataset, that was saved.

    Parameters
    ----------
    filename_or_obj : str or path
        A file, by its path or URL, or a store.
    chunks : int, dict, "auto" or None, default: None
        As for `open_dataset`.
    create_default_indexes : bool, default: True
        As for `xarray.open_datatree`.
    **open_kwargs
        As for `open_dataset`; ``group`` is the one that becomes the root of the tree.

    Returns
    -------
    xarray.DataTree

    Raises
    ------
    SourceError, FormatError, StoreError, UnsupportedError
        As for `open_dataset`.
    ValueError
        If groups are not aligned with those they are in.

    Examples
    --------
    >>> tree = intarsia.open_datatree("sst.intarsia")  # doctest: +SKIP
    """
    stored = looks_like_store(place_of(filename_or_obj))
    groups = open_groups(
        filename_or_obj, create_default_indexes=create_default_indexes and stored, **open_kwargs
    )
    tree = tree_of(groups)
    if create_default_indexes and not stored:
        tree = tree_with(tree, with_default_indexes)
    if chunks is not None:
        tree = tree_with(tree, lambda dataset: chunk(dataset, chunks))
    return tree


def open_groups(
    filename_or_obj: str | os.PathLike[str],
    *,
    group: str | None = None,
    decode_cf: bool | None = None,
    mask_and_scale: bool | Mapping[str, bool] | None = None,
    decode_times: Any = None,
    decode_timedelta: Any = None,
    use_cftime: bool | Mapping[str, bool] | None = None,
    concat_characters: bool | Mapping[str, bool] | None = None,
    decode_coords: bool | Literal["coordinates", "all"] | None = None,
    drop_variables: str | Iterable[str] | None = None,
    create_default_indexes: bool = False,
    phony_dims: Literal["sort", "access"] | None = None,
    loadable_variables: str | Iterable[str] | None = None,
    unsupported: Unsupported = "raise",
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
    parser: Parser | None = None,
    containers: Mapping[str, Any] | None = None,
) -> dict[str, xr.Dataset]:
    """Open all groups as datasets, by path; parameters are those of `open_dataset`."""
    decoders: dict[str, Any] = {
        "decode_cf": decode_cf,
        "mask_and_scale": mask_and_scale,
        "decode_times": decode_times,
        "decode_timedelta": decode_timedelta,
        "use_cftime": use_cftime,
        "concat_characters": concat_characters,
        "decode_coords": decode_coords,
    }
    options = Options.parse(**decoders)
    check_unsupported(unsupported)
    if drop_variables is not None and not isinstance(drop_variables, str):
        drop_variables = list(drop_variables)  # which may be gone through but once
    path = place_of(filename_or_obj)
    if looks_like_store(path):
        return reopened_groups(
            path,
            group=group,
            drop_variables=drop_variables,
            loadable_variables=loadable_variables,
            containers=containers,
            storage_options=storage_options,
            registry=registry,
            create_default_indexes=create_default_indexes,
            phony_dims=phony_dims,
            **decoders,
        )
    no_containers(containers, path)
    found: dict[str, xr.Dataset] = {}
    with holding():
        scanned = scan_groups(
            path,
            access=way_to(path, storage_options, registry),
            parser=parser,
            group=group,
            phony_dims=phony_dims,
            drop_variables=drop_variables or (),
            choices=lambda where: choices_json(options, group=where, phony_dims=phony_dims),
        )
        root = next(iter(scanned))
        for where, content in scanned.items():
            dataset = dataset_of(
                content,
                options,
                drop_variables=drop_variables,
                loadable_variables=loadable_variables,
                unsupported=unsupported,
            )
            if create_default_indexes:
                dataset = with_default_indexes(dataset)
            found["/" + where.removeprefix(root).strip("/")] = dataset
    return found
