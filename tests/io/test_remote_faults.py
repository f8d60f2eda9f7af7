"""What servers do wrong, and what is told of it: never wrong bytes, never a secret."""

from __future__ import annotations

import pickle
import re
import sys
import time
import traceback
from collections.abc import Callable
from random import Random

import pytest

from intarsia.errors import (
    IntarsiaError,
    NotAFile,
    ShortRead,
    SourceChanged,
    SourceError,
    SourceMissing,
    SourceUnreadable,
    UnsupportedError,
)
from intarsia.io import remote, remote_whole
from intarsia.io.access import access_of
from intarsia.io.fetch import changed_sources, fetcher_for, observe, sampled
from intarsia.io.remote import head
from intarsia.io.sampling import sample_digest
from intarsia.references import Source
from tests.io.http_server import NOW, Answer, Request, Server, serving

DATA = Random(1).randbytes(10_000)

pytestmark = pytest.mark.usefixtures("impatient")


def read(source: Source, *ranges: tuple[int, int]) -> list[bytes]:
    """Bytes of ranges, by whatever reads the source."""
    return [bytes(part) for part in fetcher_for(source).read(source, ranges or [(100, 50)])]


@pytest.fixture
def source(server: Server) -> Source:
    return head(server.put("x/a.nc", DATA), None, 1)[0]


# -- the first request ---------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "found"), [(1, 1), (10_000, 10_000), (1 << 20, 10_000)])
def test_one_request_opens_a_source(server: Server, length: int, found: int) -> None:
    url = server.put("x/a.nc", DATA)
    with observe() as reads:
        source, data = head(url, None, length)
    assert bytes(data) == DATA[:found]
    assert source[:4] == (server.url + "x/", "a.nc", 10_000, NOW * 10**9)
    assert source.etag == server.objects["/x/a.nc"].etag
    assert [request.method for request in server.requests] == ["GET"]
    assert reads.ranges == [(url, 0, length)]


def test_what_a_server_does_not_tell_is_unknown(server: Server) -> None:
    source, _ = head(server.put("a.nc", DATA, etag=None, mtime=None), None, 1)
    assert (source.size, source.mtime_ns, source.etag) == (10_000, -1, None)


def test_an_empty_object_is_no_file(server: Server) -> None:
    with pytest.raises(NotAFile, match="empty"):
        head(server.put("a.nc", b""), None, 10)


@pytest.mark.parametrize(
    "name",
    [
        "a b.nc",
        "a%20b.nc",
        "a%2Fb.nc",
        "a+b&c=d;e,f.nc",
        "ü.nc",
        "%C3%BC.nc",
        "a%3Fb.nc",
        "x//y.nc",
    ],
)
def test_names_arrive_as_they_were_written(server: Server, name: str) -> None:
    head_path = server.url + name
    server.fault = lambda request, answer: Answer(404, {})
    with pytest.raises(SourceMissing):
        head(head_path, None, 1)
    asked = server.requests[-1].path
    quoted = name.replace(" ", "%20").replace("ü", "%C3%BC")
    assert asked == "/" + quoted


def test_a_query_goes_with_each_request_and_is_told_to_nobody(server: Server) -> None:
    url = server.put("x/a.nc", DATA) + "?X-Signature=se/cret&b=1"
    source, _ = head(url, None, 1)
    assert read(source) == [DATA[100:150]]
    assert {request.query for request in server.requests} == {"X-Signature=se/cret&b=1"}
    assert "cret" not in repr(source)
    server.objects.clear()
    with pytest.raises(SourceMissing) as error:
        read(source)
    assert error.value.url == url
    assert "cret" not in str(error.value)
    assert "x/a.nc?..." in str(error.value)
    assert "cret" not in "".join(traceback.format_exception(error.value)).split("Error", 1)[-1]


# -- answers that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "requests", "said"),
    [
        (400, SourceUnreadable, 1, "status 400"),
        (401, SourceUnreadable, 1, "Authorization"),
        (403, SourceUnreadable, 1, "Authorization"),
        (404, SourceMissing, 1, "does not exist"),
        (410, SourceMissing, 1, "does not exist"),
        (412, SourceChanged, 1, "entity tag"),
        (416, SourceChanged, 1, "became shorter"),
        (429, SourceUnreadable, 3, "status 429, again and again"),
        (500, SourceUnreadable, 3, "status 500, again and again"),
        (503, SourceUnreadable, 3, "status 503, again and again"),
        (204, SourceUnreadable, 2, "."),
    ],
)
def test_statuses(
    server: Server, source: Source, status: int, kind: type, requests: int, said: str
) -> None:
    """What passes is tried again, so many times; the rest is not."""
    server.fault = lambda request, answer: Answer(status, {}, b"a secret of the server")
    server.requests.clear()
    start = time.monotonic()
    with pytest.raises(SourceError, match=said) as error:
        read(source)
    assert time.monotonic() - start < 2
    assert type(error.value) is kind or status == 204
    assert error.value.url == source.url
    assert len(server.requests) == requests
    told = "".join(traceback.format_exception(error.value))
    assert "a secret of the server" not in told


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_passes_is_waited_for(server: Server, source: Source, status: int) -> None:
    left = iter([status, status])
    server.fault = lambda request, answer: (
        Answer(found, {}) if (found := next(left, None)) else answer
    )
    assert read(source) == [DATA[100:150]]


def test_redirects_are_followed(server: Server) -> None:
    def elsewhere(request: Request, answer: Answer) -> Answer:
        return Answer(302, {"Location": "/new.nc"}) if request.path == "/old.nc" else answer

    server.put("new.nc", DATA)
    server.fault = elsewhere
    source, _ = head(server.url + "old.nc", None, 1)
    assert source.key == "old.nc"
    assert read(source) == [DATA[100:150]]


def test_redirects_to_nowhere(server: Server, source: Source) -> None:
    server.fault = lambda request, answer: Answer(302, {})
    with pytest.raises(SourceUnreadable, match="elsewhere"):
        read(source)
    server.fault = lambda request, answer: Answer(302, {"Location": request.path})
    with pytest.raises(SourceUnreadable, match="elsewhere"):
        read(source)


def test_no_server() -> None:
    source = Source("http://127.0.0.1:9/", "a.nc", 10_000, -1)
    with pytest.raises(SourceUnreadable, match="no connection") as error:
        read(source)
    assert error.value.url == source.url


@pytest.mark.parametrize("fault", ["delay", "pause"])
def test_a_server_that_does_not_answer_is_given_up(
    server: Server, source: Source, fault: str
) -> None:
    def slow(request: Request, answer: Answer) -> Answer:
        setattr(answer, fault, 1.0)
        return answer

    server.fault = slow
    start = time.monotonic()
    with pytest.raises(SourceUnreadable, match="does not answer"):
        read(source)
    assert time.monotonic() - start < 3


def test_a_body_that_is_cut_off_is_asked_for_again(server: Server, source: Source) -> None:
    left = iter([10])

    def cut(request: Request, answer: Answer) -> Answer:
        answer.sent = next(left, None)
        return answer

    server.fault = cut
    assert read(source) == [DATA[100:150]]

    def always(request: Request, answer: Answer) -> Answer:
        answer.sent = 0
        return answer

    server.fault = always
    with pytest.raises(SourceUnreadable, match="breaks"):
        read(source)


def _shorter(request: Request, answer: Answer) -> Answer:
    answer.body = answer.body[:7]
    return answer


def _other_range(request: Request, answer: Answer) -> Answer:
    answer.headers["Content-Range"] = "bytes 7-56/10000"
    return answer


def _no_range(request: Request, answer: Answer) -> Answer:
    del answer.headers["Content-Range"]
    return answer


def _no_size(request: Request, answer: Answer) -> Answer:
    answer.headers["Content-Range"] = "bytes 100-149/*"
    return answer


def _longer(request: Request, answer: Answer) -> Answer:
    answer.body += b"and more"
    return answer


@pytest.mark.parametrize("fault", [_shorter, _other_range, _no_range, _no_size, _longer])
def test_answers_that_are_not_what_they_say(
    server: Server, source: Source, fault: Callable[[Request, Answer], Answer]
) -> None:
    server.fault = fault
    with pytest.raises((ShortRead, SourceUnreadable)) as error:
        read(source)
    assert error.value.url == source.url


def _no_length(request: Request, answer: Answer) -> Answer:
    answer.headers["Transfer-Encoding"] = "chunked"
    answer.body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(answer.body), answer.body)
    return answer


def _multipart(request: Request, answer: Answer) -> Answer:
    answer.body = b"--B\r\nContent-Range: bytes 100-149/10000\r\n\r\n" + answer.body + b"\r\n--B--"
    answer.headers["Content-Type"] = "multipart/byteranges; boundary=B"
    del answer.headers["Content-Range"]
    return answer


def _with(**headers: str) -> Callable[[Request, Answer], Answer]:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request, answer: Answer(206, answer.headers | said, answer.body)


def _status(status: int, **headers: str) -> Callable[[Request, Answer], Answer]:
    return lambda request, answer: Answer(status, headers)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (_other_range, "other bytes than it was asked for"),
        (_no_range, "does not say which bytes"),
        (_no_size, "does not say which bytes"),
        (_multipart, "does not say which bytes"),
        (_no_length, "does not say how long"),
        (_longer, "more bytes than it says"),
        (_with(Content_Range=f"bytes 100-149/{1 << 63}"), "a size that none has"),
        (_with(Content_Range=f"bytes 100-149/{1 << 80}"), "does not say which bytes"),
        (_with(Last_Modified="yesterday"), "a modification time that is none"),
        (_with(ETag='"\xff"'), "headers are no text"),
        (_with(**{f"x{n}": "y" * 60_000 for n in range(20)}), "is no HTTP, or too much"),
        (_status(302), "leads nowhere"),
        (_status(302, Location="file:///etc/passwd"), "leads nowhere"),
        (_status(304), "with status 304$"),
        (_status(410), "does not exist"),
        (_status(500), "with status 500, again and again"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_answer_is_said(
    server: Server, fault: Callable[[Request, Answer], Answer], told: str
) -> None:
    """Also where the URL has words in it that errors have."""
    source, _ = head(server.put("redirect/IncompleteMessage/a.nc", DATA), None, 1)
    server.fault = fault
    with pytest.raises(SourceError) as error:
        read(source)
    assert re.search(told, error.value.reason), error.value.reason
    assert error.value.url == source.url


def test_who_has_no_tag_can_not_miss_it(server: Server) -> None:
    url = server.put("a.nc", DATA)
    server.fault = _status(412)
    with pytest.raises(SourceUnreadable, match="status 412"):
        head(url, None, 1)


# -- objects that change -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("etag", "mtime", "told"),
    [
        ('"a"', NOW, True),
        ('"a"', None, True),
        (None, NOW, True),
        ('W/"a"', NOW, True),
        ('W/"a"', None, True),
        (None, None, False),
    ],
)
def test_another_object_in_its_place(
    server: Server, etag: str | None, mtime: int | None, told: bool
) -> None:
    """Whatever the server tells of it is held against it; If-Match it need not mind."""
    source, _ = head(server.put("a.nc", DATA, etag=etag, mtime=mtime), None, 1)
    server.put(
        "a.nc",
        DATA[::-1],
        etag=etag and etag.replace("a", "b"),
        mtime=mtime and mtime + 1,
    )

    def deaf(request: Request, answer: Answer) -> Answer:
        request.headers.pop("if-match", None)
        return server.answer(request)

    server.fault = deaf
    if told:
        with pytest.raises(SourceChanged):
            read(source)
    else:
        assert read(source) == [DATA[::-1][100:150]]


def test_only_strong_tags_are_sent(server: Server) -> None:
    for etag, sent in [('"a"', '"a"'), ('W/"a"', None), (None, None)]:
        source, _ = head(server.put("a.nc", DATA, etag=etag), None, 1)
        read(source)
        assert server.requests[-1].headers.get("if-match") == sent


def test_a_tag_that_is_kept_back_later(server: Server, source: Source) -> None:
    """Nothing says then that it is the same object."""

    def mute(request: Request, answer: Answer) -> Answer:
        answer.headers.pop("ETag", None)
        return answer

    server.fault = mute
    with pytest.raises(SourceChanged, match="entity tag"):
        read(source)


@pytest.mark.parametrize(
    ("first", "later", "same"),
    [
        ('W/"a"', 'W/"a"', True),
        ('W/"a"', '"a"', True),  # it was young when it was scanned
        ('W/"a"', None, True),
        ('W/"a"', 'W/"b"', False),
        ('W/"a"', '"b"', False),
        ('"a"', 'W/"a"', False),
        (None, '"b"', True),
    ],
)
def test_tags_beside_a_time_that_stays(
    server: Server, first: str | None, later: str | None, same: bool
) -> None:
    """Times are told in seconds: within one, only the tag tells two objects apart."""
    source, _ = head(server.put("a.nc", DATA, etag=first), None, 1)
    server.put("a.nc", DATA, etag=later)

    def deaf(request: Request, answer: Answer) -> Answer:
        request.headers.pop("if-match", None)
        return server.answer(request)

    server.fault = deaf
    if same:
        assert read(source) == [DATA[100:150]]
    else:
        with pytest.raises(SourceChanged, match="entity tag"):
            read(source)


def test_each_answer_is_looked_at(server: Server, source: Source) -> None:
    """Also the last of many, when the object changes between two requests."""

    def late(request: Request, answer: Answer) -> Answer:
        if request.range and request.range[0] == 9_000:
            answer.headers["ETag"] = '"other"'
        return answer

    server.fault = late
    assert len(read(source, *[(n, 10) for n in range(0, 9_000, 1_000)])) == 9
    with pytest.raises(SourceChanged):
        read(source, *[(n, 10) for n in range(0, 10_000, 1_000)])


def test_changed_sources_are_found(server: Server, source: Source) -> None:
    gone, _ = head(server.put("gone.nc", DATA), None, 1)
    other, _ = head(server.put("other.nc", DATA), None, 1)
    shorter, _ = head(server.put("shorter.nc", DATA, etag=None), None, 1)
    del server.objects["/gone.nc"]
    server.put("other.nc", DATA)
    server.put("shorter.nc", b"", etag=None)
    server.requests.clear()
    found = changed_sources([source, gone, source, other, shorter])
    assert [(number, type(error)) for number, error in found] == [
        (1, SourceMissing),
        (3, SourceChanged),
        (4, SourceChanged),
    ]
    assert len(server.requests) == 5


def test_samples(server: Server, source: Source) -> None:
    large = Random(2).randbytes(300_000)
    for data in (DATA, large):
        source, _ = head(server.put("s.nc", data), None, 1)
        found = sampled(source)
        assert found == source._replace(sample=found.sample)
        blocks = [data[a : a + n] for a, n in remote.sample_ranges(len(data))]
        assert found.sample == sample_digest(len(data), blocks)
        # known for this state of the object: not read again
        server.requests.clear()
        copied = found._replace(mtime_ns=-1, etag=None)
        assert read(copied, (5, 5)) == [data[5:10]]
        assert len(server.requests) == 1
        assert changed_sources([copied]) == []
        server.put("s.nc", data[::-1])
        with pytest.raises(SourceChanged, match="sampled content"):
            read(copied)
        ((number, _),) = changed_sources([copied])
        assert number == 0
        with pytest.raises(SourceChanged):
            sampled(source)


# -- servers without ranges ----------------------------------------------------------------------


def _whole(server: Server) -> Callable[[Request, Answer], Answer]:
    def fault(request: Request, answer: Answer) -> Answer:
        request.headers.pop("range", None)
        return server.answer(request)

    return fault


def test_small_objects_are_read_whole_once(server: Server) -> None:
    server.fault = _whole(server)
    source, data = head(server.put("a.nc", DATA), None, 20)
    assert bytes(data) == DATA[:20]
    assert source.size == 10_000
    assert source.etag == server.objects["/a.nc"].etag
    assert read(source, (0, 5), (9_990, 10), (500, 1)) == [DATA[:5], DATA[9_990:], DATA[500:501]]
    assert len(server.requests) == 2
    with pytest.raises(ShortRead):
        read(source, (9_990, 11))
    remote_whole.forget()
    server.put("a.nc", DATA[::-1])
    with pytest.raises(SourceChanged):
        read(source)


@pytest.mark.parametrize(("etag", "mtime"), [("", NOW), ("", None), (None, NOW)])
def test_whole_objects_that_are_replaced_are_had_anew(
    server: Server, etag: str | None, mtime: int | None
) -> None:
    """Who opens one asks for it, and what was kept of it is nothing to who wants another."""
    server.fault = _whole(server)
    url = server.put("a.nc", DATA, etag=etag, mtime=mtime)
    old, _ = head(url, None, 20)
    assert read(old, (0, 5)) == [DATA[:5]]
    server.put("a.nc", DATA[::-1], etag=etag, mtime=mtime and mtime + 1)
    new, data = head(url, None, 20)
    assert bytes(data) == DATA[::-1][:20]
    assert read(new, (0, 5)) == [DATA[::-1][:5]]
    with pytest.raises(SourceChanged):
        read(old, (0, 5))
    server.fault = None  # from now on it gives ranges
    server.put("a.nc", DATA[1:] + DATA[:1], etag=etag, mtime=mtime and mtime + 2)
    newest, _ = head(url, None, 20)
    assert read(newest, (0, 5)) == [DATA[1:6]]


def test_what_nothing_pins_is_had_anew_when_it_is_opened(server: Server) -> None:
    server.fault = _whole(server)
    url = server.put("a.nc", DATA, etag=None, mtime=None)
    head(url, None, 20)
    server.put("a.nc", DATA[::-1], etag=None, mtime=None)
    source, data = head(url, None, 20)
    assert bytes(data) == DATA[::-1][:20]
    assert read(source, (0, 5)) == [DATA[::-1][:5]]


def test_large_objects_are_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_whole, "MAX_WHOLE", 9_999)
    server.fault = _whole(server)
    url = server.put("a.nc", DATA)
    with pytest.raises(SourceUnreadable, match="no ranges of bytes, and 10000 bytes") as error:
        head(url, None, 20)
    assert error.value.url == url


# -- secrets -------------------------------------------------------------------------------------


def test_headers_go_along_and_are_told_to_nobody(server: Server) -> None:
    url = server.put("a.nc", DATA)
    access = access_of(url, {"headers": {"Authorization": "Bearer s3cret"}})
    source, _ = head(url, access, 1)
    read(pickle.loads(pickle.dumps(source)))
    assert {r.headers["authorization"] for r in server.requests} == {"Bearer s3cret"}
    assert "s3cret" not in repr(source) + repr(access) + str(access.public)
    server.fault = lambda request, answer: Answer(401, {})
    with pytest.raises(SourceUnreadable) as error:
        read(source)
    assert "s3cret" not in "".join(traceback.format_exception(error.value)) + repr(error.value)


def test_a_password_in_the_url_identifies(server: Server) -> None:
    server.put("a.nc", DATA)
    url = server.url.replace("://", "://me:s3%40cret@") + "a.nc"
    source, _ = head(url, None, 1)
    assert read(source) == [DATA[100:150]]
    for request in server.requests:
        assert request.headers["authorization"] == "Basic bWU6czNAY3JldA=="
    with pytest.raises(ShortRead) as error:
        read(source, (10_000, 1))
    assert "cret" not in str(error.value)


def test_authorization_stays_with_its_server(server: Server) -> None:
    """Where it is sent to another one, that one is not told."""
    with serving() as other:
        other.put("a.nc", DATA)
        server.fault = lambda request, answer: Answer(302, {"Location": other.url + "a.nc"})
        url = server.put("a.nc", DATA)
        access = access_of(url, {"headers": {"Authorization": "Bearer s3cret"}})
        source, _ = head(url, access, 1)
        assert read(source) == [DATA[100:150]]
        assert all("authorization" in request.headers for request in server.requests)
        assert len(other.requests) == 2
        assert not any("authorization" in request.headers for request in other.requests)


@pytest.mark.parametrize(
    "url", ["http://me:s3cret@127.0.0.1:9/a.nc", "https://127.0.0.1:9/a.nc?sig=s3cret#s3cret"]
)
def test_urls_are_told_without_secrets(url: str) -> None:
    with pytest.raises(IntarsiaError) as error:
        head(url, None, 1)
    assert "s3cret" not in str(error.value)
    assert "127.0.0.1:9/a.nc" in str(error.value)
    assert "s3cret" not in str(ValueError(error.value))


def test_without_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(UnsupportedError, match=r"intarsia\[remote\]"):
        head("http://127.0.0.1:9/a.nc", None, 1)


def test_what_nothing_reads() -> None:
    with pytest.raises(UnsupportedError, match=re.escape("ftp://")):
        head("ftp://host/a.nc", None, 1)
