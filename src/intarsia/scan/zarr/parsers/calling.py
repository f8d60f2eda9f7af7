"""Calling a parser: what it gives, what it can't tell, and what goes wrong in it as our errors."""

# Parsers and what they give are looked at by their attributes.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import copy
import os
from collections.abc import Callable, Generator, Set
from contextlib import contextmanager
from typing import Any

from intarsia.errors import FormatError, IntarsiaError, SourceMissing, UnsupportedError
from intarsia.io.files import opened_file
from intarsia.io.paths import is_url
from intarsia.scan.zarr.formats import (
    DMRPP,
    FITS,
    HDF4,
    ICECHUNK,
    TIFF,
    ZIPPED,
    Format,
    lacking,
    mended,
)
from intarsia.scan.zarr.parsers.hdf4 import NOTE, REMEDY
from intarsia.scan.zarr.parsers.here import calling
from intarsia.scan.zarr.parsers.tiff_images import images, is_refused
from intarsia.scan.zarr.parsers.tiff_tags import check_predictors
from intarsia.scan.zarr.places import Places, url_of

__all__ = ["Parser", "called", "line_of", "notes_of", "told_as_ours", "without"]

BEYOND = ("which is not recognized", "Unrecognized datatype", "does not allow multiple")
"""What virtual-tiff says of a TIFF that is sound."""

type Parser = Callable[..., Any]
"""As ``parser(url=..., registry=...)``; gives a ``ManifestStore``."""


def without(parser: Any, found: Format | None, dropped: Set[str]) -> Any:
    """The parser, told what to leave out if it can be: it may be unable to describe that."""
    if not dropped or found not in (FITS, HDF4, DMRPP, ICECHUNK):
        return parser
    told = copy.copy(parser)
    told.skip_variables = sorted({*(parser.skip_variables or ()), *dropped})
    return told


def called(parser: Parser, found: Format | None, place: str, places: Places) -> Any:
    """Call the parser; gives the group at the root.

    Raises
    ------
    SourceError, FormatError, UnsupportedError
        Whatever the parser raises.
    """
    with told_as_ours(found, place):
        if found is TIFF:
            with opened_file(place, places.access) as file:
                check_predictors(file)
        try:
            with calling():
                store = mended(parser)(url=url_of(place), registry=places.registry())
        except (ValueError, NotImplementedError) as error:
            if not is_refused(parser, error):
                raise
            with calling():
                return images(places, parser)
        root = getattr(store, "_group", None)
        if not hasattr(root, "arrays") or not hasattr(root, "groups"):
            raise FormatError(
                f"the parser gave a {type(store).__name__}, which is no ManifestStore", url=place
            )
        return root


@contextmanager
def told_as_ours(found: Format | None, place: str) -> Generator[None]:
    """Whatever goes wrong in a parser is told as an error about the file."""
    name = found.name if found else "the parser"
    try:
        yield
    except IntarsiaError:
        raise
    except FileNotFoundError as error:
        if found is ZIPPED and os.path.isfile(place):
            raise FormatError(
                "there is no Zarr hierarchy at the root of this zip file",
                url=place,
                remedy="if it holds one in a folder, unpack it and open the folder",
            ) from error
        text = line_of(error)
        if not is_url(place) and "xist" not in text and "No such" not in text:
            text = "there is no such file"
        raise SourceMissing(f"the parser finds nothing: {text}", url=place) from error
    except ImportError as error:
        raise lacking(found, place, error) from error
    except NotImplementedError as error:
        raise UnsupportedError(f"{name} can't be read: {line_of(error)}", url=place) from error
    except Exception as error:  # parsers have no errors of their own
        if isinstance(error, ValueError) and any(text in str(error) for text in BEYOND):
            raise UnsupportedError(f"{name} can't be read: {line_of(error)}", url=place) from error
        raise _broken(name, place, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a crash in Rust, and no wish to stop
            raise
        raise _broken(name, place, error) from error


def _broken(name: str, place: str, error: BaseException) -> FormatError:
    return FormatError(
        f"{name} can't be read: {type(error).__name__}: {line_of(error)}",
        url=place,
        remedy=REMEDY if name == HDF4.name else "is it what its name says, and whole?",
    )


def line_of(error: BaseException) -> str:
    """The first line of what an error says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


def notes_of(found: Format | None, given: bool) -> tuple[str, ...]:
    """What a parser can't tell, or is known not to."""
    if found is None:
        return ()
    if given and found.parser in ("HDFParser", "NetCDF3Parser"):
        return (
            f"read with VirtualiZarr's {found.parser}, which does not see skipped filters, compact "
            "and external data, and user blocks: open the file without parser= for all of it",
        )
    if found is HDF4:
        return (NOTE,)
    if found.made_before:
        return (
            f"read from {found.name}: files are pinned as they are now, as it does not say of "
            "which state of them it was made",
        )
    return ()
