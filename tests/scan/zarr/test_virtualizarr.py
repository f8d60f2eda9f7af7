"""Formats that parsers of VirtualiZarr's kind read, against the libraries of those formats."""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import xarray as xr

import intarsia
from intarsia.errors import (
    ChunkError,
    FormatError,
    IntarsiaError,
    SourceChanged,
    SourceMissing,
    UnsupportedError,
    UnsupportedVariable,
)
from intarsia.io.fetch import observe
from tests.check import is_virtual
from tests.compare import assert_identical


def notes(ds: xr.Dataset, name: str) -> str:
    return " ".join(ds[name].variable._data.notes)


def months(folder: Path, count: int = 3, **encoding: Any) -> list[str]:
    """Packed and compressed netCDF files, alike."""
    rng = np.random.default_rng(0)
    paths: list[str] = []
    for month in range(1, count + 1):
        values = rng.integers(0, 900, (4, 6, 8)) / 100
        values[1, 2, 3] = np.nan
        ds = xr.Dataset(
            {"a": (("t", "y", "x"), values, {"units": "K"}), "flag": ("y", np.arange(6) % 2 > 0)},
            {"t": xr.date_range(f"2020-{month:02}-01", periods=4), "y": np.arange(6.0)},
            {"title": "months"},
        )
        path = str(folder / f"{month}.nc")
        packed = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -9, "chunksizes": (2, 3, 8)}
        packed |= {"zlib": True, "shuffle": True, "fletcher32": True} | encoding
        ds.to_netcdf(path, engine="h5netcdf", encoding={"a": packed})
        paths.append(path)
    return paths


def virtual(paths: list[str], **arguments: Any) -> xr.Dataset:
    """The files as VirtualiZarr combines them."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser

    registry: Any = ObjectStoreRegistry({"file://": LocalStore()})
    with warnings.catch_warnings(action="ignore"):
        opened = [
            open_virtual_dataset(
                f"file://{path}",
                parser=HDFParser(),
                registry=registry,
                loadable_variables=["t", "y"],
                **arguments,
            )
            for path in paths
        ]
        return xr.concat(opened, "t", data_vars="minimal", coords="minimal", compat="override")


def natively(paths: list[str]) -> xr.Dataset:
    many: dict[str, Any] = {"concat_dim": "t", "combine": "nested", "data_vars": "minimal"}
    many |= {"coords": "minimal", "compat": "override", "engine": "h5netcdf"}
    with xr.open_mfdataset(paths, **many) as ds:
        return ds.load()


# -- TIFF ----------------------------------------------------------------------------------------

TIFFS = ["tiff/lcmap_tiny_cog_2019.tif", "tiff/lcmap_tiny_cog_2020.tif"]


@pytest.mark.parametrize("name", TIFFS)
def test_real_tiffs(real_file: Any, name: str) -> None:
    from virtual_tiff import VirtualTIFF

    path = real_file(name)
    for level in range(3):
        parser = VirtualTIFF(ifd=level) if level else None
        ds = intarsia.open_dataset(path, parser=parser, mask_and_scale=False)
        assert is_virtual(ds, str(level))
        with rasterio.open(path, **({"overview_level": level - 1} if level else {})) as tiff:
            expected = tiff.read(1)
            nodata = tiff.nodata
        found = ds[str(level)].values
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
        masked = intarsia.open_dataset(path, parser=parser)[str(level)]
        assert (masked.isnull() == (expected == nodata)).all()
    tree = intarsia.open_datatree(path, parser=VirtualTIFF(ifd_layout="nested"))
    assert [node.path for node in tree.leaves] == ["/0", "/1", "/2"]
    with pytest.raises(FormatError, match="'y' has the length 1024, and 2048 elsewhere"):
        intarsia.open_dataset(path, parser=VirtualTIFF())


def test_real_tiffs_stacked_and_saved(real_file: Any, tmp_path: Path) -> None:
    paths = [real_file(name) for name in TIFFS]
    with observe() as reads:
        ds = intarsia.open_mfdataset(
            paths, concat_dim="year", combine="nested", mask_and_scale=False
        )
    assert not reads.requests
    ds.intarsia.save(tmp_path / "s.intarsia")
    again = intarsia.open_dataset(tmp_path / "s.intarsia")
    assert is_virtual(again, "0")
    for year, path in enumerate(paths):
        with rasterio.open(path) as tiff:
            assert again["0"][year].values.tobytes() == tiff.read(1).tobytes()


def tiff_kinds() -> list[dict[str, Any]]:
    """Every way of compressing, but for the lossy ones, with types that go with it."""
    kinds: list[dict[str, Any]] = []
    for compress, predictor, dtype in itertools.product(
        [None, "deflate", "lzw", "zstd", "packbits", "lzma"],
        [1, 2, 3],
        ["uint8", "int16", "int32", "float32", "float64"],
    ):
        if predictor > 1 and compress not in ("deflate", "lzw", "zstd"):
            continue
        if predictor == 3 and dtype[0] != "f":
            continue
        kind = {"dtype": dtype, "predictor": predictor}
        kinds.append(kind | ({"compress": compress} if compress else {}))
    return kinds


@pytest.mark.parametrize(
    ("bands", "endian", "part"),
    [
        ("one", "LITTLE", slice(0, None, 3)),
        ("pixel", "BIG", slice(1, None, 3)),
        *(
            pytest.param(bands, endian, slice(None), marks=pytest.mark.slow)
            for bands, endian in itertools.product(("one", "pixel", "band"), ("LITTLE", "BIG"))
        ),
    ],
)
def test_tiffs_of_every_kind(tmp_path: Path, bands: str, endian: str, part: slice) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "a.tif"
    count = 1 if bands == "one" else 3
    for kind, tiled in list(itertools.product(tiff_kinds(), [True, False]))[part]:
        values = (rng.integers(0, 200, (count, 50, 80)) / 7).astype(kind["dtype"])
        layout = {"tiled": True, "blockxsize": 32, "blockysize": 16} if tiled else {}
        profile = {"driver": "GTiff", "height": 50, "width": 80, "count": count, "blockysize": 16}
        profile |= kind | layout | {"ENDIANNESS": endian}
        profile |= {} if bands == "one" else {"interleave": bands}
        with warnings.catch_warnings(action="ignore"):
            with rasterio.open(path, "w", **profile) as tiff:
                tiff.write(values)
            with rasterio.open(path) as tiff:
                expected = tiff.read(1) if count == 1 else tiff.read()
        found = intarsia.open_dataset(path)["0"].values
        assert found.dtype == expected.dtype, profile
        assert found.shape == expected.shape, profile
        assert found.tobytes() == expected.tobytes(), profile


@pytest.mark.parametrize("nodata", [None, -9, 7])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize(
    "layout",
    [
        {"tiled": True, "blockxsize": 32, "blockysize": 16},
        {"tiled": True, "blockxsize": 32, "blockysize": 16, "compress": "deflate", "predictor": 2},
        {"blockysize": 16},
        {"blockysize": 16, "compress": "lzw"},
        {"blockysize": 16, "count": 3, "interleave": "pixel"},
        {"tiled": True, "blockxsize": 16, "blockysize": 16, "count": 3, "interleave": "band"},
    ],
    ids=["tiles", "deflated tiles", "strips", "packed strips", "pixels", "bands"],
)
def test_tiles_of_tiffs_that_were_never_written(
    tmp_path: Path, layout: dict[str, Any], dtype: str, nodata: int | None
) -> None:
    profile = {"driver": "GTiff", "height": 150, "width": 80, "count": 1, "dtype": dtype} | layout
    profile |= {"sparse_ok": True, "nodata": nodata}
    count = int(profile["count"])
    values = np.arange(1, count * 32 * 80 + 1).reshape(count, 32, 80).astype(dtype)
    for part in (slice(32, 64), None):
        path = tmp_path / f"{part is None}.tif"
        with warnings.catch_warnings(action="ignore"):
            with rasterio.open(path, "w", **profile) as tiff:
                if part is not None:
                    tiff.write(values, window=rasterio.windows.Window(0, part.start, 80, 32))
            with rasterio.open(path) as tiff:
                expected = tiff.read(1) if count == 1 else tiff.read()
        ds = intarsia.open_dataset(path, mask_and_scale=False)
        assert is_virtual(ds, "0")
        assert ds["0"].dtype == expected.dtype
        np.testing.assert_array_equal(ds["0"], expected)
        assert (expected == (nodata or 0)).any()
        ds.intarsia.save(tmp_path / "s.intarsia", mode="w")
        np.testing.assert_array_equal(intarsia.open_dataset(tmp_path / "s.intarsia")["0"], expected)


def test_overviews_of_tiffs_with_tiles_that_were_never_written(tmp_path: Path) -> None:
    from virtual_tiff import VirtualTIFF

    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "height": 256, "width": 256, "count": 1, "dtype": "int16"}
    profile |= {"tiled": True, "blockxsize": 32, "blockysize": 32, "nodata": -9, "sparse_ok": True}
    with warnings.catch_warnings(action="ignore"):
        with rasterio.open(path, "w", **profile) as tiff:
            window = rasterio.windows.Window(0, 0, 32, 64)
            tiff.write(np.arange(1, 2049, dtype="i2").reshape(1, 64, 32), window=window)
        with rasterio.Env(SPARSE_OK_OVERVIEW=True), rasterio.open(path, "r+") as tiff:
            tiff.build_overviews([2, 4])
        for level in range(3):
            parser = VirtualTIFF(ifd=level)
            found = intarsia.open_dataset(path, parser=parser, mask_and_scale=False)[str(level)]
            with rasterio.open(path, **({"overview_level": level - 1} if level else {})) as tiff:
                np.testing.assert_array_equal(found, tiff.read(1))
            assert (found == -9).any()


def test_tiles_that_stand_for_what_the_metadata_do_not_say(tmp_path: Path) -> None:
    """GDAL heeds the tag of what stands for no data; virtual-tiff also its metadata in XML."""
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "height": 64, "width": 64, "count": 1, "dtype": "int16"}
    profile |= {"tiled": True, "blockxsize": 32, "blockysize": 32, "sparse_ok": True}
    with warnings.catch_warnings(action="ignore"), rasterio.open(path, "w", **profile) as tiff:
        tiff.update_tags(_FillValue="-5")
        tiff.write(np.ones((1, 32, 32), "i2"), window=rasterio.windows.Window(0, 0, 32, 32))
    with warnings.catch_warnings(action="ignore"), rasterio.open(path) as tiff:
        assert tiff.read(1)[-1, -1] == 0
    with pytest.raises(UnsupportedError, match="stand for 0 and not for -5"):
        intarsia.open_dataset(path)


@pytest.mark.parametrize(
    "kind", [{"compress": "ccittfax4", "nbits": 1}, {"dtype": "complex_int16"}]
)
def test_tiffs_that_are_beyond_the_parser(tmp_path: Path, kind: dict[str, Any]) -> None:
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "height": 64, "width": 64, "count": 1, "dtype": "uint8"} | kind
    with warnings.catch_warnings(action="ignore"), rasterio.open(path, "w", **profile) as tiff:
        tiff.write(np.ones((1, 64, 64), "u1"))
    with pytest.raises(UnsupportedError, match=r"TIFF can't be read.*a\.tif"):
        intarsia.open_dataset(path)


@pytest.mark.parametrize("compress", ["lzw", "zstd", "deflate"])
def test_tiffs_are_saved_as_references(tmp_path: Path, compress: str) -> None:
    path = tmp_path / "a.tif"
    values = np.arange(3 * 48 * 80, dtype="u2").reshape(3, 48, 80)
    profile = {"driver": "GTiff", "height": 48, "width": 80, "count": 3, "dtype": "uint16"}
    profile |= {"compress": compress, "predictor": 2, "interleave": "pixel"}
    with warnings.catch_warnings(action="ignore"), rasterio.open(path, "w", **profile) as tiff:
        tiff.write(values)
    ds = intarsia.open_dataset(path)
    ds.isel(x=slice(3, 70, 3)).intarsia.save(tmp_path / "s.intarsia")
    again = intarsia.open_dataset(tmp_path / "s.intarsia")
    assert is_virtual(again, "0")
    assert again["0"].values.tobytes() == values[:, :, 3:70:3].tobytes()
    with xr.open_dataset(tmp_path / "s.intarsia", engine="intarsia") as read:
        assert read["0"][1, 5:7].values.tobytes() == values[1, 5:7, 3:70:3].tobytes()


def test_broken_tiffs(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    values = np.random.default_rng(0).integers(0, 9, (1, 64, 64)).astype("u1")
    profile = {"driver": "GTiff", "height": 64, "width": 64, "count": 1, "dtype": "uint8"}
    profile |= {"compress": "lzw", "blockysize": 16}
    with warnings.catch_warnings(action="ignore"), rasterio.open(path, "w", **profile) as tiff:
        tiff.write(values)
    whole = path.read_bytes()
    ds = intarsia.open_dataset(path)
    stat = path.stat()
    broken = bytearray(whole)
    broken[-20:] = bytes(20)
    path.write_bytes(broken)
    os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    with pytest.raises(ChunkError, match="a.tif"):
        ds["0"].load()
    for length in (5, 9, 60):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"TIFF can't be read.*a\.tif"):
            intarsia.open_dataset(path)
    path.write_bytes(whole[:-100])
    with pytest.raises(IntarsiaError, match=r"a\.tif"):
        intarsia.open_dataset(path).load()


# -- kerchunk, Icechunk, zip ---------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_references_that_virtualizarr_wrote(tmp_path: Path, form: Any) -> None:
    paths = months(tmp_path)
    refs = tmp_path / ("refs.json" if form == "json" else "refs.parq")
    with warnings.catch_warnings(action="ignore"):
        virtual(paths).vz.to_kerchunk(str(refs), format=form)
    ds = intarsia.open_dataset(refs)
    assert is_virtual(ds, "a")
    assert "pinned as they are now" in notes(ds, "a")
    with warnings.catch_warnings(action="ignore"):  # pandas has something against its engines
        theirs = xr.open_dataset(str(refs), engine="kerchunk", chunks=None)
        assert_identical(ds, theirs.load()[list(ds.data_vars)])
        theirs.close()
    expected = natively(paths)
    assert ds.a.values.tobytes() == expected.a.values.tobytes()
    with open(paths[1], "ab") as file:
        file.write(b"more")
    ds.a[:4].load()
    with pytest.raises(SourceChanged, match="2.nc"):
        ds.a.load()


def test_references_that_kerchunk_wrote(tmp_path: Path) -> None:
    from kerchunk.hdf import SingleHdf5ToZarr

    (path,) = months(tmp_path, 1, fletcher32=False)
    refs = tmp_path / "refs.json"
    for threshold in (0, 100):
        made = SingleHdf5ToZarr(path, inline_threshold=threshold).translate()
        refs.write_text(json.dumps(made))
        ds = intarsia.open_dataset(refs)
        assert is_virtual(ds, "a")
        with xr.open_dataset(str(refs), engine="kerchunk", chunks=None) as theirs:
            assert_identical(ds, theirs.load()[list(ds.data_vars)])


def test_references_with_columns_first(tmp_path: Path) -> None:
    """VirtualiZarr reads these transposed, without a word."""
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    (tmp_path / "a.bin").write_bytes(values.tobytes(order="F"))
    array = {"zarr_format": 2, "shape": [3, 4], "chunks": [3, 4], "dtype": "<i4", "order": "F"}
    array |= {"fill_value": 0, "filters": None, "compressor": None}
    refs = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "v/.zarray": json.dumps(array),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]}),
        "v/0.0": [f"file://{tmp_path}/a.bin", 0, 48],
    }
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    ds = intarsia.open_dataset(path, mask_and_scale=False)
    assert ds.v.values.tolist() == values.tolist()
    assert intarsia.open_dataset(path).v.isnull().values.tolist() == (values == 0).tolist()


def templated(folder: Path, templates: Any, *urls: str, **more: Any) -> Path:
    """References to an array of which each chunk has a URL, and one that is inlined."""
    array = {"zarr_format": 2, "shape": [2 * len(urls) + 2], "chunks": [2], "dtype": "<i4"}
    array |= {"fill_value": 0, "filters": None, "compressor": None, "order": "C"}
    refs: dict[str, Any] = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        ".zattrs": json.dumps({"title": "{{u}} is not replaced here, {{ nor }} {{this(1)}}"}),
        "v/.zarray": json.dumps(array),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"]}),
        **{f"v/{number}": [url, 8 * number, 8] for number, url in enumerate(urls)},
        f"v/{len(urls)}": "{{u}}45}",
    }
    path = folder / "refs.json"
    path.write_text(json.dumps({"version": 1, "templates": templates, "refs": refs} | more))
    return path


def test_references_with_templates(tmp_path: Path) -> None:
    """fsspec is asked twice: it has a simple way, and one that allows spaces."""
    pytest.importorskip("jinja2")
    values = np.arange(100, 120, dtype="<i4")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.bin").write_bytes(values.tobytes())
    (tmp_path / "b{c}.bin").write_bytes(values[::-1].tobytes())
    told = {"u": f"file://{tmp_path}", "dir_2": "in", "name": "a.bin", "unused": ""}
    plain = (
        "{{u}}/in/a.bin",
        f"file://{tmp_path}/in/a.bin",
        f"file://{tmp_path}/b{{c}}.bin",
        "{{u}}/{{dir_2}}/{{name}}",
    )
    spaced = (*plain, "{{ u }}/{{dir_2 }}/a.bin", "{{  u}}/{{ dir_2 }}/{{ name}}")
    for simple, urls in ((True, plain), (False, plain), (False, spaced)):
        path = templated(tmp_path, told, *urls, gen=[])
        ds = intarsia.open_dataset(path, mask_and_scale=False)
        assert is_virtual(ds, "v")
        options: dict[str, Any] = {"storage_options": {"simple_templates": simple}}
        options |= {"chunks": None, "mask_and_scale": False}
        with xr.open_dataset(str(path), engine="kerchunk", **options) as theirs:
            assert_identical(ds, theirs.load())
        assert ds.v.values[:2].tolist() == [100, 101]
        assert ds.v.values[4:6].tolist() == [115, 114]
        assert "{{u}}" in ds.attrs["title"]


@pytest.mark.parametrize(
    ("templates", "url", "told"),
    [
        ({"u": "a{{c}}"}, "{{u(c=1)}}/a", "the template 'u'"),
        ({"u": "a{c}"}, "{{u}}/a", "the template 'u'"),
        ({"u": 3}, "{{u}}/a", "the template 'u'"),
        (["u"], "{{u}}/a", "no table"),
        ({"u": "x"}, "{{v}}/a", "the template 'v', which is not there"),
        ({"u": "x"}, "{{u}}/{{u + u}}", "more than names"),
        ({"u": "x"}, "{{u(1)}}", "more than names"),
        ({"u": "x"}, "{{u.__class__}}", "more than names"),
        ({"u": "x"}, "{{u|upper}}", "more than names"),
        ({"u": "x"}, "{{u}}/{a}", "more than names"),
        ({"u": "x"}, "{{u}}}", "more than names"),
        ({"u": "x"}, "{{{u}}}", "more than names"),
        ({"u": "x"}, "{{u", "more than names"),
        ({"u": "x"}, "{% if u %}a{% endif %}", "more than names"),
        ({"u": "x"}, "{{u}}{# no #}", "more than names"),
    ],
)
def test_templates_that_are_not_plain(tmp_path: Path, templates: Any, url: str, told: str) -> None:
    with pytest.raises(FormatError, match=r"templates.*refs\.json") as caught:
        intarsia.open_dataset(templated(tmp_path, templates, url))
    assert told in str(caught.value)
    assert "ReferenceFileSystem" in str(caught.value)


def test_rules_that_make_references(tmp_path: Path) -> None:
    gen = [{"key": "v/{{i}}", "url": "{{u}}", "dimensions": {"i": {"stop": 2}}}]
    with pytest.raises(FormatError, match="'gen', rules that make them"):
        intarsia.open_dataset(templated(tmp_path, {}, gen=gen))


def test_references_to_what_is_not_there(tmp_path: Path) -> None:
    paths = months(tmp_path, 2)
    refs = tmp_path / "refs.json"
    with warnings.catch_warnings(action="ignore"):
        virtual(paths).vz.to_kerchunk(str(refs), format="json")
    os.remove(paths[1])
    ds = intarsia.open_dataset(refs)
    assert ds.a[:4].load().shape == (4, 6, 8)
    with pytest.raises(SourceMissing, match="2.nc"):
        ds.a.load()


def test_references_in_groups(tmp_path: Path) -> None:
    from kerchunk.hdf import SingleHdf5ToZarr

    path = tmp_path / "g.nc"
    inner = xr.Dataset({"v": (("y", "x"), np.arange(6.0).reshape(2, 3))})
    xr.Dataset({"top": ("n", np.arange(3))}).to_netcdf(path, engine="h5netcdf")
    inner.to_netcdf(path, group="in", mode="a", engine="h5netcdf")
    refs = tmp_path / "refs.json"
    refs.write_text(json.dumps(SingleHdf5ToZarr(str(path)).translate()))
    assert intarsia.open_dataset(refs, group="in").v.values.tolist() == inner.v.values.tolist()
    with pytest.raises(FormatError, match="out"):
        intarsia.open_dataset(refs, group="out")


def test_icechunk(tmp_path: Path) -> None:
    import icechunk

    paths = months(tmp_path)
    home = f"file://{tmp_path}/"
    config = icechunk.RepositoryConfig.default()
    store = icechunk.local_filesystem_store(str(tmp_path))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(home, store))
    storage = icechunk.local_filesystem_storage(str(tmp_path / "repo"))
    repo = icechunk.Repository.create(storage, config)
    session = repo.writable_session("main")
    with warnings.catch_warnings(action="ignore"):
        virtual(paths).vz.to_icechunk(session.store, validate_containers=False)
    session.commit("all")
    ds = intarsia.open_dataset(tmp_path / "repo")
    assert is_virtual(ds, "a")
    assert_identical(ds[["a"]], natively(paths)[["a"]])


@pytest.mark.parametrize("version", [2, 3])
def test_zipped_zarr(tmp_path: Path, version: Any) -> None:
    (path,) = months(tmp_path, 1)
    folder = tmp_path / "a.zarr"
    natively([path]).drop_encoding().to_zarr(
        folder,
        zarr_format=version,
        consolidated=False,
        encoding={"a": {"chunks": (2, 3, 8), "_FillValue": 1.25}},
    )
    archive = tmp_path / "a.zarr.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for member in sorted(folder.rglob("*")):
            if member.is_file():
                file.write(member, member.relative_to(folder))
    ds = intarsia.open_dataset(archive)
    assert is_virtual(ds, "a")
    with xr.open_dataset(folder, engine="zarr", chunks=None, consolidated=False) as theirs:
        assert_identical(ds, theirs.load()[list(ds.data_vars)])
    with zipfile.ZipFile(tmp_path / "no.zip", "w") as file:
        file.writestr("a.txt", "text")
    with pytest.raises(IntarsiaError, match=r"no\.zip"):
        intarsia.open_dataset(tmp_path / "no.zip")


# -- others --------------------------------------------------------------------------------------


def test_fits(tmp_path: Path) -> None:
    from astropy.io import fits

    path = tmp_path / "a.fits"
    cube = np.arange(24, dtype=">i2").reshape(2, 3, 4)
    image = np.linspace(0, 1, 6).astype(">f4").reshape(2, 3)
    scaled = fits.ImageHDU(np.arange(6, dtype="i2").reshape(2, 3), name="SCALED")
    scaled.header["BSCALE"], scaled.header["BZERO"] = 0.3, 2.0
    primary = fits.PrimaryHDU(cube)
    fits.HDUList([primary, fits.ImageHDU(image, name="SCI"), scaled]).writeto(path)
    ds = intarsia.open_dataset(path)
    assert ds.PRIMARY.dims == ("PRIMARY_z", "PRIMARY_y", "PRIMARY_x")
    assert ds.PRIMARY.values.tolist() == cube.tolist()
    assert ds.SCI.values.tobytes() == image.astype("=f4").tobytes()
    assert ds.SCI.attrs["EXTNAME"] == "SCI"
    with fits.open(path) as theirs:  # which has floats of 32 bits
        np.testing.assert_array_equal(ds.SCALED.values.astype("f4"), theirs["SCALED"].data)
    plain = intarsia.open_dataset(path, mask_and_scale=False).SCALED
    assert plain.values.tolist() == np.arange(6).reshape(2, 3).tolist()
    assert (plain.attrs["scale_factor"], plain.attrs["add_offset"]) == (0.3, 2.0)
    ds.intarsia.save(tmp_path / "s.intarsia")
    assert_identical(intarsia.open_dataset(tmp_path / "s.intarsia"), ds.load())


def test_a_zip_file_of_a_folder(tmp_path: Path) -> None:
    """The parser says that there is no such file."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("a.zarr/zarr.json", '{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(FormatError, match=r"no Zarr hierarchy at the root.*a\.zip.*unpack it"):
        intarsia.open_dataset(tmp_path / "a.zip")


@pytest.mark.filterwarnings("ignore:Invalid value for 'BLANK'")
@pytest.mark.parametrize("blank", [-32768, 256, 3.0, "none"])
@pytest.mark.parametrize("scale", [None, 0.5])
def test_a_blank_that_no_pixel_of_fits_has(tmp_path: Path, blank: Any, scale: float | None) -> None:
    """The parser ends at it."""
    from astropy.io import fits

    image = fits.ImageHDU(np.arange(256, dtype="u1").reshape(16, 16), name="V")
    image.header["BLANK"] = blank
    if scale is not None:
        image.header["BSCALE"] = scale
    fits.HDUList([fits.PrimaryHDU(), image]).writeto(tmp_path / "a.fits")
    ds = intarsia.open_dataset(tmp_path / "a.fits")
    assert ds.V.values.ravel().tolist() == (np.arange(256) * (scale or 1)).tolist()
    assert ds.V.attrs["BLANK"] == blank


def test_names_of_fits_that_meet(tmp_path: Path) -> None:
    """The parser calls the second A by its number, and so loses the A_3 before it."""
    from astropy.io import fits

    parts = [
        fits.ImageHDU(np.full(2, number, "i2"), name=name)
        for number, name in enumerate(["A", "A_3", "A"])
    ]
    fits.HDUList([fits.PrimaryHDU(), *parts]).writeto(tmp_path / "a.fits")
    ds = intarsia.open_dataset(tmp_path / "a.fits")
    assert {str(name): ds[name].values[0] for name in ds} == {"A": 0, "A_3": 1, "A_3_3": 2}


@pytest.mark.parametrize("told", [{"bscale": 2.0}, {"bzero": 1.0}, {"null": "-5"}])
def test_coded_tables_of_fits_are_refused(tmp_path: Path, told: dict[str, Any]) -> None:
    """The parser gives the numbers as they are written."""
    from astropy.io import fits

    column = fits.Column("a", format="F8.3", array=np.array([1.5, -5]), **told)
    parts = [
        fits.PrimaryHDU(np.arange(3, dtype="i2")),
        fits.TableHDU.from_columns([column], name="T"),
        fits.TableHDU.from_columns([fits.Column("a", format="I4", array=[1, -5])], name="U"),
    ]
    fits.HDUList(parts).writeto(tmp_path / "a.fits")
    with pytest.raises(UnsupportedError, match=r"'T' is a table whose numbers are scaled"):
        intarsia.open_dataset(tmp_path / "a.fits")
    ds = intarsia.open_dataset(tmp_path / "a.fits", drop_variables="T")
    assert ds.U.values["a"].tolist() == [1, -5]


@pytest.mark.parametrize("scale", [None, 1.0, 0.025, 0.1, 1 / 3])
def test_missing_pixels_of_fits(tmp_path: Path, scale: float | None) -> None:
    """Known by what is stored: a scaled number would have to agree in its last bit."""
    from astropy.io import fits

    path = tmp_path / "a.fits"
    for blank in (-32768, -9999, -7, 32767):
        stored = np.arange(-7, 53, dtype="i2").reshape(6, 10)
        stored[1, :3] = blank
        image = fits.ImageHDU(stored, name="V")
        image.header["BLANK"] = blank
        if scale is not None:
            image.header["BSCALE"], image.header["BZERO"] = scale, 273.15 if scale < 1 else 0.0
        fits.HDUList([fits.PrimaryHDU(), image]).writeto(path, overwrite=True)
        ds = intarsia.open_dataset(path)
        offset = 273.15 if scale is not None and scale < 1 else 0.0
        expected = np.where(stored == blank, np.nan, stored * (scale or 1.0) + offset)
        np.testing.assert_array_equal(ds.V.values, expected)
        with fits.open(path) as theirs:
            missing = np.isnan(theirs["V"].data)
        np.testing.assert_array_equal(ds.V.isnull().values, missing)


@pytest.mark.parametrize("dtype", ["i1", "u2", "u4", "u8"])
def test_unsigned_pixels_of_fits(tmp_path: Path, dtype: str) -> None:
    from astropy.io import fits

    path = tmp_path / "a.fits"
    limits = np.iinfo(dtype)
    values = np.array([[limits.min, 1, 2], [limits.max - 2, limits.max - 1, limits.max]], dtype)
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(values, name="V")]).writeto(path)
    ds = intarsia.open_dataset(path)
    if dtype == "u8":
        with pytest.raises(UnsupportedVariable, match=r"64 bits.*a\.fits"):
            ds.load()
    else:
        assert ds.V.values.tolist() == values.tolist()


def test_what_a_manifest_of_fits_cant_say(tmp_path: Path) -> None:
    """Compressed images are tables, whose bytes were given for pixels."""
    from astropy.io import fits
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import FITSParser

    path = tmp_path / "a.fits"
    image = np.arange(600, dtype="i2").reshape(20, 30)
    column = fits.Column("c", "J", array=[1, 2])
    for made, said in (
        (fits.CompImageHDU(image, name="V"), "'V' is an image that is compressed in tiles"),
        (fits.BinTableHDU.from_columns([column], name="V"), "'V' is a binary table"),
    ):
        fits.HDUList([fits.PrimaryHDU(image), made]).writeto(path, overwrite=True)
        with pytest.raises(UnsupportedError, match=rf"{said}; drop_variables=.*a\.fits"):
            intarsia.open_dataset(path)
        for told in (
            {"drop_variables": "V"},
            {"drop_variables": ["V"], "parser": FITSParser()},
            {"parser": FITSParser(skip_variables=["V"])},
        ):
            ds = intarsia.open_dataset(path, **told)
            assert ds.PRIMARY.values.tolist() == image.tolist()
        made.name = "W"
        fits.HDUList([fits.PrimaryHDU(image), made]).writeto(path, overwrite=True)
        parser = FITSParser(skip_variables=["W"])
        with pytest.raises(UnsupportedError, match="'W' is"):
            intarsia.open_dataset(path, drop_variables="V")
        assert list(intarsia.open_dataset(path, parser=parser, drop_variables="V")) == ["PRIMARY"]
        assert parser.skip_variables == ["W"]
    fits.HDUList([fits.PrimaryHDU(image), fits.CompImageHDU(image)]).writeto(path, overwrite=True)
    registry: Any = ObjectStoreRegistry({"file://": LocalStore()})
    theirs = FITSParser()(url=f"file://{path}", registry=registry)
    assert len(theirs._group.arrays) == 2  # for others it does what it did


DMRPP = """<?xml version="1.0" encoding="ISO-8859-1"?>
<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#"
    xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#" dapVersion="4.0" dmrVersion="1.0"
    name="a.nc" dmrpp:href="{path}" dmrpp:version="3.21.1-451">
  <Dimension name="y" size="4"/>
  <Dimension name="x" size="6"/>
  <Float32 name="v">
    <Dim name="/y"/>
    <Dim name="/x"/>
    <Attribute name="units" type="String"><Value>K</Value></Attribute>
    <dmrpp:chunks compressionType="deflate" deflateLevel="4" fillValue="0" byteOrder="LE">
      <dmrpp:chunkDimensionSizes>2 6</dmrpp:chunkDimensionSizes>
      {chunks}
    </dmrpp:chunks>
  </Float32>
</Dataset>
"""


def test_dmrpp(tmp_path: Path) -> None:
    import h5py

    values = np.arange(24, dtype="f4").reshape(4, 6)
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("v", data=values, chunks=(2, 6), compression="gzip")
        chunks = [dataset.id.get_chunk_info(n) for n in range(2)]
    text = "".join(
        f'<dmrpp:chunk offset="{c.byte_offset}" nBytes="{c.size}" '
        f'chunkPositionInArray="[{",".join(map(str, c.chunk_offset))}]"/>'
        for c in chunks
    )
    meta = tmp_path / "a.nc.dmrpp"
    meta.write_text(DMRPP.format(path=f"file://{path}", chunks=text))
    ds = intarsia.open_dataset(meta)
    assert ds.v.attrs == {"units": "K"}
    assert ds.v.values.tolist() == values.tolist()
    assert "DMR++" in notes(ds, "v")


def test_their_parsers_for_our_formats_say_so(tmp_path: Path) -> None:
    from virtualizarr.parsers import HDFParser

    (path,) = months(tmp_path, 1, fletcher32=False)
    ds = intarsia.open_dataset(path, parser=HDFParser())
    assert "open the file without parser=" in notes(ds, "a")
    assert_identical(ds, natively([path])[list(ds.data_vars)])
    with pytest.raises(FormatError, match=r"HDF5 can't be read.*refs"):
        (tmp_path / "refs.json").write_text("{}")
        intarsia.open_dataset(tmp_path / "refs.json", parser=HDFParser())


class Rows:
    """A parser of somebody: the rows of a file with a header line are the rows of an array."""

    def __call__(self, url: str, registry: Any) -> Any:
        from virtualizarr.manifests import (
            ChunkManifest,
            ManifestArray,
            ManifestGroup,
            ManifestStore,
        )
        from virtualizarr.manifests.utils import create_v3_array_metadata

        store, path = registry.resolve(url)
        head = bytes(store.get_range(path, start=0, length=16)).decode().split()
        rows, columns = int(head[0]), int(head[1])
        size = 4 * columns
        entries = {
            f"{n}.0": {"path": url, "offset": 16 + n * size, "length": size} for n in range(rows)
        }
        metadata = create_v3_array_metadata(
            shape=(rows + 1, columns),  # the last row is nowhere
            data_type=np.dtype("float32"),
            chunk_shape=(1, columns),
            fill_value=np.nan,
            dimension_names=("row", "column"),
            attributes={"units": "m"},
        )
        manifest = ChunkManifest(entries, shape=(rows + 1, 1))
        return ManifestStore(ManifestGroup(arrays={"v": ManifestArray(metadata, manifest)}))


def test_a_parser_of_somebody(tmp_path: Path) -> None:
    path = tmp_path / "a.rows"
    values = np.arange(15, dtype="<f4").reshape(5, 3)
    path.write_bytes(b"5 3".ljust(16) + values.tobytes())
    ds = intarsia.open_dataset(path, parser=Rows())
    assert ds.v.dims == ("row", "column")
    assert ds.v.attrs == {"units": "m"}
    assert ds.v[:5].values.tobytes() == values.tobytes()
    assert np.isnan(ds.v[5].values).all()
    both = intarsia.open_mfdataset([path, path], parser=Rows(), concat_dim="n", combine="nested")
    assert both.v.shape == (2, 6, 3)
    path.write_bytes(b"x y")
    with pytest.raises(FormatError, match=r"the parser can't be read.*a\.rows|a\.rows"):
        intarsia.open_dataset(path, parser=Rows())


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (KeyError("x"), FormatError),
        (NotImplementedError("not this"), UnsupportedError),
        (FileNotFoundError("x"), SourceMissing),
        (ModuleNotFoundError("no", name="somepackage"), UnsupportedError),
        (ValueError("a\nb"), FormatError),
    ],
)
def test_crashes_of_parsers_name_the_file(tmp_path: Path, raised: Exception, expected: Any) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")

    def parser(url: str, registry: Any) -> Any:
        raise raised

    with pytest.raises(expected, match=r"a\.bin") as caught:
        intarsia.open_dataset(path, parser=parser)
    assert "\n" not in str(caught.value)


def test_what_is_no_manifest_store(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    with pytest.raises(FormatError, match="which is no ManifestStore"):
        intarsia.open_dataset(path, parser=lambda url, registry: {})


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\x00" + bytes(60))
    monkeypatch.setitem(sys.modules, "virtual_tiff", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'intarsia\[formats\]'"):
        intarsia.open_dataset(path)


def test_grib_is_not_read(real_file: Any) -> None:
    with pytest.raises(UnsupportedError, match="GRIB is not read yet"):
        intarsia.open_dataset(real_file("grib/CMC_reg.grib2"))


def test_other_folders_are_directories(tmp_path: Path) -> None:
    with pytest.raises(IntarsiaError, match="this is a directory"):
        intarsia.open_dataset(tmp_path)
    with pytest.raises(UnsupportedError, match="which parsers misread"):
        (tmp_path / "a#b.tif").write_bytes(b"II*\x00" + bytes(60))
        intarsia.open_dataset(tmp_path / "a#b.tif")


def test_codecs_that_no_store_may_name(tmp_path: Path) -> None:
    from intarsia.codecs.cases import case_json, encoding_of
    from intarsia.codecs.zarr_chain import zarr_filter
    from intarsia.encoding import Encoding

    good = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip"}]
    encoding = Encoding((zarr_filter(good, (2, 3), "<f4"),), np.dtype("<f4"))
    case = case_json(encoding)
    assert encoding_of(case) == encoding
    for name in ("numcodecs.pickle", "numcodecs.json2", "vlen-utf8", "os.system", "intarsia.cf"):
        bad = [*good[:1], {"name": name}]
        with pytest.raises(ValueError, match="may not have"):
            case_json(Encoding((zarr_filter(bad, (2, 3), "<f4"),), np.dtype("<f4")))
        case["codecs"][-1]["configuration"]["codecs"] = json.dumps(
            bad, sort_keys=True, separators=(",", ":")
        )
        with pytest.raises(ValueError, match="may not have"):
            encoding_of(case)
    for text in ("", "{", "[]", '[{"name": "gzip"}]', "[1]", "[" * 9000, '[{"name":"gzip"}]' * 999):
        case["codecs"][-1]["configuration"]["codecs"] = text
        with pytest.raises(ValueError, match="chain of Zarr codecs|may not have"):
            encoding_of(case)


def test_bombs_are_held_to_their_chunk(tmp_path: Path) -> None:
    """What would decode to much more than its chunk is refused before it does."""
    import bz2
    import gzip
    import lzma
    import zlib

    from intarsia.codecs.zarr_chain import decode, zarr_filter

    made = {
        "numcodecs.zlib": zlib.compress(bytes(1 << 22)),
        "gzip": gzip.compress(bytes(1 << 22)),
        "numcodecs.bz2": bz2.compress(bytes(1 << 22)),
        "numcodecs.lzma": lzma.compress(bytes(1 << 22)),
    }
    for name, data in made.items():
        codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        codec = zarr_filter([*codecs, {"name": name, "configuration": {}}], (10,), "<f4")
        with pytest.raises(ChunkError, match="more than the expected 40 bytes"):
            decode(codec, data, np.dtype("<f4"))
        with pytest.raises(ChunkError):
            decode(codec, b"nonsense", np.dtype("<f4"))


def test_codecs_that_are_not_installed() -> None:
    from intarsia.codecs.zarr_chain import prepare, zarr_filter

    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "nobody.has"}]
    with pytest.raises(UnsupportedVariable, match=r"nobody\.has"):
        prepare(zarr_filter(codecs, (2,), "<f4"))


def test_trees_of_references(tmp_path: Path) -> None:
    """Names of groups stay in attributes and inlined bytes, where VirtualiZarr takes them out."""
    array = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|S4", "order": "C"}
    array |= {"fill_value": None, "filters": None, "compressor": None}
    group = json.dumps({"zarr_format": 2})
    attrs = {"_ARRAY_DIMENSIONS": ["in/x"], "path": "/data/in/a"}
    refs = {
        ".zgroup": group,
        ".zattrs": json.dumps({"title": "all"}),
        "top/.zarray": json.dumps(array),
        "top/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["n"]}),
        "top/0": "a/b\0in/cd\0\0\0",
        "in/.zgroup": group,
        "in/v/.zarray": json.dumps(array),
        "in/v/.zattrs": json.dumps(attrs),
        "in/v/0": "a/b\0in/cd\0\0\0",
        "in/er/.zgroup": group,
        "in/er/.zattrs": json.dumps({"k": 1}),
    }
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    tree = intarsia.open_datatree(path)
    assert [node.path for node in tree.subtree] == ["/", "/in", "/in/er"]
    assert tree.attrs == {"title": "all"}
    assert tree["in/er"].attrs == {"k": 1}
    assert tree["in"].v.dims == ("x",)
    assert tree["in"].v.attrs == {"path": "/data/in/a"}
    assert tree["in"].v.values.tolist() == tree.top.values.tolist() == [b"a/b", b"in/c", b"d"]
    inner = intarsia.open_dataset(path, group="/in/")
    assert inner.v.values.tolist() == [b"a/b", b"in/c", b"d"]
    for text in ("{}", '{"a": 1}', "{", '{"refs": {}}', '{"refs": {".zgroup": "x"}, "gen": []}'):
        path.write_text(text)
        with pytest.raises(FormatError, match=r"refs\.json"):
            intarsia.open_dataset(path)


def test_envi(tmp_path: Path) -> None:
    from virtualizarr.parsers import ENVIParser

    values = np.arange(24, dtype="<i2").reshape(2, 3, 4)
    (tmp_path / "a.img").write_bytes(values.tobytes())
    lines = [
        "samples = 4",
        "lines = 3",
        "bands = 2",
        "header offset = 0",
        "file type = ENVI Standard",
    ]
    lines += ["data type = 2", "interleave = bsq", "byte order = 0", "data ignore value = 5"]
    (tmp_path / "a.hdr").write_text("\n".join(["ENVI", *lines, ""]))
    ds = intarsia.open_dataset(tmp_path / "a.img", parser=ENVIParser(), mask_and_scale=False)
    (name,) = ds.data_vars
    assert ds[name].values.tolist() == values.tolist()
    masked = intarsia.open_dataset(tmp_path / "a.img", parser=ENVIParser())
    assert int(masked[name].isnull().sum()) == 1
    with pytest.raises(UnsupportedError, match="header of an ENVI image"):
        intarsia.open_dataset(tmp_path / "a.hdr")


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("compress", ["lerc", "lerc_deflate"])
def test_lerc_is_refused(tmp_path: Path, compress: str) -> None:
    """Its decoder drops the mask: missing values would come out as 0."""
    path = tmp_path / "a.tif"
    values = np.ones((37, 50), "f4")
    values[3, :9] = np.nan
    with rasterio.open(
        path, "w", driver="GTiff", height=37, width=50, count=1, dtype="float32", compress=compress
    ) as file:
        file.write(values, 1)
    ds = intarsia.open_dataset(path)
    with pytest.raises(UnsupportedVariable, match="LERC"):
        ds.load()
