"""Arrays whose values lie in files: segments with a dtype.

Slicing, flipping, transposing, lists of indices, points and casting give another virtual array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array.base import LazyArray, Request
from intarsia.array.blocks import WHOLE_BYTES, digest, preferred_chunks
from intarsia.array.keys import (
    are_apart,
    expand_key,
    normal_key,
    owners_of,
    permutation,
    runs_of,
)
from intarsia.encoding import Case, Codec, Encoding
from intarsia.grid import regular_chunks
from intarsia.references import References, Sources
from intarsia.segments import Segments

type IntArray = npt.NDArray[Any]

EVERY = slice(None)

CASTABLE = "biufcSU"
"""Kinds of dtype that stay virtual under `astype`."""


class VirtualArray(LazyArray):
    """An array whose values lie in files, as segments.

    Parameters
    ----------
    segments
        The boxes that make it up.
    dtype
        Type of the values; that of every segment's case.
    name
        Name of the variable in its source, for errors.
    notes
        Remarks that travel with the array.
    """

    __slots__ = ("segments",)

    segments: Segments

    def __init__(
        self,
        segments: Segments,
        dtype: npt.DTypeLike,
        name: str | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        self.segments = segments
        self.dtype = np.dtype(dtype)
        self.name = name
        self.notes = notes if isinstance(notes, frozenset) else frozenset(notes)

    @classmethod
    def from_source(
        cls,
        sources: Sources,
        source: int,
        shape: Sequence[int],
        chunks: Sequence[int],
        encoding: Encoding,
        parameters: npt.NDArray[Any],
        references: References,
        *,
        name: str | None = None,
        notes: Iterable[str] = (),
    ) -> VirtualArray:
        """An array of one source.

        Parameters
        ----------
        sources, source
            Table of sources, and the row of this one.
        shape, chunks
            Shape and chunk shape of the array in the source.
        encoding
            How its bytes become values.
        parameters
            One row of ``encoding.parameters``.
        references
            Where the chunks are.
        name
            Name of the variable.
        notes
            Remarks.
        """
        rows = np.asarray(parameters, encoding.parameters).reshape(1)
        case = Case(encoding, rows)
        segments = Segments.of_source(sources, source, shape, chunks, case, references)
        return cls(segments, encoding.dtype, name, notes)

    @classmethod
    def full(cls, shape: Sequence[int], value: Any, dtype: npt.DTypeLike) -> VirtualArray:
        """A constant array."""
        return cls(Segments.full(shape, value, dtype), dtype)

    @classmethod
    def inline(cls, values: npt.NDArray[Any]) -> VirtualArray:
        """An array whose bytes are kept in memory, so that it can be joined with others."""
        values = np.asarray(values)
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        return cls(Segments.inline(values), values.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.segments.shape

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """One block while the array is small, else `blocks`.

        xarray refuses to work along a dimension that lies in several chunks, where it does not
        refuse the same with an array in memory. What fits in memory is treated as such.
        """
        if self.nbytes <= WHOLE_BYTES:
            return tuple((size,) for size in self.shape)
        return self.blocks

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Uniform blocks near the chunk shape of the largest segment, not too small."""
        return regular_chunks(self.shape, preferred_chunks(self.segments))

    def with_steps(self, steps: Sequence[Codec], parameters: dict[str, np.generic]) -> VirtualArray:
        """The array with further decoding steps after those it has."""
        segments = self.segments.extend(steps, parameters) if steps else self.segments
        return VirtualArray(segments, segments.cases[0].encoding.dtype, self.name, self.notes)

    def with_notes(self, *notes: str) -> VirtualArray:
        """The array with further remarks."""
        return self._with(self.segments, self.notes.union(notes))

    def _with(self, segments: Segments, notes: frozenset[str] | None = None) -> VirtualArray:
        return VirtualArray(segments, self.dtype, self.name, self.notes if notes is None else notes)

    def __repr__(self) -> str:
        held = self.segments
        return (
            f"VirtualArray(shape={self.shape}, dtype={self.dtype}, segments={len(held)}, "
            f"sources={len(held.sources)}, cases={len(held.cases)})"
        )

    def _repr_inline_(self, max_width: int) -> str:
        """One line for xarray's summary of a dataset."""
        held = self.segments
        text = f"virtual: {_count(len(held), 'segment')}, {_count(len(held.cases), 'case')}"
        return text if len(text) <= max_width else text[: max(max_width - 3, 0)] + "..."

    def __reduce__(self) -> tuple[Any, ...]:
        return VirtualArray, (self.segments, self.dtype, self.name, self.notes)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return ("intarsia.VirtualArray", digest(self.segments, self.dtype))

    def request(self) -> Request:
        """The segments, all of them."""
        return (self.segments, self.dtype, self.name), None

    def __getitem__(self, key: Any) -> Any:
        parts, new_axes = self._parts(key)
        if any(isinstance(part, np.ndarray) for part in parts):
            # NumPy lets new axes take part in advanced indexing: nobody relies on it lazily
            return self.load()[key] if new_axes else self._with(self._advanced(parts))
        segments = self.segments.select(parts)
        for axis in new_axes:
            segments = segments.insert(axis)
        return self._with(segments)

    def _parts(self, key: Any) -> tuple[list[Any], list[int]]:
        """One slice, integer or list of integers per dimension, and where new axes appear."""
        parts: list[Any] = []
        new_axes: list[int] = []
        axis = 0
        for part in expand_key(key, self.ndim):
            if part is None:
                new_axes.append(axis)
                axis += 1
                continue
            place = len(parts)
            parts.append(normal_key(part, self.shape[place], place))
            axis += isinstance(part, slice)
        return parts, new_axes

    def _advanced(self, parts: list[Any]) -> Segments:
        """Index with arrays of integers, which vary along axes of their own or together."""
        advanced = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
        place = 0 if are_apart(advanced) else advanced[0]
        arrays = {axis: np.asarray(parts[axis]) for axis in advanced}
        shape = np.broadcast_shapes(*(where.shape for where in arrays.values()))
        plain = [
            int(arrays[axis].reshape(-1)[0]) if axis in arrays and arrays[axis].size == 1 else part
            for axis, part in enumerate(parts)
        ]
        left = [axis for axis, part in enumerate(plain) if not isinstance(part, int)]
        number = {axis: n for n, axis in enumerate(left)}
        varying = {number[axis]: arrays[axis] for axis in left if axis in arrays}
        segments = self.segments.select([p if isinstance(p, int | slice) else EVERY for p in plain])
        owners = owners_of(varying, len(shape))
        if owners is None:
            spread = {axis: np.broadcast_to(where, shape) for axis, where in varying.items()}
            return segments.points(spread, place)
        for axis, where in varying.items():
            segments = segments.take(axis, runs_of(where.reshape(-1)))
        others = [axis for axis in range(len(left)) if axis not in varying]
        order = [*others[:place], *(axis for axis in owners if axis is not None), *others[place:]]
        segments = segments.transpose(order)
        for dim, axis in enumerate(owners):
            if axis is None:
                segments = segments.insert(place + dim)
        return segments

    def astype(self, dtype: npt.DTypeLike, *args: Any, **kwargs: Any) -> Any:
        """Cast to another type; numbers and fixed strings stay virtual."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if self.dtype.kind not in CASTABLE or dtype.kind not in CASTABLE:
            return self.load().astype(dtype, *args, **kwargs)
        native = dtype.newbyteorder("=")
        return VirtualArray(self.segments.cast(native), native, self.name, self.notes)

    def transpose(self, *axes: Any) -> Any:
        """Permute the dimensions."""
        order = permutation(axes, self.ndim)
        if order == tuple(range(self.ndim)):
            return self
        return self._with(self.segments.transpose(order))

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Give another shape. Only dimensions of length one come and go without loading."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        wanted = tuple(int(size) for size in wanted)
        kept = tuple(size for size in self.shape if size != 1)
        if tuple(size for size in wanted if size != 1) != kept:
            return self.load().reshape(wanted, **kwargs)
        key = tuple(0 if size == 1 else slice(None) for size in self.shape)
        result: VirtualArray = self[(*key, ...)]
        for axis, size in enumerate(wanted):
            if size == 1:
                result = result._with(result.segments.insert(axis))
        return result


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
