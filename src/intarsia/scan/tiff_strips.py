"""TIFFs in strips that do not divide the image: the last strip is stored shorter than the others.

No grid of Zarr can say that, and so virtual-tiff refuses. Here it is told of an image that is high
enough, and what it says of that is cut: the last strip becomes an array of its own.
"""

# virtual-tiff's functions are looked up by name.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from intarsia.errors import UnsupportedError
from intarsia.scan.virtualizarr_places import Places, url_of

__all__ = ["Cut", "has_short_strips", "striped"]

AXIS = -2
"""Of the rows of an image: bands come before them, columns after."""


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


class _Padded:
    """A directory of a TIFF, of an image whose strips are all whole."""

    def __init__(self, directory: Any, height: int) -> None:
        self._directory = directory
        self.image_height = height

    def __getattr__(self, name: str) -> Any:
        return getattr(self._directory, name)


def has_short_strips(parser: Any, error: BaseException) -> bool:
    """Whether a parser is virtual-tiff's, and refuses a TIFF for its last strip."""
    return type(parser).__name__ == "VirtualTIFF" and "rows per strip" in str(error)


def striped(places: Places, parser: Any) -> Group:
    """What the parser would give, with a `Cut` in place of what it refuses.

    Parameters
    ----------
    places
        Where the TIFF is.
    parser
        A ``VirtualTIFF``.

    Raises
    ------
    UnsupportedError
        If this version of virtual-tiff can't be asked.
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
            "its last strip is shorter than the others, and virtual-tiff is of another version",
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
        if short:
            directory = _Padded(directory, -(-height // rows) * rows)
        array = describe(ifd=directory, url=url, endian=orders[tiff.endianness])
        found[str(index)] = Cut(array, height) if short else array
    if not nested:
        return Group(found, {})
    return Group({}, {name: Group({name: array}, {}) for name, array in found.items()})
