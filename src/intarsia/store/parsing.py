"""Reading JSON from a stranger: every value is checked where it is taken, and errors say where."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from intarsia.errors import CorruptStore

MAX_BYTES = 1 << 27
"""A longer document is neither read nor written; in memory it takes up to twenty times as much."""

SAFE = 1 << 53
"""Integers up to here mean the same in every language."""


def parse(data: bytes, url: str) -> Reader:
    """Parse a document whose outermost value is an object.

    Raises
    ------
    CorruptStore
        If it is not JSON, repeats a key, nests too deeply, or has numbers that are not integers.
    """
    if len(data) > MAX_BYTES:
        raise CorruptStore(f"a document of {len(data)} bytes", url=url)
    try:
        document = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_constant=_refused,
            parse_float=_refused,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise CorruptStore("the document nests too deeply", url=url) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise CorruptStore(f"not a sound JSON document: {error}", url=url) from error
    return Reader(document, url, "")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _refused(text: str) -> Any:
    raise ValueError(f"{text[:40]} is not allowed; only integers are")


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


class Reader:
    """A JSON object, and where in the document it is."""

    __slots__ = ("_where", "url", "value")

    def __init__(self, value: Any, url: str, where: str) -> None:
        self.value = value
        self.url = url
        self._where = where
        if not isinstance(value, dict):
            raise self.error("should be an object")

    def error(self, reason: str, key: str | None = None) -> CorruptStore:
        """The error that says what is wrong here."""
        path = self._where if key is None else f"{self._where}/{key[:80]}"
        return CorruptStore(f"root.json, {path or '/'}: {reason}", url=self.url)

    def _get(self, key: str) -> Any:
        try:
            return self.value[key]
        except KeyError:
            raise self.error("is missing", key) from None

    def has(self, key: str) -> bool:
        """Whether there is such a key."""
        return key in self.value

    def only(self, *keys: str) -> None:
        """Refuse any other key."""
        other = sorted(self.value.keys() - set(keys))
        if other:
            raise self.error("is not known", other[0])

    def child(self, key: str) -> Reader:
        """An object."""
        return Reader(self._get(key), self.url, f"{self._where}/{key}")

    def children(self) -> Iterator[tuple[str, Reader]]:
        """All members, which have to be objects."""
        for key in self.value:
            yield key, self.child(key)

    def listed(self, key: str) -> Iterator[Reader]:
        """The objects of a list."""
        for number, value in enumerate(self.sequence(key)):
            yield Reader(value, self.url, f"{self._where}/{key}/{number}")

    def sequence(self, key: str) -> list[Any]:
        """A list."""
        found = self._get(key)
        if not isinstance(found, list):
            raise self.error("should be a list", key)
        return cast("list[Any]", found)

    def text(self, key: str, limit: int = 1 << 16) -> str:
        """A string."""
        found = self._get(key)
        if not isinstance(found, str) or len(found) > limit:
            raise self.error("should be a string, and not too long", key)
        return found

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        found = self.sequence(key)
        if not all(isinstance(item, str) and len(item) <= 1 << 20 for item in found):
            raise self.error("should be a list of strings", key)
        return found

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of some strings."""
        found = self.text(key)
        if found not in choices:
            raise self.error(f"should be one of {', '.join(choices)}", key)
        return found

    def boolean(self, key: str) -> bool:
        """True or false."""
        found = self._get(key)
        if not isinstance(found, bool):
            raise self.error("should be true or false", key)
        return found

    def integer(self, key: str, low: int = -SAFE, high: int = SAFE) -> int:
        """An integer within bounds."""
        return self._bounded(self._get(key), key, low, high)

    def _bounded(self, found: Any, key: str, low: int, high: int) -> int:
        if not isinstance(found, int) or isinstance(found, bool):
            raise self.error("should be an integer", key)
        if not low <= found <= high:
            raise self.error(f"{found} is not between {low} and {high}", key)
        return found

    def integers(self, key: str, low: int = -SAFE, high: int = SAFE) -> tuple[int, ...]:
        """A list of integers within bounds."""
        return tuple(self._bounded(item, key, low, high) for item in self.sequence(key))

    def pairs(self, key: str) -> list[tuple[int, int]]:
        """A list of pairs of integers that are not negative."""
        found: list[tuple[int, int]] = []
        for item in self.sequence(key):
            pair = cast("list[Any]", item)
            if not isinstance(item, list) or len(pair) != 2:
                raise self.error("should be a list of pairs", key)
            one, two = (self._bounded(number, key, 0, SAFE) for number in pair)
            found.append((one, two))
        return found

    def name(self, key: str) -> str:
        """The name of an object of the store, which lies in it."""
        found = self.text(key, 4096)
        parts = found.split("/")
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise self.error("is not the name of an object", key)
        try:
            found.encode()
        except UnicodeEncodeError as error:
            raise self.error("is not the name of an object", key) from error
        return found
