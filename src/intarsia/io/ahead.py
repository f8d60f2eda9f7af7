"""The heads of files of the network that are about to be opened, fetched ahead of that."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial

from intarsia.access import Access
from intarsia.forks import after_fork
from intarsia.io.paths import is_url
from intarsia.io.remote import head
from intarsia.io.remote_pool import submit
from intarsia.references import Source

__all__ = ["HEAD", "ahead", "taken"]

HEAD = 1 << 18
"""Bytes of the first request for a file."""

WINDOW = 32
"""How many heads are fetched ahead, and held."""

type Head = tuple[Source, memoryview]


class _Ahead:
    """Places in the order in which they will be opened, and the heads of the next ones."""

    def __init__(self, places: list[str]) -> None:
        self._places = places
        self._number = {place: number for number, place in enumerate(places)}
        self._heads: dict[int, tuple[Access | None, Future[Head]]] = {}
        self._next = 0

    def take(self, place: str, access: Access | None) -> Future[Head] | None:
        """The head of a place, and the next ones on their way, reached as this one is."""
        number = self._number.get(place)
        if number is None:
            return None
        end = min(number + 1 + WINDOW, len(self._places))
        for coming in range(max(self._next, number + 1), end):
            other = self._places[coming]
            if other.split("/")[:3] == place.split("/")[:3]:  # who else is told no secrets
                self._heads[coming] = access, submit(partial(head, other, access, HEAD))
        self._next = max(self._next, end)
        for old in [old for old in self._heads if old < number - WINDOW]:
            self._heads.pop(old)[1].cancel()  # nobody wanted it
        found, future = self._heads.pop(number, (None, None))
        return future if found == access else None

    def close(self) -> None:
        """Give up what nobody has taken."""
        for _, future in self._heads.values():
            future.cancel()
        self._heads.clear()


_active: list[_Ahead] = []
_lock = threading.Lock()


@after_fork
def _after_fork() -> None:
    """The child has none of the threads, and perhaps a lock that was held."""
    global _lock
    _lock = threading.Lock()
    _active.clear()


@contextmanager
def ahead(places: Iterable[str]) -> Generator[None]:
    """Fetch the heads of files ahead, while those before them are being opened.

    The first that is opened tells how the others are reached. What is opened in another way, in
    another process or in quite another order is fetched when it is opened, as without this.

    Parameters
    ----------
    places
        Paths and URLs in the order in which they will be opened; the paths count for nothing.

    Examples
    --------
    >>> with ahead(["https://example.org/a.nc", "https://example.org/b.nc"]):
    ...     pass  # open them
    """
    urls = list(dict.fromkeys(place for place in places if is_url(place)))
    coming = _Ahead(urls)
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
