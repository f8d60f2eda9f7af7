"""Arrays whose values lie in files: segments with a dtype.

Slicing, flipping, transposing, lists of indices, points and casting give another virtual array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from intarsia.array.base import LazyArray
from intarsia.array.blocks import WHOLE_BYTES, aligned_blocks, digest, preferred_chunks
from intarsia.array.enums import named_type
from intarsia.array.keys import (
    are_apart,
    common_shape,
    expand_key,
    is_array,
    is_slice,
    normal_key,
    owners_of,
    permutation,
    runs_of,
    unpacked,
    window,
)
from intarsia.array.reprs import as_html, as_text, inline_text
from intarsia.encoding import Case, Codec, Encoding
from intarsia.engine.load import Named
from intarsia.grid import regular_chunks
from intarsia.references import References, Sources
from intarsia.segments import Segments

type IntArray = npt.NDArray[Any]

EVERY = slice(None)

MAX_REMEMBERED = 1 << 12
"""Pieces selected by longer lists of indices are not remembered."""

_NOT = Codec.make("not", dtype="|b1")

TESTS: dict[np.ufunc, Codec] = {
    np.isnan: Codec.make("isnan", dtype="|b1"),
    np.logical_not: _NOT,
    np.invert: _NOT,
}
"""Functions that become a step of decoding; what xarray asks of missing values stays virtual."""

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

    __slots__ = ("_made", "_read", "_segments", "_shape")

    _segments: Segments | None
    _read: Callable[[], Segments] | None
    _shape: tuple[int, ...]
    _made: WeakValueDictionary[tuple[Any, ...], VirtualArray] | None

    def __init__(
        self,
        segments: Segments,
        dtype: npt.DTypeLike,
        name: str | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        self._segments = segments
        self._read = None
        self._shape = segments.shape
        self._made = None
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
    def deferred(
        cls,
        shape: Sequence[int],
        dtype: npt.DTypeLike,
        read: Callable[[], Segments],
        name: str | None = None,
        notes: Iterable[str] = (),
    ) -> VirtualArray:
        """An array whose segments are read when they are first needed.

        Parameters
        ----------
        shape, dtype
            Of the values.
        read
            Gives the segments; picklable, as it stands for them where the array is pickled.
        name, notes
            As for the class.
        """
        array = cls.__new__(cls)
        array._segments = None
        array._read = read
        array._shape = tuple(shape)
        array._made = None
        array.dtype = np.dtype(dtype)
        array.name = name
        array.notes = frozenset(notes)
        return array

    @classmethod
    def full(cls, shape: Sequence[int], value: Any, dtype: npt.DTypeLike) -> VirtualArray:
        """A constant array."""
        return cls(Segments.full(shape, value, dtype), dtype)

    @classmethod
    def inline(cls, values: npt.NDArray[Any]) -> VirtualArray:
        """An array whose bytes are kept in memory, so that it can be joined with others."""
        values = np.asarray(values)
        repeated = [n for n, step in enumerate(values.strides) if not step and values.size]
        one = values[tuple(slice(0, 1) if n in repeated else EVERY for n in range(values.ndim))]
        one = one.astype(values.dtype.newbyteorder("="), copy=False)
        segments = Segments.inline(one)
        for axis in repeated:
            segments = segments.repeat(axis, values.shape[axis])
        return cls(segments, one.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._shape

    @property
    def segments(self) -> Segments:
        """The boxes that make the array up."""
        if self._segments is None:
            assert self._read is not None
            self._segments = self._read()
        return self._segments

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """One block while the array is small, else uniform ones.

        xarray refuses to work along a dimension that lies in several chunks, where it does not
        refuse the same with an array in memory. What fits in memory is treated as such.
        """
        if self.nbytes <= WHOLE_BYTES:
            return tuple((size,) for size in self.shape)
        return regular_chunks(self.shape, preferred_chunks(self.segments))

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that are good to read: not too small, and made of whole chunks of the sources."""
        return aligned_blocks(self.segments)

    def with_steps(self, steps: Sequence[Codec], parameters: dict[str, np.generic]) -> VirtualArray:
        """The array with further decoding steps after those it has."""
        segments = self.segments.extend(steps, parameters) if steps else self.segments
        return VirtualArray(segments, segments.cases[0].encoding.dtype, self.name, self.notes)

    def with_notes(self, *notes: str) -> VirtualArray:
        """The array with further remarks."""
        union = self.notes.union(notes)
        if self._read is not None:
            return VirtualArray.deferred(self._shape, self.dtype, self._read, self.name, union)
        return self.replaced(self.segments, union)

    def replaced(self, segments: Segments, notes: frozenset[str] | None = None) -> VirtualArray:
        """Other segments with the same type of values, name and notes."""
        kept = self.notes if notes is None else notes
        return VirtualArray(segments, self.dtype, self.name, kept)

    def __repr__(self) -> str:
        return as_text(self.segments, self.dtype, self.nbytes, sorted(self.notes))

    def _repr_html_(self) -> str:
        """What the array is made of; xarray shows it in place of values."""
        return as_html(self.segments, self.dtype, self.nbytes, sorted(self.notes))

    def _repr_inline_(self, max_width: int) -> str:
        """One line for xarray's summary of a dataset."""
        return inline_text(self.segments, max_width)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._read is not None:
            made = (self._shape, self.dtype, self._read, self.name, self.notes)
            return VirtualArray.deferred, made
        return VirtualArray, (self.segments, self.dtype, self.name, self.notes)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return ("intarsia.VirtualArray", digest(self.segments, self.dtype))

    def request(self) -> Named:
        """The segments, all of them."""
        return self.segments, self.dtype, self.name

    def __getitem__(self, key: Any) -> Any:
        parts: list[Any] = []
        new_axes: list[int] = []
        axis = 0
        for part in expand_key(key, self.ndim):
            if part is None:
                new_axes.append(axis)
                axis += 1
                continue
            size = self.shape[len(parts)]
            part = normal_key(part, size, len(parts))
            if is_slice(part):
                part = window(range(*part.indices(size)))
                axis += 1
            parts.append(part)
        if any(is_array(part) for part in parts):
            # NumPy lets new axes take part in advanced indexing: nobody relies on it lazily
            if new_axes:
                return self.load()[key]
            if any(is_array(part) and part.size > MAX_REMEMBERED for part in parts):
                return self.replaced(self._advanced(parts))
            return self._derived(("points", *map(_hashable, parts)), lambda: self._advanced(parts))
        whole = [slice(0, size, 1) for size in self.shape]
        if parts == whole and not new_axes:
            return self
        return self._derived(
            ("slices", *parts, tuple(new_axes)), lambda: self._basic(parts, new_axes)
        )

    def _derived(
        self, key: tuple[Any, ...], make: Callable[[], Segments], dtype: npt.DTypeLike | None = None
    ) -> VirtualArray:
        """The one array that is made from this one in a certain way, as long as it is in use.

        xarray takes arrays for equal without reading them only where they are the same object; so
        the same piece of a coordinate, taken twice, had better be.
        """
        if self._made is None:
            self._made = WeakValueDictionary()
        found = self._made.get(key)
        if found is None:
            dtype = self.dtype if dtype is None else dtype
            new = VirtualArray(make(), dtype, self.name, self.notes)
            found = self._made.setdefault(key, new)
        return found

    def _basic(self, parts: list[Any], new_axes: list[int]) -> Segments:
        segments = self.segments.select(parts)
        for axis in new_axes:
            segments = segments.insert(axis)
        return segments

    def _advanced(self, parts: list[Any]) -> Segments:
        """Index with arrays of integers, which vary along axes of their own or together."""
        advanced = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
        place = 0 if are_apart(advanced) else advanced[0]
        arrays = {axis: np.asarray(parts[axis]) for axis in advanced}
        shape = common_shape([where.shape for where in arrays.values()])
        plain = [
            int(arrays[axis].reshape(-1)[0]) if axis in arrays and arrays[axis].size == 1 else part
            for axis, part in enumerate(parts)
        ]
        left = [axis for axis, part in enumerate(plain) if not isinstance(part, int)]
        number = {axis: n for n, axis in enumerate(left)}
        varying = {number[axis]: arrays[axis] for axis in left if axis in arrays}
        segments = self.segments.select([EVERY if is_array(part) else part for part in plain])
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

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        step = TESTS.get(ufunc)
        if step is None or method != "__call__" or kwargs or self.dtype.kind not in "biufc":
            return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        if ufunc is np.invert and self.dtype != bool:
            return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        return self._derived(("step", step), lambda: self.segments.extend([step], {}), bool)

    def astype(self, dtype: npt.DTypeLike, *args: Any, **kwargs: Any) -> Any:
        """Cast to another type; numbers and fixed strings stay virtual."""
        dtype = np.dtype(dtype)
        named = named_type(self.dtype, dtype, self.name)
        if dtype == self.dtype:
            return (
                self if named is None else VirtualArray(self.segments, named, self.name, self.notes)
            )
        casting = args[1] if len(args) > 1 else kwargs.get("casting", "unsafe")
        if not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(f"can't cast from {self.dtype} to {dtype} by the rule {casting!r}")
        # how long a string has to be, only the values tell
        known = dtype.itemsize > 0 and dtype.kind in CASTABLE
        if self.dtype.kind not in CASTABLE or not known:
            return self.load().astype(dtype, *args, **kwargs)
        native = named or dtype.newbyteorder("=")
        return VirtualArray(self.segments.cast(native), native, self.name, self.notes)

    def transpose(self, *axes: Any) -> Any:
        """Permute the dimensions."""
        order = permutation(axes, self.ndim)
        if order == tuple(range(self.ndim)):
            return self
        return self._derived(("transpose", *order), lambda: self.segments.transpose(order))

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Give another shape. Only dimensions of length one come and go without loading."""
        wanted = tuple(int(size) for size in unpacked(shape))
        kept = tuple(size for size in self.shape if size != 1)
        if tuple(size for size in wanted if size != 1) != kept:
            return self.load().reshape(wanted, **kwargs)
        key = tuple(0 if size == 1 else slice(None) for size in self.shape)
        result: VirtualArray = self[(*key, ...)]
        for axis, size in enumerate(wanted):
            if size == 1:
                result = result.replaced(result.segments.insert(axis))
        return result

    def squeeze(self, axis: Any = None) -> Any:
        """Drop dimensions of length one."""
        return np.squeeze(self, axis)  # type: ignore[arg-type]

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Swap two dimensions."""
        return np.swapaxes(self, axis1, axis2)  # type: ignore[arg-type]

    def take(self, indices: Any, axis: Any = None, **kwargs: Any) -> Any:
        """Indices along a dimension."""
        return np.take(self, indices, axis, **kwargs)  # type: ignore[arg-type]

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Repeat elements along a dimension."""
        return np.repeat(self, repeats, axis)  # type: ignore[arg-type]

    @property
    def real(self) -> Any:
        """The real part: the array itself, unless it is complex."""
        return np.real(self.load()) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Any:
        """The imaginary part: zeros, unless the array is complex."""
        return np.imag(self.load()) if self.dtype.kind == "c" else np.zeros_like(self)  # type: ignore[call-overload]


def _hashable(part: Any) -> Any:
    """A part of a key as something that compares by its values."""
    return (part.shape, part.tobytes()) if is_array(part) else part
