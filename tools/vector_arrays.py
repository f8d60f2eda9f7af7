"""The arrays of the test vectors, made of the specification and NumPy (see make_vectors.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from vector_blocks import (
    FLETCHER,
    WINDOW,
    ZLIB,
    Part,
    array,
    case_of,
    cf,
    checksummed,
    chunk,
    deflated,
    raw,
    shuffle,
    shuffled,
    step,
    switch,
)
from vector_filters import COMPRESSED, HDF5, compressed, hdf5

NAN = float("nan")


def switch_short() -> dict[str, bytes]:
    """One part per chunk; the last chunk reaches over the array's edge, and one is missing."""
    case = case_of("int16", WINDOW, raw("little"), parameters=[("raw_fill", "<i2")])
    values = np.arange(30, dtype="<i2").reshape(5, 6)
    row = b"\x00\x00"
    blocks = {}
    for i, j in ((0, 0), (0, 1), (1, 0)):
        block = np.full((3, 4), -1, "<i2")
        held = values[3 * i : 3 * i + 3, 4 * j : 4 * j + 4]
        block[: held.shape[0], : held.shape[1]] = held
        part = Part(case, row, block.tobytes(), 12, 0, (4, 1))
        blocks[f"{i}/{j}"] = chunk(part)
    values[3:, 4:] = 99
    return array(values, (3, 4), switch(case), blocks, fill=99)


def switch_parts() -> dict[str, bytes]:
    """Unlike parts in one chunk: types, byte orders, filters, a constant; the rest is fill."""
    big = case_of(
        "int16",
        cf(step("cast", data_type="float32")),
        WINDOW,
        raw("big"),
        shuffle(2),
        ZLIB,
        FLETCHER,
        parameters=[("raw_fill", ">i2")],
    )
    plain = case_of("float32", WINDOW, raw("little"), parameters=[("raw_fill", "<f4")])
    bytes_ = case_of(
        "uint8", cf(step("cast", data_type="float32")), WINDOW, raw(None), ZLIB,
        parameters=[("raw_fill", "|u1")],
    )  # fmt: skip
    values = np.full((4, 6), NAN, "<f4")
    one = (np.arange(6).reshape(2, 3) - 300).astype(">i2")
    two = np.arange(4, dtype="<f4").reshape(2, 2) / 8
    three = np.arange(6, dtype="u1") + 250
    values[:2, :3], values[2:, :2], values[3, 3:] = one, two, [250, 251, 252]
    values[:2, 3:] = -9.5
    parts = (
        Part(
            big,
            b"\x80\x00",
            checksummed(deflated(shuffled(one.tobytes(), 2))),
            6,
            0,
            (3, 1),
            box=((0, 0), (2, 3)),
        ),
        Part(plain, np.float32(-9.5).tobytes(), box=((0, 3), (2, 3))),
        Part(plain, b"\0" * 4, two.tobytes(), 4, 0, (2, 1), box=((2, 0), (2, 2))),
        Part(bytes_, b"\x07", deflated(three.tobytes()), 6, 0, (0, 1), box=((3, 3), (1, 3))),
    )
    return array(values, (4, 6), switch(big, plain, bytes_), {"0/0": chunk(*parts)}, fill="NaN")


def switch_packed() -> dict[str, bytes]:
    """One case; each part has its own scale, offset and fills."""
    fields = [("raw_fill", "<i2"), ("fill_0", "<i2"), ("fill_1", "<f4")]
    fields += [("scale", "<f8"), ("offset", "<f4")]
    case = case_of(
        "int16",
        cf(
            step("mask", data_type="float32", fills=2, value="nan"),
            step("scale", data_type="float32", scale=True, offset=True),
        ),
        WINDOW,
        raw("little"),
        parameters=fields,
    )
    packed = np.array([-32768, -1, 0, 1, 2, 3, 999, 32767], "<i2")
    values = np.zeros((4, 8), "<f4")
    parts = []
    rows = [
        (-1, -1, 1e20, 0.01, 273.15),
        (3, 3, 32767.0, 0.1, -0.5),
        (7, 8, 2.0, -1e-3, 0.0),
    ]
    with np.errstate(over="ignore"):
        for number, row in enumerate(rows):
            held = packed.astype("<f4")
            held[(packed == row[1]) | (held == np.float32(row[2]))] = NAN
            held = (held * np.float64(row[3])).astype("f4")
            values[number] = held + np.float32(row[4])
            bits = np.array([row], np.dtype(fields)).tobytes()
            box = ((number, 0), (1, 8))
            parts.append(Part(case, bits, packed.tobytes(), 8, 0, (0, 1), box=box))
    never = np.array([(5, 6, 7.0, 0.5, 100.0)], np.dtype(fields)).tobytes()
    masked = np.array([(5, 5, 7.0, 0.5, 100.0)], np.dtype(fields)).tobytes()
    parts.append(Part(case, never, box=((3, 0), (1, 4))))
    parts.append(Part(case, masked, box=((3, 4), (1, 4))))
    values[3, :4], values[3, 4:] = 102.5, NAN
    return array(values, (4, 8), switch(case), {"0/0": chunk(*parts)}, fill="NaN")


def switch_views() -> dict[str, bytes]:
    """Parts that are flipped, stepped, transposed, broadcast, and fixed along a dimension."""
    case = case_of("int32", WINDOW, raw("little"), parameters=[("raw_fill", "<i4")])
    base = np.arange(24, dtype="<i4").reshape(2, 3, 4)
    views = {
        (0, 0): (base[1, ::-1, ::2], 12 + 8, (-4, 2)),
        (0, 2): (base[0].T[:3, :3], 0, (1, 4)),
        (3, 0): (np.broadcast_to(base[1, 1:, 3:4], (2, 2)), 12 + 4 + 3, (4, 0)),
        (3, 2): (base[:, 2, 3:0:-1], 11, (12, -1)),
    }
    values = np.full((5, 5), 7, "<i4")
    parts = []
    for (i, j), (view, begin, strides) in views.items():
        rows, columns = view.shape
        values[i : i + rows, j : j + columns] = view
        box = ((i, j), view.shape)
        parts.append(Part(case, b"\0" * 4, base.tobytes(), 24, begin, strides, box=box))
    return array(values, (5, 5), switch(case), {"0/0": chunk(*parts)}, fill=7)


def switch_masks() -> dict[str, bytes]:
    """The same two filters, of which each part has skipped other ones."""
    case = case_of(
        "uint16", WINDOW, raw("little"), shuffle(2), ZLIB, parameters=[("raw_fill", "<u2")]
    )
    values = np.arange(1000, 1016, dtype="<u2").reshape(4, 4)
    parts = []
    for mask in range(4):
        data = values[mask].tobytes()
        data = data if mask & 1 else shuffled(data, 2)
        data = data if mask & 2 else deflated(data)
        box = ((mask, 0), (1, 4))
        parts.append(Part(case, b"\0\0", data, 4, 0, (0, 1), mask, box))
    return array(values, (4, 4), switch(case), {"0/0": chunk(*parts)})


def switch_deflate() -> dict[str, bytes]:
    """A stream that is really compressed (with zlib, level 9)."""
    case = case_of("int16", WINDOW, raw("little"), ZLIB, parameters=[("raw_fill", "<i2")])
    values = np.tile(np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], "<i2"), (4, 1))
    data = bytes.fromhex("78da6366606460016256064e0626063620cd0cc41c40923ae20026a000d1")
    return array(
        values,
        (4, 12),
        switch(case),
        {"0/0": chunk(Part(case, b"\0\0", data, 48, 0, (12, 1)))},
    )


def switch_text() -> dict[str, bytes]:
    """Fixed-length text, of one dimension; and no floats where a chunk is constant."""
    data_type = {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}}
    case = case_of(data_type, WINDOW, raw("big"), parameters=[("raw_fill", ">U3")])
    values = np.array(["a", "äöü", "", "xyz", "no", "no"], "<U3")
    first = Part(case, b"\0" * 12, values[:4].astype(">U3").tobytes(), 4, 3, (-1,))
    second = Part(case, np.array(["no"], ">U3").tobytes())
    chunks = {"0": chunk(first, ndim=1), "1": chunk(second, ndim=1)}
    shown = np.concatenate([values[3::-1], values[4:]])
    return array(shown, (4,), switch(case), chunks, data_type=data_type, fill="")


def window_all() -> dict[str, bytes]:
    """All at once: permuted, flipped, stepped, broadcast, with a fixed dimension."""
    base = np.arange(60, dtype="<i4").reshape(3, 4, 5)
    shown = np.broadcast_to(base.transpose(2, 1, 0)[::-1, 3::-2, 1:2], (5, 2, 4))
    codec = {
        "name": "intarsia.window",
        "configuration": {"elements": 60, "begin": 20 + 15 + 4, "strides": [-1, -10, 0]},
    }
    return array(np.array(shown), (5, 2, 4), [codec, raw("little")], {"0/0/0": base.tobytes()})


def window_crop() -> dict[str, bytes]:
    """The corner of a chunk that is stored whole, as HDF5 does at an array's edge."""
    base = np.arange(20, dtype="<f8").reshape(4, 5)
    codec = {
        "name": "intarsia.window",
        "configuration": {"elements": 20, "begin": 6, "strides": [5, 1]},
    }
    shown = np.array(base[1:3, 1:4])
    return array(shown, (2, 3), [codec, raw("little")], {"0/0": base.tobytes()})


def parameter(name: str, value: Any, text: str) -> list[str]:
    return [name, text, np.array([value], text).tobytes().hex()]


def cf_of(data_type: str, steps: list[Any], *parameters: list[str]) -> dict[str, Any]:
    configuration = {"data_type": data_type, "steps": steps, "parameters": list(parameters)}
    return {"name": "intarsia.cf", "configuration": configuration}


def cf_bytes() -> dict[str, bytes]:
    """All values of a byte, unsigned in truth, masked and scaled in single precision."""
    stored = np.arange(256, dtype="u1").view("i1")
    codec = cf_of(
        "int8",
        [
            step("cast", data_type="uint8"),
            step("mask", data_type="float32", fills=1, value="nan"),
            step("scale", data_type="float32", scale=True, offset=True),
        ],
        parameter("raw_fill", -1, "|i1"),
        parameter("fill_0", 255, "|u1"),
        parameter("scale", 0.1, "<f8"),
        parameter("offset", 0.3, "<f4"),
    )
    values = stored.view("u1").astype("f4")
    values[255] = NAN
    values = (values * np.float64(0.1)).astype("f4") + np.float32(0.3)
    return array(values, (256,), [codec, raw(None)], {"0": stored.tobytes()}, fill="NaN")


def cf_doubles() -> dict[str, bytes]:
    """Big-endian shorts; the product is rounded before the sum is."""
    stored = np.arange(-1500, 1500, 3, dtype="i2").reshape(10, 100)
    codec = cf_of(
        "int16",
        [step("scale", data_type="float64", scale=True, offset=True)],
        parameter("raw_fill", 0, "<i2"),
        parameter("scale", 0.01, "<f8"),
        parameter("offset", 280.0, "<f8"),
    )
    values = stored.astype("f8") * 0.01 + 280.0
    data = {"0/0": stored.astype(">i2").tobytes()}
    return array(values, (10, 100), [codec, raw("big")], data)


def cf_tests() -> dict[str, bytes]:
    """Which values are there: a mask, ``isnan`` and ``not``."""
    stored = np.array([5, 6, 7, -5], "<i4")
    steps = [step("mask", data_type="float64", fills=2, value="nan"), step("isnan"), step("not")]
    codec = cf_of(
        "int32",
        steps,
        parameter("raw_fill", 0, "<i4"),
        parameter("fill_0", 6, "<i4"),
        parameter("fill_1", -5.0, "<f4"),
    )
    values = np.array([True, False, True, False])
    return array(values, (4,), [codec, raw("little")], {"0": stored.tobytes()}, fill=False)


ARRAYS = {
    "switch-short": switch_short,
    "switch-parts": switch_parts,
    "switch-packed": switch_packed,
    "switch-views": switch_views,
    "switch-filter-masks": switch_masks,
    "switch-deflate": switch_deflate,
    "switch-text": switch_text,
    "window-crop": window_crop,
    "window-all-at-once": window_all,
    "cf-bytes": cf_bytes,
    "cf-doubles": cf_doubles,
    "cf-tests": cf_tests,
    **{f"filter-{name}": lambda name=name: compressed(name) for name in COMPRESSED},
    **{f"hdf5-{name}": lambda name=name: hdf5(name) for name in HDF5},
}
