"""Reading all of a store, as a user would: what is found is a value or an error, place by place."""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import zarr

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import IntarsiaError
from intarsia.store.grid import Grid
from intarsia.store.layout import places_of
from intarsia.store.read import read
from intarsia.store.shown import shown_names
from intarsia.store.zarr_store import open_store

MAX_CELLS = 500
"""Arrays of more chunks are not read through zarr-python."""

MAX_BYTES = 1 << 22
"""Of larger virtual arrays only two corners are read."""

STORE = ""
"""The place of what happens when a store is opened."""

type Found = dict[str, Value | Refusal]


@dataclass(frozen=True)
class Value:
    """A value, by a digest of all of it."""

    digest: str


@dataclass(frozen=True)
class Refusal:
    """An error, by its class; `ours` where it is one of Intarsia's."""

    error: str
    kind: str | None
    text: str

    @classmethod
    def of(cls, error: BaseException) -> Refusal:
        kind = error.kind if isinstance(error, IntarsiaError) else None
        return cls(type(error).__name__, kind, _text(error))


def _text(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, IntarsiaError):  # which a terminal does not obey
        assert text.replace("\n", "").isprintable(), repr(text)
    return text[:2000]


def look(path: str) -> Found:
    """Open a store and read every group, every variable, every value."""
    found: Found = {}
    try:
        stored = read(path)
        groups = stored.groups
        paths = list(groups)
    except Exception as error:  # noqa: BLE001
        return {STORE: Refusal.of(error)}
    found[STORE] = Value(repr(sorted(paths)))
    for path in paths:
        try:
            group = groups[path]
        except Exception as error:  # noqa: BLE001
            found[path] = Refusal.of(error)
            continue
        found[path] = Value(
            _digest(group.attrs, group.encoding, [*group.variables])
        )  # in their order
        for name, variable in group.variables.items():
            place = f"{path}\0{name}"
            try:
                values = _values(variable.data)
                found[place] = Value(
                    _digest(
                        *(variable.dims, variable.shape, variable.coordinate),
                        *(variable.attrs, variable.encoding, variable.grid, *values),
                    )
                )
            except Exception as error:  # noqa: BLE001
                found[place] = Refusal.of(error)
    return found


def _values(data: Any) -> list[np.ndarray]:
    if not isinstance(data, VirtualArray):
        return [data]
    if data.nbytes <= MAX_BYTES:
        return [data.load()]
    corners: list[np.ndarray] = []
    for here in (lambda n, size: slice(0, n), lambda n, size: slice(size - n, size)):
        key = tuple(
            here(min(size, 2 if dim < 4 else 1), size) for dim, size in enumerate(data.shape)
        )
        corners.append(data[key].load())
    return corners


def look_as_zarr(path: str) -> tuple[Found, Found]:
    """Read the virtual variables through zarr-python, and as they are; by path of the variable."""
    shown: Found = {}
    plain: Found = {}
    try:
        store = open_store(path)
        groups = dict(read(path).groups)
        hierarchy = zarr.open_group(store, mode="r", zarr_format=3)
    except Exception as error:  # noqa: BLE001
        return {STORE: Refusal.of(error)}, {}
    for place, group in groups.items():
        nodes = places_of(groups, shown_names)[place].nodes
        for name, variable in group.variables.items():
            data = variable.data
            if not isinstance(data, VirtualArray) or data.nbytes > MAX_BYTES:
                continue
            if variable.grid is not None and _cells(variable.shape, variable.grid) > MAX_CELLS:
                continue
            full = f"{place}\0{name}"
            try:
                array = hierarchy[nodes[name]]
                assert isinstance(array, zarr.Array)
                shown[full] = Value(_digest(np.asarray(array[...])))
            except Exception as error:  # noqa: BLE001
                shown[full] = Refusal.of(error)
            try:
                plain[full] = Value(_digest(data.load()))
            except Exception as error:  # noqa: BLE001
                plain[full] = Refusal.of(error)
    return shown, plain


def look_as_xarray(path: str) -> Found:
    """Open a store as users do, and read what is small; by path of the variable."""
    found: Found = {}
    try:
        groups = list(read(path).groups)
    except IntarsiaError:
        groups = ["/"]
    for group in groups:
        try:
            dataset = intarsia.open_dataset(path, group=group)
            found[group] = Value(repr(dataset.sizes))
        except Exception as error:  # noqa: BLE001
            found[group] = Refusal.of(error)
            continue
        with suppress(OverflowError, ValueError):  # xarray's, of times that it can't show
            assert repr(dataset)
            assert dataset._repr_html_()
        for name, variable in dataset.variables.items():
            if variable.nbytes <= MAX_BYTES:
                try:
                    found[f"{group}\0{name}"] = Value(_digest(variable.values))
                except Exception as error:  # noqa: BLE001
                    found[f"{group}\0{name}"] = Refusal.of(error)
    try:
        found["tree"] = Value(repr(sorted(intarsia.open_datatree(path).groups)))
    except Exception as error:  # noqa: BLE001
        if type(error) is not ValueError:  # xarray's, as it is told: groups that can't be a tree
            found["tree"] = Refusal.of(error)
    return found


def _cells(shape: tuple[int, ...], grid: Grid) -> int:
    edges = [edge if isinstance(edge, int) else 1 for edge in grid.chunks]
    return prod(-(-size // edge) for size, edge in zip(shape, edges, strict=True))


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            digest.update(piece)
    return digest.hexdigest()[:20]


def _pieces(value: Any) -> Iterator[bytes]:
    """What tells values apart, types and bits included."""
    if isinstance(value, dict):
        yield b"{"
        for key, item in value.items():
            yield repr(key).encode()
            yield from _pieces(item)
    elif isinstance(value, list | tuple):
        yield f"{type(value).__name__}[".encode()
        for item in value:
            yield from _pieces(item)
    elif isinstance(value, set | frozenset):
        yield repr(sorted(map(repr, value))).encode()
    elif isinstance(value, np.ndarray):
        dtype = value.dtype.str if value.dtype.kind in "biufc" else repr(value.dtype)
        yield f"{dtype}{value.shape}".encode()
        if value.dtype.kind in "OT":
            for item in value.reshape(-1).tolist():
                yield from _pieces(item)
        else:
            yield value.tobytes()
    elif isinstance(value, float):
        yield value.hex().encode()
    else:
        yield f"{type(value).__name__} {value!r}".encode()


# -- uninitialised memory --------------------------------------------------------------------------

_libc = ctypes.CDLL(None)
_mallopt: Callable[[int, int], int] | None = getattr(_libc, "mallopt", None)
M_PERTURB = -6
_empty, _empty_like = np.empty, np.empty_like


@contextmanager
def poisoned(byte: int) -> Iterator[None]:
    """Fill memory with a byte when it is taken, before anything is written to it.

    What is read twice, with two bytes, is the same only if all of it was written.
    """

    def empty(*args: Any, **kwargs: Any) -> np.ndarray:
        return _filled(_empty(*args, **kwargs))

    def empty_like(*args: Any, **kwargs: Any) -> np.ndarray:
        return _filled(_empty_like(*args, **kwargs))

    def _filled(array: np.ndarray) -> np.ndarray:
        if array.nbytes and not array.dtype.hasobject and array.dtype.kind != "T":
            array.ravel(order="K").view(np.uint8)[...] = byte
        return array

    if _mallopt is not None and sys.platform == "linux":
        _mallopt(M_PERTURB, byte)
    np.empty, np.empty_like = empty, empty_like  # type: ignore[assignment]
    try:
        yield
    finally:
        np.empty, np.empty_like = _empty, _empty_like
        if _mallopt is not None and sys.platform == "linux":
            _mallopt(M_PERTURB, 0)
