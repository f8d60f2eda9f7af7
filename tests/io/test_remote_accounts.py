"""Accounts of Google's and Azure's services: in each request as they should be, nowhere else."""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

import numpy as np
import pytest
import xarray as xr
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

import intarsia
from intarsia.errors import SourceUnreadable
from intarsia.io.access import access_of
from intarsia.io.remote import RemoteFetcher, head
from intarsia.io.remote_clients import forget_clients
from tests.io.http_server import Answer, Fault, Request, Server, serving

DATA = bytes(range(200))
KEY = base64.b64encode(b"s3cret" * 8).decode()
SIGNATURE = "s3cret/+="
SAS = "sv=2024-01-01&sr=c&sig=s3cret%2F%2B%3D"


class Account(NamedTuple):
    """A way to be known.

    Parameters
    ----------
    url
        Of an object.
    told
        Storage options, ``{}`` in which is the server.
    shown
        Fails where a request does not show who asks.
    """

    url: str
    told: dict[str, str]
    shown: Callable[[Request], None]


def bearer(request: Request) -> None:
    assert request.headers["authorization"] == "Bearer s3cret"
    assert request.query == ""


def shared_key(request: Request) -> None:
    who, _, signature = request.headers["authorization"].partition(":")
    assert who == "SharedKey mylab"
    assert len(base64.b64decode(signature)) == 32
    assert request.query == ""


def sas(request: Request) -> None:
    assert parse_qs(request.query) == {"sv": ["2024-01-01"], "sr": ["c"], "sig": [SIGNATURE]}
    assert "authorization" not in request.headers


AZURE = {"account_name": "mylab", "endpoint": "{}"}
ACCOUNTS = {
    "google, a token": Account(
        "gs://bucket/x/a b.nc", {"base_url": "{}", "bearer_token": "s3cret"}, bearer
    ),
    "azure, a token": Account("az://bucket/x/a b.nc", {**AZURE, "bearer_token": "s3cret"}, bearer),
    "azure, a key": Account("abfs://bucket/x/a b.nc", {**AZURE, "account_key": KEY}, shared_key),
    "azure, a signature": Account("az://bucket/x/a b.nc", {**AZURE, "sas_token": SAS}, sas),
    "azure, a signature with its mark": Account(
        "az://bucket/x/a b.nc", {**AZURE, "sas_key": "?" + SAS}, sas
    ),
}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No credentials are around."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    forget_clients()
    yield
    forget_clients()


def decoded(server: Server) -> Fault:
    """Services differ in what they encode of a key."""

    def fault(request: Request, answer: Answer) -> Answer:
        request.path = unquote(request.path)
        return server.answer(request)

    return fault


def options(server: Server, told: dict[str, str]) -> dict[str, Any]:
    return {name: value.format(server.url.rstrip("/")) for name, value in told.items()}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_each_request_shows_who_asks(server: Server, name: str) -> None:
    url, told, shown = ACCOUNTS[name]
    server.put("bucket/x/a b.nc", DATA)
    server.fault = decoded(server)
    access = access_of(url, options(server, told))
    source, first = head(url, access, 5)
    assert bytes(first) == DATA[:5]
    there = pickle.loads(pickle.dumps(source))  # as in another process
    forget_clients()
    assert bytes(RemoteFetcher().read(there, [(7, 3)])[0]) == DATA[7:10]
    assert len(server.requests) == 2
    for request in server.requests:
        assert request.path == "/bucket/x/a b.nc"
        shown(request)


@pytest.mark.parametrize("name", ACCOUNTS)
def test_nobody_else_is_told(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither other accounts, nor whom a server sends on to, nor who reads errors and stores."""
    url, told, shown = ACCOUNTS[name]
    path = tmp_path / "a.nc"
    field = xr.Dataset({"v": ("x", np.arange(50_000.0))})
    field.to_netcdf(path, engine="h5netcdf")
    server.put("bucket/x/a b.nc", path.read_bytes())
    server.fault = decoded(server)
    given = options(server, told)
    ds = intarsia.open_dataset(url, storage_options=given)
    store = tmp_path / "s.intarsia"
    ds.intarsia.save(store)
    for saved in [*store.rglob("*"), *tmp_path.glob("*.intarsia")]:
        assert saved.is_dir() or not secret(saved.read_bytes().decode("latin-1"))
    assert not secret(repr(ds), repr(ds.encoding), repr(ds.v.data), str(ds.intarsia.report()))
    np.testing.assert_array_equal(ds.v.values, field.v.values)
    assert len(server.requests) > 1
    for request in server.requests:
        shown(request)

    # the same place, without the account, and by plain HTTP
    server.requests.clear()
    nothing = {key: value for key, value in given.items() if key in AZURE | {"base_url": ""}}
    head(url, access_of(url, {**nothing, "anon": True}), 5)
    head(server.url + "bucket/x/a%20b.nc", None, 5)
    assert len(server.requests) == 2
    for request in server.requests:
        assert "authorization" not in request.headers
        assert request.query == ""

    # sent on to another server
    with serving() as other:
        other.put("elsewhere", path.read_bytes())
        server.fault = lambda request, answer: Answer(302, {"Location": other.url + "elsewhere"})
        head(url, access_of(url, given), 5)
        (request,) = other.requests
        assert "authorization" not in request.headers
        assert request.query == ""
        # where it came from is told, by all that follow such an answer: see docs/network.md
        told_on = {key: value for key, value in request.headers.items() if key != "referer"}
        assert not secret(repr(told_on))

    # and refused
    monkeypatch.setattr(server, "fault", lambda request, answer: Answer(403, {}, b"no"))
    with pytest.raises(SourceUnreadable, match="403") as error:
        intarsia.open_dataset(url, storage_options=given)
    assert not secret(str(error.value), repr(error.value), repr(error.value.__cause__))


def secret(*shown: str) -> bool:
    """Whether any of this tells what lets one in."""
    return any(told in text for text in shown for told in ("s3cret", KEY))


def test_a_service_account_signs(server: Server, tmp_path: Path) -> None:
    """By the private key in its file, which is not sent."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    path = tmp_path / "account.json"
    said = {
        "type": "service_account",
        "client_email": "me@lab",
        "private_key": text,
        "private_key_id": "one",
    }
    path.write_text(json.dumps(said))
    server.put("bucket/a.nc", DATA)
    server.fault = decoded(server)
    where = {"base_url": server.url.rstrip("/")}
    for told in ({"token": str(path)}, {"service_account": str(path)}):
        server.requests.clear()
        forget_clients()
        head("gs://bucket/a.nc", access_of("gs://bucket/a.nc", {**where, **told}), 5)
        (request,) = server.requests
        kind, _, token = request.headers["authorization"].partition(" ")
        assert kind == "Bearer"
        signed, _, signature = token.rpartition(".")
        key.public_key().verify(raw(signature), signed.encode(), padding.PKCS1v15(), SHA256())
        assert json.loads(raw(signed.partition(".")[2]))["iss"] == "me@lab"


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_accounts_of_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Azure, for Azure alone."""
    server.put("bucket/a.nc", DATA)
    server.fault = decoded(server)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mylab")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", server.url.rstrip("/"))
    head("az://bucket/a.nc", None, 5)
    shared_key(server.requests.pop())
    anonymous = {"base_url": server.url.rstrip("/"), "anon": True}
    head("gs://bucket/a.nc", access_of("gs://bucket/a.nc", anonymous), 5)
    head(server.url + "bucket/a.nc", None, 5)
    assert ["authorization" in request.headers for request in server.requests] == [False, False]
    server.requests.clear()
    theirs = {"account_name": "yours", "account_key": KEY}
    head("az://bucket/a.nc", access_of("az://bucket/a.nc", theirs), 5)
    (request,) = server.requests
    assert request.headers["authorization"].startswith("SharedKey yours:")
