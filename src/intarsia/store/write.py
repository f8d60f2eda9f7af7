"""Writing a store: guards for what stays in the files, plain arrays for the rest, the root last."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from intarsia.array import VirtualArray
from intarsia.array.reprs import human
from intarsia.errors import IntarsiaError, StoreError
from intarsia.io.fetch import sampled
from intarsia.io.paths import local_path
from intarsia.io.placing import is_own_source, plan_containers
from intarsia.progress import track
from intarsia.references import NO_SOURCES
from intarsia.segments import Segments
from intarsia.store.attributes import mapping_to_json
from intarsia.store.copies import write_values
from intarsia.store.grid import choose
from intarsia.store.guard import group_metadata, guard_metadata
from intarsia.store.layout import places_of
from intarsia.store.nodes import Group, Variable
from intarsia.store.objects import ROOT, Writer
from intarsia.store.packing import used_sources, write_segments, write_sources
from intarsia.store.plain import plain_attributes, plain_json, with_own
from intarsia.store.root import seal
from intarsia.store.swap import replacing
from intarsia.store.values import plain
from intarsia.store.zarrays import dump

type Json = dict[str, Any]
type Mode = Literal["w-", "w"]


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """What was saved.

    Parameters
    ----------
    path
        Where.
    variables, copied
        Number of variables, and how many of them were copied instead of referred to.
    sources, segments, references, cases
        Numbers of source files, of pieces, of references written (each template once), of cases.
    nbytes
        Bytes of the store.
    source_nbytes
        Bytes of the sources, as far as they are known.
    """

    path: str
    variables: int
    copied: int
    sources: int
    segments: int
    references: int
    cases: int
    nbytes: int
    source_nbytes: int

    def __str__(self) -> str:
        kept = self.variables - self.copied
        return (
            f"{self.path}: {human(self.nbytes)} for {human(self.source_nbytes)} in "
            f"{self.sources:,} {_plural('source', self.sources)}\n"
            f"  {kept} {_plural('variable', kept)} by reference "
            f"({self.segments:,} {_plural('segment', self.segments)}, "
            f"{self.references:,} {_plural('reference', self.references)}, "
            f"{self.cases} {_plural('case', self.cases)}), {self.copied} copied"
        )

    __repr__ = __str__


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def write(
    path: str | os.PathLike[str],
    groups: Mapping[str, Group],
    *,
    mode: Mode = "w-",
    containers: Mapping[str, str] | None = None,
    sample: bool = False,
) -> Summary:
    """Write a store.

    It appears at `path` when all of it is written; until then, and if anything fails, what was
    there before stays as it is.

    Parameters
    ----------
    path
        A zip file where it ends in ``.zip``, else a folder.
    groups
        By absolute path; the root is ``"/"``.
    mode
        ``"w-"``: refuse to replace a store; ``"w"``: replace it.
    containers
        Names and places of containers, for sources below those places; the others are found.
    sample
        Whether to keep a digest of some bytes of each source, which then pins it in place of its
        modification time.

    Raises
    ------
    StoreExists
        If something is there that is not to be replaced.
    StoreError
        If a source lies where the store is to be, or the store can't be written.
    UnsupportedVariable
        If a variable can't be kept exactly, naming it.
    """
    if mode not in ("w-", "w"):
        raise ValueError(f"mode must be 'w-' or 'w', got {mode!r}")
    path = local_path(path)
    arrays = {
        f"{group}\0{name}": variable.data.segments
        for group, content in groups.items()
        for name, variable in content.variables.items()
        if isinstance(variable.data, VirtualArray)
    }
    table, arrays = used_sources(arrays) if arrays else (NO_SOURCES, arrays)
    own = is_own_source(path, table)
    if own is not None:
        raise StoreError(
            "a store can't be saved onto one of its own sources", url=own, remedy="choose a path"
        )
    rows = list(table)
    if sample:
        rows = [sampled(source) for source in track(rows, "sampling", unit="files")]
    planned, places = plan_containers(table, path, containers)
    with replacing(path, overwrite=mode == "w") as writer:
        counting = _Counting(writer)
        told = _Writing(counting, f"__intarsia__/{secrets.token_hex(4)}", arrays)
        document = told.groups(groups)
        document["containers"] = [
            {
                "name": container.name,
                "location": container.location,
                "pin": "sample" if sample else container.pin,
                **({"access": dict(container.access)} if container.access else {}),
            }
            for container in planned
        ]
        document["sources"] = write_sources(counting, told.parts, rows, places)
        document["cases"] = told.cases
        counting.put(ROOT, seal(document))
    return Summary(
        path,
        sum(len(group.variables) for group in groups.values()),
        sum(len(group.variables) for group in groups.values()) - len(arrays),
        len(table),
        sum(len(segments) for segments in arrays.values()),
        told.references,
        len(told.cases),
        counting.nbytes,
        sum(max(source.size, 0) for source in rows),
    )


class _Counting:
    """Passes objects on, and counts their bytes."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.nbytes = 0

    def put(self, name: str, data: bytes) -> None:
        self._writer.put(name, data)
        self.nbytes += len(data)

    def close(self) -> None:
        self._writer.close()


class _Writing:
    """Writes groups and their variables."""

    def __init__(self, writer: Writer, parts: str, arrays: Mapping[str, Segments]) -> None:
        self.writer = writer
        self.parts = parts
        self.arrays = arrays
        self.cases: dict[str, Json] = {}
        self.references = 0

    def groups(self, groups: Mapping[str, Group]) -> Json:
        """Write all groups; what the root says of them."""
        described: Json = {}
        for path, place in places_of(groups).items():
            group = groups.get(path, Group())
            attrs = {name: plain_json(value) for name, value in group.attrs.items()}
            self.writer.put(f"{place.prefix}zarr.json", dump(group_metadata(attrs)))
            if path in groups:
                described[path] = self._group(path, place.nodes, group)
        return {"groups": described}

    def _group(self, path: str, nodes: Mapping[str, str], group: Group) -> Json:
        variables: list[Json] = []
        for name, variable in track(
            group.variables.items(), "saving", len(group.variables), unit="variables"
        ):
            try:
                variables.append(self._variable(path, name, nodes[name], variable))
            except IntarsiaError as error:
                raise error.located(array=name) from error.__cause__
        return {
            "attributes": mapping_to_json(group.attrs),
            "encoding": mapping_to_json(group.encoding, "encoding"),
            "variables": variables,
        }

    def _variable(self, group: str, name: str, node: str, variable: Variable) -> Json:
        told: Json = {
            "name": name,
            "node": node,
            "dims": list(variable.dims),
            "shape": list(variable.shape),
            "coordinate": variable.coordinate,
            "attributes": mapping_to_json(variable.attrs),
            "encoding": mapping_to_json(variable.encoding, "encoding"),
        }
        data = variable.data
        if not isinstance(data, VirtualArray):
            kept = plain(data)
            attrs = with_own(plain_attributes(variable.attrs, kept.array.dtype), kept.attrs)
            told["restore"] = kept.restore
            told["values"] = write_values(
                self.writer, node, kept.array, dims=variable.dims, attrs=attrs
            )
            return told
        attrs = plain_attributes(variable.attrs, data.dtype)
        segments = self.arrays[f"{group}\0{name}"]
        guard = guard_metadata(variable.shape, data.dtype, variable.dims, attrs)
        self.writer.put(f"{node}/zarr.json", dump(guard))
        described, references = write_segments(
            self.writer, f"{self.parts}/arrays/{node}", segments, self.cases
        )
        self.references += references
        grid = choose(segments)
        told["virtual"] = {
            "dtype": data.dtype.str,
            "source_name": data.name or "",
            "notes": sorted(data.notes),
            "grid": {
                "chunks": list(grid.chunks),
                "amplification_percent": round(grid.amplification * 100),
                "max_parts": grid.max_parts,
                "cells": grid.cells,
            },
            **described,
        }
        return told
