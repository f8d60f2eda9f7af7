"""What Zarr readers are shown of groups and variables: names of nodes, attributes, and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from intarsia.codecs.cases import case_json, key_of
from intarsia.encoding import Encoding
from intarsia.errors import UnsupportedVariable
from intarsia.store.grid import Grid
from intarsia.store.names import escape, is_node_name
from intarsia.store.nodes import Group, Variable
from intarsia.store.plain import plain_attributes, plain_json
from intarsia.store.zarrays import metadata

__all__ = ["array_attributes", "group_attributes", "shown_names", "virtual_metadata"]

type Json = dict[str, Any]

RELATED = frozenset(
    {
        *("bounds", "grid_mapping", "climatology", "geometry", "node_coordinates", "node_count"),
        *("part_node_count", "interior_ring", "cell_measures", "formula_terms", "coordinates"),
        "ancillary_variables",
    }
)
"""What xarray moves from attributes to the encoding when it decodes: names of other variables."""

KINDS = "biufc"
"""Kinds of virtual values that can be shown."""


def shown_names(names: Iterable[str]) -> dict[str, str]:
    """Node names for all members of a group, by name.

    Most are their own, more of them than in a folder (see `intarsia.store.names`): nothing but what
    Zarr has no words for is escaped. No two are the same.

    Examples
    --------
    >>> list(shown_names(["T", "t", "wind speed", "a/b", "__x", "a=2Fb"]).values())
    ['T', 't', 'wind speed', 'a=2Fb', '=5F_x', 'a=3D2Fb']
    """
    return {name: name if _stands(name) else escape(name) for name in names}


def _stands(name: str) -> bool:
    if not name or name.startswith(("__", ".")) or name == "zarr.json":
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    # an escaped name has an "="; no name that could be one stands
    return not ("/" in name or "\\" in name or ("=" in name and is_node_name(name)))


def group_attributes(group: Group, nodes: Mapping[str, str]) -> Json:
    """Attributes of a group, with the coordinates that none of its variables names.

    Parameters
    ----------
    group
        The group.
    nodes
        Node names of its variables, by name.
    """
    attrs: Json = {name: plain_json(value) for name, value in group.attrs.items()}
    named = {
        name
        for variable in group.variables.values()
        if not variable.coordinate
        for name in _coordinates(variable, group)
    }
    alone = [
        nodes[name]
        for name, variable in group.variables.items()
        if _is_named(name, variable) and name not in named and " " not in nodes[name]
    ]
    if alone:
        attrs.setdefault("coordinates", " ".join(sorted(alone)))
    return attrs


def _is_named(name: str, variable: Variable) -> bool:
    """Whether it is a coordinate that its dimensions don't make one."""
    return variable.coordinate and variable.dims != (name,)


def _coordinates(variable: Variable, group: Group) -> list[str]:
    """Names of the coordinates that fit a variable."""
    return [
        name
        for name, other in group.variables.items()
        if _is_named(name, other) and set(other.dims) <= set(variable.dims)
    ]


def array_attributes(
    variable: Variable, dtype: np.dtype[Any], group: Group, nodes: Mapping[str, str]
) -> Json:
    """Attributes of an array, with the names of its coordinates.

    Parameters
    ----------
    variable, group
        What it shows, and the group of that.
    dtype
        As it is shown.
    nodes
        Node names of the variables of the group, by name.
    """
    attrs = plain_attributes(variable.attrs, dtype)
    for key, value in variable.encoding.items():
        if key in RELATED and isinstance(value, str) and key != "coordinates":
            attrs.setdefault(key, value)
    if "coordinates" not in attrs and not variable.coordinate:
        # CF separates names by spaces, and has no way to write those that have some
        names = [nodes[name] for name in _coordinates(variable, group)]
        names = [name for name in names if " " not in name]
        if names:
            attrs["coordinates"] = " ".join(sorted(names))
    return attrs


def virtual_metadata(
    variable: Variable, grid: Grid, encodings: Sequence[Encoding], attrs: Json
) -> Json:
    """The metadata of a virtual variable's array.

    Parameters
    ----------
    variable
        What it shows.
    grid
        Its chunks.
    encodings
        Of its pieces; none, if it has no elements.
    attrs
        Its attributes.

    Raises
    ------
    UnsupportedVariable
        If Zarr has no such type, or an encoding can't be told to a reader.
    """
    dtype = variable.dtype
    if dtype.kind not in KINDS:
        raise UnsupportedVariable(
            f"virtual values of type {dtype} can't be shown as Zarr", remedy="load it first"
        )
    regular = [edge for edge in grid.chunks if isinstance(edge, int)]
    uneven = len(regular) < len(grid.chunks)
    chunks = [max(size, 1) for size in variable.shape] if uneven else regular
    shown = metadata(variable.shape, chunks, dtype, dims=variable.dims, attrs=attrs)
    if uneven:
        edges = [edge if isinstance(edge, int) else list(edge) for edge in grid.chunks]
        shown["chunk_grid"] = {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": edges},
        }
    if dtype.kind == "f":
        shown["fill_value"] = "NaN"
    try:
        cases = {key_of(encoding): case_json(encoding) for encoding in encodings}
    except ValueError as error:
        raise UnsupportedVariable(
            f"can't be shown as Zarr: {error}",
            remedy="open it with unsupported='copy' or 'skip', or drop it",
        ) from error
    shown["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if cases:
        switch = {"cases": dict(sorted(cases.items()))}
        shown["codecs"] = [{"name": "intarsia.switch", "configuration": switch}]
    elif dtype.itemsize == 1:
        shown["codecs"] = [{"name": "bytes"}]
    return shown
