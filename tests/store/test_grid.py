"""The presented grid: what it costs is counted right, and what it costs is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.array import VirtualArray
from intarsia.encoding import Case, Encoding
from intarsia.grid import grid_shape
from intarsia.references import AFFINE, MISSING, NO_SOURCES, References
from intarsia.segments import CASE, FORM, PAGE, REF, Segments
from intarsia.store import lines, pieces
from intarsia.store.grid import Grid, choose, measure, rectilinear
from intarsia.store.lines import floor_sum
from intarsia.store.pieces import Pieces
from tests.algebra import steps

INT = Encoding((), np.dtype("<i2"))


def array(
    shape: Sequence[int], chunks: Sequence[int], form: str = "dense", nbytes: int | None = None
) -> Segments:
    """An array of one source; its chunks are stored in `nbytes` each."""
    case = Case(INT, np.zeros(1, INT.parameters))
    count = prod(grid_shape(shape, chunks))
    stored = np.full(count, prod(chunks) * 2 if nbytes is None else nbytes, np.uint64)
    if nbytes is None:
        stored += np.arange(count, dtype=np.uint64) % 5
    offsets = np.arange(count, dtype=np.uint64) * 7
    if form == "dense":
        table = References.dense(offsets, stored)
    elif form == "sparse":
        table = References.sparse(np.arange(0, count, 2), offsets[::2], stored[::2])
    elif form == "affine":
        table = References.contiguous(0, prod(shape) * 2)
    else:
        table = References.missing()
    return Segments.of_source(NO_SOURCES, -1, shape, chunks, case, table)


def join(parts: Sequence[Segments], axis: int = 0) -> Segments:
    return Segments.concatenate(parts, axis)


# -- an oracle that walks over every element -----------------------------------------------------


def held(segments: Segments, chunks: Sequence[int]) -> dict[tuple[int, ...], tuple[int, int, int]]:
    """Parts, decoded bytes and stored bytes of each cell."""
    found: dict[tuple[int, ...], set[Any]] = {}
    for number, block in enumerate(segments.blocks):
        fields = block.fields
        for row_number, row in enumerate(block.matrix()):
            case = segments.cases[row[CASE]]
            itemsize = case.encoding.stored.itemsize
            size, chunk = row[fields.size].tolist(), row[fields.chunk].tolist()
            step = row[fields.step].tolist()
            cut = len(size) - 1
            while cut > 0 and prod(size[cut:]) * itemsize <= lines.STRIP:
                cut -= 1
            row_bytes = prod(size[cut + 1 :]) * itemsize
            if size and abs(step[cut]) > 1 and abs(step[cut]) * row_bytes > lines.FAR:
                cut += 1
            start, shape = row[fields.start].tolist(), row[fields.shape].tolist()
            per_cell: dict[tuple[int, ...], dict[Any, list[int]]] = {}
            for index in product(*(range(a, a + n) for a, n in zip(start, shape, strict=True))):
                cell = tuple(i // c for i, c in zip(index, chunks, strict=True))
                where = [
                    int(f) + (s * (index[a] - start[a]) if a >= 0 else 0)
                    for f, s, a in zip(
                        row[fields.first], step, row[fields.axis].tolist(), strict=True
                    )
                ]
                if row[FORM] == MISSING:
                    key: Any = ()
                elif row[FORM] == AFFINE:
                    key = tuple(where[:cut])
                else:
                    key = tuple(w // c for w, c in zip(where, chunk, strict=True))
                along = where[cut] if 0 <= cut < len(where) else 0
                per_cell.setdefault(cell, {}).setdefault(key, []).append(along)
            for cell, parts in per_cell.items():
                for key, along in parts.items():
                    if row[FORM] == MISSING:
                        decoded = stored = 0
                    elif row[FORM] == AFFINE:
                        extent = max(along) - min(along) + 1
                        decoded = stored = extent * prod(size[cut + 1 :]) * itemsize
                    else:
                        decoded = prod(chunk) * itemsize
                        stored = 0
                        page = segments.pages[row[PAGE]]
                        if row[FORM] == 0:
                            at = np.ravel_multi_index(key, grid_shape(size, chunk)) if key else 0
                            stored = int(page.lengths[row[REF] + at])
                    found.setdefault(cell, set()).add((number, row_number, key, decoded, stored))
    return {
        cell: (len(parts), sum(p[3] for p in parts), sum(p[4] for p in parts))
        for cell, parts in found.items()
    }


def check(segments: Segments, chunks: Sequence[int]) -> None:
    """Counted as the oracle counts."""
    cells = held(segments, chunks)
    whole = held(segments, [max(n, 1) for n in segments.shape])
    grid = measure(segments, chunks)
    decoded = sum(cell[1] for cell in cells.values())
    once = sum(cell[1] for cell in whole.values())
    assert grid.amplification == pytest.approx(decoded / once if once else 1.0)
    assert grid.max_parts == max((cell[0] for cell in cells.values()), default=0)
    assert grid.cells == prod(grid_shape(segments.shape, chunks))
    _, nbytes = Pieces.of(segments).most(chunks)
    assert nbytes >= max((max(cell[1:]) for cell in cells.values()), default=0)


@st.composite
def piles(draw: st.DrawFn) -> Segments:
    """Arrays of all kinds, joined, cut, flipped, transposed and repeated."""
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(1, 6)) for _ in range(ndim))
    parts: list[Segments] = []
    for _ in range(draw(st.integers(1, 3)) if ndim else 1):
        size = (draw(st.integers(1, 6)), *shape[1:]) if ndim else ()
        form = draw(st.sampled_from(["dense", "dense", "sparse", "affine", "missing"]))
        chunks = tuple(draw(st.integers(1, n + 1)) for n in size)
        parts.append(array(size, chunks, form))
    made: Any = VirtualArray(join(parts), "i2")
    for _ in range(draw(st.integers(0, 3))):
        made = draw(steps(made.shape)).run(made)
        if made.size > 400:
            made = made[tuple(slice(0, 3) for _ in made.shape)]
    return made.segments


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_counts_of_any_pile(data: st.DataObject) -> None:
    segments = data.draw(piles())
    chunks = [data.draw(st.integers(1, max(n, 1) + 1)) for n in segments.shape]
    check(segments, chunks)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_bounds_of_any_pile(data: st.DataObject) -> None:
    """Where not every cell is looked at, what is said of them is an upper bound."""
    segments = data.draw(piles())
    chunks = [data.draw(st.integers(1, max(n, 1) + 1)) for n in segments.shape]
    cells = held(segments, chunks).values()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "EXACT_PAIRS", 0)
        patch.setattr(pieces, "MAX_CORNERS", data.draw(st.sampled_from([8, 1 << 20])))
        patch.setattr(pieces, "BATCH", 2)
        parts, nbytes = Pieces.of(segments).most(chunks)
    assert parts >= max((cell[0] for cell in cells), default=0)
    assert nbytes >= max((max(cell[1:]) for cell in cells), default=0)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_caps_hold_on_any_pile(data: st.DataObject) -> None:
    segments = data.draw(piles())
    max_parts, max_bytes = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 2000))
    if data.draw(st.booleans()):
        max_parts, max_bytes = 1 << 13, 1 << 27
    grid = choose(segments, max_parts=max_parts, max_bytes=max_bytes)
    assert all(isinstance(edge, int) for edge in grid.chunks)
    assert all(1 <= e <= max(n, 1) for e, n in zip(grid.chunks, segments.shape, strict=True))
    assert grid == measure(segments, grid.chunks)
    cells = held(segments, grid.chunks).values()
    assert max((cell[0] for cell in cells), default=0) <= grid.max_parts <= max_parts
    largest = Pieces.of(segments).held.max(initial=0)
    limit = max(max_bytes, 2**segments.ndim * largest)
    if max_bytes >= 2**segments.ndim * largest:
        limit = max_bytes
    assert max((max(cell[1:]) for cell in cells), default=0) <= limit
    itemsize = segments.cases[0].encoding.dtype.itemsize
    assert prod(grid.chunks) * itemsize <= max(max_bytes, largest, itemsize)


def edges_of(lengths: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(lengths).tolist()]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rectilinear_grids_are_exact(data: st.DataObject) -> None:
    """Or refused; each source chunk lies in one cell."""
    segments = data.draw(piles())
    try:
        grid = rectilinear(segments)
    except ValueError:
        return
    assert grid.amplification == 1
    edges = [edges_of(lengths) for lengths in grid.chunks]
    assert [along[-1] for along in edges] == [max(n, 1) for n in segments.shape]
    cells = list(product(*(pairwise(along) for along in edges)))
    assert grid.cells == len(cells)
    if 0 in segments.shape:
        return
    inside = [segments.select([slice(*part) for part in cell]) for cell in cells]
    found = [held(some, [max(n, 1) for n in some.shape]) for some in inside]
    assert sum(part[1] for some in found for part in some.values()) == sum(
        part[1] for part in held(segments, segments.shape).values()
    )
    assert max(part[0] for some in found for part in some.values()) <= grid.max_parts


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(0, 90), st.integers(0, 90)),
        min_size=1,
        max_size=5,
    )
)
def test_sums_of_rounded_fractions(rows: list[tuple[int, int, int, int]]) -> None:
    columns = np.array(rows, np.int64).T
    expected = [sum((b + a * i) // m for i in range(n)) for n, m, a, b in rows]
    assert floor_sum(*columns).tolist() == expected


# -- piles as they are found ---------------------------------------------------------------------

MONTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def days(count: int, chunk: tuple[int, int], shape: tuple[int, int]) -> list[Segments]:
    return [array((1, *shape), (1, *chunk)) for _ in range(count)]


def test_alike_files_keep_their_chunks() -> None:
    grid = choose(join(days(365, (720, 1440), (720, 1440))))
    assert grid == Grid((1, 720, 1440), 1.0, 1, 365)
    wide = choose(join([array((24, 720, 1440), (6, 720, 1440)) for _ in range(30)]))
    assert wide == Grid((6, 720, 1440), 1.0, 1, 120)


def test_small_chunks_are_merged() -> None:
    grid = choose(array((1000, 100, 100), (1, 10, 10)))
    assert grid.amplification == 1
    assert grid.chunks[1:] == (100, 100)
    assert grid.max_parts <= 1024
    numbers = choose(join([array((1,), (512,)) for _ in range(2000)]))
    assert numbers.amplification == 1
    assert 500 <= numbers.max_parts <= 1024


def test_runs_of_bytes_are_cut_anywhere() -> None:
    run = array((365, 720, 1440), (1, 90, 1440), "affine")
    assert choose(run).amplification == 1
    for chunks in [(1, 7, 1440), (3, 720, 1440), (100, 31, 1440)]:
        grid = measure(run, chunks)
        assert grid.amplification == 1
        assert grid.max_parts == chunks[0]
    assert measure(run, (1, 720, 144)).amplification == 10  # whole rows are read
    numbers = choose(join([array((1,), (1,), "affine") for _ in range(2000)]))
    assert numbers.cells < 100


def test_months() -> None:
    """As one chunk each, or one chunk per day."""
    by_day = choose(join([array((n, 90, 180), (1, 90, 180)) for n in MONTHS * 4]))
    assert by_day.amplification == 1
    whole = join([array((n, 90, 180), (n, 90, 180)) for n in MONTHS * 4])
    assert choose(whole).amplification < 1.2
    assert rectilinear(whole).chunks == (tuple(MONTHS * 4), (90,), (180,))
    both = join([whole, join([array((n, 90, 180), (1, 90, 180)) for n in MONTHS * 4])])
    assert choose(both).amplification < 1.2


def test_years_whose_chunks_end_with_them() -> None:
    years = join([array((365 + (n % 4 == 0), 585, 1386), (61, 98, 231)) for n in range(40)])
    assert measure(years, (61, 98, 231)).amplification > 1.9
    grid = choose(years)
    assert grid.amplification < 1.2
    assert grid.chunks[1:] == (98, 231)


@pytest.mark.parametrize("order", [1, -1])
def test_rows_beside_whole_images(order: int) -> None:
    rows, whole = days(100, (2600, 1), (2600, 2600)), days(100, (2600, 2600), (2600, 2600))
    grid = choose(join((rows + whole)[::order]))
    assert grid == Grid((1, 2600, 2600), 1.0, 2600, 200)


def test_eras_whose_chunks_drift() -> None:
    shape = (17_999, 36_000)
    two = days(500, (1023, 2047), shape) + days(500, (3600, 7200), shape)
    assert measure(join(two), (1, 1023, 2047)).amplification > 5
    assert choose(join(two)).amplification < 1.3
    four = two + days(500, (500, 1000), shape) + days(500, (2000, 2500), shape)
    grid = choose(join(four))
    assert grid.amplification < 1.5
    assert prod(grid.chunks) * 2 < 1 << 27
    with pytest.raises(ValueError, match=r"dimension 1, the boundary at 1023"):
        rectilinear(join(two))


def test_mosaics_with_holes() -> None:
    def tile(i: int, j: int) -> Segments:
        return array((10, 100, 100), (1, 50, 50), "missing" if (i + j) % 5 == 0 else "dense")

    columns = [join([tile(i, j) for i in range(20)], 1) for j in range(20)]
    segments = join([join(columns, 2)] * 3)
    grid = choose(segments)
    assert grid.amplification == 1
    assert grid == measure(segments, grid.chunks)
    assert rectilinear(segments).amplification == 1


def test_repeated_along_a_dimension() -> None:
    """What is the same at all times is not decoded for each of them."""
    run = array((720, 1440), (90, 1440), "affine").insert(0, 10_000)
    assert choose(run).amplification == 1
    assert choose(array((72, 144), (72, 144)).insert(0, 1000)).amplification == 1


def test_constants() -> None:
    grid = choose(array((10_000, 720, 1440), (1, 720, 1440), "missing"))
    assert grid.amplification == 1
    assert grid.max_parts == 1
    assert 1 << 17 < prod(grid.chunks) * 2 <= 1 << 20
    assert rectilinear(array((40, 30), (5, 5), "missing")).chunks == ((40,), (30,))


def test_no_elements_and_no_dimensions() -> None:
    for shape in [(0,), (3, 0, 4)]:
        grid = choose(array(shape, tuple(max(n, 1) for n in shape)))
        assert (grid.amplification, grid.max_parts, grid.cells) == (1, 0, 0)
        assert all(edge >= 1 for edge in grid.chunks)
    assert choose(array((), ())) == Grid((), 1.0, 1, 1)
    assert rectilinear(array((), ())) == Grid((), 1.0, 1, 1)


def test_large_chunks_stay_whole() -> None:
    """A chunk that is larger than the bounds can't be made smaller."""
    large = array((120, 4000, 4000, 4), (4, 4000, 4000, 4))
    assert choose(large).chunks == (4, 4000, 4000, 4)
    shifted = join([array((4, 4000, 4000, 4), (3, 4000, 3000, 4)) for _ in range(3)])
    assert choose(shifted).amplification <= 2


def test_stored_bytes_count() -> None:
    """Noise that a filter made longer, or chunks that are hardly filled."""
    inflated = array((64, 100), (1, 100), nbytes=1 << 20)
    grid = choose(inflated, max_bytes=4 << 20)
    assert grid.chunks[0] <= 4
    mixed = join([inflated, array((64, 100), (1, 100), nbytes=10)])
    _, held = Pieces.of(mixed).most((64, 100))
    assert held == 64 << 20


def test_many_segments_take_little_time() -> None:
    ten = join([array((1, 100, 100), (1, 50, 50)) for _ in range(100)])
    many = join([join([ten] * 20)] * 10)
    assert len(many) == 20_000
    grid = choose(many)
    assert grid.amplification == 1
    assert grid.max_parts <= 1024


def test_huge_arrays_are_not_walked_over() -> None:
    shape = (10**6, 10**5, 10**5)
    rows = np.ones(1, INT.parameters)
    table = References.dense(np.zeros(1, np.uint64), np.full(1, 9, np.uint64))
    huge = Segments.of_source(NO_SOURCES, -1, shape, (7, 100, 100), Case(INT, rows), table)
    grid = choose(huge)
    assert grid.amplification == 1
    assert grid.cells > 10**9
    assert measure(huge, (10, 100, 100)).amplification == pytest.approx(1.6, rel=1e-4)
    with pytest.raises(ValueError, match="more than 65536 cells along dimension 0"):
        rectilinear(huge)


def test_cells_of_a_rectilinear_grid_are_bounded() -> None:
    months = join([array((n, 90, 180), (1, 90, 180), "affine") for n in MONTHS])
    assert rectilinear(months).chunks == (tuple(MONTHS), (90,), (180,))
    with pytest.raises(ValueError, match=r"and 1004400 bytes"):
        rectilinear(months, max_bytes=100_000)


@pytest.mark.parametrize("chunks", [(2,), (0, 3), (2, 3, 4), (2, 1 << 63)])
def test_wrong_chunk_shapes_are_refused(chunks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not fit shape"):
        measure(array((4, 6), (2, 3)), chunks)


@pytest.mark.parametrize("chunks", [5, (2.5, 3), (2, "x"), ((2, 2), (3, 3)), (None, 3)])
def test_what_is_no_chunk_shape_is_refused(chunks: Any) -> None:
    with pytest.raises(ValueError, match="is not a chunk shape: a tuple of whole numbers"):
        measure(array((4, 6), (2, 3)), chunks)
