"""The project itself: a cheap import, and the rule that real files are not silently skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import intarsia

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[1]


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, intarsia; "
        "print(sorted({'numpy', 'xarray', 'h5py', 'dask', 'pandas'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_names() -> None:
    assert set(intarsia.__all__) <= set(dir(intarsia))
    assert intarsia.errors.IntarsiaError.__module__ == "intarsia.errors"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = intarsia.nothing


@pytest.mark.parametrize(("required", "present"), [(False, False), (True, False), (True, True)])
def test_skips_for_want_of_real_files(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, required: bool, present: bool
) -> None:
    tests = pytester.mkpydir("tests")
    for name in ("conftest.py", "real.py"):
        (tests / name).write_text((ROOT / "tests" / name).read_text("utf-8"), "utf-8")
    (tests / "test_real.py").write_text(
        "import pytest\n"
        "from tests.real import real_files\n"
        "def test_one(real_file): assert real_file('a/x.nc').name == 'x.nc'\n"
        "def test_dir(data_dir): assert data_dir.is_dir()\n"
        "@pytest.mark.parametrize('path', real_files('a/*'))\n"
        "def test_each(path): assert path.read_bytes() == b'x'\n"
        "def test_other(): pytest.skip('for another reason')\n",
        "utf-8",
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # quicker
    monkeypatch.setenv("INTARSIA_DATA", "real")
    monkeypatch.setenv("INTARSIA_REQUIRE_DATA", "1" if required else "0")
    if present:
        folder = pytester.mkdir("real") / "a"
        folder.mkdir()
        (folder / "x.nc").write_bytes(b"x")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "tests")
    if present:
        result.assert_outcomes(passed=3, skipped=1)
    elif required:
        outcomes = result.parseoutcomes()
        assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 3
        assert outcomes["skipped"] == 1
        result.stdout.fnmatch_lines(["*INTARSIA_REQUIRE_DATA=1, but:*"])
    else:
        result.assert_outcomes(skipped=4)
