"""The root of a store: the document that says what everything else is, with its own digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from intarsia.errors import CorruptStore, NotAStore, StoreError
from intarsia.store.objects import ROOT, Objects, root_of
from intarsia.store.parsing import MAX_BYTES, Reader, parse

FORMAT = "intarsia"

VERSION = "unstable-2"
"""Version of the format. While it is unstable, a library reads the stores of its own version."""


def seal(document: dict[str, Any]) -> bytes:
    """The root as it is written: the document, and the digest of all of it.

    Raises
    ------
    StoreError
        If it is longer than what is read.
    """
    whole = {"format": FORMAT, "version": VERSION, "digest": "", **document}
    whole["digest"] = digest_of(whole)
    data = json.dumps(whole, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MAX_BYTES:
        raise StoreError(
            f"its root would have {len(data):,} bytes, and may have {MAX_BYTES:,}",
            remedy="save fewer variables in one store, or drop their largest attributes",
        )
    return data


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of a root's canonical JSON without its digest: sorted keys, no spaces, ASCII."""
    content = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_root(objects: Objects) -> Reader:
    """Read the root of a store and see that it is whole.

    Raises
    ------
    NotAStore
        If there is none, or it is of another format or version.
    CorruptStore
        If it is damaged.
    """
    told = parse(root_of(objects), objects.url)
    if told.value.get("format") != FORMAT:
        raise NotAStore(f"{ROOT} is of another format", url=objects.url)
    version = told.text("version")
    if version != VERSION:
        raise NotAStore(
            f"a store of version {version[:40]!r}, this library reads {VERSION!r}",
            url=objects.url,
            remedy="build it again, or use the library it was built with",
        )
    try:
        right = digest_of(told.value)
    except RecursionError as error:
        raise CorruptStore("the document nests too deeply", url=objects.url) from error
    if told.text("digest") != right:
        raise CorruptStore("the digest of root.json is wrong", url=objects.url)
    return told
