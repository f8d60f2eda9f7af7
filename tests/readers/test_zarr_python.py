"""zarr-python, and xarray through it: refuse virtual arrays, read all others.

Refused are the arrays themselves, and every way to all members of a group that has one: zarr-python
reads the metadata of all. Members of such a group are read by name. A group without virtual arrays
is read in every way. It makes no difference whether Intarsia is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.registry import get_chunk_key_encoding_class

import intarsia
from intarsia.store.guard import KEYS
from tests.readers import by_hand
from tests.readers import zarr_ways as ways
from tests.readers.by_hand import Store

ROOT = Path(__file__).resolve().parents[2]

GROUPS = {"": ["lat", "time"], "g": ["lat"], "g/deeper": []}
"""Groups with virtual arrays, and what else they have."""

FEW = ("lat", "copies/int16", "copies/text")
"""Copied arrays that are read where reading all would only take longer."""

SAID = f"ValueError: Unknown chunk key encoding: \"Chunk key encoding '{KEYS}' not found"
NOT_CONSOLIDATED = "ValueError: Consolidated metadata requested with 'use_consolidated=True' but"


def expected_group(store: Store, group: str) -> dict[str, np.ndarray]:
    begin = f"{group}/" if group else ""
    return {
        name.removeprefix(begin): values
        for name, values in store.copied.items()
        if name.startswith(begin) and "/" not in name.removeprefix(begin)
    }


@pytest.fixture(scope="module")
def unchanged(store: Store) -> Any:
    """Sees to it that nothing that was tried has changed the store."""
    before = contents(store.path)
    assert store.zipped.exists()
    yield
    assert contents(store.path) == before


def contents(path: Path) -> dict[str, bytes]:
    files = [file for file in path.rglob("*") if file.is_file()]
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


@pytest.mark.parametrize("way", [*ways.ARRAY_WAYS, *ways.WRITING_WAYS])
def test_virtual_arrays_are_refused(store: Store, unchanged: None, way: str) -> None:
    read = (ways.ARRAY_WAYS | ways.WRITING_WAYS)[way]
    for name in store.virtual:
        did, said = ways.outcome(read, store.path, name)
        assert (did, name) == ("refused", name)
        exists = way == "create_array" and "ContainsArrayError" in said
        assert said.startswith(SAID) or exists, said


@pytest.mark.parametrize("way", ways.ARRAY_WAYS)
def test_without_a_guard_they_would_be_fill(unguarded: Store, way: str) -> None:
    assert unguarded.zipped.exists()
    for name in unguarded.virtual:
        did, said = ways.outcome(ways.ARRAY_WAYS[way], unguarded.path, name)
        assert did == "read", said


@pytest.mark.parametrize("way", ways.ARRAY_WAYS)
def test_copied_arrays_are_read(store: Store, unchanged: None, way: str) -> None:
    for name, values in store.copied.items():
        found = ways.outcome(ways.ARRAY_WAYS[way], store.path, name)
        assert found == ("read", ways.digest(values)), name


def test_copied_arrays_are_read_as_specified(hand: Store) -> None:
    for name, values in hand.copied.items():
        found = zarr.open_array(hand.path / name, mode="r")[...]
        assert ways.digest(found) == ways.digest(values), name


def test_tables_are_read(either: Store) -> None:
    for name, values in either.tables.items():
        np.testing.assert_array_equal(zarr.open_array(either.path / name, mode="r")[...], values)


@pytest.mark.parametrize("way", [*ways.GROUP_WAYS, *ways.DROPPING_WAYS])
def test_groups_with_virtual_arrays_are_refused(store: Store, unchanged: None, way: str) -> None:
    read = (ways.GROUP_WAYS | ways.DROPPING_WAYS)[way]
    for group in GROUPS:
        did, said = ways.outcome(read, store.path, group)
        assert (did, group) == ("refused", group)
        assert said.startswith(SAID), said


@pytest.mark.parametrize("way", ways.GROUP_WAYS)
def test_without_a_guard_groups_would_be_read(unguarded: Store, way: str) -> None:
    for group in GROUPS:
        did, said = ways.outcome(ways.GROUP_WAYS[way], unguarded.path, group)
        assert did == "read", said


@pytest.mark.parametrize("way", ways.GROUP_WAYS)
def test_groups_of_copied_arrays_are_read(store: Store, unchanged: None, way: str) -> None:
    names_only = way in ("array_keys", "keys", "iter")
    expected = expected_group(store, "copies")
    wanted = dict.fromkeys(expected) if names_only else expected
    found = ways.outcome(ways.GROUP_WAYS[way], store.path, "copies")
    assert found == ("read", ways.digest(wanted))


@pytest.mark.parametrize("way", ways.CONSOLIDATED_WAYS)
def test_there_is_no_consolidated_metadata(store: Store, way: str) -> None:
    for group in GROUPS:
        did, said = ways.outcome(ways.CONSOLIDATED_WAYS[way], store.path, group)
        assert did == "refused"
        assert said.startswith(NOT_CONSOLIDATED), said


def test_groups_open_and_say_what_they_are(store: Store) -> None:
    root = zarr.open(store.path, mode="r")
    assert isinstance(root, zarr.Group)
    assert root.attrs["title"] == "saved.intarsia"
    assert root["g"].attrs["title"] == "/g"


def test_with_consolidated_metadata_it_is_still_refused(store: Store, tmp_path: Path) -> None:
    """It can't be written by zarr-python (`WRITING_WAYS`); if it is there, nothing reads fill."""
    made = by_hand.consolidated(store, tmp_path / "consolidated.intarsia")
    for read in (ways.GROUP_WAYS | ways.DROPPING_WAYS | ways.CONSOLIDATED_WAYS).values():
        for group in ("", "g"):
            did, said = ways.outcome(read, made.path, group)
            assert (did, group) == ("refused", group)
            assert said.startswith(SAID), said
    for way, read in ways.ARRAY_WAYS.items():
        if way == "ZipStore":
            continue
        for name in made.virtual:
            assert ways.outcome(read, made.path, name)[0] == "refused"
    lat = zarr.open_group(made.path, mode="r", use_consolidated=False)["lat"]
    np.testing.assert_array_equal(lat[...], made.copied["lat"])


def test_groups_of_copied_arrays_can_be_consolidated(store: Store, tmp_path: Path) -> None:
    made = by_hand.unguarded(store, tmp_path / "copy.intarsia")
    with ways.quiet(), pytest.warns(match="Consolidated metadata is currently not part"):
        zarr.consolidate_metadata(made.path / "copies")
    expected = ways.digest(expected_group(store, "copies"))
    for way in ("open_consolidated", "open_group use_consolidated=True"):
        read = ways.CONSOLIDATED_WAYS[way]
        assert ways.outcome(read, made.path, "copies") == ("read", expected)


def test_nothing_registers_the_guards_name() -> None:
    assert intarsia.__version__
    groups = {point.group for point in entry_points() if point.value.startswith("intarsia")}
    assert "zarr.chunk_key_encoding" not in groups
    with pytest.raises(KeyError, match=KEYS):
        get_chunk_key_encoding_class(KEYS)


@pytest.fixture(scope="module")
def elsewhere(store: Store, unchanged: None) -> dict[str, dict[str, tuple[str, str]]]:
    """What came of each way in a process without Intarsia."""
    asked = {"virtual": store.virtual[:2], "copied": FEW, "groups": ["", "g", "copies"]}
    done = subprocess.run(
        [sys.executable, "-m", "tests.readers.without_intarsia", str(store.path)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_intarsia_it_is_the_same(store: Store, elsewhere: dict[str, Any]) -> None:
    for way in (*ways.ARRAY_WAYS, *ways.WRITING_WAYS):
        for name in store.virtual[:2]:
            did, said = elsewhere[way][name]
            assert (did, way) == ("refused", way)
            assert said.startswith(SAID) or way == "create_array", said
    for way in ways.ARRAY_WAYS:
        for name in FEW:
            assert elsewhere[way][name] == ["read", ways.digest(store.copied[name])]
    for way in (*ways.GROUP_WAYS, *ways.DROPPING_WAYS):
        for group in ("", "g"):
            did, said = elsewhere[way][group]
            assert (did, way) == ("refused", way)
            assert said.startswith(SAID), said
        assert elsewhere[way]["copies"][0] == "read"
    for way in ways.CONSOLIDATED_WAYS:
        for group in ("", "g"):
            did, said = elsewhere[way][group]
            assert (did, way) == ("refused", way)
            assert said.startswith(NOT_CONSOLIDATED), said


def test_without_intarsia_xarray_finds_no_engine(elsewhere: dict[str, Any]) -> None:
    did, said = elsewhere["open_dataset, any engine"][""]
    assert did == "refused"
    assert "did not find a match" in said
