"""Replacing a store: whatever ends the writer, the old one stays; readers see one or the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intarsia.array import VirtualArray
from intarsia.errors import StoreExists
from intarsia.store import swap, write
from intarsia.store.nodes import Group, Variable
from intarsia.store.objects import FolderWriter, ZipWriter, open_objects
from intarsia.store.read import read, read_group
from tests.algebra import lay_out

COUNT = 300
"""Elements of the variables: enough that tables and values are objects of their own."""


def groups_of(folder: Path, version: int) -> dict[str, Group]:
    """A dataset all of whose values tell its version, in files that stay as they are."""
    path = folder / f"data-{version}.bin"
    values = np.full((COUNT, 2), version, "<i4")
    if not path.exists():
        generator = np.random.default_rng(version)
        order = generator.permutation(COUNT).tolist()
        parts: list[Any] = [lay_out(path, values, (1, 2))[0]]
        virtual = np.concatenate([parts[0][n : n + 1] for n in order])
    else:
        virtual = lay_out(path, values, (1, 2))[0]
    assert isinstance(virtual, VirtualArray)
    attrs = {"version": version}
    return {
        "/": Group(
            {
                "virtual": Variable(("x", "y"), virtual, attrs),
                "copied": Variable(("x",), np.full(COUNT, version), attrs),
                "text": Variable(("x",), np.full(COUNT, f"version {version}", object), attrs),
            },
            attrs,
        ),
        "/more": Group({"virtual": Variable(("x2", "y2"), virtual[::-1], attrs)}, attrs),
    }


def versions_in(path: Path) -> set[int]:
    """All versions that a store's values tell."""
    stored = read(path)
    found: set[int] = set()
    for group in stored.groups.values():
        found.add(group.attrs["version"])
        for variable in group.variables.values():
            values = np.asarray(variable.data)
            if values.dtype == object:
                values = np.array([int(text.split()[1]) for text in values])
            found |= {variable.attrs["version"], *np.unique(values).tolist()}
    return found


@pytest.fixture(params=["s.intarsia", "s.zip"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


# -- a writer that ends too early ------------------------------------------------------------------


class Ended(Exception):
    """Stands for anything that ends a writer."""


def puts(monkeypatch: pytest.MonkeyPatch, fail_at: int) -> list[str]:
    """Have the writer fail at one of its writes; gives the names that were written."""
    names: list[str] = []
    for writer in (FolderWriter, ZipWriter):
        put = writer.put

        def failing(self: Any, name: str, data: bytes, put: Any = put) -> None:
            if len(names) == fail_at:
                raise Ended
            names.append(name)
            put(self, name, data)

        monkeypatch.setattr(writer, "put", failing)
    return names


def test_a_failure_at_any_write_leaves_the_old_store(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write.write(place, groups_of(place.parent, 1))
    whole = open_objects(str(place)).names()
    new = groups_of(place.parent, 2)
    before = sorted(os.listdir(place.parent))
    for fail_at in range(len(whole)):
        with monkeypatch.context() as patched:
            names = puts(patched, fail_at)
            with pytest.raises(Ended):
                write.write(place, new, mode="w")
            assert len(names) == fail_at
        assert sorted(os.listdir(place.parent)) == before
        assert open_objects(str(place)).names() == whole
        if fail_at % 5 == 0:
            assert versions_in(place) == {1}
    assert versions_in(place) == {1}
    write.write(place, new, mode="w")
    assert versions_in(place) == {2}


def test_a_failure_at_any_write_leaves_no_store(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = groups_of(place.parent, 1)
    before = os.listdir(place.parent)
    fail_at = 0
    while True:
        with monkeypatch.context() as patched:
            names = puts(patched, fail_at)
            try:
                write.write(place, groups)
            except Ended:
                assert os.listdir(place.parent) == before
            else:
                break
        fail_at += 1
    assert fail_at == len(names) > 10
    assert versions_in(place) == {1}


KILLED = """
import os, sys
from pathlib import Path
from intarsia.store import objects, swap, write
from tests.store.hostile.test_replacing import groups_of

path, old = Path(sys.argv[1]), sys.argv[2]
groups = groups_of(path.parent, 2)

def dying(owner, name, calls=[0]):
    real = getattr(owner, name)
    def call(*args, **kwargs):
        calls[0] += 1
        if calls[0] == deadline:
            os._exit(9)
        result = real(*args, **kwargs)
        calls[0] += 1
        if calls[0] == deadline:
            os._exit(9)
        return result
    setattr(owner, name, call)

for owner, name in (
    *((objects.FolderWriter, "put"), (objects.ZipWriter, "put"), (objects.ZipWriter, "close")),
    *((os, "rename"), (os, "replace"), (os, "link"), (swap, "_exchange"), (swap, "_remove")),
):
    dying(owner, name)

for deadline in range(1, 1000):
    child = os.fork()
    if child == 0:
        write.write(path, groups, mode="w")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, flush=True)
    if status == 0:
        break
    if sys.stdin.readline() == "":
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed by means of POSIX")
@pytest.mark.parametrize("old", [True, False])
def test_a_writer_killed_at_any_moment_leaves_one_or_the_other(place: Path, old: bool) -> None:
    """After each write and each step of the swap."""
    if old:
        write.write(place, groups_of(place.parent, 1))
    seen: Counter[str] = Counter()
    command = [sys.executable, "-c", KILLED, str(place), str(old)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            status = int(line)
            if status == 0:
                break
            assert status == 9
            if place.exists():
                (version,) = versions_in(place)
                seen[str(version)] += 1
                assert version == 2 or old
                if version == 2:  # begin again from the old one
                    mode = "w"
                    if old:
                        write.write(place, groups_of(place.parent, 1), mode=mode)
                    else:
                        swap._remove(str(place))
            else:
                assert not old
                seen["none"] += 1
            process.stdin.write("\n")
            process.stdin.flush()
    assert versions_in(place) == {2}
    assert seen["1" if old else "none"] > 10


def test_what_a_killed_writer_leaves_is_not_in_the_way(place: Path) -> None:
    write.write(place, groups_of(place.parent, 1))
    beside = place.parent / f".{place.name}.000000.tmp"
    beside.mkdir() if place.suffix != ".zip" else beside.write_bytes(b"half")
    write.write(place, groups_of(place.parent, 2), mode="w")
    assert versions_in(place) == {2}
    with pytest.raises(StoreExists):
        write.write(place, groups_of(place.parent, 1))


# -- readers meanwhile -----------------------------------------------------------------------------

READER = """
import json, sys, time
from collections import Counter
from pathlib import Path
from intarsia.errors import IntarsiaError
from intarsia.store.objects import is_store
from intarsia.store.read import read, read_group
from tests.store.hostile.test_replacing import versions_in
import numpy as np

path, stop, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
seen, versions = Counter(), set()
print("ready", flush=True)
while not stop.exists():
    assert is_store(path)
    try:
        if how == "whole":
            found = versions_in(path)
        else:  # open, and be slow to read
            stored, group = read_group(path)
            found = {group.attrs["version"]}
            time.sleep(0.005)
            values = group.variables["virtual"].data
            for part in (slice(0, 3), slice(200, 290), slice(None)):
                found |= set(np.unique(values[part].load()).tolist())
                time.sleep(0.002)
        assert len(found) == 1, found
        versions |= found
        seen["read"] += 1
    except IntarsiaError as error:
        seen[error.kind] += 1
        if error.kind != "store-replaced":
            seen[str(error)] += 1
print(json.dumps([dict(seen), sorted(versions)]), flush=True)
"""


def readers(place: Path, stop: Path) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for how in ("whole", "slow"):
        command = [sys.executable, "-W", "error", "-c", READER, str(place), str(stop), how]
        yield subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.skipif(sys.platform != "linux", reason="needs an exchange in one step")
def test_readers_see_one_or_the_other(place: Path) -> None:
    """And are told so where the store they had opened is gone."""
    versions = {number: groups_of(place.parent, number) for number in range(1, 6)}
    write.write(place, versions[1])
    stop = place.parent / "stop"
    started = list(readers(place, stop))
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for number in range(50):
            write.write(place, versions[1 + number % 5], mode="w")
    finally:
        stop.touch()
        results = [process.communicate(timeout=60)[0] for process in started]
    for process, result in zip(started, results, strict=True):
        assert process.returncode == 0
        seen, found = json.loads(result)
        assert set(seen) <= {"read", "store-replaced"}, seen
        assert seen["read"] > 5
        assert len(found) > 1


def test_a_reader_of_a_store_that_was_replaced_is_told(place: Path) -> None:
    write.write(place, groups_of(place.parent, 1))
    stored, group = read_group(place)
    write.write(place, groups_of(place.parent, 2), mode="w")
    with pytest.raises(Exception, match="was replaced after it was opened") as caught:
        group.variables["virtual"].data.load()
    assert caught.value.kind == "store-replaced"  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="was replaced after it was opened"):
        stored.group("/")
    assert versions_in(place) == {2}


def test_a_store_that_was_only_touched_is_the_same(place: Path) -> None:
    write.write(place, groups_of(place.parent, 1))
    _, group = read_group(place)
    os.utime(place, ns=(1, 1))
    if place.suffix == ".zip":  # and copied over itself
        data = place.read_bytes()
        place.unlink()
        place.write_bytes(data)
    assert np.unique(group.variables["virtual"].data.load()).tolist() == [1]
