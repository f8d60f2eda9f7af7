"""Boxes of arrays as one array: what a virtual dataset of HDF5 comes to."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from intarsia.array import VirtualArray
from intarsia.encoding import RAW_FILL, Case, Encoding
from intarsia.references import MISSING, NO_SOURCES, References
from intarsia.scan.hdf5.boxes import Boxes
from intarsia.scan.hdf5.layout import Unreferable
from intarsia.scan.hdf5.mosaic import BARE, lay
from intarsia.scan.hdf5.placing import Stored
from intarsia.segments import FORM, SOURCE, Block, Fields, Segments
from intarsia.segments.joining import Joiner


class Laid(NamedTuple):
    """What a mapping comes to: boxes, and the array that they lie in."""

    boxes: Boxes
    array: VirtualArray


def joined(stored: Stored, laid: list[Laid], name: str) -> VirtualArray:
    """One array of everything that is mapped, with the fill value in between."""
    shape = stored.shape
    fill, _ = stored.fill()
    encoding = Encoding.shared((), stored.element.stored)
    rows = np.zeros(1, encoding.parameters)
    rows[RAW_FILL] = fill
    case = Case(encoding, rows)
    pages = (References.missing(),)
    if not prod(shape):
        bare = Segments(shape, (), (case,), pages, NO_SOURCES)
        return VirtualArray(bare, encoding.dtype, name)
    empty = np.zeros((0, len(shape)), np.int64)
    mosaic = lay(
        np.concatenate([empty, *(one.boxes.start for one in laid)]),
        np.concatenate([empty, *(one.boxes.shape for one in laid)]),
        shape,
    )
    bare = mosaic.owner == BARE
    if mosaic.overlapping and bare.any() and fill.tobytes().strip(b"\0"):
        # HDF5 counts what overlaps twice, and may leave as many elements unfilled
        reason = "a virtual dataset of HDF5 whose parts overlap, and leave others unfilled"
        raise Unreferable(reason, readable=False)
    # the first case is the one that tells how the values are stored
    fields = Fields(len(shape), 0)
    matrix = np.zeros((int(bare.sum()), fields.width), np.int64)
    matrix[:, SOURCE], matrix[:, FORM] = -1, MISSING
    matrix[:, fields.start], matrix[:, fields.shape] = mosaic.start[bare], mosaic.shape[bare]
    blocks = (Block.of(fields, matrix),) if len(matrix) else ()
    parts = [Segments(shape, blocks, (case,), pages, NO_SOURCES)]
    order = np.argsort(mosaic.owner, kind="stable")
    owner = mosaic.owner[order]
    ends = np.cumsum([len(one.boxes) for one in laid])
    cuts = np.searchsorted(owner, np.append(0, ends))
    for number, one in enumerate(laid):
        rows = order[cuts[number] : cuts[number + 1]]
        if len(rows):
            own = mosaic.owner[rows] - (ends[number] - len(one.boxes))
            boxes = one.boxes.inner(own, mosaic.start[rows], mosaic.shape[rows])
            parts += _cut(one.array.segments, boxes, shape)
    joiner = Joiner(parts, np.zeros(len(parts), np.int64), 0)
    joined = Segments(shape, joiner.blocks, joiner.cases, joiner.pages, NO_SOURCES)
    return VirtualArray(joined, encoding.dtype, name)


def _cut(segments: Segments, boxes: Boxes, whole: tuple[int, ...]) -> list[Segments]:
    """Boxes of an array, at their places in the whole."""
    if len(segments) == 1 and _is_plain(segments.blocks[0]):
        old, fields = segments.blocks[0].fields, Fields(len(whole), segments.ndim)
        row = segments.blocks[0].matrix()[0]
        matrix = np.empty((len(boxes), fields.width), np.int64)
        matrix[:, :7] = row[:7]
        matrix[:, fields.start], matrix[:, fields.shape] = boxes.start, boxes.shape
        matrix[:, fields.axis], matrix[:, fields.first] = boxes.axis, boxes.first
        matrix[:, fields.step] = boxes.step
        matrix[:, fields.size], matrix[:, fields.chunk] = row[old.size], row[old.chunk]
        return [replace(segments, shape=whole, blocks=(Block.of(fields, matrix),))]
    result: list[Segments] = []
    for number in range(len(boxes)):
        shape, first, step = (part[number] for part in (boxes.shape, boxes.first, boxes.step))
        axis = boxes.axis[number].tolist()
        keys = [
            int(first[n])
            if along < 0
            else slice(
                int(first[n]), int(first[n] + step[n] * (shape[along] - 1) + 1), int(step[n])
            )
            for n, along in enumerate(axis)
        ]
        part = segments.select(keys)
        for n in range(len(whole)):
            if n not in axis:
                part = part.insert(n, int(shape[n]))
        blocks: list[Block] = []
        for block in part.blocks:
            matrix = block.matrix().copy()
            matrix[:, block.fields.start] += boxes.start[number]
            blocks.append(Block.of(block.fields, matrix))
        result.append(replace(part, shape=whole, blocks=tuple(blocks)))
    return result


def _is_plain(block: Block) -> bool:
    """Whether a segment is all of its source, as it is."""
    row, fields = block.matrix()[0], block.fields
    rank = fields.source_ndim
    return (
        fields.ndim == rank
        and row[fields.axis].tolist() == list(range(rank))
        and not row[fields.first].any()
        and bool((row[fields.step] == 1).all())
        and bool((row[fields.shape] == row[fields.size]).all())
    )
