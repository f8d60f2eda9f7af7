"""What is asked of speed, without a clock: requests, bytes, calls and objects."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
import xarray as xr

import intarsia
from bench import combine, inputs
from intarsia.array import VirtualArray
from intarsia.combine import Summarizer
from intarsia.engine import decode
from intarsia.engine.plan import FREE_GAP
from intarsia.io.fetch import observe
from intarsia.segments import Segments

CHUNKS = 600


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return inputs.cube(tmp_path_factory.mktemp("tiny") / "tiny.nc", CHUNKS, inputs.TINY)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return inputs.small_files(tmp_path_factory.mktemp("series") / "small", 4)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("one") / "one.nc"
    return inputs.small_file(path, 0, combine.SIZE, np.random.default_rng(0))


@contextmanager
def counted() -> Generator[list[int]]:
    """Lengths of the chunks that are decoded."""
    decoded: list[int] = []
    make = decode.chain

    def counting(*args: Any) -> Any:
        links = make(*args)

        def counts(chunk: Any) -> Any:
            decoded.append(len(chunk))
            return links.undo(chunk)

        return links._replace(undo=counts)

    with mock.patch.object(decode, "chain", counting):
        yield decoded


def stored_bytes(dataset: xr.Dataset, name: str) -> int:
    (page,) = dataset[name].variable._data.segments.pages
    return int(page.lengths.sum())


def test_neighbouring_chunks_are_read_with_few_requests_and_decoded_once(tiny: str) -> None:
    dataset = intarsia.open_dataset(tiny)
    with observe() as reads, counted() as decoded:
        dataset.v.compute()
    # HDF5 puts a node of its index after every 60 or so of them, which is read with them
    assert reads.requests == 1
    assert reads.nbytes <= stored_bytes(dataset, "v") + CHUNKS / 50 * FREE_GAP
    assert len(decoded) == CHUNKS


def test_every_chunk_is_decoded_once_however_often_it_is_wanted(tiny: str) -> None:
    dataset = intarsia.open_dataset(tiny)
    twice = xr.concat([dataset.v[:50], dataset.v[49::-1]], "time")
    with counted() as decoded:
        twice.compute()
    assert len(decoded) == 50


def test_one_value_costs_one_chunk(series: list[str]) -> None:
    dataset = intarsia.open_mfdataset(series, concat_dim="time", combine="nested")
    with observe() as reads:
        dataset.field3.isel(time=7, lat=3, lon=4).compute()
    assert reads.requests == 1
    assert reads.nbytes in dataset.field3.variable._data.segments.pages[1].lengths


def test_a_series_costs_one_request_per_file(series: list[str]) -> None:
    dataset = intarsia.open_mfdataset(series, concat_dim="time", combine="nested")
    with observe() as reads:
        dataset.field3.isel(lat=3, lon=4).compute()
    assert reads.requests == len(series)
    assert {url for url, _, _ in reads.ranges} == set(series)


@pytest.mark.parametrize("count", [20, 60])
def test_combining_makes_and_joins_per_variable_not_per_dataset(one: str, count: int) -> None:
    datasets = combine.virtual_datasets(one, count)
    calls: dict[str, int] = {"made": 0, "joined": 0}
    make, join = Summarizer.variable, Segments.concatenate

    def made(*args: Any, **kwargs: Any) -> Any:
        calls["made"] += 1
        return make(*args, **kwargs)

    def joined(*args: Any, **kwargs: Any) -> Any:
        calls["joined"] += 1
        return join(*args, **kwargs)

    with (
        mock.patch.object(Summarizer, "variable", made),
        mock.patch.object(Segments, "concatenate", joined),
        observe() as reads,
    ):
        combined = combine.by_intarsia(datasets)
    assert reads.requests == 0
    # per variable and per set of parameters, of which there are seven
    assert calls["made"] <= 7 * inputs.DATA_VARIABLES + 3
    assert calls["joined"] == inputs.DATA_VARIABLES
    assert isinstance(combined.field0.variable._data, VirtualArray)


def test_the_result_holds_columns_not_objects(one: str) -> None:
    def held(count: int) -> tuple[int, xr.Dataset]:
        gc.collect()
        before = len(gc.get_objects())
        combined = combine.by_intarsia(combine.virtual_datasets(one, count))
        gc.collect()
        return len(gc.get_objects()) - before, combined

    held(10)
    few, _ = held(50)
    many, combined = held(200)
    assert many - few < 50
    facts = combine.columns(combined, 200)
    assert facts["columns"] < 40
    # one set of parameters for each of the seven scales
    assert facts["parameters"] < 1
