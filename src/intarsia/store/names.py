"""Names of variables and groups as names of Zarr nodes, which are names of folders and of URLs.

A node may not be called whatever a variable can be called: not ``a/b``, ``..``, ``__x``, nor
``zarr.json``. What can't stand is written as its UTF-8 bytes, each as ``=`` and two hexadecimal
digits (``a=2Fb``). What stands is the same everywhere, so that a store can be copied anywhere:
letters and digits of any script, and ``_ - . ( )``; no name that Windows keeps for itself, none
that begins or ends with a dot. No URL escapes any of these in ASCII, and ``=`` neither.

Three kinds of node names hold more than an escaped name, and are recognised by an ``=`` that no
digits follow: ``=`` alone is the empty name, and ``==`` stands before a digest of the whole name
where it is too long, or where two siblings would be one on a file system that does not tell ``T``
from ``t``. The root of a store knows the names of all nodes; nothing is ever read from a digest.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

__all__ = ["MAX_BYTES", "escape", "is_node_name", "node_names", "unescape"]

MAX_BYTES = 180
"""Longest node name; file systems end at 255 bytes, and parts of a store are called longer."""

DIGITS = 32
"""Of a digest: so many that nobody finds two names with the same one."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.()")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)
"""What Windows keeps for itself, with any extension."""

_TAKEN = frozenset(["zarr.json"])
"""Objects that a group may have beside its members. Those of Zarr v2 begin with a dot."""

_NODE = re.compile(
    r"(?!__)(?!\.)(?:[A-Za-z0-9_.()\x80-\U0010ffff-]|=[0-9A-F]{2})*(?:==[0-9a-f]{32}|(?<!\.))"
)
_ESCAPE = re.compile(r"((?:=[0-9A-F]{2})+)")


def escape(name: str) -> str:
    """The name of the node of a variable or group.

    No two names have the same node name. Most are their own: all of letters, digits and
    underscores, unless they begin with two of these.

    Parameters
    ----------
    name
        Any string, also an empty one, or one that is not valid Unicode.

    Examples
    --------
    >>> escape("sst"), escape("wind speed"), escape("a/b"), escape("..")
    ('sst', 'wind=20speed', 'a=2Fb', '=2E=2E')
    >>> escape("__x"), escape("température"), escape("=2F"), escape("")
    ('=5F_x', 'température', '=3D2F', '=')
    """
    if not name:
        return "="
    tokens = _tokens(name)
    node = "".join(tokens)
    return node if len(node.encode()) <= MAX_BYTES else _digested(name, tokens)


def unescape(node: str) -> str:
    """The name that a node name stands for.

    Raises
    ------
    ValueError
        If `escape` gives no such thing, or if it holds a digest, so that only the root of the store
        knows the name.

    Examples
    --------
    >>> unescape("a=2Fb"), unescape("=")
    ('a/b', '')
    """
    if node == "=":
        return ""
    if not is_node_name(node):
        raise ValueError(f"not the name of a node: {node[:80]!r}")
    if "==" in node:
        raise ValueError(f"{node!r} holds the digest of a name; the root of the store knows it")
    pieces = _ESCAPE.split(node)
    pieces[1::2] = [_decoded(piece) for piece in pieces[1::2]]
    return "".join(pieces)


def is_node_name(node: str) -> bool:
    """Whether this can be the name of a node: all that `escape` gives can.

    Examples
    --------
    >>> [is_node_name(node) for node in ("sst", "a=2Fb", "a/b", "..", "__x", "")]
    [True, True, False, False, False, False]
    """
    try:
        size = len(node.encode())
    except UnicodeEncodeError:
        return False
    if node == "=":
        return True
    return 0 < size <= MAX_BYTES and not _is_taken(node) and _NODE.fullmatch(node) is not None


def node_names(names: Iterable[str]) -> dict[str, str]:
    """Node names for all members of a group, by name.

    They are those of `escape`, but no two are the same to a file system that ignores case: of
    ``T`` and ``t``, the second has a digest in its node name.

    Parameters
    ----------
    names
        Of variables and groups; those that are repeated are one.

    Examples
    --------
    >>> list(node_names(["T", "lat", "t"]).values())
    ['T', 'lat', 't==e3b98a4da31a127d4bde6e43033f66ba']
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name in dict.fromkeys(names):
        node = escape(name)
        if _folded(node) in seen:
            node = _digested(name, _tokens(name))
        seen.add(_folded(node))
        found[name] = node
    return found


def _tokens(name: str) -> list[str]:
    """The node name of `name` in pieces, one per character."""
    tokens = [char if _stands(char) else _encoded(char) for char in name]
    joined = "".join(tokens)
    if unicodedata.normalize("NFC", joined) != joined:  # some file systems would change it
        tokens = [token if token.isascii() else _encoded(token) for token in tokens]
    if name.startswith(("__", ".")) or _is_taken(name):
        tokens[0] = _encoded(name[0])
    if name.endswith("."):
        tokens[-1] = _encoded(".")
    return tokens


def _stands(char: str) -> bool:
    return char in _PLAIN if char.isascii() else char.isalnum()


def _is_taken(name: str) -> bool:
    plain = unicodedata.normalize("NFKC", name).casefold()  # COM¹ is COM1
    return plain in _TAKEN or plain.split(".")[0] in _DEVICES


def _encoded(char: str) -> str:
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _decoded(escapes: str) -> str:
    data = bytes.fromhex(escapes.replace("=", ""))
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ValueError(f"the bytes {escapes} are no text: {error.reason}") from error


def _digested(name: str, tokens: list[str]) -> str:
    """As much of the node name as there is room for, and a digest of the name."""
    room = MAX_BYTES - 2 - DIGITS
    kept: list[str] = []
    for token in tokens:
        room -= len(token.encode())
        if room < 0:
            break
        kept.append(token)
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{''.join(kept)}=={digest[:DIGITS]}"


def _folded(node: str) -> str:
    return unicodedata.normalize("NFC", node.upper().casefold())
