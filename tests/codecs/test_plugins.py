"""HDF5's plug-in filters undone without HDF5: as the plug-ins wrote, whatever a stranger sends."""

from __future__ import annotations

import bz2
import contextlib
import random
import shutil
import struct
import subprocess
import threading
import tracemalloc

import h5py
import hdf5plugin
import numpy as np
import pytest
import zarr
from h5py import h5d, h5p, h5s, h5t
from numcodecs import blosc, lz4, zstd

import intarsia
from intarsia.codecs import plugins
from intarsia.codecs.filters import decode_filters
from intarsia.codecs.hdf5_filters import native_codec
from intarsia.encoding import Codec
from intarsia.errors import ChecksumMismatch, ChunkError, CorruptChunk, WrongLength

PLUGINS = {
    "zstd": hdf5plugin.Zstd(),
    "zstd-22": hdf5plugin.Zstd(clevel=22),
    "zstd-fast": hdf5plugin.Zstd(clevel=-5),
    "lz4": hdf5plugin.LZ4(),
    "lz4-blocks": hdf5plugin.LZ4(nbytes=100),
    "bzip2": hdf5plugin.BZip2(),
    "blosc": hdf5plugin.Blosc(),
    "blosc-stored": hdf5plugin.Blosc(clevel=0),
    **{
        f"blosc-{name}-{shuffle}": hdf5plugin.Blosc(cname=name, shuffle=shuffle)
        for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
        for shuffle in (0, 1, 2)
    },
    **{
        f"bitshuffle-{name}-{elements}": hdf5plugin.Bitshuffle(nelems=elements, cname=name)
        for name in ("none", "lz4", "zstd")
        for elements in (0, 16, 256)
    },
}


class Written:
    """A chunk that the HDF5 library wrote, with its filters."""

    def __init__(self, values, *filters):
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk(values.shape)
        for name in filters:
            if name == "shuffle":
                creation.set_shuffle()
            elif name == "deflate":
                creation.set_deflate(4)
            elif name == "fletcher32":
                creation.set_fletcher32()
            else:
                one = PLUGINS[name]
                creation.set_filter(one.filter_id, 1, one.filter_options)
        with h5py.File.in_memory() as file:
            space = h5s.create_simple(values.shape)
            dataset = h5d.create(file.id, b"x", h5t.py_create(values.dtype), space, creation)
            dataset.write(h5s.ALL, h5s.ALL, values)
            dataset = h5py.Dataset(dataset)
            file.flush()
            self.mask, self.stored = dataset.id.read_direct_chunk((0,) * values.ndim)
            found = dataset.id.get_create_plist()
            pipeline = [found.get_filter(i) for i in range(found.get_nfilters())]
            self.read = dataset[()]
        itemsize = values.dtype.itemsize
        self.filters = tuple(native_codec(entry, itemsize) for entry in pipeline)
        self.nbytes = values.nbytes

    def decoded(self, chunk=None):
        chunk = self.stored if chunk is None else chunk
        return bytes(decode_filters(self.filters, chunk, self.mask, self.nbytes))


def numbers(dtype, count, top=60):
    if dtype.startswith("S"):
        return np.array([b"%d" % (i * 7) for i in range(count)], dtype)
    return np.random.default_rng(count).integers(0, top, count).astype(dtype)


@pytest.mark.parametrize("dtype", ["u1", ">i2", "S3", "<f4", "<f8", "<c16"])
@pytest.mark.parametrize("name", PLUGINS)
def test_what_the_plug_ins_write(name, dtype):
    for count in (1, 7, 8, 33, 300, 4100):
        values = numbers(dtype, count)
        written = Written(values, name)
        assert written.decoded() == values.tobytes()


@pytest.mark.parametrize("name", PLUGINS)
def test_what_can_not_be_compressed(name):
    values = np.random.default_rng(0).integers(0, 256, 2000).astype("u1")
    written = Written(values, name)
    assert written.decoded() == values.tobytes()


@pytest.mark.parametrize("name", ["zstd", "lz4-blocks", "bzip2", "blosc", "bitshuffle-lz4-0"])
@pytest.mark.parametrize(
    "filters",
    [
        ("shuffle", "*"),
        ("*", "fletcher32"),
        ("shuffle", "*", "fletcher32"),
        ("fletcher32", "shuffle", "*"),
        ("*", "shuffle", "deflate"),
        ("deflate", "*"),
        ("*", "lz4-blocks", "fletcher32", "bzip2"),
        ("lz4", "*", "deflate", "zstd"),
    ],
    ids="-".join,
)
def test_with_other_filters_in_any_order(name, filters):
    values = numbers("<i4", 999)
    written = Written(values, *[name if one == "*" else one for one in filters])
    assert written.read.tobytes() == values.tobytes()
    assert written.decoded() == values.tobytes()


def test_skipped_filters():
    values = numbers("<i4", 500)
    whole = Written(values, "shuffle", "zstd", "fletcher32")
    for mask in range(8):
        names = [n for i, n in enumerate(("shuffle", "zstd", "fletcher32")) if not mask >> i & 1]
        chunk = Written(values, *names).stored
        assert bytes(decode_filters(whole.filters, chunk, mask, 2000)) == values.tobytes()
    with pytest.raises(ChunkError):
        decode_filters(whole.filters, whole.stored, 2, 2000)
    with pytest.raises(ChecksumMismatch):
        decode_filters(whole.filters, whole.stored[:-1] + b"?", 0, 2000)


def test_bits_are_where_the_specification_says():
    """Bit b of byte k of element i is bit i mod 8 of byte (8 k + b) n / 8 + i // 8."""
    rng = random.Random(0)
    for size, block, count in ((1, 8, 8), (2, 16, 50), (3, 24, 100), (8, 8, 21)):
        data = bytes(rng.randrange(256) for _ in range(size * count))
        stored = bytearray(data)
        whole = count // 8 * 8
        for begin in range(0, whole, block):
            n = min(block, whole - begin)
            stored[begin * size : (begin + n) * size] = bytes(n * size)
            for i in range(n):
                for k in range(size):
                    for b in range(8):
                        bit = data[(begin + i) * size + k] >> b & 1
                        stored[begin * size + (8 * k + b) * n // 8 + i // 8] |= bit << i % 8
        out = plugins.unbitshuffle(stored, len(data), elementsize=size, blocksize=block)
        assert bytes(out) == data


# -- odd input -------------------------------------------------------------------------------------

DATA = numbers("<i4", 64).tobytes()
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"


def block(data, kind=0, *, last=False, size=None):
    """A block of a zstd frame: 0 raw, 1 one byte often, 2 compressed."""
    size = len(data) if size is None else size
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + data


def frame(data, size, *blocks, window=0x50):
    """A zstd frame with a length of so many bytes, or none; by default of one raw block."""
    flag = {0: 0, 2: 1, 4: 2, 8: 3}[size]
    told = (len(data) - (256 if size == 2 else 0)).to_bytes(size, "little") if size else b""
    head = struct.pack("<IBB", 0xFD2FB528, flag << 6, window) + told
    return head + (b"".join(blocks) or block(data, last=True))


def unstated(stored):
    """A frame of libzstd's that says how much it holds, which says it no more."""
    descriptor = stored[4]
    assert not descriptor & 3  # no dictionary
    single = descriptor >> 5 & 1
    size = (single, 2, 4, 8)[descriptor >> 6]
    start = 5 + (1 - single)
    window = bytes([0x88]) if single else stored[5:6]
    return stored[:4] + bytes([descriptor & 0b100]) + window + stored[start + size :]


@pytest.mark.parametrize("size", [0, 2, 4, 8])
def test_zstd_frames_say_their_length_in_many_ways(size):
    data = DATA * 2
    assert bytes(plugins.unzstd(frame(data, size), len(data))) == data


EMPTY = bytes(zstd.compress(b""))


def test_zstd_frames_one_after_another_are_joined():
    """As by libzstd, and so zarr-python: which is asked."""
    good = bytes(zstd.compress(DATA))
    for stream in (
        good + EMPTY,
        good + SKIPPABLE,
        SKIPPABLE + good,
        EMPTY + good,
        frame(DATA, 0) + SKIPPABLE + frame(b"", 0) + EMPTY,
        SKIPPABLE + SKIPPABLE + frame(DATA, 0),
        good + good,
        good + frame(DATA, 0),
        frame(DATA, 0) + good,
        unstated(good) + SKIPPABLE + frame(DATA, 4) + unstated(good),
    ):
        held = bytes(zstd.decompress(stream))
        assert set(held.split(DATA)) == {b""}
        for exact in (True, False):
            assert bytes(plugins.unzstd(stream, len(held), exact=exact)) == held
        assert bytes(plugins.unzstd(stream, len(held) + 9, exact=False)) == held
        for wrong in (len(held) - 1, len(held) + 1, 2 * len(held), len(held) - len(DATA) or 1):
            with pytest.raises(ChunkError):
                plugins.unzstd(stream, wrong)
        with pytest.raises(ChunkError):
            plugins.unzstd(stream, len(held) - 1, exact=False)
        for cut in range(len(stream)):
            with contextlib.suppress(ChunkError):
                assert bytes(plugins.unzstd(stream[:cut], len(held))) == held
                assert bytes(zstd.decompress(stream[:cut])) == held


def test_what_is_no_zstd_frame():
    good = bytes(zstd.compress(DATA))
    for wrong in (
        good + b"ab",
        frame(DATA, 0) + b"abcd",
        frame(DATA, 0, block(DATA)),  # no last one
        frame(DATA, 0, block(DATA, 3, last=True)),
        SKIPPABLE[:-1],
        SKIPPABLE + good[:-1],
        good[:-1],
        unstated(good)[:-1],
        b"\x22\xb5\x2f\xfd" + good[4:],  # of a version before the standard
        DATA,
    ):
        for exact in (True, False):
            with pytest.raises(CorruptChunk):
                plugins.unzstd(wrong, len(DATA), exact=exact)
    with pytest.raises(WrongLength):
        plugins.unzstd(b"", len(DATA))


def values_of(count):
    rng = np.random.default_rng(count)
    return np.cumsum(rng.integers(-3, 4, count)).astype("<i4")


@pytest.mark.parametrize("count", [1, 100, 60_000, 300_000])
@pytest.mark.parametrize("level", [1, 9, 19])
def test_compressed_blocks_in_frames_without_a_length(count, level):
    data = values_of(count).tobytes()
    stored = unstated(bytes(zstd.compress(data, level, checksum=level == 9)))
    assert bytes(zstd.decompress(stored)) == data
    for exact in (True, False):
        assert bytes(plugins.unzstd(stored, len(data), exact=exact)) == data
    for wrong in (len(data) - 1, len(data) + 1, 100 * len(data) + (1 << 20)):
        with pytest.raises(ChunkError):
            plugins.unzstd(stored, wrong)
    assert bytes(plugins.unzstd(stored, len(data) + 5000, exact=False)) == data
    whole = (Codec.make("zstd"), Codec.make("zstd"))  # the second sees what the first one made
    assert bytes(decode_filters(whole, frame(stored, 0), 0, len(data))) == data


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd")
def test_frames_of_a_program_that_streams():
    """It does not know how much there will be, so its frames don't say it."""
    data = values_of(200_000).tobytes()
    for options in ("-3", "-19", "-1 --no-check"):
        command = ["zstd", "-c", *options.split()]
        stored = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout
        assert not stored[4] >> 5  # no length
        assert bytes(plugins.unzstd(stored, len(data))) == data


def test_a_zarr_array_whose_frames_have_no_length(tmp_path):
    values = values_of(40_000).reshape(200, 200)
    array = zarr.create_array(
        tmp_path / "a.zarr/v", shape=values.shape, chunks=(200, 100), dtype="<i4",
        compressors=zarr.codecs.ZstdCodec(level=3), dimension_names=["y", "x"],
    )  # fmt: skip
    array[:] = values
    zarr.open_group(tmp_path / "a.zarr")
    for path in (tmp_path / "a.zarr/v/c/0").iterdir():
        path.write_bytes(unstated(path.read_bytes()))
    assert (zarr.open_array(tmp_path / "a.zarr/v")[:] == values).all()
    with intarsia.open_dataset(tmp_path / "a.zarr") as dataset:
        assert (dataset["v"].values == values).all()


def test_streams_that_could_hold_gigabytes_take_no_memory():
    """Runs and compressed blocks that hold 128 KiB each in a few bytes."""
    run = block(b"\0", 1, size=128 << 10)
    end = block(b"", last=True)
    compressed = unstated(bytes(zstd.compress(bytes(1 << 20))))
    first = compressed[6 : 6 + 3 + (int.from_bytes(compressed[6:9], "little") >> 3)]
    first = bytes([first[0] & ~1]) + first[1:]
    assert len(first) < 40
    assert len(zstd.decompress(frame(b"", 0, first, end, window=0x88))) == 128 << 10
    for stored in (frame(b"", 0, *[run] * 9999, end), frame(b"", 0, *[first] * 9999, end)):
        for exact in (True, False):
            tracemalloc.start()
            with pytest.raises(ChunkError):
                plugins.unzstd(stored, 1000, exact=exact)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
            tracemalloc.stop()
    for many in ([block(b"")] * 5000, [SKIPPABLE] * 5000, [EMPTY] * 5000):
        stored = frame(b"", 0, *many, end) if many[0] == block(b"") else b"".join(many)
        with pytest.raises(CorruptChunk, match="too many empty blocks"):
            plugins.unzstd(stored, 1000)
    with pytest.raises(WrongLength, match="holds 0 to 131072 bytes, expected 1099511627776"):
        plugins.unzstd(frame(b"", 0, first, end, window=0x88), 1 << 40)


def framed(data, block):
    """What HDF5's lz4 filter writes."""
    out = struct.pack(">QI", len(data), block)
    for begin in range(0, len(data), block):
        piece = data[begin : begin + block]
        stored = bytes(lz4.compress(piece))[4:]
        stored = stored if len(stored) < len(piece) else piece
        out += struct.pack(">I", len(stored)) + stored
    return out


def test_bytes_after_the_end_are_ignored_as_by_the_plug_ins():
    count = len(DATA)
    assert bytes(plugins.unlz4(framed(DATA, 100) + b"more", count)) == DATA
    assert bytes(plugins.unbzip2(bz2.compress(DATA) + b"more", count)) == DATA
    packed = bytes(blosc.compress(DATA, b"lz4", 5, 1))
    assert bytes(plugins.unblosc(packed + b"more", count)) == DATA
    written = Written(np.frombuffer(DATA, "<i4"), "bitshuffle-lz4-16")
    assert written.decoded(written.stored + b"more") == DATA


def test_a_second_bzip2_stream_is_not_read():
    with pytest.raises(WrongLength):
        plugins.unbzip2(bz2.compress(DATA[:100]) + bz2.compress(DATA[100:]), len(DATA))


@pytest.mark.parametrize("length", [len(DATA) - 1, len(DATA) + 1, len(DATA) // 2, 4 * len(DATA)])
def test_other_lengths_are_errors(length):
    bits = Written(np.frombuffer(DATA, "<i4"), "bitshuffle-zstd-16")
    for undo, chunk in (
        (plugins.unzstd, zstd.compress(DATA)),
        (plugins.unlz4, framed(DATA, 60)),
        (plugins.unbzip2, bz2.compress(DATA)),
        (plugins.unblosc, blosc.compress(DATA, b"zstd", 5, 1)),
        (bits.filters[0], bits.stored),
    ):
        with pytest.raises(WrongLength):
            if isinstance(undo, Codec):
                decode_filters((undo,), chunk, 0, length)
            else:
                undo(chunk, length)
        if length > len(DATA) and not isinstance(undo, Codec):
            assert bytes(undo(chunk, length, exact=False)) == DATA


def test_streams_that_claim_gigabytes_take_no_memory():
    huge = (1 << 40) - 8
    claims = (
        (plugins.unzstd, struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x50, huge) + DATA),
        (plugins.unlz4, struct.pack(">QI", huge, 1 << 30) + DATA),
        (plugins.unblosc, struct.pack("<4BIII", 2, 1, 1, 4, (1 << 32) - 1, 64, 80) + DATA),
        (plugins.unbzip2, bz2.compress(bytes(1 << 26))),
        (
            lambda chunk, n: plugins.unbitshuffle(chunk, n, elementsize=4, compressor="lz4"),
            struct.pack(">QI", huge, 8192) + DATA,
        ),
        (  # blocks that claim more than they hold
            lambda chunk, n: plugins.unbitshuffle(chunk, n, elementsize=4, compressor="zstd"),
            struct.pack(">QII", len(DATA), 8192, 14)
            + struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x50, huge),
        ),
    )
    for undo, chunk in claims:
        tracemalloc.start()
        with pytest.raises(ChunkError):
            undo(chunk, len(DATA))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("undo", "chunk", "reason"),
    [
        (plugins.unlz4, struct.pack(">QI", 256, 0) + DATA, "blocks of no bytes"),
        (plugins.unlz4, struct.pack(">QII", 256, 256, 999) + DATA, "ends after 0 of 256"),
        (plugins.unlz4, struct.pack(">QII", 256, 128, 128) + DATA[:128], "ends after 128 of 256"),
        (plugins.unlz4, struct.pack(">QII", 256, 256, 0) + DATA, "lz4 stream is broken"),
        (plugins.unlz4, b"short", "too few"),
        (plugins.unblosc, b"short", "too few"),
        (plugins.unblosc, struct.pack("<4BIII", 2, 1, 1, 4, 256, 64, 999) + DATA, "is cut to"),
        (plugins.unblosc, struct.pack("<4BIII", 2, 1, 0x41, 4, 256, 256, 200) + DATA, "broken"),
        (plugins.unbzip2, b"", "ends after 0 of 256"),
        (plugins.unbzip2, DATA, "is broken"),
    ],
)
def test_impossible_streams(undo, chunk, reason):
    with pytest.raises(CorruptChunk, match=reason):
        undo(chunk, 256)


@pytest.mark.parametrize(
    ("options", "chunk", "kind"),
    [
        ({"elementsize": 4, "compressor": "lz4"}, struct.pack(">QI", 256, 0) + DATA, CorruptChunk),
        ({"elementsize": 4, "compressor": "lz4"}, struct.pack(">QI", 256, 48) + DATA, CorruptChunk),
        ({"elementsize": 3, "compressor": "lz4"}, struct.pack(">QI", 256, 24) + DATA, WrongLength),
        ({"elementsize": 3, "blocksize": 8}, DATA, WrongLength),
        ({"elementsize": 4, "blocksize": 12}, DATA, CorruptChunk),
        ({"elementsize": 1 << 20, "compressor": "lz4"}, b"", CorruptChunk),
        (
            {"elementsize": 100, "compressor": "lz4"},
            struct.pack(">QI", 200, 800) + DATA[:100],
            CorruptChunk,
        ),
    ],
)
def test_impossible_bitshuffle(options, chunk, kind):
    with pytest.raises(kind):
        plugins.unbitshuffle(chunk, 200 if options["elementsize"] == 100 else 256, **options)


@pytest.mark.parametrize("name", [n for n in PLUGINS if not n.startswith("blosc-blosclz-")])
def test_damaged_chunks_are_errors_or_of_the_right_length(name):
    rng = random.Random(name)
    written = Written(numbers("<i4", 200), name)
    for _ in range(150):
        data = bytearray(written.stored)
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.7:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            else:
                at = rng.randrange(min(len(data), 20))
                data[at : at + 4] = rng.choice([b"\xff" * 4, bytes(4), b"\x7f" + b"\xff" * 3])
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        with contextlib.suppress(ChunkError):
            assert len(written.decoded(bytes(data))) == 800


def test_every_cut_is_an_error():
    for name in ("zstd", "lz4-blocks", "bzip2", "blosc", "bitshuffle-lz4-16", "bitshuffle-zstd-16"):
        written = Written(numbers("<i4", 44), name)
        for end in range(len(written.stored)):
            with pytest.raises(ChunkError):
                written.decoded(written.stored[:end])


def test_many_threads_decode_at_once():
    writtens = [Written(numbers("<i4", 3000 + i), name) for i, name in enumerate(PLUGINS)]
    wrong = []

    def work():
        wrong.extend(w.filters for w in writtens if w.decoded() != w.read.tobytes())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- parameters of files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "codec"),
    [
        ((32015, 0, (3,), ""), "zstd"),
        ((32004, 0, (0,), ""), "lz4"),
        ((307, 0, (9,), ""), "bz2"),
        ((32001, 0, (2, 2, 4, 400, 5, 1, 1), ""), "blosc"),
        ((32001, 0, (2, 2, 4, 400), ""), "blosc"),
        ((32008, 0, (0, 4, 4, 0, 2), ""), "bitshuffle(compressor=lz4, elementsize=4)"),
        ((32008, 0, (0, 4, 4, 64, 3, 1), ""), "bitshuffle(compressor=zstd, elementsize=4)"),
        ((32008, 0, (0, 4, 4), ""), "bitshuffle(blocksize=2048, elementsize=4)"),
        ((32008, 0, (0, 4, 3, 0, 0), ""), "bitshuffle(blocksize=2728, elementsize=3)"),
        ((32008, 0, (0, 4, 500, 0), ""), "bitshuffle(blocksize=128, elementsize=500)"),
        ((32008, 0, (0, 4, 4, 64, 0), ""), "bitshuffle(blocksize=64, elementsize=4)"),
        ((2, 0, (), ""), "shuffle(elementsize=7)"),
    ],
)
def test_codecs_of_filters(entry, codec):
    assert str(native_codec(entry, 7)) == codec


@pytest.mark.parametrize(
    "entry",
    [
        (32001, 0, (2, 2, 4, 400, 5, 1, 3), "blosc"),  # snappy
        (32008, 0, (0, 4), "bitshuffle"),
        (32008, 0, (0, 4, 0, 0, 2), "bitshuffle"),
        (32008, 0, (0, 4, 1 << 30, 0, 2), "bitshuffle"),
        (32008, 0, (0, 4, 4, 12), "bitshuffle"),
        (32008, 0, (0, 4, 4, 0, 7), "bitshuffle"),
        (32013, 0, (), "zfp"),
        (32000, 0, (), "lzf"),
        (4, 0, (), "szip"),
    ],
)
def test_filters_that_are_left_to_the_library(entry):
    assert native_codec(entry, 4) is None
