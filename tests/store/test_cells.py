"""Cells decode to what the engine reads, and no more is read than is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intarsia.array import VirtualArray
from intarsia.codecs.assemble import decode_chunk
from intarsia.codecs.cases import CaseTable
from intarsia.codecs.chunks import Parts, header_nbytes, unpack
from intarsia.encoding import Case, Codec, Encoding
from intarsia.engine.plan import FREE_GAP
from intarsia.errors import SourceMissing, StoreError
from intarsia.io.fetch import observe
from intarsia.references import NO_SOURCES, References
from intarsia.segments import Segments
from intarsia.store import boxes, pages
from intarsia.store.boxes import BoxIndex
from intarsia.store.cells import Cells
from intarsia.store.grid import measure, rectilinear
from intarsia.store.pages import used_cases
from tests.algebra import lay_out, steps
from tests.store.test_grid import held


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def indices(cells: Cells) -> list[tuple[int, ...]]:
    return list(product(*map(range, cells.grid.shape)))


def table_of(array: VirtualArray) -> CaseTable:
    segments = array.segments
    return CaseTable.of([segments.cases[n].encoding for n in used_cases(segments)])


def parts_of(cells: Cells, index: tuple[int, ...], table: CaseTable) -> Parts:
    """The parts of a cell, from its bytes."""
    data = memoryview(cells.read(index))
    return unpack(data, cells.grid.box(index)[2], table, len(data))


def decoded(cells: Cells, index: tuple[int, ...], array: VirtualArray) -> np.ndarray:
    """The elements of a cell that lie in the array."""
    low, high, shape = cells.grid.box(index)
    data = memoryview(cells.read(index))
    assert len(data) == cells.cell(index).nbytes
    fill = np.full((), 111).astype(array.dtype)[()]
    values = decode_chunk(data, shape, table_of(array), array.dtype, fill)
    assert values.shape == tuple(shape)
    inside = [slice(0, b - a) for a, b in zip(low, high, strict=True)]
    return values[tuple(inside)]


def check(array: VirtualArray, chunks: Any) -> Cells:
    """Every cell decodes to what the engine reads there."""
    cells = Cells(array.segments, chunks, "v")
    expected = array.load()
    for index in indices(cells):
        low, high, _ = cells.grid.box(index)
        box = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
        np.testing.assert_array_equal(decoded(cells, index, array), expected[box])
    return cells


@st.composite
def piles(draw: st.DrawFn, path: Path) -> VirtualArray:
    """Arrays of all kinds in files, joined, cut, flipped, transposed and repeated."""
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(1, 6)) for _ in range(ndim))
    parts: list[VirtualArray] = []
    for number in range(draw(st.integers(1, 3)) if ndim else 1):
        size = (draw(st.integers(1, 6)), *shape[1:]) if ndim else ()
        forms = ["dense", "dense", "sparse", "contiguous", "missing", "inline"]
        form = draw(st.sampled_from(forms))
        chunks = tuple(draw(st.integers(1, n + 1)) for n in size)
        if form == "contiguous":
            cut = draw(st.integers(0, max(ndim - 1, 0)))
            chunks = tuple(
                1 if n < cut else chunks[n] if n == cut else size[n] for n in range(ndim)
            )
        values = np.asarray(np.arange(prod(size), dtype="<i4") + 1000 * number).reshape(size)
        zlevel = draw(st.sampled_from([None, 1])) if form in ("dense", "sparse") else None
        absent = draw(st.sets(st.integers(0, 3))) if ndim and form in ("dense", "sparse") else ()
        array, _ = lay_out(
            path / f"{number}",
            values,
            chunks,
            form=form,
            zlevel=zlevel,
            fill=-number,
            absent=tuple(absent),
        )
        parts.append(array)
    made: Any = np.concatenate(parts) if len(parts) > 1 else parts[0]
    for _ in range(draw(st.integers(0, 3))):
        made = draw(steps(made.shape)).run(made)
        if made.size > 300:
            made = made[tuple(slice(0, 3) for _ in made.shape)]
    return made


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_cells_of_any_pile(data: st.DataObject, folder: Path) -> None:
    """They hold the right values, and as many parts as was counted."""
    array = data.draw(piles(folder))
    chunks = tuple(data.draw(st.integers(1, max(n, 1) + 1)) for n in array.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_CELLS", data.draw(st.sampled_from([1, 3, 64])))
        patch.setattr(pages, "PAGE_PARTS", data.draw(st.sampled_from([1, 1 << 12])))
        patch.setattr(boxes, "FEW", data.draw(st.sampled_from([0, 64])))
        cells = check(array, chunks)
        if not array.size:
            assert indices(cells) == []
            return
        counted = held(array.segments, chunks)
        table = table_of(array)
        for index in indices(cells):
            assert len(parts_of(cells, index, table)) == counted[index][0]
    assert measure(array.segments, chunks).cells == len(indices(cells))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_ranges_of_any_cell(data: st.DataObject, folder: Path) -> None:
    """A range of bytes is that of the whole, and reads nothing beyond the parts it lies in."""
    array = data.draw(piles(folder))
    chunks = tuple(data.draw(st.integers(1, max(n, 1) + 1)) for n in array.shape)
    cells = Cells(array.segments, chunks, "v")
    if not indices(cells):
        return
    index = data.draw(st.sampled_from(indices(cells)))
    whole = bytes(cells.read(index))
    cell = cells.cell(index)
    begin = data.draw(st.integers(0, len(whole) + 2))
    end = data.draw(st.none() | st.integers(0, len(whole) + 2))
    with observe() as reads:
        some = cells.read(index, begin, end)
    assert bytes(some) == whole[begin:end]
    wanted = len(whole[max(begin, len(cell.header)) : end])
    free = FREE_GAP * held(array.segments, chunks)[index][0]  # between one part and the next
    assert reads.nbytes <= 1.25 * wanted + free
    with observe() as reads:
        assert cells.read(index, 0, len(cell.header)) == cell.header
        assert header_nbytes(cell.header) == len(cell.header)
    assert reads.requests == 0


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_uneven_cells(data: st.DataObject, folder: Path) -> None:
    array = data.draw(piles(folder))
    edges: list[tuple[int, ...]] = []
    for size in array.shape:
        cuts = data.draw(st.sets(st.integers(1, max(size - 1, 1)), max_size=4))
        bounds = sorted({0, size} | {cut for cut in cuts if cut < size})
        edges.append(tuple(b - a for a, b in pairwise(bounds)))
    if array.ndim and array.size:
        check(array, tuple(edges))
        try:
            check(array, rectilinear(array.segments).chunks)
        except ValueError:
            return


def test_cells_at_the_edge_in_the_short_form(tmp_path: Path) -> None:
    """Where HDF5 stores a chunk whole, one part covers the cell, its padding too."""
    values = np.arange(25 * 21, dtype="<i2").reshape(25, 21)
    array, _ = lay_out(tmp_path / "f", values, (10, 10))
    cells = check(array, (10, 10))
    short = len(cells.cell((0, 0)).header)
    for index in indices(cells):  # the last column has one index inside
        assert len(cells.cell(index).header) == short
        assert parts_of(cells, index, table_of(array)).covers((10, 10))
    # a crop, or a run of bytes, has no padding behind it
    cropped = array[:22, 3:]
    cells = check(cropped, (10, 10))
    assert not parts_of(cells, (2, 0), table_of(array)).covers((10, 10))
    run, _ = lay_out(tmp_path / "r", values, (10, 21), form="contiguous")
    cells = check(run, (10, 21))
    assert len(cells.cell((2, 0)).header) > len(cells.cell((1, 0)).header) == short
    constant, _ = lay_out(tmp_path / "c", values, (10, 10), form="missing", fill=3)
    cells = check(constant, (10, 10))
    assert {cells.cell(index).nbytes for index in indices(cells)} == {short}


def test_runs_are_read_as_far_as_they_are_wanted(tmp_path: Path) -> None:
    values = np.arange(6 * 300 * 400, dtype="<i4").reshape(6, 300, 400)
    array, _ = lay_out(tmp_path / "f", values, (1, 100, 400), form="contiguous")
    cells = check(array, (2, 70, 400))
    with observe() as reads:
        cells.read((1, 3, 0))
    assert reads.nbytes == 2 * 70 * 400 * 4
    cells = check(array, (2, 70, 100))
    row = 4 * 400
    assert cells.cell((1, 3, 2)).length.tolist() == [69 * row + 400] * 2  # first to last element
    flipped = array[::-1, ::-3, ::-1]
    check(flipped, (2, 70, 400))
    check(np.transpose(flipped, (2, 0, 1)), (130, 4, 50))
    small, _ = lay_out(tmp_path / "s", values[:, :10], (1, 10, 400), form="contiguous")
    assert check(small, (2, 5, 400)).cell((0, 0, 0)).length.tolist() == [15 * row]  # as one


def test_rows_far_apart_are_runs_of_their_own(tmp_path: Path) -> None:
    values = np.arange(40 * 9000, dtype="<i4").reshape(40, 9000)
    array, _ = lay_out(tmp_path / "f", values, (7, 9000), form="contiguous")
    apart = array[::10]
    cells = check(apart, (4, 9000))
    assert cells.cell((0, 0)).length.tolist() == [36_000] * 4
    near = array[::10, :100]
    assert len(check(near, (4, 100)).cell((0, 0)).length) == 4


def test_parts_of_many_files_are_read_with_one_request_each(tmp_path: Path) -> None:
    files = [
        lay_out(tmp_path / f"{n}", np.arange(1200, dtype="<i2").reshape(2, 600) + n, (1, 300))[0]
        for n in range(4)
    ]
    cells = check(np.concatenate(files), (8, 600))
    with observe() as reads:
        cells.read((0, 0))
    assert reads.requests == 4
    cell = cells.cell((0, 0))
    with observe() as reads:
        cells.read((0, 0), cell.ends[4], cell.ends[5])  # one part of the second file
    assert [Path(url).name for url, _, _ in reads.ranges] == ["1"]
    assert reads.nbytes == cell.length[5]


def test_cells_are_looked_up_once(tmp_path: Path) -> None:
    array, _ = lay_out(tmp_path / "f", np.arange(4000, dtype="<i2"), (2,))
    cells = Cells(array.segments, (2,), "v")
    for index in range(128):
        assert cells.cell((index,)) is cells.cell([index])
    assert cells._pages._remembered.cache_info().misses == 2
    for index in range(2000):
        cells.cell((index,))
    assert cells._remembered.cache_info().currsize <= 64


def test_pages_shrink_where_cells_have_many_parts(tmp_path: Path) -> None:
    array, _ = lay_out(tmp_path / "f", np.arange(20_000, dtype="<i2"), (1,))
    cells = Cells(array.segments, (1000,), "v")
    np.testing.assert_array_equal(decoded(cells, (19,), array), array.load()[19_000:])
    with pytest.raises(StoreError, match=r"8192 parts, not 20000: chunk \(0,\) of 'v'") as told:
        Cells(array.segments, (20_000,), "v").cell((0,))
    assert "grid=" in str(told.value)


def test_a_huge_array_has_cells(tmp_path: Path) -> None:
    """Of one segment; nothing is made for all of its chunks."""
    encoding = Encoding((), np.dtype("<i2"))
    table = References.sparse(np.array([5]), np.array([7]), np.array([2]))
    case = Case(encoding, np.zeros(1, encoding.parameters))
    shape = (10**6, 10**5, 10**5)
    segments = Segments.of_source(NO_SOURCES, -1, shape, (1, 100, 100), case, table)
    cells = Cells(segments, (1, 100, 100), "v")
    assert cells.grid.shape == (10**6, 1000, 1000)
    assert cells.cell((999_999, 999, 999)).nbytes == cells.cell((0, 0, 0)).nbytes


def test_missing_files_are_named(tmp_path: Path) -> None:
    array, _ = lay_out(tmp_path / "f", np.arange(10, dtype="<i2"), (2,))
    cells = Cells(array.segments, (2,), "v")
    (tmp_path / "f").unlink()
    with pytest.raises(SourceMissing, match=r"chunk \(3,\) of 'v' in .*/f"):
        cells.read((3,))
    assert cells.read((3,), 0, 16)  # the header is known


def test_what_can_not_be_told_is_refused() -> None:
    refused = Codec.make("refused", kind="unsupported", reason="szip is not there", remedy="")
    bad = Encoding((refused,), np.dtype("<i2"))
    good = Encoding((), np.dtype("<i2"))
    cases = tuple(Case(e, np.zeros(1, e.parameters)) for e in (good, bad))
    for used, encoding in enumerate((good, bad)):
        case = Case(encoding, cases[used].rows)
        table = References.missing()
        one = Segments.of_source(NO_SOURCES, -1, (4,), (2,), case, table)
        block = one.blocks[0].matrix().copy()
        block[:, 0] = used
        both = Segments((4,), (type(one.blocks[0])(one.blocks[0].fields, block),), cases,
                        one.pages, NO_SOURCES)  # fmt: skip
        if used:
            with pytest.raises(StoreError, match="szip is not there"):
                Cells(both, (2,), "v")
        else:
            assert Cells(both, (2,), "v").cell((1,)).nbytes > 0


@st.composite
def tilings(draw: st.DrawFn) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Disjoint boxes: a whole cut in two, again and again."""
    ndim = draw(st.integers(1, 3))
    found = [((0,) * ndim, tuple(draw(st.integers(1, 40)) for _ in range(ndim)))]
    for _ in range(draw(st.integers(0, 30))):
        low, high = found.pop(draw(st.integers(0, len(found) - 1)))
        axis = draw(st.integers(0, ndim - 1))
        if high[axis] - low[axis] < 2:
            found.append((low, high))
            continue
        cut = draw(st.integers(low[axis] + 1, high[axis] - 1))
        found.append((low, (*high[:axis], cut, *high[axis + 1 :])))
        found.append(((*low[:axis], cut, *low[axis + 1 :]), high))
    return found


def of_boxes(boxes_: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Any:
    ndim = len(boxes_[0][0])
    shapes = [[b - a for a, b in zip(low, high, strict=True)] for low, high in boxes_]
    one = Segments.full(tuple(max(1, n) for n in shapes[0]), 0, "i2").blocks[0]
    matrix = np.repeat(one.matrix(), len(boxes_), axis=0)
    matrix[:, one.fields.start] = np.array([low for low, _ in boxes_]).reshape(-1, ndim)
    matrix[:, one.fields.shape] = np.array(shapes).reshape(-1, ndim)
    return type(one).of(one.fields, matrix)


@settings(max_examples=60, deadline=None)
@given(tilings(), st.data())
def test_boxes_are_found(
    tiling: list[tuple[tuple[int, ...], tuple[int, ...]]], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "FEW", 0)
        index = BoxIndex(of_boxes(tiling))
    ndim = len(tiling[0][0])
    low = [data.draw(st.integers(0, 40)) for _ in range(ndim)]
    high = [begin + data.draw(st.integers(1, 20)) for begin in low]
    expected = [
        number
        for number, (begin, end) in enumerate(tiling)
        if all(b < h and e > a for a, h, b, e in zip(low, high, begin, end, strict=True))
    ]
    assert index.rows(low, high).tolist() == expected
