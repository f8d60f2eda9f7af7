"""Places as users give them: paths of this machine, and URLs."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from intarsia.errors import UnsupportedError

__all__ = ["is_url", "local_path", "place_of", "split_place"]

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(place: str) -> bool:
    """Whether a place, as `place_of` gives it, is one of the network."""
    return URL.match(place) is not None


def place_of(place: str | os.PathLike[str]) -> str:
    """The place that a user means: an absolute path, or a URL as it was given.

    Parameters
    ----------
    place
        Path of a file or folder, relative to the working folder, which may begin with ``~``; or a
        URL. ``file://`` URLs are paths.

    Raises
    ------
    TypeError
        If it is no path of text.
    ValueError
        If it is empty.
    """
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or a pathlib.Path, got {place!r}")
    if not text:
        raise ValueError("a path must not be empty")
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    if is_url(text):
        return text
    return os.path.abspath(os.path.expanduser(text))


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute path that a user means, where no URL will do.

    Raises
    ------
    TypeError, ValueError
        As for `place_of`.
    UnsupportedError
        If it is a URL.
    """
    place = place_of(path)
    if is_url(place):
        raise UnsupportedError(
            "this has to be on this machine", url=place, remedy="give a local path"
        )
    return place


def split_place(place: str) -> tuple[str, str]:
    """Container, ending in ``/``, and key of a place.

    Examples
    --------
    >>> split_place("/data/sst/a.nc"), split_place("s3://sst/2020/a.nc")
    (('/data/sst/', 'a.nc'), ('s3://sst/2020/', 'a.nc'))
    """
    if is_url(place):  # a query belongs to the key, slashes and all
        path = place.partition("?")[0]
        at = path.rfind("/") + 1
        return place[:at], place[at:]
    folder, key = os.path.split(place)
    return folder if folder.endswith("/") else folder + "/", key
