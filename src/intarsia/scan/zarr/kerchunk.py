"""References of kerchunk, JSON or Parquet: a Zarr hierarchy whose chunks are pieces of other files.

They are loaded once. Metadata go to zarr-python, in memory; chunks are found by their keys as in a
folder.
"""

# References are JSON of any shape, and zarr's stores are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from intarsia.errors import FormatError, UnsupportedError, shown
from intarsia.io.files import opened_file
from intarsia.io.paths import is_url
from intarsia.scan.zarr.formats import PARQUET, Format
from intarsia.scan.zarr.groups import METADATA, Columns, ZarrGroup, groups_of
from intarsia.scan.zarr.kerchunk_parquet import parquet_refs
from intarsia.scan.zarr.manifests import NOWHERE
from intarsia.scan.zarr.places import Places

__all__ = ["References", "kerchunk_refs"]

TEMPLATE = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
"""Where the text of a template goes."""
MARKS = (".zgroup", "zarr.json")
"""Names of the metadata of groups, in Zarr v2 and v3; in v3 also of arrays."""


class References:
    """The objects that references stand for; see `groups.Objects`.

    Parameters
    ----------
    refs
        By key: text (that of JSON, or ``base64:``), bytes, ``[url]`` or ``[url, offset, length]``.
    places
        Where the files they lead to get their numbers.
    notes
        What has to be said of them.
    """

    def __init__(self, refs: Mapping[str, Any], places: Places, notes: Sequence[str] = ()) -> None:
        self._refs = refs
        self._places = places
        self.notes = tuple(notes)
        self._nodes: dict[str, list[str]] = {}
        """Keys below each node that has metadata, but for those of nodes below it."""
        nodes = {key.rpartition("/")[0] for key in refs if key.rpartition("/")[2] in METADATA}
        for key in refs:
            node = key.rpartition("/")[0]
            while node and node not in nodes:
                node = node.rpartition("/")[0]
            self._nodes.setdefault(node, []).append(key)

    def groups(self, way: Sequence[str], *, deep: bool) -> ZarrGroup:
        """The groups, as zarr-python reads them; see `groups.groups_of`."""
        import zarr
        from zarr.core.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore

        buffer = default_buffer_prototype().buffer
        metadata: dict[str, Any] = {
            key: buffer.from_bytes(_without_group(key, self._bytes(key)))
            for key in self._refs
            if key.rpartition("/")[2] in METADATA and key != ".zmetadata"
        }
        store = MemoryStore(metadata, read_only=True)
        return groups_of(zarr.open_group(store, mode="r"), self, way=way, deep=deep)

    def below(self, base: str) -> Iterator[tuple[str, Any]]:
        """See `groups.Objects`."""
        start = f"{base}/" if base else ""
        for key in self._nodes.get(base, ()):
            yield key.removeprefix(start), self._refs[key]

    def children(self, base: str) -> list[str]:
        """See `groups.Objects`."""
        start = f"{base}/" if base else ""
        found = (node.removeprefix(start) for node in self._nodes if node.startswith(start))
        others = (key.removeprefix(start) for key, _ in self.below(base) if "/" in key)
        return sorted({name.partition("/")[0] for name in (*found, *others) if name})

    def text(self, key: str) -> bytes | None:
        """See `groups.Objects`."""
        return self._bytes(key) if key in self._refs else None

    def check(self, base: str, listed: Sequence[tuple[str, Any]]) -> None:
        """Nothing to do: the metadata were read once, with the references."""

    def together(self, base: str, version: int) -> None:
        """Nothing to do, likewise."""

    def finish(self) -> None:
        """Nothing to do, likewise."""

    def columns(self, base: str, entries: Sequence[tuple[str, Any]]) -> Columns:
        """See `groups.Objects`."""
        count = len(entries)
        sources, offsets, lengths = (np.zeros(count, np.int64) for _ in range(3))
        paths = np.full(count, "", object)
        inline: dict[int, bytes] = {}
        for row, (key, value) in enumerate(entries):
            name = f"{base}/{key}" if base else key
            if not isinstance(value, list):
                inline[row] = self._bytes(name)
                if not inline[row]:
                    raise FormatError(f"the chunk {name} is empty")
                continue
            paths[row], *piece = _piece(name, value)
            if piece:
                offsets[row], lengths[row] = piece
            else:
                lengths[row] = -1
        there = paths != ""
        sources[:] = self._places.numbers(paths, there)
        for row in np.flatnonzero(there & (lengths < 0)).tolist():
            lengths[row] = self._places.size_of(int(sources[row]))
        sources[~there] = NOWHERE
        return Columns(sources, offsets, lengths, inline)

    def _bytes(self, key: str) -> bytes:
        value: Any = self._refs[key]
        if isinstance(value, bytes):
            return value
        if isinstance(value, dict):  # as some have metadata in memory
            return json.dumps(value).encode()
        if not isinstance(value, str):
            raise FormatError(f"the reference {key} is {_short(value)}, and no text")
        if not value.startswith("base64:"):
            return value.encode()
        try:
            return base64.b64decode(value.removeprefix("base64:"), validate=True)
        except (binascii.Error, ValueError) as error:
            raise FormatError(f"the reference {key} is no base64 ({error})") from error


def _without_group(key: str, data: bytes) -> bytes:
    """Attributes of an array, whose dimensions may be named with the path of their group."""
    group = key.rpartition("/")[0].rpartition("/")[0]
    if not group or not key.endswith("/.zattrs"):
        return data
    told: Any = json.loads(data)
    dims: Any = told.get("_ARRAY_DIMENSIONS") if isinstance(told, dict) else None
    if not isinstance(dims, list):
        return data
    names = [
        dim.removeprefix(f"{group}/") if isinstance(dim, str) else dim
        for dim in cast("list[Any]", dims)
    ]
    return json.dumps({**told, "_ARRAY_DIMENSIONS": names}).encode()


def _short(value: Any) -> str:
    """A reference, or what stands in place of one, as it may be told."""
    if isinstance(value, list | tuple):
        parts = cast("Sequence[Any]", value)[:4]
        value = [shown(part) if isinstance(part, str) else part for part in parts]
    return repr(shown(value) if isinstance(value, str) else value)[:100]


def _piece(key: str, value: Sequence[Any]) -> tuple[Any, ...]:
    """Path of a reference; and, where it is to a piece of the file, offset and length."""
    path, *rest = value or ("",)
    numbers = all(isinstance(n, int) and 0 <= n < 1 << 63 for n in rest)
    if not isinstance(path, str) or not path or len(rest) not in (0, 2) or not numbers:
        raise FormatError(f"the reference {key} is {_short(value)}")
    if rest and not rest[1]:
        raise FormatError(f"the reference {key} is to no bytes: a chunk is never empty")
    if not is_url(path) and not path.startswith("/"):
        raise UnsupportedError(
            f"its references lead to {_short(path)}, which is relative to what they don't say",
            remedy="write them with absolute paths or URLs, or say where the files are, with "
            "parser=virtualizarr.parsers.KerchunkJSONParser(fs_root='file:///folder/')",
        )
    return (path, *rest)


def kerchunk_refs(found: Format, places: Places) -> References:
    """Load references.

    Raises
    ------
    FormatError
        If these are none.
    ImportError
        If what reads Parquet is not installed.
    """
    if found is PARQUET:
        refs, notes = parquet_refs(places)
        return References(refs, places, notes)
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
    return References(found_refs, places)


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
                raise _not_plain(f"the URL {_short(url)}, which has more than names", places)
            urls[url] = TEMPLATE.sub(text_of, url)
        yield key, [urls[url], *cast("list[Any]", value)[1:]]


def _not_plain(what: str, places: Places) -> FormatError:
    return FormatError(
        f"its references have {what}; of templates only plain texts are read",
        url=places.place,
        remedy="write them out: fsspec's ReferenceFileSystem can",
    )
