"""What HDF5's groups and headers of datasets name: members, indexes, and where they go on.

The formats are those of the HDF5 File Format Specification, version 3.0, sections II, III and IV.
Addresses and lengths have eight bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["UNDEFINED", "Node", "ObjectNodes", "at_stride", "half_widths"]

UNDEFINED = (1 << 64) - 1

HEADER = 1 << 13
"""Bytes fetched at a header: what belongs to it often lies behind it."""

_SYMBOLS, _LINKS, _LINK, _LAYOUT, _CONTINUED, _ATTRIBUTES = 0x11, 0x02, 0x06, 0x08, 0x10, 0x15
"""Kinds of messages in headers."""


class Node(NamedTuple):
    """Bytes that will be read."""

    address: int
    length: int


class _Heap(NamedTuple):
    """A fractal heap: rows of blocks, which double in size from the third row on."""

    width: int
    first: int
    largest: int
    bits: int

    @property
    def offset_size(self) -> int:
        """Bytes that tell where a block begins."""
        return -(-self.bits // 8)

    def row(self, number: int) -> int:
        """Bytes of a block of a row."""
        return self.first << max(number - 1, 0)


class ObjectNodes:
    """The groups and headers of one file, as far as they have been seen.

    Parameters
    ----------
    superblock
        Of the file.

    Attributes
    ----------
    indexes
        Addresses at which indexes of chunks begin, and how much of them is read at once.
    """

    def __init__(self, superblock: memoryview) -> None:
        self._chunk_k, self._group_k, self._tree_k = half_widths(superblock)
        self.indexes: dict[int, int] = {}
        self._headers: set[int] = set()  # of version 1, which begin with nothing that tells them
        version = superblock[8]
        if version < 2:
            self._headers.update(struct.unpack_from("<Q", superblock, 64 + 4 * version))
        self._continued: dict[int, tuple[int, int]] = {}
        self._heaps: dict[int, _Heap] = {}
        self._of_links: set[int] = set()

    def named(
        self,
        address: int,
        data: memoryview,
        whole: Callable[[int, memoryview, int], memoryview],
        asked: bool,
    ) -> list[Node]:
        """What a node names.

        Parameters
        ----------
        address, data
            Of the node.
        whole
            Gives a node whose length has turned out, of which `data` may be the beginning.
        asked
            Whether it was read by HDF5. Only then the members of a group will be.

        Raises
        ------
        struct.error, IndexError
            It is broken.
        """
        match bytes(data[:4]):
            case b"SNOD":
                (count,) = struct.unpack_from("<H", data, 6)
                headers = at_stride(data[16:], 40, count, HEADER)
                self._headers.update(node.address for node in headers)
                return headers
            case b"FRHP":
                return list(self._heap(address, data))
            case b"FHIB":
                return list(self._rows(data))
            case b"FHDB":
                return list(self._linked(data))
            case b"OHDR":
                flags = data[5]
                at = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
                start = at + (1 << (flags & 3))
                end = start + int.from_bytes(data[at:start], "little")
                return list(self._messages(whole(address, data, end)[start:], 2, flags, asked))
            case _ if address in self._continued:
                version, flags = self._continued[address]
                body = data if version == 1 else data[4:-4]
                return list(self._messages(body, version, flags, asked))
            case _ if address in self._headers and data[0] == 1:
                (size,) = struct.unpack_from("<I", data, 8)
                return list(self._messages(whole(address, data, 16 + size)[16:], 1, 0, asked))
            case _:
                return []

    # -- headers ---------------------------------------------------------------------------------

    def _messages(self, data: memoryview, version: int, flags: int, asked: bool) -> Iterator[Node]:
        at = 0
        head = "<HH" if version == 1 else "<BH"
        skip = 8 if version == 1 else 6 if flags & 4 else 4
        while at + skip <= len(data):
            kind, size = struct.unpack_from(head, data, at)
            message = data[at + skip : at + skip + size]
            at += skip + size
            if kind == _CONTINUED:
                node = Node(*struct.unpack_from("<QQ", message))
                self._continued[node.address] = version, flags
                yield node
            elif kind == _LAYOUT:
                self._layout(message)
            elif kind == _ATTRIBUTES:
                yield from self._dense(message, 2)
            elif kind == _LINKS and asked:
                dense = self._dense(message, 8)
                self._of_links.update(node.address for node in dense[:1])
                yield from dense
            elif kind == _LINK and asked:
                yield from self._link(message)
            elif kind == _SYMBOLS and asked:
                yield Node(struct.unpack_from("<Q", message)[0], 32 + 32 * self._tree_k)

    def _dense(self, message: memoryview, width: int) -> list[Node]:
        """The heap and trees of members that do not stand in the header, if there are any."""
        at = 2 + (width if message[1] & 1 else 0)
        heap, *trees = struct.unpack_from("<QQQ" if message[1] & 2 else "<QQ", message, at)
        return [] if heap == UNDEFINED else [Node(heap, 146), *(Node(tree, 38) for tree in trees)]

    def _link(self, message: memoryview) -> Iterator[Node]:
        """The header that a hard link leads to."""
        _, header = _parsed_link(message)
        if header is not None:
            yield Node(header, HEADER)

    def _layout(self, message: memoryview) -> None:
        """Note where an index of chunks begins."""
        version, kind = message[0], message[1]
        if kind != 2:
            return
        if version == 3:
            rank = message[2]  # that of the array and one more
            (address,) = struct.unpack_from("<Q", message, 3)
            k = self._chunk_k
            length = 24 + 16 * k + (2 * k + 1) * (8 + 8 * rank)
        elif version in (4, 5):
            at = 5 + message[3] * message[4]
            extra = {3: 1, 4: 5, 5: 6}.get(message[at])
            if extra is None:  # a single chunk, or no index at all
                return
            (address,) = struct.unpack_from("<Q", message, at + 1 + extra)
            length = 72
        else:
            return
        if address != UNDEFINED:
            self.indexes[address] = length

    # -- heaps -----------------------------------------------------------------------------------

    def _heap(self, address: int, data: memoryview) -> Iterator[Node]:
        heap = _Heap(*struct.unpack_from("<HQQH", data, 110))
        root, rows = struct.unpack_from("<QH", data, 132)
        (filtered,) = struct.unpack_from("<H", data, 7)
        if root == UNDEFINED or filtered or not heap.first:
            return
        self._heaps[address] = heap
        pointers = heap.width * rows
        yield Node(root, 17 + heap.offset_size + 8 * pointers if rows else heap.first)

    def _rows(self, data: memoryview) -> Iterator[Node]:
        (owner,) = struct.unpack_from("<Q", data, 5)
        heap = self._heaps.get(owner)
        if heap is None:
            return
        at, row = 13 + heap.offset_size, 0
        while heap.row(row) <= heap.largest and at + 8 * heap.width <= len(data):
            yield from at_stride(data[at:], 8, heap.width, heap.row(row))
            at, row = at + 8 * heap.width, row + 1

    def _linked(self, data: memoryview) -> Iterator[Node]:
        """The headers of a group's members, whose links stand one behind the other."""
        (owner,) = struct.unpack_from("<Q", data, 5)
        heap = self._heaps.get(owner)
        if heap is None or owner not in self._of_links:
            return
        at = 13 + heap.offset_size + 4
        while at < len(data) and data[at] == 1:
            size, header = _parsed_link(data[at:])
            at += size
            if header is not None:
                yield Node(header, HEADER)


def _parsed_link(message: memoryview) -> tuple[int, int | None]:
    """How long a link is, and the address that it leads to if it is a hard one."""
    flags = message[1]
    at = 2
    kind = 0
    if flags & 8:
        kind, at = message[at], at + 1
    at += (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
    width = 1 << (flags & 3)
    at += width + int.from_bytes(message[at : at + width], "little")
    if kind == 0:
        return at + 8, struct.unpack_from("<Q", message, at)[0]
    return at + 2 + struct.unpack_from("<H", message, at)[0], None


def half_widths(superblock: memoryview) -> tuple[int, int, int]:
    """Half of the most children, or entries, of three kinds of nodes.

    They are B-trees of chunks of version 1, nodes of a group's members, and B-trees of those.
    Newer superblocks keep them elsewhere, where they are not the usual ones.
    """
    version = superblock[8]
    group, tree = struct.unpack_from("<HH", superblock, 16) if version < 2 else (4, 16)
    (chunk,) = struct.unpack_from("<H", superblock, 24) if version == 1 else (32,)
    return chunk, group, tree


def at_stride(data: memoryview, stride: int, count: int, length: int) -> list[Node]:
    """Nodes of a length whose addresses stand `stride` bytes apart."""
    count = min(count, max(len(data) - 8 + stride, 0) // stride)
    table = np.ndarray((count,), "<u8", data, strides=(stride,))
    return [Node(address, length) for address in table.tolist() if address != UNDEFINED]
