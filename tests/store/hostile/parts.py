"""Damages of the other objects: as disks and copies damage them, and as one who means it does."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import numpy as np
from numcodecs import blosc

from intarsia.store.compression import checksum
from intarsia.store.objects import ROOT
from tests.store.hostile import zips
from tests.store.hostile.basics import (
    INTEGERS,
    Damaged,
    Objects,
    at,
    found_in,
    inner_chunks,
    sealed,
)
from tests.store.hostile.roots import table

# -- the other objects -----------------------------------------------------------------------------


def part(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Objects that are damaged as disks and copies damage them."""
    names = sorted(name for name in objects if name != ROOT)
    parts = [name for name in names if "/c/" in f"/{name}"] or names
    name = draw.choice(parts if draw.random() < 0.85 else names)
    data = bytearray(objects[name])
    begin = draw.randrange(len(data)) if data else 0
    length = draw.choice([1, 4, 8, 16, 100])
    special: dict[str, tuple[str, ...]] = {}
    kind = draw.choice(
        ["truncate", "flip", "flip", "zeros", "swap objects", "swap ranges", "swap ranges", "empty",
         "another", "other", "extended", "removed", "bytes", "link out", "link in", "fifo",
         "folder", "all removed"]
    )  # fmt: skip
    match kind:
        case "truncate":
            data = data[:begin]
        case "flip":
            data[begin] ^= 1 << draw.randrange(8)
        case "zeros":
            data[begin : begin + length] = bytes(len(data[begin : begin + length]))
        case "bytes":
            data[begin : begin + length] = draw.randbytes(len(data[begin : begin + length]))
        case "swap objects":
            like = [n for n in parts if n != name and len(objects[n]) == len(data)] or parts
            to = draw.choice(like)
            objects[name], objects[to] = objects[to], objects[name]
            return Damaged("part: swap objects", False, objects)
        case "swap ranges":
            data = bytearray(_ranges_swapped(draw, bytes(data)))
        case "empty":
            data = bytearray()
        case "another":
            data = bytearray(objects[draw.choice(parts)])
        case "other":
            data = bytearray(other[draw.choice(sorted(other))])
        case "extended":
            data += draw.randbytes(length)
        case "removed":
            del objects[name]
            return Damaged("part: removed", False, objects)
        case "all removed":
            return Damaged("part: all removed", False, {ROOT: objects[ROOT]})
        case "link out":
            special[name] = ("link", draw.choice(["../../secret", "/dev/zero", "/etc/passwd"]))
        case "link in":
            special[name] = ("link", name.rpartition("/")[2])  # to itself
        case "fifo":
            special[name] = ("fifo",)
        case _:
            special[name] = ("folder",)
    if special:
        del objects[name]
    else:
        objects[name] = bytes(data)
    return Damaged(f"part: {kind}", False, objects, special)


def _ranges_swapped(draw: random.Random, data: bytes) -> bytes:
    """Two pieces of the same length in each other's place; whole inner chunks, where there are."""
    pieces = inner_chunks(data)
    pairs = [
        (a, b)
        for number, a in enumerate(pieces)
        for b in pieces[number + 1 :]
        if a[1] == b[1] and data[a[0] : sum(a)] != data[b[0] : sum(b)]
    ]
    if pairs and draw.random() < 0.8:
        (one, length), (two, _) = draw.choice(pairs)
    else:
        length = min(8, len(data) // 2)
        one = draw.randrange(max(len(data) // 2 - length, 0) + 1)
        two = draw.randrange(len(data) // 2, len(data) - length + 1)
    changed = bytearray(data)
    changed[one : one + length] = data[two : two + length]
    changed[two : two + length] = data[one : one + length]
    return bytes(changed)


# -- content, with the checksums made right --------------------------------------------------------


def content(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Another content of a chunk of values, keys or parameters, which all checksums agree with."""
    document = json.loads(objects[ROOT])
    arrays = [at(document, path) for path in found_in(document, "array", "objects")]
    told = draw.choice(
        [array for array in arrays if isinstance(array["array"], str) and array["objects"]]
    )
    number = draw.randrange(len(told["objects"]))
    prefix = f"{told['array']}/c"
    names = sorted(
        (name for name in objects if name == prefix or name.startswith(f"{prefix}/")),
        key=lambda name: [int(n) for n in name[len(prefix) + 1 :].split("/") if n],
    )
    name = names[number]
    packed = objects[name]
    if draw.random() < 0.3:
        kind = "packed"
        changed = _scrambled(draw, packed, header=draw.random() < 0.5)
    else:
        kind = "content"
        data = bytes(blosc.decompress(packed)) if int.from_bytes(packed[4:8], "little") else b""
        changed = bytes(
            blosc.compress(
                _scrambled(draw, data) or b"\0",
                draw.choice([b"zstd"] * 6 + [b"lz4", b"zlib", b"blosclz"]),
                draw.randrange(10),
                draw.choice([0, 1, 2]),
                0,
                draw.choice([1, 4, 8, 255]),
            )
        )
    objects[name] = changed
    told["objects"][number] = [len(changed), checksum(changed)]
    objects[ROOT] = sealed(document)
    return Damaged(f"values: {kind}", True, objects)


def _scrambled(draw: random.Random, data: bytes, *, header: bool = False) -> bytes:
    """Bytes with some of them changed; of the first 16 only, on request."""
    changed = bytearray(data)
    reach = min(len(changed), 16) if header else len(changed)
    for _ in range(draw.choice([1, 1, 2, 8])):
        if not reach:
            return draw.randbytes(8)
        place = draw.randrange(reach)
        match draw.randrange(7):
            case 0 | 1:
                changed[place] ^= 1 << draw.randrange(8)
            case 2:
                changed[place] = draw.choice([0, 255, 128, 127])
            case 3:
                place &= ~7
                extreme = draw.choice([n for n in INTEGERS if -(1 << 63) <= n < 1 << 63])
                changed[place : place + 8] = extreme.to_bytes(8, "little", signed=True)
            case 4:
                extreme = draw.choice([n for n in INTEGERS if 0 <= n < 1 << 32])
                changed[place : place + 4] = extreme.to_bytes(4, "little")
            case 5:
                text = draw.choice(["../", "/etc/passwd\0", "\0\0", "file:", "\\", "C:"]).encode()
                changed[place : place + len(text)] = text
            case _:
                del changed[place : place + draw.choice([1, 4, 8])]
        reach = min(reach, len(changed))
    return bytes(changed)


def shard(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    """Another content of a table, which all checksums agree with."""
    document = json.loads(objects[ROOT])
    tables = [at(document, path) for path in found_in(document, "array", "shards")]
    if not tables:
        return table(draw, objects, other)
    told = draw.choice(tables)
    number = draw.randrange(len(told["shards"]))
    name = f"{told['array']}/c/0/{number}"
    shard = Shard.of(objects[name])
    kind = draw.choice(["numbers", "numbers", "numbers", "packed", "index", "order"])
    match kind:
        case "index":
            place = draw.randrange(shard.index.size)
            extreme = draw.choice([n for n in INTEGERS if 0 <= n < 1 << 64])
            shard.index.reshape(-1)[place] = extreme
        case "order":
            one, two = draw.sample(range(len(shard.chunks)), 2) if len(shard.chunks) > 1 else (0, 0)
            shard.chunks[one], shard.chunks[two] = shard.chunks[two], shard.chunks[one]
        case _:
            place = draw.randrange(len(shard.chunks))
            data = shard.chunks[place]
            if kind == "packed":
                shard.chunks[place] = _scrambled(draw, data, header=draw.random() < 0.5)
            else:
                raw = np.frombuffer(blosc.decompress(data), "<i8").copy()
                for _ in range(draw.choice([1, 1, 3, 50])):
                    where = draw.randrange(len(raw))
                    choices = [n for n in INTEGERS if -(1 << 63) <= n < 1 << 63]
                    raw[where] = draw.choice([draw.choice(choices), draw.randrange(-3, 90)])
                shard.chunks[place] = bytes(blosc.compress(raw.tobytes(), b"zstd", 5, 1, 0, 8))
    data, crc = shard.packed(fix=kind != "index")
    objects[name] = data
    told["shards"][number] = [len(data), crc]
    objects[ROOT] = sealed(document)
    return Damaged(f"table content: {kind}", True, objects)


@dataclass
class Shard:
    """The inner chunks of a shard, without their checksums, and the index."""

    chunks: list[bytes]
    index: np.ndarray

    @classmethod
    def of(cls, data: bytes) -> Shard:
        pieces = inner_chunks(data)
        chunks = [data[offset : offset + length - 4] for offset, length in pieces]
        count = (len(data) - sum(length for _, length in pieces) - 4) // 20
        return cls(chunks, np.frombuffer(data[-count * 16 - 4 : -4], "<u8").copy())

    def packed(self, *, fix: bool) -> tuple[bytes, int]:
        """The bytes, and the checksum that the root has to have; the index is made to fit."""
        parts = [chunk + checksum(chunk).to_bytes(4, "little") for chunk in self.chunks]
        sums = np.zeros(len(self.index) // 2, "<u4")
        used = np.flatnonzero(self.index[1::2] != np.iinfo(np.uint64).max)
        place = 0
        for number, part in zip(used.tolist(), parts, strict=False):
            sums[number] = int.from_bytes(part[-4:], "little")
            if fix:
                self.index[2 * number : 2 * number + 2] = place, len(part)
                place += len(part)
        index = self.index.tobytes()
        end = sums.tobytes() + index
        data = b"".join([*parts, end, checksum(index).to_bytes(4, "little")])
        return data, checksum(end)


# -- zip files -------------------------------------------------------------------------------------


def zipped_file(draw: random.Random, objects: Objects, other: Objects) -> Damaged:
    kind, raw = zips.damaged(draw, zips.packed(objects))
    return Damaged(f"zip: {kind}", False, objects, raw=raw)
