"""Deflate, shuffle and fletcher32 against the HDF5 library, byte for byte."""

from __future__ import annotations

import contextlib
import random
import threading
import zlib

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.codecs.filters import (
    decode_filters,
    fletcher32,
    inflate,
    unshuffle,
    unshuffle_batch,
)
from intarsia.encoding import Codec
from intarsia.errors import ChecksumMismatch, CorruptChunk, UnsupportedVariable, WrongLength

ZLIB = Codec.make("zlib")
FLETCHER = Codec.make("fletcher32")


def shuffle(elementsize):
    return Codec.make("shuffle", elementsize=elementsize)


class Hdf5:
    """One chunk written by the HDF5 library with the filters it is given, and its stored bytes."""

    def __init__(self, data, **options):
        self.file = h5py.File.in_memory()
        self.dataset = self.file.create_dataset("x", data=data, chunks=data.shape, **options)
        self.file.flush()
        self.mask, self.stored = self.dataset.id.read_direct_chunk((0,) * data.ndim)


@pytest.mark.parametrize("dtype", ["u1", "<i2", ">i2", "<f4", ">f8", "S3", "c16"])
@pytest.mark.parametrize("shape", [(1,), (7,), (300,), (40, 51)])
@pytest.mark.parametrize(
    "names", ["zlib", "shuffle", "fletcher32", "shuffle zlib", "shuffle zlib fletcher32"]
)
def test_what_hdf5_writes_is_decoded(dtype, shape, names):
    data = np.random.default_rng(0).integers(0, 50, shape).astype(dtype)
    names = names.split()
    options = {"shuffle": "shuffle" in names, "fletcher32": "fletcher32" in names}
    if "zlib" in names:
        options["compression"] = "gzip"
    written = Hdf5(data, **options)
    dcpl = written.dataset.id.get_create_plist()
    known = {1: ZLIB, 2: shuffle(data.dtype.itemsize), 3: FLETCHER}
    chain = tuple(known[dcpl.get_filter(i)[0]] for i in range(dcpl.get_nfilters()))
    assert {codec.name for codec in chain} == set(names)
    decoded = decode_filters(chain, written.stored, written.mask, data.nbytes)
    assert bytes(decoded) == data.tobytes()


@given(data=st.binary(max_size=64), elementsize=st.integers(1, 20))
def test_shuffle_leaves_a_fractional_last_element_as_hdf5_does(data, elementsize):
    whole = len(data) // elementsize * elementsize
    planes = np.frombuffer(data[:whole], np.uint8).reshape(-1, elementsize).T.tobytes()
    assert bytes(unshuffle(planes + data[whole:], elementsize)) == data


@pytest.mark.parametrize("elementsize", [1, 2, 3, 4, 8, 16, 100, 512, 1000])
@pytest.mark.parametrize("nbytes", [0, 1, 512, 515])
def test_shuffle_of_many_chunks_is_that_of_each(elementsize, nbytes):
    buffer = np.random.default_rng(1).integers(0, 256, (5, nbytes), np.uint8)
    batch = unshuffle_batch(buffer, elementsize)
    assert batch.shape == buffer.shape
    for chunk, expected in zip(buffer, batch, strict=True):
        assert bytes(unshuffle(chunk.tobytes(), elementsize)) == expected.tobytes()


def slow_fletcher32(data: bytes) -> int:
    """H5_checksum_fletcher32 as the HDF5 library spells it."""
    first = second = 0
    words = [data[i] << 8 | data[i + 1] for i in range(0, len(data) - 1, 2)]
    for start in range(0, len(words), 360):
        for word in words[start : start + 360]:
            first += word
            second += first
        first = (first & 0xFFFF) + (first >> 16)
        second = (second & 0xFFFF) + (second >> 16)
    if len(data) % 2:
        first += data[-1] << 8
        second += first
        first = (first & 0xFFFF) + (first >> 16)
        second = (second & 0xFFFF) + (second >> 16)
    first = (first & 0xFFFF) + (first >> 16)
    second = (second & 0xFFFF) + (second >> 16)
    return second << 16 | first


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 719, 720, 721, 32767, 32768, 32770, 70001])
@pytest.mark.parametrize("content", ["random", "zeros", "ones", "last"])
def test_fletcher32_is_that_of_hdf5(size, content):
    data = {
        "random": random.Random(size).randbytes(size),
        "zeros": bytes(size),
        "ones": b"\xff" * size,
        "last": (bytes(size) + b"\x01")[-size:] if size else b"",
    }[content]
    assert fletcher32(data) == slow_fletcher32(data)


def test_fletcher32_of_a_large_chunk_written_by_hdf5():
    data = np.random.default_rng(2).integers(0, 256, 4_000_001, np.uint8)
    written = Hdf5(data, fletcher32=True)
    assert bytes(decode_filters((FLETCHER,), written.stored, 0, data.nbytes)) == data.tobytes()


def test_fletcher32_accepts_the_swapped_form_of_old_files():
    data = b"an old file "
    stored = fletcher32(data).to_bytes(4, "little")
    swapped = bytes([stored[1], stored[0], stored[3], stored[2]])
    chunk = data + swapped
    assert bytes(decode_filters((FLETCHER,), chunk, 0, len(data))) == data
    # ... and so does HDF5
    with h5py.File.in_memory() as file:
        dataset = file.create_dataset("x", (len(data),), "u1", chunks=(len(data),), fletcher32=True)
        dataset.id.write_direct_chunk((0,), chunk)
        assert dataset[:].tobytes() == data


@pytest.mark.parametrize("position", [0, 5, 11, 12, 15])
def test_a_flipped_bit_fails_the_checksum(position):
    data = b"twelve bytes"
    chunk = bytearray(data + fletcher32(data).to_bytes(4, "little"))
    chunk[position] ^= 4
    with pytest.raises(ChecksumMismatch, match="fletcher32"):
        decode_filters((FLETCHER,), bytes(chunk), 0, len(data))


@pytest.mark.parametrize("mask", range(8))
def test_a_filter_mask_skips_filters(mask):
    data = np.arange(1000, dtype="<i4").tobytes()
    chain = (shuffle(4), ZLIB, FLETCHER)
    stored = data
    if not mask & 1:
        stored = np.frombuffer(stored, np.uint8).reshape(-1, 4).T.tobytes()
    if not mask & 2:
        stored = zlib.compress(stored)
    if not mask & 4:
        stored += fletcher32(stored).to_bytes(4, "little")
    assert bytes(decode_filters(chain, stored, mask, len(data))) == data


def test_filters_in_another_order():
    data = np.arange(1000, dtype="<i4").tobytes()
    summed = data + fletcher32(data).to_bytes(4, "little")
    shuffled = np.frombuffer(summed, np.uint8).reshape(-1, 4).T.tobytes()
    twice = zlib.compress(zlib.compress(shuffled))
    chain = (FLETCHER, shuffle(4), ZLIB, ZLIB)
    assert bytes(decode_filters(chain, twice, 0, len(data))) == data


def test_bytes_after_the_stream_are_ignored_as_by_hdf5():
    data = bytes(range(100))
    chunk = zlib.compress(data) + b"padding"
    assert inflate(chunk, 100) == data
    with h5py.File.in_memory() as file:
        dataset = file.create_dataset("x", (100,), "u1", chunks=(100,), compression="gzip")
        dataset.id.write_direct_chunk((0,), chunk)
        assert dataset[:].tobytes() == data


@pytest.mark.parametrize("size", [99, 101, 0])
def test_another_length_is_refused(size):
    with pytest.raises(WrongLength, match="100"):
        inflate(zlib.compress(bytes(size)), 100)
    with pytest.raises(WrongLength, match="100"):
        decode_filters((), bytes(size), 0, 100)
    with pytest.raises(WrongLength):
        decode_filters((FLETCHER,), b"123", 0, 100)


def test_a_bomb_does_not_expand():
    import tracemalloc

    bomb = zlib.compress(bytes(100 << 20), 9)
    tracemalloc.start()
    with pytest.raises(WrongLength, match="more than the expected 512"):
        decode_filters((shuffle(2), ZLIB), bomb, 0, 512)
    twice = zlib.compress(bomb)
    with pytest.raises(WrongLength, match="more than"):
        decode_filters((ZLIB, ZLIB), twice, 0, 512)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


def test_a_broken_stream_is_never_other_bytes():
    data = bytes(random.Random(3).choices(b"abcd\0\0\0\0", k=400))
    stream = zlib.compress(data)
    for bit in range(8 * len(stream)):
        broken = bytearray(stream)
        broken[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(CorruptChunk, WrongLength):
            assert inflate(bytes(broken), len(data)) == data
    for length in range(len(stream)):
        with pytest.raises(CorruptChunk):
            inflate(stream[:length], len(data))


def test_any_buffer_is_decoded():
    data = np.arange(100, dtype="<i2").tobytes()
    chunk = zlib.compress(np.frombuffer(data, np.uint8).reshape(-1, 2).T.tobytes())
    chain = (shuffle(2), ZLIB)
    for form in (bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8)):
        assert bytes(decode_filters(chain, form(chunk), 0, len(data))) == data


def test_an_unknown_filter_is_named():
    with pytest.raises(UnsupportedVariable, match="lzo"):
        decode_filters((Codec.make("lzo"),), b"", 0, 0)


def test_many_threads_decode_at_once():
    rng = np.random.default_rng(4)
    chunks = [rng.integers(0, 9, 20_000).astype("<i4") for _ in range(8)]
    stored = [Hdf5(chunk, compression="gzip", shuffle=True).stored for chunk in chunks]
    wrong = []

    def work():
        for _ in range(20):
            for chunk, data in zip(stored, chunks, strict=True):
                out = decode_filters((shuffle(4), ZLIB), chunk, 0, data.nbytes)
                if bytes(out) != data.tobytes():
                    wrong.append(True)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
