"""What lazy arrays share: values on demand, for NumPy, xarray and dask."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from intarsia.engine.load import Named, load

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""NumPy functions that lazy arrays carry out themselves (see `intarsia.array.functions`)."""


type Request = tuple[Named, Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None]


class Unloaded:
    """Anything that stands for values which are not in memory."""

    __slots__ = ()


class LazyArray(Unloaded, NDArrayOperatorsMixin):
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

    def request(self) -> Request:
        """What the engine has to load, and what to do with it then (None: it is the values)."""
        raise NotImplementedError

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
        inputs, kwargs = loaded((inputs, kwargs))
        return getattr(ufunc, method)(*inputs, **kwargs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return dispatch(func, types, args, kwargs)

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


def load_together(arrays: Sequence[LazyArray]) -> list[npt.NDArray[Any]]:
    """Values of several lazy arrays; neighbouring chunks are read with one request.

    Parameters
    ----------
    arrays
        What to load; an array given twice is read once.
    """
    requests = [array.request() for array in arrays]
    number: dict[int, int] = {}
    distinct: list[Named] = []
    for (segments, dtype, name), _ in requests:
        if number.setdefault(id(segments), len(distinct)) == len(distinct):
            distinct.append((segments, dtype, name))
    values = load(distinct)
    taken: set[int] = set()
    results: list[npt.NDArray[Any]] = []
    for (segments, _, _), finish in requests:
        place = number[id(segments)]
        result = values[place]
        if finish is not None:
            result = finish(result)
        elif place in taken:
            result = result.copy()
        taken.add(place)
        results.append(result)
    return results


def dispatch(
    func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """Carry out a NumPy function: without loading where that is known, else on loaded values.

    Beside dask arrays, lazy ones become dask arrays.
    """
    if any(kind.__module__.partition(".")[0] == "dask" for kind in types):
        args, kwargs = _to_dask((args, kwargs))
        return func(*args, **kwargs)
    handler = FUNCTIONS.get(func)
    if handler is not None:
        result = handler(*args, **kwargs)
        if result is not NotImplemented:
            return result
    args, kwargs = loaded((args, kwargs))
    return func(*args, **kwargs)


def loaded(tree: Any) -> Any:
    """A nest of tuples, lists and dicts with the lazy arrays in it loaded, all together."""
    found: dict[int, LazyArray] = {}

    def collect(item: Any) -> Any:
        if isinstance(item, LazyArray):
            found[id(item)] = item
        return item

    _walk(tree, collect)
    values = dict(zip(found, load_together(list(found.values())), strict=True))
    return _walk(tree, lambda item: values[id(item)] if id(item) in values else np.asarray(item))


def _walk(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest with every unloaded thing changed."""
    if isinstance(tree, Unloaded):
        return change(tree)
    if type(tree) is tuple:
        return tuple(_walk(item, change) for item in tree)
    if type(tree) is list:
        return [_walk(item, change) for item in tree]
    if type(tree) is dict:
        return {name: _walk(item, change) for name, item in tree.items()}
    return tree


def _to_dask(tree: Any) -> Any:
    import dask.array as da

    def convert(item: Any) -> Any:
        if isinstance(item, LazyArray):
            return da.from_array(item, chunks=item.blocks)
        return np.asarray(item)

    return _walk(tree, convert)
