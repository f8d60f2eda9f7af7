"""What Zarr readers are shown: keys, metadata documents, and the bytes behind each key.

Without Zarr itself, which `intarsia.store.zarr_store` puts on top.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal

import numpy as np

from intarsia.array import VirtualArray
from intarsia.codecs.cases import case_json, key_of
from intarsia.errors import StoreError
from intarsia.store.cells import Cells
from intarsia.store.copies import write_values
from intarsia.store.grid import Grid, choose, measure, rectilinear
from intarsia.store.layout import places_of
from intarsia.store.nodes import Group, Variable
from intarsia.store.plain import plain_attributes, plain_json
from intarsia.store.values import plain
from intarsia.store.zarrays import dump, metadata

type Json = dict[str, Any]
type GridChoice = Mapping[str, Any] | Literal["rectilinear"] | None

META = "zarr.json"

RELATED = frozenset(
    {
        *("coordinates", "bounds", "grid_mapping", "climatology", "geometry", "node_coordinates"),
        *("node_count", "part_node_count", "interior_ring", "cell_measures", "formula_terms"),
        "ancillary_variables",
    }
)
"""What xarray moves from attributes to the encoding when it decodes: names of other variables."""

_CELL = re.compile(r"c(?:/(?:0|[1-9][0-9]*))*")


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

    Raises
    ------
    StoreError
        If a name in `grid` is no virtual variable, or a grid does not fit.
    """

    def __init__(self, groups: Mapping[str, Group], grid: GridChoice = None) -> None:
        self._groups = groups
        self._grid = grid
        self._attributes: dict[str, Json] = {}  # of groups, by prefix
        self._variables: dict[str, tuple[str, Variable]] = {}  # by node: path of name, variable
        self._arrays: dict[str, Json] = {}
        self._cells: dict[str, Cells] = {}
        self._copies: dict[str, dict[str, bytes]] = {}
        named = set(grid) if isinstance(grid, Mapping) else set[str]()
        for path, place in places_of(groups).items():
            group = groups.get(path, Group()) if path in groups else Group()
            self._attributes[place.prefix] = _group_attributes(group)
            for name, node in place.nodes.items():
                full = f"{path.rstrip('/')}/{name}".removeprefix("/")
                self._variables[node] = full, group.variables[name]
                if isinstance(group.variables[name].data, VirtualArray):
                    named -= {name, full}
        if named:
            raise StoreError(
                "grid= names what is no virtual variable", array=min(named), remedy="check the name"
            )

    # -- arrays ----------------------------------------------------------------------------------

    def grid_of(self, node: str) -> Grid:
        """The grid that a virtual variable is shown with."""
        full, variable = self._variables[node]
        data = variable.data
        assert isinstance(data, VirtualArray)
        wanted = self._grid
        if isinstance(wanted, Mapping):
            wanted = wanted.get(full, wanted.get(full.rpartition("/")[2]))
        if wanted is None:
            return variable.grid or choose(data.segments)
        try:
            if isinstance(wanted, str):
                if wanted != "rectilinear":
                    raise ValueError(f"a grid is a chunk shape or 'rectilinear', not {wanted!r}")
                return rectilinear(data.segments)
            return measure(data.segments, tuple(int(edge) for edge in wanted))
        except ValueError as error:
            raise StoreError(str(error), array=full) from error

    def nodes(self) -> dict[str, str]:
        """Names of the variables by node, both with the path of their group."""
        return {node: full for node, (full, _) in self._variables.items()}

    def variable(self, node: str) -> Variable:
        """A variable."""
        return self._variables[node][1]

    def array(self, node: str) -> Json:
        """The metadata of an array."""
        found = self._arrays.get(node)
        if found is None:
            variable = self.variable(node)
            if isinstance(variable.data, VirtualArray):
                found = self._virtual(node, variable)
            else:
                found = json.loads(self._copy(node)[f"{node}/{META}"])
            self._arrays[node] = found
        return found

    def _virtual(self, node: str, variable: Variable) -> Json:
        data = variable.data
        assert isinstance(data, VirtualArray)
        grid = self.grid_of(node)
        shown = metadata(
            variable.shape,
            tuple(edge if isinstance(edge, int) else 1 for edge in grid.chunks),
            data.dtype,
            dims=variable.dims,
            attrs=self._array_attributes(node, variable, data.dtype),
        )
        if any(not isinstance(edge, int) for edge in grid.chunks):
            shown["chunk_grid"] = {
                "name": "rectilinear",
                "configuration": {
                    "kind": "inline",
                    "chunk_shapes": [
                        edge if isinstance(edge, int) else list(edge) for edge in grid.chunks
                    ],
                },
            }
        if data.dtype.kind == "f":
            shown["fill_value"] = "NaN"
        try:
            cases = {
                key_of(case.encoding): case_json(case.encoding) for case in data.segments.cases
            }
        except ValueError as error:
            full = self._variables[node][0]
            raise StoreError(f"can't be shown as Zarr: {error}", array=full) from error
        shown["codecs"] = [{"name": "intarsia.switch", "configuration": {"cases": cases}}]
        return shown

    def _array_attributes(self, node: str, variable: Variable, dtype: np.dtype[Any]) -> Json:
        attrs = plain_attributes(variable.attrs, dtype)
        for key, value in variable.encoding.items():
            if key in RELATED and isinstance(value, str):
                attrs.setdefault(key, value)
        if "coordinates" not in attrs and not variable.coordinate:
            prefix = node.rpartition("/")[0]
            beside = self._coordinates(f"{prefix}/" if prefix else "", variable.dims)
            if beside:
                attrs["coordinates"] = " ".join(beside)
        return attrs

    def _coordinates(self, prefix: str, dims: tuple[str, ...]) -> list[str]:
        """Names of coordinates of a group that no dimension of `dims` implies, and that fit it."""
        found: list[str] = []
        for node, (full, variable) in self._variables.items():
            name = full.rpartition("/")[2]
            mine = node.startswith(prefix) and "/" not in node[len(prefix) :]
            implied = variable.dims == (name,) or not set(variable.dims) <= set(dims)
            if mine and variable.coordinate and not implied and " " not in name:
                found.append(name)
        return sorted(found)

    def _copy(self, node: str) -> dict[str, bytes]:
        """All objects of a copied variable."""
        found = self._copies.get(node)
        if found is None:
            variable = self.variable(node)
            values = variable.data
            assert not isinstance(values, VirtualArray)
            kept = plain(values)
            attrs = self._array_attributes(node, variable, kept.array.dtype) | kept.attrs
            written = _Written()
            write_values(written, node, kept.array, dims=variable.dims, attrs=attrs)
            found = self._copies[node] = written.objects
        return found

    def cells(self, node: str) -> Cells:
        """The cells of a virtual variable."""
        found = self._cells.get(node)
        if found is None:
            full, variable = self._variables[node]
            data = variable.data
            assert isinstance(data, VirtualArray)
            found = Cells(data.segments, self.grid_of(node).chunks, full)
            self._cells[node] = found
        return found

    # -- objects ---------------------------------------------------------------------------------

    def get(self, key: str, begin: int = 0, end: int | None = None) -> bytes | None:
        """Bytes of an object; None where there is none.

        Parameters
        ----------
        key
            Of the object.
        begin, end
            Which of its bytes, clipped to those there are; `begin` counts from the end where it is
            negative.
        """
        place = self._cell(key)
        if place is not None:
            cells, index = place
            if begin < 0:
                begin = max(cells.cell(index).nbytes + begin, 0)
            return cells.read(index, begin, end)
        data = self._document(key)
        return None if data is None else data[begin:end]

    def size(self, key: str) -> int | None:
        """Bytes that an object has, without reading a source; None where there is none."""
        place = self._cell(key)
        if place is not None:
            return place[0].cell(place[1]).nbytes
        data = self._document(key)
        return None if data is None else len(data)

    def _cell(self, key: str) -> tuple[Cells, tuple[int, ...]] | None:
        """The cell of a virtual variable that a key names."""
        node, index = self._split(key)
        if node is None or not isinstance(self.variable(node).data, VirtualArray):
            return None
        if not _CELL.fullmatch(index):
            return None
        numbers = tuple(int(part) for part in index.split("/")[1:])
        cells = self.cells(node)
        shape = cells.grid_shape
        inside = len(numbers) == len(shape) and all(
            number < size for number, size in zip(numbers, shape, strict=True)
        )
        return (cells, numbers) if inside else None

    def _split(self, key: str) -> tuple[str | None, str]:
        """The array that a key lies in, and the rest of the key."""
        parts = key.split("/")
        for number in range(len(parts) - 1, 0, -1):
            node = "/".join(parts[:number])
            if node in self._variables:
                return node, "/".join(parts[number:])
        return None, key

    def _document(self, key: str) -> bytes | None:
        node, rest = self._split(key)
        if node is not None:
            if rest == META:
                return dump(self.array(node))
            if isinstance(self.variable(node).data, VirtualArray):
                return None
            return self._copy(node).get(key)
        prefix = key.removesuffix(META)
        if key.endswith(META) and prefix in self._attributes:
            return dump(self._group(prefix))
        return None

    def _group(self, prefix: str) -> Json:
        """The metadata of a group, with that of all nodes in it."""
        inside: Json = {
            other[len(prefix) : -1]: _plain_group(attributes)
            for other, attributes in self._attributes.items()
            if other.startswith(prefix) and other != prefix
        }
        inside |= {
            node[len(prefix) :]: self.array(node)
            for node in self._variables
            if node.startswith(prefix)
        }
        consolidated = {"kind": "inline", "must_understand": False, "metadata": inside}
        return {**_plain_group(self._attributes[prefix]), "consolidated_metadata": consolidated}

    # -- lists -----------------------------------------------------------------------------------

    def list_dir(self, prefix: str) -> Iterator[str]:
        """Names right below a prefix, each once."""
        prefix = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        node, rest = self._split(f"{prefix}x")
        if node is not None:
            yield from self._list_array(node, rest[:-1])
            return
        if prefix in self._attributes:
            yield META
            for other in (*self._attributes, *(f"{node}/" for node in self._variables)):
                if other.startswith(prefix) and other.count("/") == prefix.count("/") + 1:
                    yield other[len(prefix) : -1]

    def _list_array(self, node: str, rest: str) -> Iterator[str]:
        shape = self._grid_shape(node)
        parts = rest.split("/")[:-1]
        if not parts:
            yield META
            if 0 not in shape:
                yield "c"
        elif parts[0] == "c" and len(parts) <= len(shape) and 0 not in shape:
            numbers = [int(part) for part in parts[1:] if part.isdecimal()]
            if len(numbers) == len(parts) - 1 and all(map(int.__lt__, numbers, shape)):
                yield from map(str, range(shape[len(numbers)]))

    def _grid_shape(self, node: str) -> tuple[int, ...]:
        if isinstance(self.variable(node).data, VirtualArray):
            return self.cells(node).grid_shape
        shown = self.array(node)
        chunks = shown["chunk_grid"]["configuration"]["chunk_shape"]
        return tuple(-(-size // edge) for size, edge in zip(shown["shape"], chunks, strict=True))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """All keys that begin with a prefix. There may be very many: they are made one by one."""
        for other in self._attributes:
            if f"{other}{META}".startswith(prefix):
                yield f"{other}{META}"
        for node in self._variables:
            if not (f"{node}/".startswith(prefix) or prefix.startswith(f"{node}/")):
                continue
            if f"{node}/{META}".startswith(prefix):
                yield f"{node}/{META}"
            for index in product(*map(range, self._grid_shape(node))):
                key = "/".join([node, "c", *map(str, index)])
                if key.startswith(prefix):
                    yield key


class _Written:
    """Keeps objects in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        self.objects[name] = data

    def close(self) -> None:
        """Nothing is to be done."""


def _plain_group(attributes: Json) -> Json:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _group_attributes(group: Group) -> Json:
    """Attributes of a group, with the coordinates that no variable of it can name."""
    attrs: Json = {name: plain_json(value) for name, value in group.attrs.items()}
    data = [v for v in group.variables.values() if not v.coordinate]
    alone = [
        name
        for name, variable in group.variables.items()
        if variable.coordinate
        and variable.dims != (name,)
        and " " not in name
        and not any(set(variable.dims) <= set(other.dims) for other in data)
    ]
    if alone:
        attrs.setdefault("coordinates", " ".join(sorted(alone)))
    return attrs
