"""Arrays whose values lie in files: segments with a dtype, and pointwise selections of them.

Slicing, flipping, transposing, lists of indices along axes and casting give another virtual array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.array.base import LazyArray, Request
from intarsia.array.blocks import WHOLE_BYTES, digest, preferred_chunks
from intarsia.array.keys import (
    expand_key,
    is_orthogonal,
    moves_first,
    normal_key,
    permutation,
    runs_of,
)
from intarsia.encoding import Case, Codec, Encoding
from intarsia.grid import regular_chunks
from intarsia.references import References, Sources
from intarsia.segments import Segments

type IntArray = npt.NDArray[Any]

MAX_RUNS = 1 << 12
"""A list of indices with more runs of constant step than this is loaded instead of cut up."""

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
            return self.load()[key] if new_axes else self._advanced(parts)
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

    def _advanced(self, parts: list[Any]) -> Any:
        """Index with lists: orthogonal ones stay virtual, pointwise selections are deferred."""
        lists = [n for n, part in enumerate(parts) if isinstance(part, np.ndarray)]
        if len(lists) == 1 and parts[lists[0]].ndim == 1 and not moves_first(parts):
            # an integer before the list takes its own dimension away
            axis = lists[0] - sum(isinstance(part, int) for part in parts[: lists[0]])
            plain = [slice(None) if isinstance(p, np.ndarray) else p for p in parts]
            return self._with(self.segments.select(plain))._take(parts[lists[0]], axis)
        chosen: Any = self
        if len(lists) == self.ndim and is_orthogonal(parts):
            for axis, part in enumerate(parts):
                chosen = chosen._take(part.reshape(-1), axis)
                if not isinstance(chosen, VirtualArray):
                    break
            else:
                return chosen
        return DeferredArray(self, tuple(parts))

    def _take(self, indices: IntArray, axis: int) -> Any:
        """Select a list of indices along an axis, as runs of constant step."""
        runs = runs_of(indices)
        before = (slice(None),) * axis
        after = (slice(None),) * (self.ndim - axis - 1)
        if len(runs) > MAX_RUNS:
            return DeferredArray(self, (*before, indices, *after))
        pieces: list[Segments] = []
        for start, step, count in runs or [(0, 1, 0)]:
            if step == 0:
                one = self.segments.select((*before, slice(start, start + 1), *after))
                pieces.append(one.repeat(axis, count))
                continue
            stop = start + step * count
            window = slice(start, stop if stop >= 0 else None, step)
            pieces.append(self.segments.select((*before, window, *after)))
        return self._with(Segments.concatenate(pieces, axis))

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


class DeferredArray(LazyArray):
    """A pointwise selection: lazy, but any further operation loads it.

    Parameters
    ----------
    source
        What is selected from.
    key
        NumPy advanced index with one integer array, integer or slice per dimension.
    order
        Dimension ``j`` of the result is dimension ``order[j]`` of what NumPy gives.
    """

    __slots__ = ("_shape", "key", "order", "source")

    def __init__(
        self, source: VirtualArray, key: tuple[Any, ...], order: tuple[int, ...] | None = None
    ) -> None:
        self.source = source
        self.key = key
        self.dtype = source.dtype
        self.name = source.name
        self.notes = source.notes.union(["pointwise selection: loaded as a whole when needed"])
        shape = np.broadcast_to(np.empty((), np.uint8), source.shape)[key].shape
        self.order = tuple(range(len(shape))) if order is None else order
        self._shape = tuple(shape[axis] for axis in self.order)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._shape

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """One block."""
        return tuple((size,) for size in self.shape)

    def window(self) -> tuple[VirtualArray, tuple[Any, ...]]:
        """The smallest box that holds the selection, and the key within it."""
        box: list[slice] = []
        inner: list[Any] = []
        for part in self.key:
            if isinstance(part, slice):
                box.append(part)
                inner.append(slice(None))
            elif np.size(part) == 0:
                box.append(slice(0, 0))
                inner.append(part)
            else:
                part = np.asarray(part)
                low = int(part.min())
                box.append(slice(low, int(part.max()) + 1))
                inner.append(part - low)
        return self.source[tuple(box)], tuple(inner)

    def request(self) -> Request:
        """The box that holds the selection; from it, the selection, its dimensions in order."""
        box, key = self.window()
        named = (box.segments, box.dtype, box.name)
        return named, lambda values: values[key].transpose(self.order)

    def transpose(self, *axes: Any) -> Any:
        """Permute the dimensions, still without loading."""
        order = permutation(axes, self.ndim)
        return DeferredArray(self.source, self.key, tuple(self.order[axis] for axis in order))

    def __getitem__(self, key: Any) -> Any:
        return self.load()[key]

    def __repr__(self) -> str:
        return f"DeferredArray(shape={self.shape}, dtype={self.dtype}, source={self.source!r})"

    def _repr_inline_(self, max_width: int) -> str:
        """One line for xarray's summary of a dataset."""
        return "virtual: pointwise selection"[:max_width]

    def __reduce__(self) -> tuple[Any, ...]:
        return DeferredArray, (self.source, self.key, self.order)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        keys = [part.tolist() if isinstance(part, np.ndarray) else part for part in self.key]
        source = self.source.__dask_tokenize__()
        return ("intarsia.DeferredArray", source, repr(keys), self.order)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
