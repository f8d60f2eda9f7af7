"""Absent readers: their tests are skipped, or fail where readers are required."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("required", [False, True])
def test_skips_for_want_of_a_reader(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    pytester.mkpydir("tests")
    here = pytester.mkpydir("tests/readers")
    for name in ("conftest.py", "optional.py"):
        (here / name).write_text((ROOT / "tests/readers" / name).read_text("utf-8"), "utf-8")
    begin = "import pytest\nfrom tests.readers.optional import reader\n"
    tests = {
        "there": "reader('json')\ndef test_it(): pass\n",
        "absent": "reader('a_reader_that_is_not_there')\ndef test_it(): pass\n",
        "other": "pytest.skip('for another reason', allow_module_level=True)\n",
    }
    for name, text in tests.items():
        (here / f"test_{name}.py").write_text(begin + text, "utf-8")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # quicker
    monkeypatch.setenv("INTARSIA_REQUIRE_READERS", "1" if required else "0")
    options = ("-p", "no:cacheprovider", "--continue-on-collection-errors")
    result = pytester.runpytest_subprocess(*options, "tests")
    if required:
        result.assert_outcomes(passed=1, skipped=1, errors=1)
        result.stdout.fnmatch_lines(["INTARSIA_REQUIRE_READERS=1, but: *make readers*"])
    else:
        result.assert_outcomes(passed=1, skipped=2)
