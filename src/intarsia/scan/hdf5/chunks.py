"""Which chunks of a HDF5 dataset were written, and where: the index, read in one pass."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5s

from intarsia.codecs.filters import unshuffle
from intarsia.errors import CorruptFile
from intarsia.grid import grid_shape, strides_of
from intarsia.references import References
from intarsia.scan.hdf5.opening import HDF5_ERRORS, Opened

type Table = npt.NDArray[np.uint64]

NO_CHUNK = "chunk storage is not allocated"
"""What HDF5 says of a chunk that was never written."""


def chunk_references(
    file: Opened,
    dataset: Any,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    filters: Sequence[int],
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
    filters
        Numbers of its filters.

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
    if filters:
        masks[_unfiltered(dataset, table, place, shape, chunks, filters)] = (1 << len(filters)) - 1
    offsets = table[:, rank + 1] + np.uint64(file.base[0])
    lengths = table[:, rank + 2]
    end = int((offsets + lengths).max())
    if end > file.size:
        raise CorruptFile(f"a chunk ends at byte {end} of a file of {file.size}")
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
    except HDF5_ERRORS as error:
        if NO_CHUNK not in str(error):  # it could not be read, which says nothing
            raise
        return place  # there is no such chunk: what was reported is right
    return true


_SHUFFLE = 2


def _unfiltered(
    dataset: Any,
    table: Table,
    place: Table,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    filters: Sequence[int],
) -> npt.NDArray[np.intp]:
    """Rows of the chunks that lie partly outside the array and were left unfiltered for that.

    HDF5 has an option for that (``H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS``), which it neither tells
    through h5py nor marks in the filter masks. Then all such chunks have the length of unfiltered
    ones, and one of them holds, as it is stored, the values that the library reads from it.
    """
    none = np.empty(0, np.intp)
    rank = len(shape)
    last = [n // c if n % c else -1 for n, c in zip(shape, chunks, strict=True)]
    partial = (place.astype(np.int64) == last).any(axis=1)
    nbytes = dataset.get_type().get_size() * prod(chunks)
    whole = table[:, rank + 2] == nbytes
    unmasked = table[:, rank] == 0
    rows = np.flatnonzero(partial & unmasked)
    if not len(rows) or not whole[rows].all():
        return none
    for row in rows:
        origin = tuple(int(n) * chunk for n, chunk in zip(place[row], chunks, strict=True))
        size = tuple(min(c, n - o) for c, n, o in zip(chunks, shape, origin, strict=True))
        stored = np.frombuffer(dataset.read_direct_chunk(origin)[1], np.uint8)
        itemsize = nbytes // prod(chunks)
        if set(filters) == {_SHUFFLE} and bytes(unshuffle(stored, itemsize)) == stored.tobytes():
            continue  # shuffled or not, it is the same
        element = np.dtype(("V", itemsize))
        values = np.empty(size, element)
        space = dataset.get_space()
        space.select_hyperslab(origin, size)
        dataset.read(h5s.create_simple(size), space, values, dataset.get_type())
        inside = stored.view(element).reshape(chunks)[tuple(slice(0, n) for n in size)]
        return rows if inside.tobytes() == values.tobytes() else none
    return none
