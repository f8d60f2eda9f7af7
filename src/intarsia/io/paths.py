"""Paths as users give them."""

from __future__ import annotations

import os

from intarsia.errors import UnsupportedError

__all__ = ["local_path"]


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute path that a user means.

    Parameters
    ----------
    path
        Of a file or folder, relative to the working folder; may begin with ``~``.

    Raises
    ------
    TypeError
        If it is no path of text.
    ValueError
        If it is empty.
    UnsupportedError
        If it is a URL.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or a pathlib.Path, got {path!r}")
    if not text:
        raise ValueError("a path must not be empty")
    if "://" in text:
        raise UnsupportedError(
            "URLs can't be used yet, only local paths", url=text, remedy="give a local path"
        )
    return os.path.abspath(os.path.expanduser(text))
