"""Ways to open the same files: each returns something that opens them as an xarray dataset.

Whatever has to be done once (scanning, writing a store of references) is done before it returns;
opening from there, and reading, is what the benchmarks measure.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import xarray as xr

type Opener = Callable[[], xr.Dataset]

TUNED: dict[str, Any] = {
    "codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "codec_pipeline.max_workers": 1,
    "async.concurrency": 64,
}
"""Settings of zarr-python with which VirtualiZarr's ManifestStore was fastest for tiny chunks."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "virtualizarr": ("virtualizarr", "obstore", "obspec_utils"),
    "kerchunk": ("kerchunk", "fsspec"),
    "icechunk": ("icechunk", "virtualizarr", "obstore", "obspec_utils"),
    "netcdf4": ("netCDF4",),
    "h5netcdf": ("h5netcdf",),
}
"""What each has to find installed."""


def settings(tuned: bool) -> AbstractContextManager[Any]:
    """Zarr's configuration: tuned, or as it comes."""
    if not tuned:
        return nullcontext()
    import zarr

    return zarr.config.set(TUNED)


def intarsia(paths: Sequence[str]) -> Opener:
    """The dataset, opened once: its references are in memory, like VirtualiZarr's below."""
    from intarsia import open_dataset, open_mfdataset

    if len(paths) == 1:
        opened = open_dataset(paths[0])
    else:
        opened = open_mfdataset(list(paths), concat_dim="time", combine="nested")
    return lambda: opened


def native(engine: str, paths: Sequence[str]) -> Opener:
    """xarray with netCDF4 or h5netcdf, opening the files anew each time."""

    def opened() -> xr.Dataset:
        if len(paths) == 1:
            return xr.open_dataset(paths[0], engine=engine, cache=False)
        return xr.open_mfdataset(
            list(paths), combine="nested", concat_dim="time", engine=engine, join="override",
            coords="minimal", data_vars="minimal", compat="override",
        )  # fmt: skip

    return opened


def registry() -> Any:
    """VirtualiZarr's access to local files."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore

    return ObjectStoreRegistry({"file://": LocalStore()})


def virtual(path: str, access: Any, **options: Any) -> xr.Dataset:
    """VirtualiZarr's virtual dataset of a file."""
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser

    return open_virtual_dataset(f"file://{path}", registry=access, parser=HDFParser(), **options)


def concatenated(paths: Sequence[str], access: Any) -> xr.Dataset:
    """VirtualiZarr's virtual dataset of files that follow each other, time loaded.

    Kept beside the files, for the next contender.
    """
    kept = Path(paths[0]).with_name(f"{Path(paths[0]).stem}-{len(paths)}.pickle")
    if not kept.exists():
        kept.write_bytes(pickle.dumps(_concatenated(paths, access)))
    return pickle.loads(kept.read_bytes())


def _concatenated(paths: Sequence[str], access: Any) -> xr.Dataset:
    parts = [virtual(path, access, loadable_variables=["time"]) for path in paths]
    if len(parts) == 1:
        return parts[0]
    return xr.concat(
        parts, "time", coords="minimal", data_vars="minimal", compat="override", join="override",
        combine_attrs="override",
    )  # fmt: skip


def manifest_store(paths: Sequence[str], tuned: bool) -> Opener:
    """VirtualiZarr's ManifestStore, read by zarr-python."""
    from virtualizarr.parsers import HDFParser

    access = registry()
    if len(paths) == 1:
        store = HDFParser()(url=f"file://{paths[0]}", registry=access)
    else:
        store = stored(concatenated(paths, access), access)

    def opened() -> xr.Dataset:
        return xr.open_zarr(store, consolidated=False, zarr_format=3, chunks=None)

    return opened


def stored(dataset: xr.Dataset, access: Any) -> Any:
    """A virtual dataset as VirtualiZarr's ManifestStore."""
    from virtualizarr.manifests import ManifestArray, ManifestGroup, ManifestStore
    from virtualizarr.manifests.utils import copy_and_replace_metadata

    arrays: dict[str, Any] = {}
    for name, variable in dataset.variables.items():
        array = variable.data
        if isinstance(array, ManifestArray):
            # concatenating has dropped what the store tells xarray of an array
            metadata = copy_and_replace_metadata(
                array.metadata,
                new_dimension_names=variable.dims,
                new_attributes=variable.attrs | variable.encoding,
            )
            arrays[str(name)] = ManifestArray(metadata, array.manifest)
    return ManifestStore(ManifestGroup(arrays=arrays), registry=access)


def kerchunk(paths: Sequence[str]) -> Opener:
    """kerchunk's references, through fsspec's reference file system, as its engine opens them."""
    from kerchunk.utils import refs_as_store

    if len(paths) == 1:
        from kerchunk.hdf import SingleHdf5ToZarr

        references = SingleHdf5ToZarr(paths[0], inline_threshold=0).translate()
    else:
        references = concatenated(paths, registry()).vz.to_kerchunk(format="dict")

    def opened() -> xr.Dataset:
        store = refs_as_store(references)
        return xr.open_zarr(store, consolidated=False, zarr_format=2, chunks=None)

    return opened


def icechunk(paths: Sequence[str]) -> Opener:
    """An Icechunk repository of virtual references, on disk."""
    import icechunk as ice

    ice.set_logs_filter("error")
    access = registry()
    prefix = f"file://{os.path.commonpath([os.path.dirname(path) for path in paths])}/"
    configuration = ice.RepositoryConfig.default()
    store = ice.local_filesystem_store(prefix.removeprefix("file://"))
    configuration.set_virtual_chunk_container(ice.VirtualChunkContainer(prefix, store))
    folder = mkdtemp(dir=Path(paths[0]).parent.parent, prefix="icechunk-")
    repository = ice.Repository.create(
        ice.local_filesystem_storage(folder),
        configuration,
        authorize_virtual_chunk_access={prefix: ice.Credentials.LocalFileSystemAccess()},
    )
    session = repository.writable_session("main")
    # without a checksum: one taken within the second of the files' writing would fail
    concatenated(paths, access).vz.to_icechunk(session.store)
    session.commit("references")

    def opened() -> xr.Dataset:
        store = repository.readonly_session("main").store
        return xr.open_zarr(store, consolidated=False, zarr_format=3, chunks=None)

    return opened
