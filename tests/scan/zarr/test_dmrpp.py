"""DMR++: what VirtualiZarr's parser passes over in the XML is read, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia.errors import FormatError, UnsupportedError, UnsupportedVariable
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


def attribute(name: str, kind: str, *values: str) -> str:
    inner = "".join(f"<Value>{value}</Value>" for value in values)
    return f'<Attribute name="{name}" type="{kind}">{inner}</Attribute>'


def plain(folder: Path, attributes: str, dims: str = DIMS, **more: Any) -> xr.Dataset:
    with made(folder) as file:
        chunks = chunks_of(file["v"])
    return opened(folder, variable(attributes + told(chunks), dims=dims), **more)


def test_attributes_have_their_types(tmp_path: Path) -> None:
    """The parser makes every float one of 64 bits, by which other values are unpacked."""
    packing = attribute("scale_factor", "Float32", "0.01") + attribute("_FillValue", "Float32", "1")
    ds = plain(tmp_path, packing)
    assert ds.v.dtype == "f4"
    expected = xr.Variable(("y", "x"), VALUES.astype("f4"))
    expected.attrs = {"scale_factor": np.float32(0.01), "_FillValue": np.float32(1)}
    expected = xr.decode_cf(xr.Dataset({"v": expected})).v
    np.testing.assert_array_equal(ds.v.values, expected.values)


@pytest.mark.parametrize(
    ("told_as", "expected"),
    [
        (attribute("a", "String", ""), ""),
        (attribute("a", "String", "*"), "*"),
        (attribute("a", "String", "x", "y"), ["x", "y"]),
        (attribute("a", "Char", "c"), "c"),
        (attribute("a", "Byte", "255"), np.uint8(255)),
        (attribute("a", "UInt64", str(2**64 - 1)), np.uint64(2**64 - 1)),
        ('<Attribute name="a" type="Int16"><Value value="5"/></Attribute>', np.int16(5)),
    ],
)
def test_attributes_of_every_type(tmp_path: Path, told_as: str, expected: object) -> None:
    """The parser has none for an empty text, NaN for a star, and ends at Char."""
    ds = plain(tmp_path, told_as)
    assert ds.v.attrs["a"] == expected
    assert type(ds.v.attrs["a"]) is type(expected)
    container = f'<Attribute name="HDF5_GLOBAL" type="Container">{told_as}</Attribute>'
    for whole in (told_as, container):
        assert opened(tmp_path, whole).attrs == {"a": expected}
    ds = plain(tmp_path, attribute("a", "Int8", "1", "2"))
    assert (ds.v.attrs["a"].dtype, ds.v.attrs["a"].tolist()) == ("i1", [1, 2])


def test_an_attribute_that_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"attribute v:a is \['300'\].*Int8.*a\.h5\.dmrpp"):
        plain(tmp_path, attribute("a", "Int8", "300"))
    assert "v" not in plain(tmp_path, attribute("a", "Int8", "300"), drop_variables="v")


def test_one_chunk_in_several_pieces(tmp_path: Path) -> None:
    """Linked blocks of HDF4; the parser takes the last for the whole."""
    with made(tmp_path) as file:
        chunks = chunks_of(file["v"])
    refused(opened(tmp_path, variable(told(chunks + chunks))), "several pieces")
    moved = chunks.replace("[2,0]", "[1,0]")
    refused(opened(tmp_path, variable(told(moved))), "not where chunks of their size begin")
    nowhere = chunks.replace(' chunkPositionInArray="[2,0]"', "")
    refused(opened(tmp_path, variable(told(nowhere))), "not where they belong")


@pytest.mark.filterwarnings("ignore:Duplicate dimension names:UserWarning")
def test_a_dimension_that_is_there_twice(tmp_path: Path) -> None:
    """The parser has it once."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.zeros((4, 4), "f4")
        offset = file["v"].id.get_offset()
    content = f'<dmrpp:chunks fillValue="0"><dmrpp:chunk offset="{offset}" nBytes="64"/>'
    twice = variable(content + "</dmrpp:chunks>", dims='<Dim name="/y"/><Dim name="/y"/>')
    refused(opened(tmp_path, twice), "a dimension twice", (4, 4))


def test_dimensions_without_names(tmp_path: Path) -> None:
    """They are numbered by their places, and by their lengths where those differ."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = VALUES.astype("f4")
        offset = file["v"].id.get_offset()

    def of(name: str, *sizes: int) -> str:
        count = 4 * int(np.prod(sizes))
        chunk = f'<dmrpp:chunk offset="{offset}" nBytes="{count}"/>'
        content = f'<dmrpp:chunks fillValue="0">{chunk}</dmrpp:chunks>'
        return variable(content, name, dims="".join(f'<Dim size="{size}"/>' for size in sizes))

    ds = opened(tmp_path, of("v", 4, 6), of("w", 4))
    assert (ds.v.dims, ds.w.dims) == (("phony_dim_0", "phony_dim_1"), ("phony_dim_0",))
    ds = opened(tmp_path, of("w", 6), of("v", 4, 6), of("u", 4, 4))
    assert (ds.w.dims, ds.v.dims) == (("phony_dim_0",), ("phony_dim_1", "phony_dim_0"))
    assert ds.u.dims == ("phony_dim_1", "phony_dim_2")
    np.testing.assert_array_equal(ds.v.values, VALUES)
    np.testing.assert_array_equal(ds.w.values, VALUES.ravel()[:6])


def test_nothing_stored(tmp_path: Path) -> None:
    """The parser drops what has no chunks, and what has no elements."""
    (tmp_path / "a.h5").write_bytes(b"")
    ds = opened(tmp_path, variable(told("", fillValue="9")))
    assert ds.v.values.tolist() == [[9] * 6] * 4
    ds = opened(tmp_path, variable(told(""), kind="Int16", dims='<Dim size="0"/><Dim name="/x"/>'))
    assert (ds.v.shape, ds.v.dtype, ds.v.values.size) == ((0, 6), "i2", 0)


def test_xml_of_something_else(tmp_path: Path) -> None:
    """The parser finds nothing in it."""
    (tmp_path / "a.h5.dmrpp").write_text(HEAD.replace("DAP/4.0", "DAP/3.2") + "</Dataset>")
    with pytest.raises(FormatError, match=r"DAP/3\.2.*not of a Dataset of DAP 4.*a\.h5\.dmrpp"):
        intarsia.open_dataset(tmp_path / "a.h5.dmrpp")


def test_for_others_the_parser_does_what_it_did(tmp_path: Path) -> None:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import DMRPPParser

    plain(tmp_path, attribute("a", "Float32", "0.5"))
    registry = ObjectStoreRegistry({"file://": LocalStore("/")})
    store = DMRPPParser()(url=f"file://{tmp_path}/a.h5.dmrpp", registry=registry)
    assert store._group.arrays["v"].metadata.attributes["a"] == 0.5
