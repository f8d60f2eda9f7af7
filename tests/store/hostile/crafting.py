"""What stores are made with by someone who means it: one variable, and its parts."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numcodecs import blosc

from intarsia.codecs.cases import case_json, case_key
from intarsia.encoding import Encoding
from intarsia.store.compression import checksum
from intarsia.store.objects import ROOT
from tests.store.hostile.basics import Damaged, Json, Objects, sealed

type Change = Callable[[Any, Objects], None]

REFUSED = ("store",)
QUICK = 2.0
ANY = ("store", "source", "chunk", "unsupported", "other", "same")


@dataclass(frozen=True)
class Crafted:
    """A store, and what may come of it.

    Parameters
    ----------
    change
        What is done to the root and the objects of a sound store.
    results
        What may come of it.
    reason
        Part of what an error says, where it has to say something in particular.
    seconds, nbytes
        How long reading it may take, and how much memory.
    special
        Links and the like.
    text
        What is done to the text of the root at last.
    """

    change: Change
    results: tuple[str, ...] = REFUSED
    reason: str = ""
    seconds: float = QUICK
    nbytes: int = 200 << 20
    special: dict[str, tuple[str, ...]] | None = None
    text: Callable[[bytes], bytes] | None = None


REGISTERED: dict[str, Crafted] = {}


def crafted(name: str, *results: str, **more: Any) -> Callable[[Change], Change]:
    """Register a store."""

    def register(change: Change) -> Change:
        REGISTERED[name] = Crafted(change, results or REFUSED, **more)
        return change

    return register


def made(name: str, objects: Objects) -> Damaged:
    """The store of a name, of the objects of a sound one."""
    what = REGISTERED[name]
    objects = dict(objects)
    document = json.loads(objects[ROOT])
    what.change(document, objects)
    objects[ROOT] = sealed(document)
    if what.text is not None:
        objects[ROOT] = what.text(objects[ROOT])
    special = what.special or {}
    for place in special:
        objects.pop(place, None)
    return Damaged(f"crafted: {name}", True, objects, dict(special))


def only(document: Json, shape: list[int], **columns: Any) -> Json:
    """Leave one virtual variable, of int16 and a shape, with one block of segments.

    All its columns are rules; those that are not told are those of one segment.
    """
    name = document["groups"]["/"]["variables"]
    (explicit,) = [variable for variable in name if variable["name"] == "explicit"]
    document["groups"] = {"/": {"attributes": {}, "encoding": {}, "variables": [explicit]}}
    encoding = Encoding((), np.dtype("<i2"))
    case = case_json(encoding)
    key = case_key(case)
    document["cases"] = {key: case}
    ndim = len(shape)
    told: dict[str, Any] = {
        **dict.fromkeys(("case", "row", "source", "reference", "form"), 0),
        "count": 1,
        **{f"start_{d}": 0 for d in range(ndim)},
        **{f"shape_{d}": shape[d] for d in range(ndim)},
        **{f"axis_{d}": d for d in range(ndim)},
        **{f"first_{d}": 0 for d in range(ndim)},
        **{f"step_{d}": 1 for d in range(ndim)},
        **{f"size_{d}": shape[d] for d in range(ndim)},
        **{f"chunk_{d}": shape[d] for d in range(ndim)},
    }
    explicit["dims"] = [f"d{d}" for d in range(ndim)]
    explicit["shape"] = shape
    explicit["virtual"] = {
        "dtype": "<i2",
        "source_name": "",
        "notes": [],
        "grid": {"chunks": [min(n, 16) for n in shape], "amplification_percent": 100,
                 "max_parts": 1, "cells": 1},
        "segments": [{"source_ndim": ndim,
                      "table": {"rows": columns.pop("rows", 1), "columns": told | columns}}],
        "cases": [{"case": key, "rows": 1, "parameters": {"hex": "0000"}}],
        "references": {"rows": 1, "columns": {"offset": 0, "length": 2}},
    }  # fmt: skip
    return explicit["virtual"]


def use(document: Json, virtual: Json, encoding: Encoding) -> None:
    """Give the one variable another encoding, with zeros for parameters."""
    case = case_json(encoding)
    key = case_key(case)
    document["cases"] = {key: case}
    size = encoding.parameters.itemsize
    virtual["cases"] = [{"case": key, "rows": 1, "parameters": {"hex": "00" * size}}]
    virtual["dtype"] = encoding.dtype.str


def source_of(document: Json, size: int, key: str = "one.bin") -> None:
    """Leave one source, in the container that is in the store's folder."""
    document["containers"] = [{"name": "in", "location": "./in/", "pin": "size"}]
    columns = {"container": 0, "size": size, "mtime_ns": -1, "scan": 0}
    document["sources"] = {
        "table": {"rows": 1, "columns": columns},
        "keys": {"hex": f"{key}\0".encode().hex()},
        "scans": [""],
    }


def rule(first: int, step: int) -> Json:
    """A column."""
    return {"first": first, "step": step}


def array_of(objects: Objects, data: bytes, length: int) -> Json:
    """A run of bytes as an array, well compressed."""
    told: list[list[int]] = []
    for number, begin in enumerate(range(0, len(data), length)):
        part = bytes(blosc.compress(data[begin : begin + length].ljust(length, b"\0"), b"zstd", 5))
        objects[f"bomb/c/{number}"] = part
        told.append([len(part), checksum(part)])
    return {"array": "bomb", "nbytes": len(data), "chunk": length, "objects": told}


def copied_of(document: Json, objects: Objects, packed: bytes, **told: Any) -> Json:
    """Leave one copied variable, of one chunk."""
    objects["bomb/c/0"] = packed
    values = {"array": "bomb", "shape": [4], "chunks": [4], "data_type": "int8",
              "objects": [[len(packed), checksum(packed)]]} | told  # fmt: skip
    document["groups"]["/"]["variables"] = [{
        "name": "bomb", "node": "bomb", "dims": [f"d{n}" for n in range(len(values["shape"]))],
        "shape": values["shape"], "coordinate": False, "attributes": {}, "encoding": {},
        "values": values, "restore": {},
    }]  # fmt: skip
    return document["groups"]["/"]["variables"][0]


def header(packed: bytes, nbytes: int, blocksize: int | None = None) -> bytes:
    """A compressed chunk that says it holds so many bytes."""
    blocksize = nbytes if blocksize is None else blocksize
    return packed[:4] + struct.pack("<II", nbytes, blocksize) + packed[12:]
