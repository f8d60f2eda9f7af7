"""The fallback decoder against datasets written and read by the HDF5 library."""

from __future__ import annotations

import multiprocessing
import threading

import h5py
import numpy as np
import pytest
from h5py import h5d, h5i, h5p, h5s, h5t, h5z

from intarsia.codecs import hdf5
from intarsia.codecs.hdf5 import decode, hdf5_codec, prepare
from intarsia.codecs.hdf5_filters import filter_name, remedy_for, unavailable
from intarsia.codecs.lzf import lzf_length, unlzf
from intarsia.errors import ChecksumMismatch, ChunkError, UnsupportedVariable, WrongLength


def szip(dcpl):
    dcpl.set_szip(h5z.SZIP_NN_OPTION_MASK, 8)


def lzf(dcpl):
    dcpl.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)


def nbit(dcpl):
    dcpl.set_filter(h5z.FILTER_NBIT)


def scaleoffset(dcpl):
    dcpl.set_scaleoffset(h5z.SO_INT, 0)


def decimals(dcpl):
    dcpl.set_scaleoffset(h5z.SO_FLOAT_DSCALE, 2)


def shuffle(dcpl):
    dcpl.set_shuffle()


def deflate(dcpl):
    dcpl.set_deflate(4)


def fletcher32(dcpl):
    dcpl.set_fletcher32()


class Written:
    """One chunk, written by the library, with what the scan would know of it."""

    def __init__(self, path, data, *filters, datatype=None, fill=None, mask=0):
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_chunk(data.shape)
        if fill is not None:
            dcpl.set_fill_value(np.array(fill, data.dtype))
        for add in filters:
            add(dcpl)
        datatype = h5t.py_create(data.dtype) if datatype is None else datatype
        with h5py.File(path, "w") as file:
            space = h5s.create_simple((2 * data.shape[0], *data.shape[1:]))
            dataset = h5d.create(file.id, b"x", datatype, space, dcpl)
            h5py.Dataset(dataset)[: data.shape[0]] = data
        with h5py.File(path, "r") as file:
            dataset = file["x"]
            self.values = dataset[: data.shape[0]]
            self.mask, self.stored = dataset.id.read_direct_chunk((0,) * data.ndim)
            dcpl = dataset.id.get_create_plist()
            self.pipeline = tuple(
                (number, flags, tuple(values), name.decode())
                for number, flags, values, name in map(dcpl.get_filter, range(dcpl.get_nfilters()))
            )
            self.codec = hdf5_codec(
                self.pipeline,
                dataset.id.get_type().encode(),
                data.shape,
                None if fill is None else np.array(fill, data.dtype).tobytes(),
            )

    def decoded(self, chunk=None):
        stored = self.stored if chunk is None else chunk
        return decode(self.codec, stored, self.mask, self.values.dtype, self.values.shape)


def numbers(dtype, shape=(16, 24)):
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


PIPELINES = [
    (szip,),
    (shuffle, szip),
    (szip, fletcher32),
    (lzf,),
    (shuffle, lzf, fletcher32),
    (nbit,),
    (nbit, deflate),
    (scaleoffset,),
    (scaleoffset, shuffle, deflate),
    (decimals,),
    (decimals, lzf),
]


@pytest.mark.parametrize("fill", [None, 7])
@pytest.mark.parametrize("dtype", ["<i2", ">i4", "u1", "<f4", ">f8"])
@pytest.mark.parametrize("filters", PIPELINES, ids=lambda fs: "-".join(f.__name__ for f in fs))
def test_what_hdf5_writes_is_decoded(tmp_path, filters, dtype, fill):
    data = numbers(dtype)
    if (scaleoffset in filters) != (data.dtype.kind in "iu") and filters[0] in (
        scaleoffset,
        decimals,
    ):
        pytest.skip("scaleoffset has a form for integers and one for floats")
    written = Written(tmp_path / "x.h5", data, *filters, fill=fill)
    decoded = written.decoded()
    assert decoded.dtype == written.values.dtype
    np.testing.assert_array_equal(decoded, written.values)


@pytest.mark.parametrize("filters", [(), (nbit,), (nbit, deflate), (deflate,)])
@pytest.mark.parametrize("order", ["LE", "BE"])
def test_integers_of_odd_precision(tmp_path, filters, order):
    datatype = getattr(h5t, f"STD_I32{order}").copy()
    datatype.set_precision(12)
    datatype.set_offset(4)
    data = numbers("i4") - 50
    written = Written(tmp_path / "x.h5", data, *filters, datatype=datatype)
    np.testing.assert_array_equal(written.decoded(), data)


@pytest.mark.parametrize("skipped", range(8))
def test_a_filter_mask_skips_filters(tmp_path, skipped):
    filters = (shuffle, lzf, deflate)
    data = numbers("<i4")
    kept = [f for i, f in enumerate(filters) if not skipped >> i & 1]
    stored = Written(tmp_path / "kept.h5", data, *kept).stored
    whole = Written(tmp_path / "all.h5", data, *filters)
    with h5py.File(tmp_path / "all.h5", "a") as file:
        file["x"].id.write_direct_chunk((0, 0), stored, skipped)
    with h5py.File(tmp_path / "all.h5") as file:
        np.testing.assert_array_equal(file["x"][:16], data)
    np.testing.assert_array_equal(decode(whole.codec, stored, skipped, "<i4", data.shape), data)


def test_the_result_takes_the_shape_asked_for(tmp_path):
    written = Written(tmp_path / "x.h5", numbers("<i4"), lzf)
    flat = decode(written.codec, written.stored, 0, "<i4", (16 * 24,))
    np.testing.assert_array_equal(flat, written.values.reshape(-1))


@pytest.mark.parametrize("filters", PIPELINES, ids=lambda fs: "-".join(f.__name__ for f in fs))
def test_a_chunk_cut_short_is_an_error(tmp_path, filters):
    data = numbers("<f4" if decimals in filters else "<i4")
    written = Written(tmp_path / "x.h5", data, *filters)
    if filters[-1] is szip:
        pytest.skip("szip does not tell, and libaec makes do with what there is")
    # the last bytes of scaleoffset and nbit may hold no bits
    for length in range(len(written.stored) - 2):
        with pytest.raises(ChunkError):
            written.decoded(written.stored[:length])
    np.testing.assert_array_equal(written.decoded(), written.values)


def test_a_flipped_bit_fails_the_checksum(tmp_path):
    written = Written(tmp_path / "x.h5", numbers("<i4"), shuffle, lzf, fletcher32)
    broken = bytearray(written.stored)
    broken[100] ^= 1
    with pytest.raises(ChecksumMismatch):
        written.decoded(bytes(broken))


@pytest.mark.parametrize("filters", [(lzf,), (szip,), (nbit,), (scaleoffset,), (lzf, fletcher32)])
def test_a_chunk_of_another_length_is_refused(tmp_path, filters):
    # The library itself returns what the memory held, or crashes.
    short = Written(tmp_path / "short.h5", numbers("<i4", (2, 24)), *filters)
    whole = Written(tmp_path / "x.h5", numbers("<i4"), *filters)
    with pytest.raises(WrongLength):
        whole.decoded(short.stored)
    with pytest.raises(WrongLength):
        whole.decoded(b"")


def test_garbage_is_an_error_or_values_never_a_crash(tmp_path):
    rng = np.random.default_rng(1)
    for filters in PIPELINES:
        data = numbers("<f4" if decimals in filters else "<i4")
        written = Written(tmp_path / "x.h5", data, *filters)
        for _ in range(50):
            broken = bytearray(written.stored)
            for position in rng.integers(0, len(broken), 3):
                broken[position] = rng.integers(0, 256)
            try:
                written.decoded(bytes(broken))
            except ChunkError as error:
                assert error.reason
        np.testing.assert_array_equal(written.decoded(), written.values)


@pytest.mark.parametrize("stored", [b"\x02\x01\x02\x03", b"", b"\x20\x00"])
def test_what_lzf_hands_on_is_measured(stored):
    # nbit would read on behind it, as far as the chunk should reach
    datatype = h5t.STD_I32BE.copy()
    datatype.set_precision(12)
    count = 1 << 16
    pipeline = (
        (5, 0, (8, 0, count, 1, 4, 1, 12, 0), "nbit"),
        (32000, 1, (4, 261, 4 * count), "lzf"),
    )
    codec = hdf5_codec(pipeline, datatype.encode(), (count,))
    with pytest.raises(ChunkError):
        decode(codec, stored, 0, ">i4", (count,))


def test_lzf_streams_are_what_the_library_wrote(tmp_path):
    rng = np.random.default_rng(3)
    for top in (1, 2, 3, 20, 200):
        for size in (1, 7, 300, 5000):
            data = rng.integers(0, top, size).astype("u1")
            data[size // 3 : size // 2] = 7
            written = Written(tmp_path / "x.h5", data, lzf)
            if written.mask:  # it grew, and so was stored as it is
                continue
            stream = memoryview(bytes(written.stored))
            assert lzf_length(stream) == size
            assert unlzf(stream, size) == data.tobytes()
            with pytest.raises(WrongLength):
                unlzf(stream, size - 1)
            with pytest.raises(WrongLength):
                unlzf(stream[:-1], size)


def test_the_file_in_memory_does_not_grow(tmp_path, monkeypatch):
    written = Written(tmp_path / "x.h5", numbers("<i4", (64, 64)), lzf)
    rng = np.random.default_rng(2)
    stored = []
    for top in (2, 100, 10_000, 2**30):
        data = rng.integers(0, top, (64, 64)).astype("<i4")
        other = Written(tmp_path / "y.h5", data, lzf)
        stored.append((other.stored, other.mask, data))
    assert [mask for _, mask, _ in stored] == [0, 0, 0, 1]  # the last can't be compressed
    for turn in range(400):
        chunk, mask, data = stored[turn * 7 % 4]
        np.testing.assert_array_equal(decode(written.codec, chunk, mask, "<i4", (64, 64)), data)
    (dataset, _) = hdf5._decoder(written.codec)._datasets.values()  # one for each mask
    assert h5i.get_file_id(dataset).get_filesize() < 1 << 20
    # ... and is made anew if it does
    monkeypatch.setattr(hdf5, "_GROWN", 0)
    for _ in range(1100):
        decode(written.codec, *stored[0][:2], "<i4", (64, 64))


def test_many_threads_decode_at_once(tmp_path):
    writtens = [
        Written(tmp_path / f"{i}.h5", numbers("<i4") + i, *filters)
        for i, filters in enumerate([(szip,), (szip,), (lzf,), (nbit,), (scaleoffset, deflate)])
    ]
    wrong = []

    def work(turn):
        for _ in range(50):
            for written in writtens[turn % 5 :] + writtens[: turn % 5]:
                equal = np.array_equal(written.decoded(), written.values)
                wrong.extend([] if equal else [turn])

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _child(codec, stored, shape, queue):
    queue.put(decode(codec, stored, 0, "<i4", shape).sum())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_decodes_too(tmp_path):
    written = Written(tmp_path / "x.h5", numbers("<i4"), szip)
    written.decoded()
    held = hdf5._decoder(written.codec)._lock
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with held:  # as another thread would at the moment of the fork
        child = context.Process(
            target=_child, args=(written.codec, written.stored, (16, 24), queue)
        )
        child.start()
    child.join(20)
    assert child.exitcode == 0
    assert queue.get() == written.values.sum()


def test_a_filter_that_is_not_there_is_named():
    pipeline = ((305, 0, (3,), "lzo"), (40_000, 0, (), "ours"))
    assert unavailable(pipeline) == list(pipeline)
    assert remedy_for(pipeline) == "install the HDF5 plug-in for LZO, ours (40000)"
    codec = hdf5_codec(pipeline, h5t.STD_I32LE.encode(), (4,))
    with pytest.raises(UnsupportedVariable, match=r"lacks the filter LZO, ours \(40000\)"):
        prepare(codec)


def test_parameters_that_the_library_does_not_reproduce_are_refused(tmp_path):
    written = Written(tmp_path / "x.h5", numbers("<i4"), scaleoffset, fill=7)
    other = hdf5_codec(written.pipeline, h5t.STD_I32LE.encode(), (16, 24), None)
    with pytest.raises(UnsupportedVariable, match="does not reproduce .* scaleoffset"):
        prepare(other)


def test_a_pipeline_that_the_library_refuses_is_named():
    szip_of_long_blocks = ((4, 0, (169, 64, 16, 16), "szip"),)
    codec = hdf5_codec(szip_of_long_blocks, h5t.STD_I32LE.encode(), (16,))
    with pytest.raises(UnsupportedVariable, match="can't make a dataset with the filters szip"):
        prepare(codec)


def test_codecs_of_files_that_differ_only_in_fill_are_equal(tmp_path):
    one = Written(tmp_path / "a.h5", numbers("<i4"), szip, fill=1)
    two = Written(tmp_path / "b.h5", numbers("<i4"), szip, fill=2)
    assert one.codec == two.codec
    assert hash(one.codec) == hash(two.codec)


def test_filters_have_names():
    assert filter_name(32004) == "lz4"
    assert filter_name(4242) == "number 4242"
