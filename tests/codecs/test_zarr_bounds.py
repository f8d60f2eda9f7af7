"""Chains of Zarr codecs that a stranger names: bombs, pictures of any size, and configurations."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import imagecodecs
import numcodecs
import numpy as np
import pytest

from intarsia.codecs.cases_zarr import zarr_filter_of
from intarsia.codecs.chain import chain
from intarsia.encoding import Encoding
from intarsia.errors import ChunkError, IntarsiaError, UnsupportedVariable, WrongLength

SMALL = np.arange(64, dtype="u1").reshape(8, 8)
BYTES = {"name": "bytes", "configuration": {}}
BLOSC = {"cname": "zstd", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0}
ZSTD = {"level": 1, "checksum": False}


def decoded(
    codecs: list[Any], data: Any, shape: tuple[int, ...] = (8, 8), dtype: str = "u1"
) -> Any:
    """The elements of one chunk, in the way that those of a store go."""
    text = json.dumps(codecs, sort_keys=True, separators=(",", ":"))
    stored = np.dtype(dtype)
    told = zarr_filter_of({"chunk_shape": list(shape), "codecs": text}, stored)
    undone = chain(Encoding.shared((told,), stored), 0, int(np.prod(shape)) * stored.itemsize)
    return undone.undo(bytes(data)).reshape(shape)


def _packbits(data: bytes) -> bytes:
    """Zeros, or a few bytes, as PackBits has them."""
    if len(data) <= 128:
        return bytes([len(data) - 1]) + data
    return b"\x81\x00" * (len(data) // 128)


STREAMS: dict[str, tuple[dict[str, Any], Callable[[bytes], Any]]] = {
    "zstd": (ZSTD, numcodecs.Zstd().encode),
    "numcodecs.zstd": ({}, numcodecs.Zstd().encode),
    "blosc": (BLOSC, numcodecs.Blosc(cname="zstd").encode),
    "numcodecs.blosc": ({}, numcodecs.Blosc(cname="zstd").encode),
    "numcodecs.lz4": ({}, numcodecs.LZ4().encode),
    "numcodecs.zlib": ({}, zlib.compress),
    "numcodecs.gzip": ({}, gzip.compress),
    "gzip": ({"level": 1}, gzip.compress),
    "numcodecs.bz2": ({}, bz2.compress),
    "numcodecs.lzma": ({}, lzma.compress),
    "imagecodecs_deflate": ({}, zlib.compress),
    "imagecodecs_lzw": ({}, imagecodecs.lzw_encode),
    "imagecodecs_packbits": ({}, _packbits),
    "imagecodecs_zstd": ({}, imagecodecs.zstd_encode),
}
CUT = ("imagecodecs_lzw",)
"""Those of which more than there is room for is ignored, as by libtiff."""
LARGE = 1 << 25


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_held_to_the_chunk(name: str) -> None:
    config, encode = STREAMS[name]
    told = {"name": name, "configuration": config}
    assert (decoded([BYTES, told], encode(SMALL.tobytes())) == SMALL).all()
    twice = [BYTES, told, {"name": "numcodecs.zlib", "configuration": {}}]
    assert (decoded(twice, zlib.compress(bytes(encode(SMALL.tobytes())))) == SMALL).all()
    short, bomb = encode(SMALL.tobytes()[:-1]), encode(bytes(LARGE))
    tracemalloc.start()
    try:
        with pytest.raises(ChunkError):
            decoded([BYTES, told], short)
        if name in CUT:
            assert not decoded([BYTES, told], bomb).any()
        else:
            with pytest.raises(ChunkError):
                decoded([BYTES, told], bomb)
        with pytest.raises(ChunkError):
            decoded([BYTES, {"name": "numcodecs.zlib", "configuration": {}}, told], bomb)
        assert tracemalloc.get_traced_memory()[1] < LARGE // 2
    finally:
        tracemalloc.stop()


PICTURES: dict[str, Callable[[Any], Any]] = {
    "jpeg": lambda a: imagecodecs.jpeg8_encode(a, level=100),
    "jpeg2k": lambda a: imagecodecs.jpeg2k_encode(a, level=0),
    "jpegxl": lambda a: imagecodecs.jpegxl_encode(a, lossless=True),
    "jpegxr": lambda a: imagecodecs.jpegxr_encode(a, level=100),
    "png": imagecodecs.png_encode,
    "webp": lambda a: imagecodecs.webp_encode(a, lossless=True),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_of_the_shape_of_the_chunk(name: str) -> None:
    codecs = [BYTES, {"name": f"imagecodecs_{name}", "configuration": {}}]
    encode, little = PICTURES[name], {"name": "bytes", "configuration": {"endian": "little"}}
    pictures = [np.stack([SMALL[:6]] * 3, axis=-1)] + ([SMALL[:6]] if name != "webp" else [])
    for picture in pictures:
        data = bytes(encode(np.ascontiguousarray(picture)))
        found = decoded(codecs, data, picture.shape)
        assert np.abs(found.astype(int) - picture).max() <= (4 if "jpeg" in name else 0)
        found = decoded(codecs, data, (1, *picture.shape)[-3:])  # bytes are bytes
        assert found.size == picture.size
        for shape in ((5, 8), (8, 8, 3)):
            with pytest.raises(WrongLength, match="picture"):
                decoded(codecs, data, shape)
        with pytest.raises(ChunkError):
            decoded([little, codecs[1]], data, picture.shape, "<f8")
        with pytest.raises(ChunkError):
            decoded(codecs, data[:20], picture.shape)
    with pytest.raises(UnsupportedVariable, match="is no picture"):
        decoded(codecs, data, (picture.size,))


@pytest.mark.parametrize("name", ["jpeg2k"])
def test_large_pictures_in_few_bytes(name: str) -> None:
    bomb = bytes(PICTURES[name](np.zeros((3000, 3000), "u1")))
    assert len(bomb) < 1000
    tracemalloc.start()
    try:
        with pytest.raises(WrongLength, match="picture"):
            decoded([BYTES, {"name": f"imagecodecs_{name}", "configuration": {}}], bomb)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_masks_that_would_be_dropped() -> None:
    data = bytes(imagecodecs.lerc_encode(SMALL[:6].copy()))
    with pytest.raises(ValueError, match="may not have the Zarr codec 'imagecodecs_lerc'"):
        decoded([BYTES, {"name": "imagecodecs_lerc", "configuration": {}}], data)


@pytest.mark.parametrize("box", [b"", bytes(12), b"\0\0\0\1jp2c", b"\0\0\0\0xxxx" + bytes(60)])
def test_jpeg_2000_without_a_picture(box: bytes) -> None:
    with pytest.raises(ChunkError):
        decoded([BYTES, {"name": "imagecodecs_jpeg2k", "configuration": {}}], box)


@pytest.mark.parametrize(
    "codecs",
    [
        [{"name": "ChunkyCodec", "configuration": 1}],
        [{"name": "bytes", "configuration": "little"}],
        [{"name": "bytes", "configuration": None}],
        [],
        ["bytes"],
        [{"name": "numcodecs.pickle", "configuration": {}}],
    ],
)
def test_what_is_no_chain(codecs: list[Any]) -> None:
    with pytest.raises(ValueError, match="Zarr codec"):
        decoded(codecs, b"")


@pytest.mark.parametrize(
    ("codecs", "shape"),
    [
        ([{"name": "imagecodecs_floatpred", "configuration": {}}, BYTES], ()),
        ([{"name": "numcodecs.zstd", "configuration": {}}, BYTES], ()),
        ([BYTES, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 0}}], (8,)),
        ([{"name": "transpose", "configuration": {"order": [5]}}, BYTES], (8,)),
        ([{"name": "numcodecs.astype", "configuration": {"encode_dtype": "|O"}}, BYTES], (8,)),
    ],
)
def test_chains_that_make_no_sense(codecs: list[Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(IntarsiaError):
        decoded(codecs, bytes(32), shape, "<f4")


def test_what_numpy_would_warn_of_is_no_fault_of_the_chunk() -> None:
    codec = {
        "name": "numcodecs.astype",
        "configuration": {"encode_dtype": "<f8", "decode_dtype": "<f4"},
    }
    data = np.array([1e300, 1.0, np.nan, -1e300])
    with np.errstate(all="raise"):
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        values = decoded([codec, little], data.tobytes(), (4,), "<f4")
    np.testing.assert_array_equal(values, np.array([np.inf, 1, np.nan, -np.inf], "f4"))
