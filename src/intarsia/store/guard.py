"""What plain Zarr readers find in a store: groups, and virtual arrays that they have to refuse.

To a reader that does not know of references, a virtual array has no chunks, and a chunk that is not
there is the fill value: it would read fill, silently. So the ``zarr.json`` of a virtual array names
a way to find chunks, `KEYS`, that no library knows. It is sound Zarr v3 in everything else. Of all
that can be unknown in such a document, the ``chunk_key_encoding`` alone is looked at by every
reader on every way to the array (`tests/readers` tries them): ``storage_transformers`` and unknown
fields are passed over by some.

Nothing may ever be registered under that name, here or elsewhere. A group must not have
consolidated metadata either: with it, one array that is refused makes all of the group unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from intarsia.store.zarrays import FILLS, data_type

__all__ = ["KEYS", "REFUSAL", "group_metadata", "guard_metadata"]

KEYS = "intarsia.manifest"
"""Name of the chunk key encoding that is not there."""

REFUSAL = (
    "The values of this array are in other files, and this document refuses all who would not look "
    "there. Read them with Intarsia: intarsia.open_dataset(path), with the path of the whole store."
)
"""What a human finds who looks why an array can't be opened: its attribute ``intarsia``."""


def guard_metadata(
    shape: Sequence[int],
    dtype: np.dtype[Any],
    dims: Sequence[str | None],
    attrs: Mapping[str, Any],
) -> dict[str, Any]:
    """The ``zarr.json`` of a virtual array.

    Parameters
    ----------
    shape, dtype, dims
        Of the array.
    attrs
        Its attributes, as JSON. One of the name ``intarsia`` gives way to `REFUSAL`.

    Raises
    ------
    ValueError
        If Zarr has no such type.

    Examples
    --------
    >>> guard_metadata([4], np.dtype("int16"), ["time"], {})["chunk_key_encoding"]
    {'name': 'intarsia.manifest'}
    """
    stored = {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type(dtype),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [max(size, 1) for size in shape]},
        },
        "chunk_key_encoding": {"name": KEYS},
        "fill_value": _missing(dtype),
        "codecs": [stored if dtype.itemsize > 1 else {"name": "bytes"}],
        "attributes": {"intarsia": REFUSAL, **{k: v for k, v in attrs.items() if k != "intarsia"}},
        "dimension_names": list(dims),
    }


def _missing(dtype: np.dtype[Any]) -> Any:
    """The fill value that would do least harm if it were read after all."""
    return {"f": "NaN", "c": ["NaN", "NaN"]}.get(dtype.kind, FILLS.get(dtype.kind))


def group_metadata(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The ``zarr.json`` of a group, without consolidated metadata.

    Parameters
    ----------
    attrs
        Its attributes, as JSON.
    """
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attrs)}
