"""Stores whose sources are in the network: saved without secrets, opened without a request."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import intarsia
from intarsia.access import Access
from intarsia.errors import SourceChanged, StoreError, UnsafeStore, UnsupportedError
from intarsia.io.fetch import observe
from intarsia.references import Sources
from intarsia.segments import Segments
from intarsia.store.objects import ROOT
from intarsia.store.read import Stored, read
from intarsia.store.root import digest_of
from tests.io.http_server import Server
from tests.store import by_spec
from tests.store.test_schema import VALIDATOR

NAMES = ("a.nc", "b.nc", "c.nc")


def write_files(folder: Path) -> list[bytes]:
    """Three files, each packed in its own way."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(NAMES):
        values = 280 + 0.01 * np.arange(24.0).reshape(2, 3, 4) + number
        ds = xr.Dataset(
            {"sst": (("time", "lat", "lon"), values, {"units": "K"})},
            {"time": [2 * number, 2 * number + 1], "lat": [1.0, 2.0, 3.0]},
        )
        packing = {"dtype": "i2", "scale_factor": 0.01 * (number + 1), "_FillValue": -1}
        ds.to_netcdf(folder / name, engine="h5netcdf", encoding={"sst": packing})
    return [(folder / name).read_bytes() for name in NAMES]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remote") / "sst"
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def expected(files: Path) -> xr.Dataset:
    paths = [files / name for name in NAMES]
    return xr.open_mfdataset(paths, engine="h5netcdf", combine="nested", concat_dim="time").load()


@pytest.fixture
def server(server: Server, files: Path) -> Server:
    """A server that has the files below ``sst/``."""
    for name in NAMES:
        server.put(f"sst/{name}", (files / name).read_bytes())
    return server


def opened(server: Server, query: str = "", **how: Any) -> xr.Dataset:
    urls = [f"{server.url}sst/{name}{query}" for name in NAMES]
    return intarsia.open_mfdataset(urls, concat_dim="time", combine="nested", **how)


@pytest.fixture
def store(server: Server, tmp_path: Path) -> Path:
    """A saved store of the files of the server."""
    opened(server).intarsia.save(tmp_path / "x.intarsia")
    server.requests.clear()
    return tmp_path / "x.intarsia"


def content(path: Path) -> bytes:
    """All bytes of a store."""
    if path.is_file():
        with zipfile.ZipFile(path) as archive:
            return b"".join(map(archive.read, archive.namelist()))
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())


def changed(path: Path, change: Callable[[Any], None]) -> None:
    """Change the root of a store, and seal it again."""
    root = json.loads((path / ROOT).read_text())
    change(root)
    root["digest"] = digest_of(root)
    (path / ROOT).write_text(json.dumps(root))


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.intarsia", "x.intarsia.zip"])
def test_saved_and_opened_again(
    server: Server, expected: xr.Dataset, tmp_path: Path, name: str
) -> None:
    ds = opened(server)
    ds.intarsia.save(tmp_path / name)
    server.requests.clear()
    told = {"sst": f"{server.url}sst"}
    again = intarsia.open_dataset(tmp_path / name, containers=told)
    tree = intarsia.open_datatree(tmp_path / name, containers=told)
    group = zarr.open_group(intarsia.open_store(tmp_path / name, containers=told), mode="r")
    assert not server.requests
    np.testing.assert_array_equal(group["sst"][...], expected.sst.values)
    xr.testing.assert_identical(again.load(), expected)
    xr.testing.assert_identical(tree.to_dataset().load(), expected)
    wrapped = xr.open_dataset(tmp_path / name, chunks={}, containers=told)
    xr.testing.assert_identical(wrapped.load(), expected)
    assert {request.method for request in server.requests} == {"GET"}


def test_what_a_store_says_of_its_sources(server: Server, store: Path) -> None:
    root = json.loads((store / ROOT).read_text())
    assert VALIDATOR.is_valid(root)
    assert root["containers"] == [{"name": "sst", "location": f"{server.url}sst/", "pin": "mtime"}]
    assert by_spec.Store(store).texts(root["sources"]["keys"]) == list(NAMES)
    etags = [server.objects[f"/sst/{name}"].etag for name in NAMES]
    assert by_spec.Store(store).texts(root["sources"]["etags"]) == etags
    sources = read(store, containers={"sst": f"{server.url}sst"}).sources
    assert sources.etags == tuple(etags)
    assert [source.mtime_ns for source in sources] == [1_700_000_000 * 10**9] * 3


def test_another_object_is_noticed(server: Server, store: Path, files: Path) -> None:
    data = (files / "b.nc").read_bytes()
    place = f"{server.url}sst"
    server.put("sst/b.nc", data)  # another tag
    ds = intarsia.open_dataset(store, containers={"sst": place})
    with pytest.raises(SourceChanged, match=r"tag.*b\.nc"):
        ds.sst.values  # noqa: B018
    np.testing.assert_array_equal(ds.sst[0].values, ds.sst[0].values)
    for pin in ("size", "none"):
        intarsia.open_dataset(store, containers={"sst": {"location": place, "pin": pin}}).load()
    server.put("sst/b.nc", data + b" ", etag=None, mtime=None)
    told = {"sst": {"location": place, "pin": "size"}}
    with pytest.raises(SourceChanged, match="size"):
        intarsia.open_dataset(store, containers=told).load()


def test_pinned_by_content(server: Server, files: Path, tmp_path: Path) -> None:
    """What is elsewhere, under other tags and times, is known by a sample."""
    path = tmp_path / "x.intarsia"
    opened(server).intarsia.save(path, sample=True)
    for name in NAMES:
        server.put(f"elsewhere/{name}", (files / name).read_bytes(), mtime=1)
    there = {"sst": f"{server.url}elsewhere"}
    here = {"sst": str(files)}
    for place in (there, here):
        ds = intarsia.open_dataset(path, containers=place).load()
        assert not ds.sst.isnull().any()
    data = bytearray((files / "c.nc").read_bytes())
    data[-1] ^= 1
    server.put("elsewhere/c.nc", bytes(data), mtime=1)
    with pytest.raises(SourceChanged, match="sampled content"):
        intarsia.open_dataset(path, containers=there).load()


def test_sources_move(server: Server, store: Path, files: Path, tmp_path: Path,
                      expected: xr.Dataset) -> None:  # fmt: skip
    """From the network to this machine, and the other way."""
    told = {"sst": {"location": files, "pin": "size"}}
    with observe() as reads:
        xr.testing.assert_identical(intarsia.open_dataset(store, containers=told).load(), expected)
    assert reads.requests
    assert not server.requests
    local = [str(files / name) for name in NAMES]
    ds = intarsia.open_mfdataset(local, concat_dim="time", combine="nested")
    ds.intarsia.save(tmp_path / "local.intarsia")
    (name,) = (one.name for one in read(tmp_path / "local.intarsia").containers)
    told = {name: {"location": f"{server.url}sst", "pin": "size"}}
    again = intarsia.open_dataset(tmp_path / "local.intarsia", containers=told)
    xr.testing.assert_identical(again.load(), expected)
    assert server.requests
    # the time of a file here is not that of the object there
    told = {name: {"location": f"{server.url}sst"}}
    with pytest.raises(SourceChanged, match="'pin': 'size'"):
        intarsia.open_dataset(tmp_path / "local.intarsia", containers=told).load()


def test_saved_again_from_a_store(server: Server, store: Path, tmp_path: Path) -> None:
    """A store of a store says the same of the sources."""
    told = {"sst": f"{server.url}sst"}
    intarsia.open_dataset(store, containers=told).intarsia.save(tmp_path / "y.intarsia")
    one, other = (
        json.loads((path / ROOT).read_text()) for path in (store, tmp_path / "y.intarsia")
    )
    assert one["containers"] == other["containers"]
    texts = [
        by_spec.Store(path).texts(root["sources"]["etags"])
        for path, root in ((store, one), (tmp_path / "y.intarsia", other))
    ]
    assert texts[0] == texts[1]


def test_a_dataset_tells_where_its_sources_are(server: Server, files: Path, store: Path) -> None:
    place = f"{server.url}sst/"
    ds = intarsia.open_dataset(store, containers={"sst": place})
    assert f"3 segments of 3 sources in {place}; " in repr(ds.intarsia)
    ds = s3_dataset(server, region="eu-west-1")
    assert "3 sources in s3://bucket/sst/ (region=eu-west-1); " in repr(ds.intarsia)
    both = xr.concat([opened(server, "?sig=SECRET"), ds, intarsia.open_dataset(files / "a.nc")],
                     "time", data_vars="all")  # fmt: skip
    told = f"7 sources in {place}, s3://bucket/sst/ (region=eu-west-1) and {files}/; "
    assert told in repr(both.intarsia)
    assert not repr(both[["lat"]].intarsia).count("source")


def test_verified(server: Server, store: Path, files: Path) -> None:
    told = {"sst": f"{server.url}sst"}
    result = intarsia.verify(store, containers=told)
    assert (result.status, result.ok) == (0, True)
    assert [one.compared for one in result.variables if not one.copied] == [72]
    assert intarsia.verify(store, containers=told, sample=5).ok
    # a file that gives other values under the same tag and time
    broken = xr.open_dataset(files / "b.nc", engine="h5netcdf", mask_and_scale=False).load()
    broken.sst[0, 0, 0] += 1
    data = bytes(broken.to_netcdf(engine="h5netcdf"))
    stored = server.objects["/sst/b.nc"]
    server.put("sst/b.nc", data.ljust(len(stored.data), b"\0"), etag=stored.etag)
    told_size = {"sst": {"location": f"{server.url}sst", "pin": "none"}}
    assert not intarsia.verify(store, containers=told_size).ok
    del server.objects["/sst/c.nc"]
    result = intarsia.verify(store, containers=told)
    assert [Path(one.source).name for one in result.changed][-1] == "c.nc"


def test_what_can_not_be_verified(
    server: Server, store: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources that are too large to be copied here, or can't be; no copy stays."""
    from intarsia.xarray.verifying import fetching

    told = {"sst": {"location": f"{server.url}sst", "pin": "none"}}
    folders: list[str] = []

    class Folder(fetching.TemporaryDirectory[str]):
        def __init__(self, **how: Any) -> None:
            super().__init__(**how)
            folders.append(self.name)

    monkeypatch.setattr(fetching, "TemporaryDirectory", Folder)
    monkeypatch.setattr(fetching, "PIECE", 1_000)
    assert intarsia.verify(store, containers=told).ok
    assert folders
    assert not any(map(os.path.exists, folders))
    monkeypatch.setattr(fetching, "MAX_COPY", 100)
    result = intarsia.verify(store, containers=told)
    assert result.status == 1
    (first, *_) = [one for one in result.uncompared if not one.copied]
    assert "copy it, and say where it is" in first.reason
    assert not any(map(os.path.exists, folders))


def test_a_store_of_the_network_is_copied_first(server: Server) -> None:
    for url in (f"{server.url}x.intarsia", "s3://bucket/x.intarsia.zip?sig=s3cr3t"):
        for way in (intarsia.open_dataset, intarsia.open_datatree, intarsia.open_store,
                    intarsia.verify):  # fmt: skip
            with pytest.raises(UnsupportedError, match="copy it here; it is small") as error:
                way(url)
            assert "s3cr3t" not in str(error.value)
    assert not server.requests


# -- secrets ---------------------------------------------------------------------------------------

SECRETS = {
    "access_key_id": "AKIASECRETKEY",
    "secret_access_key": "SECRETSECRET",
    "session_token": "SECRETTOKEN",
}


def s3_dataset(server: Server, **options: Any) -> xr.Dataset:
    """A dataset whose sources are said to be in S3."""
    ds = opened(server)
    access = Access(tuple(sorted({**SECRETS, **options}.items())))

    def moved(segments: Segments) -> Segments:
        rows = [
            source._replace(container="s3://bucket/sst/", access=access)
            for source in segments.sources
        ]
        return segments.renumbered(Sources.of(rows), np.arange(len(rows)))

    data = ds.intarsia.arrays["sst"]
    return ds.assign(sst=(ds.sst.dims, data.replaced(moved(data.segments)), ds.sst.attrs))


def test_no_secret_is_kept(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "x.intarsia"
    ds = s3_dataset(server, region="eu-west-1", endpoint="http://127.0.0.1:9", allow_http=True)
    ds.intarsia.save(path)
    assert b"SECRET" not in content(path)
    (container,) = json.loads((path / ROOT).read_text())["containers"]
    assert container["access"] == {"endpoint": "http://127.0.0.1:9", "region": "eu-west-1"}
    assert VALIDATOR.is_valid(json.loads((path / ROOT).read_text()))
    with pytest.raises(UnsafeStore, match="another endpoint"):
        intarsia.open_dataset(path)
    said = {"endpoint": "http://127.0.0.1:9", **SECRETS}
    (access, *_) = read(path, storage_options=said).sources.accesses or ()
    assert access is not None
    assert dict(access.options) == {**said, "region": "eu-west-1", "allow_http": True}


def test_queries_that_let_one_in_are_not_kept(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "x.intarsia.zip"
    server.objects["/sst/b.nc"].data = b"no HDF5"
    ds = opened(server, "?X-Amz-Signature=SECRET", on_error="skip")
    assert "SECRET" in ds.intarsia.arrays["sst"].segments.sources[0].key
    assert all("SECRET" in request.query for request in server.requests)
    ds.intarsia.save(path)
    assert b"SECRET" not in content(path)
    assert b"b.nc" in content(path)  # what was left out is told
    again = intarsia.open_dataset(path, containers={"sst": f"{server.url}sst"})
    np.testing.assert_array_equal(again.sst.values, ds.sst.values)


def test_secrets_cross_processes_with_a_dataset(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "x.intarsia"
    opened(server).intarsia.save(path)
    said = {"location": f"{server.url}sst", "storage_options": {"headers": {"X-Key": "SECRET"}}}
    ds = intarsia.open_dataset(path, containers={"sst": said})
    store = intarsia.open_store(path, containers={"sst": said})
    assert "SECRET" not in repr((ds, store, ds.intarsia.arrays["sst"].segments.sources[0]))
    server.requests.clear()
    again = pickle.loads(pickle.dumps(ds))
    np.testing.assert_array_equal(again.sst.values, ds.sst.values)
    same = pickle.loads(pickle.dumps(store))
    assert same == store != intarsia.open_store(path, containers={"sst": said["location"]})
    np.testing.assert_array_equal(zarr.open_group(same, mode="r")["sst"][...], ds.sst.values)
    assert {request.headers.get("x-key") for request in server.requests} == {"SECRET"}


# -- hostile stores --------------------------------------------------------------------------------


def hostile(server: Server) -> dict[str, Any]:
    """What a store must not say of a container."""
    port = f":{server.port}"
    own = server.url
    return {
        "metadata": {"location": "http://169.254.169.254/latest/"},
        "this machine": {"location": f"{own}sst/"},
        "this machine by name": {"location": f"http://localhost{port}/sst/"},
        "this machine in decimal": {"location": f"http://2130706433{port}/sst/"},
        "this machine in hexadecimal": {"location": f"http://0x7f000001{port}/sst/"},
        "this machine in octal": {"location": f"https://0177.0.0.1{port}/sst/"},
        "this machine in six": {"location": f"http://[::ffff:127.0.0.1]{port}/sst/"},
        "a file": {"location": "file:///etc/"},
        "an endpoint": {"location": "s3://sst/", "access": {"endpoint": own.rstrip("/")}},
        "http to a cloud": {"location": "s3://sst/", "access": {"allow_http": True}},
        "a region": {"location": "s3://sst/", "access": {"region": f"127.0.0.1{port}/#"}},
        "an account": {"location": "az://sst/", "access": {"account_name": f"127.0.0.1{port}/#"}},
        "an account in the URL": {"location": f"az://sst@127.0.0.1{port}/"},
        "a key": {"location": "s3://sst/", "access": {"access_key_id": "AKIA"}},
        "a proxy": {"location": "https://data.example.org/", "access": {"proxy_url": own}},
        "a header": {"location": "s3://sst/", "access": {"header:x": "y"}},
        "options of a path": {"location": "./", "access": {"region": "eu-west-1"}},
        "no options": {"location": "s3://sst/", "access": {}},
        "who pays": {"location": "s3://sst/", "access": {"request_payer": True}},
        "a user": {"location": f"http://user:pw@127.0.0.1{port}/sst/"},
        "a user of a bucket": {"location": "s3://key:secret@sst/"},
        "a backslash": {"location": f"https://data.example.org\\@127.0.0.1{port}/"},
        "a new line": {"location": "https://data.example.org/\r\nHost: x/"},
        "a climb": {"location": "s3://sst/%2e%2e/other/"},
        "a query": {"location": "https://data.example.org/?a=b/"},
        "a fragment": {"location": f"https://data.example.org/#@127.0.0.1{port}/"},
        "very long": {"location": "https://data.example.org/" + "a/" * 50_000},
        "capitals": {"location": f"HTTP://127.0.0.1{port}/sst/"},
        "another scheme": {"location": f"gopher://127.0.0.1{port}/"},
    }


NUMBER = len(hostile(Server()))


@pytest.mark.parametrize("number", range(NUMBER))
def test_hostile_places_are_refused_when_opened(server: Server, store: Path, number: int) -> None:
    told = [*hostile(server).values()][number]
    changed(store, lambda root: root["containers"][0].update(copy.deepcopy(told)))
    for options in (None, {"user_agent": "me"}):
        with observe() as reads:
            with pytest.raises(StoreError) as error:
                intarsia.open_dataset(store, storage_options=options)
            with pytest.raises(StoreError):
                intarsia.open_store(store, storage_options=options)
        assert error.value.url == str(store)
        assert error.value.kind in ("unsafe-store", "corrupt-store")
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 1_000
        assert not server.requests
        assert not reads.requests


ODD: list[Any] = [
    *(None, True, 0, -1, 2**60, "", "x", "\0", "\ud800", "x" * 70_000, [], ["region"], {}),
    *({"region": None}, {"region": {}}, {"region": ["eu"]}, {"": ""}, {"region": "é"}, {"\0": 1}),
    *({"skip_signature": 0}, {"endpoint": []}, {"endpoint": "x" * 5_000}, {"x" * 5_000: True}),
    {f"option{number}": "x" for number in range(5_000)},
]


@pytest.mark.parametrize("field", ["name", "location", "pin", "access"])
def test_odd_values_are_refused(server: Server, store: Path, field: str) -> None:
    before = (store / ROOT).read_text()
    odd = [value for value in ODD if (field, value) != ("name", "x")]
    for value in odd:
        (store / ROOT).write_text(before)
        told = {"location": "s3://bucket/", field: value}
        changed(store, lambda root, told=told: root["containers"][0].update(told))  # type: ignore[misc]
        with pytest.raises(StoreError) as error:
            Stored(str(store))
        assert len(str(error.value)) < 1_000
        assert str(error.value).isprintable()
        if field != "name":  # of which a schema can't say what letters are
            assert not VALIDATOR.is_valid(json.loads((store / ROOT).read_text()))
    assert not server.requests


@pytest.mark.parametrize(
    "key", ["../a.nc", "%2e%2e/a.nc", "a\\b.nc", "a\r\nb.nc", "/a.nc", "a//b.nc", "a.nc?x=1",
            "a.nc#x", "//127.0.0.1/a.nc", "a" * 5_000]
)  # fmt: skip
def test_hostile_keys_are_refused(server: Server, store: Path, key: str) -> None:
    def change(root: Any) -> None:
        keys = "".join(f"{one}\0" for one in (key, "b.nc", "c.nc"))
        root["sources"]["keys"] = {"hex": keys.encode().hex()}

    changed(store, change)
    ds = intarsia.open_dataset(store, containers={"sst": f"{server.url}sst"})
    with pytest.raises(UnsafeStore, match="the name of a source"):
        ds.sst.values  # noqa: B018
    assert not server.requests


def test_what_must_be_known_to_be_read(server: Server, store: Path) -> None:
    """A bucket of the reader's is no one else's to look into."""

    def change(root: Any) -> None:
        root["containers"][0].update(location="s3://bucket/", pin="size")

    changed(store, change)
    ds = intarsia.open_dataset(store)
    with pytest.raises(SourceChanged, match="nothing says"):
        ds.sst.values  # noqa: B018
    assert not server.requests
    root = json.loads((store / ROOT).read_text())
    root["containers"][0]["access"] = {"skip_signature": True}
    assert VALIDATOR.is_valid(root)
    changed(store, lambda old: old.update(root))
    assert Stored(str(store)).places.untrusted == (False,)


def test_a_name_that_leads_inside_is_noticed_when_read(
    server: Server, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from intarsia.io import reach

    asked: list[str] = []

    def addresses(name: str, port: int) -> list[str]:
        asked.append(f"{name}:{port}")
        return ["127.0.0.1"]

    monkeypatch.setattr(reach.socket, "getaddrinfo", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(reach.check_addresses, "__defaults__", (addresses,))
    monkeypatch.setattr(reach, "getproxies", dict)
    place = f"https://data.example.org:{server.port}/sst/"
    changed(store, lambda root: root["containers"][0].update(location=place))
    ds = intarsia.open_dataset(store)
    assert not asked
    with pytest.raises(UnsafeStore, match=r"at 127\.0\.0\.1, which is no public address"):
        ds.sst.values  # noqa: B018
    assert set(asked) == {f"data.example.org:{server.port}"}
    assert not server.requests


# -- S3 --------------------------------------------------------------------------------------------

AGAIN = """
import sys
import xarray as xr
import intarsia
path, expected = sys.argv[1:]
ds = intarsia.open_dataset(path)
xr.testing.assert_identical(ds.load(), xr.open_dataset(expected, engine="h5netcdf").load())
assert intarsia.verify(path).ok
print("equal")
"""


@pytest.fixture(scope="module")
def bucket(files: Path) -> Iterator[str]:
    """The endpoint of a service that has the files in ``s3://bucket/sst/``."""
    boto3 = pytest.importorskip("boto3")
    moto = pytest.importorskip("moto.server")
    service = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    service.start()
    host, port = service.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        keys = {"aws_access_key_id": "AKIASECRETKEY", "aws_secret_access_key": "SECRETSECRET"}
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        client.create_bucket(Bucket="bucket")
        for name in NAMES:
            client.put_object(Bucket="bucket", Key=f"sst/{name}", Body=(files / name).read_bytes())
        yield endpoint
    finally:
        service.stop()


def test_s3_from_end_to_end(bucket: str, files: Path, expected: xr.Dataset, tmp_path: Path) -> None:
    told = {"endpoint": bucket, "region": "us-east-1", "access_key_id": "AKIASECRETKEY",
            "secret_access_key": "SECRETSECRET"}  # fmt: skip
    urls = [f"s3://bucket/sst/{name}" for name in NAMES]
    path = tmp_path / "x.intarsia"
    how: dict[str, Any] = {"concat_dim": "time", "combine": "nested"}
    intarsia.open_mfdataset(urls, storage_options=told, **how).intarsia.save(path)
    assert b"SECRET" not in content(path)

    with pytest.raises(UnsafeStore, match="another endpoint"):
        intarsia.open_dataset(path)
    xr.testing.assert_identical(intarsia.open_dataset(path, storage_options=told).load(), expected)
    own = {"sst": {"storage_options": told}}
    xr.testing.assert_identical(intarsia.open_dataset(path, containers=own).load(), expected)
    assert intarsia.verify(path, storage_options=told).ok
    local = {"sst": {"location": files, "pin": "size"}}
    xr.testing.assert_identical(intarsia.open_dataset(path, containers=local).load(), expected)

    # local files whose copies are in the bucket
    paths = [str(files / name) for name in NAMES]
    ds = intarsia.open_mfdataset(paths, **how)
    ds.intarsia.save(tmp_path / "local.intarsia", containers={"here": str(files)})
    there = {"here": {"location": "s3://bucket/sst", "pin": "size", "storage_options": told}}
    again = intarsia.open_dataset(tmp_path / "local.intarsia", containers=there)
    xr.testing.assert_identical(again.load(), expected)


def test_s3_with_credentials_of_the_environment(
    bucket: str, expected: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing has to be said, and a store says nothing of it."""
    from intarsia.io.remote_clients import forget_clients

    environment = {
        "AWS_ACCESS_KEY_ID": "AKIASECRETKEY",
        "AWS_SECRET_ACCESS_KEY": "SECRETSECRET",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": bucket,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    forget_clients()
    path = tmp_path / "x.intarsia"
    ds = intarsia.open_mfdataset(
        [f"s3://bucket/sst/{name}" for name in NAMES], concat_dim="time", combine="nested"
    )
    ds.intarsia.save(path)
    forget_clients()
    (container,) = json.loads((path / ROOT).read_text())["containers"]
    assert container == {"name": "sst", "location": "s3://bucket/sst/", "pin": "mtime"}
    assert b"SECRET" not in content(path)
    expected.drop_encoding().to_netcdf(tmp_path / "expected.nc", engine="h5netcdf")
    ran = subprocess.run(
        [sys.executable, "-c", AGAIN, str(path), str(tmp_path / "expected.nc")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("equal\n", 0), ran.stderr
