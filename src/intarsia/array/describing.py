"""What a virtual array is made of, in numbers and words, for people to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Codec, Encoding
from intarsia.errors import shown
from intarsia.lookup import touch_counts
from intarsia.references import MISSING, Sources
from intarsia.segments import CASE, FORM, ROW, SOURCE, Segments

type IntArray = npt.NDArray[Any]

MAX_BARS = 120
"""More segments than this are not drawn one by one."""


@dataclass(frozen=True, slots=True)
class CaseUse:
    """How often an encoding is used.

    Parameters
    ----------
    text
        What is done to the bytes, in the order in which it is done.
    segments
        Segments decoded so.
    parameters
        Distinct sets of parameters among them.
    """

    text: str
    segments: int
    parameters: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of the array on a drawing.

    Parameters
    ----------
    x, y, width, height
        Its place, as fractions of the whole.
    case
        Number among the description's cases; -1 where nothing was ever written.
    label
        Which source, and which indices.
    """

    x: float
    y: float
    width: float
    height: float
    case: int
    label: str


@dataclass(frozen=True, slots=True)
class Description:
    """What a virtual array is made of.

    Parameters
    ----------
    segments, chunks
        Pieces, and the chunks of their sources that they meet.
    reference_nbytes
        Bytes of segment and reference columns.
    sources
        Number of sources that are used.
    first, last
        URLs of the first and the last of them, in order of their table.
    cases
        Encodings that are used, the most frequent first.
    fill
        Segments of which nothing was ever written.
    """

    segments: int
    chunks: int
    reference_nbytes: int
    sources: int
    first: str | None
    last: str | None
    cases: tuple[CaseUse, ...]
    fill: int


def describe(segments: Segments) -> Description:
    """Count what an array is made of; reads nothing."""
    keys = [np.zeros((0, 4), np.int64)]
    chunks = 0
    for block in segments.blocks:
        columns = [block.column(number) for number in (CASE, ROW, SOURCE, FORM)]
        keys.append(np.stack([column.astype(np.int64) for column in columns], axis=1))
        chunks += int(touch_counts(block).sum())
    case, row, source, form = np.concatenate(keys).T
    used = np.unique(source[source >= 0])
    stored = form != MISSING
    cases: list[CaseUse] = []
    for number in _order(segments):
        mine = stored & (case == number)
        text = encoding_text(segments.cases[number].encoding)
        cases.append(CaseUse(text, int(mine.sum()), len(np.unique(row[mine]))))
    return Description(
        segments=len(case),
        chunks=chunks,
        reference_nbytes=segments.nbytes,
        sources=len(used),
        first=shown(segments.sources.url(int(used[0]))) if len(used) else None,
        last=shown(segments.sources.url(int(used[-1]))) if len(used) else None,
        cases=tuple(cases),
        fill=int((~stored).sum()),
    )


def _order(segments: Segments) -> list[int]:
    """Numbers of the cases that stored segments use, the most frequent first."""
    counts = np.zeros(len(segments.cases), np.int64)
    for block in segments.blocks:
        stored = block.column(FORM) != MISSING
        counts += np.bincount(block.column(CASE)[stored], minlength=len(counts))
    return [int(n) for n in np.argsort(-counts, kind="stable") if counts[n]]


def encoding_text(encoding: Encoding) -> str:
    """The way from bytes to values in words.

    Examples
    --------
    >>> encoding_text(Encoding((Codec.make("shuffle"), Codec.make("zlib")), np.dtype(">i2")))
    'zlib → shuffle → int16 (big-endian)'
    """
    parts = [part for codec in reversed(encoding.filters) for part in _filter_texts(codec)]
    stored = encoding.stored
    swapped = stored != stored.newbyteorder("=")
    parts.append(f"{stored.newbyteorder('=')}{' (big-endian)' if swapped else ''}")
    parts += [_step_text(step) for step in encoding.steps]
    if encoding.steps and parts[-1] != str(encoding.dtype):
        parts.append(str(encoding.dtype))
    return " → ".join(parts)


def _filter_texts(codec: Codec) -> Iterator[str]:
    config = codec.config
    if codec.name == "hdf5":
        for _, _, _, name in reversed(config["pipeline"]):
            yield f"{name or 'filter'} (by HDF5)"
    elif codec.name == "zarr":
        for told in reversed(json.loads(config["codecs"])):
            yield f"{told['name']} (by zarr)"
    elif codec.name == "unsupported":
        yield f"can't be read: {config.get('reason')}"
    else:
        yield codec.name


def _step_text(step: Codec) -> str:
    config = step.config
    if step.name == "cast":
        return str(np.dtype(config["dtype"]).newbyteorder("="))
    if step.name == "mask":
        return "mask" if config.get("fills") == 1 else f"mask {config.get('fills')} values"
    if step.name == "scale":
        return " + ".join(name for name in ("scale", "offset") if config.get(name)) or "scale"
    return step.name


def bars(segments: Segments) -> tuple[int, int | None, list[Bar]]:
    """A drawing of the segments along the dimensions in which they lie next to each other.

    Returns
    -------
    across, down
        Dimensions of the drawing; the second is None where all lie in one row.
    bars
        Pieces; empty where there is nothing to see.
    """
    boxes = [np.zeros((0, 3 + 2 * segments.ndim), np.int64)]
    for block in segments.blocks:
        fields = block.fields
        geometry = range(fields.start.start, fields.shape.stop)
        columns = [block.column(number) for number in (CASE, SOURCE, FORM, *geometry)]
        boxes.append(np.stack([column.astype(np.int64) for column in columns], axis=1))
    table = np.concatenate(boxes)
    if len(table) < 2:
        return 0, None, []
    begins = table[:, 3 : 3 + segments.ndim]
    spread = np.array([len(np.unique(begins[:, axis])) for axis in range(segments.ndim)])
    across = int(np.argmax(spread))
    rest = [axis for axis in range(segments.ndim) if axis != across and spread[axis] > 1]
    down = max(rest, key=lambda axis: spread[axis]) if rest else None
    if down is not None and down > across and spread[across] < 2 * spread[down]:
        across, down = down, across  # a map: the later dimension from left to right
    if len(table) > MAX_BARS:  # one row of samples
        order = np.argsort(begins[:, across], kind="stable")
        size = segments.shape[across]
        at = (np.arange(MAX_BARS) + 0.5) * size / MAX_BARS
        rows = order[np.searchsorted(begins[order, across], at, "right") - 1]
        edges = np.linspace(0, 1, MAX_BARS + 1).tolist()
        places = [(edges[n], 0.0, edges[n + 1] - edges[n], 1.0) for n in range(MAX_BARS)]
        down = None
    else:
        rows = np.lexsort(begins.T[::-1])
        places = [_place(segments, row, across, down) for row in table[rows, 3:].tolist()]
    number = {case: n for n, case in enumerate(_order(segments))}
    drawn: list[Bar] = []
    wanted: list[list[int]] = table[rows].tolist()
    for (case, source, form, *geometry), place in zip(wanted, places, strict=True):
        start = geometry[across]
        name = _name(segments.sources, source) if source >= 0 else "no source"
        label = f"{name} [{start}:{start + geometry[segments.ndim + across]}]"
        drawn.append(Bar(*place, -1 if form == MISSING else number[case], label))
    return across, down, drawn


def _name(sources: Sources, number: int) -> str:
    """Of a source in its container, as it may be told."""
    return shown(sources.url(number)).removeprefix(shown(sources.containers[number]))


def _place(
    segments: Segments, row: list[int], across: int, down: int | None
) -> tuple[float, float, float, float]:
    ndim, shape = segments.ndim, segments.shape
    x, width = row[across] / shape[across], row[ndim + across] / shape[across]
    if down is None:
        return x, 0.0, width, 1.0
    return x, row[down] / shape[down], width, row[ndim + down] / shape[down]
