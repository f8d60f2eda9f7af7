"""What reading would cost: the plan of a load, counted and not carried out."""

from __future__ import annotations

import html
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from intarsia.array import VirtualArray
from intarsia.array.reprs import human
from intarsia.encoding import Case
from intarsia.engine.plan import plans
from intarsia.references import ABSENT, INLINE
from intarsia.segments import SOURCE


@dataclass(frozen=True, slots=True)
class Cost:
    """What one variable, or all of them, would take to load.

    Parameters
    ----------
    segments, sources, cases
        What the values are made of.
    chunks
        Distinct stored chunks to decode.
    fill
        Touched chunks that were never written.
    inline
        Touched chunks whose bytes are in memory already.
    requests, read_nbytes
        Reads, and their bytes.
    nbytes
        Bytes of the values.
    reference_nbytes
        Bytes of segment and reference columns.
    refused
        Why reading raises, or None.
    """

    segments: int
    sources: int
    cases: int
    chunks: int
    fill: int
    inline: int
    requests: int
    read_nbytes: int
    nbytes: int
    reference_nbytes: int
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Cost of loading some variables together.

    Parameters
    ----------
    total
        All of them, neighbours read with one request.
    variables
        Each on its own.
    """

    total: Cost
    variables: dict[str, Cost]

    @property
    def requests(self) -> int:
        """Reads that loading would make."""
        return self.total.requests

    @property
    def nbytes(self) -> int:
        """Bytes that loading would read."""
        return self.total.read_nbytes

    def _rows(self) -> list[list[str]]:
        rows: list[list[str]] = []
        for name, cost in [*self.variables.items(), ("together", self.total)]:
            rows.append([
                name, f"{cost.segments:,}", f"{cost.sources:,}", f"{cost.cases:,}",
                f"{cost.chunks:,}", f"{cost.fill:,}", f"{cost.requests:,}",
                "refused" if cost.refused else human(cost.read_nbytes), human(cost.nbytes),
            ])  # fmt: skip
        return rows

    def _refusals(self) -> list[str]:
        return [
            f"{name} can't be read: {cost.refused}"
            for name, cost in self.variables.items()
            if cost.refused
        ]

    def __repr__(self) -> str:
        if not self.variables:
            return "Nothing here is virtual: loading would read nothing."
        rows = [list(HEAD), *self._rows()]
        widths = [max(len(row[n]) for row in rows) for n in range(len(HEAD))]
        lines = ["Loading would read:"]
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  " + "  ".join(cells).rstrip())
        return "\n".join([*lines, *self._refusals()])

    def _repr_html_(self) -> str:
        if not self.variables:
            return f"<p>{self!r}</p>"
        head = "".join(f"<th style='text-align:right'>{html.escape(cell)}</th>" for cell in HEAD)
        body = ""
        for row in self._rows():
            style = "font-weight:bold" if row[0] == "together" else ""
            cells = "".join(f"<td style='text-align:right'>{html.escape(c)}</td>" for c in row)
            body += f"<tr style='{style}'>{cells}</tr>"
        table = f"<table><caption>Loading would read</caption><tr>{head}</tr>{body}</table>"
        return table + "".join(f"<p>{html.escape(line)}</p>" for line in self._refusals())


HEAD = (
    "variable", "segments", "sources", "cases", "chunks", "fill chunks", "requests", "to read",
    "values",
)  # fmt: skip


def explain(arrays: Mapping[Hashable, VirtualArray]) -> Explanation:
    """Plan the load of `arrays`, one by one and together."""
    variables = {str(name): _cost([array]) for name, array in arrays.items()}
    return Explanation(_cost(list(arrays.values())), variables)


def _cost(arrays: list[VirtualArray]) -> Cost:
    chunks = fill = inline = requests = read = 0
    for plan in plans([array.segments for array in arrays]):
        chunks += plan.chunks
        requests += plan.requests
        read += plan.nbytes
        for part in plan.parts:
            fill += int((part.touches.state == ABSENT).sum())
            inline += int((part.touches.state == INLINE).sum())
    sources: set[str] = set()
    used_cases = 0
    refused: str | None = None
    for array in arrays:
        held = array.segments
        numbers: set[int] = set()
        cases: set[int] = set()
        for block in held.blocks:
            numbers.update(np.unique(block.column(SOURCE)).tolist())
            cases.update(np.unique(block.column(0)).tolist())
        sources.update(held.sources.url(number) for number in numbers if number >= 0)
        used_cases += len(cases)
        refused = refused or next(filter(None, (refusal(held.cases[n]) for n in cases)), None)
    return Cost(
        segments=sum(len(array.segments) for array in arrays),
        sources=len(sources),
        cases=used_cases,
        chunks=chunks,
        fill=fill,
        inline=inline,
        requests=requests,
        read_nbytes=read,
        nbytes=sum(array.nbytes for array in arrays),
        reference_nbytes=sum(array.segments.nbytes for array in arrays),
        refused=refused,
    )


def refusal(case: Case) -> str | None:
    """Why values of a case can't be read, or None."""
    filters = case.encoding.filters
    return filters[0].config["reason"] if filters and filters[0].name == "refused" else None
