"""``ds.intarsia``: what a dataset is made of, what reading would cost, what differed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import xarray as xr

from intarsia.array import LazyArray, VirtualArray
from intarsia.combine import Report, report_from_parts
from intarsia.xarray.explaining import Explanation, explain
from intarsia.xarray.internals import data_of, updated, variables_of, with_data
from intarsia.xarray.notes import notes_of
from intarsia.xarray.summaries import parts_of


@xr.register_dataset_accessor("intarsia")  # pyright: ignore[reportUnknownMemberType]
class IntarsiaAccessor:
    """What Intarsia knows about a dataset.

    Parameters
    ----------
    dataset
        Any dataset; variables that are not virtual are left alone.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        arrays = self.arrays
        if not arrays:
            return "<intarsia: nothing here is virtual>"
        cost = explain(arrays).total
        return (
            f"<intarsia: {len(arrays)} virtual variable{'s'[: len(arrays) > 1]}, "
            f"{cost.segments:,} segments of {cost.sources:,} sources; "
            "explain(), report(), virtual()>"
        )

    @property
    def arrays(self) -> dict[Hashable, VirtualArray]:
        """The virtual arrays, by variable."""
        found: dict[Hashable, VirtualArray] = {}
        for name, variable in variables_of(self._dataset).items():
            data = _unwrapped(data_of(variable))
            if isinstance(data, VirtualArray):
                found[name] = data
        return found

    def explain(
        self, indexers: Mapping[Any, Any] | None = None, **indexers_kwargs: Any
    ) -> Explanation:
        """Say what loading would read, without reading it.

        Parameters
        ----------
        indexers
            Positions to select first, as for `xarray.Dataset.isel`; everything by default.
        **indexers_kwargs
            The keyword form of `indexers`.

        Returns
        -------
        Explanation
            Segments, chunks, requests and bytes, in total and per variable.

        Examples
        --------
        >>> ds.intarsia.explain({"time": slice(0, 10)})  # doctest: +SKIP
        """
        wanted = {**(indexers or {}), **indexers_kwargs}
        dataset = self.virtual()
        if wanted:
            dataset = dataset.isel(wanted)
        return explain(IntarsiaAccessor(dataset).arrays)

    def report(self) -> Report:
        """Say what differs between the sources of the variables, and what was done about it.

        Derived from the segments and the notes that travel with each array, so that it also holds
        after selecting, combining and renaming.
        """
        return report_from_parts(parts_of(self.arrays), notes=self._notes())

    def virtual(self) -> xr.Dataset:
        """The dataset with virtual arrays directly in its variables.

        `xarray.open_dataset` wraps what an engine returns, and would load it when concatenating.
        """
        changed: dict[Hashable, xr.Variable] = {}
        for name, variable in variables_of(self._dataset).items():
            data = _unwrapped(data_of(variable))
            if isinstance(data, LazyArray) and data is not data_of(variable):
                changed[name] = with_data(variable, data)
        return updated(self._dataset, changed)

    def _notes(self) -> dict[str, tuple[str, ...]]:
        notes: dict[str, tuple[str, ...]] = {}
        for name, variable in variables_of(self._dataset).items():
            data = _unwrapped(data_of(variable))
            if isinstance(data, LazyArray) and data.notes:
                notes[str(name)] = tuple(sorted(data.notes))
        own = set(notes_of(self._dataset)).difference(*notes.values())
        if own:
            notes[""] = tuple(sorted(own))
        return notes


def _unwrapped(data: Any) -> Any:
    """What lies under xarray's own lazy wrappers, if it is one of our arrays."""
    inner = data
    while not isinstance(inner, LazyArray):
        inner = getattr(inner, "array", None)
        if inner is None:
            return data
    return inner
