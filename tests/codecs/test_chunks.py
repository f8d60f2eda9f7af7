"""The bytes of presented chunks: what is packed comes back, and no hostile number gets through."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.codecs.cases import CaseTable, key_of
from intarsia.codecs.chunk_checks import check_disjoint, check_view, check_views
from intarsia.codecs.chunks import (
    CONSTANT,
    HEAD,
    MAX_PARTS,
    Parts,
    case_keys,
    decoded_nbytes,
    header_nbytes,
    pack,
    unpack,
)
from intarsia.encoding import Case, Codec, Encoding
from intarsia.errors import ChunkError, CorruptChunk, WrongLength
from intarsia.lookup import Touches
from intarsia.references import ABSENT, INLINE, STORED

BYTES = Encoding((), np.dtype("u1"))
SCALED = Encoding(
    (Codec.make("zlib"),),
    np.dtype("<i2"),
    (Codec.make("scale", dtype="<f4", scale=True, offset=False),),
    np.dtype([("raw_fill", "<i2"), ("scale", "<f8")]),
)
TABLE = CaseTable.of([BYTES, SCALED])
CASES = (
    Case(BYTES, np.arange(7).astype(BYTES.parameters)),
    Case(SCALED, np.array([(n, n / 10) for n in range(7)], SCALED.parameters)),
)
KEYS = case_keys([BYTES, SCALED])


def touched(rows: Sequence[dict[str, Any]], ndim: int) -> Touches:
    """Rows of a lookup; what is left out is that of a stored chunk of one element."""
    zero = [0] * ndim
    plain = {
        "segment": 0,
        "case": 0,
        "row": 0,
        "source": 0,
        "page": 0,
        "state": STORED,
        "offset": 0,
        "length": 1,
        "mask": 0,
        "elements": 1,
        "chunk": 0,
        "begin": 0,
        "strides": zero,
        "start": zero,
        "count": [1] * ndim,
    }
    filled = [plain | row for row in rows]
    columns = {name: np.array([row[name] for row in filled], np.int64) for name in plain}
    return Touches(**columns)


def equal(one: Parts, other: Parts) -> None:
    for name in ("key", "state", "mask", "elements", "begin", "strides", "start", "count"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    np.testing.assert_array_equal(one.nbytes, other.nbytes)
    np.testing.assert_array_equal(one.width, other.width)
    assert one.parameters == other.parameters


@st.composite
def cut(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[list[int], list[int]]]]:
    """A chunk, and boxes that don't overlap."""
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=3)))
    boxes = [([0] * len(shape), list(shape))]
    for _ in range(draw(st.integers(0, 6))):
        start, count = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        wide = [dim for dim, n in enumerate(count) if n > 1]
        if not wide:
            boxes.append((start, count))
            continue
        dim = draw(st.sampled_from(wide))
        at = draw(st.integers(1, count[dim] - 1))
        low, high = list(count), list(count)
        low[dim], high[dim] = at, count[dim] - at
        moved = list(start)
        moved[dim] += at
        boxes += [(start, low), (moved, high)]
    keep = draw(st.lists(st.booleans(), min_size=len(boxes), max_size=len(boxes)))
    kept = [box for box, wanted in zip(boxes, keep, strict=True) if wanted]
    return shape, draw(st.permutations(kept or boxes))


@st.composite
def lookups(draw: st.DrawFn) -> tuple[tuple[int, ...], Touches]:
    """A chunk, and what a lookup may find in it: crops, steps, flips, permutations, broadcasts."""
    shape, boxes = draw(cut())
    rows = []
    for start, count in boxes:
        strides, span = [0] * len(shape), 1
        for dim in draw(st.permutations(range(len(shape)))):
            step = draw(st.sampled_from([0, 1, 1, 2, -1, -3]))
            strides[dim] = step * span
            span *= abs(step) * (count[dim] - 1) + 1 + draw(st.integers(0, 2))
        begin = sum(-s * (n - 1) for s, n in zip(strides, count, strict=True) if s < 0)
        reach = begin + sum(s * (n - 1) for s, n in zip(strides, count, strict=True) if s > 0)
        rows.append(
            {
                "case": draw(st.integers(0, 1)),
                "row": draw(st.integers(0, 6)),
                "state": draw(st.sampled_from([STORED, INLINE, ABSENT])),
                "length": draw(st.integers(0, 1000)),
                "mask": draw(st.integers(0, 3)),
                "elements": reach + 1 + draw(st.integers(0, 3)),
                "begin": begin,
                "strides": strides,
                "start": start,
                "count": count,
            }
        )
    return shape, touched(rows, len(shape))


@settings(max_examples=150, deadline=None)
@given(lookups(), st.data())
def test_what_is_packed_comes_back(
    found: tuple[tuple[int, ...], Touches], data: st.DataObject
) -> None:
    shape, touches = found
    corner = tuple(data.draw(st.integers(-5, 5)) for _ in shape)
    moved = touched([], len(shape))
    moved = Touches(
        *(
            getattr(touches, name) + (np.array(corner, np.int64) if name == "start" else 0)
            for name in Touches.__dataclass_fields__
        )
    )
    parts = Parts.of(moved, CASES, KEYS, corner)
    header = pack(parts, shape)
    assert len(header) == parts.header_nbytes(shape) == header_nbytes(header[:HEAD])
    total = parts.total_nbytes(shape)
    again = unpack(header, shape, TABLE, total)
    equal(again, parts)
    assert [TABLE.encodings[n] for n in again.case] == [CASES[n].encoding for n in parts.case]
    assert pack(again, shape) == header
    # the header alone, and with what follows, and how far that reaches
    unpack(header, shape, TABLE)
    unpack(header + b"x" * 99, shape, TABLE, total)
    if not parts.covers(shape) or parts.state[0] == CONSTANT:
        for wrong in (total - 1, total + 1):  # the short form's bytes just reach to the end
            with pytest.raises(WrongLength):
                unpack(header, shape, TABLE, wrong)
    # rows of parameters
    for number in range(len(parts)):
        case, row = CASES[touches.case[number]], touches.row[number]
        own = again.rows(np.array([number]), case.encoding.parameters)
        assert own.tobytes() == case.rows[row].tobytes()


@settings(max_examples=100, deadline=None)
@given(lookups(), st.data())
def test_lookups_of_a_chunk_are_joined(
    found: tuple[tuple[int, ...], Touches], data: st.DataObject
) -> None:
    shape, touches = found
    at = data.draw(st.integers(0, len(touches)))
    names = Touches.__dataclass_fields__
    pieces = [
        Touches(*(getattr(touches, name)[piece] for name in names))
        for piece in (slice(0, at), slice(at, None))
    ]
    corner = (0,) * len(shape)
    joined = Parts.joined([Parts.of(piece, CASES, KEYS, corner) for piece in pieces])
    equal(joined, Parts.of(touches, CASES, KEYS, corner))


def test_the_bytes_are_these() -> None:
    one = touched([{"case": 1, "row": 3, "mask": 2, "elements": 6, "length": 5}], 2)
    one.strides[:], one.count[:] = [3, 1], [2, 3]
    key = bytes.fromhex(key_of(SCALED))
    row = struct.pack("<hd", 3, 0.3)
    body = key + struct.pack("<II4q", 2, 0, 6, 0, 3, 1)
    head = b"ISW\x01" + struct.pack("<IQ", 0, HEAD + len(body) + len(row))
    assert pack(Parts.of(one, CASES, KEYS, (0, 0)), (2, 3)) == head + body + row
    box = struct.pack("<5q", 0, 0, 2, 3, 5)
    head = b"ISW\x01" + struct.pack("<IQ", 1, HEAD + len(body) + len(box) + len(row))
    assert pack(Parts.of(one, CASES, KEYS, (0, 0)), (2, 4)) == head + body + box + row


def test_a_chunk_without_parts_is_not_written() -> None:
    none = Parts.of(touched([], 1), CASES, KEYS, (0,))
    with pytest.raises(ValueError, match="1 to"):
        pack(none, (3,))
    many = Parts.of(touched([{}] * (MAX_PARTS + 1), 1), CASES, KEYS, (0,))
    with pytest.raises(ValueError, match="1 to"):
        pack(many, (3,))


# -- hostile bytes ---------------------------------------------------------------------------------

BIG = [1 << 62, (1 << 63) - 1, -(1 << 63), -1, 1 << 32, (1 << 53) + 1]
SHAPE = (4, 6)


def full(**changes: Any) -> bytes:
    """A chunk of two parts of 12 elements; the second one has these numbers."""
    fields = {
        "key": bytes.fromhex(key_of(BYTES)),
        "mask": 0,
        "state": 0,
        "elements": 12,
        "begin": 0,
        "strides": (6, 1),
        "start": (2, 0),
        "count": (2, 6),
        "nbytes": 12,
    }
    first = dict(fields, start=(0, 0))
    body = b"".join(
        part["key"]
        + struct.pack(
            "<II9q",
            part["mask"],
            part["state"],
            part["elements"],
            part["begin"],
            *part["strides"],
            *part["start"],
            *part["count"],
            part["nbytes"],
        )
        for part in (first, fields | changes)
    )
    head = b"ISW\x01" + struct.pack("<IQ", 2, HEAD + len(body) + 2)
    return head + body + b"\x07\x08" + b"x" * 24


def short(**changes: Any) -> bytes:
    fields = {
        "key": bytes.fromhex(key_of(BYTES)),
        "mask": 0,
        "state": 0,
        "elements": 24,
        "begin": 0,
        "strides": (6, 1),
    } | changes
    body = fields["key"] + struct.pack(
        "<II4q",
        fields["mask"],
        fields["state"],
        fields["elements"],
        fields["begin"],
        *fields["strides"],
    )
    head = b"ISW\x01" + struct.pack("<IQ", 0, HEAD + len(body) + 1)
    return head + body + b"\x07" + b"x" * 24


@pytest.mark.parametrize("make", [full, short])
def test_these_are_sound(make: Any) -> None:
    data = make()
    parts = unpack(data, SHAPE, TABLE, len(data))
    assert len(parts) == (2 if make is full else 1)


WRONG: list[tuple[str, Any]] = [
    ("key", b"12345678"),
    ("state", 2),
    ("state", (1 << 32) - 1),
    *(("elements", n) for n in [0, *BIG]),
    *(("begin", n) for n in [13, *BIG]),
    *(("strides", (n, 1)) for n in [25, -6, *BIG]),
    *(("strides", (6, n)) for n in [-1, 24, *BIG]),
]


@pytest.mark.parametrize("make", [full, short])
@pytest.mark.parametrize(("name", "value"), WRONG)
def test_impossible_parts_are_refused(make: Any, name: str, value: Any) -> None:
    data = make(**{name: value})
    with pytest.raises(CorruptChunk):
        unpack(data, SHAPE, TABLE, len(data))


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        *(({"start": (n, 0)}, CorruptChunk, "not inside") for n in [3, 5, *BIG]),
        *(({"count": (2, n)}, CorruptChunk, "not inside") for n in [0, 7, *BIG]),
        *(({"start": (n, 0), "count": (n, 6)}, CorruptChunk, "not inside") for n in BIG),
        *(({"nbytes": n}, WrongLength, "bytes") for n in [0, 11, 13, *BIG]),
        ({"start": (1, 0)}, CorruptChunk, "parts 0 and 1 of 2 overlap"),
        ({"start": (0, 0)}, CorruptChunk, "overlap"),
        ({"state": 1}, CorruptChunk, "constant, but says"),
        (
            {"state": 1, "elements": 0, "strides": (0, 0)},
            WrongLength,
            "a constant part has bytes",
        ),
        ({"state": 1, "elements": 0, "strides": (0, 0), "nbytes": 0}, WrongLength, "holds"),
    ],
)
def test_impossible_boxes_and_lengths_are_refused(
    changes: Any, error: type[ChunkError], reason: str
) -> None:
    data = full(**changes)
    with pytest.raises(error, match=reason):
        unpack(data, SHAPE, TABLE, len(data))


@pytest.mark.parametrize(
    ("begin", "error"),
    [
        (b"", WrongLength),
        (b"ISW\x01", WrongLength),
        (b"ISW\x02" + struct.pack("<IQ", 1, 100), CorruptChunk),
        (b"\x89HDF" + struct.pack("<IQ", 1, 100), CorruptChunk),
        (b"ISW\x01" + struct.pack("<IQ", 1 << 20, 100), CorruptChunk),
        (b"ISW\x01" + struct.pack("<IQ", 1, 0), CorruptChunk),
        (b"ISW\x01" + struct.pack("<IQ", 1, 1 << 63), CorruptChunk),
        (b"ISW\x01" + struct.pack("<IQ", 1, 100), WrongLength),
        (b"ISW\x01" + struct.pack("<IQ", 3, 100) + b"x" * 100, CorruptChunk),
        (b"ISW\x01" + struct.pack("<IQ", 0, 17) + b"x" * 100, CorruptChunk),
        (full()[:4] + struct.pack("<IQ", 2, len(full()) - 24 + 1) + full()[16:], CorruptChunk),
        (short()[:4] + struct.pack("<IQ", 0, len(short()) - 24 + 1) + short()[16:], CorruptChunk),
        (full()[:50], WrongLength),
        (short()[:-24] + b"", None),
    ],
)
def test_impossible_headers_are_refused(begin: bytes, error: type[ChunkError] | None) -> None:
    if error is None:
        assert unpack(begin, SHAPE, TABLE).nbytes[0] == -1
        return
    with pytest.raises(error):
        unpack(begin, SHAPE, TABLE, len(begin))


def test_one_part_that_covers_the_chunk_has_the_short_form() -> None:
    one = full()
    record = (len(one) - HEAD - 2 - 24) // 2
    body = bytearray(one[HEAD : HEAD + record])
    body[-24:-8] = struct.pack("<2q", *SHAPE)
    head = b"ISW\x01" + struct.pack("<IQ", 1, HEAD + record + 1)
    with pytest.raises(CorruptChunk, match="short form"):
        unpack(head + body + b"\x07", SHAPE, TABLE)


def test_a_short_constant_has_no_bytes() -> None:
    sound = short(state=1, elements=0, strides=(0, 0))
    assert unpack(sound[:-24], SHAPE, TABLE, len(sound) - 24).nbytes[0] == 0
    assert unpack(sound[:-24], SHAPE, TABLE).nbytes[0] == 0
    with pytest.raises(WrongLength, match="constant"):
        unpack(sound, SHAPE, TABLE, len(sound))
    with pytest.raises(CorruptChunk, match="constant"):
        unpack(short(state=1), SHAPE, TABLE)


def test_any_bytes_are_parts_or_an_error() -> None:
    rng = random.Random(0)
    for make in (full, short):
        sound = make()
        for _ in range(1500):
            data = bytearray(sound)
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(data))
                if rng.random() < 0.5:
                    data[at] ^= 1 << rng.randrange(8)
                else:
                    number = struct.pack("<q", rng.choice([*BIG, 0, 1, 5, 1000]))
                    at = HEAD + 8 * rng.randrange((len(data) - HEAD) // 8)
                    data[at : at + 8] = number
            if rng.random() < 0.2:
                data = data[: rng.randrange(len(data))]
            try:
                parts = unpack(bytes(data), SHAPE, TABLE, len(data))
            except ChunkError:
                continue
            for number in range(len(parts)):
                inside(parts, number)


def inside(parts: Parts, number: int) -> None:
    """With Python's integers, which don't wrap around."""
    start, count = parts.start[number].tolist(), parts.count[number].tolist()
    for low, n, size in zip(start, count, SHAPE, strict=True):
        assert 0 <= low < low + n <= size
    if parts.state[number] == CONSTANT:
        return
    reach = [(n - 1) * s for n, s in zip(count, parts.strides[number].tolist(), strict=True)]
    begin = int(parts.begin[number])
    assert begin + sum(min(r, 0) for r in reach) >= 0
    assert begin + sum(max(r, 0) for r in reach) < int(parts.elements[number])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_views_are_checked_alike_one_or_many(data: st.DataObject) -> None:
    number = st.integers(-9, 9) | st.sampled_from(BIG)
    ndim = data.draw(st.integers(0, 3))
    count = [data.draw(st.integers(1, 5)) for _ in range(ndim)]
    elements, begin = data.draw(number), data.draw(number)
    strides = [0 if n == 1 else data.draw(number) for n in count]
    reach = [(n - 1) * s for n, s in zip(count, strides, strict=True)]
    low = begin + sum(min(r, 0) for r in reach)
    high = begin + sum(max(r, 0) for r in reach)
    sound = 1 <= elements <= (1 << 32) // 2 and 0 <= low <= begin <= high < elements

    def one() -> None:
        check_view(elements, 2, begin, strides, count)

    def many() -> None:
        shape = (1, ndim)
        check_views(
            np.array([elements]),
            np.array([2]),
            np.array([begin]),
            np.array(strides, np.int64).reshape(shape),
            np.array(count, np.int64).reshape(shape),
        )

    for check in (one, many):
        if sound:
            check()
        else:
            with pytest.raises(CorruptChunk):
                check()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_overlaps_are_found(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(0, 3))
    boxes = data.draw(
        st.lists(
            st.tuples(
                st.lists(st.integers(0, 4), min_size=ndim, max_size=ndim),
                st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim),
            ),
            min_size=1,
            max_size=5,
        )
    )
    low = np.array([start for start, _ in boxes], np.int64).reshape(len(boxes), ndim)
    high = low + np.array([count for _, count in boxes], np.int64).reshape(len(boxes), ndim)
    painted = np.zeros((7,) * ndim, int)
    for a, b in zip(low, high, strict=True):
        painted[tuple(slice(x, y) for x, y in zip(a, b, strict=True))] += 1
    if painted.max() > 1:
        with pytest.raises(CorruptChunk, match="overlap"):
            check_disjoint(low, high)
    else:
        check_disjoint(low, high)


def test_the_overlap_of_many_parts_is_found_in_bounded_time() -> None:
    # long thin boxes along two dimensions: along each, half of the pairs meet
    side = MAX_PARTS // 2
    low = np.zeros((2 * side, 3), np.int64)
    low[:side, 1] = low[side:, 0] = np.arange(side)
    low[side:, 2] = 1
    high = low + 1
    high[:side, 0] = high[side:, 1] = side
    check_disjoint(low, high)
    low[-1, 2] = 0
    with pytest.raises(CorruptChunk, match="overlap"):
        check_disjoint(low, high)


def test_a_chunk_that_nobody_can_hold_is_refused() -> None:
    assert decoded_nbytes((3, 4), 2) == prod((3, 4)) * 2
    with pytest.raises(CorruptChunk, match="would have"):
        decoded_nbytes((1 << 40, 1 << 40), 8)
