"""What xarray asks of arrays that are not loaded yet: a chunk manager for the lazy arrays.

xarray hands lazy arrays of any kind to the chunk manager that recognises them. This one computes by
loading (all variables of a dataset together), keeps reindexing virtual, writes block by block, and
leaves rechunking to dask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from xarray.namedarray.parallelcompat import ChunkManagerEntrypoint

from intarsia.array import LazyArray, LazyKey, VirtualArray, load_together
from intarsia.progress import track


class _Constants:
    """The part of the array API that xarray calls on a manager: constant arrays."""

    @staticmethod
    def full(
        shape: Sequence[int], fill_value: Any, dtype: npt.DTypeLike = None, chunks: Any = None
    ) -> Any:
        """A constant array; virtual where its type allows."""
        dtype = np.asarray(fill_value).dtype if dtype is None else np.dtype(dtype)
        if dtype.kind in "biufc":
            return VirtualArray.full(shape, fill_value, dtype)
        return np.full(shape, fill_value, dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class IntarsiaManager(ChunkManagerEntrypoint[LazyArray]):
    """Chunk manager of `intarsia.array.LazyArray`; registered as ``"intarsia"``."""

    array_cls = LazyArray
    available = True

    def __init__(self) -> None:
        pass

    def is_chunked_array(self, data: Any) -> bool:
        """Whether `data` is one of ours."""
        return isinstance(data, LazyArray)

    def chunks(self, data: LazyArray) -> tuple[tuple[int, ...], ...]:
        """The uniform blocks that the array presents."""
        return data.chunks

    def normalize_chunks(
        self,
        chunks: Any,
        shape: tuple[int, ...] | None = None,
        limit: int | None = None,
        dtype: Any = None,
        previous_chunks: Any = None,
    ) -> Any:
        """Blocks as dask would cut them, where dask is installed."""
        from dask.array.core import normalize_chunks

        return normalize_chunks(
            chunks, shape=shape, limit=limit, dtype=dtype, previous_chunks=previous_chunks
        )

    def from_array(self, data: Any, chunks: Any, **kwargs: Any) -> Any:
        """Lazy counterpart of `data`.

        While it reindexes, xarray passes the indices along one axis and compares the result with
        -1: that gives a mask that `numpy.where` applies to a virtual array without loading it.
        """
        if isinstance(data, LazyArray):
            return data
        if isinstance(data, np.ndarray) and data.dtype.kind in "iu":
            if sum(size != 1 for size in data.shape) <= 1:
                return LazyKey(data)
            return data
        import dask.array as da

        return da.from_array(data, chunks, **kwargs)

    def rechunk(self, data: LazyArray, chunks: Any, **kwargs: Any) -> Any:
        """A dask array with the given chunks."""
        import dask.array as da

        if isinstance(chunks, dict):
            chunks = tuple(chunks.get(axis) for axis in range(data.ndim))
        return da.from_array(data, chunks, **kwargs)

    def compute(self, *data: Any, **kwargs: Any) -> tuple[npt.NDArray[Any], ...]:
        """Load all arrays together; arguments for other schedulers are not used."""
        arrays = [item for item in data if isinstance(item, LazyArray)]
        loaded = iter(load_together(arrays))
        return tuple(
            next(loaded) if isinstance(item, LazyArray) else np.asarray(item) for item in data
        )

    def persist(self, *data: Any, **kwargs: Any) -> tuple[npt.NDArray[Any], ...]:
        """The same as `compute`: what is loaded is in memory."""
        return self.compute(*data, **kwargs)

    @property
    def array_api(self) -> Any:
        """Namespace with `full`."""
        return _Constants()

    def apply_gufunc(
        self,
        func: Callable[..., Any],
        signature: str,
        *args: Any,
        vectorize: bool | None = None,
        output_dtypes: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Load the arguments and apply `func` to them as one block."""
        for name in ("axes", "axis", "keepdims", "output_sizes", "allow_rechunk", "meta"):
            kwargs.pop(name, None)
        lazy = [item for item in args if isinstance(item, LazyArray)]
        loaded = iter(load_together(lazy))
        values = [next(loaded) if isinstance(item, LazyArray) else item for item in args]
        if vectorize:
            func = np.vectorize(func, signature=signature, otypes=output_dtypes)
        return func(*values, **kwargs)

    def map_blocks(
        self, func: Callable[..., Any], *args: Any, dtype: Any = None, **kwargs: Any
    ) -> Any:
        """Load the arguments and apply `func` to them as one block."""
        for name in ("chunks", "drop_axis", "new_axis", "meta", "name", "token"):
            kwargs.pop(name, None)
        lazy = [item for item in args if isinstance(item, LazyArray)]
        loaded = iter(load_together(lazy))
        values = [next(loaded) if isinstance(item, LazyArray) else item for item in args]
        return func(*values, **kwargs)

    def unify_chunks(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
        """Nothing to unify: blocks are only what is read at a time."""
        return {}, list(args[::2])

    def store(
        self,
        sources: Any | Sequence[Any],
        targets: Any,
        *,
        regions: Any = None,
        compute: bool = True,
        lock: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Write arrays into array-likes, block by block."""
        if isinstance(sources, LazyArray):
            sources, targets = [sources], [targets]
        regions = regions if isinstance(regions, list) else [regions] * len(sources)
        if not compute:
            import dask

            return dask.delayed(self.store)(sources, targets, regions=regions)
        jobs = [
            (source, target, region, box)
            for source, target, region in zip(sources, targets, regions, strict=True)
            for box in _boxes(source)
        ]
        for source, target, region, box in track(jobs, "writing", unit="blocks"):
            target[_within(region, box)] = np.asarray(source[box])
        return None


def _boxes(array: LazyArray) -> Iterator[tuple[slice, ...]]:
    """Slices of the blocks that are good to read."""
    edges: list[list[slice]] = []
    for sizes in array.blocks:
        stops = np.cumsum(sizes).tolist()
        edges.append([slice(stop - size, stop) for stop, size in zip(stops, sizes, strict=True)])
    yield from product(*edges)


def _within(region: tuple[slice, ...] | None, box: tuple[slice, ...]) -> tuple[slice, ...]:
    """The box, moved into a region of the target."""
    if region is None:
        return box
    moved: list[slice] = []
    for outer, inner in zip(region, box, strict=True):
        begin, step = outer.start or 0, outer.step or 1
        moved.append(slice(begin + inner.start * step, begin + inner.stop * step, outer.step))
    return tuple(moved)
