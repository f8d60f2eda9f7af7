"""Stores that are moved with their sources, or without; and what a store tells of where it was."""

from __future__ import annotations

import getpass
import json
import os
import pickle
import platform
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numcodecs import blosc

import intarsia
from intarsia.array import VirtualArray
from intarsia.encoding import Encoding
from intarsia.errors import IntarsiaError, SourceMissing, StoreError
from intarsia.references import References, Source, Sources
from intarsia.store.nodes import Group, Variable
from intarsia.store.objects import open_objects
from intarsia.store.read import read
from intarsia.store.write import write
from tests.algebra import lay_out
from tests.store.hostile import corpus
from tests.store.hostile.basics import inner_chunks
from tests.store.hostile.looking import STORE, Value, look

SECRETS = "hunter2-swordfish"
"""What stands for a password; also in the name of a folder above everything."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Stores of everything, and their sources, below a folder that says where it is."""
    folder = tmp_path_factory.mktemp("home") / "users" / SECRETS
    folder.mkdir(parents=True)
    with corpus.small_parts():
        yield corpus.build(folder)


def values_of(path: Path) -> dict[str, Any]:
    found = look(str(path))
    assert all(isinstance(value, Value) for value in found.values()), found
    return {place: value for place, value in found.items() if place != STORE}


# -- moved together --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", corpus.STORES)
def test_copied_with_its_sources(sound: Path, tmp_path: Path, name: str) -> None:
    home = corpus.copied(sound, tmp_path / "else" / "where")
    assert values_of(home / name) == values_of(sound / name)
    for source in read(home / name).sources:
        assert source.url.startswith(str(tmp_path))


@pytest.mark.parametrize("name", corpus.STORES)
def test_renamed_above_the_store(sound: Path, tmp_path: Path, name: str) -> None:
    home = corpus.copied(sound, tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "renamed é b")
    home = tmp_path / "renamed é b" / home.name
    (home / name).rename(home / f"other-{name}")
    assert values_of(home / f"other-{name}") == values_of(sound / name)


def test_through_a_link(sound: Path, tmp_path: Path) -> None:
    """A link to a store is another name of it: its sources lie where it really is."""
    for name in corpus.STORES[:1]:
        link = tmp_path / name
        link.symlink_to(sound / name)
        assert values_of(link) == values_of(sound / name)
    (tmp_path / "folder").symlink_to(sound)
    assert values_of(tmp_path / "folder" / "mixed.zip") == values_of(sound / "mixed.zip")


def test_without_its_sources(sound: Path, tmp_path: Path) -> None:
    """What is copied is there, what is referred to says what is missing."""
    shutil.copytree(sound / "mixed.intarsia", tmp_path / "mixed.intarsia")
    found = look(str(tmp_path / "mixed.intarsia"))
    expected = look(str(sound / "mixed.intarsia"))
    for place, value in found.items():
        if isinstance(value, Value):
            assert value == expected[place]
        else:
            assert value.kind == "source-missing"
            assert str(tmp_path) in value.text or str(tmp_path.parent) in value.text
    assert isinstance(found["/\0y"], Value)
    assert not isinstance(found["/\0t"], Value)


# -- moved apart -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", corpus.STORES)
def test_sources_elsewhere(sound: Path, tmp_path: Path, name: str) -> None:
    home = corpus.copied(sound, tmp_path / "a")
    for number, place in enumerate((home / "in", home.parent / "out")):
        place.rename(tmp_path / f"moved{number}")
    path = home / name
    moved = {"./in/": tmp_path / "moved0", "../out/": tmp_path / "moved1"}
    where = {
        container.name: place / container.location.removeprefix(before)
        for container in read(path).containers
        for before, place in moved.items()
        if container.location.startswith(before)
    }
    found = read(path, containers=where)
    expected = read(sound / name)
    for group, content in found.groups.items():
        for variable, there in content.variables.items():
            if isinstance(there.data, VirtualArray):
                right = expected.groups[group].variables[variable].data
                again = pickle.loads(pickle.dumps(there.data))  # and in another process
                np.testing.assert_array_equal(again.load(), np.asarray(right))
    first = next(iter(where))
    half = read(path, containers={first: where[first]})
    errors = 0
    for content in half.groups.values():
        for there in content.variables.values():
            try:
                np.asarray(there.data)
            except SourceMissing as error:
                assert "moved0" not in str(error)
                errors += 1
    assert errors or len(where) == 1


def test_a_container_that_is_not_there(sound: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no container 'other'.*there are: near, out"):
        read(sound / "tables.intarsia", containers={"other": tmp_path})


def test_sources_whose_times_were_lost(sound: Path, tmp_path: Path) -> None:
    """Another time is another file, unless the store has samples, or the caller says otherwise."""
    shutil.copytree(sound.parent, tmp_path / "a", copy_function=shutil.copyfile)
    home = tmp_path / "a" / sound.name
    found = look(str(home / "tables.intarsia"))
    kinds = {value.kind for value in found.values() if not isinstance(value, Value)}
    assert kinds == {"source-changed"}
    assert values_of(home / "tables.zip") == values_of(sound / "tables.zip")  # sampled
    pins = {"near": {"pin": "size"}, "out": {"pin": "size"}}
    trusting = read(home / "tables.intarsia", containers=pins)
    expected = read(sound / "tables.intarsia")
    for name, there in trusting.groups["/"].variables.items():
        right = expected.groups["/"].variables[name].data
        np.testing.assert_array_equal(np.asarray(there.data), np.asarray(right))


# -- what a store tells ----------------------------------------------------------------------------


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """All bytes of all objects of a store, as they are, decompressed, and out of hexadecimal."""
    place = open_objects(str(path))
    for name in place.names():
        data = place.get(name)
        yield name, name.encode()
        yield name, data
        pieces = [(0, len(data)), *((offset, size - 4) for offset, size in inner_chunks(data))]
        for offset, size in pieces:
            part = data[offset : offset + size]
            if len(part) > 16 and int.from_bytes(part[12:16], "little") == len(part):
                yield name, bytes(blosc.decompress(part))
        if name.endswith(".json"):
            for value in _texts(json.loads(data)):
                yield name, value.encode("utf-8", "surrogatepass")
                try:
                    yield name, bytes.fromhex(value)
                except ValueError:
                    continue
    if path.is_file():
        yield "the zip file", path.read_bytes()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def told(sound: Path) -> list[bytes]:
    """What no store may tell: where it was made, by whom, and on which machine."""
    names = {getpass.getuser(), platform.node(), socket.gethostname(), os.environ.get("USER", "")}
    words = {name for name in names if len(name) > 4 and name not in ("runner", "localhost")}
    words |= {SECRETS, str(sound), str(sound.parent), f"{Path.home()}/", os.getcwd()}
    words |= {part for part in sound.parent.parts if len(part) > 8}
    return [word.encode() for word in words if len(word) > 4]


@pytest.mark.parametrize("name", corpus.STORES)
def test_nothing_tells_where_a_store_was_made(sound: Path, name: str) -> None:
    forbidden = told(sound)
    count = 0
    for place, data in contents(sound / name):
        count += len(data)
        for word in forbidden:
            assert word not in data, (place, word)
    assert count > 10_000


def test_the_search_finds_what_is_there(sound: Path) -> None:
    """Names of sources are in the tables, compressed or not."""
    for name, key in (("tables.intarsia", b"longlong"), ("mixed.zip", b"filtered.h5")):
        assert any(key in data for _, data in contents(sound / name))


def test_secrets_of_addresses_are_not_kept(tmp_path: Path) -> None:
    """Those of signed URLs, and of users in URLs, are refused or left out."""
    encoding = Encoding((), np.dtype("i2"))

    def array(url: str) -> VirtualArray:
        container, _, key = url.rpartition("/")
        sources = Sources.of([Source(f"{container}/", key, 10, -1, '"etag"')])
        return VirtualArray.from_source(
            sources, 0, (2,), (2,), encoding, np.zeros((), encoding.parameters),
            References.contiguous(0, 4),
        )  # fmt: skip

    for number, url in enumerate(
        (
            f"https://host.example/data/a.nc?X-Amz-Signature={SECRETS}&X-Amz-Credential={SECRETS}",
            f"https://user:{SECRETS}@host.example/data/a.nc",
            f"https://host.example/data/a.nc?sig={SECRETS}&se=2030",
            f"https://host.example/data/a.nc?token={SECRETS}",
            f"s3://key:{SECRETS}@bucket/data/a.nc",
        )
    ):
        path = tmp_path / f"{number}.intarsia"
        groups = {"/": Group({"v": Variable(("x",), array(url))})}
        try:
            write(path, groups)
        except IntarsiaError as error:
            assert SECRETS not in str(error)
            assert not path.exists()
            continue
        assert all(SECRETS.encode() not in data for _, data in contents(path)), url


def test_what_users_write_is_kept(tmp_path: Path) -> None:
    """Attributes are theirs: a history that names a path stays as it is."""
    history = f"made by {SECRETS} in /home/{SECRETS}"
    array, _ = lay_out(tmp_path / "f.bin", np.arange(4, dtype="i4"), (2,))
    write(tmp_path / "x.intarsia", {"/": Group({"v": Variable(("x",), array)}, {"h": history})})
    assert read(tmp_path / "x.intarsia").groups["/"].attrs == {"h": history}


def test_encodings_do_not_tell_where_files_were(tmp_path: Path) -> None:
    """xarray keeps the path of the file in each variable's encoding."""
    import xarray as xr

    folder = tmp_path / SECRETS
    folder.mkdir()
    xr.Dataset({"a": ("x", np.arange(4.0))}, {"x": np.arange(4)}).to_netcdf(folder / "a.nc")
    ds = intarsia.open_dataset(folder / "a.nc")
    ds["loaded"] = xr.open_dataset(folder / "a.nc")["a"].load() + 0
    ds["loaded"].encoding = xr.open_dataset(folder / "a.nc")["a"].encoding
    ds.intarsia.save(folder / "x.intarsia")
    assert all(SECRETS.encode() not in data for _, data in contents(folder / "x.intarsia"))
