"""What the names in a HDF5 file lead to: other files, and objects in them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import os
from typing import Any, Literal

from h5py import h5d, h5g, h5l, h5o

from intarsia.scan.hdf5.files import places, plain_path
from intarsia.scan.hdf5.layout import Unreferable
from intarsia.scan.hdf5.opening import HDF5_ERRORS, Opened

MAX_LINKS = 16
"""Soft links in one name that are followed, as by HDF5."""


class Absent(Exception):
    """There is nothing of that name: no file, or no object in it."""


def found_file(name: str, file: Opened, kind: Literal["virtual", "link"]) -> str:
    """Absolute path of a file that is named in another one.

    Raises
    ------
    Absent
        It is nowhere where HDF5 would look for it.
    Unreferable
        It can't be reached.
    """
    if file.is_remote:
        reason = f"it leads to another file, {name}, which is followed from local files only"
        raise Unreferable(reason, readable=False)
    for place in places(name, file.source.url, kind):
        try:
            os.stat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            reason = f"it leads to {place}, which can't be reached ({error.strerror})"
            raise Unreferable(reason, readable=False) from error
        return plain_path(place)
    raise Absent(name)


def found_dataset(file: Opened, name: str) -> Any:
    """The dataset of a name, as h5py's low-level object.

    Raises
    ------
    Absent
        There is nothing of that name.
    Unreferable
        It is something else, or can't be opened.
    """
    encoded = os.fsencode(name)
    try:
        member = h5o.open(file.id, encoded)
    except HDF5_ERRORS as error:
        if _surely_absent(file, encoded):
            raise Absent(f"{name} in {file.source.url}") from error
        reason = f"it leads to {name} in {file.source.url}, which can't be opened ({error})"
        raise Unreferable(reason, readable=False) from error
    if not isinstance(member, h5d.DatasetID):
        reason = f"it leads to {name} in {file.source.url}, which is no dataset"
        raise Unreferable(reason, readable=False)
    return member


def _surely_absent(file: Opened, name: bytes) -> bool:
    try:
        return _is_absent(h5g.open(file.id, b"/"), name)
    except HDF5_ERRORS:  # the structure is broken: what is there can't be told
        return False


def _is_absent(group: Any, name: bytes, links: int = 0) -> bool:
    """Whether there is no link of a name, or a soft link that leads to none."""
    if name.startswith(b"/"):
        group = h5g.open(group, b"/")
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    for number, part in enumerate(parts):
        if not group.links.exists(part):
            return True
        if group.links.get_info(part).type == h5l.TYPE_SOFT:
            rest = b"/".join([group.links.get_val(part), *parts[number + 1 :]])
            return links < MAX_LINKS and _is_absent(group, rest, links + 1)
        group = h5o.open(group, part)
        if not isinstance(group, h5g.GroupID):
            return False
    return False
