"""Duck arrays that read nothing until their values are asked for.

`VirtualArray` is a set of segments with a dtype: concatenating, stacking, slicing, flipping,
transposing, broadcasting, padding with a constant and casting give another one. Whatever else NumPy
is asked to do loads the values first. `DeferredArray` is a pointwise selection that waits to be
loaded.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Self, SupportsIndex

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from intarsia.encoding import Case, Codec, Encoding
from intarsia.engine.load import load
from intarsia.grid import regular_chunks
from intarsia.references import References, Sources
from intarsia.segments import Segments

type IntArray = npt.NDArray[Any]

MAX_RUNS = 1 << 12
"""A list of indices with more runs of constant step than this is loaded instead of cut up."""

CASTABLE = "biufcSU"
"""Kinds of dtype that stay virtual under `astype`."""


class LazyArray(NDArrayOperatorsMixin):
    """What the lazy arrays share: values on demand, for NumPy, xarray and dask.

    Attributes
    ----------
    dtype
        Type of the values.
    name
        Name of the variable in its source, for errors.
    notes
        Short immutable remarks that travel with the array.
    """

    __slots__ = ("__weakref__", "dtype", "name", "notes")

    dtype: np.dtype[Any]
    name: str | None
    notes: frozenset[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return reduce(operator.mul, self.shape, 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the values, once loaded."""
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one value."""
        return self.dtype.itemsize

    @property
    def T(self) -> Any:
        """The array with its dimensions reversed."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def load(self) -> npt.NDArray[Any]:
        """Read and decode all values."""
        return load_together([self])[0]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("values can't be had without reading them: copy=False is not possible")
        values = self.load()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(out, LazyArray) for out in kwargs.get("out", ())):
            return NotImplemented
        inputs, kwargs = _loaded((inputs, kwargs))
        return getattr(ufunc, method)(*inputs, **kwargs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        if any(t.__module__.partition(".")[0] == "dask" for t in types):
            args, kwargs = _to_dask((args, kwargs))
            return func(*args, **kwargs)
        handler = _FUNCTIONS.get(func)
        if handler is not None:
            result = handler(*args, **kwargs)
            if result is not NotImplemented:
                return result
        args, kwargs = _loaded((args, kwargs))
        return func(*args, **kwargs)

    def transpose(self, *axes: Any) -> Any:
        """Permute the dimensions."""
        return self.load().transpose(*axes)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Give another shape; loads the values."""
        return self.load().reshape(*shape, **kwargs)

    def astype(self, dtype: npt.DTypeLike, *args: Any, **kwargs: Any) -> Any:
        """Cast to another type."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        return self.load().astype(dtype, *args, **kwargs)

    def item(self, *args: Any) -> Any:
        """A single value as a Python scalar."""
        return self.load().item(*args)

    def tolist(self) -> Any:
        """The values as nested lists."""
        return self.load().tolist()

    def __float__(self) -> float:
        return float(self.load())

    def __int__(self) -> int:
        return int(self.load())

    def __bool__(self) -> bool:
        return bool(self.load())

    def __complex__(self) -> complex:
        return complex(self.load())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def copy(self, order: str = "C") -> BlockReader:
        """A plain reader of blocks: what dask takes a copy of, and must not compute on lazily."""
        return BlockReader(self)

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """The blocks that xarray is told of, per dimension."""
        raise NotImplementedError

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that are good to read, per dimension."""
        return self.chunks

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a virtual array is read-only; load() it first")


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
        return VirtualArray(
            segments, self.dtype, self.name, self.notes if notes is None else notes
        )

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

    def __getitem__(self, key: Any) -> Any:
        return _index(self, key)

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
        if not axes or axes == (None,):
            order = tuple(reversed(range(self.ndim)))
        else:
            given = axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes
            order = tuple(_axis(axis, self.ndim) for axis in given)
        if sorted(order) != list(range(self.ndim)):
            raise ValueError("axes don't match array")
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
        NumPy advanced index with one integer array or slice per dimension.
    """

    __slots__ = ("_shape", "key", "source")

    def __init__(self, source: VirtualArray, key: tuple[Any, ...]) -> None:
        self.source = source
        self.key = key
        self.dtype = source.dtype
        self.name = source.name
        self.notes = source.notes.union(["pointwise selection: loaded as a whole when needed"])
        self._shape = np.broadcast_to(np.empty((), np.uint8), source.shape)[key].shape

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
        for size, part in zip(self.source.shape, self.key, strict=True):
            if isinstance(part, slice):
                box.append(part)
                inner.append(slice(None))
            elif part.size == 0:
                box.append(slice(0, 0))
                inner.append(part)
            else:
                part = np.where(part < 0, part + size, part)
                low = int(part.min())
                box.append(slice(low, int(part.max()) + 1))
                inner.append(part - low)
        return self.source[tuple(box)], tuple(inner)

    def __getitem__(self, key: Any) -> Any:
        return self.load()[key]

    def __repr__(self) -> str:
        return f"DeferredArray(shape={self.shape}, dtype={self.dtype}, source={self.source!r})"

    def _repr_inline_(self, max_width: int) -> str:
        """One line for xarray's summary of a dataset."""
        return "virtual: pointwise selection"[:max_width]

    def __reduce__(self) -> tuple[Any, ...]:
        return DeferredArray, (self.source, self.key)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        keys = [part if isinstance(part, slice) else (part.shape, part.tobytes()) for part in self.key]
        return ("intarsia.DeferredArray", self.source.__dask_tokenize__(), keys)


class BlockReader:
    """Reads blocks of a lazy array: an array-like without NumPy's protocols, for dask.

    Parameters
    ----------
    array
        What to read from.
    """

    __slots__ = ("array",)

    def __init__(self, array: LazyArray) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.array.ndim

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that are good to read."""
        return self.array.blocks

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        return np.asarray(self.array[key])

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return self.array.__array__(dtype)

    def __dask_tokenize__(self) -> Any:
        return self.array.__dask_tokenize__()  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockReader, (self.array,)


class LazyMask:
    """A boolean array that is the union of whole slices: along each axis, which indices are in.

    Parameters
    ----------
    axes
        For each axis, a boolean vector or ``None`` (no slice along it).
    shape
        Shape of the mask.
    inverted
        Whether the mask is true outside the slices instead.
    """

    __slots__ = ("axes", "inverted", "shape")

    dtype = np.dtype(bool)

    def __init__(
        self,
        axes: tuple[npt.NDArray[np.bool_] | None, ...],
        shape: tuple[int, ...],
        inverted: bool = False,
    ) -> None:
        self.axes = axes
        self.shape = shape
        self.inverted = inverted

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def astype(self, dtype: npt.DTypeLike, *args: Any, **kwargs: Any) -> Any:
        """The mask itself for bool, else its values cast."""
        if np.dtype(dtype) == self.dtype:
            return self
        return np.asarray(self).astype(dtype)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, LazyMask) or self.inverted or other.inverted:
            return np.asarray(self) | np.asarray(other)
        axes = tuple(
            mine if theirs is None else theirs if mine is None else mine | theirs
            for mine, theirs in zip(self.axes, other.axes, strict=True)
        )
        return LazyMask(axes, np.broadcast_shapes(self.shape, other.shape))

    __ror__ = __or__

    def __invert__(self) -> LazyMask:
        return LazyMask(self.axes, self.shape, not self.inverted)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        inside = np.zeros(self.shape, bool)
        for axis, vector in enumerate(self.axes):
            if vector is not None:
                inside |= vector.reshape([-1 if n == axis else 1 for n in range(self.ndim)])
        values = ~inside if self.inverted else inside
        return values if dtype is None else values.astype(dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            if ufunc in (np.logical_not, np.invert):
                return ~self
            if ufunc in (np.logical_or, np.bitwise_or) and len(inputs) == 2:
                return inputs[0] | inputs[1] if inputs[0] is self else inputs[1] | inputs[0]
        plain = [np.asarray(item) if isinstance(item, LazyMask) else item for item in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        handler = _FUNCTIONS.get(func)
        if handler is not None:
            result = handler(*args, **kwargs)
            if result is not NotImplemented:
                return result
        args, kwargs = _loaded((args, kwargs))
        return func(*args, **kwargs)


class LazyKey:
    """Indices along one axis, as xarray hands them to be compared with -1.

    Parameters
    ----------
    indices
        Integer array with at most one dimension longer than one.
    """

    __slots__ = ("indices",)

    def __init__(self, indices: IntArray) -> None:
        self.indices = indices

    def __eq__(self, other: object) -> Any:
        found = self.indices == other
        axes: list[npt.NDArray[np.bool_] | None] = [None] * found.ndim
        along = [axis for axis, size in enumerate(found.shape) if size != 1]
        axis = along[0] if along else 0
        axes[axis] = found.reshape(-1)
        return LazyMask(tuple(axes), found.shape)

    __hash__ = None  # type: ignore[assignment]


# -- loading ---------------------------------------------------------------------------------------


def load_together(arrays: Sequence[LazyArray]) -> list[npt.NDArray[Any]]:
    """Values of several lazy arrays; neighbouring chunks are read with one request.

    Parameters
    ----------
    arrays
        What to load; an array given twice is read once.
    """
    windows: list[tuple[VirtualArray, tuple[Any, ...] | None]] = []
    for array in arrays:
        if isinstance(array, DeferredArray):
            windows.append(array.window())
        elif isinstance(array, VirtualArray):
            windows.append((array, None))
        else:
            raise TypeError(f"not an array of this kind: {type(array)}")
    number: dict[int, int] = {}
    distinct: list[VirtualArray] = []
    for array, _ in windows:
        if number.setdefault(id(array), len(distinct)) == len(distinct):
            distinct.append(array)
    loaded = load([(array.segments, array.dtype, array.name) for array in distinct])
    taken: set[int] = set()
    results: list[npt.NDArray[Any]] = []
    for array, key in windows:
        place = number[id(array)]
        values = loaded[place]
        if key is not None:
            values = values[key]
        elif place in taken:
            values = values.copy()
        taken.add(place)
        results.append(values)
    return results


def _walk(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest of tuples, lists and dicts with every lazy array and mask changed."""
    if isinstance(tree, LazyArray | LazyMask):
        return change(tree)
    if type(tree) is tuple:
        return tuple(_walk(item, change) for item in tree)
    if type(tree) is list:
        return [_walk(item, change) for item in tree]
    if isinstance(tree, Mapping):
        return {name: _walk(item, change) for name, item in tree.items()}
    return tree


def _loaded(tree: Any) -> Any:
    """The same nest with every lazy array loaded, all of them together."""
    found: dict[int, LazyArray] = {}

    def collect(item: Any) -> Any:
        if isinstance(item, LazyArray):
            found[id(item)] = item
        return item

    _walk(tree, collect)
    values = dict(zip(found, load_together(list(found.values())), strict=True))
    return _walk(
        tree, lambda item: np.asarray(item) if isinstance(item, LazyMask) else values[id(item)]
    )


def _to_dask(tree: Any) -> Any:
    import dask.array as da

    return _walk(tree, lambda item: da.from_array(item, chunks=item.blocks))


# -- indexing --------------------------------------------------------------------------------------


def _index(array: VirtualArray, key: Any) -> Any:
    keys = _expand(key, array.ndim)
    new_axes = [part for part in keys if part is None]
    parts: list[Any] = []
    for part in keys:
        if part is None:
            continue
        size = array.shape[len(parts)]
        parts.append(_normal(part, size, len(parts)))
    advanced = [part for part in parts if isinstance(part, np.ndarray)]
    if not advanced:
        result = array._with(array.segments.select(parts))
    elif new_axes:
        return array.load()[key]
    else:
        if len(advanced) == 1 and advanced[0].ndim == 1:
            first = next(n for n, part in enumerate(parts) if isinstance(part, np.ndarray))
            # an integer beside a list takes part in advanced indexing: its place may move
            if not _moved(parts):
                plain = [slice(None) if isinstance(p, np.ndarray) else p for p in parts]
                axis = first - sum(isinstance(p, int) for p in parts[:first])
                chosen = array._with(array.segments.select(plain))
                return _take(chosen, advanced[0], axis)
        return _outer(array, parts)
    axis = 0
    for part in keys:
        if part is None:
            result = result._with(result.segments.insert(axis))
            axis += 1
        elif isinstance(part, slice):
            axis += 1
    return result


def _moved(parts: Sequence[Any]) -> bool:
    """Whether NumPy would put the advanced dimension first instead of where the list stands."""
    places = [n for n, part in enumerate(parts) if not isinstance(part, slice)]
    apart = any(b - a > 1 for a, b in zip(places, places[1:], strict=False))
    return apart and not all(isinstance(part, slice) for part in parts[: places[0]])


def _outer(array: VirtualArray, parts: list[Any]) -> Any:
    """Advanced indexing: orthogonal lists stay virtual, pointwise selections are deferred."""
    ndim = max(part.ndim for part in parts if isinstance(part, np.ndarray))
    taken: list[tuple[int, int, IntArray]] = []  # (result axis, array axis, indices)
    for axis, part in enumerate(parts):
        if not isinstance(part, np.ndarray):
            if not (isinstance(part, slice) and part == slice(None)):
                return _pointwise(array, parts)
            continue
        shape = (1,) * (ndim - part.ndim) + part.shape
        along = [place for place, size in enumerate(shape) if size != 1]
        if len(along) > 1:
            return _pointwise(array, parts)
        taken.append((along[0] if along else -1, axis, part.reshape(-1)))
    # np.ix_ style: every array along its own axis, in order, and nothing else
    if len(taken) != array.ndim or ndim != array.ndim:
        return _pointwise(array, parts)
    places = [place if place >= 0 else axis for place, axis, _ in taken]
    if places != list(range(array.ndim)):
        return _pointwise(array, parts)
    result: Any = array
    for _, axis, indices in taken:
        result = _take(result, indices, axis)
        if not isinstance(result, VirtualArray):
            return _pointwise(array, parts)
    return result


def _pointwise(array: VirtualArray, parts: list[Any]) -> DeferredArray:
    key = tuple(part if isinstance(part, slice) else np.asarray(part) for part in parts)
    return DeferredArray(array, key)


def _take(array: VirtualArray, indices: IntArray, axis: int) -> Any:
    """Select a list of indices along an axis, as runs of constant step."""
    runs = runs_of(indices)
    if len(runs) > MAX_RUNS:
        key: list[Any] = [slice(None)] * array.ndim
        key[axis] = indices
        return _pointwise(array, key)
    before = (slice(None),) * axis
    after = (slice(None),) * (array.ndim - axis - 1)
    if not runs:
        return array._with(array.segments.select((*before, slice(0, 0), *after)))
    parts: list[Segments] = []
    for start, step, count in runs:
        if step == 0:
            one = array.segments.select((*before, slice(start, start + 1), *after))
            parts.append(one.repeat(axis, count))
            continue
        stop = start + step * count
        window = slice(start, stop if stop >= 0 else None, step)
        parts.append(array.segments.select((*before, window, *after)))
    return array._with(Segments.concatenate(parts, axis))


def runs_of(indices: IntArray) -> list[tuple[int, int, int]]:
    """Cut a vector into runs (start, step, count) of constant step.

    Examples
    --------
    >>> runs_of(np.array([0, 1, 2, 7, 7, 5]))
    [(0, 1, 3), (7, 0, 2), (5, 1, 1)]
    """
    runs: list[tuple[int, int, int]] = []
    steps = np.diff(indices)
    changes = np.append(np.flatnonzero(np.diff(steps)) + 1, len(steps))
    place = 0
    while place < len(indices):
        if place == len(indices) - 1:
            runs.append((int(indices[place]), 1, 1))
            break
        end = int(changes[np.searchsorted(changes, place, side="right")])
        runs.append((int(indices[place]), int(steps[place]), end - place + 1))
        place = end + 1
    return runs


def _expand(key: Any, ndim: int) -> list[Any]:
    """One entry per dimension (and ``None`` for new ones)."""
    keys: list[Any] = list(key) if isinstance(key, tuple) else [key]
    used = sum(
        np.ndim(part) if _is_mask(part) else 1
        for part in keys
        if part is not None and part is not Ellipsis
    )
    if used > ndim:
        raise IndexError(f"too many indices: array is {ndim}-dimensional, got {used}")
    places = [n for n, part in enumerate(keys) if part is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = places[0] if places else len(keys)
    fill = [slice(None)] * (ndim - used)
    keys = keys[:place] + fill + keys[place + bool(places) :]
    result: list[Any] = []
    for part in keys:
        if _is_mask(part):
            result.extend(np.nonzero(np.asarray(part)))
        else:
            result.append(part)
    return result


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_ and np.ndim(part) > 0


def _normal(part: Any, size: int, axis: int) -> slice | int | IntArray:
    """A slice, a non-negative integer, or an array of non-negative integers."""
    if isinstance(part, slice):
        return part
    if isinstance(part, SupportsIndex) and np.ndim(part) == 0:
        index = operator.index(part)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
        return index % size
    indices = np.asarray(part)
    if indices.size == 0:
        indices = indices.astype(np.int64)
    if indices.dtype.kind not in "iu":
        raise IndexError("only integers, slices, ellipsis, None and integer or boolean arrays index")
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise IndexError(f"an index is out of bounds for axis {axis} with size {size}")
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + size, indices)


def _axis(axis: Any, ndim: int) -> int:
    index = operator.index(axis)
    if not -ndim <= index < ndim:
        raise np.exceptions.AxisError(index, ndim)
    return index % ndim


# -- NumPy functions that stay virtual -------------------------------------------------------------


def _as_virtual(arrays: Sequence[Any], dtype: np.dtype[Any]) -> list[VirtualArray] | None:
    """All as virtual arrays of one dtype, or ``None`` where one can't be."""
    if dtype.kind not in CASTABLE:
        return None
    result: list[VirtualArray] = []
    for array in arrays:
        if isinstance(array, np.ndarray) and array.dtype.kind in CASTABLE:
            array = VirtualArray.inline(array)
        if not isinstance(array, VirtualArray):
            return None
        result.append(array.astype(dtype))
    return result


def _merged(arrays: Sequence[VirtualArray], segments: Segments, dtype: np.dtype[Any]) -> Any:
    name = next((array.name for array in arrays if array.name is not None), None)
    sets = {array.notes for array in arrays}
    notes = frozenset[str]().union(*sets)
    return VirtualArray(segments, dtype, name, notes)


def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, **kwargs: Any) -> Any:
    arrays = list(arrays)
    if out is not None or kwargs or axis is None:
        return NotImplemented
    dtype = np.result_type(*{array.dtype for array in arrays})
    virtual = _as_virtual(arrays, dtype)
    if virtual is None:
        return NotImplemented
    axis = _axis(axis, virtual[0].ndim)
    first = virtual[0].shape
    for array in virtual:
        if array.ndim != len(first) or any(
            a != b for n, (a, b) in enumerate(zip(array.shape, first, strict=True)) if n != axis
        ):
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match "
                f"exactly: {first} and {array.shape}"
            )
    joined = Segments.concatenate([array.segments for array in virtual], axis)
    return _merged(virtual, joined, dtype)


def _stack(arrays: Any, axis: Any = 0, out: Any = None, **kwargs: Any) -> Any:
    arrays = list(arrays)
    if out is not None or kwargs:
        return NotImplemented
    place = _axis(axis, arrays[0].ndim + 1)
    return _concatenate([_expand_dims(array, place) for array in arrays], place)


def _expand_dims(array: Any, axis: Any) -> Any:
    if not isinstance(array, VirtualArray):
        return np.expand_dims(array, axis)
    axes = axis if isinstance(axis, Sequence) else (axis,)
    ndim = array.ndim + len(axes)
    segments = array.segments
    for place in sorted(_axis(one, ndim) for one in axes):
        segments = segments.insert(place)
    return array._with(segments)


def _squeeze(array: VirtualArray, axis: Any = None) -> Any:
    if axis is None:
        axes = {n for n, size in enumerate(array.shape) if size == 1}
    else:
        given = axis if isinstance(axis, Sequence) else (axis,)
        axes = {_axis(one, array.ndim) for one in given}
        if any(array.shape[one] != 1 for one in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return array[tuple(0 if n in axes else slice(None) for n in range(array.ndim))]


def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    if not isinstance(array, VirtualArray):
        return NotImplemented
    shape = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    # raises as NumPy does where the shapes don't fit
    np.broadcast_to(np.broadcast_to(np.empty((), np.uint8), array.shape), shape)
    segments = array.segments
    for _ in range(len(shape) - array.ndim):
        segments = segments.insert(0)
    for axis, size in enumerate(shape):
        if segments.shape[axis] != size:
            segments = segments.repeat(axis, size)
    return array._with(segments)


def _transpose(a: VirtualArray, axes: Any = None) -> Any:
    return a.transpose() if axes is None else a.transpose(tuple(axes))


def _moveaxis(a: VirtualArray, source: Any, destination: Any) -> Any:
    # the order that NumPy would use, found on an array without memory
    model = np.empty((0,) * a.ndim)
    labels = np.moveaxis(model.reshape(model.shape), source, destination)
    del labels
    sources = [source] if np.ndim(source) == 0 else list(source)
    places = [destination] if np.ndim(destination) == 0 else list(destination)
    moved = [_axis(axis, a.ndim) for axis in sources]
    order = [axis for axis in range(a.ndim) if axis not in moved]
    for place, axis in sorted(zip([_axis(p, a.ndim) for p in places], moved, strict=True)):
        order.insert(place, axis)
    return a.transpose(tuple(order))


def _swapaxes(a: VirtualArray, axis1: Any, axis2: Any) -> Any:
    order = list(range(a.ndim))
    one, two = _axis(axis1, a.ndim), _axis(axis2, a.ndim)
    order[one], order[two] = order[two], order[one]
    return a.transpose(tuple(order))


def _flip(m: VirtualArray, axis: Any = None) -> Any:
    given = range(m.ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    axes = {_axis(one, m.ndim) for one in given}
    return m[tuple(slice(None, None, -1) if n in axes else slice(None) for n in range(m.ndim))]


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Keep `x` outside whole slices, and put the constant `y` into them."""
    if not isinstance(condition, LazyMask) or not condition.inverted:
        return NotImplemented
    if not isinstance(x, VirtualArray) or np.ndim(y) or isinstance(y, LazyArray):
        return NotImplemented
    dtype = np.result_type(x, y)
    if dtype.kind not in CASTABLE or condition.shape != x.shape:
        return NotImplemented
    segments: Segments = x.astype(dtype).segments
    for axis, vector in enumerate(condition.axes):
        if vector is not None and vector.any():
            segments = _fill(segments, axis, vector, y, dtype)
    return VirtualArray(segments, dtype, x.name, x.notes)


def _fill(
    segments: Segments, axis: int, vector: npt.NDArray[np.bool_], value: Any, dtype: np.dtype[Any]
) -> Segments:
    edges = np.flatnonzero(np.diff(vector)) + 1
    parts: list[Segments] = []
    begin = 0
    for end in [*edges.tolist(), len(vector)]:
        if vector[begin]:
            shape = (*segments.shape[:axis], end - begin, *segments.shape[axis + 1 :])
            parts.append(Segments.full(shape, value, dtype))
        else:
            key = [slice(None)] * segments.ndim
            key[axis] = slice(begin, end)
            parts.append(segments.select(key))
        begin = end
    return Segments.concatenate(parts, axis)


def _result_type(*arrays: Any) -> Any:
    return np.result_type(*(a.dtype if isinstance(a, LazyArray) else a for a in arrays))


def _full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, **kwargs: Any) -> Any:
    dtype = np.dtype(a.dtype if dtype is None else dtype)
    if dtype.kind not in CASTABLE or np.ndim(fill_value):
        return NotImplemented
    return VirtualArray.full(a.shape if shape is None else shape, fill_value, dtype)


_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.expand_dims: _expand_dims,
    np.squeeze: _squeeze,
    np.broadcast_to: _broadcast_to,
    np.transpose: _transpose,
    np.moveaxis: _moveaxis,
    np.swapaxes: _swapaxes,
    np.flip: _flip,
    np.where: _where,
    np.result_type: _result_type,
    np.full_like: _full_like,
    np.zeros_like: lambda a, dtype=None, **kwargs: _full_like(a, 0, dtype),
    np.ones_like: lambda a, dtype=None, **kwargs: _full_like(a, 1, dtype),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
}


# -- blocks ----------------------------------------------------------------------------------------

WHOLE_BYTES = 1 << 28
"""Arrays up to this size are presented to xarray as one block."""

BLOCK_BYTES = 1 << 24
"""Blocks offered to dask come to about so much, where chunks are smaller."""


def preferred_chunks(segments: Segments) -> tuple[int, ...]:
    """A uniform block shape near the chunks of the largest segment.

    Small chunks are merged along the leading dimensions up to about `BLOCK_BYTES`.
    """
    shape = segments.shape
    best: tuple[int, list[int]] | None = None
    for block in segments.blocks:
        fields = block.fields
        sizes = np.ones(len(block))
        for axis in range(segments.ndim):
            sizes *= block.column(fields.shape.start + axis)
        number = int(np.argmax(sizes))
        row = block.matrix(slice(number, number + 1))[0]
        chunk = [int(size) for size in row[fields.shape]]
        for dim in range(fields.source_ndim):
            axis = int(row[fields.axis.start + dim])
            if axis >= 0:
                step = max(1, abs(int(row[fields.step.start + dim])))
                chunk[axis] = max(1, int(row[fields.chunk.start + dim]) // step)
        if best is None or sizes[number] > best[0]:
            best = int(sizes[number]), chunk
    if best is None:
        return tuple(max(size, 1) for size in shape)
    chunk = [max(1, min(edge, size)) for edge, size in zip(best[1], shape, strict=True)]
    itemsize = max(case.encoding.dtype.itemsize for case in segments.cases)
    for axis in reversed(range(len(shape))):
        held = itemsize * reduce(operator.mul, chunk, 1)
        times = max(1, min(BLOCK_BYTES // max(held, 1), -(-shape[axis] // chunk[axis])))
        chunk[axis] = min(chunk[axis] * times, max(shape[axis], 1))
    return tuple(chunk)


def digest(segments: Segments, dtype: np.dtype[Any]) -> str:
    """A token that is equal for equal segments of equal sources."""
    found = hashlib.sha256(f"{dtype.str}{segments.shape}".encode())
    for block in segments.blocks:
        found.update(repr(block.fields).encode())
        found.update(block.matrix().tobytes())
    for case in segments.cases:
        found.update(repr(case.encoding).encode())
        found.update(case.rows.tobytes())
    for page in segments.pages:
        for column in (page.offsets, page.lengths, page.masks, page.states, page.chunks):
            found.update(b"-" if column is None else column.tobytes())
        found.update(page.inline)
    for source in segments.sources:
        found.update(repr(source).encode())
    return found.hexdigest()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
