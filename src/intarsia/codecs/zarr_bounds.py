"""Decoders of Zarr's codecs that are held to the room that a chunk has: bombs are refused early.

Streams say what they hold, and pictures how large they are, in a header; some of 70 bytes give
gigabytes. Those of streams are stopped at the bytes that are expected. Pictures are decoded into
room of their shape, which the libraries compare with the header before they make room themselves
(not that of JPEG 2000, whose header is looked at here).
"""

# imagecodecs and numcodecs have no types
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from intarsia.codecs.plugins import unblosc, unzstd
from intarsia.codecs.zarr_names import IMAGECODECS
from intarsia.errors import CorruptChunk, UnsupportedVariable, WrongLength

__all__ = ["PICTURES", "bounded", "pictured"]

FLAT = frozenset(f"{IMAGECODECS}{name}" for name in ("deflate", "lzw", "packbits"))
"""Codecs of imagecodecs that decode into flat room that is given to them."""

PICTURES = frozenset(
    f"{IMAGECODECS}{name}"
    for name in (*("jetraw", "jpeg", "jpeg2k", "jpeg8", "jpegxl", "jpegxr", "png", "webp"),)
)
"""Those that decode pictures."""


def bounded(name: str, codec: Any, nbytes: int | None, exact: bool) -> Callable[[Any], Any] | None:
    """What decodes streams that could grow without end; None for other codecs.

    Parameters
    ----------
    name, codec
        The codec, as zarr made it.
    nbytes
        Bytes that are expected; None where that can't be known.
    exact
        Whether fewer are an error too.
    """
    if nbytes is None:
        return None
    short = name.removeprefix("numcodecs.")
    if short in ("zstd", f"{IMAGECODECS}zstd"):
        return partial(unzstd, nbytes=nbytes, exact=exact)
    if short == "blosc":
        return partial(unblosc, nbytes=nbytes, exact=exact)
    if short == "lz4":
        return partial(_unlz4, codec._codec, nbytes=nbytes, exact=exact)
    if name in FLAT:
        return partial(_filled, codec._codec, nbytes=nbytes, exact=exact)
    open_stream = _streams(short, codec)
    if open_stream is None:
        return None
    return lambda data: _inflated(open_stream(), data, nbytes, exact)


def _streams(name: str, codec: Any) -> Callable[[], Any] | None:
    """What opens a stream of Python's own decompressors."""
    if name == "zlib":
        return zlib.decompressobj
    if name == "gzip":
        return partial(zlib.decompressobj, 31)
    if name == "bz2":
        return bz2.BZ2Decompressor
    if name == "lzma":
        config = codec.codec_config
        form, filters = config.get("format", lzma.FORMAT_XZ), config.get("filters")
        given = {"filters": filters} if form == lzma.FORMAT_RAW else {}
        return partial(lzma.LZMADecompressor, form, **given)
    return None


def _inflated(stream: Any, data: Any, nbytes: int, exact: bool) -> bytes:
    # one byte more than expected, so that the end of the stream and its checksum are reached
    out: bytes = stream.decompress(bytes(data), nbytes + 1)
    if len(out) > nbytes:
        raise WrongLength(f"the stream holds more than the expected {nbytes} bytes")
    if not stream.eof:
        raise CorruptChunk(f"the stream ends after {len(out)} of {nbytes} bytes")
    return _of_length(out, len(out), nbytes, exact)


def _filled(codec: Any, data: Any, nbytes: int, exact: bool) -> Any:
    room = np.zeros(nbytes, np.uint8)
    out = np.frombuffer(codec.decode(bytes(data), out=room), np.uint8)
    return _of_length(out, out.size, nbytes, exact)


def _unlz4(codec: Any, data: Any, nbytes: int, exact: bool) -> Any:
    view = memoryview(data).cast("B")
    if len(view) < 4:
        raise CorruptChunk(f"{len(view)} bytes are too few for an lz4 stream")
    _of_length(None, int.from_bytes(view[:4], "little"), nbytes, exact)
    return codec.decode(view)


def _of_length(out: Any, length: int, nbytes: int, exact: bool) -> Any:
    if length > nbytes or (exact and length < nbytes):
        most = "" if exact else "at most "
        raise WrongLength(f"the stream holds {length} bytes, expected {most}{nbytes}")
    return out


def pictured(codec: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """What decodes a picture that is a chunk.

    Parameters
    ----------
    codec
        The one of imagecodecs.
    shape, dtype
        Of the chunk. The picture may have its dimensions in another order, and leave out some of
        length 1.

    Raises
    ------
    UnsupportedVariable
        If a chunk is no picture.
    """
    if not 2 <= len(shape) <= 3:
        raise UnsupportedVariable(f"a chunk of the shape {shape} is no picture")
    kinds = dict.fromkeys([dtype.newbyteorder("="), *map(np.dtype, _alike(dtype))])

    def undo(data: Any) -> bytes:
        refused = ""
        if codec.codec_id == f"{IMAGECODECS}jpeg2k" and _of_jpeg2k(data) > prod(shape):
            raise WrongLength(f"it holds a larger picture than the chunk's shape {shape}")
        for form in _forms(shape):
            for kind in kinds:
                try:
                    return np.asarray(codec.decode(bytes(data), out=np.empty(form, kind))).tobytes()
                except ValueError as error:
                    if "invalid out" not in str(error):
                        raise
                    refused = str(error).partition(" shape=")[2]
        held = f" of the shape {refused}" if refused else ""
        raise WrongLength(f"it holds a picture{held}, expected {dtype} of the shape {shape}")

    return undo


def _of_jpeg2k(data: Any) -> int:
    """Samples of a picture in JPEG 2000, by its header (ISO/IEC 15444-1, A.5.1 and I.4)."""
    view = bytes(data)
    begin = 0
    while view[begin : begin + 4] != _CODESTREAM:
        length, header = int.from_bytes(view[begin : begin + 4], "big"), 8
        if length == 1:
            length, header = int.from_bytes(view[begin + 8 : begin + 16], "big"), 16
        if view[begin + 4 : begin + 8] == b"jp2c":
            begin += header
            break
        if length < header or begin + length >= len(view):
            raise CorruptChunk("there is no picture in JPEG 2000")
        begin += length
    size = view[begin : begin + 42]
    if size[:4] != _CODESTREAM or len(size) < 42:
        raise CorruptChunk("there is no picture in JPEG 2000")
    right, low, left, high = struct.unpack_from(">IIII", size, 8)
    return (right - left) * (low - high) * int.from_bytes(size[40:42], "big")


_CODESTREAM = b"\xff\x4f\xff\x51"
"""Start of a codestream, and of its first segment, which says how large it is."""


def _alike(dtype: np.dtype[Any]) -> list[str]:
    """Types whose bits a picture may have in place of another one."""
    return [f"{kind}{dtype.itemsize}" for kind in "ui"] if dtype.itemsize in (1, 2, 4, 8) else []


def _forms(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes of pictures that are chunks of this shape, likely ones first."""
    forms: list[tuple[int, ...]] = (
        [shape, (*shape, 1)] if len(shape) == 2 else [(*shape[1:], shape[0]), shape]
    )
    forms += permutations(shape)
    for axis, length in enumerate(shape):
        if length == 1 and len(shape) == 3:
            rest = shape[:axis] + shape[axis + 1 :]
            forms[:0] = [rest]
            forms += [rest[::-1]]
    yield from dict.fromkeys(forms)
