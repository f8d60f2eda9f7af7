"""Reopening: stores are found, hold what was saved, combine, and are asked for nothing else."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from xarray.backends.plugins import guess_engine
from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder

import intarsia
from intarsia.errors import CorruptStore, NotAStore, StoreError, UnsupportedError
from intarsia.io.fetch import observe
from intarsia.store.read import Stored
from intarsia.xarray.choices import choices_json
from intarsia.xarray.recognising import looks_like_store
from tests.compare import assert_identical
from tests.xarray.stores import (
    ALONG,
    is_virtual,
    of_every_kind,
    opened,
    plain_series,
    same,
    write_files,
)
from tests.xarray.test_surface_files import EXPLICIT

VIRTUAL = ("v", "f", "d", "land", "area", "step")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files, a store of all of them, one of each, and the first as a zip file."""
    home = tmp_path_factory.mktemp("reopening")
    paths = write_files(home / "sst")
    opened(paths).intarsia.save(home / "all.intarsia")
    opened(paths).intarsia.save(home / "all.zip")
    for path in paths:
        intarsia.open_dataset(path).intarsia.save(home / f"{path.stem}.intarsia")
    return home


@pytest.fixture(scope="module")
def paths(home: Path) -> list[Path]:
    return sorted((home / "sst").glob("*.nc"))


@pytest.fixture(scope="module")
def plain(paths: list[Path]) -> xr.Dataset:
    return plain_series(paths)


# -- finding stores --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["all.intarsia", "all.zip"])
def test_found_by_name_or_content(home: Path, plain: xr.Dataset, tmp_path: Path, name: str) -> None:
    """Also without a suffix, with another, with a slash behind, and as str or path."""
    (tmp_path / "home").symlink_to(home)
    bare = home / f"bare {name}".replace(".", " ")
    copy = shutil.copytree if (home / name).is_dir() else shutil.copy
    copy(home / name, bare)
    (tmp_path / "link").symlink_to(home / name)
    for path in (home / name, str(home / name), bare, tmp_path / "home" / name, tmp_path / "link"):
        assert looks_like_store(path)
        assert guess_engine(path) == "intarsia"
        same(intarsia.open_dataset(path), plain)
        same(xr.open_dataset(path), plain)
    if (home / name).is_dir():
        same(xr.open_dataset(f"{home / name}/"), plain)


def test_what_is_no_store(home: Path, paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "text").write_text("hello")
    for path in (paths[0], tmp_path / "a.zarr", tmp_path / "a.zip", tmp_path / "text", home / "no"):
        assert not looks_like_store(path)
    assert guess_engine(paths[0]) != "intarsia"
    (tmp_path / "a.intarsia").mkdir()
    for path in (tmp_path / "a.intarsia", home / "no.intarsia"):
        with pytest.raises(NotAStore):
            intarsia.open_dataset(path)
        with pytest.raises(NotAStore):
            xr.open_dataset(path)
    with pytest.raises(ValueError, match="a.nc is a file|0.nc is a file"):
        intarsia.open_dataset(paths[0], containers={"sst": "x"})


def test_guessing_loads_nothing_heavy(home: Path, paths: list[Path]) -> None:
    script = """
        import sys
        import xarray.backends
        from intarsia.xarray.backend import IntarsiaBackend
        before = set(sys.modules)
        backend = IntarsiaBackend()
        print([backend.guess_can_open(path) for path in sys.argv[1:]])
        print(sorted(name for name in set(sys.modules) - before if "." not in name))
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), home / "all.intarsia", paths[0]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[0] == "[True, False]"
    heavy = {"h5py", "numcodecs", "zarr", "dask", "h5netcdf", "cftime", "isal"}
    assert not heavy.intersection(eval(told[1]))


# -- what is in them -------------------------------------------------------------------------------


def test_nothing_but_the_root_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stored, "segments", None)
    ds = intarsia.open_dataset(home / "all.intarsia")
    assert ds.v.shape == (12, 3, 5)
    assert all(is_virtual(ds, name) for name in VIRTUAL)
    assert ds.time.dt.month.values[0] == 1
    xr.open_dataset(home / "all.intarsia")
    intarsia.open_datatree(home / "all.intarsia")


def test_arguments(home: Path, plain: xr.Dataset) -> None:
    path = home / "all.intarsia"
    same(intarsia.open_dataset(path, drop_variables="v"), plain.drop_vars("v"))
    same(
        intarsia.open_dataset(path, drop_variables=["time", "d"]),
        plain.drop_vars(["time", "d"]),
    )
    ds = intarsia.open_dataset(path, loadable_variables=["v", "time", "nowhere"])
    assert type(ds.v.variable._data) is np.ndarray
    assert is_virtual(ds, "f")
    same(ds, plain)
    ds = intarsia.open_dataset(path, create_default_indexes=False)
    assert not ds.xindexes
    assert set(ds.coords) == set(plain.coords)
    same(xr.open_dataset(path, drop_variables=["f"]), plain.drop_vars("f"))


def test_sources_elsewhere(home: Path, plain: xr.Dataset, tmp_path: Path) -> None:
    """Files that moved are found by the name of their container; so they are in combinations."""
    shutil.copytree(home / "sst", tmp_path / "moved", copy_function=shutil.copy2)
    shutil.copytree(home / "all.intarsia", tmp_path / "all.intarsia")
    lost = intarsia.open_dataset(tmp_path / "all.intarsia")
    with pytest.raises(FileNotFoundError):
        lost.v.load()
    places = {"sst": str(tmp_path / "moved")}
    found = intarsia.open_dataset(tmp_path / "all.intarsia", containers=places)
    assert "moved" in repr(found.v.data)
    same(found, plain)
    same(xr.open_dataset(tmp_path / "all.intarsia", containers=places), plain)
    tree = intarsia.open_datatree(tmp_path / "all.intarsia", containers=places)
    same(tree.to_dataset(), plain)
    with pytest.raises(StoreError, match="nowhere"):
        intarsia.open_dataset(tmp_path / "all.intarsia", containers={"nowhere": "/tmp"})


def test_reports_survive(paths: list[Path], home: Path) -> None:
    before = opened(paths)
    after = intarsia.open_dataset(home / "all.intarsia")
    assert str(after.intarsia.report()) == str(before.intarsia.report())
    assert after.intarsia.explain().requests == before.intarsia.explain().requests
    assert repr(after.intarsia) == repr(before.intarsia)
    again = xr.open_dataset(home / "all.intarsia")
    assert str(again.intarsia.report()) == str(before.intarsia.report())
    assert is_virtual(again.intarsia.virtual(), "v")


def test_crosses_processes(home: Path, plain: xr.Dataset) -> None:
    ds = intarsia.open_dataset(home / "all.intarsia")
    data = pickle.dumps(ds)
    assert len(data) < 20_000
    same(pickle.loads(data), plain)
    same(pickle.loads(pickle.dumps(pickle.loads(data).isel(time=[3, 1]))), plain.isel(time=[3, 1]))


# -- decoding --------------------------------------------------------------------------------------


SECONDS, NANO = CFDatetimeCoder(time_unit="s"), CFDatetimeCoder(time_unit="ns")
OTHERWISE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"decode_times": False}, r"decode_times=False .* with decode_times=True"),
    ({}, {"decode_cf": False}, r"decode_cf=False \(and so mask_and_scale=False\)"),
    ({}, {"mask_and_scale": False}, "mask_and_scale=False"),
    ({}, {"mask_and_scale": {"v": False}}, r"mask_and_scale={'v': False} .*=True"),
    ({}, {"decode_coords": "all"}, "decode_coords='all'"),
    ({}, {"concat_characters": False}, "concat_characters=False"),
    ({}, {"use_cftime": True}, "use_cftime=True .* use_cftime=None"),
    ({}, {"decode_times": SECONDS}, r"CFDatetimeCoder\(use_cftime=None, time_unit='s'\) .*=True"),
    ({}, {"decode_timedelta": True}, "decode_timedelta=True .*=None"),
    ({}, {"phony_dims": "sort"}, "phony_dims='sort' .*='access'"),
    ({"decode_times": SECONDS}, {"decode_times": True}, "decode_times=True .*time_unit='s'"),
    ({"decode_times": False}, {"decode_times": True}, "decode_times=True .*=False"),
    ({"decode_cf": False}, {"decode_cf": None, "mask_and_scale": True}, "mask_and_scale=True"),
    ({"mask_and_scale": {"v": False}}, {"mask_and_scale": {"f": False}}, "'v': False"),
]


@pytest.mark.parametrize(("chosen", "asked", "message"), OTHERWISE)
def test_other_decoding_is_refused(
    paths: list[Path], tmp_path: Path, chosen: Any, asked: Any, message: str
) -> None:
    intarsia.open_dataset(paths[0], **chosen).intarsia.save(tmp_path / "a.intarsia")
    with pytest.raises(UnsupportedError, match=message) as error:
        intarsia.open_dataset(tmp_path / "a.intarsia", **asked)
    assert str(tmp_path / "a.intarsia") in str(error.value)
    assert "open the files again" in str(error.value)
    with pytest.raises(UnsupportedError, match=message):
        intarsia.open_datatree(tmp_path / "a.intarsia", **asked)


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"decode_times": True, "mask_and_scale": True, "decode_coords": True}),
    ({}, {"decode_cf": True, "decode_times": NANO, "concat_characters": True}),
    ({}, {"phony_dims": "access", "unsupported": "skip"}),
    ({"decode_times": NANO}, {"decode_times": True}),
    ({"decode_times": SECONDS}, {"decode_times": CFDatetimeCoder(time_unit="s")}),
    ({"decode_times": SECONDS}, {}),
    ({"decode_cf": False}, {"decode_cf": False}),
    ({"decode_cf": False}, {"mask_and_scale": False}),
    ({"mask_and_scale": {"v": False}}, {"mask_and_scale": {"v": False}}),
    ({"decode_timedelta": False}, {"decode_timedelta": False}),
]


@pytest.mark.parametrize(("chosen", "asked"), SAME)
def test_the_same_decoding_is_fine(
    paths: list[Path], tmp_path: Path, chosen: Any, asked: Any
) -> None:
    ds = intarsia.open_dataset(paths[0], **chosen)
    ds.intarsia.save(tmp_path / "a.intarsia")
    same(intarsia.open_dataset(tmp_path / "a.intarsia", **asked), ds)
    same(intarsia.open_dataset(tmp_path / "a.intarsia"), ds)
    xr.open_dataset(tmp_path / "a.intarsia", **asked)


def test_sources_of_two_decodings(paths: list[Path], tmp_path: Path) -> None:
    """What is asked for has to fit all of them, also after saving once more."""
    parts = [intarsia.open_dataset(paths[0], mask_and_scale=False), intarsia.open_dataset(paths[1])]
    both = xr.concat([part[["f"]] for part in parts], "time", **EXPLICIT)
    both.intarsia.save(tmp_path / "a.intarsia")
    intarsia.open_dataset(tmp_path / "a.intarsia").intarsia.save(tmp_path / "b.intarsia")
    intarsia.open_dataset(tmp_path / "b.intarsia").load().intarsia.save(tmp_path / "c.intarsia")
    combined = intarsia.open_mfdataset([tmp_path / "b.intarsia"], **ALONG)
    combined.load().intarsia.save(tmp_path / "d.intarsia")
    for name in "abcd":
        same(intarsia.open_dataset(tmp_path / f"{name}.intarsia", decode_times=True), both)
        for value in (True, False):
            with pytest.raises(UnsupportedError, match=f"mask_and_scale={value}"):
                intarsia.open_dataset(tmp_path / f"{name}.intarsia", mask_and_scale=value)


def test_choices_are_written_in_one_way() -> None:
    from intarsia.cf import Options

    def written(**decoders: Any) -> str:
        return choices_json(Options.parse(**decoders), group=None, phony_dims=None)

    assert written() == written(decode_times=NANO, mask_and_scale=True) == ""
    assert written(decode_times=SECONDS) == written(decode_times=CFDatetimeCoder(time_unit="s"))
    assert written(decode_timedelta=CFTimedeltaCoder(time_unit="s")) != written()
    one, two = {"a": False, "b": True}, {"b": True, "a": False}
    assert written(mask_and_scale=one) == written(mask_and_scale=two)
    assert choices_json(Options(), group="/a//b/", phony_dims="sort") == (
        '{"group":"a/b","phony_dims":"sort"}'
    )
    assert choices_json(Options(), group="/", phony_dims="access") == ""


def test_damaged_notes_are_named(tmp_path: Path) -> None:
    from intarsia.store.nodes import Group, Variable
    from intarsia.store.write import write

    x = Variable(("x",), np.arange(3), coordinate=True)
    wrong: list[dict[str, Any]] = [
        {"intarsia_choices": ("{",)},
        {"intarsia_choices": ("[1]",)},
        {"intarsia_choices": "text"},
        {"intarsia_notes": (1,)},
        {"unlimited_dims": 3},
        {"intarsia_indexes": {"x": 1}},
        {"intarsia_indexes": ["y"]},
    ]
    y = Variable(("x", "z"), np.zeros((3, 2)), coordinate=True)
    for number, encoding in enumerate(wrong):
        path = tmp_path / f"{number}.intarsia"
        write(path, {"/": Group({"x": x, "y": y}, {}, encoding)})
        with pytest.raises(CorruptStore):
            intarsia.open_dataset(path, decode_times=True)


# -- combining -------------------------------------------------------------------------------------


def test_stores_combine_as_their_files_do(home: Path, paths: list[Path], plain: xr.Dataset) -> None:
    stores = sorted(home.glob("[0-9].intarsia"))
    with observe() as reads:
        whole = xr.concat([intarsia.open_dataset(path) for path in stores], "time", **EXPLICIT)
    assert reads.requests == 0
    assert is_virtual(whole, "v")
    same(whole, plain)
    from_files = opened(paths)
    for several in (stores, str(home / "[0-9].intarsia"), [stores[0], paths[1], stores[2]]):
        combined = intarsia.open_mfdataset(several, **ALONG)
        same(combined, plain)
        assert combined.encoding.keys() == from_files.encoding.keys()
        assert combined.encoding["unlimited_dims"] == {"time"}
        assert combined.time.encoding == from_files.time.encoding
        for name in VIRTUAL:
            assert is_virtual(combined, name)
    same(intarsia.open_mfdataset(stores, **EXPLICIT), plain)  # by coordinates
    same(intarsia.open_mfdataset([home / "all.intarsia"]), plain)
    assert intarsia.check(stores, "time", **EXPLICIT).ok
    by_dask = xr.open_mfdataset(stores, **ALONG)
    assert by_dask.v.chunks
    same(by_dask, plain)
    part = intarsia.open_dataset(home / "all.intarsia").isel(time=slice(4, None))
    both = xr.concat([intarsia.open_dataset(paths[0]), part], "time", **EXPLICIT)
    same(both, plain)


def test_combined_stores_are_saved_again(home: Path, plain: xr.Dataset, tmp_path: Path) -> None:
    """One table of sources and cases; nothing refers to the stores that were combined."""
    combined = intarsia.open_mfdataset(str(home / "[0-9].intarsia"), **ALONG)
    summary = combined.intarsia.save(tmp_path / "a.intarsia")
    first = opened(sorted((home / "sst").glob("*.nc"))).intarsia.save(tmp_path / "b.intarsia")
    assert (summary.sources, summary.cases) == (first.sources, first.cases)
    same(intarsia.open_dataset(tmp_path / "a.intarsia"), plain)


def test_conflicts_are_found_between_stores(home: Path, tmp_path: Path) -> None:
    other = intarsia.open_dataset(home / "1.intarsia")
    other.v.attrs["units"] = "degC"
    other.intarsia.save(tmp_path / "other.intarsia")
    with pytest.raises(intarsia.errors.CombineConflict, match="units") as error:
        intarsia.open_mfdataset([home / "0.intarsia", tmp_path / "other.intarsia"], **ALONG)
    assert "other.intarsia" in str(error.value)


def test_opened_by_processes(home: Path, plain: xr.Dataset) -> None:
    with ProcessPoolExecutor(1) as pool:
        combined = intarsia.open_mfdataset(str(home / "[0-9].intarsia"), executor=pool, **ALONG)
    same(combined, plain)


# -- dask ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of months of unlike lengths, with chunks of a week."""
    folder = tmp_path_factory.mktemp("large")
    for number, days in enumerate((31, 28, 31)):
        with h5py.File(folder / f"{number}.nc", "w") as file:
            values = np.arange(days * 300 * 400, dtype="f4").reshape(days, 300, 400)
            file.create_dataset("v", data=values + number, chunks=(7, 300, 200))
    parts = [intarsia.open_dataset(folder / f"{n}.nc", phony_dims="sort") for n in range(3)]
    renamed = [part.rename(dict(zip(part.v.dims, "tyx", strict=True))) for part in parts]
    xr.concat(renamed, "t", **EXPLICIT).intarsia.save(folder / "a.intarsia")
    return folder / "a.intarsia"


@pytest.fixture(autouse=True)
def _synchronous() -> Iterator[None]:
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


def test_dask_chunks_follow_the_sources(large: Path) -> None:
    ds = intarsia.open_dataset(large)
    blocks = ds.v.data.blocks
    cuts = np.cumsum(blocks[0])[:-1].tolist()
    assert 1 < len(cuts) < 10
    whole = [*range(7, 31, 7), 31, *range(38, 59, 7), 59, *range(66, 90, 7)]
    assert set(cuts) <= set(whole)  # where chunks end
    for chunked in (
        intarsia.open_dataset(large, chunks={}),
        xr.open_dataset(large, chunks={}),
        xr.open_datatree(large, chunks={}).to_dataset(),
    ):
        assert chunked.v.chunks == blocks
        part = chunked.isel(t=slice(30, 60, 7), y=3)
        assert_identical(part.compute(), ds.isel(t=slice(30, 60, 7), y=3).compute())
    assert xr.open_dataset(large, chunks={"t": 90}).v.chunks[0] == (90,)
    assert xr.open_dataset(large, chunks="auto").v.chunks
    assert intarsia.open_dataset(large, chunks={"y": -1, "t": 31}).v.chunks[0] == (31, 31, 28)
    with observe() as reads:
        xr.open_dataset(large, chunks={}).v.isel(t=0, y=0, x=0).compute()
    assert 0 < reads.nbytes <= 1.01 * blocks[0][0] * 300 * 400 * 4


def test_preferred_chunks_are_not_saved(large: Path, tmp_path: Path) -> None:
    ds = xr.open_dataset(large)
    preferred = ds.v.encoding["preferred_chunks"]
    assert dict(preferred) == dict(zip("tyx", ds.intarsia.virtual().v.data.blocks, strict=True))
    assert preferred.get("nowhere", 3) == 3
    assert repr(preferred).startswith("{'t'")
    part = ds.isel(t=slice(0, 2), y=[0], x=[1])
    part.intarsia.save(tmp_path / "a.intarsia")
    assert not intarsia.open_dataset(tmp_path / "a.intarsia").v.encoding
    part.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    pickle.loads(pickle.dumps(ds))


def test_every_kind_through_xarrays_own_functions(tmp_path: Path) -> None:
    ds = of_every_kind()
    intarsia.open_dataset  # noqa: B018 - registers the accessor
    ds.intarsia.save(tmp_path / "a.intarsia")
    again = xr.open_dataset(tmp_path / "a.intarsia")
    same(again, ds)
    same(xr.open_dataset(tmp_path / "a.intarsia", chunks={}), ds)


def test_a_zip_file_that_is_cut_short_is_still_a_store(tmp_path: Path) -> None:
    """And not taken for zipped Zarr, which has parsers of others."""
    path = tmp_path / "a.zip"
    intarsia.open_dataset  # noqa: B018  registers ds.intarsia
    xr.Dataset({"v": ("x", np.arange(3))}).intarsia.save(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(NotAStore, match="zip file is damaged"):
        intarsia.open_dataset(path)
