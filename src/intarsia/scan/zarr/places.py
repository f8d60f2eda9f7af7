"""The files that manifests name: numbers, pins, and the registry that parsers find them with."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from stat import S_ISDIR
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

from intarsia.errors import SourceError, SourceMissing, UnsupportedError, shown
from intarsia.io.access import family_of
from intarsia.io.files import contents
from intarsia.io.paths import is_url, split_place
from intarsia.io.reach import host_flaw
from intarsia.references import Access, Source, Sources
from intarsia.scan.zarr.formats import folder_format
from intarsia.scan.zarr.manifests import NOWHERE

__all__ = ["Places", "url_of"]

type IntArray = npt.NDArray[Any]

FEW = 8
"""Objects of the network that a request each is spent on, to pin them."""


def url_of(place: str) -> str:
    """The URL that a parser is given for a place.

    Raises
    ------
    UnsupportedError
        If it can't be told as one: parsers take the path out of it again as it is.
    """
    if is_url(place):
        return place
    odd = sorted(set(place) & set("?#%"))
    if odd or not place.isprintable():
        raise UnsupportedError(
            f"the path has {odd[0]!r} in it, which parsers misread" if odd else "its path is odd",
            url=place,
            remedy="rename it, or a folder that it is in",
        )
    return "file://" + place


class Places:
    """Numbers for the files of one scan, the scanned place first.

    Parameters
    ----------
    place
        Absolute path, or URL; empty where nothing is scanned, but manifests are at hand.
    access
        How URLs are reached: as the place is, or what gives it for each.
    pinned
        The place, with its pins, where it was looked at already.
    """

    def __init__(
        self,
        place: str,
        access: Access | Callable[[str], Access | None] | None,
        pinned: Source | None = None,
    ) -> None:
        self.place = place
        self._access_of = access if callable(access) else self._as_the_place
        if callable(access):
            access = access(place) if is_url(place) else None
        self.access = access
        self._numbers: dict[str, int] = {}
        self._pinned: list[Source] = []
        self._folders: dict[str, str] = {}
        if pinned is not None:
            self._numbers[url_of(place)] = 0
            self._pinned.append(pinned)
        elif place:
            self._number(url_of(place))

    # -- what parsers need -----------------------------------------------------------------------

    def client(self) -> tuple[Any, str]:
        """The client that reads the place, which is a URL, and what it calls it.

        Raises
        ------
        UnsupportedError
            In a forked process, in which it would wait for ever.
        """
        from intarsia.io.remote_clients import client_of
        from intarsia.io.remote_relay import is_needed

        if is_needed():
            raise UnsupportedError(
                "this process was forked from one that had read from the network, and such files "
                "can't be opened in it",
                url=self.place,
                remedy="start processes by 'spawn' or 'forkserver', or open it before",
            )
        return client_of(self.place, self.access)

    def check_listed(self) -> None:
        """Refuse a folder of a web server: where nothing is listed, nothing seems to be there.

        Some answer WebDAV's way of asking by "not found", others tell one level of many. Both
        would be taken for chunks that were never written.

        Raises
        ------
        UnsupportedError
            If it is one.
        """
        if not is_url(self.place):
            return
        client, _ = self.client()
        if type(client).__name__ == "HTTPStore":
            raise UnsupportedError(
                "web servers do not tell what they have, and so not which chunks of a Zarr folder "
                "there are",
                url=self.place,
                remedy="open it where it can be listed (s3://, ...), or by references of kerchunk",
            )

    def text(self, key: str) -> bytes | None:
        """The bytes of a small object in the scanned folder; None where there is none."""
        if is_url(self.place):
            from intarsia.io.remote_requests import fetch

            try:
                return bytes(fetch(f"{self.place.rstrip('/')}/{key}", self.access, {}).data)
            except SourceMissing:
                return None
        found = contents(os.path.join(self.place, key))
        return None if found is None else found[0]

    def registry(self) -> Any:
        """Object stores by URL, as VirtualiZarr takes them."""
        from obspec_utils.registry import ObjectStoreRegistry
        from obstore.store import LocalStore

        registry: Any = ObjectStoreRegistry({"file://": LocalStore("/")})
        if is_url(self.place):
            client, key = self.client()
            registry.register(self.place.removesuffix(key) if key else self.place, client)
        return registry

    # -- files by number -------------------------------------------------------------------------

    def numbers(self, paths: npt.NDArray[Any], there: npt.NDArray[np.bool_]) -> IntArray:
        """Numbers of the files that these paths name, and `NOWHERE` where nothing is there.

        Parameters
        ----------
        paths
            Flat array of text: URLs, or absolute paths.
        there
            Which of them count.
        """
        result = np.full(paths.shape, NOWHERE, np.int64)
        chosen = paths[there]
        if not len(chosen):
            return result
        if (chosen == chosen[0]).all():
            result[there] = self._number(str(chosen[0]))
            return result
        distinct, first, inverse = np.unique(chosen, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")  # as they come, so that neighbours stay so
        numbers = np.empty(len(distinct), np.int64)
        numbers[order] = [self._number(str(path)) for path in distinct[order]]
        result[there] = numbers[inverse.reshape(-1)]
        return result

    def size_of(self, number: int) -> int:
        """Bytes of a file by its number.

        Raises
        ------
        UnsupportedError
            If they are not known.
        """
        source = self._pinned[number]
        if source.size < 0:
            raise UnsupportedError(
                f"a reference to the whole of {shown(source.url)}, of which no size is known"
            )
        return source.size

    def add_listed(self, entries: Iterable[tuple[str, int, int, str | None]]) -> int:
        """Number objects of the scanned folder one after the other; gives the first number.

        Parameters
        ----------
        entries
            Key in the folder, size, time in nanoseconds, and entity tag of each.
        """
        first = len(self._pinned)
        home = self.place.rstrip("/") + "/"
        home = self._folders.setdefault(home, home)
        self._pinned += [
            Source(home, key, size, mtime, etag, access=self.access)
            for key, size, mtime, etag in entries
        ]
        return first

    def _number(self, path: str) -> int:
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._pinned)
            self._pin(path)
        return number

    def _pin(self, path: str) -> None:
        place = self._place(path)
        source = Source(*self._split(place), -1, -1)
        if is_url(self.place) and not is_url(place):
            raise UnsupportedError(
                f"it leads from the network to a file of this machine, {place}",
                remedy="if that is meant, fetch it and open it here",
            )
        if is_url(place):
            self._check_side(place)
            source = source._replace(access=self._way_to(place))
            self._pinned.append(self._looked_at(source))
            return
        try:
            stat = os.stat(place)
        except OSError:
            pass  # found missing when it is read
        else:
            if not S_ISDIR(stat.st_mode):
                source = source._replace(size=stat.st_size, mtime_ns=stat.st_mtime_ns)
        self._pinned.append(source)

    def _way_to(self, place: str) -> Access | None:
        """How what a manifest names is reached.

        Raises
        ------
        UnsupportedError
            If the caller has not said so.
        """
        try:
            return self._access_of(place)
        except ValueError as error:
            raise UnsupportedError(f"it leads to {shown(place)}: {error}") from error

    def _check_side(self, place: str) -> None:
        """Refuse what leads from a public place to a private network: who wrote it is not there.

        Raises
        ------
        UnsupportedError
            Before anything is sent.
        """
        here, there = urlsplit(self.place), urlsplit(place)
        if not is_url(self.place) or family_of(place) != "http" or here.netloc == there.netloc:
            return
        options = dict(self.access.options) if self.access is not None else {}
        if self.access is not None and self.access.store is not None:
            return
        if {"endpoint", "base_url"} & options.keys():
            return  # a service of one's own
        if family_of(self.place) == "http" and host_flaw(here.hostname or ""):
            return
        flaw = host_flaw(there.hostname or "")
        if flaw is not None:
            raise UnsupportedError(
                f"it leads from a public place to {shown(place)}, whose host {flaw}",
                remedy="if that is meant, fetch it and open it here",
            )

    def _looked_at(self, source: Source) -> Source:
        """An object of the network with its pins, where few have to be looked at for that."""
        if len(self._pinned) > FEW or folder_format(source.url) is not None:
            return source
        from intarsia.io.remote import head

        try:
            found, _ = head(source.url, source.access, 1)
        except SourceError:
            return source  # found missing when it is read
        return source._replace(size=found.size, mtime_ns=found.mtime_ns, etag=found.etag)

    def _split(self, place: str) -> tuple[str, str]:
        """Container and key; all that lies in a scanned folder has that for a container."""
        home = self.place.rstrip("/") + "/"
        if self.place and place.startswith(home):
            container, key = home, place[len(home) :]
        else:
            container, key = split_place(place)
        return self._folders.setdefault(container, container), key

    def _place(self, path: str) -> str:
        """The path of this machine, or the URL, that a manifest means."""
        if self.place and path == url_of(self.place):
            return self.place
        if not path.startswith("file://"):
            return path if is_url(path) else os.path.abspath(path)
        raw = urlsplit(path, allow_fragments=False).path if "?" not in path else path[7:]
        plain = unquote(raw)
        if plain == raw or os.path.exists(plain):
            if plain != raw and os.path.exists(raw):
                raise UnsupportedError(f"two files could be meant, this one and {plain}", url=raw)
            return plain
        return raw if os.path.exists(raw) else plain

    def _as_the_place(self, place: str) -> Access | None:
        access = self.access
        if access is None:
            return None
        if access.store is not None:
            return access if place.startswith(access.prefix) else None
        here, there = urlsplit(self.place), urlsplit(place)
        same = here.scheme == there.scheme
        if family_of(self.place) == "http":  # what lets one in here is no business of others
            same = same and here.netloc == there.netloc
        return access if same else None

    def sources(self, choices: str) -> Sources:
        """The table, with what was asked for."""
        found = self._pinned or [Source("", "a dataset without files", -1, -1)]
        return Sources.of([source._replace(scan=choices) for source in found])

    def notes(self) -> list[str]:
        """What has to be said of how files are pinned."""
        files = self._pinned[1:] if self.place else self._pinned
        if not any(source.size < 0 and is_url(source.url) for source in files):
            return []
        return [
            "nothing pins its files on the network: what is there is taken for what was scanned"
        ]
