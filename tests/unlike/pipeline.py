"""Filter pipelines: put filters on a dataset, and encode one chunk with some of them skipped."""

from __future__ import annotations

from typing import Any

import h5py
import hdf5plugin
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

from tests.unlike.specs import Filter, VariableSpec

LZF = 32000
PLUGINS = {
    "zstd": hdf5plugin.Zstd(),
    "blosc": hdf5plugin.Blosc(cname="zstd", shuffle=hdf5plugin.Blosc.BITSHUFFLE),
    "blosc2": hdf5plugin.Blosc2(),
    "lz4": hdf5plugin.LZ4(nbytes=40),
    "bitshuffle": hdf5plugin.Bitshuffle(cname="lz4"),
    "bzip2": hdf5plugin.BZip2(),
    "zfp": hdf5plugin.Zfp(reversible=True),
}


def available(name: str) -> bool:
    """Whether this HDF5 can write the filter."""
    codes = {
        "gzip": h5z.FILTER_DEFLATE,
        "shuffle": h5z.FILTER_SHUFFLE,
        "fletcher32": h5z.FILTER_FLETCHER32,
        "szip": h5z.FILTER_SZIP,
        "lzf": LZF,
        "scaleoffset": h5z.FILTER_SCALEOFFSET,
        "nbit": h5z.FILTER_NBIT,
        **{plugin: made.filter_id for plugin, made in PLUGINS.items()},
    }
    if not h5z.filter_avail(codes[name]):
        return False
    return bool(h5z.get_filter_info(codes[name]) & h5z.FILTER_CONFIG_ENCODE_ENABLED)


def add_filter(properties: Any, item: Filter, dtype: np.dtype[Any]) -> None:
    """Append one filter to a dataset creation property list, at the end of its pipeline."""
    match item.name:
        case "gzip":
            properties.set_deflate(*(item.options or (4,)))
        case "shuffle":
            properties.set_shuffle()
        case "fletcher32":
            properties.set_fletcher32()
        case "szip":
            properties.set_szip(h5z.SZIP_NN_OPTION_MASK, *(item.options or (4,)))
        case "lzf":
            properties.set_filter(LZF, h5z.FLAG_OPTIONAL, ())
        case "scaleoffset":
            if dtype.kind == "f":
                properties.set_scaleoffset(h5z.SO_FLOAT_DSCALE, *(item.options or (2,)))
            else:
                properties.set_scaleoffset(h5z.SO_INT, *(item.options or (0,)))
        case "nbit":
            properties.set_filter(h5z.FILTER_NBIT, h5z.FLAG_OPTIONAL, ())
        case plugin:
            made = PLUGINS[plugin]
            properties.set_filter(made.filter_id, h5z.FLAG_OPTIONAL, made.filter_options)


def file_type(var: VariableSpec) -> Any:
    """The HDF5 type of the elements in the file; narrower than its size where `precision` says."""
    kind = h5t.py_create(var.dtype)
    if var.precision is not None:
        kind = kind.copy()
        kind.set_precision(var.precision)
    return kind


def encoded_chunk(var: VariableSpec, window: np.ndarray, mask: int) -> tuple[bytes, int]:
    """The bytes of one chunk of `var` under a filter mask, and the mask to store with it.

    Bit i of a mask says that filter i was skipped. `window` holds the elements inside the dataset;
    a chunk at the edge is filled up with zeros. HDF5 itself applies the filters that are left, to a
    dataset of one chunk in memory; those it skips on its own (a stream that grew) join the mask.
    """
    assert var.chunks is not None
    left = [i for i in range(len(var.filters)) if not mask >> i & 1]
    whole = np.zeros(var.chunks, dtype=var.dtype)
    whole[tuple(slice(n) for n in window.shape)] = window
    if not left:
        return whole.tobytes(), mask
    with h5py.File.in_memory() as memory:
        properties = h5p.create(h5p.DATASET_CREATE)
        properties.set_chunk(var.chunks)
        for i in left:
            add_filter(properties, var.filters[i], var.dtype)
        space = h5s.create_simple(var.chunks)
        created = h5d.create(memory.id, b"chunk", file_type(var), space, dcpl=properties)
        dataset = h5py.Dataset(created)
        dataset[...] = whole
        memory.flush()
        skipped, encoded = dataset.id.read_direct_chunk((0,) * len(var.chunks))
    for place, i in enumerate(left):
        mask |= (skipped >> place & 1) << i
    return bytes(encoded), mask
