"""Scanning HDF5 and netCDF-4: one group of one file, as xarray's h5netcdf store sees it.

The structure is read with h5py's low-level interface, once, and no values are read (except compact
ones, which lie within the metadata). What can be expressed as references becomes a virtual array;
the rest is opaque, with the reason, and a loader where the library can read it.

h5py serialises its calls with one lock, so that scanning in threads is safe but no faster; scan in
processes for that. Everything returned can be pickled.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from h5py import h5t

from intarsia.array import VirtualArray
from intarsia.encoding import RAW_FILL
from intarsia.errors import IntarsiaError
from intarsia.grid import strip_shape
from intarsia.io.files import File
from intarsia.references import References, Sources
from intarsia.scan.hdf5.attributes import attribute_names, visible_attributes
from intarsia.scan.hdf5.dimensions import COLLIDING, Dataset, Group, Structure
from intarsia.scan.hdf5.files import Files
from intarsia.scan.hdf5.following import LinkedLoader, VirtualLoader
from intarsia.scan.hdf5.layout import Unreferable, lacking, require_reachable
from intarsia.scan.hdf5.loaders import DatasetLoader, FilledLoader, VariableLoader, fill_of
from intarsia.scan.hdf5.opening import Opened, opened
from intarsia.scan.hdf5.placing import Placed, Stored, place
from intarsia.scan.hdf5.types import ElementType, element_type, enum_dtype
from intarsia.scan.hdf5.virtual import place_virtual, surveyed
from intarsia.scan.protocol import Loader, Opaque, Scanned, ScannedVariable

__all__ = ["scan", "scan_groups"]


def scan(
    path: str | os.PathLike[str] | File,
    *,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: str = "",
) -> Scanned:
    """Scan one group of a HDF5 or netCDF-4 file.

    Parameters
    ----------
    path
        Of a local file; or a file that is open, be it of the network.
    group
        Path of the group; the root by default.
    phony_dims
        How to number dimensions that have no name: ``"access"`` (the default, as for xarray) or
        ``"sort"``.
    drop_variables
        Name, or names, of variables to leave out; they are not looked at, nor need a link of such
        a name lead anywhere.
    choices
        What will be done with the file, to be kept with each source (see `Source.scan`).

    Returns
    -------
    Scanned
        Variables, dimensions and attributes as xarray's h5netcdf store gives them before decoding.

    Raises
    ------
    SourceError
        The file can't be had: `SourceMissing`, `SourceUnreadable`, `NotAFile`.
    FormatError
        It is not HDF5, or broken, has no such group, or dimensions that xarray refuses too.
    UnsupportedError
        An attribute has a type that h5py can't read; a file of the network leads to another file.

    Examples
    --------
    >>> scan("sst.nc").variables["sst"].dims  # doctest: +SKIP
    ('time', 'lat', 'lon')
    """
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables)
    names = _names(group)
    with _surveyed(path, phony_dims, dropped) as (file, structure):
        node = structure.group(names)
        return _Scan(file, "/" + "/".join(names), structure, node, choices).result(dropped)


def scan_groups(
    path: str | os.PathLike[str] | File,
    *,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: Callable[[str], str] = lambda _: "",
) -> dict[str, Scanned]:
    """Scan a group of a HDF5 or netCDF-4 file, and all groups in it.

    Parameters
    ----------
    path, group, phony_dims, drop_variables
        As for `scan`.
    choices
        Gives what `scan` takes under that name, for the path of each group.

    Returns
    -------
    dict
        By absolute path, each group before those in it.

    Raises
    ------
    SourceError, FormatError, UnsupportedError
        As for `scan`.
    """
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables)
    names = _names(group)
    found: dict[str, Scanned] = {}
    with _surveyed(path, phony_dims, dropped) as (file, structure):
        for parts, node in structure.below(names, structure.group(names)):
            where = "/" + "/".join(parts)
            found[where] = _Scan(file, where, structure, node, choices(where)).result(dropped)
    return found


def _names(group: str | None) -> list[str]:
    return [name for name in (group or "").split("/") if name]


@contextmanager
def _surveyed(
    path: str | os.PathLike[str] | File, phony_dims: str | None, dropped: set[str]
) -> Generator[tuple[Opened, Structure]]:
    """The file and its structure; errors in here say which file it is."""
    if phony_dims not in (None, "access", "sort"):
        raise ValueError(f"phony_dims must be 'access' or 'sort', got {phony_dims!r}")
    if isinstance(path, str | os.PathLike):
        place = os.path.abspath(os.path.expanduser(os.fspath(path)))
    else:
        place = path
    url = place if isinstance(place, str) else place.source.url
    try:
        with opened(place) as file:
            yield file, Structure(file.id, url, phony_dims or "access", dropped)
    except IntarsiaError as error:
        raise error.located(url=url) from error.__cause__


class _Scan:
    """One scan in progress."""

    def __init__(
        self, file: Opened, group: str, structure: Structure, node: Group, choices: str
    ) -> None:
        self._file = file
        self._group = group
        self._structure = structure
        self._node = node
        self._choices = choices
        self._files = Files(file)

    def result(self, dropped: set[str]) -> Scanned:
        node = self._node
        sizes = {name: dimension.size for name, dimension in node.dimensions.items()}
        found: dict[str, tuple[Dataset, tuple[str, ...], ElementType, Placed | Opaque]] = {}
        for dataset in node.datasets:
            name = dataset.name.replace(COLLIDING, "")
            if name in dropped:
                continue
            try:
                dims = self._structure.dims_of(node, dataset)
                for dim in dims:
                    sizes.setdefault(dim, self._size(dim))
                shape = tuple(sizes[dim] for dim in dims)
                element = element_type(dataset.id.get_type())
                found[name] = (dataset, dims, element, self._placed(name, dataset, element, shape))
            except IntarsiaError as error:
                raise error.located(array=name) from error.__cause__
        sources = self._files.sources(self._choices)
        variables: dict[str, ScannedVariable] = {}
        for name, (dataset, dims, element, data) in found.items():
            if isinstance(data, Placed):
                values = _array(sources, data, tuple(sizes[dim] for dim in dims))
            else:
                values = data
            attrs = visible_attributes(dataset.id, dataset.attributes, name)
            variables[name] = ScannedVariable(dims, values, attrs, self._encoding(dataset, element))
        names = attribute_names(node.id, node.id.get_create_plist())
        attrs = visible_attributes(node.id, names, self._group)
        unlimited = frozenset(name for name, d in node.dimensions.items() if d.unlimited)
        return Scanned(sources, variables, attrs, sizes, unlimited, self._group)

    def _size(self, dim: str) -> int:
        dimension = self._node.dimension(dim)
        assert dimension is not None  # `dims_of` has seen to that
        return dimension.size

    def _encoding(self, dataset: Dataset, element: ElementType) -> dict[str, Any]:
        if element.form == "string":
            text = h5t.check_vlen_dtype(element.dtype) is str  # bytes where the file says ASCII
            return {"dtype": str if text else element.dtype}
        if h5t.check_enum_dtype(element.dtype) is not None:
            name = self._node.enum_name(dataset.id.get_type())
            return {"dtype": enum_dtype(element.dtype, name)}
        return {}

    # -- finding the bytes -----------------------------------------------------------------------

    def _placed(
        self, name: str, dataset: Dataset, element: ElementType, shape: tuple[int, ...]
    ) -> Placed | Opaque:
        """Find the bytes of a variable, or say why there is no reference to them."""
        try:
            return self._find(name, dataset, element, shape)
        except Unreferable as error:
            loader: Loader | None = None
            reason, remedy = error.reason, error.remedy
            # of what a virtual dataset of the network leads to, the library reads too much
            reachable = not (self._file.is_remote and self._stored(dataset, element).is_virtual)
            if error.readable and element.readable and reachable:
                needed = lacking(dataset.creation)
                remedy = remedy or needed
                try:
                    if not needed:
                        loader = self._loader(name, dataset, element, shape, error)
                except Unreferable as lost:  # it could be read a moment ago
                    reason, remedy = lost.reason, lost.remedy
            return Opaque(shape, element.dtype, reason, remedy, loader)

    def _find(
        self, name: str, dataset: Dataset, element: ElementType, shape: tuple[int, ...]
    ) -> Placed:
        if dataset.null:
            raise Unreferable("a null dataspace: there is no value", readable=False)
        if not element.readable:
            raise Unreferable("a datatype that NumPy has no equivalent for", readable=False)
        if element.dtype.subdtype is not None:
            raise Unreferable("an array datatype, which xarray can't represent", readable=False)
        remedy = "drop it with drop_variables= or unsupported='skip'"
        if element.is_list and not shape:
            reason = "a single list of variable length, which xarray can't represent"
            raise Unreferable(reason, remedy, readable=False)
        if len(dataset.shape) != len(shape):
            reason = f"dimensions that do not fit: the dataset has the shape {dataset.shape}"
            raise Unreferable(reason, remedy, readable=False)
        if any(length > size for length, size in zip(dataset.shape, shape, strict=True)):
            # h5netcdf says the shape of the dimensions, and gives more values than that
            reason = f"a shape of {dataset.shape}, which is longer than its dimensions, {shape}"
            raise Unreferable(reason, remedy, readable=False)
        stored = self._stored(dataset, element)
        require_reachable(stored.file, stored.creation)
        if stored.is_virtual:
            placed = place_virtual(self._files, stored, name)
        else:
            placed = place(self._files, stored, name)
        return placed

    def _stored(self, dataset: Dataset, element: ElementType) -> Stored:
        home = self._files.home(dataset.id) if dataset.external else self._file
        return Stored(home, dataset.id, dataset.creation, dataset.shape, element)

    def _loader(
        self,
        name: str,
        dataset: Dataset,
        element: ElementType,
        shape: tuple[int, ...],
        error: Unreferable,
    ) -> Loader:
        source = self._file.source
        whole = f"{self._group.rstrip('/')}/{dataset.name}"
        plain = element.form != "other" or element.dtype.kind in "SUbc"
        shorter = dataset.shape != shape and element.dtype.kind not in "fiu"
        if plain and (dataset.shape == shape or shorter):
            loader: Loader = DatasetLoader(source, whole, error.files)
        else:
            loader = VariableLoader(source, self._group, name)
        stored = self._stored(dataset, element)
        if stored.is_virtual:
            loader = VirtualLoader.of(loader, source.url, whole, surveyed(stored))
        if dataset.external:
            loader = LinkedLoader(loader, stored.file.source)
        if shorter:  # which h5netcdf sees to for numbers only
            loader = FilledLoader(loader, shape, fill_of(dataset.id, element))
        return loader


def _array(sources: Sources, placed: Placed, shape: tuple[int, ...]) -> VirtualArray:
    """A variable of the lengths of its dimensions, which may be others than the dataset's."""
    array: Any = placed.array.replaced(replace(placed.array.segments, sources=sources))
    for axis, size in enumerate(shape):
        lacking = size - array.shape[axis]
        if lacking > 0:
            # the dataset is shorter than its unlimited dimension
            part = (*array.shape[:axis], lacking, *array.shape[axis + 1 :])
            case = array.segments.cases[0]
            row: Any = np.zeros((), case.encoding.parameters)
            row[RAW_FILL] = placed.fill
            chunks = strip_shape(part, case.encoding.stored.itemsize)
            rest = VirtualArray.from_source(
                sources, 0, part, chunks, case.encoding, row, References.missing(), name=array.name
            )
            array = np.concatenate([array, rest], axis=axis)
    return array
