"""DMR++, by VirtualiZarr's parser: what that passes over in the XML is put right, or refused.

It takes all numbers for little-endian, gives 0 for variables without dimensions, leaves out
filters that it does not know, filters that single chunks skipped, chunks in other files, and
chunks that are told in another way, which then count as never written; of several pieces of one
chunk it takes the last for all of it, and of a dimension that a variable has twice only one; and it
drops variables that it can't describe, with a warning. XML of other names has nothing for it.

Attributes lose their types with it, on which decoding depends, and some texts; those of types that
it does not know end it. They are read here.
"""

# The parser is looked at by its attributes.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from intarsia.errors import FormatError, UnsupportedError
from intarsia.io.files import opened_file
from intarsia.references import ABSENT
from intarsia.scan.zarr.described import Described, grid_of
from intarsia.scan.zarr.manifests import Manifest
from intarsia.scan.zarr.parsers.here import is_called_here
from intarsia.scan.zarr.places import Places, url_of

__all__ = ["SUFFIX", "completed", "mend"]

SUFFIX = ".dmrpp"
"""Of the name that is otherwise that of the data."""

DAP = "{http://xml.opendap.org/ns/DAP/4.0#}"
OURS = "{http://xml.opendap.org/dap/dmrpp/1.0.0#}"

TYPES = {
    **{name: np.dtype(name.lower()) for name in ("Int8", "Int16", "Int32", "Int64")},
    **{name: np.dtype(name.lower()) for name in ("UInt8", "UInt16", "UInt32", "UInt64")},
    "Float32": np.dtype("f4"),
    "Float64": np.dtype("f8"),
    "Byte": np.dtype("u1"),
    "UByte": np.dtype("u1"),
}
"""Types of DAP; all others are objects here."""

NO_VARIABLES = frozenset(["Dimension", "Attribute", "Group", "Enumeration", "Map"])

REMEDY = "open the file itself"

FILTERS = frozenset(["shuffle", "deflate"])
"""Those that the parser knows."""

CHECKSUM = "fletcher32"
"""One that it does not know, which comes last."""


POSITION = "chunkPositionInArray"

WHOLE = "HDF5_GLOBAL"
"""A container of attributes that are those of the group."""

type Dims = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and lengths."""


def mend() -> None:
    """Have the parser leave out attributes, when it is called from here.

    Raises
    ------
    ImportError
        If VirtualiZarr, or what it needs, is not installed.
    """
    module: Any = importlib.import_module("virtualizarr.parsers.dmrpp")
    parse = module.DMRParser._parse_attribute
    if not isinstance(parse, _Unread):
        module.DMRParser._parse_attribute = _Unread(parse)


class _Unread:
    """A method of the parser that reads an attribute, and leaves it to us."""

    def __init__(self, parse: Any) -> None:
        self._parse = parse

    def __get__(self, parser: Any, kind: Any = None) -> Any:
        return self if parser is None else partial(self, parser)

    def __call__(self, parser: Any, element: Element) -> dict[str, Any]:
        return {} if is_called_here() else self._parse(parser, element)


def completed(
    found: Mapping[str, Described],
    places: Places,
    inside: tuple[str, ...],
    dropped: Collection[str] = (),
) -> tuple[dict[str, Described], dict[str, Any]]:
    """The variables and attributes of a group as the XML has them.

    Parameters
    ----------
    found
        What the parser gives.
    places
        Where the XML is.
    inside
        Path of the group.
    dropped
        Names of variables that are left out.

    Raises
    ------
    UnsupportedError
        If the XML is not called as it has to be.
    FormatError
        If it is of something else, or has attributes that make no sense.
    """
    if not places.place.endswith(SUFFIX):
        raise UnsupportedError(
            f"the name of DMR++ is that of its data and {SUFFIX}, which tells where they are",
            url=places.place,
        )
    with opened_file(places.place, places.access) as file:
        root = ElementTree.fromstring(bytes(file.read(0, file.source.size)))
    if root.tag != f"{DAP}Dataset":
        raise FormatError(f"its XML is of {root.tag!r}, and not of a Dataset of DAP 4")
    group = _group(root, inside)
    elements = dict(_variables(group))
    dims = _dims(elements, root)
    every: dict[str, Described] = {}
    for name in [*found, *(name for name in elements if name not in found)]:
        if name in dropped:
            continue
        if name not in elements:
            every[name] = found[name]
            continue
        element, (names, shape) = elements[name], dims[name]
        one = found.get(name)
        if one is None or one.shape != shape:
            one = _lost(element, names, shape)
        else:
            one = _checked(replace(one, dims=names), element, places)
        every[name] = replace(one, attrs=_attributes(element, f"{name}:"))
    attrs: dict[str, Any] = {}
    for whole in group.findall(f"{DAP}Attribute[@name='{WHOLE}']"):
        attrs |= _attributes(whole, "")
    return every, _attributes(group, "") | attrs


def _group(root: Element, inside: Iterable[str]) -> Element:
    """The group at a path; the last that is there, as the parser passes over what is asked for."""
    for name in inside:
        groups = (one for one in root.findall(f"{DAP}Group") if one.get("name") == name)
        root = next(groups, root)
    return root


def _variables(group: Element) -> Iterator[tuple[str, Element]]:
    for element in group:
        kind, name = element.tag.removeprefix(DAP), element.get("name")
        if name and element.tag.startswith(DAP) and kind not in NO_VARIABLES:
            yield name, element


def _attributes(element: Element, where: str) -> dict[str, Any]:
    """Attributes in the types that the XML says, like those of the file itself."""
    attrs: dict[str, Any] = {}
    for one in element.findall(f"{DAP}Attribute"):
        name, kind = one.get("name"), one.get("type", "String")
        if name is None or kind in ("Container", "OtherXML"):
            continue
        texts = [inner.text or inner.get("value", "") for inner in one.findall(f"{DAP}Value")]
        dtype = TYPES.get(kind)
        if dtype is None:
            attrs[name] = texts[0] if len(texts) == 1 else texts
            continue
        try:
            values = [_number(text, dtype) for text in texts]
        except (ValueError, OverflowError) as error:
            raise FormatError(
                f"the attribute {where}{name} is {texts}, and said to be of the type {kind}"
            ) from error
        attrs[name] = values[0] if len(values) == 1 else np.array(values, dtype)
    return attrs


def _number(text: str, dtype: np.dtype[Any]) -> Any:
    """A number as it is told; a star stands for none."""
    return dtype.type("nan" if text.strip() == "*" and dtype.kind == "f" else text)


def _dims(elements: Mapping[str, Element], root: Element) -> dict[str, Dims]:
    """Dimensions of each variable; those without a name are numbered by their place in it.

    Where the same number would stand for several lengths, lengths have numbers instead.
    """
    told = {name: _told_dims(element, root) for name, element in elements.items()}
    unnamed = {
        (number, size)
        for dims in told.values()
        for number, (name, size) in enumerate(dims)
        if name is None
    }
    clear = len(unnamed) == len({number for number, _ in unnamed})
    lengths: list[int] = []
    result: dict[str, Dims] = {}
    for variable, dims in told.items():
        names: list[str] = []
        taken: set[int] = set()
        for number, (name, size) in enumerate(dims):
            if name is None and not clear:
                free = (n for n, one in enumerate(lengths) if one == size and n not in taken)
                number = next(free, len(lengths))
                if number == len(lengths):
                    lengths.append(size)
                taken.add(number)
            names.append(f"phony_dim_{number}" if name is None else name)
        result[variable] = tuple(names), tuple(size for _, size in dims)
    return result


def _told_dims(element: Element, root: Element) -> list[tuple[str | None, int]]:
    """Names, or None, and lengths of a variable's dimensions."""
    found: list[tuple[str | None, int]] = []
    for dim in element.findall(f"{DAP}Dimension") or element.findall(f"{DAP}Dim"):
        name, size = dim.get("name"), dim.get("size")
        length = int(size) if size else _length(root, name or "")
        found.append((name.rpartition("/")[2] if name else None, length))
    return found


def _checked(one: Described, element: Element, places: Places) -> Described:
    """A variable of the parser, with what it passed over."""
    if one.fault is not None:
        return one
    chunks = element.find(f"{OURS}chunks")
    reason = _beyond(element)
    if chunks is None or reason is not None:
        return _refused(one, reason or "its values are told in no way that the parser knows")
    reason = _misplaced(chunks.findall(f"{OURS}chunk"), one)
    if reason is not None:
        return _refused(one, reason)
    if not one.shape:
        one = _scalar(one, chunks, places)
    if (one.manifest.states == ABSENT).any() and chunks.get("fillValue") is None:
        return _refused(one, "it has chunks that were never written, and no fill value is told")
    if (chunks.get("compressionType") or "").split()[-1:] == [CHECKSUM]:
        one = replace(one, codecs=[*one.codecs, {"name": f"numcodecs.{CHECKSUM}"}])
    return _ordered(one, chunks.get("byteOrder", "LE"))


def _misplaced(chunks: list[Element], one: Described) -> str | None:
    """What is wrong with the places of chunks, in words."""
    texts = [chunk.get(POSITION) for chunk in chunks]
    if texts == [None] and prod(grid_of(one.shape, one.chunks)) == 1:
        return None
    if None in texts or (chunks and not one.shape):
        return "its values are told in pieces, and not where they belong"
    if not chunks:
        return None
    places = np.array([[int(n) for n in (text or "").strip("[] ").split(",")] for text in texts])
    if (places % one.chunks).any():
        return "some of its chunks are not where chunks of their size begin"
    if len(np.unique(places, axis=0)) < len(places):
        return "some of its chunks are told in several pieces"
    return None


def _refused(one: Described, reason: str) -> Described:
    fault = UnsupportedError(reason, remedy=REMEDY)
    return Described.faulty(one.dims, one.attrs, one.shape, one.data_type, fault)


def _beyond(element: Element) -> str | None:
    """What of a variable no manifest of the parser has, in words."""
    for inner in element:
        tag = inner.tag.removeprefix(OURS)
        if inner.tag.startswith(OURS) and tag != "chunks":
            return f"its values are told by dmrpp:{tag}"
    chunks = element.find(f"{OURS}chunks")
    return None if chunks is None else _beyond_chunks(chunks)


def _beyond_chunks(chunks: Element) -> str | None:
    """What of its chunks no manifest of the parser has, in words."""
    filters = (chunks.get("compressionType") or "").split()
    if filters[-1:] == [CHECKSUM]:
        filters.pop()
    unknown = [name for name in filters if name not in FILTERS]
    if unknown:
        return f"it is stored with the filter {unknown[0]}"
    for inner in chunks:
        tag = inner.tag.removeprefix(OURS)
        if tag not in ("chunk", "chunkDimensionSizes"):
            return f"its chunks are told by dmrpp:{tag}"
        if inner.get("filterMask", "0") != "0":
            return "some of its chunks skip filters"
        if inner.get("href") is not None or inner.get(f"{OURS}href") is not None:
            return "some of its chunks lie in other files"
    return None


def _scalar(one: Described, chunks: Element, places: Places) -> Described:
    """A variable without dimensions, with the one chunk that the parser passes over."""
    told = chunks.findall(f"{OURS}chunk")
    if not told:
        return one
    path = url_of(places.place).removesuffix(SUFFIX)
    number = places.numbers(np.array([path], object), np.array([True]))
    offset, length = (np.array([int(told[0].get(name, "0"))]) for name in ("offset", "nBytes"))
    return replace(one, manifest=Manifest.of((), number, offset, length, {}))


def _ordered(one: Described, order: str) -> Described:
    """The array in a byte order."""
    if order == "LE" or one.dtype.itemsize == 1:
        return one
    if order != "BE":
        return _refused(one, f"the order of its bytes is {order!r}")
    codecs = [
        {**codec, "configuration": {"endian": "big"}} if codec.get("name") == "bytes" else codec
        for codec in one.codecs
    ]
    return replace(one, codecs=codecs)


def _lost(element: Element, dims: tuple[str, ...], shape: tuple[int, ...]) -> Described:
    """A variable that the parser drops: reading it is refused, if any value of it is stored."""
    kind = element.tag.removeprefix(DAP)
    dtype = TYPES.get(kind)
    fill = None if dtype is None else _fill(element, dtype, prod(shape))
    reason = _beyond(element)
    if reason is None and len(set(dims)) < len(dims):
        reason = "it has a dimension twice"
    if reason is None and fill is None:
        reason = f"the parser can't describe it, which is of the type {kind}"
    chunks = tuple(max(size, 1) for size in shape)
    nothing = np.zeros(grid_of(shape, chunks), np.int64).reshape(-1)
    return Described(
        dims,
        {},
        shape,
        chunks,
        np.dtype(object) if dtype is None else dtype,
        None,
        [{"name": "bytes", "configuration": {"endian": "little"}}],
        fill,
        Manifest.of(grid_of(shape, chunks), nothing - 1, nothing, nothing, {}),
        fault=None if reason is None else UnsupportedError(reason, remedy=REMEDY),
    )


def _fill(element: Element, dtype: np.dtype[Any], count: int) -> Any:
    """What all values are where none is stored; None where some are, or it is not told."""
    chunks = element.find(f"{OURS}chunks")
    if not count:
        return dtype.type(0)
    if chunks is None or chunks.find(f"{OURS}chunk") is not None:
        return None
    try:
        return _number(chunks.get("fillValue", ""), dtype)
    except (ValueError, OverflowError):
        return None


def _length(root: Element, name: str) -> int:
    """Length of the dimension of a name, which holds the path of its group."""
    *inside, last = [part for part in name.split("/") if part]
    for one in _group(root, inside).findall(f"{DAP}Dimension"):
        if one.get("name") == last:
            return int(one.get("size", ""))
    raise FormatError(f"there is no dimension {name!r}")
