"""Segments as columns: joining, cutting, tables of references, and how little memory they take."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.encoding import Case, Codec, Encoding, merge_cases, unique_rows
from intarsia.references import (
    INLINE,
    MISSING,
    NO_SOURCES,
    STORED,
    References,
    Source,
    Sources,
    held_bytes,
    tight_signed,
)
from intarsia.segments import (
    CASE,
    COUNT,
    MAX_PAGES,
    PACK_FROM,
    PAGE,
    REF,
    ROW,
    SOURCE,
    Block,
    Fields,
    Segments,
)
from intarsia.segments.selecting import meeting

PLAIN = Encoding((), np.dtype("<i2"))
SCALE = Codec.make("scale", dtype="<f4", scale=True, offset=False)
PACKED = PLAIN.extend([SCALE], {"scale": np.dtype("f8")})


def source(name: str, size: int = 100) -> Source:
    return Source("/data/", name, size, 5)


def of_file(
    name: str,
    *,
    shape: tuple[int, ...] = (4, 6),
    chunks: tuple[int, ...] = (2, 3),
    scale: float | None = None,
    table: References | None = None,
) -> Segments:
    """One file's array, with references that say which file they belong to."""
    encoding = PLAIN if scale is None else PACKED
    rows = np.zeros(1, encoding.parameters)
    if scale is not None:
        rows["scale"] = scale
    count = int(np.prod([-(-n // c) for n, c in zip(shape, chunks, strict=True)]))
    base = 1000 * (sum(name.encode()) % 97)
    table = table or References.dense(
        np.arange(count, dtype=np.uint64) * 10 + base, np.full(count, 10, np.uint64)
    )
    return Segments.of_source(
        Sources.of([source(name)]), 0, shape, chunks, Case(encoding, rows), table
    )


def rows_of(segments: Segments) -> list[dict[str, Any]]:
    """Segments in the open, by place."""
    found = []
    for block in segments.blocks:
        fields = block.fields
        for row in block.matrix():
            case = segments.cases[row[CASE]]
            page = segments.pages[row[PAGE]]
            mine = slice(int(row[REF]), int(row[REF] + row[COUNT]))
            found.append(
                {
                    "start": tuple(row[fields.start].tolist()),
                    "shape": tuple(row[fields.shape].tolist()),
                    "source": segments.sources[row[SOURCE]].key if row[SOURCE] >= 0 else None,
                    "encoding": case.encoding,
                    "parameters": case.rows[row[ROW]].item(),
                    "offsets": page.offsets[mine].tolist(),
                }
            )
    return sorted(found, key=lambda entry: entry["start"])


# -- tables of sources ---------------------------------------------------------------------------


def test_union_of_sources() -> None:
    a, b = Sources.of([source("a"), source("b")]), Sources.of([source("b"), source("c")])
    united, (first, second) = Sources.union([a, b])
    assert [s.key for s in united] == ["a", "b", "c"]
    assert first is not None
    assert second is not None
    assert first.tolist() == [0, 1]
    assert second.tolist() == [1, 2]
    # the same tables give the same object, so that the variables of a dataset share it
    assert Sources.union([a, b])[0] is united
    assert Sources.union([a, a])[0] is a
    assert Sources.union([a, a])[1] == [None, None]
    assert Sources.union([a, b, a])[1][2] is not None


def test_sources_that_differ_in_their_pin_stay_apart() -> None:
    one, two = Source("/d/", "a", 10, 5), Source("/d/", "a", 10, 6)
    united, _ = Sources.union([Sources.of([one]), Sources.of([two])])
    assert list(united) == [one, two]
    etag = Source("s3://x/", "a", 10, -1, "e1")
    united, maps = Sources.union([Sources.of([etag]), Sources.of([one, etag])])
    assert list(united) == [etag, one]
    assert united[0].etag == "e1"
    assert united[1].etag is None
    assert maps[1] is not None
    assert maps[1].tolist() == [1, 0]
    assert united.nbytes > 0
    assert list(pickle.loads(pickle.dumps(united))) == list(united)


# -- tables of references ------------------------------------------------------------------------


def test_columns_are_as_narrow_as_they_can_be() -> None:
    offsets = np.arange(100, dtype=np.uint64)
    table = References.dense(offsets, np.full(100, 7, np.uint64))
    assert table.offsets.dtype == np.uint8
    assert held_bytes(table.lengths) == 8  # one number for all
    assert table.nbytes == 108
    far = References.dense(offsets + np.uint64(1 << 40), offsets)
    assert far.offsets.dtype == np.uint64
    assert far.offsets.tolist() == [(1 << 40) + n for n in range(100)]
    assert References.dense(offsets, offsets, np.zeros(100, np.uint32)).masks is None
    assert References.dense(offsets, offsets, present=np.ones(100, bool)).states is None


@pytest.mark.parametrize(
    "values", [[0], [5, 5, 5], [-1, 3], [0, 255], [0, 256], [-129, 0], [1 << 40]]
)
def test_signed_columns(values: list[int]) -> None:
    column = tight_signed(np.array(values, np.int64))
    assert column.tolist() == values
    assert held_bytes(column) <= 8 * len(values)


def test_sparse_tables_are_sorted() -> None:
    table = References.sparse(
        np.array([7, 2, 5]), np.array([70, 20, 50]), np.array([1, 2, 3]), np.array([0, 1, 0])
    )
    assert table.chunks is not None
    assert table.chunks.tolist() == [2, 5, 7]
    assert table.offsets.tolist() == [20, 50, 70]
    assert table.lengths.tolist() == [2, 3, 1]
    assert table.masks is not None
    assert table.masks.tolist() == [1, 0, 0]


def test_merged_tables_keep_every_row() -> None:
    """Optional columns appear where any has them, and inline bytes move along."""
    dense = References.dense(np.array([1, 2]), np.array([3, 4]), np.array([0, 5]))
    sparse = References.sparse(np.array([9]), np.array([1 << 35]), np.array([6]))
    one, two = References.inlined(b"abc"), References.inlined(b"defg")
    merged = References.merge([dense, one, sparse, two])
    assert merged.offsets.tolist() == [1, 2, 0, 1 << 35, 3]
    assert merged.lengths.tolist() == [3, 4, 3, 6, 4]
    assert merged.masks is not None
    assert merged.masks.tolist() == [0, 5, 0, 0, 0]
    assert merged.states is not None
    assert merged.states.tolist() == [STORED, STORED, INLINE, STORED, INLINE]
    assert merged.chunks is not None
    assert merged.chunks[3] == 9
    assert merged.inline == b"abcdefg"
    assert References.merge([dense]) is dense
    with pytest.raises(ValueError, match="masks"):
        References(np.zeros(2), np.zeros(2), np.zeros(3))


# -- cases and parameters ------------------------------------------------------------------------


def test_equal_encodings_become_one_case() -> None:
    joined = Segments.concatenate(
        [of_file(n, scale=s) for n, s in zip("abc", [1, 2, 1], strict=True)], 0
    )
    assert len(joined.cases) == 1
    assert sorted(joined.cases[0].rows["scale"].tolist()) == [1.0, 2.0]
    assert [row["parameters"][1] for row in rows_of(joined)] == [1.0, 2.0, 1.0]
    mixed = Segments.concatenate([joined, of_file("d"), joined], 0)
    assert len(mixed.cases) == 2
    assert len(mixed.cases[0].rows) == 2
    assert [row["source"] for row in rows_of(mixed)] == ["a", "b", "c", "d", "a", "b", "c"]
    assert mixed.parameter_nbytes == 2 * PACKED.parameters.itemsize + 2


def test_parameter_rows_are_compared_by_their_bits() -> None:
    rows = np.array([(0, np.nan), (0, np.nan), (0, 0.0), (0, -0.0)], PACKED.parameters)
    distinct, inverse = unique_rows(rows)
    assert len(distinct) == 3
    assert distinct[inverse].tobytes() == rows.tobytes()


def test_the_same_rows_are_not_repeated() -> None:
    case = Case(PACKED, np.zeros(3, PACKED.parameters))
    cases, places = merge_cases([(case,), (case,), (Case(PLAIN, np.zeros(1, PLAIN.parameters)),)])
    assert len(cases) == 2
    assert len(cases[0].rows) == 3
    assert places == [[(0, 0)], [(0, 0)], [(1, 0)]]


def test_steps_are_added_to_every_case() -> None:
    joined = Segments.concatenate([of_file("a"), of_file("b", scale=2)], 0)
    with pytest.raises(ValueError, match="field"):
        joined.extend([SCALE], {"scale": np.float64(3)})
    more = Segments.concatenate([of_file("a"), of_file("b")], 0).extend(
        [SCALE], {"scale": np.float32(3)}
    )
    assert more.cases[0].encoding.dtype == np.float32
    assert more.cases[0].rows["scale"].tolist() == [3.0]
    cast = joined.cast(np.dtype("f8"))
    assert {case.encoding.dtype for case in cast.cases} == {np.dtype("f8")}
    assert cast.cast(np.dtype("f8")) is cast


# -- joining -------------------------------------------------------------------------------------


def test_joining_moves_boxes_alone() -> None:
    parts = [of_file(name) for name in "abc"]
    joined = Segments.concatenate(parts, 1)
    assert joined.shape == (4, 18)
    assert [row["start"] for row in rows_of(joined)] == [(0, 0), (0, 6), (0, 12)]
    for part, row in zip(parts, rows_of(joined), strict=True):
        assert row["offsets"] == part.pages[0].offsets.tolist()
    assert Segments.concatenate(parts[:1], 0) is parts[0]


def test_many_tables_become_few() -> None:
    """Beyond MAX_PAGES the small tables are merged; a large one is left where it is."""
    large = References.dense(np.arange(5000, dtype=np.uint64), np.ones(5000, np.uint64))
    parts = [of_file(f"f{n}") for n in range(3 * MAX_PAGES)]
    parts.insert(5, of_file("large", shape=(5000, 6), chunks=(1, 6), table=large))
    joined = Segments.concatenate(parts, 0)
    assert len(joined.pages) == 2
    assert any(page is large for page in joined.pages)
    for part, row in zip(parts, rows_of(joined), strict=True):
        assert row["offsets"] == part.pages[0].offsets.tolist()
    again = Segments.concatenate([joined, joined], 0)
    assert {id(page) for page in again.pages} == {id(page) for page in joined.pages}
    few = Segments.concatenate(parts[:MAX_PAGES], 0)
    assert len(few.pages) == MAX_PAGES


def test_tables_of_all_kinds_are_joined() -> None:
    """Dense, sparse, runs, inline and missing side by side, with masks, more than MAX_PAGES."""
    sparse = References.sparse(np.array([3, 1]), np.array([33, 11]), np.array([1, 1]))
    masked = References.dense(np.arange(4), np.ones(4, np.uint64), np.array([0, 1, 0, 2]))
    kinds = [
        of_file("s", table=sparse),
        of_file("m", table=masked),
        of_file("r", table=References.contiguous(77, 48)),
        of_file("i", chunks=(4, 6), table=References.inlined(b"x" * 48)),
        of_file("n", table=References.missing()),
        Segments.full((4, 6), 3, "<i2"),
        Segments.inline(np.arange(24, dtype="<i2").reshape(4, 6)),
    ]
    parts = kinds * 4
    copies = [Segments.concatenate([part, of_file(f"x{n}")], 0) for n, part in enumerate(parts)]
    joined = Segments.concatenate(copies, 0)
    assert len(joined.pages) <= MAX_PAGES + 1
    first = rows_of(joined)[0]
    assert first["offsets"] == [11, 33]
    forms = {int(form) for block in joined.blocks for form in block.column(6)}
    assert MISSING in forms
    assert len(joined.blocks) == 2  # constants have no source dimensions


def test_parts_without_elements_refer_to_nothing() -> None:
    empty = of_file("a").select([slice(0, 0), slice(None)])
    assert len(empty) == 0
    joined = Segments.concatenate([empty, of_file("b"), empty], 0)
    assert joined.shape == (4, 6)
    assert [s.key for s in joined.sources] == ["b"]
    assert Segments.concatenate([empty, empty], 1).shape == (0, 12)
    nothing = Segments.full((0, 3), 1, "i2")
    assert nothing.blocks == ()
    assert nothing.sources is NO_SOURCES


def test_renumbered() -> None:
    joined = Segments.concatenate([of_file("a"), Segments.full((4, 6), 0, "<i2"), of_file("b")], 0)
    table = Sources.of([source("z"), source("b"), source("a")])
    moved = joined.renumbered(table, np.array([2, 1]))
    assert [row["source"] for row in rows_of(moved)] == ["a", None, "b"]


def test_long_blocks_are_kept_column_by_column() -> None:
    parts = [of_file(f"f{n}", scale=n % 3) for n in range(5 * PACK_FROM)]
    joined = Segments.concatenate(parts, 0)
    (block,) = joined.blocks
    assert isinstance(block.columns, tuple)
    assert block.column(block.fields.chunk.start).strides == (0,)
    assert block.nbytes < 8 * len(block)
    few = joined.select([slice(3, 9), slice(None)])
    assert isinstance(few.blocks[0].columns, np.ndarray)
    assert len(few) == 3
    matrix = block.matrix()
    assert matrix.dtype == np.int64
    np.testing.assert_array_equal(matrix[4:6], block.matrix(slice(4, 6)))
    np.testing.assert_array_equal(matrix[[7, 1]], block.matrix(np.array([7, 1])))
    assert Block.of(Fields(2, 2), matrix).columns[0].tolist() == matrix[:, 0].tolist()


def test_under_forty_bytes_per_reference() -> None:
    parts = [of_file(f"f{n}", scale=n) for n in range(2000)]
    joined = Segments.concatenate(parts, 0)
    assert joined.nbytes / (2000 * 4) < 15
    flipped = joined.select([slice(None, None, -1), slice(None)])
    assert flipped.nbytes / (2000 * 4) < 20


# -- cutting -------------------------------------------------------------------------------------


@st.composite
def cut(draw: st.DrawFn) -> tuple[Segments, list[int]]:
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    parts = [of_file(chr(97 + n), shape=(size, 3)) for n, size in enumerate(lengths)]
    return Segments.concatenate(parts, 0), lengths


def owners(segments: Segments) -> list[tuple[str | None, int]]:
    """Source and source index of each index along the first dimension; all must be there once."""
    found: dict[int, tuple[str | None, int]] = {}
    for block in segments.blocks:
        fields = block.fields
        for row in block.matrix():
            name = segments.sources[row[SOURCE]].key
            axes = row[fields.axis].tolist()
            for offset in range(int(row[fields.shape][0])):
                step = int(row[fields.step][0]) if axes[0] == 0 else 0
                index = int(row[fields.start][0]) + offset
                assert index not in found
                found[index] = name, int(row[fields.first][0]) + step * offset
    assert sorted(found) == list(range(segments.shape[0]))
    return [found[index] for index in range(segments.shape[0])]


@settings(max_examples=200, deadline=None)
@given(cut(), st.data())
def test_runs_of_indices(given_: tuple[Segments, list[int]], data: st.DataObject) -> None:
    segments, _ = given_
    before = owners(segments)
    size = len(before)
    runs = []
    for _ in range(data.draw(st.integers(0, 5))):
        start, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
        step = data.draw(st.sampled_from([0, 1, 2, 3, 7]))
        count = abs(other - start) // step + 1 if step else data.draw(st.integers(0, 3))
        runs.append((start, step if other >= start else -step, count))
    taken = segments.take(0, runs)
    indices = [start + step * n for start, step, count in runs for n in range(count)]
    assert owners(taken) == [before[index] for index in indices]


@settings(max_examples=100, deadline=None)
@given(cut(), st.data())
def test_points_along_a_dimension(given_: tuple[Segments, list[int]], data: st.DataObject) -> None:
    segments, _ = given_
    before = owners(segments)
    index = st.integers(0, len(before) - 1)
    indices = np.array(data.draw(st.lists(index, max_size=6)), np.int64)
    chosen = segments.points({0: indices}, 0)
    assert chosen.shape == (len(indices), 3)
    assert owners(chosen) == [before[n] for n in indices]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=6),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6),
)
def test_meeting_finds_every_pair(
    intervals: list[tuple[int, int]], ranges: list[tuple[int, int]]
) -> None:
    start, length = np.array(intervals, np.int64).reshape(-1, 2).T
    low, high = np.sort(np.array(ranges, np.int64).reshape(-1, 2), axis=1).T
    one, other = meeting(start, length, low, high)
    expected = {
        (i, j)
        for i in range(len(start))
        for j in range(len(low))
        if low[j] < start[i] + length[i] and high[j] >= start[i]
    }
    found = list(zip(one.tolist(), other.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_wrong_chunk_shapes_are_refused() -> None:
    for chunks in [(2,), (0, 3), (2, 3, 4)]:
        with pytest.raises(ValueError, match="chunk shape"):
            Segments.of_source(
                NO_SOURCES,
                -1,
                (4, 6),
                chunks,
                Case(PLAIN, np.zeros(1, PLAIN.parameters)),
                References.missing(),
            )
