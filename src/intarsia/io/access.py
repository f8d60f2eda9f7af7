"""How places of the network are reached, as callers say it: storage options, or a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from intarsia.access import Access
from intarsia.errors import UnsupportedError, shown
from intarsia.io.options import Value, settled
from intarsia.io.paths import is_url

__all__ = ["FAMILIES", "Way", "access_of", "family_of", "way_to"]

FAMILIES = {
    "http": "http",
    "https": "http",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "adl": "az",
}
"""Schemes that can be read, by the kind of service they mean."""


def family_of(url: str) -> str:
    """The kind of service that a URL means: ``http``, ``s3``, ``gs`` or ``az``.

    Raises
    ------
    UnsupportedError
        If nothing reads such URLs.
    """
    scheme = url.partition("://")[0].lower()
    if scheme not in FAMILIES:
        raise UnsupportedError(
            f"nothing reads {scheme}:// sources",
            url=url,
            remedy=f"there are: local paths, {', '.join(f'{name}://' for name in FAMILIES)}",
        )
    return FAMILIES[scheme]


def access_of(
    place: str, storage_options: Mapping[str, Any] | None = None, registry: Any = None
) -> Access | None:
    """How a place is reached.

    Parameters
    ----------
    place
        Absolute path or URL.
    storage_options
        Credentials, endpoint and the like: by obstore's names (``access_key_id``, ``region``,
        ``endpoint``, ``skip_signature``, ``request_payer``, ..., also with the prefix that the
        environment's names have) or by those of fsspec's file systems (``anon``, ``key``,
        ``secret``, ``token``, ``endpoint_url``, ``requester_pays``, ``client_kwargs``, ...).
        ``headers`` go with each request. What is None counts as not given.
    registry
        Stores for URLs: a mapping of URL prefixes to stores, or what has
        ``resolve(url) -> (store, path)``, as VirtualiZarr takes it. Local paths need none.

    Returns
    -------
    Access or None
        None where nothing has to be said: paths of this machine, and the usual way of a URL. Equal
        options give the same object again.

    Raises
    ------
    TypeError
        If an argument or an option is of the wrong type.
    ValueError
        If an option is unknown, said twice or meant for URLs and the place is a path; if both
        arguments are given; or if the registry has no store for the place. Values of options are
        never told.
    UnsupportedError
        If nothing reads such URLs.
    """
    if storage_options is not None and not isinstance(storage_options, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(storage_options).__name__
        raise TypeError(f"storage_options must be a mapping of names to values, got a {kind}")
    if storage_options and registry is not None:
        raise ValueError("give storage_options or a registry, not both: a registry's stores know")
    if not is_url(place):
        if storage_options:
            raise ValueError(f"storage_options are for URLs, and {place} is a path of this machine")
        return None
    family = family_of(place)
    if registry is not None:
        return _registered(place, registry)
    if not storage_options:
        return None
    options = settled(family, storage_options)
    return _interned(tuple(sorted(options.items()))) if options else None


@dataclass(frozen=True, slots=True)
class Way:
    """What a caller says of places that are not known before a file names them.

    Parameters
    ----------
    storage_options, registry
        As for `access_of`.
    """

    storage_options: Mapping[str, Any] | None
    registry: Any

    def __call__(self, place: str) -> Access | None:
        """How one of them is reached."""
        return access_of(place, self.storage_options, self.registry)


def way_to(
    place: str, storage_options: Mapping[str, Any] | None = None, registry: Any = None
) -> Access | Way | None:
    """How a place is reached, and what it may name, where another way may lead there.

    Parameters and errors are those of `access_of`, but that `storage_options` may be given with a
    path: references in that file may lead to the network. Those in a file of a registry's store
    may lead to its other stores.
    """
    if registry is None and (is_url(place) or not storage_options):
        return access_of(place, storage_options, registry)
    if storage_options and registry is not None:
        raise ValueError("give storage_options or a registry, not both: a registry's stores know")
    return Way(storage_options, registry)


@lru_cache(256)
def _interned(options: tuple[tuple[str, Value], ...]) -> Access:
    """Ten thousand sources share one."""
    return Access(options)


_given: dict[tuple[str, int], Access] = {}
"""Accesses by what callers gave: the stores live as long as their identity is used here."""


def _registered(place: str, registry: Any) -> Access:
    """The store of a registry that holds a place."""
    if "?" in place:
        raise ValueError("a URL with a query can't be found in a registry: give storage_options")
    prefix, store = _resolved(place, registry)
    if not callable(getattr(store, "get", None)):
        raise TypeError(f"the registry's store for {prefix} has no method get")
    found = _given.get((prefix, id(store)))
    if found is None:
        for old in list(_given)[:-255]:
            _given.pop(old, None)
        found = _given[prefix, id(store)] = Access((), prefix, store)
    return found


def _resolved(place: str, registry: Any) -> tuple[str, Any]:
    if isinstance(registry, Mapping):
        stores = cast("Mapping[str, Any]", registry)
        roots = {root if root.endswith("/") else root + "/": root for root in stores}
        below = place if place.endswith("/") else place + "/"  # a folder may be a store's root
        found = max((root for root in roots if below.startswith(root)), key=len, default=None)
        if found is not None:
            return found, stores[roots[found]]
    elif callable(getattr(registry, "resolve", None)):
        try:
            store, path = registry.resolve(place)
        except ValueError:
            pass  # told below
        else:
            path = str(path).lstrip("/")
            if not path or not place.endswith("/" + path):
                raise ValueError(f"the registry finds {shown(place)} under another name, {path!r}")
            return place.removesuffix(path), store
    else:
        raise TypeError(
            "a registry must be a mapping of URL prefixes to stores, or have a method resolve(url)"
        )
    raise ValueError(f"the registry has no store for {shown(place)}")
