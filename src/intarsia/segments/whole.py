"""Segments: the boxes that tile an array, and what they refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Case, Codec, Encoding
from intarsia.grid import strip_shape
from intarsia.references import (
    AFFINE,
    INLINE,
    MISSING,
    NO_SOURCES,
    References,
    Sources,
)
from intarsia.segments.blocks import SOURCE, Block, Fields
from intarsia.segments.joining import Joiner
from intarsia.segments.selecting import cut, pick, pieces

type IntArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Disjoint boxes that tile an array, and what they refer to.

    Parameters
    ----------
    shape
        Shape of the whole.
    blocks
        The boxes. Together they cover the whole exactly once.
    cases
        Encodings and parameter rows that the boxes point into.
    pages
        Tables of references that the boxes point into.
    sources
        Table of sources that the boxes point into.
    """

    shape: tuple[int, ...]
    blocks: tuple[Block, ...]
    cases: tuple[Case, ...]
    pages: tuple[References, ...]
    sources: Sources

    @classmethod
    def of_source(
        cls,
        sources: Sources,
        source: int,
        shape: Sequence[int],
        chunks: Sequence[int],
        case: Case,
        references: References,
    ) -> Segments:
        """One segment that covers a whole source array."""
        shape = tuple(int(size) for size in shape)
        if any(chunk < 1 for chunk in chunks) or len(chunks) != len(shape):
            raise ValueError(f"chunk shape {tuple(chunks)} does not fit shape {shape}")
        count = len(shape)
        row = [0, 0, source, 0, 0, len(references), references.form, *[0] * count, *shape]
        row += [*range(count), *[0] * count, *[1] * count, *shape, *chunks]
        blocks: tuple[Block, ...] = ()
        if prod(shape):
            blocks = (Block(Fields(count, count), np.array([row], np.int64)),)
        return cls(shape, blocks, (case,), (references,), sources)

    @classmethod
    def full(cls, shape: Sequence[int], value: Any, dtype: npt.DTypeLike) -> Segments:
        """One segment of a constant."""
        encoding = Encoding((), np.dtype(dtype))
        rows = np.zeros(1, encoding.parameters)
        rows["raw_fill"] = value
        shape = tuple(int(size) for size in shape)
        count = len(shape)
        row = [0, 0, -1, 0, 0, 0, MISSING, *[0] * count, *shape]
        blocks = (Block(Fields(count, 0), np.array([row], np.int64)),) if prod(shape) else ()
        return cls(shape, blocks, (Case(encoding, rows),), (References.missing(),), NO_SOURCES)

    @classmethod
    def inline(cls, values: npt.NDArray[Any]) -> Segments:
        """One segment whose bytes are kept in the table of references."""
        encoding = Encoding((), values.dtype)
        data = np.ascontiguousarray(values).tobytes()
        references = References(
            np.zeros(1, np.uint8),
            np.array([len(data)], np.uint64),
            states=np.array([INLINE], np.uint8),
            inline=data,
            form=AFFINE,
        )
        chunks = strip_shape(values.shape, values.dtype.itemsize)
        case = Case(encoding, np.zeros(1, encoding.parameters))
        return cls.of_source(NO_SOURCES, -1, values.shape, chunks, case, references)

    # -- what they are ---------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Dimensions of the whole."""
        return len(self.shape)

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def nbytes(self) -> int:
        """Bytes of segment and reference columns (parameters and sources apart)."""
        return sum(block.nbytes for block in self.blocks) + sum(page.nbytes for page in self.pages)

    @property
    def parameter_nbytes(self) -> int:
        """Bytes of the parameter rows."""
        return sum(case.rows.nbytes for case in self.cases)

    # -- operations ------------------------------------------------------------------------------

    def _with(self, shape: Sequence[int], blocks: Sequence[Block]) -> Segments:
        kept = tuple(block for block in blocks if len(block))
        return Segments(tuple(shape), kept, self.cases, self.pages, self.sources)

    def select(self, keys: Sequence[slice | int]) -> Segments:
        """Numpy basic indexing: one slice (any step) or non-negative integer per dimension."""
        windows: list[tuple[int, int, int]] = []
        dropped: list[int] = []
        for axis, key in enumerate(keys):
            if isinstance(key, slice):
                indices = range(*key.indices(self.shape[axis]))
                windows.append((indices.start, indices.step, len(indices)))
            else:
                windows.append((key, 1, 1))
                dropped.append(axis)
        kept = [axis for axis in range(self.ndim) if axis not in dropped]
        shape = tuple(windows[axis][2] for axis in kept)
        if 0 in shape:
            return self._with(shape, ())
        changed = [
            axis for axis, window in enumerate(windows) if window != (0, 1, self.shape[axis])
        ]
        blocks = [cut(block, windows, changed, kept) for block in self.blocks]
        return self._with(shape, blocks)

    def take(self, axis: int, runs: Sequence[tuple[int, int, int]]) -> Segments:
        """Runs (start, step, count) of indices along a dimension, one after the other.

        A step of 0 repeats an index. All indices lie inside.
        """
        table = np.array(runs, np.int64).reshape(-1, 3)
        table = table[table[:, 2] > 0]
        shape = (*self.shape[:axis], int(table[:, 2].sum()), *self.shape[axis + 1 :])
        if 0 in shape:
            return self._with(shape, ())
        return self._with(shape, [pieces(block, axis, table) for block in self.blocks])

    def points(self, indices: Mapping[int, IntArray], place: int) -> Segments:
        """Points, as by NumPy's advanced indexing along some dimensions.

        Parameters
        ----------
        indices
            For each dimension that is indexed, non-negative indices; all of the same shape, with at
            least one dimension.
        place
            How many of the other dimensions come before those of the indices.
        """
        new = next(iter(indices.values())).shape
        kept = [size for axis, size in enumerate(self.shape) if axis not in indices]
        shape = (*kept[:place], *new, *kept[place:])
        if 0 in shape:
            return self._with(shape, ())
        flat = {axis: where.reshape(-1).astype(np.int64) for axis, where in indices.items()}
        return self._with(shape, [pick(block, flat, new, place) for block in self.blocks])

    def transpose(self, axes: Sequence[int]) -> Segments:
        """Dimension ``j`` of the result is dimension ``axes[j]``."""
        number = {old: new for new, old in enumerate(axes)}
        lookup = np.array([number[axis] for axis in range(self.ndim)] + [-1], np.int64)
        blocks: list[Block] = []
        for block in self.blocks:
            fields, matrix = block.fields, block.matrix().copy()
            matrix[:, fields.start] = matrix[:, fields.start][:, list(axes)]
            matrix[:, fields.shape] = matrix[:, fields.shape][:, list(axes)]
            matrix[:, fields.axis] = lookup[matrix[:, fields.axis]]
            blocks.append(Block.of(fields, matrix))
        return self._with([self.shape[axis] for axis in axes], blocks)

    def insert(self, axis: int, size: int = 1) -> Segments:
        """A new dimension at `axis`, along which everything is repeated."""
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        if size == 0:
            return self._with(shape, ())
        blocks: list[Block] = []
        for block in self.blocks:
            old, matrix = block.fields, block.matrix()
            fields = Fields(old.ndim + 1, old.source_ndim)
            matrix = np.insert(matrix, [old.start.start + axis, old.shape.start + axis], 0, axis=1)
            matrix[:, fields.shape.start + axis] = size
            axes = matrix[:, fields.axis]
            axes[axes >= axis] += 1
            blocks.append(Block.of(fields, matrix))
        return self._with(shape, blocks)

    def repeat(self, axis: int, size: int) -> Segments:
        """Repeat a dimension of length one `size` times, without copying."""
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        if size == 0:
            return self._with(shape, ())
        blocks: list[Block] = []
        for block in self.blocks:
            fields, matrix = block.fields, block.matrix().copy()
            matrix[:, fields.shape.start + axis] = size
            along = matrix[:, fields.axis] == axis
            matrix[:, fields.axis][along] = -1
            matrix[:, fields.step][along] = 0
            blocks.append(Block.of(fields, matrix))
        return self._with(shape, blocks)

    def cast(self, dtype: np.dtype[Any]) -> Segments:
        """Every value followed by ``astype(dtype)``."""
        if all(case.encoding.dtype == dtype for case in self.cases):
            return self
        cases = tuple(Case(case.encoding.cast(dtype), case.rows) for case in self.cases)
        return Segments(self.shape, self.blocks, cases, self.pages, self.sources)

    def extend(self, steps: Sequence[Codec], parameters: dict[str, np.generic]) -> Segments:
        """Every value followed by `steps`, whose parameters are the same everywhere."""
        dtypes = {name: value.dtype for name, value in parameters.items()}
        cases: list[Case] = []
        for case in self.cases:
            encoding = case.encoding.extend(steps, dtypes)
            rows = np.empty(len(case.rows), encoding.parameters)
            for name in case.encoding.parameters.names or ():
                rows[name] = case.rows[name]
            for name, value in parameters.items():
                rows[name] = value
            cases.append(Case(encoding, rows))
        return Segments(self.shape, self.blocks, tuple(cases), self.pages, self.sources)

    def renumbered(self, sources: Sources, numbers: IntArray) -> Segments:
        """The same segments, pointing into another table of sources by new numbers."""
        blocks: list[Block] = []
        for block in self.blocks:
            matrix = block.matrix().copy()
            old = matrix[:, SOURCE]
            matrix[:, SOURCE] = np.where(old < 0, -1, np.append(numbers, -1)[old])
            blocks.append(Block.of(block.fields, matrix))
        return Segments(self.shape, tuple(blocks), self.cases, self.pages, sources)

    @staticmethod
    def concatenate(parts: Sequence[Segments], axis: int) -> Segments:
        """Join along a dimension. Boxes move; references and their bytes stay as they are."""
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        lengths = [part.shape[axis] for part in parts]
        shape[axis] = sum(lengths)
        # a part without boxes refers to nothing
        offsets = np.cumsum([0, *lengths[:-1]])
        chosen = [number for number, part in enumerate(parts) if part.blocks]
        if not chosen:
            return Segments(tuple(shape), (), parts[0].cases, parts[0].pages, parts[0].sources)
        used = [parts[number] for number in chosen]
        joiner = Joiner(used, offsets[chosen], axis)
        return Segments(tuple(shape), joiner.blocks, joiner.cases, joiner.pages, joiner.sources)
