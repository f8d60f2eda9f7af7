"""Make the test vectors of spec/vectors: arrays, cases and refusals, byte for byte the same ever.

Run as ``.venv/bin/python tools/make_vectors.py`` (or with another folder to write to). It knows the
specification and NumPy, and nothing of Intarsia: headers are packed, keys are hashed and values are
computed here anew, so that both can be held against each other (tests/codecs/test_vectors.py).
"""

from __future__ import annotations

import copy
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vector_arrays import ARRAYS
from vector_blocks import (
    BITSHUFFLE,
    FLETCHER,
    WINDOW,
    ZLIB,
    Part,
    canonical,
    case_of,
    cf,
    chunk,
    key_of,
    raw,
    shuffle,
    step,
)
from vector_filters import compressed, hdf5

SPEC = Path(__file__).resolve().parents[1] / "spec" / "vectors"

SNAPPY = [[32001, 0, [2, 2, 4, 192, 5, 1, 3], "blosc"]]
PLAIN = case_of("uint8", WINDOW, raw(None), parameters=[("raw_fill", "|u1")])
PACKED = case_of(
    "int16",
    cf(
        step("mask", data_type="float32", fills=1, value="nan"),
        step("scale", data_type="float32", scale=True, offset=True),
    ),
    WINDOW,
    raw("big"),
    shuffle(2),
    ZLIB,
    FLETCHER,
    parameters=[
        ("raw_fill", ">i2"),
        ("fill_0", "<f4"),
        ("scale", "<f8"),
        ("offset", "<f8"),
    ],
)


def cases() -> dict[str, Any]:
    """Cases with their canonical text and key; and what is refused as a case, and why."""
    found: dict[str, Any] = {key_of(case): case for case in (PLAIN, PACKED)}
    for make in ARRAYS.values():
        found |= {key_of(case): case for case in _cases_of(make())}
    accepted = [
        {"case": case, "canonical": canonical(case), "key": key}
        for key, case in sorted(found.items())
    ]
    return {"accepted": accepted, "refused": list(_refused_cases())}


def _refused_cases() -> Iterator[dict[str, Any]]:
    mask = ("codecs", 0, "configuration", "steps", 0, "configuration")
    scale = ("codecs", 0, "configuration", "steps", 1, "configuration")
    edits: list[tuple[str, tuple[Any, ...], Any]] = [
        ("a type that cases don't have", ("data_type",), "complex256"),
        ("a float", ("data_type",), 0.5),
        ("an unknown entry", ("more",), 1),
        ("no window", ("codecs", 1), ...),
        ("a window with parameters", ("codecs", 1, "configuration"), {}),
        ("no byte order", ("codecs", 2, "configuration"), ...),
        ("an unknown byte order", ("codecs", 2, "configuration", "endian"), "middle"),
        (
            "another byte order than the raw fill's",
            ("codecs", 2, "configuration", "endian"),
            "little",
        ),
        ("elements of no bytes", ("codecs", 3, "configuration", "elementsize"), 0),
        ("a compression level", ("codecs", 4, "configuration"), {"level": 1}),
        ("an empty configuration", ("codecs", 4, "configuration"), {}),
        ("an unknown filter", ("codecs", 5, "name"), "numcodecs.pickle"),
        ("an unknown step", ("codecs", 0, "configuration", "steps", 0, "name"), "eval"),
        ("no steps", ("codecs", 0, "configuration", "steps"), []),
        ("fills that are not there", (*mask, "fills"), 2),
        ("a mask by another value", (*mask, "value"), "inf"),
        ("a mask of integers", (*mask, "data_type"), "int32"),
        ("a parameter that no step needs", (*scale, "offset"), False),
        ("a number for a boolean", (*scale, "scale"), 1),
        ("a factor that an integer can't be multiplied by", (*scale, "data_type"), "int32"),
        ("the raw fill of another type", ("parameters", 0, 1), "<i2"),
        ("a parameter of objects", ("parameters", 1, 1), "|O"),
        ("a type in another spelling", ("parameters", 1, 1), "float32"),
    ]
    for why, path, value in edits:
        yield {"why": why, "case": _edited(PACKED, path, value)}
    yield {
        "why": "a byte order where there is none",
        "case": _edited(PLAIN, ("codecs", 1, "configuration"), {"endian": "little"}),
    }
    (lzf,) = _cases_of(hdf5("lzf"))
    inner = ("codecs", 2, "configuration")
    compound = "0300160200000800000078000000"
    for why, name, value in (
        ("a HDF5 filter that is not known", "pipeline", [[32013, 0, [], "zfp"]]),
        ("too many parameters of a HDF5 filter", "pipeline", [[32000, 0, [1, 2, 3, 4], ""]]),
        ("blosc by a compressor that has to be asked for", "pipeline", SNAPPY),
        ("szip after zstd", "pipeline", [[32015, 0, [], ""], [4, 0, [4, 8, 32, 48], ""]]),
        ("szip after lzf", "pipeline", [[32000, 0, [], ""], [4, 0, [4, 8, 32, 48], ""]]),
        ("a HDF5 datatype that is no number", "datatype", compound),
        ("HDF5 chunks without elements", "chunk_shape", [6, 0]),
        ("a HDF5 chunk of more than 4 GiB", "chunk_shape", [1 << 20, 1 << 20]),
        ("a fill that no filter depends on", "fill", "00000000"),
    ):
        yield {"why": why, "case": _edited(lzf, (*inner, name), value)}
    (bits,) = _cases_of(compressed("bitshuffle"))
    for why, configuration in (
        ("bitshuffle without a configuration", ...),
        ("bitshuffle that is told nothing of its blocks", {"elementsize": 2}),
        ("bitshuffle that is told twice", {"elementsize": 2, "blocksize": 8, "compressor": "lz4"}),
        ("bitshuffle by another compressor", {"elementsize": 2, "compressor": "zlib"}),
        ("bitshuffle by no compressor", {"elementsize": 2, "compressor": None}),
        ("bitshuffle of odd blocks", {"elementsize": 2, "blocksize": 12}),
        ("bitshuffle of elements of no bytes", {"elementsize": 0, "compressor": "lz4"}),
    ):
        yield {"why": why, "case": _edited(bits, inner, configuration)}
    for name in ("numcodecs.zstd", "numcodecs.blosc", "numcodecs.bz2", "intarsia.hdf5-lz4"):
        codec = {"name": name, "configuration": {"level": 1}}
        yield {"why": f"{name} with a level", "case": _edited(bits, ("codecs", 2), codec)}
    for name in ("numcodecs.lz4", BITSHUFFLE.removeprefix("intarsia.")):
        yield {
            "why": f"{name}, which is no codec",
            "case": _edited(bits, (*inner[:-1], "name"), name),
        }
    both = copy.deepcopy(lzf)
    both["codecs"].append(ZLIB)
    yield {"why": "intarsia.hdf5 beside other filters", "case": both}


def _cases_of(files: dict[str, bytes]) -> list[Any]:
    codecs = json.loads(files["zarr.json"])["codecs"]
    return [c for codec in codecs for c in codec.get("configuration", {}).get("cases", {}).values()]


def _edited(case: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A case with one thing replaced, or (...) left out."""
    case = copy.deepcopy(case)
    place = case
    for name in path[:-1]:
        place = place[name]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return case


# -- chunks that are refused -----------------------------------------------------------------------


def chunks() -> dict[str, Any]:
    """Chunks of two dimensions that are refused, and why; and one of each form that is not."""
    data = bytes(range(24))
    short = chunk(Part(PLAIN, b"\7", data, 24, 0, (6, 1)))
    halves = [
        Part(PLAIN, b"\7", data[:12], 12, 0, (6, 1), box=((0, 0), (2, 6))),
        Part(PLAIN, b"\7", data[12:], 12, 0, (6, 1), box=((2, 0), (2, 6))),
    ]
    full = chunk(*halves)
    constant = chunk(Part(PLAIN, b"\7"))
    return {
        "cases": {key_of(PLAIN): PLAIN},
        "data_type": "uint8",
        "shape": [4, 6],
        "fill_value": 0,
        "accepted": [
            {"chunk": short.hex(), "values": data.hex()},
            {"chunk": full.hex(), "values": data.hex()},
            {"chunk": constant.hex(), "values": "07" * 24},
            {"chunk": chunk(halves[1]).hex(), "values": "00" * 12 + data[12:].hex()},
        ],
        "refused": [
            {"why": why, "chunk": wrong.hex()} for why, wrong in _refused(short, full, constant)
        ],
    }


def _refused(short: bytes, full: bytes, constant: bytes) -> Iterator[tuple[str, bytes]]:
    yield "no bytes", b""
    yield "cut short within the head", short[:15]
    yield "cut short within the header", full[:60]
    yield "cut short within the parts", full[:-1]
    yield "bytes after the last part", full + b"\0"
    yield "another magic", b"ISW\2" + short[4:]
    yield "bytes after a constant", constant + b"\0"
    for why, number in (("too many parts", 1 << 20), ("more parts than fit", 3)):
        yield why, full[:4] + struct.pack("<I", number) + full[8:]
    for size in (0, len(full) - 24 - 1, len(full) - 24 + 1, 1 << 40, (1 << 64) - 1):
        yield f"a header of {size} bytes", full[:8] + struct.pack("<Q", size) + full[16:]
    # offsets of fields in a record, of which the second one begins at 16 + 88
    fields = {
        "key": (0, "<Q"),
        "mask": (8, "<I"),
        "state": (12, "<I"),
        "elements": (16, "<q"),
        "begin": (24, "<q"),
        "stride": (32, "<q"),
        "start": (48, "<q"),
        "count": (64, "<q"),
        "bytes": (80, "<q"),
    }
    far = [1 << 62, (1 << 63) - 1, -(1 << 63), -1]
    values = {
        "key": [0],
        "state": [2, (1 << 32) - 1],
        "elements": [0, 6, *far],
        "begin": [1, 12, *far],
        "stride": [-6, 7, *far],
        "start": [1, 3, *far],
        "count": [0, 3, *far],
        "bytes": [0, 11, 13, *far],
    }
    for name, numbers in values.items():
        offset, form = fields[name]
        for number in numbers:
            data = bytearray(full)
            struct.pack_into(form, data, 16 + 88 + offset, number)
            yield f"a second part with the {name} {number}", bytes(data)
            if offset < 48 and number != 6:
                data = bytearray(short)
                struct.pack_into(form, data, 16 + offset, number)
                yield f"a covering part with the {name} {number}", bytes(data)
    for name in ("mask", "elements", "begin", "stride"):
        offset, form = fields[name]
        data = bytearray(constant)
        struct.pack_into(form, data, 16 + offset, 1)
        yield f"a constant with the {name} 1", bytes(data)
    data = bytearray(full)
    struct.pack_into("<q", data, 16 + 88 + 48, 0)
    yield "parts that overlap", bytes(data)
    one = full[:4] + struct.pack("<IQ", 1, 16 + 88 + 1) + full[16 : 16 + 88] + b"\7"
    data = bytearray(one + bytes(24))
    struct.pack_into("<qq", data, 16 + 16, 24, 0)
    struct.pack_into("<qqq", data, 16 + 64, 4, 6, 24)
    yield "one part that covers the chunk in the long form", bytes(data)


def files() -> Iterator[tuple[str, bytes]]:
    """All files but the README, by name."""
    for name, make in ARRAYS.items():
        for key, data in make().items():
            yield f"arrays/{name}/{key}", data
    yield "cases.json", (json.dumps(cases(), indent=1, sort_keys=True) + "\n").encode()
    yield "chunks.json", (json.dumps(chunks(), indent=1) + "\n").encode()


def main(folder: Path) -> None:
    """Write them."""
    for name, data in files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SPEC)
