"""What the nodes of HDF5's indexes of chunks, and of its other trees, name.

The formats are those of the HDF5 File Format Specification, version 3.0, sections III.A and VII.
Addresses and lengths have eight bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from intarsia.scan.hdf5.object_nodes import UNDEFINED, Node, at_stride, half_widths

__all__ = ["IndexNodes"]


class _Tree(NamedTuple):
    """A version 2 B-tree."""

    node_size: int
    record_size: int

    def widths(self, depth: int) -> tuple[int, int]:
        """Of nodes at a depth: bytes that tell the records of a child, and all below it."""
        most = (self.node_size - 10) // self.record_size
        own = (most.bit_length() + 7) // 8
        below, total = most, 0
        for _ in range(depth - 1):
            pointer = 8 + own + total
            fit = (self.node_size - 10 - pointer) // (self.record_size + pointer)
            below = (fit + 1) * below + fit
            total = (below.bit_length() + 7) // 8
        return own, total


class _Array(NamedTuple):
    """An extensible array, whose blocks are grouped into super blocks."""

    element_size: int
    most_bits: int
    own_elements: int
    least_elements: int
    least_pointers: int
    page_bits: int

    @property
    def offset_size(self) -> int:
        """Bytes that tell where a block begins."""
        return -(-self.most_bits // 8)

    @property
    def pointers(self) -> tuple[int, int]:
        """How many blocks, and super blocks, the index block points to."""
        supers = 1 + self.most_bits - (self.least_elements.bit_length() - 1)
        direct = 2 * (self.least_pointers.bit_length() - 1)
        return 2 * (self.least_pointers - 1), max(supers - direct, 0)

    def blocks(self, number: int) -> tuple[int, int, int]:
        """How many blocks a super block has, and bytes and pages of each."""
        elements = self.least_elements << (number + 1) // 2
        pages = elements >> self.page_bits if elements > 1 << self.page_bits else 0
        length = 18 + self.offset_size + elements * self.element_size + 4 * pages
        return 1 << number // 2, length, pages


class IndexNodes:
    """The nodes of one file's trees and arrays, as far as they have been seen.

    Parameters
    ----------
    superblock
        Of the file.
    """

    def __init__(self, superblock: memoryview) -> None:
        self._chunk_k, self._group_k, _ = half_widths(superblock)
        self._trees: dict[int, tuple[_Tree, int, int]] = {}  # of nodes: depth, number of records
        self._arrays: dict[int, _Array] = {}  # by the address of their header
        self._supers: dict[int, tuple[_Array, int]] = {}

    def named(self, address: int, data: memoryview) -> list[Node] | None:
        """What a node names, or None where it is not of these kinds.

        Raises
        ------
        struct.error, IndexError
            It is broken.
        """
        match bytes(data[:4]):
            case b"TREE":
                return self._tree1(data)
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
            case _:
                return None

    def _tree1(self, data: memoryview) -> list[Node]:
        kind, level, used = struct.unpack_from("<BBH", data, 4)
        if kind == 1 and level:  # the length of a key follows from that of the node
            key, rest = divmod(len(data) - 24 - 16 * self._chunk_k, 2 * self._chunk_k + 1)
            if key > 0 and not rest:
                return at_stride(data[24 + key :], key + 8, used, len(data))
        if kind == 0:
            length = len(data) if level else 8 + 80 * self._group_k
            return at_stride(data[32:], 16, used, length)
        return []

    def _tree2(self, data: memoryview) -> list[Node]:
        node_size, record_size, depth = struct.unpack_from("<IHH", data, 6)
        root, records = struct.unpack_from("<QH", data, 16)
        if root == UNDEFINED or not record_size:
            return []
        return [self._tree_node(_Tree(node_size, record_size), root, depth, records)]

    def _tree_node(self, tree: _Tree, address: int, depth: int, records: int) -> Node:
        if depth:
            self._trees[address] = tree, depth, records
        return Node(address, tree.node_size)

    def _internal(self, address: int, data: memoryview) -> Iterator[Node]:
        if address not in self._trees:
            return
        tree, depth, records = self._trees[address]
        own, total = tree.widths(depth)
        at = 6 + records * tree.record_size
        for _ in range(records + 1):
            child = int.from_bytes(data[at : at + 8], "little")
            number = int.from_bytes(data[at + 8 : at + 8 + own], "little")
            at += 8 + own + total
            yield self._tree_node(tree, child, depth - 1, number)

    def _fixed(self, data: memoryview) -> list[Node]:
        size, bits, count, address = struct.unpack_from("<BBQQ", data, 6)
        if address == UNDEFINED:
            return []
        pages = -(-count >> bits) if count > 1 << bits else 0
        return [Node(address, 18 + count * size + -(-pages // 8) + 4 * pages)]

    def _extensible(self, address: int, data: memoryview) -> list[Node]:
        array = _Array(*struct.unpack_from("<6B", data, 6))
        (block,) = struct.unpack_from("<Q", data, 60)
        if block == UNDEFINED or not array.least_pointers or not array.least_elements:
            return []
        self._arrays[address] = array
        return [Node(block, 18 + array.own_elements * array.element_size + 8 * sum(array.pointers))]

    def _index_block(self, data: memoryview) -> Iterator[Node]:
        (header,) = struct.unpack_from("<Q", data, 6)
        if header not in self._arrays:
            return
        array = self._arrays[header]
        left, supers = array.pointers
        at = 14 + array.own_elements * array.element_size
        number = 0
        while left > 0:
            count, length, _ = array.blocks(number)
            yield from at_stride(data[at:], 8, count, length)
            at, left, number = at + 8 * count, left - count, number + 1
        for place in range(supers):
            (address,) = struct.unpack_from("<Q", data, at + 8 * place)
            if address != UNDEFINED:
                self._supers[address] = array, number + place
                count, _, pages = array.blocks(number + place)
                masks = count * -(-pages // 8)
                yield Node(address, 18 + array.offset_size + masks + 8 * count)

    def _super_block(self, address: int, data: memoryview) -> Iterator[Node]:
        if address in self._supers:
            array, number = self._supers[address]
            count, length, pages = array.blocks(number)
            at = 14 + array.offset_size + count * -(-pages // 8)
            yield from at_stride(data[at:], 8, count, length)
