"""The virtual array against NumPy: random chains of operations, and nothing read before the end."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.array import VirtualArray, load_together
from intarsia.array.keys import runs_of
from intarsia.io.fetch import observe
from tests.algebra import lay_out, steps

FORMS = ["dense", "sparse", "contiguous", "inline", "missing"]


def same(actual: Any, expected: np.ndarray) -> None:
    """Equal in type, shape and every value."""
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=0, max_size=3)))
    chunks = tuple(draw(st.integers(1, max(n, 1) + 1)) for n in shape)
    form = draw(st.sampled_from(FORMS))
    if form == "contiguous":  # strips: outer one, one cut, inner whole
        cut = draw(st.integers(0, max(len(shape) - 1, 0)))
        chunks = tuple(
            1 if n < cut else chunks[n] if n == cut else max(size, 1)
            for n, size in enumerate(shape)
        )
    absent = draw(st.lists(st.integers(0, 30), max_size=4)) if form in ("dense", "sparse") else []
    return {
        "shape": shape,
        "chunks": chunks,
        "form": form,
        "absent": absent,
        "zlevel": draw(st.sampled_from([None, 1])) if form in ("dense", "sparse") else None,
        "dtype": draw(st.sampled_from(["<i4", ">i2", "<f8"])),
    }


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), spec=arrays())
def test_chains_equal_numpy(data: st.DataObject, spec: dict[str, Any], tmp_path: Path) -> None:
    values = np.arange(1, np.prod(spec["shape"], dtype=int) + 1).astype(spec["dtype"])
    array, expected = lay_out(
        tmp_path / "a.bin",
        values.reshape(spec["shape"]),
        spec["chunks"],
        form=spec["form"],
        absent=spec["absent"],
        zlevel=spec["zlevel"],
        fill=99,
    )
    expected = expected.astype(expected.dtype.newbyteorder("="))
    with observe() as reads:
        for _ in range(data.draw(st.integers(0, 5))):
            step = data.draw(steps(expected.shape))
            expected = step.run(expected)
            array = step.run(array)
            assert array.shape == expected.shape
            assert array.dtype == expected.dtype
            if expected.size > 5000 or expected.ndim > 6:
                break
    assert reads.requests == 0
    assert isinstance(array, VirtualArray)
    same(array, expected)
    again = pickle.loads(pickle.dumps(array))
    same(again, expected)


@pytest.mark.parametrize("form", FORMS)
def test_zero_dimensional(tmp_path: Path, form: str) -> None:
    array, expected = lay_out(tmp_path / "a", np.array(5, "<i4"), (), form=form, fill=3)
    same(array, expected)
    assert array.ndim == 0
    same(np.stack([array, array]), np.stack([expected, expected]))


def test_many_files_become_columns(tmp_path: Path) -> None:
    parts, values = [], []
    for number in range(200):
        value = np.arange(6, dtype="<i2").reshape(2, 3) + number
        array, _ = lay_out(tmp_path / f"{number}.bin", value, (1, 3))
        parts.append(array)
        values.append(value)
    with observe() as reads:
        joined = np.concatenate(parts)
    assert reads.requests == 0
    same(joined, np.concatenate(values))
    held = joined.segments
    assert len(held) == 200
    assert len(held.blocks) == 1
    assert len(held.pages) == 1
    assert len(held.cases) == 1
    assert len(held.sources) == 200
    assert held.nbytes / 400 < 20  # bytes per reference
    # slices of one array joined anew refer to the same tables
    again = np.concatenate([joined[:100], joined[100:]])
    assert again.segments.pages[0] is joined.segments.pages[0]
    assert again.segments.sources is joined.segments.sources
    same(again, np.concatenate(values))


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key with slices, integers, masks and integer arrays that broadcast with each other."""
    common = draw(st.lists(st.integers(0, 3), max_size=2))
    key: list[Any] = []
    for size in shape:
        kind = draw(st.sampled_from(["slice", "int", "array", "array", "mask"]))
        if kind == "slice" or not size:
            key.append(slice(None, None, draw(st.sampled_from([1, -1, 2]))))
        elif kind == "int":
            key.append(draw(st.integers(-size, size - 1)))
        elif kind == "mask" and len(common) < 2:
            mask = np.zeros(size, bool)
            count = min(common[0], size) if common else draw(st.integers(0, size))
            mask[draw(st.permutations(range(size)))[:count]] = True
            key.append(mask)
        else:
            dims = [draw(st.sampled_from([n, n, 1])) for n in common]
            dims = dims[draw(st.integers(0, len(dims))) :]
            flat = draw(
                st.lists(
                    st.integers(-size, size - 1),
                    min_size=int(np.prod(dims)),
                    max_size=int(np.prod(dims)),
                )
            )
            key.append(np.array(flat, np.int64).reshape(dims))
    return tuple(key)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), spec=arrays())
def test_advanced_keys_equal_numpy(
    data: st.DataObject, spec: dict[str, Any], tmp_path: Path
) -> None:
    values = np.arange(1, np.prod(spec["shape"], dtype=int) + 1).astype(spec["dtype"])
    array, expected = lay_out(
        tmp_path / "a.bin", values.reshape(spec["shape"]), spec["chunks"], absent=spec["absent"]
    )
    if expected.ndim and data.draw(st.booleans()):
        array, expected = (
            np.concatenate([array, array[::-1]]),
            np.concatenate([expected, expected[::-1]]),
        )
    expected = expected.astype(expected.dtype.newbyteorder("="))
    key = data.draw(keys(expected.shape))
    try:
        chosen = expected[key]
    except IndexError:
        with pytest.raises(IndexError):
            array[key]
        return
    with observe() as reads:
        lazy = array[key]
    assert reads.requests == 0
    assert isinstance(lazy, VirtualArray)
    same(lazy, chosen)


def test_points_read_their_chunks_alone(tmp_path: Path) -> None:
    values = np.arange(6000, dtype="<i4").reshape(50, 120)
    array, _ = lay_out(tmp_path / "a", values, (10, 12))
    key = np.array([0, 49, 49, 3]), np.array([1, 119, 118, 2])
    with observe() as reads:
        chosen = array[key]
        assert isinstance(chosen, VirtualArray)
    assert reads.requests == 0
    with observe() as reads:
        same(chosen, values[key])
    assert reads.nbytes == 2 * 10 * 12 * 4
    same(pickle.loads(pickle.dumps(chosen)), values[key])
    grid = np.array([[0, 4], [2, 2]])
    same(array[grid], values[grid])
    same(array[:, grid], values[:, grid])
    same(array[grid, 3], values[grid, 3])
    same(array[grid][:, 1, ::7], values[grid][:, 1, ::7])
    same(np.transpose(array[:, grid], (2, 0, 1)), np.transpose(values[:, grid], (2, 0, 1)))


def test_long_lists_stay_virtual(tmp_path: Path) -> None:
    values = np.arange(60_000, dtype="<i4").reshape(20_000, 3)
    array, _ = lay_out(tmp_path / "a", values, (700, 3))
    indices = np.random.default_rng(0).integers(0, 20_000, 10_000)
    chosen = array[indices]
    assert isinstance(chosen, VirtualArray)
    same(chosen, values[indices])


def test_orthogonal_lists_stay_virtual(tmp_path: Path) -> None:
    values = np.arange(60, dtype="<i4").reshape(5, 12)
    array, _ = lay_out(tmp_path / "a", values, (2, 5))
    key = np.ix_([4, 0, 1], [11, 2, 3, 4, 0])
    chosen = array[key]
    assert isinstance(chosen, VirtualArray)
    same(chosen, values[key])
    mask = np.array([True, False, True, True, False])
    assert isinstance(array[mask], VirtualArray)
    same(array[mask], values[mask])
    same(array[[], :], values[[], :])


@given(st.lists(st.integers(0, 20), max_size=12))
def test_runs_cover_the_list(indices: list[int]) -> None:
    runs = runs_of(np.array(indices, np.int64))
    assert [start + step * n for start, step, count in runs for n in range(count)] == indices


def test_equal_arrays_have_equal_tokens(tmp_path: Path) -> None:
    array, _ = lay_out(tmp_path / "a", np.arange(6, dtype="<i4"), (4,))
    assert array.__dask_tokenize__() == array[:].__dask_tokenize__()
    assert array.__dask_tokenize__() != array[::-1].__dask_tokenize__()
    assert copy.deepcopy(array) is array


def test_loaded_together_is_read_together(tmp_path: Path) -> None:
    values = np.arange(40, dtype="<i4")
    array, _ = lay_out(tmp_path / "a", values, (10,))
    with observe() as reads:
        one, two = load_together([array[:10], array[10:20]])
    assert reads.requests == 1
    same(one, values[:10])
    same(two, values[10:20])


def test_repeated_values_are_kept_once() -> None:
    """A constant that NumPy stretched over a large shape is not spread out."""
    wide = np.broadcast_to(np.arange(3.0)[:, None], (3, 1_000_000))
    array = VirtualArray.inline(wide)
    assert array.segments.nbytes < 1000
    same(array[:, ::250_000], wide[:, ::250_000])
    same(VirtualArray.inline(wide[:0]), wide[:0])


def test_other_functions_load(tmp_path: Path) -> None:
    values = np.arange(40, dtype="<f8").reshape(4, 10)
    array, _ = lay_out(tmp_path / "a", values, (2, 10))
    same(array + 1, values + 1)
    same(np.sqrt(array), np.sqrt(values))
    assert np.mean(array) == values.mean()
    same(np.where(array > 3, array, 0), np.where(values > 3, values, 0))
    same(array.reshape(-1), values.reshape(-1))
    assert isinstance(array.reshape(4, 1, 10), VirtualArray)
    assert float(array[0, 1]) == 1.0
    with pytest.raises(TypeError, match="read-only"):
        array[0] = 1
    with pytest.raises(IndexError):
        array[9]
    with pytest.raises(ValueError, match="match"):
        np.concatenate([array, array[:, :3]])
