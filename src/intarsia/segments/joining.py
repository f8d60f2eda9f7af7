"""Joining segment lists: boxes move, references and their bytes stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Case, merge_cases, unique_rows
from intarsia.references import References, Sources
from intarsia.segments.blocks import CASE, PAGE, REF, ROW, SOURCE, Block, Fields

if TYPE_CHECKING:
    from intarsia.segments.whole import Segments

type IntArray = npt.NDArray[Any]

MAX_PAGES = 8
"""More tables of references than this are merged, the small ones first."""


class Joiner:
    """Concatenation of many segment lists in a few NumPy calls."""

    def __init__(self, parts: Sequence[Segments], offsets: IntArray, axis: int) -> None:
        self.sources, source_maps = Sources.union([part.sources for part in parts])
        cases, places = merge_cases([part.cases for part in parts])
        self.pages, page_places = _merge_pages([part.pages for part in parts])
        groups: dict[Fields, tuple[list[int], list[IntArray]]] = {}
        for number, part in enumerate(parts):
            for block in part.blocks:
                numbers, rows = groups.setdefault(block.fields, ([], []))
                numbers.append(number)
                rows.append(block.matrix())
        moved = any(numbers is not None for numbers in source_maps)
        matrices: list[tuple[Fields, IntArray]] = []
        for fields, (numbers, rows) in groups.items():
            matrix = np.concatenate(rows)
            part = np.repeat(np.array(numbers), [piece.shape[0] for piece in rows])
            matrix[:, fields.start.start + axis] += offsets[part]
            case, first = _relabel(places, part, matrix[:, CASE])
            matrix[:, CASE] = case
            matrix[:, ROW] += first
            page, first = _relabel(page_places, part, matrix[:, PAGE])
            matrix[:, PAGE] = page
            matrix[:, REF] += first
            if moved:
                matrix[:, SOURCE] = _renumber(source_maps, parts, part, matrix[:, SOURCE])
            matrices.append((fields, matrix))
        self.cases = _distinct(cases, [matrix for _, matrix in matrices])
        self.blocks = tuple(Block.of(fields, matrix) for fields, matrix in matrices)


def _relabel(
    places: Sequence[Sequence[tuple[int, int]]], part: IntArray, label: IntArray
) -> tuple[IntArray, IntArray]:
    """Look up (new number, first row) of each (part, label)."""
    flat = np.array([pair for place in places for pair in place], np.int64).reshape(-1, 2)
    base = np.cumsum([0] + [len(place) for place in places[:-1]])
    found = flat[base[part] + label]
    return found[:, 0], found[:, 1]


def _renumber(
    maps: Sequence[IntArray | None], parts: Sequence[Segments], part: IntArray, source: IntArray
) -> IntArray:
    """New source numbers; -1 (no source) stays."""
    tables = [
        np.arange(len(segments.sources)) if numbers is None else numbers
        for numbers, segments in zip(maps, parts, strict=True)
    ]
    base = np.cumsum([0] + [len(table) for table in tables[:-1]])
    flat = np.concatenate([*tables, np.zeros(1, np.int64)])
    place = np.where(source < 0, 0, base[part] + source)
    return np.where(source < 0, -1, flat[place])


def _merge_pages(
    groups: Sequence[tuple[References, ...]],
) -> tuple[tuple[References, ...], list[list[tuple[int, int]]]]:
    """Unite tables of references: each once, and the small ones in one table."""
    distinct: dict[int, References] = {}
    sizes: dict[int, int] = {}
    for pages in groups:
        for page in pages:
            size = page.offsets.shape[0]
            if size:
                distinct[id(page)] = page
                sizes[id(page)] = size
    kept: dict[int, References] = distinct
    small: dict[int, References] = {}
    if len(distinct) > MAX_PAGES:
        limit = sum(sizes.values()) // MAX_PAGES
        kept = {key: page for key, page in distinct.items() if sizes[key] > limit}
        small = {key: page for key, page in distinct.items() if sizes[key] <= limit}
    place = {key: (number, 0) for number, key in enumerate(kept)}
    united = list(kept.values())
    start = 0
    for key in small:
        place[key] = (len(kept), start)
        start += sizes[key]
    if small:
        united.append(References.merge(list(small.values())))
    if not united:
        united.append(References.missing())
    nothing = (0, 0)
    return tuple(united), [[place.get(id(page), nothing) for page in pages] for pages in groups]


def _distinct(cases: tuple[Case, ...], matrices: Sequence[IntArray]) -> tuple[Case, ...]:
    """Drop repeated parameter rows of cases that were just joined."""
    result: list[Case] = []
    for number, case in enumerate(cases):
        if len(case.rows) > 1:
            rows, inverse = unique_rows(case.rows)
            for matrix in matrices:
                mine = matrix[:, CASE] == number
                matrix[mine, ROW] = inverse[matrix[mine, ROW]]
            case = Case(case.encoding, rows)
        result.append(case)
    return tuple(result)
