"""Ways to damage a store, each drawn from a number, so that any of them can be repeated."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numcodecs import blosc

from intarsia.codecs.cases import case_key
from intarsia.store.compression import checksum
from intarsia.store.objects import ROOT
from tests.store.hostile import zips

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
    *("/etc/passwd", "file:///etc/", "s3://bucket/", "http://localhost:1/", "C:\\", "C:/"),
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


def damage(number: int, seed: int, objects: Objects, other: Objects, *, zipped: bool) -> Damaged:
    """The damage of this number.

    Parameters
    ----------
    number, seed
        What everything is drawn from.
    objects, other
        Of a store, and of another one, from which things may be taken.
    zipped
        Whether the store is a zip file.
    """
    draw = random.Random(f"{seed}:{number}")
    makers: list[tuple[int, Callable[..., Damaged]]] = [
        (12, _text),
        (40, _tree),
        (15, _table),
        (8, _case),
        (15, _part),
        (14, _content),
        (14, _shard),
        (6, _names),
        (2, _pairs),
    ]
    if zipped:
        makers.append((60, _zip))
    weights, functions = zip(*makers, strict=True)
    (make,) = draw.choices(functions, weights)
    return make(draw, dict(objects), other)


# -- the root as text ------------------------------------------------------------------------------


def _text(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    root = bytearray(objects[ROOT])
    kind = draw.choice(
        ["truncate", "flip", "bytes", "cut", "repeat", "insert", "digit", "swap", "other", "empty",
         "zeros", "append", "space", "encoding", "number"]
    )  # fmt: skip
    begin = draw.randrange(len(root))
    end = min(begin + draw.choice([1, 2, 5, 50, 500]), len(root))
    match kind:
        case "truncate":
            root = root[:begin]
        case "flip":
            root[begin] ^= 1 << draw.randrange(8)
        case "bytes":
            root[begin:end] = draw.randbytes(end - begin)
        case "cut":
            del root[begin:end]
        case "repeat":
            root[begin:begin] = root[begin:end]
        case "insert":
            root[begin:begin] = draw.choice([b"[", b"{", b'"', b",", b"-", b"e5", b".5", b"null"])
        case "digit":
            places = [n for n, byte in enumerate(root) if 48 <= byte <= 57]
            root[draw.choice(places)] = 48 + draw.randrange(10)
        case "swap":
            span = end - begin
            to = draw.randrange(len(root) - span + 1)
            root[begin:end], root[to : to + span] = root[to : to + span], root[begin:end]
        case "other":
            root = bytearray(other[ROOT])
        case "empty":
            root = bytearray()
        case "zeros":
            root = bytearray(len(root))
        case "append":
            root += draw.choice([b" ", b"\0", b"{}", b"x", b"\n\n"])
        case "space":
            root[1:1] = b" " * draw.choice([1, 100000])
        case "encoding":
            root = bytearray(root.decode().encode(draw.choice(["utf-16", "utf-8-sig", "utf-32"])))
        case _:
            text = draw.choice(["NaN", "Infinity", "1e400", "1.0", "1" * 5000, "-0", "0x10", "01"])
            place = root.find(b":", begin)
            root[place + 1 : place + 1] = text.encode() + b","
    objects[ROOT] = bytes(root)
    return Damaged(f"root text: {kind}", kind == "other", objects)


# -- the root as a tree ----------------------------------------------------------------------------


def sealed(document: Json) -> bytes:
    """The root's text, with the digest that it has to have."""
    if isinstance(document, dict) and "digest" in document:
        rest = {key: value for key, value in document.items() if key != "digest"}
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        document["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(document, separators=(",", ":")).encode()


def _finish(
    draw: random.Random, kind: str, document: Json, objects: Objects, chance: float = 0.8
) -> Damaged:
    whole = draw.random() < chance
    if whole:
        objects[ROOT] = sealed(document)
    else:
        objects[ROOT] = json.dumps(document, separators=(",", ":")).encode()
    return Damaged(kind, whole, objects)


def _walk(value: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, (*path, key))
    elif isinstance(value, list):
        for key, item in enumerate(value):
            yield from _walk(item, (*path, key))


def _at(document: Json, path: Path) -> Json:
    for key in path:
        document = document[key]
    return document


def _random_place(draw: random.Random, document: Json, stop: float = 0.12) -> Path:
    """Some node but the outermost; the upper ones are as likely as all those below them."""
    path: list[Any] = []
    node = document
    while isinstance(node, dict | list) and node:
        if path and draw.random() < stop:
            break
        key = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
        path.append(key)
        node = node[key]
    return tuple(path)


def _tree(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    document = json.loads(objects[ROOT])
    count = draw.choice([1, 1, 1, 1, 2, 5])
    for _ in range(count):
        kind = _change(draw, document, json.loads(other[ROOT]))
    return _finish(draw, f"root tree: {kind}", document, objects)


def _change(draw: random.Random, document: Json, other: Json) -> str:
    kind = draw.choice(
        ["delete", "rename", "duplicate", "swap", "other", "type", "value", "value", "value",
         "value", "deep", "long", "shuffle", "empty", "move"]
    )  # fmt: skip
    path = _random_place(draw, document)
    parent, key = _at(document, path[:-1]), path[-1]
    match kind:
        case "delete":
            del parent[key]
        case "rename" if isinstance(parent, dict):
            new = draw.choice([*TEXTS, key + "x", key[:-1], key.upper()])
            parent[new] = parent.pop(key)
        case "duplicate":
            value = copy.deepcopy(parent[key])
            if isinstance(parent, dict):
                parent[draw.choice(TEXTS)] = value
            else:
                times = draw.choice([1, 1, 2, 1000])
                parent[key:key] = [value] * times
        case "swap" | "move":
            to = _random_place(draw, document)
            if to[: len(path)] == path or path[: len(to)] == to:
                return "nothing"
            there = _at(document, to[:-1])
            value = copy.deepcopy(there[to[-1]])
            if kind == "swap":
                there[to[-1]] = parent[key]
            parent[key] = value
        case "other":
            parent[key] = _at(other, _random_place(draw, other))
        case "type":
            parent[key] = draw.choice([None, True, False, 0, 1, "", "a", [], {}, [[]], [{}], 1.5])
        case "deep":
            value = parent[key]
            for _ in range(draw.choice([1, 5, 40, 400])):
                value = [value] if draw.random() < 0.5 else {"a": value}
            parent[key] = value
        case "long":
            parent[key] = draw.choice(["x" * 200_000, [0] * 20_000, [[0, 0]] * 5000, [{}] * 5000])
        case "shuffle" if isinstance(parent, list):
            draw.shuffle(parent)
        case "shuffle":
            items = list(parent.items())
            draw.shuffle(items)
            parent.clear()
            parent.update(items)
        case "empty":
            parent[key] = type(parent[key])() if parent[key] is not None else None
        case _:
            parent[key] = _varied(draw, parent[key])
    return kind


def _varied(draw: random.Random, value: Json) -> Json:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value + 1, value - 1, value * 2, value // 2, -value, value + 64, value ^ 1]
        return draw.choice(near if draw.random() < 0.5 else INTEGERS)
    if isinstance(value, str):
        if value and draw.random() < 0.5:
            place = draw.randrange(len(value))
            char = draw.choice(["", "0", "/", "\0", "..", "x", "\ud800", "1", "f", "9"])
            return value[:place] + char + value[place + draw.randrange(2) :]
        return draw.choice(TEXTS)
    if isinstance(value, list):
        if not value:
            return [draw.choice(INTEGERS)]
        changed = list(value)
        place = draw.randrange(len(value))
        changed[place] = _varied(draw, value[place])
        return draw.choice([changed, value[:place], value + value, value[::-1]])
    if isinstance(value, dict):
        if not value:
            return {"a": 1}
        key = draw.choice(list(value))
        return value | {key: _varied(draw, value[key])}
    return draw.choice([0, "", [], {}])


def _pairs(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """A key twice, which dictionaries can't say."""
    text = objects[ROOT].decode()
    places = [n for n in range(len(text)) if text.startswith('{"', n)]
    place = draw.choice(places)
    end = text.index('"', place + 2)
    twice = f"{text[: place + 1]}{text[place + 1 : end + 1]}:0,{text[place + 1 :]}"
    objects[ROOT] = twice.encode()
    return Damaged("root text: a key twice", True, objects)


# -- particular places of the root -----------------------------------------------------------------


def _found(document: Json, *keys: str) -> list[Path]:
    """Places of the objects that have these keys."""
    return [p for p, v in _walk(document) if isinstance(v, dict) and all(k in v for k in keys)]


def _table(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """What a table says of its columns."""
    document = json.loads(objects[ROOT])
    tables = _found(document, "rows", "columns")
    table = _at(document, draw.choice(tables))
    columns = table["columns"]
    label = draw.choice(list(columns))
    rows = table["rows"]
    number = draw.choice([*INTEGERS, draw.randrange(100)])
    kind = draw.choice(
        ["rows", "constant", "rule", "values", "array", "coding", "cycle", "drop", "borrow", "swap",
         "exchange", "near", "near"]
    )  # fmt: skip
    match kind:
        case "rows":
            table["rows"] = draw.choice([rows + 1, rows - 1, rows * 2, 0, number])
        case "constant":
            columns[label] = number
        case "rule":
            columns[label] = {"first": number, "step": draw.choice([1, -1, 0, *INTEGERS])}
        case "values":
            low = draw.choice([0, -1, -3])
            columns[label] = {"values": [draw.randint(low, 12) for _ in range(min(rows, 5000))]}
        case "array":
            columns[label] = {"array": draw.choice([0, 1, 2, number]), "coding": "plain"}
        case "coding":
            columns[label] = {"array": 0, "coding": draw.choice(["plain", "delta", "gap"]),
                              "lengths": draw.choice([*columns])}  # fmt: skip
        case "cycle":
            for each in columns:
                columns[each] = {"array": 0, "coding": "gap", "lengths": each}
        case "drop":
            del columns[label]
        case "borrow":
            source = _at(document, draw.choice(tables))
            table.update(copy.deepcopy(source))
        case "swap":
            to = draw.choice(list(columns))
            columns[label], columns[to] = columns[to], columns[label]
        case "exchange":
            source = _at(document, draw.choice(tables))
            for key in ("array", "shards"):
                if key in source:
                    table[key] = copy.deepcopy(source[key])
        case _:
            columns[label] = _varied(draw, columns[label])
    return _finish(draw, f"table: {kind}", document, objects, 0.95)


def _case(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """A case that says something else, under the key that it then has to have."""
    document = json.loads(objects[ROOT])
    cases = document["cases"]
    key = draw.choice(list(cases))
    case = copy.deepcopy(cases[key])
    kind = "changed"
    if draw.random() < 0.2:
        kind, case = "another", copy.deepcopy(cases[draw.choice(list(cases))])
    else:
        _change(draw, case, cases)
    try:
        new = case_key(case)
    except (ValueError, RecursionError):
        new = key
    if draw.random() < 0.1:
        kind, new = "under a wrong key", draw.choice([key, "0" * 16, *TEXTS[:5]])
    del cases[key]
    cases[new] = case
    for path in _found(document, "case", "parameters"):
        used = _at(document, path)
        if used["case"] == key:
            used["case"] = new
    return _finish(draw, f"case: {kind}", document, objects, 1)


NAMED = ("array", "node", "location", "name", "pin")


def _names(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Names that lead elsewhere."""
    document = json.loads(objects[ROOT])
    places = [
        (*path, key)
        for path, value in _walk(document)
        if isinstance(value, dict)
        for key in NAMED
        if isinstance(value.get(key), str)
    ]
    kind = draw.choice(["name", "name", "group", "container", "same"])
    if kind == "group":
        groups = document["groups"]
        groups[draw.choice(TEXTS)] = groups.pop(draw.choice(list(groups)))
    elif kind == "container":
        container = draw.choice(document["containers"])
        if draw.random() < 0.3:
            container["name"] = draw.choice(TEXTS)
        else:
            container["location"] = draw.choice(
                [*TEXTS, "../../", "../../../../../../../../", "./../", "../secret/", "./in/../../"]
            )
            container["pin"] = draw.choice(["mtime", "size", "sample", "none"])
    else:
        path = draw.choice(places)
        old = _at(document, path)
        if kind == "same":
            new = _at(document, draw.choice(places))
        else:
            changed = [f"../{old}", f"/{old}", f"{old}/..", f"{old}/", f"./{old}", f"{old}\0"]
            new = draw.choice([*TEXTS, *changed, old.upper(), f"x/../{old}"])
        _at(document, path[:-1])[path[-1]] = new
    return _finish(draw, f"names: {kind}", document, objects, 0.95)


# -- the other objects -----------------------------------------------------------------------------


def _part(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Objects that are damaged as disks and copies damage them."""
    names = sorted(name for name in objects if name != ROOT)
    parts = [name for name in names if "/c/" in f"/{name}"] or names
    name = draw.choice(parts if draw.random() < 0.85 else names)
    data = bytearray(objects[name])
    begin = draw.randrange(len(data)) if data else 0
    length = draw.choice([1, 4, 8, 16, 100])
    special: dict[str, tuple[str, ...]] = {}
    kind = draw.choice(
        ["truncate", "flip", "flip", "zeros", "swap objects", "swap ranges", "swap ranges", "empty",
         "another", "other", "extended", "removed", "bytes", "link out", "link in", "fifo",
         "folder", "all removed"]
    )  # fmt: skip
    match kind:
        case "truncate":
            data = data[:begin]
        case "flip":
            data[begin] ^= 1 << draw.randrange(8)
        case "zeros":
            data[begin : begin + length] = bytes(len(data[begin : begin + length]))
        case "bytes":
            data[begin : begin + length] = draw.randbytes(len(data[begin : begin + length]))
        case "swap objects":
            like = [n for n in parts if n != name and len(objects[n]) == len(data)] or parts
            to = draw.choice(like)
            objects[name], objects[to] = objects[to], objects[name]
            return Damaged("part: swap objects", False, objects)
        case "swap ranges":
            data = bytearray(_ranges_swapped(draw, bytes(data)))
        case "empty":
            data = bytearray()
        case "another":
            data = bytearray(objects[draw.choice(parts)])
        case "other":
            data = bytearray(other[draw.choice(sorted(other))])
        case "extended":
            data += draw.randbytes(length)
        case "removed":
            del objects[name]
            return Damaged("part: removed", False, objects)
        case "all removed":
            return Damaged("part: all removed", False, {ROOT: objects[ROOT]})
        case "link out":
            special[name] = ("link", draw.choice(["../../secret", "/dev/zero", "/etc/passwd"]))
        case "link in":
            special[name] = ("link", name.rpartition("/")[2])  # to itself
        case "fifo":
            special[name] = ("fifo",)
        case _:
            special[name] = ("folder",)
    if special:
        del objects[name]
    else:
        objects[name] = bytes(data)
    return Damaged(f"part: {kind}", False, objects, special)


def _ranges_swapped(draw: random.Random, data: bytes) -> bytes:
    """Two pieces of the same length in each other's place; whole inner chunks, where there are."""
    pieces = inner_chunks(data)
    pairs = [
        (a, b)
        for number, a in enumerate(pieces)
        for b in pieces[number + 1 :]
        if a[1] == b[1] and data[a[0] : sum(a)] != data[b[0] : sum(b)]
    ]
    if pairs and draw.random() < 0.8:
        (one, length), (two, _) = draw.choice(pairs)
    else:
        length = min(8, len(data) // 2)
        one = draw.randrange(max(len(data) // 2 - length, 0) + 1)
        two = draw.randrange(len(data) // 2, len(data) - length + 1)
    changed = bytearray(data)
    changed[one : one + length] = data[two : two + length]
    changed[two : two + length] = data[one : one + length]
    return bytes(changed)


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


# -- content, with the checksums made right --------------------------------------------------------


def _content(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Another content of a chunk of values, keys or parameters, which all checksums agree with."""
    document = json.loads(objects[ROOT])
    arrays = [_at(document, path) for path in _found(document, "array", "objects")]
    told = draw.choice(
        [array for array in arrays if isinstance(array["array"], str) and array["objects"]]
    )
    number = draw.randrange(len(told["objects"]))
    prefix = f"{told['array']}/c"
    names = sorted(
        (name for name in objects if name == prefix or name.startswith(f"{prefix}/")),
        key=lambda name: [int(n) for n in name[len(prefix) + 1 :].split("/") if n],
    )
    name = names[number]
    packed = objects[name]
    if draw.random() < 0.3:
        kind = "packed"
        changed = _scrambled(draw, packed, header=draw.random() < 0.5)
    else:
        kind = "content"
        data = bytes(blosc.decompress(packed)) if int.from_bytes(packed[4:8], "little") else b""
        changed = bytes(
            blosc.compress(
                _scrambled(draw, data) or b"\0",
                draw.choice([b"zstd"] * 6 + [b"lz4", b"zlib", b"blosclz"]),
                draw.randrange(10),
                draw.choice([0, 1, 2]),
                0,
                draw.choice([1, 4, 8, 255]),
            )
        )
    objects[name] = changed
    told["objects"][number] = [len(changed), checksum(changed)]
    objects[ROOT] = sealed(document)
    return Damaged(f"values: {kind}", True, objects)


def _scrambled(draw: random.Random, data: bytes, *, header: bool = False) -> bytes:
    """Bytes with some of them changed; of the first 16 only, on request."""
    changed = bytearray(data)
    reach = min(len(changed), 16) if header else len(changed)
    for _ in range(draw.choice([1, 1, 2, 8])):
        if not reach:
            return draw.randbytes(8)
        place = draw.randrange(reach)
        match draw.randrange(7):
            case 0 | 1:
                changed[place] ^= 1 << draw.randrange(8)
            case 2:
                changed[place] = draw.choice([0, 255, 128, 127])
            case 3:
                place &= ~7
                extreme = draw.choice([n for n in INTEGERS if -(1 << 63) <= n < 1 << 63])
                changed[place : place + 8] = extreme.to_bytes(8, "little", signed=True)
            case 4:
                extreme = draw.choice([n for n in INTEGERS if 0 <= n < 1 << 32])
                changed[place : place + 4] = extreme.to_bytes(4, "little")
            case 5:
                text = draw.choice(["../", "/etc/passwd\0", "\0\0", "file:", "\\", "C:"]).encode()
                changed[place : place + len(text)] = text
            case _:
                del changed[place : place + draw.choice([1, 4, 8])]
        reach = min(reach, len(changed))
    return bytes(changed)


def _shard(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Another content of a table, which all checksums agree with."""
    document = json.loads(objects[ROOT])
    tables = [_at(document, path) for path in _found(document, "array", "shards")]
    if not tables:
        return _table(draw, objects, other)
    told = draw.choice(tables)
    number = draw.randrange(len(told["shards"]))
    name = f"{told['array']}/c/0/{number}"
    shard = Shard.of(objects[name])
    kind = draw.choice(["numbers", "numbers", "numbers", "packed", "index", "order"])
    match kind:
        case "index":
            place = draw.randrange(shard.index.size)
            extreme = draw.choice([n for n in INTEGERS if 0 <= n < 1 << 64])
            shard.index.reshape(-1)[place] = extreme
        case "order":
            one, two = draw.sample(range(len(shard.chunks)), 2) if len(shard.chunks) > 1 else (0, 0)
            shard.chunks[one], shard.chunks[two] = shard.chunks[two], shard.chunks[one]
        case _:
            place = draw.randrange(len(shard.chunks))
            data = shard.chunks[place]
            if kind == "packed":
                shard.chunks[place] = _scrambled(draw, data, header=draw.random() < 0.5)
            else:
                raw = np.frombuffer(blosc.decompress(data), "<i8").copy()
                for _ in range(draw.choice([1, 1, 3, 50])):
                    where = draw.randrange(len(raw))
                    choices = [n for n in INTEGERS if -(1 << 63) <= n < 1 << 63]
                    raw[where] = draw.choice([draw.choice(choices), draw.randrange(-3, 90)])
                shard.chunks[place] = bytes(blosc.compress(raw.tobytes(), b"zstd", 5, 1, 0, 8))
    data, crc = shard.packed(fix=kind != "index")
    objects[name] = data
    told["shards"][number] = [len(data), crc]
    objects[ROOT] = sealed(document)
    return Damaged(f"table content: {kind}", True, objects)


@dataclass
class Shard:
    """The inner chunks of a shard, without their checksums, and the index."""

    chunks: list[bytes]
    index: np.ndarray

    @classmethod
    def of(cls, data: bytes) -> Shard:
        pieces = inner_chunks(data)
        chunks = [data[offset : offset + length - 4] for offset, length in pieces]
        count = (len(data) - sum(length for _, length in pieces) - 4) // 20
        return cls(chunks, np.frombuffer(data[-count * 16 - 4 : -4], "<u8").copy())

    def packed(self, *, fix: bool) -> tuple[bytes, int]:
        """The bytes, and the checksum that the root has to have; the index is made to fit."""
        parts = [chunk + checksum(chunk).to_bytes(4, "little") for chunk in self.chunks]
        sums = np.zeros(len(self.index) // 2, "<u4")
        used = np.flatnonzero(self.index[1::2] != np.iinfo(np.uint64).max)
        place = 0
        for number, part in zip(used.tolist(), parts, strict=False):
            sums[number] = int.from_bytes(part[-4:], "little")
            if fix:
                self.index[2 * number : 2 * number + 2] = place, len(part)
                place += len(part)
        index = self.index.tobytes()
        end = sums.tobytes() + index
        data = b"".join([*parts, end, checksum(index).to_bytes(4, "little")])
        return data, checksum(end)


# -- zip files -------------------------------------------------------------------------------------


def _zip(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    kind, raw = zips.damaged(draw, zips.packed(objects))
    return Damaged(f"zip: {kind}", False, objects, raw=raw)
