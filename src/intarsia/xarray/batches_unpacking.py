"""Batches, put together again: the operations of a group, each run on all its files at once."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr

from intarsia.io.paths import split_place
from intarsia.xarray.batches import (
    AGAIN,
    CONSTANT,
    DICT,
    FROZEN_SET,
    LEAF,
    LIST,
    PLACE,
    RECORD,
    SET,
    TUPLE,
    Batch,
    Op,
    Result,
)
from intarsia.xarray.batches_columns import KINDS, Reader
from intarsia.xarray.batches_parts import RECORDS, Record

__all__ = ["Unpacker"]


class _Same(NamedTuple):
    """One value for all files of a group."""

    value: Any


type _Column = _Same | list[Any]


class Unpacker:
    """Makes the datasets of batches, keeping what they have in common once.

    Parameters
    ----------
    shared
        Whether datasets may share what could be changed in place (attributes, loaded values):
        whether nobody is given them who might.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._programs: dict[tuple[Op, ...], int] = {}
        self._kept: dict[Hashable, Any] = {}

    def unpack(self, batch: Batch, paths: Sequence[str]) -> list[Result]:
        """The results of a batch.

        Parameters
        ----------
        batch
            What `pack` gave.
        paths
            As for `pack`.
        """
        results: list[Result | None] = [None] * batch.count
        for number, data in batch.whole.items():
            results[number] = pickle.loads(data)
        if batch.data:
            ops, told, (types, buffer) = pickle.loads(batch.data)
            reader = Reader(types, buffer)
            for numbers, program, constants in told:
                members = set(numbers)
                mine = tuple([ops[n] for n in np.frombuffer(program, np.uint32).tolist()])
                own = [path for number, path in enumerate(paths) if number in members]
                made = self._run(mine, constants, reader, own)
                for number, dataset in zip(numbers, made, strict=True):
                    results[number] = dataset
        return cast("list[Result]", results)

    def _run(
        self, program: tuple[Op, ...], constants: list[Any], reader: Reader, paths: list[str]
    ) -> list[Any]:
        """Run the operations of a group, each on all files."""
        many = len(paths)
        known = self._programs.setdefault(program, len(self._programs))
        places = [split_place(path) for path in paths]
        located: list[_Column] = [
            paths,
            _equal([container for container, _ in places]),
            [key for _, key in places],
        ]
        leaves = iter(constants)
        stack: list[_Column] = []
        made: list[_Column] = []
        for place, op in enumerate(program):
            code = op[0]
            if code == LEAF:
                column = self._leaf(op, next(leaves), (known, place), reader, many)
            elif code == PLACE:
                column = located[op[1]]
            elif code == AGAIN:
                column = made[op[1]]
            elif code == CONSTANT:
                column = _Same(op[2])
            else:
                size = op[2] if code == RECORD else len(op[1]) if code == DICT else op[1]
                begin = len(stack) - size
                parts = stack[begin:]
                del stack[begin:]
                column = self._made(op, parts, (known, place), many)
            stack.append(column)
            made.append(column)
        result = stack.pop()
        assert isinstance(result, list)
        return result

    def _leaf(
        self, op: Op, constant: tuple[Any] | None, where: tuple[int, int], reader: Reader, many: int
    ) -> _Column:
        _, name, details = op
        kind = KINDS[name]
        if constant is None:
            return kind.read(many, details, reader)
        raw = constant[0]
        # the last detail says whether nobody ever changes the value
        if name in ("array", "pickled") and not details[-1] and not self._shared:
            return [kind.made(raw, details) for _ in range(many)]
        if name in ("text", "int"):
            return _Same(raw)
        key = (where, _brief(raw))
        if key not in self._kept:
            self._kept[key] = kind.made(raw, details)
        return _Same(self._kept[key])

    def _made(self, op: Op, parts: list[_Column], where: tuple[int, int], many: int) -> _Column:
        code = op[0]
        record: Record | None = RECORDS[int(op[1])] if code == RECORD else None
        frozen = code in (TUPLE, FROZEN_SET) if record is None else record.frozen
        single = record is not None and record.kind is xr.Dataset
        if (
            (frozen or self._shared)
            and not single
            and all(isinstance(part, _Same) for part in parts)
        ):
            values = [part.value for part in parts if isinstance(part, _Same)]
            # they are kept, each once, so that they are known by their identities
            key = (where, tuple(map(_identity, values)))
            if key not in self._kept:
                self._kept[key] = (_put_together(op, values), values)
            return _Same(self._kept[key][0])
        columns = [repeat(p.value, many) if isinstance(p, _Same) else p for p in parts]
        if record is not None:
            return list(map(record.build, *columns))
        rows = zip(*columns, strict=True) if columns else repeat((), many)
        if code == DICT:
            names = op[1]
            return [dict(zip(names, row, strict=True)) for row in rows]
        if code == TUPLE:
            return list(rows)
        return [_CLASSES[code](row) for row in rows]


_CLASSES: dict[int, Any] = {TUPLE: tuple, LIST: list, SET: set, FROZEN_SET: frozenset}


def _put_together(op: Op, values: list[Any]) -> Any:
    if op[0] == RECORD:
        return RECORDS[int(op[1])].build(*values)
    if op[0] == DICT:
        return dict(zip(op[1], values, strict=True))
    return _CLASSES[op[0]](values)


def _equal(values: list[Any]) -> _Column:
    """A column, or one value where all are equal."""
    return _Same(values[0]) if all(value == values[0] for value in values) else values


def _identity(value: Any) -> Hashable:
    """What tells a constant apart: text and numbers by what they are, others by identity."""
    name = type(value).__name__
    return (name, value) if name in ("str", "int") else id(value)


def _brief(raw: Any) -> Hashable:
    """What was sent of a constant, or a digest of it where it is long."""
    if isinstance(raw, tuple):
        return tuple(map(_brief, cast("tuple[Any, ...]", raw)))
    if isinstance(raw, bytes) and len(raw) > 64:
        return blake2b(raw, digest_size=16).digest()
    return raw
