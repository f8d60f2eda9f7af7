"""Where a store that is written says its sources are, and whether it would be put onto one of them.

What containers are is told in `intarsia.io.containers`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from urllib.parse import urlsplit, urlunsplit

from intarsia.access import Access
from intarsia.errors import StoreError, UnsafeStore
from intarsia.io.access import FAMILIES
from intarsia.io.containers import MAX_CONTAINERS, NAME, Container, check_keys, parse_location
from intarsia.io.overrides import absolute, check_mapping, slashed
from intarsia.io.paths import is_url
from intarsia.io.reach import Option, check_location, told_options
from intarsia.references import Sources

type Told = tuple[tuple[str, Option], ...]
"""How a place is reached, as far as it is told."""

FEW = 16
"""Folders side by side that become containers of their own, where their parent is too wide."""

_SIGNED = re.compile(
    r"x-(amz|goog)-.+|x-id|awsaccesskeyid|googleaccessid|key-pair-id|policy|signature|expires|"
    r"(access_)?token|sig|s[eiprstv]|s(ip|pr|rt|dd)|sk(oid|tid|[tesv])",
    re.IGNORECASE,
)
"""Parameters of a query that let a request in, and don't say what is asked for."""


def plan_containers(
    sources: Sources, store_path: str, named: Mapping[str, str] | None = None
) -> tuple[list[Container], list[tuple[int, str]]]:
    """Containers for the sources of a store that is to be written.

    Sources below a place that the caller names go there, the longest path first. The others go
    into one container for all that lie in or below the store's folder, and one for the rest: the
    deepest folder common to them. Where that would be the root of the file system or right below
    it (``/data/``), the folders in it are containers instead, unless they are many. Of URLs, each
    host or bucket has its own. Sources that are reached in different ways are never in one
    container.

    Parameters
    ----------
    sources
        At absolute paths, or URLs.
    store_path
        Absolute path of the store.
    named
        Paths by name.

    Returns
    -------
    containers
        Those that hold sources: first the named ones.
    places
        For each source the number of its container, and its key there.

    Raises
    ------
    StoreError
        If a name or place can't be used, no source lies in a place that was named, or a URL can't
        be told without the secrets in it.
    UnsafeStore
        If the name of a source could not be read again.
    """
    where = [_split(sources.url(n), _access(sources, n)) for n in range(len(sources))]
    folders = sorted({folder for folder, _, _ in where})
    homes: dict[str, str] = {}  # of the containers, by name; by path where the name is to be found
    roots: dict[str, str] = {}  # paths to what is a key of `homes`
    check_mapping(named)
    for name, place in (named or {}).items():
        if not isinstance(name, str) or not NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise StoreError(
                f"{str(name)[:80]!r} can't be the name of a container",
                remedy="use letters, digits and _ . -, 64 at most",
            )
        home = absolute(place)
        home = _cleaned(home)[0] if is_url(home) else home
        spellings = {home} if is_url(home) else {home, slashed(os.path.realpath(home))}
        if not any(folder.startswith(root) for folder in folders for root in spellings):
            raise StoreError(f"no source lies in the container {name!r}", url=home)
        homes[name] = home
        roots.update(dict.fromkeys(spellings, name))
    parent = os.path.dirname(store_path)
    rest = [folder for folder in folders if not any(map(folder.startswith, roots))]
    for home in _found(rest, slashed(parent)):
        homes[home] = roots[home] = home

    longest = sorted(roots, key=len, reverse=True)
    root_of = {folder: next(filter(folder.startswith, longest)) for folder in folders}
    used = {(roots[root_of[folder]], how) for folder, _, how in where}
    order = {key: number for number, key in enumerate(homes)}
    numbers = {
        key: number
        for number, key in enumerate(
            sorted(used, key=lambda it: (order[it[0]], it[1] != (), repr(it[1])))
        )
    }
    base = os.path.realpath(parent)
    names = {key for key, _ in used}  # also those that are still to be found: none is a name
    taken: set[str] = set()
    containers: list[Container] = []
    for key, how in numbers:
        home = homes[key]
        location = home if is_url(home) else _relative(home, base)
        if key == home or key in taken:
            name = _name(location if key == home else key, names | taken)
        else:
            name = key
        taken.add(name)
        containers.append(Container(name, location, access=how))
    places = [
        (numbers[roots[root_of[folder]], how], folder[len(root_of[folder]) :] + key)
        for folder, key, how in where
    ]
    for container in containers:
        if is_url(container.location):
            check_location(container.location)
        else:
            parse_location(container.location)
    check_keys([key for _, key in places])
    return containers, places


def _access(sources: Sources, number: int) -> Access | None:
    return None if sources.accesses is None else sources.accesses[number]


def _split(url: str, access: Access | None) -> tuple[str, str, Told]:
    """Folder, ending in ``/``, and name of a source, and how it is reached."""
    if is_url(url):
        clean, more = _cleaned(url)
        folder, _, key = clean.rpartition("/")
        return f"{folder}/", key, tuple(sorted((dict(more) | dict(told_options(access))).items()))
    if os.path.normpath(url) != url:  # where ``..`` leads depends on symbolic links
        url = os.path.join(os.path.realpath(os.path.dirname(url)), os.path.basename(url))
    folder, key = os.path.split(url)
    return slashed(folder), key, ()


_SPELLINGS = {scheme: family for scheme, family in FAMILIES.items() if family != "http"}
"""The scheme that stores use, of those that mean the same."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ACCOUNT = re.compile(r"([^@/]+)@([a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net")


def _cleaned(url: str) -> tuple[str, Told]:
    """The URL without what lets one in, and what it says of how it is reached."""
    if _CONTROL.search(url):  # the parser of URLs would leave some of them out
        raise UnsafeStore(f"the name of a source has a control character: {url[:200]!r}")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise StoreError(f"the place of a source is no URL: {error}") from error
    scheme = _SPELLINGS.get(parts.scheme, parts.scheme)
    host, more = parts.netloc.rpartition("@")[2], ()
    if scheme == "az" and "@" in parts.netloc:
        match = _ACCOUNT.fullmatch(parts.netloc)
        if match is None:
            raise StoreError("a source of Azure that no store can name", url=url.partition("?")[0])
        host, more = match[1], (("account_name", match[2]),)
    clean = urlunsplit((scheme, host, parts.path, "", ""))
    asked = [item.partition("=")[0] for item in parts.query.split("&") if item]
    kept = [name for name in asked if not _SIGNED.fullmatch(name)]
    if kept or parts.fragment or not host:
        what = f"its query ({', '.join(kept)})" if kept else "a part of its URL"
        raise StoreError(f"a source can't be named in a store without {what}", url=clean)
    return clean, more


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"<>]+")


def without_secrets(text: str) -> str:
    """A text that may be kept: URLs in it without user, password and query.

    Examples
    --------
    >>> without_secrets("left out https://me:pw@host/a.nc?sig=abc: it is empty")
    'left out https://host/a.nc: it is empty'
    """
    return _URL.sub(_bare, text)


def _bare(match: re.Match[str]) -> str:
    scheme, _, rest = match[0].partition("://")
    rest, asked, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    if scheme not in ("abfs", "abfss"):
        host = host.rpartition("@")[2]
    end = query[len(query.rstrip(":;,.)")) :] if asked else ""  # of the sentence
    return f"{scheme}://{host}{slash}{path}{end}"


def _found(folders: Sequence[str], parent: str) -> list[str]:
    """The containers that these folders suggest."""
    groups: dict[str, list[str]] = {"inside": [], "local": []}
    for folder in folders:
        if is_url(folder):
            groups.setdefault("/".join(folder.split("/")[:3]), []).append(folder)
        else:
            is_inside = parent != "/" and folder.startswith(parent)
            groups["inside" if is_inside else "local"].append(folder)
    local = groups.pop("local")
    return [*map(_common, filter(None, groups.values())), *(_clusters(local) if local else [])]


def _clusters(folders: Sequence[str]) -> list[str]:
    """The folder common to these, or some deeper ones where it lies too high."""
    common = _common(folders)
    groups: dict[str, list[str]] = {}
    for folder in folders:
        groups.setdefault(folder[len(common) :].partition("/")[0], []).append(folder)
    if common.count("/") > 2 or len(groups) == 1 or len(groups) > FEW:
        return [common]
    return [
        root for name, group in groups.items() for root in (_clusters(group) if name else [common])
    ]


def _common(folders: Sequence[str]) -> str:
    split = [folder.split("/")[:-1] for folder in folders]
    pairs = zip(min(split), max(split), strict=False)
    return "".join(f"{one}/" for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _relative(folder: str, base: str) -> str:
    """The location of a folder, seen from a folder without symbolic links.

    Of the ways to spell the folder, with more or fewer of its leading links followed, it is the
    one that climbs the least and then follows the fewest.
    """
    parts = folder.strip("/").split("/")
    best: list[str] | None = None
    for count in range(len(parts) + 1):
        real = os.path.realpath(slashed("/" + "/".join(parts[:count])))
        seen = os.path.relpath(os.path.join(real, *parts[count:]), base).split(os.sep)
        if best is None or seen.count("..") < best.count(".."):
            best = seen
    assert best is not None
    if best == ["."]:
        return "./"
    return "/".join([*([] if best[0] == ".." else ["."]), *best, ""])


def _name(location: str, taken: Iterable[str]) -> str:
    """A name for the container at a location, with nothing in it that the location doesn't say."""
    last = unicodedata.normalize("NFC", location.rstrip("/").rpartition("/")[2])
    safe = "".join(char if char.isalnum() or char in "_.-" else "_" for char in last)
    stem = safe.strip(".")[:48] or "sources"
    names = (f"{stem}-{number}" if number > 1 else stem for number in range(1, 2 * MAX_CONTAINERS))
    return next(name for name in names if name not in taken)


def is_own_source(path: str, sources: Sources) -> str | None:
    """The first source that would be lost, or take part, if something else were put at a path.

    It is at this path, by any name: a link to the same file, too; or in the folder that is there.

    Parameters
    ----------
    path
        Absolute path that is to be written.
    sources
        At absolute paths, or URLs, which are never in the way.
    """
    own = {identity for identity in (_identity(path), _identity(path, follow=False)) if identity}
    is_folder = os.path.isdir(path)
    held: dict[str, bool] = {}

    def holds(folder: str) -> bool:
        if folder not in held:
            above = os.path.dirname(folder)
            held[folder] = _identity(folder) in own or (above != folder and holds(above))
        return held[folder]

    folders: dict[str, bool] = {}
    for url in map(sources.url, range(len(sources))):
        if is_url(url):
            continue
        if (
            url == path
            or url.startswith(slashed(path))
            or (not is_folder and _identity(url) in own)
        ):
            return url
        folder = os.path.dirname(url)
        if own and folder not in folders:
            folders[folder] = holds(os.path.realpath(folder))
        if own and folders[folder]:
            return url
    return None


def _identity(path: str, *, follow: bool = True) -> tuple[int, int] | None:
    try:
        stat = os.stat(path, follow_symlinks=follow)
    except OSError:
        return None  # what is not there is nothing's twin
    return stat.st_dev, stat.st_ino
