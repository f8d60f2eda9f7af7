"""After combining: one source table, encodings that all files share, notes that travel along."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import LazyArray, VirtualArray
from intarsia.cf import ENUM, enum_of, kept_enum
from intarsia.combine import Decision, Report
from intarsia.references import Sources
from intarsia.xarray.choices import CHOICES, with_choices
from intarsia.xarray.internals import data_of, updated, variables_of, with_data, with_encoding
from intarsia.xarray.notes import notes_of, with_notes
from intarsia.xarray.pile import Pile


def tidied(combined: xr.Dataset, pile: Pile, decision: Decision) -> xr.Dataset:
    """One source table for all variables, encodings that all files share, and the notes."""
    arrays = {
        name: data_of(variable)
        for name, variable in variables_of(combined).items()
        if isinstance(data_of(variable), VirtualArray)
    }
    tables = [array.segments.sources for array in arrays.values()]
    united, maps = Sources.union(tables) if tables else (None, [])
    notes = Report.notes(decision, pile.skipped)
    variables: dict[Any, xr.Variable] = {}
    for (name, array), numbers in zip(arrays.items(), maps, strict=True):
        segments = array.segments
        if numbers is not None and united is not None:
            segments = segments.renumbered(united, numbers)
        array = VirtualArray(segments, array.dtype, array.name, array.notes)
        array = array.with_notes(*notes.get(str(name), ()))
        variable = variables_of(combined)[name]
        if enum_of(variable.encoding) is not None:  # other files may have had values of other types
            others = {k: v for k, v in variable.encoding.items() if k not in ("dtype", ENUM)}
            kept = kept_enum(variable.encoding, array.dtype)
            variable = with_encoding(variable, others | kept)
        variables[name] = with_data(variable, array)
    for name, variable in variables_of(combined).items():
        if not isinstance(data_of(variable), LazyArray):
            kept = _shared_encoding(name, pile.datasets, variable)
            variables[name] = with_encoding(variable, kept)
    result = updated(combined, variables)
    result.encoding = {}
    of_files = dict.fromkeys(note for dataset in pile.datasets for note in notes_of(dataset))
    result = with_notes(result, [*notes.get("", ()), *of_files])
    choices = [ds.encoding.get(CHOICES, ("",)) for ds in pile.datasets]
    result = with_choices(result, chain.from_iterable(choices))
    unlimited = [set(ds.encoding.get("unlimited_dims", ())) for ds in pile.datasets]
    if unlimited and all(dims == unlimited[0] for dims in unlimited):
        result.encoding["unlimited_dims"] = unlimited[0]
    return result


def _shared_encoding(
    name: Any, datasets: Sequence[xr.Dataset], variable: xr.Variable
) -> dict[Any, Any]:
    """Encoding entries that are the same in every file; others would describe one file only."""
    kept = dict(variable.encoding)
    for dataset in datasets:
        if not kept:
            break
        other = variables_of(dataset).get(name)
        if other is not None:
            theirs = other.encoding
            kept = {k: v for k, v in kept.items() if k in theirs and _same(v, theirs[k])}
    return kept


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        pair = cast("tuple[npt.NDArray[Any], npt.NDArray[Any]]", (one, two))
        return np.array_equal(*pair)
    return type(one) is type(two) and bool(one == two or (one != one and two != two))
