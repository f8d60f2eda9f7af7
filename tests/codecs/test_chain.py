"""What the engine and `switch` share: compiled filters, constants, and boxes put in their place."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from h5py import h5t
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.codecs.chain import chain, constants, groups, place, values, view
from intarsia.codecs.hdf5 import hdf5_codec
from intarsia.encoding import Codec, Encoding
from intarsia.errors import UnsupportedVariable, UpstreamFault, WrongLength
from tests.codecs.test_chunks import cut

SHUFFLE, ZLIB = Codec.make("shuffle", elementsize=4), Codec.make("zlib")


def shuffled(data: np.ndarray) -> bytes:
    return data.view("u1").reshape(data.size, -1).T.tobytes()


@pytest.mark.parametrize("mask", range(4))
@pytest.mark.parametrize("filters", [(SHUFFLE, ZLIB), (ZLIB, SHUFFLE), (ZLIB,), (SHUFFLE,), ()])
def test_chunks_are_decoded_together(filters: tuple[Codec, ...], mask: int) -> None:
    chunks = np.arange(24, dtype=">i4").reshape(3, 8)
    stored = []
    for chunk in chunks:
        data = chunk.tobytes()
        for number, codec in enumerate(filters):
            if not mask >> number & 1:
                raw = np.frombuffer(data, "u1")
                whole = len(raw) // 4 * 4
                data = (
                    zlib.compress(data)
                    if codec is ZLIB
                    else raw[:whole].reshape(-1, 4).T.tobytes() + data[whole:]
                )
        stored.append(data)
    links = chain(Encoding(filters, chunks.dtype), mask, 32)
    joined = links.join([links.undo(data) for data in stored])
    assert joined.dtype == chunks.dtype
    np.testing.assert_array_equal(joined, chunks)


def test_chains_are_compiled_once() -> None:
    encoding = Encoding((SHUFFLE, ZLIB), np.dtype("<f4"))
    again = Encoding((SHUFFLE, ZLIB), np.dtype("<f4"))
    assert chain(encoding, 0, 64) is chain(again, 0, 64)


def test_what_can_t_be_read_says_so_before_any_bytes_are_seen() -> None:
    for kind, error in (("fault", UpstreamFault), ("unsupported", UnsupportedVariable)):
        refused = Codec.make("refused", kind=kind, reason="because", remedy="do this")
        with pytest.raises(error, match="because; do this"):
            chain(Encoding((refused,), np.dtype("u1")), 0, 8)
    with pytest.raises(UnsupportedVariable, match="no decoder for the filter lzo"):
        chain(Encoding((Codec.make("lzo"),), np.dtype("u1")), 0, 8)


def test_chunks_of_the_hdf5_library_have_one_length() -> None:
    codec = hdf5_codec(((2, 0, (4,), ""), (1, 0, (1,), "")), h5t.STD_I32LE.encode(), (2, 3))
    encoding = Encoding((codec,), np.dtype("<i4"))
    data = np.arange(6, dtype="<i4")
    links = chain(encoding, 0, 24)
    joined = links.join([links.undo(zlib.compress(shuffled(data)))] * 2)
    np.testing.assert_array_equal(joined, np.stack([data, data]))
    with pytest.raises(WrongLength, match="can't have 28 bytes"):
        chain(encoding, 0, 28)


def test_constants_are_the_fill_decoded() -> None:
    steps = (
        Codec.make("mask", dtype="<f4", fills=1, value="nan"),
        Codec.make("scale", dtype="<f4", scale=True, offset=False),
    )
    fields = [("raw_fill", ">i2"), ("fill_0", "<i2"), ("scale", "<f8")]
    encoding = Encoding((), np.dtype(">i2"), steps, np.dtype(fields))
    rows = np.array([(7, 7, 0.5), (7, 8, 0.5), (-3, 8, 2.0)], encoding.parameters)
    np.testing.assert_array_equal(constants(encoding, rows), np.array([np.nan, 3.5, -6], "f4"))
    stored = np.array([[7, 1], [7, 1], [8, 2]], ">i2")
    decoded = values(encoding, stored, rows)
    np.testing.assert_array_equal(decoded, [[np.nan, 0.5], [3.5, 0.5], [np.nan, 4]])
    plain = Encoding((), np.dtype(">i2"))
    assert values(plain, stored, rows) is stored


@settings(max_examples=60, deadline=None)
@given(boxes=cut(), data=st.data())
def test_boxes_are_put_in_their_place(boxes: Any, data: st.DataObject) -> None:
    shape, pieces = boxes
    out, expected = np.zeros(shape), np.zeros(shape)
    source = np.arange(1, 300, dtype=">i2")
    steps = np.array([step // 8 for step in out.strides], np.int64)
    strides = [[data.draw(st.integers(-5, 5)) for _ in shape] for _ in pieces]
    for (start, count), strided in zip(pieces, strides, strict=True):
        for index in np.ndindex(*count):
            place_of = tuple(a + i for a, i in zip(start, index, strict=True))
            expected[place_of] = source[150 + sum(np.multiply(strided, index))]
    wide = (len(pieces), len(shape))
    starts = np.array([start for start, _ in pieces], np.int64).reshape(wide)
    place(
        out.reshape(-1),
        steps,
        starts @ steps,
        source,
        np.full(len(pieces), 150),
        np.array([count for _, count in pieces], np.int64).reshape(wide),
        np.array(strides, np.int64).reshape(wide),
    )
    np.testing.assert_array_equal(out, expected)


def test_small_boxes_of_one_shape_are_put_together() -> None:
    out, source = np.zeros((6, 4)), np.arange(24)
    place(
        out.reshape(-1),
        np.array([4, 1]),
        np.arange(6) * 4,
        source,
        np.arange(6)[::-1] * 4 + 3,
        np.tile([1, 4], (6, 1)),
        np.tile([0, -1], (6, 1)),
    )
    np.testing.assert_array_equal(out, np.arange(24).reshape(6, 4)[::-1, ::-1])


def test_a_view_over_the_edge_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="reaches from"):
        view(np.arange(5), 3, (3,), [1])
    with pytest.raises(AssertionError, match="reaches from"):
        view(np.arange(5), 1, (3,), [-1])


def test_rows_are_grouped_by_what_they_are() -> None:
    keys = np.array([[1, 2], [3, 4], [1, 2], [0, 9]])
    found = sorted(sorted(group.tolist()) for group in groups(keys))
    assert found == [[0, 2], [1], [3]]
    assert [group.tolist() for group in groups(keys[:1])] == [[0]]
