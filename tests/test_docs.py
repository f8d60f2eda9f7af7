"""The examples of README.md and docs/ run, and print what the page shows.

The blocks of a page fenced as ``python`` run in order, in one namespace and an empty folder. What a
block prints must be what the next block fenced as ``text output`` shows, if there is one before the
next ``python``; three dots stand for anything. In blocks fenced as ``console``, the lines ``$
intarsia ...`` run as commands, and print what follows them, if anything does.

A block fenced as ``python no-run`` or ``console no-run`` does not run, nor does any other language.
What a page needs but a reader should not see (files to open) goes into a block inside an HTML
comment.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from intarsia.cli import main
from intarsia.combine.table import TABLE
from tools import docs_hooks

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?P<info>[^`\n]*)$")


def fenced(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line number of its first line, info string, code) of every fenced block."""
    opened: re.Match[str] | None = None
    begin, lines = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if opened is None:
            if match:
                opened, begin, lines = match, number + 1, []
        elif match and not match["info"] and match["fence"].startswith(opened["fence"]):
            yield begin, opened["info"].strip(), textwrap.dedent("\n".join(lines))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        raise ValueError(f"the block that begins at line {begin - 1} is not closed")


class Shown(NamedTuple):
    """An output that a page shows, and what is printed.

    Attributes
    ----------
    begin, end
        Lines of the page: the first of the output, and the one after the last.
    shown, printed
        What the page says, and what is printed.
    """

    begin: int
    end: int
    shown: str
    printed: str

    @property
    def matches(self) -> bool:
        """Whether the page is right; three dots stand for anything."""
        want, got = (
            "".join(line.rstrip() + "\n" for line in text.strip("\n").splitlines())
            for text in (self.shown, self.printed)
        )
        return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)


def run(text: str, name: str, see: Callable[[Shown], None] | None = None) -> dict[str, Any]:
    """Run the blocks of a page; errors point to the lines of the page.

    `see` is called with every output; by default those that don't match fail.
    """

    def fail(one: Shown) -> None:
        assert one.matches, (
            f"{name}, line {one.begin} shows\n\n{one.shown}\n\nbut what is printed is\n\n"
            f"{one.printed}\n\n(python -m tools.docs_outputs writes it)"
        )

    see = fail if see is None else see
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    for begin, info, code in fenced(text):
        language, *options = info.split() or [""]
        known = {"python": [["no-run"]], "console": [["no-run"]], "text": [["output"]]}
        if options and options not in known.get(language, []):
            raise ValueError(f"{name}, line {begin - 1}: unknown option {options}")
        if options == ["no-run"]:
            continue
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * (begin - 1) + code, name, "exec"), namespace)
            printed = out.getvalue()
        elif options == ["output"]:
            if printed is None:
                raise ValueError(f"{name}, line {begin - 1}: output of what?")
            see(Shown(begin, begin + len(code.splitlines()), code, printed))
            printed = None
        elif language == "console":
            for one in console(begin, code):
                see(one)
    return namespace


def console(begin: int, session: str) -> Iterator[Shown]:
    """Run the commands of a session that are ours; yield what those print that show something."""
    for command in re.split(r"^(?=\$ )", session, flags=re.MULTILINE):
        lines = command.splitlines()
        argv = shlex.split(lines[0][2:], comments=True) if lines else []
        if argv and argv[0] == "intarsia":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                main(argv[1:])
            if any(lines[1:]):
                shown = "\n".join(lines[1:])
                yield Shown(begin + 1, begin + len(lines), shown, out.getvalue())
        begin += len(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run(page.read_text("utf-8"), str(page))


def test_every_made_part_has_its_place() -> None:
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    assert sorted(re.findall(r"<!-- (\w+: \w+) -->", pages)) == sorted(docs_hooks.PLACES)
    made = docs_hooks.on_page_markdown(
        "```text output\n```\n<!-- differences: table -->\n```python no-run\nx\n```"
    )
    assert made.startswith("```text\n```\n")
    assert all(row.title.replace("|", "\\|") in made for row in TABLE.values())
    assert made.endswith("\n```python\nx\n```")


def test_only_python_runs_in_one_namespace() -> None:
    page = """
        ```python
        x = 1
        ```
        <!--
        ```python
        hidden = 2
        ```
        -->
        ```python no-run
        x = undefined
        ```
        ````text
        ```python
        x = 3
        ```
        ````
        1. a list

            ```python
            def f():

                return x + hidden
            y = f()
            ```
        ```
        plain
        ```
    """
    namespace = run(textwrap.dedent(page), "page")
    assert (namespace["x"], namespace["y"]) == (1, 3)


def test_what_is_shown_is_what_is_printed() -> None:
    page = "```python\nprint('one'); print(1)\n```\n\n```text output\n{}\n```\n"
    run(page.format("one\n1"), "page")
    run(page.format("o...1"), "page")
    with pytest.raises(AssertionError, match="page, line 6 shows"):
        run(page.format("two"), "page")
    with pytest.raises(ValueError, match="output of what"):
        run("```text output\nx\n```\n", "page")
    session = "```console\n$ pip install anything\n$ intarsia check none.nc\n{}```\n"
    with pytest.raises(AssertionError, match="page, line 4 shows"):
        run(session.format("something else\n"), "page")


def test_errors_point_into_the_page() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run("# Title\n\n```python\nx = 1\nx / 0\n```\n", "page.md")
    entry = caught.traceback[-1]
    assert (entry.frame.code.raw.co_filename, entry.lineno + 1) == ("page.md", 5)


@pytest.mark.parametrize("page", ["```python\nx = 1\n", "```python norun\nx = 1\n```\n"])
def test_mistakes_in_a_page_are_found(page: str) -> None:
    with pytest.raises(ValueError, match="not closed|unknown option"):
        run(page, "page.md")
