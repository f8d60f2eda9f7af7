"""What of the network a store may reach by its own word."""

from __future__ import annotations

import ipaddress
import posixpath
import socket
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from intarsia.access import PUBLIC_OPTIONS, Access
from intarsia.errors import SourceUnreadable, UnsafeStore
from intarsia.io import reach
from intarsia.io.reach import (
    SWITCHES,
    TEXTS,
    check_addresses,
    check_location,
    check_options,
    check_reach,
    host_flaw,
    is_public,
    told_options,
)

PUBLIC = [
    *(
        "s3://bucket/",
        "s3://bucket/a/b/",
        "gs://some.bucket_1/",
        "az://$web/x/",
        "az://con-tainer/",
    ),
    *("https://data.example.org/", "https://host.example.org:8443/a b/é/", "https://a.org./x/"),
    *("https://xn--bcher-kva.example.xn--p1ai/", "https://ftp.x.co.uk/(1)/~me/%20a/"),
]

ADDRESSES = [
    *("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.1.1", "0.0.0.0", "100.64.0.1"),
    *("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "0x7f.0.0x0.1"),
    *("169.254.43518", "8.8.8.8", "127.0.0.1.", "[::1]", "[fd00::1]", "[fe80::1]", "[::]"),
    *("[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
    *("[2606:4700::1111]", "0x", "1.0x7f"),
]

INSIDE = [
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "printer.local", "x.internal"),
    *("metadata.google.internal", "server", "nas.lan", "a.home.arpa", "x.corp", "router.home"),
    *("a.intranet", "db.private", "mail", "x.localdomain", "1.0.0.127.in-addr.arpa", "a.onion"),
    *("a.test", "a.x_y", "a.1b"),
]


@pytest.mark.parametrize("location", PUBLIC)
def test_public_places(location: str) -> None:
    assert check_reach(location, {}) == location.startswith("https")


@pytest.mark.parametrize("host", ADDRESSES)
@pytest.mark.parametrize("port", ["", ":9000"])
def test_addresses_in_any_spelling(host: str, port: str) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(UnsafeStore, match="is an address|no host that could be one"):
            check_reach(f"{scheme}://{host}{port}/latest/meta-data/", {})


@pytest.mark.parametrize("host", INSIDE)
def test_names_of_private_networks(host: str) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(UnsafeStore, match="private network"):
            check_reach(f"{scheme}://{host}/", {})
    assert host_flaw(f"{host.rstrip('.')}.example.org") is None


@pytest.mark.parametrize(
    "location",
    [
        *("", "/", "s3://", "s3:///a/", "s3://bucket", "s3://bucket/a", "://a/", "S3://bucket/"),
        *("https://user:pw@host.org/", "https://user@host.org/", "s3://key:secret@bucket/"),
        *("https://host.org/a?b/", "https://host.org/#a/", "https://host.org/?a=1/", "s3://b/?/"),
        *("https://host.org\\@evil.org/", "https://host.org/a\\b/", "https://host.org/a\r\nX: y/"),
        *("https://host.org\r\n/", "https://ho st.org/", "https://host.org/\0/", "https://hö.org/"),
        *("https://host.org/../a/", "https://host.org/a/%2e%2e/b/", "https://host.org/.%2E/"),
        *("s3://bucket/a/../../other/", "s3://bucket/./", "s3://bucket//a/", "s3://bucket/ /"),
        *("s3://bucket/\x7f/", "s3://bucket/\ud800/", "https://host.org:99999/", "https://:80/"),
        *("https://①②⑦.org/", "https://host.org%2f.evil.org/", "https://[::1%25eth0]/"),
        *("s3://a..b/", "s3://b%2fc/", "az://c@account/", "s3://bücket/", "s3://b:80/"),
        "s3://bucket/" + "a/" * 3_000,
        "https://" + "a." * 3_000 + "org/",
    ],
)
def test_what_is_no_location(location: str) -> None:
    with pytest.raises(UnsafeStore):
        check_location(location)


@pytest.mark.parametrize(
    "location", ["ftp://host.org/", "file:///etc/", "file://host.org/", "gopher://host.org/",
                 "http://data.example.org/", "memory://x/", "s3a://bucket/", "dict://host.org/"]
)  # fmt: skip
def test_other_ways(location: str) -> None:
    with pytest.raises(UnsafeStore, match=r"reached by|not encrypted|neither"):
        check_reach(location, {})


# -- options ---------------------------------------------------------------------------------------


def test_all_public_options_can_be_told() -> None:
    """Whether http is allowed is said by the endpoint."""
    assert PUBLIC_OPTIONS - {"allow_http"} == {*SWITCHES, *TEXTS}


def test_options_that_are_told() -> None:
    access = Access(
        (
            ("access_key_id", "AKIA"),
            ("allow_http", True),
            ("endpoint", "http://127.0.0.1:9000"),
            ("header:authorization", "Bearer x"),
            ("region", "eu-west-1"),
            ("request_payer", False),
            ("secret_access_key", "s3cr3t"),
            ("skip_signature", True),
        )
    )
    told = (
        ("endpoint", "http://127.0.0.1:9000"),
        ("region", "eu-west-1"),
        ("skip_signature", True),
    )
    assert told_options(access) == told
    assert check_options(dict(told)) == told
    assert told_options(None) == told_options(Access()) == ()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"access_key_id": "AKIA"}, "no store may tell"),
        ({"allow_http": True}, "no store may tell"),
        ({"allow_invalid_certificates": True}, "no store may tell"),
        ({"header:host": "x"}, "no store may tell"),
        ({"proxy_url": "http://evil.org"}, "no store may tell"),
        ({"metadata_endpoint": "http://evil.org"}, "no store may tell"),
        ({"region": "evil.org/#"}, "can't have"),
        ({"region": "a.evil.org"}, "can't have"),
        ({"region": ""}, "can't have"),
        ({"region": True}, "can't have"),
        ({"region": "a" * 2_000}, "can't have"),
        ({"account_name": "evil.org/"}, "can't have"),
        ({"account_name": "me@evil"}, "can't have"),
        ({"account_name": "evil#"}, "can't have"),
        ({"endpoint": "https://me:pw@host.org"}, "can't have"),
        ({"endpoint": "https://host.org/\r\nX: y"}, "can't have"),
        ({"endpoint": "file:///etc"}, "can't have"),
        ({"skip_signature": "true"}, "can't have"),
        ({"skip_signature": 1}, "can't have"),
        ({"skip_signature": None}, "can't have"),
    ],
)
def test_options_that_no_store_tells(options: dict[str, object], reason: str) -> None:
    with pytest.raises(UnsafeStore, match=reason):
        check_options(options)


@pytest.mark.parametrize("name", ["endpoint", "request_payer"])
def test_what_only_the_caller_says(name: str) -> None:
    value = "https://minio.example.org" if name == "endpoint" else True
    with pytest.raises(UnsafeStore, match=name) as error:
        check_reach("s3://bucket/", {name: value})
    assert error.value.remedy == f"if you agree, say so: storage_options={{'{name}': ...}}"
    assert not check_reach("s3://bucket/", {"skip_signature": True, "region": "us-east-1"})


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
        *((text, False) for text in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1")),
        *((text, False) for text in ("0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1")),
        *((text, False) for text in ("::1", "::", "fc00::1", "fe80::1", "ff02::1", "fec0::1")),
        *((text, False) for text in ("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::")),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) == public


def resolver(*found: str) -> reach.Resolver:
    def resolve(name: str, port: int) -> Iterable[str]:
        assert (name, port) == ("data.example.org", 443)
        return found

    return resolve


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_looked_at", set())
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


URL = "https://data.example.org/sst/a.nc"


@pytest.mark.usefixtures("fresh")
def test_a_name_that_leads_inside() -> None:
    for found in (["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:192.168.0.1"], ["fe80::1%eth0"]):
        with pytest.raises(UnsafeStore, match="no public address.*name the place") as error:
            check_addresses(URL, resolver(*found))
        assert error.value.url == URL
    with pytest.raises(UnsafeStore, match="has no address"):
        check_addresses(URL, resolver())
    check_addresses(URL, resolver("8.8.8.8", "2606:4700::1111"))
    check_addresses(URL, resolver("127.0.0.1"))  # once per host: then it is the certificate's turn


@pytest.mark.usefixtures("fresh")
def test_a_name_that_is_not_known() -> None:
    def fails(name: str, port: int) -> Iterable[str]:
        raise OSError("no such name")

    for _ in range(2):  # nor later
        with pytest.raises(SourceUnreadable, match="not known: no such name"):
            check_addresses(URL, fails)


@pytest.mark.usefixtures("fresh")
def test_a_proxy_knows_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    check_addresses(URL, resolver("127.0.0.1"))
    monkeypatch.setenv("no_proxy", "example.org")
    with pytest.raises(UnsafeStore):
        check_addresses(URL, resolver("127.0.0.1"))


# -- whatever is said ------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("https", "s3", "az", "http", "file", "://", "/", "//", "\\", "@", ":", "?", "#", "%2e"),
        *("..", ".", "a", "org", "example.org", "localhost", "127.0.0.1", "0x7f", "2130706433"),
        *("[::1]", "user:pw", "80", "99999", "\r\n", "\t", " ", "%", "é", "１２７", "。", "-", "_"),
        *("$", "xn--a"),
    ]
)


@given(st.lists(PIECES, max_size=9).map("".join) | st.text(max_size=12))
@example("https://example.org/a/")
@example("https://example.org:80/")
def test_what_passes_leads_where_others_see_it(text: str) -> None:
    location = text if "://" in text else f"https://{text}"
    location = location if location.endswith("/") else f"{location}/"
    try:
        guarded = check_reach(location, {})
    except UnsafeStore:
        return
    parts = urlsplit(location)
    assert parts.scheme in ("s3", "gs", "az", "https")
    assert guarded == (parts.scheme == "https")
    assert (parts.username, parts.password, parts.query, parts.fragment) == (None, None, "", "")
    assert location == f"{parts.scheme}://{parts.netloc}{parts.path}"
    assert parts.netloc.isascii()
    assert posixpath.normpath(unquote(parts.path)) == (unquote(parts.path).rstrip("/") or "/")
    if guarded:
        assert parts.port is None or 0 <= parts.port < 1 << 16
        assert "." in (parts.hostname or "")
        with pytest.raises(OSError, match="illegal IP address"):
            socket.inet_aton(parts.hostname or "")
