"""The heads of files of the network that are about to be opened, fetched ahead of that."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial

from intarsia.io.paths import is_url
from intarsia.io.remote import head
from intarsia.io.remote_pool import submit
from intarsia.references import Access, Source

__all__ = ["HEAD", "ahead", "taken"]

HEAD = 1 << 18
"""Bytes of the first request for a file."""

WINDOW = 32
"""How many heads are fetched ahead, and held."""

type Head = tuple[Source, memoryview]


class _Ahead:
    """Places in the order in which they will be opened, and the heads of the next ones."""

    def __init__(self, places: list[str], access: Access | None) -> None:
        self._places = places
        self._number = {place: number for number, place in enumerate(places)}
        self._access = access
        self._heads: dict[int, Future[Head]] = {}
        self._next = 0

    def take(self, place: str, access: Access | None) -> Future[Head] | None:
        """The head of a place, and the next ones on their way."""
        number = self._number.get(place)
        if number is None or access != self._access:
            return None
        end = min(number + 1 + WINDOW, len(self._places))
        for coming in range(max(self._next, number), end):
            self._heads[coming] = submit(partial(head, self._places[coming], access, HEAD))
        self._next = max(self._next, end)
        for old in [old for old in self._heads if old < number - WINDOW]:
            self._heads.pop(old).cancel()  # nobody wanted it
        return self._heads.pop(number, None)

    def close(self) -> None:
        """Give up what nobody has taken."""
        for future in self._heads.values():
            future.cancel()
        self._heads.clear()


_active: list[_Ahead] = []
_lock = threading.Lock()


def _after_fork() -> None:
    """The child has none of the threads, and perhaps a lock that was held."""
    global _lock
    _lock = threading.Lock()
    _active.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def ahead(places: Iterable[str], access: Access | None = None) -> Generator[None]:
    """Fetch the heads of files ahead, while those before them are being scanned.

    The first that is opened starts it. What is opened in another process, or in quite another
    order, is fetched when it is opened, as without this.

    Parameters
    ----------
    places
        URLs in the order in which they will be opened; paths among them are ignored.
    access
        How they are reached: the very one that they will be opened with.

    Examples
    --------
    >>> with ahead(["https://example.org/a.nc", "https://example.org/b.nc"]):
    ...     pass  # open them
    """
    urls = list(dict.fromkeys(place for place in places if is_url(place)))
    if len(urls) < 2:
        yield
        return
    coming = _Ahead(urls, access)
    with _lock:
        _active.append(coming)
    try:
        yield
    finally:
        with _lock:
            _active.remove(coming)
            coming.close()


def taken(place: str, access: Access | None) -> Head | None:
    """The head of a file if it was fetched ahead, for its first opening.

    Raises
    ------
    SourceError
        It could not be fetched.
    """
    with _lock:
        futures = [coming.take(place, access) for coming in _active]
    found = next((future for future in futures if future is not None), None)
    return None if found is None else found.result()
