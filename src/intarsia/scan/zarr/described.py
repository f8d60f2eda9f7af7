"""What is known of one Zarr array before its values are looked at, whoever told it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np

from intarsia.codecs.zarr_chain import metadata_json
from intarsia.errors import FormatError, IntarsiaError, UnsupportedError
from intarsia.scan.zarr.manifests import Manifest
from intarsia.scan.zarr.places import Places
from intarsia.scan.zarr.version_2 import mended_chain

__all__ = ["Described", "described", "fill_value_of", "grid_of", "regular"]


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """One array.

    Parameters
    ----------
    dims, attrs
        As xarray's store for Zarr gives them.
    shape, chunks
        Shapes of the array and of its chunks.
    dtype, data_type
        Type of the elements, and zarr's own word for it.
    codecs
        Chain, as the metadata of Zarr v3 has it.
    fill
        Value of chunks that are missing.
    manifest
        Where the chunks are.
    native
        Whether xarray's store gives the values in native byte order, however they are stored.
    fault
        Why its values can't be had, where they can't.
    short
        Dimension along which the last chunks are stored without what is past the array, if any.
    """

    dims: tuple[str, ...]
    attrs: dict[str, Any]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    data_type: Any
    codecs: list[dict[str, Any]]
    fill: Any
    manifest: Manifest
    native: bool = True
    fault: IntarsiaError | None = None
    short: int | None = None

    def cut(self, axis: int, length: int) -> Described:
        """The array without what is past a length, where its last chunks hold no more either.

        Parameters
        ----------
        axis
            Dimension, counted from the end.
        length
            Of the array along that; the array is described as if its last chunks were whole.
        """
        axis += len(self.shape)
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return replace(self, shape=shape, short=axis)

    def parts(self) -> list[Described]:
        """What follows one another along the dimension `short`, so that each has chunks alike."""
        axis = self.short
        if axis is None:
            return [self]
        length, edge, one = self.shape[axis], self.chunks[axis], self.manifest
        whole = length // edge
        found: list[Described] = []
        for cells, size, chunk in (
            (slice(0, whole), whole * edge, edge),
            (slice(whole, whole + 1), length - whole * edge, length - whole * edge),
        ):
            key = (*(slice(None),) * axis, cells)
            manifest = Manifest(
                one.sources[key], one.offsets[key], one.lengths[key], one.states[key], one.inline
            )
            shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
            chunks = (*self.chunks[:axis], chunk, *self.chunks[axis + 1 :])
            found.append(replace(self, shape=shape, chunks=chunks, manifest=manifest, short=None))
        return [part for part in found if part.shape[axis]]

    @classmethod
    def faulty(
        cls,
        dims: tuple[str, ...],
        attrs: dict[str, Any],
        shape: tuple[int, ...],
        data_type: Any,
        fault: IntarsiaError,
    ) -> Described:
        """An array of which no more is known: only reading it is refused."""
        dtype = np.dtype(data_type.to_native_dtype())
        nothing = np.zeros((0,) * len(shape), np.int64)
        manifest = Manifest(nothing, nothing, nothing, nothing)
        return cls(dims, attrs, shape, shape, dtype, data_type, [], None, manifest, fault=fault)


def described(
    array: Any,
    places: Places,
    version_2: Mapping[str, Any] | None = None,
    *,
    dims: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Described:
    """What a ``ManifestArray`` says.

    Parameters
    ----------
    array
        With ``metadata`` of Zarr v3, and a ``manifest``.
    places
        Where its paths get their numbers.
    version_2
        The ``.zarray`` that it was made of, if it was.
    dims, attributes
        In place of its own.
    """
    metadata = array.metadata
    told = metadata_json(metadata)
    shape = tuple(int(size) for size in metadata.shape)
    data_type = metadata.data_type
    dtype = np.dtype(data_type.to_native_dtype())
    codecs: list[dict[str, Any]] = told["codecs"]
    attrs = dict(told.get("attributes") or {} if attributes is None else attributes)
    if version_2 is None:
        coded = attributes is None or isinstance(attrs.get("_FillValue"), str)
        plain = dtype.kind == "f" and type(attrs.get("_FillValue")) in (int, float)  # of HDF4
        if "_FillValue" in attrs and coded and not plain:
            attrs["_FillValue"] = fill_value_of(attrs["_FillValue"], dtype)
    else:
        if version_2.get("fill_value") is not None:  # which masks, in v2
            attrs["_FillValue"] = metadata.fill_value
    dims = tuple((metadata.dimension_names or ()) if dims is None else dims)
    try:
        if version_2 is not None:
            codecs = mended_chain(codecs, version_2, len(shape))
        chunks = regular(told)
        manifest = _manifest(array.manifest, grid_of(shape, chunks), places)
    except (UnsupportedError, FormatError) as fault:
        return Described.faulty(dims, attrs, shape, data_type, fault)
    return Described(
        dims,
        attrs,
        shape,
        chunks,
        dtype,
        data_type,
        codecs,
        metadata.fill_value,
        manifest,
        native=version_2 is None or dtype.kind in "Mm",
    )


def regular(told: Mapping[str, Any]) -> tuple[int, ...]:
    """Chunk shape of a regular grid."""
    if told.get("storage_transformers"):
        raise UnsupportedError("it has storage transformers")
    grid = cast("Mapping[str, Any]", told["chunk_grid"])
    if grid.get("name") != "regular":
        raise UnsupportedError(f"its chunk grid is {grid.get('name')!r}, and not regular")
    chunks: Sequence[Any] = grid["configuration"]["chunk_shape"]
    return tuple(int(n) for n in chunks)


def grid_of(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the grid of chunks."""
    if len(chunks) != len(shape) or any(chunk < 1 for chunk in chunks):
        raise FormatError(f"chunks of the shape {chunks} do not fit the shape {shape}")
    return tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))


def fill_value_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """The ``_FillValue`` that an attribute in Zarr v3 stands for, as xarray writes it there.

    Floats are base64 of their eight bytes, little-endian; complex numbers two of those.
    """

    def number(text: Any) -> float:
        if not isinstance(text, str | bytes):
            raise FormatError(f"_FillValue is {text!r}, which is not as xarray writes it")
        try:
            return struct.unpack("<d", base64.standard_b64decode(text))[0]
        except (ValueError, struct.error) as error:
            raise FormatError(f"_FillValue is {text!r}, which is not base64") from error

    if dtype.kind == "f":
        return number(value)
    if dtype.kind == "c" and isinstance(value, list | tuple):
        parts = cast("Sequence[Any]", value)
        if len(parts) == 2:
            return complex(number(parts[0]), number(parts[1]))
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "iu" and isinstance(value, int | float | np.integer | np.floating):
        return int(value)
    if dtype.kind in "TO" and isinstance(value, str):
        return value
    raise FormatError(f"_FillValue is {value!r}, which is none for {dtype}")


def _manifest(manifest: Any, grid: tuple[int, ...], places: Places) -> Manifest:
    """Columns of a ``ChunkManifest``, over the whole grid of chunks."""
    paths, offsets, lengths = manifest._paths, manifest._offsets, manifest._lengths
    inlined: dict[tuple[int, ...], bytes] = dict(manifest._inlined)
    shape = tuple(paths.shape)
    if not grid:  # some say (1,) for arrays without dimensions
        paths, offsets, lengths = (column.reshape(-1) for column in (paths, offsets, lengths))
        inlined = dict(zip([()], inlined.values(), strict=False))
    elif len(shape) != len(grid) or any(a > b for a, b in zip(shape, grid, strict=True)):
        raise FormatError(f"its manifest has the shape {shape}, and its grid {grid}")
    flat = paths.reshape(-1)
    there = (flat != "") & (flat != "__inlined__")
    columns = [
        places.numbers(flat, there),
        np.asarray(offsets).reshape(-1),
        np.asarray(lengths).reshape(-1),
    ]
    if grid and shape != grid:  # chunks past the last that is there are missing
        padding = [(0, b - a) for a, b in zip(shape, grid, strict=True)]
        columns = [
            np.pad(column.reshape(shape), padding, constant_values=blank).reshape(-1)
            for column, blank in zip(columns, (-1, 0, 0), strict=True)
        ]
    if any(len(column) != prod(grid) for column in columns):
        raise FormatError(f"its manifest has {len(columns[0])} chunks, and its grid {grid}")
    inline = {
        int(np.ravel_multi_index(index, grid)) if grid else 0: bytes(data)
        for index, data in inlined.items()
    }
    return Manifest.of(grid, columns[0], columns[1], columns[2], inline)
