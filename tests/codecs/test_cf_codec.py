"""The codec `intarsia.cf`: xarray's values, bit for bit, and written only what comes back so."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import BytesCodec, GzipCodec, ShardingCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from intarsia.cf import Options, RawVariable, VirtualVariable, decode
from intarsia.codecs.cases_steps import steps_json
from intarsia.codecs.cf_codec import CFCodec
from intarsia.errors import UnsupportedError
from tests.present import DEFAULT, FUSED, PIPELINES, opened

ATTRIBUTES: list[dict[str, Any]] = [
    {"scale_factor": 0.1},
    {"scale_factor": np.float32(0.1), "add_offset": np.float32(273.15)},
    {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -7},
    {"_FillValue": 3, "missing_value": 4},
    {"scale_factor": 0.02, "_FillValue": 1e20},
    {"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": -1},
]


def codec_of(dtype: str, attributes: dict[str, Any], fill: Any = 0) -> CFCodec:
    """The codec for a variable with these attributes, as xarray decodes it."""
    stored = np.dtype(dtype)
    attrs = {
        key: np.asarray(value).astype(stored)[()]
        if key in ("_FillValue", "missing_value") and abs(value) < 100
        else value
        for key, value in attributes.items()
    }
    raw = RawVariable(("x",), (1,), stored, attrs, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variable = decode({"v": raw}, {}, Options()).variables["v"]
    assert isinstance(variable, VirtualVariable)
    native = stored.newbyteorder("<")
    parameters = [["raw_fill", native.str, np.array(fill, native).tobytes().hex()]]
    for name, value in variable.recipe.parameters.items():
        parameters.append([name, value.dtype.str, value.tobytes().hex()])
    name = stored.newbyteorder("=").name
    return CFCodec(data_type=name, steps=steps_json(variable.recipe.steps), parameters=parameters)


def xarray_of(data: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    attrs = {
        key: np.asarray(value).astype(data.dtype)[()]
        if key in ("_FillValue", "missing_value") and abs(value) < 100
        else value
        for key, value in attributes.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.conventions.decode_cf_variable("v", xr.Variable(("x",), data, attrs)).values


def create(codec: CFCodec, shape: tuple[int, ...], **more: Any) -> tuple[MemoryStore, Any]:
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=shape,
        chunks=more.pop("chunks", shape),
        dtype=codec.encoding.dtype,
        fill_value=0,
        filters=(codec,),
        serializer=more.pop("serializer", BytesCodec()),
        compressors=more.pop("compressors", ()),
        **more,
    )
    return store, array


def same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    number = ~np.isnan(expected)
    unsigned = f"u{expected.itemsize}"
    np.testing.assert_array_equal(actual[number].view(unsigned), expected[number].view(unsigned))


@pytest.mark.parametrize("attributes", ATTRIBUTES, ids="+".join)
@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", "<u2", ">i2"])
def test_every_value_is_xarrays_and_comes_back(dtype: str, attributes: dict[str, Any]) -> None:
    stored = np.dtype(dtype)
    count = 1 << 8 * stored.itemsize
    raw = np.arange(count).astype(f"u{stored.itemsize}").view(stored.newbyteorder("="))
    expected = xarray_of(raw.astype(stored), attributes)
    codec = codec_of(dtype, attributes)
    store, array = create(codec, raw.shape)
    array[:] = expected
    written = np.frombuffer(store._store_dict["c/0"].to_bytes(), raw.dtype)
    for pipeline in (DEFAULT, FUSED):
        same_bits(opened(store, pipeline)[:], expected)
    # where one stored value is the only one that decodes to a value, that is what is written
    distinct, counts = np.unique(expected[~np.isnan(expected)], return_counts=True)
    single = np.isin(expected, distinct[counts == 1])
    np.testing.assert_array_equal(written[single], raw[single])


@pytest.mark.parametrize("dtype", ["<i4", "<u4", "<i8", "<f4", "<f8"])
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.filterwarnings("ignore:Array is unsupported by ZarrsCodecPipeline")
def test_wider_types_are_decoded_as_xarray_does(dtype: str, pipeline: str) -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 1 << 31, 1000).astype(dtype)
    raw[::7] = 3
    for attributes in ATTRIBUTES[:5]:
        if dtype[1] == "f" and "missing_value" in attributes:
            continue
        codec = codec_of(dtype, attributes)
        store, array = create(codec, (10, 100), chunks=(4, 30))
        plain = zarr.create_array(
            MemoryStore(), shape=(10, 100), chunks=(4, 30), dtype=dtype, compressors=()
        )
        plain[:] = raw.reshape(10, 100)
        for key, data in plain.store._store_dict.items():
            if key.startswith("c"):
                store._store_dict[key] = data
        expected = xarray_of(raw, attributes).reshape(10, 100)
        same_bits(opened(store, pipeline)[:], expected)
        same_bits(opened(store, pipeline)[3, 20:50], expected[3, 20:50])
        with pytest.raises(UnsupportedError, match="too many values to try"):
            array[:] = 1


PLAIN = {"data_type": "int32", "parameters": [["raw_fill", "<i4", "ffffffff"]]}
CAST = [{"name": "cast", "configuration": {"data_type": "float32"}}]


def test_casts_are_written_where_they_are_exact() -> None:
    codec = CFCodec(steps=CAST, **PLAIN)
    store, array = create(codec, (4,), compressors=GzipCodec())
    array[:] = np.array([1, -5, 1 << 24, 0], "f4")
    np.testing.assert_array_equal(opened(store)[:], np.array([1, -5, 1 << 24, 0], "f4"))
    for value in (0.5, np.nan, 1e20, -0.0):
        with pytest.raises(UnsupportedError, match="nothing of type int32 decodes to exactly"):
            array[:] = value


def test_values_that_nothing_decodes_to_are_not_written() -> None:
    codec = codec_of("<i2", {"scale_factor": 0.1, "_FillValue": -7}, fill=-7)
    store, array = create(codec, (3,))
    array[:] = np.array([0.1, np.nan, -np.nan]) * np.array([1, 1, 1])
    raw = np.frombuffer(store._store_dict["c/0"].to_bytes(), "<i2")
    assert raw.tolist() == [1, -7, -7]
    for value in (0.15, 1e9, -0.0, np.inf):
        with pytest.raises(UnsupportedError, match="nothing of type int16 decodes to exactly"):
            array[:] = value
    unmasked = codec_of("<i2", {"scale_factor": 0.1})
    _, array = create(unmasked, (3,))
    with pytest.raises(UnsupportedError, match="exactly"):
        array[:] = np.nan


def test_the_encoded_array_has_the_stored_type_and_the_raw_fill() -> None:
    codec = codec_of(">i2", {"scale_factor": 0.1, "_FillValue": -7}, fill=-9)
    _, array = create(codec, (6,), chunks=(4,))
    spec = ArraySpec(
        (4,), array.metadata.data_type, 0.0, array.async_array.config, default_buffer_prototype()
    )
    encoded = codec.resolve_metadata(spec)
    assert encoded.dtype.to_native_dtype() == np.dtype("i2")
    assert encoded.fill_value == -9
    assert codec.compute_encoded_size(32, spec) == 8


def test_within_shards() -> None:
    codec = codec_of("<i2", {"scale_factor": 0.1, "_FillValue": -7}, fill=-7)
    store = MemoryStore()
    array = zarr.create_array(
        store,
        shape=(8,),
        chunks=(2,),
        shards=(4,),
        dtype="f8",
        filters=(codec,),
        compressors=(),
    )
    assert any(isinstance(step, ShardingCodec) for step in array.metadata.codecs)
    values = np.arange(8) * 0.1
    values[3] = np.nan
    exact = xarray_of(np.arange(8, dtype="i2"), {"scale_factor": 0.1})
    exact[3] = np.nan
    array[:] = exact
    same_bits(opened(store)[:], exact)
    same_bits(opened(store, FUSED)[1:7], exact[1:7])


def test_metadata_comes_back() -> None:
    codec = codec_of("<i2", {"scale_factor": 0.1, "_FillValue": -7}, fill=-7)
    text = json.dumps(codec.to_dict())
    assert json.loads(text) == {
        "name": "intarsia.cf",
        "configuration": {
            "data_type": "int16",
            "steps": [
                {
                    "name": "mask",
                    "configuration": {"data_type": "float64", "fills": 1, "value": "nan"},
                },
                {
                    "name": "scale",
                    "configuration": {"data_type": "float64", "scale": True, "offset": False},
                },
            ],
            "parameters": [
                ["raw_fill", "<i2", "f9ff"],
                ["fill_0", "<i2", "f9ff"],
                ["scale", "<f8", "9a9999999999b93f"],
            ],
        },
    }
    assert CFCodec.from_dict(json.loads(text)) == codec
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert hash(CFCodec.from_dict(json.loads(text))) == hash(codec)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data_type": "int64"}, "raw_fill must be of the type 'int64'"),
        ({"data_type": 1.5}, "no floats"),
        ({"steps": []}, "at least one"),
        ({"steps": [{"name": "exec"}]}, "no decoding step 'exec'"),
        ({"parameters": []}, "first parameter must be 'raw_fill'"),
        ({"parameters": {}}, "parameters must be a list"),
        ({"parameters": [["raw_fill", "<i4"]]}, "a name, a type and bytes"),
        ({"parameters": [["raw_fill", "<i4", 0]]}, "a name, a type and bytes"),
        ({"parameters": [["raw_fill", ">i4", "00000000"]]}, "must be little-endian"),
        ({"parameters": [["raw_fill", "<i4", "000000"]]}, "4 bytes in hexadecimal"),
        ({"parameters": [["raw_fill", "<i4", "0000000G"]]}, "4 bytes in hexadecimal"),
        ({"parameters": [["raw_fill", "<i4", "FFFFFFFF"]]}, "4 bytes in hexadecimal"),
        ({"parameters": [["raw_fill", "<O", "00000000"]]}, "a parameter's type must be"),
        ({"parameters": [["scale", "<f8", "00" * 8]]}, "first parameter must be 'raw_fill'"),
        (
            {"parameters": [*PLAIN["parameters"], ["scale", "<f8", "00" * 8]]},
            "a list of raw_fill",
        ),
        ({"more": 1}, "unknown"),
    ],
)
def test_invalid_configurations_are_refused(changes: dict[str, Any], reason: str) -> None:
    configuration = PLAIN | {"steps": CAST} | changes
    with pytest.raises(ValueError, match=reason):
        CFCodec.from_dict({"name": "intarsia.cf", "configuration": configuration})


def test_other_names_and_types_are_refused() -> None:
    configuration = PLAIN | {"steps": CAST}
    with pytest.raises(ValueError, match="not 'intarsia.cf'"):
        CFCodec.from_dict({"name": "cf", "configuration": configuration})
    with pytest.raises(ValueError, match="the steps give float32, the array has float64"):
        zarr.create_array(
            MemoryStore(), shape=(3,), dtype="f8", filters=(CFCodec(**configuration),)
        )


@pytest.mark.parametrize("target", ["float32", "bool"])
def test_text_is_no_number(target: str) -> None:
    text = {"name": "null_terminated_bytes", "configuration": {"length_bytes": 2}}
    steps = [{"name": "cast", "configuration": {"data_type": target}}]
    with pytest.raises(ValueError, match="S2 can't be cast"):
        CFCodec(data_type=text, steps=steps, parameters=[["raw_fill", "|S2", "3000"]])
