"""Enumerations: integers whose numbers have names, as xarray keeps them in an encoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

ENUM = "intarsia_enum"
"""Key of `xarray.Variable.encoding` for the type of an enumeration by which nothing is written.

Under ``dtype``, xarray would cast all values to it: also missing ones, which have no number there.
"""

type Meanings = tuple[tuple[int, str], ...]


def enum_of(encoding: Mapping[Any, Any]) -> np.dtype[Any] | None:
    """The type that names the numbers of a variable, in its metadata, or None."""
    for key in ("dtype", ENUM):
        found = encoding.get(key)
        if isinstance(found, np.dtype):
            dtype = cast("np.dtype[Any]", found)
            if dtype.metadata and _members(dtype) is not None:
                return dtype
    return None


def meanings_of(dtype: np.dtype[Any]) -> Meanings:
    """Numbers and names of an enumeration, in the order of the numbers."""
    members = _members(dtype) or {}
    return tuple(sorted((int(number), str(name)) for name, number in members.items()))


def kept_enum(
    encoding: Mapping[Any, Any], dtype: np.dtype[Any], *, as_stored: bool = True
) -> dict[str, Any]:
    """What is kept of an enumeration in the encoding of a virtual variable.

    Parameters
    ----------
    encoding
        Of the variable.
    dtype
        Of its values.
    as_stored
        Whether the values are numbers of the enumeration as they are stored.

    Returns
    -------
    dict
        The type under ``dtype``, as xarray has it, where the values can be written by it; else
        under `ENUM`; empty where there is no enumeration.
    """
    enum = enum_of(encoding)
    if enum is None:
        return {}
    fits = as_stored and enum.newbyteorder("=") == dtype.newbyteorder("=")
    return {"dtype" if fits and encoding.get("dtype") is enum else ENUM: enum}


def _members(dtype: np.dtype[Any]) -> Mapping[Any, Any] | None:
    members: Any = (dtype.metadata or {}).get("enum")
    return cast("Mapping[Any, Any]", members) if isinstance(members, Mapping) else None
