"""Arrays laid out in a file chunk by chunk, and random chains of operations on them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from intarsia.array import VirtualArray
from intarsia.encoding import Codec, Encoding
from intarsia.grid import grid_shape
from intarsia.references import References, Sources


def lay_out(
    path: Path,
    values: np.ndarray,
    chunks: Sequence[int] | None,
    *,
    form: str = "dense",
    absent: Sequence[int] = (),
    zlevel: int | None = None,
    fill: Any = 0,
) -> tuple[VirtualArray, np.ndarray]:
    """Write `values` and refer to them; also returns what must be read back."""
    expected = values.copy()
    filters = () if zlevel is None else (Codec.make("zlib"),)
    encoding = Encoding(filters, values.dtype)
    parameters = np.zeros((), encoding.parameters)
    parameters["raw_fill"] = fill
    if form == "contiguous":
        assert chunks is not None
        path.write_bytes(b"head" + values.tobytes())
        references = References.contiguous(4, values.nbytes)
    elif form == "inline":
        path.write_bytes(b"")
        chunks = tuple(max(n, 1) for n in values.shape)
        references = References.inlined(values.tobytes())
    elif form == "missing":
        path.write_bytes(b"")
        expected[...] = fill
        references = References.missing()
    else:
        assert chunks is not None
        grid = grid_shape(values.shape, chunks)
        offsets, lengths, present = [], [], []
        data = bytearray(b"head")
        for number, index in enumerate(product(*map(range, grid))):
            box = tuple(
                slice(i * c, min((i + 1) * c, n))
                for i, c, n in zip(index, chunks, values.shape, strict=True)
            )
            if number in absent:
                expected[box] = fill
                offsets.append(0), lengths.append(0), present.append(False)
                continue
            block = np.full(chunks, 77, values.dtype)
            block[tuple(slice(0, s.stop - s.start) for s in box)] = values[box]
            raw = block.tobytes() if zlevel is None else zlib.compress(block.tobytes(), zlevel)
            offsets.append(len(data)), lengths.append(len(raw)), present.append(True)
            data += raw + b"gap" * (number % 3)
        path.write_bytes(bytes(data))
        off, size = np.array(offsets, np.uint64), np.array(lengths, np.uint64)
        here = np.array(present, bool)
        if form == "sparse":
            references = References.sparse(np.flatnonzero(here), off[here], size[here])
        else:
            references = References.dense(off, size, present=here)
    assert chunks is not None
    array = VirtualArray.from_source(
        Sources.of_file(path), 0, values.shape, chunks, encoding, parameters, references, name="v"
    )
    return array, expected


@dataclass
class Step:
    """An operation that works alike on NumPy and virtual arrays."""

    text: str
    run: Callable[[Any], Any]

    def __repr__(self) -> str:
        return self.text


@st.composite
def steps(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """One operation that fits an array of this shape."""
    names = ["index", "expand", "cast"]
    if shape:
        names += ["transpose", "flip", "concat", "stack", "take", "index", "index"]
    if 1 in shape:
        names += ["broadcast", "squeeze"]
    name = draw(st.sampled_from(names))
    if name == "index":
        key: list[Any] = []
        for size in shape:
            if size and draw(st.integers(0, 5)) == 0:
                key.append(draw(st.integers(-size, size - 1)))
            else:
                step = draw(st.sampled_from([1, 1, 2, 3, 5, -1, -1, -2, -3, -7]))
                bound = st.none() | st.integers(-size - 1, size + 1)
                key.append(slice(draw(bound), draw(bound), step))
        chosen = tuple(key)
        return Step(f"[{chosen}]", lambda a: a[(*chosen, ...)])
    if name == "expand":
        axis = draw(st.integers(0, len(shape)))
        return Step(f"expand({axis})", lambda a: np.expand_dims(a, axis))
    if name == "cast":
        dtype = draw(st.sampled_from(["f8", "i8", "f4"]))
        return Step(f"cast({dtype})", lambda a: a.astype(dtype))
    if name == "transpose":
        order = tuple(draw(st.permutations(range(len(shape)))))
        return Step(f"transpose({order})", lambda a: np.transpose(a, order))
    if name == "flip":
        axis = draw(st.integers(0, len(shape) - 1))
        return Step(f"flip({axis})", lambda a: np.flip(a, axis))
    if name == "concat":
        axis = draw(st.integers(0, len(shape) - 1))
        return Step(f"concat({axis})", lambda a: np.concatenate([a, np.flip(a, axis)], axis))
    if name == "stack":
        axis = draw(st.integers(0, len(shape)))
        return Step(f"stack({axis})", lambda a: np.stack([a, np.zeros_like(a)], axis))
    if name == "take":
        axis = draw(st.integers(0, len(shape) - 1))
        size = shape[axis]
        index = st.integers(-size, max(size - 1, -size))
        indices = draw(st.lists(index, max_size=6 if size else 0))
        before = (slice(None),) * axis
        return Step(f"take({axis}, {indices})", lambda a: a[(*before, indices, ...)])
    if name == "squeeze":
        axis = shape.index(1)
        return Step(f"squeeze({axis})", lambda a: np.squeeze(a, axis))
    axis = shape.index(1)
    wide = (*shape[:axis], draw(st.integers(0, 3)), *shape[axis + 1 :])
    return Step(f"broadcast({wide})", lambda a: np.broadcast_to(a, wide))
