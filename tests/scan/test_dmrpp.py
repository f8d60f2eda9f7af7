"""DMR++: what VirtualiZarr's parser passes over in the XML is read, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import UnsupportedError, UnsupportedVariable
from tests.check import is_virtual

VALUES = np.arange(24).reshape(4, 6) / 4

HEAD = """<?xml version="1.0" encoding="ISO-8859-1"?>
<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#" name="a.h5" dapVersion="4.0"
    xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#">
  <Dimension name="y" size="4"/>
  <Dimension name="x" size="6"/>
  <Enumeration name="kinds" basetype="Byte"><EnumConst name="a" value="0"/></Enumeration>
"""

VARIABLE = """
  <{kind} name="{name}">
    {dims}
    <Attribute name="units" type="String"><Value>K</Value></Attribute>
    {content}
  </{kind}>
"""
DIMS = '<Dim name="/y"/><Dim name="/x"/>'
SIZES = "<dmrpp:chunkDimensionSizes>2 6</dmrpp:chunkDimensionSizes>"


def chunks_of(dataset: h5py.Dataset, **more: str) -> str:
    """The chunks of a dataset, as they are told in the XML."""
    found: list[str] = []
    for number in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(number)
        told = {"offset": info.byte_offset, "nBytes": info.size, **more}
        told["chunkPositionInArray"] = f"[{','.join(map(str, info.chunk_offset))}]"
        found.append(f"<dmrpp:chunk {' '.join(f'{k}="{v}"' for k, v in told.items())}/>")
    return "".join(found)


def opened(folder: Path, *variables: str, name: str = "a.h5.dmrpp", **arguments: Any) -> xr.Dataset:
    path = folder / name
    path.write_text(HEAD + "".join(variables) + "</Dataset>")
    return intarsia.open_dataset(path, **arguments)


def variable(content: str, name: str = "v", kind: str = "Float32", dims: str = DIMS) -> str:
    return VARIABLE.format(name=name, kind=kind, dims=dims, content=content)


def told(chunks: str, **attributes: str) -> str:
    attributes = {"fillValue": "0", "byteOrder": "LE"} | attributes
    said = " ".join(f'{name}="{value}"' for name, value in attributes.items() if value)
    return f"<dmrpp:chunks {said}>{SIZES}{chunks}</dmrpp:chunks>"


def made(folder: Path, dtype: str = "<f4", **options: Any) -> h5py.File:
    file = h5py.File(folder / "a.h5", "w")
    file.create_dataset("v", data=VALUES.astype(dtype), chunks=(2, 6), **options)
    return file


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
@pytest.mark.parametrize("kind", ["", "deflate", "shuffle deflate fletcher32", "fletcher32"])
def test_numbers_have_their_byte_order(tmp_path: Path, dtype: str, kind: str) -> None:
    options: dict[str, Any] = {"shuffle": "shuffle" in kind, "fletcher32": "fletcher32" in kind}
    options["compression"] = "gzip" if "deflate" in kind else None
    with made(tmp_path, dtype, **options) as file:
        chunks = chunks_of(file["v"])
    order = "BE" if dtype[0] == ">" else "LE"
    ds = opened(tmp_path, variable(told(chunks, byteOrder=order, compressionType=kind)))
    assert is_virtual(ds, "v")
    assert ds.v.values.tolist() == VALUES.tolist()
    ds.intarsia.save(tmp_path / "s.intarsia")
    assert intarsia.open_dataset(tmp_path / "s.intarsia").v.values.tolist() == VALUES.tolist()


def test_one_number(tmp_path: Path) -> None:
    """The parser gives 0."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s"] = np.int32(7)
        offset = file["s"].id.get_offset()
    chunk = f'<dmrpp:chunk offset="{offset}" nBytes="4"/>'
    content = f'<dmrpp:chunks fillValue="0" byteOrder="LE">{chunk}</dmrpp:chunks>'
    ds = opened(tmp_path, variable(content, "s", "Int32", ""))
    assert ds.s.values == 7


def test_what_was_never_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        v = file.create_dataset("v", (4, 6), "<f4", chunks=(2, 6), fillvalue=9)
        v[:2] = VALUES[:2]
        chunks = chunks_of(v)
    expected = np.where(np.arange(4)[:, None] < 2, VALUES, 9)
    ds = opened(tmp_path, variable(told(chunks, fillValue="9")))
    assert ds.v.values.tolist() == expected.tolist()
    ds = opened(tmp_path, variable(told(chunks, fillValue="")))
    refused(ds, "no fill value is told")


def refused(ds: xr.Dataset, match: str, shape: tuple[int, ...] = (4, 6)) -> None:
    assert ds.v.shape == shape
    with pytest.raises(UnsupportedVariable, match=rf"{match}.*'v' in .*a\.h5\.dmrpp"):
        ds.v.load()


@pytest.mark.parametrize(
    ("attributes", "chunk", "match"),
    [
        ({"compressionType": "fletcher32 deflate"}, {}, "the filter fletcher32"),
        ({"compressionType": "shuffle zstd"}, {}, "the filter zstd"),
        ({}, {"filterMask": "1"}, "skip filters"),
        ({}, {"href": "other.h5"}, "in other files"),
        ({}, {"dmrpp:href": "other.h5"}, "in other files"),
        ({"byteOrder": "PDP"}, {}, "order of its bytes"),
    ],
)
def test_what_the_parser_does_not_look_at(
    tmp_path: Path, attributes: dict[str, str], chunk: dict[str, str], match: str
) -> None:
    with made(tmp_path) as file:
        chunks = chunks_of(file["v"], **chunk)
    refused(opened(tmp_path, variable(told(chunks, **attributes))), match)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("<dmrpp:compact>AAAA</dmrpp:compact>", "told by dmrpp:compact"),
        (told("<dmrpp:block offset='0' nBytes='9'/>"), "told by dmrpp:block"),
        ("", "can't describe it"),
    ],
)
def test_what_the_parser_drops_or_fills(tmp_path: Path, content: str, match: str) -> None:
    refused(opened(tmp_path, variable(content)), match)


@pytest.mark.parametrize("kind", ["String", "Enum", "Char"])
def test_other_types_are_there(tmp_path: Path, kind: str) -> None:
    ds = opened(tmp_path, variable("<dmrpp:vlen/>", kind=kind))
    refused(ds, "told by dmrpp:vlen")
    ds = opened(tmp_path, variable("<dmrpp:vlen/>", kind=kind), drop_variables="v")
    assert "v" not in ds


def test_its_name_tells_its_data(tmp_path: Path) -> None:
    """Otherwise the parser takes the XML itself for the data."""
    with made(tmp_path) as file:
        chunks = chunks_of(file["v"])
    with pytest.raises(UnsupportedError, match=r"name of DMR\+\+ .*a\.h5\.dmrpp\.xml"):
        opened(tmp_path, variable(told(chunks)), name="a.h5.dmrpp.xml")
