"""The tables of operations again, on reopened stores: nothing is read before values are needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import intarsia
from tests.xarray import test_surface_combine
from tests.xarray.stores import opened, plain_series, write_files
from tests.xarray.surface import Datasets, Pair, check, pair, series, table
from tests.xarray.test_surface_files import LOADS, STAYS


def reopened(ds: xr.Dataset, path: Path) -> xr.Dataset:
    """The dataset saved and opened again, without encodings, which tables don't look at."""
    ds.intarsia.save(path)
    return intarsia.open_dataset(path).drop_encoding()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Unlike files, combined, saved and opened again."""
    folder = tmp_path_factory.mktemp("stores")
    paths = write_files(folder / "files")
    return Pair([reopened(opened(paths), folder / "a.intarsia")], [plain_series(paths)])


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Each piece saved and opened again."""
    folder = tmp_path_factory.mktemp("pieces")
    made = pair(folder, series())
    stores = [reopened(ds, folder / f"{n}.intarsia") for n, ds in enumerate(made.virtual)]
    return Pair(stores, made.plain)


@pytest.fixture(autouse=True)
def _numpy_alone() -> Iterator[None]:
    with xr.set_options(use_bottleneck=False, use_numbagg=False):
        yield


@table(STAYS)
def test_stays_virtual(whole: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    check(whole, lambda D: run(D[0]), reads=False)


@table(test_surface_combine.STAYS)
def test_combines(pieces: Pair, run: Callable[[Datasets], Any]) -> None:
    check(pieces, run, reads=False)


@table(dict(list(LOADS.items())[::4]))  # they load, and then it is the same as with files
def test_computes(whole: Pair, run: Callable[[xr.Dataset], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(whole, lambda D: run(D[0]), reads=True)
