"""Touched chunks against an oracle that walks over every element."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.grid import grid_shape
from intarsia.lookup import Touches, touch_counts, touches
from intarsia.references import ABSENT, AFFINE, DENSE, INLINE, MISSING, SPARSE, STORED, References
from intarsia.segments import Block, Fields


@dataclass
class Segment:
    """One box and its window, in the open."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    axis: tuple[int, ...]
    first: tuple[int, ...]
    step: tuple[int, ...]
    size: tuple[int, ...]
    chunk: tuple[int, ...]
    form: int = DENSE
    ref: int = 0
    count: int = 0

    def row(self) -> list[int]:
        head = [0, 0, 0, 0, self.ref, self.count, self.form]
        geometry = (self.start, self.shape, self.axis, self.first, self.step, self.size, self.chunk)
        return head + [number for part in geometry for number in part]

    def source_index(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Where an element of the whole lies in the source array."""
        return tuple(
            first + (step * (index[axis] - self.start[axis]) if axis >= 0 else 0)
            for axis, first, step in zip(self.axis, self.first, self.step, strict=True)
        )


@st.composite
def segments(draw: st.DrawFn, ndim: int, source_ndim: int) -> Segment:
    """A box anywhere, and a window that fits into some source array."""
    shape = tuple(draw(st.integers(1, 5)) for _ in range(ndim))
    start = tuple(draw(st.integers(0, 9)) for _ in range(ndim))
    axes = draw(st.permutations([*range(ndim), *[-1] * source_ndim]))[:source_ndim]
    first, step, size, chunk = [], [], [], []
    for axis in axes:
        length = shape[axis] if axis >= 0 else 1
        by = draw(st.sampled_from([1, 1, 2, 3, 5, -1, -2, -4, 0])) if axis >= 0 else 0
        low = draw(st.integers(0, 4))
        reach = abs(by) * (length - 1)
        first.append(low + (reach if by < 0 else 0))
        step.append(by)
        size.append(low + reach + 1 + draw(st.integers(0, 3)))
        chunk.append(draw(st.integers(1, size[-1] + 1)))
    parts = (start, shape, tuple(axes), tuple(first), tuple(step), tuple(size), tuple(chunk))
    return Segment(*parts)


def block_of(rows: list[Segment], ndim: int, source_ndim: int) -> Block:
    return Block.of(Fields(ndim, source_ndim), np.array([s.row() for s in rows], np.int64))


def expected(segment: Segment) -> dict[int, dict[tuple[int, ...], int]]:
    """For each touched chunk: which element of it each element of the whole is."""
    grid = grid_shape(segment.size, segment.chunk)
    result: dict[int, dict[tuple[int, ...], int]] = {}
    ranges = [range(a, a + n) for a, n in zip(segment.start, segment.shape, strict=True)]
    for index in product(*ranges):
        where = segment.source_index(index)
        cell = tuple(i // c for i, c in zip(where, segment.chunk, strict=True))
        local = tuple(i % c for i, c in zip(where, segment.chunk, strict=True))
        chunk = int(np.ravel_multi_index(cell, grid)) if grid else 0
        flat = int(np.ravel_multi_index(local, segment.chunk)) if grid else 0
        result.setdefault(chunk, {})[index] = flat
    return result


def placed(found: Touches, row: int) -> dict[tuple[int, ...], int]:
    """What a row of the answer says about elements."""
    result = {}
    for offset in product(*map(range, found.count[row].tolist())):
        index = tuple(int(a) + o for a, o in zip(found.start[row], offset, strict=True))
        flat = sum(int(s) * o for s, o in zip(found.strides[row], offset, strict=True))
        result[index] = int(found.begin[row]) + flat
    return result


def sizes(data: st.DataObject) -> tuple[int, int]:
    return data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_dense_tables(data: st.DataObject) -> None:
    ndim, source_ndim = sizes(data)
    rows = data.draw(st.lists(segments(ndim, source_ndim), min_size=1, max_size=5))
    first = 0
    for segment in rows:
        segment.ref = first
        first += prod(grid_shape(segment.size, segment.chunk))
    offsets = np.random.default_rng(first).permutation(first).astype(np.uint64) * 1000
    masks = (np.arange(first) % 3).astype(np.uint32)
    states = (np.arange(first) % 5 == 4).astype(np.uint8) * ABSENT
    table = References(offsets, offsets + np.uint64(7), masks, states)
    # forty times, so that the block is kept column by column
    copies = data.draw(st.sampled_from([1, 40]))
    block = block_of(rows * copies, ndim, source_ndim)
    found = touches(block, [table], np.array([4]))
    counts = touch_counts(block)
    np.testing.assert_array_equal(np.bincount(found.segment, minlength=len(counts)), counts)
    for number, segment in enumerate(rows * copies):
        wanted = expected(segment)
        mine = np.flatnonzero(found.segment == number)
        assert sorted(found.chunk[mine].tolist()) == sorted(wanted)
        for row in mine.tolist():
            chunk = int(found.chunk[row])
            reference = segment.ref + chunk
            assert found.state[row] == states[reference]
            assert found.offset[row] == offsets[reference]
            assert found.length[row] == offsets[reference] + 7
            assert found.mask[row] == masks[reference]
            assert found.elements[row] == prod(segment.chunk)
            if states[reference] == STORED:
                assert placed(found, row) == wanted[chunk]
            else:
                assert set(placed(found, row)) == set(wanted[chunk])
        if copies > 1 and number >= len(rows):
            break


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_sparse_tables(data: st.DataObject) -> None:
    """Only what was written has a row; the rest is absent."""
    ndim, source_ndim = sizes(data)
    rows = data.draw(st.lists(segments(ndim, source_ndim), min_size=1, max_size=4))
    written: list[np.ndarray] = []
    first = 0
    for segment in rows:
        total = prod(grid_shape(segment.size, segment.chunk))
        some = sorted(data.draw(st.sets(st.integers(0, total - 1))))
        written.append(np.array(some, np.int64))
        segment.form, segment.ref, segment.count = SPARSE, first, len(some)
        first += len(some)
    offsets = np.arange(first, dtype=np.uint64) * 11 + 5
    table = References(
        offsets, offsets, chunks=np.concatenate(written).astype(np.int64), form=SPARSE
    )
    if not first:
        table = References.missing()
    found = touches(block_of(rows, ndim, source_ndim), [table], np.array([1]))
    for number, segment in enumerate(rows):
        wanted = expected(segment)
        mine = np.flatnonzero(found.segment == number)
        assert sorted(found.chunk[mine].tolist()) == sorted(wanted)
        for row in mine.tolist():
            chunk = int(found.chunk[row])
            place = np.flatnonzero(written[number] == chunk)
            assert (found.state[row] == STORED) == bool(len(place))
            if len(place):
                assert found.offset[row] == offsets[segment.ref + int(place[0])]
                assert placed(found, row) == wanted[chunk]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_runs_of_bytes(data: st.DataObject) -> None:
    """Strips lie in C order in the run, the last ones cut short; any itemsize."""
    ndim, source_ndim = sizes(data)
    segment = data.draw(segments(ndim, source_ndim))
    cut = data.draw(st.integers(0, max(source_ndim - 1, 0)))
    segment.chunk = tuple(
        1 if n < cut else segment.chunk[n] if n == cut else size
        for n, size in enumerate(segment.size)
    )
    segment.form, segment.count = AFFINE, 1
    itemsize = data.draw(st.sampled_from([1, 2, 8]))
    nbytes = prod(segment.size) * itemsize
    table = References.contiguous(1 << 33, nbytes)
    found = touches(block_of([segment], ndim, source_ndim), [table], np.array([itemsize]))
    values = np.arange(prod(segment.size)).reshape(segment.size)
    seen: dict[tuple[int, ...], int] = {}
    for row in range(len(found)):
        assert found.state[row] == STORED
        begin = (int(found.offset[row]) - (1 << 33)) // itemsize
        count = int(found.length[row]) // itemsize
        assert count == found.elements[row]
        assert begin >= 0
        assert begin + count <= values.size
        for index, local in placed(found, row).items():
            assert 0 <= local < count
            seen[index] = begin + local
    ranges = [range(a, a + n) for a, n in zip(segment.start, segment.shape, strict=True)]
    assert seen == {index: int(values[segment.source_index(index)]) for index in product(*ranges)}


def test_a_run_that_is_too_short_gives_short_strips() -> None:
    segment = Segment((0,), (10,), (0,), (0,), (1,), (10,), (4,), AFFINE, 0, 1)
    found = touches(block_of([segment], 1, 1), [References.contiguous(100, 22)], np.array([4]))
    assert found.length.tolist() == [16, 6, 0]
    assert found.elements.tolist() == [4, 4, 2]


def test_missing_and_inline() -> None:
    missing = Segment((2,), (5,), (0,), (0,), (1,), (5,), (2,), MISSING)
    block = block_of([missing], 1, 1)
    found = touches(block, [References.missing()], np.array([4]))
    assert len(found) == 1
    assert found.state.tolist() == [ABSENT]
    assert found.start.tolist() == [[2]]
    assert found.count.tolist() == [[5]]
    assert found.strides.tolist() == [[0]]
    inline = Segment((0,), (3,), (0,), (0,), (1,), (3,), (3,), DENSE, 0, 1)
    found = touches(block_of([inline], 1, 1), [References.inlined(b"abc")], np.array([1]))
    assert found.state.tolist() == [INLINE]
    assert (found.offset[0], found.length[0]) == (0, 3)


@pytest.mark.parametrize("step", [7, -7, 1000, -1000])
def test_steps_wider_than_a_chunk(step: int) -> None:
    """Chunks that the window jumps over are not touched."""
    length = 6
    size = abs(step) * (length - 1) + 3
    first = 1 if step > 0 else size - 2
    segment = Segment((0,), (length,), (0,), (first,), (step,), (size,), (3,))
    count = -(-size // 3)
    table = References(np.arange(count, dtype=np.uint64), np.ones(count, np.uint64))
    found = touches(block_of([segment], 1, 1), [table], np.array([1]))
    where = first + step * np.arange(length)
    assert found.chunk.tolist() == (where // 3).tolist()
    assert found.begin.tolist() == (where % 3).tolist()
    assert found.count.tolist() == [[1]] * length


def test_offsets_beyond_four_gigabytes() -> None:
    offsets = np.array([1 << 32, (1 << 40) + 3, 5], np.uint64)
    table = References.dense(offsets, np.array([1 << 33, 1, 1], np.uint64))
    segment = Segment((0,), (3,), (0,), (0,), (1,), (3,), (1,))
    found = touches(block_of([segment], 1, 1), [table], np.array([1]))
    assert found.offset.tolist() == offsets.tolist()
    assert found.length.tolist() == [1 << 33, 1, 1]
