"""Clients of object stores: one for each origin and way of access, made when first used.

One that found credentials or an endpoint around it is made anew when what is there is another.

How long a request may take is bounded: by default it is tried 4 times, with pauses of 0.5 s that
double, and no further try begins 40 s after the first; a try ends when nothing arrives for 15 s.
So a server that never answers costs a minute at most, and one that says 429, 500 or 503 a few
seconds.

Credentials that are not given are looked for where obstore looks: the environment (``AWS_*``,
``GOOGLE_*``, ``AZURE_*``), web identity, container and instance roles; for Google also the
application default credentials. For S3, where neither the options nor the environment have keys,
a profile of ``~/.aws`` is taken: the keys and region that are written there, or, where it says
another way to get them (single sign-on, an assumed role, a program), what boto3 makes of that, if
it is installed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import configparser
import os
import threading
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from intarsia.access import Access
from intarsia.errors import MissingPackage, SourceUnreadable, UnsupportedError
from intarsia.forks import after_fork
from intarsia.io.access import family_of
from intarsia.io.options import CLIENT, HEADER
from intarsia.io.reach import check_addresses

__all__ = ["Patience", "client_of", "forget_clients", "patience"]


@dataclass(slots=True)
class Patience:
    """How long a request is waited for; all in seconds."""

    tries: int = 4
    pause: float = 0.5
    total: float = 40.0
    connect: float = 10.0
    stall: float = 15.0
    longest: float = 1_800.0
    """One try from its beginning to the last byte: large ranges may take their time."""


patience = Patience()
"""Read when a client is made."""

MAXCLIENTS = 256
"""Clients kept: URLs that are signed one by one need one each."""

_clients: OrderedDict[tuple[str, Access | None, tuple[object, ...]], Any] = OrderedDict()
_lock = threading.Lock()


def client_of(url: str, access: Access | None) -> tuple[Any, str]:
    """The client that reads a URL, and the name that the object has there.

    Parameters
    ----------
    url
        Of the object, or of a folder of them.
    access
        How it is reached.

    Returns
    -------
    client
        Has obstore's methods (``get``).
    key
        What it calls the object.

    Raises
    ------
    UnsupportedError
        If nothing reads such URLs, or what does is not installed.
    SourceUnreadable
        If the options say what can't be.
    """
    if access is not None and access.store is not None:
        return access.store, _below(access, url)
    root, key = _split(url)
    way = root, access, _surroundings(url)
    found = _clients.get(way)
    if found is None:
        if access is not None and access.guarded:
            check_addresses(url)
        with _lock:
            found = _clients.get(way)
            if found is None:
                found = _clients[way] = _made(root, access, url)
                while len(_clients) > MAXCLIENTS:
                    _clients.popitem(last=False)
    return found, key


_NAMES = {"s3": b"AWS_", "gs": b"GOOGLE_", "az": b"AZURE_"}
_FILES = (
    ("AWS_CONFIG_FILE", "~/.aws/config"),
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
)


def _surroundings(url: str) -> tuple[object, ...]:
    """What a client finds around it: once that is another, so may be who asks, and where."""
    family = family_of(url)
    if family == "http":
        return ()
    said = os.environb
    found: list[object] = [(name, said[name]) for name in said if name.startswith(_NAMES[family])]
    for name, usual in _FILES if family == "s3" else ():
        try:
            found.append(os.stat(_file(name, usual)).st_mtime_ns)
        except OSError:
            found.append(None)
    return tuple(found)


def _file(name: str, usual: str) -> str:
    return os.path.expanduser(os.environ.get(name) or usual)


@after_fork
def forget_clients() -> None:
    """Make all clients anew; also after a fork."""
    global _lock
    _lock = threading.Lock()
    _clients.clear()


def _below(access: Access, url: str) -> str:
    """What a given store calls a URL."""
    key = "" if f"{url}/" == access.prefix else url.removeprefix(access.prefix)
    if type(access.store).__name__ != "HTTPStore":
        return key
    plain = unquote(key, errors="surrogateescape")  # the client quotes it
    if plain.count("/") != key.count("/"):
        raise UnsupportedError("a given store can't be asked for %2F", url=url)
    return plain


def _split(url: str) -> tuple[str, str]:
    """Root that a client is made for, and key: URLs of one server share its connections."""
    if family_of(url) != "http":
        scheme, _, rest = url.partition("://")
        netloc, _, key = rest.partition("/")
        return f"{scheme.lower()}://{netloc}", key
    bare = url.partition("#")[0]
    origin, _, query = bare.partition("?")
    scheme, _, rest = origin.partition("://")
    netloc, _, path = rest.partition("/")
    key = unquote(path, errors="surrogateescape")
    parts = key.split("/")
    # what the client would write in another way is given to it as the root
    plain = quote(key, safe=_SAFE) == path and not {"", ".", ".."} & set(parts)
    root = f"{scheme.lower()}://{netloc}/" + ("" if plain else path)
    return root + (f"?{query}" if query else ""), key if plain else ""


_SAFE = "/!$&'()*+,;=:@-._~|[]\\^"
"""What object_store leaves as it is in the path of a URL."""


_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
"""Variables of the environment that say where a service is."""


def _made(root: str, access: Access | None, url: str) -> Any:
    try:  # takes its time
        from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store
    except ImportError:
        raise MissingPackage(
            "what is behind a network is read by obstore, which is not installed",
            url=url,
            remedy="pip install 'intarsia[remote]'",
        ) from None
    options = dict(access.options) if access is not None else {}
    headers = {
        name.removeprefix(HEADER): value
        for name, value in options.items()
        if name.startswith(HEADER)
    }
    client: dict[str, Any] = {name: options[name] for name in CLIENT if name in options}
    config: Any = {
        name: value
        for name, value in options.items()
        if name not in CLIENT and not name.startswith(HEADER)
    }
    client |= {
        "connect_timeout": timedelta(seconds=patience.connect),
        "read_timeout": timedelta(seconds=patience.stall),
        "timeout": timedelta(seconds=patience.longest),
    }
    if headers:
        client["default_headers"] = headers
    retry = {
        "max_retries": patience.tries - 1,
        "retry_timeout": timedelta(seconds=patience.total),
        "backoff": {
            "init_backoff": timedelta(seconds=patience.pause),
            "max_backoff": timedelta(seconds=8 * patience.pause),
            "base": 2,
        },
    }
    common: dict[str, Any] = {"client_options": client, "retry_config": retry}
    family = family_of(root)
    try:
        if family == "http":
            guarded = access is not None and access.guarded
            plain = root.startswith("http://") or bool(options.get("allow_http"))
            client["allow_http"] = plain and not guarded  # the URL says so; no redirection may
            root, identity = _identity(root)
            if identity:
                client["default_headers"] = identity | headers
            return HTTPStore(root, **common)
        if any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS):
            client.setdefault("allow_http", True)  # which obstore's options would hide
        name = urlsplit(root).netloc
        if family == "s3":
            config, provider = _with_profile(config)
            return S3Store(name, config=config, credential_provider=provider, **common)
        if family == "gs":
            return GCSStore(name, config=config, **common)
        if "@" in name:
            return AzureStore.from_url(root, config=config, **common)
        return AzureStore(name, config=config, **common)
    except UnsupportedError as error:
        raise error.located(url=url) from None
    except Exception as error:  # noqa: BLE001 - they have no common base; the text may tell secrets
        kind = type(error).__name__
    raise SourceUnreadable(
        f"no client can be made for {family}:// with these storage options ({kind})",
        url=url,
        remedy="look at the region, endpoint, account and credentials, also in the environment",
    )


def _identity(root: str) -> tuple[str, dict[str, str]]:
    """A URL without the user and password in it, and the header that says the same."""
    scheme, _, rest = root.partition("://")
    netloc, slash, path = rest.partition("/")
    who, at, host = netloc.rpartition("@")
    if not at:
        return root, {}
    token = b64encode(unquote(who).encode()).decode("ascii")
    return f"{scheme}://{host}{slash}{path}", {"authorization": f"Basic {token}"}


def _with_profile(told: Mapping[str, Any]) -> tuple[Any, Any]:
    """The configuration with the keys and region of a profile, where nothing else has them."""
    config = dict(told)
    profile = config.pop("profile", None)
    settled = config.get("skip_signature") or "access_key_id" in config
    environment = any(
        name in os.environ
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        )
    )
    signs = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() not in ("1", "true")
    written = _profile(profile or os.environ.get("AWS_PROFILE") or "default")
    if "region" not in config and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys():
        region = written.get("region")
        config |= {"region": region} if region else {}
    if settled or not signs or (environment and profile is None):
        return config, None
    if "aws_access_key_id" in written and "aws_secret_access_key" in written:
        config["access_key_id"] = written["aws_access_key_id"]
        config["secret_access_key"] = written["aws_secret_access_key"]
        if "aws_session_token" in written:
            config["session_token"] = written["aws_session_token"]
        return config, None
    if not written and not profile:
        return config, None
    indirect = profile is not None or any(key.startswith(INDIRECT) for key in written)
    return config, _boto3(profile, needed=indirect)


INDIRECT = ("sso_", "role_arn", "credential_", "source_profile", "web_identity_", "login_session")
"""How what a profile says begins, where it says another way to get keys."""


def _profile(name: str) -> dict[str, str]:
    """What is written of a profile in the files of AWS's tools."""
    config, credentials = (_file(*file) for file in _FILES)
    found: dict[str, str] = {}
    for path, sections in ((config, (f"profile {name}", name)), (credentials, (name,))):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # as if there were none: the service then says that it knows no one
        for section in sections:
            if parser.has_section(section):
                found |= dict(parser.items(section))
    return found


def _boto3(profile: str | None, *, needed: bool) -> Any:
    """A provider of credentials, where boto3 is installed and knows some.

    Raises
    ------
    MissingPackage
        If nothing else can tell them, and it is not installed.
    """
    try:
        import boto3  # pyright: ignore[reportMissingTypeStubs]
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if not needed:
            return None
        raise MissingPackage(
            "there are no keys in the AWS profile, and what else it says is understood by boto3, "
            "which is not installed",
            remedy="pip install boto3",
        ) from None
    session = boto3.Session(profile_name=profile)
    return Boto3CredentialProvider(session) if session.get_credentials() is not None else None
