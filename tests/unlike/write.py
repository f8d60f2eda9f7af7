"""Specs to files: writes an unlike HDF5 file as its spec says, through low-level h5py.

Files follow netCDF-4's conventions for dimension scales, so that netCDF4, h5netcdf and h5py read
them; `GroupSpec.scales=False` leaves the scales out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s

from tests.unlike.pipeline import add_filter, encoded_chunk, file_type
from tests.unlike.special import SpecialVariable
from tests.unlike.specs import Attribute, FileSpec, GroupSpec, VariableSpec, chunk_grid
from tests.unlike.values import stored_values

NOT_A_VARIABLE = "This is a netCDF dimension but not a netCDF variable."
RAW_OFFSET = 24
"""Bytes of junk in front of the data in an external raw file."""


def write_files(folder: Path, specs: Iterable[FileSpec]) -> list[Path]:
    """Write each spec into `folder` under its name; the paths in the order given."""
    return [write_file(folder, spec) for spec in specs]


def write_file(folder: Path, spec: FileSpec) -> Path:
    """Write `spec` as ``folder/spec.name`` (and its external raw files beside it)."""
    path = folder / spec.name
    options: dict[str, Any] = {"userblock_size": spec.userblock} if spec.userblock else {}
    libver: Any = spec.libver if spec.libver == "latest" else None
    with h5py.File(path, "w", libver=libver, track_order=True, **options) as file:
        _write_group(file, spec.root, {}, path, _Counter())
    if spec.userblock:
        with path.open("r+b") as raw:
            raw.write(b"not HDF5 ".ljust(spec.userblock, b"!"))
    return path


class _Counter:
    """Numbers netCDF dimensions across the whole file."""

    def __init__(self) -> None:
        self._next = 0

    def take(self) -> np.int32:
        self._next += 1
        return np.int32(self._next - 1)


def _write_group(
    group: h5py.Group,
    spec: GroupSpec,
    inherited: Mapping[str, h5py.Dataset],
    path: Path,
    dimids: _Counter,
) -> None:
    _write_attrs(group, spec.attrs)
    maxima = {d.name: None if d.unlimited else d.size for d in spec.dims}
    written: dict[str, h5py.Dataset] = {}
    scales: dict[str, h5py.Dataset] = dict(inherited)
    coordinates = {v.name for v in spec.variables if v.dims == (v.name,)} & set(maxima)
    if spec.scales:
        for dim in spec.dims:
            if dim.name in coordinates:
                continue
            scale = group.create_dataset(
                dim.name, (dim.size,), ">f4", maxshape=(maxima[dim.name],), track_order=True
            )
            scale.make_scale(f"{NOT_A_VARIABLE}{dim.size:10}")
            scales[dim.name] = scale
    for var in spec.variables:
        dataset = _write_variable(group, spec, var, maxima, path)
        _write_attrs(dataset, var.attrs)
        written[var.name] = dataset
        if spec.scales and var.name in coordinates:
            dataset.make_scale(var.name)
            scales[var.name] = dataset
    if spec.scales:
        for dim in spec.dims:
            scales[dim.name].attrs["_Netcdf4Dimid"] = dimids.take()
        for var in spec.variables:
            if var.name not in coordinates:
                for axis, name in enumerate(var.dims):
                    written[var.name].dims[axis].attach_scale(scales[name])
    for child in spec.groups:
        _write_group(group.create_group(child.name, track_order=True), child, scales, path, dimids)


def _write_attrs(where: Any, attrs: Iterable[tuple[str, Attribute]]) -> None:
    for name, attr in attrs:
        if attr.dtype == "str":
            many = isinstance(attr.value, tuple)
            data = np.array(attr.value, dtype=object) if many else attr.value
            where.attrs.create(name, data, dtype=h5py.string_dtype())
        elif attr.dtype == "bytes":
            where.attrs.create(name, np.bytes_(attr.value.encode()))
        else:
            data = attr.array()
            if data.ndim == 0 and not attr.scalar:
                data = data.reshape(1)
            where.attrs.create(name, data)


def _write_variable(
    group: h5py.Group,
    spec: GroupSpec,
    var: VariableSpec | SpecialVariable,
    maxima: Mapping[str, int | None],
    path: Path,
) -> h5py.Dataset:
    shape = spec.extent(var)
    maxshape = tuple(maxima.get(d, n) for d, n in zip(var.dims, shape, strict=True))
    if isinstance(var, SpecialVariable):
        return _write_special(group, var, shape, maxshape)
    dataset = _create(group, var, shape, maxshape, path)
    values = stored_values(spec, var)
    if var.unwritten == "all":
        return dataset
    if var.layout == "external":
        _write_raw_files(path, var, values)
    elif var.layout == "chunked":
        _write_chunks(dataset, var, values)
    elif shape == ():
        dataset[()] = values
    elif values.size:
        dataset[...] = values
    return dataset


def _write_special(
    group: h5py.Group,
    var: SpecialVariable,
    shape: tuple[int, ...],
    maxshape: tuple[int | None, ...],
) -> h5py.Dataset:
    options: dict[str, Any] = {}
    if var.chunks is not None or None in maxshape:
        options = {"chunks": var.chunks or True, "maxshape": maxshape}
    dataset = group.create_dataset(var.name, shape, var.h5type(group), track_order=True, **options)
    dataset[...] = var.values(shape)
    return dataset


def _create(
    group: h5py.Group,
    var: VariableSpec,
    shape: tuple[int, ...],
    maxshape: tuple[int | None, ...],
    path: Path,
) -> h5py.Dataset:
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
    if var.layout == "chunked":
        assert var.chunks is not None, f"{var.name}: chunked without a chunk shape"
        properties.set_chunk(var.chunks)
        for item in var.filters:
            add_filter(properties, item, var.dtype)
    else:
        assert None not in maxshape, f"{var.name}: an unlimited dimension needs chunks"
        assert not var.filters, f"{var.name}: filters need chunks"
    if var.layout == "compact":
        properties.set_layout(h5d.COMPACT)
    if var.layout == "external":
        for raw, begin, stop in _raw_pieces(path, var, shape):
            properties.set_external(bytes(raw), RAW_OFFSET, stop - begin)
    if var.fill is not None:
        properties.set_fill_value(np.array(var.fill).astype(var.dtype))
    limits = tuple(h5s.UNLIMITED if n is None else n for n in maxshape)
    space = h5s.create_simple(shape, limits) if shape else h5s.create(h5s.SCALAR)
    created = h5d.create(group.id, var.name.encode(), file_type(var), space, dcpl=properties)
    return h5py.Dataset(created)


def _write_chunks(dataset: h5py.Dataset, var: VariableSpec, values: np.ndarray) -> None:
    assert var.chunks is not None
    masks = dict(var.masks)
    skipped = set(var.unwritten)
    order = list(chunk_grid(values.shape, var.chunks))
    unknown = (set(masks) | skipped) - set(order)
    assert not unknown, f"{var.name}: no chunks {sorted(unknown)}"
    if var.scattered:
        order = order[1::2] + order[::2][::-1]
    for index in order:
        if index in skipped:
            continue
        window = tuple(
            slice(i * c, min((i + 1) * c, n))
            for i, c, n in zip(index, var.chunks, values.shape, strict=True)
        )
        if index in masks:
            encoded, mask = encoded_chunk(var, values[window], masks[index])
            offset = tuple(i * c for i, c in zip(index, var.chunks, strict=True))
            dataset.id.write_direct_chunk(offset, encoded, mask)
        else:
            dataset[window] = values[window]


def _raw_pieces(
    path: Path, var: VariableSpec, shape: tuple[int, ...]
) -> Iterator[tuple[Path, int, int]]:
    """(raw file, first byte, stop byte) of each external file of the variable, cut between rows."""
    rows = shape[0] if shape else 1
    row_bytes = int(np.prod(shape[1:])) * var.dtype.itemsize
    edges = [rows * i // var.pieces * row_bytes for i in range(var.pieces + 1)]
    for i, (begin, stop) in enumerate(pairwise(edges)):
        if begin == stop:
            continue  # a file of no bytes means one of any size to HDF5
        yield path.with_name(f"{path.name}.{var.name}.{i}.raw"), begin, stop


def _write_raw_files(path: Path, var: VariableSpec, values: np.ndarray) -> None:
    data = values.tobytes()
    for raw, begin, stop in _raw_pieces(path, var, values.shape):
        raw.write_bytes(b"j" * RAW_OFFSET + data[begin:stop])
