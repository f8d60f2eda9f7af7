"""``intarsia info``: what a store holds, told from the store alone."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from intarsia.cli.places import (
    add_access,
    add_containers,
    add_pins,
    containers,
    storage_options,
)
from intarsia.cli.words import in_words
from intarsia.errors import IntarsiaError, StoreError
from intarsia.io.sampling import UNKNOWN

if TYPE_CHECKING:
    from intarsia.store.parsing import Reader
    from intarsia.store.read import Stored
    from intarsia.store.tables import Table

type Json = dict[str, Any]

POSITIONAL = " STORE"

NOTES = "intarsia_notes"
"""Under this key of a group's encoding are remarks about the whole."""

SUBJECTS = ("'", '"', "files: ", "left out")
"""How remarks begin that say themselves what they are about."""

MANY = 100
"""Of fewer references, nobody wants to know what each takes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("store", metavar="STORE", help="a folder or zip file that is a store")
    add_containers(parser, "where a container is now, if not where the store says")
    add_pins(parser)
    add_access(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Say what a store holds: variables, sources, containers, and how values are decoded.

    Looks at the store alone, not at the sources; `intarsia verify` looks at those.

    For variables by reference, "cells" is the shape of the chunks that Zarr readers are shown,
    "decoded" how often a chunk of a source is decoded where all of those are read once, on average,
    and "parts" how many chunks of sources one of them is made of, at most.

    Examples
    --------
      intarsia info sst.intarsia

      # where its sources are, and how they are reached, is in the table of containers; what the
      # store must not reach by its own word is told there, too: to read from it, name it
      intarsia info sst.intarsia --container sst=http://server.lan/sst/

      # for a program
      intarsia info sst.intarsia --json
    """
    from intarsia.store.read import read  # heavy, and not needed for the help

    how = {"containers": containers(args), "storage_options": storage_options(args)}
    refused: dict[str, StoreError] = {}
    try:
        told = contents(read(args.store, **how, refused=refused), refused)
    except IntarsiaError:
        raise
    except ValueError as error:  # which never tells what the options hold
        return args.parser.error(f"--storage-option: {error}")
    if args.json:
        print(json.dumps(told, indent=2))
    else:
        print(printable(text(told, shutil.get_terminal_size((100, 24)).columns)))
    return 0


# -- what there is ---------------------------------------------------------------------------------


def contents(stored: Stored, refused: Mapping[str, StoreError]) -> Json:
    """What a store holds, as plain data; of its tables only what counts sources is read.

    Parameters
    ----------
    stored
        The store.
    refused
        Its containers that it must not reach by its own word, and why.
    """
    from intarsia.array.describing import encoding_text
    from intarsia.io.placing import without_secrets
    from intarsia.store.objects import open_objects
    from intarsia.store.parsing import Reader
    from intarsia.store.tables import Table

    root = Reader(stored.root, stored.url, "")
    groups = {path: _group(group) for path, group in root.child("groups").children()}
    sources = root.child("sources")
    objects = open_objects(stored.url)
    table = Table.parse(sources.child("table"), objects)
    owners: list[int] = table.column("container").tolist()
    sizes: list[int] = [max(size, 0) for size in table.column("size").tolist()]
    loose = _unpinned(stored, table, owners)
    references = sum(
        variable.get("references", 0)
        for group in groups.values()
        for variable in group["variables"]
    )
    nbytes = _nbytes(stored.url, objects.names())
    return {
        "store": stored.url,
        "version": root.text("version"),
        "stable": not root.text("version").startswith("unstable"),
        "digest": stored.digest,
        "nbytes": nbytes,
        "references": references,
        "nbytes_per_reference": round(nbytes / references, 1) if references else None,
        "groups": groups,
        "sources": {"count": table.rows, "nbytes": sum(sizes)},
        "containers": [
            {
                "name": container.name,
                "location": container.location,
                "access": dict(container.access),
                "now": None if container.name in refused else without_secrets(location),
                "refused": _why(refused.get(container.name)),
                "pin": pin,
                "sources": owners.count(number),
                "unpinned": loose.count(number),
            }
            for number, (container, location, pin) in enumerate(
                zip(stored.containers, stored.places.locations, stored.places.pins, strict=True)
            )
        ],
        "cases": {key: encoding_text(case) for key, case in stored.cases.items()},
        "opened_with": [_chosen(scan) for scan in sources.texts("scans")],
    }


def _why(error: StoreError | None) -> str | None:
    """Why a container is refused, and what to do about it."""
    return None if error is None else "; ".join(filter(None, (error.reason, error.remedy)))


def _unpinned(stored: Stored, table: Table, owners: Sequence[int]) -> list[int]:
    """The containers of sources of which nothing is known that they could be checked by."""
    bare = (table.column("size") < 0) & (table.column("mtime_ns") < 0)
    if not bare.any():
        return []
    sources = stored.sources  # their tags and samples are looked at
    return [
        owners[number]
        for number in bare.nonzero()[0].tolist()
        if not (sources.etags and sources.etags[number])
        and not (sources.samples and sources.samples[number] not in (None, UNKNOWN))
    ]


def _chosen(scan: str) -> Any:
    """What was asked for when sources were opened; the text itself where that is no JSON."""
    try:
        return json.loads(scan) if scan else {}
    except (ValueError, RecursionError):
        return scan


def _nbytes(path: str, names: Sequence[str]) -> int:
    """Bytes of a folder's files, or of a zip file."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in names)


def _group(told: Reader) -> Json:
    variables = [_variable(variable) for variable in told.listed("variables")]
    sizes: dict[str, int] = {}
    for variable in variables:
        sizes.update(zip(variable["dims"], variable["shape"], strict=True))
    return {"sizes": sizes, "variables": variables, "notes": _notes(told)}


def _notes(told: Reader) -> list[str]:
    from intarsia.store.attributes import mapping_from_json

    notes = mapping_from_json(told.child("encoding").value).get(NOTES, ())
    return [str(note) for note in notes]


def _variable(told: Reader) -> Json:
    found: Json = {
        "name": told.text("name"),
        "dims": told.texts("dims"),
        "shape": list(told.integers("shape", 0)),
        "coordinate": told.boolean("coordinate"),
    }
    if not told.has("virtual"):
        kept = told.child("restore").value.get("dtype")
        dtype = kept if isinstance(kept, str) else told.child("values").text("data_type")
        return found | {"dtype": _dtype(dtype), "copied": True}
    virtual = told.child("virtual")
    grid = virtual.child("grid")
    blocks = [block.child("table").integer("rows", 0) for block in virtual.listed("segments")]
    return found | {
        "dtype": _dtype(virtual.text("dtype")),
        "copied": False,
        "segments": sum(blocks),
        "references": virtual.child("references").integer("rows", 0),
        "cases": [
            {"case": case.text("case"), "parameters": case.integer("rows", 0)}
            for case in virtual.listed("cases")
        ],
        "grid": {
            "cells": list(grid.integers("chunks", 1)),
            "count": grid.integer("cells", 0),
            "decoded": grid.integer("amplification_percent", 0) / 100,
            "parts": grid.integer("max_parts", 0),
        },
        "notes": virtual.texts("notes"),
    }


def _dtype(text: str) -> str:
    import numpy as np

    try:
        return str(np.dtype(text))
    except TypeError:
        return text


# -- for people ------------------------------------------------------------------------------------


def text(told: Mapping[str, Any], width: int = 100) -> str:
    """The same as tables, in at most `width` characters if that can be done."""
    from intarsia.array.reprs import human
    from intarsia.combine.text import lines_of, table

    variables = [one for group in told["groups"].values() for one in group["variables"]]
    copied = sum(one["copied"] for one in variables)
    sources, each = told["sources"], told["nbytes_per_reference"]
    parts = [
        f"{in_words(told['store'])}: {human(told['nbytes'])} for {human(sources['nbytes'])} in "
        f"{_count(sources['count'], 'source')}\n"
        f"{_count(len(variables) - copied, 'variable')} by reference, {copied:,} copied; "
        f"{_count(told['references'], 'reference')}"
        + (f", {each:,.1f} bytes of the store for each" if told["references"] >= MANY else "")
        + f"\nformat {told['version']}"
        + ("" if told["stable"] else ": other versions of Intarsia may not read it")
    ]
    for path, group in told["groups"].items():
        title = "" if path == "/" and len(told["groups"]) == 1 else f"Group {path}\n"
        if group["variables"]:
            rows = [_row(one) for one in group["variables"]]
            parts.append(title + table(_VARIABLES, rows, width))
        elif title:
            parts.append(title.rstrip())
    uses = _uses(variables)
    if told["cases"]:
        rows = [
            (
                case,
                *uses.get(key, ("", "")),
            )
            for key, case in told["cases"].items()
        ]
        parts.append(table(("how bytes become values", "variables", "parameters"), rows, width))
    if told["containers"]:
        heads = ["container", "location", "now", "pin", "sources", "access"]
        rows = [
            (
                one["name"],
                one["location"],
                "refused" if one["now"] is None else in_words(one["now"]) or "./",
                one["pin"] + (f", {one['unpinned']:,} by nothing" if one["unpinned"] else ""),
                f"{one['sources']:,}",
                ", ".join(map(_option, one["access"].items())),
            )
            for one in told["containers"]
        ]
        last = None if any(row[-1] for row in rows) else -1
        parts.append(table(heads[:last], [row[:last] for row in rows], width))
    refused = [one["refused"] for one in told["containers"] if one["refused"]]
    if refused:
        listed = [lines_of(in_words(why), width) for why in refused]
        parts.append("\n".join(["Refused, until you name it:", *listed]))
    chosen = [json.dumps(one) for one in told["opened_with"] if one]
    if chosen:
        parts.append("\n".join(["Opened with:", *(lines_of(one, width) for one in chosen)]))
    notes = [note for group in told["groups"].values() for note in group["notes"]]
    notes += [
        note if note.startswith(SUBJECTS) else f"{one['name']!r}: {note}"
        for one in variables
        for note in one.get("notes", ())
        if note not in notes
    ]
    if notes:
        listed = [lines_of(in_words(note), width) for note in dict.fromkeys(notes)]
        parts.append("\n".join(["Notes:", *listed]))
    return "\n\n".join(parts)


def printable(text: str) -> str:
    r"""A text without what a terminal would obey: names in a store are a stranger's.

    Examples
    --------
    >>> printable("a\x1b[2J")
    'a\\x1b[2J'
    """
    return "".join(
        char if char == "\n" or char.isprintable() else repr(char)[1:-1] for char in text
    )


def _option(pair: tuple[str, Any]) -> str:
    name, value = pair
    return name if value is True else f"{name}={value}"


_VARIABLES = (
    "variable",
    "dims",
    "shape",
    "type",
    "values",
    "segments",
    "cells",
    "decoded",
    "parts",
)


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    shape = "×".join(f"{size:,}" for size in one["shape"])
    start = (one["name"], ", ".join(one["dims"]), shape, one["dtype"])
    if one["copied"]:
        return (*start, "copied", "", "", "", "")
    grid = one["grid"]
    cells = "×".join(f"{size:,}" for size in grid["cells"])
    return (
        *start,
        "referred",
        f"{one['segments']:,}",
        cells,
        f"{grid['decoded']:.2f}×",
        f"{grid['parts']:,}",
    )


def _uses(variables: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """For each case the variables that have it, and their sets of parameters."""
    names: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for one in variables:
        for case in one.get("cases", ()):
            names.setdefault(case["case"], []).append(one["name"])
            counts[case["case"]] = counts.get(case["case"], 0) + case["parameters"]
    return {key: (", ".join(those), f"{counts[key]:,}") for key, those in names.items()}


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s'[: number != 1]}"
