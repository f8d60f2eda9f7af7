"""References of kerchunk, JSON or Parquet, group by group.

They are loaded here once, and VirtualiZarr makes manifests of the part that is asked for. (Its own
way to a group takes the group's name out of all texts, attributes and inlined bytes among them.)
"""

# References are JSON of any shape.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from intarsia.errors import FormatError
from intarsia.io.files import opened_file
from intarsia.scan.virtualizarr_formats import PARQUET, Format
from intarsia.scan.virtualizarr_places import Places, url_of

__all__ = ["Refs", "kerchunk_refs"]

MARKS = (".zgroup", "zarr.json")
"""Names of the metadata of groups, in Zarr v2 and v3; in v3 also of arrays."""


class Refs:
    """All references of one file or folder.

    Parameters
    ----------
    place
        Where they are, for errors.
    refs
        By key.
    """

    def __init__(self, place: str, refs: Mapping[str, Any]) -> None:
        self._place = place
        self.refs = refs

    def tree(self, where: tuple[str, ...], *, deep: bool) -> Any:
        """The group at a path, as a ``ManifestGroup``.

        Parameters
        ----------
        where
            Its path.
        deep
            Whether the groups in it are wanted, too.
        """
        if where and not self._is_group("/".join(where) + "/"):
            raise FormatError(f"there is no group {'/'.join(where)!r}", url=self._place)
        return self._node("/".join((*where, "")) if where else "", deep)

    def _node(self, prefix: str, deep: bool) -> Any:
        from virtualizarr.manifests import ManifestGroup
        from virtualizarr.parsers.kerchunk.translator import manifestgroup_from_kerchunk_refs

        own = dict(self._own(prefix))
        found: Any = manifestgroup_from_kerchunk_refs(cast("Any", {"refs": own}))
        if not deep:
            return found
        groups = {name: self._node(f"{prefix}{name}/", deep) for name in self._below(prefix)}
        attributes: Any = found.metadata.attributes
        return ManifestGroup(arrays=found.arrays, groups=groups, attributes=attributes)

    def _own(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Keys of a group and the arrays in it, without those of groups in it."""
        inner = tuple(f"{prefix}{name}/" for name in self._below(prefix))
        for key, value in self.refs.items():
            if not key.startswith(prefix) or (inner and key.startswith(inner)):
                continue
            short = key.removeprefix(prefix)
            if prefix and short.endswith(".zattrs"):
                value = _without_prefix(value, prefix)
            yield short, value

    def _below(self, prefix: str) -> list[str]:
        """Names of the groups right in a group."""
        found: dict[str, None] = {}
        for key in self.refs:
            name, _, rest = key.removeprefix(prefix).partition("/")
            if key.startswith(prefix) and rest in MARKS and self._is_group(f"{prefix}{name}/"):
                found[name] = None
        return list(found)

    def _is_group(self, prefix: str) -> bool:
        if f"{prefix}.zgroup" in self.refs:
            return True
        told = _decoded(self.refs.get(f"{prefix}zarr.json"))
        return isinstance(told, dict) and told.get("node_type") == "group"


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str | bytes) else value


def _without_prefix(value: Any, prefix: str) -> Any:
    """Attributes of an array, whose dimensions may be named with the path of their group."""
    attrs = _decoded(value)
    dims: Any = attrs.get("_ARRAY_DIMENSIONS") if isinstance(attrs, dict) else None
    if not isinstance(dims, list):
        return value
    names = [str(dim).removeprefix(prefix) for dim in cast("list[Any]", dims)]
    return json.dumps({**attrs, "_ARRAY_DIMENSIONS": names})


def kerchunk_refs(found: Format, places: Places) -> Refs:
    """Load references.

    Raises
    ------
    FormatError
        If these are none.
    ImportError
        If what reads Parquet is not installed.
    """
    if found is PARQUET:
        from fsspec.core import url_to_fs
        from fsspec.implementations.reference import LazyReferenceMapper

        system, path = url_to_fs(url_of(places.place))
        mapper: Any = LazyReferenceMapper(path, system)
        return Refs(places.place, {key: mapper[key] for key in mapper})
    with opened_file(places.place, places.access) as file:
        told: Any = json.loads(bytes(file.read(0, file.source.size)))
    refs: Any = told.get("refs", told) if isinstance(told, dict) else None
    if not isinstance(refs, dict) or not any(key.rpartition("/")[2] in MARKS for key in refs):
        raise FormatError("this JSON holds no references of kerchunk", url=places.place)
    if "templates" in told or "gen" in told:
        raise FormatError(
            "its references have templates, which are not read",
            url=places.place,
            remedy="write them out: fsspec's ReferenceFileSystem can",
        )
    return Refs(places.place, cast("dict[str, Any]", refs))
