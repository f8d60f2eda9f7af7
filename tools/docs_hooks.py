"""MkDocs hooks: the parts of the docs that are made from the code and so can't say otherwise.

A page has a place for each, an HTML comment such as ``<!-- differences: table -->``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from intarsia import errors
from intarsia.combine.table import ORACLES, SECTIONS, TABLE, Outcome


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the places of a page, and drop the mark of blocks that tests do not run."""
    for place, made in PLACES.items():
        markdown = markdown.replace(f"<!-- {place} -->", made())
    return re.sub(r"^( *```+python) no-run$", r"\1", markdown, flags=re.MULTILINE)


def differences_table() -> str:
    """Every kind of difference, a table per section."""
    shown = {
        Outcome.EQUAL: "equal",
        Outcome.REFUSED: "**refused**",
        Outcome.DIFFERS: "*on purpose*",
    }
    parts: list[str] = []
    for section, title in SECTIONS.items():
        rows = [row for row in TABLE.values() if row.section == section]
        parts.append(
            f"## {title}\n\n| what differs | | what is done | changed by | compared with |"
        )
        parts.append("|---|---|---|---|---|")
        for row in rows:
            override = " ".join(f"`{part}`" for part in row.override.split(", ") if part)
            cells = (row.title, shown[row.outcome], row.done, override, row.oracle)
            parts.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
        parts.append("")
    parts.append("## Compared with what\n")
    parts += [f"- **{name}**: {meaning}." for name, meaning in ORACLES.items()]
    return "\n".join(parts)


def errors_tree() -> str:
    """The tree of errors, as its module draws it."""
    drawn = re.findall(r"^    (.*)$", inspect.getdoc(errors) or "", flags=re.MULTILINE)
    tree = [line for line in drawn if '"' in line]
    return "\n".join(["```text", *tree, "```"])


PLACES: dict[str, Callable[[], str]] = {
    "differences: table": differences_table,
    "errors: tree": errors_tree,
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
