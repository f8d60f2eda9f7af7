"""Whichever read fails, is short or of another object: an error of ours, or the right values.

Each test counts the reads of something that is done, then does it again and again, with the first
of them failing, the second, and so on. What HDF5 reads of local files by itself is not among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import intarsia
from intarsia.errors import IntarsiaError
from intarsia.io import remote, remote_whole
from intarsia.xarray.processes import Workers
from tests.io.faulty_reads import LOCAL, REMOTE, faults, local_faults, numbers
from tests.io.http_server import Server, serving

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Zarr format 3:UserWarning"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
]

FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"
BATCHED = "zarr.core.codec_pipeline.BatchedCodecPipeline"

type Print = dict[Any, Any]


def fingerprint(ds: xr.Dataset) -> Print:
    """All that a dataset is."""
    found: Print = {"attrs": repr(sorted(map(repr, ds.attrs.items())))}
    for name, variable in ds.variables.items():
        values = np.asarray(variable.values)
        bits = repr(values.tolist()) if values.dtype.kind == "O" else values.tobytes()
        attrs = sorted((key, repr(value)) for key, value in variable.attrs.items())
        found[name] = variable.dims, values.shape, str(values.dtype), bits, attrs
    return found


# -- files ---------------------------------------------------------------------------------------


def nc3(folder: Path) -> Path:
    path = folder / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("t", None)
        file.createDimension("x", 50)
        file.title = "records"
        for name, dims in (("t", ("t",)), ("v", ("t", "x")), ("w", ("x",))):
            variable = file.createVariable(name, "f4", dims, fill_value=-1)
            variable[:] = (
                1
                + np.arange(7 * 50, dtype="f4").reshape(7, 50)[
                    tuple(slice(None) if dim in dims else 0 for dim in ("t", "x"))
                ]
            )
    return path


def nc4(folder: Path) -> Path:
    path = folder / "b.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 40)
        for number in range(12):
            file.setncattr(f"a{number}", "text " * number)
        t = file.createVariable("t", "f8", ("t",))
        v = file.createVariable("v", "f4", ("t", "x"), zlib=True, chunksizes=(3, 10), fill_value=-9)
        s = file.createVariable("s", str, ("x",))
        t[:] = np.arange(20)
        v[:] = np.random.default_rng(0).normal(size=(20, 40))
        s[:] = np.array([f"text {n}" for n in range(40)], object)
    return path


def big(folder: Path) -> Path:
    """More than the head of it, so that blocks are fetched."""
    path = folder / "c.nc"
    values = np.random.default_rng(0).integers(0, 99, (12, 100, 150)).astype("i2")
    with netCDF4.Dataset(path, "w") as file:
        for name, size in zip("tyx", values.shape, strict=True):
            file.createDimension(name, size)
        for number in range(2):
            variable = file.createVariable(f"v{number}", "i2", ("t", "y", "x"), fill_value=-1)
            variable[:] = values + number
        strings = file.createVariable("s", str, ("t",))  # lie last, and are read with the library
        strings[:] = np.array([f"text {n}" * 50 for n in range(12)], object)
        file.createVariable("t", "f8", ("t",))[:] = np.arange(12)
    assert path.stat().st_size > 1 << 18
    return path


def virtual(folder: Path) -> Path:
    """Of two files: one dataset as references, one with the library, one that grows."""
    for number in range(2):
        with h5py.File(folder / f"p{number}.h5", "w") as file:
            file["d"] = np.arange(10, dtype="f4") + 100 * number + 1
            file["i"] = np.arange(10, dtype="i8") + 100 * number + 1
    path = folder / "whole.h5"
    with h5py.File(path, "w", libver="latest") as file:
        for name, dtype in (("d", "f4"), ("i", "i4")):
            layout = h5py.VirtualLayout((2, 10), dtype)
            for number in range(2):
                layout[number] = h5py.VirtualSource(f"p{number}.h5", name, (10,))
            file.create_virtual_dataset(name, layout, fillvalue=-1)
    return path


def tiff(folder: Path) -> Path:
    rasterio = pytest.importorskip("rasterio")
    pytest.importorskip("virtual_tiff")
    path = folder / "d.tif"
    values = np.random.default_rng(0).integers(1, 999, (128, 128)).astype("i2")
    profile: dict[str, Any] = {"driver": "GTiff", "height": 128, "width": 128, "count": 1}
    profile |= {"dtype": "int16", "tiled": True, "blockxsize": 64, "blockysize": 64}
    profile["transform"] = rasterio.transform.from_origin(0, 0, 10, 10)
    with rasterio.open(path, "w", compress="deflate", crs="EPSG:3857", **profile) as file:
        file.write(values, 1)
    return path


def zarr_of(folder: Path, version: int, together: bool = False, **options: Any) -> Path:
    path = folder / f"v{version}.zarr"
    root = zarr.open_group(path, mode="w", zarr_format=version)
    values = np.arange(64, dtype="f4").reshape(8, 8) + 1
    dims = {"dimension_names": ["y", "x"]} if version == 3 else {}
    array = root.create_array("v", shape=(8, 8), chunks=(2, 4), dtype="f4", fill_value=-1,
                              **dims, **options)  # fmt: skip
    array[...] = values
    array.attrs["units"] = "m"
    if version == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    root.attrs["title"] = "folder"
    if together:
        zarr.consolidate_metadata(path)
    return path


MAKERS: dict[str, Callable[[Path], Path]] = {
    "netCDF3": nc3,
    "netCDF4": nc4,
    "large": big,
    "virtual": virtual,
    "tiff": tiff,
    "shards": lambda folder: zarr_of(folder, 3, shards=(4, 8)),
    "zarr 2": lambda folder: zarr_of(folder, 2),
    "zarr 2 together": lambda folder: zarr_of(folder, 2, together=True),
    "zarr 3 together": lambda folder: zarr_of(folder, 3, together=True),
}
FILES = ("netCDF3", "netCDF4", "large", "tiff")
"""Those that a web server may have."""


# -- what is done --------------------------------------------------------------------------------

type Do = Callable[[], Print]


def opened(place: str) -> xr.Dataset:
    return intarsia.open_dataset(place, unsupported="copy")


def whole(place: str, _: Path) -> Do:
    return lambda: fingerprint(opened(place))


def load(place: str, _: Path) -> Do:
    ds = opened(place)
    return lambda: fingerprint(ds.copy().load())


def dask(place: str, _: Path) -> Do:
    ds = opened(place).chunk()
    return lambda: fingerprint(ds.compute())


def saved(place: str, folder: Path) -> str:
    path = str(folder / "saved.intarsia")
    if not Path(path).exists():
        opened(place).intarsia.save(path)
    return path


def trusted(place: str) -> dict[str, Any]:
    """Where the sources of a store are, said again: it may not lead to a server of this machine."""
    url = urlsplit(place)
    if not url.netloc:
        return {}
    return {"containers": {url.netloc.replace(":", "_"): f"{url.scheme}://{url.netloc}/"}}


def reopened(place: str, folder: Path) -> Do:
    path, told = saved(place, folder), trusted(place)
    return lambda: fingerprint(intarsia.open_dataset(path, **told).load())


def as_zarr(pipeline: str, place: str, folder: Path) -> Do:
    """Through zarr-python, which takes what a store has not for what was never written."""
    path, told = saved(place, folder), trusted(place)

    def read() -> Print:
        store = intarsia.open_store(path, **told)
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            group = zarr.open_group(store, mode="r")
            found = {name: array[...] for name, array in group.arrays()}
        return {name: (array.shape, repr(array.tolist())) for name, array in found.items()}

    return read


def xarray_zarr(place: str, folder: Path) -> Do:
    path, told = saved(place, folder), trusted(place)

    def read() -> Print:
        store: Any = intarsia.open_store(path, **told)
        return fingerprint(xr.open_dataset(store, engine="zarr").load())

    return read


def verified(place: str, folder: Path) -> Do:
    """What is verified is equal, or verifying says that it was not compared."""
    path = saved(place, folder)

    def verify() -> Print:
        found = intarsia.verify(path, **trusted(place))
        if not found.ok:
            raise IntarsiaError("it says so")
        return {"ok": True}

    return verify


WAYS: dict[str, Callable[[str, Path], Do]] = {
    "whole": whole,
    "load": load,
    "dask": dask,
    "store": reopened,
    "zarr": lambda place, folder: as_zarr(BATCHED, place, folder),
    "zarr, fused": lambda place, folder: as_zarr(FUSED, place, folder),
    "xarray's zarr": xarray_zarr,
    "verify": verified,
}


AGAIN = ("store", "zarr", "zarr, fused", "xarray's zarr", "verify")
"""Those that begin with a saved store."""


def every(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Kinds of files and ways, but to verify what has no second reader."""
    alone = ("tiff", "virtual")
    return [(kind, way) for kind in kinds for way in WAYS if way != "verify" or kind not in alone]


def is_ours(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_ours, error.exceptions))
    return isinstance(error, IntarsiaError)


def outcome(do: Do, right: Print) -> str:
    try:
        found = do()
    except (Exception, BaseExceptionGroup) as error:
        if not is_ours(error):
            raise
        return "error"
    assert found == right
    return "right"


@contextmanager
def forgetful() -> Generator[None]:
    """Nothing that was read before counts."""
    remote_whole.forget()
    remote._samples.clear()
    yield


def sweep_local(
    do: Do, folder: Path, patch: pytest.MonkeyPatch, ways: tuple[str, ...], most: int | None
) -> Counter[str]:
    right = do()
    with local_faults(folder, patch, None) as reads:
        assert do() == right
    assert reads
    seen: Counter[str] = Counter()
    for way in ways:
        for number in numbers(len(reads), most):
            with local_faults(folder, patch, number, way) as done:
                seen[outcome(do, right)] += len(done) > number
    return seen


def sweep_remote(do: Do, server: Server, ways: tuple[str, ...], most: int | None) -> Counter[str]:
    right = do()
    with forgetful(), faults(server, None) as reads:
        assert do() == right
    seen: Counter[str] = Counter()
    for way in ways:
        for number in numbers(len(reads.seen), most):
            with forgetful(), faults(server, number, way) as fault:
                found = outcome(do, right)
            assert found == "right" or len(fault.seen) > number
            seen[found] += 1
            if way.endswith("once"):
                assert found == "right", (way, number)
    return seen


# -- local files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["whole", "load", "zarr, fused"])
@pytest.mark.parametrize("kind", ["netCDF3", "netCDF4", "shards", "zarr 2", "zarr 3 together"])
def test_local(kind: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of").mkdir()
    do = WAYS[way](str(MAKERS[kind](tmp_path / "of")), tmp_path)
    seen = sweep_local(do, tmp_path / "of", monkeypatch, LOCAL, 6)
    assert seen["error"]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "way"), every(MAKERS))
def test_local_all(kind: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of").mkdir()
    do = WAYS[way](str(MAKERS[kind](tmp_path / "of")), tmp_path)
    sweep_local(do, tmp_path / "of", monkeypatch, LOCAL, None)


@pytest.mark.slow
@pytest.mark.parametrize("way", AGAIN)
def test_the_store_itself(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(nc4(tmp_path))
    do = WAYS[way](place, tmp_path)
    sweep_local(do, tmp_path / "saved.intarsia", monkeypatch, LOCAL, None)


# -- behind a server -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def web() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def put(web: Server, tmp_path: Path, impatient: None) -> Callable[[str], str]:
    """Files on a server, whose clients give up soon."""

    def make(kind: str) -> str:
        path = MAKERS[kind](tmp_path)
        return web.put(path.name, path.read_bytes())

    return make


@pytest.mark.parametrize("way", ["whole", "load", "zarr"])
@pytest.mark.parametrize("kind", FILES)
def test_remote(
    kind: str, way: str, web: Server, put: Callable[[str], str], tmp_path: Path
) -> None:
    do = WAYS[way](put(kind), tmp_path)
    seen = sweep_remote(do, web, ("404", "short", "other", "500 once"), 3)
    assert seen["error"]
    assert seen["right"]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "way"), every(FILES))
def test_remote_all(
    kind: str, way: str, web: Server, put: Callable[[str], str], tmp_path: Path
) -> None:
    do = WAYS[way](put(kind), tmp_path)
    seen = sweep_remote(do, web, REMOTE, None)
    assert seen["error"]


def test_remote_in_processes(web: Server, put: Callable[[str], str]) -> None:
    """Scans in other processes, whose requests fail, and whose clients wait longer."""
    url = put("netCDF3")
    right = fingerprint(opened(url))
    executor: Executor
    with Workers(2) as executor:

        def do() -> Print:
            ds = intarsia.open_mfdataset([url], executor=executor, combine="nested")
            return fingerprint(ds.load())

        assert do() == right
        for way in ("404", "short", "other"):
            for number in range(2):
                with faults(web, number, way):
                    assert outcome(do, right) == "error"
