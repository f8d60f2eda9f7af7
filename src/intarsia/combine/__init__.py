"""What differs between sources, and what is done about it: decided before anything is combined.

Sources are seen as plain summaries (`Summarizer`, `SourceSummary`), never as datasets, so that
every rule can be tested without a file. `decide` finds the differences and says which of them are
refused; `Report` and `CheckResult` tell them. One table (`TABLE`) says what each kind of difference
is, what is done, and which test shows it.

The package reads nothing and combines nothing: the xarray layer does, as the `Decision` says.
"""

from intarsia.combine.check import CheckResult
from intarsia.combine.conflicts import conflict, conflicts
from intarsia.combine.coordinates import Adjustment
from intarsia.combine.decision import Decision, decide, differences
from intarsia.combine.difference import Difference, Example
from intarsia.combine.options import Options
from intarsia.combine.parts import Part, report_from_parts
from intarsia.combine.report import Report, Skipped
from intarsia.combine.summary import SourceSummary, Summarizer, VariableSummary
from intarsia.combine.table import TABLE, Outcome, Row

__all__ = [
    "TABLE",
    "Adjustment",
    "CheckResult",
    "Decision",
    "Difference",
    "Example",
    "Options",
    "Outcome",
    "Part",
    "Report",
    "Row",
    "Skipped",
    "SourceSummary",
    "Summarizer",
    "VariableSummary",
    "conflict",
    "conflicts",
    "decide",
    "differences",
    "report_from_parts",
]
