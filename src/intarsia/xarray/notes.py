"""Remarks on datasets: carried by each virtual array, and by the dataset where there is none."""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr

from intarsia.array import VirtualArray
from intarsia.xarray.internals import Variables, data_of, updated, variables_of, with_data

NOTES = "intarsia_notes"
"""Key of `xarray.Dataset.encoding`, where no virtual array can carry them."""


def with_notes(dataset: xr.Dataset, notes: Iterable[str]) -> xr.Dataset:
    """The dataset with remarks about the whole."""
    notes = tuple(notes)
    if not notes:
        return dataset
    changed: Variables = {}
    for name, variable in variables_of(dataset).items():
        data = data_of(variable)
        if isinstance(data, VirtualArray):
            changed[name] = with_data(variable, data.with_notes(*notes))
    result = updated(dataset, changed) if changed else dataset.copy()
    result.encoding = {**dataset.encoding, NOTES: (*notes_of(dataset), *notes)}
    return result


def remarks_on(datasets: Iterable[xr.Dataset]) -> dict[str, tuple[str, ...]]:
    """What arrays and datasets carry, by variable; under ``""`` what is about the whole."""
    found: dict[str, dict[str, None]] = {}
    for dataset in datasets:
        whole = notes_of(dataset)
        found.setdefault("", {}).update(dict.fromkeys(whole))
        for name, variable in variables_of(dataset).items():
            data = data_of(variable)
            if isinstance(data, VirtualArray) and data.notes:
                own = sorted(data.notes.difference(whole))
                found.setdefault(str(name), {}).update(dict.fromkeys(own))
    return {name: tuple(lines) for name, lines in found.items() if lines}


def notes_of(dataset: xr.Dataset) -> tuple[str, ...]:
    """Remarks that the dataset itself carries."""
    return tuple(dataset.encoding.get(NOTES, ()))
