"""The sources seen by variable: equal summaries grouped, so that many like files cost little."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from intarsia.combine.summary import SourceSummary, VariableSummary

__all__ = ["Column", "Group", "columns", "group"]


class Group(NamedTuple):
    """A value that several sources share: the value, the first of them, how many."""

    value: Any
    first: int
    sources: int


class Column:
    """One variable over all sources.

    Parameters
    ----------
    name
        Of the variable.
    by_source
        Its summary in each source, None where it is absent.

    Attributes
    ----------
    fine : list of Group
        The distinct summaries, by first source.
    groups : list of Group
        The same without what may well be different in every file (`VariableSummary.steady`): of
        those that are the same otherwise, one stands for all. Most questions are about these.
    absent : Group or None
        The sources that lack it.
    """

    __slots__ = ("absent", "by_source", "fine", "groups", "name")

    def __init__(self, name: str, by_source: Sequence[VariableSummary | None]) -> None:
        self.name = name
        self.by_source = by_source
        found = group(by_source)
        self.absent = next((entry for entry in found if entry.value is None), None)
        self.fine = [entry for entry in found if entry.value is not None]
        examples: dict[Hashable, Any] = {}
        for entry in self.fine:
            examples.setdefault(entry.value.steady, entry.value)
        steady = regroup(self.fine, _steady)
        self.groups = [entry._replace(value=examples[entry.value]) for entry in steady]

    @property
    def first(self) -> VariableSummary:
        """The summary in the first source that has it."""
        return self.groups[0].value

    @property
    def present(self) -> int:
        """How many sources have it."""
        return sum(entry.sources for entry in self.groups)

    def any(self, has: Callable[[VariableSummary], bool]) -> bool:
        """Whether it is true of the variable in some source."""
        return any(has(entry.value) for entry in self.groups)

    def by(self, aspect: Callable[[VariableSummary], Hashable]) -> list[Group]:
        """Group the sources that have it by one aspect, by first source.

        `aspect` is asked once for each of `groups`.
        """
        return regroup(self.groups, aspect)

    def by_fine(self, aspect: Callable[[VariableSummary], Hashable]) -> list[Group]:
        """Group the sources that have it by an aspect that may differ in every file."""
        return regroup(self.fine, aspect)


def columns(summaries: Sequence[SourceSummary]) -> Iterator[Column]:
    """Go through the sources by variable, in the order in which variables first appear."""
    names: dict[str, None] = {}
    seen: set[int] = set()
    for summary in summaries:
        if id(summary.variables) not in seen:
            seen.add(id(summary.variables))
            names.update(dict.fromkeys(summary.variables))
    for name in names:
        yield Column(name, [summary.variables.get(name) for summary in summaries])


def group(values: Iterable[Hashable]) -> list[Group]:
    """Group equal values, by first appearance.

    Identical objects are not compared, nor hashed more than once.
    """
    counts: dict[int, list[Any]] = {}
    for place, value in enumerate(values):
        entry = counts.get(id(value))
        if entry is None:
            counts[id(value)] = [value, place, 1]
        else:
            entry[2] += 1
    return regroup(counts.values(), _same)


def regroup(groups: Iterable[Sequence[Any]], aspect: Callable[[Any], Hashable]) -> list[Group]:
    """Unite groups whose values are equal in an aspect, by first appearance."""
    united: dict[Hashable, list[Any]] = {}
    for value, first, count in groups:
        key = aspect(value)
        entry = united.get(key)
        if entry is None:
            united[key] = [key, first, count]
        else:
            entry[1] = min(entry[1], first)
            entry[2] += count
    return sorted((Group(*entry) for entry in united.values()), key=_first)


def _steady(summary: VariableSummary) -> Hashable:
    return summary.steady


def _same(value: Any) -> Hashable:
    return value


def _first(entry: Group) -> int:
    return entry.first
