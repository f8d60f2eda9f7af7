"""Whether a path is that of a saved store; cheap, as it is asked of every file that is opened."""

from __future__ import annotations

import os

from intarsia.io.paths import is_url
from intarsia.store.objects import is_store

__all__ = ["looks_like_store"]

SUFFIX = ".intarsia"


def looks_like_store(path: str | os.PathLike[str]) -> bool:
    """Whether a path is named like a store, or is one.

    A name that ends in ``.intarsia`` says that a store is meant, be there one or not, and so does
    ``.intarsia.zip``. Otherwise what is there decides: a folder, or a zip file, with the root of a
    store in it.
    """
    text = os.fspath(path)
    remote = is_url(text)
    name = (text.partition("?")[0] if remote else text).rstrip("/")
    return name.endswith((SUFFIX, f"{SUFFIX}.zip")) or (not remote and is_store(path))
