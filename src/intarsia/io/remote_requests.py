"""One request to a server or object store: bytes of one object, and what the answer tells of it.

Errors say what happened in words of ours. Those of the client are never passed on nor chained: they
hold URLs with their signatures, and what the server chose to say.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from intarsia.access import Access
from intarsia.errors import (
    ShortRead,
    SourceChanged,
    SourceError,
    SourceMissing,
    SourceUnreadable,
)
from intarsia.io.access import family_of
from intarsia.io.fetch import MAX_READ, record
from intarsia.io.remote_clients import client_of
from intarsia.io.remote_relay import is_needed, relayed

__all__ = ["Answer", "RangesIgnored", "Unsatisfiable", "past_the_end", "request"]


MAX_SIZE = 1 << 62
"""Bytes of an object: more can't be counted."""


class Answer(NamedTuple):
    """What one response holds.

    Parameters
    ----------
    data
        The bytes.
    size
        Of the whole object.
    mtime_ns
        Modification time in nanoseconds since 1970, or -1 where it is not told.
    etag
        Entity tag, or None.
    """

    data: memoryview
    size: int
    mtime_ns: int
    etag: str | None


class RangesIgnored(Exception):
    """The server gives whole objects only; never leaves this package."""


class Unsatisfiable(Exception):
    """The object ends before the range begins (status 416); never leaves this package."""


def request(
    url: str,
    access: Access | None,
    offset: int,
    length: int,
    *,
    etag: str | None = None,
    clip: bool = False,
    told: bool = True,
) -> Answer:
    """Bytes of an object, by one ranged request (which is tried again as `Patience` says).

    Parameters
    ----------
    url, access
        The object.
    offset, length
        At least one byte.
    etag
        A strong one, which the object must have.
    clip
        Whether fewer bytes will do where the object ends.
    told
        Whether observers are still to be told.

    Raises
    ------
    SourceMissing, SourceUnreadable, SourceChanged, ShortRead
        The reason for which there are no such bytes.
    RangesIgnored
        If the server gives whole objects only.
    Unsatisfiable
        If the object ends before `offset`.
    """
    if length > MAX_READ:  # who wrote the reference may not mean well
        raise SourceUnreadable(f"{length} bytes are too many to be read at once", url=url)
    if told:
        record(url, offset, length)
    options: dict[str, Any] = {"range": (offset, offset + length)}
    if etag is not None:
        options["if_match"] = etag
    answer = fetch(url, access, options)
    if len(answer.data) < length and not (clip and len(answer.data) == answer.size - offset):
        if offset + length > answer.size:
            raise past_the_end(url, offset, length, len(answer.data))
        raise ShortRead(
            f"asked for {length} bytes at offset {offset} and got {len(answer.data)}",
            url=url,
            remedy="the server or a proxy cuts its answers short; try again",
        )
    return answer


def fetch(
    url: str, access: Access | None, options: dict[str, Any], limit: int | None = None
) -> Answer:
    """What the client gives for these options of a ``get``; its errors become ours.

    Parameters
    ----------
    limit
        Bytes that an object may have, to be read; where there is a limit.
    """
    if is_needed():
        data, *rest = relayed(__name__, "fetch_bytes", url, access, options, limit)
        return Answer(memoryview(data), *rest)
    client, key = client_of(url, access)
    try:
        result = client.get(key, options=options)
        meta: Any = result.meta
        size, etag = int(meta["size"]), meta.get("e_tag")
        if limit is not None and size > limit:
            raise SourceUnreadable(
                f"the server gives no ranges of bytes, and {size} bytes are too many to read whole",
                url=url,
                remedy="fetch the file first, or have it served by one that minds Range headers",
            )
        if size > MAX_SIZE:
            raise SourceUnreadable(f"the server tells a size that none has, {size}", url=url)
        first, last = options.get("range", (0, size))
        data = _body(result, last - first, url)
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001 - they have no common base
        ours = _explained(error, url, conditional="if_match" in options)
    else:
        return Answer(data, size, _nanoseconds(meta.get("last_modified")), etag or None)
    raise ours


def _body(result: Any, most: int, url: str) -> memoryview:
    """What an answer holds; of a server that sends on and on, no more than was asked for."""
    if not hasattr(result, "stream"):  # a registry's store may be of another make
        return memoryview(result.buffer()).cast("B")
    for part in result.stream(min_chunk_size=most + 1):  # one, unless there is more
        data = memoryview(part).cast("B")
        if len(data) > most:
            raise SourceUnreadable("the server gives more bytes than it says", url=url)
        return data
    return memoryview(b"")


def fetch_bytes(
    url: str, access: Access | None, options: dict[str, Any], limit: int | None
) -> tuple[Any, ...]:
    """What `fetch` gives, in a form that can be sent."""
    answer = fetch(url, access, options, limit)
    return bytes(answer.data), *answer[1:]


async def whole(client: Any, key: str) -> Answer | None:
    """An object of a client, by its key; None where there is none. Errors are the client's own."""
    try:
        result = await client.get_async(key)
        data = memoryview(await result.bytes_async()).cast("B")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    meta = result.meta
    time_ns = _nanoseconds(meta.get("last_modified"))
    return Answer(data, int(meta["size"]), time_ns, meta.get("e_tag") or None)


def listed(folder: str, access: Access | None, deep: bool) -> list[str]:
    """URLs of the objects below a folder, which ends in ``/``, of a bucket, and of its folders.

    Folders end in ``/`` and are there where those in them are not asked for.

    Parameters
    ----------
    folder, access
        Where.
    deep
        Whether those in its folders too.

    Raises
    ------
    SourceMissing, SourceUnreadable
        If it can't be listed.
    """
    record(folder, 0, 0)
    if is_needed():
        return relayed(__name__, "listed", folder, access, deep)
    client, prefix = client_of(folder, access)
    root = folder.removesuffix(prefix)
    folders: list[str] = []
    try:
        if deep:
            pages: Any = client.list(prefix or None, chunk_size=1_000)
            objects = [entry for page in pages for entry in page]
        else:
            found = client.list_with_delimiter(prefix or None)
            objects = found["objects"]
            folders = [f"{root}{str(path).rstrip('/')}/" for path in found["common_prefixes"]]
        return [*(root + str(entry["path"]) for entry in objects), *folders]
    except Exception as error:  # noqa: BLE001 - they have no common base
        ours = _explained(error, folder)
    raise ours


def objects_below(folder: str, access: Access | None) -> Iterator[tuple[str, int, int, str | None]]:
    """Objects below a folder, which ends in ``/``, of a bucket: what a listing tells of them.

    Yields
    ------
    tuple
        Name below the folder; size; time in nanoseconds since 1970, as responses have it, or -1;
        entity tag.

    Raises
    ------
    SourceMissing, SourceUnreadable
        If it can't be listed.
    """
    record(folder, 0, 0)
    client, prefix = client_of(folder, access)
    unquoted = type(client).__name__ == "AzureStore"  # in listings, and quoted in responses
    try:
        for batch in client.list(prefix=prefix or None):
            for entry in batch:
                name = str(entry["path"]).removeprefix(prefix)
                time_ns = _nanoseconds(entry.get("last_modified"))
                etag = entry.get("e_tag")
                if etag and unquoted and not etag.endswith('"'):
                    etag = f'"{etag}"'
                yield name, int(entry["size"]), time_ns, etag
    except Exception as error:  # noqa: BLE001 - they have no common base
        ours = _explained(error, folder)
    else:
        return
    raise ours


def raised_by_client(error: Exception, url: str) -> Exception | None:
    """The error of ours that says what one means which passed through a library; None if not so."""
    base = type(error).__module__.partition(".")[0]
    return _explained(error, url) if base == "obstore" else None


def past_the_end(url: str, offset: int, length: int, found: int | None = None) -> ShortRead:
    """The error for a range that the object does not have."""
    return ShortRead(
        f"asked for {length} bytes at offset {offset}"
        + (", past the end" if found is None else f" and got {found}"),
        url=url,
        remedy="the source is shorter than its references say; look at it again",
    )


def _nanoseconds(time: object) -> int:
    """Of whole seconds: services list fractions that their responses lack.

    -1 where the answer told none: the client then says 1970.
    """
    seconds = int(time.timestamp()) if isinstance(time, datetime) else 0
    return seconds * 10**9 if seconds > 0 else -1


_STATUS = re.compile(r"status code: (\d{3})\b")
_IDENTITY = re.compile(
    r"token request|/latest/(api/token|meta-data)|169\.254\.169\.254|metadata\.google"
)
"""In the text of errors of those services that a machine of a cloud asks who it is."""

_URLS = re.compile(r"[a-z]+://\S+")
_ELSEWHERE = ("the server sends elsewhere, which leads nowhere", None)
_REASONS: tuple[tuple[re.Pattern[str], tuple[str, str | None]], ...] = tuple(
    (re.compile(pattern), (reason, remedy))
    for pattern, reason, remedy in (
        (
            r"\bMissingContentLength\b",
            "the server does not say how long its answer is (Content-Length)",
            "what is made while it is sent has to be fetched first",
        ),
        (
            r"\bRangeNotSupported\b",
            "the server breaks its answers off, and does not go on where it did",
            None,
        ),
        (
            r"\bUnexpectedRange\b",
            "the server gives other bytes than it was asked for",
            "something between here and the server may be at fault; fetch the file first",
        ),
        (
            r"\b(NoContentRange|ParseContentRange)\b",
            "the server does not say which bytes it gives (Content-Range)",
            "something between here and the server may be at fault; fetch the file first",
        ),
        (r"\bInvalidLastModified\b", "the server tells a modification time that is none", None),
        (r"\bBadHeader\b", "the server's headers are no text", None),
        (
            r"\bInvalidCertificate\b",
            "the server's certificate is not valid, or vouched for by nobody known",
            "name who vouches for it: storage_options={'root_certificate': PEM}",
        ),
        (r"tls handshake|\bInvalidMessage\b", "the server does not speak TLS", "http://, perhaps?"),
        (r'"dns error"', "the name of the server is not known", None),
        (r"\bkind: Redirect\b|\bBareRedirect\b|redirect without LOCATION", *_ELSEWHERE),
        (r"\bkind: Timeout\b", "the server does not answer, or stops in the middle", None),
        (r"\bkind: Connect\b", "there is no connection to the server", None),
        (r"\bkind: Interrupted\b", "the server breaks its answers off", None),
        (r"\bIncompleteMessage\b", "the server breaks off before it answers", None),
        (r"\bParse\(", "what the server says is no HTTP, or too much of it", None),
    )
)
"""What is found in a client's error, the first of these that is, and what it means."""


def _explained(error: Exception, url: str, *, conditional: bool = False) -> Exception:
    """The error of ours that says what a client's error means.

    Parameters
    ----------
    error, url
        Of the request.
    conditional
        Whether it was for an object with a certain tag.
    """
    name, text = type(error).__name__, str(error)
    if _IDENTITY.search(text):
        return SourceUnreadable("no credentials are found", url=url, remedy=_remedy(url))
    found = _STATUS.search(text)
    status = int(found[1]) if found else None
    if status == 416 or (status is None and re.search(r"\bStartTooLarge\b", text)):
        return Unsatisfiable()
    if conditional and (status == 412 or name == "PreconditionError"):
        return SourceChanged(
            "the source changed after it was scanned: its entity tag is another",
            url=url,
            remedy="open the files again",
        )
    if status in (404, 410) or isinstance(error, FileNotFoundError) or name == "NotFoundError":
        return SourceMissing(
            "the source does not exist" + (f" (status {status})" if status else ""),
            url=url,
            remedy="was it moved, or is the name of its bucket or region wrong?",
        )
    if status in (401, 403) or name in ("PermissionDeniedError", "UnauthenticatedError"):
        return _refused(url, status)
    if name == "NotSupportedError" and "Range request not supported" in text:
        return RangesIgnored()
    if status is not None and 300 <= status < 400 and status != 304:
        return _elsewhere(url)
    if status is not None:
        often = status in (408, 429) or 500 <= status < 600
        return SourceUnreadable(
            f"the server answers with status {status}" + (", again and again" if often else ""),
            url=url,
            remedy="try again later" if often else None,
        )
    text = _URLS.sub("", text)  # which may hold any word
    told = (meaning for pattern, meaning in _REASONS if pattern.search(text))
    reason, remedy = next(told, (f"its client fails ({name})", None))
    if reason == _ELSEWHERE[0]:
        return _elsewhere(url)
    return SourceUnreadable(f"the source can't be read: {reason}", url=url, remedy=remedy)


def _elsewhere(url: str) -> SourceUnreadable:
    return SourceUnreadable(
        _ELSEWHERE[0],
        url=url,
        remedy=None
        if family_of(url) == "http"
        else "name the bucket's region or endpoint in storage_options",
    )


def _refused(url: str, status: int | None) -> SourceUnreadable:
    said = f" (status {status})" if status else ""
    return SourceUnreadable(
        f"the server refuses to give the source{said}", url=url, remedy=_remedy(url)
    )


def _remedy(url: str) -> str:
    if family_of(url) == "http":
        return (
            "its server wants to know who asks, or the signature in the URL is too old: "
            "storage_options={'headers': {'Authorization': ...}}"
        )
    return (
        "if it is public, storage_options={'skip_signature': True}; else give credentials there "
        "or in the environment"
    )
