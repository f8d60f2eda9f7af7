"""References of kerchunk: what they say is what a reader of the Zarr they stand for would see."""

from __future__ import annotations

import base64
import json
import os
import shutil
import traceback
import warnings
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr

import intarsia
from intarsia.errors import FormatError, IntarsiaError, SourceUnreadable, UnsupportedError
from intarsia.io.remote_clients import patience
from tests.check import is_virtual
from tests.compare import assert_identical
from tests.io.http_server import Answer, serving

METADATA = (".zarray", ".zattrs", ".zgroup", "zarr.json")


def chunk_keys(folder: Path) -> list[str]:
    """Keys of the chunks of a Zarr folder, sorted."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(p.relative_to(folder)) for p in files if p.name not in METADATA)


def references(folder: Path, *, inline: bool = False) -> dict[str, Any]:
    """References to the chunks of a Zarr folder; some of them inline."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        key, data = str(path.relative_to(folder)), path.read_bytes()
        if path.name in METADATA:
            found[key] = data.decode()
        elif inline and len(found) % 2:
            found[key] = "base64:" + base64.b64encode(data).decode()
        else:
            found[key] = [str(path), 0, len(data)]
    return found


def saved(refs: dict[str, Any], path: Path) -> Path:
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return path


def zarr_of(folder: Path, version: Any, values: Any, **how: Any) -> None:
    """Write one variable ``v``."""
    names = ["a", "b"][: values.ndim]
    if version == 2:
        how["attributes"] = {"_ARRAY_DIMENSIONS": names}
    else:
        how["dimension_names"] = names
    group = zarr.create_group(folder, zarr_format=version)
    group.create_array("v", shape=values.shape, dtype=values.dtype, **how)[...] = values


CASES = [
    (version, dtype, order, separator, inline, shape)
    for version, dtype, order, separator, inline, shape in product(
        (2, 3), ("<f4", ">i2", "<M8[ns]"), "CF", "./", (False, True), ((5, 6), (7,), ())
    )
    if not (version == 3 and order == "F")
]


@pytest.mark.parametrize(
    ("version", "dtype", "order", "separator", "inline", "shape"),
    [
        pytest.param(*case, marks=[] if number % 3 == 0 else pytest.mark.slow)
        for number, case in enumerate(CASES)
    ],
)
def test_every_form_of_keys_and_order(
    tmp_path: Path,
    version: Any,
    dtype: str,
    order: str,
    separator: str,
    inline: bool,
    shape: tuple[int, ...],
) -> None:
    """A chunk that is missing, too: each is in its place, whatever its key looks like."""
    folder = tmp_path / "a.zarr"
    how: dict[str, Any] = {"chunks": tuple(-(-size // 2) for size in shape)}
    how["compressors"] = numcodecs.Zlib() if version == 2 else zarr.codecs.GzipCodec()
    name = "v2" if version == 2 else "default"
    how["chunk_key_encoding"] = {"name": name, "separator": separator}
    if version == 2:
        how["order"] = order
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    zarr_of(folder, version, values, **how)
    keys = chunk_keys(folder)
    if len(keys) > 1:
        (folder / keys[1]).unlink()
    refs = saved(references(folder, inline=inline), tmp_path / "refs.json")
    ds = intarsia.open_dataset(refs, decode_times=False)
    with xr.open_zarr(folder, consolidated=False, chunks=None, decode_times=False) as theirs:
        assert_identical(ds, theirs.load())


def refs_of_one(tmp_path: Path, **changed: Any) -> Path:
    """References to an array of three chunks, with some of them changed."""
    folder = tmp_path / "a.zarr"
    if not folder.exists():
        zarr_of(folder, 2, np.arange(12.0).reshape(6, 2), chunks=(2, 2), compressors=None)
    return saved(references(folder) | changed, tmp_path / "refs.json")


WRONG: dict[str, tuple[Any, str]] = {
    "no bytes": (["/a", 5, 0], "to no bytes"),
    "before the file": (["/a", -5, 32], "the reference v/1.0 is"),
    "a half": (["/a", 0.5, 32], "the reference v/1.0 is"),
    "no length": (["/a", 5], "the reference v/1.0 is"),
    "no path": ([None, 5, 32], "the reference v/1.0 is"),
    "a relative path": (["a.nc", 5, 32], "relative to what they don't say"),
    "nothing": (None, "and no text"),
    "a number": (5, "and no text"),
    "no text": ("", "is empty"),
    "no base64": ("base64:!!!", "is no base64"),
}


@pytest.mark.parametrize(("value", "said"), WRONG.values(), ids=WRONG)
def test_a_reference_that_is_none_is_never_fill(tmp_path: Path, value: Any, said: str) -> None:
    ds = intarsia.open_dataset(refs_of_one(tmp_path, **{"v/1.0": value}))
    with pytest.raises(UnsupportedError, match=said):
        ds.load()


def test_a_dimension_without_name_has_none_in_a_group_either(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    group = zarr.open_group(folder, mode="w", zarr_format=2)
    for base in ("", "in/"):
        attrs = {"_ARRAY_DIMENSIONS": [None]}
        group.create_array(f"{base}v", shape=(2,), dtype="i4", attributes=attrs)[...] = [1, 2]
    refs = saved(references(folder), tmp_path / "refs.json")
    for name in (None, "in"):
        ds = intarsia.open_dataset(refs, group=name)
        with xr.open_zarr(folder, group=name, consolidated=False, chunks=None) as theirs:
            assert_identical(ds, theirs.load())


def test_only_reading_is_refused_of_texts_that_can_not_be_had(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    zarr_of(folder, 3, np.array(["a", "b"], zarr.dtype.VariableLengthUTF8().to_native_dtype()))
    (key,) = chunk_keys(folder)
    refs = saved(references(folder) | {key: ["http://127.0.0.1:9/a"]}, tmp_path / "refs.json")
    ds = intarsia.open_dataset(refs)
    assert ds.v.shape == (2,)
    with pytest.raises(UnsupportedError, match="of which no size is known"):
        ds.load()


@pytest.mark.parametrize("key", ["v/1/0", "v/1", "v/0.0.0", "v/c/1/0"])
def test_chunks_under_other_keys_are_not_taken_for_unwritten(tmp_path: Path, key: str) -> None:
    ds = intarsia.open_dataset(refs_of_one(tmp_path, **{key: ["/a", 0, 32]}))
    with pytest.raises(UnsupportedError, match="not called as its chunks are"):
        ds.load()


def test_relative_paths_are_below_what_is_said(tmp_path: Path) -> None:
    from virtualizarr.parsers import KerchunkJSONParser

    path = refs_of_one(tmp_path)
    expected = intarsia.open_dataset(path).load()
    told = json.loads(path.read_text())
    refs = told.get("refs", told)
    for key, value in refs.items():
        if isinstance(value, list):
            refs[key] = [os.path.relpath(value[0], tmp_path), *value[1:]]
    path.write_text(json.dumps(told))
    with pytest.raises(UnsupportedError, match=r"relative.*fs_root"):
        intarsia.open_dataset(path).load()
    parser = KerchunkJSONParser(fs_root=f"file://{tmp_path}/")
    assert_identical(intarsia.open_dataset(path, parser=parser).load(), expected)


def test_a_whole_file(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes(np.full(4, 7.0).tobytes())
    ds = intarsia.open_dataset(refs_of_one(tmp_path, **{"v/1.0": [str(raw)]}))
    assert is_virtual(ds, "v")
    assert ds.v.values[2:4].tolist() == [[7, 7], [7, 7]]


def test_parsers_of_others_are_refused_where_they_misplace_chunks(tmp_path: Path) -> None:
    from virtualizarr.parsers import KerchunkJSONParser

    folder = tmp_path / "a.zarr"
    keys = {"name": "v2", "separator": "/"}
    zarr_of(folder, 2, np.ones((4, 4)), chunks=(2, 2), chunk_key_encoding=keys)
    refs = saved(references(folder), tmp_path / "refs.json")
    with pytest.raises(UnsupportedError, match="open it without parser="):
        intarsia.open_dataset(refs, parser=KerchunkJSONParser())


# -- Parquet ---------------------------------------------------------------------------------------


def tables(refs: dict[str, Any], path: Path) -> None:
    from kerchunk.df import refs_to_dataframe

    with warnings.catch_warnings(action="ignore"):  # of pandas, on what kerchunk writes with
        refs_to_dataframe({"refs": refs}, str(path), record_size=4)


TABLES = np.arange(1.0, 21.0).reshape(10, 2)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """References in three tables of four rows each, the last one partly used."""
    folder = tmp_path / "a.zarr"
    zarr_of(folder, 2, TABLES, chunks=(1, 2), compressors=None)
    path = tmp_path / "refs.parquet"
    tables(references(folder, inline=True), path)
    assert sorted(p.name for p in (path / "v").iterdir()) == [f"refs.{n}.parq" for n in range(3)]
    return path


def test_tables(parquet: Path) -> None:
    ds = intarsia.open_dataset(parquet)
    assert ds.v.values.tolist() == TABLES.tolist()


def test_tables_behind_a_server(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "tries", 1)
    with serving() as server:
        for path in parquet.rglob("*"):
            if path.is_file():
                server.put(f"r/{path.relative_to(tmp_path)}", path.read_bytes())
        place = f"{server.url}r/refs.parquet"
        with pytest.raises(UnsupportedError, match="from the network to a file of this machine"):
            intarsia.open_dataset(place).load()
        raw = tmp_path / "raw.bin"
        raw.write_bytes(TABLES.tobytes())
        url = server.put("raw.bin", TABLES.tobytes())
        refs = references(tmp_path / "a.zarr")
        for number in range(10):
            refs[f"v/{number}.0"] = [url, 16 * number, 16]
        there = tmp_path / "there.parquet"
        tables(refs, there)
        for path in there.rglob("*"):
            if path.is_file():
                server.put(f"r/{path.relative_to(tmp_path)}", path.read_bytes())
        ds = intarsia.open_dataset(f"{server.url}r/there.parquet")
        assert ds.v.values.tolist() == TABLES.tolist()
        server.fault = lambda request, answer: (
            Answer(503, {}) if "refs.1" in request.path else answer
        )
        with pytest.raises(SourceUnreadable):
            intarsia.open_dataset(f"{server.url}r/there.parquet")


@pytest.mark.parametrize("how", ["cut short", "other bytes", "empty", "of another", "a folder"])
def test_a_table_that_can_not_be_read_is_never_fill(parquet: Path, how: str) -> None:
    table = parquet / "v" / "refs.1.parq"
    data = table.read_bytes()
    match how:
        case "cut short":
            table.write_bytes(data[:-30])
        case "other bytes":
            table.write_bytes(b"x" * len(data))
        case "empty":
            table.write_bytes(b"")
        case "of another":
            import pandas as pd

            with warnings.catch_warnings(action="ignore"):
                pd.DataFrame({"path": ["/a"], "offset": [0], "size": [16]}).to_parquet(
                    table, engine="fastparquet"
                )
        case _:
            table.unlink()
            table.mkdir()
    with pytest.raises(IntarsiaError, match=r"refs\.1\.parq"):
        intarsia.open_dataset(parquet)


def test_a_table_that_is_not_there_is_told(parquet: Path) -> None:
    (parquet / "v" / "refs.1.parq").unlink()
    ds = intarsia.open_dataset(parquet)
    assert np.isnan(ds.v.values[4:8]).all()
    assert "has no table refs.1.parq: its chunks are taken for never written" in " ".join(
        str(ds.intarsia.report()).split()
    )


def test_metadata_that_are_none(parquet: Path) -> None:
    for text in ("{", "{}", '{"metadata": {}, "record_size": 0}', '{"metadata": 5}'):
        (parquet / ".zmetadata").write_text(text)
        with pytest.raises(FormatError, match=r"refs\.parquet"):
            intarsia.open_dataset(parquet)


# -- folders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("text", [None, "{}", '{"zarr_format": 3, "node_type": "array"}'])
def test_an_array_whose_metadata_are_lost_is_not_passed_over(
    tmp_path: Path, version: Any, text: str | None
) -> None:
    """zarr-python warns and leaves it out; joined with others, its part would be missing values."""
    folder = tmp_path / "a.zarr"
    zarr_of(folder, version, np.arange(6.0), chunks=(2,))
    shutil.copytree(folder / "v", folder / "w")
    metadata = folder / "v" / ("zarr.json" if version == 3 else ".zarray")
    if text is None:
        metadata.unlink()
    else:
        metadata.write_text(text)
    with pytest.raises(FormatError, match=r"metadata.*a\.zarr"):
        intarsia.open_dataset(folder)
    if text is None or (text == "{}") == (version == 2):  # zarr goes on past these
        assert list(intarsia.open_dataset(folder, drop_variables="v").variables) == ["w"]


def test_other_folders_are_no_part_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    zarr_of(folder, 3, np.arange(6.0), chunks=(2,))
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("of no interest")
    assert list(intarsia.open_dataset(folder).variables) == ["v"]


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_whose_metadata_are_lost_in_a_zip_file(tmp_path: Path, version: Any) -> None:
    folder = tmp_path / "a.zarr"
    zarr_of(folder, version, np.arange(6.0), chunks=(2,))
    shutil.copytree(folder / "v", folder / "w")
    for path, lost in ((tmp_path / "whole.zip", ""), (tmp_path / "lost.zip", "w/")):
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(folder.rglob("*")):
                name = str(file.relative_to(folder))
                if file.is_file() and not (lost and name in (f"{lost}.zarray", f"{lost}zarr.json")):
                    archive.write(file, name)
    assert set(intarsia.open_dataset(tmp_path / "whole.zip").variables) == {"v", "w"}
    with pytest.raises(FormatError, match=r"no array that it is of.*lost\.zip"):
        intarsia.open_dataset(tmp_path / "lost.zip")


@pytest.mark.parametrize(
    "told",
    [["{}", -1, 48], ["{}", 0], ["{}", "a", 1], ["{{{{u}}}}{}{{%", 0, 48], ["{}", 0, 48]],
)
def test_what_lets_one_in_is_not_told(tmp_path: Path, told: Any) -> None:
    """URLs in references may be signed, and errors about them are read by others."""
    url = "https://me:s3cret@127.0.0.1:9/a.nc?sig=s3cret"
    refs = zarray_refs()
    refs["v/0"] = [told[0].format(url), *told[1:]]
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs, "templates": {"u": ""}}))
    with pytest.raises(IntarsiaError) as error:
        intarsia.open_dataset(path, mask_and_scale=False).load()
    said = "".join(traceback.format_exception(error.value))
    assert "s3cret" not in said
    assert "refs.json" in said or "127.0.0.1:9/a.nc" in said


def zarray_refs() -> dict[str, Any]:
    array = {"zarr_format": 2, "shape": [12], "chunks": [12], "dtype": "<i4", "order": "C"}
    array |= {"fill_value": None, "filters": None, "compressor": None}
    attrs = json.dumps({"_ARRAY_DIMENSIONS": ["x"]})
    group = json.dumps({"zarr_format": 2})
    return {".zgroup": group, "v/.zarray": json.dumps(array), "v/.zattrs": attrs}
