"""Scanning through parsers of VirtualiZarr's kind: what gives a store of manifests is read as ours.

A parser is called as ``parser(url=..., registry=...)`` and gives a ``ManifestStore``: Zarr metadata
and, for each chunk, a path, an offset and a length. Nothing is read through it. Dimensions and
attributes are those that xarray gives of that store; values are decoded by the array's own codecs.
"""

# Manifests are objects of others, looked at by their attributes.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from intarsia.codecs.zarr_chain import metadata_json, quietly
from intarsia.errors import (
    FormatError,
    IntarsiaError,
    UnsupportedError,
)
from intarsia.io.access import Way
from intarsia.io.files import opened_file
from intarsia.references import Access, Source, Sources
from intarsia.scan.protocol import Scanned, ScannedVariable
from intarsia.scan.zarr.arrays import array_of
from intarsia.scan.zarr.described import Described, described
from intarsia.scan.zarr.folder import FolderObjects, zarr_folder
from intarsia.scan.zarr.formats import (
    DMRPP,
    FITS,
    HDF4,
    KERCHUNK,
    PARQUET,
    ZARR,
    Format,
    default_parser,
    folder_format,
    format_of_parser,
)
from intarsia.scan.zarr.groups import Objects, ZarrGroup, describe
from intarsia.scan.zarr.kerchunk import kerchunk_refs
from intarsia.scan.zarr.parsers.calling import (
    Parser,
    called,
    line_of,
    notes_of,
    told_as_ours,
    without,
)
from intarsia.scan.zarr.parsers.dmrpp import completed
from intarsia.scan.zarr.parsers.fits import unscaled
from intarsia.scan.zarr.parsers.hdf4 import check_place, without_holes
from intarsia.scan.zarr.parsers.tiff_images import AXIS, Cut
from intarsia.scan.zarr.places import Places
from intarsia.scan.zarr.version_2 import Version2, version_2

__all__ = ["adopt", "scan", "scan_groups"]


def scan(
    place: str,
    *,
    access: Access | Way | None = None,
    parser: Parser | None = None,
    found: Format | None = None,
    pinned: Source | None = None,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: str = "",
) -> Scanned:
    """Scan one group of what a parser reads.

    Parameters
    ----------
    place
        Absolute path, or URL.
    access
        How a URL is reached.
    parser
        That of the format by default.
    found, pinned
        The format, and what pins the place, where they are known already.
    group, drop_variables, choices
        As for `intarsia.scan.hdf5.scan`.
    phony_dims
        Refused: it is for HDF5.

    Raises
    ------
    SourceError
        What is to be parsed can't be had.
    FormatError
        The parser can't read it, or what it gives is no dataset, or has no such group.
    UnsupportedError
        A package is lacking, or the parser says that it can't do this.
    """
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables)
    places = Places(place, access, pinned)
    parsed = _parsed(places, parser, found, group, phony_dims, dropped, deep=False)
    where = _parts(group)
    scanned = parsed.group(where, parsed.find(where), dropped, choices)
    parsed.finish()
    return scanned


def scan_groups(
    place: str,
    *,
    access: Access | Way | None = None,
    parser: Parser | None = None,
    found: Format | None = None,
    pinned: Source | None = None,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: Callable[[str], str] = lambda _: "",
) -> dict[str, Scanned]:
    """Scan a group of what a parser reads, and all groups in it; see `scan`.

    Returns
    -------
    dict
        By absolute path, each group before those in it.
    """
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables)
    places = Places(place, access, pinned)
    parsed = _parsed(places, parser, found, group, phony_dims, dropped, deep=True)
    top = _parts(group)
    scanned = {
        "/" + "/".join(where): parsed.group(where, node, dropped, choices("/" + "/".join(where)))
        for where, node in _below(top, parsed.find(top))
    }
    parsed.finish()
    return scanned


def adopt(
    arrays: Mapping[str, tuple[Sequence[str], Mapping[str, Any], Any]],
    *,
    access: Callable[[str], Access | None],
    notes: Sequence[str] = (),
    choices: str = "",
) -> tuple[Sources, dict[str, ScannedVariable]]:
    """Variables of manifests that are in memory.

    Parameters
    ----------
    arrays
        For each name its dimensions, attributes, and ``ManifestArray``.
    access
        Gives how a URL is reached.
    notes
        Remarks for each array.
    choices
        As for `scan`.
    """
    places = Places("", access)
    found: dict[str, Described] = {}
    sizes: dict[str, int] = {}
    for name, (dims, attrs, array) in arrays.items():
        with _located("a dataset of VirtualiZarr", name):
            found[name] = described(array, places, dims=dims, attributes=attrs)
            _check_dims(found[name], sizes)
    sources = places.sources(choices)
    remarks = [*notes, *places.notes()]
    return sources, {
        name: ScannedVariable(
            one.dims, array_of(name, one, sources, remarks), one.attrs, _encoding(one), one.native
        )
        for name, one in found.items()
    }


def _encoding(one: Described) -> dict[str, Any]:
    return {"dtype": one.dtype} if one.dtype.kind == "T" else {}


def _parts(group: str | None) -> tuple[str, ...]:
    return tuple(name for name in (group or "").split("/") if name)


def _below(where: tuple[str, ...], node: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield where, node
    for name, child in node.groups.items():
        yield from _below((*where, *_parts(name)), child)


@dataclass(slots=True)
class Parsed:
    """What a parser gave of one place."""

    place: str
    root: Any
    format: Format | None
    places: Places
    version_2: Version2 | None
    objects: Objects | None
    """Of a Zarr hierarchy that is scanned here; None where a parser gave manifests."""
    notes: tuple[str, ...]
    own: tuple[str, ...]
    """The group that the parser was told; its root is that."""
    at: tuple[str, ...]
    """The path of its root for who asks: that group, or nothing."""

    def find(self, where: tuple[str, ...]) -> Any:
        """The group at a path."""
        node = self.root
        for name in where[len(self.at) :]:
            if name not in node.groups:
                raise FormatError(f"there is no group {'/'.join(where)!r}", url=self.place)
            node = node.groups[name]
        return node

    def finish(self) -> None:
        """Look once more at what else was taken to be as it was when it was read.

        Raises
        ------
        SourceChanged
            If it is not.
        """
        if self.objects is not None:
            self.objects.finish()

    def group(self, where: tuple[str, ...], node: Any, dropped: set[str], choices: str) -> Scanned:
        """One group as xarray's store for Zarr gives it."""
        inside = (*self.own, *where[len(self.at) :])  # in the file
        sizes: dict[str, int] = {}
        found: dict[str, Described] = {}
        lost: dict[str, str] = node.lost if isinstance(node, ZarrGroup) else {}
        for name, reason in lost.items():
            if name not in dropped:
                raise FormatError(
                    reason, url=self.place, array=name, remedy="drop it with drop_variables="
                )
        for name, array in node.arrays.items():
            if name in dropped:
                continue
            with _located(self.place, name):
                found[name] = self._described(array, inside, name)
                if self.format is not DMRPP:
                    _check_dims(found[name], sizes)
        told: dict[str, Any] = {}
        if self.format is DMRPP:
            with _located(self.place, None):
                found, told = completed(found, self.places, inside, dropped)
                for one in found.values():
                    _check_dims(one, sizes)
        sources = self.places.sources(choices)
        notes = [*self.notes, *self.places.notes()]
        variables: dict[str, ScannedVariable] = {}
        for name, one in found.items():
            with _located(self.place, name):
                data = array_of(name, one, sources, notes)
            encoding = _encoding(one)
            variables[name] = ScannedVariable(one.dims, data, one.attrs, encoding, one.native)
        if isinstance(node, ZarrGroup):
            attrs = node.attributes
        elif self.format is DMRPP or node.metadata is None:
            attrs = told
        else:
            attrs = metadata_json(node.metadata).get("attributes") or {}
        attrs = {key: value for key, value in attrs.items() if not key.lower().startswith("_nc")}
        path = "/" + "/".join(where)
        return Scanned(sources, variables, attrs, sizes, frozenset(), path)

    def _described(self, array: Any, inside: tuple[str, ...], name: str) -> Described:
        if self.objects is not None:
            return describe(array, (*inside, name), self.objects)
        if isinstance(array, Cut):
            return described(array.array, self.places).cut(AXIS, array.rows)
        version = None if self.version_2 is None else self.version_2.array(inside, name)
        slashed = version is not None and version.get("dimension_separator") == "/"
        if slashed and self.format in (KERCHUNK, PARQUET):
            raise UnsupportedError(
                "VirtualiZarr's parser puts chunks in other places where their keys have slashes",
                remedy="open it without parser=",
            )
        one = described(array, self.places, version)
        if self.format is FITS:
            return unscaled(one)
        return without_holes(one) if self.format is HDF4 else one


@contextmanager
def _located(place: str, name: str | None) -> Generator[None]:
    """Errors in here are about this variable; those of metadata that make no sense, too."""
    try:
        yield
    except IntarsiaError as error:
        raise error.located(url=place, array=name) from error.__cause__
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"its metadata make no sense ({type(error).__name__}: {line_of(error)})",
            url=place,
            array=name,
            remedy="drop it with drop_variables=",
        ) from error


def _check_dims(one: Described, sizes: dict[str, int]) -> None:
    dims: tuple[Any, ...] = one.dims
    named = all(isinstance(dim, str | None) for dim in dims)  # None is a name, to xarray
    if len(dims) != len(one.shape) or not named:
        raise FormatError(
            f"its {len(one.shape)} dimensions have no names", remedy="drop it with drop_variables="
        )
    for dim, size in zip(one.dims, one.shape, strict=True):
        if sizes.setdefault(dim, size) != size:
            raise FormatError(
                f"the dimension {dim!r} has the length {size}, and {sizes[dim]} elsewhere in its "
                "group",
                remedy="drop one of the variables with drop_variables=",
            )


# -- calling a parser ----------------------------------------------------------------------------


def _parsed(
    places: Places,
    parser: Parser | None,
    found: Format | None,
    group: str | None,
    phony_dims: str | None,
    dropped: set[str],
    *,
    deep: bool,
) -> Parsed:
    place = places.place
    if phony_dims is not None:
        raise UnsupportedError("phony_dims= is for HDF5 files", url=place)
    given = parser is not None
    if parser is None:
        found = found or folder_format(place)
        if found is None:
            raise FormatError("no parser is known for this", url=place, remedy="give parser=")
        if found is ZARR:
            places.check_listed()
            folder = FolderObjects(places)
            root = zarr_folder(folder, _parts(group), deep=deep)
            return Parsed(place, root, found, places, None, folder, (), (), ())
        if found in (KERCHUNK, PARQUET):
            with quietly(), told_as_ours(found, place):
                refs = kerchunk_refs(found, places)
                root = refs.groups(_parts(group), deep=deep)
            notes = (*notes_of(found, given), *refs.notes)
            return Parsed(place, root, found, places, None, refs, notes, (), ())
        parser = default_parser(found, place, group)
        if deep and found is DMRPP and _mentions(places, b"<Group"):
            raise UnsupportedError(
                "the groups of DMR++ can't be opened together",
                url=place,
                remedy="open one at a time with group=",
            )
    else:
        found = format_of_parser(parser)
        if found is ZARR:
            places.check_listed()
    if found is HDF4:
        check_place(place)
    own = getattr(parser, "group", None)
    own = _parts(own) if isinstance(own, str) else ()
    at = own if _parts(group)[: len(own)] == own else ()
    with quietly():
        root = called(without(parser, found, dropped), found, place, places)
    version = version_2(found, places) if found is not None else None
    notes = notes_of(found, given)
    return Parsed(place, root, found, places, version, None, notes, own, at)


def _mentions(places: Places, text: bytes) -> bool:
    with opened_file(places.place, places.access) as file:
        return text in bytes(file.read(0, file.source.size))
