"""How places of the network are reached, as callers say it: storage options, or a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intarsia.references import Access

__all__ = ["access_of"]


def access_of(
    place: str, storage_options: Mapping[str, Any] | None = None, registry: Any = None
) -> Access | None:
    """How a place is reached.

    Parameters
    ----------
    place
        Absolute path or URL.
    storage_options, registry
        As for `open_dataset`.

    Returns
    -------
    Access or None
        None where nothing has to be said: paths of this machine, and the usual way of a URL.
    """
    return None
