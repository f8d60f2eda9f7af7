"""What HDF5 will read next of a file of the network, told by what it reads now.

HDF5 reads the metadata of a file node by node, each when the one before it has come. A node names
others, though. All those are fetched together, then those that they name, and so on. When the first
index of chunks is read, the indexes of all datasets seen so far are fetched in this way.

So the cost is a round trip for each level of the deepest index and some for the headers, however
many nodes and datasets there are; and a request for each place in which metadata lie. Nodes are
made when the first chunk in them is written, so that many lie between the chunks:

==============================  =====================================================
index                           where it lies
==============================  =====================================================
single, implicit, fixed array   in one place
extensible array                in some 60 blocks for 10,000 chunks, 200 for a million
B-tree, version 2               a leaf for some 30 to 60 chunks
B-tree, version 1               a leaf for some 32 to 60 chunks (netCDF-4 writes these)
any, of a file with pages       in pages, which hold many nodes where they are large
==============================  =====================================================

A file of 1 GB with 10,000 chunks took 2 requests with a fixed array and 1 to 4 with pages of 1 MiB
or more, one after the other; 55 with an extensible array, 178 with a B-tree of version 1, as
written by netCDF-4, and 219 with one of version 2, all in 3 or 4 round trips and 1.6 MB.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from intarsia.io.files import File
from intarsia.scan.hdf5.index_nodes import IndexNodes
from intarsia.scan.hdf5.object_nodes import Node, ObjectNodes

__all__ = ["Prefetcher", "prefetcher"]

BUDGET = 1 << 22
"""Most bytes that are fetched before HDF5 asks for the first of them."""


def prefetcher(file: File, base: int) -> Prefetcher | None:
    """A prefetcher for a file, if addresses and lengths in it have eight bytes.

    Parameters
    ----------
    file
        That is read.
    base
        Where its superblock is.
    """
    superblock = file.read(base, min(96, file.source.size - base))
    if len(superblock) < 48 or superblock[8] > 3:
        return None
    at = 13 if superblock[8] < 2 else 9
    if bytes(superblock[at : at + 2]) != b"\x08\x08":
        return None
    return Prefetcher(file, base, superblock)


class Prefetcher:
    """Looks at what HDF5 reads of one file, and fetches what it will read next.

    Parameters
    ----------
    file
        That is read.
    base
        Where its superblock is, from which addresses are counted.
    superblock
        Its beginning.
    """

    def __init__(self, file: File, base: int, superblock: memoryview) -> None:
        self._file = file
        self._base = base
        self._indexes = IndexNodes(superblock)
        self._objects = ObjectNodes(superblock)
        self._fetched: set[int] = set()

    def look(self, offset: int, data: memoryview) -> None:
        """Look at bytes that HDF5 has asked for."""
        address = offset - self._base
        if address in self._objects.indexes:
            nodes = [Node(*item) for item in self._objects.indexes.items()]
            self._objects.indexes.clear()
            self._fetch(nodes)
        self._fetch(self._named(address, data, asked=True))

    def _fetch(self, nodes: Iterable[Node]) -> None:
        """Fetch nodes, then those that they name, and so on while they are not too many."""
        size = self._file.source.size - self._base
        while True:
            new = {
                node.address: min(node.length, size - node.address)
                for node in nodes
                if node.address not in self._fetched and node.address < size
            }
            if not new or sum(new.values()) > BUDGET:
                return  # their turn comes, a few at a time, when HDF5 asks for what names them
            self._fetched.update(new)
            self._file.prefetch((self._base + start, length) for start, length in new.items())
            nodes = [
                child
                for start, length in new.items()
                for child in self._named(start, self._file.read(self._base + start, length))
            ]

    def _named(self, address: int, data: memoryview, asked: bool = False) -> list[Node]:
        """What a node names; what is none, or broken, names nothing."""
        try:
            found = self._indexes.named(address, data)
            return (
                self._objects.named(address, data, self._whole, asked) if found is None else found
            )
        except (struct.error, IndexError):
            return []  # HDF5 will say what is wrong with it

    def _whole(self, address: int, data: memoryview, length: int) -> memoryview:
        """A node whole of which HDF5 has read the beginning: it will read the rest."""
        if len(data) < length <= min(1 << 16, self._file.source.size - self._base - address):
            return self._file.read(self._base + address, length)
        return data[:length]
