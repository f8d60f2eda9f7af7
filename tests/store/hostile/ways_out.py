"""Stores that lead out of themselves, or round and round."""

from __future__ import annotations

import copy

from numcodecs import blosc

from intarsia.store.objects import ROOT
from tests.store.hostile.basics import Json, Objects
from tests.store.hostile.crafting import REFUSED, copied_of, crafted, only, source_of

# -- loops -----------------------------------------------------------------------------------------


@crafted("a column that needs itself", reason="needs")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [1])
    virtual["references"] = {"rows": 1, "array": "x", "shards": [[100, 0]], "columns": {
        "offset": {"array": 0, "coding": "gap", "lengths": "offset"}, "length": 2}}  # fmt: skip


@crafted("two columns that need each other", reason="needs")
def _(document: Json, objects: Objects) -> None:
    virtual = only(document, [1])
    virtual["references"] = {"rows": 1, "array": "x", "shards": [[100, 0]], "columns": {
        "offset": {"array": 0, "coding": "gap", "lengths": "length"},
        "length": {"array": 1, "coding": "gap", "lengths": "offset"}}}  # fmt: skip


def _nested(text: bytes) -> bytes:
    return text.replace(b'"@"', b"[" * 500_000 + b"]" * 500_000)


@crafted("a document that nests very deeply", reason="nests", text=_nested)
def _(document: Json, objects: Objects) -> None:
    document["groups"]["/"]["attributes"] = {"a": "@"}


@crafted("a variable twice", reason="second variable")
def _(document: Json, objects: Objects) -> None:
    variables = document["groups"]["/"]["variables"]
    variables.append(copy.deepcopy(variables[0]))


# -- ways out --------------------------------------------------------------------------------------

WAYS_OUT = [
    *("../secret", "/etc/passwd", "in/../../secret", "a\0b", "a\\..\\b", "..", "C:/x", "./x"),
    *("%2e%2e/secret", "a//b", "\ud800", "\x1b[2J", ""),
]


def way_out(key: str) -> None:
    results = ("source",) if key == "\ud800" else REFUSED  # bytes that are no text: a name

    @crafted(f"a source called {key!r}", *results, reason="name of a source|texts|not exist")
    def _(document: Json, objects: Objects) -> None:
        only(document, [1])
        source_of(document, -1)
        data = f"{key}\0".encode("utf-8", "surrogatepass")
        document["sources"]["keys"] = {"hex": data.hex()}

    @crafted(f"a part called {key!r}", "store", reason="name of an object|is missing")
    def _(document: Json, objects: Objects) -> None:
        packed = bytes(blosc.compress(b"abcd", b"zstd", 5))
        one = copied_of(document, objects, packed)
        one["values"]["array"] = key

    @crafted(f"a node called {key!r}", reason="name of a")
    def _(document: Json, objects: Objects) -> None:
        copied_of(document, objects, bytes(blosc.compress(b"abcd", b"zstd", 5)))["node"] = key


for _key in WAYS_OUT:
    way_out(_key)


def place_at(location: str, pin: str) -> None:
    @crafted(f"a container at {location!r} with {pin}", reason="container")
    def _(document: Json, objects: Objects) -> None:
        only(document, [1])
        source_of(document, -1, "secret")
        document["containers"] = [{"name": "in", "location": location, "pin": pin}]


for _location in (
    *("/etc/", "file:///etc/", "s3://user@bucket/", "http://127.0.0.1:1/", "./../", "./in/../../"),
    *("../" * 300, "", ".", "in/", "./in", "./a\0b/", ".\\in\\", "~/", "../%2e%2e/"),
    *("https://127.0.0.1:1/", "https://localhost/", "https://a.org\\@127.0.0.1/", "s3://b/%2e%2e/"),
):
    place_at(_location, "mtime")
place_at("../", "size")
place_at("../", "none")


@crafted("a bucket whose objects the store does not know", "source", reason="nothing says")
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    source_of(document, -1, "secret")
    document["containers"] = [{"name": "in", "location": "s3://bucket/", "pin": "size"}]


@crafted("another endpoint", reason="another endpoint")
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    source_of(document, -1, "secret")
    document["containers"] = [{"name": "in", "location": "s3://bucket/", "pin": "mtime",
                               "access": {"endpoint": "http://127.0.0.1:1"}}]  # fmt: skip


@crafted("a file that the store does not know", "source", reason="nothing says")
def _(document: Json, objects: Objects) -> None:
    only(document, [1])
    source_of(document, -1, "secret")
    document["containers"] = [{"name": "in", "location": "../", "pin": "mtime"}]


@crafted("a root that leads out", special={ROOT: ("link", "../../secret")}, reason="leads out")
@crafted("a root that is a pipe", special={ROOT: ("fifo",)}, reason="not a file")
@crafted("a root that is a folder", special={ROOT: ("folder",)}, reason="not a file|read")
@crafted("a root that is a device", special={ROOT: ("link", "/dev/zero")}, reason="leads out")
@crafted("a root that leads to itself", special={ROOT: ("link", "root.json")})
def _(document: Json, objects: Objects) -> None:
    pass


@crafted("a folder of a store that leads out", special={"lat": ("link", "../..")},
         reason="leads out")  # fmt: skip
def _(document: Json, objects: Objects) -> None:
    packed = bytes(blosc.compress(b"abcd", b"zstd", 5))
    one = copied_of(document, objects, packed)
    one["values"]["array"] = "lat/x"
