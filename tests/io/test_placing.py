"""Where stores say their sources are: they are found again, move along, and tell no secrets."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.access import Access
from intarsia.errors import StoreError, UnsafeStore
from intarsia.io.containers import Container, check_keys, resolve
from intarsia.io.placing import is_own_source, plan_containers, without_secrets
from intarsia.references import Source, Sources

STORE = "/data/proj/stores/x.intarsia"


def table(*urls: str | Path) -> Sources:
    split = [str(url).rpartition("/") for url in urls]
    return Sources.of([Source(f"{folder}/", key, 1, 1) for folder, _, key in split])


def plan(
    *urls: str | Path, store: str | Path = STORE, named: dict[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Locations by name, and each source as ``name:key``."""
    containers, places = plan_containers(table(*urls), str(store), named)
    assert len({container.name for container in containers}) == len(containers)
    assert {container.pin for container in containers} <= {"mtime"}
    found = [f"{containers[number].name}:{key}" for number, key in places]
    return {container.name: container.location for container in containers}, found


def again(sources: Sources, store: str, opened: str | None = None) -> list[str]:
    """Paths of the sources of a store that was written at one path, and opened at another."""
    containers, places = plan_containers(sources, store)
    locations = resolve(containers, opened or store).locations
    return [locations[number] + key for number, key in places]


# -- what containers there are ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("urls", "locations", "keys"),
    [
        ("P/sst/a P/sst/b", {"sst": "../sst/"}, "sst:a sst:b"),
        ("P/sst/1/a P/sst/2/b", {"sst": "../sst/"}, "sst:1/a sst:2/b"),
        ("P/stores/a", {"sources": "./"}, "sources:a"),
        ("P/stores/s/a P/stores/t/b", {"sources": "./"}, "sources:s/a sources:t/b"),
        ("P/stores/s/a P/sst/a", {"s": "./s/", "sst": "../sst/"}, "s:a sst:a"),
        ("P/sst/a P/wind/b", {"sources": "../"}, "sources:sst/a sources:wind/b"),
        ("/data/s/a /data/w/b", {"s": "../../s/", "w": "../../w/"}, "s:a w:b"),
        (
            "/data/s/1/a /data/s/2/a /data/w/1/a /data/w/2/a",
            {"s": "../../s/", "w": "../../w/"},
            "s:1/a s:2/a w:1/a w:2/a",
        ),
        (
            "/data/sst/v/a /home/me/v/a",
            {"v": "../../sst/v/", "v-2": "../../../home/me/v/"},
            "v:a v-2:a",
        ),
        ("/data/a", {"sources": "../../"}, "sources:a"),
        ("/data/a /data/s/b", {"sources": "../../", "s": "../../s/"}, "sources:a s:b"),
        ("/a", {"sources": "../../../"}, "sources:a"),
        ("/data/q/ü$&/a", {"ü__": "../../q/ü$&/"}, "ü__:a"),
        ("/data/q/.hid/a", {"hid": "../../q/.hid/"}, "hid:a"),
        ("", {}, ""),
    ],
)
def test_containers_are_found(urls: str, locations: dict[str, str], keys: str) -> None:
    paths = urls.replace("P/", "/data/proj/").split()
    for suffix in ("", ".zip"):
        assert plan(*paths, store=STORE + suffix) == (locations, keys.split())
    assert plan(*paths[::-1])[0] == locations  # whatever the order


def test_many_folders_are_one_container() -> None:
    locations, _ = plan(*(f"/data/run{number:04}/a.nc" for number in range(3_000)))
    assert locations == {"sources": "../../"}


def test_names_that_the_caller_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = ["/data/a/x.nc", "/data/a/b/y.nc", "/data/ab/z.nc", "/data/c/w.nc"]
    named = {"outer": "/data/a", "inner": "/data/a/b/"}
    assert plan(*urls, named=named) == (
        {"outer": "../../a/", "inner": "../../a/b/", "ab": "../../ab/", "c": "../../c/"},
        ["outer:x.nc", "inner:y.nc", "ab:z.nc", "c:w.nc"],
    )
    # one that is found gives way to one that is given
    assert plan(*urls, named={"ab": "/data/c"})[0]["ab"] == "../../c/"
    # relative to where the caller is
    monkeypatch.chdir(tmp_path)
    here = os.path.abspath(tmp_path)
    assert plan(f"{here}/s/a.nc", store=f"{here}/x.intarsia", named={"n": "s"})[0] == {"n": "./s/"}


def test_a_name_for_the_same_folder_by_another_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    real = os.path.realpath(tmp_path)
    store = f"{real}/x.intarsia"
    locations, keys = plan(f"{real}/real/a.nc", store=store, named={"n": f"{real}/link"})
    assert keys == ["n:a.nc"]
    assert locations in ({"n": "./link/"}, {"n": "./real/"})


@pytest.mark.parametrize("named", [{"a/b": "/data"}, {"": "/data"}, {"n": "/nowhere"}, {"n": ""}])
def test_names_that_are_refused(named: dict[str, str]) -> None:
    with pytest.raises(StoreError, match="container"):
        plan("/data/a/x.nc", named=named)


@pytest.mark.parametrize("key", ["a\\b.nc", "a\nb.nc", "C:a.nc"])
def test_a_name_that_could_not_be_read_again(key: str) -> None:
    with pytest.raises(UnsafeStore, match="name of a source"):
        plan(f"/data/sst/{key}")
    with pytest.raises(UnsafeStore):
        plan(f"/data/sst/{key}/a.nc", named={"n": "/data/sst"})


# -- what is told ----------------------------------------------------------------------------------


def test_urls_are_told_without_what_lets_one_in() -> None:
    locations, keys = plan(
        "https://me:secret@host:8080/sst/2020/a.nc?X-Amz-Signature=secret&X-Amz-Date=1",
        "https://host:8080/sst/2021/b.nc?sv=secret&se=2026&sig=secret&sp=r",
        "s3://bucket/w/a.nc",
        "s3://bucket/w/b.nc?token=secret",
        "https://bucket/w/b.nc",
    )
    assert locations == {
        "sst": "https://host:8080/sst/",
        "w": "https://bucket/w/",
        "w-2": "s3://bucket/w/",
    }
    assert keys == ["sst:2020/a.nc", "sst:2021/b.nc", "w-2:a.nc", "w-2:b.nc", "w:b.nc"]


@pytest.mark.parametrize("end", ["?versionId=3", "?file=a&sig=secret", "#part"])
def test_a_query_that_says_what_is_read_is_not_dropped(end: str) -> None:
    with pytest.raises(StoreError, match="without") as error:
        plan(f"https://me:secret@host/a.nc{end}")
    assert "secret" not in str(error.value)


def test_a_store_in_the_same_folder_says_nothing_of_it() -> None:
    """Not the name of the user, nor of the machine, nor anything above."""
    containers, places = plan_containers(
        table("/people/maria/work/a.nc", "/people/maria/work/sst/b.nc"),
        "/people/maria/work/x.intarsia",
    )
    assert not any(word in repr((containers, places)) for word in ("people", "maria", "work"))
    containers, _ = plan_containers(table("/people/maria/a.nc"), "/people/maria/s/x.intarsia")
    assert "maria" not in repr(containers)


PARTS = st.lists(st.sampled_from(["a", "b", "c", "data", "é", ".h"]), max_size=4)


@given(st.lists(PARTS, min_size=1, max_size=8), PARTS, st.randoms(use_true_random=False))
def test_what_is_told_leads_back(
    folders: list[list[str]], parent: list[str], order: random.Random
) -> None:
    urls = ["/".join(["", *folder, "f.nc"]) for folder in folders]
    store = "/".join(["", *parent, "x.intarsia"])
    assert again(table(*urls), store) == urls
    containers, places = plan_containers(table(*urls), store)
    assert all(not os.path.isabs(container.location) for container in containers)
    assert not any(os.path.isabs(key) for _, key in places)
    check_keys([key for _, key in places])
    shuffled = order.sample(urls, len(urls))
    assert plan_containers(table(*shuffled), store)[0] == containers
    # moved together, all that is not above both is found
    moved = [f"/new/place{url}" for url in urls]
    assert again(table(*urls), store, f"/new/place{store}") == moved


# -- real folders ----------------------------------------------------------------------------------


def project(root: Path) -> Sources:
    urls = [root / "sst/2020/a.nc", root / "sst/2021/b.nc", root / "wind/c.nc"]
    for url in urls:
        url.parent.mkdir(parents=True, exist_ok=True)
        url.write_text(f"{url.name}")
    (root / "stores").mkdir()
    return Sources.of([Sources.of_file(url)[0] for url in urls])


def names(paths: list[str]) -> list[str]:
    return [Path(path).read_text() for path in paths]


@pytest.mark.parametrize("suffix", [".intarsia", ".intarsia.zip"])
def test_store_and_sources_move_together(tmp_path: Path, suffix: str) -> None:
    old, new = tmp_path / "old", tmp_path / "deeper/and deeper/new"
    sources = project(old)
    containers, places = plan_containers(sources, f"{old}/stores/x{suffix}")
    new.parent.mkdir(parents=True)
    shutil.move(old, new)
    locations = resolve(containers, f"{new}/stores/x{suffix}").locations
    assert names([locations[n] + key for n, key in places]) == ["a.nc", "b.nc", "c.nc"]


@pytest.mark.parametrize("written", ["real", "link"])
@pytest.mark.parametrize("opened", ["real", "link"])
@pytest.mark.parametrize("scanned", ["real", "link"])
def test_a_project_behind_a_link(tmp_path: Path, written: str, opened: str, scanned: str) -> None:
    """By whatever path things are reached, they are found, and told in few words."""
    (tmp_path / "some/where").mkdir(parents=True)
    (tmp_path / "link").symlink_to("some/where/real")
    places = {"real": tmp_path / "some/where/real", "link": tmp_path / "link"}
    project(places["real"])
    sources = table(*(f"{places[scanned]}/sst/{name}" for name in ("2020/a.nc", "2021/b.nc")))
    store = f"{places[written]}/stores/x.intarsia"
    containers, _ = plan_containers(sources, store)
    assert containers == [Container("sst", "../sst/")]
    assert names(again(sources, store, f"{places[opened]}/stores/x.intarsia")) == ["a.nc", "b.nc"]


def test_links_to_the_sources_are_kept(tmp_path: Path) -> None:
    """A project that links to an archive stays a project."""
    project(tmp_path / "archive/x")
    root = tmp_path / "proj"
    root.mkdir()
    (root / "sst").symlink_to("../archive/x/sst")
    sources = table(f"{root}/sst/2020/a.nc")
    assert plan_containers(sources, f"{root}/x.intarsia")[0] == [Container("2020", "./sst/2020/")]
    assert names(again(sources, f"{root}/x.intarsia")) == ["a.nc"]


def test_a_store_behind_a_link(tmp_path: Path) -> None:
    """``..`` of a link's target is not ``..`` of the link."""
    sources = project(tmp_path / "proj")
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "proj/stores").rmdir()
    (tmp_path / "proj/stores").symlink_to("../far/away")
    store = f"{tmp_path}/proj/stores/x.intarsia"
    for opened in (store, f"{tmp_path}/far/away/x.intarsia"):
        assert names(again(sources, store, opened)) == ["a.nc", "b.nc", "c.nc"]


def test_dots_in_a_path_are_the_systems(tmp_path: Path) -> None:
    """``link/..`` is the parent of what the link leads to."""
    sources = project(tmp_path / "deep/proj")
    del sources
    (tmp_path / "link").symlink_to("deep/proj/sst")
    url = f"{tmp_path}/link/../wind/c.nc"
    assert names([url, *again(table(url), f"{tmp_path}/x.intarsia")]) == ["c.nc", "c.nc"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    url = f"{tmp_path}/gone/a.nc"
    store = f"{os.path.realpath(tmp_path)}/x.intarsia"
    assert again(table(url), store) == [os.path.realpath(url)]


# -- saving onto a source --------------------------------------------------------------------------


def test_onto_a_source(tmp_path: Path) -> None:
    sources = project(tmp_path)
    a, b, c = (source.url for source in sources)
    (tmp_path / "soft").symlink_to(a)
    os.link(b, tmp_path / "hard")
    (tmp_path / "folder").symlink_to("wind")
    (tmp_path / "up").symlink_to(".")
    for path, source in {
        a: a,
        f"{tmp_path}/soft": a,
        f"{tmp_path}/up/sst/2020/a.nc": a,
        f"{tmp_path}/hard": b,
        f"{tmp_path}/sst": a,
        f"{tmp_path}/sst/2021": b,
        f"{tmp_path}/wind": c,
        f"{tmp_path}/folder": c,
        f"{tmp_path}/up/wind": c,
        f"{tmp_path}": a,
        f"{tmp_path}/folder/c.nc": c,
    }.items():
        assert is_own_source(path, sources) == source
    for path in ("x.intarsia", "stores", "sst/2020/a.nc.zip", "sst/202", "wind/x.intarsia", "a.nc"):
        assert is_own_source(f"{tmp_path}/{path}", sources) is None


def test_onto_a_link_that_sources_are_reached_by(tmp_path: Path) -> None:
    project(tmp_path / "proj")
    (tmp_path / "link").symlink_to("proj/sst")
    (tmp_path / "up").symlink_to(".")
    for url in (f"{tmp_path}/link/2020/a.nc", f"{tmp_path}/up/link/2020/a.nc"):
        assert is_own_source(f"{tmp_path}/link", table(url)) == url


def test_onto_a_source_that_is_gone(tmp_path: Path) -> None:
    url = f"{tmp_path}/a.nc"
    assert is_own_source(url, table(url)) == url
    assert is_own_source(f"{tmp_path}/b.nc", table(url)) is None


def test_sources_of_the_network_are_not_in_the_way(tmp_path: Path) -> None:
    assert is_own_source(f"{tmp_path}", table("s3://bucket/a.nc")) is None
    assert is_own_source(f"{tmp_path}", Sources.of([])) is None


@pytest.mark.parametrize("name", ["", "a/b", "a b", 5, "x" * 65])
def test_names_that_no_container_can_have(name: Any) -> None:
    with pytest.raises(StoreError, match="the name of a container; use letters, digits"):
        plan("/data/a.nc", named={name: "/data"})


# -- how places of the network are reached ---------------------------------------------------------


def reached(*sources: tuple[str, Access | None], named: dict[str, str] | None = None) -> Any:
    """Containers as (name, location, access), and each source as ``name:key``."""
    split = [(url.rpartition("/"), access) for url, access in sources]
    rows = [Source(f"{home}/", key, 1, 1, access=access) for (home, _, key), access in split]
    containers, places = plan_containers(Sources.of(rows), STORE, named)
    told = [(one.name, one.location, dict(one.access)) for one in containers]
    return told, [f"{containers[number].name}:{key}" for number, key in places]


ANONYMOUS = Access((("skip_signature", True),))
SECRET = Access((("access_key_id", "AKIA"), ("region", "eu-west-1"), ("secret_access_key", "s3")))
OTHERS = Access((("access_key_id", "AKIB"), ("region", "eu-west-1"), ("secret_access_key", "s4")))


def test_containers_are_reached_in_one_way() -> None:
    told, keys = reached(
        ("s3://bucket/a/1.nc", None),
        ("s3://bucket/a/2.nc", ANONYMOUS),
        ("s3://bucket/a/3.nc", SECRET),
        ("s3://bucket/b/4.nc", OTHERS),
        ("/data/a.nc", None),
        ("az://c/a/5.nc", Access((("account_key", "k"), ("account_name", "one")))),
        ("az://c/a/6.nc", Access((("account_name", "two"),))),
    )
    assert told == [
        ("a", "az://c/a/", {"account_name": "one"}),
        ("a-2", "az://c/a/", {"account_name": "two"}),
        ("bucket", "s3://bucket/", {}),
        ("bucket-2", "s3://bucket/", {"region": "eu-west-1"}),
        ("bucket-3", "s3://bucket/", {"skip_signature": True}),
        ("sources", "../../", {}),
    ]
    by_name = {name: access for name, _, access in told}
    assert [by_name[key.partition(":")[0]] for key in keys] == [
        {}, {"skip_signature": True}, {"region": "eu-west-1"}, {"region": "eu-west-1"}, {},
        {"account_name": "one"}, {"account_name": "two"},
    ]  # fmt: skip


def test_a_named_place_that_is_reached_in_two_ways() -> None:
    told, keys = reached(
        ("s3://bucket/a/1.nc", ANONYMOUS),
        ("s3://bucket/a/2.nc", None),
        ("s3://bucket/b/3.nc", None),
        named={"mine": "s3://bucket/a"},
    )
    assert told == [
        ("mine", "s3://bucket/a/", {}),
        ("mine-2", "s3://bucket/a/", {"skip_signature": True}),
        ("b", "s3://bucket/b/", {}),
    ]
    assert keys == ["mine-2:1.nc", "mine:2.nc", "b:3.nc"]


def test_spellings_of_azure_and_others() -> None:
    told, keys = reached(
        ("abfss://con@account.dfs.core.windows.net/sst/a.nc", None),
        ("az://con/sst/b.nc", Access((("account_name", "account"), ("sas_key", "sig=x")))),
        ("s3a://bucket/a.nc", None),
        ("gcs://bucket/a.nc", None),
    )
    assert sorted(told) == [
        ("bucket", "gs://bucket/", {}),
        ("bucket-2", "s3://bucket/", {}),
        ("sst", "az://con/sst/", {"account_name": "account"}),
    ]
    assert keys == ["sst:a.nc", "sst:b.nc", "bucket-2:a.nc", "bucket:a.nc"]
    with pytest.raises(StoreError, match="no store can name"):
        reached(("abfss://con@evil.example.org/a.nc", None))


@pytest.mark.parametrize(
    ("url", "access"),
    [
        ("s3://bucket/a\nb.nc", None),
        ("https://host.org/a\r\n/b.nc", None),
        ("s3://bucket/../a.nc", None),
        ("s3://bucket/a//b.nc", None),
        ("https://host.org/%2e%2e/b.nc", None),
        ("https://höst.org/b.nc", None),
        ("s3://bucket/a.nc", Access((("endpoint", "https://me:pw@host.org"),))),
        ("s3://bucket/a.nc", Access((("region", "not a region"),))),
    ],
)
def test_what_could_not_be_read_again(url: str, access: Access | None) -> None:
    with pytest.raises(StoreError) as error:
        reached((url, access))
    assert "pw" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("no URL: a?b=c#d", "no URL: a?b=c#d"),
        ("https://host/a.nc?sig=abc, too", "https://host/a.nc, too"),
        ("(s3://k:v@bucket/a.nc)", "(s3://bucket/a.nc)"),
        ("in 'https://u@h/a?x=1' and https://h/b?y=2.", "in 'https://h/a' and https://h/b."),
        ("abfs://con@account.dfs.core.windows.net/a", "abfs://con@account.dfs.core.windows.net/a"),
    ],
)
def test_texts_without_secrets(text: str, kept: str) -> None:
    assert without_secrets(text) == kept
