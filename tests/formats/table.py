"""What becomes of each cell, and the table of all: ``python -m tests.formats.table`` writes it.

The page ``docs/formats.md`` has a place for it, between two marks.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from pathlib import Path

import intarsia
from intarsia.array import VirtualArray
from intarsia.errors import IntarsiaError, UnsupportedError, UpstreamFault
from tests.compare import differences, value_differences
from tests.formats import netcdf, others  # noqa: F401  # register their cells
from tests.formats.cells import FEATURES, FORMATS, MAKERS, Made

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"

REFERENCED, COPIED_LATER, COPIED, REFUSED = "●", "◐", "○", "✗"
LEGEND = {
    REFERENCED: "referenced: values stay in the file, also when the dataset is saved",
    COPIED_LATER: "referenced while it is open; its values are copied when the dataset is saved",
    COPIED: "copied: loaded when the file is opened",
    REFUSED: "refused by name when it is read; `unsupported=` leaves out or copies what it can",
}


def outcome(made: Made, folder: Path) -> str:
    """What becomes of the variable, after its values have been held against the oracle's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The 'phony_dims' kwarg")
        actual = intarsia.open_dataset(made.place, **made.arguments)
        expected = None if made.oracle is None else made.oracle().load()
    name = made.like or "v"
    data = actual.variables[name]._data
    try:
        loaded = actual.load()
    except (UnsupportedError, UpstreamFault):
        return REFUSED
    if expected is not None and made.like:
        problems = value_differences(name, loaded[name], expected["v"])
        assert not problems, problems
    elif expected is not None:
        problems = differences(loaded, expected)
        assert not problems, problems
    if not isinstance(data, VirtualArray):
        return COPIED
    store = folder / "saved.intarsia"
    intarsia.open_dataset(made.place, **made.arguments).intarsia.save(store)
    again = intarsia.open_dataset(store)
    kept = isinstance(again.variables[name]._data, VirtualArray)
    problems = differences(again.load(), loaded)
    assert not problems, problems
    return REFERENCED if kept else COPIED_LATER


def outcomes() -> dict[tuple[str, str], str]:
    """What becomes of every cell."""
    found: dict[tuple[str, str], str] = {}
    for (feature, name), make in MAKERS.items():
        with tempfile.TemporaryDirectory() as folder:
            inner = Path(folder) / "in"
            inner.mkdir()
            try:
                found[feature, name] = outcome(make(inner), Path(folder))
            except (IntarsiaError, AssertionError) as error:
                error.add_note(f"{feature} in {name}")
                raise
    return found


def table(found: dict[tuple[str, str], str]) -> str:
    """The table, as Markdown."""
    lines: list[str] = []
    head = " | ".join(FORMATS)
    lines += [f"| | {head} |", "|---|" + ":-:|" * len(FORMATS)]
    section = ""
    for feature, its in FEATURES.items():
        cells = [found.get((feature, name), "") for name in FORMATS]
        if not any(cells):
            continue
        if its != section:
            lines.append(f"| **{its}** |" + " |" * len(FORMATS))
            section = its
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    used = set(found.values())
    lines += ["", *(f"- {mark} {said}" for mark, said in LEGEND.items() if mark in used)]
    lines += ["", *(f"- **{name}**: {said}" for name, said in FORMATS.items() if said)]
    return "\n".join(lines)


def shown() -> str:
    """What the page shows."""
    match = re.search(f"{BEGIN}\n\n(.*)\n\n{END}", PAGE.read_text("utf-8"), re.DOTALL)
    assert match is not None, f"{PAGE} has no place for the table"
    return match[1]


def main() -> None:
    """Write the table into the page."""
    made = f"{BEGIN}\n\n{table(outcomes())}\n\n{END}"
    text = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: made, text, flags=re.DOTALL), "utf-8")
    sys.stdout.write(made + "\n")


if __name__ == "__main__":
    main()
