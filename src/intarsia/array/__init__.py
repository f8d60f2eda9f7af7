"""Duck arrays that read nothing until their values are asked for.

`VirtualArray` is a set of segments with a dtype: concatenating, stacking, slicing, flipping,
indexing with lists and points, transposing, broadcasting, padding and casting give another one.
Whatever else NumPy is asked to do loads the values first.
"""

from intarsia.array import filling as filling  # registers what works without loading
from intarsia.array import functions as functions
from intarsia.array.base import LazyArray, load_together
from intarsia.array.masks import LazyKey, LazyMask
from intarsia.array.reader import BlockReader
from intarsia.array.virtual import CASTABLE, VirtualArray

__all__ = [
    "CASTABLE",
    "BlockReader",
    "LazyArray",
    "LazyKey",
    "LazyMask",
    "VirtualArray",
    "load_together",
]
