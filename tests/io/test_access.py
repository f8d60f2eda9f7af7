"""Storage options and registries, as users say them."""

from __future__ import annotations

import pickle
from typing import Any
from urllib.parse import quote

import pytest
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import HTTPStore, LocalStore, MemoryStore, S3Store

from intarsia.errors import SourceChanged, SourceMissing, UnsupportedError
from intarsia.io.access import access_of
from intarsia.io.fetch import fetcher_for
from intarsia.io.remote import head
from intarsia.io.remote_clients import client_of
from tests.io.http_server import Server

S3 = "s3://bucket/a.nc"


def options(url: str, **told: Any) -> dict[str, Any]:
    access = access_of(url, told)
    return {} if access is None else dict(access.options)


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ({"region": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"aws_region": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"AWS_REGION": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"region_name": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"client_kwargs": {"region_name": "eu-west-1"}}, {"region": "eu-west-1"}),
        ({"anon": True}, {"skip_signature": True}),
        ({"anon": "true"}, {"skip_signature": True}),
        ({"anon": False}, {"skip_signature": False}),
        ({"skip_signature": True, "anon": True}, {"skip_signature": True}),
        ({"requester_pays": True}, {"request_payer": True}),
        ({"request_payer": "requester"}, {"request_payer": True}),
        (
            {"key": "k", "secret": "s", "token": "t"},
            {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"},
        ),
        (
            {"aws_access_key_id": "k", "aws_secret_access_key": "s"},
            {"access_key_id": "k", "secret_access_key": "s"},
        ),
        ({"endpoint_url": "https://m:9000"}, {"endpoint": "https://m:9000"}),
        (
            {"endpoint": "http://m:9000"},
            {"endpoint": "http://m:9000", "allow_http": True},
        ),
        (
            {"client_kwargs": {"endpoint_url": "http://m:9000", "verify": False}},
            {
                "endpoint": "http://m:9000",
                "allow_http": True,
                "allow_invalid_certificates": True,
            },
        ),
        (
            {"config_kwargs": {"s3": {"addressing_style": "virtual"}}},
            {"virtual_hosted_style_request": True},
        ),
        ({"profile": "lab"}, {"profile": "lab"}),
        ({"default_fill_cache": False, "default_cache_type": "none", "region": None}, {}),
        ({"client_options": {"user_agent": "me"}}, {"user_agent": "me"}),
        ({"headers": {"X-Who": "me"}}, {"header:x-who": "me"}),
    ],
)
def test_words_for_s3(told: dict[str, Any], meant: dict[str, Any]) -> None:
    assert options(S3, **told) == meant


@pytest.mark.parametrize(
    ("url", "told", "meant"),
    [
        ("gs://b/a", {"token": "anon"}, {"skip_signature": True}),
        ("gs://b/a", {"token": "/k.json"}, {"application_credentials": "/k.json"}),
        ("gs://b/a", {"token": "google_default", "project": "p"}, {}),
        ("gs://b/a", {"google_bearer_token": "t"}, {"bearer_token": "t"}),
        (
            "az://c/a",
            {"account_name": "n", "sas_token": "s"},
            {"account_name": "n", "sas_key": "s"},
        ),
        (
            "abfs://c/a",
            {"azure_storage_account_name": "n", "azure_storage_sas_key": "s"},
            {"account_name": "n", "sas_key": "s"},
        ),
        (
            "https://h/a",
            {"headers": {"Authorization": "b"}, "ssl": False},
            {"header:authorization": "b", "allow_invalid_certificates": True},
        ),
        (
            "https://h/a",
            {"client_kwargs": {"headers": {"A": "b"}, "trust_env": True}},
            {"header:a": "b"},
        ),
    ],
)
def test_words_for_others(url: str, told: dict[str, Any], meant: dict[str, Any]) -> None:
    assert options(url, **told) == meant


@pytest.mark.parametrize(
    ("url", "told", "error", "said"),
    [
        (S3, {"acess_key": "s3cret"}, ValueError, "no storage option 'acess_key' for s3://"),
        (S3, {"account_name": "s3cret"}, ValueError, "'account_name'"),
        (S3, {"client_kwargs": {"regio": "s3cret"}}, ValueError, "'regio'"),
        (S3, {"key": 7_000_001}, TypeError, "'key' must be text, got a int"),
        (S3, {"key": "s3cret", "access_key_id": "other"}, ValueError, "synonym"),
        (S3, {"anon": "s3cret"}, ValueError, "'anon' must be True or False"),
        (S3, {"client_kwargs": "s3cret"}, TypeError, "'client_kwargs' must be a mapping"),
        (S3, {"config_kwargs": {"retries": 3}}, ValueError, "'config_kwargs'"),
        (S3, {"endpoint": "https://me:s3cret@host"}, ValueError, "user name or password"),
        (S3, {7: "s3cret"}, TypeError, "names of storage options"),
        ("gs://b/a", {"token": "s3cret"}, ValueError, "bearer_token"),
        ("https://h/a", {"key": "s3cret"}, ValueError, "'key' for http://"),
        ("https://h/a", {"headers": {"A": 1}}, TypeError, "headers"),
        ("ftp://h/a", {"key": "s3cret"}, UnsupportedError, "ftp://"),
        ("/data/a.nc", {"anon": True}, ValueError, "is a path of this machine"),
    ],
)
def test_what_is_refused(url: str, told: Any, error: type, said: str) -> None:
    """By name; never with the value."""
    with pytest.raises(error) as raised:
        access_of(url, told)
    assert said in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert "7000001" not in str(raised.value)


def test_nothing_said_is_nothing_kept() -> None:
    for told in (None, {}, {"region": None}, {"default_cache_type": "none"}):
        assert access_of(S3, told) is None
    assert access_of("/data/a.nc", {}) is None
    with pytest.raises(TypeError, match="storage_options must be a mapping"):
        access_of(S3, "anon")  # type: ignore[arg-type]


def test_equal_options_are_one_object() -> None:
    first = access_of(S3, {"anon": True, "region": "r"})
    assert access_of("s3://other/b.nc", {"region": "r", "skip_signature": True}) is first
    assert access_of(S3, {"anon": True}) is not first
    assert first is not None
    assert pickle.loads(pickle.dumps(first)) == first


def test_secrets_are_shown_to_nobody() -> None:
    access = access_of(S3, {"key": "s3cret", "secret": "s3cret", "region": "r"})
    assert access is not None
    assert repr(access) == "Access(region='r', access_key_id=..., secret_access_key=...)"
    assert access.public == (("region", "r"),)


# -- registries ----------------------------------------------------------------------------------


def test_a_registry_finds_stores() -> None:
    store, other = MemoryStore(), S3Store("bucket", prefix="deep/er", skip_signature=True)
    store.put("x/a.nc", b"0123456789")
    mine = ObjectStoreRegistry({"s3://mine": store, "s3://bucket/deep/er": other})
    access = access_of("s3://mine/x/a.nc", None, mine)
    assert access is not None
    assert access.store is store
    assert access.prefix == "s3://mine/"
    assert access_of("s3://mine/y/b.nc", None, mine) is access
    source, data = head("s3://mine/x/a.nc", access, 4)
    assert bytes(data) == b"0123"
    assert source.size == 10
    assert bytes(fetcher_for(source).read(source, [(3, 4)])[0]) == b"3456"
    store.put("x/a.nc", b"9876543210")
    with pytest.raises(SourceChanged):
        fetcher_for(source).read(source, [(3, 4)])
    store.delete("x/a.nc")
    with pytest.raises(SourceMissing):
        fetcher_for(source).read(source, [(3, 4)])
    deep = access_of("s3://bucket/deep/er/x/a.nc", None, mine)
    assert deep is not None
    assert (deep.store, deep.prefix) == (other, "s3://bucket/deep/er/")


def test_a_mapping_is_a_registry(server: Server, tmp_path: Any) -> None:
    (tmp_path / "a.nc").write_bytes(b"abcdef")
    server.put("sub/a.nc", b"0123456789")
    stores = {
        "s3://archive": LocalStore(tmp_path),
        "https://far/x/": HTTPStore(server.url + "sub", client_options={"allow_http": True}),
        "https://far/x/y": MemoryStore(),
    }
    for url, found in [("s3://archive/a.nc", b"abcd"), ("https://far/x/a.nc", b"0123")]:
        assert bytes(head(url, access_of(url, None, stores), 4)[1]) == found
    access = access_of("https://far/x/y/a.nc", None, stores)
    assert access is not None
    assert access.store is stores["https://far/x/y"]


def test_a_folder_may_be_the_root_of_a_store() -> None:
    outer, inner = MemoryStore(), MemoryStore()
    outer.put("a.zarr/.zgroup", b"outer")
    inner.put(".zgroup", b"inner")
    for stores in ({"s3://b": outer, "s3://b/a.zarr": inner}, {"s3://b/a.zarr/": inner}):
        for url in ("s3://b/a.zarr", "s3://b/a.zarr/"):
            access = access_of(url, None, stores)
            assert access is not None
            assert access.store is inner
            assert client_of(url, access) == (inner, "")
            assert bytes(head(f"{url.rstrip('/')}/.zgroup", access, 5)[1]) == b"inner"


@pytest.mark.parametrize("name", ["sp ace.nc", "per%20cent.nc", "pl+us.nc", "ü.nc", "a/b.nc"])
def test_a_store_of_a_web_server_is_asked_for_what_the_url_means(server: Server, name: str) -> None:
    """The client quotes names, which are quoted in URLs already."""
    server.put(f"sub/{quote(name, safe='/+')}", b"0123456789")
    store = HTTPStore(server.url + "sub", client_options={"allow_http": True})
    url = f"https://far/x/{quote(name)}"
    access = access_of(url, None, {"https://far/x": store})
    assert bytes(head(url, access, 4)[1]) == b"0123"
    with pytest.raises(UnsupportedError, match="%2F"):
        head("https://far/x/a%2Fb.nc", access, 4)


@pytest.mark.parametrize(
    ("url", "registry", "error"),
    [
        ("s3://other/a.nc", {"s3://mine": MemoryStore()}, ValueError),
        ("s3://mine2/a.nc", {"s3://mine": MemoryStore()}, ValueError),
        ("s3://other/a.nc", ObjectStoreRegistry({"s3://mine": MemoryStore()}), ValueError),
        ("https://h/a.nc?b", {"https://h": MemoryStore()}, ValueError),
        ("https://me:s3cret@h/a.nc", {"https://h": MemoryStore()}, ValueError),
        ("s3://mine/a.nc", MemoryStore(), TypeError),
    ],
)
def test_what_a_registry_lacks(url: str, registry: Any, error: type) -> None:
    with pytest.raises(error, match="registry") as raised:
        access_of(url, None, registry)
    assert "s3cret" not in str(raised.value)


def test_paths_need_no_registry() -> None:
    assert access_of("/data/a.nc", None, {"file:///": LocalStore()}) is None
    with pytest.raises(ValueError, match="not both"):
        access_of(S3, {"anon": True}, {"s3://bucket": MemoryStore()})
