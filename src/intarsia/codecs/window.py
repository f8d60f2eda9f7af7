"""The Zarr codec `intarsia.window`: an array as a strided view of a flat one.

One start and one stride per dimension say all that can happen between a source's chunk and a
reader's: a crop, a step, a flip, a permutation, a broadcast (stride 0), and fixed positions along
dimensions that are gone. See ``spec/window.md`` and design note 006.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayArrayCodec

from intarsia.codecs.cases_types import entries, fail
from intarsia.codecs.chain import view
from intarsia.codecs.chunk_checks import check_view
from intarsia.errors import UnsupportedError, WrongLength

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import NDBuffer

__all__ = ["WindowCodec"]

NAME = "intarsia.window"
MAX_DIMS = 64
MAX_INT = 1 << 53


@dataclass(frozen=True)
class WindowCodec(ArrayArrayCodec):
    """See a flat array through a window.

    Parameters
    ----------
    elements
        Elements of the flat (encoded) array.
    begin
        Which of them is the first element of the window.
    strides
        Elements per index, for each dimension of the window.
    """

    is_fixed_size = True

    elements: int
    begin: int
    strides: tuple[int, ...]

    def __init__(self, *, elements: int, begin: int, strides: Sequence[int]) -> None:
        """Check the numbers.

        Raises
        ------
        ValueError
            If one can't be.
        """
        if type(elements) is not int or not 1 <= elements <= MAX_INT:
            raise fail("elements", elements, "a positive integer up to 2^53")
        if type(begin) is not int or not 0 <= begin < elements:
            raise fail("begin", begin, "one of the elements")
        numbers: Any = strides
        if not isinstance(numbers, list | tuple) or len(cast("Any", numbers)) > MAX_DIMS:
            raise fail("strides", numbers, f"a list of at most {MAX_DIMS} integers")
        for stride in cast("list[Any]", numbers):
            if type(stride) is not int or abs(stride) > MAX_INT:
                raise fail("a stride", stride, "an integer within 2^53")
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "begin", begin)
        object.__setattr__(self, "strides", tuple(cast("list[int]", numbers)))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the codec that array metadata describes.

        Raises
        ------
        ValueError
            If its configuration is refused, with the reason.
        """
        codec = entries(data, NAME, ("name", "configuration"))
        if codec["name"] != NAME:
            raise ValueError(f"the codec is {codec['name']!r}, not {NAME!r}")
        return cls(**entries(codec["configuration"], NAME, ("elements", "begin", "strides")))

    def to_dict(self) -> dict[str, Any]:
        """The codec as array metadata has it."""
        configuration = {
            "elements": self.elements,
            "begin": self.begin,
            "strides": list(self.strides),
        }
        return {"name": NAME, "configuration": configuration}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Check the number of dimensions; shapes of chunks are known only when there are any.

        Raises
        ------
        ValueError
            If the array has another number of dimensions.
        """
        if array_spec.ndim != len(self.strides):
            raise ValueError(f"{len(self.strides)} strides for {array_spec.ndim} dimensions")
        return self

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """The encoded array is flat."""
        return replace(chunk_spec, shape=(self.elements,))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Bytes of the flat array."""
        return self.elements * chunk_spec.dtype.to_native_dtype().itemsize

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        flat = chunk_data.as_numpy_array().reshape(-1)
        if len(flat) != self.elements:
            raise WrongLength(f"the chunk decodes to {len(flat)} elements, not {self.elements}")
        return chunk_spec.prototype.nd_buffer.from_numpy_array(self._seen(flat, chunk_spec.shape))

    async def _decode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return self._decode_sync(chunk_data, chunk_spec)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        values = chunk_data.as_numpy_array()
        strides = self._within(values.shape, values.itemsize)
        if _repeats(values.shape, strides):
            raise UnsupportedError(
                "positions of the window share elements, so it can't be written through"
            )
        flat = np.full(self.elements, chunk_spec.fill_value, values.dtype)
        self._seen(flat, values.shape)[...] = values
        return chunk_spec.prototype.nd_buffer.from_numpy_array(flat)

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def _seen(self, flat: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        return view(flat, self.begin, shape, self._within(shape, flat.itemsize))

    def _within(self, shape: Sequence[int], itemsize: int) -> list[int]:
        """The strides that matter in a chunk of this shape, all of whose elements there are."""
        if len(shape) != len(self.strides):
            raise ValueError(f"{len(self.strides)} strides for {len(shape)} dimensions")
        strides = [0 if n == 1 else step for n, step in zip(shape, self.strides, strict=True)]
        check_view(self.elements, max(itemsize, 1), self.begin, strides, shape)
        return strides


def _repeats(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two positions are the same element."""
    reach = 0
    for stride, count in sorted((abs(step), n) for step, n in zip(strides, shape, strict=True)):
        if count > 1 and stride <= reach:
            break
        reach += stride * (count - 1)
    else:
        return False
    # strides that interleave need not meet: count the elements
    offsets = np.zeros(1, np.int64)
    for stride, count in zip(strides, shape, strict=True):
        offsets = (offsets[:, None] + np.arange(count) * stride).reshape(-1)
    return len(np.unique(offsets)) != prod(shape)
