"""Node names: every name has one, no two have the same, and any file system can keep them."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from intarsia.store.names import MAX_BYTES, escape, is_node_name, node_names, unescape
from intarsia.store.nodes import Group, Variable
from intarsia.store.read import read
from intarsia.store.write import write

# What is special somewhere: to Zarr, to a file system, to a URL, or to the escapes themselves.
SPECIAL = (
    *("", ".", "..", "...", "a.", ".a", "/", "a/b", "//", "_", "__", "__x", "___", "_x"),
    *("zarr.json", "ZARR.JSON", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "c", "0"),
    *("__intarsia__", "root.json", "=", "==", "=2F", "=2f", "=3D2F", "a=2Fb", "%2F", "_x2F_"),
    *("con", "CON", "nul", "nul.nc", "com1", "COM¹", "lpt9.a.b", "console", "aux", "auxiliary"),
    *(" ", " a", "a ", "a b", "\0", "\n", "\x7f", "\x85", "\u200d", "\ufeff", "\u202e"),
    *("\\", ":", "*", "?", "a?b#c", '"', "<", ">", "|", "&", "+", "~", "@", "'", "$", "{}"),
    *("é", "e\u0301", "Å", "\u212b", "A\u030a", "ﬁ", "fi", "ß", "ss", "ſ", "İ", "ı", "\u212a", "K"),
    *(
        "température",
        "海面水温",
        "🌊",
        "\ud83c\udf0a",
        "\udce9",
        "\ud800",
        "\u0301",
        "a\u0327\u0301",
    ),
    *("T", "t", "x" * 180, "x" * 181, "x" * 5000, "é" * 90, "é" * 91, "/" * 60, "/" * 61),
    *("T==e3b98a4da31a127d4bde6e43033f66ba", "==" + "0" * 32, "." * 300, "a" + "." * 300),
)

anything = (
    st.text(st.characters(exclude_categories=())) | st.text("=2Fa./_T") | st.sampled_from(SPECIAL)
)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("sst", "sst"),
        ("analysed_sst", "analysed_sst"),
        ("_private", "_private"),
        ("u.v-w(1)", "u.v-w(1)"),
        ("温度", "温度"),
        ("a/b", "a=2Fb"),
        ("wind speed", "wind=20speed"),
        ("__x", "=5F_x"),
        (".", "=2E"),
        ("..", "=2E=2E"),
        ("a.", "a=2E"),
        ("a=2Fb", "a=3D2Fb"),
        ("zarr.json", "=7Aarr.json"),
        (".zgroup", "=2Ezgroup"),
        ("nul.nc", "=6Eul.nc"),
        ("\0", "=00"),
        ("e\u0301", "e=CC=81"),
        ("\ud800", "=ED=A0=80"),
        ("", "="),
    ],
)
def test_node_names_are_readable(name: str, node: str) -> None:
    assert escape(name) == node
    assert unescape(node) == name


def test_special_names_are_told_apart() -> None:
    nodes = [escape(name) for name in SPECIAL]
    assert len(set(nodes)) == len(set(SPECIAL))
    folded = {
        unicodedata.normalize("NFD", node.casefold()) for node in node_names(SPECIAL).values()
    }
    assert len(folded) == len(set(SPECIAL))


@given(anything)
@example("a" * 178 + "/b")
@example("a" * 145 + "." + "b" * 100)  # cut after a dot
def test_every_name_has_a_node_name(name: str) -> None:
    node = escape(name)
    assert is_node_name(node)
    if "==" in node:
        with pytest.raises(ValueError, match="digest"):
            unescape(node)
        assert len(name.encode("utf-8", "surrogatepass")) > 40
    else:
        assert unescape(node) == name


@given(anything)
def test_node_names_obey_zarr_and_file_systems(name: str) -> None:
    node = escape(name)
    assert node
    assert not node.startswith("__")
    assert set(node) != {"."}
    assert not set(node) & set('/\\:*?"<>|%#&~ ')
    assert not node.startswith(".")
    assert not node.endswith((".", " "))
    assert len(node.encode()) <= MAX_BYTES
    assert unicodedata.normalize("NFC", node) == node
    assert all(char.isalnum() for char in node if not char.isascii())
    assert node.isprintable()
    assert node.casefold() != "zarr.json"
    assert node.casefold().split(".")[0] not in ("con", "nul", "com1", "lpt9")


@given(anything, anything)
@example("x" * 400 + "a", "x" * 400 + "b")
@example("\ud83c\udf0a", "🌊")
@example("é", "e\u0301")
def test_no_two_names_have_the_same_node_name(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)
    # a node name is a name too: its own node name may not be that of the other
    assert (escape(escape(one)) == escape(other)) == (escape(one) == other)


@given(st.lists(anything | st.text("abABéÉeE\u0301ß"), max_size=12))
@example(["T", "t", "T", "t==e3b98a4da31a127d4bde6e43033f66ba"])
def test_siblings_differ_where_case_is_ignored(names: list[str]) -> None:
    nodes = node_names(names)
    assert list(nodes) == list(dict.fromkeys(names))
    assert all(is_node_name(node) for node in nodes.values())
    for fold in (str.casefold, str.lower, str.upper):
        folded = {unicodedata.normalize("NFD", fold(node)) for node in nodes.values()}
        assert len(folded) == len(nodes)
    for name, node in nodes.items():
        assert node == escape(name) or "==" in node


def test_the_first_sibling_keeps_its_name() -> None:
    assert node_names(["t", "T", "lat"]) == {
        "t": "t",
        "T": "T==e632b7095b0bf32c260fa4c539e9fd7b",
        "lat": "lat",
    }


@given(anything)
def test_what_is_no_node_name_is_not_read(text: str) -> None:
    if not is_node_name(text):
        with pytest.raises(ValueError, match="not the name of a node"):
            unescape(text)


@pytest.mark.parametrize(
    "node",
    [
        *("", "a/b", "..", ".", ".zgroup", "__x", "a.", "zarr.json", "Zarr.JSON", "nul", "NUL.x"),
        *("a b", "a=2fb", "a=2", "a=", "=G0", "a==", "a==00", "\0", "a\\b", "x" * 181, "\ud800"),
    ],
)
def test_node_names_of_strangers_are_refused(node: str) -> None:
    assert not is_node_name(node)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="are no text"):
        unescape("a=FF=FE")


def test_files_can_be_called_so(tmp_path: Path) -> None:
    for node in node_names(SPECIAL).values():
        (tmp_path / node).mkdir()
        (tmp_path / node / "zarr.json").touch()
    assert {path.name for path in tmp_path.iterdir()} == set(node_names(SPECIAL).values())


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_stores_hold_variables_and_groups_of_any_name(tmp_path: Path, suffix: str) -> None:
    """But for surrogates that JSON would take for one character."""
    names = [name for name in SPECIAL if name != "\ud83c\udf0a"]
    values = {name: Variable(("x",), np.array([number])) for number, name in enumerate(names)}
    groups = [f"/in {name}" for name in names if "/" not in name]
    path = tmp_path / f"any{suffix}"
    write(path, {"/": Group(values), **{group: Group({}, {"title": group}) for group in groups}})
    stored = read(path).groups
    assert list(stored) == ["/", *groups]
    assert all(stored[group].attrs == {"title": group} for group in groups)
    found = stored["/"].variables
    assert {name: int(found[name].data[0]) for name in found} == {
        name: number for number, name in enumerate(names)
    }


def test_another_process_gives_the_same_names() -> None:
    code = "from intarsia.store.names import escape; print(ascii([escape(n) for n in {!r}]))"
    names = ["a/b", "x" * 300, "é"]
    done = subprocess.run(
        [sys.executable, "-c", code.format(names)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ascii([escape(name) for name in names])
