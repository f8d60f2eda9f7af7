"""What differed between the sources of a dataset and what was done, to be read by people."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from intarsia.combine.decision import Decision
from intarsia.combine.difference import Difference
from intarsia.combine.text import lines_of, table
from intarsia.errors import shown

__all__ = ["Report", "Skipped", "joined"]

_DERIVED = frozenset(
    (
        "byte-order",
        "checksum",
        "chunks",
        "codec",
        "dtype",
        "fill",
        "packing-types",
        "partial-chunks",
        "raw-fill",
        "scale-offset",
        "stored-dtype",
    )
)
"""Kinds that `report_from_parts` sees in the segments of a virtual array; no note is needed."""

_HEADERS = ("variable", "what differs", "values", "what is done")
_NAMES_SHOWN = 6
_LEFT_OUT = "left out: "
_SUBJECTS = ("'", '"', "files: ", _LEFT_OUT)
"""How notes begin that name what they are about, as `Difference.note` writes them."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source that was left out, and why."""

    url: str
    reason: str
    kind: str = "error"

    @classmethod
    def of(cls, url: str, error: Exception) -> Self:
        """Tell it from the error; ``kind`` is the error's stable name."""
        return cls(shown(url), str(error), str(getattr(error, "kind", type(error).__name__)))

    def __str__(self) -> str:
        return self.reason if self.url in self.reason else f"{self.url}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """What differed between the sources, and what was done.

    Parameters
    ----------
    sources
        How many sources there are, without those that were skipped.
    differences
        What differed.
    skipped
        Sources that were left out.
    remarks
        Other things that happened to a variable: ``{variable: lines}``, under ``""`` for the
        whole (what was loaded and why, what is not supported, what the segments can't tell).
    concat_dims
        The dimensions of concatenation, where they are known.
    """

    sources: int
    differences: tuple[Difference, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    remarks: Mapping[str, tuple[str, ...]] | None = None
    concat_dims: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        decision: Decision,
        *,
        skipped: Iterable[tuple[str, Exception]] = (),
        remarks: Mapping[str, Iterable[str]] | None = None,
    ) -> Self:
        """Make one from a decision.

        Parameters
        ----------
        decision
            Of `decide`.
        skipped
            (url, error) of the sources that were left out.
        remarks
            See the class.
        """
        return cls(
            decision.sources,
            decision.differences,
            tuple(Skipped.of(url, error) for url, error in skipped),
            _frozen(remarks or {}),
            decision.concat_dims,
        )

    @staticmethod
    def notes(
        decision: Decision, skipped: Iterable[tuple[str, Exception]] = ()
    ) -> dict[str, tuple[str, ...]]:
        """What a virtual array should carry along, since its segments can't tell it.

        Parameters
        ----------
        decision, skipped
            As for `of`.

        Returns
        -------
        dict
            Notes by variable, to be given to that variable's array. Those under ``""`` are about
            the whole, or about variables that are loaded: they are given to every array.
        """
        notes: dict[str, list[str]] = {}
        for difference in decision.differences:
            name = difference.variable
            virtual = name in decision.virtual
            if virtual and difference.kind in _DERIVED:
                continue
            place = name if name is not None and virtual else ""
            notes.setdefault(place, []).append(difference.note)
        whole = [f"{_LEFT_OUT}{Skipped.of(url, error)}" for url, error in skipped]
        if whole:
            notes.setdefault("", []).extend(whole)
        return {name: tuple(lines) for name, lines in notes.items()}

    def as_json(self) -> dict[str, Any]:
        """As plain data: the stable form for programs."""
        return {
            "sources": self.sources,
            "concat_dims": list(self.concat_dims),
            "differences": [difference.as_json() for difference in self.differences],
            "skipped": [
                {"source": one.url, "kind": one.kind, "reason": one.reason} for one in self.skipped
            ],
            "notes": {name: list(lines) for name, lines in (self.remarks or {}).items()},
        }

    @property
    def title(self) -> str:
        """The first line: how many sources, and along which dimensions."""
        if not self.sources and not self.skipped:
            return "Nothing here is virtual: what is in memory does not tell where it came from"
        text = "1 source" if self.sources == 1 else f"{self.sources} sources"
        if self.concat_dims:
            text += f", along {' and '.join(self.concat_dims)}"
        if self.skipped:
            text += f"; {len(self.skipped)} left out"
        return text

    def text(self, width: int = 100) -> str:
        """As plain text, in at most `width` characters if that can be done."""
        parts = [self.title]
        rows = _rows(self.differences)
        if rows:
            parts.append(table(_HEADERS, rows, width))
        elif self.sources:
            parts.append("No differences between them.")
        if self.skipped:
            parts.append("\n".join(["Left out:", *(lines_of(str(s), width) for s in self.skipped)]))
        listed = list(_listed(self.remarks))
        if listed:
            parts.append("\n".join(["Notes:", *(lines_of(line, width) for line in listed)]))
        return "\n\n".join(parts)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        escape = html.escape
        parts = [f"<div><p><b>Intarsia report</b>: {escape(self.title)}</p>"]
        rows = _rows(self.differences)
        if rows:
            head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in _HEADERS)
            body = "".join(
                "<tr>"
                + "".join(f"<td style='{_CELL}'>{_lines(cell)}</td>" for cell in row)
                + "</tr>"
                for row in rows
            )
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        elif self.sources:
            parts.append("<p>No differences between them.</p>")
        for name, lines in (
            ("Left out", [str(one) for one in self.skipped]),
            ("Notes", list(_listed(self.remarks))),
        ):
            if lines:
                items = "".join(f"<li>{escape(line)}</li>" for line in lines)
                parts.append(
                    f"<details open><summary>{name} ({len(lines)})</summary>"
                    f"<ul>{items}</ul></details>"
                )
        return "".join(parts) + "</div>"


def _lines(cell: str) -> str:
    return html.escape(cell).replace("\n", "<br>")


_CELL = "text-align:left;vertical-align:top"


def joined(differences: Sequence[Difference]) -> list[tuple[list[str], Difference]]:
    """Put together what differs in the same way in several variables.

    Returns
    -------
    list of (variables, difference)
        In the order of the differences; no variables for what concerns the whole.
    """
    groups: dict[Any, tuple[list[str], Difference]] = {}
    for difference in differences:
        key = (difference.kind, difference.item, tuple(difference.values), difference.what)
        names, _ = groups.setdefault(key, ([], difference))
        if difference.variable is not None:
            names.append(difference.variable)
    return list(groups.values())


def _rows(differences: Sequence[Difference]) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    for names, difference in joined(differences):
        shown = ", ".join(names[:_NAMES_SHOWN])
        if len(names) > _NAMES_SHOWN:
            shown += f" and {len(names) - _NAMES_SHOWN} more"
        what = difference.row.title
        if difference.item is not None:
            what = f"{difference.item} ({what})"
        rows.append((shown, what, "\n".join(difference.values), difference.what))
    return rows


def _frozen(notes: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(lines) for name, lines in notes.items()}


def _listed(remarks: Mapping[str, tuple[str, ...]] | None) -> Iterable[str]:
    """List each remark once, with the variables it belongs to if it doesn't say so itself."""
    variables: dict[str, list[str]] = {}
    for name, lines in (remarks or {}).items():
        for line in lines:
            variables.setdefault(line, []).append(name)
    for line, names in variables.items():
        if "" in names or line.startswith(_SUBJECTS):
            yield line
        else:
            yield f"{', '.join(map(repr, names))}: {line}"
