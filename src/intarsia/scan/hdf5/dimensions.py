"""Groups of netCDF-4 files and their dimensions, as h5netcdf finds them.

netCDF-4 keeps dimensions as HDF5 dimension scales. What lacks them (plain HDF5) gets *phony*
dimensions, numbered in the order in which groups are visited: with ``"access"`` only the groups on
the way to the one that is asked for, with ``"sort"`` every group before it. Names, order and the
odd cases (a variable named like a dimension, colliding ids) follow h5netcdf 1.8.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from h5py import h5, h5a, h5d, h5g, h5l, h5o, h5p, h5r, h5s, h5t

from intarsia.errors import CorruptFile, FormatError
from intarsia.scan.hdf5.attributes import attribute_names, read_raw
from intarsia.scan.hdf5.opening import HDF5_ERRORS

NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."
COLLIDING = "_nc4_non_coord_"
"""Prefix of a variable that is named like a dimension, but is not its coordinate."""


class Dimension(NamedTuple):
    """One dimension of a group.

    Parameters
    ----------
    name, size
        As netCDF has them.
    unlimited
        Whether it can grow.
    number
        Its id in ``_Netcdf4Coordinates``; 0 where it is phony.
    phony
        Whether it was made up.
    """

    name: str
    size: int
    unlimited: bool
    number: int
    phony: bool


class Dataset:
    """A dataset as a member of a group, with what tells its dimensions.

    Parameters
    ----------
    name
        In the group.
    identifier
        h5py's low-level dataset.
    external
        Whether it lies in another file.

    Attributes
    ----------
    creation, attributes
        Its creation properties, and the names of its attributes.
    shape
        Of the dataset, which may be shorter than its dimensions; ``()`` too where it is null.
    unlimited
        Whether it has one dimension that can grow.
    is_scale
        Whether it is a dimension of its group.
    is_variable
        Whether it is more than that.
    """

    def __init__(self, name: str, identifier: Any, external: bool) -> None:
        self.name = name
        self.id = identifier
        self.external = external
        self.creation = identifier.get_create_plist()
        self.attributes = attribute_names(identifier, self.creation)
        self.shape: tuple[int, ...] = ()
        self.unlimited = False
        space = identifier.get_space()
        self.null = space.get_simple_extent_type() == h5s.NULL
        if not self.null:
            self.shape = space.get_simple_extent_dims()
            if len(self.shape) == 1:
                self.unlimited = space.get_simple_extent_dims(1)[0] == h5s.UNLIMITED
        value = self.attribute(b"CLASS")
        # of fixed length: h5netcdf compares with bytes, and h5py gives others as str
        self.is_scale = isinstance(value, np.bytes_) and value == b"DIMENSION_SCALE"
        value = self.attribute(b"NAME")
        self.is_variable = not (isinstance(value, bytes) and NOT_A_VARIABLE in value)
        self._labels: list[Any] | None = None

    def attribute(self, name: bytes) -> Any:
        """One attribute as h5py reads it, or None."""
        return read_raw(h5a.open(self.id, name)) if name in self.attributes else None

    def labels(self, file: str) -> list[Any]:
        """For each dimension the reference to its scale; empty where no dimension has one.

        Raises
        ------
        FormatError
            Some dimensions have scales and others not, which h5netcdf refuses.
        """
        if self._labels is None:
            value = self.attribute(b"DIMENSION_LIST") if self.shape else None
            scales = [] if value is None else [list(item) for item in value]
            if not any(scales):
                scales = []
            if not all(scales):
                reason = "some of its dimensions have a dimension scale and others do not"
                raise FormatError(reason, array=self.name, url=file)
            # of several scales the last one counts, as for netCDF
            self._labels = [references[-1] for references in scales]
        return self._labels


@dataclass(slots=True)
class Group:
    """A group, its members, and the dimensions in scope.

    Parameters
    ----------
    id
        h5py's low-level group.
    parent
        The group above; None for the root.
    """

    id: Any
    parent: Group | None
    datasets: list[Dataset] = field(default_factory=list[Dataset])
    groups: dict[str, Any] = field(default_factory=dict[str, Any])
    enums: dict[str, Any] = field(default_factory=dict[str, Any])
    dimensions: dict[str, Dimension] = field(default_factory=dict[str, Dimension])

    def scopes(self) -> Iterator[Group]:
        """Yield the group itself, its parent and so on to the root."""
        group: Group | None = self
        while group is not None:
            yield group
            group = group.parent

    def dimension(self, name: str) -> Dimension | None:
        """The dimension of that name that is in scope."""
        for group in self.scopes():
            found = group.dimensions.get(name)
            if found is not None:
                return found
        return None

    def enum_name(self, datatype: Any) -> str | None:
        """Name of the committed enum type in scope that equals `datatype`."""
        names: dict[str, Any] = {}
        for group in reversed(list(self.scopes())):
            names.update(group.enums)
        for name, committed in names.items():
            if datatype == committed:
                return name
        return None


class Structure:
    """The groups of a file that were visited, in the order in which h5netcdf visits them.

    Parameters
    ----------
    file
        h5py's low-level file.
    path
        Of the file, for messages.
    phony_dims
        ``"access"`` or ``"sort"``.
    dropped
        Names of variables that nobody asks for: links of these names may lead nowhere, and out of
        the file they are not followed.
    """

    def __init__(self, file: Any, path: str, phony_dims: str, dropped: Set[str]) -> None:
        self._file = file
        self._path = path
        self._dropped = dropped
        self._sort = phony_dims == "sort"
        self._number = file.fileno
        self._last_id = -1
        self._phony = 0

    def group(self, names: list[str]) -> Group:
        """Visit the group at the end of a path.

        Raises
        ------
        FormatError
            There is no such group.
        """
        root = self._visit(h5g.open(self._file, b"/"), None)
        if self._sort:
            found = self._descend(root, names)
        else:
            found = root
            for name in names:
                member = found.groups.get(name)
                found = None if member is None else self._visit(member, found)
                if found is None:
                    break
        if found is None:
            reason = f"the file has no group {'/' + '/'.join(names)!r}"
            raise FormatError(reason, url=self._path)
        return found

    def below(self, names: list[str], group: Group) -> Iterator[tuple[list[str], Group]]:
        """Visit a group's groups and theirs, depth first, each before those in it.

        Parameters
        ----------
        names, group
            Path of the group, and the group itself, which is yielded first.

        Raises
        ------
        FormatError
            A group is in itself.
        """
        yield names, group
        place = h5o.get_info(group.id)
        for scope in group.scopes():
            if scope is not group and h5o.get_info(scope.id).addr == place.addr:
                reason = f"the group {'/' + '/'.join(names)!r} is in itself"
                raise FormatError(reason, url=self._path)
        for name, member in group.groups.items():
            yield from self.below([*names, name], self._visit(member, group))

    def _descend(self, group: Group, names: list[str]) -> Group | None:
        """Visit groups depth first until the one at the end of the path is reached."""
        if not names:
            return group
        for name, member in group.groups.items():
            child = self._visit(member, group)
            if name == names[0]:
                return self._descend(child, names[1:])
            self._exhaust(child)
        return None

    def _exhaust(self, group: Group) -> None:
        for member in group.groups.values():
            self._exhaust(self._visit(member, group))

    def _visit(self, identifier: Any, parent: Group | None) -> Group:
        group = Group(identifier, parent)
        unlabeled: Counter[int] = Counter()
        for name, linked in _links(identifier):
            dropped = name.replace(COLLIDING, "") in self._dropped
            if dropped and identifier.links.get_info(linked).type == h5l.TYPE_EXTERNAL:
                continue
            try:
                member = h5o.open(identifier, linked)
            except (KeyError, RuntimeError) as error:  # the latter where links go in circles
                if dropped:
                    continue
                reason = f"the link {name!r} leads nowhere ({_why(error)})"
                remedy = f"drop it: drop_variables={[name]!r}"
                raise FormatError(reason, url=self._path, remedy=remedy) from error
            if isinstance(member, h5g.GroupID):
                group.groups[name.replace(COLLIDING, "")] = member
            elif isinstance(member, h5t.TypeID):
                if member.get_class() == h5t.ENUM:
                    group.enums[name] = member
            elif isinstance(member, h5d.DatasetID):
                dataset = self._dataset(name, member)
                if dataset.is_scale:
                    group.dimensions[name] = self._dimension(dataset)
                elif not dataset.labels(self._path):
                    unlabeled |= Counter(dataset.shape)
                if dataset.is_variable:
                    group.datasets.append(dataset)
        self._add_phony(group, unlabeled)
        return group

    def _dataset(self, name: str, member: Any) -> Dataset:
        try:
            return Dataset(name, member, member.fileno != self._number)
        except HDF5_ERRORS as error:
            # the length of a virtual dataset that grows is that of what it maps
            if member.get_create_plist().get_layout() != h5d.VIRTUAL:
                raise
            reason = f"a part of a virtual dataset of HDF5 can't be read ({_why(error)})"
            raise CorruptFile(reason, array=name, url=self._path) from error

    def _dimension(self, dataset: Dataset) -> Dimension:
        self._last_id += 1
        if not dataset.shape:
            reason = "it is a dimension scale without a dimension"
            raise CorruptFile(reason, array=dataset.name, url=self._path)
        size = dataset.shape[0]
        references = dataset.attribute(b"REFERENCE_LIST") if dataset.unlimited else None
        if references is not None:
            # netCDF lets a variable be longer than the scale, or shorter
            for reference, axis in references:
                size = max(size, h5r.dereference(reference, self._file).shape[axis])
        number = dataset.attribute(b"_Netcdf4Dimid")
        number = self._last_id if number is None else int(np.asarray(number).reshape(-1)[0])
        return Dimension(dataset.name, size, dataset.unlimited, number, False)

    def _add_phony(self, group: Group, unlabeled: Counter[int]) -> None:
        labeled = Counter(d.size for d in group.dimensions.values() if not d.unlimited)
        for size, count in unlabeled.items():
            for _ in range(labeled[size], count):
                number = self._phony + (self._last_id + 1 if self._sort else 0)
                name = f"phony_dim_{number}"
                group.dimensions[name] = Dimension(name, size, False, 0, True)
                self._phony += 1

    def dims_of(self, group: Group, dataset: Dataset) -> tuple[str, ...]:
        """Names of the dimensions of a variable.

        Raises
        ------
        FormatError
            A dimension is not in scope, where h5netcdf fails too.
        """
        dims = self._dims_of(group, dataset)
        for name in dims:
            if group.dimension(name) is None:
                reason = f"its dimension {name!r} is in no group above it"
                raise FormatError(reason, array=dataset.name, url=self._path)
        return dims

    def _dims_of(self, group: Group, dataset: Dataset) -> tuple[str, ...]:
        if b"_Netcdf4Coordinates" in dataset.attributes and dataset.is_scale:
            names: dict[int, str] = {}
            for scope in reversed(list(group.scopes())):
                names.update({d.number: name for name, d in scope.dimensions.items()})
            numbers = np.asarray(dataset.attribute(b"_Netcdf4Coordinates")).reshape(-1)
            try:
                return tuple(names[int(number)] for number in numbers)
            except KeyError as error:
                reason = f"its dimension number {error} is in no group above it"
                raise FormatError(reason, array=dataset.name, url=self._path) from error
        labels = dataset.labels(self._path)
        if labels:
            return tuple(self._scale_name(dataset, reference) for reference in labels)
        if group.dimension(dataset.name) is not None:
            return (dataset.name,)
        dims: list[str] = []
        used: defaultdict[int, int] = defaultdict(int)
        for size in dataset.shape:
            fitting = [name for name, d in group.dimensions.items() if d.size == size]
            dims.append(fitting[used[size]])
            used[size] += 1
        return tuple(dims)

    def _scale_name(self, dataset: Dataset, reference: Any) -> str:
        # h5netcdf too looks in the first file, whichever the dataset lies in
        try:
            name = h5r.get_name(reference, self._file)
        except HDF5_ERRORS:
            if not dataset.external:
                raise
            name = None
        if name is None and dataset.external:
            reason = "its dimension scales lie in another file, where xarray does not look for them"
            raise FormatError(reason, array=dataset.name, url=self._path)
        if name is None:
            raise CorruptFile("a variable refers to a dimension that is not there")
        return name.decode("utf-8", "surrogateescape").split("/")[-1]


def _why(error: Exception) -> str:
    """What HDF5 says of a link, without h5py's words around it."""
    found = re.search(r"\((.*)\)", str(error))
    return found[1] if found else str(error)


def _links(group: Any) -> list[tuple[str, bytes]]:
    """Names of a group's members, in the order of creation where that is kept."""
    tracked = group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    group.links.iterate(names.append, idx_type=h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME)
    return [(name.decode("utf-8", "surrogateescape"), name) for name in names]
