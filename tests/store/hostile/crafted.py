"""Stores made by someone who means it: bombs, loops, and ways out. Each by its name."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from tests.store.hostile import bombs, ways_out  # noqa: F401  they register
from tests.store.hostile.crafting import QUICK, REGISTERED, made

__all__ = ["CRAFTED", "LIGHT", "made", "prepare"]

CRAFTED = dict(sorted(REGISTERED.items(), key=lambda item: item[1].seconds > QUICK))
"""All of them; first those that take no time."""

LIGHT = sum(crafted.seconds <= QUICK for crafted in CRAFTED.values())
"""How many these are."""


def prepare(home: Path) -> None:
    """Files that these stores refer to."""
    inside = home / "in"
    (inside / "one.bin").write_bytes(b"\1\0" * 8)
    with (inside / "sparse.bin").open("wb") as file:
        file.truncate(1 << 40)
    (inside / "stream.bin").write_bytes(zlib.compress(bytes(60_000)).ljust(1 << 16, b"\0"))
    data = struct.pack("<IB", 0, 8) + b"\0" * 16
    (inside / "scaleoffset.bin").write_bytes(data.ljust(1 << 16, b"\0"))
    if not (inside / "pipe").exists():
        os.mkfifo(inside / "pipe")
