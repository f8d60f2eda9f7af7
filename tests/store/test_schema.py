"""spec/root.schema.json: the roots of all kinds of stores are valid, and damaged ones are not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from intarsia.errors import StoreError
from intarsia.store.objects import ROOT, open_objects
from intarsia.store.read import Stored
from intarsia.store.root import digest_of
from tests.store.hostile import corpus
from tests.store.test_spec import saved

SCHEMA = json.loads((Path(__file__).parents[2] / "spec/root.schema.json").read_text("utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)

type Json = dict[str, Any]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """Roots of stores that hold one of everything."""
    folder = tmp_path_factory.mktemp("roots")
    home = corpus.build(folder)
    saved(folder)
    paths = [*(home / name for name in corpus.STORES), folder / "x.intarsia"]
    return {path.name: json.loads(open_objects(str(path)).get(ROOT)) for path in paths}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_roots_are_valid(roots: dict[str, Json]) -> None:
    for name, root in roots.items():
        errors = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(root)]
        assert not errors, name


def test_every_part_of_the_schema_is_used(roots: dict[str, Json]) -> None:
    """What no root has, the test above says nothing of."""
    text = json.dumps(list(roots.values()))
    for part in (
        *('"hex"', '"nbytes"', '"values": [', '"first"', '"delta"', '"gap"', '"plain"', '"inline"'),
        *('"restore": {}', '"datetime64"', '"timedelta64"', '"text"', '"bytes"', '"cftime"'),
        *('"missing"', '"mask"', '"state"', '"chunk"', '"samples"', '"pin": "sample"', '"../'),
        *('"scalar"', '"array"', '"set"', '"numcodecs.shuffle"', '"intarsia.hdf5"'),
    ):
        assert part in text, part


def test_places_of_the_network_are_valid(roots: dict[str, Json]) -> None:
    access = {
        "region": "eu-west-1",
        "endpoint": "https://host.example.org:9000/a",
        "account_name": "account1",
        "request_payer": True,
        "skip_signature": True,
        "virtual_hosted_style_request": False,
    }
    for location in (
        "s3://bucket/",
        "az://$web/a b/",
        "https://h.example.org:80/",
        "http://[::1]/",
    ):
        root = copy.deepcopy(roots["x.intarsia"])
        root["containers"][0].update(location=location, access=access)
        assert VALIDATOR.is_valid(root)


def change(path: str, value: Any) -> Callable[[Json], None]:
    """Set what is at a path of keys and numbers; remove it where the value is `...`."""
    *keys, last = (int(key) if key.isdecimal() else key for key in path.split(" "))

    def changed(root: Any) -> None:
        for key in keys:
            root = root[key]
        if value is ...:
            del root[last]
        else:
            root[last] = value

    return changed


SST = "groups / variables 0"
VIRTUAL = f"{SST} virtual"
TABLE = f"{VIRTUAL} segments 0 table"

S3 = {"name": "sources", "location": "s3://bucket/", "pin": "mtime"}

DAMAGES = {
    "another format": change("format", "zarr"),
    "another version": change("version", "unstable-1"),
    "no digest": change("digest", ...),
    "half a digest": change("digest", "ab" * 16),
    "an unknown key": change("more", 1),
    "no containers": change("containers", ...),
    "containers by name": change("containers", {"sources": {"location": "./", "pin": "size"}}),
    "an absolute location": change("containers 0 location", "/etc/"),
    "a location inside out": change("containers 0 location", "./a/../../b"),
    "a location without an end": change("containers 0 location", "./a"),
    "a secret": change("containers 0 location", "https://user@host/"),
    "a bucket with a user": change("containers 0 location", "s3://key:secret@bucket/"),
    "a location with a query": change("containers 0 location", "https://data.example.org/?a/"),
    "access to a path": change("containers 0 access", {"secret_access_key": "x"}),
    "access by nothing": change("containers 0 access", {}),
    "a secret of access": change(
        "containers 0", {**S3, "access": {"secret_access_key": "x", "region": "eu-west-1"}}
    ),
    "a region that is a host": change("containers 0", {**S3, "access": {"region": "evil.org/#"}}),
    "an account that is a host": change("containers 0", {**S3, "access": {"account_name": "a.b"}}),
    "an endpoint with a user": change(
        "containers 0", {**S3, "access": {"endpoint": "https://u:p@host"}}
    ),
    "a switch that is a text": change("containers 0", {**S3, "access": {"skip_signature": "yes"}}),
    "an unknown pin": change("containers 0 pin", "etag"),
    "a group without a path": change("groups a", {}),
    "a variable without values": change(VIRTUAL, ...),
    "a variable of both kinds": change(f"{SST} restore", {}),
    "a node that climbs": change(f"{SST} node", "a/../../b"),
    "an absolute node": change(f"{SST} node", "/sst"),
    "a negative length": change(f"{SST} shape 0", -1),
    "a length that is none": change(f"{SST} shape 0", 1.5),
    "a length beyond 2**53": change(f"{SST} shape 0", 2**60),
    "the same dimension twice": change(f"{SST} dims", ["time", "time"]),
    "an attribute of no type": change(f"{SST} attributes units", {"type": "unit"}),
    "an attribute that is a float": change(f"{SST} attributes units", 0.5),
    "a float of four bytes": change(f"{SST} attributes units", {"type": "float", "hex": "00" * 4}),
    "a type of other libraries": change(f"{VIRTUAL} dtype", "datetime"),
    "a big-endian array": change(f"{VIRTUAL} dtype", ">f8"),
    "no segments": change(f"{VIRTUAL} segments", ...),
    "a block without segments": change(f"{TABLE} rows", 0),
    "a column too few": change(f"{TABLE} columns source", ...),
    "a column too many": change(f"{TABLE} columns page", 0),
    "a step without a beginning": change(f"{TABLE} columns row", {"step": 1}),
    "an unknown coding": change(f"{TABLE} columns row", {"array": 0, "coding": "zip"}),
    "gaps without lengths": change(f"{TABLE} columns row", {"array": 0, "coding": "gap"}),
    "an array without shards": change(f"{TABLE} array", "t"),
    "a table outside": change("sources table array", "../t"),
    "bits that are none": change(f"{VIRTUAL} cases 0 parameters hex", "xy"),
    "a case without rows": change(f"{VIRTUAL} cases 0 rows", 0),
    "no offsets": change(f"{VIRTUAL} references columns offset", ...),
    "an unknown codec": change("cases 615b3c04257894c9 codecs 1 name", "pickle"),
    "a key that is no digest": change("cases x", {}),
    "an unknown parameter": change("cases 615b3c04257894c9 parameters 1 0", "factor"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_roots_are_not(damage: str, tmp_path: Path, roots: dict[str, Json]) -> None:
    root = copy.deepcopy(roots["x.intarsia"])
    assert VALIDATOR.is_valid(root)
    DAMAGES[damage](root)
    assert not VALIDATOR.is_valid(root)

    # nor does the library take any of them
    root["digest"] = digest_of(root) if len(root.get("digest", "")) == 64 else root.get("digest")
    path = tmp_path / "x.intarsia"
    (path / "__intarsia__").mkdir(parents=True)
    (path / ROOT).write_text(json.dumps(root))
    with pytest.raises(StoreError):
        opened(path)


def opened(path: Path) -> None:
    """Read everything that a root says."""
    stored = Stored(str(path))
    for group in stored.group_paths:
        for name in stored.group(group).variables:
            stored.segments(group, name)
            stored.references(group, name)
