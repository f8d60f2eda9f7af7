"""What Zarr readers are shown: keys, metadata documents, and the bytes behind each key.

Without Zarr itself, which `intarsia.store.zarr_store` puts on top.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Literal

from intarsia.array import VirtualArray
from intarsia.encoding import Encoding
from intarsia.errors import StoreError
from intarsia.store.layout import places_of
from intarsia.store.nodes import Group
from intarsia.store.shown import array_attributes, group_attributes, shown_names
from intarsia.store.shown_arrays import Shown, ShownCopy, ShownVirtual
from intarsia.store.zarrays import dump

type Json = dict[str, Any]
type GridChoice = (
    Mapping[str, Sequence[int] | Literal["rectilinear"]] | Literal["rectilinear"] | None
)
type Encodings = Callable[[str, str], Sequence[Encoding]]

META = "zarr.json"

_CELL = re.compile(r"c(?:/(?:0|[1-9][0-9]{0,18}))*")


class View:
    """Objects of a Zarr hierarchy that shows groups of variables.

    Parameters
    ----------
    groups
        By absolute path.
    grid
        Chunk shapes by name or path of a virtual variable, in place of those that are chosen;
        ``"rectilinear"`` for the grids of the sources' own boundaries. A shape may be
        ``"rectilinear"`` too.
    encodings
        Gives the encodings of a virtual variable by group and name, where they are known without
        its segments.

    Raises
    ------
    StoreError
        If a name in `grid` is no virtual variable, or a grid does not fit.
    UnsupportedVariable
        If a variable in memory can't be shown.
    """

    def __init__(
        self,
        groups: Mapping[str, Group],
        grid: GridChoice = None,
        encodings: Encodings | None = None,
    ) -> None:
        self.arrays: dict[str, Shown] = {}
        self.virtual: dict[str, ShownVirtual] = {}  # by path of the variable
        self._groups: dict[str, Json] = {}  # attributes by prefix
        self._documents: dict[str, bytes] = {}
        self._encodings = encodings
        if not (grid is None or grid == "rectilinear" or isinstance(grid, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise StoreError(f"grid= is a mapping or 'rectilinear', not {grid!r}")
        asked: dict[str, Sequence[int] | str] = {}
        if isinstance(grid, Mapping):
            asked.update(grid)
        held = {path: groups[path] for path in groups}
        for path, place in places_of(held, shown_names).items():
            group = held.get(path, Group())
            short = {name: node[len(place.prefix) :] for name, node in place.nodes.items()}
            self._groups[place.prefix] = group_attributes(group, short)
            for name, node in place.nodes.items():
                self._add(path, name, node, group, short, grid if isinstance(grid, str) else asked)
        strange = asked.keys() - {
            key for full in self.virtual for key in (full, f"/{full}", full.rpartition("/")[2])
        }
        if strange:
            raise StoreError(
                "grid= names what is no virtual variable",
                array=min(strange),
                remedy="check the name",
            )

    def _add(
        self,
        path: str,
        name: str,
        node: str,
        group: Group,
        nodes: Mapping[str, str],
        grid: Mapping[str, Sequence[int] | str] | str,
    ) -> None:
        """Show a variable."""
        variable = group.variables[name]
        full = f"{path.rstrip('/')}/{name}".removeprefix("/")
        attributes = partial(array_attributes, variable, group=group, nodes=nodes)
        if not isinstance(variable.data, VirtualArray):
            self.arrays[node] = ShownCopy(variable, full, attributes)
            return
        encodings = self._encodings and partial(self._encodings, path, name)
        keys = (full, f"/{full}", name)
        if isinstance(grid, str):
            asked = grid
        else:
            asked = next((grid[key] for key in keys if key in grid), None)
        shown = ShownVirtual(variable, full, attributes(variable.dtype), asked, encodings)
        if asked is not None:
            _ = shown.grid  # what does not fit is said now
        self.arrays[node] = self.virtual[full] = shown

    def token(self) -> str:
        """The same for views that show the same."""
        told = [(node, shown.metadata(), shown.token()) for node, shown in self.arrays.items()]
        return sha256(dump([self._groups, told])).hexdigest()

    # -- objects ---------------------------------------------------------------------------------

    def get(self, key: str, begin: int = 0, end: int | None = None) -> bytes | bytearray | None:
        """Bytes of an object; None where there is none.

        Parameters
        ----------
        key
            Of the object.
        begin, end
            Which of its bytes, clipped to those there are; `begin` counts from the end where it is
            negative.
        """
        place = self._chunk(key)
        if place is None:
            data = self._document(key)
            return None if data is None else data[begin:end]
        shown, index = place
        if begin < 0:
            begin = max(shown.size(index) + begin, 0)
        return shown.read(index, begin, end)

    def size(self, key: str) -> int | None:
        """Bytes that an object has, without reading a source; None where there is none."""
        place = self._chunk(key)
        if place is not None:
            return place[0].size(place[1])
        data = self._document(key)
        return None if data is None else len(data)

    def exists(self, key: str) -> bool:
        """Whether there is such an object."""
        if self._chunk(key) is not None:
            return True
        node = key.removesuffix(META)
        if not key.endswith(META):
            return False
        return node in self._groups or (node.endswith("/") and node[:-1] in self.arrays)

    def _chunk(self, key: str) -> tuple[Shown, tuple[int, ...]] | None:
        """The array and the index of the chunk that a key names."""
        node, rest = self._split(key)
        if node is None or not _CELL.fullmatch(rest):
            return None
        shown = self.arrays[node]
        index = tuple(int(part) for part in rest.split("/")[1:])
        shape = shown.grid_shape
        inside = len(index) == len(shape) and all(map(int.__lt__, index, shape))
        return (shown, index) if inside else None

    def _split(self, key: str) -> tuple[str | None, str]:
        """The array that a key lies in, and the rest of the key."""
        place = key.find("/")
        while place >= 0:
            if key[:place] in self.arrays:
                return key[:place], key[place + 1 :]
            place = key.find("/", place + 1)
        return None, key

    def _document(self, key: str) -> bytes | None:
        """A metadata document."""
        found = self._documents.get(key)
        if found is None and self.exists(key):
            node = key.removesuffix(META)
            shown = self._group(node) if node in self._groups else self.arrays[node[:-1]].metadata()
            found = self._documents[key] = dump(shown)
        return found

    def _group(self, prefix: str) -> Json:
        """The metadata of a group, with that of all nodes in it."""
        inside: Json = {
            other[len(prefix) : -1]: _plain_group(attributes)
            for other, attributes in self._groups.items()
            if other.startswith(prefix) and other != prefix
        }
        for node, shown in self.arrays.items():
            if node.startswith(prefix):
                inside[node[len(prefix) :]] = shown.metadata()
        consolidated = {"kind": "inline", "must_understand": False, "metadata": inside}
        return {**_plain_group(self._groups[prefix]), "consolidated_metadata": consolidated}

    # -- lists -----------------------------------------------------------------------------------

    def list_dir(self, prefix: str) -> Iterator[str]:
        """Names right below a prefix, each once."""
        prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        node, rest = self._split(prefix)
        if node is not None:
            yield from self._list_array(self.arrays[node], rest.split("/")[:-1])
        elif prefix in self._groups:
            yield META
            for other in (*self._groups, *(f"{node}/" for node in self.arrays)):
                if other.startswith(prefix) and other.count("/") == prefix.count("/") + 1:
                    yield other[len(prefix) : -1]

    def _list_array(self, shown: Shown, parts: Sequence[str]) -> Iterator[str]:
        shape = shown.grid_shape
        if not parts:
            yield META
        if 0 in shape:
            return
        if not parts:
            yield "c"
        elif len(parts) <= len(shape) and _CELL.fullmatch("/".join(parts)):
            numbers = [int(part) for part in parts[1:]]
            if all(map(int.__lt__, numbers, shape)):
                yield from map(str, range(shape[len(numbers)]))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """All keys that begin with a prefix. There may be very many: they are made one by one."""
        for other in self._groups:
            if f"{other}{META}".startswith(prefix):
                yield f"{other}{META}"
        for node, shown in self.arrays.items():
            if f"{node}/{META}".startswith(prefix):
                yield f"{node}/{META}"
            shape = shown.grid_shape
            if 0 not in shape:
                yield from _chunk_keys(f"{node}/c", shape, prefix)


def _chunk_keys(begin: str, shape: Sequence[int], prefix: str) -> Iterator[str]:
    """Keys of chunks that begin with a prefix; what can't is not walked through."""
    if not shape:
        if begin.startswith(prefix):
            yield begin
        return
    begin = f"{begin}/"
    if not (begin.startswith(prefix) or prefix.startswith(begin)):
        return
    number, slash, _ = prefix[len(begin) :].partition("/")
    if slash:
        named = _CELL.fullmatch(f"c/{number}") and int(number) < shape[0]
        chosen = range(int(number), int(number) + 1) if named else range(0)
    else:
        chosen = range(shape[0])
    for index in chosen:
        yield from _chunk_keys(f"{begin}{index}", shape[1:], prefix)


def _plain_group(attributes: Json) -> Json:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}
