"""The table of formats in the docs says what happens: every cell of it is a file that is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats import table
from tests.formats.cells import FEATURES, FORMATS, MAKERS

SHOWN = table.shown().splitlines()


def said(feature: str, name: str) -> str:
    """What the page says of a cell."""
    rows = [line.split(" | ") for line in SHOWN if line.startswith("|")]
    head = [text.strip("| ") for text in rows[0]]
    (row,) = [row for row in rows if row[0].strip("| ") == feature]
    return row[head.index(name)].strip("| ")


# of those who write the files
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.filterwarnings("ignore:The given matrix is equal to Affine.identity")
@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")
@pytest.mark.parametrize(("feature", "name"), MAKERS)
def test_a_cell_says_what_happens(feature: str, name: str, tmp_path: Path) -> None:
    inner = tmp_path / "in"
    inner.mkdir()
    assert said(feature, name) == table.outcome(MAKERS[feature, name](inner), tmp_path)


def test_the_page_shows_the_whole_table() -> None:
    found = {cell: said(*cell) for cell in MAKERS}
    assert table.table(found).splitlines() == SHOWN, "python -m tests.formats.table writes it anew"


def test_every_row_and_column_has_a_cell() -> None:
    assert {feature for feature, _ in MAKERS} == set(FEATURES)
    assert {name for _, name in MAKERS} == set(FORMATS)
