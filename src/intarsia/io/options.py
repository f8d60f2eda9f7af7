"""Storage options as callers say them, in the words of several libraries, by obstore's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

__all__ = ["CLIENT", "HEADER", "Value", "settled"]

HEADER = "header:"
"""Before the name of a header that goes with each request, among the options of an `Access`."""

CLIENT = {
    "allow_http": bool,
    "allow_invalid_certificates": bool,
    "proxy_url": str,
    "proxy_ca_certificate": str,
    "proxy_excludes": str,
    "root_certificate": str,
    "user_agent": str,
}
"""Options for the client of whatever service, and their types."""

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


def settled(family: str, told: Mapping[str, Any]) -> dict[str, Value]:
    """Options by obstore's names.

    Parameters
    ----------
    family
        What is reached (see `intarsia.io.access.family_of`).
    told
        What the caller says (see `intarsia.io.access.access_of`).

    Raises
    ------
    TypeError, ValueError
        If there is no such option, or it is said twice, or can't have this value, which is not
        told.
    """
    options: dict[str, Value] = {}
    for name, key, value in _words(family, told):
        kind = _NAMES[family].get(key) or CLIENT.get(key) or str
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
    known = _NAMES[family].keys() | CLIENT.keys()
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
