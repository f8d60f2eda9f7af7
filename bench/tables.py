"""Results as tables: for the terminal, as Markdown, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.harness import Result

SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True)
class Target:
    """Something that is asked for.

    Parameters
    ----------
    text
        What.
    found
        What was measured, as text.
    met
        Whether that is enough; None where it could not be measured.
    """

    text: str
    found: str
    met: bool | None


@dataclass
class Table:
    """What one measurement found.

    Parameters
    ----------
    title
        What was done.
    unit
        What is counted: "chunk", "file", ...
    results
        Who did it; the first is Intarsia.
    targets
        What is asked for.
    facts
        Names of facts to show, with a header and a format for each.
    note
        A sentence more.
    """

    title: str
    unit: str
    results: Sequence[Result]
    targets: list[Target] = field(default_factory=list)
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)
    note: str = ""

    def __getitem__(self, name: str) -> Result | None:
        """A contender that has run, or None."""
        return next((r for r in self.results if r.name == name and r.samples), None)

    def ratio(self, name: str, other: str, what: str = "cpu") -> float | None:
        """How many times as much `name` took as `other`, per unit."""
        one, two = self[name], self[other]
        if one is None or two is None:
            return None
        return (one.best(what) / one.units) / max(two.best(what) / two.units, 1e-9)

    def at_least(self, text: str, ratio: float | None, least: float) -> None:
        """Add a target for a ratio that should be large."""
        self._target(text, ratio, None if ratio is None else ratio >= least)

    def at_most(self, text: str, ratio: float | None, most: float) -> None:
        """Add a target for a ratio that should be small."""
        self._target(text, ratio, None if ratio is None else ratio <= most)

    def _target(self, text: str, ratio: float | None, met: bool | None) -> None:
        found = (
            "not measured" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
        )
        self.targets.append(Target(text, found, met))

    @property
    def problems(self) -> list[str]:
        """Contenders that failed, or read other values than the first."""
        found = [
            f"{result.name}: {result.problem}"
            for result in self.results
            if result.problem and not result.problem.startswith("not installed")
        ]
        first = next((r.digest for r in self.results if r.digest), None)
        found += [
            f"{result.name}: other values than {self.results[0].name}"
            for result in self.results
            if result.digest not in (None, first)
        ]
        return found

    def cells(self) -> list[list[str]]:
        """Header and rows, as text."""
        counted = any(s.reads for r in self.results for s in r.samples)
        header = ["", f"CPU per {self.unit}", "× Intarsia", "CPU s", "wall s"]
        held = any(s.peak_bytes for r in self.results for s in r.samples)
        header += [*(["reads", "MB read"] if counted else []), *(["peak MB"] if held else [])]
        header += [title for title, _ in self.facts.values()]
        rows = [header]
        base = next((r for r in self.results if r.samples), None)
        for result in self.results:
            if not result.samples:
                short = result.problem if len(result.problem) < 30 else "failed"
                rows.append([result.name, short, *[""] * (len(header) - 2)])
                continue
            many = result.cpu / base.cpu if base is not None and base.cpu else 0.0
            row = [
                result.name,
                scaled(result.cpu),
                f"{many:.3g}",
                f"{result.best('cpu'):.3f}",
                f"{result.best('wall'):.3f}",
            ]
            if counted:
                row += [
                    f"{int(result.best('reads')):,}",
                    f"{result.best('read_bytes') / 1e6:.2f}",
                ]
            if held:
                row.append(f"{max(sample.peak_bytes for sample in result.samples) / 1e6:.0f}")
            for name, (_, form) in self.facts.items():
                value = result.facts.get(name)
                row.append("" if value is None else format(value, form))
            rows.append(row)
        return rows

    def text(self) -> str:
        """For a terminal."""
        rows = self.cells()
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = ["", self.title]
        for row in rows:
            cells = [cell.ljust(w) if not n else cell.rjust(w) for n, (cell, w) in
                     enumerate(zip(row, widths, strict=True))]  # fmt: skip
            lines.append("  " + "  ".join(cells).rstrip())
        lines += [f"  {mark(target)} {target.text}: {target.found}" for target in self.targets]
        lines += [f"  ! {problem}" for problem in self.problems]
        return "\n".join(lines)

    def markdown(self) -> str:
        """For the docs."""
        rows = self.cells()
        lines = [f"### {self.title}", "", *([self.note, ""] if self.note else [])]
        lines.append("| " + " | ".join(rows[0]) + " |")
        lines.append("|---" + "|--:" * (len(rows[0]) - 1) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
        lines.append("")
        for target in self.targets:
            lines.append(f"- {mark(target)} {target.text}: **{target.found}**")
        lines += [f"- Failed: {problem}" for problem in self.problems]
        return "\n".join(lines).rstrip() + "\n"

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "title": self.title,
            "unit": self.unit,
            "results": [
                {
                    "name": result.name,
                    "units": result.units,
                    "samples": [sample._asdict() for sample in result.samples],
                    "facts": result.facts,
                    "problem": result.problem,
                }
                for result in self.results
            ],
            "targets": [vars(target) for target in self.targets],
            "problems": self.problems,
        }


def mark(target: Target) -> str:
    """A word for a target: met, missed, or not measured."""
    return {True: "met", False: "MISSED", None: "-"}[target.met]


def scaled(seconds: float) -> str:
    """Seconds with a fitting unit."""
    for size, unit in SCALES:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
