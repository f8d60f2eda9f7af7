"""What of the network a store may reach by its own word, and how the places there are told.

A store is data from a stranger, and whoever opens it lends it his machine: its place in a network,
and its credentials. By itself a store reaches

- buckets of the clouds (``s3``, ``gs``, ``az``) at the clouds' own endpoints,
- ``https`` on hosts that have a public name, and, when they are first read from, public addresses.

All else has to be named by the caller: ``http``, addresses in any spelling, names of a local
network, other endpoints, and what costs money. `check_options` says what may be told of how a place
is reached at all.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from intarsia.access import Access
from intarsia.errors import SourceUnreadable, UnsafeStore

type Option = str | bool | int
type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

CLOUDS = ("s3", "gs", "az")
"""Schemes of places whose host is the cloud's own, where no option says otherwise."""

MAX_LOCATION = 4_096
MAX_OPTION = 1_024
"""Characters of a location, and of an option's value."""

_LOCATION = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]+)/((?:[^/?#]+/)*)")
_STRANGE = re.compile(r"[\x00-\x1f\x7f\\]")
_DOTS = re.compile(r"(?:[. ]|%2[eE]|%20)+")
_BUCKET = re.compile(r"[A-Za-z0-9$](?:[A-Za-z0-9_$-]|\.(?!\.)){0,254}")
_HOST = re.compile(
    r"((?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
)
_TOP = re.compile(r"[A-Za-z]{2,63}|[xX][nN]--[A-Za-z0-9-]{1,59}")

_PRIVATE_NAMES = re.compile(
    r"(.*\.)?(localhost|localdomain|local|internal|intranet|private|corp|home|lan|mail|arpa|"
    r"test|invalid|onion|alt)",
    re.IGNORECASE,
)
"""Names that are never those of a public host: reserved ones, and those of networks' insides."""

_REGION = re.compile(r"[a-z0-9-]{1,64}")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_ENDPOINT = re.compile(r"https?://[^\s\x00-\x20\x7f\\@?#]+")

SWITCHES = ("request_payer", "skip_signature", "virtual_hosted_style_request")
TEXTS: dict[str, re.Pattern[str]] = {
    "account_name": _ACCOUNT,
    "endpoint": _ENDPOINT,
    "region": _REGION,
}
"""Options that a store may tell: those that are true or false, and what others look like. Whether
``http`` is allowed, the endpoint says."""

_CALLERS = {
    "endpoint": "is to be reached at another endpoint",
    "request_payer": "is paid for by who reads it",
}
"""Options that only the caller can give, and why."""


def check_location(location: str) -> tuple[str, str]:
    """Scheme and host (or bucket) of a location that is a URL.

    Raises
    ------
    UnsafeStore
        If it is none, has a user, password, query or fragment, or its path leads elsewhere.

    Examples
    --------
    >>> check_location("https://host.org:8080/sst/"), check_location("s3://bucket/sst/2020/")
    (('https', 'host.org:8080'), ('s3', 'bucket'))
    """
    match = _LOCATION.fullmatch(location) if len(location) <= MAX_LOCATION else None
    if match is None or _STRANGE.search(location):
        raise UnsafeStore("is neither relative to the store nor the URL of a folder")
    scheme, host, path = match[1], match[2], match[3]
    if "@" in host:
        raise UnsafeStore("has a user or password")
    if any(_DOTS.fullmatch(part) for part in path.split("/") if part):
        raise UnsafeStore("has a segment that leads elsewhere")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise UnsafeStore("is no text") from error
    found = (_HOST if scheme in ("http", "https") else _BUCKET).fullmatch(host)
    port = host.rpartition(":")[2] if found and found.re is _HOST and found[2] else "0"
    if found is None or int(port) > 0xFFFF:
        raise UnsafeStore("has no host that could be one")
    return scheme, host


def check_options(options: Mapping[str, object]) -> tuple[tuple[str, Option], ...]:
    """How a place is reached, as a store tells it; sorted.

    Raises
    ------
    UnsafeStore
        If an option is none that a store may tell, or its value can't be one.

    Examples
    --------
    >>> check_options({"skip_signature": True, "region": "eu-west-1"})
    (('region', 'eu-west-1'), ('skip_signature', True))
    """
    found: list[tuple[str, Option]] = []
    for name, value in sorted(options.items()):
        if name in SWITCHES:
            if isinstance(value, bool):
                found.append((name, value))
                continue
        elif name in TEXTS:
            text = value if isinstance(value, str) and len(value) <= MAX_OPTION else ""
            if TEXTS[name].fullmatch(text):
                found.append((name, text))
                continue
        else:
            raise UnsafeStore(f"has an option that no store may tell, {name[:80]!r}")
        raise UnsafeStore(f"has the option {name!r} with a value that it can't have")
    return tuple(found)


def told_options(access: Access | None) -> tuple[tuple[str, Option], ...]:
    """What a store that is written tells of how a place is reached: nothing that lets one in.

    Raises
    ------
    UnsafeStore
        If it could not be read again.
    """
    told = dict(access.public) if access is not None else {}
    kept = {name: value for name, value in told.items() if value and name != "allow_http"}
    return check_options(kept)


def check_reach(location: str, options: Mapping[str, Option]) -> bool:
    """Refuse what a store must not reach by its own word.

    Parameters
    ----------
    location
        A URL, as the store has it.
    options
        How it is reached, as the store has it, without what the caller said himself.

    Returns
    -------
    bool
        Whether the addresses of the host have to be looked at before it is read from.

    Raises
    ------
    UnsafeStore
        Saying what the location is, or does, that it must not.
    """
    scheme, host = check_location(location)
    check_options(options)
    for name, why in _CALLERS.items():
        if options.get(name):
            raise UnsafeStore(
                f"{why} ({name}={str(options[name])[:200]!r})",
                remedy=f"if you agree, say so: storage_options={{{name!r}: ...}}",
            )
    if scheme in CLOUDS:
        return False
    if scheme not in ("http", "https"):
        raise UnsafeStore(f"is reached by {scheme}, not by https")
    flaw = host_flaw(host) or ("is not encrypted" if scheme == "http" else None)
    if flaw is not None:
        raise UnsafeStore(flaw)
    return True


def host_flaw(host: str) -> str | None:
    """Why a host, by its name alone, is not a public one; None if it may be.

    An address is none, whatever it is and however it is spelled: those of public hosts have names.

    Examples
    --------
    >>> host_flaw("data.example.org:8443"), host_flaw("0x7f.1"), host_flaw("printer.local")
    (None, 'is an address, not the name of a host', 'is on a private network')
    """
    name = re.sub(r":[0-9]+$", "", host).removesuffix(".")
    top = name.rpartition(".")[2]
    if name.startswith("[") or re.fullmatch(r"[0-9]+|0[xX][0-9a-fA-F]*", top):
        return "is an address, not the name of a host"
    if "." not in name or _PRIVATE_NAMES.fullmatch(name) or not _TOP.fullmatch(top):
        return "is on a private network"
    return None


def is_public(address: Address) -> bool:
    """Whether an address is one of the public network, also where another one is inside it.

    Examples
    --------
    >>> is_public(ipaddress.ip_address("::ffff:10.0.0.1"))
    False
    """
    if isinstance(address, ipaddress.IPv6Address):
        teredo = address.teredo
        inner = address.ipv4_mapped or address.sixtofour or (teredo and teredo[1])
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

type Resolver = Callable[[str, int], Iterable[str]]


def _addresses(name: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


_looked_at: set[str] = set()
"""Hosts that were seen to be public ones in this process."""


def check_addresses(url: str, resolver: Resolver = _addresses) -> None:
    """Refuse a host whose name leads to an address that is not a public one; once per host.

    What a name means may change between this and the request; then it is the host's certificate
    that has to fit. Where requests go through a proxy, it is the proxy that knows the address.

    Raises
    ------
    UnsafeStore
        If any of its addresses is not public.
    SourceUnreadable
        If it has none.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    if host in _looked_at or ({"https", "all"} & proxies.keys() and not proxy_bypass(host)):
        return
    try:
        found = [ipaddress.ip_address(text.partition("%")[0]) for text in
                 resolver(host, parts.port or 443)]  # fmt: skip
    except (OSError, ValueError) as error:
        raise SourceUnreadable(f"the host {host!r} is not known: {error}", url=url) from error
    private = [address for address in found if not is_public(address)]
    if private or not found:
        raise UnsafeStore(
            f"the host {host!r} is at {private[0]}, which is no public address"
            if private
            else f"the host {host!r} has no address",
            url=url,
            remedy="if you trust the store, name the place of its container: containers={...}",
        )
    _looked_at.add(host)
