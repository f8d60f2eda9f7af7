"""Whether boxes tile an array: every tiling passes, every overlap or hole does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.encoding import Case, Codec, Encoding
from intarsia.references import NO_SOURCES, References, Source, Sources
from intarsia.segments import Block, Segments, checking
from intarsia.segments.checking import check, check_tiling


def split(draw: Any, start: tuple[int, ...], shape: tuple[int, ...], depth: int) -> list[Any]:
    """Boxes that come of cutting one again and again."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes or depth == 0 or draw(st.integers(0, 3)) == 0:
        return [(start, shape)]
    axis = draw(st.sampled_from(axes))
    cut = draw(st.integers(1, shape[axis] - 1))
    first = (*shape[:axis], cut, *shape[axis + 1 :])
    second = (*shape[:axis], shape[axis] - cut, *shape[axis + 1 :])
    moved = (*start[:axis], start[axis] + cut, *start[axis + 1 :])
    return split(draw, start, first, depth - 1) + split(draw, moved, second, depth - 1)


@st.composite
def tilings(draw: st.DrawFn) -> tuple[Any, Any, tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=3)))
    boxes = draw(st.permutations(split(draw, (0,) * len(shape), shape, 6)))
    starts = np.array([start for start, _ in boxes], np.int64).reshape(len(boxes), len(shape))
    shapes = np.array([size for _, size in boxes], np.int64).reshape(len(boxes), len(shape))
    return starts, shapes, shape


PINWHEEL = ([(0, 0), (0, 2), (1, 0), (2, 1), (1, 1)], [(1, 2), (2, 1), (2, 1), (1, 2), (1, 1)])


@pytest.fixture(params=["few", "many"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes that no cut separates are compared, or painted."""
    if request.param == "many":
        monkeypatch.setattr(checking, "FEW", 1)
        monkeypatch.setattr(checking, "MAX_ROUNDS", 1)


@pytest.mark.usefixtures("_way")
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tiling=tilings(), data=st.data())
def test_tilings_pass_and_moved_boxes_do_not(tiling: Any, data: Any) -> None:
    starts, shapes, whole = tiling
    check_tiling(starts, shapes, whole)
    movable = [
        (number, axis)
        for number in range(len(starts))
        for axis in range(len(whole))
        if shapes[number, axis] < whole[axis]
    ]
    if movable:
        number, axis = data.draw(st.sampled_from(movable))
        room = whole[axis] - int(shapes[number, axis])
        elsewhere = [place for place in range(room + 1) if place != starts[number, axis]]
        moved = starts.copy()
        moved[number, axis] = data.draw(st.sampled_from(elsewhere))
        covered = np.zeros(whole, int)
        for start, shape in zip(moved, shapes, strict=True):
            covered[tuple(slice(a, a + n) for a, n in zip(start, shape, strict=True))] += 1
        assert covered.max() > 1
        with pytest.raises(ValueError, match="overlap"):
            check_tiling(moved, shapes, whole)


@pytest.mark.usefixtures("_way")
def test_a_pinwheel_passes() -> None:
    starts, shapes = (np.array(part) for part in PINWHEEL)
    check_tiling(starts, shapes, (3, 3))


@pytest.mark.usefixtures("_way")
def test_an_overlapping_pinwheel_does_not() -> None:
    starts, shapes = (np.array(part) for part in PINWHEEL)
    starts[4] = (0, 0)
    with pytest.raises(ValueError, match="overlap"):
        check_tiling(starts, shapes, (3, 3))


def test_holes_are_refused() -> None:
    with pytest.raises(ValueError, match="exactly once"):
        check_tiling(np.array([[0]]), np.array([[3]]), (4,))
    with pytest.raises(ValueError, match="exactly once"):
        check_tiling(np.zeros((0, 1), int), np.zeros((0, 1), int), (4,))
    check_tiling(np.zeros((0, 1), int), np.zeros((0, 1), int), (0,))


def test_huge_overlaps_do_not_wrap_round() -> None:
    whole = (1 << 30, 1 << 30)
    count = 1 << 5
    shapes = np.tile(np.array([whole]), (count, 1))
    with pytest.raises(ValueError, match="exactly once"):
        check_tiling(np.zeros_like(shapes), shapes, whole)


def test_hundreds_of_thousands_of_boxes_are_quick() -> None:
    count = 300_000
    starts = np.stack([np.arange(count), np.zeros(count, int)], axis=1)
    check_tiling(starts, np.tile([1, 4], (count, 1)), (count, 4))
    grid = np.stack(np.meshgrid(np.arange(500), np.arange(500)), axis=-1).reshape(-1, 2)
    check_tiling(grid, np.ones_like(grid), (500, 500))


def spiral(count: int) -> tuple[Any, Any, tuple[int, int]]:
    """Boxes around each other, each of which is cut off only after the one before."""
    low, high = [0, 0], [4 * count, 4 * count]
    starts, shapes = [], []
    for number in range(count):
        axis, far = number % 2, number // 2 % 2
        start, shape = list(low), [b - a for a, b in zip(low, high, strict=True)]
        shape[axis] = 1
        if far:
            high[axis] -= 1
            start[axis] = high[axis]
        else:
            low[axis] += 1
        starts.append(start), shapes.append(shape)
    starts.append(low), shapes.append([b - a for a, b in zip(low, high, strict=True)])
    return np.array(starts), np.array(shapes), (4 * count, 4 * count)


def test_entangled_boxes_are_quick_or_refused() -> None:
    check_tiling(*spiral(1000))
    starts, shapes, whole = spiral(1000)
    starts[7], shapes[7, 1] = starts[3], shapes[7, 1]
    with pytest.raises(ValueError, match="overlap|exactly once"):
        check_tiling(starts, shapes, whole)
    with pytest.raises(ValueError, match="too entangled"):
        check_tiling(*spiral(50_000))


def test_very_many_pinwheels_are_quick() -> None:
    corners = np.stack(np.meshgrid(np.arange(200), np.arange(200)), axis=-1).reshape(-1, 1, 2) * 3
    starts = (np.array(PINWHEEL[0]) + corners).reshape(-1, 2)
    shapes = np.tile(PINWHEEL[1], (len(corners), 1))
    check_tiling(starts, shapes, (600, 600))
    starts[1000] = starts[1001]
    with pytest.raises(ValueError, match="overlap"):
        check_tiling(starts, shapes, (600, 600))


def of_one_chunk(**changes: int) -> Segments:
    """One segment, with something changed: of an array of 4 by 6, of int16."""
    encoding = Encoding((Codec.make("zlib"),), np.dtype("<i2"))
    case = Case(encoding, np.zeros(1, encoding.parameters))
    sources = Sources.of([Source("/", "f", 1, 1)])
    found = Segments.of_source(
        sources, 0, (4, 6), (4, 6), case, References.dense(np.array([0]), np.array([5]))
    )
    block = found.blocks[0]
    matrix = block.matrix().copy()
    for name, value in changes.items():
        label, _, dim = name.partition("_")
        matrix[0, getattr(block.fields, label).start + int(dim)] = value
    return replace(found, blocks=(Block.of(block.fields, matrix),))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chunk_0": 1 << 31, "chunk_1": 1 << 31}, "more than 4 GiB"),
        ({"size_0": 1 << 60, "chunk_0": 1 << 60}, "2\\*\\*61 bytes"),
        ({"first_0": 3}, "past the end"),
        ({"step_0": -1}, "past the end"),
        ({"axis_1": 0, "shape_1": 6}, "two dimensions"),
    ],
)
def test_what_can_t_be_held_is_refused(changes: dict[str, int], reason: str) -> None:
    check(of_one_chunk())
    with pytest.raises(ValueError, match=reason):
        check(of_one_chunk(**changes))


def test_bytes_of_no_source_are_refused() -> None:
    encoding = Encoding((), np.dtype("<i2"))
    case = Case(encoding, np.zeros(1, encoding.parameters))
    check(Segments.inline(np.arange(4)))
    check(Segments.full((4,), 1, "int16"))
    for references in (
        References.contiguous(0, 8),
        References.dense(np.array([0, 9]), np.array([8, 8]), present=np.array([False, True])),
    ):
        chunks = (4,) if len(references) == 1 else (2,)
        segments = Segments.of_source(NO_SOURCES, -1, (4,), chunks, case, references)
        with pytest.raises(ValueError, match="no source"):
            check(segments)


def test_a_sparse_table_may_stand_beside_others() -> None:
    """Only the table that a sparse segment is in has to number its chunks."""
    encoding = Encoding((), np.dtype("<i2"))
    case = Case(encoding, np.zeros(1, encoding.parameters))
    tables = [
        References.dense(np.arange(4, dtype=np.uint64) * 4, np.full(4, 4, np.uint64)),
        References.sparse(np.array([2]), np.array([8], np.uint64), np.array([4], np.uint64)),
    ]
    parts = [
        Segments.of_source(Sources.of([Source("/", name, 100, 0)]), 0, (8,), (2,), case, table)
        for name, table in zip("ab", tables, strict=True)
    ]
    both = Segments.concatenate(parts, 0)
    assert [page.chunks is None for page in both.pages] == [True, False]
    check(both)
