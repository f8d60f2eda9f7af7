"""TIFFs that virtual-tiff refuses: tiles that were never written, and strips of unlike heights.

A last strip that is stored shorter than the others is in no grid of Zarr. Here virtual-tiff is told
of an image that is high enough, and what it says of that is cut: the last strip becomes an array of
its own. Of tiles that are not there it is told that they are, and what it says of them is undone.
"""

# virtual-tiff's functions are looked up by name.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.errors import UnsupportedError
from intarsia.scan.zarr.places import Places, url_of

__all__ = ["AXIS", "Cut", "Group", "images", "is_refused"]

AXIS = -2
"""Of the rows of an image: bands come before them, columns after."""

REFUSALS = ("rows per strip", "zero-length chunk", "without byte counts and offsets")
"""What virtual-tiff and VirtualiZarr say of what is read here."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A ``ManifestArray`` of an image that is higher than there are rows.

    Parameters
    ----------
    array
        Of whole strips only.
    rows
        How many rows there are.
    """

    array: Any
    rows: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group, as a ``ManifestGroup`` is one."""

    arrays: dict[str, Any]
    groups: dict[str, Group]
    metadata: Any = None


class _Whole:
    """A directory of a TIFF, of an image whose tiles or strips are all there, and all whole."""

    def __init__(self, directory: Any, height: int) -> None:
        kind = "tile" if directory.tile_height else "strip"
        counts = np.array(getattr(directory, f"{kind}_byte_counts"), np.uint64)
        offsets = np.array(getattr(directory, f"{kind}_offsets"), np.uint64)
        self.missing = counts == 0
        self.image_height = height
        counts[self.missing] = offsets[self.missing] = 1
        self._told = {f"{kind}_byte_counts": counts, f"{kind}_offsets": offsets}
        self._directory = directory

    def __getattr__(self, name: str) -> Any:
        return self._told[name] if name in self._told else getattr(self._directory, name)


def is_refused(parser: Any, error: BaseException) -> bool:
    """Whether a parser is virtual-tiff's, and refuses a TIFF for what is read here."""
    return type(parser).__name__ == "VirtualTIFF" and any(said in str(error) for said in REFUSALS)


def images(places: Places, parser: Any) -> Group:
    """What the parser would give, with a `Cut` for what has a shorter strip.

    Parameters
    ----------
    places
        Where the TIFF is.
    parser
        A ``VirtualTIFF``.

    Raises
    ------
    UnsupportedError
        If this version of virtual-tiff can't be asked, or if it would fill what is missing with
        another value than GDAL does.
    """
    module: Any = importlib.import_module("virtual_tiff.parser")
    try:
        describe, opened, orders = (
            module._construct_manifest_array,
            module._open_tiff,
            module._ENDIANNESS_TO_STR,
        )
        number, nested = parser._ifd, parser.ifd_layout == "nested"
    except AttributeError as error:
        raise UnsupportedError(
            "it has tiles that are missing, or strips of unlike heights, and virtual-tiff is of "
            "another version",
            url=places.place,
        ) from error
    url = url_of(places.place)
    store, path = places.registry().resolve(url)
    tiff: Any = module.sync(opened(store=store, path=path))
    found: dict[str, Any] = {}
    for index, directory in enumerate(tiff.ifds):
        if number is not None and index != number:
            continue
        height, rows = int(directory.image_height), directory.rows_per_strip
        short = not directory.tile_height and bool(rows) and rows < height and height % rows
        whole = _Whole(directory, -(-height // rows) * rows if short else height)
        array = describe(ifd=whole, url=url, endian=orders[tiff.endianness])
        if whole.missing.any():
            nodata = directory.gdal_nodata or tiff.ifds[0].gdal_nodata
            _check_fill(array, nodata, places.place)
            array = _without(array, whole.missing)
        found[str(index)] = Cut(array, height) if short else array
    if not nested:
        return Group(found, {})
    return Group({}, {name: Group({name: array}, {}) for name, array in found.items()})


def _check_fill(array: Any, nodata: str | None, place: str) -> None:
    """Refuse what would fill tiles that are missing with another value than GDAL does.

    That is the one that stands for no data, or zero; metadata in XML have no say in it.
    """
    filled = array.metadata.fill_value
    try:
        with np.errstate(over="raise"):
            wanted = np.array(float(nodata or 0)).astype(array.dtype)[()]
    except (ValueError, OverflowError, FloatingPointError):
        wanted = None
    if wanted is None or not (filled == wanted or (filled != filled and wanted != wanted)):
        raise UnsupportedError(
            f"tiles are missing, which stand for {nodata or 0} and not for {filled}", url=place
        )


def _without(array: Any, missing: npt.NDArray[np.bool_]) -> Any:
    """The same array without some of its chunks."""
    manifest = array.manifest
    paths, offsets, lengths = (
        getattr(manifest, f"_{name}").copy() for name in ("paths", "offsets", "lengths")
    )
    gone = missing.reshape(paths.shape)
    paths[gone], offsets[gone], lengths[gone] = "", 0, 0
    kept = type(manifest).from_arrays(paths=paths, offsets=offsets, lengths=lengths)
    return type(array)(metadata=array.metadata, chunkmanifest=kept)
