"""What `intarsia.zarr` may be told: a chain of Zarr codecs, and the shape of a chunk."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np

from intarsia.codecs.cases_types import entries, fail
from intarsia.codecs.zarr_names import check_chain
from intarsia.encoding import Codec

__all__ = ["zarr_configuration", "zarr_filter_of"]

MAX_NDIM = 64
MAX_BYTES = (1 << 32) - 1


def zarr_configuration(codec: Codec) -> dict[str, Any]:
    """Write the configuration down.

    Raises
    ------
    ValueError
        If a case may not have the chain.
    """
    config = codec.config
    check_chain(config["codecs"])
    return {"chunk_shape": list(config["shape"]), "codecs": config["codecs"]}


def zarr_filter_of(configuration: Any, stored: np.dtype[Any]) -> Codec:
    """Read a configuration.

    Parameters
    ----------
    configuration
        JSON from anywhere.
    stored
        Type of the elements that the chain gives.

    Raises
    ------
    ValueError
        If it can't be used, saying why.
    """
    config = entries(configuration, "intarsia.zarr", ("chunk_shape", "codecs"))
    shape: Any = config["chunk_shape"]
    if not isinstance(shape, list) or len(cast("list[Any]", shape)) > MAX_NDIM:
        raise fail("chunk_shape", shape, f"a list of at most {MAX_NDIM} lengths")
    lengths = cast("list[Any]", shape)
    if any(type(length) is not int or length < 1 for length in lengths):
        raise fail("chunk_shape", shape, "a list of positive integers")
    if prod(lengths) * stored.itemsize > MAX_BYTES:
        raise fail("chunk_shape", shape, f"a chunk of at most {MAX_BYTES} bytes")
    text: Any = config["codecs"]
    if not isinstance(text, str):
        raise fail("codecs", text, "text")
    check_chain(text)
    return Codec.make("zarr", codecs=text, shape=tuple(lengths), dtype=stored.str)
