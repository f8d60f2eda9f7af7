"""A Zarr hierarchy of version 2 or 3, wherever its objects lie: what it is made of, described.

Metadata are read by zarr-python; which chunks there are, and where, is told by a listing: that of a
folder, or references to pieces of other files. Nothing else is read (but the indices of shards,
later).
"""

# zarr's metadata are objects of many forms.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from intarsia.codecs.zarr_chain import metadata_json
from intarsia.errors import FormatError, IntarsiaError, UnsupportedError
from intarsia.scan.zarr.described import Described, fill_value_of, grid_of, regular
from intarsia.scan.zarr.manifests import NOWHERE, Manifest
from intarsia.scan.zarr.version_2 import chain_of_v2

__all__ = ["METADATA", "Columns", "Objects", "ZarrGroup", "describe", "groups_of"]

type IntArray = npt.NDArray[Any]

MAX_CHUNKS = 1 << 31
"""Cells of a grid that is kept in memory."""

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
"""Names of objects that hold no chunk."""


class Columns(NamedTuple):
    """Where some chunks are, one row each.

    Parameters
    ----------
    sources
        Number of the source of each, or `NOWHERE` where it is inline.
    offsets, lengths
        Its bytes there.
    inline
        Bytes of those that are inline, by row.
    """

    sources: IntArray
    offsets: IntArray
    lengths: IntArray
    inline: dict[int, bytes]


class Objects(Protocol):
    """The objects of a hierarchy, by key."""

    def below(self, base: str) -> Iterable[tuple[str, Any]]:
        """Keys of the objects below a node, as they are called there, each with what it is."""
        ...

    def children(self, base: str) -> Iterable[str]:
        """Names of what lies right below a node, and has something below itself."""
        ...

    def text(self, key: str) -> bytes | None:
        """The bytes of a small object; None where there is none."""
        ...

    def check(self, base: str, listed: Sequence[tuple[str, Any]]) -> None:
        """Hold metadata that `below` gave of a node against those that were read.

        Raises
        ------
        SourceChanged
            If they were written in between: the chunks are not those that were described.
        """
        ...

    def together(self, base: str, version: int) -> None:
        """Be told of a group that has the metadata of all that is in it, for `finish`."""
        ...

    def finish(self) -> None:
        """The same as `check` for metadata of many nodes together, when all is listed."""
        ...

    def columns(self, base: str, entries: Sequence[tuple[str, Any]]) -> Columns:
        """Where some of the objects that `below` gave are.

        Raises
        ------
        FormatError
            If one can't be a chunk.
        """
        ...


@dataclass(slots=True)
class ZarrGroup:
    """One group.

    Parameters
    ----------
    attributes
        Of the group.
    arrays
        By name; described when they are asked for.
    groups
        By name.
    lost
        Why what seems to be an array or group can't be taken for one, by name.
    """

    attributes: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict[str, Any])
    groups: dict[str, ZarrGroup] = field(default_factory=dict[str, "ZarrGroup"])
    lost: dict[str, str] = field(default_factory=dict[str, str])


def groups_of(
    group: Any, objects: Objects, base: str = "", *, way: Sequence[str] = (), deep: bool = True
) -> ZarrGroup:
    """The groups and arrays in a group.

    Parameters
    ----------
    group
        As zarr opened it.
    objects
        Of the hierarchy.
    base
        Key of the group.
    way
        Names that lead on from here to the group that is asked for. Nothing beside it is looked at.
    deep
        Whether the groups in that one are asked for; otherwise only their names are told.
    """
    import zarr

    found = ZarrGroup(dict(group.attrs))
    consolidated = group.metadata.consolidated_metadata is not None
    if consolidated:
        objects.together(base, group.metadata.zarr_format)

    def is_lost(name: str) -> bool:  # zarr takes what is nearly empty for no array
        key = f"{base}/{name}/.zarray" if base else f"{name}/.zarray"
        return group.metadata.zarr_format == 2 and objects.text(key) is not None

    def inner(name: str, member: Any) -> ZarrGroup:
        if not way and not deep:
            return ZarrGroup({})
        key = f"{base}/{name}" if base else name
        return groups_of(member, objects, key, way=way[1:], deep=deep)

    if way:
        member = group.get(way[0])
        if isinstance(member, zarr.Group) and not is_lost(way[0]):
            found.groups[way[0]] = inner(way[0], member)
        return found
    members = list(group.members())
    if not consolidated:
        members.sort(key=lambda pair: pair[0])  # a listing has no order of its own
    for name, member in members:
        version = group.metadata.zarr_format
        if member.metadata.zarr_format != version:  # xarray goes by that of the group
            found.lost[name] = f"it is not of version {version} of Zarr, which its group says it is"
        elif isinstance(member, zarr.Array):
            found.arrays[name] = member
        elif is_lost(name):
            found.lost[name] = NO_SENSE
        else:
            found.groups[name] = inner(name, member)
    if not consolidated:  # zarr warns of what it does not know, and leaves it out
        known = found.arrays.keys() | found.groups.keys() | found.lost.keys()
        for name in objects.children(base):
            reason = None if name in known else _lost(objects, f"{base}/{name}" if base else name)
            if reason is not None:
                found.lost[name] = reason
    return found


NO_SENSE = "its metadata make no sense"


def _lost(objects: Objects, base: str) -> str | None:
    """Why a node is not known, where it has to be one."""
    chunks = False
    for key, _ in objects.below(base):
        if key in ("zarr.json", ".zarray", ".zgroup"):
            return NO_SENSE
        chunks |= _ANY_CHUNK.fullmatch(key) is not None
    return "it has chunks, and its metadata are lost" if chunks else None


_ANY_CHUNK = re.compile(r"(?:c[./])?\d+(?:[./]\d+)*")
"""Keys of chunks, whatever stands between the numbers."""


def describe(array: Any, inside: tuple[str, ...], objects: Objects) -> Described:
    """One array: its metadata, and the chunks that are there.

    Parameters
    ----------
    array
        As zarr opened it.
    inside
        Path of the array in the hierarchy.
    objects
        Of the hierarchy.
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
        # of a dimension without length, some say that its chunks have none either
        chunks = tuple(int(n) or 1 for n in metadata.chunks)
        separator, prefix = str(metadata.dimension_separator), ""
        try:
            steps = (*(metadata.filters or ()), *filter(None, [metadata.compressor]))
            told_steps = [step.get_config() for step in steps]
            codecs = chain_of_v2(told_steps, metadata.order, dtype, len(shape))
        except UnsupportedError as error:
            fault = error
        dims = attrs.pop("_ARRAY_DIMENSIONS", None) or _ncz_dims(objects, inside, len(shape))
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
        manifest = _listed(objects, "/".join(inside), grid_of(shape, chunks), separator, prefix)
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


def _ncz_dims(objects: Objects, inside: tuple[str, ...], ndim: int) -> tuple[str, ...]:
    """Names of dimensions as netCDF's own Zarr has them."""
    if not ndim:
        return ()
    text = objects.text("/".join((*inside, ".zarray")))
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


def _listed(
    objects: Objects, base: str, grid: tuple[int, ...], separator: str, prefix: str
) -> Manifest:
    """The chunks that are there.

    Raises
    ------
    FormatError
        If there are chunks that no key of the array names, or the listing lacks the array's own
        metadata, and so perhaps its chunks: they would seem to be unwritten.
    """
    count = int(np.prod(grid, dtype=object)) if grid else 1
    if count > MAX_CHUNKS:
        raise UnsupportedError(f"its grid has {count} chunks")
    if grid:
        pattern = re.compile(
            re.escape(prefix) + re.escape(separator).join([r"(0|[1-9]\d*)"] * len(grid))
        )
    else:
        pattern = re.compile("c" if prefix else "0")
    indices: list[tuple[int, ...]] = []
    found: list[tuple[str, Any]] = []
    own: list[tuple[str, Any]] = []
    for key, what in objects.below(base):
        match = pattern.fullmatch(key)
        if match is None:
            if key in METADATA:
                own.append((key, what))
            if _ANY_CHUNK.fullmatch(key):
                raise FormatError(f"the chunk {base}/{key} is not called as its chunks are")
            continue
        index = tuple(map(int, match.groups()))
        if all(n < size for n, size in zip(index, grid, strict=True)):
            indices.append(index)
            found.append((key, what))
    if not {"zarr.json", ".zarray"}.intersection(key for key, _ in own):
        raise FormatError(f"the listing of {base} lacks the array's own metadata")
    objects.check(base, own)
    flat: IntArray = np.zeros(len(found), np.int64)
    for dim, size in enumerate(grid):
        flat = flat * size + np.array([index[dim] for index in indices], np.int64)
    order = np.argsort(flat, kind="stable")
    flat = flat[order]
    there = objects.columns(base, [found[number] for number in order.tolist()])
    sources, offsets, lengths = (np.zeros(count, np.int64) for _ in range(3))
    sources[:] = NOWHERE
    for column, values in zip((sources, offsets, lengths), there[:3], strict=True):
        column[flat] = values
    inline = {int(flat[row]): data for row, data in there.inline.items()}
    return Manifest.of(grid, sources, offsets, lengths, inline)
