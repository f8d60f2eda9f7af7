"""The arrays of the test vectors whose chunks went through filters of HDF5 (make_vectors.py)."""

from __future__ import annotations

import numpy as np
from vector_blocks import (
    BITSHUFFLE,
    FLETCHER,
    WINDOW,
    Part,
    array,
    case_of,
    chunk,
    raw,
    shuffle,
    switch,
)

STEPS = (np.arange(48) // 7).reshape(6, 8)
"""What the chunks below hold, more or less. They were written by HDF5 2.0."""

HDF5 = {
    "lzf": (
        "<i4",
        STEPS,
        "0300100800000400000000002000",
        [[2, 1, [4], "shuffle"], [32000, 1, [4, 261, 192], "lzf"], [3, 0, [], "fletcher32"]],
        None,
        "0100006000000180000002800000038000000480000005800000066000602de0800001000080c86339",
    ),
    "szip": (
        ">i2",
        STEPS * STEPS,
        "0300100900000200000000001000",
        [[4, 1, [177, 8, 16, 8], "szip"]],
        None,
        "60000000080007220003f0c40013c01c400278001e40021803e0080066003f00",
    ),
    "nbit": (
        ">i4",
        STEPS - 3,
        "0300100900000400000004000c00",
        [[5, 0, [8, 0, 48, 1, 4, 1, 12, 4], "nbit"]],
        None,
        "ffdffdffdffdffdffdffdffeffeffeffeffeffeffefffffffffffffffffffff00000000000000000"
        "000000100100100100100100100200200200200200200200300300300300300300",
    ),
    "scaleoffset": (
        "<i4",
        STEPS + 1000,
        "0300100800000400000000002000",
        [[6, 1, [2, 0, 48, 0, 4, 1, 0, 1, 7] + [0] * 11, "scaleoffset"]],
        "07000000",
        "0300000008e80300000000000000000000000000000000012492524924db6db924925b6db76db600",
    ),
}


def hdf5(name: str) -> dict[str, bytes]:
    """A chunk of which only the HDF5 library, or who does as it does, knows the filters."""
    stored, values, datatype, pipeline, fill, data = HDF5[name]
    dtype = np.dtype(stored)
    codec = {
        "name": "intarsia.hdf5",
        "configuration": {
            "pipeline": pipeline,
            "datatype": datatype,
            "chunk_shape": [6, 8],
            "fill": fill,
        },
    }
    endian = "big" if stored[0] == ">" else "little"
    case = case_of(dtype.name, WINDOW, raw(endian), codec, parameters=[("raw_fill", stored)])
    row = b"\0" * dtype.itemsize
    part = Part(case, row, bytes.fromhex(data), 48, 0, (8, 1))
    return array(values.astype(dtype.name), (6, 8), switch(case), {"0/0": chunk(part)})


ODD = np.arange(54).reshape(6, 9) * 3
"""What is no whole number of bitshuffle's blocks, nor of the elements whose bits go together."""

COMPRESSED = {
    "zstd": (
        STEPS.astype("<i4"),
        [shuffle(4), {"name": "numcodecs.zstd"}],
        "28b52ffd20c0c50000480000010203040506000810000c9276980d1937d8880b0b",
    ),
    "blosc": (
        STEPS.astype("<i4"),
        [{"name": "numcodecs.blosc"}],
        "02013104c0000000c0000000410000001400000029000000120001001201010012020100120301001204010012"
        "05010011060100022f000f020072500000000000",
    ),
    "bzip2": (
        STEPS.astype("<i4"),
        [{"name": "numcodecs.bz2"}],
        "425a683931415926535951d0f89d000001e0007f0000402000310c081bd520f5171a3670e962a65244f6244f8b"
        "b9229c284828e87c4e80",
    ),
    "lz4": (
        STEPS.astype("<i4"),
        [{"name": "intarsia.hdf5-lz4"}, FLETCHER],
        "00000000000000c000000050000000141f000100081f010400081e020400500002000000000000185f02000000"
        "030400081f040400081a05040050000500000000000011400500000004001e06040050000600000031c7af44",
    ),
    "bitshuffle": (
        ODD.astype(">i2"),
        [{"name": BITSHUFFLE, "configuration": {"elementsize": 2, "blocksize": 32}}],
        "0000000000000000000000000000000000000000000000000000000000000000aaaaaaaa66666666b4b4b4b438"
        "c738c7c0073ff800f83f000000c0ff0000000000000000000000000000000000000000aaaa6666b4b438c7c007"
        "ff07ff0700f80090009300960099009c009f",
    ),
    "bitshuffle-lz4": (
        ODD.astype(">i2"),
        [{"name": BITSHUFFLE, "configuration": {"elementsize": 2, "compressor": "lz4"}}],
        "000000000000006c00000040000000271f0001000cf011aaaaaaaa66666666b4b4b4b438c738c7c0073ff800f8"
        "3f000000c0ff00000000000000161b000100f001aaaa6666b4b438c7c007ff07ff0700f8009000930096009900"
        "9c009f",
    ),
    "bitshuffle-zstd": (
        ODD.astype(">i2"),
        [{"name": BITSHUFFLE, "configuration": {"elementsize": 2, "compressor": "zstd"}}],
        "000000000000006c000000400000003228b52ffd20404d010024020000aaaaaaaa66666666b4b4b4b438c738c7"
        "c0073ff800f83f000000c0ff00000000010022c0020000002128b52ffd2020c50000900000aaaa6666b4b438c7"
        "c007ff07ff0700f8010032c0020090009300960099009c009f",
    ),
}
"""Stored elements, filters, and a chunk that HDF5's plug-ins wrote."""


def compressed(name: str) -> dict[str, bytes]:
    """A chunk that went through a plug-in filter of HDF5 for which there is a codec."""
    stored, filters, data = COMPRESSED[name]
    endian = "big" if stored.dtype.str[0] == ">" else "little"
    fields = [("raw_fill", stored.dtype.str)]
    case = case_of(stored.dtype.name, WINDOW, raw(endian), *filters, parameters=fields)
    row = b"\0" * stored.dtype.itemsize
    part = Part(case, row, bytes.fromhex(data), stored.size, 0, (stored.shape[1], 1))
    shape = stored.shape
    return array(stored.astype(stored.dtype.name), shape, switch(case), {"0/0": chunk(part)})
