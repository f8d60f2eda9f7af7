"""Files of this machine by their descriptors."""

from __future__ import annotations

import os

__all__ = ["open_to_read", "read_there"]

# what is no file is not waited for: a pipe, a terminal
_flags = os.O_RDONLY
for _flag in ("O_BINARY", "O_NONBLOCK", "O_NOCTTY"):
    _flags |= getattr(os, _flag, 0)


def open_to_read(path: str) -> int:
    """A descriptor of what is at a path, be it a file or not.

    Raises
    ------
    OSError
        If it can't be opened.
    """
    return os.open(path, _flags)


def read_there(descriptor: int, offset: int, length: int) -> bytes:
    """Bytes of a range; fewer only where the file ends.

    Raises
    ------
    OSError
        If they can't be read.
    """
    parts: list[bytes] = []
    while length and (part := os.pread(descriptor, length, offset)):
        parts.append(part)  # the system may return less than asked for at once
        offset += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
