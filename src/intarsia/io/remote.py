"""Sources behind a network: ranges of HTTP servers and object stores, held against their pins.

A source is pinned by what the response to its first request said: size, entity tag, modification
time. Every later response is compared with that. A strong tag also goes with each request
(``If-Match``), so that a server that minds it answers nothing else. A weak tag (``W/``) vouches for
less than each byte, but another one is of something else: it is compared without its mark, which
servers drop when a file has not changed for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from intarsia.access import Access
from intarsia.errors import NotAFile, SourceError
from intarsia.io.fetch import changed, check_known, is_sampled, is_strong, record, seconds
from intarsia.io.held import held
from intarsia.io.paths import split_place
from intarsia.io.remote_pool import run_all
from intarsia.io.remote_requests import (
    Answer,
    RangesIgnored,
    Unsatisfiable,
    past_the_end,
    request,
)
from intarsia.io.remote_whole import kept_whole, read_whole
from intarsia.io.sampling import sample_digest, sample_ranges
from intarsia.references import Source

__all__ = ["RemoteFetcher", "check_remote", "head", "read_range", "sample_remote"]


class RemoteFetcher:
    """Reads objects of HTTP servers, S3, Google Cloud Storage and Azure; safe with threads."""

    def read(self, source: Source, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Bytes of each (offset, length) of `source`, in the order asked for.

        Each is one request; they are under way together. What came with the head of a file that
        is just being opened takes none.
        """
        check_known(source)
        parts = [held(source, offset, length) for offset, length in ranges]
        if all(part is not None for part in parts):
            return [part for part in parts if part is not None]
        for offset, length in ranges:
            _check_inside(source, offset, length)
        for offset, length in ranges:
            if length:
                record(source.url, offset, length)
        works = [
            partial(read_range, source, offset, length, told=False) for offset, length in ranges
        ]
        return run_all(works)


def head(place: str, access: Access | None, length: int) -> tuple[Source, memoryview]:
    """The first bytes of an object, and the source as that very response pins it.

    Parameters
    ----------
    place
        URL.
    access
        How it is reached.
    length
        Bytes to read, at least one; fewer come where the object is shorter.

    Returns
    -------
    source
        With size, and tag and time where the server tells them.
    data
        The bytes.

    Raises
    ------
    NotAFile
        If the object is empty.
    SourceMissing, SourceUnreadable, ShortRead
        If it can't be had.
    """
    (found,) = run_all([partial(_head, place, access, length)])
    return found


def _head(place: str, access: Access | None, length: int) -> tuple[Source, memoryview]:
    try:
        answer = request(place, access, 0, length, clip=True)
    except RangesIgnored:
        answer = read_whole(Source(*split_place(place), -1, -1, access=access))
        answer = answer._replace(data=answer.data[:length])
    except Unsatisfiable:
        raise NotAFile("the object is empty", url=place) from None
    if not answer.size:
        raise NotAFile("the object is empty", url=place)
    source = Source(*split_place(place), answer.size, answer.mtime_ns, answer.etag, access=access)
    return source, answer.data


def read_range(source: Source, offset: int, length: int, *, told: bool = True) -> memoryview:
    """Bytes of one range, by one request in this very thread.

    Parameters
    ----------
    source
        With its pins.
    offset, length
        The range.
    told
        Whether observers are still to be told.

    Raises
    ------
    SourceError
        As for every fetcher.
    """
    check_known(source)
    _check_inside(source, offset, length)
    if not length:
        return memoryview(b"")
    etag = source.etag if is_strong(source.etag) else None
    fits = partial(_fits, source)
    try:
        answer = kept_whole(source, fits)
        if answer is None:
            answer = request(
                source.url, source.access, offset, length, etag=etag, clip=True, told=told
            )
        else:
            answer = answer._replace(data=answer.data[offset : offset + length])
    except RangesIgnored:
        answer = read_whole(source, fits)
        answer = answer._replace(data=answer.data[offset : offset + length])
    except Unsatisfiable:
        if source.size >= 0:
            raise changed(source, "it became shorter") from None
        raise past_the_end(source.url, offset, length) from None
    check_answer(source, answer)
    if len(answer.data) < length:
        raise past_the_end(source.url, offset, length, len(answer.data))
    return answer.data


def _check_inside(source: Source, offset: int, length: int) -> None:
    if source.size >= 0 and offset + length > source.size:
        raise past_the_end(source.url, offset, length, max(source.size - offset, 0))


def check_answer(source: Source, answer: Answer) -> None:
    """Refuse a response of another object than the one that was scanned.

    Raises
    ------
    SourceChanged
        If it differs from a pin, saying what changed.
    """
    changes = _changes(source, answer)
    if changes:
        raise changed(source, *changes)
    if is_sampled(source) and _sample(source, answer) != source.sample:
        raise changed(source, "its sampled content is not what it was")


def _changes(source: Source, answer: Answer) -> list[str]:
    changes: list[str] = []
    if source.size >= 0 and answer.size != source.size:
        changes.append(f"its size was {source.size} bytes and is {answer.size}")
    if is_strong(source.etag):
        if answer.etag != source.etag:
            changes.append("its entity tag is another")
    elif source.etag and (answer.etag or source.mtime_ns < 0) and not _alike(source, answer):
        changes.append("its entity tag is another")
    if source.mtime_ns >= 0 and answer.mtime_ns != source.mtime_ns:
        now = "is not told" if answer.mtime_ns < 0 else f"is {seconds(answer.mtime_ns)}"
        changes.append(
            f"its modification time was {seconds(source.mtime_ns)} and {now} (seconds since 1970)"
        )
    return changes


def _fits(source: Source, answer: Answer) -> bool:
    return not _changes(source, answer)


def _alike(source: Source, answer: Answer) -> bool:
    """Whether the tags are, but for what they vouch for."""
    return (answer.etag or "").removeprefix("W/") == (source.etag or "").removeprefix("W/")


_samples: dict[tuple[str, Access | None, int, int, str | None], str] = {}
"""Samples by URL and what a response said of the object; the oldest are forgotten."""
_REMEMBERED = 1 << 16


def _sample(source: Source, answer: Answer) -> str:
    """The sample of the object that a response is of."""
    state = (source.url, source.access, answer.size, answer.mtime_ns, answer.etag)
    known = _samples.get(state)
    if known is not None:
        return known
    same = source._replace(
        size=answer.size, mtime_ns=answer.mtime_ns, etag=answer.etag, sample=None
    )
    sample = sample_digest(answer.size, RemoteFetcher().read(same, sample_ranges(answer.size)))
    if answer.mtime_ns >= 0 or is_strong(answer.etag):  # else nothing tells a later state apart
        for old in list(_samples)[:-_REMEMBERED] if len(_samples) >= 2 * _REMEMBERED else []:
            _samples.pop(old, None)
        _samples[state] = sample
    return sample


def check_remote(source: Source) -> SourceError | None:
    """Why a source can't be read as it was scanned, or None; by a request of one byte."""
    try:
        check_known(source)
        if source.size == 0:
            try:
                head(source.url, source.access, 1)
            except NotAFile:
                return None
            return changed(source, "it was empty")
        read_range(source, 0, 1)
    except SourceError as error:
        return error
    return None


def sample_remote(source: Source) -> Source:
    """The source with a sample of its content, which is still the content that was scanned.

    Raises
    ------
    SourceError
        If it can't be read, or changed.
    """
    check_known(source)
    etag = source.etag if is_strong(source.etag) else None
    try:
        answer = request(source.url, source.access, 0, 1, etag=etag, clip=True)
    except RangesIgnored:
        answer = read_whole(source, partial(_fits, source))
    except Unsatisfiable:
        raise changed(source, "it became empty") from None
    check_answer(source, answer)
    return source._replace(sample=_sample(source, answer))
