"""References of kerchunk, JSON or Parquet, group by group.

They are loaded here once, and VirtualiZarr makes manifests of the part that is asked for. (Its own
way to a group takes the group's name out of all texts, attributes and inlined bytes among them.)
"""

# References are JSON of any shape.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from intarsia.errors import FormatError
from intarsia.io.files import opened_file
from intarsia.scan.virtualizarr_formats import PARQUET, Format
from intarsia.scan.virtualizarr_places import Places, url_of

__all__ = ["Refs", "kerchunk_refs"]

TEMPLATE = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
"""Where the text of a template goes."""
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
    found_refs = cast("dict[str, Any]", refs)
    if refs is not told and told.get("gen"):
        raise _not_plain("'gen', rules that make them", places)
    if refs is not told and told.get("templates"):
        found_refs = dict(_written_out(found_refs, told["templates"], places))
    return Refs(places.place, found_refs)


def _written_out(refs: dict[str, Any], templates: Any, places: Places) -> Iterator[tuple[str, Any]]:
    """References whose URLs have the texts that templates stand for.

    Only what is plain is read: a template is a text without braces, and stands in a URL as
    ``{{name}}``. Nothing is evaluated. Texts that hold data are left as they are, as by fsspec.
    """
    if not isinstance(templates, dict):
        raise _not_plain("'templates' that are no table", places)
    texts = cast("dict[str, Any]", templates)
    for name, text in texts.items():
        if not isinstance(text, str) or "{" in text or "}" in text:
            raise _not_plain(f"the template {name!r}, which is no plain text", places)

    def text_of(found: re.Match[str]) -> str:
        text = texts.get(found[1])
        if text is None:
            raise _not_plain(f"the template {found[1]!r}, which is not there", places)
        return text

    urls: dict[str, str] = {}
    for key, value in refs.items():
        if not isinstance(value, list) or not value or not isinstance(value[0], str):
            yield key, value
            continue
        url = value[0]
        if url not in urls:
            rest = TEMPLATE.sub("", url)
            more = ("{{", "{%", "{#") if rest == url else "{}"
            if any(one in rest for one in more):
                raise _not_plain(f"the URL {url[:100]!r}, which has more than names", places)
            urls[url] = TEMPLATE.sub(text_of, url)
        yield key, [urls[url], *cast("list[Any]", value)[1:]]


def _not_plain(what: str, places: Places) -> FormatError:
    return FormatError(
        f"its references have {what}; of templates only plain texts are read",
        url=places.place,
        remedy="write them out: fsspec's ReferenceFileSystem can",
    )
