"""Reference pages from docstrings: NumPy's sections become Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

SECTION = re.compile(r"^([A-Z]\w+)\n-+\n", re.MULTILINE)
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


def function(told: Any, name: str) -> str:
    """A function or method: how it is called, and what its docstring says."""
    return f"```python\n{signature(told, name)}\n```\n\n{docstring(told)}"


def class_of(told: type) -> str:
    """A class: its docstring, then its public methods and properties in short."""
    lines = [
        docstring(told).replace("**Parameters**", "**Fields**"),
        "**Methods and properties**",
        "",
    ]
    for member, value in vars(told).items():
        made = isinstance(value, classmethod | staticmethod)  # by the library, not by its user
        if member.startswith("_") or made or not inspect.getdoc(value):
            continue
        called = "" if isinstance(value, property) else "()"
        first = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
        lines.append(f"- `.{member}{called}`: {first}")
    return "\n".join(lines)


def signature(told: Any, name: str) -> str:
    """The call, one argument per line, without types: the text says more than they do."""
    parts: list[str] = []
    starred = False
    for parameter in inspect.signature(told).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        bare = parameter.replace(annotation=parameter.empty)
        parts.append(str(bare))
    short = f"{name}({', '.join(parts)})"
    if len(short) < 80:
        return short
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), ")"])


def docstring(told: Any) -> str:
    """The docstring as Markdown."""
    text, *sections = SECTION.split(inspect.getdoc(told) or "")
    parts = [text.strip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        if title == "Examples":
            parts.append(_examples(body))
        elif title in LISTS:
            parts.append(f"**{title}**\n\n{_entries(body)}")
        else:
            parts.append(f"**{title}**\n\n{body.strip()}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _entries(body: str) -> str:
    """``name : type`` and an indented text become an item of a list.

    A line without a text belongs to the next: names may be spread over several.
    """
    items: list[str] = []
    names: list[str] = []
    told: list[str] = []

    def finish() -> None:
        if names:
            heads = [_head(name) for name in names]
            text = " ".join(textwrap.dedent("\n".join(told)).split())
            items.append(f"- {', '.join(heads)}" + (f": {text}" if text else ""))
        names.clear()
        told.clear()

    for line in body.strip("\n").splitlines():
        if line.startswith(" ") or not line:
            told.append(line)
            continue
        if told:
            finish()
        names.append(line)
    finish()
    return "\n".join(items)


def _head(line: str) -> str:
    names, _, kind = line.partition(" : ")
    shown = ", ".join(f"`{name.replace('*', '')}`" for name in names.split(", "))
    return f"{shown} ({kind})" if kind else shown


def _examples(body: str) -> str:
    code = re.sub(r"^(>>>|\.\.\.) ?", "", textwrap.dedent(body), flags=re.MULTILINE)
    code = re.sub(r" *# doctest:.*$", "", code, flags=re.MULTILINE).strip()
    return f"```python\n{code}\n```"
