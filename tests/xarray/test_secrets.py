"""What lets one in, in URLs and options, goes with each request, and is neither shown nor saved."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import IntarsiaError
from intarsia.io.remote_clients import forget_clients
from tests.io.http_server import Server, serving
from tests.io.s3_server import Asked, S3Server, serving_s3

SECRET = "s3cret"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Three files that go together, two of which have another byte order, and some that don't."""
    folder = tmp_path_factory.mktemp("files")
    found: dict[str, bytes] = {"bad.nc": b"no file of any format", "empty.nc": b""}
    for number, dtype in enumerate(["<f8", ">f8", ">f8", "<f8"]):
        ds = xr.Dataset(
            {"a": ("time", np.arange(2.0), {"units": "K" if number < 3 else "degC"})},
            {"time": [2 * number, 2 * number + 1]},
        )
        path = folder / f"{number}.nc"
        ds.to_netcdf(path, engine="h5netcdf", encoding={"a": {"dtype": dtype}})
        found[path.name] = path.read_bytes()
    return found


@pytest.fixture
def server(files: dict[str, bytes]) -> Iterator[Server]:
    with serving() as server:
        for name, data in files.items():
            server.put(f"x/{name}", data)
        yield server


type Name = Callable[[str], str]


@pytest.fixture(params=["query", "user"])
def name(request: pytest.FixtureRequest, server: Server) -> Name:
    """URLs of files, with a secret in them."""
    if request.param == "query":
        return lambda file: f"{server.url}x/{file}?token={SECRET}"
    root = server.url.replace("://", f"://me:{SECRET}@")
    return lambda file: f"{root}x/{file}"


def clean(*told: Any) -> bool:
    """Whether the secret is in none of these, however they are shown."""
    return not any(SECRET in str(one) or SECRET in repr(one) for one in told)


def shown(ds: xr.Dataset) -> list[Any]:
    """All that a dataset tells of where it is from."""
    return [
        ds, ds.encoding, ds.attrs, ds._repr_html_(), ds.a.data, ds.a._repr_html_(),
        [variable.encoding for variable in ds.variables.values()],
        ds.intarsia.report(), ds.intarsia.report().as_json(), ds.intarsia.explain(),
    ]  # fmt: skip


def test_one_file(server: Server, name: Name) -> None:
    ds = intarsia.open_dataset(name("0.nc"))
    assert clean(*shown(ds))
    assert ds.encoding["source"].startswith(f"{server.url}x/0.nc")
    np.testing.assert_array_equal(ds.a.values, [0, 1])
    assert clean(xr.open_dataset(name("0.nc"), engine="intarsia").encoding)
    tree = intarsia.open_datatree(name("0.nc"))
    assert clean(tree, tree.encoding)


def test_many_files(server: Server, name: Name, tmp_path: Path) -> None:
    paths = [name(file) for file in ("0.nc", "bad.nc", "1.nc", "empty.nc", "2.nc", "3.nc")]
    told: dict[str, Any] = {"concat_dim": "time", "combine": "nested"}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ds = intarsia.open_mfdataset(paths, on_error="skip", on_conflict="first", **told)
    assert str(ds.intarsia.report()).count("left out") == 2
    assert len(ds.intarsia.report().differences) >= 1
    assert clean(*shown(ds), *(str(one.message) for one in warned))
    check = intarsia.check(paths, concat_dim="time")
    assert len(check.problems) >= 1
    assert clean(check, check.as_json())

    store = tmp_path / "s.intarsia"
    ds.intarsia.save(store)
    for path in store.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    place = server.url.replace("://", f"://me:{SECRET}@") + "x"
    again = intarsia.open_dataset(store, containers={"x": place})
    assert clean(*shown(again))
    server.put("x/2.nc", b"another")
    result = intarsia.verify(store, containers={"x": place})
    assert len(result.changed) == 1
    assert clean(result, result.to_dict())


@pytest.mark.parametrize("chosen", [["0.nc", "3.nc"], ["0.nc", "bad.nc"], ["empty.nc"], ["no.nc"]])
def test_errors(name: Name, chosen: list[str]) -> None:
    with pytest.raises(IntarsiaError) as error:
        intarsia.open_mfdataset(map(name, chosen), concat_dim="time", combine="nested")
    assert clean(error.value, "".join(traceback.format_exception(error.value)))


# -- options ---------------------------------------------------------------------------------------

KEYS = {"key": "AKIAs3cret", "secret": SECRET, "token": f"session{SECRET}"}


@pytest.fixture(scope="module")
def bucket(files: dict[str, bytes]) -> Iterator[S3Server]:
    with serving_s3() as server:
        for name, data in files.items():
            server.put(f"bucket/x/{name}", data)
        yield server


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No credentials are around."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    forget_clients()
    yield
    forget_clients()


def is_anonymous(request: Asked) -> bool:
    return "authorization" not in request.headers and "x-amz-security-token" not in request.headers


def is_signed(request: Asked) -> bool:
    signed = request.headers["authorization"]
    return (
        "Credential=AKIAs3cret/" in signed
        and "/eu-north-1/s3/" in signed
        and request.headers["x-amz-security-token"] == f"session{SECRET}"
    )


def is_paid(request: Asked) -> bool:
    return is_signed(request) and request.headers["x-amz-request-payer"] == "requester"


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ({"anon": True}, is_anonymous),
        ({"region": "eu-north-1", **KEYS}, is_signed),
        ({"region": "eu-north-1", "requester_pays": True, **KEYS}, is_paid),
    ],
    ids=["anonymous", "signed", "requester pays"],
)
def test_each_request_is_as_it_was_told(
    bucket: S3Server, told: dict[str, Any], asked: Callable[[Asked], bool], tmp_path: Path
) -> None:
    """Of a listing, of scans in other processes, of reads, and after saving and reopening."""
    told = {"endpoint_url": bucket.endpoint, **told}
    many: dict[str, Any] = {"concat_dim": "time", "combine": "nested", "storage_options": told}
    bucket.requests.clear()
    steps: list[int] = []

    def done() -> None:
        assert len(bucket.requests) > sum(steps)
        steps.append(len(bucket.requests) - sum(steps))
        wrong = [request for request in bucket.requests if not asked(request)]
        assert not wrong

    ds = intarsia.open_mfdataset("s3://bucket/x/[012].nc", parallel=1, **many)
    done()
    np.testing.assert_array_equal(ds.a.values, [0, 1, 0, 1, 0, 1])
    done()
    assert clean(*shown(ds))
    store = tmp_path / "s.intarsia"
    ds.intarsia.save(store)
    for path in store.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    again = intarsia.open_dataset(store, storage_options=told)
    np.testing.assert_array_equal(again.a.values, ds.a.values)
    done()
    assert clean(*shown(again), intarsia.open_store(store, storage_options=told))
    result = intarsia.verify(store, storage_options=told)
    assert clean(result, result.to_dict())
    done()
    check = intarsia.check("s3://bucket/x/*.nc", concat_dim="time", storage_options=told)
    assert len(check.problems) >= 1
    assert clean(check, check.as_json())
    done()
    for chosen in ("bad", "empty", "none"):
        with pytest.raises(IntarsiaError) as error:
            intarsia.open_dataset(f"s3://bucket/x/{chosen}.nc", storage_options=told)
        assert clean(error.value, "".join(traceback.format_exception(error.value)))
    done()


def test_headers_are_shown_to_nobody(server: Server, tmp_path: Path) -> None:
    told = {"headers": {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}}
    urls = [f"{server.url}x/{number}.nc" for number in range(3)]
    ds = intarsia.open_mfdataset(urls, concat_dim="time", combine="nested", storage_options=told)
    np.testing.assert_array_equal(ds.a.values, [0, 1, 0, 1, 0, 1])
    assert len(server.requests) >= 3
    for request in server.requests:
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        assert request.headers["x-key"] == SECRET
    assert clean(*shown(ds))
    ds.intarsia.save(tmp_path / "s.intarsia")
    for path in (tmp_path / "s.intarsia").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    with pytest.raises(IntarsiaError) as error:
        intarsia.open_dataset(f"{server.url}x/none.nc", storage_options=told)
    assert clean(error.value, "".join(traceback.format_exception(error.value)))
