"""The digest of some bytes of a file is part of the format: what it is, and what it notices."""

from __future__ import annotations

import hashlib
import os
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from intarsia.errors import ShortRead
from intarsia.io.sampling import BLOCK, BLOCKS, sample_digest, sample_of, sample_ranges

WHOLE = BLOCK * BLOCKS
SIZES = [0, 1, BLOCK, WHOLE - 1, WHOLE, WHOLE + 1, WHOLE + BLOCK, 1 << 20, (1 << 20) + 12_345]


def stated(data: bytes) -> str:
    """As the documentation says, in other words."""
    size = len(data)
    if size <= 65_536:
        blocks = data
    else:
        begins = [i * (size - 8_192) // 7 for i in range(8)]
        blocks = b"".join(data[begin : begin + 8_192] for begin in begins)
    return hashlib.sha256(size.to_bytes(8, "little") + blocks).hexdigest()


def test_vectors(tmp_path: Path) -> None:
    """Digests that never change; the second was made with `tail`, `head` and `sha256sum`."""
    assert sample_digest(0, []) == hashlib.sha256(bytes(8)).hexdigest()
    path = tmp_path / "a"
    path.write_bytes(bytes(range(256)) * 1_000)
    assert sample_of(path) == "e2774d4b13dc1ff80bd6e5572ef5d8837cc797eeda062bba70c73d9b9d778845"


@pytest.mark.parametrize("size", SIZES)
def test_as_documented(tmp_path: Path, size: int) -> None:
    data = Random(size).randbytes(size)
    path = tmp_path / "a"
    path.write_bytes(data)
    assert sample_of(path) == sample_of(str(path), size) == stated(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, min(size, 10), os.SEEK_SET)
        assert sample_of(descriptor) == stated(data)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == min(size, 10)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("size", [*SIZES, 1 << 50, (1 << 62) + 1])
def test_blocks_are_few_in_the_file_and_hold_both_ends(size: int) -> None:
    ranges = sample_ranges(size)
    assert sum(length for _, length in ranges) == min(size, WHOLE)
    assert ranges[0][0] == 0
    assert sum(ranges[-1]) == size
    assert all(a + n <= b for (a, n), (b, _) in pairwise(ranges))


@pytest.mark.parametrize("size", [1_000, WHOLE + 1, 1 << 20])
def test_what_is_noticed(size: int) -> None:
    data = bytearray(Random(1).randbytes(size))
    before = stated(data)
    for place in (0, size - 1, *(begin + 5 for begin, _ in sample_ranges(size))):
        data[place] ^= 1
        assert stated(data) != before
        data[place] ^= 1
    assert stated(data + b"\0") != before
    assert stated(data[:-1]) != before


def test_a_file_that_is_shorter_than_said(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    with pytest.raises(ShortRead, match="200 bytes at offset 0 and got 100"):
        sample_of(path, 200)
    with pytest.raises(FileNotFoundError, match="absent"):
        sample_of(tmp_path / "absent")
