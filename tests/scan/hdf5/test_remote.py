"""HDF5 over HTTP: what a scan gives, in how few requests, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import (
    CorruptFile,
    IntarsiaError,
    NotAFile,
    NotHDF5,
    SourceChanged,
    SourceMissing,
    UnsupportedError,
)
from intarsia.io.blocks import RemoteFile
from intarsia.io.fetch import observe
from intarsia.scan.dispatch import scan
from intarsia.scan.hdf5 import opening
from intarsia.scan.hdf5.loaders import DatasetLoader, VariableLoader
from intarsia.scan.protocol import Scanned
from tests import oracle
from tests.check import tolerant
from tests.compare import assert_identical
from tests.io.http_server import Answer, Request, Server
from tests.io.s3_server import serving_s3
from tests.real import real_files
from tests.scan.hdf5.large_files import CHUNKS, KINDS, mapped
from tests.scan.store import assert_same, assert_same_attrs, groups, opaque, stored_dtype, values_of


def put(server: Server, path: Path, **pins: Any) -> str:
    return server.put(path.name, path.read_bytes(), **pins)


def assert_as_local(url: str, path: Path, group: str = "/") -> Scanned:
    """Assert that a remote scan gives what the scan of the same file gives locally."""
    actual, expected = scan(url, group=group), scan(str(path), group=group)
    assert list(actual.variables) == list(expected.variables)
    assert_same_attrs("the group", actual.attrs, expected.attrs)
    assert (actual.sizes, actual.unlimited) == (expected.sizes, expected.unlimited)
    for name, variable in expected.variables.items():
        other = actual.variables[name]
        assert (other.dims, stored_dtype(other)) == (variable.dims, stored_dtype(variable))
        assert type(other.data) is type(variable.data)
        assert_same_attrs(name, other.attrs, variable.attrs)
        readable = isinstance(variable.data, VirtualArray) or variable.data.loader is not None
        if readable:
            assert_same(name, values_of(other), values_of(variable))
    assert (actual.sources.url(0), actual.sources[0].size) == (url, path.stat().st_size)
    return actual


@pytest.mark.parametrize("path", real_files("hdf5/*"))
def test_real_files_are_scanned_as_local_ones(server: Server, path: Path) -> None:
    url = put(server, path)
    for group in groups(path):
        assert_as_local(url, path, group)


@pytest.mark.parametrize("name", ["air.nc", "enum_variable.nc", "vlen.h5", "netcdf4_classic.nc"])
def test_datasets_are_those_of_xarray(server: Server, real_file: Any, name: str) -> None:
    path = real_file(f"hdf5/{name}")
    with tolerant():
        actual = intarsia.open_dataset(put(server, path))
    assert_identical(actual, oracle.open_dataset(path))


@pytest.mark.parametrize(
    ("libver", "userblock", "many"),
    [
        ("earliest", 0, 40),
        ("v108", 1024, 40),
        ("latest", 0, 40),
        ("earliest", 1024, 3),
        ("v108", 0, 3),
        ("latest", 1024, 3),
    ],
)
def test_members_and_indexes_far_apart(
    server: Server, tmp_path: Path, libver: str, userblock: int, many: int
) -> None:
    """Headers, heaps and indexes between the values, in groups with few links and with many."""
    path = tmp_path / "x.h5"
    low = "v108" if libver == "earliest" else libver
    bounds = (libver, low)
    values = np.random.default_rng(0)
    with h5py.File(path, "w", libver=bounds, userblock_size=userblock, track_order=True) as file:
        for number in range(many):
            group = file.require_group("deep/er") if number % 5 == 0 else file
            data = values.random((3, 40, 50))
            limits = [(3, 40, 50), (None, 40, 50), (None, None, 50)][number % 3]
            one = group.create_dataset(
                f"x{number}", data=data, chunks=(1, 20, 50), maxshape=limits, compression="gzip"
            )
            for item in range(number % 12):
                one.attrs[f"a{item}"] = f"text {item}" * 9
            group.create_dataset(f"y{number}", data=values.random(5_000))
    url = put(server, path)
    for group in ("/", "/deep", "/deep/er"):
        assert_as_local(url, path, group)
    with observe() as reads:
        scan(url)
    assert reads.requests < 40 + many
    assert sum(length for _, _, length in reads.ranges) < path.stat().st_size


def test_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    path = scattered(tmp_path)
    with serving_s3() as s3:
        url = s3.put("bucket/a b/x.h5", path.read_bytes(), public=False)
        actual = intarsia.open_dataset(url, storage_options=s3.options)
        expected = intarsia.open_dataset(path)
        assert_identical(actual, expected.load())


def test_a_pile_takes_a_request_a_file(server: Server, tmp_path: Path) -> None:
    """Where the head has the coordinates too; those of the next files come meanwhile."""
    urls: list[str] = []
    for number in range(12):
        path = tmp_path / f"{number:02}.nc"
        data = np.random.default_rng(number).random((2, 20, 30))
        sst = xr.DataArray(data, {"time": [2 * number, 2 * number + 1]}, ("time", "y", "x"))
        sst.to_dataset(name="sst").to_netcdf(path, engine="h5netcdf")
        urls.append(put(server, path))
    server.latency, server.most = 0.01, 0
    with observe() as reads:
        ds = intarsia.open_mfdataset(urls, concat_dim="time", combine="nested")
    server.latency = 0.0
    assert reads.requests == len(urls)
    assert server.most > 3
    local = sorted(tmp_path.glob("*.nc"))
    assert_identical(ds, oracle.open_mfdataset(local, concat_dim="time", combine="nested"))


# -- pins ------------------------------------------------------------------------------------------


def test_sources_carry_their_pins(server: Server, tmp_path: Path) -> None:
    path = scattered(tmp_path)
    (source,) = scan(put(server, path)).sources
    stored = server.objects["/x.h5"]
    assert (source.container, source.key) == (server.url, "x.h5")
    assert (source.etag, source.mtime_ns) == (stored.etag, (stored.mtime or 0) * 10**9)
    assert source.size == path.stat().st_size


def scattered(folder: Path) -> Path:
    """A file whose metadata do not all lie in its head."""
    path = folder / "x.h5"
    with h5py.File(path, "w") as file:
        for number in range(4):
            file.create_dataset(f"x{number}", data=np.arange(100_000.0) + number, chunks=(1_000,))
        text = file.create_dataset("text", (50_000,), h5py.string_dtype())
        text[:] = [f"text {number}" for number in range(50_000)]
    return path


@pytest.mark.parametrize(
    "pins", [{}, {"mtime": None}, {"etag": None}, {"etag": None, "mtime": None}]
)
def test_a_file_that_is_replaced_while_it_is_scanned(
    server: Server, tmp_path: Path, pins: dict[str, Any]
) -> None:
    path = scattered(tmp_path)
    url = put(server, path, **pins)
    other = bytearray(path.read_bytes()) + (b"" if pins.get("etag", "") == "" else b"longer")

    def replace(request: Request, answer: Answer) -> Answer:
        server.fault = None
        server.put("x.h5", bytes(other), **pins)
        return answer

    server.fault = replace
    with pytest.raises(SourceChanged) as caught:
        scan(url)
    assert caught.value.url == url


def test_a_request_that_fails_is_not_taken_for_something_else(
    server: Server, tmp_path: Path
) -> None:
    path = scattered(tmp_path)
    url = put(server, path)
    count = len(requests_of(server, url))
    assert count > 3
    for number in range(1, count):
        server.requests.clear()

        def fail(request: Request, answer: Answer, number: int = number) -> Answer:
            return Answer(404, {}) if len(server.requests) > number else answer

        server.fault = fail
        with pytest.raises(SourceMissing) as caught:
            scan(url)
        assert caught.value.url == url
        server.fault = None


def requests_of(server: Server, url: str) -> list[tuple[int, int]]:
    with observe() as reads:
        scan(url)
    return [(offset, length) for _, offset, length in reads.ranges]


# -- loaders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["seek", "readinto"])
def test_an_interruption_arrives_as_one_wherever_it_comes(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also where HDF5 makes another error of it, and never as a thing that is not there."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for number in range(3):
            one = file.create_dataset(f"v{number}", data=np.arange(10), chunks=(3,))
            one.attrs["scale_factor"] = 2.0
            one.attrs["long"] = "x" * 3_000
    url = server.put("a.h5", path.read_bytes())
    original = getattr(opening._Raw, name)
    calls = count(1)
    monkeypatch.setattr(opening._Raw, name, lambda *told: (next(calls), original(*told))[1])
    intarsia.open_dataset(url)
    for last in range(1, next(calls)):
        coming = count(1)

        def interrupted(*told: Any, last: int = last, coming: count[int] = coming) -> Any:
            if next(coming) == last:
                raise KeyboardInterrupt
            return original(*told)

        monkeypatch.setattr(opening._Raw, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            intarsia.open_dataset(url)


def test_loaders_are_pickled_and_read_the_file_that_was_scanned(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        text = file.createVariable("text", str, ("x",))
        text[:] = np.array(["a", "", "ü" * 1_000], object)
        kinds = file.createEnumType(np.int8, "kinds", {"none": 0, "some": 5})
        file.createVariable("kind", kinds, ("x",))[:] = [0, 5, 0]
        pair = file.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "pair")
        file.createVariable("pairs", pair, ("x",))[:] = np.array(
            [(1, 2.5), (3, 4.5), (5, 6.5)], [("a", "i4"), ("b", "f8")]
        )
    scanned = assert_as_local(put(server, path), path)
    loaders = [opaque(scanned, name).loader for name in ("text", "pairs")]
    assert {type(loader) for loader in loaders} == {DatasetLoader, VariableLoader}
    again = pickle.loads(pickle.dumps(loaders))
    assert [loader().tolist() for loader in again] == [loader().tolist() for loader in loaders]
    put(server, path)
    for loader in again:
        with pytest.raises(SourceChanged):
            loader()


# -- what is refused -------------------------------------------------------------------------------


def refused(url: str, kind: type[IntarsiaError], match: str) -> None:
    with pytest.raises(kind, match=match) as caught:
        scan(url)
    assert type(caught.value) is kind
    assert caught.value.url == url


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("userblock", [0, 1024])
def test_a_file_that_is_cut_short(
    server: Server, tmp_path: Path, libver: str, userblock: int
) -> None:
    path = tmp_path / "x.nc"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        file["x"] = np.arange(1000)
    data = path.read_bytes()
    whole = len(data)
    for size in (whole - 1, whole // 2, userblock + 200, userblock + 100):
        cut = f"cut short: it has {size} of {whole} bytes"
        refused(server.put("cut.nc", data[:size]), CorruptFile, cut)
    for size in (userblock + 40, userblock + 8):
        refused(server.put("cut.nc", data[:size]), CorruptFile, "the file is broken")


@pytest.mark.parametrize(
    ("content", "looks"),
    [
        (b"<!DOCTYPE html><html><body>404 Not Found</body></html>", "a web page"),
        (b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>', "XML"),
        (b"time,value\n1,2\n" * 50, "text"),
        (bytes(300_000), "zeros"),
    ],
)
def test_what_a_file_looks_like_is_said(server: Server, content: bytes, looks: str) -> None:
    said = rf"looks like {looks}.* \({len(content)} bytes\)"
    refused(server.put("x.nc", content), NotHDF5, said)


def test_nothing(server: Server) -> None:
    refused(server.put("x.nc", b""), NotAFile, "empty")
    refused(server.url + "none.nc", SourceMissing, "does not exist")


def test_other_files_are_not_read_in_place_of_those_that_are_named(
    server: Server, tmp_path: Path
) -> None:
    """HDF5 would open the remote file again, under the other's name, and read from it."""
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["x"] = np.arange(4)
    for name, target in (("direct", None), ("soft", "/link"), ("group", None)):
        path = tmp_path / f"{name}.h5"
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(4) + 7
            file["link"] = h5py.ExternalLink(str(other), "/" if name == "group" else "x")
            if target is not None:
                file["again"] = h5py.SoftLink(target)
        refused(put(server, path), UnsupportedError, "leads to another file.*drop_variables")
        if target is None:
            ds = intarsia.open_dataset(put(server, path), drop_variables="link")
            np.testing.assert_array_equal(ds["x"], np.arange(4) + 7)


def test_virtual_datasets_of_other_files_are_not_read(server: Server, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(4)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(4) + 7
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (4,))
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    data = opaque(scan(put(server, path)), "v")
    assert "other.h5" in data.reason
    assert data.loader is None


@pytest.mark.parametrize("dtype", ["f8", [("a", "i4"), ("b", "f4")]])
def test_local_files_are_out_of_reach(server: Server, tmp_path: Path, dtype: Any) -> None:
    """An external raw file is of this machine: a file of the network must not lead there."""
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(80))
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10,), dtype, external=[(str(secret), 0, 80)])
    data = opaque(scan(put(server, path)), "x")
    assert data.loader is None
    assert "secret" in data.reason


def test_broken_structure_is_an_error(tmp_path: Path) -> None:
    """Bytes of the metadata overwritten at random, in a process of its own: HDF5 may crash."""
    script = f"""
import sys, random
sys.path.insert(0, {str(Path.cwd())!r})
import h5py, numpy as np
from intarsia.errors import IntarsiaError
from intarsia.references import Source
from intarsia.scan.hdf5 import scan
class Bytes:
    def __init__(self, data):
        self.data, self.source = data, Source("http://127.0.0.1/", "x", len(data), -1)
    def read(self, offset, length):
        assert 0 <= offset and offset + length <= len(self.data)
        return memoryview(self.data)[offset : offset + length]
    def prefetch(self, ranges):
        for offset, length in ranges:
            assert length >= 0
outcomes = set()
for libver in ("earliest", "latest"):
    with h5py.File({str(tmp_path / "x.h5")!r}, "w", libver=libver) as file:
        for number, limits in enumerate([(None, 3), (None, None), (200, 3)]):
            file.create_dataset(f"x{{number}}", data=np.ones((200, 3)), chunks=(1, 3),
                                maxshape=limits, compression="gzip")
            for item in range(9): file[f"x{{number}}"].attrs[f"a{{item}}"] = "x" * 40
    good = open({str(tmp_path / "x.h5")!r}, "rb").read()
    for seed in range(60):
        random.seed(seed)
        broken = bytearray(good)
        for _ in range(4):
            broken[random.randrange(random.choice([200, 3000, len(good)]))] = random.randrange(256)
        try:
            scan(Bytes(bytes(broken)))
            outcomes.add("read")
        except IntarsiaError:
            outcomes.add("refused")
print(sorted(outcomes))
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.stdout == "['read', 'refused']\n", found.stderr


# -- requests --------------------------------------------------------------------------------------

# Requests, and round trips, that the metadata of 1 GB in 10,000 chunks take at most.
COSTS = {
    "implicit": (1, 1),
    "fixed array": (2, 2),
    "extensible array": (60, 4),
    "B-tree 2": (180, 5),
    "B-tree 1": (190, 5),
    "B-tree 1, pages": (5, 5),
    "B-tree 2, pages": (5, 5),
    "netCDF4": (190, 4),
}


@pytest.mark.parametrize("kind", KINDS)
def test_requests_of_a_large_file(
    server: Server, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under 20 requests where the index lies together; else one a node, but all at once."""
    path = tmp_path / "x.nc"
    KINDS[kind](path)
    assert path.stat().st_size > 10**9
    url = server.put("x.nc", mapped(path), etag='"large"')
    trips: list[int] = [1]
    fetch = RemoteFile._fetch

    def counted(self: RemoteFile, ranges: Any) -> Any:
        trips.append(len(ranges))
        return fetch(self, ranges)

    monkeypatch.setattr(RemoteFile, "_fetch", counted)
    with observe() as reads:
        scanned = scan(url)
    most, round_trips = COSTS[kind]
    assert reads.requests == sum(trips) <= most
    assert len(trips) <= round_trips
    assert reads.nbytes < 4_000_000
    assert max(length for _, _, length in reads.ranges) <= 1 << 20
    assert {request.method for request in server.requests} == {"GET"}
    data, local = scanned.variables["x"].data, scan(str(path)).variables["x"].data
    assert isinstance(data, VirtualArray)
    assert isinstance(local, VirtualArray)
    (ours,), (theirs,) = data.segments.pages, local.segments.pages
    assert len(ours) == CHUNKS
    assert np.array_equal(ours.offsets, theirs.offsets)
    assert np.array_equal(ours.lengths, theirs.lengths)
