"""DMR++, by VirtualiZarr's parser: what that passes over in the XML is put right, or refused.

It takes all numbers for little-endian, gives 0 for variables without dimensions, leaves out
filters that it does not know, filters that single chunks skipped, chunks in other files, and
chunks that are told in another way, which then count as never written; and it drops variables that
it can't describe, with a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from intarsia.errors import FormatError, UnsupportedError
from intarsia.io.files import opened_file
from intarsia.references import ABSENT
from intarsia.scan.manifests import Manifest
from intarsia.scan.virtualizarr_described import Described
from intarsia.scan.virtualizarr_places import Places, url_of

__all__ = ["SUFFIX", "completed"]

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


def completed(
    found: Mapping[str, Described],
    places: Places,
    inside: tuple[str, ...],
    dropped: Collection[str] = (),
) -> dict[str, Described]:
    """The variables of a group as the XML has them.

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
    """
    if not places.place.endswith(SUFFIX):
        raise UnsupportedError(
            f"the name of DMR++ is that of its data and {SUFFIX}, which tells where they are",
            url=places.place,
        )
    with opened_file(places.place, places.access) as file:
        root = ElementTree.fromstring(bytes(file.read(0, file.source.size)))
    elements = dict(_variables(_group(root, inside)))
    every = {
        name: _checked(one, elements[name], places) if name in elements else one
        for name, one in found.items()
    }
    for name, element in elements.items():
        if name not in every and name not in dropped:
            every[name] = _lost(element, root)
    return every


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


def _checked(one: Described, element: Element, places: Places) -> Described:
    """A variable of the parser, with what it passed over."""
    if one.fault is not None:
        return one
    chunks = element.find(f"{OURS}chunks")
    reason = _beyond(element)
    if chunks is None or reason is not None:
        return _refused(one, reason or "its values are told in no way that the parser knows")
    if not one.shape:
        one = _scalar(one, chunks, places)
    if (one.manifest.states == ABSENT).any() and chunks.get("fillValue") is None:
        return _refused(one, "it has chunks that were never written, and no fill value is told")
    if (chunks.get("compressionType") or "").split()[-1:] == [CHECKSUM]:
        one = replace(one, codecs=[*one.codecs, {"name": f"numcodecs.{CHECKSUM}"}])
    return _ordered(one, chunks.get("byteOrder", "LE"))


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


def _lost(element: Element, root: Element) -> Described:
    """A variable that the parser drops: it is there, and reading it is refused."""
    kind = element.tag.removeprefix(DAP)
    dims: list[str] = []
    shape: list[int] = []
    for number, dim in enumerate(element.findall(f"{DAP}Dim")):
        name, size = dim.get("name"), dim.get("size")
        dims.append(name.rpartition("/")[2] if name else f"phony_dim_{number}")
        shape.append(int(size) if size else _length(root, name or ""))
    reason = _beyond(element) or f"the parser can't describe it, which is of the type {kind}"
    nothing = np.zeros((0,) * len(shape), np.int64)
    return Described(
        tuple(dims),
        {},
        tuple(shape),
        tuple(shape),
        TYPES.get(kind, np.dtype(object)),
        None,
        [],
        None,
        Manifest(nothing, nothing, nothing, nothing),
        fault=UnsupportedError(reason, remedy=REMEDY),
    )


def _length(root: Element, name: str) -> int:
    """Length of the dimension of a name, which holds the path of its group."""
    *inside, last = [part for part in name.split("/") if part]
    for one in _group(root, inside).findall(f"{DAP}Dimension"):
        if one.get("name") == last:
            return int(one.get("size", ""))
    raise FormatError(f"there is no dimension {name!r}")
