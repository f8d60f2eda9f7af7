"""What verifying found: sources that changed, values that differ, and what was not compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from intarsia.combine.text import lines_of, table

__all__ = ["Changed", "Difference", "Uncompared", "VariableResult", "Verification"]

type Kind = Literal["value", "label", "type", "unreadable"]

FEW = 10
"""Differences, sources and remarks that the text lists; the JSON form has all."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A source that is not the one that was scanned, or can't be had.

    Parameters
    ----------
    source
        Path or URL.
    kind
        Stable name of the error: ``"source-changed"``, ``"source-missing"``, ...
    reason
        What changed.
    """

    source: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as a source's own library gives it.

    Parameters
    ----------
    variable
        Which, by its path where it is not in the root group.
    kind
        ``"value"``: another value at the same position. ``"label"``: the source has another label
        at the position that the value was taken from. ``"type"``: the source's values are of a
        type that what was recorded does not lead to. ``"unreadable"``: the store can't give what
        the source's own library reads.
    source
        Path or URL.
    index
        Where in the whole: the first element that differs. For labels, the index along `dim`.
    source_index
        Where in the source.
    labels
        Labels of the whole at `index`, by dimension.
    stored, expected
        What the store gives, and what the source has.
    count
        Elements of this variable and source that differ.
    dim
        The dimension whose labels differ.
    """

    variable: str
    kind: Kind
    source: str
    index: tuple[int, ...] = ()
    source_index: tuple[int, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    stored: str = ""
    expected: str = ""
    count: int = 1
    dim: str | None = None

    @property
    def place(self) -> str:
        """Where it is in the whole."""
        if self.dim is not None:
            return f"{self.dim}[{self.index[0]}]"
        named = ", ".join(f"{dim}={label}" for dim, label in self.labels.items())
        return f"{self.variable}[{', '.join(map(str, self.index))}]" + (named and f" ({named})")

    def __str__(self) -> str:
        source = f"{self.source}[{', '.join(map(str, self.source_index))}]"
        match self.kind:
            case "label":
                text = f"the label {self.place} is {self.stored}, but {self.expected} in {source}"
                return f"{text}, which {self.variable} takes its values from"
            case "type":
                return f"{self.variable} is of type {self.stored}, but {self.expected} in {source}"
            case "unreadable":
                return f"{self.place} can't be read, but in {source}: {self.stored}"
            case "value":
                more = f" ({self.count:,} elements differ)" if self.count > 1 else ""
                return f"{self.place} is {self.stored}, but {self.expected} in {source}{more}"


@dataclass(frozen=True, slots=True)
class Uncompared:
    """Elements that were not compared, and why.

    Parameters
    ----------
    variable
        Which.
    elements
        How many.
    reason
        Why.
    source
        Where they come from, if it is one source.
    copied
        Whether the store holds the values themselves, so that no source is needed to read them.
    """

    variable: str
    elements: int
    reason: str
    source: str | None = None
    copied: bool = False

    def __str__(self) -> str:
        where = f" of {self.source}" if self.source else ""
        return f"{self.variable}: {_count(self.elements, 'element')}{where}, {self.reason}"


@dataclass(frozen=True, slots=True)
class VariableResult:
    """How much of a variable was compared.

    Parameters
    ----------
    variable
        Which.
    copied
        Whether its values are in the store, and not in the sources.
    elements, compared
        Elements, and how many of them were compared.
    constants
        Elements that no source has: joining filled them.
    sources
        Sources that were compared.
    by_label
        Dimensions along which the labels of the sources were compared, too; along the others,
        positions alone say what belongs where.
    """

    variable: str
    copied: bool
    elements: int
    compared: int
    constants: int
    sources: int
    by_label: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """What verifying found.

    Parameters
    ----------
    store
        What was verified.
    sources
        How many sources there are.
    sample
        Elements per variable that were asked for; None for all.
    changed
        Sources that changed or are missing; nothing is compared with them.
    variables
        How much was compared.
    differences
        What is not as the sources' own library gives it.
    uncompared
        What could not be compared.
    """

    store: str
    sources: int
    sample: int | None
    changed: tuple[Changed, ...]
    variables: tuple[VariableResult, ...]
    differences: tuple[Difference, ...]
    uncompared: tuple[Uncompared, ...]

    @property
    def equal(self) -> bool:
        """Whether no source changed, and nothing that was compared differs."""
        return not self.changed and not self.differences

    @property
    def complete(self) -> bool:
        """Whether all that stays in the sources could be compared (a sample of it, if so asked)."""
        return not self.changed and all(one.copied for one in self.uncompared)

    @property
    def ok(self) -> bool:
        """Whether all is equal, and all could be compared."""
        return self.equal and self.complete

    @property
    def status(self) -> int:
        """Exit status of the command: 0 if all is well, else 1."""
        return 0 if self.ok else 1

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the stable form for programs."""
        return {
            "store": self.store,
            "ok": self.ok,
            "equal": self.equal,
            "complete": self.complete,
            "sources": self.sources,
            "sample": self.sample,
            "changed": [asdict(one) for one in self.changed],
            "differences": [asdict(one) for one in self.differences],
            "uncompared": [asdict(one) for one in self.uncompared],
            "variables": [asdict(one) for one in self.variables],
        }

    def text(self, width: int = 100) -> str:
        """As plain text, in at most `width` characters if that can be done."""
        parts = [f"{self.store}: {_count(self.sources, 'source')}"]
        for title, items in (
            ("Changed or missing sources:", list(map(str, self.changed))),
            ("Differences:", _joined(self.differences)),
            ("Not compared:", _reasons(self.uncompared)),
        ):
            if items:
                listed = [lines_of(item, width) for item in items[:FEW]]
                if len(items) > FEW:
                    listed.append(f"- and {len(items) - FEW:,} more")
                parts.append("\n".join([title, *listed]))
        if self.variables:
            parts.append(table(_HEADERS, [_row(one) for one in self.variables], width))
        return "\n\n".join([*parts, self._verdict()])

    def _verdict(self) -> str:
        if self.changed:
            return f"Not verified: {_count(len(self.changed), 'source')} changed or missing."
        if self.differences:
            return "Not equal to the sources."
        if not self.complete:
            return "Not verified: something could not be compared."
        if not any(one.compared for one in self.variables if not one.copied):
            return "Nothing is by reference: no source to compare with."
        sampled = "" if self.sample is None else ", as far as the sample shows"
        return f"Equal to the sources in every bit{sampled}."

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()


_HEADERS = ("variable", "values", "elements", "compared", "constant", "sources", "by label")


def _row(one: VariableResult) -> tuple[str, ...]:
    return (
        one.variable,
        "copied" if one.copied else "referred",
        f"{one.elements:,}",
        f"{one.compared:,}",
        f"{one.constants:,}",
        f"{one.sources:,}",
        ", ".join(one.by_label),
    )


def _joined(differences: Sequence[Difference]) -> list[str]:
    """One line for each, and one for a label that differs for several variables or from sources."""
    groups: dict[Any, list[Difference]] = {}
    for number, one in enumerate(differences):
        label = (one.dim, one.index, one.stored, one.expected)
        groups.setdefault(number if one.dim is None else label, []).append(one)
    lines: list[str] = []
    for same in groups.values():
        text = str(same[0])
        variables = {one.variable for one in same} - {same[0].variable}
        sources = {one.source for one in same} - {same[0].source}
        more = [
            _count(len(those), word)
            for those, word in ((variables, "other variable"), (sources, "other source"))
            if those
        ]
        lines.append(text + (f"; so for {' and '.join(more)}" if more else ""))
    return lines


def _reasons(uncompared: Iterable[Uncompared]) -> list[str]:
    """One line for each variable and reason, however many sources it concerns."""
    groups: dict[tuple[str, str], list[Uncompared]] = {}
    for one in uncompared:
        groups.setdefault((one.variable, one.reason), []).append(one)
    lines: list[str] = []
    for same in groups.values():
        total = Uncompared(
            same[0].variable, sum(one.elements for one in same), same[0].reason, same[0].source
        )
        more = f" (and {_count(len(same) - 1, 'other source')})" if len(same) > 1 else ""
        lines.append(f"{total}{more}")
    return lines


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s'[: number != 1]}"
