"""LZF streams, as HDF5's lzf filter writes them: how long they are, and what they hold.

A token is a run of literals (control byte below 32: that many and one more), or a match of 3 to 8
bytes, or of 9 and more with the rest of the length in a second byte, and an offset.
"""

from __future__ import annotations

from intarsia.errors import CorruptChunk, WrongLength

__all__ = ["lzf_length", "unlzf"]

_STEPS = tuple([n + 2 for n in range(32)] + [2] * 192 + [3] * 32)
_MAKES = tuple([n + 1 for n in range(32)] + [(n >> 5) + 2 for n in range(32, 256)])


def lzf_length(chunk: memoryview) -> int:
    """Bytes that a stream decompresses to, or -1 where its last token is cut short."""
    data = bytes(chunk)
    end, position, length = len(data), 0, 0
    steps, makes = _STEPS, _MAKES
    while position < end:
        control = data[position]
        if control >= 224:
            if position + 1 >= end:
                return -1
            length += data[position + 1]
        length += makes[control]
        position += steps[control]
    return length if position == end else -1


def unlzf(chunk: memoryview, most: int) -> bytes:
    """Decompress a stream.

    Parameters
    ----------
    chunk
        The stream, of type ``B``.
    most
        Bytes that it may decompress to.

    Raises
    ------
    WrongLength
        If the stream is cut short, or holds more.
    CorruptChunk
        If it refers to what is before its beginning.
    """
    length = lzf_length(chunk)
    if not 0 <= length <= most:
        raise WrongLength(f"the lzf stream of {len(chunk)} bytes holds {length}, at most {most}")
    data, out = bytes(chunk), bytearray()
    position = 0
    while position < len(data):
        control = data[position]
        position += 1
        if control < 32:
            out += data[position : position + control + 1]
            position += control + 1
            continue
        count = (control >> 5) + 2
        if control >= 224:
            count += data[position]
            position += 1
        back = (control & 31) << 8 | data[position]
        position += 1
        begin = len(out) - back - 1
        if begin < 0:
            raise CorruptChunk("the lzf stream refers to what is before its beginning")
        # a match may reach into what it makes: then it repeats
        piece = bytes(out[begin : begin + count])
        out += (piece * (count // len(piece) + 1))[:count]
    return bytes(out)
