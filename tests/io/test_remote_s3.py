"""Sources in buckets: the contract of fetchers, ways of access, and patterns."""

from __future__ import annotations

import json
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from intarsia.errors import (
    IntarsiaError,
    MissingPackage,
    NotAFile,
    SourceError,
    SourceMissing,
    SourceUnreadable,
    UnsupportedError,
)
from intarsia.io.access import access_of
from intarsia.io.fetch import Fetcher, fetcher_for, observe
from intarsia.io.listing import expand, is_pattern
from intarsia.io.remote import RemoteFetcher, head
from intarsia.references import Source
from intarsia.testing import FetcherContract
from tests.io.s3_server import S3Server

DATA = bytes(range(256)) * 4
NUMBERS = count()


class TestS3(FetcherContract):
    """Objects of a bucket."""

    @pytest.fixture
    def fetcher(self) -> Fetcher:
        return RemoteFetcher()

    @pytest.fixture(autouse=True)
    def _own(self, s3: S3Server) -> None:
        self.server = s3

    def put(self, name: str, data: bytes) -> Source:
        url = self.server.put(f"bucket/contract/{next(NUMBERS)}/{name}", data)
        return head(url, access_of(url, self.server.options), 1)[0]

    def replace(self, source: Source, data: bytes) -> None:
        self.server.put(source.url.removeprefix("s3://"), data)

    def remove(self, source: Source) -> None:
        self.server.ask("DELETE", "/" + source.url.removeprefix("s3://"))


@pytest.mark.parametrize(
    "key", ["a.nc", "a b%20.nc", "ü.nc", "a+b&c=d.nc", "what?.nc", "a#b.nc", "x/y/z.nc"]
)
def test_keys_are_what_they_are(s3: S3Server, key: str) -> None:
    url = s3.put(f"bucket/keys/{key}", DATA)
    source, data = head(url, access_of(url, s3.options), 10)
    assert bytes(data) == DATA[:10]
    assert (source.url, source.size) == (url, len(DATA))
    assert bytes(fetcher_for(source).read(source, [(7, 3)])[0]) == DATA[7:10]


def test_anonymous(s3: S3Server) -> None:
    url = s3.put("bucket/public.nc", DATA)
    private = s3.put("bucket/private.nc", DATA, public=False)
    access = access_of(url, {"endpoint": s3.endpoint, "anon": True})
    s3.requests.clear()
    assert bytes(head(url, access, 5)[1]) == DATA[:5]
    assert ["authorization" in request.headers for request in s3.requests] == [False]
    with pytest.raises(SourceUnreadable, match="403") as error:
        head(private, access, 5)
    assert "credentials" in str(error.value)


def test_requester_pays(s3: S3Server) -> None:
    url = s3.put("bucket/paid.nc", DATA)
    for told in ({"requester_pays": True}, {"request_payer": "requester"}):
        s3.requests.clear()
        source, _ = head(url, access_of(url, {**s3.options, **told}), 5)
        fetcher_for(source).read(source, [(0, 5)])
        assert len(s3.requests) == 2
        for request in s3.requests:
            assert request.headers["x-amz-request-payer"] == "requester"


def test_signatures_name_region_and_key(s3: S3Server) -> None:
    url = s3.put("bucket/signed.nc", DATA)
    s3.requests.clear()
    head(url, access_of(url, {**s3.options, "region": "eu-north-1", "token": "t0ken"}), 5)
    told = s3.requests[0].headers
    assert "access/" in told["authorization"]
    assert "/eu-north-1/s3/" in told["authorization"]
    assert told["x-amz-security-token"] == "t0ken"


def test_credentials_of_the_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.put("bucket/environment.nc", DATA)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "fromenv")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AWS_REGION", "eu-south-1")
    s3.requests.clear()
    head(url, access_of(url, {"endpoint": s3.endpoint, "allow_http": True}), 5)
    assert "fromenv/" in s3.requests[0].headers["authorization"]
    assert "/eu-south-1/" in s3.requests[0].headers["authorization"]


def test_what_is_said_anew_in_the_environment_counts(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also for who has failed before, and for who reads what was opened."""
    url = s3.put("bucket/anew.nc", DATA, public=False)
    keys = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint + "/nowhere")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    with pytest.raises(SourceError):
        head(url, None, 5)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    source, _ = head(url, None, 5)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    assert bytes(fetcher_for(source).read(source, [(3, 4)])[0]) == DATA[3:7]
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for name in ("third", "fourth"):
        keys.write_text(f"[default]\naws_access_key_id = {name}\naws_secret_access_key = s3cret\n")
        assert bytes(fetcher_for(source).read(source, [(3, 4)])[0]) == DATA[3:7]
    asked = [request.headers["authorization"] for request in s3.requests[-4:]]
    found = [text.partition("Credential=")[2].partition("/")[0] for text in asked]
    assert found == ["first", "second", "third", "fourth"]


def test_credentials_of_a_profile(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = s3.put("bucket/profile.nc", DATA)
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = plain\naws_secret_access_key = s3%cret\n"
        "[lab]\naws_access_key_id = oflab\naws_secret_access_key = s3cret\n"
    )
    (tmp_path / "config").write_text("[profile lab]\nregion = sa-east-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for number, (told, key, region) in enumerate(
        [({}, "plain", "us-east-1"), ({"profile": "lab"}, "oflab", "sa-east-1")]
    ):
        s3.requests.clear()
        agent = {"user_agent": f"profile {number}"}  # clients are kept
        head(url, access_of(url, {"endpoint": s3.endpoint, **agent, **told}), 5)
        assert f"{key}/" in s3.requests[0].headers["authorization"]
        assert f"/{region}/" in s3.requests[0].headers["authorization"]


def test_credentials_that_a_program_tells(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a profile says beyond plain keys is boto3's to understand."""
    url = s3.put("bucket/program.nc", DATA)
    told = {"Version": 1, "AccessKeyId": "ofprogram", "SecretAccessKey": "s3cret"}
    (tmp_path / "told").write_text(json.dumps(told))
    (tmp_path / "config").write_text(
        f"[profile program]\ncredential_process = cat {tmp_path / 'told'}\nregion = sa-east-1\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "program")
    s3.requests.clear()
    agent = {"user_agent": "program"}  # clients are kept
    head(url, access_of(url, {"endpoint": s3.endpoint, **agent}), 5)
    assert "ofprogram/" in s3.requests[0].headers["authorization"]
    assert "/sa-east-1/" in s3.requests[0].headers["authorization"]


def test_without_what_understands_a_profile(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = s3.put("bucket/sso.nc", DATA)
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "config").write_text(
        "[profile sso]\nsso_session = lab\n[profile role]\nrole_arn = arn:x\n"
    )
    for number, name in enumerate(("sso", "role")):
        told = {"endpoint": s3.endpoint, "profile": name, "user_agent": f"without {number}"}
        with pytest.raises(MissingPackage, match=r"understood by boto3.*sso\.nc; pip install"):
            head(url, access_of(url, told), 5)
        monkeypatch.setenv("AWS_PROFILE", name)
        with pytest.raises(MissingPackage, match="boto3"):
            head(url, access_of(url, {**told, "profile": None}), 5)
    assert not s3.requests[1:]


@pytest.mark.usefixtures("impatient")
def test_no_credentials(s3: S3Server) -> None:
    """It says what to do, and soon."""
    url = s3.put("bucket/nobody.nc", DATA)
    told = {"endpoint": s3.endpoint, "metadata_endpoint": "http://127.0.0.1:9"}
    start = time.monotonic()
    with pytest.raises(SourceUnreadable, match="no credentials are found") as error:
        head(url, access_of(url, told), 5)
    assert "skip_signature" in str(error.value)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("place", ["bucket/nothing.nc", "nobucket/a.nc"])
def test_missing(s3: S3Server, place: str) -> None:
    with pytest.raises(SourceMissing) as error:
        head(f"s3://{place}", access_of("s3://b/", s3.options), 5)
    assert error.value.url == f"s3://{place}"
    assert "s3cret" not in str(error.value)


def test_empty(s3: S3Server) -> None:
    url = s3.put("bucket/empty.nc", b"")
    with pytest.raises(NotAFile, match="empty"):
        head(url, access_of(url, s3.options), 5)


# -- patterns ------------------------------------------------------------------------------------

KEYS = ["a/1.nc", "a/2.nc", "a/10.nc", "a/2.txt", "a/b/1.nc", "a/b/c/2.nc", "b/1.nc", "a-1.nc"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a/*.nc", ["a/1.nc", "a/10.nc", "a/2.nc"]),
        ("a/?.nc", ["a/1.nc", "a/2.nc"]),
        ("a/[13-9]*.nc", ["a/1.nc", "a/10.nc"]),
        ("a/[!1]*", ["a/2.nc", "a/2.txt"]),
        ("*/1.nc", ["a/1.nc", "b/1.nc"]),
        ("**/1.nc", ["a/1.nc", "a/b/1.nc", "b/1.nc"]),
        ("a/**/*.nc", ["a/1.nc", "a/10.nc", "a/2.nc", "a/b/1.nc", "a/b/c/2.nc"]),
        ("a/*/*.nc", ["a/b/1.nc"]),
        ("a*.nc", ["a-1.nc"]),
        ("a/1*", ["a/1.nc", "a/10.nc"]),
        ("c/*", []),
        ("a/1.nc", ["a/1.nc"]),
    ],
)
def test_patterns(s3: S3Server, pattern: str, found: list[str]) -> None:
    for key in KEYS:
        s3.put(f"bucket/globs/{key}", b"x")
    s3.put("bucket/elsewhere/a/1.nc", b"x")
    s3.requests.clear()
    access = access_of("s3://bucket/", s3.options)
    with observe() as reads:
        urls = expand(f"s3://bucket/globs/{pattern}", access)
    assert urls == [f"s3://bucket/globs/{key}" for key in found]
    looked = pattern in ("a/*", "a/[!1]*")  # into the folder that matches: it could be Zarr
    assert len(s3.requests) == reads.requests == (0 if pattern == "a/1.nc" else 1 + looked)
    folder = pattern[: min(pattern.find(c) % 99 for c in "*?[")].rpartition("/")[0]
    for request in s3.requests:
        assert f"prefix=globs%2F{folder.replace('/', '%2F')}" in request.query


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("200*", ["2001.nc", "2003.zarr", "2005/"]),
        ("*.zarr", ["2003.zarr"]),
        ("*.nc", ["2001.nc"]),
        ("**", ["2001.nc", "2003.zarr", "2005/", "2009/a.txt"]),
        ("*/zarr.json", []),
    ],
)
def test_zarr_folders_match_as_one(s3: S3Server, pattern: str, found: list[str]) -> None:
    keys = ["2001.nc", "2003.zarr/.zgroup", "2003.zarr/v/.zarray", "2003.zarr/v/0"]
    for key in [*keys, "2005/zarr.json", "2005/v/zarr.json", "2005/v/c/0", "2009/a.txt"]:
        s3.put(f"bucket/mixed/{key}", b"x")
    urls = expand(f"s3://bucket/mixed/{pattern}", access_of("s3://bucket/", s3.options))
    assert urls == [f"s3://bucket/mixed/{key}" for key in found]


def test_long_listings(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    for number in range(25):
        s3.put(f"bucket/many/{number:02}", b"x")
    for pattern in ("many/*", "**/many/*"):
        s3.requests.clear()
        urls = expand(f"s3://bucket/{pattern}", access_of("s3://bucket/", s3.options))
        assert urls == [f"s3://bucket/many/{number:02}" for number in range(25)]
        assert len(s3.requests) > 2


@pytest.mark.parametrize("pattern", ["https://host/a/*.nc", "http://host/*", "s3://b*/a.nc"])
def test_what_can_not_be_listed(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="pattern|list of URLs"):
        expand(pattern, None)


def test_listing_nothing(s3: S3Server) -> None:
    with pytest.raises(IntarsiaError, match="does not exist"):
        expand("s3://nobucket/*.nc", access_of("s3://b/", s3.options))


def test_queries_are_no_patterns() -> None:
    for url in ("https://host/a.nc?version=*", "https://host/a.nc?x=[1]", "http://[::1]/a.nc"):
        assert not is_pattern(url)
        assert expand(url) == [url]
    assert is_pattern("s3://bucket/a?.nc")
