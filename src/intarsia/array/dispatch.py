"""What lazy arrays do when NumPy is asked: their own way where there is one, else load."""

# dask is untyped
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""NumPy functions that lazy arrays carry out without being loaded (`intarsia.array.functions`)."""

type Handler = Callable[..., Any]


class Unloaded:
    """Anything that stands for values which are not in memory."""

    __slots__ = ()


class Loadable(Unloaded):
    """An array whose values can be had, alone or together with others."""

    __slots__ = ()

    @staticmethod
    def load_all(arrays: Sequence[Any]) -> list[Any]:
        """Values of several such arrays."""
        raise NotImplementedError

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that are good to read, per dimension."""
        raise NotImplementedError


def implements(*functions: Callable[..., Any]) -> Callable[[Handler], Handler]:
    """Register a handler for NumPy functions, which may return ``NotImplemented``: then load."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            FUNCTIONS[function] = handler
        return handler

    return register


def call_function(
    func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """Carry out a NumPy function: without loading where that is known, else on loaded values.

    Beside dask arrays, lazy ones become dask arrays.
    """
    if any(of_dask(kind) for kind in types):
        args, kwargs = to_dask((args, dict(kwargs)))
        return func(*args, **kwargs)
    handler = FUNCTIONS.get(func)
    if handler is not None:
        result = handler(*args, **kwargs)
        if result is not NotImplemented:
            return result
    args, kwargs = loaded((args, dict(kwargs)))
    return func(*args, **kwargs)


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """Carry out a ufunc on loaded values, or on dask arrays beside such."""
    if any(of_dask(item.__class__) for item in inputs):
        inputs = to_dask(inputs)
    inputs, kwargs = loaded((inputs, kwargs))
    return getattr(ufunc, method)(*inputs, **kwargs)


def loaded(tree: Any) -> Any:
    """A nest of tuples, lists and dicts with the lazy arrays in it loaded, all together."""
    found: dict[int, Loadable] = {}

    def collect(item: Any) -> Any:
        if isinstance(item, Loadable):
            found[id(item)] = item
        return item

    _walk(tree, collect)
    if not found:
        return _walk(tree, np.asarray)
    arrays = list(found.values())
    values = dict(zip(found, type(arrays[0]).load_all(arrays), strict=True))
    return _walk(tree, lambda item: values[id(item)] if id(item) in values else np.asarray(item))


def of_dask(kind: type) -> bool:
    """Whether a type is one of dask's."""
    return kind.__module__.partition(".")[0] == "dask"


def array_to_dask(array: Any, chunks: Any, **kwargs: Any) -> Any:
    """A dask array that reads blocks of `array`."""
    import dask.array as da

    return da.from_array(array, chunks, **kwargs)


def to_dask(tree: Any) -> Any:
    """A nest with the lazy arrays in it as dask arrays."""

    def convert(item: Any) -> Any:
        if isinstance(item, Loadable):
            return array_to_dask(item, item.blocks)
        return np.asarray(item)

    return _walk(tree, convert)


def _walk(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest with every unloaded thing changed."""
    if isinstance(tree, Unloaded):
        return change(tree)
    nest: Any = tree  # any further type is checked exactly: subclasses are values
    if type(nest) is tuple:
        return tuple(_walk(item, change) for item in nest)
    if type(nest) is list:
        return [_walk(item, change) for item in nest]
    if type(nest) is dict:
        return {name: _walk(item, change) for name, item in nest.items()}
    return nest
