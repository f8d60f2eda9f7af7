"""How TIFF puts the samples of a chunk in order, undone: predictors 2 and 3, and chunky pixels.

The codecs that virtual-tiff names for these read big-endian files wrongly, and predictor 3 of
pixels with several samples.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.errors import WrongLength

__all__ = ["FLOATPRED", "floats", "unchunky", "undelta"]

type Array = npt.NDArray[Any]

FLOATPRED = "imagecodecs_floatpred"
"""The codec that stands for predictor 3."""


def undelta(values: Array) -> Array:
    """TIFF's predictor 2: sums along rows, of the bits as unsigned integers, wrapping around."""
    bits = np.dtype(f"{values.dtype.byteorder}u{values.dtype.itemsize}")
    native = bits.newbyteorder("=")
    sums = values.view(bits).astype(native).cumsum(axis=-1, dtype=native)
    return sums.view(values.dtype.newbyteorder("="))


def floats(dtype: np.dtype[Any], shape: tuple[int, ...], *, chunky: bool) -> Callable[[Any], Any]:
    """TIFF's predictor 3, of bytes as they are stored.

    Each byte of a row is the difference to that of the pixel before. All highest bytes of a row
    come first, then all second ones, and so on, whatever byte order the file has.

    Parameters
    ----------
    dtype, shape
        Of a chunk.
    chunky
        Whether the samples of a pixel, which are the first dimension, are side by side.
    """
    samples = shape[0] if chunky else 1
    rows, columns = prod(shape[-2:-1]) * (1 if chunky else prod(shape[:-2])), shape[-1]
    size = dtype.itemsize

    def undo(data: Any) -> Array:
        raw = np.frombuffer(data, np.uint8)
        if raw.size != prod(shape) * size:
            raise WrongLength(f"the chunk holds {raw.size} bytes, expected {prod(shape) * size}")
        steps = raw.reshape(rows, columns * size, samples)
        planes = steps.cumsum(axis=1, dtype=np.uint8).reshape(rows, size, columns * samples)
        elements = np.ascontiguousarray(planes.swapaxes(1, 2)).view(dtype.newbyteorder(">"))
        values = elements.astype(dtype.newbyteorder("=")).reshape(rows, columns, samples)
        return np.moveaxis(values, -1, 0).reshape(shape) if chunky else values.reshape(shape)

    return undo


def unchunky(stored: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """TIFF's samples of one pixel side by side: the first dimension runs fastest."""

    def undo(data: Any) -> Array:
        values = np.frombuffer(data, stored)
        if values.size != prod(shape):
            raise WrongLength(f"the chunk holds {values.size} elements, expected {prod(shape)}")
        return np.ascontiguousarray(values.reshape(shape, order="F"))

    return undo
