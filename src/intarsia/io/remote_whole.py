"""Objects of servers that give no ranges: small ones are read whole, once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from intarsia.errors import ShortRead
from intarsia.forks import after_fork
from intarsia.io.fetch import is_strong, record
from intarsia.io.remote_requests import Answer, fetch
from intarsia.references import Source

__all__ = ["MAX_WHOLE", "forget", "kept_whole", "read_whole"]

MAX_WHOLE = 1 << 25
"""Bytes of an object that is read whole for the sake of a range."""

MAX_KEPT = 1 << 26
"""Bytes of such objects that are kept, the last ones."""

MAX_AGE = 30.0
"""Seconds for which one is kept: nobody asks the server whether it changed."""

type _Key = tuple[object, ...]

_kept: OrderedDict[_Key, tuple[float, Answer]] = OrderedDict()
"""With the times at which they were asked for."""
_lock = threading.Lock()
_turns: dict[_Key, threading.Lock] = {}


def kept_whole(source: Source, fits: Callable[[Answer], bool]) -> Answer | None:
    """The whole object, where it was read a moment ago because its server gives no ranges.

    Parameters
    ----------
    source
        The object.
    fits
        Whether one that is kept is still what is wanted; if not, it may have been replaced.
    """
    found = _recent(source)
    return found[1] if found is not None and fits(found[1]) else None


def _recent(source: Source) -> tuple[float, Answer] | None:
    found = _kept.get((source.url, source.access)) if _kept else None
    return found if found is not None and time.monotonic() - found[0] < MAX_AGE else None


def read_whole(source: Source, fits: Callable[[Answer], bool] | None = None) -> Answer:
    """The whole object, as it was a moment ago.

    Parameters
    ----------
    source
        The object.
    fits
        As for `kept_whole`; without it, the object is asked for.

    Raises
    ------
    SourceUnreadable
        If it is too large.
    SourceError
        As for any request.
    """
    key: _Key = (source.url, source.access)
    since = time.monotonic()
    with _lock:
        turn = _turns.setdefault(key, threading.Lock())
    with turn:  # who asks at the same time gets the same bytes
        found = _recent(source)
        if found is not None and (found[0] >= since or (fits is not None and fits(found[1]))):
            return found[1]
        begun = time.monotonic()
        answer = _read(source)
        with _lock:
            _kept[key] = begun, answer
            while sum(len(kept.data) for _, kept in _kept.values()) > MAX_KEPT:
                _kept.popitem(last=False)
            if len(_turns) > 1_000:
                _turns.clear()
        return answer


def _read(source: Source) -> Answer:
    url = source.url
    options = {"if_match": source.etag} if is_strong(source.etag) else {}
    answer = fetch(url, source.access, options, MAX_WHOLE)
    record(url, 0, answer.size)
    if len(answer.data) != answer.size:
        raise ShortRead(
            f"asked for {answer.size} bytes at offset 0 and got {len(answer.data)}", url=url
        )
    return answer


@after_fork
def forget() -> None:
    """Keep nothing; also after a fork."""
    global _lock
    _lock = threading.Lock()
    _turns.clear()
    _kept.clear()
