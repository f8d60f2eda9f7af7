"""What a lazy array offers: values on demand, for NumPy, xarray and dask."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from intarsia.array.dispatch import Loadable, array_to_dask, call_function, call_ufunc
from intarsia.array.keys import is_mapping
from intarsia.array.reader import BlockReader
from intarsia.engine.load import Named, load


class LazyType(type):
    """Type of lazy arrays, for what it says of itself.

    xarray refuses to load variables of several lazy kinds together, and names their types.
    """

    def __repr__(cls) -> str:
        return (
            f"<class '{cls.__module__}.{cls.__qualname__}' (not loaded yet; beside dask arrays, "
            "call .chunk() on the dataset first, so that all are dask arrays)>"
        )


class LazyArray(  # pyright: ignore[reportGeneralTypeIssues] the mixin is of no other metaclass
    Loadable, NDArrayOperatorsMixin, metaclass=LazyType
):
    """What lazy arrays share: values on demand, for NumPy, xarray and dask.

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

    def request(self) -> Named:
        """What the engine has to load."""
        raise NotImplementedError

    def load(self) -> npt.NDArray[Any]:
        """Read and decode all values."""
        return load_together([self])[0]

    def rechunk(self, chunks: Any = "auto", **kwargs: Any) -> Any:
        """A dask array that reads in the given chunks, as `dask.array.from_array` takes them."""
        if is_mapping(chunks):
            chunks = tuple(chunks.get(axis) for axis in range(self.ndim))
        return array_to_dask(self, chunks, **kwargs)

    @staticmethod
    def load_all(arrays: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Read and decode all values of several arrays, together."""
        return load_together(arrays)

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
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        return call_function(func, types, args, kwargs)

    def transpose(self, *axes: Any) -> Any:
        """Permute the dimensions."""
        raise NotImplementedError

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

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self.load())

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

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a virtual array is read-only; load() it first")

    def __dask_tokenize__(self) -> Any:
        raise NotImplementedError


def _loading(name: str) -> Callable[..., Any]:
    """An array method that works on the loaded values."""

    def method(self: LazyArray, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.load(), name)(*args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"LazyArray.{name}"
    method.__doc__ = f"As `numpy.ndarray.{name}`, of the loaded values."
    return method


def _in_place(name: str) -> Callable[..., Any]:
    """An in-place operator: the name is bound to a loaded array, the lazy one stays as it is."""
    change: Callable[[Any, Any], Any] = getattr(operator, name)

    def method(self: LazyArray, other: Any) -> Any:
        return change(self.load(), other)

    method.__name__ = name
    method.__qualname__ = f"LazyArray.{name}"
    return method


METHODS = (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress"),
    *("conj", "conjugate", "cumprod", "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min"),
    *("nonzero", "prod", "ravel", "round", "searchsorted", "std", "sum", "tobytes", "trace", "var"),
)
"""Methods of NumPy's arrays that load, as arrays in general are expected to have them."""

for _name in METHODS:
    setattr(LazyArray, _name, _loading(_name))

OPERATORS = (
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "ilshift", "irshift"),
    *("iand", "ixor", "ior", "imatmul"),
)

for _name in OPERATORS:
    setattr(LazyArray, f"__{_name}__", _in_place(f"__{_name}__"))


def load_together(arrays: Sequence[LazyArray]) -> list[npt.NDArray[Any]]:
    """Values of several lazy arrays; neighbouring chunks are read with one request.

    Parameters
    ----------
    arrays
        What to load; an array given twice is read once.
    """
    requests = [array.request() for array in arrays]
    number: dict[tuple[int, np.dtype[Any]], int] = {}
    distinct: list[Named] = []
    for segments, dtype, name in requests:
        if number.setdefault((id(segments), dtype), len(distinct)) == len(distinct):
            distinct.append((segments, dtype, name))
    values = load(distinct)
    taken: set[int] = set()
    results: list[npt.NDArray[Any]] = []
    for segments, dtype, _ in requests:
        place = number[id(segments), dtype]
        results.append(values[place].copy() if place in taken else values[place])
        taken.add(place)
    return results
