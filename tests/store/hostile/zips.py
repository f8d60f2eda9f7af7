"""Zip files as a store writes them, and ways to damage them."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Mapping

EPOCH = (1980, 1, 1, 0, 0, 0)
LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


def packed(objects: Mapping[str, bytes]) -> bytes:
    """A zip file with these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in objects.items():
            info = zipfile.ZipInfo(name.encode("utf-8", "replace").decode(), EPOCH)
            archive.writestr(info, data)
    return file.getvalue()


def _places(data: bytes, mark: bytes) -> list[int]:
    found: list[int] = []
    place = data.find(mark)
    while place >= 0:
        found.append(place)
        place = data.find(mark, place + 1)
    return found


FIELDS = {
    "versions": (4, 8),
    "flags": (8, 10),
    "method": (10, 12),
    "crc": (16, 20),
    "compressed size": (20, 24),
    "size": (24, 28),
    "name length": (28, 30),
    "extra length": (30, 32),
    "comment length": (32, 34),
    "attributes": (38, 42),
    "offset": (42, 46),
    "name": (46, 52),
}
"""Places in an entry of the central directory."""


def damaged(draw: random.Random, data: bytes) -> tuple[str, bytes]:
    """What was done, and the bytes then."""
    changed = bytearray(data)
    entries, locals_ = _places(data, CENTRAL), _places(data, LOCAL)
    end = data.rindex(END)
    kind = draw.choice(
        ["field", "field", "field", "field", "end", "end", "local", "local", "local", "truncate",
         "flip directory", "flip", "prepend", "append", "entry twice", "entry removed", "zip64",
         "comment", "swap entries", "cut"]
    )  # fmt: skip
    extreme = draw.choice([0, 1, 2, 8, 255, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE, 1 << 20])
    match kind:
        case "field":
            field = draw.choice(list(FIELDS))
            low, high = FIELDS[field]
            place = draw.choice(entries)
            _put(draw, changed, place + low, place + high, extreme)
            kind = f"field {field}"
        case "end":
            low = draw.choice([4, 6, 8, 10, 12, 16, 20])
            width = 4 if low in (12, 16) else 2
            _put(draw, changed, end + low, end + low + width, extreme)
        case "local":
            low = draw.choice([0, 6, 8, 14, 18, 22, 26, 28, 30])
            place = draw.choice(locals_)
            _put(draw, changed, place + low, place + low + 2, extreme)
        case "truncate":
            del changed[draw.randrange(len(changed)) :]
        case "cut":
            place = draw.randrange(len(changed))
            del changed[place : place + draw.choice([1, 30, 1000])]
        case "flip directory":
            changed[draw.randrange(entries[0], len(changed))] ^= 1 << draw.randrange(8)
        case "flip":
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        case "prepend":
            changed[:0] = draw.choice([b"x" * 100, data, b"PK\x03\x04"])
        case "append":
            changed += draw.choice([b"x" * 100, data, bytes(70_000), data[end:]])
        case "entry twice" | "entry removed":
            number = draw.randrange(len(entries))
            stop = [*entries, end][number + 1]
            entry = data[entries[number] : stop]
            if kind == "entry twice":
                other = draw.choice(locals_).to_bytes(4, "little")
                entry = entry[:42] + other + entry[46:]
                changed[stop:stop] = entry
                step = 1
            else:
                del changed[entries[number] : stop]
                step = -1
            size = len(entry) * step
            at = changed.rindex(END)
            for low, width, add in ((8, 2, step), (10, 2, step), (12, 4, size)):
                old = int.from_bytes(changed[at + low : at + low + width], "little")
                changed[at + low : at + low + width] = (old + add).to_bytes(width, "little")
        case "swap entries":
            one, two = draw.choice(entries), draw.choice(entries)
            kept = data[one + 42 : one + 46]
            changed[one + 42 : one + 46] = data[two + 42 : two + 46]
            changed[two + 42 : two + 46] = kept
        case "zip64":
            place = draw.choice(entries)
            changed[place + 20 : place + 28] = b"\xff" * 8
        case _:
            changed[end + 20 : end + 22] = (5).to_bytes(2, "little")
            changed += b"hello"
    return kind, bytes(changed)


def _put(draw: random.Random, data: bytearray, low: int, high: int, extreme: int) -> None:
    width = high - low
    if draw.random() < 0.5:
        value = (int.from_bytes(data[low:high], "little") + draw.choice([-1, 1, 16, 256])) % (
            1 << 8 * width
        )
    else:
        value = extreme % (1 << 8 * width)
    data[low:high] = value.to_bytes(width, "little")
