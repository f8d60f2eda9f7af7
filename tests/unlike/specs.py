"""What an unlike file is: frozen descriptions of files, groups, dimensions and variables.

A spec says everything that can differ between two HDF5 files holding the same quantity: element
type and byte order, layout, chunk shape, filters and the chunks on which they were skipped, chunks
that were never written, fill values, attributes with their exact types. `tests.unlike.write` turns
it into bytes; `tests.unlike.values` says which stored values it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from tests.unlike.brief import Brief
from tests.unlike.special import SpecialVariable
from tests.unlike.values import Position

Layout = Literal["contiguous", "chunked", "compact", "external"]
FilterName = Literal[
    *("gzip", "shuffle", "fletcher32", "szip", "lzf", "scaleoffset", "nbit"),
    *("zstd", "blosc", "blosc2", "lz4", "bitshuffle", "bzip2", "zfp"),
]


@dataclass(frozen=True, repr=False)
class Attribute(Brief):
    """One attribute with the type it is stated in.

    Attributes
    ----------
    value
        A number, a string, or a tuple of either.
    dtype
        NumPy type of a numeric value; ``"str"`` is a variable-length string, ``"bytes"`` a
        fixed-length one.
    scalar
        Whether a single number is stored on a scalar dataspace (h5py) instead of one of one
        element (netCDF).
    """

    value: Any
    dtype: str = "str"
    scalar: bool = False

    def array(self) -> np.ndarray:
        """The value as an array of the stated numeric type."""
        return np.array(self.value, dtype=self.dtype)


def text(value: str | tuple[str, ...]) -> Attribute:
    """An attribute of one or several variable-length strings."""
    return Attribute(value)


def typed(value: Any, dtype: str, *, scalar: bool = False) -> Attribute:
    """A numeric attribute of a stated type."""
    return Attribute(value, dtype, scalar)


@dataclass(frozen=True, repr=False)
class Filter(Brief):
    """One filter of a pipeline; `options` are the filter's own (level, bits, ...)."""

    name: FilterName
    options: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class Dimension(Brief):
    """A dimension; it gets a bare dimension scale unless a variable of its name exists."""

    name: str
    size: int
    unlimited: bool = False


@dataclass(frozen=True, repr=False)
class VariableSpec(Brief):
    """One numeric variable: how its elements are stored, and which they are.

    Attributes
    ----------
    stored
        Element type with byte order, as ``np.dtype.str``.
    shape
        Extent of the dataset where it is shorter than its unlimited dimensions.
    layout, chunks, filters
        How the bytes lie. `filters` are in the order in which a writer applies them.
    masks
        ``(chunk index, HDF5 filter mask)``: bit i set means that filter i was skipped.
    unwritten
        Indices of chunks that were never written; ``"all"`` leaves the dataset unallocated.
    fill
        The dataset's fill value (creation property), None for HDF5's default.
    attrs
        Attributes in order.
    position
        Where the variable's elements lie in the whole picture, which decides their values.
    literal
        Values to store instead of those derived from `position` (nested tuples).
    precision
        Bits of the element type that HDF5 says are used, where fewer than it has.
    pieces
        Number of raw files that an external layout is spread over.
    scattered
        Write the chunks out of order, so that their offsets in the file do not ascend.
    """

    name: str
    dims: tuple[str, ...]
    stored: str = "<f4"
    shape: tuple[int, ...] | None = None
    layout: Layout = "contiguous"
    chunks: tuple[int, ...] | None = None
    filters: tuple[Filter, ...] = ()
    masks: tuple[tuple[tuple[int, ...], int], ...] = ()
    unwritten: tuple[tuple[int, ...], ...] | Literal["all"] = ()
    fill: float | int | None = None
    attrs: tuple[tuple[str, Attribute], ...] = ()
    position: Position = field(default_factory=Position)
    literal: Any = None
    precision: int | None = None
    pieces: int = 1
    scattered: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.stored)

    def attr(self, name: str) -> Attribute | None:
        return dict(self.attrs).get(name)

    def with_attrs(self, **attrs: Attribute | None) -> VariableSpec:
        """This variable with attributes added, replaced, or (None) removed."""
        merged = {**dict(self.attrs), **attrs}
        kept = tuple((k, v) for k, v in merged.items() if v is not None)
        return replace(self, attrs=kept)


AnyVariable = VariableSpec | SpecialVariable


@dataclass(frozen=True, repr=False)
class GroupSpec(Brief):
    """A group: dimensions, variables, attributes and child groups.

    ``scales=False`` writes no dimension scales at all: the reader has to invent dimension names.
    """

    name: str = "/"
    dims: tuple[Dimension, ...] = ()
    variables: tuple[AnyVariable, ...] = ()
    attrs: tuple[tuple[str, Attribute], ...] = ()
    groups: tuple[GroupSpec, ...] = ()
    scales: bool = True

    def __getitem__(self, name: str) -> AnyVariable:
        for var in self.variables:
            if var.name == name:
                return var
        raise KeyError(name)

    def size(self, dim: str) -> int:
        return next(d.size for d in self.dims if d.name == dim)

    def extent(self, var: AnyVariable) -> tuple[int, ...]:
        """The extent of `var`'s dataset (not of its dimensions)."""
        if isinstance(var, VariableSpec) and var.shape is not None:
            return var.shape
        return tuple(self.size(d) for d in var.dims)

    def with_variables(self, *variables: AnyVariable) -> GroupSpec:
        """This group with variables replaced by name, or added at the end."""
        new = {v.name: v for v in variables}
        kept = tuple(new.pop(v.name, v) for v in self.variables)
        return replace(self, variables=kept + tuple(new.values()))

    def without(self, *names: str) -> GroupSpec:
        """This group without the variables of these names."""
        return replace(self, variables=tuple(v for v in self.variables if v.name not in names))


@dataclass(frozen=True, repr=False)
class FileSpec(Brief):
    """A file: a root group, and what concerns the file as a whole."""

    name: str
    root: GroupSpec = field(default_factory=GroupSpec)
    userblock: int = 0
    libver: Literal["earliest", "latest"] = "earliest"

    def with_root(self, root: GroupSpec) -> FileSpec:
        return replace(self, root=root)


def dimension(name: str, size: int, *, unlimited: bool = False) -> Dimension:
    return Dimension(name, size, unlimited)


def variable(
    name: str, dims: Sequence[str], stored: str = "<f4", *, chunks: Any = None, **options: Any
) -> VariableSpec:
    """A variable spec that is chunked where `chunks` or filters are given."""
    attrs = tuple(dict(options.pop("attrs", {})).items())
    layout = options.pop("layout", "chunked" if chunks is not None else "contiguous")
    shape = None if chunks is None else tuple(chunks)
    return VariableSpec(
        name, tuple(dims), stored, layout=layout, chunks=shape, attrs=attrs, **options
    )


def chunk_grid(shape: Sequence[int], chunks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every chunk index of a regular grid, in C order."""
    return product(*(range(-(-s // c)) for s, c in zip(shape, chunks, strict=True)))
