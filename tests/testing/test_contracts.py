"""The contracts, kept by what Intarsia itself brings; and shown to notice who breaks them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from intarsia.io.fetch import LocalFetcher
from intarsia.references import Source, Sources
from intarsia.scan.hdf5 import scan
from intarsia.scan.protocol import Scanned
from intarsia.testing import FetcherContract, ScanContract


class TestLocalFetcher(FetcherContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @pytest.fixture
    def fetcher(self) -> LocalFetcher:
        return LocalFetcher()

    def put(self, name: str, data: bytes) -> Source:
        (self.folder / name).write_bytes(data)
        return Sources.of_file(self.folder / name)[0]

    def replace(self, source: Source, data: bytes) -> None:
        Path(source.url).write_bytes(data)
        os.utime(source.url, ns=(source.mtime_ns + 1, source.mtime_ns + 1))

    def remove(self, source: Source) -> None:
        Path(source.url).unlink()


class Clipping(LocalFetcher):
    """Gives what there is, as some clients do."""

    def read(self, source: Source, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        data = Path(source.url).read_bytes()
        return [memoryview(data[begin : begin + length]) for begin, length in ranges]


def test_a_fetcher_that_clips_is_noticed(tmp_path: Path) -> None:
    contract = TestLocalFetcher()
    contract.folder = tmp_path
    contract.test_ranges_are_read_whole_and_in_order(Clipping(), [(5, 10)])
    with pytest.raises(pytest.fail.Exception):
        contract.test_past_the_end_is_an_error(Clipping(), (9_990, 11))
    with pytest.raises(pytest.fail.Exception):
        contract.test_a_changed_source_is_an_error(Clipping(), b"")
    with pytest.raises(AssertionError):
        contract.test_requests_are_told(Clipping())


class TestHDF5Scan(ScanContract):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "a.h5"
        values: dict[str, np.ndarray] = {
            "chunked": np.arange(60, dtype="<i2").reshape(10, 6),
            "contiguous": np.linspace(0, 1, 40, dtype=">f4").reshape(4, 10),
            "scalar": np.array(3.5),
            "empty": np.zeros((0, 4), "i4"),
        }
        with h5py.File(self.path, "w") as file:
            for name, array in values.items():
                options: dict[str, Any] = {}
                if name == "chunked":
                    options = {"chunks": (4, 4), "compression": "gzip", "shuffle": True}
                file.create_dataset(name, data=array, **options)
        self.values = dict(sorted(values.items()))

    def scan(self) -> Scanned:
        return scan(str(self.path), phony_dims="access")

    def holds(self) -> Mapping[str, np.ndarray]:
        return self.values
