"""What a store may say of places: relative ones, with nothing in them that leads elsewhere."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from intarsia.access import Access
from intarsia.errors import StoreError, UnsafeStore
from intarsia.io.containers import (
    MAX_CONTAINERS,
    MAX_KEY,
    Container,
    Places,
    apply_pins,
    check_keys,
    parse_location,
    resolve,
)
from intarsia.io.overrides import settle
from intarsia.io.sampling import UNKNOWN

STORE = "/data/stores/x.intarsia"

KEYS = [
    *("a.nc", "2020/01/a.nc", "wrfout_d01_2005-08-28_00:00:00", ".hidden", "a..b", "..a"),
    *("é/温", "a b", "100%", "%2e.nc", "x%2fy", "\udcff.nc", "C", "CC:x", "a" * MAX_KEY),
]

HOSTILE = [
    *("", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a", "a/./b", "//host/a"),
    *("a\\b", "..\\a", "C:", "C:/a", "c:a", "a\0b", "\0", "%2e%2e/a", "a/%2E./b", ".%2e"),
    *("a/.. /b", "...", "a/ /b", "a\nb", "\x1b[2J", "\x7f", "\ud800", "a" * (MAX_KEY + 1)),
]


def one(location: str, store: str = STORE, pin: str = "mtime", override: Any = None) -> str:
    overrides = None if override is None else {"sst": override}
    (found,) = resolve([Container("sst", location, pin)], store, overrides).locations
    return found


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_keys_that_are_fine(key: str) -> None:
    check_keys([key])


@pytest.mark.parametrize("key", HOSTILE)
@pytest.mark.parametrize("number", [0, 3, 6])
def test_keys_that_are_refused(key: str, number: int) -> None:
    keys = ["a.nc", "b/c.nc", "d"] * 2
    keys.insert(number, key)
    with pytest.raises(UnsafeStore) as error:
        check_keys(keys, STORE)
    assert error.value.url == STORE
    if "\0" not in key and len(key) <= MAX_KEY and key != "\ud800":
        assert repr(key) in error.value.reason  # it is this one that is named


SEGMENTS = st.sampled_from(
    ["a", "..", ".", "", "C:", "x.nc", "\\", " ", "%2e", "b", "\0", "%2E%2e"]
)


@given(st.lists(st.lists(SEGMENTS, max_size=4).map("/".join) | st.text(max_size=8), max_size=5))
@example([])
def test_what_passes_stays_in_its_container(keys: list[str]) -> None:
    try:
        check_keys(keys)
    except UnsafeStore:
        bad = [key for key in keys if not sound(key)]
        assert bad
        return
    for key in keys:
        assert sound(key)
        path = os.path.normpath("/container/" + key)
        assert path == "/container/" + key
        assert path.startswith("/container/")


def sound(key: str) -> bool:
    """The rule in other words."""
    segments = key.split("/")
    unescaped = [segment.replace("%2e", ".").replace("%2E", ".") for segment in segments]
    text = all(char >= " " and char not in "\\\x7f" and not "\ud800" <= char < "\udc80"
               and not "\udd00" <= char < "\ue000" for char in key)  # fmt: skip
    drive = key[1:2] == ":" and key[0].isascii() and key[0].isalpha()
    return text and not drive and all(segment.strip(". ") for segment in unescaped)


def test_many_keys_are_checked_fast() -> None:
    keys = [f"some/folder/2020/{number:06}.nc" for number in range(100_000)]
    check_keys(keys)
    keys[77_777] = "some/../2020/x.nc"
    with pytest.raises(UnsafeStore, match=r"some/\.\./2020/x\.nc"):
        check_keys(keys)


# -- locations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("./", "/data/stores/"),
        ("./a/b/", "/data/stores/a/b/"),
        ("../", "/data/"),
        ("../sst/", "/data/sst/"),
        ("../../", "/"),
        ("../../../../../etc/", "/etc/"),  # as the system has it
        ("./é 温/", "/data/stores/é 温/"),
    ],
)
def test_relative_locations(location: str, found: str) -> None:
    for store in (STORE, STORE + ".zip", "file://" + STORE, STORE + "/"):
        assert one(location, store) == found


@pytest.mark.parametrize(
    "location",
    [
        *("", ".", "..", "sst/", "sst", "./sst", "..sst/", "/", "/etc/", "//host/share/", "~/"),
        *("C:/", "C:\\a\\", "./C:/", ".\\a\\", "..\\", "file:///etc/", "s3:/bucket/"),
        *("http://localhost/", "./../etc/", "../a/../", "././", "./a//", ".//", "../../a/./"),
        *("./%2e%2e/", "./a\0/", "./\ud800/", "./.. /", "./a\n/", "/../", "\0./", "./\\/"),
        "../" * 257,
        "./" + "a/" * 3_000,
    ],
)
def test_locations_that_are_refused(location: str) -> None:
    for store in (STORE, "https://host/data/x.intarsia"):
        with pytest.raises(UnsafeStore, match="'sst'") as error:
            one(location, store)
        assert error.value.url == store
        assert one(location, store, override="/mnt/elsewhere") == "/mnt/elsewhere/"


@pytest.mark.parametrize(
    ("store", "location", "found"),
    [
        ("https://host/a/b/x.intarsia", "./", "https://host/a/b/"),
        ("https://host/a/b/x.intarsia/", "../sst/", "https://host/a/sst/"),
        ("https://host/x.intarsia.zip?sig=secret", "./sst/", "https://host/sst/"),
        ("s3://bucket/a/x.intarsia", "../", "s3://bucket/"),
        ("s3://bucket/x.intarsia", "../", None),
        ("https://host/a/x.intarsia", "../../", None),
        ("https://host", "../", None),
    ],
)
def test_a_store_of_the_network_stays_on_its_host(
    store: str, location: str, found: str | None
) -> None:
    if found is not None:
        assert one(location, store) == found
        return
    with pytest.raises(UnsafeStore, match="climbs out"):
        one(location, store)


@given(
    st.text(st.sampled_from("./a\\:%2eC \0~"), max_size=12),
    st.sampled_from([STORE, "https://host/a/b/x.intarsia"]),
)
def test_no_location_leads_out_of_where_it_may(location: str, store: str) -> None:
    try:
        found = one(location, store)
    except UnsafeStore:
        return
    climb, down = parse_location(location)
    assert location == (climb * "../" or "./") + down
    assert found.endswith("/" + down)
    if store == STORE:
        assert found == os.path.normpath(found).rstrip("/") + "/"
    else:
        assert found.startswith("https://host/")
        assert climb <= 2


def test_the_links_of_the_store_are_followed(tmp_path: Path) -> None:
    """Its folder is the one where it is, by whatever path it was reached."""
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "real/deep/x.intarsia").mkdir()
    (tmp_path / "link").symlink_to("real/deep")
    (tmp_path / "x.intarsia").symlink_to("link/x.intarsia")
    real = os.path.realpath(tmp_path)
    for store in ("real/deep/x.intarsia", "link/x.intarsia", "x.intarsia"):
        assert one("../sst/", f"{tmp_path}/{store}") == f"{real}/real/sst/"


# -- what the caller says --------------------------------------------------------------------------


def test_a_place_that_the_caller_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/x")
    here = os.path.abspath(tmp_path)
    for place, found in {
        "/mnt/elsewhere": "/mnt/elsewhere/",
        "/mnt/a/../b//": "/mnt/b/",
        "sub": f"{here}/sub/",
        "../": f"{os.path.dirname(here)}/",
        "~/sst": "/home/x/sst/",
        "file:///mnt/a%20b": "/mnt/a b/",
        "s3://bucket/sst": "s3://bucket/sst/",
    }.items():
        for override in (place, {"location": place}, {"location": place, "pin": "none"}):
            assert one("./", override=override) == found
            again = settle({"sst": override})
            assert settle(again) == again
    assert one("/etc/", override=Path("/mnt")) == "/mnt/"
    assert one("./", "https://host/x.intarsia", override="/mnt") == "/mnt/"


def test_pins_that_the_caller_names() -> None:
    containers = [Container("a", "./"), Container("b", "./b/", "sample")]
    overrides: Mapping[str, Any] = {"b": {"pin": "size"}}
    assert resolve(containers, STORE)[:2] == (
        ("/data/stores/", "/data/stores/b/"),
        ("mtime", "sample"),
    )
    assert resolve(containers, STORE, overrides).pins == ("mtime", "size")
    assert resolve(containers, STORE, {"b": "/mnt"}).pins == ("mtime", "sample")


def test_names_that_are_not_there() -> None:
    containers = [Container("sst", "./"), Container("wind", "./w/")]
    with pytest.raises(StoreError, match="there is no container 'SST'.*there are: sst, wind"):
        resolve(containers, STORE, {"SST": "/mnt"})
    with pytest.raises(StoreError, match="there are: none"):
        resolve([], STORE, {"SST": "/mnt"})


@pytest.mark.parametrize(
    "override",
    [
        *("", b"/mnt", {}, {"pin": "etag"}, {"place": "/mnt"}, {"location": ""}),
        {"location": "/a", "x": "y"},
    ],
)
def test_overrides_that_say_nothing(override: Any) -> None:
    with pytest.raises(StoreError, match="sst|container"):
        one("./", override=override)


@pytest.mark.parametrize("name", ["", "a/b", "a" * 65, "a\0", "a b", "<script>"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(UnsafeStore, match="called"):
        resolve([Container(name, "./")], STORE)


def test_too_many_containers() -> None:
    many = [Container(f"c{number}", "./") for number in range(MAX_CONTAINERS + 1)]
    resolve(many[:-1], STORE)
    with pytest.raises(UnsafeStore, match="1001 containers"):
        resolve(many, STORE)
    with pytest.raises(UnsafeStore, match="twice"):
        resolve([many[0], many[0]], STORE)


# -- places of the network -------------------------------------------------------------------------


def remote(
    location: str, access: dict[str, Any] | None = None, override: Any = None, **how: Any
) -> Places:
    """One container of the network, resolved."""
    container = Container("sst", location, access=tuple(sorted((access or {}).items())))
    return resolve([container], STORE, None if override is None else {"sst": override}, **how)


def options(places: Places) -> dict[str, Any]:
    (access,) = places.accesses
    return {} if access is None else dict(access.options)


def test_what_is_public_is_reached() -> None:
    assert remote("s3://bucket/a/") == (("s3://bucket/a/",), ("mtime",), (True,), (None,))
    assert remote("https://data.example.org/a/") == (
        ("https://data.example.org/a/",),
        ("mtime",),
        (False,),
        (Access(guarded=True),),
    )
    told = {"region": "eu-west-1", "skip_signature": True}
    assert remote("s3://bucket/", told)[2:] == ((False,), (Access(tuple(told.items())),))


@pytest.mark.parametrize(
    ("location", "access", "reason"),
    [
        ("http://127.0.0.1:9000/a/", {}, "is an address.*say so: containers={'sst': place}"),
        ("https://user:pw@host.org/", {}, "user or password"),
        ("http://data.example.org/", {}, "not encrypted"),
        ("file:///etc/", {}, "neither relative"),
        ("s3://bucket/", {"endpoint": "http://evil.example.org"}, "another endpoint"),
        ("s3://bucket/", {"request_payer": True}, "paid for"),
    ],
)
def test_what_has_to_be_named(location: str, access: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsafeStore, match=reason) as error:
        remote(location, access)
    assert error.value.url == STORE
    for override in ({"pin": "none"}, {"storage_options": {}}, {"pin": "size", "registry": None}):
        with pytest.raises(UnsafeStore):
            remote(location, access, override)
    for place in ("http://127.0.0.1:9000/b", "s3://mine/"):
        # what the store says of its own place says nothing of this one
        found = remote(location, access, place)
        assert found == ((place.rstrip("/") + "/",), ("mtime",), (False,), (None,))


def test_what_the_caller_says_goes_first() -> None:
    told = {"endpoint": "http://evil.example.org", "region": "eu-west-1", "skip_signature": True}
    said = {"endpoint_url": "http://127.0.0.1:9000", "key": "AKIA", "secret": "x", "anon": False}
    whole = {
        "access_key_id": "AKIA",
        "allow_http": True,
        "endpoint": "http://127.0.0.1:9000",
        "region": "eu-west-1",
        "secret_access_key": "x",
        "skip_signature": False,
    }
    found = remote("s3://bucket/", told, storage_options=said)
    assert (options(found), found.untrusted) == (whole, (True,))
    found = remote("s3://bucket/", told, {"storage_options": said}, storage_options={"region": "x"})
    assert (options(found), found.untrusted) == (whole, (False,))
    with pytest.raises(UnsafeStore, match="another endpoint"):
        remote("s3://bucket/", told, storage_options={"key": "AKIA", "secret": "x"})
    # of another place, the store has said nothing
    found = remote("s3://bucket/", told, "s3://mine/", storage_options={"key": "AKIA"})
    assert options(found) == {"access_key_id": "AKIA"}


def test_nothing_is_sent_to_a_host_that_the_store_names() -> None:
    said = {"headers": {"Authorization": "Bearer s3cr3t"}}
    place = "https://data.example.org/sst/"
    for how in ({"storage_options": said}, {"override": {"storage_options": said}}):
        with pytest.raises(StoreError, match="that the store names, not you") as error:
            remote(place, **how)
        assert "s3cr3t" not in str(error.value)
    found = remote(place, override={"location": place, "storage_options": said})
    assert options(found) == {"header:authorization": "Bearer s3cr3t"}
    assert not found.accesses[0].guarded  # type: ignore[union-attr]


class Given:
    """An object store of the caller's."""

    def get(self, path: str) -> bytes:
        raise AssertionError(f"nothing reads {path}")


def test_a_registry_says_where_and_how() -> None:
    stores = {"s3://bucket/": Given(), "https://data.example.org/": Given()}
    for place in ("s3://bucket/a/", "https://data.example.org/a/"):
        prefix = next(prefix for prefix in stores if place.startswith(prefix))
        wanted = Access((), prefix, stores[prefix])
        evil = {"endpoint": "http://evil.example.org"} if place.startswith("s3") else {}
        assert remote(place, evil, registry=stores).accesses == (wanted,)
        assert remote(place, evil, {"registry": stores}).accesses == (wanted,)
    with pytest.raises(ValueError, match="no store for"):
        remote("s3://other/", registry=stores)


def test_a_registry_of_virtualizarr() -> None:
    module = pytest.importorskip("obspec_utils.registry")
    registry = module.ObjectStoreRegistry({"s3://bucket": Given(), "https://a.org": Given()})
    for place, prefix in {
        "s3://bucket/": "s3://bucket/",
        "s3://bucket/sst/": "s3://bucket/",
        "https://a.org/": "https://a.org/",
        "https://a.org/b/c/": "https://a.org/",
    }.items():
        for override in ({"registry": registry}, {"location": place, "registry": registry}):
            (access,) = remote(place, override=override).accesses
            assert access is not None
            assert access.prefix == prefix
            assert isinstance(access.store, Given)


def test_what_says_nothing_of_paths() -> None:
    general: dict[str, Any] = {"storage_options": {"region": "eu-west-1"}}
    assert resolve([Container("sst", "./")], STORE, **general).accesses == (None,)
    for override in (general, {"location": "/mnt", **general}, {"registry": {}}):
        with pytest.raises(StoreError, match="is on this machine"):
            one("./", override=override)


@pytest.mark.parametrize("place", ["https://host.org/a?sig=s3cr3t", "s3://bucket/#s3cr3t"])
def test_queries_are_no_places(place: str) -> None:
    with pytest.raises(StoreError, match="by storage_options") as error:
        settle({"sst": place})
    assert "s3cr3t" not in str(error.value)


def test_secrets_are_not_repeated() -> None:
    for wrong in ({"secret": "s3cr3t"}, {"storage_options": "s3cr3t"},
                  {"storage_options": {"key": "s3cr3t"}, "x": 1}):  # fmt: skip
        with pytest.raises(StoreError) as error:
            settle({"sst": wrong})
        assert "s3cr3t" not in str(error.value)
    found = remote("s3://bucket/", storage_options={"key": "s3cr3t", "secret": "s3cr3t"})
    assert "s3cr3t" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


# -- pins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pin", ["size", "none"])
def test_what_is_outside_has_to_be_pinned(pin: str) -> None:
    """Or a stranger's store could read any file that it finds the size of."""
    assert one("./", pin=pin) == "/data/stores/"
    with pytest.raises(UnsafeStore, match=f"not pinned.*'sst': {{'pin': '{pin}'}}"):
        one("../", pin=pin)
    assert one("../", pin=pin, override={"pin": pin}) == "/data/"


def test_which_are_not_trusted() -> None:
    containers = [Container("a", "./"), Container("b", "../"), Container("c", "../c/")]
    assert resolve(containers, STORE).untrusted == (False, True, True)
    assert resolve(containers, STORE, {"b": {"pin": "none"}}).untrusted == (False, False, True)


@pytest.mark.parametrize("home", ["/data/", "s3://bucket/"])
@pytest.mark.parametrize(
    ("pin", "known", "checked"),
    [  # of a source: size, time, sample, entity tag
        ("mtime", (5, 7, "s", ""), (5, 7, None, None)),
        ("mtime", (5, -1, "s", ""), (5, -1, "s", None)),
        ("mtime", (5, -1, None, None), (5, -1, None, None)),
        ("sample", (5, 7, "s", "t"), (5, -1, "s", None)),
        ("sample", (5, 7, "", ""), (5, 7, None, None)),
        ("sample", (5, -1, "", ""), (5, -1, None, None)),
        ("size", (5, 7, "s", "t"), (5, -1, None, None)),
        ("size", (-1, 7, "s", "t"), (-1, -1, None, None)),
        ("none", (5, 7, "s", "t"), (-1, -1, None, None)),
    ],
)
def test_what_is_checked(
    home: str, pin: str, known: tuple[Any, ...], checked: tuple[Any, ...]
) -> None:
    for distrusted in (False, True):
        seen = pinned(home, pin, known, distrusted)
        if distrusted and checked[1:] == (-1, None, None):
            assert seen[0] == seen[1] == (*checked[:2], UNKNOWN, None)
        else:
            assert seen[0] == seen[1] == checked
        assert seen[2][2] != UNKNOWN


@pytest.mark.parametrize(
    ("pin", "known", "checked"),
    [
        ("mtime", (5, 7, "s", "t"), (5, 7, None, "t")),
        ("mtime", (5, -1, "s", "t"), (5, -1, None, "t")),
        ("sample", (5, -1, "", "t"), (5, -1, None, "t")),
    ],
)
def test_entity_tags_are_of_the_network(
    pin: str, known: tuple[Any, ...], checked: tuple[Any, ...]
) -> None:
    """A file of this machine has none: for a copy here, they say nothing."""
    for distrusted in (False, True):
        assert pinned("s3://bucket/", pin, known, distrusted)[0] == checked
    tagged = pinned("/data/", pin, known, True)[0]
    without = pinned("/data/", pin, (*known[:3], ""), True)[0]
    assert tagged == without


def pinned(home: str, pin: str, known: tuple[Any, ...], distrusted: bool) -> list[tuple[Any, ...]]:
    size, time, sample, etag = known
    places = Places(("/x/", home), ("mtime", pin), (False, distrusted), (None, None))
    columns = [np.array([value] * 3, np.int64) for value in (size, time)]
    sizes, times, samples, etags = apply_pins(
        np.array([1, 1, 0]), places, *columns, [sample] * 3, [etag] * 3
    )
    return [
        *zip(
            sizes.tolist(), times.tolist(), samples or [None] * 3, etags or [None] * 3, strict=True
        )
    ]


def test_no_sources() -> None:
    none = np.zeros(0, np.int64)
    assert apply_pins(none, Places((), (), (), ()), none, none, [], [])[2:] == (None, None)


@pytest.mark.parametrize("said", ["/data", ["/data"], 5])
def test_what_names_no_containers(said: Any) -> None:
    with pytest.raises(TypeError, match="a mapping of names to places"):
        settle(said)


@pytest.mark.parametrize("place", [None, 5, "", b"/data"])
def test_what_is_no_place(place: Any) -> None:
    with pytest.raises(StoreError, match="is not the place of a container"):
        settle({"sst": place})
