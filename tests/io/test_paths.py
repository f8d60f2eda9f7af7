"""Paths as users give them: what is none is refused before anything is looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import intarsia
from intarsia.errors import UnsupportedError
from intarsia.io.paths import local_path


def test_what_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert local_path("a/../b.nc/") == str(tmp_path / "b.nc")
    assert local_path(Path("b.nc")) == str(tmp_path / "b.nc")
    assert local_path("~/b.nc") == str(tmp_path / "home" / "b.nc")


WRONG = {
    "nothing": ("", ValueError, "must not be empty"),
    "none": (None, TypeError, "a str or a pathlib.Path, got None"),
    "number": (5, TypeError, "a str or a pathlib.Path, got 5"),
    "bytes": (b"a.intarsia", TypeError, "a str or a pathlib.Path, got b'a.intarsia'"),
    "url": ("s3://bucket/a.intarsia", UnsupportedError, "URLs can't be used yet.*a local path"),
    "file url": ("file:///a.intarsia", UnsupportedError, "URLs can't be used yet"),
}


@pytest.mark.parametrize(("path", "error", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_is_no_path(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: Any,
    error: type[Exception],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    accessor = intarsia.open_dataset  # registers ds.intarsia
    for opened in (accessor, intarsia.open_store, intarsia.open_datatree):
        with pytest.raises(error, match=said):
            opened(path)
    with pytest.raises(error, match=said):
        xr.Dataset({"v": ("x", [1])}).intarsia.save(path, mode="w")
    assert not any(tmp_path.iterdir())
