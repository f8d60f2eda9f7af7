"""Chunks by path, offset and length become boxes, and each box finds its chunks again."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from intarsia.encoding import Case, Encoding
from intarsia.lookup import touches
from intarsia.references import ABSENT, INLINE, STORED, Source, Sources
from intarsia.scan.zarr.manifests import NOWHERE, Manifest, segments_of
from intarsia.segments import Segments

CHUNK = 3


def built(grid: tuple[int, ...], owners: np.ndarray, inline: dict[int, bytes]) -> Segments:
    count = prod(grid)
    rows = np.arange(count)
    manifest = Manifest.of(grid, owners, rows * 100, rows + 1, inline)
    files = max(int(owners.max(initial=0)) + 1, 1)
    sources = Sources.of([Source("/d/", str(n), 10**9, -1) for n in range(files)])
    encoding = Encoding((), np.dtype("<f4"))
    case = Case(encoding, np.zeros(1, encoding.parameters))
    shape = [n * CHUNK - (n > 1) for n in grid]
    return segments_of(manifest, sources, shape, [CHUNK] * len(grid), case)


def found(segments: Segments, grid: tuple[int, ...]) -> dict[tuple[int, ...], tuple[object, ...]]:
    """What each chunk of the grid resolves to; a box of nothing covers many at once."""
    result: dict[tuple[int, ...], tuple[object, ...]] = {}
    for block in segments.blocks:
        some = touches(block, segments.pages, np.array([4]))
        for n in range(len(some)):
            low = some.start[n] // CHUNK
            high = -(-(some.start[n] + some.count[n]) // CHUNK)
            state = int(some.state[n])
            told: tuple[object, ...] = (ABSENT,)
            if state == STORED:
                told = (STORED, int(some.source[n]), int(some.offset[n]), int(some.length[n]))
            elif state == INLINE:
                page = segments.pages[int(some.page[n])]
                begin = int(some.offset[n])
                told = (INLINE, page.inline[begin : begin + int(some.length[n])])
            for cell in np.ndindex(*(high - low)):
                index = tuple(int(a + b) for a, b in zip(low, cell, strict=True))
                assert index not in result
                result[index] = told
    assert len(result) == prod(grid)
    return result


@pytest.mark.parametrize("seed", range(60))
def test_every_chunk_is_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = tuple(int(n) for n in rng.integers(1, 6, rng.integers(0, 4)))
    count = prod(grid)
    kind = seed % 4
    if kind == 0:  # each chunk anywhere
        owners = rng.integers(0, rng.integers(1, 5), count)
    elif kind == 1 and grid:  # a file for some of the first dimension
        owners = np.repeat(np.sort(rng.integers(0, 3, grid[0])), count // grid[0])
    elif kind == 2:  # an object for each
        owners = rng.permutation(count)
    else:
        owners = np.zeros(count, np.int64)
    owners = owners.astype(np.int64)
    owners[rng.random(count) < rng.choice([0, 0.3, 1])] = NOWHERE
    inline = {int(n): bytes([n, 7]) for n in np.flatnonzero(rng.random(count) < 0.1)}
    resolved = found(built(grid, owners, inline), grid)
    for n, index in enumerate(np.ndindex(*grid)):
        expected: tuple[object, ...] = (ABSENT,)
        if n in inline:
            expected = (INLINE, inline[n])
        elif owners[n] >= 0:
            expected = (STORED, int(owners[n]), n * 100, n + 1)
        assert resolved[index] == expected, index


def test_files_put_together_are_a_box_each() -> None:
    owners = np.repeat(np.arange(50), 2 * 10 * 10)
    owners[::7] = NOWHERE  # what is missing goes along
    segments = built((100, 10, 10), owners, {})
    assert len(segments) == 50
    assert segments.nbytes < 8 * 100 * 10 * 10


def test_quarters_are_a_box_each() -> None:
    y, x = np.indices((8, 6))
    owners = (y // 4) * 2 + x // 3
    assert len(built((8, 6), owners.reshape(-1), {})) == 4


def test_an_object_per_chunk_takes_few_bytes() -> None:
    count = 40**3
    segments = built((40, 40, 40), np.arange(count), {})
    assert len(segments) == count
    assert segments.nbytes / count < 30
