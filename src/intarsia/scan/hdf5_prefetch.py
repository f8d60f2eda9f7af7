"""What HDF5 will read next of a file of the network, told by what it reads now.

HDF5 reads the index of a dataset's chunks node by node, each when the one before it has come. A
node names the next ones, though: all of them are fetched together, and what those name in the same
way. And the header of each dataset tells where its index begins: when the first index is read, all
of them are fetched.

So the index costs a round trip for each level of the deepest one, however many nodes and datasets
there are, and a request for each place that nodes lie in:

==============================  =====================================================
index                           where it lies
==============================  =====================================================
single, implicit, fixed array   in one place
extensible array                in some 60 blocks for 10,000 chunks, 200 for a million
B-tree, version 2               a leaf for some 30 to 60 chunks
B-tree, version 1               a leaf for some 32 to 60 chunks
any, of a file that is paged    in pages, which hold many nodes where they are large
==============================  =====================================================

Nodes are made when the first chunk in them is written, so that they lie between the chunks, as far
apart as the chunks are large. Those less than `intarsia.io.blocks.GAP` apart share requests.

The formats are those of the HDF5 File Format Specification, version 3.0, sections III and IV.A.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from intarsia.io.files import File

__all__ = ["Prefetcher"]

UNDEFINED = (1 << 64) - 1

BUDGET = 1 << 23
"""Most bytes that are fetched before HDF5 asks for the first of them."""


class Node(NamedTuple):
    """Bytes that will be read."""

    address: int
    length: int


class _Tree(NamedTuple):
    """A version 2 B-tree, as far as its nodes have to be known: see `_widths`."""

    node_size: int
    record_size: int


class _Array(NamedTuple):
    """An extensible array."""

    element_size: int
    most_bits: int
    own_elements: int
    least_elements: int
    least_pointers: int
    page_bits: int

    def block(self, super_block: int) -> tuple[int, int, int]:
        """Number, bytes and pages of the data blocks of a super block."""
        elements = self.least_elements << (super_block + 1) // 2
        pages = elements >> self.page_bits if elements > 1 << self.page_bits else 0
        length = 18 + self.offset_size + elements * self.element_size + 4 * pages
        return 1 << super_block // 2, length, pages

    @property
    def offset_size(self) -> int:
        return -(-self.most_bits // 8)


class Prefetcher:
    """Looks at what HDF5 reads of one file, and fetches what it will read next.

    Parameters
    ----------
    file
        That is read.
    base
        Bytes before the superblock, from which addresses are counted.
    """

    def __init__(self, file: File, base: int) -> None:
        self._file = file
        self._base = base
        self._chunk_k, self._group_k = _half_widths(file.read(base, 48))
        self._indexes: dict[int, int] = {}  # that will be read: lengths by address
        self._fetched: set[int] = set()
        self._trees: dict[int, tuple[_Tree, int, int]] = {}  # nodes: depth and number of records
        self._arrays: dict[int, _Array] = {}
        self._supers: dict[int, tuple[_Array, int]] = {}
        self._headers: set[int] = set()
        self._continued: dict[int, tuple[int, int]] = {}

    def look(self, offset: int, data: memoryview) -> None:
        """Look at bytes that HDF5 has asked for."""
        address = offset - self._base
        if address in self._indexes:
            nodes = [Node(*item) for item in self._indexes.items()]
            self._indexes.clear()
            self._fetch(nodes)
        self._fetch(self._children(address, data))

    def _fetch(self, nodes: list[Node]) -> None:
        """Fetch nodes, then those that they name, and so on while they are not too many."""
        nodes = self._new(nodes)
        while nodes:
            self._file.prefetch((self._base + node.address, node.length) for node in nodes)
            if sum(node.length for node in nodes) > BUDGET:
                return  # their children's turn comes when HDF5 asks for them
            size = self._file.source.size - self._base
            inside = [node for node in nodes if node.address + node.length <= size]
            found = [
                (node.address, self._file.read(self._base + node.address, node.length))
                for node in inside
            ]
            nodes = self._new(child for node in found for child in self._children(*node))
            if sum(node.length for node in nodes) > BUDGET:
                self._fetched.difference_update(node.address for node in nodes)
                return

    def _new(self, nodes: Iterable[Node]) -> list[Node]:
        """Those that were not fetched before."""
        new = {node.address: node for node in nodes if node.address not in self._fetched}
        self._fetched.update(new)
        return list(new.values())

    def _children(self, address: int, data: memoryview) -> list[Node]:
        """What a node names; what is none, or broken, names nothing."""
        try:
            if address in self._continued:
                return self._messages(data[4:-4], *self._continued.pop(address))
            match bytes(data[:4]):
                case b"TREE":
                    return self._tree1(data)
                case b"SNOD":
                    return self._symbols(data)
                case b"BTHD":
                    return self._tree2(data)
                case b"BTIN":
                    return list(self._internal(address, data))
                case b"FAHD":
                    return self._fixed(data)
                case b"EAHD":
                    return self._extensible(address, data)
                case b"EAIB":
                    return list(self._index_block(data))
                case b"EASB":
                    return list(self._super_block(address, data))
                case b"OHDR":
                    return self._header2(address, data)
                case _ if address in self._headers:
                    return self._header1(address, data)
                case _:
                    return []
        except (struct.error, IndexError):
            return []  # HDF5 will say what is wrong with it

    # -- B-trees, version 1 ----------------------------------------------------------------------

    def _tree1(self, data: memoryview) -> list[Node]:
        kind, level, used = struct.unpack_from("<BBH", data, 4)
        if kind == 1 and level:
            key, rest = divmod(len(data) - 24 - 16 * self._chunk_k, 2 * self._chunk_k + 1)
            if key > 0 and not rest:
                return _nodes(data[24 + key :], key + 8, used, len(data))
        if kind == 0:
            length = len(data) if level else 8 + 80 * self._group_k
            return _nodes(data[32:], 16, used, length)
        return []

    def _symbols(self, data: memoryview) -> list[Node]:
        (count,) = struct.unpack_from("<H", data, 6)
        headers = _nodes(data[16:], 40, count, HEADER)
        self._headers.update(node.address for node in headers)
        return headers

    # -- B-trees, version 2 ----------------------------------------------------------------------

    def _tree2(self, data: memoryview) -> list[Node]:
        node_size, record_size, depth = struct.unpack_from("<IHH", data, 6)
        root, records = struct.unpack_from("<QH", data, 16)
        return [self._tree_node(_Tree(node_size, record_size), root, depth, records)]

    def _tree_node(self, tree: _Tree, address: int, depth: int, records: int) -> Node:
        if depth:
            self._trees[address] = tree, depth, records
        return Node(address, tree.node_size)

    def _internal(self, address: int, data: memoryview) -> Iterator[Node]:
        found = self._trees.get(address)
        if found is None:
            return
        tree, depth, records = found
        own, total = _widths(tree, depth)
        at = 6 + records * tree.record_size
        for _ in range(records + 1):
            child = int.from_bytes(data[at : at + 8], "little")
            number = int.from_bytes(data[at + 8 : at + 8 + own], "little")
            at += 8 + own + total
            yield self._tree_node(tree, child, depth - 1, number)

    # -- arrays ----------------------------------------------------------------------------------

    def _fixed(self, data: memoryview) -> list[Node]:
        size, bits, count, address = struct.unpack_from("<BBQQ", data, 6)
        pages = -(-count >> bits) if count > 1 << bits else 0
        return [Node(address, min(18 + count * size + -(-pages // 8) + 4 * pages, BUDGET))]

    def _extensible(self, address: int, data: memoryview) -> list[Node]:
        array = _Array(*struct.unpack_from("<6B", data, 6))
        if not array.least_pointers or not array.least_elements:
            return []
        self._arrays[address] = array
        (block,) = struct.unpack_from("<Q", data, 60)
        blocks, supers = _pointers(array)
        own = array.own_elements * array.element_size
        return [Node(block, 18 + own + 8 * (blocks + supers))]

    def _index_block(self, data: memoryview) -> Iterator[Node]:
        (header,) = struct.unpack_from("<Q", data, 6)
        array = self._arrays.get(header)
        if array is None:
            return
        blocks, supers = _pointers(array)
        at = 14 + array.own_elements * array.element_size
        first = 0
        while blocks:
            count, length, _ = array.block(first)
            yield from _nodes(data[at:], 8, count, length)
            at, blocks, first = at + 8 * count, blocks - count, first + 1
        for number in range(supers):
            (address,) = struct.unpack_from("<Q", data, at + 8 * number)
            if address != UNDEFINED:
                self._supers[address] = array, first + number
                count, _, pages = array.block(first + number)
                masks = count * -(-pages // 8)
                yield Node(address, 18 + array.offset_size + masks + 8 * count)

    def _super_block(self, address: int, data: memoryview) -> Iterator[Node]:
        if address in self._supers:
            array, number = self._supers[address]
            count, length, pages = array.block(number)
            at = 14 + array.offset_size + count * -(-pages // 8)
            yield from _nodes(data[at:], 8, count, length)

    # -- headers of datasets ---------------------------------------------------------------------

    def _header1(self, address: int, data: memoryview) -> list[Node]:
        version, size = struct.unpack_from("<B7xI", data)
        if version != 1:
            return []
        return self._messages(self._whole(address, data, 16 + size)[16:], 1, 0)

    def _header2(self, address: int, data: memoryview) -> list[Node]:
        flags = data[5]
        at = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(data[at : at + width], "little")
        start = at + width
        return self._messages(self._whole(address, data, start + size)[start:], 2, flags)

    def _whole(self, address: int, data: memoryview, length: int) -> memoryview:
        """A header whole, where HDF5 has read its beginning: it will read the rest."""
        if len(data) < length <= min(1 << 16, self._file.source.size - self._base - address):
            return self._file.read(self._base + address, length)
        return data[:length]

    def _messages(self, data: memoryview, version: int, flags: int) -> list[Node]:
        """Note where the index of chunks begins; give where the header goes on."""
        nodes: list[Node] = []
        at = 0
        head = "<HH" if version == 1 else "<BH"
        skip = 8 if version == 1 else 6 if flags & 4 else 4
        while at + skip <= len(data):
            kind, size = struct.unpack_from(head, data, at)
            message = data[at + skip : at + skip + size]
            at += skip + size
            if kind == 0x10:
                node = Node(*struct.unpack_from("<QQ", message))
                self._continued[node.address] = version, flags
                nodes.append(node)
            elif kind == 0x08:
                self._layout(message)
        return nodes

    def _layout(self, message: memoryview) -> None:
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
        if address != UNDEFINED and address not in self._fetched:
            self._indexes[address] = length


HEADER = 512
"""Bytes that HDF5 reads of a header at first."""


def _half_widths(superblock: memoryview) -> tuple[int, int]:
    """Half of the most children of a version 1 B-tree of chunks, and of entries of a group's node.

    Newer superblocks keep them elsewhere, where they are not the usual ones.
    """
    version = superblock[8]
    (group,) = struct.unpack_from("<H", superblock, 16) if version < 2 else (4,)
    (chunk,) = struct.unpack_from("<H", superblock, 24) if version == 1 else (32,)
    return chunk, group


def _nodes(data: memoryview, stride: int, count: int, length: int) -> list[Node]:
    """Nodes of a length, at addresses that stand `stride` bytes apart."""
    count = min(count, -(-(len(data) - 7) // stride))
    table = np.ndarray((max(count, 0),), "<u8", data, strides=(stride,))
    return [Node(address, length) for address in table.tolist() if address != UNDEFINED]


def _widths(tree: _Tree, depth: int) -> tuple[int, int]:
    """Bytes of the number of records in a child, and of the number in all that is below it."""
    most = (tree.node_size - 10) // tree.record_size
    own = (most.bit_length() + 7) // 8
    below, total = most, 0  # of a tree of one level less
    for _ in range(depth - 1):
        pointer = 8 + own + total
        fit = (tree.node_size - 10 - pointer) // (tree.record_size + pointer)
        below = (fit + 1) * below + fit
        total = (below.bit_length() + 7) // 8
    return own, total


def _pointers(array: _Array) -> tuple[int, int]:
    """How many data blocks, and super blocks, the index block of an array points to."""
    supers = 1 + array.most_bits - (array.least_elements.bit_length() - 1)
    direct = 2 * (array.least_pointers.bit_length() - 1)
    return 2 * (array.least_pointers - 1), max(supers - direct, 0)
