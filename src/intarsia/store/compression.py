"""Blosc and checksums, as chunks of a store use them; lengths are checked before all else."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import google_crc32c
from numcodecs import blosc

from intarsia.errors import CorruptStore

MAX_CHUNK = 1 << 28
"""Bytes that one chunk may decode to."""

MAX_RATIO = 8192
"""A chunk decodes to at most so many times its bytes: a little more than what we can compress.

So what a store takes in memory is bounded by what it takes on disk.
"""

HEADER = 16
"""Bytes of blosc's header: version, flags, and the lengths before and after."""


def checksum(data: bytes | memoryview) -> int:
    """The CRC-32C of some bytes."""
    return google_crc32c.value(bytes(data))


def compress(data: bytes, typesize: int) -> bytes:
    """Compress a chunk."""
    shuffle = blosc.NOSHUFFLE if typesize == 1 else blosc.SHUFFLE
    typesize = min(typesize, 255)
    return bytes(blosc.compress(data, b"zstd", 5, shuffle, 0, typesize))


def decompress(data: bytes, nbytes: int | None, what: str) -> bytes:
    """Decompress a chunk that has to come to `nbytes` bytes (to at most `MAX_CHUNK` where None).

    Raises
    ------
    CorruptStore
        If it does not.
    """
    if len(data) < HEADER:
        raise CorruptStore(f"{what} has {len(data)} bytes, too few for a compressed chunk")
    found = int.from_bytes(data[4:8], "little")
    held = int.from_bytes(data[12:16], "little")
    if held != len(data) or found > MAX_CHUNK or (nbytes is not None and found != nbytes):
        raise CorruptStore(f"{what} does not hold what the root of the store says")
    if found > MAX_RATIO * len(data):
        raise CorruptStore(f"{what} can't hold {found} bytes in {len(data)}")
    if not found:
        return b""
    try:
        return bytes(blosc.decompress(data))
    except RuntimeError as error:
        raise CorruptStore(f"{what} can't be decompressed") from error
