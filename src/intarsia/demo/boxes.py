"""The segments of a virtual array as boxes that can be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from intarsia.array import VirtualArray
from intarsia.segments import CASE, SOURCE


@dataclass(frozen=True, slots=True)
class Box:
    """One segment, in the plane of time and longitude.

    Parameters
    ----------
    file
        Number of its file; None where the values come from no file.
    encoding
        Number of its encoding.
    days, columns
        (first, stop) along each.
    day_edges, column_edges
        Where its chunks meet, within the box.
    """

    file: int | None
    encoding: int
    days: tuple[int, int]
    columns: tuple[int, int]
    day_edges: tuple[int, ...]
    column_edges: tuple[int, ...]


def boxes_of(array: VirtualArray, paths: Sequence[Path]) -> tuple[Box, ...]:
    """Find the segments of an array of dimensions (time, lat, lon).

    Parameters
    ----------
    array
        What to look at; nothing of it is read.
    paths
        The files, for their numbers.
    """
    held = array.segments
    number = {str(path.absolute()): index for index, path in enumerate(paths)}
    found: list[Box] = []
    for block in held.blocks:
        fields = block.fields
        for row in block.matrix():
            source = int(row[SOURCE])
            file = None if source < 0 else number.get(held.sources.url(source))
            low, size = row[fields.start], row[fields.shape]
            edges: dict[int, tuple[int, ...]] = {}
            for axis, first, step, chunk in zip(
                row[fields.axis], row[fields.first], row[fields.step], row[fields.chunk],
                strict=True,
            ):  # fmt: skip
                if axis >= 0 and step != 0:
                    inner = _edges(int(first), int(step), int(size[axis]), int(chunk))
                    edges[int(axis)] = tuple(int(low[axis]) + edge for edge in inner)
            found.append(
                Box(
                    file,
                    int(row[CASE]),
                    (int(low[0]), int(low[0] + size[0])),
                    (int(low[2]), int(low[2] + size[2])),
                    edges.get(0, ()),
                    edges.get(2, ()),
                )
            )
    return tuple(sorted(found, key=lambda box: (box.columns, box.days)))


def _edges(first: int, step: int, count: int, chunk: int) -> Iterator[int]:
    """Positions at which a run of source indices enters another chunk."""
    chunks = (first + step * np.arange(count)) // chunk
    yield from (int(edge) for edge in np.flatnonzero(np.diff(chunks)) + 1)
