"""What a caller says of the containers of a store: where they are now, and how they are reached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from intarsia.errors import StoreError
from intarsia.io.paths import is_url, place_of

type Override = str | os.PathLike[str] | Mapping[str, Any]
"""A location, or a mapping with some of `KEYS`."""

PINS = ("mtime", "size", "sample", "none")
"""What is checked of a source when it is read (see `intarsia.io.containers.Container`)."""

KEYS = ("location", "pin", "storage_options", "registry")


def slashed(path: str) -> str:
    """The path of a folder, ending in ``/``, and with no other separator."""
    path = path.replace(os.sep, "/")
    return path if path.endswith("/") else path + "/"


def absolute(place: object) -> str:
    """A place that the caller names, ending in ``/``; paths are relative to the working folder.

    Raises
    ------
    StoreError
        If it is no place, or a URL with a query: what lets one in is told by ``storage_options``.
    """
    try:
        text = place_of(cast("str", place))
    except (TypeError, ValueError):
        raise StoreError(f"{place!r} is not the place of a container") from None
    if not is_url(text):
        return slashed(text)
    if "?" in text or "#" in text:
        raise StoreError(
            "a container can't be at a URL with a query or fragment",
            url=text.partition("?")[0].partition("#")[0],
            remedy="say how it is reached by storage_options",
        )
    return text if text.endswith("/") else text + "/"


def check_mapping(containers: object) -> None:
    """Refuse containers that are not said by name.

    Raises
    ------
    TypeError
        If it is neither a mapping nor None.
    """
    if containers is not None and not isinstance(containers, Mapping):
        raise TypeError(
            f"containers must be a mapping of names to places, got {containers!r}: "
            "containers={'sst': '/data/sst'}"
        )


def settle(overrides: Mapping[str, Override] | None) -> dict[str, dict[str, Any]]:
    """What a caller says of containers, in one form that means the same in other processes.

    Parameters
    ----------
    overrides
        For each name a location, or a mapping with some of ``location``, ``pin``,
        ``storage_options`` and ``registry`` (as for `open_dataset`).

    Raises
    ------
    TypeError
        If it is no mapping.
    StoreError
        If it says anything else. What it says of how a place is reached is not repeated.
    """
    check_mapping(overrides)
    return {name: _settled(name, override) for name, override in (overrides or {}).items()}


def _settled(name: str, override: Override) -> dict[str, Any]:
    told = dict(override) if isinstance(override, Mapping) else {"location": override}
    remedy = f"give a location, or some of {', '.join(KEYS)}; pin is one of {', '.join(PINS)}"
    strange = [key for key in told if key not in KEYS]
    if strange or not told:
        said = f"say {str(strange[0])[:80]!r}" if strange else "say nothing"
        raise StoreError(f"what is said of the container {name!r} can't {said}", remedy=remedy)
    if told.get("pin", "mtime") not in PINS:
        raise StoreError(
            f"the container {name!r} can't be pinned by {told['pin']!r}", remedy=remedy
        )
    options = told.get("storage_options")
    if options is not None and not isinstance(options, Mapping):
        raise StoreError(
            f"the storage_options of the container {name!r} are no mapping but a "
            f"{type(options).__name__}",
            remedy="storage_options={'region': 'eu-west-1'}",
        )
    found: dict[str, Any] = {key: value for key, value in told.items() if value is not None}
    if "location" in told:
        found["location"] = absolute(told["location"])
    if options is not None:
        found["storage_options"] = dict(cast("Mapping[str, Any]", options))
    return found
