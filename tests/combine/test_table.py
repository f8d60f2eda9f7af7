"""The table: every kind in the code is in it, every row is shown by a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from intarsia.combine import TABLE, Difference, Outcome
from intarsia.combine.table import ORACLES, SECTIONS, row
from tests.unlike.families import FAMILIES
from tests.unlike.structures import STRUCTURES

ROOT = Path(__file__).resolve().parents[2]
TESTS = {path: path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))}
CODE = {path: path.read_text("utf-8") for path in (ROOT / "src/intarsia/combine").glob("*.py")}


@pytest.mark.parametrize("kind", TABLE)
def test_a_row_is_shown_by_a_test(kind: str) -> None:
    name, bracket, case = row(kind).test.partition("[")
    places = [path for path, text in TESTS.items() if f"def {name}(" in text]
    assert places, f"no function is named {name}"
    if bracket:
        case = case.removesuffix("]")
        quoted = f'"{case}"'
        assert case in {*FAMILIES, *STRUCTURES} or any(quoted in TESTS[path] for path in places)


@pytest.mark.parametrize("kind", TABLE)
def test_a_row_says_all(kind: str) -> None:
    found = row(kind)
    assert found.kind == kind
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind)
    assert found.section in SECTIONS
    assert found.oracle in ORACLES
    assert found.title
    assert found.done
    assert not found.title.endswith(".")
    assert not found.done.endswith(".")
    assert (found.oracle == "xarray") == (found.outcome is Outcome.EQUAL) or found.section in (
        "sources",
        "purpose",
    )
    assert (found.section == "faults") == kind.startswith("xarray-fault-")


def test_kinds_in_the_code_are_in_the_table() -> None:
    """The other way round is the business of test_rows: each has a test of its own there."""
    found = {
        kind
        for path, text in CODE.items()
        if path.name not in ("table.py", "row.py")
        for kind in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text)
    }
    allowed = {"little-endian", "big-endian"}
    assert found - allowed - set(TABLE) == set()


def test_kinds_that_summaries_show_are_tested() -> None:
    rows = (Path(__file__).parent / "test_rows.py").read_text("utf-8")
    told = {kind for kind in TABLE if f"def test_{kind.replace('-', '_')}(" in rows}
    elsewhere = {"sources", "faults", "purpose"}
    left = {kind for kind in set(TABLE) - told if row(kind).section not in elsewhere}
    assert left == {"user-block"}  # changes nothing that a summary holds


def test_kinds_are_stable() -> None:
    """Programs compare them: one may be added here, none taken away or renamed."""
    published = """
        codec skipped-filters checksum chunks partial-chunks layout byte-order user-block raw-fill
        padded scale-offset fill unsigned packing-types packing-attributes stored-dtype dtype
        dtype-object hole-object length absent-variable missing-tiles absent-coordinate
        coordinate-or-data dims-order dims static-variable static-values dimension-length
        concat-order units units-spelling grid-mapping time-epoch bounds-epoch calendar
        calendar-name flag-meanings enum-meanings enum-members variable-attributes
        global-attributes coordinate-jitter
        coordinate-reversed coordinate-length coordinate-values unreadable-source
        unsupported-variable short-external-file xarray-fault-big-endian-unsigned
        xarray-fault-integer-scale xarray-fault-integer-duration xarray-fault-timedelta-join
        xarray-fault-same-place virtual-by-default no-packing-kept loaded engine
        """
    assert set(TABLE) >= set(published.split())


def test_a_kind_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        Difference.found("no-such-kind", None, [], str)
