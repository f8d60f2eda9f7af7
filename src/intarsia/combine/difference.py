"""One difference between sources: which kind, in which variable, which values, from which files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from intarsia.combine.table import TABLE, Outcome, Row
from intarsia.errors import shown as place_shown

__all__ = ["SHOWN", "Difference", "Example"]

SHOWN = 6
"""How many of the values a `Difference` keeps; the others are counted."""


class Example(NamedTuple):
    """One of the values met.

    Parameters
    ----------
    text
        How it reads.
    url, first
        The first source that has it, and its number.
    sources
        How many sources have it.
    value
        The value itself if it is a string, else None.
    """

    text: str
    url: str
    sources: int
    first: int
    value: str | None = None

    def __str__(self) -> str:
        name = posixpath.basename(self.url) or self.url
        where = name if self.sources == 1 else f"{self.sources} files, first {name}"
        return f"{self.text} ({where})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is not the same in all sources.

    Parameters
    ----------
    kind
        A row of the table.
    variable
        The variable, or None for the whole file.
    item
        What of it, where the kind leaves that open: an attribute, a dimension.
    examples
        The values met, by first source, at most `SHOWN` of them.
    distinct
        How many different values there are.
    outcome
        What happens, given the arguments.
    done
        What is done, in a phrase.
    detail
        More that a reader wants to know (a distance, a resulting type), or "".
    reason
        For a refusal: what is wrong, without names of variables and files.
    remedy
        For a refusal: what else can be done, or None.
    override
        For a refusal: the argument that overrides it, as it is written, or None.
    """

    kind: str
    variable: str | None = None
    item: str | None = None
    examples: tuple[Example, ...] = ()
    distinct: int = 0
    outcome: Outcome
    done: str
    detail: str = ""
    reason: str = ""
    remedy: str | None = None
    override: str | None = None

    @classmethod
    def found(
        cls,
        kind: str,
        variable: str | None,
        groups: Iterable[tuple[Hashable, int, int]],
        urls: Callable[[int], str],
        show: Callable[[Any], str] = str,
        long: Callable[[Any], str] | None = None,
        *,
        keep_order: bool = False,
        **fields: Any,
    ) -> Self:
        """Make one from grouped values, the outcome being the table's.

        Parameters
        ----------
        kind, variable
            See the class.
        groups
            (value, first source, number of sources), one for each distinct value.
        urls
            Name of a source.
        show
            How a value reads.
        long
            How it reads where values read the same by `show`.
        keep_order
            Whether `groups` are in the order in which to show them; else by first source.
        **fields
            Further fields, instead of the table's.
        """
        ordered = list(groups)
        if not keep_order:
            ordered.sort(key=lambda group: group[1])
        shown = ordered[:SHOWN]
        texts = [show(value) for value, _, _ in shown]
        if long is not None and len(set(texts)) < len(texts):
            texts = [long(value) for value, _, _ in shown]
        examples = tuple(
            Example(text, place_shown(urls(first)), count, first, _plain(value))
            for text, (value, first, count) in zip(texts, shown, strict=True)
        )
        row = TABLE[kind]
        given: dict[str, Any] = {"outcome": row.outcome, "done": row.done, **fields}
        return cls(kind=kind, variable=variable, examples=examples, distinct=len(ordered), **given)

    @property
    def row(self) -> Row:
        """The table's row."""
        return TABLE[self.kind]

    @property
    def refused(self) -> bool:
        """Whether the combination is refused for it."""
        return self.outcome is Outcome.REFUSED

    @property
    def subject(self) -> str:
        """What differs, shortly: the title of the row, or the item."""
        return self.item or self.row.title

    @property
    def values(self) -> list[str]:
        """The values met, each with how many sources have it, and the first of those."""
        shown = [str(example) for example in self.examples]
        if self.distinct > len(self.examples):
            shown.append(f"and {self.distinct - len(self.examples)} more")
        return shown

    @property
    def what(self) -> str:
        """What happens: the outcome, what is done, and the detail."""
        text = f"{self.outcome}: {self.done}"
        return f"{text} ({self.detail})" if self.detail else text

    @property
    def note(self) -> str:
        """All of it in one line, for a note that travels with an array."""
        subject = "files" if self.variable is None else repr(self.variable)
        title = self.row.title if self.item is None else f"{self.item} ({self.row.title})"
        return f"{subject}: {title}: {' | '.join(self.values)}; {self.what}"

    def equal(self, done: str) -> Difference:
        """Make the same difference, no longer refused: combined as xarray does."""
        return self._settled(Outcome.EQUAL, done)

    def on_purpose(self, done: str) -> Difference:
        """Make the same difference, no longer refused: settled as an argument of Intarsia says."""
        return self._settled(Outcome.DIFFERS, done)

    def _settled(self, outcome: Outcome, done: str) -> Difference:
        return replace(self, outcome=outcome, done=done, reason="", remedy=None, override=None)

    def as_json(self) -> dict[str, Any]:
        """As plain data: the stable form for programs."""
        return {
            "kind": self.kind,
            "variable": self.variable,
            "item": self.item,
            "outcome": self.outcome.value,
            "done": self.done,
            "detail": self.detail,
            "distinct": self.distinct,
            "values": [
                {"value": example.text, "source": example.url, "sources": example.sources}
                for example in self.examples
            ],
            "reason": self.reason,
            "remedy": self.remedy,
            "override": self.override,
        }


def _plain(value: Any) -> str | None:
    return value if isinstance(value, str) else None
