"""Filter pipelines and chunks that skip some of them, as the HDF5 library decodes them."""

from __future__ import annotations

import os
import zlib

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t, h5z

from intarsia.codecs.filters import decode_filters, fletcher32
from intarsia.errors import ChecksumMismatch, ChunkError, UnsupportedVariable
from intarsia.scan.hdf5 import scan
from tests.scan.store import assert_as_xarray, opaque, virtual

ADD = {
    "shuffle": lambda dcpl: dcpl.set_shuffle(),
    "deflate": lambda dcpl: dcpl.set_deflate(5),
    "fletcher32": lambda dcpl: dcpl.set_fletcher32(),
    "szip": lambda dcpl: dcpl.set_szip(h5z.SZIP_NN_OPTION_MASK, 8),
    "lzf": lambda dcpl: dcpl.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL),
    "nbit": lambda dcpl: dcpl.set_filter(h5z.FILTER_NBIT),
    "scaleoffset": lambda dcpl: dcpl.set_scaleoffset(h5z.SO_INT, 0),
    "decimals": lambda dcpl: dcpl.set_scaleoffset(h5z.SO_FLOAT_DSCALE, 3),
}


def write(path, values, *filters, fill=None, chunks=(4, 6), libver="earliest"):
    dcpl = h5p.create(h5p.DATASET_CREATE)
    dcpl.set_chunk(chunks)
    for name in filters:
        ADD[name](dcpl)
    if fill is not None:
        dcpl.set_fill_value(np.array(fill, values.dtype))
    with h5py.File(path, "w", libver=libver) as file:
        kind = h5t.py_create(values.dtype)
        dataset = h5d.create(file.id, b"x", kind, h5s.create_simple(values.shape), dcpl)
        h5py.Dataset(dataset)[: values.shape[0] - 3] = values[:-3]


@pytest.mark.parametrize("fill", [None, 9])
@pytest.mark.parametrize("dtype", ["<i2", ">i4", "u1", ">f4", "<f8"])
@pytest.mark.parametrize(
    "filters",
    [
        ("shuffle",),
        ("deflate",),
        ("fletcher32",),
        ("shuffle", "deflate"),
        ("shuffle", "deflate", "fletcher32"),
        ("fletcher32", "shuffle", "deflate"),
        ("deflate", "shuffle", "deflate"),
        ("szip",),
        ("shuffle", "szip", "fletcher32"),
        ("lzf",),
        ("shuffle", "lzf"),
        ("nbit",),
        ("scaleoffset", "shuffle", "deflate"),
        ("decimals",),
    ],
    ids="-".join,
)
def test_pipelines(tmp_path, filters, dtype, fill):
    whole = np.dtype(dtype).kind in "iu"
    if ("scaleoffset" in filters and not whole) or ("decimals" in filters and whole):
        pytest.skip("scaleoffset has a form for integers and one for floats")
    path = tmp_path / "x.h5"
    values = np.random.default_rng(0).integers(0, 100, (11, 13)).astype(dtype)
    write(path, values, *filters, fill=fill)
    virtual(assert_as_xarray(path))


def test_native_filters_are_named_in_order(tmp_path):
    path = tmp_path / "x.h5"
    write(path, np.zeros((9, 9), "<i4"), "shuffle", "deflate", "fletcher32")
    filters = virtual(scan(str(path))).segments.cases[0].encoding.filters
    assert [str(codec) for codec in filters] == ["shuffle(elementsize=4)", "zlib", "fletcher32"]


def stored(data: bytes, mask: int) -> bytes:
    """What shuffle, deflate and fletcher32 store, but for the filters in `mask`."""
    if not mask & 1:
        data = np.frombuffer(data, np.uint8).reshape(-1, 4).T.tobytes()
    if not mask & 2:
        data = zlib.compress(data)
    if not mask & 4:
        data += fletcher32(data).to_bytes(4, "little")
    return data


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("masks", [[0] * 8, [1] * 8, [2] * 8, range(8), [0, 0, 0, 7, 0, 0, 0, 5]])
def test_chunks_that_skip_filters(tmp_path, masks, libver):
    path = tmp_path / "x.h5"
    values = np.arange(8 * 6 * 5, dtype="<i4").reshape(48, 5)
    with h5py.File(path, "w", libver=libver) as file:
        dataset = file.create_dataset(
            "x", (48, 5), "<i4", chunks=(6, 5), compression="gzip", shuffle=True, fletcher32=True
        )
        for number, mask in enumerate(masks):
            chunk = stored(values[number * 6 : number * 6 + 6].tobytes(), mask)
            dataset.id.write_direct_chunk((number * 6, 0), chunk, mask)
    data = virtual(assert_as_xarray(path))
    np.testing.assert_array_equal(np.asarray(data), values)
    (page,) = data.segments.pages
    assert (page.masks is None) == (not any(masks))


def test_an_optional_filter_that_did_not_help_is_skipped(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        noise = np.random.default_rng(0).integers(0, 2**31, (64, 64)).astype("i4")
        file.create_dataset("x", data=noise, chunks=(16, 64), compression="lzf")
    data = virtual(assert_as_xarray(path))
    (page,) = data.segments.pages
    assert page.masks is not None


def test_references_point_at_the_stored_chunks(tmp_path):
    path = tmp_path / "x.h5"
    values = np.arange(11 * 13, dtype="<i4").reshape(11, 13)
    write(path, values, "shuffle", "deflate", "fletcher32")
    (page,) = virtual(scan(str(path))).segments.pages
    raw = path.read_bytes()
    with h5py.File(path) as file:
        dataset = file["x"]
        filters = virtual(scan(str(path))).segments.cases[0].encoding.filters
        for number, (row, column) in enumerate(np.ndindex(2, 3)):
            mask, chunk = dataset.id.read_direct_chunk((row * 4, column * 6))
            offset, length = int(page.offsets[number]), int(page.lengths[number])
            assert raw[offset : offset + length] == chunk
            decoded = np.frombuffer(decode_filters(filters, chunk, mask, 96), "<i4").reshape(4, 6)
            part = dataset[row * 4 : row * 4 + 4, column * 6 : column * 6 + 6]
            np.testing.assert_array_equal(decoded[: part.shape[0], : part.shape[1]], part)


@pytest.mark.parametrize("filters", [("fletcher32",), ("deflate",), ("lzf", "fletcher32")])
def test_a_flipped_byte_is_an_error_that_names_its_chunk(tmp_path, filters):
    path = tmp_path / "x.h5"
    values = np.random.default_rng(0).integers(0, 10, (11, 13)).astype("<i4")
    write(path, values, *filters)
    data = virtual(scan(str(path)))
    (page,) = data.segments.pages
    status = path.stat()
    with open(path, "r+b") as file:
        file.seek(int(page.offsets[4]) + int(page.lengths[4]) // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x55]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    kind = ChecksumMismatch if "fletcher32" in filters else ChunkError
    with pytest.raises(kind) as caught:
        np.asarray(data)
    assert caught.value.chunk == (1, 1)
    assert caught.value.array == "x"
    assert caught.value.url == str(path)
    np.testing.assert_array_equal(np.asarray(data[:4]), values[:4])


def test_a_filter_without_a_codec_is_named(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_chunk((4,))
        dcpl.set_filter(31_999, h5z.FLAG_OPTIONAL, (1, 2))
        h5d.create(file.id, b"x", h5t.STD_I32LE, h5s.create_simple((8,)), dcpl)
        file["y"] = np.arange(3)
    scanned = scan(str(path))
    data = opaque(scanned)
    assert data.reason == "stored with the filter number 31999"
    assert data.remedy == "install the HDF5 plug-in for number 31999"
    assert data.loader is None
    virtual(scanned, "y")


def test_scaleoffset_with_other_parameters_is_left_to_the_library(tmp_path, monkeypatch):
    path = tmp_path / "x.h5"
    values = np.arange(11 * 13, dtype="<i4").reshape(11, 13)
    write(path, values, "scaleoffset", fill=3)

    def refuse(codec):
        raise UnsupportedVariable("the HDF5 library does not reproduce the parameters")

    monkeypatch.setattr("intarsia.scan.hdf5.layout.prepare", refuse)
    data = opaque(assert_as_xarray(path))
    assert "does not reproduce" in data.reason
