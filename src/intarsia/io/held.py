"""The heads of files that are being opened: what came with them is not asked for again.

Opening a file reads its metadata, then values of its coordinates. Those often lie in the head too,
which was fetched a moment ago. It is held until the opening ends, for sources that are pinned by a
strong tag or a time, and only for those with the very same pins.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from intarsia.forks import after_fork
from intarsia.io.fetch import is_strong
from intarsia.references import Source

__all__ = ["held", "holding", "keep"]

MOST = 64
"""Heads that are held."""

_heads: OrderedDict[Source, memoryview] = OrderedDict()
_lock = threading.Lock()
_open = 0


@contextmanager
def holding() -> Generator[None]:
    """Hold the heads of the files that are opened meanwhile, the last ones."""
    global _open
    with _lock:
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open = max(_open - 1, 0)
            if not _open:
                _heads.clear()


@after_fork
def _after_fork() -> None:
    """The child opens nothing yet, and the lock may have been held."""
    global _lock, _open
    _lock = threading.Lock()
    _open = 0
    _heads.clear()


def keep(source: Source, data: memoryview) -> None:
    """Hold the first bytes of a source, if something is being opened."""
    if not _open or not (is_strong(source.etag) or source.mtime_ns >= 0):
        return
    with _lock:
        _heads[_key(source)] = data
        if len(_heads) > MOST:
            _heads.popitem(last=False)


def held(source: Source, offset: int, length: int) -> memoryview | None:
    """Bytes of a source, if they are held."""
    if not _heads:
        return None
    data = _heads.get(_key(source))
    if data is None or offset < 0 or offset + length > len(data):
        return None
    return data[offset : offset + length]


def _key(source: Source) -> Source:
    return source._replace(scan="")
