"""What the root of a store says of containers, types, grids and attributes, each of it checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from intarsia.errors import CorruptStore, UnsafeStore
from intarsia.io.containers import Container
from intarsia.io.overrides import PINS
from intarsia.io.paths import is_url
from intarsia.io.reach import check_options
from intarsia.store.attributes import mapping_from_json
from intarsia.store.grid import Grid
from intarsia.store.nodes import Variable
from intarsia.store.parsing import Reader

_DTYPE = re.compile(r"[<>|][biufc][0-9]{1,2}")
"""Types that a virtual variable can have."""


def containers_of(told: Reader) -> list[Container]:
    """The containers, in order."""
    found: list[Container] = []
    for container in told.listed("containers"):
        container.only("name", "location", "pin", "access")
        pin = container.choice("pin", PINS)
        location = container.text("location")
        access: tuple[Any, ...] = ()
        if container.has("access"):
            options = container.child("access").value
            if not options or not is_url(location):
                raise container.error("says nothing, or nothing of a URL", "access")
            try:
                access = check_options(options)
            except UnsafeStore as error:
                raise CorruptStore(
                    f"the container {container.text('name')[:80]!r} {error.reason}", url=told.url
                ) from error
        found.append(Container(container.text("name"), location, pin, access))
    return found


def dtype_of(told: Reader) -> np.dtype[Any]:
    """The type of a virtual array."""
    text = told.text("dtype", 16)
    try:
        dtype = np.dtype(text) if _DTYPE.fullmatch(text) else None
    except TypeError as error:
        raise told.error(f"no such type: {text!r}", "dtype") from error
    if dtype is None or not dtype.isnative or dtype.str != text:
        raise told.error(f"{text!r} can't be the type of a virtual variable", "dtype")
    return dtype


def grid_of(told: Reader, shape: tuple[int, ...]) -> Grid:
    """The grid that a virtual array of a shape is shown with."""
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


def mapping_of(told: Reader, key: str) -> dict[str, Any]:
    """Attributes, or an encoding."""
    try:
        return mapping_from_json(told.child(key).value)
    except (ValueError, OverflowError, TypeError) as error:
        raise told.error(str(error), key) from error


def check_sizes(told: Reader, variables: Mapping[str, Variable]) -> None:
    """One length per dimension name, in all variables of a group."""
    sizes: dict[str, int] = {}
    for name, variable in variables.items():
        for dim, size in zip(variable.dims, variable.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise told.error(f"the dimension {dim[:80]!r} of {name[:80]!r} has two lengths")
