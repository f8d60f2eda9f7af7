"""MkDocs hooks: the parts of the docs that are made from the code and so can't say otherwise.

A page has a place for each, an HTML comment such as ``<!-- differences: table -->``.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import intarsia
from intarsia import errors
from intarsia.cli.parser import COMMANDS, make_parser
from intarsia.combine import CheckResult, Report
from intarsia.combine.table import ORACLES, SECTIONS, TABLE, Outcome
from intarsia.store.grid import Grid
from intarsia.store.write import Summary
from intarsia.xarray.accessor import IntarsiaAccessor
from intarsia.xarray.explaining import Explanation
from intarsia.xarray.verifying import Verification

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file by its path
import docs_api


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the places of a page, and drop the marks that tell tests what to do with a block."""
    for place, made in PLACES.items():
        markdown = markdown.replace(f"<!-- {place} -->", made())
    return re.sub(r"^( *```+\w+) (no-run|output)$", r"\1", markdown, flags=re.MULTILINE)


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


def command_help(name: str) -> str:
    """What ``intarsia NAME --help`` prints, on a terminal of 80 columns."""
    positional = COMMANDS[name].POSITIONAL.split()
    command = make_parser().parse_args([name, *positional]).parser
    with mock.patch.dict(os.environ, COLUMNS="80"):
        return f"```text\n{command.format_help()}```"


PLACES: dict[str, Callable[[], str]] = {
    "differences: table": differences_table,
    "errors: tree": errors_tree,
    **{f"help: {name}": partial(command_help, name) for name in COMMANDS},
    **{
        f"api: {name}": partial(docs_api.function, getattr(intarsia, name), f"intarsia.{name}")
        for name in (
            *("open_dataset", "open_mfdataset", "open_datatree", "from_virtualizarr"),
            *("open_store", "check", "verify"),
        )
    },
    **{
        f"api: {name}": partial(
            docs_api.function, getattr(IntarsiaAccessor, name), f"ds.intarsia.{name}"
        )
        for name in ("save", "explain", "report", "virtual")
    },
    **{
        f"api: {kind.__name__}": partial(docs_api.class_of, kind)
        for kind in (CheckResult, Report, Explanation, Summary, Verification, Grid)
    },
}
"""What stands for each mark ``<!-- place -->``."""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
