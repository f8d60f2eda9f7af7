"""Containers: the named places below which a store's sources lie, told relative to the store.

The location of a container is written into the store in one of two forms, with ``/`` whatever the
system, and ending in ``/``:

- ``./sst/`` or ``../../sst/``: seen from the folder *that the store lies in*, be the store a folder
  itself or a zip file: for ``/data/x.intarsia``, ``./sst/`` is ``/data/sst/``. It begins with
  ``./``, or with as many ``../`` as are needed; ``.`` and ``..`` stand nowhere else. The store's
  folder is taken without its symbolic links, and that of the file where the store's own path is
  one; links further down are followed.
- ``s3://bucket/sst/``: another place of the network.

A store is data from a stranger. What it says by itself reaches nowhere but to relative locations,
on its own host; any other place has to be named by the caller. A store on this machine may say
``../../../etc/``, though. What lies outside its folder is therefore only read if the store proves
to know it: by its modification time or by a sample of its content.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

from intarsia.errors import StoreError, UnsafeStore
from intarsia.io.sampling import UNKNOWN

type Pin = Literal["mtime", "size", "sample", "none"]
type Override = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]]
type IntArray = npt.NDArray[np.int64]

PINS = ("mtime", "size", "sample", "none")
"""What is checked of a source when it is read: size and time; size; size and content; nothing."""

MAX_CONTAINERS = 1_000
MAX_KEY = 4_096
"""Characters of a location or key."""
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_RELATIVE = re.compile(r"(\./|(?:\.\./){1,256})((?:[^/]+/)*)")
NAME = re.compile(r"[\w.-]{1,64}")
_FLAWS = [
    # in a text of keys with a NUL before, between and behind them; one by one this is faster
    (re.compile(r"[\0/](?=[\0/])"), "an empty segment"),
    # also as Windows and URLs see it
    (re.compile(r"[\0/](?:[. ]|%2[eE])+(?=[\0/])"), "a segment that leads elsewhere"),
    (re.compile(r"\0[A-Za-z]:"), "a drive"),
    (re.compile(r"[\x01-\x1f\x7f\\]"), "a backslash or control character"),
]


@dataclass(frozen=True, slots=True)
class Container:
    """A place that holds sources.

    Parameters
    ----------
    name
        What it is called when a store is opened with its sources elsewhere.
    location
        Where it is, as the store says (see the module).
    pin
        What is checked of its sources: ``"mtime"`` (size and modification time), ``"size"``,
        ``"sample"`` (size and sampled content) or ``"none"``.
    """

    name: str
    location: str
    pin: str = "mtime"

    @property
    def outside(self) -> bool:
        """Whether it lies outside the folder that the store lies in."""
        return not self.location.startswith("./")


def slashed(path: str) -> str:
    """The path of a folder, ending in ``/``, and with no other separator."""
    path = path.replace(os.sep, "/")
    return path if path.endswith("/") else path + "/"


def absolute(place: str | os.PathLike[str]) -> str:
    """A place that the caller names, ending in ``/``; paths are relative to the working folder."""
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not isinstance(text, str) or not text:
        raise StoreError(f"{place!r} is not the place of a container")
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    if SCHEME.match(text):
        return slashed(text)
    return slashed(os.path.abspath(os.path.expanduser(text)))


def check_mapping(containers: object) -> None:
    """Refuse containers that are not said by name.

    Raises
    ------
    TypeError
        If it is neither a mapping nor None.
    """
    if containers is not None and not isinstance(containers, Mapping):
        raise TypeError(
            f"containers must be a mapping of names to places, got {containers!r}: "
            "containers={'sst': '/data/sst'}"
        )


def settle(overrides: Mapping[str, Override] | None) -> dict[str, dict[str, str]]:
    """What a caller says of containers, in one form that means the same in other processes.

    Parameters
    ----------
    overrides
        For each name a location, or a mapping with ``location``, ``pin`` or both.

    Raises
    ------
    TypeError
        If it is no mapping.
    StoreError
        If it says anything else.
    """
    check_mapping(overrides)
    settled: dict[str, dict[str, str]] = {}
    for name, override in (overrides or {}).items():
        told = dict(override) if isinstance(override, Mapping) else {"location": override}
        if not told or told.keys() - {"location", "pin"} or told.get("pin", "mtime") not in PINS:
            raise StoreError(
                f"the container {name!r} can't be {override!r}",
                remedy=f"give a location, or location and pin, one of {', '.join(PINS)}",
            )
        own = {"location": absolute(told["location"])} if "location" in told else {}
        settled[name] = own | ({"pin": str(told["pin"])} if "pin" in told else {})
    return settled


def resolve(
    containers: Sequence[Container],
    store_url: str,
    overrides: Mapping[str, Override] | None = None,
) -> tuple[list[str], list[str]]:
    """Where containers are, and what is checked of their sources.

    Parameters
    ----------
    containers
        As the store has them.
    store_url
        Absolute path or URL of the store.
    overrides
        What the caller says of some, by name: a location, or a mapping with ``location``, ``pin``
        or both. It is trusted.

    Returns
    -------
    locations
        Absolute paths, or URLs, that end in ``/``.
    pins
        One of `PINS` each.

    Raises
    ------
    StoreError
        If the caller names a container that is not there.
    UnsafeStore
        If a container that the caller says nothing of is not relative, climbs out of the store's
        host, or lies outside the store's folder without its sources being pinned by more than
        their size; or if a name or location is no such thing.
    """
    said = settle(overrides)
    names = [container.name for container in containers]
    if len(names) > MAX_CONTAINERS or len(set(names)) < len(names):
        raise UnsafeStore(f"{len(names)} containers, too many or twice the same", url=store_url)
    strange = [name for name in names if not NAME.fullmatch(name)]
    if strange:
        raise UnsafeStore(f"a container called {strange[0][:80]!r}", url=store_url)
    unknown = sorted(said.keys() - set(names))
    if unknown:
        raise StoreError(
            f"there is no container {unknown[0]!r}",
            url=store_url,
            remedy=f"there are: {', '.join(names) or 'none'}",
        )
    own = [said.get(container.name, {}) for container in containers]
    return (
        [
            told["location"] if "location" in told else _located(container, store_url, bool(told))
            for container, told in zip(containers, own, strict=True)
        ],
        [told.get("pin", container.pin) for container, told in zip(containers, own, strict=True)],
    )


def _located(container: Container, store_url: str, trusted: bool) -> str:
    """Where a container is that the caller gives no location for."""
    weak = container.outside and not trusted and container.pin not in ("mtime", "sample")
    try:
        climb, down = parse_location(container.location)
        if weak:
            raise UnsafeStore("is outside the store's folder, and its sources are not pinned")
        return _joined(store_url, climb, down)
    except UnsafeStore as error:
        said = f"{{'pin': {container.pin!r}}}" if weak else "place"
        raise UnsafeStore(
            f"the container {container.name!r}, {container.location[:200]!r}, {error.reason}",
            url=store_url,
            remedy=f"if you trust it, say so: containers={{{container.name!r}: {said}}}",
        ) from error


def parse_location(location: str) -> tuple[int, str]:
    """How many folders a relative location climbs, and where it goes from there.

    Raises
    ------
    UnsafeStore
        If it is no relative location.

    Examples
    --------
    >>> parse_location("./"), parse_location("../../a/b/")
    ((0, ''), (2, 'a/b/'))
    """
    match = _RELATIVE.fullmatch(location) if len(location) <= MAX_KEY else None
    if match is None:
        raise UnsafeStore("is not relative to the store")
    if match[2]:
        try:
            check_keys([match[2][:-1]])
        except UnsafeStore as error:
            raise UnsafeStore(error.reason.replace("the name of a source has", "has")) from error
    return match[1].count(".."), match[2]


def _joined(store_url: str, climb: int, down: str) -> str:
    """The folder that lies there, seen from the folder that a store lies in."""
    if store_url.startswith("file://"):
        store_url = unquote(urlsplit(store_url).path)
    if not SCHEME.match(store_url):
        folder = os.path.dirname(os.path.realpath(store_url))
        return slashed(os.path.normpath(os.path.join(folder, "../" * climb, down)))
    parts = urlsplit(store_url)
    folders = [part for part in parts.path.split("/") if part][:-1]
    if climb > len(folders):
        raise UnsafeStore("climbs out of the store's host")
    above = "".join(f"{part}/" for part in folders[: len(folders) - climb])
    return f"{parts.scheme}://{parts.netloc}/{above}{down}"


def untrusted(
    containers: Iterable[Container], overrides: Mapping[str, Override] | None = None
) -> list[bool]:
    """Which containers' sources are only read if the store proves to know them."""
    said = overrides or {}
    return [container.outside and container.name not in said for container in containers]


def apply_pins(
    numbers: IntArray,
    pins: Sequence[str],
    untrusted: Sequence[bool],
    sizes: IntArray,
    mtimes_ns: IntArray,
    samples: Sequence[str | None],
) -> tuple[IntArray, IntArray, tuple[str | None, ...] | None]:
    """What is to be checked of each source, of what the store knows of it.

    Where the policy asks for a time or sample that is not known, the other one is checked.

    Parameters
    ----------
    numbers
        Of each source's container.
    pins, untrusted
        Of each container, as `resolve` and `untrusted` give them.
    sizes, mtimes_ns, samples
        Of each source, as the store has them; -1, and None or empty, where not known.

    Returns
    -------
    sizes, mtimes_ns, samples
        With -1 and None where nothing is checked. A source that must not be read, as nothing pins
        it, has a sample that no file has.
    """
    if not len(numbers):
        return sizes, mtimes_ns, None
    policy = np.array(pins)[numbers]
    has_sample = np.array([bool(sample) for sample in samples], bool)
    has_time = mtimes_ns >= 0
    timed = has_time & ((policy == "mtime") | (policy == "sample") & ~has_sample)
    sampled = has_sample & ((policy == "sample") | (policy == "mtime") & ~has_time)
    refused = np.array(untrusted, bool)[numbers] & ~timed & ~sampled
    kept = [
        UNKNOWN if no else sample if yes else None
        for sample, yes, no in zip(samples, sampled.tolist(), refused.tolist(), strict=True)
    ]
    return (
        np.where(policy == "none", -1, sizes),
        np.where(timed, mtimes_ns, -1),
        tuple(kept) if any(kept) else None,
    )


def check_keys(keys: Sequence[str], url: str | None = None) -> None:
    """Refuse keys that could lead out of their container, on this system or on another.

    A key is the relative path of a source: no empty, ``.`` or ``..`` segment (nor what Windows or
    a URL takes for one), no backslash, no drive, no control character.

    Parameters
    ----------
    keys
        Of any number of sources.
    url
        Of the store, for the error.

    Raises
    ------
    UnsafeStore
        If there is such a key.
    """
    if not keys:
        return
    text = "\0".join(["", *keys, ""])
    if text.count("\0") != len(keys) + 1 or max(map(len, keys)) > MAX_KEY:
        raise UnsafeStore("the name of a source has a NUL, or is too long", url=url)
    for pattern, why in _FLAWS:
        flaw = pattern.search(text)
        if flaw is not None:
            key = keys[text.count("\0", 0, flaw.start() + 1) - 1]
            raise UnsafeStore(f"the name of a source has {why}: {key[:200]!r}", url=url)
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise UnsafeStore("the name of a source is no text", url=url) from error
