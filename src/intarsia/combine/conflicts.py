"""Raises for differences that are refused: one error that names the first and tells the others."""

from __future__ import annotations

from collections.abc import Iterable

from intarsia.combine.difference import Difference
from intarsia.errors import AlignmentConflict, CombineConflict, IntarsiaError, UpstreamFault

__all__ = ["conflict", "conflicts"]


def conflict(difference: Difference) -> IntarsiaError:
    """Make the error for one difference that is refused.

    Returns
    -------
    AlignmentConflict
        For coordinates and dimensions without coordinates.
    UpstreamFault
        For a known fault of xarray.
    CombineConflict
        For anything else. These are ``ConflictError`` with ``variable``, ``values``, ``files``
        (one file for each value) and ``argument``, the argument that overrides.
    """
    section = difference.row.section
    given = [(example.text, example.value) for example in difference.examples]
    files = [example.url for example in difference.examples]
    if section == "faults":
        pairs = (f"{text} in {file}" for (text, _), file in zip(given, files, strict=True))
        return UpstreamFault(
            f"{difference.reason} ({', '.join(pairs)})",
            array=difference.variable,
            remedy=difference.remedy,
        )
    aligned = section == "coordinates" or difference.kind == "dimension-length"
    error = AlignmentConflict if aligned else CombineConflict
    return error(
        difference.reason or difference.row.title,
        variable=difference.variable,
        values=[_Text(text) if text != repr(value) else value for text, value in given],
        files=files,
        argument=difference.override,
        remedy=difference.remedy,
    )


def conflicts(differences: Iterable[Difference]) -> None:
    """Raise if any of the differences is refused.

    Parameters
    ----------
    differences
        Of a `Decision`. Which of them are refused follows from the options given to `decide`.

    Raises
    ------
    CombineConflict, AlignmentConflict, UpstreamFault
        See `conflict`. The first in full; if there are others, the message counts them, and each
        is a note on the error (shown with the traceback) in full.
    """
    refused = [difference for difference in differences if difference.refused]
    if not refused:
        return
    error = conflict(refused[0])
    if len(refused) > 1:
        error.reason = f"{error.reason} (the first of {len(refused)} conflicts)"
        for difference in refused[1:]:
            error.add_note(f"also refused: {conflict(difference)}")
    raise error


class _Text(str):
    """A text that is its own repr: how a value that is no string reads in a message."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
