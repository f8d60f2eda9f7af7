"""Variables as arrays that Zarr readers are shown: metadata, and the bytes of chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from intarsia.array import VirtualArray
from intarsia.array.blocks import digest
from intarsia.codecs.chunks import MAX_PARTS
from intarsia.encoding import Encoding
from intarsia.errors import IntarsiaError, StoreError
from intarsia.store.cells import Cells
from intarsia.store.grid import Grid, choose, measure, rectilinear
from intarsia.store.nodes import Variable
from intarsia.store.pages import used_cases
from intarsia.store.plain import with_own
from intarsia.store.shown import virtual_metadata
from intarsia.store.values import plain
from intarsia.store.zarrays import FILLS, chunk_shape, encode_values, metadata

type Json = dict[str, Any]


class Shown(Protocol):
    """An array as it is shown."""

    def metadata(self) -> Json:
        """Its metadata document."""
        ...

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of its chunks along each dimension."""
        ...

    def size(self, index: tuple[int, ...]) -> int:
        """Bytes of a chunk."""
        ...

    def read(self, index: tuple[int, ...], begin: int, end: int | None) -> bytes | bytearray:
        """Bytes of a chunk, clipped to those there are."""
        ...

    def token(self) -> str:
        """The same for arrays whose chunks hold the same."""
        ...


class ShownVirtual:
    """A virtual variable as it is shown.

    Parameters
    ----------
    variable, name
        The variable, and its name for errors.
    attrs
        Its attributes.
    grid
        The grid that was asked for; None for the one that was chosen.
    encodings
        Gives the encodings where they are known without the segments.
    """

    def __init__(
        self,
        variable: Variable,
        name: str,
        attrs: Json,
        grid: Sequence[int] | str | None,
        encodings: Callable[[], Sequence[Encoding]] | None,
    ) -> None:
        assert isinstance(variable.data, VirtualArray)
        self._variable = variable
        self._data = variable.data
        self._name = name
        self._attrs = attrs
        self._asked = grid
        self._encodings = encodings

    @cached_property
    def grid(self) -> Grid:
        """The grid, and what it costs."""
        asked = self._asked
        if asked is None:
            return self._variable.grid or choose(self._data.segments)
        try:
            if not isinstance(asked, str):
                grid = measure(self._data.segments, asked)
                if grid.max_parts > MAX_PARTS:
                    raise ValueError(
                        f"cells of shape {grid.chunks} would be made of up to {grid.max_parts} "
                        f"parts, and can be of {MAX_PARTS}"
                    )
                return grid
            if asked != "rectilinear":
                raise ValueError(f"a grid is a chunk shape or 'rectilinear', not {asked!r}")
            return rectilinear(self._data.segments)
        except (ValueError, TypeError) as error:
            if isinstance(error, IntarsiaError):
                raise
            raise StoreError(str(error), array=self._name) from error

    @property
    def is_rectilinear(self) -> bool:
        """Whether the grid is not regular."""
        if self._asked is None and self._variable.grid is None:
            return False  # those that are chosen are
        return any(not isinstance(edge, int) for edge in self.grid.chunks)

    def metadata(self) -> Json:
        """Its metadata document."""
        if self._encodings is None:
            segments = self._data.segments
            encodings = [segments.cases[number].encoding for number in used_cases(segments)]
        else:
            encodings = list(self._encodings())
        try:
            return virtual_metadata(self._variable, self.grid, encodings, self._attrs)
        except IntarsiaError as error:
            raise error.located(array=self._name) from error.__cause__

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of its chunks along each dimension."""
        return tuple(
            -(-size // edge) if isinstance(edge, int) else len(edge)
            for size, edge in zip(self._variable.shape, self.grid.chunks, strict=True)
        )

    @cached_property
    def _cells(self) -> Cells:
        return Cells(self._data.segments, self.grid.chunks, self._name)

    def size(self, index: tuple[int, ...]) -> int:
        """Bytes of a chunk; no source is read."""
        return self._cells.cell(index).nbytes

    def read(self, index: tuple[int, ...], begin: int, end: int | None) -> bytes | bytearray:
        """Bytes of a chunk, clipped to those there are."""
        return self._cells.read(index, begin, end)

    def token(self) -> str:
        """The same for arrays whose chunks hold the same."""
        return digest(self._data.segments, self._data.dtype)


class ShownCopy:
    """A variable in memory as it is shown: as an array of codecs that any reader has.

    Parameters
    ----------
    variable, name
        The variable, and its name for errors.
    attributes
        Gives its attributes, for the type it is shown with.
    """

    def __init__(
        self, variable: Variable, name: str, attributes: Callable[[np.dtype[Any]], Json]
    ) -> None:
        assert not isinstance(variable.data, VirtualArray)
        try:
            kept = plain(variable.data)
        except IntarsiaError as error:
            raise error.located(array=name) from error.__cause__
        self._values: npt.NDArray[Any] = kept.array
        self._dtype = None if kept.array.dtype.kind == "O" else kept.array.dtype
        itemsize = 32 if self._dtype is None else max(self._dtype.itemsize, 1)
        self._chunks = chunk_shape(kept.array.shape, itemsize)
        self._metadata = metadata(
            kept.array.shape,
            self._chunks,
            self._dtype,
            dims=variable.dims,
            attrs=with_own(attributes(kept.array.dtype), kept.attrs),
        )

    def metadata(self) -> Json:
        """Its metadata document."""
        return self._metadata

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of its chunks along each dimension."""
        return tuple(-(-n // c) for n, c in zip(self._values.shape, self._chunks, strict=True))

    def size(self, index: tuple[int, ...]) -> int:
        """Bytes of a chunk."""
        return len(self._encoded(index))

    def read(self, index: tuple[int, ...], begin: int, end: int | None) -> bytes:
        """Bytes of a chunk, clipped to those there are."""
        return self._encoded(index)[begin:end]

    def token(self) -> str:
        """The same for arrays whose chunks hold the same."""
        strings = self._dtype is None
        held = repr(self._values.tolist()).encode() if strings else self._values.tobytes()
        return sha256(held).hexdigest()

    def _encoded(self, index: tuple[int, ...]) -> bytes:
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, self._chunks, strict=True))
        part = self._values[*box, ...]  # an array also where there are no dimensions
        if part.shape != self._chunks:  # chunks at the edge are whole ones too
            fill = "" if self._dtype is None else FILLS[self._dtype.kind]
            whole = np.full(self._chunks, fill, part.dtype)
            whole[tuple(slice(0, n) for n in part.shape)] = part
            part = whole
        return encode_values(np.asarray(part), self._dtype)
