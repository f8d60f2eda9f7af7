"""What every scan has to keep: references that lie in their sources, and give the values."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array import VirtualArray, load_together
from intarsia.engine.plan import plans
from intarsia.io.fetch import observe
from intarsia.scan.protocol import Opaque, Scanned


class ScanContract(ABC):
    """Tests of a scan.

    A subclass says how to `scan` something, and which stored values it `holds`.
    """

    @abstractmethod
    def scan(self) -> Scanned:
        """Scan a file that holds at least one variable."""

    @abstractmethod
    def holds(self) -> Mapping[str, npt.NDArray[Any]]:
        """Stored values of the variables, undecoded, in their own byte order."""

    def _virtual(self) -> Iterator[tuple[str, VirtualArray, npt.NDArray[Any]]]:
        values = self.holds()
        for name, variable in self.scan().variables.items():
            if isinstance(variable.data, VirtualArray):
                yield name, variable.data, values[name]

    def test_every_variable_is_there(self) -> None:
        """With dimensions that have lengths, and the shape and type of its values."""
        scanned, values = self.scan(), self.holds()
        assert list(scanned.variables) == list(values)
        for name, variable in scanned.variables.items():
            assert len(variable.dims) == variable.data.ndim, name
            assert tuple(scanned.sizes[dim] for dim in variable.dims) == variable.data.shape, name
            assert variable.data.shape == values[name].shape, name
            native = values[name].dtype.newbyteorder("=")
            assert variable.data.dtype.newbyteorder("=") == native, name
            assert all(isinstance(key, str) for key in variable.attrs), name
        assert scanned.unlimited <= set(scanned.sizes)

    def test_the_values_are_right(self) -> None:
        """To the last bit; variables that no reference can express through their loader."""
        values = self.holds()
        for name, variable in self.scan().variables.items():
            data = variable.data
            if isinstance(data, Opaque):
                assert data.reason, name
                found = None if data.loader is None else data.loader()
            else:
                found = data.load()
            if found is not None:
                _assert_same(name, found, values[name])

    def test_parts_are_right(self) -> None:
        """Windows of any step, lists and points; read on their own."""
        for name, array, values in self._virtual():
            for key in _keys(values.shape):
                _assert_same(name, np.asarray(array[key]), values[key])

    def test_variables_load_together(self) -> None:
        """As a dataset loads them."""
        found = list(self._virtual())
        loaded = load_together([array for _, array, _ in found])
        for (name, _, values), result in zip(found, loaded, strict=True):
            _assert_same(name, result, values)

    def test_composing_reads_nothing(self) -> None:
        """A scan gives references; what is made of them is made of references."""
        found = list(self._virtual())
        with observe() as reads:
            for _, array, _ in found:
                if array.ndim:
                    both = np.concatenate([array, array[::-1]])
                    assert isinstance(
                        np.broadcast_to(both[..., None], (*both.shape, 3)), VirtualArray
                    )
                repr(array)
        assert reads.requests == 0

    def test_references_lie_in_their_sources(self) -> None:
        """Every source is pinned by its size, and no range leaves it."""
        for name, array, _ in self._virtual():
            for plan in plans([array.segments]):
                for read in (read for task in plan.tasks for read in task):
                    size = plan.sources[read.source].size
                    assert size >= 0, name
                    assert all(a >= 0 and a + n <= size for a, n in read.ranges), name

    def test_scans_cross_processes(self) -> None:
        """A scan can be made by a worker and used elsewhere."""
        scanned = pickle.loads(pickle.dumps(self.scan()))
        values = self.holds()
        for name, variable in scanned.variables.items():
            if isinstance(variable.data, VirtualArray):
                _assert_same(name, variable.data.load(), values[name])

    def test_scans_are_repeatable(self) -> None:
        """The same file gives the same tokens, so that caches of results can be trusted."""
        first, second = dict(self._tokens()), dict(self._tokens())
        assert first == second

    def _tokens(self) -> Iterator[tuple[str, Any]]:
        for name, array, _ in self._virtual():
            yield name, array.__dask_tokenize__()


def _keys(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    yield tuple(slice(None, None, -1) for _ in shape)
    yield tuple(slice(1, None, 3) for _ in shape)
    yield tuple(slice(size // 2, size // 2 + 1) for size in shape)
    yield tuple(slice(0, 0) for _ in shape)
    if all(shape) and shape:
        yield tuple(size - 1 for size in shape)
        yield tuple(np.array([0, size - 1, size // 2]) for size in shape)
        yield (np.array([-1, 0, 0]),)


def _assert_same(name: str, found: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    expected = np.asarray(values).astype(values.dtype.newbyteorder("="))
    found = np.asarray(found).astype(found.dtype.newbyteorder("="))
    assert found.dtype == expected.dtype, name
    assert found.shape == expected.shape, name
    if expected.dtype.kind == "O":
        assert found.tolist() == expected.tolist(), name
    else:
        assert found.tobytes() == expected.tobytes(), name
