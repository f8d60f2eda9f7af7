"""The plan as a value: what is read, for which chunks, within which bounds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.array import VirtualArray, load_together
from intarsia.encoding import Encoding
from intarsia.engine import plan as planning
from intarsia.engine.plan import FREE_GAP, MAX_GAP, MAX_OVERREAD, Plan, plans, tasks_of
from intarsia.io.fetch import observe
from intarsia.references import STORED, References, Source, Sources
from tests.algebra import lay_out

SOURCES = Sources.of([Source("/nowhere/", f"{n}.bin", 1 << 50, -1) for n in range(3)])


def chunked(source: int, offsets: list[int], lengths: list[int], nbytes: int = 64) -> VirtualArray:
    """One dimension; chunk ``i`` is stored at ``offsets[i]``. Nothing can be read of it."""
    encoding = Encoding((), np.dtype("u1"))
    return VirtualArray.from_source(
        SOURCES,
        source,
        (len(offsets) * nbytes,),
        (nbytes,),
        encoding,
        np.zeros((), encoding.parameters),
        References.dense(np.array(offsets, np.uint64), np.array(lengths, np.uint64)),
    )


def check_plan(plan: Plan) -> None:
    """What holds of every plan, whatever it is for."""
    stored = sum(int((part.touches.state == STORED).sum()) for part in plan.parts)
    reads = [read for task in plan.tasks for read in task]
    members = [m for read in reads for numbers in read.members for m in numbers.tolist()]
    assert sorted(members) == list(range(stored)) == list(range(len(plan.part)))
    for task in plan.tasks:
        assert len({read.source for read in task}) == len(task) > 0
    for read in reads:
        assert read.ranges
        for (begin, length), numbers in zip(read.ranges, read.members, strict=True):
            offsets, lengths = plan.offset[numbers], plan.length[numbers]
            # every wanted byte, none before the first or after the last
            assert begin == offsets.min()
            assert begin + length == (offsets + lengths).max()
            wanted, gaps = covered(offsets, lengths)
            assert max(gaps, default=0) <= MAX_GAP
            assert length - wanted == sum(gaps)
            paid = [gap for gap in gaps if gap > FREE_GAP]
            assert sum(paid) <= wanted * MAX_OVERREAD
            for number in numbers.tolist():
                part = plan.parts[plan.part[number]]
                touch = plan.touch[number]
                assert part.touches.state[touch] == STORED
                assert part.touches.offset[touch] == plan.offset[number]
                assert part.touches.length[touch] == plan.length[number]
                where = part.segments.sources[int(part.touches.source[touch])]
                assert where == plan.sources[read.source]


def covered(offsets: np.ndarray, lengths: np.ndarray) -> tuple[int, list[int]]:
    """Distinct bytes of some ranges, and the gaps between them."""
    end, total, gaps = None, 0, []
    for offset, length in sorted(zip(offsets.tolist(), lengths.tolist(), strict=True)):
        if end is None:
            end = offset
        if offset > end:
            gaps.append(offset - end)
        total += max(0, offset + length - max(end, offset))
        end = max(end, offset + length)
    return total, gaps


@st.composite
def layouts(draw: st.DrawFn) -> list[VirtualArray]:
    """Arrays in a few sources: chunks near and far, large and small, shared, overlapping, empty."""
    arrays = []
    for _ in range(draw(st.integers(1, 3))):
        offsets, lengths = [], []
        position = draw(st.sampled_from([0, 1000, 1 << 33]))
        for _ in range(draw(st.integers(1, 12))):
            length = draw(st.sampled_from([0, 1, 64, 1000, 20_000, 100_000, 3_000_000, 1 << 32]))
            offsets.append(position)
            lengths.append(length)
            position += length + draw(
                st.sampled_from([0, 0, 0, 3, 10, 200, 5000, MAX_GAP, MAX_GAP + 1, 1 << 20, -1])
            )
            position = max(position, 0)
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(offsets))))
            offsets, lengths = [offsets[n] for n in order], [lengths[n] for n in order]
        arrays.append(chunked(draw(st.integers(0, 2)), offsets, lengths))
    return arrays


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(layouts(), st.data())
def test_every_plan_keeps_its_bounds(arrays: list[VirtualArray], data: st.DataObject) -> None:
    selected = []
    for array in arrays:
        size = array.shape[0]
        start = data.draw(st.integers(0, size - 1))
        selected.append(array[start : data.draw(st.integers(start + 1, size)) :])
    if data.draw(st.booleans()):
        selected = [np.concatenate(selected)]  # type: ignore[list-item]
    (plan,) = plans([array.segments for array in selected])
    check_plan(plan)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(layouts())
def test_neighbours_are_read_together(arrays: list[VirtualArray]) -> None:
    """Adjacent chunks never lie in different ranges, unless a task would grow too large."""
    (plan,) = plans([array.segments for array in arrays])
    for source in range(3):
        reads = [read for task in plan.tasks for read in task if read.source == source]
        ranges = sorted(r for read in reads for r in read.ranges)
        for (a, length), (b, other) in pairwise(ranges):
            assert b >= a + length
            if b == a + length:
                assert length + other > planning.TASK_COST // 2


def test_a_gap_is_bridged_where_it_pays() -> None:
    gaps = [(0, True), (5_000, True), (10_000, True), (10_001, False), (MAX_GAP + 1, False)]
    for gap, together in gaps:
        array = chunked(0, [0, 20_000 + gap], [20_000, 20_000])
        (plan,) = plans([array.segments])
        assert (plan.requests == 1) == together, gap
        assert plan.nbytes == 40_000 + gap * together
    array = chunked(0, [0, 1_000_000 + MAX_GAP + 1], [1_000_000, 1_000_000])
    (plan,) = plans([array.segments])
    assert plan.requests == 2  # though it is little of what is read


def test_tiny_chunks_at_small_gaps_are_one_request() -> None:
    """However little of what is read they are: a request costs more."""
    for remote, free in [(False, FREE_GAP), (True, planning.FREE_GAP_REMOTE)]:
        for gap, requests in [(free, 1), (free + 1, 100)]:
            offsets = np.arange(100) * (64 + gap)
            columns = (np.zeros(100, np.int64), offsets, np.full(100, 64), np.full(100, 64))
            tasks = tasks_of(*columns, np.full(100, remote) if remote else None)
            assert sum(len(read.ranges) for task in tasks for read in task) == requests


def test_a_network_is_asked_for_bytes_not_for_elements() -> None:
    """What packs well is decoded in pieces, and still read with one request."""
    here, there = (
        VirtualArray.from_source(
            Sources.of([Source(container, "a.bin", 1 << 50, -1)]),
            0,
            (64 << 20,),
            (1 << 20,),
            Encoding((), np.dtype("u1")),
            np.zeros((), Encoding((), np.dtype("u1")).parameters),
            References.dense(np.arange(64) * 1_000, np.full(64, 1_000)),
        )
        for container in ("/nowhere/", "s3://nowhere/")
    )
    (plan,) = plans([here.segments])
    assert plan.requests == len(plan.tasks) == 16
    (plan,) = plans([there.segments])
    assert plan.requests == len(plan.tasks) == 1
    (plan,) = plans([here.segments, there.segments])
    assert plan.requests == 17


def test_shared_chunks_are_read_once() -> None:
    array = chunked(0, [0, 0, 0, 64], [64, 64, 64, 64])
    (plan,) = plans([array.segments, array.segments])
    assert plan.requests == 1
    assert plan.nbytes == 128
    assert plan.chunks == 2
    check_plan(plan)


def test_long_runs_are_shared_out() -> None:
    """Many small chunks next to each other become several tasks of bounded size."""
    count, nbytes = 3000, 4096
    array = chunked(0, [n * nbytes for n in range(count)], [nbytes] * count, nbytes)
    (plan,) = plans([array.segments])
    check_plan(plan)
    assert plan.nbytes == count * nbytes
    assert len(plan.tasks) == plan.requests == -(-count * nbytes // planning.TASK_COST)
    small = chunked(0, [n * 100_000 for n in range(50)], [64] * 50)
    (plan,) = plans([small.segments])
    check_plan(plan)
    assert plan.requests == 50
    assert len(plan.tasks) == 1


def test_large_selections_are_planned_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_TOUCHES", 100)
    count = 1000
    array = chunked(0, [n * 64 for n in range(count)], [64] * count)
    made = list(plans([array.segments, array[::-1].segments, array[:64].segments]))
    assert len(made) > 20
    seen = 0
    for plan in made:
        check_plan(plan)
        assert len(plan.part) <= 100
        seen += len(plan.part)
    # where a piece ends within a chunk, that chunk is read for both
    assert 2 * count + 1 <= seen <= 2 * count + 1 + len(made)


# -- what is really read -------------------------------------------------------------------------


@pytest.fixture
def cube(tmp_path: Path) -> tuple[VirtualArray, np.ndarray]:
    values = np.arange(24 * 20 * 30, dtype="<i4").reshape(24, 20, 30)
    return lay_out(tmp_path / "cube", values, (5, 7, 30))


def test_one_element_reads_one_chunk(cube: tuple[VirtualArray, np.ndarray]) -> None:
    array, values = cube
    for index in [(0, 0, 0), (23, 19, 29), (7, 13, 4), (-1, 0, -30)]:
        with observe() as reads:
            assert int(array[index]) == values[index]
        assert reads.requests == 1
        assert reads.nbytes == 5 * 7 * 30 * 4


def test_a_selection_reads_its_chunks_alone(cube: tuple[VirtualArray, np.ndarray]) -> None:
    array, values = cube
    chunk = 5 * 7 * 30 * 4
    for key, chunks in [
        ((slice(0, 5), slice(0, 7)), 1),
        ((slice(4, 6),), 6),
        ((slice(0, 1), slice(None, None, 7)), 3),
        ((slice(None, None, 11), slice(3, 4)), 3),
        ((slice(5, 5),), 0),
        (([0, 20], slice(0, 1)), 2),
        ((np.array([0, 1, 23]), np.array([0, 1, 19])), 2),
    ]:
        with observe() as reads:
            np.testing.assert_array_equal(np.asarray(array[key]), values[key])
        assert chunks * chunk <= reads.nbytes <= chunks * (chunk + 10), key


def test_contiguous_data_is_read_in_strips(tmp_path: Path) -> None:
    """A run of bytes is cut into strips; only those that are needed are read."""
    values = np.arange(4_000_000, dtype="<i4").reshape(4000, 1000)
    path = tmp_path / "run"
    path.write_bytes(values.tobytes())
    from intarsia.grid import strip_shape

    encoding = Encoding((), values.dtype)
    strips = strip_shape(values.shape, 4)
    array = VirtualArray.from_source(
        Sources.of_file(path),
        0,
        values.shape,
        strips,
        encoding,
        np.zeros((), encoding.parameters),
        References.contiguous(0, values.nbytes),
    )
    strip = strips[0] * 4000
    assert strip <= 1 << 18
    for key, count in [
        ((0, 0), 1),
        ((slice(0, strips[0]),), 1),
        ((slice(strips[0] - 1, strips[0] + 1),), 2),
        ((3999,), 1),
    ]:
        with observe() as reads:
            np.testing.assert_array_equal(np.asarray(array[key]), values[key])
        assert reads.requests == 1
        assert reads.nbytes <= count * strip
    with observe() as reads:
        np.testing.assert_array_equal(np.asarray(array), values)
    assert reads.nbytes == values.nbytes


def test_variables_are_read_together(tmp_path: Path) -> None:
    """Variables that lie side by side in one file are read with one request."""
    path = tmp_path / "file"
    values = {name: np.arange(2_000, dtype="<i4") + n * 9_999 for n, name in enumerate("abc")}
    path.write_bytes(b"".join(v.tobytes() + b"pad." for v in values.values()))
    sources = Sources.of_file(path)
    encoding = Encoding((), np.dtype("<i4"))
    dataset = xr.Dataset(
        {
            name: (
                "x",
                VirtualArray.from_source(
                    sources,
                    0,
                    (2_000,),
                    (2_000,),
                    encoding,
                    np.zeros((), encoding.parameters),
                    References.contiguous(n * 8_004, 8_000),
                ),
            )
            for n, name in enumerate(values)
        }
    )
    with observe() as reads:
        loaded = dataset.compute()
    assert reads.ranges == [(str(path), 0, 24_008)]
    for name, expected in values.items():
        np.testing.assert_array_equal(loaded[name].values, expected)
    with observe() as reads:
        (dataset.a + dataset.b).compute()
    assert reads.requests == 1
    with observe() as reads:
        load_together([dataset.a.data, dataset.c.data])
    assert reads.requests == 2  # b between them is more than a quarter of what is wanted
    with observe() as reads:
        dataset.b.load()
    assert reads.ranges == [(str(path), 8_004, 8_000)]


def test_describing_and_combining_read_nothing(cube: tuple[VirtualArray, np.ndarray]) -> None:
    dataset = xr.Dataset({"x": (("t", "y", "z"), cube[0])}, {"t": np.arange(24)})
    with observe() as reads:
        repr(dataset)
        dataset._repr_html_()
        both = xr.concat([dataset, dataset.assign_coords(t=np.arange(24, 48))], "t")
        repr(both.isel(t=3).transpose("z", "y").x)
        hash(both.x.data.__dask_tokenize__())
        _ = (both.x.chunks, both.nbytes, both.x.data.blocks)
        both.chunk(t=3)
    assert reads.requests == 0


def test_little_of_many_sources_is_read_in_few_tasks() -> None:
    count = 1000
    sources = Sources.of([Source("/nowhere/", f"{n}.bin", 1 << 50, -1) for n in range(count)])
    encoding = Encoding((), np.dtype("u1"))
    row, references = np.zeros((), encoding.parameters), References.contiguous(100, 8)
    arrays = [
        VirtualArray.from_source(sources, n, (8,), (8,), encoding, row, references)
        for n in range(count)
    ]
    (plan,) = plans([np.concatenate(arrays).segments])
    check_plan(plan)
    assert plan.requests == count
    assert len(plan.tasks) == -(-count * (planning.SOURCE_COST + 8) // planning.TASK_COST)
