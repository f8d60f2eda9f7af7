"""The digest of some bytes of a file: constant work, whatever its size.

It stands for the content where modification times can't: in copies, clones and downloads. It is
part of the format of a store:

- A file of at most ``BLOCK * BLOCKS`` (65,536) bytes is taken whole, as one block.
- Of a longer one, ``BLOCKS`` (8) blocks of ``BLOCK`` (8,192) bytes are taken; block ``i`` (0 to 7)
  begins at byte ``i * (size - BLOCK) // (BLOCKS - 1)``: the first begins the file, the last ends
  it.
- The sample is the SHA-256 of the file's size, as eight bytes, little-endian, and of the blocks in
  this order; written as 64 lower-case hexadecimal digits.

A sample notices another file, another length, and most of what rewrites a file. A change that
keeps the length and lies between the blocks is not noticed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from intarsia.errors import ShortRead
from intarsia.io.descriptors import read_there

BLOCK = 8_192
"""Bytes of a block."""

BLOCKS = 8
"""Number of blocks of a long file."""

UNKNOWN = "unknown"
"""Stands in place of the sample of a source that must not be read, as nothing pins it."""


def sample_ranges(size: int) -> list[tuple[int, int]]:
    """(offset, length) of the blocks of a file of `size` bytes.

    Examples
    --------
    >>> sample_ranges(1_000)
    [(0, 1000)]
    >>> sample_ranges(1_000_000)[:2], sample_ranges(1_000_000)[-1]
    ([(0, 8192), (141686, 8192)], (991808, 8192))
    """
    if size <= BLOCK * BLOCKS:
        return [(0, size)]
    return [(number * (size - BLOCK) // (BLOCKS - 1), BLOCK) for number in range(BLOCKS)]


def sample_digest(size: int, blocks: Iterable[bytes | memoryview]) -> str:
    """The sample of a file of `size` bytes with these blocks."""
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def sample_of(file: str | os.PathLike[str] | int, size: int | None = None) -> str:
    """The sample of a local file.

    Parameters
    ----------
    file
        Its path, or a descriptor that is open for reading.
    size
        Its size, where that is known already.

    Raises
    ------
    ShortRead
        If it ends before `size`.
    OSError
        If it can't be read.
    """
    if not isinstance(file, int):
        with open(file, "rb", buffering=0) as opened:
            return sample_of(opened.fileno(), size)
    size = os.fstat(file).st_size if size is None else size
    return sample_digest(size, (_block(file, *wanted) for wanted in sample_ranges(size)))


def _block(descriptor: int, offset: int, length: int) -> bytes:
    data = read_there(descriptor, offset, length)
    if len(data) < length:
        raise ShortRead(f"asked for {length} bytes at offset {offset} and got {len(data)}")
    return data
