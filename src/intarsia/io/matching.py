"""Patterns of paths: which files of this machine match.

As Python's `glob`, which takes a folder that it can't list for an empty one: files would be left
out. Here that is an error.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from glob import has_magic

from intarsia.errors import SourceUnreadable

__all__ = ["matching"]


def matching(pattern: str) -> list[str]:
    """Paths that match a pattern, sorted.

    Parameters
    ----------
    pattern
        Path with ``*``, ``?`` and ``[...]``, which match within one level, and no name that begins
        with a dot unless they follow one.

    Returns
    -------
    list of str
        Empty where nothing matches.

    Raises
    ------
    SourceUnreadable
        If a folder in which something could match can't be listed, or looked into.
    """
    return sorted(_matching(pattern))


def _matching(pattern: str) -> list[str]:
    folder, name = os.path.split(pattern)
    above = _matching(folder) if folder != pattern and has_magic(folder) else [folder]
    if has_magic(name):
        return [os.path.join(one, found) for one in above for found in _named(one, name)]
    return [os.path.join(one, name) for one in above if _is_there(os.path.join(one, name))]


def _named(folder: str, pattern: str) -> list[str]:
    try:
        names = os.listdir(folder or os.curdir)
    except OSError as error:
        _require_absent(error, folder)
        return []
    if not pattern.startswith("."):
        names = [name for name in names if not name.startswith(".")]
    return fnmatch.filter(names, pattern)


def _is_there(path: str) -> bool:
    try:
        os.lstat(path)  # with a slash at its end, it has to be a folder
    except OSError as error:
        _require_absent(error, path)
        return False
    return True


def _require_absent(error: OSError, path: str) -> None:
    """Refuse an error that does not say that nothing is there."""
    gone = isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP
    if not gone:
        raise SourceUnreadable(
            f"what matches can't be told: the folder can't be read ({error.strerror})",
            url=path,
            remedy="give a list of files, or a narrower pattern",
        ) from error
