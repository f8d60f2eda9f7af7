"""The chunk grid that Zarr readers are shown: chosen, not inherited."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """A presented grid, and what it costs.

    Parameters
    ----------
    chunks
        Chunk shape; for a rectilinear grid, the lengths of the chunks along each dimension.
    amplification
        Bytes decoded when every cell is read once, over the bytes of the touched source chunks.
    max_parts
        The most parts that a cell is made of.
    cells
        Number of cells.
    """

    chunks: tuple[int, ...] | tuple[tuple[int, ...], ...]
    amplification: float
    max_parts: int
    cells: int
