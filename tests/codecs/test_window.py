"""The codec `intarsia.window`: what NumPy sees of an array, a strided view of its elements sees."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BytesCodec, GzipCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from intarsia.codecs.window import WindowCodec, _repeats
from intarsia.errors import CorruptChunk, UnsupportedError, WrongLength
from tests.algebra import steps
from tests.present import DEFAULT, PIPELINES, opened


def window_of(view: np.ndarray, base: np.ndarray) -> WindowCodec:
    """The window that a view of an array is."""
    begin = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    strides = [step // base.itemsize for step in view.strides]
    return WindowCodec(elements=base.size, begin=begin // base.itemsize, strides=strides)


def stored(view: np.ndarray, base: np.ndarray, zipped: bool = False, to: str = DEFAULT) -> Any:
    """An array of one chunk, whose bytes are those of the array that it is a view of."""
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=view.shape,
        chunks=view.shape,
        dtype=view.dtype,
        fill_value=0,
        filters=(window_of(view, base),),
        serializer=BytesCodec(),
        compressors=GzipCodec() if zipped else (),
    )
    data = gzip.compress(base.tobytes()) if zipped else base.tobytes()
    key = array.metadata.encode_chunk_key((0,) * view.ndim)
    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))
    return opened(store, to)


BASE = np.arange(60, dtype="<i4").reshape(3, 4, 5)
VIEWS = {
    "everything": BASE,
    "a crop": BASE[1:, :2, 1:4],
    "steps": BASE[::2, ::3, 1::2],
    "flips": BASE[::-1, :, ::-2],
    "a permutation": BASE.transpose(2, 0, 1),
    "fixed dimensions": BASE[1, :, 2],
    "new dimensions": BASE[:, None, 1:2],
    "a broadcast": np.broadcast_to(BASE[:, :1, 3:4], (3, 4, 2)),
    "all at once": np.broadcast_to(BASE.transpose(2, 1, 0)[::-1, 3::-2, 1:2], (5, 2, 4)),
    "one element": BASE[1, 2, 3, ...],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.filterwarnings("ignore:Array is unsupported by ZarrsCodecPipeline")
def test_any_view_is_a_window(name: str, pipeline: str) -> None:
    view = VIEWS[name]
    array = stored(view, BASE, to=pipeline)
    np.testing.assert_array_equal(array[...], view, strict=True)
    np.testing.assert_array_equal(stored(view, BASE, zipped=True, to=pipeline)[...], view)
    if view.ndim == 3:
        np.testing.assert_array_equal(array[1, :2, 1], view[1, :2, 1])


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_operations_that_give_views(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    base = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    view = base
    for _ in range(data.draw(st.integers(0, 5))):
        step = data.draw(steps(view.shape))
        if not repr(step).startswith(("take", "concat", "stack", "cast")):
            view = step.run(view)
    if not isinstance(view, np.ndarray) or 0 in view.shape:
        return
    np.testing.assert_array_equal(stored(view, base)[...], view)
    # an element that two positions show is found wherever it is
    codec = window_of(view, base)
    strides = [0 if n == 1 else s for n, s in zip(view.shape, codec.strides, strict=True)]
    assert _repeats(view.shape, strides) == (len(np.unique(view)) != view.size)


@pytest.mark.parametrize("pipeline", PIPELINES[:2])
def test_what_is_written_comes_back_and_the_rest_is_fill(pipeline: str) -> None:
    for codec, shape in (
        (WindowCodec(elements=60, begin=0, strides=[20, 5, 1]), (3, 4, 5)),
        (WindowCodec(elements=60, begin=59, strides=[-20, -2]), (3, 4)),
        (WindowCodec(elements=40, begin=3, strides=[1, 7]), (7, 5)),
        (WindowCodec(elements=13, begin=0, strides=[2, 3]), (3, 3)),  # interleaved, but apart
    ):
        store = MemoryStore()
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            array = zarr.create_array(
                store,
                shape=shape,
                chunks=shape,
                dtype=">i2",
                fill_value=-5,
                filters=(codec,),
                serializer=BytesCodec(endian="big"),
                compressors=(),
            )
            values = np.arange(np.prod(shape)).reshape(shape).astype("i2")
            array[...] = values
        np.testing.assert_array_equal(opened(store, pipeline)[...], values)
        (key,) = (key for key in store._store_dict if key.startswith("c"))
        raw = np.frombuffer(store._store_dict[key].to_bytes(), ">i2")
        assert len(raw) == codec.elements
        assert (raw == -5).sum() == codec.elements - values.size


def test_a_window_that_shows_elements_twice_is_not_written_through() -> None:
    for strides, shape in (([0, 1], (2, 5)), ([1, 2], (3, 3)), ([2, -1], (3, 3))):
        codec = WindowCodec(elements=20, begin=10, strides=strides)
        array = zarr.create_array(
            MemoryStore(),
            shape=shape,
            chunks=shape,
            dtype="i2",
            filters=(codec,),
            compressors=(),
        )
        with pytest.raises(UnsupportedError, match="share elements"):
            array[...] = 1


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ({}, "lacks elements, begin, strides"),
        ({"elements": 4, "begin": 0, "strides": [1], "step": 1}, "unknown"),
        ({"elements": 0, "begin": 0, "strides": [1]}, "elements must be"),
        ({"elements": 4.0, "begin": 0, "strides": [1]}, "elements must be"),
        ({"elements": True, "begin": 0, "strides": [1]}, "elements must be"),
        ({"elements": 1 << 63, "begin": 0, "strides": [1]}, "elements must be"),
        ({"elements": 4, "begin": 4, "strides": [1]}, "begin must be"),
        ({"elements": 4, "begin": -1, "strides": [1]}, "begin must be"),
        ({"elements": 4, "begin": 0, "strides": 1}, "strides must be"),
        ({"elements": 4, "begin": 0, "strides": "11"}, "strides must be"),
        ({"elements": 4, "begin": 0, "strides": [0] * 65}, "strides must be"),
        ({"elements": 4, "begin": 0, "strides": [None]}, "a stride must be"),
        ({"elements": 4, "begin": 0, "strides": [1 << 60]}, "a stride must be"),
        ([], "must be an object"),
    ],
)
def test_invalid_configurations_are_refused(configuration: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        WindowCodec.from_dict({"name": "intarsia.window", "configuration": configuration})


def test_other_names_and_other_numbers_of_dimensions_are_refused() -> None:
    configuration = {"elements": 4, "begin": 0, "strides": [1]}
    with pytest.raises(ValueError, match="not 'intarsia.window'"):
        WindowCodec.from_dict({"name": "window", "configuration": configuration})
    with pytest.raises(ValueError, match="1 strides for 2 dimensions"):
        zarr.create_array(
            MemoryStore(),
            shape=(2, 2),
            chunks=(2, 2),
            dtype="i2",
            filters=(WindowCodec(**configuration),),
        )


@pytest.mark.parametrize("pipeline", PIPELINES[:2])
@pytest.mark.parametrize(("elements", "begin", "strides"), [(12, 1, [4, 1]), (12, 0, [-4, 1])])
def test_a_window_over_the_edge_is_an_error(
    pipeline: str, elements: int, begin: int, strides: list[int]
) -> None:
    store = MemoryStore()
    codec = WindowCodec(elements=elements, begin=begin, strides=strides)
    made = zarr.create_array(
        store, shape=(3, 4), chunks=(3, 4), dtype="u1", filters=(codec,), compressors=()
    )
    with pytest.raises(CorruptChunk, match="reaches"):
        made[...] = np.zeros((3, 4), "u1") + 3
    buffer = default_buffer_prototype().buffer
    sync(store.set("c/0/0", buffer.from_bytes(bytes(elements))))
    with pytest.raises(CorruptChunk, match="reaches"):
        opened(store, pipeline)[...]


def test_another_number_of_elements_is_an_error() -> None:
    codec = WindowCodec(elements=12, begin=0, strides=[1])
    prototype = default_buffer_prototype()
    short = prototype.nd_buffer.from_numpy_array(np.zeros(11))
    with pytest.raises(WrongLength, match="11 elements, not 12"):
        codec._decode_sync(short, None)  # type: ignore[arg-type]


def test_metadata_comes_back() -> None:
    codec = WindowCodec(elements=12, begin=3, strides=(4, -1, 0))
    text = json.dumps(codec.to_dict())
    assert json.loads(text) == {
        "name": "intarsia.window",
        "configuration": {"elements": 12, "begin": 3, "strides": [4, -1, 0]},
    }
    assert WindowCodec.from_dict(json.loads(text)) == codec
    array = stored(BASE[1:], BASE)
    spec = ArraySpec(
        array.shape,
        array.metadata.data_type,
        array.metadata.fill_value,
        array.async_array.config,
        default_buffer_prototype(),
    )
    pipeline = array.async_array.codec_pipeline
    assert pipeline.compute_encoded_size(array.nbytes, spec) == BASE.nbytes
