"""Zarr folders of version 2 and 3, of this machine and of the network, by their listing.

A chunk is an object of its own here, so the listing of a folder also gives what pins each: its size
and time, and on object stores its entity tag.
"""

# zarr's stores are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from intarsia.codecs.zarr_chain import quietly
from intarsia.errors import FormatError, IntarsiaError, SourceChanged, UnsupportedError
from intarsia.io.files import contents, listing
from intarsia.io.paths import is_url
from intarsia.scan.zarr.groups import METADATA, Columns, ZarrGroup, groups_of
from intarsia.scan.zarr.places import Places

__all__ = ["FolderObjects", "zarr_folder"]


def zarr_folder(objects: FolderObjects, way: Sequence[str], *, deep: bool) -> ZarrGroup:
    """The groups of a Zarr folder.

    Parameters
    ----------
    objects
        In it.
    way, deep
        See `groups.groups_of`.

    Raises
    ------
    FormatError
        If it is none, or broken.
    UnsupportedError
        If it can't be listed.
    """
    import zarr
    from zarr.storage import LocalStore, ObjectStore

    places = objects.places
    place = places.place
    try:
        with quietly():
            if is_url(place):
                client, key = places.client()
                path = key.removesuffix("/")
                if "\\" in path or "" in path.split("/")[path == "" :]:
                    raise UnsupportedError(
                        "its name has \\ or // in it, for which zarr looks elsewhere", url=place
                    )
                store: Any = ObjectStore(client, read_only=True)
            else:
                path, store = "", LocalStore(place, read_only=True)
            root = zarr.open_group(_noted(store, path, objects), path=path, mode="r")
            return groups_of(root, objects, way=way, deep=deep)
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


def _noted(store: Any, path: str, objects: FolderObjects) -> Any:
    """The store; what is read of it whole is read by `FolderObjects.read`."""
    from zarr.storage import WrapperStore

    start = f"{path}/" if path else ""

    class Noted(WrapperStore[Any]):
        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            if byte_range is not None or not key.startswith(start):
                return await super().get(key, prototype, byte_range)
            data = await objects.read(key.removeprefix(start))
            return None if data is None else prototype.buffer.from_bytes(data)

    return Noted(store)


class _Object(NamedTuple):
    """What pins an object."""

    size: int
    mtime_ns: int
    etag: str | None

    def is_other(self, than: _Object) -> bool:
        """Whether it was written anew; a listing and an answer tell the same of one."""
        if self.size != than.size:
            return True
        if self.etag and than.etag:
            return self.etag != than.etag
        return self.mtime_ns >= 0 and than.mtime_ns >= 0 and self.mtime_ns != than.mtime_ns


class FolderObjects:
    """The objects of a folder.

    Parameters
    ----------
    places
        Where they get their numbers.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self._together: list[str] = []
        """Keys of the metadata of all that is in a group, where they were read from there."""
        self._read: dict[str, _Object | None] = {}

    async def read(self, key: str) -> bytes | None:
        """An object of metadata, noted with what pins it; None where there is none."""
        place = self.places.place
        found: tuple[bytes, _Object] | None = None
        if is_url(place):
            from intarsia.io.remote_requests import whole

            client, start = self.places.client()
            answer = await whole(client, f"{start.rstrip('/')}/{key}".lstrip("/"))
            if answer is not None:
                found = bytes(answer.data), _Object(*answer[1:])
        else:
            found = await asyncio.to_thread(_file, os.path.join(place, key))
        self._read[key] = None if found is None else found[1]
        return None if found is None else found[0]

    def check(self, base: str, listed: Sequence[tuple[str, _Object]]) -> None:
        """See `groups.Objects`."""
        there = dict(listed)
        for name in METADATA:
            key = f"{base}/{name}" if base else name
            if key in self._read:
                self._require_same(key, there.get(name))

    def together(self, base: str, version: int) -> None:
        """See `groups.Objects`."""
        name = ".zmetadata" if version == 2 else "zarr.json"
        self._together.append(f"{base}/{name}" if base else name)

    def finish(self) -> None:
        """See `groups.Objects`."""
        for key in self._together:
            if key in self._read:  # else it was read from a group above
                self._require_same(key, self._now(key))

    def _now(self, key: str) -> _Object | None:
        place = f"{self.places.place.rstrip('/')}/{key}"
        if is_url(place):
            from intarsia.io.remote import head

            source, _ = head(place, self.places.access, 1)
            return _Object(source.size, source.mtime_ns, source.etag)
        found = _file(place)
        return None if found is None else found[1]

    def _require_same(self, key: str, now: _Object | None) -> None:
        before = self._read[key]
        same = before is now if before is None or now is None else not now.is_other(before)
        if not same:
            raise SourceChanged(
                f"{key} was written after it was read",
                url=self.places.place,
                remedy="open it again",
            )

    def below(self, base: str) -> Iterator[tuple[str, _Object]]:
        """See `groups.Objects`."""
        if is_url(self.places.place):
            yield from self._remote(base)
        else:
            yield from _local(os.path.join(self.places.place, base), "")

    def children(self, base: str) -> list[str]:
        """See `groups.Objects`."""
        place = self.places.place
        if not is_url(place):
            with listing(os.path.join(place, base)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        from intarsia.io.remote_requests import listed

        folder = self._folder(base)
        found = listed(folder, self.places.access, False)
        return sorted(url.removeprefix(folder)[:-1] for url in found if url.endswith("/"))

    def text(self, key: str) -> bytes | None:
        """See `groups.Objects`."""
        return self.places.text(key)

    def columns(self, base: str, entries: Sequence[tuple[str, _Object]]) -> Columns:
        """See `groups.Objects`."""
        empty = [key for key, entry in entries if not entry.size]
        if empty:
            raise FormatError(f"the chunk {base}/{empty[0]} is empty")
        first = self.places.add_listed(
            (f"{base}/{key}" if base else key, entry.size, entry.mtime_ns, entry.etag)
            for key, entry in entries
        )
        sizes = np.array([entry.size for _, entry in entries], np.int64)
        return Columns(np.arange(first, first + len(entries)), np.zeros_like(sizes), sizes, {})

    def _folder(self, base: str) -> str:
        return "/".join((self.places.place.rstrip("/"), *filter(None, [base]))) + "/"

    def _remote(self, base: str) -> Iterator[tuple[str, _Object]]:
        from intarsia.io.remote_requests import objects_below

        self.places.client()  # which is not for every process
        found = list(objects_below(self._folder(base), self.places.access))
        folders: set[str] = set()
        for key, *_ in found:
            while (key := key.rpartition("/")[0]) and key not in folders:
                folders.add(key)
        for key, size, mtime, etag in found:
            if size or key not in folders:  # some tools make empty objects that stand for folders
                yield key, _Object(size, mtime, etag)


def _file(path: str) -> tuple[bytes, _Object] | None:
    """A file of this machine with what pins it; None where there is none."""
    found = contents(path)
    if found is None:
        return None
    data, stat = found
    return data, _Object(stat.st_size, stat.st_mtime_ns, None)


def _local(folder: str, before: str) -> Iterator[tuple[str, _Object]]:
    with listing(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _local(entry.path, f"{before}{entry.name}/")
            else:
                stat = entry.stat()
                yield before + entry.name, _Object(stat.st_size, stat.st_mtime_ns, None)
