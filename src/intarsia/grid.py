"""Chunk grids: integer arithmetic on shapes, chunk shapes and chunk indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def grid_shape(shape: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """Number of chunks along each dimension.

    Examples
    --------
    >>> grid_shape((10, 7), (4, 7))
    (3, 1)
    """
    return tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))


def chunk_count(shape: Sequence[int], chunks: Sequence[int]) -> int:
    """Number of chunks of the whole grid."""
    return prod(grid_shape(shape, chunks))


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a C-contiguous array.

    Examples
    --------
    >>> strides_of((3, 4, 5))
    (20, 5, 1)
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def strip_shape(shape: Sequence[int], itemsize: int, nbytes: int = 1 << 18) -> tuple[int, ...]:
    """Chunk shape that cuts a contiguous run of bytes into strips of about `nbytes`.

    A strip is one run of bytes: outer dimensions 1, one dimension cut, inner dimensions whole.

    Parameters
    ----------
    shape
        Shape of the C-ordered array.
    itemsize
        Bytes per element.
    nbytes
        Size to aim at; a strip is never larger, except where one element is.

    Examples
    --------
    >>> strip_shape((100, 200, 300), 4, nbytes=10_000)
    (1, 8, 300)
    """
    strip = [1] * len(shape)
    size = itemsize
    for axis in reversed(range(len(shape))):
        whole = max(shape[axis], 1)
        if size * whole > nbytes:
            strip[axis] = max(1, nbytes // size)
            break
        strip[axis] = whole
        size *= whole
    return tuple(strip)


def regular_chunks(shape: Sequence[int], chunks: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Chunk lengths per dimension, as dask and xarray write them.

    Examples
    --------
    >>> regular_chunks((10,), (4,))
    ((4, 4, 2),)
    """
    result: list[tuple[int, ...]] = []
    for size, chunk in zip(shape, chunks, strict=True):
        if size == 0:
            result.append((0,))
            continue
        full, rest = divmod(size, max(chunk, 1))
        result.append((chunk,) * full + ((rest,) if rest else ()))
    return tuple(result)
