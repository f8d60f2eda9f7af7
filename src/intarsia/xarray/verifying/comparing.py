"""Values of a virtual array held against those of one source, by position and by label."""

# Parts of xarray's signatures are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.encoding import Codec
from intarsia.errors import IntarsiaError, UnsupportedError, UpstreamFault, shown
from intarsia.xarray.verifying.bits import apply_after, same_bits, steps_after
from intarsia.xarray.verifying.labels import Labels, same_labels, text_of
from intarsia.xarray.verifying.original import Original, Unreadable, native
from intarsia.xarray.verifying.pieces import Box, Placed, Segment, boxed_index, sample_of
from intarsia.xarray.verifying.results import Difference, Uncompared

type Array = npt.NDArray[Any]

SEED = 20_210_401
"""The same elements are sampled whenever the same is verified."""


@dataclass(frozen=True, slots=True, eq=False)
class Referred:
    """A variable by reference.

    Parameters
    ----------
    path
        Name to tell it by: with its group, where that is not the root.
    name, dims
        As in its group.
    array
        Its values.
    placed
        Its segments by source.
    labels
        Coordinates of its group.
    """

    path: str
    name: str
    dims: tuple[str, ...]
    array: VirtualArray
    placed: Placed
    labels: Labels


@dataclass(slots=True)
class Outcome:
    """What comparing a variable with a source gave.

    Parameters
    ----------
    compared
        Elements that were compared.
    differences, uncompared
        See `results`.
    labelled, unlabelled
        Dimensions along which labels were compared, and could not be.
    """

    compared: int = 0
    differences: list[Difference] = field(default_factory=list[Difference])
    uncompared: list[Uncompared] = field(default_factory=list[Uncompared])
    labelled: set[str] = field(default_factory=set[str])
    unlabelled: set[str] = field(default_factory=set[str])


class Comparison:
    """Compares a variable with one source.

    Parameters
    ----------
    referred
        The variable.
    original
        The source.
    number
        The source's number in the table that `Referred.placed` goes by.
    sample
        About how many elements of the variable to compare, in all its sources; None for all.
    by_label
        Whether labels are compared.
    """

    def __init__(
        self,
        referred: Referred,
        original: Original,
        number: int,
        *,
        sample: int | None,
        by_label: bool,
    ) -> None:
        self.referred = referred
        self.original = original
        self.number = number
        self.sample = sample
        self.by_label = by_label
        self.outcome = Outcome()
        self._value: Difference | None = None
        self._wrong = 0
        self._labels: dict[tuple[Any, ...], list[Difference]] = {}
        self._steps: dict[tuple[int, np.dtype[Any]], tuple[Codec, ...] | None] = {}

    def run(self) -> Outcome:
        """Compare."""
        cases = self.referred.array.segments.cases
        segments = [
            self.original.arranged(segment, cases[segment.case].encoding.filters)
            for segment in self.referred.placed.of(self.number)
        ]
        usable: list[tuple[Segment, str, Array]] = []
        names = [self._name(segment) for segment in segments]
        known = set(filter(None, names))
        different: dict[int, Difference] = {}  # labels of many segments are the same ones
        for segment, name in zip(segments, names, strict=True):
            if name is None and len(known) == 1:  # what has no bytes has no name of its own
                name = next(iter(known))
            shifts, reason = self._fits(segment, name)
            if name is None or not shifts:
                self._leave(segment.elements, reason)
                continue
            shift = shifts[0]
            if self.by_label:
                told = [self._labels_differ(segment, name, shift) for shift in shifts]
                best = min(range(len(told)), key=lambda n: len(told[n]))
                different.update((id(one), one) for one in told[best])
                shift = shifts[best]
            usable.append((segment, name, shift))
        self.outcome.differences += different.values()
        if self.sample is None:
            for segment, name, shift in usable:
                for box in segment.boxes(self.referred.array.itemsize):
                    self._attempt(self._compare_box, (segment, name, shift), box)
        elif usable:
            self._compare_sample(usable)
        if self._value is not None:
            self.outcome.differences.append(replace(self._value, count=self._wrong))
        return self.outcome

    # -- what belongs to what ----------------------------------------------------------------------

    def _name(self, segment: Segment) -> str | None:
        """Name of the variable in the source."""
        name = self.referred.array.name
        if name is not None and name in self.original:
            return name
        return self.original.named_by_bytes(self.referred.array.segments, segment.row)

    def _fits(self, segment: Segment, name: str | None) -> tuple[list[Array], str]:
        """What may have to be added to indices in the source, or why these are not known."""
        if name is None:
            wanted = self.referred.array.name or self.referred.name
            return [], f"the source has no variable {wanted!r}"
        variable = self.original.variable(name)
        shifts, reason = self.original.shifts(segment, name)
        if not shifts:
            return [], reason
        key = (segment.case, native(variable.dtype))
        if key not in self._steps:
            encoding = self.referred.array.segments.cases[segment.case].encoding
            self._steps[key] = steps_after(encoding, key[1])
            if self._steps[key] is None:
                self.outcome.differences.append(
                    self._difference("type", stored=str(encoding.dtype), expected=str(key[1]))
                )
        if self._steps[key] is None:
            return [], "its values are of another type in the source"
        return shifts, ""

    def _labels_differ(self, segment: Segment, name: str, shift: Array) -> list[Difference]:
        """How labels of the whole differ from those of the source at the same positions."""
        told: list[Difference] = []
        variable = self.original.variable(name)
        for axis, dim in enumerate(self.referred.dims):
            mine = self.referred.labels.of(dim, self.referred.array.shape[axis])
            if mine is None:
                continue
            mapped = np.flatnonzero(segment.axis == axis).tolist()
            found = self._labels_of(dim, variable, mapped)
            if found is None:
                self.outcome.unlabelled.add(dim)
                continue
            self.outcome.labelled.add(dim)
            label, theirs = found
            begin, count = int(segment.start[axis]), int(segment.count[axis])
            line = np.zeros(count, np.int64)
            if mapped:
                line = segment.line(mapped[0], begin, count) + shift[mapped[0]]
            key = (dim, label, begin, count, *line[[0, -1]].tolist())
            if key not in self._labels:
                here = mine[begin : begin + count]
                self._labels[key] = self._label_differs(dim, here, theirs, begin, line, mapped)
            told += self._labels[key]
        return told

    def _label_differs(
        self, dim: str, mine: Array, theirs: Array, begin: int, line: Array, mapped: Sequence[int]
    ) -> list[Difference]:
        wrong = ~same_labels(mine, theirs[line], self.referred.labels.tolerance)
        if not wrong.any():
            return []
        at = int(np.argmax(wrong))
        difference = self._difference(
            "label",
            index=(begin + at,),
            source_index=(int(line[at]),) if mapped else (),
            stored=text_of(mine[at]),
            expected=text_of(theirs[line[at]]),
            count=int(wrong.sum()),
            dim=dim,
        )
        return [difference]

    def _labels_of(
        self, dim: str, variable: xr.Variable, mapped: Sequence[int]
    ) -> tuple[str, Array] | None:
        """Name and values of the source's coordinate for a dimension of the whole, if it has one.

        Where the dimension is not of the source, a coordinate without dimensions is.
        """
        if len(mapped) > 1:
            return None
        own = (str(variable.dims[mapped[0]]),) if mapped else ()
        for name in dict.fromkeys((dim, *own)):
            if name in self.original and self.original.variable(name).dims == own:
                theirs = self.original.labels(name)
                if theirs is not None:
                    return name, theirs.reshape(-1)
        return None

    # -- values ------------------------------------------------------------------------------------

    def _attempt(self, compare: Callable[..., int], *args: Any) -> None:
        """Compare some elements; say so where one side can't be read."""
        try:
            self.outcome.compared += compare(*args)
        except Unreadable as error:
            self._leave(_elements(args[-1]), str(error))
        except (UnsupportedError, UpstreamFault) as error:
            self._leave(_elements(args[-1]), f"reading it is refused: {error.reason}")

    def _compare_box(self, used: tuple[Segment, str, Array], box: Box) -> int:
        segment, name, shift = used
        begin, count = box
        lines: list[Array] = []
        key: list[slice] = []
        for dim, axis in enumerate(segment.axis.tolist()):
            at, length = (begin[axis], count[axis]) if axis >= 0 else (0, 1)
            line = segment.line(dim, at, length) + shift[dim]
            low, high = int(line.min()), int(line.max())
            stride = max(1, abs(int(segment.step[dim]))) if axis >= 0 else 1
            key.append(slice(low, high + 1, stride))
            lines.append((line - low) // stride)
        values = self.original.read(name, key)
        if lines:
            values = values[boxed_index(lines, segment.axis.tolist(), len(count))]
        expected = np.broadcast_to(self._decoded(segment, values), count)

        def where(flat: int) -> Array:
            return np.array(np.unravel_index(flat, count), np.int64).reshape(1, -1) + begin

        slices = tuple(slice(low, low + n) for low, n in zip(begin, count, strict=True))

        def load() -> Array:
            return self.referred.array[slices].load()

        return self._compare(used, expected, load, where)

    def _compare_sample(self, usable: Sequence[tuple[Segment, str, Array]]) -> None:
        """Compare the corners of segments, and some elements at random."""
        assert self.sample is not None
        placed = self.referred.placed
        share = placed.volumes[self.number] / max(placed.elements, 1)
        quota = max(2, -int(-self.sample * share // 1))
        seed = [SEED, self.number, crc32(self.referred.path.encode())]
        chosen = sample_of([segment for segment, _, _ in usable], quota, seed)
        for used, where in zip(usable, chosen, strict=True):
            segment, _, shift = used
            there = segment.sources(where) + shift
            chunks = (there - shift) // segment.chunk
            _, group = np.unique(chunks, axis=0, return_inverse=True)
            group = group.reshape(-1) if chunks.shape[1] else np.zeros(len(where), np.int64)
            order = np.argsort(group, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
                if len(rows):
                    self._attempt(self._compare_points, used, there[rows], where[rows])

    def _compare_points(self, used: tuple[Segment, str, Array], there: Array, where: Array) -> int:
        """Compare elements of one chunk of the source."""
        segment, name, _ = used
        low, high = there.min(axis=0), there.max(axis=0)
        key = [slice(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        values = self.original.read(name, key)[tuple((there - low).T)]
        expected = np.broadcast_to(self._decoded(segment, values), len(where))

        def load() -> Array:
            array = self.referred.array
            if not array.ndim:
                return np.broadcast_to(array.load(), len(where))
            return array[tuple(where.T)].load()

        return self._compare(used, expected, load, lambda flat: where[flat : flat + 1])

    def _decoded(self, segment: Segment, values: Array) -> Array:
        """The source's values as joining made them: of the type that all sources share."""
        steps = self._steps[segment.case, native(values.dtype)]
        assert steps is not None
        return apply_after(steps, values)

    def _compare(
        self,
        used: tuple[Segment, str, Array],
        expected: Array,
        load: Callable[[], Array],
        where: Callable[[int], Array],
    ) -> int:
        segment, _, shift = used
        try:
            stored = load()
        except (UnsupportedError, UpstreamFault):
            raise
        except IntarsiaError as error:
            wrong, stored, reason = np.ones(expected.shape, bool), None, str(error)
        else:
            wrong, reason = ~same_bits(stored, expected), ""
        if wrong.any():
            self._wrong += int(wrong.sum())
            if self._value is None:
                flat = int(np.argmax(wrong))
                place = where(flat)
                self._value = self._difference(
                    "unreadable" if stored is None else "value",
                    index=tuple(place[0].tolist()),
                    source_index=tuple((segment.sources(place) + shift)[0].tolist()),
                    labels=self._labels_at(place[0]),
                    stored=reason if stored is None else text_of(stored.reshape(-1)[flat]),
                    expected=text_of(expected.reshape(-1)[flat]),
                )
        return expected.size

    # -- telling -----------------------------------------------------------------------------------

    def _labels_at(self, place: Array) -> dict[str, str]:
        found: dict[str, str] = {}
        shape = self.referred.array.shape
        for dim, at, size in zip(self.referred.dims, place.tolist(), shape, strict=True):
            labels = self.referred.labels.of(dim, size)
            if labels is not None:
                found[dim] = text_of(labels[at])
        return found

    def _difference(self, kind: Any, **told: Any) -> Difference:
        return Difference(self.referred.path, kind, shown(self.original.source.url), **told)

    def _leave(self, elements: int, reason: str) -> None:
        url = shown(self.original.source.url)
        self.outcome.uncompared.append(Uncompared(self.referred.path, elements, reason, url))


def _elements(what: Any) -> int:
    """Elements of a box, or points."""
    return len(what) if isinstance(what, np.ndarray) else int(np.prod(what[1], dtype=np.int64))
