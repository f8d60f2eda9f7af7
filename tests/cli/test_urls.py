"""The command with URLs: sources of the network, and how they are reached."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import intarsia
from intarsia.cli.info import printable
from intarsia.cli.words import in_words
from intarsia.errors import IntarsiaError, UnsafeStore
from intarsia.store.objects import ROOT
from intarsia.store.read import read
from tests.cli.conftest import Ran
from tests.io.http_server import Server
from tests.store.hostile.basics import sealed

type Run = Callable[..., Ran]

NAMES = ("m0.nc", "m1.nc", "m2.nc")
HOW = ("--concat-dim", "time")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are not wrapped, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def server(server: Server, folder: Path) -> Server:
    """A server that has the folder's files."""
    for name in NAMES:
        server.put(f"sst/{name}", (folder / name).read_bytes())
    return server


@pytest.fixture
def urls(server: Server) -> list[str]:
    return [f"{server.url}sst/{name}" for name in NAMES]


def test_from_check_to_verify(run: Run, folder: Path, server: Server, urls: list[str]) -> None:
    assert run("check", *urls, *HOW).status == 0
    assert "requests" in run("explain", *urls, *HOW, "--isel", "time=0").out
    ran = run("build", *urls, *HOW, "-o", "sst.intarsia", "--container", f"net={server.url}sst")
    assert (ran.status, ran.err) == (0, "")
    place = f"net={server.url}sst"
    server.requests.clear()
    ran = run("info", "sst.intarsia", "--container", place)
    assert not server.requests
    (row,) = [line.split() for line in ran.out.splitlines() if line.startswith("net ")]
    assert row == ["net", f"{server.url}sst/", f"{server.url}sst/", "mtime", "3"]
    ran = run("verify", "sst.intarsia", "--container", place)
    assert (ran.status, ran.err) == (0, "")
    assert "Equal to the sources in every bit." in ran.out
    ran = run("verify", "sst.intarsia", "--container", f"net={folder}", "--pin", "net=size")
    assert ran.status == 0


def test_what_has_to_be_named(run: Run, server: Server, urls: list[str]) -> None:
    run("build", *urls, *HOW, "-o", "sst.intarsia")
    server.requests.clear()
    for command in ("explain", "verify"):
        ran = run(command, "sst.intarsia")
        assert ran.status == 1
        assert "say so: --container sst=PLACE" in ran.err
    assert not server.requests


@pytest.mark.parametrize(
    ("location", "why"),
    [
        (None, "is an address"),
        ("http://server.lan/sst/", "is on a private network"),
        ("http://data.example.org/sst/", "is not encrypted"),
        ("https://me:pw@data.example.org/sst/", "has a user or password"),
        ("ftp://data.example.org/sst/", "is reached by ftp"),
        ("/etc/", "neither relative"),
        ("../../../../../../../../../../../../../../../x/", None),
        ("https://data.example.org/\x1b[2J/", "neither relative"),
    ],
)
def test_what_a_store_must_not_reach_is_told(
    run: Run, folder: Path, server: Server, urls: list[str], location: str | None, why: str | None
) -> None:
    """Who decides whether to trust a store wants to know what it says; nothing is read."""
    run("build", *urls, *HOW, "-o", "sst.intarsia")
    server.requests.clear()
    said = f"{server.url}sst/"
    if location is not None:
        root = folder / "sst.intarsia" / ROOT
        document = json.loads(root.read_bytes())
        document["containers"][0]["location"] = location
        root.write_bytes(sealed(document))
        said = location
    ran = run("info", "sst.intarsia")
    assert (ran.status, ran.err) == (0, "")
    assert printable(said) in ran.out
    assert "\x1b" not in ran.out
    (told,) = json.loads(run("info", "sst.intarsia", "--json").out)["containers"]
    assert (told["name"], told["location"], told["sources"]) == ("sst", said, 3)
    if why is None:
        assert (told["now"], told["refused"]) == ("/x/", None)
    else:
        assert told["now"] is None
        assert why in told["refused"]
        assert "Refused, until you name it:" in ran.out
        assert "--container sst=PLACE" in ran.out
        with pytest.raises(UnsafeStore):
            intarsia.open_dataset("sst.intarsia")
    assert not server.requests


def test_nothing_is_read_from_what_is_refused(run: Run, server: Server, urls: list[str]) -> None:
    run("build", *urls, *HOW, "-o", "sst.intarsia")
    server.requests.clear()
    stored = read("sst.intarsia", refused={})
    with pytest.raises(IntarsiaError, match="nothing reads"):
        np.asarray(stored.group("/").variables["sst"].data)
    assert not server.requests


def test_secrets_are_used_and_not_shown(run: Run, server: Server, urls: list[str]) -> None:
    told = ("--storage-option", "user_agent=s3cr3t", "--storage-option", "allow_http=true")
    ran = run("check", *urls, *HOW, *told)
    assert (ran.status, ran.err) == (0, "")
    assert "storage_options={'user_agent': ..., 'allow_http': 'true'}" in ran.out
    assert {request.headers["user-agent"] for request in server.requests} == {"s3cr3t"}
    outs = [
        run("build", *urls, *HOW, *told, "-o", "sst.intarsia"),
        run("info", "sst.intarsia", *told),
        run("info", "sst.intarsia", *told, "--container", f"sst={server.url}sst"),
        run("info", "sst.intarsia", *told, "--container", f"sst={server.url}sst", "--json"),
        run("verify", "sst.intarsia", *told, "--container", f"sst={server.url}sst"),
        run("verify", "sst.intarsia", *told, "--container", f"sst={server.url}nowhere"),
        run("check", *urls, *HOW, "--storage-option", "s3cr3t"),
        run("check", *urls, *HOW, "--storage-option", "nothing=s3cr3t"),
        run("check", "m0.nc", *HOW, "--storage-option", "region=s3cr3t"),
        run(
            "verify",
            "sst.intarsia",
            "--storage-option",
            "nothing=s3cr3t",
            "--container",
            f"sst={server.url}sst",
        ),
        run(
            "info",
            "sst.intarsia",
            "--storage-option",
            "nothing=s3cr3t",
            "--container",
            f"sst={server.url}sst",
        ),
    ]
    assert [ran.status for ran in outs[:6]] == [0, 0, 0, 0, 0, 1]
    assert not any("s3cr3t" in ran.out + ran.err for ran in outs)
    assert {ran.status for ran in outs[6:]} == {2}
    (container,) = json.loads(outs[3].out)["containers"]
    assert container["access"] == {}


def test_how_places_are_reached_is_shown(run: Run, folder: Path) -> None:
    from intarsia.store.objects import ROOT
    from intarsia.store.root import digest_of

    run("build", *NAMES, *HOW, "-o", "sst.intarsia")
    root = json.loads((folder / "sst.intarsia" / ROOT).read_text())
    root["containers"][0].update(
        location="s3://bucket/sst/", access={"region": "eu-west-1", "skip_signature": True}
    )
    root["sources"]["table"]["columns"] |= {"size": -1, "mtime_ns": -1}
    del root["sources"]["table"]["array"], root["sources"]["table"]["shards"]
    root["digest"] = digest_of(root)
    (folder / "sst.intarsia" / ROOT).write_text(json.dumps(root))
    lines = run("info", "sst.intarsia").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("sources "))
    assert lines[at].endswith(" region=eu-west-1, skip_signature")
    assert "mtime, 3 by nothing" in lines[at]
    (container,) = json.loads(run("info", "sst.intarsia", "--json").out)["containers"]
    assert container["access"] == {"region": "eu-west-1", "skip_signature": True}
    assert container["unpinned"] == 3


def test_no_object_matches(run: Run, server: Server) -> None:
    ran = run("check", f"{server.url}sst/*.nc", *HOW)
    assert ran.status == 1
    assert "give a list of URLs" in ran.err


def test_messages_in_the_words_of_the_command() -> None:
    assert in_words("say so: storage_options={'endpoint': ...}") == (
        "say so: --storage-option endpoint=..."
    )
    text = "name it, too: containers={'sst': {'location': ..., 'storage_options': ...}}"
    assert in_words(text) == "name it, too: --container sst=PLACE, with --storage-option"
