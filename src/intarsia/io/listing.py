"""Patterns of URLs: what a bucket holds that matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from intarsia.access import Access
from intarsia.errors import UnsupportedError
from intarsia.io.access import family_of

__all__ = ["expand", "is_pattern"]

_MAGIC = re.compile(r"[*?\[]")


def is_pattern(url: str) -> bool:
    """Whether a URL stands for what matches it.

    A question mark begins a query in URLs of HTTP servers, and brackets may hold an address there.

    Examples
    --------
    >>> is_pattern("s3://sst/2020/*.nc"), is_pattern("https://host/a.nc?version=*")
    (True, False)
    """
    if family_of(url) != "http":
        return _MAGIC.search(url) is not None
    return "*" in url.partition("?")[0]


def expand(pattern: str, access: Access | None = None) -> list[str]:
    """URLs of the objects, and of the Zarr folders, that match a pattern, sorted.

    A Zarr folder is one file to its users: if it matches, nothing in it does, and a pattern that
    leaves it out would leave out data.

    Parameters
    ----------
    pattern
        URL with ``*``, ``?`` and ``[...]``, which match within one level, and ``**``, which
        matches any number of levels. What is listed are the levels before the first of these.
    access
        How it is reached.

    Returns
    -------
    list of str
        Empty where nothing matches; the pattern itself where it is none.

    Raises
    ------
    UnsupportedError
        If it is a pattern of an HTTP server, which lists nothing; or of a bucket's name.
    SourceMissing, SourceUnreadable
        If it can't be listed.
    """
    if not is_pattern(pattern):
        return [pattern]
    if family_of(pattern) == "http":
        raise UnsupportedError(
            "HTTP servers do not tell what they have, so * matches nothing there",
            url=pattern,
            remedy="give a list of URLs",
        )
    scheme, _, rest = pattern.partition("://")
    bucket, _, path = rest.partition("/")
    if _MAGIC.search(bucket):
        raise UnsupportedError("the name of a bucket can't be a pattern", url=pattern)
    literal = path[: cast("re.Match[str]", _MAGIC.search(path)).start()]
    folder = literal[: literal.rfind("/") + 1]
    root = f"{scheme}://{bucket}/"
    matches = re.compile(_translated(path), re.DOTALL).fullmatch
    deep = "**" in path or "/" in path[len(folder) :]
    from intarsia.io.remote_requests import listed  # its client takes its time to import

    found = listed(root + folder, access, deep)
    stores = (
        _zarr_folders(found, root + folder) if deep else _zarr_among(found, access, matches, root)
    )
    files = {
        url
        for url in found
        if not url.endswith("/")
        and matches(url.removeprefix(root))
        and stores.isdisjoint(_folders_above(url))
    }
    chosen = {url for url in stores if matches(url.removeprefix(root))}
    # a slash says of one that is not called so that it is a folder
    return sorted(files | {url if url.endswith(ZARR) else f"{url}/" for url in chosen})


ZARR = ".zarr"
_METADATA = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


def _folders_above(url: str) -> Iterator[str]:
    while "/" in url:
        url = url.rpartition("/")[0]
        yield url


def _zarr_folders(objects: list[str], below: str) -> set[str]:
    """The outermost folders below one that hold metadata of Zarr."""
    folders = {url.rpartition("/")[0] for url in objects if url.rpartition("/")[2] in _METADATA}
    folders.discard(below[:-1])
    return {url for url in folders if folders.isdisjoint(_folders_above(url))}


def _zarr_among(
    found: list[str], access: Access | None, matches: Callable[[str], object], root: str
) -> set[str]:
    """Those of some folders that are Zarr: by their name, or as a look into them tells."""
    from intarsia.io.remote_pool import run_all
    from intarsia.io.remote_requests import listed

    folders = [url for url in found if url.endswith("/") and matches(url[:-1].removeprefix(root))]
    named = {url[:-1] for url in folders if url.endswith(f"{ZARR}/")}
    others = [url for url in folders if url[:-1] not in named]
    inside = run_all([partial(listed, url, access, False) for url in others])
    return named | {
        url[:-1]
        for url, objects in zip(others, inside, strict=True)
        if any(one.rpartition("/")[2] in _METADATA for one in objects)
    }


def _translated(pattern: str) -> str:
    """The regular expression that a pattern means."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        elif pattern[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            parts.append("[^/]")
            at += 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{'^/' + inner[1:] if inner.startswith('!') else inner}]")
            at = end + 1
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return "".join(parts)
