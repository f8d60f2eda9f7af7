"""Damages of the root: of its text, of the tree that it is, and of places with a meaning."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from intarsia.codecs.cases import case_key
from intarsia.store.objects import ROOT
from tests.store.hostile.basics import (
    INTEGERS,
    TEXTS,
    Damaged,
    Json,
    Objects,
    Path,
    at,
    finish,
    found_in,
    walk,
)

# -- the root as text ------------------------------------------------------------------------------


def text(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
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


def tree(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    document = json.loads(objects[ROOT])
    count = draw.choice([1, 1, 1, 1, 2, 5])
    for _ in range(count):
        kind = _change(draw, document, json.loads(other[ROOT]))
    return finish(draw, f"root tree: {kind}", document, objects)


def _change(draw: random.Random, document: Json, other: Json) -> str:
    kind = draw.choice(
        ["delete", "rename", "duplicate", "swap", "other", "type", "value", "value", "value",
         "value", "deep", "long", "shuffle", "empty", "move"]
    )  # fmt: skip
    path = _random_place(draw, document)
    parent, key = at(document, path[:-1]), path[-1]
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
            there = at(document, to[:-1])
            value = copy.deepcopy(there[to[-1]])
            if kind == "swap":
                there[to[-1]] = parent[key]
            parent[key] = value
        case "other":
            parent[key] = at(other, _random_place(draw, other))
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


def pairs(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """A key twice, which dictionaries can't say."""
    text = objects[ROOT].decode()
    places = [n for n in range(len(text)) if text.startswith('{"', n)]
    place = draw.choice(places)
    end = text.index('"', place + 2)
    twice = f"{text[: place + 1]}{text[place + 1 : end + 1]}:0,{text[place + 1 :]}"
    objects[ROOT] = twice.encode()
    return Damaged("root text: a key twice", True, objects)


# -- particular places of the root -----------------------------------------------------------------


def table(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """What a table says of its columns."""
    document = json.loads(objects[ROOT])
    tables = found_in(document, "rows", "columns")
    table = at(document, draw.choice(tables))
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
            source = at(document, draw.choice(tables))
            table.update(copy.deepcopy(source))
        case "swap":
            to = draw.choice(list(columns))
            columns[label], columns[to] = columns[to], columns[label]
        case "exchange":
            source = at(document, draw.choice(tables))
            for key in ("array", "shards"):
                if key in source:
                    table[key] = copy.deepcopy(source[key])
        case _:
            columns[label] = _varied(draw, columns[label])
    return finish(draw, f"table: {kind}", document, objects, 0.95)


def case(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
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
    for path in found_in(document, "case", "parameters"):
        used = at(document, path)
        if used["case"] == key:
            used["case"] = new
    return finish(draw, f"case: {kind}", document, objects, 1)


NAMED = ("array", "node", "location", "name", "pin")


def names(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Names that lead elsewhere."""
    document = json.loads(objects[ROOT])
    places = [
        (*path, key)
        for path, value in walk(document)
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
        old = at(document, path)
        if kind == "same":
            new = at(document, draw.choice(places))
        else:
            changed = [f"../{old}", f"/{old}", f"{old}/..", f"{old}/", f"./{old}", f"{old}\0"]
            new = draw.choice([*TEXTS, *changed, old.upper(), f"x/../{old}"])
        at(document, path[:-1])[path[-1]] = new
    return finish(draw, f"names: {kind}", document, objects, 0.95)
