"""Batches: the datasets of many files as few columns, to be sent from one process to another.

The datasets of files that are alike differ in little: where chunks lie, the size and time of the
file, some labels, some numbers. A batch says once what is the same in all of them, and the rest as
columns, so that no graph of objects is pickled for each file.

Each dataset comes apart into *leaves* (text, numbers, arrays) and *operations* that put these
together again, in the order of a stack machine. Files with the same operations form a group. A leaf
that is the same for all files of a group is kept once; others make a column. On the other side the
operations run once for the whole group, each on all files; what depends on nothing but equal leaves
is made once, and is the same object for all files, those of other batches included.

What comes out equals what went in, to the bit, and shares objects as that did. What has no packed
form is pickled, file by file.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from intarsia.encoding import Encoding
from intarsia.errors import IntarsiaError
from intarsia.io.paths import split_place
from intarsia.xarray.batches_columns import KINDS, Writer, is_constant_column, is_narrow
from intarsia.xarray.batches_parts import RECORDS, NotPacked, record_of

__all__ = ["Batch", "Sent", "count", "observe", "pack"]

type Result = xr.Dataset | IntarsiaError

type Op = tuple[Any, ...]
"""Name of an operation, and its details. Compares exactly: numbers never stand for others."""

LEAF, PLACE, AGAIN, CONSTANT, TUPLE, LIST, SET, FROZEN_SET, DICT, RECORD = range(10)
"""Operations. All but the last five push one value; those take values from the stack."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The results of some files.

    Parameters
    ----------
    count
        Number of files.
    data
        All results that could be packed.
    whole
        By the number of the file: pickled results, of datasets that have no packed form, and
        errors.
    unpacked
        How many of these are datasets.
    seconds
        What opening took, with packing.
    """

    count: int
    data: bytes
    whole: dict[int, bytes]
    unpacked: int = 0
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes that are sent."""
        return len(self.data) + sum(map(len, self.whole.values()))


@dataclass
class Sent:
    """What came from other processes.

    Parameters
    ----------
    files, batches, nbytes
        How many files, in how many batches, of how many bytes in all.
    pickled
        Datasets that had no packed form.
    errors
        Files that could not be opened.
    waiting
        The largest number of batches that were under way or waited at a time.
    """

    files: int = 0
    batches: int = 0
    nbytes: int = 0
    pickled: int = 0
    errors: int = 0
    waiting: int = 0

    @property
    def per_file(self) -> float:
        """Bytes per file."""
        return self.nbytes / max(self.files, 1)


_observers: list[Sent] = []


@contextmanager
def observe() -> Generator[Sent]:
    """Count what comes from other processes while the context lasts.

    Examples
    --------
    >>> with observe() as sent:  # doctest: +SKIP
    ...     intarsia.open_mfdataset("sst/*.nc", parallel=True)
    >>> sent.per_file  # doctest: +SKIP
    612.4
    """
    sent = Sent()
    _observers.append(sent)
    try:
        yield sent
    finally:
        _observers.remove(sent)


def count(batch: Batch, waiting: int) -> None:
    """Tell those who observe of a batch that came."""
    for sent in _observers:
        sent.files += batch.count
        sent.batches += 1
        sent.nbytes += batch.nbytes
        sent.pickled += batch.unpacked
        sent.errors += len(batch.whole) - batch.unpacked
        sent.waiting = max(sent.waiting, waiting)


# -- taking apart ------------------------------------------------------------------------------


class _Taken(NamedTuple):
    """One dataset, taken apart: numbers of operations, and leaves."""

    program: bytes
    leaves: list[Any]


class _Taker:
    """Takes the datasets of one batch apart."""

    def __init__(self) -> None:
        self.ops: dict[Op, int] = {}
        self._pickles: dict[Encoding, bytes] = {}

    def take(self, dataset: xr.Dataset, path: str) -> _Taken:
        """Take one apart; raises `NotPacked` or RecursionError where that can't be done."""
        container, key = split_place(path)
        self._places = {path: 0, container: 1, key: 2}
        self._program: list[int] = []
        self._leaves: list[Any] = []
        self._seen: dict[tuple[int, bool], tuple[int, Any]] = {}
        self._visit(dataset, False)
        return _Taken(np.array(self._program, np.uint32).tobytes(), self._leaves)

    def _emit(self, *op: Any) -> None:
        self._program.append(self.ops.setdefault(op, len(self.ops)))

    def _leaf(self, value: Any, kind: str, *details: Any) -> None:
        self._emit(LEAF, kind, details)
        self._leaves.append(value)

    def _visit(self, value: Any, frozen: bool) -> None:
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            place = self._places.get(value)
            if place is not None:
                self._emit(PLACE, place)
            else:
                self._leaf(value, "text")
        elif value is None or kind is bool:
            self._emit(CONSTANT, kind.__name__, value)
        elif kind is int and -(1 << 63) <= value < 1 << 63:
            self._leaf(value, "int")
        elif kind is float:
            self._leaf(value, "float")
        elif kind is bytes:
            self._leaf(value, "bytes")
        elif issubclass(kind, np.generic) and value.dtype.kind in "biufcmM" and _plain(value):
            self._leaf(value, "scalar", value.dtype)
        elif kind is Encoding:
            blob = self._pickles.get(value)
            if blob is None:
                blob = self._pickles[value] = pickle.dumps(value, 5)
            self._leaf(blob, "pickled", True)
        else:
            again = self._seen.get((id(value), frozen))
            if again is not None:
                self._emit(AGAIN, again[0])
                return
            self._whole(value, frozen)
            # kept alive with its number, so that no other object can have its identity
            self._seen[id(value), frozen] = (len(self._program) - 1, value)

    def _whole(self, value: Any, frozen: bool) -> None:
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
        number = record_of(kind)
        record = None if number is None else RECORDS[number]
        parts = None if record is None else record.parts(value)
        if record is not None and parts is not None:
            for part in parts:
                self._visit(part, frozen or record.frozen)
            self._emit(RECORD, number, len(parts))
        elif kind is np.ndarray and not value.dtype.hasobject and _plain(value):
            if is_constant_column(value):
                self._leaf(value, "repeated", value.dtype)
            elif frozen and is_narrow(value):
                self._leaf(value, "narrow")
            else:
                self._leaf(value, "array", value.dtype, value.ndim, frozen)
        elif kind is dict and all(type(name) is str for name in value):
            for item in value.values():
                self._visit(item, frozen)
            self._emit(DICT, tuple(value))
        elif kind in _MEMBERS:
            for item in value:
                self._visit(item, frozen)
            self._emit(_MEMBERS[kind], len(value))
        else:
            self._leaf(pickle.dumps(value, 5), "pickled", frozen)


_MEMBERS: dict[type[Any], int] = {tuple: TUPLE, list: LIST, set: SET, frozenset: FROZEN_SET}


def _plain(value: Any) -> bool:
    """Whether the type of an array or scalar is told by what compares."""
    dtype = value.dtype
    return dtype.metadata is None and (
        dtype.fields is None or all(field[0].metadata is None for field in dtype.fields.values())
    )


def pack(paths: Sequence[str], results: Sequence[Result], seconds: float = 0.0) -> Batch:
    """Put the results of some files into a batch.

    Parameters
    ----------
    paths
        Of the files.
    results
        A dataset or an error for each.
    seconds
        What opening them took.
    """
    taker = _Taker()
    groups: dict[bytes, list[tuple[int, list[Any]]]] = {}
    whole: dict[int, bytes] = {}
    unpacked = 0
    for number, (path, result) in enumerate(zip(paths, results, strict=True)):
        if not isinstance(result, xr.Dataset):
            whole[number] = pickle.dumps(result, 5)
            continue
        try:
            taken = taker.take(result, path)
        except (NotPacked, RecursionError):
            whole[number] = pickle.dumps(result, 5)
            unpacked += 1
            continue
        groups.setdefault(taken.program, []).append((number, taken.leaves))
    writer = Writer()
    ops = list(taker.ops)
    told: list[tuple[list[int], bytes, list[Any]]] = []
    for program, members in groups.items():
        names = [ops[n] for n in np.frombuffer(program, np.uint32).tolist() if ops[n][0] == LEAF]
        columns = zip(*(leaves for _, leaves in members), strict=True)
        # a constant as a tuple of one, or None where there is a column
        constants = [
            _constant(op[1], list(column), writer)
            for op, column in zip(names, columns, strict=True)
        ]
        told.append(([number for number, _ in members], program, constants))
    data = pickle.dumps((ops, told, writer.result()), 5) if told else b""
    return Batch(len(paths), data, whole, unpacked, seconds)


def _constant(name: str, values: list[Any], writer: Writer) -> tuple[Any] | None:
    kind = KINDS[name]
    first = kind.raw(values[0])
    if all(kind.raw(value) == first for value in values[1:]):
        return (first,)
    kind.write(values, writer)
    return None
