"""Which scan a file needs: by what the file holds, and only for folders by what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from intarsia.errors import FormatError, UnsupportedError
from intarsia.io.access import Way
from intarsia.io.files import File, opened_file
from intarsia.io.paths import is_url
from intarsia.references import Access
from intarsia.scan.protocol import Scanned
from intarsia.scan.zarr.formats import HEAD, folder_format, format_of

__all__ = ["Parser", "scan", "scan_groups"]

type Parser = Callable[..., Any]
"""What VirtualiZarr calls a parser: ``(url, registry) -> ManifestStore``."""


def scan(
    place: str,
    *,
    access: Access | Way | None = None,
    parser: Parser | None = None,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: str = "",
) -> Scanned:
    """Scan one group of one file.

    Parameters
    ----------
    place
        Absolute path, or URL.
    access
        How a URL is reached, or URLs that a file names too.
    parser
        Reads the file in place of our own scans.
    group, phony_dims, choices
        As for `intarsia.scan.hdf5.scan`.
    drop_variables
        Names of variables that are left out if the file can't be scanned with them. Otherwise they
        are there: what decoding makes of others can depend on them.

    Raises
    ------
    SourceError
        The file can't be had.
    FormatError
        It is of no format that can be read, or broken, or has no such group.
    UnsupportedError
        It is sound, but beyond us.
    """
    told: dict[str, Any] = {"group": group, "phony_dims": phony_dims, "choices": choices}
    return _without(drop_variables, partial(_with_scanner, place, access, parser, "scan", told))


def scan_groups(
    place: str,
    *,
    access: Access | Way | None = None,
    parser: Parser | None = None,
    group: str | None = None,
    phony_dims: str | None = None,
    drop_variables: str | Iterable[str] = (),
    choices: Callable[[str], str] = lambda _: "",
) -> dict[str, Scanned]:
    """Scan a group of one file, and all groups in it; see `scan`.

    Returns
    -------
    dict
        By absolute path, each group before those in it.
    """
    told: dict[str, Any] = {"group": group, "phony_dims": phony_dims, "choices": choices}
    scan_all = partial(_with_scanner, place, access, parser, "scan_groups", told)
    return _without(drop_variables, scan_all)


def _without(names: str | Iterable[str], scan_with: Callable[[frozenset[str]], Any]) -> Any:
    """Scan everything; and if that can't be, all but these variables."""
    dropped = frozenset([names] if isinstance(names, str) else names)
    try:
        return scan_with(frozenset())
    except (FormatError, UnsupportedError):
        if not dropped:
            raise
        return scan_with(dropped)


def _with_scanner(
    place: str,
    access: Access | Way | None,
    parser: Parser | None,
    verb: str,
    told: Mapping[str, Any],
    dropped: frozenset[str],
) -> Any:
    found = folder_format(place) if parser is None else None
    pinned = None
    if parser is None and found is None:
        with opened_file(place, _access(access, place)) as file:
            found = format_of(bytes(file.read(0, min(HEAD, file.source.size))), place)
            if found is None:
                _need_no_way(access, place)
                return getattr(_scanner(file), verb)(file, drop_variables=dropped, **told)
            pinned = file.source
    if found is not None and not found.made_before:
        _need_no_way(access, place)
    from intarsia.scan.zarr import scanning

    more: dict[str, Any] = {"access": access, "parser": parser, "found": found, "pinned": pinned}
    return getattr(scanning, verb)(place, drop_variables=dropped, **told, **more)


def _access(access: Access | Way | None, place: str) -> Access | None:
    if isinstance(access, Way):
        return access(place) if is_url(place) else None
    return access


def _need_no_way(access: Access | Way | None, place: str) -> None:
    """Refuse options for URLs, as a file of this machine names none."""
    if isinstance(access, Way):
        access(place)


def _scanner(file: File) -> Any:
    """The module that scans a file; that for HDF5 also says what a file is that nothing scans."""
    head = bytes(file.read(0, min(4, file.source.size)))
    if head[:3] == b"CDF" and head[3:] in (b"\x01", b"\x02", b"\x05"):
        from intarsia.scan import netcdf3

        return netcdf3
    from intarsia.scan import hdf5  # h5py takes its time

    return hdf5
