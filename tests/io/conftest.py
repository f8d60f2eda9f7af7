"""Servers of the tests of remote reading, and clients that give up soon."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from intarsia.io.remote_clients import forget_clients, patience
from tests.io.s3_server import S3Server, serving_s3


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clients that try three times within a second, and wait a third of one."""
    for name, value in {"tries": 3, "pause": 0.005, "total": 0.9, "stall": 0.3}.items():
        monkeypatch.setattr(patience, name, value)
    forget_clients()
    yield
    forget_clients()


@pytest.fixture(scope="module")
def lasting_s3() -> Iterator[S3Server]:
    """One for all tests of a module."""
    with serving_s3() as server:
        yield server


@pytest.fixture
def s3(lasting_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A server with one bucket, of which nothing was asked yet; no credentials around."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    lasting_s3.requests.clear()
    return lasting_s3
