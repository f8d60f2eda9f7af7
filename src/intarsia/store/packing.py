"""Segments as tables: what of a virtual array is written, and what the root says of it.

References that several segments share, or that files of the same layout repeat, are written once:
a segment says where its references begin and how many there are, so equal runs are one *template*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.codecs.cases import case_json, case_key
from intarsia.encoding import Case, unique_rows
from intarsia.errors import StoreError, UnsupportedVariable
from intarsia.references import INLINE, STORED, References, Source, Sources
from intarsia.segments import CASE, COUNT, FORM, PAGE, REF, ROW, SOURCE, Block, Segments
from intarsia.segments.checking import check
from intarsia.store.copies import write_bytes
from intarsia.store.objects import Writer
from intarsia.store.tables import write_table

type IntArray = npt.NDArray[Any]
type Json = dict[str, Any]

HEADS = {"case": CASE, "row": ROW, "source": SOURCE, "reference": REF, "count": COUNT, "form": FORM}
"""Columns of a block beside its geometry."""

GEOMETRY = ("start", "shape", "axis", "first", "step", "size", "chunk")
"""The geometry's columns, each with one number per dimension."""

MAX_SEGMENTS, MAX_NUMBERS = 1 << 22, 1 << 27
"""Segments of an array, and numbers that they come to in all, at most: they are held in memory."""

MAX_SOURCES = 1 << 24
"""Sources of a store, at most."""

FREE_KEYS, MAX_KEYS_RATIO = 1 << 20, 512
"""Keys of more bytes than the first are not compressed more than the second; one takes a hundred
bytes of memory."""

FEW_BYTES = 256
"""Parameter rows and inline data of so many bytes are written into the root itself."""


def write_segments(
    writer: Writer, name: str, segments: Segments, cases: dict[str, Json]
) -> tuple[Json, int]:
    """Write the tables of an array.

    Parameters
    ----------
    writer, name
        Takes the objects; beginning of their names.
    segments
        What to write. Its sources are written apart, and not renumbered here.
    cases
        Cases of the store by key; those of this array are added.

    Returns
    -------
    json, int
        What the root says of the array; the number of references that were written.

    Raises
    ------
    UnsupportedVariable
        If it could not be read again.
    """
    _check(segments)
    matrices = [block.matrix().copy() for block in segments.blocks]
    references = _gather(matrices, segments.pages)
    used = _write_cases(writer, name, segments, matrices, cases)
    table, inline = _write_references(writer, name, references)
    blocks: list[Json] = []
    for number, (block, matrix) in enumerate(zip(segments.blocks, matrices, strict=True)):
        columns = columns_of(block, matrix)
        suffix = f"{name}.segments" + (f"-{number}" if number else "")
        blocks.append(
            {
                "source_ndim": block.fields.source_ndim,
                "table": write_table(writer, suffix, columns),
            }
        )
    described: Json = {"segments": blocks, "cases": used, "references": table}
    if inline is not None:
        described["inline"] = inline
    return described, len(references)


def _check(segments: Segments) -> None:
    numbers = sum(len(block) * block.fields.width for block in segments.blocks)
    try:
        if len(segments) > MAX_SEGMENTS or numbers > MAX_NUMBERS:
            raise ValueError(f"{len(segments)} pieces are too many")
        check(segments)
    except ValueError as error:
        raise UnsupportedVariable(
            f"can't be saved: {error}",
            remedy="open it with unsupported='copy' or 'skip', or drop it",
        ) from error


def columns_of(block: Block, matrix: IntArray) -> dict[str, IntArray]:
    """The columns of a block by name."""
    columns = {label: matrix[:, number] for label, number in HEADS.items()}
    for label in GEOMETRY:
        part: slice = getattr(block.fields, label)
        for dim, number in enumerate(range(part.start, part.stop)):
            columns[f"{label}_{dim}"] = matrix[:, number]
    return columns


def _gather(matrices: Sequence[IntArray], pages: Sequence[References]) -> References:
    """One table of the references in use, equal runs once; `matrices` are pointed into it."""
    if not matrices:
        return References.missing()
    united = References.merge(pages)
    starts = np.cumsum([0] + [len(page) for page in pages])
    begin = np.concatenate([starts[matrix[:, PAGE]] + matrix[:, REF] for matrix in matrices])
    count = np.concatenate([matrix[:, COUNT] for matrix in matrices])
    runs, inverse = np.unique(np.stack([begin, count], axis=1), axis=0, return_inverse=True)
    first = _distinct_runs(united, runs)
    kept = np.flatnonzero(first == np.arange(len(first)))
    place = np.cumsum(np.append(0, runs[kept, 1]))
    new = np.zeros(len(runs), np.int64)
    new[kept] = place[:-1]
    new = new[first][inverse.reshape(-1)]
    done = 0
    for matrix in matrices:
        matrix[:, REF] = new[done : done + len(matrix)]
        matrix[:, PAGE] = 0
        done += len(matrix)
    total = int(place[-1])
    rows = np.arange(total) + np.repeat(runs[kept, 0] - place[:-1], runs[kept, 1])
    return References(
        united.offsets[rows],
        united.lengths[rows],
        None if united.masks is None else united.masks[rows],
        None if united.states is None else united.states[rows],
        None if united.chunks is None else united.chunks[rows],
        united.inline,
    )


def _distinct_runs(table: References, runs: IntArray) -> IntArray:
    """For each run of rows, the first run of the same content."""
    first = np.arange(len(runs))
    optional = (table.masks, table.states, table.chunks)
    columns = [table.offsets, table.lengths, *(c for c in optional if c is not None)]
    lengths: list[int] = np.unique(runs[:, 1]).tolist()
    for length in lengths:
        mine = np.flatnonzero(runs[:, 1] == length)
        if length == 0 or len(mine) == 1:
            first[mine] = mine[0]
            continue
        rows = np.add.outer(runs[mine, 0], np.arange(length))
        content = np.concatenate([column[rows].astype(np.int64) for column in columns], axis=1)
        _, distinct, inverse = np.unique(content, axis=0, return_index=True, return_inverse=True)
        first[mine] = mine[distinct][inverse.reshape(-1)]
    return first


def _write_references(writer: Writer, name: str, table: References) -> tuple[Json, Json | None]:
    """Write the columns of references, and their inline bytes."""
    columns: dict[str, IntArray] = {"offset": table.offsets, "length": table.lengths}
    inline: Json | None = None
    if table.states is not None and (table.states != STORED).any():
        columns["state"] = table.states
        held = table.states == INLINE
        if held.any():
            offsets, data = _pack_inline(table, held)
            columns["offset"] = offsets
            inline = write_bytes(writer, f"{name}.inline", data, few=FEW_BYTES)
    optional = {"mask": table.masks, "chunk": table.chunks}
    columns |= {label: column for label, column in optional.items() if column is not None}
    gaps = {"offset": "length"}
    return write_table(writer, f"{name}.references", columns, gaps=gaps), inline


def _pack_inline(table: References, held: npt.NDArray[np.bool_]) -> tuple[IntArray, bytes]:
    """Inline bytes that are still referred to, and the offsets into them."""
    offsets = table.offsets.astype(np.int64)
    parts: list[bytes] = []
    places: dict[tuple[int, int], int] = {}
    size = 0
    for row in np.flatnonzero(held).tolist():
        key = int(table.offsets[row]), int(table.lengths[row])
        if key not in places:
            places[key] = size
            parts.append(table.inline[key[0] : key[0] + key[1]])
            size += key[1]
        offsets[row] = places[key]
    return offsets, b"".join(parts)


def _write_cases(
    writer: Writer,
    name: str,
    segments: Segments,
    matrices: Sequence[IntArray],
    cases: dict[str, Json],
) -> list[Json]:
    """Write the parameter rows in use; `matrices` are pointed to them."""
    used: list[Json] = []
    numbers = np.unique(np.concatenate([np.zeros(0, int), *(m[:, CASE] for m in matrices)]))
    chosen: list[int] = numbers.tolist()
    for number in chosen:
        case: Case = segments.cases[number]
        try:
            described = case_json(case.encoding)
        except ValueError as error:
            raise UnsupportedVariable(
                f"can't be saved: {error}",
                remedy="open it with unsupported='copy' or 'skip', or drop it",
            ) from error
        key = case_key(described)
        cases[key] = described
        mine = [matrix[:, CASE] == number for matrix in matrices]
        rows = np.concatenate([m[mask, ROW] for m, mask in zip(matrices, mine, strict=True)])
        taken, inverse = np.unique(rows, return_inverse=True)
        distinct, of_taken = unique_rows(case.rows[taken])
        places = of_taken[inverse.reshape(-1)]
        _, seen = np.unique(places, return_index=True)
        order = np.argsort(seen)  # in the order of their first use, which is often a rule
        distinct, places = distinct[order], np.argsort(order)[places]
        done = 0
        for matrix, mask in zip(matrices, mine, strict=True):
            count = int(mask.sum())
            matrix[mask, ROW] = places[done : done + count]
            done += count
        size = distinct.dtype.itemsize
        data = np.ascontiguousarray(distinct).tobytes()
        label = f"{name}.parameters" + (f"-{len(used)}" if used else "")
        rows_json = write_bytes(writer, label, data, few=FEW_BYTES, row=size)
        used.append({"case": key, "rows": len(distinct), "parameters": rows_json})
    renumber = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
    renumber[numbers] = np.arange(len(numbers))
    for matrix in matrices:
        matrix[:, CASE] = renumber[matrix[:, CASE]]
    return used


def write_sources(
    writer: Writer, name: str, sources: Sequence[Source], places: Sequence[tuple[int, str]]
) -> Json:
    """Write the table of sources.

    Parameters
    ----------
    sources
        One per row.
    places
        For each, the number of its container and its key there.
    """
    if len(sources) > MAX_SOURCES:
        raise StoreError(f"{len(sources)} sources are too many for a store")
    scans = list(dict.fromkeys(source.scan for source in sources))
    number = {scan: n for n, scan in enumerate(scans)}
    columns = {
        "container": np.array([container for container, _ in places], np.int64),
        "size": np.array([source.size for source in sources], np.int64),
        "mtime_ns": np.array([source.mtime_ns for source in sources], np.int64),
        "scan": np.array([number[source.scan] for source in sources], np.int64),
    }
    described: Json = {
        "table": write_table(writer, f"{name}/sources.table", columns),
        "keys": _write_texts(writer, f"{name}/sources.keys", [key for _, key in places]),
        "scans": scans,
    }
    stored = sum(size for size, _ in described["keys"].get("objects", ()))
    if described["keys"].get("nbytes", 0) > FREE_KEYS + stored * MAX_KEYS_RATIO:
        raise StoreError(f"{len(sources)} sources of a few names are too many for a store")
    for label, texts in (
        ("etags", [source.etag or "" for source in sources]),
        ("samples", [source.sample or "" for source in sources]),
    ):
        if any(texts):
            described[label] = _write_texts(writer, f"{name}/sources.{label}", texts)
    return described


def _write_texts(writer: Writer, name: str, texts: Sequence[str]) -> Json:
    """Texts one after the other, each ended by a NUL."""
    data = "".join(f"{text}\0" for text in texts).encode("utf-8", "surrogateescape")
    return write_bytes(writer, name, data, few=FEW_BYTES)


def used_sources(arrays: Mapping[str, Segments]) -> tuple[Sources, dict[str, Segments]]:
    """One table of the sources that are used, and the arrays pointed into it."""
    united, maps = Sources.union([segments.sources for segments in arrays.values()])
    used: list[IntArray] = [np.zeros(0, np.int64)]
    for segments, numbers in zip(arrays.values(), maps, strict=True):
        for block in segments.blocks:
            found = np.unique(block.column(SOURCE)).astype(np.int64)
            found = found[found >= 0]
            used.append(found if numbers is None else numbers[found])
    kept = np.unique(np.concatenate(used))
    table = Sources.of([united[number] for number in kept.tolist()])
    new = np.zeros(len(united), np.int64)
    new[kept] = np.arange(len(kept))
    return table, {
        name: segments.renumbered(table, new if numbers is None else new[numbers])
        for (name, segments), numbers in zip(arrays.items(), maps, strict=True)
    }
