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
from xarray.core.indexing import PandasIndexingAdapter
from xarray.namedarray.parallelcompat import ChunkManagerEntrypoint

from intarsia.array import LazyArray, LazyKey, VirtualArray, load_together
from intarsia.array.keys import is_array, is_list, is_tuple
from intarsia.errors import MissingPackage
from intarsia.progress import track


class _Constants:
    """The part of the array API that xarray calls on a manager: constant arrays."""

    @staticmethod
    def full(shape: Sequence[int], fill_value: Any, dtype: Any = None, chunks: Any = None) -> Any:
        """A constant array; virtual where its type allows."""
        kind: np.dtype[Any] = np.asarray(fill_value).dtype if dtype is None else np.dtype(dtype)
        if kind.kind in "biufc":
            return VirtualArray.full(shape, fill_value, kind)
        return np.full(shape, fill_value, kind)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class IntarsiaManager(
    ChunkManagerEntrypoint[LazyArray]  # pyright: ignore[reportInvalidTypeArguments]
):
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
        """Blocks as dask would cut them."""
        return _dask().core.normalize_chunks(
            chunks, shape=shape, limit=limit, dtype=dtype, previous_chunks=previous_chunks
        )

    def from_array(self, data: Any, chunks: Any, **kwargs: Any) -> Any:
        """Lazy counterpart of `data`.

        While it reindexes, xarray passes the indices along one axis (with a list of chunks, unlike
        all others) and compares the result with -1: that gives a mask that `numpy.where` applies to
        a virtual array without loading it. What is in memory and wanted as one block (by `idxmax`
        and `interp`) stays as it is.
        """
        if isinstance(data, LazyArray):
            return data
        if isinstance(chunks, list) and is_array(data):
            along = [size for size in data.shape if size != 1]
            return LazyKey(data) if data.dtype.kind in "iu" and len(along) <= 1 else data
        if _is_one_block(chunks, data.shape):
            if is_array(data):
                return data
            if isinstance(getattr(data, "array", None), PandasIndexingAdapter):
                return np.asarray(data)  # an index, which is in memory too
        return _dask().from_array(data, chunks, **kwargs)

    def rechunk(self, data: LazyArray, chunks: Any, **kwargs: Any) -> Any:
        """A dask array with the given chunks."""
        _dask()
        return data.rechunk(chunks, **kwargs)

    def shuffle(self, x: LazyArray, indexer: Any, axis: int, chunks: Any) -> Any:
        """The groups of indices one after the other."""
        indices = np.concatenate([np.asarray(group, np.int64) for group in indexer])
        return x[(*[slice(None)] * axis, indices)]

    def compute(self, *data: Any, **kwargs: Any) -> tuple[npt.NDArray[Any], ...]:
        """Load all arrays together; arguments for other schedulers are not used."""
        loaded = iter(load_together([item for item in data if isinstance(item, LazyArray)]))
        return tuple(next(loaded) if isinstance(item, LazyArray) else item for item in data)

    def persist(self, *data: Any, **kwargs: Any) -> tuple[npt.NDArray[Any], ...]:
        """The same as `compute`: what is loaded is in memory."""
        return self.compute(*data, **kwargs)

    @property
    def array_api(self) -> Any:
        """Namespace with `full`."""
        return _Constants()

    def reduction(
        self,
        arr: LazyArray,
        func: Callable[..., Any],
        combine_func: Callable[..., Any] | None = None,
        aggregate_func: Callable[..., Any] | None = None,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Any:
        """Load the array and reduce it as one block."""
        block = func(arr.load(), axis=axis, keepdims=True)
        return (aggregate_func or combine_func or func)(block, axis=axis, keepdims=keepdims)

    def scan(
        self,
        func: Callable[..., Any],
        binop: Callable[..., Any],
        ident: float,
        arr: LazyArray,
        axis: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Load the array and accumulate along it as one block."""
        return func(arr.load(), axis=axis, dtype=dtype)

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
        if vectorize:
            func = np.vectorize(func, signature=signature, otypes=output_dtypes)
        return func(*self.compute(*args), **kwargs)

    def map_blocks(
        self, func: Callable[..., Any], *args: Any, dtype: Any = None, **kwargs: Any
    ) -> Any:
        """Load the arguments and apply `func` to them as one block."""
        for name in ("chunks", "drop_axis", "new_axis", "meta", "name", "token"):
            kwargs.pop(name, None)
        return func(*self.compute(*args), **kwargs)

    def unify_chunks(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
        """Equal blocks along each dimension, which takes dask where they differ."""
        arrays, dims = args[::2], args[1::2]
        sizes: dict[Any, set[Any]] = {}
        for array, names in zip(arrays, dims, strict=True):
            for name, blocks in zip(names, array.chunks, strict=True):
                sizes.setdefault(name, set()).add(blocks)
        if all(len(different) == 1 for different in sizes.values()):
            return {name: next(iter(blocks)) for name, blocks in sizes.items()}, list(arrays)
        untyped: Any = _dask()
        made = [untyped.from_array(array, array.blocks) for array in arrays]
        return untyped.core.unify_chunks(
            *[part for pair in zip(made, dims, strict=True) for part in pair]
        )

    def store(
        self,
        sources: Any | Sequence[Any],
        targets: Any,
        *,
        regions: Any = None,
        compute: Any = True,
        lock: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Write arrays into array-likes, block by block."""
        if isinstance(sources, LazyArray):
            sources, targets = [sources], [targets]
        regions = regions if is_list(regions) else [regions] * len(sources)
        if not compute:
            return _delayed()(self.store)(sources, targets, regions=regions)
        jobs = [
            (source, target, region, box)
            for source, target, region in zip(sources, targets, regions, strict=True)
            for box in _boxes(source)
        ]
        for source, target, region, box in track(jobs, "writing", unit="blocks"):
            target[_within(region, box)] = np.asarray(source[box])
        return None


def _is_one_block(chunks: Any, shape: tuple[int, ...]) -> bool:
    """Whether chunks, as xarray passes them, leave an array in one piece."""
    if not is_tuple(chunks) or len(chunks) != len(shape):
        return False
    return all(
        chunk in (None, -1, size, (size,)) for chunk, size in zip(chunks, shape, strict=True)
    )


def _dask() -> Any:
    """Dask's arrays.

    Raises
    ------
    MissingPackage
        If dask is not installed.
    """
    try:
        import dask.array
    except ImportError as error:
        raise MissingPackage(
            "chunks need dask, which is not installed", remedy="pip install 'intarsia[dask]'"
        ) from error
    return dask.array


def _delayed() -> Any:
    """Dask's way of calling a function later."""
    _dask()
    import dask

    untyped: Any = dask
    return untyped.delayed


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
