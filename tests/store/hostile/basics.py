"""What damages of all kinds are made with."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from intarsia.store.compression import checksum
from intarsia.store.objects import ROOT

type Json = Any
type Objects = dict[str, bytes]
type Path = tuple[Any, ...]

INTEGERS = [
    *(0, 1, -1, 2, 3, 7, 63, 64, 65, 255, 256, 257, 1023, 1 << 15, 1 << 16, 1 << 20),
    *(1 << 22, (1 << 22) + 1, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40),
    *((1 << 53) - 1, 1 << 53, (1 << 53) + 1, 1 << 61, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 64),
    *(-(1 << 31), -(1 << 53), -(1 << 63), 10**19, 10**25),
]
TEXTS = [
    *("", ".", "..", "/", "./", "../", "../../", "a/../b", "../../../../etc/", "/etc/"),
    *("/etc/passwd", "file:///etc/", "s3://b@bucket/", "http://localhost:1/", "C:\\", "C:/"),
    *("a\\b", "a\0b", "\0", "a//b", "a/./b", "con", "aux.nc", "zarr.json", "__intarsia__"),
    *("__intarsia__/root.json", "%2e%2e/", "~/", "$HOME/", "{0.__class__}", "%s%n", "\ud800"),
    *("é", "e\u0301", "\u202e", "\x1b[31m", "\n", "x" * 300, "x" * 5000, "x" * 70000, "x/" * 3000),
    *("|O", "<f4", ">f8", "<U9", "|V8", "<M8[ns]", "<i3", "f4,f4", "(9,9)f4", "object", "<f16"),
    *("mtime", "size", "sample", "none", "plain", "delta", "gap", "offset", "length", "string"),
    *("int64", "nan", "numcodecs.zlib", "numcodecs.pickle", "intarsia.cf", "bytes", "blosc"),
    *("text", "array", "class", "dtype", "scalar", "dict", "datetime64", "cftime", "noleap"),
    *("00", "0", "zz", "ff" * 8, "00" * 4096),
]


@dataclass
class Damaged:
    """A damaged store.

    Parameters
    ----------
    kind
        What was done.
    sealed
        Whether the checksums were made right again, as by someone who means it.
    objects
        The objects of the store.
    special
        Objects that are no files: ``("link", target)``, ``("fifo",)``, ``("folder",)``.
    raw
        The bytes of the zip file, where these were damaged.
    """

    kind: str
    sealed: bool
    objects: Objects
    special: dict[str, tuple[str, ...]] = field(default_factory=dict)
    raw: bytes | None = None


def sealed(document: Json) -> bytes:
    """The root's text, with the digest that it has to have."""
    if isinstance(document, dict) and "digest" in document:
        rest = {key: value for key, value in document.items() if key != "digest"}
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        document["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(document, separators=(",", ":")).encode()


def finish(
    draw: random.Random, kind: str, document: Json, objects: Objects, chance: float = 0.8
) -> Damaged:
    whole = draw.random() < chance
    if whole:
        objects[ROOT] = sealed(document)
    else:
        objects[ROOT] = json.dumps(document, separators=(",", ":")).encode()
    return Damaged(kind, whole, objects)


def walk(value: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, (*path, key))
    elif isinstance(value, list):
        for key, item in enumerate(value):
            yield from walk(item, (*path, key))


def at(document: Json, path: Path) -> Json:
    for key in path:
        document = document[key]
    return document


def found_in(document: Json, *keys: str) -> list[Path]:
    """Places of the objects that have these keys."""
    return [p for p, v in walk(document) if isinstance(v, dict) and all(k in v for k in keys)]


def inner_chunks(data: bytes) -> list[tuple[int, int]]:
    """Places of what look like the inner chunks of a shard: (offset, length)."""
    found: list[tuple[int, int]] = []
    place = 0
    while place + 20 <= len(data):
        length = int.from_bytes(data[place + 12 : place + 16], "little") + 4
        crc = data[place + length - 4 : place + length]
        if not 20 <= length <= len(data) - place:
            break
        if checksum(data[place : place + length - 4]) != int.from_bytes(crc, "little"):
            break
        found.append((place, length))
        place += length
    return found
