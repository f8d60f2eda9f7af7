"""A store written and read: what is in it, what comes back, what happens when it is replaced."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from intarsia.array import VirtualArray
from intarsia.errors import (
    CorruptStore,
    NotAStore,
    SourceChanged,
    StoreError,
    StoreReplaced,
    UnsupportedVariable,
)
from intarsia.io.fetch import observe
from intarsia.references import NO_SOURCES, References, Sources
from intarsia.segments import Segments
from intarsia.store import write as writing
from intarsia.store.nodes import Group, Variable
from intarsia.store.objects import ROOT, Folder, open_objects
from intarsia.store.read import Stored, read, read_group
from intarsia.store.root import seal
from intarsia.store.write import write
from tests.algebra import lay_out


def virtual(folder: Path, files: int = 3, *, level: int | None = 1, seed: int = 0) -> VirtualArray:
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(seed)
    parts = []
    for number in range(files):
        values = generator.integers(0, 99, (4, 6)).astype("i4")
        parts.append(lay_out(folder / f"{number}.bin", values, (2, 3), zlevel=level)[0])
    return np.concatenate(parts)  # type: ignore[return-value]


def group(array: VirtualArray, **more: Variable) -> Group:
    time = np.arange(array.shape[0]).astype("datetime64[s]")
    return Group(
        {
            "sst": Variable(("time", "lat"), array, {"units": "K", "valid_min": np.float32(1.5)}),
            "time": Variable(("time",), time, {}, {"units": "days since 2000-01-01"}, True),
            **more,
        },
        {"title": "Sea", "history": np.array([1, 2], "i2")},
        {"unlimited_dims": ("time",)},
    )


def assert_equal(found: Group, expected: Group) -> None:
    assert list(found.variables) == list(expected.variables)
    assert repr(found.attrs) == repr(expected.attrs)
    assert repr(found.encoding) == repr(expected.encoding)
    for name, variable in expected.variables.items():
        other = found.variables[name]
        assert (other.dims, other.shape, other.dtype) == (
            variable.dims, variable.shape, variable.dtype,
        )  # fmt: skip
        assert other.coordinate == variable.coordinate
        assert repr(other.attrs) == repr(variable.attrs)
        assert repr(other.encoding) == repr(variable.encoding)
        np.testing.assert_array_equal(np.asarray(other.data), np.asarray(variable.data))


@pytest.fixture(params=["s.intarsia", "s.zip"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def test_what_is_written_comes_back(place: Path) -> None:
    saved = group(virtual(place.parent / "data"))
    summary = write(place, {"/": saved})
    assert (summary.variables, summary.copied, summary.sources) == (2, 1, 3)
    assert (summary.segments, summary.references, summary.cases) == (3, 12, 1)
    found = read(place).groups["/"]
    assert isinstance(found.variables["sst"].data, VirtualArray)
    assert found.variables["sst"].grid is not None
    assert_equal(found, saved)


def test_opening_reads_the_root_and_the_copies_alone(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path / "s.intarsia", {"/": group(virtual(tmp_path / "data", 20))})
    asked: list[str] = []
    get = Folder.get

    def recorded(self: Folder, name: str, *arguments: Any) -> bytes:
        asked.append(name)
        return get(self, name, *arguments)

    monkeypatch.setattr(Folder, "get", recorded)
    with observe() as reads:
        found = read(tmp_path / "s.intarsia").groups["/"]
        assert asked == [ROOT, "time/c/0"]
        assert found.variables["sst"].data[3:5].shape == (2, 6)
    assert reads.requests == 0


def test_groups_within_groups(place: Path) -> None:
    outer, inner = group(virtual(place.parent / "a")), group(virtual(place.parent / "b", seed=1))
    write(place, {"/": outer, "/deep/er": inner})
    stored = read(place)
    assert list(stored.groups) == ["/", "/deep/er"]
    assert_equal(stored.groups["/"], outer)
    assert_equal(stored.groups["/deep/er"], inner)
    names = open_objects(str(place)).names()
    assert {"zarr.json", "deep/zarr.json", "deep/er/zarr.json", "deep/er/sst/zarr.json"} <= {*names}
    with pytest.raises(KeyError):
        _ = stored.groups["/deep"]


@pytest.mark.parametrize("name", ["a/b", "__intarsia__", ".", "..", "zarr.json", "é", "c", " "])
def test_any_name_of_a_variable(place: Path, name: str) -> None:
    array = virtual(place.parent / "data")
    saved = group(array, **{name: Variable(("time", "lat"), array[::-1])})
    write(place, {"/": saved})
    assert_equal(read(place).groups["/"], saved)


def test_names_that_differ_in_case(place: Path) -> None:
    array = virtual(place.parent / "data")
    saved = group(array, T=Variable(("t",), np.arange(3)), t=Variable(("t",), np.arange(3.0)))
    write(place, {"/": saved, "/SST": group(array)})
    assert_equal(read(place).groups["/"], saved)
    assert_equal(read(place).groups["/SST"], group(array))
    names = open_objects(str(place)).names()
    assert len({name.lower() for name in names}) == len(names)


def test_a_variable_and_a_group_of_one_name_are_refused(place: Path) -> None:
    saved = group(virtual(place.parent / "data"))
    with pytest.raises(StoreError, match="same name: 'sst'"):
        write(place, {"/": saved, "/sst": saved})
    for path in ("", "a", "/a/", "//"):
        with pytest.raises(StoreError, match="not the absolute path of a group"):
            write(place, {path: saved})


def test_every_form_of_reference(place: Path) -> None:
    data = place.parent / "data"
    data.mkdir()
    values = np.arange(24, dtype=">i2").reshape(4, 6)
    forms = {
        form: lay_out(data / form, values, (1, 6), form=form, absent=absent, fill=9)[0]
        for form, absent in {
            "dense": [1], "sparse": [0, 2], "contiguous": [], "inline": [], "missing": [],
        }.items()
    }  # fmt: skip
    variables = {form: Variable(("y", "x"), array) for form, array in forms.items()}
    variables["constant"] = Variable(("y", "x"), VirtualArray.full((4, 6), np.nan, "f8"))
    variables["empty"] = Variable(("z",), forms["dense"][:0, 0])
    write(place, {"/": Group(variables)})
    assert_equal(read(place).groups["/"], Group(variables))


def test_without_sources(place: Path) -> None:
    saved = Group({"x": Variable(("x",), VirtualArray.inline(np.arange(5.0)))})
    summary = write(place, {"/": saved})
    assert summary.sources == 0
    assert_equal(read(place).groups["/"], saved)
    assert len(read(place).sources) == len(NO_SOURCES) == 0


def test_copies_larger_than_a_chunk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intarsia.store.zarrays.CHUNK_BYTES", 1000)
    saved = Group({
        "a": Variable(("x", "y"), np.arange(3500.0).reshape(70, 50)),
        "s": Variable(("z",), np.array([f"é{n}" * n for n in range(50)], object)),
        "b": Variable(("z",), np.array([b"ab", b"c"] * 25)),
        "t": Variable(("z",), np.arange(50).astype("timedelta64[h]")),
        "n": Variable((), np.array(7, "i1")),
        "e": Variable(("none",), np.zeros(0, "f4")),
    })  # fmt: skip
    write(place, {"/": saved})
    assert len([n for n in open_objects(str(place)).names() if n.startswith("a/c/")]) > 20
    assert_equal(read(place).groups["/"], saved)


def test_zarr_reads_the_copies_and_is_refused_the_rest(tmp_path: Path) -> None:
    saved = group(virtual(tmp_path / "data"))
    write(tmp_path / "s.intarsia", {"/": saved})
    opened: Any = zarr.open_group(tmp_path / "s.intarsia", mode="r")
    assert opened.attrs["title"] == "Sea"
    assert opened["time"].attrs["units"] == "seconds since 1970-01-01"
    np.testing.assert_array_equal(opened["time"][:], np.arange(12))
    with pytest.raises(Exception, match="intarsia"):
        _ = opened["sst"]


def test_what_was_read_can_be_saved_again(place: Path) -> None:
    saved = group(virtual(place.parent / "data"))
    write(place, {"/": saved})
    again = read(place).groups["/"]
    with pytest.raises(StoreError, match="the store exists"):
        write(place, {"/": again})
    write(place, {"/": again}, mode="w")
    assert_equal(read(place).groups["/"], saved)


def test_a_store_that_was_replaced_says_so(place: Path) -> None:
    data = place.parent / "data"
    write(place, {"/": group(virtual(data, 300))})
    stored, old = read_group(place)
    pickled = pickle.dumps(old.variables["sst"].data)
    part = old.variables["sst"].data[:3]
    part.load()
    write(place, {"/": group(virtual(data, 200, level=None))}, mode="w")
    for use in (
        old.variables["sst"].data.load,
        lambda: stored.groups["/"],
        lambda: pickle.loads(pickled).load(),
    ):
        try:
            use()
        except (StoreReplaced, SourceChanged):
            continue
        assert use == 0, "should have been noticed"


def test_a_store_gone_is_named(place: Path) -> None:
    write(place, {"/": group(virtual(place.parent / "data", 300))})
    found = read(place).groups["/"]
    place.rename(place.with_suffix(".gone"))
    with pytest.raises(StoreReplaced, match=f"the store was removed.*{place.name}"):
        found.variables["sst"].data.load()


def test_pickles_are_small_and_open_elsewhere(place: Path) -> None:
    array = virtual(place.parent / "data", 50)
    write(place, {"/": group(array)})
    found = read(place).groups["/"].variables["sst"].data
    for one, other in ((found, array), (found[7:90:2, ::-1], array[7:90:2, ::-1])):
        data = pickle.dumps(one)
        assert len(data) < 12_000
        np.testing.assert_array_equal(pickle.loads(data).load(), other.load())
    assert len(pickle.dumps(found)) < 600


def test_sources_that_changed_are_refused_when_read(place: Path) -> None:
    data = place.parent / "data"
    write(place, {"/": group(virtual(data))})
    (data / "1.bin").write_bytes(b"another")
    found = read(place).groups["/"].variables["sst"].data
    found[:4].load()
    with pytest.raises(SourceChanged, match=r"1\.bin"):
        found.load()


@pytest.mark.parametrize("sample", [False, True])
def test_store_and_sources_move_together(tmp_path: Path, sample: bool) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    saved = group(virtual(old / "data"))
    write(old / "s.intarsia", {"/": saved}, sample=sample)
    expected = np.asarray(saved.variables["sst"].data)
    if sample:
        shutil.copytree(old, new, copy_function=shutil.copyfile)  # times are new ones
        shutil.rmtree(old)
    else:
        old.rename(new)
    found = read(new / "s.intarsia").groups["/"]
    np.testing.assert_array_equal(found.variables["sst"].data.load(), expected)


def test_sources_elsewhere(tmp_path: Path) -> None:
    saved = group(virtual(tmp_path / "data"))
    write(tmp_path / "s.intarsia", {"/": saved}, containers={"sst": str(tmp_path / "data")})
    expected = np.asarray(saved.variables["sst"].data)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    stored = read(tmp_path / "s.intarsia", containers={"sst": tmp_path / "elsewhere"})
    np.testing.assert_array_equal(stored.groups["/"].variables["sst"].data.load(), expected)
    with pytest.raises(StoreError, match="no container 'sss'.*there are: sst"):
        read(tmp_path / "s.intarsia", containers={"sss": tmp_path / "elsewhere"})


def test_a_store_is_never_put_onto_its_sources(tmp_path: Path) -> None:
    saved = group(virtual(tmp_path / "data"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    for path in (tmp_path / "data", tmp_path / "data" / "0.bin"):
        with pytest.raises(StoreError, match="onto one of its own sources"):
            write(path, {"/": saved}, mode="w")
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before


@pytest.mark.parametrize("fail_at", range(0, 14, 3))
def test_a_failure_at_any_object_changes_nothing(
    place: Path, fail_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = virtual(place.parent / "data", 40)
    old, new = group(array), group(array[::-1])
    write(place, {"/": old})
    put = writing._Counting.put
    done: list[str] = []

    def failing(self: Any, name: str, data: bytes) -> None:
        done.append(name)
        if len(done) == fail_at + 1:
            raise OSError(28, "no space left on device")
        put(self, name, data)

    monkeypatch.setattr(writing._Counting, "put", failing)
    try:
        write(place, {"/": new}, mode="w")
    except StoreError as error:
        assert "no space left" in str(error)
        expected = old
    else:
        assert len(done) <= fail_at
        expected = new
    assert_equal(read(place).groups["/"], expected)
    assert sorted(path.name for path in place.parent.iterdir()) == sorted(["data", place.name])


def test_equal_content_is_an_equal_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count=0: "ab" * count)
    saved = group(virtual(tmp_path / "data", 30))
    for name in ("a.zip", "b.zip"):
        write(tmp_path / name, {"/": saved})
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def changed_root(place: Path, change: Any) -> None:
    document = json.loads((place / ROOT).read_bytes())
    change(document)
    for key in ("format", "version", "digest"):
        value = document.pop(key)
        if key == "version" and value != "unstable-2":
            (place / ROOT).write_bytes(json.dumps({**document, "format": "intarsia", key: value,
                                                   "digest": ""}).encode())  # fmt: skip
            return
    (place / ROOT).write_bytes(seal(document))


def test_another_version_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "s.intarsia"
    write(place, {"/": group(virtual(tmp_path / "data"))})
    changed_root(place, lambda document: document.update(version="2.0"))
    with pytest.raises(NotAStore, match=r"version '2\.0'.*unstable-2"):
        read(place)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda v: v.update(shape=[12, 7]), "exactly once"),
        (lambda v: v.update(dims=["time", "time"]), "2 lengths|dimensions"),
        (lambda v: v.update(node="../up"), "not the name of an object"),
        (lambda v: v.update(node="a/__b"), "not the name of a node"),
        (lambda v: v.update(more=1), "more: is not known"),
        (lambda v: v["virtual"].update(dtype="<f8"), "decode to int32"),
        (lambda v: v["virtual"].update(dtype="|O"), "can't be the type"),
        (lambda v: v["virtual"]["grid"].update(chunks=[0, 1]), "not between"),
        (lambda v: v.update(attributes={"a": {"type": "evil"}}), "attributes"),
    ],
)
def test_impossible_roots_are_refused(tmp_path: Path, change: Any, reason: str) -> None:
    place = tmp_path / "s.intarsia"
    write(place, {"/": group(virtual(tmp_path / "data"))})
    changed_root(place, lambda document: change(document["groups"]["/"]["variables"][0]))
    with pytest.raises(CorruptStore, match=reason) as caught:
        read(place).groups["/"].variables["sst"].data.load()
    assert caught.value.url == str(place)


def test_nothing_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no store")
    (tmp_path / "folder").mkdir()
    for name in ("absent", "file", "folder"):
        with pytest.raises(NotAStore, match=name):
            Stored(str(tmp_path / name))


def test_a_refused_variable_is_named(tmp_path: Path) -> None:
    from intarsia.encoding import Codec, Encoding

    refusal = Codec.make("refused", kind="unsupported", reason="zstd", remedy="")
    encoding = Encoding((refusal,), np.dtype("i4"))
    (tmp_path / "f").write_bytes(b"")
    array = VirtualArray.from_source(
        Sources.of_file(tmp_path / "f"), 0, (2,), (2,), encoding,
        np.zeros((), encoding.parameters), References.inlined(b""),
    )  # fmt: skip
    with pytest.raises(UnsupportedVariable, match=r"zstd: 'v'"):
        write(tmp_path / "s.intarsia", {"/": Group({"v": Variable(("x",), array)})})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f"]


def test_a_hundred_thousand_parameters_leave_the_root_small(tmp_path: Path) -> None:
    """Each chunk has a scale and an offset of its own: one case, one part with the parameters."""
    from intarsia.encoding import Case, Codec, Encoding

    steps = (Codec.make("scale", dtype="<f8", scale=True, offset=True),)
    fields = np.dtype([("raw_fill", "<i2"), ("scale", "<f8"), ("offset", "<f8")])
    encoding = Encoding.shared((), np.dtype("<i2"), steps, fields)
    generator = np.random.default_rng(0)
    sizes: dict[int, int] = {}
    for count in (1_000, 100_000):
        path = tmp_path / f"{count}.bin"
        generator.integers(-999, 999, count).astype("<i2").tofile(path)
        sources = Sources.of_file(path)
        rows = np.zeros(count, fields)
        rows["scale"], rows["offset"] = generator.random((2, count))
        one = Segments.of_source(
            sources,
            0,
            (count,),
            (1,),
            Case(encoding, rows[:1]),
            References.contiguous(0, 2 * count),
        )
        # one segment per chunk, each with its own row of parameters
        matrix = np.repeat(one.blocks[0].matrix(), count, axis=0)
        block = one.blocks[0].fields
        matrix[:, block.start] = np.arange(count)[:, None]
        matrix[:, block.first] = np.arange(count)[:, None]
        matrix[:, block.shape] = 1
        matrix[:, 1] = np.arange(count)
        segments = Segments(
            (count,), (type(one.blocks[0]).of(block, matrix),), (Case(encoding, rows),),
            one.pages, sources,
        )  # fmt: skip
        array = VirtualArray(segments, "f8")
        place = tmp_path / f"{count}.intarsia"
        write(place, {"/": Group({"v": Variable(("x",), array)})})
        sizes[count] = (place / ROOT).stat().st_size
        found = read(place).groups["/"].variables["v"].data
        raw = np.fromfile(path, "<i2")
        np.testing.assert_array_equal(found.load(), raw * rows["scale"] + rows["offset"])
    assert max(sizes.values()) < 2000
    assert abs(sizes[100_000] - sizes[1_000]) < 100
