"""Cases as JSON: one way to write each down, and strangers' ones refused with a reason."""

from __future__ import annotations

import copy
import json
import pickle
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5t
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import intarsia
from intarsia.array import VirtualArray
from intarsia.codecs.cases import (
    CaseTable,
    canonical,
    case_json,
    case_key,
    encoding_of,
    key_of,
    merge_tables,
)
from intarsia.codecs.hdf5 import hdf5_codec
from intarsia.encoding import Codec, Encoding
from intarsia.errors import IntarsiaError
from tests.real import real_files
from tests.unlike.strategies import Pile, unlike_files

PACKED = Encoding(
    (Codec.make("shuffle", elementsize=2), Codec.make("zlib")),
    np.dtype(">i2"),
    (
        Codec.make("mask", dtype="<f4", fills=2, value="nan"),
        Codec.make("scale", dtype="<f4", scale=True, offset=True),
    ),
    np.dtype(
        [
            ("raw_fill", ">i2"),
            ("fill_0", "<f4"),
            ("fill_1", "<i2"),
            ("scale", "<f8"),
            ("offset", "<f8"),
        ]
    ),
)
LZF = Encoding(
    (hdf5_codec(((32000, 1, (4, 261, 96), "lzf"),), h5t.IEEE_F64BE.encode(), (3, 4)),),
    np.dtype(">f8"),
)


def test_a_case_is_written_like_this() -> None:
    assert case_json(PACKED) == {
        "data_type": "int16",
        "codecs": [
            {
                "name": "intarsia.cf",
                "configuration": {
                    "steps": [
                        {
                            "name": "mask",
                            "configuration": {"data_type": "float32", "fills": 2, "value": "nan"},
                        },
                        {
                            "name": "scale",
                            "configuration": {
                                "data_type": "float32",
                                "scale": True,
                                "offset": True,
                            },
                        },
                    ]
                },
            },
            {"name": "intarsia.window"},
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}},
            {"name": "numcodecs.zlib"},
        ],
        "parameters": [
            ["raw_fill", ">i2"],
            ["fill_0", "<f4"],
            ["fill_1", "<i2"],
            ["scale", "<f8"],
            ["offset", "<f8"],
        ],
    }


def test_keys_never_change() -> None:
    """They are in stores: change a key, and those are not read any more."""
    plain = {"data_type": "uint8", "codecs": [{"name": "intarsia.window"}, {"name": "bytes"}]}
    plain["parameters"] = [["raw_fill", "|u1"]]
    assert canonical(plain) == (
        '{"codecs":[{"name":"intarsia.window"},{"name":"bytes"}],"data_type":"uint8",'
        '"parameters":[["raw_fill","|u1"]]}'
    )
    assert case_key(plain) == "2204303f92dccd4c"
    assert key_of(PACKED) == "874741f70da94072"
    assert key_of(LZF) == "d012b68a84764438"


NUMBERS = ["?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<f2", ">f4", "<f8", "<c8", ">c16"]
OTHERS = ["S5", "<U3", ">U1", "<M8[ns]", ">M8[10m]", "<m8[D]", "<m8"]


@st.composite
def encodings(draw: st.DrawFn) -> Encoding:
    """Chains as a scan, casts, and tests of missing values make them."""
    stored = np.dtype(draw(st.sampled_from(NUMBERS + OTHERS)))
    steps: list[Codec] = []
    fields: dict[str, Any] = {"raw_fill": stored}
    if stored.kind in "iuf" and draw(st.booleans()):
        target = draw(st.sampled_from(["<f4", "<f8"]))
        fills = draw(st.integers(0, 3))
        kinds = st.sampled_from(["<i2", ">i4", "<f4", "<f8", stored.str])
        if fills:
            steps.append(Codec.make("mask", dtype=target, fills=fills, value="nan"))
            fields |= {f"fill_{i}": draw(kinds) for i in range(fills)}
        scale, offset = draw(st.booleans()), draw(st.booleans())
        if scale or offset:
            steps.append(Codec.make("scale", dtype=target, scale=scale, offset=offset))
            wanted = {"scale": scale, "offset": offset}
            fields |= {name: draw(kinds) for name, has in wanted.items() if has}
    if stored.kind not in "Mm" and draw(st.booleans()):
        targets = {"S": ["|S9", "|S2"], "U": ["<U9", "<U2"]}
        others = ["<f8", "<i8", "|b1", "|S9", "<U2"]
        cast = draw(st.sampled_from(targets.get(stored.kind, others)))
        steps.append(Codec.make("cast", dtype=cast))
    elif stored.kind not in "SU" and draw(st.booleans()):
        steps += [Codec.make("isnan", dtype="|b1"), Codec.make("not", dtype="|b1")]
    filters = draw(
        st.lists(
            st.sampled_from(
                [
                    Codec.make("zlib"),
                    Codec.make("fletcher32"),
                    Codec.make("shuffle", elementsize=stored.itemsize),
                ]
            ),
            max_size=4,
        )
    )
    return Encoding(tuple(filters), stored, tuple(steps), np.dtype(list(fields.items())))


@settings(max_examples=100, deadline=None)
@given(encoding=encodings())
def test_every_encoding_comes_back(encoding: Encoding) -> None:
    case = case_json(encoding)
    assert encoding_of(case) == encoding
    assert encoding_of(json.loads(json.dumps(case))) == encoding
    assert case_key(case) == key_of(encoding)
    table = CaseTable.of([encoding, encoding])
    assert table.encodings == (encoding,)
    assert CaseTable.from_json(json.loads(json.dumps(table.json()))) == table


def _check_all(dataset: Any) -> int:
    count = 0
    for variable in dataset.variables.values():
        data = variable._data
        if isinstance(data, VirtualArray):
            for case in data.segments.cases:
                filters = case.encoding.filters
                if filters and filters[0].name == "refused":
                    with pytest.raises(ValueError, match="it can't be read"):
                        case_json(case.encoding)
                else:
                    assert encoding_of(case_json(case.encoding)) == case.encoding
                    count += 1
    return count


@pytest.mark.parametrize("path", real_files("hdf5/*"))
@pytest.mark.filterwarnings("ignore")
def test_every_encoding_of_real_files_comes_back(path: Path) -> None:
    groups = ["/"]
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: groups.append(name) if isinstance(item, h5py.Group) else None
        )
    for group in groups:
        try:
            opened = intarsia.open_dataset(path, group=group, phony_dims="sort")
        except IntarsiaError:
            continue
        _check_all(opened)


@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.filterwarnings("ignore")
@given(pile=unlike_files())
def test_every_encoding_of_unlike_files_comes_back(pile: Pile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for path in pile.write(Path(folder)):
            _check_all(intarsia.open_dataset(path))
            _check_all(intarsia.open_dataset(path, mask_and_scale=False))


def test_names_of_an_enums_members_don_t_matter(tmp_path: Path) -> None:
    keys = set()
    for name in ("first", "second"):
        kind = h5py.enum_dtype({name: 0, "other": 1}, basetype="i2")
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            data = np.tile(np.array([0, 1], "i2"), 100)
            file.create_dataset("x", data=data, dtype=kind, chunks=(40,), compression="lzf")
        dataset = intarsia.open_dataset(tmp_path / f"{name}.h5", phony_dims="sort")
        assert _check_all(dataset) == 1
        np.testing.assert_array_equal(dataset["x"], data)
        keys.add(key_of(dataset["x"].variable._data.segments.cases[0].encoding))
    assert len(keys) == 1


def test_what_does_not_change_decoding_is_no_part_of_a_case() -> None:
    plain = Encoding((Codec.make("zlib"),), np.dtype("<f4"))
    level = Encoding((Codec.make("zlib", level=9),), np.dtype("<f4"))
    assert key_of(plain) == key_of(level)


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [
        (Encoding((Codec.make("lzo"),), np.dtype("u1")), "no case with the filter lzo"),
        (Encoding((), np.dtype("f16")), "no data type for"),
        (Encoding((), np.dtype("V3")), "no data type for"),
        (Encoding((), np.dtype("O")), "no data type for"),
        (
            Encoding((), np.dtype("u1"), (Codec.make("round", dtype="<f4"),)),
            "no decoding step round",
        ),
        (Encoding((), np.dtype("S2")).cast(np.dtype("f4")), "S2 can't be cast to float32"),
        (Encoding((), np.dtype("S2")).cast(np.dtype("U2")), "S2 can't be cast to <U2"),
        (Encoding((), np.dtype("M8[s]")).cast(np.dtype("i8")), "can't be cast to int64"),
        (
            Encoding((LZF.filters[0], Codec.make("zlib")), np.dtype(">f8")),
            "stands beside other filters",
        ),
        (
            Encoding(
                (hdf5_codec(((32013, 0, (3,), "zfp"),), h5t.STD_I32LE.encode(), (4,)),),
                np.dtype("<i4"),
            ),
            "filter 32013 is not known",
        ),
    ],
)
def test_encodings_without_a_case(encoding: Encoding, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        case_json(encoding)


def _edit(path: str, value: Any) -> Callable[[Any], None]:
    """Replace (or with ... remove) what is at a path such as ``codecs.2.name``."""

    def edit(case: Any) -> None:
        *steps, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        for step in steps:
            case = case[step]
        if value is ...:
            del case[last]
        elif isinstance(case, list) and last == len(case):
            case.append(value)
        else:
            case[last] = value

    return edit


MASK = "codecs.0.configuration.steps.0.configuration"
SCALE = "codecs.0.configuration.steps.1.configuration"


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("data_type", ..., "lacks data_type"),
        ("more", 1, "unknown"),
        ("data_type", "int17", "data_type must be"),
        ("data_type", 3, "data_type must be"),
        ("data_type", 1.5, "no floats"),
        ("data_type", 1 << 60, r"beyond 2\^53"),
        ("data_type", {"name": "struct", "configuration": {}}, "data_type must be"),
        ("data_type", {"name": "null_terminated_bytes"}, "lacks configuration"),
        ("codecs", {}, "codecs must be a list"),
        ("codecs", [], "don't begin"),
        ("codecs.1", ..., "don't begin"),
        ("codecs.1.configuration", {}, "don't begin"),
        ("codecs.2", ..., "not followed by bytes"),
        ("codecs.2.configuration", ..., "bytes must be an object"),
        ("codecs.2.configuration.endian", "middle", "endian must be"),
        ("codecs.2.configuration.endian", "little", "stored type <i2"),
        ("codecs.3.configuration.elementsize", 0, "elementsize must be"),
        ("codecs.3.configuration.elementsize", True, "elementsize must be"),
        ("codecs.3.configuration.elementsize", 1 << 30, "elementsize must be"),
        ("codecs.4.configuration", {"level": 3}, "which cases leave out"),
        ("codecs.4.configuration", {}, "which cases leave out"),
        ("codecs.4.name", "zlib", "no codec 'zlib'"),
        ("codecs.4.name", "numcodecs.pickle", "no codec 'numcodecs.pickle'"),
        ("codecs.4.name", ["numcodecs.zlib"], "must be a string"),
        ("codecs.4.extra", 1, "unknown"),
        ("codecs.0.configuration.steps", [], "a list of at least one"),
        ("codecs.0.configuration.steps.0.name", "eval", "no decoding step 'eval'"),
        (f"{MASK}.fills", 0, "fills must be"),
        (f"{MASK}.fills", 1 << 20, "fills must be"),
        (f"{MASK}.fills", 3, "parameters must be a list of"),
        (f"{MASK}.value", "inf", "must be 'nan'"),
        (f"{MASK}.data_type", "int32", "can't make int32"),
        (f"{SCALE}.scale", 1, "must be booleans"),
        (f"{SCALE}.scale", False, "parameters must be a list of"),
        (f"{SCALE}.data_type", "bool", "can't make bool"),
        (f"{SCALE}.data_type", "int16", "can't go with int16"),
        ("parameters", [], "parameters must be a list of"),
        ("parameters.0.1", "<i2", "must be of the stored type"),
        ("parameters.0.0", "fill", "parameters must be"),
        ("parameters.1.0", "fill_9", "parameters must be"),
        ("parameters.1.1", "O", "a parameter's type must be"),
        ("parameters.1.1", "<f16", "a parameter's type must be"),
        ("parameters.1.1", "f4", "a parameter's type must be"),
        ("parameters.1.1", "|f4", "a parameter's type must be"),
        ("parameters.1.1", "|S4", "can't go with"),
        ("parameters.1.1", "<c8", "can't go with"),
        ("parameters.3.1", "<c8", "can't go with"),
        ("parameters.1", ["fill_0"], "a name and a type"),
    ],
)
def test_refused(path: str, value: Any, reason: str) -> None:
    case = case_json(PACKED)
    _edit(path, value)(case)
    with pytest.raises(ValueError, match=reason):
        encoding_of(case)


HDF5 = "codecs.1.configuration"
F64 = h5t.IEEE_F64BE.encode().hex()


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("pipeline", {}, "pipeline must be a list"),
        ("pipeline", [[32026, 0, [], "blosc2"]], "32026 is not known"),
        ("pipeline", [[32000, 0, []]], "a filter must be"),
        ("pipeline", [[32000, 7, [], "lzf"]], "flags must be"),
        ("pipeline", [[32000, 0, [1, 2, 3, 4], "lzf"]], "at most 3"),
        ("pipeline", [[32000, 0, [1 << 32], "lzf"]], "integers from 0"),
        ("pipeline", [[32000, 0, [True], "lzf"]], "integers from 0"),
        ("pipeline", [[32000, 0, [], "l" * 1000]], "the name of a filter"),
        ("pipeline", [[32000, 0, [], "lzf"]] * 33, "more than 32 filters"),
        ("pipeline", [[1, 0, [10], ""]], r"1 can't have the parameters \[10\]"),
        ("pipeline", [[2, 0, [0], ""]], "2 can't have"),
        ("pipeline", [[2, 0, [], ""]], "2 can't have"),
        ("pipeline", [[3, 0, [1], ""]], "at most 0"),
        ("pipeline", [[4, 0, [4, 0, 8, 8], ""]], "4 can't have"),
        ("pipeline", [[4, 0, [4, 2, 8], ""]], "too few"),
        ("pipeline", [[5, 0, [8, 0, 9, 2, 8, 0, 8, 0], ""]], "5 can't have"),
        ("pipeline", [[6, 0, [0] * 20, ""]], "6 can't have"),
        ("pipeline", [[32000, 0, [], ""], [4, 0, [4, 8, 8, 8], ""]], "4 can't come after"),
        ("pipeline", [[1, 0, [5], ""], [4, 0, [4, 8, 8, 8], ""]], "4 can't come after"),
        ("datatype", "", "datatype must be"),
        ("datatype", "zz", "datatype must be"),
        ("datatype", F64.upper(), "datatype must be"),
        ("datatype", F64 + "00", "not a plain integer or float"),
        ("datatype", h5t.C_S1.encode().hex(), "not a plain"),
        ("datatype", h5t.STD_REF_OBJ.encode().hex(), "not a plain"),
        ("datatype", h5t.vlen_create(h5t.STD_I8LE).encode().hex(), "not a plain"),
        ("chunk_shape", [], "chunk_shape must be"),
        ("chunk_shape", [0], "chunk_shape must be"),
        ("chunk_shape", [1 << 31, 1 << 31], "chunk_shape must be"),
        ("chunk_shape", [1] * 33, "at most 32"),
        ("chunk_shape", [3, -1], "integers from 0"),
        ("fill", "00", "no filter depends on it"),
        ("fill", "0", "fill must be"),
        ("fill", 0, "fill must be"),
        ("more", 0, "unknown"),
    ],
)
def test_refused_for_the_hdf5_library(path: str, value: Any, reason: str) -> None:
    case = case_json(LZF)
    _edit(f"codecs.2.configuration.{path}", value)(case)
    with pytest.raises(ValueError, match=reason):
        encoding_of(case)
    bools = copy.deepcopy(case) | {"data_type": "bool", "parameters": [["raw_fill", "|b1"]]}
    del bools["codecs"][1]["configuration"]
    with pytest.raises(ValueError, match="intarsia.hdf5"):
        encoding_of(bools)


def test_datatypes_that_the_hdf5_library_may_see() -> None:
    kinds = [getattr(h5t, name) for name in dir(h5t) if name.startswith(("STD_", "IEEE_"))]
    kinds = [kind for kind in kinds if kind.get_class() in (h5t.INTEGER, h5t.FLOAT)]
    assert len(kinds) > 20
    narrow = h5t.STD_I32BE.copy()
    narrow.set_precision(12)
    narrow.set_offset(4)
    tiny = h5t.IEEE_F32LE.copy()
    tiny.set_fields(15, 10, 5, 0, 10)
    tiny.set_precision(16)
    for kind in [*kinds, narrow, tiny, h5t.NATIVE_LDOUBLE]:
        case = case_json(LZF)
        case["codecs"][2]["configuration"]["datatype"] = kind.encode().hex()
        assert encoding_of(case).filters[0].config["datatype"] == kind.encode().hex()


@pytest.mark.parametrize("encoding", [PACKED, LZF], ids=["packed", "lzf"])
def test_nothing_but_errors_of_value(encoding: Encoding) -> None:
    """Whatever stands in place of any part of a case: an encoding, or a ValueError."""
    strange = [None, True, -1, 0, 2.5, "", "nan", "x" * 99, [], {}, [[]], [0] * 99, {"name": 1}]
    rng = random.Random(0)
    places = _places(case_json(encoding))
    for path in places:
        for value in strange:
            case = case_json(encoding)
            _edit(path, value)(case)
            if rng.random() < 0.3:
                _try(_edit(rng.choice(places), rng.choice(strange)), case)
            _try(encoding_of, case)


def _try(function: Callable[[Any], Any], case: Any) -> None:
    try:
        function(case)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        assert function is not encoding_of or type(error) is ValueError


def _places(value: Any, path: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        here = f"{path}.{key}" if path else str(key)
        found.append(here)
        if isinstance(item, dict | list):
            found += _places(item, here)
    return found


def test_json_that_is_deep_or_long_is_refused() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    for strange in (deep, {"a": deep}, {1: 2}, b"", {"a": object()}):
        with pytest.raises(ValueError):  # noqa: PT011
            encoding_of(strange)  # type: ignore[arg-type]
    long = case_json(PACKED)
    long["codecs"] += [{"name": "numcodecs.zlib"}] * 5000
    with pytest.raises(ValueError, match="longer than"):
        encoding_of(long)
    long["codecs"] = long["codecs"][:40]
    with pytest.raises(ValueError, match="more than 32 filters"):
        encoding_of(long)


def test_tables_are_checked() -> None:
    case, key = case_json(PACKED), key_of(PACKED)
    assert CaseTable.from_json({key: case}).encodings == (PACKED,)
    for cases, reason in (
        ({}, "at least one"),
        ([], "at least one"),
        ({"0" * 16: case}, f"its content has the key '{key}'"),
        ({key.upper(): case}, "its content has the key"),
        ({key: case | {"data_type": "x"}}, f"case '{key}': data_type must be"),
        ({str(n): case for n in range(5000)}, "more than 4096"),
    ):
        with pytest.raises(ValueError, match=reason):
            CaseTable.from_json(cases)


def test_tables_are_compiled_once_and_compare_by_content() -> None:
    table = CaseTable.of([PACKED, LZF])
    assert CaseTable.from_json(table.json()).keys is CaseTable.from_json(table.json()).keys
    assert list(table.keys) == sorted(table.keys)
    copied = pickle.loads(pickle.dumps(table))
    assert copied == table
    assert hash(copied) == hash(table)
    assert table != CaseTable.of([PACKED])
    assert key_of(LZF) in repr(table)


def test_merging_is_the_union() -> None:
    one, two = CaseTable.of([PACKED]).json(), CaseTable.of([LZF, PACKED]).json()
    assert merge_tables(one, two) == two
    assert merge_tables(one) == one
    assert list(merge_tables(two, one)) == sorted(two)
    with pytest.raises(ValueError, match="two different cases have the key"):
        merge_tables(one, {key_of(PACKED): case_json(LZF)})
