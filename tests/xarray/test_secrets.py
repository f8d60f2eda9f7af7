"""What lets one in at a server, in URLs and options, is neither shown nor saved."""

from __future__ import annotations

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
from tests.io.http_server import Server, serving

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
