"""The files of one scan: the one that is scanned, and those that it leads to.

HDF5 looks for a file that is named in another one at several places, and takes what it can't open
for not being there. Here the first thing that is there has to be readable.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, Literal

from h5py import h5f, h5i

from intarsia.io.paths import split_place
from intarsia.references import Source, Sources
from intarsia.scan.hdf5.layout import Unreferable
from intarsia.scan.hdf5.opening import Opened, base_of

__all__ = ["Files", "places"]

PREFIXES = {"virtual": "HDF5_VDS_PREFIX", "link": "HDF5_EXT_PREFIX"}
"""Environment variables that tell HDF5 where to look."""

ORIGIN = "${ORIGIN}"

AT_START = os.environ.get("HDF5_VDS_PREFIX", "")
"""HDF5 looks at it once more when it is loaded, and this time knows `ORIGIN`."""


class Files:
    """Files by their number in the table of sources.

    Parameters
    ----------
    main
        The scanned file.
    """

    def __init__(self, main: Opened) -> None:
        self.main = main
        self._numbers: dict[str, int] = {main.source.url: 0}
        self._sources: dict[str, Source] = {}
        self._homes: dict[int, Opened] = {main.id.fileno: main}

    def number(self, path: str, source: Source | None = None) -> int:
        """Row of a file in the table of sources.

        Parameters
        ----------
        path
            Absolute, or the URL of the scanned file.
        source
            With its pins, where it was opened.
        """
        if source is not None:
            self._sources[path] = source
        return self._numbers.setdefault(path, len(self._numbers))

    def sources(self, choices: str) -> Sources:
        """The table, of which the scanned file is the first."""
        rows = [self.main.source._replace(scan=choices)]
        for path in list(self._numbers)[1:]:
            known = self._sources.get(path)
            rows.append(known._replace(scan=_mapped(choices)) if known else _raw(path, choices))
        return Sources.of(rows)

    def home(self, identifier: Any) -> Opened:
        """The open file in which an object lies that a link has led to.

        Raises
        ------
        Unreferable
            It can't be told, or is not the file of that name any more.
        """
        known = self._homes.get(identifier.fileno)
        if known is not None:
            return known
        file = h5i.get_file_id(identifier)
        path = os.path.join(os.getcwd(), os.fsdecode(h5f.get_name(file)))
        try:
            path = plain_path(path)
            stat, there = os.fstat(file.get_vfd_handle()), os.stat(path)
        except OSError as error:
            reason = f"it leads to {path}, which can't be reached ({error.strerror})"
            raise Unreferable(reason, readable=False) from error
        if (there.st_dev, there.st_ino) != (stat.st_dev, stat.st_ino):
            reason = f"it leads to {path}, where another file is than the one that is open"
            raise Unreferable(reason, readable=False)
        source = Source(*split_place(path), stat.st_size, stat.st_mtime_ns)
        found = self._homes[identifier.fileno] = Opened(file, source, base_of(file))
        return found


def _mapped(choices: str) -> str:
    """What is recorded of HDF5 files that hold values of another one's variables.

    That one's choices, and that they were not for this file: its own variables are others.
    """
    told = {**(json.loads(choices) if choices else {}), "mapped": True}
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


def _raw(path: str, choices: str) -> Source:
    """A file of nothing but values; one that is missing is found missing when it is read."""
    try:
        return Sources.of_file(path)[0]._replace(scan=choices)
    except OSError:
        return Source(*split_place(path), -1, -1, scan=choices)


def places(name: str, file: str, kind: Literal["virtual", "link"]) -> Iterator[str]:
    """Where HDF5 looks for a file that is named in another one, in its order.

    Parameters
    ----------
    name
        As it stands in the file.
    file
        Absolute path of that file.
    kind
        What names it: the mapping of a virtual dataset, or an external link.
    """
    folder = os.path.dirname(file)
    if os.path.isabs(name):
        yield name
        name = name.rpartition("/")[2]
    for prefix in os.environ.get(PREFIXES[kind], "").split(":"):
        if prefix:
            yield os.path.join(os.getcwd(), _joined(prefix, name))
    if kind == "virtual" and AT_START not in ("", "."):
        prefix = AT_START
        if prefix.startswith(ORIGIN):
            prefix = _joined(folder, prefix.removeprefix(ORIGIN))
        yield os.path.join(os.getcwd(), _joined(prefix, name))
    yield _joined(folder, name)
    yield os.path.join(os.getcwd(), name)
    yield _joined(os.path.dirname(os.path.realpath(file)), name)


def plain_path(path: str) -> str:
    """A path without ``..`` and the like, of the same file, which is there."""
    plain = os.path.normpath(path)
    if plain != path and not (os.path.exists(plain) and os.path.samefile(plain, path)):
        plain = os.path.realpath(path)  # a link was on the way
    return plain


def _joined(prefix: str, name: str) -> str:
    """A prefix before a name, whatever the name begins with."""
    return f"{prefix.rstrip('/')}/{name}"
