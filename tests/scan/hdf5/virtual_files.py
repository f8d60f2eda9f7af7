"""Virtual datasets of HDF5, written by hand: any selections, any names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

U = h5s.UNLIMITED


class Map(NamedTuple):
    """One mapping: two dataspaces with selections, and names."""

    space: Any
    file: str | Path
    dataset: str
    source: Any


def space(
    shape: Sequence[int],
    start: Sequence[int] | None = None,
    count: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    limits: Sequence[int] | None = None,
) -> Any:
    """A dataspace; all of it is selected where no hyperslab is."""
    made = h5s.create_simple(tuple(shape), None if limits is None else tuple(limits))
    if start is not None:
        made.select_hyperslab(
            *(None if part is None else tuple(part) for part in (start, count, stride, block))
        )
    return made


def growing(start: int = 0, stride: int = 1, block: int = 1) -> Any:
    """A selection along one dimension that has no end."""
    return space((0,), (start,), (U,), (stride,), (block,), limits=(U,))


def part(path: Path, values: Any, name: str = "d", **options: Any) -> Any:
    """A file with one dataset."""
    values = np.asarray(values)
    with h5py.File(path, "a") as file:
        file.create_dataset(name, data=values, **options)
    return values


def whole(
    path: Path,
    shape: Sequence[int],
    maps: Sequence[Map],
    dtype: Any = "<i4",
    fill: Any = -9,
    name: str = "x",
    limits: Sequence[int] | None = None,
    mode: str = "a",
) -> Path:
    """A file with a virtual dataset."""
    dcpl = h5p.create(h5p.DATASET_CREATE)
    dcpl.set_layout(h5d.VIRTUAL)
    datatype = h5t.py_create(np.dtype(dtype), logical=True)
    if fill is not None:
        dcpl.set_fill_value(np.array(fill, datatype.dtype))
    for one in maps:
        dcpl.set_virtual(one.space, str(one.file).encode(), one.dataset.encode(), one.source)
    with h5py.File(path, mode, libver="latest") as file:
        made = h5s.create_simple(tuple(shape), None if limits is None else tuple(limits))
        h5d.create(file.id, name.encode(), datatype, made, dcpl)
    return path
