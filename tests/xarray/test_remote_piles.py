"""Piles in the network: patterns of URLs, opened here and in other processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import NotHDF5, SourceMissing
from intarsia.xarray.batches import observe
from intarsia.xarray.interning import interned
from intarsia.xarray.processes import Workers
from tests.compare import assert_identical
from tests.io.http_server import serving
from tests.io.s3_server import S3Server, serving_s3
from tests.xarray.many import many_files

NESTED: dict[str, Any] = {"combine": "nested", "concat_dim": "time"}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with serving_s3() as server:
        yield server


@pytest.fixture
def files(server: S3Server, tmp_path: Path) -> list[str]:
    paths = many_files(tmp_path, 7, fields=2)
    for path in paths:
        server.put(f"bucket/piles/{Path(path).name}", Path(path).read_bytes())
    server.put("bucket/piles/notes.txt", b"not one of them")
    return paths


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_a_pattern_matches_is_opened(
    server: S3Server, files: list[str], elsewhere: bool
) -> None:
    with Workers(1) as workers:  # which starts when it is used
        executor = workers if elsewhere else None
        check_patterns(files, storage_options=server.options, executor=executor, **NESTED)


def check_patterns(files: list[str], **told: Any) -> None:
    expected = xr.concat([xr.load_dataset(path, engine="h5netcdf") for path in files], "time")
    with observe() as sent:
        ds = intarsia.open_mfdataset("s3://bucket/piles/*.nc", **told)
    sources = ds.field1.variable._data.segments.sources
    assert [sources.url(n) for n in range(7)] == [f"s3://bucket/piles/{n:05d}.nc" for n in range(7)]
    assert sent.files == (7 if told["executor"] else 0)
    assert len({id(access) for access in sources.accesses}) == 1
    assert_identical(ds.load(), expected)
    with pytest.raises(NotHDF5, match=r"piles/notes\.txt"):
        intarsia.open_mfdataset("s3://bucket/piles/[0-3n]*", **told)
    some = intarsia.open_mfdataset("s3://bucket/piles/0000[12].nc", **told)
    assert some.sizes["time"] == 10
    with pytest.raises(SourceMissing, match="no files match"):
        intarsia.open_mfdataset("s3://bucket/piles/*.grib", **told)


def test_static_variables_are_compared_many_at_a_time(tmp_path: Path) -> None:
    options: dict[str, Any] = {"data_vars": "minimal", "coords": "different"}
    paths: list[Path] = []
    urls: list[str] = []
    with serving(latency=0.02) as server:
        for number in range(8):
            mask = np.arange(64 * 64.0).reshape(64, 64) + (number == 5)
            far = np.arange(1 << 17) + number  # more than comes with the head of the file
            data = {"far": (("time", "z"), far[None]), "mask": (("lat", "lon"), mask)}
            ds = xr.Dataset(data, {"time": [number]}).set_coords("mask")
            paths.append(tmp_path / f"{number}.nc")
            ds.to_netcdf(paths[-1], engine="h5netcdf")
            urls.append(server.put(paths[-1].name, paths[-1].read_bytes()))
        opened = [intarsia.open_dataset(url) for url in urls]
        server.latency, server.most = 0.05, 0  # so that they meet
        found = interned(opened, ["time"], compat="no_conflicts", **options)
        server.latency = 0.0
        assert server.most > 2
        first = found[0].mask.variable._data
        same = [ds.mask.variable._data is first for ds in found]
        assert same == [True] * 5 + [False] + [True] * 2
        told = {"coords": "different", "data_vars": "minimal", "compat": "no_conflicts"}
        ds = intarsia.open_mfdataset(urls, join="outer", **NESTED, **told).load()
    expected = xr.open_mfdataset(paths, engine="h5netcdf", join="outer", **NESTED, **told).load()
    assert_identical(ds, expected)
