"""``ds.intarsia``: what a dataset is made of, what reading would cost, what differed."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import Any, Literal

import xarray as xr

from intarsia.array import LazyArray, VirtualArray
from intarsia.combine import Report, report_from_parts
from intarsia.store.write import Summary
from intarsia.xarray.explaining import Explanation, explain
from intarsia.xarray.internals import (
    data_of,
    nodes_of,
    unwrapped,
    updated,
    variables_of,
    with_data,
)
from intarsia.xarray.notes import notes_of
from intarsia.xarray.saving import MAX_COPIED, save
from intarsia.xarray.summaries import parts_of
from intarsia.xarray.whereabouts import whereabouts


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
            f"{cost.segments:,} segments of {whereabouts(arrays.values())}; "
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

    def save(
        self,
        path: str | os.PathLike[str],
        mode: Literal["w-", "w"] = "w-",
        *,
        group: str | None = None,
        containers: Mapping[str, str] | None = None,
        sample: bool = False,
        max_copied: int = MAX_COPIED,
    ) -> Summary:
        """Save the dataset as a small store: references instead of values, where they are virtual.

        `intarsia.open_dataset` opens it again without the scan, and so does xarray; the sources
        have to stay where they are, seen from the store. It appears when all of it is written.

        Parameters
        ----------
        path : str or path
            A folder (``"sst.intarsia"``), or a zip file where it ends in ``.zip``.
        mode : {"w-", "w"}, default: "w-"
            Whether to refuse to replace a store (``"w-"``), or to replace it.
        group : str, optional
            Path of the group that the dataset becomes; the root group by default.
        containers : mapping of str to str, optional
            Names for the places where sources are, by which they can be found when they have moved:
            ``{"sst": "/data/sst"}``. Places are found where they are not given.
        sample : bool, default: False
            Whether to keep a digest of some bytes of each source, and to check that instead of its
            modification time when it is read.
        max_copied : int, default: 2**30
            Most bytes that are loaded, all at once, in order to be copied: dask arrays, arrays of
            other lazy kinds, virtual arrays that can't be saved as references. What is in memory
            is copied whatever its size.

        Returns
        -------
        Summary
            Numbers of variables, sources, segments, cases, and bytes.

        Raises
        ------
        UnsupportedVariable
            If a variable can't be kept exactly, or can't be read, or would have to be loaded and
            is too large, naming it and what helps.
        StoreExists
            If something is there that is not to be replaced.
        StoreError
            If the store can't be written, or would replace one of its sources.

        Examples
        --------
        >>> ds.intarsia.save("sst.intarsia")  # doctest: +SKIP
        """
        where = "/" + "/".join(part for part in (group or "").split("/") if part)
        return save(
            {where: self.virtual()},
            path,
            mode=mode,
            containers=containers,
            sample=sample,
            max_copied=max_copied,
        )

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


@xr.register_datatree_accessor("intarsia")  # pyright: ignore[reportUnknownMemberType]
class IntarsiaTreeAccessor:
    """What Intarsia can do with a tree of datasets.

    Parameters
    ----------
    tree
        Any tree; variables that are not virtual are left alone.
    """

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def __repr__(self) -> str:
        count = sum(len(IntarsiaAccessor(ds).arrays) for ds in nodes_of(self._tree).values())
        return (
            f"<intarsia: a tree with {count} virtual variable{'' if count == 1 else 's'}; save()>"
        )

    def save(
        self,
        path: str | os.PathLike[str],
        mode: Literal["w-", "w"] = "w-",
        *,
        containers: Mapping[str, str] | None = None,
        sample: bool = False,
        max_copied: int = MAX_COPIED,
    ) -> Summary:
        """Save the tree as a store with groups; `intarsia.open_datatree` opens it again.

        Parameters
        ----------
        path, mode, containers, sample, max_copied
            As for `IntarsiaAccessor.save`.

        Returns
        -------
        Summary
            Numbers of variables, sources, segments, cases, and bytes.

        Raises
        ------
        UnsupportedVariable, StoreError
            As for `IntarsiaAccessor.save`.
        """
        datasets = {
            where: IntarsiaAccessor(dataset).virtual()
            for where, dataset in nodes_of(self._tree).items()
        }
        return save(
            datasets, path, mode=mode, containers=containers, sample=sample, max_copied=max_copied
        )


def _unwrapped(data: Any) -> Any:
    """What lies under xarray's own lazy wrappers, if it is one of our arrays."""
    inner = unwrapped(data)
    return inner if isinstance(inner, LazyArray) else data
