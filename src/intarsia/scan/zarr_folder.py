"""Zarr folders of version 2 and 3: metadata as zarr-python reads it, chunks from a listing.

A chunk is an object of its own here, so the listing of a folder also gives what pins each: its size
and time, and on object stores its entity tag. Nothing is read but metadata (and the indices of
shards, later).
"""

# zarr's metadata are objects of many forms.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from intarsia.codecs.zarr_chain import metadata_json, quietly
from intarsia.errors import FormatError, IntarsiaError, SourceError, UnsupportedError
from intarsia.io.paths import is_url
from intarsia.scan.manifests import NOWHERE, Manifest
from intarsia.scan.virtualizarr_described import Described, fill_value_of, grid_of, regular
from intarsia.scan.virtualizarr_places import Places
from intarsia.scan.virtualizarr_v2 import chain_of_v2

__all__ = ["Folder", "zarr_folder"]

MAX_CHUNKS = 1 << 31
"""Cells of a grid that is kept in memory."""


@dataclass(slots=True)
class Folder:
    """One group.

    Parameters
    ----------
    arrays
        By name; described when they are asked for.
    groups
        By name.
    attributes
        Of the group.
    """

    attributes: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict[str, Any])
    groups: dict[str, Folder] = field(default_factory=dict[str, "Folder"])


def zarr_folder(places: Places) -> Folder:
    """The groups of a Zarr folder.

    Raises
    ------
    FormatError
        If it is none, or broken.
    UnsupportedError
        If it can't be listed.
    """
    import zarr
    from zarr.storage import LocalStore, ObjectStore

    place = places.place
    try:
        with quietly():
            if is_url(place):
                client, key = places.client()
                store: Any = ObjectStore(client, read_only=True)
                root = zarr.open_group(store, path=key.strip("/"), mode="r")
            else:
                root = zarr.open_group(LocalStore(place, read_only=True), mode="r")
            return _folder(root)
    except IntarsiaError:
        raise
    except Exception as error:  # zarr and the stores below it raise what they like
        if is_url(place):
            from intarsia.io.remote_requests import raised_by_client

            ours = raised_by_client(error, place)
            if ours is not None:  # the client's own would tell too much
                raise ours from None
        text = next(iter(str(error).splitlines()), "")
        raise FormatError(
            f"the Zarr metadata can't be read: {type(error).__name__}: {text}",
            url=place,
            remedy="is it a Zarr group, and whole? Over http nothing can be listed",
        ) from error


def _folder(group: Any) -> Folder:
    import zarr

    found = Folder(dict(group.attrs))
    members = list(group.members())
    if group.metadata.consolidated_metadata is None:
        members.sort(key=lambda pair: pair[0])  # a listing has no order of its own
    for name, member in members:
        if isinstance(member, zarr.Array):
            found.arrays[name] = member
        else:
            found.groups[name] = _folder(member)
    return found


def describe(array: Any, inside: tuple[str, ...], places: Places) -> Described:
    """One array of a folder: its metadata, and the chunks that are there.

    Parameters
    ----------
    array
        As zarr opened it.
    inside
        Path of the array in the folder.
    places
        Where the chunks get their numbers.
    """
    metadata = array.metadata
    told = metadata_json(metadata) if metadata.zarr_format == 3 else {}
    attrs: dict[str, Any] = dict(array.attrs)
    data_type = metadata.dtype if metadata.zarr_format == 2 else metadata.data_type
    dtype = np.dtype(data_type.to_native_dtype())
    shape = tuple(int(size) for size in metadata.shape)
    fill = metadata.fill_value
    fault: IntarsiaError | None = None
    codecs: list[dict[str, Any]] = []
    chunks: tuple[int, ...] = ()
    separator, prefix = "", ""
    if metadata.zarr_format == 2:
        chunks = tuple(int(n) for n in metadata.chunks)
        separator, prefix = str(metadata.dimension_separator), ""
        try:
            steps = (*(metadata.filters or ()), *filter(None, [metadata.compressor]))
            told_steps = [step.get_config() for step in steps]
            codecs = chain_of_v2(told_steps, metadata.order, dtype, len(shape))
        except UnsupportedError as error:
            fault = error
        dims = attrs.pop("_ARRAY_DIMENSIONS", None) or _ncz_dims(places, inside, len(shape))
        attrs = {name: value for name, value in attrs.items() if not name.lower().startswith("_nc")}
        if fill is not None:
            attrs["_FillValue"] = fill
    else:
        codecs = told["codecs"]
        try:
            chunks = regular(told)
            separator, prefix = _keys_of_v3(told)
        except UnsupportedError as error:
            fault = error
        dims = metadata.dimension_names
        if "_FillValue" in attrs:
            attrs["_FillValue"] = fill_value_of(attrs["_FillValue"], dtype)
    if fill is None:
        fill = data_type.default_scalar()
    dims = tuple(dims or ())
    try:
        if fault is not None:
            raise fault
        manifest = _listed(places, inside, grid_of(shape, chunks), separator, prefix)
    except (FormatError, UnsupportedError) as error:
        return Described.faulty(dims, attrs, shape, data_type, error)
    return Described(
        dims,
        attrs,
        shape,
        chunks,
        dtype,
        data_type,
        codecs,
        fill,
        manifest,
        native=metadata.zarr_format == 3 or dtype.kind in "Mm",
    )


def _ncz_dims(places: Places, inside: tuple[str, ...], ndim: int) -> tuple[str, ...]:
    """Names of dimensions as netCDF's own Zarr has them."""
    if not ndim:
        return ()
    text = places.text("/".join((*inside, ".zarray")))
    told: Any = json.loads(text) if text else {}
    told = told.get("_NCZARR_ARRAY", told.get("_nczarr_array", {}))
    refs = told.get("dimrefs", told.get("dimension_references", ()))
    return tuple(str(ref).rpartition("/")[2] for ref in refs)


def _keys_of_v3(told: Mapping[str, Any]) -> tuple[str, str]:
    """What stands between the numbers of a chunk's key, and before them."""
    encoding = cast("dict[str, Any]", told["chunk_key_encoding"])
    name = encoding.get("name")
    separator = (encoding.get("configuration") or {}).get("separator")
    if name == "default":
        separator = str(separator or "/")
        return separator, f"c{separator}"
    if name == "v2":
        return str(separator or "."), ""
    raise UnsupportedError(f"the keys of its chunks are encoded as {name!r}")


# -- chunks --------------------------------------------------------------------------------------


class _Object(NamedTuple):
    """An object below an array: its key there, and what pins it."""

    key: str
    size: int
    mtime_ns: int
    etag: str | None


def _listed(
    places: Places, inside: tuple[str, ...], grid: tuple[int, ...], separator: str, prefix: str
) -> Manifest:
    """The chunks that are there."""
    count = int(np.prod(grid, dtype=object)) if grid else 1
    if count > MAX_CHUNKS:
        raise UnsupportedError(f"its grid has {count} chunks")
    sources = np.full(count, NOWHERE, np.int64)
    lengths = np.zeros(count, np.int64)
    if grid:
        pattern = re.compile(
            re.escape(prefix) + re.escape(separator).join([r"(0|[1-9]\d*)"] * len(grid))
        )
    else:
        pattern = re.compile("c" if prefix else "0")
    base = "/".join(inside)
    found = [
        (tuple(map(int, match.groups())), entry)
        for entry in _objects(places, base)
        if (match := pattern.fullmatch(entry.key))
    ]
    found = [
        (index, entry)
        for index, entry in found
        if all(n < size for n, size in zip(index, grid, strict=True))
    ]
    flat: npt.NDArray[Any] = np.zeros(len(found), np.int64)
    for dim, size in enumerate(grid):
        flat = flat * size + np.array([index[dim] for index, _ in found], np.int64)
    order = np.argsort(flat, kind="stable")
    entries = [found[number][1] for number in order.tolist()]
    first = places.add_listed(
        (f"{base}/{entry.key}" if base else entry.key, entry.size, entry.mtime_ns, entry.etag)
        for entry in entries
    )
    sources[flat[order]] = np.arange(first, first + len(entries))
    lengths[flat[order]] = [entry.size for entry in entries]
    empty = [entry for entry in entries if not entry.size]
    if empty:
        raise FormatError(f"the chunk {base}/{empty[0].key} is empty")
    return Manifest.of(grid, sources, np.zeros(count, np.int64), lengths, {})


def _objects(places: Places, base: str) -> Iterator[_Object]:
    if is_url(places.place):
        yield from _remote(places, base)
    else:
        yield from _local(os.path.join(places.place, base), "")


def _local(folder: str, before: str) -> Iterator[_Object]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    yield from _local(entry.path, f"{before}{entry.name}/")
                else:
                    stat = entry.stat()
                    yield _Object(before + entry.name, stat.st_size, stat.st_mtime_ns, None)
    except OSError as error:
        raise SourceError(f"it can't be listed ({error.strerror})", url=folder) from error


def _remote(places: Places, base: str) -> Iterator[_Object]:
    from intarsia.io.remote_requests import objects_below

    folder = "/".join((places.place.rstrip("/"), *filter(None, [base]))) + "/"
    places.client()  # which is not for every process
    known = False
    for key, size, mtime_ns, etag in objects_below(folder, places.access):
        known |= key in ("zarr.json", ".zarray")
        yield _Object(key, size, mtime_ns, etag)
    if not known:  # no chunk would be there, either
        raise FormatError(f"the listing of {folder} lacks the array's own metadata")
