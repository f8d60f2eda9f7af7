"""HDF5's bytes -> bytes filters; its own, deflate, shuffle, fletcher32, with NumPy and ISA-L.

What each does with odd input is what the HDF5 library does: bytes after the end of a deflate
stream are ignored, shuffle leaves the bytes of a last fractional element where they are, and a
fletcher32 checksum may be the byte-swapped one that HDF5 1.6.2 wrote. In one point this is
stricter: a chunk has to decode to exactly the bytes its shape and dtype say.

Nothing here holds the GIL for long, and no output grows past what the chunk may decode to.
"""

from __future__ import annotations

from collections.abc import Buffer, Callable
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from isal import igzip_lib  # 1.3 to 3 times as fast as zlib, with the same checks

from intarsia.encoding import Codec
from intarsia.errors import ChecksumMismatch, CorruptChunk, UnsupportedVariable, WrongLength

__all__ = [
    "NATIVE",
    "checked",
    "decode_filters",
    "decoder",
    "fletcher32",
    "inflate",
    "undo",
    "unshuffle",
    "unshuffle_batch",
]

PLUGINS = frozenset({"zstd", "blosc", "lz4", "bz2", "bitshuffle"})
"""Names of those that are plug-ins of HDF5 (see `intarsia.codecs.plugins`)."""
NATIVE = frozenset({"zlib", "shuffle", "fletcher32"}) | PLUGINS
"""Names of the filters that `decode_filters` undoes."""

# isal declares its exception as a value and leaves the type of input open.
_InflateError = cast(type[Exception], igzip_lib.error)

type Bytes = npt.NDArray[np.uint8]
type Stage = Callable[[Buffer], Buffer]
type Undo = Callable[..., Buffer]


def decode_filters(
    filters: tuple[Codec, ...], chunk: Buffer, filter_mask: int, nbytes: int
) -> Buffer:
    """Undo the filters of one chunk.

    Parameters
    ----------
    filters
        In the order in which the writer applied them.
    chunk
        The stored bytes.
    filter_mask
        Bit ``i`` says that the writer skipped ``filters[i]`` for this chunk. A caller that undoes
        a leading shuffle itself, for many chunks at once, sets bit 0.
    nbytes
        Bytes of the decoded chunk.

    Returns
    -------
    bytes-like
        Of exactly `nbytes` bytes.

    Raises
    ------
    CorruptChunk
        The deflate stream is broken or ends too early.
    ChecksumMismatch
        The fletcher32 checksum is not that of the bytes.
    WrongLength
        The chunk decodes to another number of bytes.
    UnsupportedVariable
        A filter is not one of `NATIVE`.
    """
    return decoder(filters, filter_mask, nbytes)(chunk)


@lru_cache(maxsize=1024)
def decoder(filters: tuple[Codec, ...], filter_mask: int, nbytes: int) -> Stage:
    """Give the function that does the same to one chunk after another; see `decode_filters`."""
    stages = _stages(filters, filter_mask, nbytes)
    if len(stages) == 1 and getattr(stages[0], "func", None) is inflate:
        return stages[0]  # which sees to the length itself

    def decode(chunk: Buffer) -> Buffer:
        for stage in stages:
            chunk = stage(chunk)
        found = memoryview(chunk).nbytes
        if found != nbytes:
            raise WrongLength(f"the chunk holds {found} bytes, expected {nbytes}")
        return chunk

    return decode


def _stages(filters: tuple[Codec, ...], filter_mask: int, nbytes: int) -> tuple[Stage, ...]:
    """List the functions that undo `filters`, in the order of decoding."""
    stages: list[Stage] = []
    size, exact = nbytes, True  # of what goes into the next filter when writing
    for index, codec in enumerate(filters):
        undone = undo(codec)
        if filter_mask >> index & 1:
            continue
        stages.append(partial(undone, nbytes=size, exact=exact))
        if codec.name == "fletcher32":
            size += 4
        elif codec.name != "shuffle" and "blocksize" not in codec.config:
            # A filter after a compressor sees its output, of which only a bound is known.
            size, exact = 2 * size + 1024, False
    return tuple(reversed(stages))


def _unshuffled(data: Buffer, nbytes: int, *, elementsize: int, exact: bool = True) -> Buffer:
    return unshuffle(data, elementsize)


def _verified(data: Buffer, nbytes: int, *, exact: bool = True) -> Buffer:
    return checked(data)


@lru_cache(maxsize=256)
def undo(codec: Codec) -> Undo:
    """Give the function that undoes a filter.

    It takes the bytes, ``nbytes`` that they have to decode to, and ``exact=``, whether fewer are an
    error too; what is no compressor does not look at these.

    Raises
    ------
    UnsupportedVariable
        The filter is not one of `NATIVE`.
    """
    if codec.name == "zlib":
        return inflate
    if codec.name == "shuffle":
        return partial(_unshuffled, elementsize=codec.config["elementsize"])
    if codec.name == "fletcher32":
        return _verified
    if codec.name not in PLUGINS:
        raise UnsupportedVariable(f"no decoder for the filter {codec}")
    from intarsia.codecs import plugins  # numcodecs takes its time

    undone: dict[str, Undo] = {
        "zstd": plugins.unzstd,
        "blosc": plugins.unblosc,
        "lz4": plugins.unlz4,
        "bz2": plugins.unbzip2,
    }
    if codec.name == "bitshuffle":
        return partial(plugins.unbitshuffle, **codec.config)
    return undone[codec.name]


def inflate(data: Buffer, nbytes: int, *, exact: bool = True) -> bytes:
    """Decompress one zlib stream, and never more than `nbytes` + 1 bytes of it.

    Parameters
    ----------
    data
        The stream. Bytes that follow its end are ignored, as by HDF5.
    nbytes
        Bytes it has to decompress to.
    exact
        Whether fewer are an error too.
    """
    # One byte more than expected, so that the end of the stream and its checksum are reached.
    inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_ZLIB, 15)
    try:
        out: bytes = inflater.decompress(data, nbytes + 1)  # pyright: ignore[reportUnknownMemberType]
    except _InflateError as error:
        raise CorruptChunk(f"the deflate stream is broken ({error})") from error
    if len(out) > nbytes:
        raise WrongLength(f"the deflate stream holds more than the expected {nbytes} bytes")
    if not inflater.eof:
        raise CorruptChunk(f"the deflate stream ends after {len(out)} of {nbytes} bytes")
    if exact and len(out) != nbytes:
        raise WrongLength(f"the deflate stream holds {len(out)} bytes, expected {nbytes}")
    return out


def unshuffle(data: Buffer, elementsize: int) -> Buffer:
    """Put the bytes of each element of one chunk together again; see `unshuffle_batch`."""
    if elementsize <= 1:
        return data
    return unshuffle_batch(np.frombuffer(data, np.uint8)[None], elementsize)[0]


def unshuffle_batch(buffer: Bytes, elementsize: int) -> Bytes:
    """Undo shuffle in many chunks of the same size at once.

    Parameters
    ----------
    buffer
        ``uint8`` of shape ``(chunks, nbytes)``.
    elementsize
        Bytes per element as the filter was told. Where it does not divide `nbytes`, the bytes
        that are left over stay at the end.

    Returns
    -------
    ndarray
        ``uint8`` of the same shape; `buffer` itself where there is nothing to undo.
    """
    count, nbytes = buffer.shape
    elements = nbytes // max(elementsize, 1)
    if elementsize <= 1 or elements <= 1:
        return buffer
    whole = elements * elementsize
    planes = buffer[:, :whole].reshape(count, elementsize, elements)
    if whole != nbytes:
        out = np.empty((count, nbytes), np.uint8)
        out[:, :whole] = _interleave(planes).reshape(count, whole)
        out[:, whole:] = buffer[:, whole:]
        return out
    return _interleave(planes).reshape(count, nbytes)


def _interleave(planes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Turn ``(chunks, elementsize, elements)`` into ``(chunks, elements, elementsize)``."""
    count, elementsize, elements = planes.shape
    if elementsize == 2:
        # Twice as fast as copying planes: the loop runs over 2-byte elements.
        pairs = planes[:, 1].astype("<u2")
        pairs <<= 8
        pairs |= planes[:, 0]
        return pairs.view(np.uint8).reshape(count, elements, 2)
    if elementsize > count * elements:
        return np.ascontiguousarray(planes.transpose(0, 2, 1))
    out = np.empty((count, elements, elementsize), np.uint8)
    for byte in range(elementsize):
        out[:, :, byte] = planes[:, byte]
    return out


def checked(data: Buffer) -> memoryview:
    """Verify the fletcher32 checksum at the end of `data` and return the bytes before it."""
    view = memoryview(data).cast("B")
    if len(view) < 4:
        raise WrongLength(f"the chunk holds {len(view)} bytes, too few for its checksum")
    body = view[:-4]
    stored = int.from_bytes(view[-4:], "little")
    computed = fletcher32(body)
    # HDF5 1.6.2 swapped the bytes of both halves; every later version accepts that.
    swapped = (computed & 0x00FF00FF) << 8 | (computed & 0xFF00FF00) >> 8
    if stored not in (computed, swapped):
        raise ChecksumMismatch(
            f"the fletcher32 checksum is {computed:08x}, the file says {stored:08x}"
        )
    return body


def fletcher32(data: Buffer) -> int:
    """Compute the fletcher32 checksum as HDF5 does: of big-endian words, an odd byte a high one.

    Both sums are taken modulo 65535 where zero, unless every byte is zero, is written 65535.
    """
    view = memoryview(data).cast("B")
    count = len(view) // 2
    words = np.frombuffer(view, "<u2", count)
    total, weighted = _sums(words) if count <= _SMALL else _large_sums(words)
    # One's complement sums do not care about byte order: swapping is multiplying by 256.
    first, second = total * 256, weighted * 256
    if len(view) % 2:
        first += view[-1] << 8
        second += first
    return _folded(second) << 16 | _folded(first)


_SMALL = 16384
_WEIGHTS: npt.NDArray[np.float64] = np.arange(_SMALL, 0, -1, dtype=np.float64)
_ROW = 2048


def _sums(words: npt.NDArray[Any]) -> tuple[int, int]:
    """Sum the words, and the running sums, of at most `_SMALL` words."""
    values = words.astype(np.float64)  # exact: 16384 * 16384 * 65535 < 2**53
    return int(values.sum()), int(values.dot(_WEIGHTS[_SMALL - len(values) :]))


def _large_sums(words: npt.NDArray[Any]) -> tuple[int, int]:
    """Do the same for any number of words, from the sums of rows and columns of a matrix."""
    rows = len(words) // _ROW
    matrix = words[: rows * _ROW].reshape(rows, _ROW)
    by_row = [int(value) for value in matrix.sum(axis=1, dtype=np.uint32)]
    by_column = [int(value) for value in matrix.sum(axis=0, dtype=np.uint64)]
    total = sum(by_row)
    # word (r, c) is counted once in each of the (rows * _ROW - r * _ROW - c) running sums
    weighted = (
        rows * _ROW * total
        - _ROW * sum(row * value for row, value in enumerate(by_row))
        - sum(column * value for column, value in enumerate(by_column))
    )
    rest = words[rows * _ROW :]
    rest_total, rest_weighted = _sums(rest)
    return total + rest_total, weighted + len(rest) * total + rest_weighted


def _folded(value: int) -> int:
    return value % 65535 or (65535 if value else 0)
