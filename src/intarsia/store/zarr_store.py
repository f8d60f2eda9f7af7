"""A store as zarr-python sees one: ordinary arrays, their chunks made when they are asked for."""

# pyright: reportIncompatibleMethodOverride=false
from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import cached_property
from typing import Any, Self

import zarr
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from intarsia.errors import StoreError
from intarsia.io.containers import Places
from intarsia.store.grid import Grid
from intarsia.store.nodes import Group
from intarsia.store.read import Overrides, Stored, read, reopened
from intarsia.store.view import GridChoice, View

__all__ = ["IntarsiaStore", "open_store"]

FLAG = "array.rectilinear_chunks"
"""Zarr's switch for grids that are not regular, which are not final."""


class IntarsiaStore(Store):
    """A read-only Zarr v3 store that shows virtual variables as ordinary arrays.

    Parameters
    ----------
    groups
        What to show, by absolute path.
    grid
        Chunk shapes in place of those that were chosen; see `open_store`.
    origin
        The saved store that the groups are of: it stands for them where stores are compared or
        pickled.
    read_only
        It can't be anything else.

    Raises
    ------
    StoreError
        If `grid` does not fit, or is rectilinear and zarr-python's switch for that is off.
    UnsupportedVariable
        If a variable in memory can't be shown as Zarr.
    """

    def __init__(
        self,
        groups: Mapping[str, Group],
        *,
        grid: GridChoice = None,
        origin: Stored | None = None,
        read_only: bool = True,
    ) -> None:
        if not read_only:
            raise ValueError("a store of references can only be read: read_only=True")
        super().__init__(read_only=True)
        self._groups = groups
        self._grid = grid
        self._origin = origin
        self._view = View(groups, grid, origin and origin.encodings)
        _check_flag(self._view)

    def __repr__(self) -> str:
        return f"IntarsiaStore({self._where})"

    def __str__(self) -> str:
        return f"intarsia://{self._where}"

    @property
    def _where(self) -> str:
        return self._origin.url if self._origin else "in memory"

    @cached_property
    def _token(self) -> tuple[Any, ...]:
        """What is equal in stores that show the same."""
        if self._origin is not None:
            stored = self._origin
            return stored.url, stored.digest, repr(stored.places)  # which tells no secrets
        return ("in memory", self._view.token())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntarsiaStore) or self._grid != other._grid:
            return False
        if self is other or (self._groups is other._groups and self._origin is other._origin):
            return True
        return self._token == other._token

    def __hash__(self) -> int:
        return hash(self._where)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return ("intarsia.IntarsiaStore", *self._token, repr(self._grid))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._origin is None:
            return _remade, (dict(self._groups), self._grid)
        stored = self._origin
        return _reopened, (stored.url, stored.digest, stored.places, self._grid)

    @property
    def supports_writes(self) -> bool:
        """Nothing can be written."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """Nothing can be deleted."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Keys can be listed."""
        return True

    @property
    def supports_consolidated_metadata(self) -> bool:
        """The metadata of a group has that of all nodes in it."""
        return True

    @property
    def grids(self) -> dict[str, Grid]:
        """The grid of each virtual variable, and what it costs, by path of the variable."""
        return {name: shown.grid for name, shown in self._view.virtual.items()}

    def with_read_only(self, read_only: bool = False) -> Self:
        """The store itself; one to write to can't be had."""
        if read_only:
            return self
        raise NotImplementedError(
            f"with_read_only is not implemented for the {type(self)} store type."
        )

    # -- reading ---------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Bytes behind a key, read by another thread."""
        return await asyncio.to_thread(
            self.get_sync, key, prototype=prototype, byte_range=byte_range
        )

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Bytes behind a key."""
        prototype = default_buffer_prototype() if prototype is None else prototype
        begin, end = _bounds(byte_range)
        if end is not None and end <= begin:
            found = None if self._view.size(key) is None else b""
        else:
            found = self._view.get(key, begin, end)
        return None if found is None else prototype.buffer.from_bytes(found)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Bytes behind several keys."""
        asked = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return list(await asyncio.gather(*asked))

    async def exists(self, key: str) -> bool:
        """Whether there is something behind a key."""
        return await asyncio.to_thread(self._view.exists, key)

    async def getsize(self, key: str) -> int:
        """Number of bytes behind a key; no source is read."""
        size = await asyncio.to_thread(self._view.size, key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def list(self) -> AsyncIterator[str]:
        """All keys; those of chunks too, of which there may be very many."""
        for key in self._view.keys():  # noqa: SIM118  not a mapping
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys that begin with a prefix."""
        for key in self._view.keys(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names right below a prefix."""
        for name in self._view.list_dir(prefix):
            yield name

    # -- writing ---------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refuse."""
        self._check_writable()

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refuse; zarr-python reads synchronously only what has this too."""
        self._check_writable()

    def delete_sync(self, key: str) -> None:
        """Refuse."""
        self._check_writable()


def _bounds(request: ByteRequest | None) -> tuple[int, int | None]:
    """First byte, and the one after the last; a negative first one counts from the end."""
    match request:
        case None:
            return 0, None
        case RangeByteRequest(start, end):
            return start, end
        case OffsetByteRequest(offset):
            return offset, None
        case SuffixByteRequest(suffix):
            return (-suffix, None) if suffix else (0, 0)
    raise TypeError(f"Unexpected byte_range, got {request!r}.")


def open_store(
    path: str | os.PathLike[str],
    *,
    grid: GridChoice = None,
    containers: Overrides | None = None,
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
) -> IntarsiaStore:
    """Open a saved store for zarr-python.

    Parameters
    ----------
    path : str or path
        A store: a folder or a zip file.
    grid : mapping of str to tuple of int, or "rectilinear", optional
        Chunk shapes by variable, in place of those that were chosen when it was saved. With
        ``"rectilinear"`` chunks follow the sources', where that is exact; zarr-python reads such
        arrays only with ``zarr.config.set({"array.rectilinear_chunks": True})``.
    containers : mapping, optional
        Where sources are now, as for `intarsia.open_dataset`.
    storage_options, registry : optional
        How sources of the network are reached, as for `intarsia.open_dataset`.

    Returns
    -------
    IntarsiaStore
        Read-only, with consolidated metadata. ``grids`` says what each grid costs.

    Raises
    ------
    StoreError
        If there is no store, it is damaged, or `grid` does not fit.

    Examples
    --------
    >>> z = zarr.open_group(intarsia.open_store("sst.intarsia"), mode="r")  # doctest: +SKIP
    >>> z["sst"][3, 2:5]  # doctest: +SKIP
    """
    stored = read(path, containers=containers, storage_options=storage_options, registry=registry)
    return IntarsiaStore(stored.groups, grid=grid, origin=stored)


def _reopened(path: str, digest: str, places: Places, grid: GridChoice) -> IntarsiaStore:
    stored = reopened(path, digest, places)
    return IntarsiaStore(stored.groups, grid=grid, origin=stored)


def _remade(groups: Mapping[str, Group], grid: GridChoice) -> IntarsiaStore:
    return IntarsiaStore(groups, grid=grid)


def _check_flag(view: View) -> None:
    """Refuse uneven grids while zarr-python refuses them: one would keep all from being opened."""
    if zarr.config.get(FLAG, False):
        return
    for name, shown in view.virtual.items():
        if shown.is_rectilinear:
            raise StoreError(
                "zarr-python opens no rectilinear grids as it is set",
                array=name,
                remedy=f"zarr.config.set({{{FLAG!r}: True}}) before",
            )
