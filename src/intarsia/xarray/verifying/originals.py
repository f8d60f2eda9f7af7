"""The sources opened again: file by file, and Zarr folders once for the chunks in them.

A chunk of a Zarr folder is a source of its own, but no file that could be read by itself: the array
is read that it is of, by zarr-python, and the chunk's name says where in it the chunk lies.
"""

# Parts of xarray's and zarr's signatures are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.access import Access
from intarsia.encoding import Codec
from intarsia.errors import SourceError, SourceMissing
from intarsia.io.paths import is_url
from intarsia.references import Source
from intarsia.segments import Segments
from intarsia.xarray.verifying.original import (
    MAGIC,
    Original,
    Unreadable,
    arguments_of,
    original,
    quietly,
    said,
)
from intarsia.xarray.verifying.pieces import Segment

type Array = npt.NDArray[Any]

MAX_UP = 66
"""Levels from a chunk to the folder of its array: 64 dimensions may each be one, and ``c``."""

ARRAY, GROUP, NEITHER = "array", "group", ""


class Chunk(NamedTuple):
    """Which chunk a source is.

    Parameters
    ----------
    group
        Folder of the group that has the array.
    name
        Of the array in it.
    key
        Of the chunk in the folder of the array.
    """

    group: str
    name: str
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A group of a Zarr folder as xarray and zarr-python give it, and labels that were read."""

    dataset: xr.Dataset
    labels: dict[str, Array | None]


class OriginalChunk(Original):
    """A chunk of a Zarr folder, of which all of the group can be read.

    Parameters
    ----------
    source
        The chunk.
    chunk
        Which one it is.
    opened
        The group.
    axes
        Dimension of the array that each dimension of what is stored is.
    """

    def __init__(
        self, source: Source, chunk: Chunk, opened: Opened, axes: tuple[int, ...] | None
    ) -> None:
        super().__init__(source, opened.dataset, chunk.group)
        self._chunk = chunk
        self._axes = axes
        self._labels = opened.labels

    def arranged(self, segment: Segment, filters: Sequence[Codec]) -> Segment:
        """See `Original`."""
        whole = any(codec.name == "zarr" for codec in filters)  # which undoes the order, too
        if self._axes is None or whole or len(self._axes) != len(segment.size):
            return segment
        return segment.arranged(self._axes)

    def shifts(self, segment: Segment, name: str) -> tuple[list[Array], str]:
        """Where the segment's part of the array begins in it.

        That is the chunk, or the shard. Chunks that were never written may be counted to it: then
        it is as long as the array along some of the last dimensions.
        """
        if name != self._chunk.name:
            return [], f"its bytes are of the variable {self._chunk.name!r} there"
        variable = self.variable(name)
        edges = variable.encoding.get("shards") or variable.encoding.get("chunks")
        if edges is None or not 0 <= len(edges) - variable.ndim <= 1:
            return [], "zarr does not tell its chunks"
        cell = _cell(self._chunk.key, len(edges))
        if cell is None or variable.ndim != len(segment.size):
            return [], "where its chunk lies in the array is unsure"
        first = np.zeros(variable.ndim, np.int64)
        sizes: list[int] = segment.size.tolist()
        # of characters that were joined to texts, the last dimension is gone
        for dim, (size, whole) in enumerate(zip(sizes, variable.shape, strict=True)):
            low = cell[dim] * int(edges[dim])
            if size == min(int(edges[dim]), whole - low):
                first[dim] = low
            elif size != whole:
                return [], "where its chunk lies in the array is unsure"
        return [first], ""

    def named_by_bytes(self, segments: Segments, row: Array) -> str | None:
        """Name of the array that the chunk is of."""
        return self._chunk.name if self._chunk.name in self else None


def _cell(key: str, ndim: int) -> list[int] | None:
    """Place of a chunk in the grid of chunks, by its name: ``c/1/0``, ``1.0``."""
    found = re.fullmatch(r"(?:c[/.]?)?([0-9]+(?:[/.][0-9]+)*)?", key)
    if found is None:
        return None
    numbers = [int(part) for part in re.split(r"[/.]", found[1])] if found[1] else []
    return numbers if len(numbers) == ndim else None


class Originals:
    """Opens sources, one after the other, of one call or one batch."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._axes: dict[str, tuple[int, ...] | None] = {}
        self._last: tuple[tuple[Any, ...], Opened] | None = None
        self._seen: set[tuple[str, str, int]] = set()

    @contextmanager
    def opened(self, source: Source) -> Generator[Original]:
        """Open a source with its own library, decoding what was decoded when it was scanned.

        Raises
        ------
        Unreadable
            If it can't be opened.
        """
        chunk = self._chunk_of(source)
        if chunk is None:
            with original(source) as one:
                yield one
        else:
            opened = self._group(source, chunk)
            axes = self._axes_of(f"{chunk.group}/{chunk.name}", source.access)
            yield OriginalChunk(source, chunk, opened, axes)

    def is_new(self, one: Original, number: int) -> bool:
        """Whether a copied variable was not yet compared with what a source is opened from.

        Parameters
        ----------
        one
            The source.
        number
            Of the variable.
        """
        key = (one.place, one.source.scan, number)
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _chunk_of(self, source: Source) -> Chunk | None:
        """Which chunk of a Zarr folder a source is; None where it is none."""
        try:
            if _head(source).startswith(MAGIC):
                return None
            place = source.url if is_url(source.url) else os.path.abspath(source.url)
            end = place.find("/", place.find("://") + 3) if is_url(place) else 0
            folder = place
            for _ in range(MAX_UP):
                folder = folder[: max(folder.rfind("/"), 0)]
                if len(folder) <= max(end, 0):
                    return None
                kind = self._kind(folder, source.access)
                if kind != NEITHER:
                    break
            else:
                return None
        except (SourceError, OSError):
            return None  # opening it tells why
        if kind != ARRAY:
            return None
        group, _, name = folder.rpartition("/")
        return Chunk(group, name, place[len(folder) + 1 :])

    def _kind(self, folder: str, access: Access | None) -> str:
        found = self._kinds.get(folder)
        if found is None:
            found = self._kinds[folder] = _kind(folder, access)
        return found

    def _axes_of(self, folder: str, access: Access | None) -> tuple[int, ...] | None:
        if folder not in self._axes:
            try:
                self._axes[folder] = _axes(folder, access)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                reason = f"the metadata of {folder} make no sense: {said(error, folder)}"
                raise Unreadable(reason) from error
        return self._axes[folder]

    def _group(self, source: Source, chunk: Chunk) -> Opened:
        key = (chunk.group, source.scan, source.access)
        if self._last is None or self._last[0] != key:
            self._last = key, Opened(_dataset(source, chunk.group), {})
        return self._last[1]


def _head(source: Source) -> bytes:
    """The first bytes of a source."""
    if not is_url(source.url):
        with open(source.url, "rb") as file:
            return file.read(8)
    from intarsia.io.remote import head

    return bytes(head(source.url, source.access, 8)[1])


def _kind(folder: str, access: Access | None) -> str:
    """What the metadata of Zarr in a folder say that it is."""
    told = _text(f"{folder}/zarr.json", access)
    if told is not None:
        try:
            node: Any = json.loads(told)
        except ValueError:
            return NEITHER
        kind: Any = node.get("node_type") if isinstance(node, dict) else None
        return kind if kind in (ARRAY, GROUP) else NEITHER
    if _text(f"{folder}/.zarray", access) is not None:
        return ARRAY
    return NEITHER if _text(f"{folder}/.zgroup", access) is None else GROUP


def _axes(folder: str, access: Access | None) -> tuple[int, ...] | None:
    """Dimensions of an array in the order of its chunks; None where it is the array's own."""
    told: Any = json.loads(_text(f"{folder}/zarr.json", access) or b"{}")
    if not told:
        told = json.loads(_text(f"{folder}/.zarray", access) or b"{}")
        return tuple(range(len(told["shape"])))[::-1] if told.get("order") == "F" else None
    codecs: Any = told.get("codecs", ())
    if [codec["name"] for codec in codecs] == ["sharding_indexed"]:
        codecs = codecs[0]["configuration"]["codecs"]
    axes = tuple(range(len(told["shape"])))
    for codec in codecs:
        if codec["name"] != "transpose":
            break
        axes = tuple(axes[n] for n in codec["configuration"]["order"])
    return axes


def _text(place: str, access: Access | None) -> bytes | None:
    if is_url(place):
        from intarsia.io.remote_requests import fetch

        try:
            return bytes(fetch(place, access, {}).data)
        except SourceMissing:
            return None
    try:
        with open(place, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _dataset(source: Source, folder: str) -> xr.Dataset:
    """A group of a Zarr folder, opened from the folder that was scanned."""
    asked = arguments_of(source.scan)
    asked.pop("phony_dims", None)
    group = asked.pop("group", "")
    root = folder.removesuffix(f"/{group}") if group else folder
    inside = group if root != folder else ""
    store: Any = root
    try:
        with quietly():
            if is_url(root):
                from zarr.storage import ObjectStore, StorePath

                from intarsia.io.remote_clients import client_of

                client, key = client_of(root, source.access)
                store = StorePath(ObjectStore(client, read_only=True), key.strip("/"))
            return xr.open_dataset(
                store,
                engine="zarr",
                group=inside or None,
                cache=False,
                create_default_indexes=False,
                **asked,
            )
    except Exception as error:  # whatever the libraries below raise
        raise Unreadable(f"xarray can't open its folder: {said(error, folder)}") from error
