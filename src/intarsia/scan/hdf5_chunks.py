"""Which chunks of a HDF5 dataset were written, and where: the index, read in one pass."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from array import array
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5s

from intarsia.errors import CorruptFile
from intarsia.grid import grid_shape, strides_of
from intarsia.references import References
from intarsia.scan.hdf5_open import HDF5_ERRORS, Opened

type Table = npt.NDArray[np.uint64]


def chunk_references(
    file: Opened, dataset: Any, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> References:
    """References to the chunks of a dataset.

    Parameters
    ----------
    file
        That holds it.
    dataset
        Low-level dataset.
    shape, chunks
        Its shape and chunk shape.

    Raises
    ------
    CorruptFile
        A chunk lies outside the file.
    """
    rank = len(shape)
    table = _index(dataset, rank)
    grid = grid_shape(shape, chunks)
    place = _unswizzled(dataset, table, chunks, grid)
    inside = (place < np.array(grid, np.uint64)).all(axis=1)
    if not inside.all():
        place, table = place[inside], table[inside]
    if not len(table):
        return References.missing()
    number = place.astype(np.int64) @ np.array(strides_of(grid), np.int64)
    masks = table[:, rank].astype(np.uint32)
    offsets = table[:, rank + 1] + np.uint64(file.base[0])
    lengths = table[:, rank + 2]
    end = int((offsets + lengths).max())
    if end > file.stat.st_size:
        raise CorruptFile(f"a chunk ends at byte {end} of a file of {file.stat.st_size}")
    total = prod(grid)
    if 2 * len(number) < total:
        return References.sparse(number, offsets, lengths, masks)
    if len(number) == total and bool((number[1:] > number[:-1]).all()):
        return References.dense(offsets, lengths, masks)
    columns = [np.zeros(total, column.dtype) for column in (offsets, lengths, masks)]
    for column, values in zip(columns, (offsets, lengths, masks), strict=True):
        column[number] = values
    present = np.zeros(total, bool)
    present[number] = True
    return References.dense(columns[0], columns[1], columns[2], present)


def _index(dataset: Any, rank: int) -> Table:
    """One row per written chunk: coordinates of its first element, filter mask, address, length."""
    flat = array("Q")
    extend = flat.extend

    def add(info: Any) -> None:
        extend(info[0])
        extend(info[1:])

    dataset.chunk_iter(add)
    return np.frombuffer(flat, np.uint64).reshape(-1, rank + 3)


def _unswizzled(
    dataset: Any, table: Table, chunks: tuple[int, ...], grid: tuple[int, ...]
) -> Table:
    """The place of each chunk in the grid.

    Where one dimension, not the first, can grow, files of the newer formats keep chunks in an
    array in which that dimension comes first. HDF5 (2.0 and before) reads through it rightly, but
    reports coordinates as if that dimension were in its place and everything before it zero. The
    true ones follow from the number of the chunk in that array. Older formats keep coordinates,
    which are right. If the reported ones could be either, one chunk that is only there if they are
    wrong is asked for.
    """
    rank = len(grid)
    place = table[:, :rank] // np.array(chunks, np.uint64)
    limits: tuple[int, ...] = dataset.get_space().get_simple_extent_dims(1)
    growing = [axis for axis, limit in enumerate(limits) if limit == h5s.UNLIMITED]
    if len(growing) != 1 or growing == [0] or place[:, : growing[0]].any():
        return place
    (axis,) = growing
    most = grid_shape(limits, chunks)
    strides = strides_of([1] * axis + [1] + list(most[axis + 1 :]))
    number = place[:, axis:] @ np.array(strides[axis:], np.uint64)
    others = [n for n in range(rank) if n != axis]
    outer = [most[n] for n in others]
    first, rest = np.divmod(number, np.uint64(prod(outer)))
    true = np.empty_like(place)
    true[:, axis] = first
    for n, coordinate in zip(others, np.unravel_index(rest.astype(np.int64), outer), strict=True):
        true[:, n] = coordinate
    telling = (true != place).any(axis=1) & (true < np.array(grid, np.uint64)).all(axis=1)
    if not telling.any():
        return place
    rows = np.flatnonzero(telling)
    row = rows[np.argmin(table[rows, rank + 2])]
    origin = tuple(int(n) * chunk for n, chunk in zip(true[row], chunks, strict=True))
    try:
        dataset.read_direct_chunk(origin)
    except HDF5_ERRORS:
        return place  # there is no such chunk: what was reported is right
    return true
