"""A store takes its place at once: whatever ends the writer, the old one stays, or none."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from intarsia.errors import StoreError, StoreExists
from intarsia.store import swap
from intarsia.store.objects import ROOT, is_store, open_objects
from intarsia.store.swap import replacing

OBJECTS = {"zarr.json": b"{}", "a/c/0": b"one", "a/c/1": b"two", ROOT: b"{}"}


def save(path: Path, content: bytes, *, overwrite: bool = False, fail_at: int = 99) -> None:
    with replacing(str(path), overwrite=overwrite) as writer:
        for number, name in enumerate(OBJECTS):
            if number == fail_at:
                raise RuntimeError("killed")
            writer.put(name, content)


def content_of(path: Path) -> set[bytes]:
    objects = open_objects(str(path))
    assert objects.names() == sorted(OBJECTS)
    return {objects.get(name) for name in OBJECTS}


@pytest.fixture(params=["s.intarsia", "s.zip"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def test_a_new_store_appears(place: Path) -> None:
    save(place, b"new")
    assert content_of(place) == {b"new"}
    assert os.listdir(place.parent) == [place.name]


def test_a_store_is_replaced_only_when_asked(place: Path) -> None:
    save(place, b"old")
    with pytest.raises(StoreExists, match="the store exists.*mode='w'"):
        save(place, b"new")
    assert content_of(place) == {b"old"}
    save(place, b"new", overwrite=True)
    assert content_of(place) == {b"new"}
    assert os.listdir(place.parent) == [place.name]


@pytest.mark.parametrize("fail_at", range(len(OBJECTS)))
@pytest.mark.parametrize("old", [True, False])
def test_a_failure_at_any_write_changes_nothing(place: Path, fail_at: int, old: bool) -> None:
    if old:
        save(place, b"old")
    with pytest.raises(RuntimeError, match="killed"):
        save(place, b"new", overwrite=True, fail_at=fail_at)
    assert os.listdir(place.parent) == [place.name] * old
    if old:
        assert content_of(place) == {b"old"}


@pytest.mark.parametrize("name", ["rename", "link", "replace"])
def test_a_failure_at_the_end_changes_nothing(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed")

    save(place, b"old")
    monkeypatch.setattr(swap, "_exchange", lambda *_: False)
    monkeypatch.setattr(os, name, fail)
    try:
        save(place, b"new", overwrite=True)
    except RuntimeError:
        monkeypatch.undo()
        assert content_of(place) == {b"old"}
    else:
        monkeypatch.undo()
        assert content_of(place) == {b"new"}
    assert os.listdir(place.parent) == [place.name]


def test_a_failed_exchange_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system can't exchange, the second of two renames may fail."""
    place = tmp_path / "s.intarsia"
    save(place, b"old")
    monkeypatch.setattr(swap, "_exchange", lambda *_: False)
    rename, done = os.rename, []

    def fail_third(one: str, other: str) -> None:
        done.append(one)
        if len(done) == 3:
            raise OSError(5, "the disk fails")
        rename(one, other)

    monkeypatch.setattr(os, "rename", fail_third)
    with pytest.raises(StoreError, match="the disk fails"):
        save(place, b"new", overwrite=True)
    assert content_of(place) == {b"old"}


KILLED = """
import os, sys
from intarsia.store.swap import replacing
path, fail_at = sys.argv[1], int(sys.argv[2])
with replacing(path, overwrite=True) as writer:
    for number, name in enumerate({names!r}):
        if number == fail_at:
            os._exit(9)
        writer.put(name, b"new")
"""


def test_a_killed_writer_leaves_the_old_store(place: Path) -> None:
    save(place, b"old")
    code = textwrap.dedent(KILLED).format(names=list(OBJECTS))
    for fail_at in (0, 3):
        done = subprocess.run([sys.executable, "-c", code, str(place), str(fail_at)], check=False)
        assert done.returncode == 9
        assert content_of(place) == {b"old"}
    save(place, b"new", overwrite=True)
    assert content_of(place) == {b"new"}


def test_what_is_no_store_is_never_replaced(place: Path) -> None:
    place.mkdir()
    (place / "data.nc").write_bytes(b"precious")
    for overwrite in (True, False):
        with pytest.raises(StoreExists, match="no store"):
            save(place, b"new", overwrite=overwrite)
    assert (place / "data.nc").read_bytes() == b"precious"


def test_a_file_is_never_replaced(place: Path) -> None:
    place.write_bytes(b"precious")
    with pytest.raises(StoreExists, match="no store"):
        save(place, b"new", overwrite=True)
    assert place.read_bytes() == b"precious"


def test_an_empty_folder_takes_a_store(tmp_path: Path) -> None:
    place = tmp_path / "s.intarsia"
    place.mkdir()
    save(place, b"new")
    assert content_of(place) == {b"new"}


def test_the_folder_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the folder does not exist"):
        save(tmp_path / "no" / "s.intarsia", b"new")
    assert os.listdir(tmp_path) == []


def test_a_link_to_a_store_stays_a_link(place: Path) -> None:
    link = place.with_name(f"link{place.suffix}")
    save(place, b"old")
    link.symlink_to(place)
    save(link, b"new", overwrite=True)
    assert link.is_symlink()
    assert content_of(place) == {b"new"}


def test_two_writers_of_a_new_store(place: Path) -> None:
    """The second one is told, and the first one's store stays."""
    with (
        pytest.raises(StoreExists, match="made meanwhile"),
        replacing(str(place), overwrite=False) as writer,
    ):
        for name in OBJECTS:
            writer.put(name, b"second")
        save(place, b"first")
    assert content_of(place) == {b"first"}
    assert os.listdir(place.parent) == [place.name]


def test_a_reader_never_finds_nothing(place: Path) -> None:
    save(place, b"0")
    stop = threading.Event()
    missing: list[int] = []

    def look() -> None:
        while not stop.is_set():
            if not os.path.lexists(place):
                missing.append(1)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(1, 60):
            save(place, str(number).encode(), overwrite=True)
    finally:
        stop.set()
        thread.join()
    if sys.platform == "linux":
        assert not missing
    assert content_of(place) == {b"59"}


def test_is_store_never_raises(tmp_path: Path) -> None:
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04" + b"\0" * 20)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("torn.zip", "empty", "absent", "."):
        assert not is_store(tmp_path / name)
    assert not is_store("\0")
