"""The answer of ``intarsia check``: what differs, what would be done, and whether it can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from intarsia.combine.conflicts import conflict
from intarsia.combine.decision import Decision
from intarsia.combine.report import Report
from intarsia.combine.text import lines_of

__all__ = ["CheckResult"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether sources can be combined as asked, and what would be done about what differs.

    Parameters
    ----------
    report
        What differs, and what was left out.
    problems
        Why they can't be combined, one line each; empty if they can.
    """

    report: Report
    problems: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        decision: Decision,
        *,
        skipped: Sequence[tuple[str, Exception]] = (),
        on_error: Literal["raise", "skip"] = "raise",
        problem: Exception | None = None,
        remarks: Mapping[str, Iterable[str]] | None = None,
    ) -> Self:
        """Make one from a decision.

        Parameters
        ----------
        decision
            Of `decide`, about the sources that could be opened.
        skipped
            (url, error) of those that could not.
        on_error
            ``"raise"``: each of those is a problem; ``"skip"``: they are left out.
        problem
            What xarray raised when it was tried, or None.
        remarks
            See `Report`.
        """
        problems = [str(error) for _, error in skipped] if on_error == "raise" else []
        if decision.sources == 0:
            problems.append("there is no source to combine")
        problems += [str(conflict(difference)) for difference in decision.refused]
        if problem is not None:
            problems.append(_first_line(problem))
        report = Report.of(decision, skipped=skipped, remarks=remarks)
        return cls(report, tuple(problems))

    @property
    def ok(self) -> bool:
        """Whether the sources can be combined as asked."""
        return not self.problems

    @property
    def status(self) -> int:
        """Exit status of the command: 0 if they can be combined as asked, else 1."""
        return 0 if self.ok else 1

    def text(self, width: int = 100) -> str:
        """As plain text, in at most `width` characters if that can be done."""
        if self.ok:
            verdict = "They can be combined as asked."
        else:
            listed = [lines_of(problem, width) for problem in self.problems]
            verdict = "\n".join(["They can't be combined as asked:", *listed])
        return f"{self.report.text(width)}\n\n{verdict}"

    def as_json(self) -> dict[str, Any]:
        """As plain data: the stable form for programs."""
        return {"ok": self.ok, "problems": list(self.problems), **self.report.as_json()}

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()


def _first_line(error: Exception) -> str:
    """Tell an error in one line: xarray's go on with what it compared."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
