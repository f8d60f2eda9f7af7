"""Reading a store: the root at once, everything else when it is used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from threading import RLock
from typing import Any

import numpy as np

from intarsia.array import VirtualArray
from intarsia.encoding import Encoding
from intarsia.errors import IntarsiaError, StoreError, StoreReplaced
from intarsia.io.containers import Container, check_keys, resolve, settle, untrusted
from intarsia.io.paths import local_path
from intarsia.references import Sources
from intarsia.segments import Segments
from intarsia.store.attributes import mapping_from_json
from intarsia.store.copies import read_values
from intarsia.store.grid import Grid
from intarsia.store.names import is_node_name
from intarsia.store.nodes import Group, Variable
from intarsia.store.objects import open_objects
from intarsia.store.parsing import Reader
from intarsia.store.root import read_root
from intarsia.store.tables import Table
from intarsia.store.unpacking import SourceRows, check_shape, read_cases, read_segments
from intarsia.store.values import restored

type Overrides = Mapping[str, Any]

_DTYPE = re.compile(r"[<>|][biufc][0-9]{1,2}")
"""Types that a virtual variable can have."""

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
    """

    def __init__(self, path: str, containers: Overrides | None = None) -> None:
        self.url = path
        self._objects = open_objects(path)
        self._overrides = settle(containers)
        self._root = read_root(self._objects)
        self._root.only("format", "version", "digest", "groups", "containers", "sources", "cases")
        self.digest = self._root.text("digest")
        self._objects.replaced = self._replaced
        self.containers = _containers(self._root)
        self.locations, self.pins = resolve(self.containers, path, self._overrides)
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
        return _Groups(self)

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
                self._sources = rows.placed(
                    self.locations, self.pins, untrusted(self.containers, self._overrides)
                )
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
        _check_sizes(told, variables)
        return Group(variables, _mapping(told, "attributes"), _mapping(told, "encoding"))

    def segments(self, group: str, name: str) -> Segments:
        """Segments of a virtual variable, read once."""
        with self._lock:
            found = self._segments.get((group, name))
            if found is not None:
                return found
            told = self._virtual(group, name)
            variable = self._variable_of(group, name)
            shape = check_shape(variable)
            dtype = _dtype(told)
            reopen = partial(_table, self.url, self.digest, self._overrides, group, name)
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
        dtype = _dtype(told)
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
                _dtype(virtual),
                _Deferred(self, group, name),
                virtual.text("source_name") or None,
                virtual.texts("notes"),
            )
            grid = _grid(virtual.child("grid"), shape)
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
            _mapping(told, "attributes"),
            _mapping(told, "encoding"),
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


class _Groups(Mapping[str, Group]):
    """The groups of a store, each read when it is asked for."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    def __getitem__(self, path: str) -> Group:
        return self._stored.group(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored.group_paths)

    def __len__(self) -> int:
        return len(self._stored.group_paths)


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
        where = (stored.url, stored.digest, stored._overrides)  # pyright: ignore[reportPrivateUsage]
        return _deferred, (*where, self._group, self._name)


def _deferred(url: str, digest: str, overrides: Overrides, group: str, name: str) -> _Deferred:
    return _Deferred(_known(url, digest, overrides), group, name)


def _table(url: str, digest: str, overrides: Overrides, group: str, name: str) -> Table:
    return _known(url, digest, overrides).references(group, name)


_opened: dict[tuple[str, str, str], Stored] = {}
"""Stores that were opened again because something of them crossed processes."""


def _known(url: str, digest: str, overrides: Overrides) -> Stored:
    """The store that something pickled belongs to; refused where it is no longer that one."""
    key = (url, digest, repr(sorted(overrides.items())))
    stored = _opened.get(key)
    if stored is None:
        stored = Stored(url, overrides)
        if stored.digest != digest:
            raise StoreReplaced(
                "the store was replaced after it was opened", url=url, remedy="open it again"
            )
        while len(_opened) > 15:
            _opened.pop(next(iter(_opened)))
        _opened[key] = stored
    return stored


def read(path: str | os.PathLike[str], *, containers: Overrides | None = None) -> Stored:
    """Open a store, anew where it is replaced meanwhile. Only its root is read.

    Parameters
    ----------
    path
        A local folder or zip file.
    containers
        Where containers are now, by name: a place, or ``{"location": ..., "pin": ...}``.

    Raises
    ------
    NotAStore
        If there is no store.
    CorruptStore, UnsafeStore
        If it is damaged, or reaches for what it must not have.
    """
    place = local_path(path)
    for _ in range(ATTEMPTS - 1):
        try:
            return Stored(place, containers)
        except StoreReplaced:
            continue
    return Stored(place, containers)


def read_group(
    path: str | os.PathLike[str], group: str = "/", *, containers: Overrides | None = None
) -> tuple[Stored, Group]:
    """Open a store and read a group of it, anew where it is replaced meanwhile.

    Raises
    ------
    KeyError
        If there is no such group.
    StoreError
        As for `read`.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            stored = read(path, containers=containers)
            return stored, stored.group(group)
        except StoreReplaced:
            continue
    stored = read(path, containers=containers)
    return stored, stored.group(group)


def _containers(told: Reader) -> list[Container]:
    found: list[Container] = []
    for container in told.listed("containers"):
        container.only("name", "location", "pin")
        pin = container.choice("pin", ("mtime", "size", "sample", "none"))
        found.append(Container(container.text("name"), container.text("location"), pin))
    return found


def _dtype(told: Reader) -> np.dtype[Any]:
    text = told.text("dtype", 16)
    try:
        dtype = np.dtype(text) if _DTYPE.fullmatch(text) else None
    except TypeError as error:
        raise told.error(f"no such type: {text!r}", "dtype") from error
    if dtype is None or not dtype.isnative or dtype.str != text:
        raise told.error(f"{text!r} can't be the type of a virtual variable", "dtype")
    return dtype


def _grid(told: Reader, shape: tuple[int, ...]) -> Grid:
    told.only("chunks", "amplification_percent", "max_parts", "cells")
    chunks = told.integers("chunks", 1)
    if len(chunks) != len(shape):
        raise told.error("a grid of other dimensions than the array's", "chunks")
    return Grid(
        chunks,
        told.integer("amplification_percent", 0) / 100,
        told.integer("max_parts", 0),
        told.integer("cells", 0),
    )


def _mapping(told: Reader, key: str) -> dict[str, Any]:
    try:
        return mapping_from_json(told.child(key).value)
    except (ValueError, OverflowError, TypeError) as error:
        raise told.error(str(error), key) from error


def _check_sizes(told: Reader, variables: Mapping[str, Variable]) -> None:
    """One length per dimension name, in all variables of a group."""
    sizes: dict[str, int] = {}
    for name, variable in variables.items():
        for dim, size in zip(variable.dims, variable.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise told.error(f"the dimension {dim[:80]!r} of {name[:80]!r} has two lengths")
