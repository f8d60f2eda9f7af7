"""Segments: rectangular pieces of source arrays, placed in a whole, as columns.

A virtual array is tiled by disjoint boxes. Each box is a *segment*: where it lies in the whole, and
a window into a source array (for each source dimension: which dimension of the whole it runs along,
where it starts, and by which step; or a fixed position). Slicing, flipping, transposing,
broadcasting and concatenating change these integers and never touch references.

Segments with equally many source dimensions form one `Block`: an integer matrix with one row per
segment, kept column by column in narrow types once it is long.
"""

from intarsia.segments.blocks import (
    CASE,
    COUNT,
    FORM,
    HEAD,
    PACK_FROM,
    PAGE,
    REF,
    ROW,
    SOURCE,
    Block,
    Fields,
)
from intarsia.segments.joining import MAX_PAGES
from intarsia.segments.whole import Segments

__all__ = [
    "CASE",
    "COUNT",
    "FORM",
    "HEAD",
    "MAX_PAGES",
    "PACK_FROM",
    "PAGE",
    "REF",
    "ROW",
    "SOURCE",
    "Block",
    "Fields",
    "Segments",
]
