"""HDF5's plug-in filters that need no plug-in: zstd, blosc, lz4, bzip2 and bitshuffle.

Each is undone by the library of its format, or with NumPy, without HDF5 and its lock. What each
does with odd input is what the plug-in does (bytes after the end of an lz4, blosc, bzip2 or
bitshuffle stream are ignored), or stricter: the plug-ins trust what a stream says of its length,
and the one for zstd gives what memory held where a stream is broken. Here a stream that claims
more than its chunk may decode to is refused before there is room for it. zstd is read as Zarr's
libraries do, in whose files frames often don't say how much they hold; the plug-in refuses those.
"""

# numcodecs has no types
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import bz2
import struct
from collections.abc import Buffer, Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numcodecs import blosc, lz4, zstd

from intarsia.errors import CorruptChunk, WrongLength

__all__ = ["unbitshuffle", "unblosc", "unbzip2", "unlz4", "unpacked", "unzstd"]

type Bytes = npt.NDArray[np.uint8]
type Decompress = Callable[[Any, Any], Any]

ALIGNED = 8
"""Bitshuffle's blocks are of a multiple of so many elements."""
_ZSTD_MAGIC, _ZSTD_SKIPPABLE = 0xFD2FB528, 0x184D2A50
_ZSTD_RUN, _ZSTD_COMPRESSED, _ZSTD_RESERVED = 1, 2, 3
_ZSTD_BLOCK = 128 << 10
_ZSTD_EMPTY, _ZSTD_LOOSE = 1000, 64 << 20
_ZSTD_SIZES = (0, 2, 4, 8)
_ZSTD_DICTIONARIES = (0, 1, 2, 4)
_BLOSC_HEADER, _LZ4_HEADER = 16, 12


def unzstd(data: Buffer, nbytes: int, *, exact: bool = True) -> Buffer:
    """Decompress zstd frames (RFC 8878).

    Writers that stream don't state how much a frame holds. What its blocks can hold at most is
    told by their headers then, and is looked at before there is room for it.

    Parameters
    ----------
    data
        One frame or several, of which what they hold is joined, as libzstd and zarr-python do it.
        Skippable frames may stand before, between and after them, and nothing else.
    nbytes
        Bytes it has to decompress to.
    exact
        Whether fewer are an error too.

    Raises
    ------
    WrongLength
        It holds more, or fewer.
    CorruptChunk
        It is broken, or no such frame.
    """
    view = memoryview(data).cast("B")
    least, most = _zstd_extent(view, nbytes, exact=exact)
    if exact or least == most:
        out = np.empty(nbytes if exact else least, np.uint8)
        _decompress("zstd", zstd.decompress, view, out)
        return out
    try:
        held: bytes = zstd.decompress(view)
    except (RuntimeError, ValueError) as error:
        raise CorruptChunk(f"the zstd stream is broken ({error})") from error
    _promised("zstd", len(held), nbytes, exact=False)
    return held


def _zstd_extent(view: memoryview, nbytes: int, *, exact: bool) -> tuple[int, int]:
    """Bytes that zstd frames hold at least and at most, if they may.

    Where the length is to be `nbytes`, that lies between both. (Decoding takes no more then, as it
    is into room of that size.) Else they hold that at most; and where only a bound is known, it is
    at most eight times that and 64 MiB, as decoding makes the room that it needs. (A bound is not
    close: libzstd cuts what is 128 KiB, the most that a block may hold, into up to 196 blocks.)
    """
    least = most = position = 0
    allowed = nbytes + _ZSTD_EMPTY  # blocks: empty ones must not take for ever
    while position < len(view) and least <= nbytes:
        magic = int.from_bytes(view[position : position + 4], "little")
        if magic & ~0xF == _ZSTD_SKIPPABLE:
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            allowed = _zstd_fewer(allowed)
            continue
        start, stated, largest, checksum = _zstd_header(view, position)
        if exact and least == 0 and stated == nbytes:
            return nbytes, nbytes  # decoding fails where more follows that is not empty
        position, low, high, allowed = _zstd_blocks(view, start, largest, allowed)
        position += checksum
        least += low if stated is None else stated
        most += high if stated is None else stated
    if position > len(view):
        raise CorruptChunk("the zstd stream is cut short")
    if least > nbytes or (exact and most < nbytes):
        much = f"{least} bytes" if least == most else f"{least} to {most} bytes"
        limit = "" if exact else "at most "
        raise WrongLength(f"the zstd stream holds {much}, expected {limit}{nbytes}")
    if not exact and least < most and most > 8 * nbytes + _ZSTD_LOOSE:
        raise WrongLength(f"the zstd stream may hold {most} bytes, expected at most {nbytes}")
    return least, most


def _zstd_header(view: memoryview, begin: int) -> tuple[int, int | None, int, int]:
    """Where the blocks of a frame begin, the bytes it says it holds, a block at most, a checksum.

    The header has 6 to 18 bytes.
    """
    head = view[begin : begin + 18]
    if len(head) < 6 or int.from_bytes(head[:4], "little") != _ZSTD_MAGIC:
        raise CorruptChunk("the chunk is not a zstd frame")
    descriptor = head[4]
    single = descriptor >> 5 & 1
    size = _ZSTD_SIZES[descriptor >> 6] or single
    start = 5 + (1 - single) + _ZSTD_DICTIONARIES[descriptor & 3]
    field = head[start : start + size]
    if len(field) < size:
        raise CorruptChunk("the zstd stream is cut short")
    stated = int.from_bytes(field, "little") + (256 if size == 2 else 0) if size else None
    if single and stated is not None:
        window = stated
    else:
        base = 1 << 10 + (head[5] >> 3)
        window = base + base // 8 * (head[5] & 7)
    return begin + start + size, stated, min(window, _ZSTD_BLOCK), 4 * (descriptor >> 2 & 1)


def _zstd_blocks(
    view: memoryview, position: int, largest: int, allowed: int
) -> tuple[int, int, int, int]:
    """Where the blocks of a frame end, what they hold at least and at most, blocks still allowed.

    Parameters
    ----------
    view, position
        Where they begin.
    largest
        Bytes that a compressed one holds at most.
    allowed
        How many there may be.
    """
    least = most = 0
    while True:
        head = int.from_bytes(view[position : position + 3], "little")
        if position + 3 > len(view):
            raise CorruptChunk("the zstd stream is cut short")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind == _ZSTD_RESERVED:
            raise CorruptChunk("the zstd stream has a block of no known kind")
        allowed = _zstd_fewer(allowed)
        position += 3 + (1 if kind == _ZSTD_RUN else size)
        least += 0 if kind == _ZSTD_COMPRESSED else size
        most += largest if kind == _ZSTD_COMPRESSED else size
        if last:
            return position, least, most, allowed


def _zstd_fewer(allowed: int) -> int:
    if allowed <= 0:
        raise CorruptChunk("the zstd stream has too many empty blocks")
    return allowed - 1


def unblosc(data: Buffer, nbytes: int, *, exact: bool = True) -> Buffer:
    """Decompress a buffer of Blosc 1; see `unzstd` for the parameters and errors."""
    view = memoryview(data).cast("B")
    if len(view) < _BLOSC_HEADER:
        raise CorruptChunk(f"{len(view)} bytes are too few for a blosc buffer")
    length, _, stored = struct.unpack_from("<III", view, 4)
    if not _BLOSC_HEADER <= stored <= len(view):
        raise CorruptChunk(f"the blosc buffer of {stored} bytes is cut to {len(view)}")
    out = np.empty(_promised("blosc", length, nbytes, exact), np.uint8)
    _decompress("blosc", blosc.decompress, view[:stored], out)
    return out


def unbzip2(data: Buffer, nbytes: int, *, exact: bool = True) -> Buffer:
    """Decompress one bzip2 stream; see `unzstd` for the parameters and errors."""
    stream = bz2.BZ2Decompressor()
    try:
        # one byte more than expected, so that the end of the stream is reached
        out = stream.decompress(data, nbytes + 1)
    except OSError as error:
        raise CorruptChunk(f"the bzip2 stream is broken ({error})") from error
    if len(out) <= nbytes and not stream.eof:
        raise CorruptChunk(f"the bzip2 stream ends after {len(out)} of {nbytes} bytes")
    _promised("bzip2", len(out), nbytes, exact)
    return out


def unlz4(data: Buffer, nbytes: int, *, exact: bool = True) -> Buffer:
    """Decompress the blocks that HDF5's lz4 filter writes; see `unzstd`.

    Big-endian: the bytes it holds (8), those of a block (4); then for each block the bytes it is
    stored in (4), and an LZ4 block, or the bytes themselves where they are as many as it holds.
    """
    view = memoryview(data).cast("B")
    length, block = _header("lz4", view)
    out = np.empty(_promised("lz4", length, nbytes, exact), np.uint8)
    if block == 0:
        raise CorruptChunk("the lz4 stream has blocks of no bytes")
    _blocks("lz4", view, out, min(block, length))
    return out


def unbitshuffle(
    data: Buffer,
    nbytes: int,
    *,
    elementsize: int,
    compressor: str | None = None,
    blocksize: int = 0,
    exact: bool = True,
) -> Buffer:
    """Decompress what bitshuffle wrote and put its bits together; see `unzstd`.

    Parameters
    ----------
    elementsize
        Bytes of an element.
    compressor
        ``"lz4"``, ``"zstd"`` or None. With one, there is the same header as that of `unlz4`, and
        before each block the bytes it is stored in; blocks are never stored as they are.
    blocksize
        Elements of a block, where there is no compressor.
    """
    view = memoryview(data).cast("B")
    if compressor is None:
        held: Any = np.frombuffer(view, np.uint8)
    else:
        length, blockbytes = _header("bitshuffle", view)
        held = np.empty(_promised("bitshuffle", length, nbytes, exact), np.uint8)
        blocksize = blockbytes // elementsize
    if held.size % elementsize:
        raise WrongLength(f"{held.size} bytes are no whole elements of {elementsize}")
    if blocksize < 1 or blocksize % ALIGNED:
        raise CorruptChunk(f"bitshuffle can't have blocks of {blocksize} elements")
    whole = held.size // (ALIGNED * elementsize) * ALIGNED * elementsize
    block = min(blocksize * elementsize, max(whole, 1))
    if compressor is not None:
        end = _blocks(compressor, view, held[:whole], block, raw=False)
        rest = view[end : end + held.size - whole]
        if len(rest) != held.size - whole:
            raise CorruptChunk("the bitshuffle stream is cut short")
        held[whole:] = rest
    return unpacked(held, whole, block, elementsize)


def unpacked(held: Bytes, whole: int, block: int, elementsize: int) -> Bytes:
    """Put bits together that bitshuffle had put apart.

    Parameters
    ----------
    held
        Blocks, in which the bits of one place of all elements lie side by side: first the lowest
        ones of their first bytes.
    whole
        Bytes of it that are so; those of a last few elements are as they were.
    block
        Bytes of a block; the last one may be shorter.
    elementsize
        Bytes of an element.
    """
    out = np.empty_like(held)
    out[whole:] = held[whole:]
    full = whole // block * block if block else 0
    for begin, end, one in ((0, full, block), (full, whole, whole - full)):
        if begin < end:
            planes = held[begin:end].reshape(-1, elementsize, 8, one // elementsize // 8)
            words = planes.transpose(0, 1, 3, 2).copy().view("<u8")
            _transpose(words)
            planes = words.view(np.uint8).reshape(-1, elementsize, one // elementsize)
            elements = out[begin:end].reshape(-1, one // elementsize, elementsize)
            for byte in range(elementsize):
                elements[:, :, byte] = planes[:, byte]
    return out


def _transpose(words: npt.NDArray[Any]) -> None:
    """Transpose 8 by 8 bits in each of some words, in place."""
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0xF0F0F0F0)):
        swapped = words >> np.uint64(shift)
        swapped ^= words
        swapped &= np.uint64(mask)
        words ^= swapped
        swapped <<= np.uint64(shift)
        words ^= swapped


# -- what they have in common ----------------------------------------------------------------------


def _promised(name: str, length: int, nbytes: int, exact: bool) -> int:
    """The length that a stream says it has, if it may."""
    if length != nbytes if exact else length > nbytes:
        most = "" if exact else "at most "
        raise WrongLength(f"the {name} stream holds {length} bytes, expected {most}{nbytes}")
    return length


def _header(name: str, view: memoryview) -> tuple[int, int]:
    if len(view) < _LZ4_HEADER:
        raise CorruptChunk(f"{len(view)} bytes are too few for a {name} stream")
    return struct.unpack_from(">QI", view)


def _blocks(name: str, view: memoryview, out: Bytes, block: int, *, raw: bool = True) -> int:
    """Decompress the blocks after a header; gives where they end.

    Parameters
    ----------
    name
        Of the compressor.
    view
        Header and blocks.
    out
        Where what they hold goes, to the last byte.
    block
        Bytes that each but the last one holds.
    raw
        Whether one that is stored in as many bytes as it holds is those bytes.
    """
    # numcodecs wants the length of an LZ4 block, little-endian, in the four bytes before it
    data = bytearray(view) if name == "lz4" else view
    view, position = memoryview(data), _LZ4_HEADER
    for begin in range(0, out.size, block):
        into = out[begin : begin + block]
        start = position + 4
        stored = int.from_bytes(view[position:start], "big")
        end = start + stored
        if end > len(view) or start > len(view):
            raise CorruptChunk(f"the {name} stream ends after {begin} of {out.size} bytes")
        if raw and stored == into.size:
            into[:] = view[start:end]
        elif name == "lz4":
            struct.pack_into("<I", view, position, into.size)
            _decompress(name, lz4.decompress, view[position:end], into)
        else:
            _zstd_extent(view[start:end], into.size, exact=True)
            _decompress(name, zstd.decompress, view[start:end], into)
        position = end
    return position


def _decompress(name: str, decompress: Decompress, source: memoryview, out: Bytes) -> None:
    try:
        decompress(source, out)
    except (RuntimeError, ValueError) as error:
        raise CorruptChunk(f"the {name} stream is broken ({error})") from error
