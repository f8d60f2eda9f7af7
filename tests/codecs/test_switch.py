"""The codec `intarsia.switch` in zarr-python: the engine's values, whatever is asked for."""

from __future__ import annotations

import asyncio
import json
import pickle
import warnings
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.errors import MetadataValidationError
from zarr.storage import LocalStore, MemoryStore, StorePath

import intarsia
from intarsia.array import VirtualArray
from intarsia.codecs import switch
from intarsia.codecs.cases import CaseTable, case_json, key_of, merge_tables
from intarsia.codecs.chunks import Parts, case_keys, pack
from intarsia.codecs.switch import SwitchCodec
from intarsia.encoding import Case, Codec, Encoding
from intarsia.errors import ChunkError, CorruptChunk, UnsupportedError, WrongLength
from intarsia.references import References, Source, Sources
from intarsia.segments import Segments
from tests.algebra import lay_out, steps
from tests.codecs.test_chunks import touched
from tests.present import DEFAULT, FUSED, PIPELINES, ZARRS, chunk_bytes, opened, present, table_of

LOOKS: list[tuple[Any, ...]] = [
    ("<i2", (2, 3, 4), {"shuffle": True, "compression": "gzip"}, 0.1, 7),
    (">i2", (5, 5, 5), {"compression": "gzip", "fletcher32": True}, 0.01, -7),
    ("<i2", None, {}, 0.5, 1),
    ("u1", (1, 6, 8), {"compression": "lzf"}, 0.25, 3),
    ("<i2", (2, 3, 4), {"shuffle": True, "compression": "gzip"}, 0.3, 2),
    (">f4", (4, 2, 7), {"shuffle": True, "compression": "gzip", "fletcher32": True}, 1.0, 9),
]
"""Type, chunks, filters, scale and fill of the files of a pile."""


def write_pile(folder: Path) -> list[Path]:
    """Files that differ in everything, with chunks not written and filters skipped."""
    rng = np.random.default_rng(1)
    paths = []
    for number, (dtype, chunks, filters, scale, fill) in enumerate(LOOKS):
        path = folder / f"{number}.h5"
        paths.append(path)
        with h5py.File(path, "w") as file:
            longer = (None, None, None) if chunks else None
            given = {"chunks": chunks, "maxshape": longer, "fillvalue": fill, **filters}
            made = file.create_dataset("v", (4, 6, 8), dtype, **given)
            made.attrs["scale_factor"] = np.float64(scale)
            made.attrs["add_offset"] = np.float32(number)
            made.attrs["_FillValue"] = np.dtype(dtype).type(fill)
            made[...] = rng.integers(0, 12, made.shape)
            if number == 0:  # one chunk shuffled but not compressed
                raw = np.arange(24, dtype=dtype)
                shuffled = raw.view("u1").reshape(24, 2).T.tobytes()
                made.id.write_direct_chunk((2, 3, 4), shuffled, filter_mask=0b10)
            if number == 4:  # one chunk compressed but not shuffled, most not written
                del file["v"]
                made = file.create_dataset("v", (4, 6, 8), dtype, **given)
                made.attrs["scale_factor"] = np.float32(scale)
                made.attrs["_FillValue"] = np.dtype(dtype).type(fill)
                raw = zlib.compress(np.arange(24, dtype=dtype).tobytes())
                made.id.write_direct_chunk((0, 3, 0), raw, filter_mask=0b01)
    return paths


@pytest.fixture(scope="module")
def pile(tmp_path_factory: pytest.TempPathFactory) -> tuple[VirtualArray, np.ndarray]:
    """All of it as one virtual array, some of it flipped, cut or stepped; and its values."""
    paths = write_pile(tmp_path_factory.mktemp("pile"))
    datasets = [intarsia.open_dataset(path, phony_dims="sort") for path in paths]
    pieces = [dataset["v"].variable._data.astype("f8") for dataset in datasets]
    pieces[1] = pieces[1][:, ::-1, ::-1]
    pieces[3] = pieces[3][1:]
    long = np.concatenate([*pieces, pieces[0][::-2]], 0)
    turned = np.transpose(pieces[5][:, :, 1:7], (0, 2, 1))[::-1]
    wide = np.concatenate([pieces[2][..., 2:], turned], 0)
    wide = np.concatenate([wide, wide[..., ::3]], 2)
    filled = VirtualArray.full((2, 6, 8), np.nan, "f8")
    virtual = np.concatenate([long, filled, wide], 0)
    return virtual, virtual.load()


@pytest.fixture(params=[0, 1 << 16], ids=["parts", "whole"])
def fetched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Small chunks, too, are fetched part by part; or, as is the rule, whole."""
    monkeypatch.setattr(switch, "WHOLE_BYTES", request.param)
    return request.param


def same(actual: Any, expected: np.ndarray) -> None:
    """Equal in shape and type, and in every bit but those of NaN."""
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected, strict=True)


SELECTIONS: list[Any] = [
    (),
    ...,
    (3, 2, 1),
    (slice(2, 19, 3), slice(None), 5),
    (slice(7, 8), slice(1, 5), slice(2, 4)),
    (slice(None), 0, slice(None, None, 2)),
    (slice(5, 5), slice(None), slice(None)),
    -1,
]


@pytest.mark.usefixtures("fetched")
@pytest.mark.parametrize("chunks", [(4, 6, 8), (5, 4, 3), (64, 64, 64)], ids=str)
@pytest.mark.parametrize("pipeline", PIPELINES[:2])
def test_zarr_python_gives_the_engine_s_values(
    pile: tuple[VirtualArray, np.ndarray], chunks: tuple[int, ...], pipeline: str
) -> None:
    virtual, values = pile
    array = opened(present(virtual, chunks, np.nan), pipeline)
    assert len(array.metadata.codecs) == 1
    assert len(table_of(virtual).encodings) >= 5
    for selection in SELECTIONS:
        same(array[selection], values[selection])
    rng = np.random.default_rng(0)
    rows, columns = [9, 3, 17, 3], np.array([1, 0])
    same(array.oindex[rows, :, columns], values[np.ix_(rows, range(6), columns)])
    same(array.oindex[5, columns, 2:7], values[5, columns, 2:7])
    mask = np.zeros(len(values), bool)
    mask[[2, 11]] = True
    same(array.oindex[mask, 1:3], values[mask, 1:3])
    points = tuple(rng.integers(0, size, 20) for size in values.shape)
    same(array.vindex[points], values[points])
    where = rng.random(values.shape) < 0.05
    same(array.get_mask_selection(where), values[where])
    blocks = tuple(
        slice(edge, min(2 * edge, size)) for edge, size in zip(chunks, values.shape, strict=True)
    )
    if all(edge < size for edge, size in zip(chunks, values.shape, strict=True)):
        same(array.blocks[1, 1, 1], values[blocks])


def test_zarrs_falls_back_to_python(pile: tuple[VirtualArray, np.ndarray], tmp_path: Path) -> None:
    pytest.importorskip("zarrs")
    virtual, values = pile
    store = present(virtual, (5, 4, 3), np.nan)
    for key, data in store._store_dict.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data.to_bytes())
    with zarr.config.set({"codec_pipeline.path": ZARRS}):
        with pytest.warns(UserWarning, match="intarsia.switch is not supported"):
            array = zarr.open_array(LocalStore(tmp_path), mode="r")
        assert "zarrs" in type(array.async_array.codec_pipeline).__module__
        same(array[...], values)
        same(array[2:9, 1, ::3], values[2:9, 1, ::3])
    same(opened(store, ZARRS)[1:3], values[1:3])


@pytest.mark.usefixtures("fetched")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_layout_and_any_operations(data: st.DataObject, tmp_path: Path) -> None:
    """Random source chunks, random operations on them, a random presented grid and selection."""
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, n + 1)) for n in shape)
    form = data.draw(st.sampled_from(["dense", "dense", "sparse", "inline", "missing"]))
    written = form in ("dense", "sparse")
    values = np.arange(1, np.prod(shape) + 1).reshape(shape)
    array, expected = lay_out(
        tmp_path / "a.bin",
        values.astype(data.draw(st.sampled_from(["<i4", ">i2", "<f8"]))),
        chunks,
        form=form,
        absent=data.draw(st.lists(st.integers(0, 30), max_size=4)) if written else [],
        zlevel=data.draw(st.sampled_from([None, 1])) if written else None,
        fill=5,
    )
    for _ in range(data.draw(st.integers(0, 4))):
        step = data.draw(steps(expected.shape))
        array, expected = step.run(array), step.run(expected)
    if not isinstance(array, VirtualArray) or 0 in expected.shape:
        return
    presented = tuple(data.draw(st.integers(1, n + 2)) for n in expected.shape)
    pipeline = data.draw(st.sampled_from([DEFAULT, FUSED]))
    opened_array = opened(present(array, presented, 77), pipeline)
    native = expected.astype(expected.dtype.newbyteorder("="))
    same(opened_array[...], native)
    key = tuple(
        data.draw(
            st.integers(0, n - 1) | st.slices(n).filter(lambda s: s.step is None or s.step > 0)
        )
        for n in native.shape
    )
    same(opened_array[key], native[key])


# -- what is fetched -------------------------------------------------------------------------------


class Watched(MemoryStore):
    """Notes what is read."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store._store_dict, read_only=True)
        self.ranges: list[tuple[str, Any]] = []

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        self.ranges.append((key, byte_range))
        return await super().get(key, prototype, byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        self.ranges.append((key, byte_range))
        return super().get_sync(key, prototype=prototype, byte_range=byte_range)

    def bytes_of(self, key: str) -> int:
        size = len(self._store_dict[key])
        spans = [r for k, r in self.ranges if k == key]
        return sum(
            size if r is None else r.end - r.start if isinstance(r, RangeByteRequest) else size
            for r in spans
        )


@pytest.mark.parametrize("pipeline", PIPELINES[:2])
def test_a_small_selection_fetches_the_parts_it_needs(tmp_path: Path, pipeline: str) -> None:
    values = np.arange(40 * 1000.0).reshape(40, 1000)
    virtual, _ = lay_out(tmp_path / "a.bin", values, (1, 1000))
    store = Watched(present(virtual, (40, 1000)))
    size = len(store._store_dict["c/0/0"])
    array = opened(store, pipeline)
    for selection, most in (
        ((7, slice(0, 3)), 8000),
        ((slice(7, 9), 5), 16000),
        ((slice(3, 30, 9), slice(None)), 24000),
    ):
        store.ranges.clear()
        same(array[selection], values[selection])
        header = size - values.nbytes
        assert store.bytes_of("c/0/0") == header + most
        assert len(store.ranges) <= 5
    store.ranges.clear()
    same(array[:], values)
    assert store.ranges == [("c/0/0", None)]


@pytest.mark.usefixtures("fetched")
@pytest.mark.parametrize("pipeline", PIPELINES[:2])
def test_absent_chunks_and_uncovered_elements_are_fill(tmp_path: Path, pipeline: str) -> None:
    values = np.arange(1.0, 13.0).reshape(3, 4)
    virtual, _ = lay_out(tmp_path / "a.bin", values, (2, 2), absent=[1], fill=7)
    store = present(virtual, (3, 4), np.nan)
    array = opened(store, pipeline)
    expected = values.copy()
    expected[:2, 2:] = 7
    same(array[:], expected)
    # a chunk of which one part is taken away
    full = store._store_dict["c/0/0"].to_bytes()
    assert full[4] == 4
    corner = chunk_bytes(virtual[1:, :3], (3, 4))
    assert corner is not None
    put(store, corner)
    expected = np.full((3, 4), np.nan)
    expected[:2, :3] = values[1:, :3]
    expected[0, 2] = 7
    same(array[:], expected)
    same(array[1:, 1:], expected[1:, 1:])
    same(array[2, 3], expected[2, 3])
    sync(store.delete("c/0/0"))
    same(array[:], np.full((3, 4), np.nan))
    same(array[1, 1:3], np.full(2, np.nan))


def put(store: MemoryStore, data: bytes, key: str = "c/0/0") -> None:
    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


@pytest.mark.usefixtures("fetched")
@pytest.mark.parametrize("dtype", ["?", "S3", "<U2", ">U2", "<M8[s]", "<m8[ns]", "<c8", ">f2"])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_types_of_all_kinds(dtype: str) -> None:
    values = np.arange(12).reshape(3, 4).astype("U" if "U" in dtype else "i8").astype(dtype)
    native = values.astype(values.dtype.newbyteorder("="))
    virtual = VirtualArray.inline(native)
    if values.dtype != native.dtype:
        encoding = Encoding((), values.dtype)
        virtual = VirtualArray.from_source(
            Sources.of([]),
            -1,
            (3, 4),
            (3, 4),
            encoding,
            np.zeros((), encoding.parameters),
            References.inlined(values.tobytes()),
        )
    array = opened(present(virtual[:, ::-1], (2, 3), native[0, 0]))
    same(array[:], native[:, ::-1])
    same(array[1:, 2], native[1:, ::-1][:, 2])


@pytest.mark.usefixtures("fetched")
def test_an_array_without_dimensions(tmp_path: Path) -> None:
    virtual, _ = lay_out(tmp_path / "a.bin", np.array(3.5), ())
    for pipeline in (DEFAULT, FUSED):
        assert opened(present(virtual, ()), pipeline)[()] == 3.5


def test_large_chunks_leave_the_event_loop_alone(tmp_path: Path) -> None:
    values = np.arange(300_000.0).reshape(300, 1000)
    virtual, _ = lay_out(tmp_path / "a.bin", values, (100, 1000))
    array = opened(present(virtual, (300, 1000)))
    same(array[:], values)
    same(array[50:150, 3:], values[50:150, 3:])


# -- what is refused -------------------------------------------------------------------------------


def test_damaged_chunks_raise(tmp_path: Path, fetched: int) -> None:
    values = np.arange(24.0).reshape(4, 6)
    virtual, _ = lay_out(tmp_path / "a.bin", values, (2, 6), zlevel=1)
    store = present(virtual, (4, 6))
    sound = store._store_dict["c/0/0"].to_bytes()
    for pipeline in (DEFAULT, FUSED):
        array = opened(store, pipeline)
        for damaged, error in (
            (sound[:-1], WrongLength),
            (sound[:20], WrongLength),
            (sound + b"x", WrongLength),
            (b"", WrongLength),
            (b"x" + sound[1:], CorruptChunk),
            (sound[:-6] + b"123456", ChunkError),
        ):
            put(store, damaged)
            with pytest.raises(error):
                array[:]
            if damaged != sound + b"x" or fetched:  # the parts' lengths don't tell that
                with pytest.raises(ChunkError):
                    array[3, 2:]
        put(store, sound)
        same(array[:], values)


PLAIN = Encoding((), np.dtype("<f4"))
ZLIB = Encoding((Codec.make("zlib"),), np.dtype("<f4"))


def metadata(configuration: Any, **changes: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "intarsia.switch", "configuration": configuration}],
    } | changes


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ({}, "lacks cases"),
        ({"cases": {}}, "at least one case"),
        ({"cases": [1]}, "at least one case"),
        ({"cases": {"0" * 16: case_json(PLAIN)}, "more": 1}, "unknown"),
        ({"cases": {"0" * 16: case_json(PLAIN)}}, "its content has the key"),
        ({"cases": {key_of(PLAIN): case_json(ZLIB)}}, "its content has the key"),
        ({"cases": CaseTable.of([Encoding((), np.dtype("<f8"))]).json()}, "gives float64"),
    ],
)
def test_invalid_configurations_are_refused(configuration: Any, reason: str) -> None:
    store = MemoryStore()
    put(store, json.dumps(metadata(configuration)).encode(), "zarr.json")
    with pytest.raises((ValueError, MetadataValidationError), match=reason):
        zarr.open_array(store, mode="r")
    with pytest.raises(ValueError, match="not 'intarsia.switch'"):
        SwitchCodec.from_dict({"name": "switch", "configuration": {"cases": {}}})


def test_metadata_comes_back() -> None:
    codec = SwitchCodec(cases=CaseTable.of([PLAIN, ZLIB]))
    again = SwitchCodec.from_dict(json.loads(json.dumps(codec.to_dict())))
    assert again == codec
    assert hash(again) == hash(codec)
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert again.cases.encodings[0] is codec.cases.encodings[0]
    with pytest.raises(NotImplementedError):
        codec.compute_encoded_size(3, None)  # type: ignore[arg-type]


def test_merged_arrays_keep_their_chunks_byte_for_byte(tmp_path: Path) -> None:
    """Merging two stores' arrays is the union of their tables; chunks are copied as they are."""
    rng = np.random.default_rng(0)
    one, _ = lay_out(tmp_path / "a.bin", rng.random((4, 6)), (2, 3), zlevel=1)
    two, _ = lay_out(tmp_path / "b.bin", rng.integers(0, 9, (4, 6)).astype(">i2"), (3, 2))
    two = two.astype("f8")
    both = np.concatenate([one, two], 0)
    stores = [present(array, (4, 6)) for array in (one, two)]
    merged = present(both, (4, 6))
    tables = [opened(store).metadata.codecs[0].to_dict()["configuration"] for store in stores]
    union = merge_tables(*(table["cases"] for table in tables))
    assert opened(merged).metadata.codecs[0].to_dict()["configuration"]["cases"] == union
    for number, store in enumerate(stores):
        copied = store._store_dict["c/0/0"].to_bytes()
        assert merged._store_dict[f"c/{number}/0"].to_bytes() == copied


# -- writing, where there is one way ---------------------------------------------------------------


@pytest.mark.parametrize("pipeline", PIPELINES[:2])
@pytest.mark.parametrize("dtype", ["<i2", ">f8", "u1", "<c8"])
@pytest.mark.parametrize("names", [(), ("shuffle", "zlib"), ("zlib", "fletcher32"), ("shuffle",)])
def test_what_is_written_comes_back(pipeline: str, dtype: str, names: tuple[str, ...]) -> None:
    size = np.dtype(dtype).itemsize
    made = {
        "shuffle": Codec.make("shuffle", elementsize=size),
        "zlib": Codec.make("zlib"),
        "fletcher32": Codec.make("fletcher32"),
    }
    encoding = Encoding(tuple(made[name] for name in names), np.dtype(dtype))
    values = np.arange(35).reshape(5, 7).astype(encoding.dtype)
    store = MemoryStore()
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        array = zarr.create_array(
            store,
            shape=values.shape,
            chunks=(2, 3),
            dtype=values.dtype,
            fill_value=9,
            filters=(),
            serializer=SwitchCodec(cases=CaseTable.of([encoding])),
            compressors=(),
        )
        array[:] = values
        array[1, 2:5] = 100
    expected = values.copy()
    expected[1, 2:5] = 100
    same(opened(store, pipeline)[:], expected)
    same(opened(store, pipeline)[1:3, 2], expected[1:3, 2])


@pytest.mark.parametrize(
    ("encodings", "reason"),
    [
        ([PLAIN, ZLIB], "which of 2 cases"),
        ([Encoding((), np.dtype("<i2")).cast(np.dtype("f4"))], "can't be encoded"),
    ],
)
def test_what_can_t_be_written_says_so(encodings: list[Encoding], reason: str) -> None:
    array = zarr.create_array(
        MemoryStore(),
        shape=(4,),
        chunks=(2,),
        dtype="f4",
        filters=(),
        serializer=SwitchCodec(cases=CaseTable.of(encodings)),
        compressors=(),
    )
    with pytest.raises(UnsupportedError, match=f"{reason}.*read-only"):
        array[:] = 1


# -- size ------------------------------------------------------------------------------------------


def test_a_hundred_thousand_scales_are_one_case() -> None:
    """Metadata of an array don't grow with what varies from chunk to chunk."""
    count = 100_000
    encoding = Encoding(
        (Codec.make("shuffle", elementsize=2), Codec.make("zlib")),
        np.dtype("<i2"),
        (
            Codec.make("mask", dtype="<f4", fills=1, value="nan"),
            Codec.make("scale", dtype="<f4", scale=True, offset=True),
        ),
        np.dtype([("raw_fill", "<i2"), ("fill_0", "<f4"), ("scale", "<f8"), ("offset", "<f8")]),
    )
    rows = np.zeros(count, encoding.parameters)
    rows["fill_0"] = -1
    rows["scale"] = np.arange(1, count + 1) / 1000
    rows["offset"] = -np.arange(count)
    raw = np.arange(100, dtype="<i2") - 1
    packed = zlib.compress(raw.view("u1").reshape(100, 2).T.tobytes())
    references = References.dense(
        np.full(count, 0, np.uint64), np.full(count, len(packed), np.uint64)
    )
    sources = Sources.of([Source("/nowhere/", "x.bin", 1 << 40, -1)])
    whole = Segments.of_source(sources, 0, (count, 100), (1, 100), Case(encoding, rows), references)
    assert len(whole.cases) == 1
    sizes = []
    for length in (1000, count):
        store = MemoryStore()
        array = zarr.create_array(
            store,
            shape=(length, 100),
            chunks=(1, 100),
            dtype="f4",
            fill_value=np.nan,
            filters=(),
            serializer=SwitchCodec(cases=CaseTable.of([case.encoding for case in whole.cases])),
            compressors=(),
        )
        stored = json.loads(store._store_dict["zarr.json"].to_bytes())
        sizes.append(len(json.dumps(stored, separators=(",", ":"))))
    assert sizes[1] - sizes[0] == 2  # digits of the shape
    assert sizes[1] < 1200
    keys = case_keys([encoding])
    for row in (0, 77_777, count - 1):
        found = touched([{"row": row, "elements": 100, "length": len(packed)}], 2)
        found.strides[:], found.count[:] = [0, 1], [1, 100]
        header = pack(Parts.of(found, whole.cases, keys, (0, 0)), (1, 100))
        put(store, header + packed, f"c/{row}/0")
        expected = raw.astype("f4")
        expected[0] = np.nan
        expected *= rows["scale"][row]
        expected += rows["offset"][row]
        same(array[row], expected)


def test_many_threads_and_tasks_at_once(pile: tuple[VirtualArray, np.ndarray]) -> None:
    virtual, values = pile
    store = present(virtual, (5, 4, 3), np.nan)

    async def read() -> None:
        array = await zarr.api.asynchronous.open_array(store=StorePath(store), mode="r")
        await asyncio.gather(*(array.getitem((slice(n, n + 7), 2)) for n in range(12)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(read())
    same(opened(store)[:], values)
