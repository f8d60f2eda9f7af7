"""Files of the network as scans read them: piece by piece, of blocks that are kept.

The first request fetches the head of a file, and with it the size and what pins the file. Later
ones fetch what is asked for and some of its surroundings: more of them where they were of use, less
where not. No request is for more than 1 MiB.

A library may ask for bytes while it holds a lock of its own (h5py does). What is asked for one by
one is therefore fetched by the thread that asks, and while it waits for others nobody collects
garbage: who does could need that lock.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from intarsia.access import Access
from intarsia.errors import ShortRead
from intarsia.forks import after_fork
from intarsia.io.ahead import HEAD, taken
from intarsia.io.held import held, keep
from intarsia.io.remote import check_answer, head, read_range
from intarsia.io.remote_pool import IN_FLIGHT
from intarsia.io.remote_requests import Answer
from intarsia.references import Source

__all__ = ["RemoteFile", "opened_remote"]

BLOCK = 1 << 12
"""Bytes that are kept or forgotten together."""

MOST = 1 << 20
"""Most bytes of a request."""

GAP = 1 << 14
"""Ranges that lie no further apart are fetched together."""

THREADS = IN_FLIGHT
"""Most requests at a time."""


@contextmanager
def opened_remote(
    place: str, access: Access | None = None, *, pinned: Source | None = None
) -> Generator[RemoteFile]:
    """Open a file of the network for a scan.

    Parameters
    ----------
    place
        URL.
    access
        How it is reached.
    pinned
        What the file has to be still.

    Raises
    ------
    SourceMissing, SourceUnreadable, ShortRead
        It can't be had.
    NotAFile
        It is empty.
    SourceChanged
        It is not what was pinned.
    """
    if pinned is not None:
        first = held(pinned, 0, min(HEAD, pinned.size))
        if first is not None:  # it was read a moment ago
            yield RemoteFile(pinned, first)
            return
    source, data = taken(place, access) or head(place, access, HEAD)
    if pinned is not None:
        check_answer(pinned, Answer(data, source.size, source.mtime_ns, source.etag))
    keep(source, data)
    yield RemoteFile(source, data)


class RemoteFile:
    """Random access to a file of the network, for one thread at a time.

    Parameters
    ----------
    source
        With its pins, which every request is held to.
    first
        Its first bytes.
    kept
        Most bytes that are kept.
    """

    def __init__(self, source: Source, first: memoryview, kept: int = 1 << 25) -> None:
        self.source = source
        self._most = max(kept, 4 * MOST) // BLOCK  # a read and its surroundings are less
        self._blocks: OrderedDict[int, memoryview] = OrderedDict()
        self._span = 1 << 16
        self._last = range(0)  # blocks that were fetched last because one of them was asked for
        self._used: set[int] = set()  # those of them that were
        self._keep(0, first)

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly so many bytes; `ShortRead` past the end."""
        there = max(self.source.size - offset, 0)
        if offset < 0 or length < 0 or length > there:
            raise ShortRead(
                f"asked for {length} bytes at offset {offset} of a file of {self.source.size}",
                url=self.source.url,
            )
        if length == 0:
            return memoryview(b"")
        blocks = _blocks_of(offset, length)
        if length > MOST:
            return _joined(self._fetch(_split(offset, length)))
        missing = False
        for block in blocks:
            if block in self._blocks:
                self._blocks.move_to_end(block)  # not to be forgotten for the others
            else:
                missing = True
        if missing:
            self._miss(blocks)
        self._used.update(block for block in blocks if block in self._last)
        first = offset - blocks.start * BLOCK
        if len(blocks) == 1:
            return self._blocks[blocks.start][first : first + length]
        return _joined([self._blocks[block] for block in blocks])[first : first + length]

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch several (offset, length) at once that are about to be read.

        What lies outside the file is left out, and so is what there is no room for.
        """
        wanted: set[int] = set()
        for offset, length in sorted(ranges):
            if len(wanted) >= self._most // 2:
                break
            if offset >= 0 and 0 < length <= self.source.size - offset:
                wanted.update(_blocks_of(offset, length))
        missing = sorted(wanted - self._blocks.keys())
        if len(missing) > 2:  # else it is as quick, and of more use, when it is asked for
            self._fill(missing)

    def _miss(self, blocks: range) -> None:
        """Fetch blocks with their surroundings."""
        if self._last:
            of_use = 4 * len(self._used) > len(self._last)
            self._span = min(2 * self._span, MOST) if of_use else max(self._span // 2, 1 << 14)
        span = self._span // BLOCK
        start = blocks.start // span * span
        stop = -(-blocks.stop // span) * span
        end = -(-self.source.size // BLOCK)
        if blocks.start >= end - HEAD // BLOCK:  # what was written last is often read together
            start, stop = min(start, end - HEAD // BLOCK), end
        near = [n for n in range(max(start, 0), min(stop, end)) if n not in self._blocks]
        self._last, self._used = range(near[0], near[-1] + 1), set()
        self._fill(near)

    def _fill(self, blocks: Sequence[int]) -> None:
        """Fetch and keep blocks, ascending; those near each other in one request."""
        if not blocks:
            return
        runs: list[tuple[int, int]] = []
        start = stop = blocks[0]
        for block in blocks:
            if (block - stop) * BLOCK > GAP or (block + 1 - start) * BLOCK > MOST:
                runs.append((start, stop))
                start = block
            stop = block + 1
        runs.append((start, stop))
        ranges = [
            (start * BLOCK, min(stop * BLOCK, self.source.size) - start * BLOCK)
            for start, stop in runs
        ]
        for (offset, _), data in zip(ranges, self._fetch(ranges), strict=True):
            self._keep(offset, data)

    def _keep(self, offset: int, data: memoryview) -> None:
        whole = offset + len(data) == self.source.size
        for start in range(0, len(data), BLOCK):
            block = data[start : start + BLOCK]
            if len(block) == BLOCK or whole:  # copied: it would hold all that came with it
                self._blocks[(offset + start) // BLOCK] = memoryview(bytes(block))
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        if len(ranges) == 1:
            return [read_range(self.source, *ranges[0])]
        found: dict[int, memoryview] = {}
        failures: list[BaseException] = []
        waiting = deque(range(len(ranges)))

        def work() -> None:
            while waiting and not failures:
                try:
                    number = waiting.popleft()
                except IndexError:
                    return
                try:
                    found[number] = read_range(self.source, *ranges[number])
                except BaseException as error:  # noqa: BLE001 - raised by who waits for it
                    failures.append(error)

        with _no_collection():
            count = min(len(ranges), THREADS) - 1
            others = [threading.Thread(target=work, daemon=True) for _ in range(count)]
            for thread in others:
                thread.start()
            work()
            for thread in others:
                thread.join()
        if failures:
            raise failures[0]
        return [found[number] for number in range(len(ranges))]


def _blocks_of(offset: int, length: int) -> range:
    return range(offset // BLOCK, (offset + length - 1) // BLOCK + 1)


def _split(offset: int, length: int) -> list[tuple[int, int]]:
    end = offset + length
    return [(start, min(MOST, end - start)) for start in range(offset, end, MOST)]


def _joined(parts: Sequence[memoryview]) -> memoryview:
    return memoryview(b"".join(parts))


_lock = threading.Lock()
_waiting = 0
_was_enabled = False


@contextmanager
def _no_collection() -> Generator[None]:
    """Nobody collects garbage meanwhile, unless by hand."""
    global _waiting, _was_enabled
    enabled = gc.isenabled()
    gc.disable()  # before the lock is taken: who holds it must not collect either
    with _lock:
        _was_enabled |= enabled
        _waiting += 1
    try:
        yield
    finally:
        with _lock:
            _waiting -= 1
            enable = not _waiting and _was_enabled
            _was_enabled &= not enable
        if enable:
            gc.enable()


@after_fork
def _after_fork() -> None:
    """The lock may have been held, and nobody waits here."""
    global _lock, _waiting, _was_enabled
    if _was_enabled:
        gc.enable()
    _lock, _waiting, _was_enabled = threading.Lock(), 0, False
