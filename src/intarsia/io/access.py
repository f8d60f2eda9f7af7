"""How places of the network are reached, as callers say it: storage options, or a registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

from intarsia.errors import UnsupportedError
from intarsia.io.paths import is_url
from intarsia.references import Access

__all__ = ["FAMILIES", "HEADER", "Way", "access_of", "family_of", "way_to"]

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

HEADER = "header:"
"""Before the name of a header that goes with each request, among the options of an `Access`."""

_CLIENT = {
    "allow_http": bool,
    "allow_invalid_certificates": bool,
    "proxy_url": str,
    "proxy_ca_certificate": str,
    "proxy_excludes": str,
    "root_certificate": str,
    "user_agent": str,
}

_NAMES: dict[str, dict[str, type]] = {
    "http": {},
    "s3": {
        "access_key_id": str,
        "secret_access_key": str,
        "session_token": str,
        "profile": str,
        "region": str,
        "endpoint": str,
        "skip_signature": bool,
        "request_payer": bool,
        "virtual_hosted_style_request": bool,
        "s3_express": bool,
        "imdsv1_fallback": bool,
        "metadata_endpoint": str,
        "container_credentials_relative_uri": str,
        "container_credentials_full_uri": str,
        "container_authorization_token_file": str,
        "role_arn": str,
        "role_session_name": str,
        "sts_endpoint": str,
        "web_identity_token_file": str,
        "server_side_encryption": str,
        "sse_customer_key_base64": str,
    },
    "gs": {
        "service_account": str,
        "service_account_key": str,
        "application_credentials": str,
        "bearer_token": str,
        "base_url": str,
        "skip_signature": bool,
    },
    "az": {
        "account_name": str,
        "account_key": str,
        "sas_key": str,
        "token": str,
        "client_id": str,
        "client_secret": str,
        "tenant_id": str,
        "authority_host": str,
        "federated_token_file": str,
        "msi_endpoint": str,
        "object_id": str,
        "msi_resource_id": str,
        "endpoint": str,
        "use_azure_cli": bool,
        "use_emulator": bool,
        "use_fabric_endpoint": bool,
        "skip_signature": bool,
    },
}
"""Names of options and their types; obstore's, but for ``profile``."""

_PREFIXES = {"s3": ("aws_",), "gs": ("google_",), "az": ("azure_storage_", "azure_")}

_ALIASES: dict[str, dict[str, str]] = {
    "http": {},
    "s3": {
        "anon": "skip_signature",
        "key": "access_key_id",
        "username": "access_key_id",
        "secret": "secret_access_key",
        "password": "secret_access_key",
        "token": "session_token",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "region_name": "region",
        "default_region": "region",
        "requester_pays": "request_payer",
    },
    "gs": {"anon": "skip_signature", "endpoint_url": "base_url"},
    "az": {
        "anon": "skip_signature",
        "sas_token": "sas_key",
        "bearer_token": "token",
        "endpoint_url": "endpoint",
    },
}
"""The words of fsspec's file systems."""

_TUNING = frozenset(
    [
        "asynchronous",
        "block_size",
        "cache_options",
        "cache_regions",
        "cache_type",
        "consistency",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "listings_expiry_time",
        "max_concurrency",
        "max_paths",
        "project",
        "skip_instance_cache",
        "use_listings_cache",
    ]
)
"""fsspec's words for how it reads, which say nothing of what is read: passed over."""

type Value = str | bool | int


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
    options = _settled(family, storage_options)
    return _interned(tuple(sorted(options.items()))) if options else None


@dataclass(frozen=True, slots=True)
class Way:
    """What a caller says of places that are not known before a file of this machine names them.

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
    """How a place is reached, or, of a path of this machine, what it may name.

    Parameters and errors are those of `access_of`, but that `storage_options` may be given with a
    path: references in that file may lead to the network.
    """
    if is_url(place) or not (storage_options or registry is not None):
        return access_of(place, storage_options, registry)
    if storage_options and registry is not None:
        raise ValueError("give storage_options or a registry, not both: a registry's stores know")
    return Way(storage_options, registry)


@lru_cache(256)
def _interned(options: tuple[tuple[str, Value], ...]) -> Access:
    """Ten thousand sources share one."""
    return Access(options)


def _settled(family: str, told: Mapping[str, Any]) -> dict[str, Value]:
    """Options by obstore's names."""
    options: dict[str, Value] = {}
    for name, key, value in _words(family, told):
        kind = _NAMES[family].get(key) or _CLIENT.get(key) or str
        settled = _typed(name, value, kind)
        if options.setdefault(key, settled) != settled:
            raise ValueError(f"the storage option {name!r} says another thing than its synonym")
    endpoint = options.get("endpoint", options.get("base_url"))
    if isinstance(endpoint, str):
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        if parts.username is not None:
            raise ValueError(
                "the endpoint in storage_options must hold no user name or password: "
                "there are options for those"
            )
        if parts.scheme == "http":
            options.setdefault("allow_http", True)
    return options


def _words(family: str, told: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """What was said, as (name that was given, name of obstore, value)."""
    for given, value in told.items():
        if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"names of storage options are text, got {given!r}")
        name = given.lower()
        if value is None or name in _TUNING:
            continue
        if name in ("headers", "default_headers"):
            for header, content in _mapping(given, value).items():
                yield f"{given}[{header!r}]", HEADER + str(header).lower(), content
        elif name in ("client_kwargs", "client_options", "config"):
            inner = {k: v for k, v in _mapping(given, value).items() if k != "trust_env"}
            yield from _words(family, inner)
        elif name in ("verify", "ssl"):
            if _typed(given, value, bool) is False:
                yield given, "allow_invalid_certificates", True
        elif name == "use_ssl":
            yield given, "allow_http", not _typed(given, value, bool)
        elif name == "config_kwargs" and family == "s3":
            yield from _botocore(given, _mapping(given, value))
        elif name == "token" and family == "gs":
            yield from _google(given, value)
        elif name == "request_payer" and isinstance(value, str) and value.lower() == "requester":
            yield given, name, True
        else:
            yield given, _known(family, given, name), value


def _known(family: str, given: str, name: str) -> str:
    """The name that obstore has for an option."""
    known = _NAMES[family].keys() | _CLIENT.keys()
    for prefix in ("", *_PREFIXES.get(family, ())):
        bare = name.removeprefix(prefix)
        bare = _ALIASES[family].get(bare, bare)
        if name.startswith(prefix) and bare in known:
            return bare
    raise ValueError(
        f"there is no storage option {given!r} for {family}:// URLs; "
        f"there are: {', '.join(sorted(known | _ALIASES[family].keys() | {'headers'}))}"
    )


def _botocore(given: str, told: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The few settings of botocore that say how a bucket is reached."""
    for name, value in told.items():
        inner = _mapping(f"{given}[{name!r}]", value) if name == "s3" else None
        if inner is None or inner.keys() - {"addressing_style"}:
            raise ValueError(
                f"of {given!r} in storage_options only "
                "{'s3': {'addressing_style': ...}} is understood"
            )
        if inner:
            style = inner["addressing_style"] == "virtual"
            yield given, "virtual_hosted_style_request", style


def _google(given: str, value: object) -> Iterator[tuple[str, str, Any]]:
    """What gcsfs understands by a token."""
    if value == "anon":
        yield given, "skip_signature", True
    elif isinstance(value, str) and value.endswith(".json"):
        yield given, "application_credentials", value
    elif value not in ("google_default", "cache", "cloud"):
        raise ValueError(
            f"the storage option {given!r} may be 'anon', 'google_default' or the path of a JSON "
            "file; a bearer token is given as 'bearer_token'"
        )


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise TypeError(f"the storage option {name!r} must be a mapping, got a {kind}")
    return cast("Mapping[str, Any]", value)


def _typed(name: str, value: object, kind: type) -> Value:
    """The value as what it should be; what it is, is told by its type alone."""
    if kind is bool:
        said = {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower())
        if said is None:
            raise ValueError(f"the storage option {name!r} must be True or False")
        return said
    if not isinstance(value, str):
        raise TypeError(f"the storage option {name!r} must be text, got a {type(value).__name__}")
    return value


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
        found = max((root for root in roots if place.startswith(root)), key=len, default=None)
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
                raise ValueError(f"the registry finds {place} under another name, {path!r}")
            return place.removesuffix(path), store
    else:
        raise TypeError(
            "a registry must be a mapping of URL prefixes to stores, or have a method resolve(url)"
        )
    raise ValueError(f"the registry has no store for {place}")
