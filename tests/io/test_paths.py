"""Paths as users give them: what is none is refused before anything is looked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import intarsia
from intarsia.errors import UnsupportedError
from intarsia.io.paths import is_url, local_path, place_of, split_place


def test_what_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert local_path("a/../b.nc/") == str(tmp_path / "b.nc")
    assert local_path(Path("b.nc")) == str(tmp_path / "b.nc")
    assert local_path("~/b.nc") == str(tmp_path / "home" / "b.nc")
    assert local_path("file:///a%20b.nc") == "/a b.nc"


URLS = {
    "https://host/a/b.nc": ("https://host/a/", "b.nc"),
    "https://host/a/b.nc?sig=1/2&x=~": ("https://host/a/", "b.nc?sig=1/2&x=~"),
    "s3://bucket/b.nc": ("s3://bucket/", "b.nc"),
}


@pytest.mark.parametrize(("url", "split"), URLS.items())
def test_urls_stay_as_they_are(url: str, split: tuple[str, str]) -> None:
    assert place_of(url) == url
    assert is_url(url)
    assert split_place(url) == split


def test_paths_are_no_urls() -> None:
    assert not is_url("/data/a.nc")
    assert split_place("/a.nc") == ("/", "a.nc")


WRONG = {
    "nothing": ("", ValueError, "must not be empty"),
    "none": (None, TypeError, "a str or a pathlib.Path, got None"),
    "number": (5, TypeError, "a str or a pathlib.Path, got 5"),
    "bytes": (b"a.intarsia", TypeError, "a str or a pathlib.Path, got b'a.intarsia'"),
    "url": ("s3://bucket/a.intarsia", UnsupportedError, "(on|from) this machine"),
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
