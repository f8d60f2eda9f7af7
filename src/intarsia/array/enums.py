"""Casting to an enumeration: what xarray does with values before it writes them as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia.errors import UnsupportedVariable

__all__ = ["named_type"]


def named_type(
    values: np.dtype[Any], asked: np.dtype[Any], name: str | None
) -> np.dtype[Any] | None:
    """The type of values that become an enumeration, with its names, or None if `asked` is none.

    Raises
    ------
    UnsupportedVariable
        If `asked` does not hold all values of the type: the names would be of other numbers.
    """
    metadata = asked.metadata
    if not metadata or "enum" not in metadata:
        return None
    if not np.can_cast(values, asked, "safe"):
        raise UnsupportedVariable(
            f"values of type {values} are not the numbers of an enumeration of {asked}",
            array=name,
            remedy="delete 'dtype' from the variable's encoding to write them as they are",
        )
    return np.dtype(asked.newbyteorder("=").str, metadata=dict(metadata))
