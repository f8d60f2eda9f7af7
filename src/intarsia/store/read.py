"""Reading a store: the root at once, everything else when it is used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from threading import RLock
from typing import Any

from intarsia.array import VirtualArray
from intarsia.encoding import Encoding
from intarsia.errors import (
    IntarsiaError,
    StoreError,
    StoreReplaced,
    UnsupportedError,
)
from intarsia.io.containers import Places, check_keys, resolve
from intarsia.io.paths import is_url, place_of
from intarsia.references import Sources
from intarsia.segments import Segments
from intarsia.store.copies import read_values
from intarsia.store.described import (
    check_sizes,
    containers_of,
    dtype_of,
    grid_of,
    mapping_of,
)
from intarsia.store.grid import Grid
from intarsia.store.names import is_node_name
from intarsia.store.nodes import Group, LazyGroups, Variable
from intarsia.store.objects import open_objects
from intarsia.store.parsing import Reader
from intarsia.store.root import read_root
from intarsia.store.tables import Table
from intarsia.store.unpacking import SourceRows, check_shape, read_cases, read_segments
from intarsia.store.values import restored

type Overrides = Mapping[str, Any]

ATTEMPTS = 5
"""How often a store is read anew, where it is replaced while it is read."""


class Stored:
    """An open store.

    Parameters
    ----------
    path
        Absolute path.
    containers
        Where containers are now, by name; the others are where the store says.
    storage_options, registry
        How sources of the network are reached (see `intarsia.io.containers.resolve`).
    places
        Where containers are, and how they are reached, in place of all of these: what was found
        when this store was opened before.
    refused
        Takes the containers that are refused, which is no error then.
    """

    def __init__(
        self,
        path: str,
        containers: Overrides | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        registry: Any = None,
        places: Places | None = None,
        refused: dict[str, StoreError] | None = None,
    ) -> None:
        self.url = path
        self._objects = open_objects(path)
        self._root = read_root(self._objects)
        self._root.only("format", "version", "digest", "groups", "containers", "sources", "cases")
        self.digest = self._root.text("digest")
        self._objects.replaced = self._replaced
        self.containers = containers_of(self._root)
        if places is not None and len(places.locations) != len(self.containers):
            raise StoreReplaced(
                "the store was replaced after it was opened", url=path, remedy="open it again"
            )
        self.places = places or resolve(
            self.containers,
            path,
            containers,
            storage_options=storage_options,
            registry=registry,
            refused=refused,
        )
        self._lock = RLock()
        self._sources: Sources | None = None
        self._cases: dict[str, Encoding] | None = None
        self._segments: dict[tuple[str, str], Segments] = {}
        self._variables: dict[str, dict[str, Reader]] = {}

    def __repr__(self) -> str:
        return f"<Stored {self.url}: {len(self.groups)} groups>"

    @property
    def root(self) -> dict[str, Any]:
        """The root document."""
        return self._root.value

    @property
    def groups(self) -> Mapping[str, Group]:
        """The groups by absolute path; each is read when it is asked for."""
        return LazyGroups(self.group_paths, self.group)

    @property
    def group_paths(self) -> list[str]:
        """Absolute paths of the groups."""
        return list(self._root.child("groups").value)

    @property
    def sources(self) -> Sources:
        """All sources, at the places where their containers are."""
        with self._lock:
            if self._sources is None:
                told = self._root.child("sources")
                rows = SourceRows(told, self._objects)
                check_keys(rows.keys, self.url)
                rows.check_queries([is_url(container.location) for container in self.containers])
                self._sources = rows.placed(self.places)
            return self._sources

    @property
    def cases(self) -> dict[str, Encoding]:
        """The cases by key."""
        with self._lock:
            if self._cases is None:
                self._cases = read_cases(self._root.child("cases"))
            return self._cases

    def group(self, path: str) -> Group:
        """A group: its copied variables with their values, its virtual ones deferred.

        Raises
        ------
        KeyError
            If there is no such group.
        StoreError
            If something is damaged, or the store was replaced meanwhile.
        """
        groups = self._root.child("groups")
        if not groups.has(path):
            raise KeyError(path)
        told = groups.child(path)
        told.only("attributes", "encoding", "variables")
        variables: dict[str, Variable] = {}
        for name, variable in self._named(path).items():
            try:
                variables[name] = self._variable(path, name, variable)
            except IntarsiaError as error:
                raise error.located(url=self.url, array=name) from error.__cause__
        check_sizes(told, variables)
        return Group(variables, mapping_of(told, "attributes"), mapping_of(told, "encoding"))

    def segments(self, group: str, name: str) -> Segments:
        """Segments of a virtual variable, read once."""
        with self._lock:
            found = self._segments.get((group, name))
            if found is not None:
                return found
            told = self._virtual(group, name)
            variable = self._variable_of(group, name)
            shape = check_shape(variable)
            dtype = dtype_of(told)
            reopen = partial(_table, self.url, self.digest, self.places, group, name)
            try:
                found = read_segments(
                    told, self._objects, shape, dtype, self.cases, self.sources, reopen
                )
            except IntarsiaError as error:
                raise error.located(url=self.url, array=name) from error.__cause__
            self._segments[group, name] = found
            return found

    def encodings(self, group: str, name: str) -> list[Encoding]:
        """Encodings of a virtual variable; no table of it is read."""
        found: list[Encoding] = []
        told = self._virtual(group, name)
        dtype = dtype_of(told)
        for case in told.listed("cases"):
            key = case.text("case")
            if key not in self.cases:
                raise case.error(f"there is no case {key[:40]!r}", "case")
            if self.cases[key].dtype != dtype:
                raise case.error(f"it gives {self.cases[key].dtype}, not {dtype}", "case")
            found.append(self.cases[key])
        return found

    def references(self, group: str, name: str) -> Table:
        """The table of references of a virtual variable."""
        return Table.parse(self._virtual(group, name).child("references"), self._objects)

    def _named(self, group: str) -> dict[str, Reader]:
        """What the root says of the variables of a group, by name."""
        known = self._variables.get(group)
        if known is not None:
            return known
        found: dict[str, Reader] = {}
        for variable in self._root.child("groups").child(group).listed("variables"):
            if found.setdefault(variable.text("name"), variable) is not variable:
                raise variable.error("a second variable of this name", "name")
        return self._variables.setdefault(group, found)

    def _variable_of(self, group: str, name: str) -> Reader:
        return self._named(group)[name]

    def _virtual(self, group: str, name: str) -> Reader:
        told = self._variable_of(group, name).child("virtual")
        told.only(
            *("dtype", "source_name", "notes", "grid", "segments", "cases", "references", "inline")
        )
        return told

    def _variable(self, group: str, name: str, told: Reader) -> Variable:
        told.only(
            *("name", "node", "dims", "shape", "coordinate", "attributes", "encoding"),
            *("virtual", "values", "restore"),
        )
        if not all(map(is_node_name, told.name("node").split("/"))):
            raise told.error("is not the name of a node", "node")
        dims = tuple(told.texts("dims"))
        shape = check_shape(told)
        if len(dims) != len(shape) or len(set(dims)) != len(dims):
            raise told.error(f"{len(shape)} lengths for the dimensions {dims}")
        grid: Grid | None = None
        if told.has("virtual"):
            virtual = self._virtual(group, name)
            data: Any = VirtualArray.deferred(
                shape,
                dtype_of(virtual),
                _Deferred(self, group, name),
                virtual.text("source_name") or None,
                virtual.texts("notes"),
            )
            grid = grid_of(virtual.child("grid"), shape)
        else:
            values = read_values(told.child("values"), self._objects)
            try:
                data = restored(values, told.child("restore").value)
            except (ValueError, OverflowError, TypeError) as error:
                raise told.error(str(error), "restore") from error
            if data.shape != shape:
                raise told.error(f"values of shape {data.shape} in a variable of {shape}")
        return Variable(
            dims,
            data,
            mapping_of(told, "attributes"),
            mapping_of(told, "encoding"),
            told.boolean("coordinate"),
            grid,
        )

    def _replaced(self) -> bool:
        """Whether another store is in this one's place now."""
        try:
            now = read_root(open_objects(self.url)).text("digest")
        except (StoreError, OSError):
            return False
        return now != self.digest


class _Deferred:
    """Gives the segments of a variable of a store, here or in another process."""

    __slots__ = ("_group", "_name", "_stored")

    def __init__(self, stored: Stored, group: str, name: str) -> None:
        self._stored = stored
        self._group = group
        self._name = name

    def __call__(self) -> Segments:
        return self._stored.segments(self._group, self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        stored = self._stored
        where = (stored.url, stored.digest, stored.places)
        return _deferred, (*where, self._group, self._name)


def _deferred(url: str, digest: str, places: Places, group: str, name: str) -> _Deferred:
    return _Deferred(_known(url, digest, places), group, name)


def _table(url: str, digest: str, places: Places, group: str, name: str) -> Table:
    return _known(url, digest, places).references(group, name)


_opened: dict[tuple[str, str, Places], Stored] = {}
"""Stores that were opened again because something of them crossed processes."""


def _known(url: str, digest: str, places: Places) -> Stored:
    """The store that something pickled belongs to, opened once."""
    key = (url, digest, places)
    stored = _opened.get(key)
    if stored is None:
        stored = reopened(url, digest, places)
        while len(_opened) > 15:
            _opened.pop(next(iter(_opened)))
        _opened[key] = stored
    return stored


def reopened(url: str, digest: str, places: Places) -> Stored:
    """Open a store as it was open before.

    Raises
    ------
    StoreReplaced
        If another one is there now.
    """
    stored = Stored(url, places=places)
    if stored.digest != digest:
        raise StoreReplaced(
            "the store was replaced after it was opened", url=url, remedy="open it again"
        )
    return stored


def read(
    path: str | os.PathLike[str],
    *,
    containers: Overrides | None = None,
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
    refused: dict[str, StoreError] | None = None,
) -> Stored:
    """Open a store, anew where it is replaced meanwhile. Only its root is read.

    Parameters
    ----------
    path
        A local folder or zip file.
    containers
        Where containers are now, by name: a place, or a mapping with some of ``location``,
        ``pin``, ``storage_options`` and ``registry``.
    storage_options, registry
        How those in the network are reached that `containers` says nothing of.
    refused
        Takes the containers that the store must not reach by its own word, and why, for who wants
        to know what it says of them. Nothing can be read from them.

    Raises
    ------
    NotAStore
        If there is no store.
    CorruptStore, UnsafeStore
        If it is damaged, or reaches for what it must not have.
    UnsupportedError
        If it is at a URL.
    """
    place = place_of(path)
    if is_url(place):
        raise UnsupportedError(
            "a store is only read from this machine",
            url=place.partition("?")[0],
            remedy="copy it here; it is small",
        )
    told: dict[str, Any] = {"storage_options": storage_options, "registry": registry}
    for _ in range(ATTEMPTS - 1):
        try:
            return Stored(place, containers, refused=refused, **told)
        except StoreReplaced:
            continue
    return Stored(place, containers, refused=refused, **told)


def read_group(path: str | os.PathLike[str], group: str = "/", **how: Any) -> tuple[Stored, Group]:
    """Open a store and read a group of it, anew where it is replaced meanwhile.

    Parameters
    ----------
    path, **how
        As for `read`.
    group
        Absolute path.

    Raises
    ------
    KeyError
        If there is no such group.
    StoreError, UnsupportedError
        As for `read`.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            stored = read(path, **how)
            return stored, stored.group(group)
        except StoreReplaced:
            continue
    stored = read(path, **how)
    return stored, stored.group(group)
