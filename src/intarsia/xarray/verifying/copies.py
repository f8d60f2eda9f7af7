"""Values that a store holds itself, held against those of the sources that they may come from.

A copied value has no reference that says where it comes from. Labels say it, where there are any;
a dimension without labels has to be of the same length. An element is as it should be if one of the
sources that have its labels has the same value: of a variable that is not concatenated, joining
takes one file's values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.errors import shown
from intarsia.xarray.verifying.bits import same_bits
from intarsia.xarray.verifying.labels import Labels, text_of
from intarsia.xarray.verifying.original import Original, Unreadable
from intarsia.xarray.verifying.results import Difference, Uncompared, VariableResult

type Array = npt.NDArray[Any]

KEPT = 1000
"""Values of a source that are kept, in case they are to be told."""


@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """A variable whose values are in the store.

    Parameters
    ----------
    path
        Name to tell it by.
    group
        Its group.
    name, dims
        As in its group.
    values
        Its values.
    labels
        Coordinates of its group.
    """

    path: str
    group: str
    name: str
    dims: tuple[str, ...]
    values: Array
    labels: Labels


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one source has of a copied variable.

    Parameters
    ----------
    source
        Path or URL.
    where
        Positions along each dimension of the whole.
    equal
        Whether each element there is equal.
    others
        Some of the source's values that are not: index in the part, raveled, and text.
    """

    source: str
    where: tuple[Array, ...]
    equal: npt.NDArray[np.bool_]
    others: Mapping[int, str]


def compare_copy(copied: Copied, original: Original) -> Part | str:
    """Compare what a source has of a copied variable; or say why that can't be done."""
    if copied.name not in original:
        return "no source has a variable of that name"
    variable = original.variable(copied.name)
    if set(variable.dims) - set(copied.dims):
        return "it has other dimensions in the sources"
    url = shown(original.place)
    try:
        if copied.dims == (copied.name,):
            return _labels(copied, original)
        where, kept = _places(copied, original, variable)
        order = [copied.dims.index(str(dim)) for dim in variable.dims]
        values = np.transpose(original.read(copied.name), np.argsort(order))
    except Unreadable as error:
        return str(error)
    for axis, dim in enumerate(copied.dims):
        if dim not in variable.dims:
            values = np.expand_dims(values, axis)
    theirs = np.broadcast_to(values[(*np.ix_(*kept), ...)], [len(part) for part in where])
    mine = np.asarray(copied.values)[(*np.ix_(*where), ...)]  # an array, also of one element
    try:
        common = np.result_type(mine.dtype, theirs.dtype)
    except TypeError:
        common = None
    texts = {mine.dtype.kind, theirs.dtype.kind} in ({"U"}, {"S"})  # of any length
    if common is None or not (texts or common == mine.dtype):
        return f"its values are of type {theirs.dtype} in a source, and not {mine.dtype}"
    mine, theirs = mine.astype(common, copy=False), theirs.astype(common, copy=False)
    equal = same_bits(mine, theirs)
    wrong = np.flatnonzero(~equal)[:KEPT].tolist()
    others = {flat: text_of(theirs[np.unravel_index(flat, theirs.shape)]) for flat in wrong}
    return Part(url, where, equal, others)


def _labels(copied: Copied, original: Original) -> Part:
    """Which of a dimension's own labels a source has."""
    theirs = original.read(copied.name).reshape(-1)
    where = copied.labels.find(copied.name, len(copied.values), theirs)
    if where is None:
        where = copied.labels.among(copied.name, theirs)
    else:
        inside: Any = where >= 0
        where = where[inside]
    return Part(shown(original.place), (where,), np.ones(len(where), bool), {})


def _places(
    copied: Copied, original: Original, variable: xr.Variable
) -> tuple[tuple[Array, ...], list[Array]]:
    """Positions in the whole, and in the source's variable, of the elements that both have."""
    where: list[Array] = []
    kept: list[Array] = []
    for dim, size in zip(copied.dims, copied.values.shape, strict=True):
        own = dim in variable.dims
        length = variable.sizes[dim] if own else 1
        labels = original.labels(dim)
        found = None
        if labels is not None and labels.size == length:
            if copied.labels.repeat(dim):
                raise Unreadable(f"labels of {dim!r} repeat")
            found = copied.labels.find(dim, size, labels.reshape(-1))
        if found is not None:
            inside: Any = found >= 0
            here: Array = np.flatnonzero(inside)
            kept.append(here)
            where.append(found[here])
        elif own and length == size:
            here = np.arange(int(size))
            kept.append(here)
            where.append(here)
        else:
            raise Unreadable(f"nothing says where the sources lie along {dim!r}")
    return tuple(where), kept


class Gathered:
    """What all sources together say of a copied variable.

    Parameters
    ----------
    copied
        The variable.
    """

    def __init__(self, copied: Copied) -> None:
        self._copied = copied
        shape = copied.values.shape
        self._equal = np.zeros(shape, bool)
        self._seen = np.full(shape, -1, np.int32)
        self._parts: list[Part] = []
        self._reasons: dict[str, None] = {}

    def add(self, part: Part | str) -> None:
        """Add what one source says."""
        if isinstance(part, str):
            self._reasons[part] = None
            return
        here = np.ix_(*part.where)
        self._equal[here] |= part.equal
        self._seen[here] = len(self._parts)
        self._parts.append(part)

    def result(self) -> tuple[VariableResult, list[Difference], list[Uncompared]]:
        """How much was compared, what differs, and what was not compared."""
        copied = self._copied
        seen = self._seen >= 0
        path, count = copied.path, copied.values.size
        told = VariableResult(path, True, count, int(seen.sum()), 0, len(self._parts))
        wrong = seen & ~self._equal
        differences = [self._difference(wrong)] if wrong.any() else []
        uncompared: list[Uncompared] = []
        if not seen.all():
            reason = "copied; no source has its labels"
            if not self._parts:
                reason = f"copied; {next(iter(self._reasons), 'there is no source')}"
            uncompared.append(Uncompared(path, int((~seen).sum()), reason, copied=True))
        return told, differences, uncompared

    def _difference(self, wrong: npt.NDArray[np.bool_]) -> Difference:
        copied = self._copied
        index = tuple(int(n) for n in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        part = self._parts[int(self._seen[index])]
        there = tuple(
            int(np.flatnonzero(line == at)[0]) for line, at in zip(part.where, index, strict=True)
        )
        flat = int(np.ravel_multi_index(there, part.equal.shape)) if there else 0
        sizes = zip(copied.dims, copied.values.shape, strict=True)
        labels = {dim: copied.labels.of(dim, size) for dim, size in sizes}
        return Difference(
            copied.path,
            "value",
            part.source,
            index,
            labels={
                dim: text_of(values[at])
                for (dim, values), at in zip(labels.items(), index, strict=True)
                if values is not None
            },
            stored=text_of(copied.values[index]),
            expected=part.others.get(flat, "another value"),
            count=int(wrong.sum()),
        )
