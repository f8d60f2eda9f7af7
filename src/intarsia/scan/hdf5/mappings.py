"""What virtual datasets of HDF5 are mapped onto, as it stands in the file that they are in."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import os
from typing import NamedTuple

from intarsia.scan.hdf5.layout import Unreferable
from intarsia.scan.hdf5.placing import Stored
from intarsia.scan.hdf5.selections import Hyperslab, Points, Selection, described

__all__ = ["Mapping", "growing", "mappings", "named"]


class Mapping(NamedTuple):
    """One mapping of a virtual dataset.

    Parameters
    ----------
    space, source
        Selections of the virtual dataset, and of the one that is mapped.
    file, dataset
        Their names as they stand there.
    """

    space: Selection
    source: Selection
    file: str
    dataset: str


def mappings(stored: Stored) -> list[Mapping]:
    """The mappings of a virtual dataset, in their order.

    Raises
    ------
    Unreferable
        Single points are selected.
    """
    creation = stored.creation
    try:
        # nothing of HDF5's is kept: closing a file looks through everything that is open
        return [
            Mapping(
                described(creation.get_virtual_vspace(number)),
                described(creation.get_virtual_srcspace(number)),
                _text(creation.get_virtual_filename(number)),
                _text(creation.get_virtual_dsetname(number)),
            )
            for number in range(creation.get_virtual_count())
        ]
    except Points as error:
        reason = "a virtual dataset of HDF5 with a selection of points"
        raise Unreferable(reason, readable=False) from error


def _text(name: str | bytes) -> str:
    return os.fsdecode(name) if isinstance(name, bytes) else name


def named(name: str, number: int | None = None) -> str:
    """A name with its escapes undone, and the number of a block in its places."""
    parts = name.split("%%")
    if number is not None:
        parts = [part.replace("%b", str(number)) for part in parts]
    return "%".join(parts)


def growing(selection: Selection) -> int | None:
    """The dimension along which a selection has no limit."""
    return selection.growing if isinstance(selection, Hyperslab) else None
