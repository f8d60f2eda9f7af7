"""Patterns of paths: as `glob`, but for folders that can't be listed."""

from __future__ import annotations

import errno
import glob
import os
from pathlib import Path
from typing import Any

import pytest

from intarsia.errors import SourceUnreadable
from intarsia.io.matching import matching

PATTERNS = (
    "*", "a*", "a*/x.nc", "*/x.nc", "*/*.nc", "*/", "a1/*.nc", "a1/*/", "[ab]1/?.nc", ".*", "*/.x*",
    "**/x.nc", "**", "x.nc/*", "loop/*", "lost/*", "none/*", "a1/x.nc", "[[]b]/*", "*/../a1/*.nc",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a1/x.nc",
        "a1/.x.nc",
        "a2/x.nc",
        "a2/y.nc",
        "b1/z.nc",
        "x.nc",
        "[b]/q",
        ".h/x.nc",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "a3").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "lost").symlink_to("nowhere")
    (tmp_path / "c").symlink_to("a1")
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_matches(tree: Path, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = f"{tree}/{pattern}"
    assert matching(whole) == sorted(glob.glob(whole))
    monkeypatch.chdir(tree)
    assert matching(pattern) == sorted(glob.glob(pattern))


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize(("function", "pattern"), [("listdir", "*/*.nc"), ("lstat", "*/x.nc")])
def test_a_folder_that_cannot_be_read_is_no_empty_one(
    tree: Path, monkeypatch: pytest.MonkeyPatch, function: str, pattern: str, code: int
) -> None:
    right = getattr(os, function)

    def failing(path: Any) -> Any:
        if "a2" in str(path):
            raise OSError(code, os.strerror(code))
        return right(path)

    monkeypatch.setattr(os, function, failing)
    with pytest.raises(SourceUnreadable, match="can't be told") as error:
        matching(f"{tree}/{pattern}")
    assert "a2" in str(error.value.url)
