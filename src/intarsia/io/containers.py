"""Containers: the named places below which a store's sources lie, told relative to the store.

The location of a container is written into the store in one of two forms, with ``/`` whatever the
system, and ending in ``/``:

- ``./sst/`` or ``../../sst/``: seen from the folder *that the store lies in*, be the store a folder
  itself or a zip file: for ``/data/x.intarsia``, ``./sst/`` is ``/data/sst/``. It begins with
  ``./``, or with as many ``../`` as are needed; ``.`` and ``..`` stand nowhere else. The store's
  folder is taken without its symbolic links, and that of the file where the store's own path is
  one; links further down are followed.
- ``s3://bucket/sst/``: a place of the network, and with it how that is reached, as far as it may be
  told.

A store is data from a stranger. What it says by itself reaches nowhere but to relative locations,
on its own host, and to what is public in the network (see `intarsia.io.reach`); any other place has
to be named by the caller (see `intarsia.io.overrides`). A store on this machine may say
``../../../etc/``, though, or the bucket of its reader. What lies outside its folder, and what is
read with the reader's credentials, is therefore only read if the store proves to know it: by its
modification time, its entity tag, or a sample of its content.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

from intarsia.access import Access
from intarsia.errors import StoreError, UnsafeStore
from intarsia.io.access import access_of
from intarsia.io.overrides import Override, settle, slashed
from intarsia.io.paths import is_url
from intarsia.io.reach import MAX_LOCATION, Option, check_location, check_reach
from intarsia.io.sampling import UNKNOWN

type IntArray = npt.NDArray[np.int64]
type Texts = tuple[str | None, ...]

NOWHERE = "refused://nowhere/"
"""Where a container is that is refused: nothing reads such URLs."""

MAX_CONTAINERS = 1_000
MAX_KEY = MAX_LOCATION
"""Characters of a location or key."""
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
        What is checked of its sources: ``"mtime"`` (size, and modification time and entity tag
        as far as they are known), ``"size"``, ``"sample"`` (size and sampled content) or
        ``"none"``.
    access
        How it is reached, where it is a URL: options that are no secrets.
    """

    name: str
    location: str
    pin: str = "mtime"
    access: tuple[tuple[str, Option], ...] = ()

    @property
    def outside(self) -> bool:
        """Whether it lies outside the folder that the store lies in."""
        return not self.location.startswith("./")


class Places(NamedTuple):
    """Where the containers of a store are, and what that means for their sources.

    It says the same in other processes. Of secrets, it holds those that the caller gave.

    Parameters
    ----------
    locations
        Absolute paths, or URLs, that end in ``/``.
    pins
        What is checked of their sources: one of `PINS` each.
    untrusted
        Whether their sources are only read if the store proves to know them.
    accesses
        How they are reached.
    """

    locations: tuple[str, ...]
    pins: tuple[str, ...]
    untrusted: tuple[bool, ...]
    accesses: tuple[Access | None, ...]


def resolve(
    containers: Sequence[Container],
    store_url: str,
    overrides: Mapping[str, Override] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
    refused: dict[str, StoreError] | None = None,
) -> Places:
    """Where containers are, how they are reached, and what is checked of their sources.

    Parameters
    ----------
    containers
        As the store has them.
    store_url
        Absolute path or URL of the store.
    overrides
        What the caller says of some, by name (see `intarsia.io.overrides.settle`). It is trusted.
        What a store says of how a place is reached says nothing of another location.
    storage_options, registry
        How URLs are reached, as for `open_dataset`, for all that `overrides` say nothing of.
        Option by option, what the caller says goes before what the store says.
    refused
        Takes the containers that are refused, and why, where that is no error. They are nowhere
        then, and nothing can be read from them.

    Raises
    ------
    StoreError
        If the caller names a container that is not there.
    UnsafeStore
        If a container that the caller gives no location for is not relative nor public (see
        `intarsia.io.reach`), climbs out of the store's host, or lies outside the store's folder
        without its sources being pinned by more than their size; or if a name or location is no
        such thing.
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
    general = {"storage_options": storage_options, "registry": registry}
    found: list[tuple[str, str, bool, Access | None]] = []
    for one in containers:
        try:
            found.append(_place(one, said.get(one.name, {}), general, store_url))
        except StoreError as error:
            if refused is None or one.name in said:
                raise
            refused[one.name] = error
            found.append((NOWHERE, one.pin, True, None))
    return Places(*zip(*found, strict=True)) if found else Places((), (), (), ())


def _place(
    container: Container, told: Mapping[str, Any], general: Mapping[str, Any], store_url: str
) -> tuple[str, str, bool, Access | None]:
    """What `Places` says of one container."""
    pin = told.get("pin", container.pin)
    own = {key: told[key] for key in general if key in told}
    location = told.get("location", container.location)
    if not is_url(location):
        if own:
            raise StoreError(
                f"the container {container.name!r} is on this machine, where "
                f"{next(iter(own))} says nothing",
                url=store_url,
            )
        if "location" in told:
            return location, pin, False, None
        location = _located(container, store_url, bool(told))
        return location, pin, container.outside and not told, None
    how = own or general
    if "location" in told:
        return location, pin, False, _given(location, how)
    access = _reached(container, store_url, how)
    anonymous = access is not None and (dict(access.options).get("skip_signature") is True)
    # with credentials, a stranger's store could show what only their owner may see
    untrusted = not told and not location.startswith("https:") and not anonymous
    return location, pin, untrusted, access


def _reached(container: Container, store_url: str, how: Mapping[str, Any]) -> Access | None:
    """How a place is reached that the store names, if the caller need not do so."""
    location = container.location
    try:
        check_location(location)
        if how.get("registry") is not None:  # says what is where, so that the caller names it
            return _given(location, how)
        guarded = check_reach(location, {})
    except UnsafeStore as error:
        raise _refused(container, store_url, error, "place") from error
    given = _given(location, how)
    own = dict(given.options) if given is not None else {}
    if own and guarded:
        raise StoreError(
            "what the storage_options hold would be sent to a host that the store names, not you: "
            f"that of the container {container.name!r}, {location[:200]!r}",
            url=store_url,
            remedy=f"name the place, too: containers={{{container.name!r}: {{'location': ..., "
            "'storage_options': ...}}",
        )
    options = {name: value for name, value in container.access if name not in own}
    try:
        check_reach(location, options)
    except UnsafeStore as error:
        raise _refused(container, store_url, error, "place") from error
    merged = tuple(sorted((options | own).items()))
    return Access(merged, guarded=guarded) if merged or guarded else None


def _given(location: str, how: Mapping[str, Any]) -> Access | None:
    """How sources at a location are reached, as the caller says."""
    if how.get("registry") is None and not how.get("storage_options"):
        return None
    return access_of(f"{location}-", **how)  # registries know objects, not folders


def _refused(container: Container, store_url: str, error: UnsafeStore, said: str) -> UnsafeStore:
    return UnsafeStore(
        f"the container {container.name!r}, {container.location[:200]!r}, {error.reason}",
        url=store_url,
        remedy=error.remedy
        or f"if you trust it, say so: containers={{{container.name!r}: {said}}}",
    )


def _located(container: Container, store_url: str, trusted: bool) -> str:
    """Where a container is that the caller gives no location for, and that is no URL."""
    weak = container.outside and not trusted and container.pin not in ("mtime", "sample")
    try:
        climb, down = parse_location(container.location)
        if weak:
            raise UnsafeStore("is outside the store's folder, and its sources are not pinned")
        return _joined(store_url, climb, down)
    except UnsafeStore as error:
        said = f"{{'pin': {container.pin!r}}}" if weak else "place"
        raise _refused(container, store_url, error, said) from error


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
        raise UnsafeStore("is neither relative to the store nor the URL of a folder")
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
    if not is_url(store_url):
        folder = os.path.dirname(os.path.realpath(store_url))
        return slashed(os.path.normpath(os.path.join(folder, "../" * climb, down)))
    parts = urlsplit(store_url)
    folders = [part for part in parts.path.split("/") if part][:-1]
    if climb > len(folders):
        raise UnsafeStore("climbs out of the store's host")
    above = "".join(f"{part}/" for part in folders[: len(folders) - climb])
    return f"{parts.scheme}://{parts.netloc}/{above}{down}"


def apply_pins(
    numbers: IntArray,
    places: Places,
    sizes: IntArray,
    mtimes_ns: IntArray,
    samples: Sequence[str | None] | None,
    etags: Sequence[str | None] | None,
) -> tuple[IntArray, IntArray, Texts | None, Texts | None]:
    """What is to be checked of each source, of what the store knows of it.

    Where the policy asks for a time or sample that is not known, the other one is checked. The
    entity tag goes with the time; files of this machine have none.

    Parameters
    ----------
    numbers
        Of each source's container.
    places
        Of the containers.
    sizes, mtimes_ns, samples, etags
        Of each source, as the store has them; -1, and None or empty, where not known; None where
        none is.

    Returns
    -------
    sizes, mtimes_ns, samples, etags
        With -1 and None where nothing is checked. A source that must not be read, as nothing pins
        it, has a sample that no file has.
    """
    if not len(numbers):
        return sizes, mtimes_ns, None, None
    policy = np.array(places.pins)[numbers]
    remote = np.array([is_url(location) for location in places.locations], bool)[numbers]
    has_sample, has_etag = _known(samples, numbers), _known(etags, numbers) & remote
    has_time = mtimes_ns >= 0
    dated = (policy == "mtime") | (policy == "sample") & ~has_sample
    timed, tagged = has_time & dated, has_etag & dated
    sampled = has_sample & ((policy == "sample") | (policy == "mtime") & ~has_time & ~has_etag)
    refused = np.array(places.untrusted, bool)[numbers] & ~timed & ~sampled & ~tagged
    checked = _chosen(samples, sampled)
    if refused.any():
        none = checked or (None,) * len(numbers)
        pairs = zip(none, refused.tolist(), strict=True)
        checked = tuple([UNKNOWN if no else sample for sample, no in pairs])
    return (
        np.where(policy == "none", -1, sizes),
        np.where(timed, mtimes_ns, -1),
        checked,
        _chosen(etags, tagged),
    )


def _known(texts: Sequence[str | None] | None, like: IntArray) -> npt.NDArray[np.bool_]:
    if texts is None:
        return np.zeros(len(like), bool)
    return np.array([bool(text) for text in texts], bool)


def _chosen(texts: Sequence[str | None] | None, chosen: npt.NDArray[np.bool_]) -> Texts | None:
    if texts is None or not chosen.any():
        return None
    return tuple([text if yes else None for text, yes in zip(texts, chosen.tolist(), strict=True)])


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
