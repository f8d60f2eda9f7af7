"""Other formats on servers: Zarr folders of S3, TIFF and references over HTTP."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
import rasterio
import xarray as xr
import zarr
from obstore.store import LocalStore, MemoryStore

import intarsia
from intarsia.errors import IntarsiaError, SourceChanged, UnsupportedError, UnsupportedVariable
from intarsia.io import remote_relay
from intarsia.io.fetch import observe
from intarsia.io.paths import split_place
from intarsia.references import Source
from intarsia.scan.zarr.folder import FolderObjects
from intarsia.scan.zarr.places import Places
from tests.check import is_virtual
from tests.compare import assert_identical
from tests.io.http_server import Answer, Request, Server, serving
from tests.io.s3_server import S3Server, serving_s3
from tests.scan.zarr.test_folder import CHUNKS, dataset


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving_s3() as server:
        yield server


@pytest.fixture
def http() -> Iterator[Server]:
    with serving() as server:
        yield server


def upload(server: S3Server, folder: Path, name: str) -> str:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            server.put(f"bucket/{name}/{path.relative_to(folder)}", path.read_bytes())
    return f"s3://bucket/{name}"


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_on_s3(tmp_path: Path, s3: S3Server, version: Any) -> None:
    folder = tmp_path / "a.zarr"
    encoding: dict[str, Any] = {"a": {"chunks": CHUNKS}}
    if version == 3:
        encoding["m"] = {"chunks": (5, 3), "shards": (5, 6)}
    dataset().to_zarr(folder, zarr_format=version, encoding=encoding, consolidated=False)
    url = upload(s3, folder, f"{version}/a.zarr")
    ds = intarsia.open_dataset(url, storage_options=s3.options)
    assert is_virtual(ds, "a")
    array = ds.a.variable._data
    with observe() as reads:
        ds.a[0:2, 0:3, 0:4].load()
    assert [url for url, _, _ in reads.ranges] == [
        f"s3://bucket/{version}/a.zarr/a/" + ("0.0.0" if version == 2 else "c/0/0/0")
    ]
    with xr.open_dataset(folder, engine="zarr", chunks=None, consolidated=False) as theirs:
        assert_identical(ds, theirs.load()[list(ds.data_vars)])
    source = array.segments.sources[3]
    assert source.size > 0
    assert source.etag
    ds.intarsia.save(tmp_path / "s.intarsia")
    key = "0.0.0" if version == 2 else "c/0/0/0"
    s3.put(f"bucket/{version}/a.zarr/a/{key}", b"something else")
    again = intarsia.open_dataset(tmp_path / "s.intarsia", containers={"a.zarr": {"location": url}})
    assert again.a.shape == ds.a.shape
    with pytest.raises(SourceChanged, match="a/" + key):
        array[:1].load()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_zarr_in_stores_that_are_given(tmp_path: Path, version: Any, kind: str) -> None:
    """Their listings and their answers tell times as finely, unlike those of services."""
    folder = tmp_path / "there" / "a.zarr"
    dataset().to_zarr(folder, zarr_format=version, consolidated=False)
    store: Any = LocalStore(folder.parent)
    if kind == "memory":
        store = MemoryStore()
        for path in folder.rglob("*"):
            if path.is_file():
                store.put(str(path.relative_to(folder.parent)), path.read_bytes())
    registry = {"s3://bucket": store}
    ds = intarsia.open_dataset("s3://bucket/a.zarr", registry=registry)
    ds.intarsia.save(tmp_path / "s.intarsia")
    with xr.open_dataset(folder, engine="zarr", chunks=None, consolidated=False) as theirs:
        assert_identical(ds.load()[list(theirs.data_vars)], theirs.load())
    again = intarsia.open_dataset(tmp_path / "s.intarsia", registry=registry)
    assert_identical(again.load(), ds)


def listing_of_azure(server: Server, query: str) -> bytes:
    """What Azure says of the objects of a container; tags have no quotes there, and only there."""
    asked = parse_qs(query)
    prefix, told = "/a/c/" + asked.get("prefix", [""])[0], set[str]()
    for path, stored in server.objects.items():
        if path.startswith(prefix):
            name, deeper, _ = path.removeprefix(prefix).partition("/")
            if deeper and "delimiter" in asked:
                told.add(f"<BlobPrefix><Name>{prefix[5:]}{name}/</Name></BlobPrefix>")
                continue
            assert stored.etag is not None
            told.add(
                f"<Blob><Name>{path[5:]}</Name><Properties><Etag>{stored.etag[1:-1]}</Etag>"
                f"<Last-Modified>{formatdate(stored.mtime, usegmt=True)}</Last-Modified>"
                f"<Content-Length>{len(stored.data)}</Content-Length>"
                "<Content-Type>a/b</Content-Type></Properties></Blob>"
            )
    return (
        f"<EnumerationResults><Blobs>{''.join(sorted(told))}</Blobs></EnumerationResults>".encode()
    )


@pytest.mark.parametrize(("version", "consolidated"), [(2, False), (2, True), (3, False)])
def test_listings_of_azure_quote_no_tags(
    tmp_path: Path, http: Server, version: Any, consolidated: bool
) -> None:
    """They are those of the objects nevertheless: nothing has changed, until it does."""
    folder = tmp_path / "a.zarr"
    dataset().to_zarr(folder, zarr_format=version, consolidated=consolidated)
    for path in folder.rglob("*"):
        if path.is_file():
            http.put(f"a/c/a.zarr/{path.relative_to(folder)}", path.read_bytes())

    def azure(request: Request, answer: Answer) -> Answer:
        if "comp=list" in request.query:
            return Answer(200, {}, listing_of_azure(http, request.query))
        return answer

    http.fault = azure
    options = {"account_name": "a", "endpoint": http.url + "a", "anon": True}
    ds = intarsia.open_dataset("az://c/a.zarr", storage_options=options)
    with xr.open_dataset(folder, engine="zarr", chunks=None, consolidated=consolidated) as theirs:
        assert_identical(ds.copy().load()[list(theirs.data_vars)], theirs.load())
    for path, stored in list(http.objects.items()):
        http.put(path[1:], stored.data)
    with pytest.raises(SourceChanged, match="its entity tag is another"):
        ds.a.load()


@pytest.mark.parametrize("version", [2, 3])
def test_empty_objects_that_stand_for_folders(tmp_path: Path, s3: S3Server, version: Any) -> None:
    """Consoles and tools make them; they are no chunks."""
    folder = tmp_path / "a.zarr"
    keys: Any = {"name": "v2" if version == 2 else "default", "separator": "/"}
    told: dict[str, Any] = {"attributes": {"_ARRAY_DIMENSIONS": ["y", "x"]}}
    if version == 3:
        told = {"dimension_names": ["y", "x"]}
    group = zarr.open_group(folder, zarr_format=version)
    values = np.arange(6).reshape(2, 3)
    group.create_array("a", data=values, chunks=(1, 2), chunk_key_encoding=keys, **told)
    url = upload(s3, folder, f"marked{version}/a.zarr")
    for path in folder.rglob("*"):
        if path.is_dir():
            s3.put(f"bucket/marked{version}/a.zarr/{path.relative_to(folder)}/", b"")
    ds = intarsia.open_dataset(url, storage_options=s3.options)
    with xr.open_dataset(folder, engine="zarr", chunks=None, consolidated=False) as theirs:
        assert_identical(ds.load(), theirs.load())
    s3.put(f"bucket/marked{version}/a.zarr/a/" + ("0/1" if version == 2 else "c/0/1"), b"")
    with pytest.raises(UnsupportedVariable, match="is empty"):
        intarsia.open_dataset(url, storage_options=s3.options).a.load()


@pytest.mark.parametrize("name", ["back\\slash", "a//b", "/a"])
def test_names_of_folders_that_zarr_reads_as_others(tmp_path: Path, name: str) -> None:
    """It would give the metadata of the one, and the listing the chunks of the other."""
    folder = tmp_path / "a.zarr"
    dataset().to_zarr(folder, zarr_format=2, consolidated=False)
    store = MemoryStore()
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"{name}/a.zarr/{path.relative_to(folder)}"
            store.put(key.replace("\\", "/").replace("//", "/").lstrip("/"), path.read_bytes())
    with pytest.raises(UnsupportedError, match="zarr looks elsewhere"):
        intarsia.open_dataset(f"s3://bucket/{name}/a.zarr", registry={"s3://bucket": store})


def tiff(folder: Path) -> tuple[Path, np.ndarray]:
    path = folder / "a.tif"
    values = np.random.default_rng(0).integers(0, 999, (128, 128)).astype("i2")
    profile: dict[str, Any] = {"driver": "GTiff", "height": 128, "width": 128, "count": 1}
    profile |= {"dtype": "int16", "tiled": True, "blockxsize": 64, "blockysize": 64}
    with rasterio.open(path, "w", compress="deflate", crs="EPSG:3857", **profile) as file:
        file.write(values, 1)
    return path, values


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_tiff_over_http(tmp_path: Path, http: Server) -> None:
    path, values = tiff(tmp_path)
    url = http.put("a.tif", path.read_bytes())
    ds = intarsia.open_dataset(url)
    with observe() as reads:
        assert ds["0"].values.tobytes() == values.tobytes()
    assert reads.requests
    source = ds["0"].variable._data.segments.sources[0]
    assert source.size == path.stat().st_size
    again = intarsia.open_dataset(url)
    http.put("a.tif", path.read_bytes() + b"more", etag='"other"')
    with pytest.raises(SourceChanged, match=r"a\.tif"):
        again["0"].load()


def test_references_over_http(tmp_path: Path, http: Server) -> None:
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    data = http.put("a.bin", values.tobytes())
    array = {"zarr_format": 2, "shape": [3, 4], "chunks": [1, 4], "dtype": "<i4", "order": "C"}
    array |= {"fill_value": None, "filters": None, "compressor": None}
    refs: dict[str, Any] = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "v/.zarray": json.dumps(array),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]}),
    }
    refs |= {f"v/{n}.0": [data, n * 16, 16] for n in range(3)}
    url = http.put("refs.json", json.dumps({"version": 1, "refs": refs}).encode())
    ds = intarsia.open_dataset(url)
    assert ds.v.values.tolist() == values.tolist()
    assert ds.v.variable._data.segments.sources[1].size == 48


def test_references_from_the_network_stay_there(tmp_path: Path, http: Server) -> None:
    """Nor do headers that are for one server go to another."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"abcd")
    array = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "order": "C"}
    array |= {"fill_value": None, "filters": None, "compressor": None}
    refs: dict[str, Any] = {".zgroup": json.dumps({"zarr_format": 2})}
    with serving() as other:
        places = {"v": f"file://{secret}", "w": other.put("a.bin", b"abcd")}
        for name, place in places.items():
            refs[f"{name}/.zarray"] = json.dumps(array)
            refs[f"{name}/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": ["x"]})
            refs[f"{name}/0"] = [place, 0, 4]
        url = http.put("refs.json", json.dumps({"refs": refs}).encode())
        ds = intarsia.open_dataset(url, storage_options={"headers": {"x-key": "s3cret"}})
        with pytest.raises(UnsupportedVariable, match="to a file of this machine"):
            ds.v.load()
        assert ds.w.values.tobytes() == b"abcd"
        assert other.requests
        assert not any("x-key" in request.headers for request in other.requests)
    assert all("x-key" in request.headers for request in http.requests)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
def test_zarr_over_http_cant_be_listed(
    tmp_path: Path, http: Server, version: Any, consolidated: bool
) -> None:
    """Whatever a web server answers who asks what it has: chunks would seem to be unwritten."""
    from virtualizarr.parsers import ZarrParser

    folder = tmp_path / "a.zarr"
    dataset().to_zarr(folder, zarr_format=version, consolidated=consolidated)
    for path in folder.rglob("*"):
        if path.is_file():
            http.put(str(path.relative_to(tmp_path)), path.read_bytes())
    told: dict[str, Any]
    for told in ({}, {"parser": ZarrParser()}):
        with pytest.raises(UnsupportedError, match="do not tell what they have"):
            intarsia.open_dataset(f"{http.url}a.zarr", **told)


def test_a_listing_without_the_array_itself_is_not_believed(tmp_path: Path, s3: S3Server) -> None:
    folder = tmp_path / "a.zarr"
    dataset().to_zarr(folder, zarr_format=2, consolidated=True)
    url = upload(s3, folder, "unlisted/a.zarr")
    for path in (folder / "a").rglob("*"):
        s3.ask("DELETE", f"/bucket/unlisted/a.zarr/{path.relative_to(folder)}")
    ds = intarsia.open_dataset(url, storage_options=s3.options)
    with pytest.raises(UnsupportedVariable, match="metadata"):
        ds.a.load()


def test_refused_folders_tell_nothing_of_the_client(s3: S3Server) -> None:
    options = s3.options | {"endpoint_url": s3.endpoint + "/nowhere"}
    with pytest.raises(IntarsiaError) as caught:
        intarsia.open_dataset("s3://bucket/a.zarr", storage_options=options)
    assert "Debug source" not in "".join(traceback.format_exception(caught.value))


def test_references_here_lead_to_files_there(tmp_path: Path, s3: S3Server) -> None:
    """What is said of how URLs are reached goes for those that a file of this machine names."""
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    s3.put("bucket/raw.bin", values.tobytes())
    array = {
        "shape": [3, 4], "chunks": [3, 4], "dtype": "<i4", "compressor": None, "filters": None,
        "fill_value": None, "order": "C", "zarr_format": 2,
    }  # fmt: skip
    refs = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "v/.zarray": json.dumps(array),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]}),
        "v/0.0": ["s3://bucket/raw.bin", 0, values.nbytes],
    }
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    ds = intarsia.open_dataset(path, storage_options=s3.options)
    np.testing.assert_array_equal(ds.v, values)


@pytest.mark.parametrize("there", [False, True])
def test_references_lead_to_all_stores_of_a_registry(tmp_path: Path, there: bool) -> None:
    """Each to that of the longest prefix, wherever the references are."""
    stores = {prefix: MemoryStore() for prefix in ("s3://one", "s3://one/deep", "https://two/")}
    array = {
        "shape": [3], "chunks": [1], "dtype": "<i4", "compressor": None, "filters": None,
        "fill_value": None, "order": "C", "zarr_format": 2,
    }  # fmt: skip
    refs: dict[str, Any] = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "v/.zarray": json.dumps(array),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"]}),
    }
    for number, (prefix, store) in enumerate(stores.items()):
        store.put("raw.bin", np.array([number], "<i4").tobytes())
        refs[f"v/{number}"] = [prefix.rstrip("/") + "/raw.bin", 0, 4]
    stores["s3://one"].put("deep/raw.bin", np.array([99], "<i4").tobytes())
    text = json.dumps({"version": 1, "refs": refs})
    place = "s3://one/refs.json" if there else str(tmp_path / "refs.json")
    stores["s3://one"].put("refs.json", text.encode())
    (tmp_path / "refs.json").write_text(text)
    assert intarsia.open_dataset(place, registry=stores).v.values.tolist() == [0, 1, 2]
    del stores["https://two/"]
    with pytest.raises(UnsupportedVariable, match="registry has no store for https://two/raw.bin"):
        intarsia.open_dataset(place, registry=stores).v.load()


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("suffix", [".nc", ".tif"])
def test_options_for_urls_are_refused_where_nothing_names_one(tmp_path: Path, suffix: str) -> None:
    if suffix == ".tif":
        path, _ = tiff(tmp_path)
    else:
        path = tmp_path / "a.nc"
        xr.Dataset({"v": ("x", [1])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="is a path of this machine"):
        intarsia.open_dataset(path, storage_options={"anon": True})


LEADS = {
    ("https://data.example.org/refs.json", "http://169.254.169.254/latest/x"): False,
    ("https://data.example.org/refs.json", "http://10.0.0.1:8080/x"): False,
    ("https://data.example.org/refs.json", "http://me:pw@[::1]/x"): False,
    ("https://data.example.org/refs.json", "https://printer.local/x"): False,
    ("s3://bucket/refs.json", "http://127.0.0.1/x"): False,
    ("https://data.example.org/refs.json", "https://other.example.org/x"): True,
    ("https://data.example.org/refs.json", "s3://bucket/x"): True,
    ("http://server.lan/refs.json", "http://other.lan/x"): True,
    ("http://10.0.0.1/refs.json", "http://10.0.0.2/x"): True,
    ("http://10.0.0.1/refs.json", "http://10.0.0.1/x"): True,
}


@pytest.mark.parametrize(("there", "leads"), LEADS.items())
def test_references_of_public_places_lead_into_no_private_network(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, str], leads: bool
) -> None:
    """Whoever wrote them is not there, and who reads them would lend him his machine."""
    asked: list[str] = []
    monkeypatch.setattr(
        Places, "_looked_at", lambda self, source: asked.append(source.url) or source
    )
    place, path = there
    places = Places(place, None, Source(*split_place(place), 10, -1))
    if leads:
        places.numbers(np.array([path]), np.array([True]))
        assert asked == [path]
    else:
        with pytest.raises(UnsupportedError, match="from a public place") as caught:
            places.numbers(np.array([path]), np.array([True]))
        assert not asked
        assert "pw" not in str(caught.value)


def test_forked_processes_are_refused_and_do_not_hang(
    monkeypatch: pytest.MonkeyPatch, s3: S3Server
) -> None:
    monkeypatch.setitem(remote_relay._state, "inherited", True)
    with pytest.raises(UnsupportedError, match="forked"):
        intarsia.open_dataset("s3://bucket/a.zarr", storage_options=s3.options)


def packed(scale: float) -> xr.Dataset:
    encoding = {"dtype": "i2", "scale_factor": scale, "_FillValue": -1, "chunks": (2,)}
    ds = xr.Dataset({"a": ("x", np.arange(6.0)), "b": ("x", np.arange(6.0))})
    ds.a.encoding = ds.b.encoding = encoding
    return ds


@pytest.mark.filterwarnings("ignore:.*Consolidated metadata:UserWarning")
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_zarr_that_is_written_anew_between_its_metadata_and_its_listing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    version: Any,
    group: str | None,
    consolidated: bool,
) -> None:
    """What is listed are then other chunks than those that were described."""
    store = MemoryStore()
    folder = tmp_path / "a.zarr"

    def write(scale: float) -> None:
        how: dict[str, Any] = {"zarr_format": version, "consolidated": False}
        packed(scale).to_zarr(folder, mode="w", group=group, **how)
        if consolidated:  # in the group itself
            zarr.consolidate_metadata(folder, path=group)
        for path in folder.rglob("*"):
            if path.is_file():
                store.put(f"a.zarr/{path.relative_to(folder)}", path.read_bytes())

    told: dict[str, Any] = {"registry": {"s3://b": store}} if place == "bucket" else {}
    url = "s3://b/a.zarr" if place == "bucket" else str(folder)
    zarr.create_group(folder, zarr_format=version)
    write(1.0)
    assert intarsia.open_dataset(url, group=group, **told).a.values.tolist() == [0, 1, 2, 3, 4, 5]
    below, seen = FolderObjects.below, []

    def rewritten(objects: FolderObjects, base: str) -> Any:
        seen.append(base)
        if len(seen) == 1:
            write(0.5)
        return below(objects, base)

    monkeypatch.setattr(FolderObjects, "below", rewritten)
    with pytest.raises(SourceChanged, match=r"was written after it was read.*a\.zarr"):
        intarsia.open_dataset(url, group=group, **told)
    assert intarsia.open_dataset(url, group=group, **told).a.values.tolist() == [0, 1, 2, 3, 4, 5]
    seen.clear()
    with pytest.raises(SourceChanged, match=r"was written after it was read.*a\.zarr"):
        intarsia.open_datatree(url, **told)
