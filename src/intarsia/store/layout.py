"""Where the groups and variables of a store lie: the nodes of its Zarr hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from intarsia.errors import StoreError
from intarsia.store.names import node_names
from intarsia.store.nodes import Group


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group lies.

    Parameters
    ----------
    prefix
        What the names of its objects begin with: ``""``, or path and ``/``.
    nodes
        Node names of its variables, by name; paths from the root of the store.
    """

    prefix: str
    nodes: dict[str, str]


def places_of(
    groups: Mapping[str, Group],
    names_of: Callable[[Iterable[str]], dict[str, str]] = node_names,
) -> dict[str, Place]:
    """Places of groups and of those above them, the outer ones first.

    Parameters
    ----------
    groups
        By absolute path.
    names_of
        Gives node names for all members of a group, by name.

    Raises
    ------
    StoreError
        If a path is no absolute path of a group, or a variable is called like a group beside it.
    """
    children: dict[str, dict[str, None]] = {"/": {}}
    for path in groups:
        parts = _parts(path)
        for depth, name in enumerate(parts):
            children.setdefault(_path(parts[:depth]), {})[name] = None
            children.setdefault(_path(parts[: depth + 1]), {})
    places: dict[str, Place] = {}
    for path in sorted(children, key=lambda path: len(_parts(path))):
        variables = groups[path].variables if path in groups else {}
        both = [name for name in variables if name in children[path]]
        if both:
            raise StoreError(
                "a variable and a group beside it have the same name",
                array=both[0],
                remedy="rename one of them",
            )
        prefix = places[path].prefix if path in places else ""
        names = names_of([*variables, *children[path]])
        places[path] = Place(prefix, {name: prefix + names[name] for name in variables})
        for name in children[path]:
            inside = _path([*_parts(path), name])
            places[inside] = Place(f"{prefix}{names[name]}/", {})
    return places


def _parts(path: str) -> list[str]:
    """The names along an absolute path."""
    if path == "/":
        return []
    first, *parts = path.split("/")
    if first or not parts or not all(parts):
        raise StoreError(f"{path!r} is not the absolute path of a group", remedy="as '/a/b'")
    return parts


def _path(parts: Iterable[str]) -> str:
    return "/" + "/".join(parts)
