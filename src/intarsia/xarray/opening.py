"""One file, or one saved store, as a dataset whose large variables are virtual."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import xarray as xr

from intarsia.array import VirtualArray
from intarsia.cf import Options
from intarsia.io.access import way_to
from intarsia.io.held import holding
from intarsia.io.paths import local_path as local_path
from intarsia.io.paths import place_of as place_of
from intarsia.scan.dispatch import Parser, scan
from intarsia.xarray import accessor as accessor  # registers ds.intarsia
from intarsia.xarray.choices import choices_json
from intarsia.xarray.indexing import with_default_indexes
from intarsia.xarray.internals import data_of, updated, variables_of
from intarsia.xarray.recognising import looks_like_store
from intarsia.xarray.reopening import reopened
from intarsia.xarray.scanned import Unsupported, dataset_of


def open_dataset(
    filename_or_obj: str | os.PathLike[str],
    *,
    group: str | None = None,
    chunks: Any = None,
    decode_cf: bool | None = None,
    mask_and_scale: bool | Mapping[str, bool] | None = None,
    decode_times: Any = None,
    decode_timedelta: Any = None,
    use_cftime: bool | Mapping[str, bool] | None = None,
    concat_characters: bool | Mapping[str, bool] | None = None,
    decode_coords: bool | Literal["coordinates", "all"] | None = None,
    drop_variables: str | Iterable[str] | None = None,
    create_default_indexes: bool = True,
    phony_dims: Literal["sort", "access"] | None = None,
    loadable_variables: str | Iterable[str] | None = None,
    unsupported: Unsupported = "raise",
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
    parser: Parser | None = None,
    containers: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Open one file, or one saved store, as a dataset with virtual variables.

    Of a file, the dataset equals what xarray gives with the engine for its format (``"h5netcdf"``
    for HDF5 and netCDF4, ``"scipy"`` for netCDF3, ``"zarr"``), bit for bit; of a store, it equals
    the dataset that was saved. It can be combined with others without being read.

    Parameters
    ----------
    filename_or_obj : str or path
        A file, by its path or URL, or a store: a folder or zip file that `Dataset.intarsia.save`
        has written.
    group : str, optional
        Path of the group to open; the root group by default.
    chunks : int, dict, "auto" or None, default: None
        As for `xarray.open_dataset`, with one difference: None leaves variables virtual. ``{}``
        gives dask arrays with blocks that follow the source's chunks.
    decode_cf, mask_and_scale, decode_times, decode_timedelta, use_cftime : optional
    concat_characters, decode_coords, drop_variables, create_default_indexes : optional
        As for `xarray.open_dataset`, with its defaults. A store holds what was decoded when its
        files were opened: for another decoding than that one, open the files again.
    phony_dims : {"sort", "access"}, optional
        Of HDF5 files, as for xarray's h5netcdf engine: how to name dimensions that have no names.
    loadable_variables : str or iterable of str, optional
        Names of variables to load besides those that always are: index coordinates, 0-d, time-like,
        string, bool, complex and compound variables; of a store, those that were copied into it.
    unsupported : {"raise", "copy", "skip"}, default: "raise"
        What to do with variables of a file that can't be expressed as references: let them appear
        and raise when they are read, load them where the library can, or leave them out.
    storage_options : mapping, optional
        How a URL is reached: what obstore's stores take (``region``, ``endpoint``,
        ``skip_signature``, ``request_payer``, keys), or fsspec's words for it (``anon``, ``key``,
        ``secret``, ``endpoint_url``). Credentials are found in the usual places without it. Only
        what is no secret is kept in a saved store.
    registry : ObjectStoreRegistry, optional
        Object stores by URL prefix, as VirtualiZarr takes it, in place of `storage_options`.
    parser : callable, optional
        Reads the file in place of our own scan: a parser of VirtualiZarr, or what is called as
        one, ``parser(url=..., registry=...)``.
    containers : mapping, optional
        Of a store: where the containers of its sources are now, by name (``intarsia info`` lists
        them), as a place or as ``{"location": ..., "pin": ...}``. The others are where the store
        says.

    Returns
    -------
    xarray.Dataset
        Variables hold `intarsia.array.VirtualArray` directly.

    Raises
    ------
    SourceError, FormatError
        If the file can't be read, or is of no format that is known.
    StoreError
        If a store is damaged, or has no such group.
    UnsupportedError
        If a store is asked for another decoding than its files were opened with.
    UnsupportedVariable
        With ``unsupported="copy"``, if a variable can't be read by the library either.
    UpstreamFault
        If xarray is known to decode a variable wrongly.

    Examples
    --------
    >>> ds = intarsia.open_dataset("sst.nc")  # doctest: +SKIP
    """
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
        dataset = reopened(
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
    else:
        no_containers(containers, path)
        choices = choices_json(options, group=group, phony_dims=phony_dims)
        with holding():
            dataset = dataset_of(
                scan(
                    path,
                    access=way_to(path, storage_options, registry),
                    parser=parser,
                    group=group,
                    phony_dims=phony_dims,
                    drop_variables=drop_variables or (),
                    choices=choices,
                ),
                options,
                drop_variables=drop_variables,
                loadable_variables=loadable_variables,
                unsupported=unsupported,
            )
        if create_default_indexes:
            dataset = with_default_indexes(dataset)
    return dataset if chunks is None else chunk(dataset, chunks)


def check_unsupported(unsupported: str) -> None:
    """Refuse what the argument can't be."""
    if unsupported not in ("raise", "copy", "skip"):
        raise ValueError(f"unsupported must be 'raise', 'copy' or 'skip', got {unsupported!r}")


def no_containers(containers: Mapping[str, Any] | None, path: str) -> None:
    """Refuse places of containers where there are none."""
    if containers:
        raise ValueError(f"containers= is for saved stores, and {path} is a file")


def chunk(dataset: xr.Dataset, chunks: Any) -> xr.Dataset:
    """The dataset with virtual variables as dask arrays, cut as `chunks` asks.

    Parameters
    ----------
    chunks
        As for `xarray.open_dataset`: ``{}`` and dimensions that are not named follow the sources'
        chunks.
    """
    if isinstance(chunks, int):
        chunks = dict.fromkeys(dataset.dims, chunks)
    variables: dict[Any, xr.Variable] = {}
    for name, variable in variables_of(dataset).items():
        data = data_of(variable)
        if isinstance(data, VirtualArray):
            preferred: dict[Any, Any] = dict(zip(variable.dims, data.blocks, strict=True))
            if isinstance(chunks, str):
                asked: dict[Any, Any] = dict.fromkeys(variable.dims, chunks)
            else:
                asked = {dim: size for dim, size in dict(chunks).items() if dim in preferred}
            variables[name] = variable.chunk(preferred | asked)
    return updated(dataset, variables)
