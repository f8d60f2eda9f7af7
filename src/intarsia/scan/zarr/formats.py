"""Which parser reads a format that has no scan here: by first bytes; folders by what is in them.

The parsers are VirtualiZarr's, and virtual-tiff's for TIFF (``pip install 'intarsia[formats]'``).
"""

# The parsers are looked up by name.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, EnumType
from itertools import islice
from typing import Any

from intarsia.errors import MissingPackage, UnsupportedError
from intarsia.io.files import listing
from intarsia.io.paths import is_url

__all__ = ["Format", "default_parser", "folder_format", "format_of", "format_of_parser", "mended"]


@dataclass(frozen=True, slots=True)
class Format:
    """A format that a parser of others reads.

    Parameters
    ----------
    name
        In words, for errors.
    parser
        The class that reads it.
    module
        Where that is.
    package
        What has to be installed for it.
    options
        What the parser is told by default.
    takes_group
        Whether the parser has to be told the group; others give all groups.
    made_before
        Whether what is read are references that were made before, perhaps of another state of
        their files.
    """

    name: str
    parser: str
    module: str = "virtualizarr.parsers"
    package: str = "intarsia[formats]"
    options: tuple[tuple[str, Any], ...] = ()
    takes_group: bool = False
    made_before: bool = False


ZARR = Format("Zarr", "ZarrParser")
ZIPPED = Format("zipped Zarr", "ZippedZarrParser")
KERCHUNK = Format("references of kerchunk", "KerchunkJSONParser", made_before=True)
PARQUET = Format(
    "references of kerchunk in Parquet",
    "KerchunkParquetParser",
    package="fastparquet",
    made_before=True,
)
ICECHUNK = Format(
    "an Icechunk repository",
    "IcechunkParser",
    package="intarsia[formats] icechunk",
    made_before=True,
)
TIFF = Format("TIFF", "VirtualTIFF", module="virtual_tiff", options=(("ifd", 0),))
FITS = Format("FITS", "FITSParser", package="intarsia[formats] astropy")
HDF4 = Format("HDF4", "HDF4Parser", package="intarsia[formats] kerchunk")
DMRPP = Format("DMR++", "DMRPPParser", made_before=True, takes_group=True)
ENVI = Format("ENVI", "ENVIParser")
HDF5 = Format("HDF5", "HDFParser", takes_group=True)
NETCDF3 = Format("netCDF3", "NetCDF3Parser")

FORMATS = (
    ZARR,
    ZIPPED,
    KERCHUNK,
    PARQUET,
    ICECHUNK,
    TIFF,
    FITS,
    HDF4,
    DMRPP,
    ENVI,
    HDF5,
    NETCDF3,
)

MAGIC: tuple[tuple[bytes, Format], ...] = (
    (b"PK\x03\x04", ZIPPED),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
    (b"II+\x00", TIFF),
    (b"MM\x00+", TIFF),
    (b"SIMPLE  =", FITS),
    (b"\x0e\x03\x13\x01", HDF4),
)

HEAD = 64
"""Bytes that `format_of` wants to see."""

SUFFIXES: tuple[tuple[str, Format], ...] = (
    (".zarr", ZARR),
    (".parq", PARQUET),
    (".parquet", PARQUET),
    (".icechunk", ICECHUNK),
)
"""Of folders of the network, which can't be looked into before it is known what they are."""


def format_of(head: bytes, place: str) -> Format | None:
    """The format of a file, by its first bytes; None where our own scans see to it.

    Raises
    ------
    UnsupportedError
        If it is a format that nothing here reads yet.
    """
    if head.startswith(b"GRIB"):
        raise UnsupportedError(
            "GRIB is not read yet", url=place, remedy="convert it to netCDF, or leave it out"
        )
    if head.startswith(b"ENVI"):
        raise UnsupportedError(
            "this is the header of an ENVI image",
            url=place,
            remedy="open the image beside it, with parser=virtualizarr.parsers.ENVIParser()",
        )
    for magic, found in MAGIC:
        if head.startswith(magic):
            return found
    name = place.partition("?")[0].lower()
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        return KERCHUNK
    if text.startswith(b"<") and name.endswith((".dmrpp", ".dmrpp.xml")):
        return DMRPP
    return None


def folder_format(place: str) -> Format | None:
    """The format of a folder, or None if it is no folder of a format that is known."""
    if is_url(place):
        path = place.partition("?")[0]
        name = path.rstrip("/").lower()
        known = next((found for suffix, found in SUFFIXES if name.endswith(suffix)), None)
        return ZARR if known is None and path.endswith("/") else known
    if not os.path.isdir(place):
        return None
    with listing(place) as entries:
        folders = {entry.name: entry.is_dir() for entry in entries}
    names = folders.keys()
    if ".zmetadata" in names and not names & {".zgroup", ".zarray", "zarr.json"}:
        return PARQUET
    if ".zmetadata" in names and any(
        _holds_tables(os.path.join(place, name)) for name in sorted(names)[:64] if folders[name]
    ):
        return PARQUET
    if names & {"zarr.json", ".zgroup", ".zarray", ".zmetadata"}:
        return ZARR
    if "snapshots" in names and names & {"refs", "repo"}:
        return ICECHUNK
    return None


def _holds_tables(folder: str) -> bool:
    with listing(folder) as entries:
        return any(entry.name.endswith(".parq") for entry in islice(entries, 8))


def format_of_parser(parser: Any) -> Format | None:
    """The format that one of the parsers that are known reads, or what is derived of one."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(parser).__mro__}
    return next(
        (found for found in FORMATS if (found.module.partition(".")[0], found.parser) in kinds),
        None,
    )


def default_parser(found: Format, place: str, group: str | None) -> Callable[..., Any]:
    """The parser of a format.

    Raises
    ------
    MissingPackage
        If its package is not installed, naming it.
    """
    options = dict(found.options)
    if found.takes_group and group and group.strip("/"):
        options["group"] = group.strip("/")
    try:
        return mended(getattr(importlib.import_module(found.module), found.parser)(**options))
    except ImportError as error:
        raise lacking(found, place, error) from error


def mended(parser: Any) -> Any:
    """The parser, without what is known to be wrong with it.

    virtual-tiff 0.5 makes members of zarr's `Endian`, which since zarr 3.4 is no enumeration any
    more; it gets one of its own. For the rest see `intarsia.scan.zarr.parsers.fits` and its
    neighbours.

    Raises
    ------
    ImportError
        If what it needs is not installed.
    """
    names = {FITS: "fits", HDF4: "hdf4", DMRPP: "dmrpp", TIFF: "tiff"}
    name = names.get(format_of_parser(parser) or ZARR)
    if name is not None:
        importlib.import_module(f"intarsia.scan.zarr.parsers.{name}").mend()
    if type(parser).__module__.partition(".")[0] == "virtual_tiff":
        codecs: Any = importlib.import_module("virtual_tiff.codecs")
        if not isinstance(codecs.Endian, EnumType):
            codecs.Endian = _Endian
    return parser


class _Endian(Enum):
    little = "little"
    big = "big"


def lacking(found: Format | None, place: str, error: ImportError) -> MissingPackage:
    """The error that names what has to be installed."""
    what = f"the parser for {found.name}" if found else "its parser"
    package = found.package if found else (error.name or "what it imports")
    return MissingPackage(
        f"{what} needs a package that is not installed ({error.name or error})",
        url=place,
        remedy=f"pip install {' '.join(repr(name) for name in package.split())}",
    )
