"""Every source read again with its own library, and held against what a store gives."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.errors import IntarsiaError, shown
from intarsia.io.fetch import changed_sources
from intarsia.progress import track
from intarsia.references import NO_SOURCES, Sources
from intarsia.store.read import read
from intarsia.xarray import accessor as accessor  # registers ds.intarsia
from intarsia.xarray.internals import data_of, values_of, variables_of
from intarsia.xarray.verifying.comparing import Comparison, Outcome, Referred
from intarsia.xarray.verifying.copies import Copied, Gathered, Part, compare_copy
from intarsia.xarray.verifying.labels import Labels
from intarsia.xarray.verifying.original import Unreadable
from intarsia.xarray.verifying.originals import Originals
from intarsia.xarray.verifying.pieces import Placed
from intarsia.xarray.verifying.results import (
    Changed,
    Difference,
    Uncompared,
    VariableResult,
    Verification,
)

type Array = npt.NDArray[Any]
type Contents = Mapping[str, tuple[tuple[str, ...], VirtualArray | Array]]
"""Dimensions and values of the variables of a group."""

MAX_BATCH = 64
"""Sources that an executor is handed at once, at most."""


def verify(
    store: str | os.PathLike[str] | xr.Dataset,
    *,
    sample: int | None = None,
    variables: str | Iterable[str] | None = None,
    tolerance: Any = None,
    by_label: bool = True,
    containers: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
    executor: Executor | None = None,
) -> Verification:
    """Read every source again with its own library, and compare all values, bit for bit.

    Each value that stays in a source is compared with what xarray reads there with h5netcdf,
    netCDF4, SciPy or zarr-python, opened as it was when it was scanned: at the position that the
    value is taken from, and with the labels that the source has at that position. A chunk of a Zarr
    folder is a source of its own, and is looked up in the array that it is of. Copied values are
    compared with those of the sources where labels say which these are.

    Parameters
    ----------
    store : str, path or xarray.Dataset
        A saved store, or a dataset that has not been saved yet.
    sample : int, optional
        Compare about so many elements of each variable, spread over all sources, corners of
        segments among them, instead of all. The same ones each time.
    variables : str or iterable of str, optional
        Only these; those of groups by their path (``/group/name``).
    tolerance : float or timedelta64, optional
        Labels that differ by at most this much are the same: what was given when combining.
    by_label : bool, default: True
        Whether labels are compared. Not, where they were changed on purpose.
    containers : mapping, optional
        Where containers are now, as for `open_dataset` of a store.
    storage_options, registry : optional
        How sources of the network are reached, as for `open_dataset` of a store. They are copied
        to this machine, one after the other, while they are compared.
    executor : concurrent.futures.Executor, optional
        Compares sources in parallel. HDF5 allows one thread at a time, so that processes help and
        threads do not.

    Returns
    -------
    Verification
        ``ok`` says whether all is equal; prints what is not, and what could not be compared.

    Raises
    ------
    StoreError
        If there is no store, or it is damaged.
    ValueError
        If there is no such variable.

    Examples
    --------
    >>> intarsia.verify("sst.intarsia", sample=1000).ok  # doctest: +SKIP
    True
    """
    if sample is not None and sample < 1:
        raise ValueError(f"sample must be 1 or more, got {sample!r}")
    if isinstance(store, xr.Dataset):
        told = {"containers": containers, "storage_options": storage_options, "registry": registry}
        for argument, value in told.items():
            if value is not None:
                raise TypeError(f"{argument}= is about a store's sources; this is a dataset")
        name, groups = "<dataset>", {"/": _contents_of(store)}
    else:
        stored = read(
            store, containers=containers, storage_options=storage_options, registry=registry
        )
        name = stored.url
        groups = {
            path: {n: (v.dims, v.data) for n, v in group.variables.items()}
            for path, group in stored.groups.items()
        }
    wanted = {variables} if isinstance(variables, str) else variables
    work = _Work.of(groups, None if wanted is None else set(wanted), sample, tolerance, by_label)
    used = sorted(work.members)
    found = changed_sources(work.sources[number] for number in used)
    changed = {used[place]: error for place, error in found}
    told = tuple(
        Changed(shown(work.sources.url(number)), error.kind, error.reason)
        for number, error in changed.items()
    )
    numbers = [number for number in used if number not in changed]
    return _gather(name, work, told, _found(work, numbers, executor))


def _contents_of(dataset: xr.Dataset) -> Contents:
    found: dict[str, tuple[tuple[str, ...], VirtualArray | Array]] = {}
    for name, variable in variables_of(dataset.intarsia.virtual()).items():
        data = data_of(variable)
        values = data if isinstance(data, VirtualArray) else values_of(variable)
        found[str(name)] = tuple(map(str, variable.dims)), values
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What to compare; it crosses processes.

    Parameters
    ----------
    sources
        All sources.
    referred, copied
        The variables.
    members
        Which groups have something of a source, by its number.
    sample, by_label
        As for `verify`.
    """

    sources: Sources
    referred: tuple[Referred, ...]
    copied: tuple[Copied, ...]
    members: Mapping[int, frozenset[str]]
    sample: int | None
    by_label: bool

    @classmethod
    def of(
        cls,
        groups: Mapping[str, Contents],
        wanted: set[str] | None,
        sample: int | None,
        tolerance: Any,
        by_label: bool,
    ) -> _Work:
        tables = {
            (group, name): data.segments.sources
            for group, contents in groups.items()
            for name, (_, data) in contents.items()
            if isinstance(data, VirtualArray)
        }
        sources, maps = Sources.union(list(tables.values())) if tables else (NO_SOURCES, [])
        numbers = dict(zip(tables, maps, strict=True))
        referred: list[Referred] = []
        copied: list[Copied] = []
        members: dict[int, set[str]] = {}
        paths: set[str] = set()
        named = {group: dict(_labels(contents)) for group, contents in groups.items()}
        for group, contents in groups.items():
            labels = Labels(_inherited(group, named), tolerance)
            for name, (dims, data) in contents.items():
                path = name if group == "/" else f"{group}/{name}"
                paths.add(path)
                if isinstance(data, VirtualArray):
                    placed = Placed(data, numbers[group, name])
                    for number in placed.volumes:
                        members.setdefault(number, set()).add(group)
                    if wanted is None or path in wanted:
                        referred.append(Referred(path, name, dims, data, placed, labels))
                elif wanted is None or path in wanted:
                    copied.append(Copied(path, group, name, dims, data, labels))
        absent = sorted((wanted or set()) - paths)
        if absent:
            listed = ", ".join(sorted(paths))
            raise ValueError(f"no variable {absent[0]!r}; there are {listed}")
        where = {number: frozenset(those) for number, those in members.items()}
        return cls(sources, tuple(referred), tuple(copied), where, sample, by_label)


def _inherited(group: str, named: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Labels of a group's dimensions: its own, and those of the groups above it."""
    found: dict[str, Array] = {}
    parts = [part for part in group.split("/") if part]
    for depth in range(len(parts) + 1):
        found |= named.get("/" + "/".join(parts[:depth]), {})
    return found


def _labels(contents: Contents) -> Iterator[tuple[str, Array]]:
    for name, (dims, data) in contents.items():
        if dims != (name,):
            continue
        try:
            yield name, data.load() if isinstance(data, VirtualArray) else data
        except IntarsiaError:
            continue  # told as a source that changed, or as a variable that can't be read


@dataclass(frozen=True, slots=True)
class _Found:
    """What one source gave, by the number of each variable."""

    referred: dict[int, Outcome]
    copied: dict[int, Part | str]


def _found(work: _Work, numbers: list[int], executor: Executor | None) -> Iterator[_Found]:
    """Compare all sources, here or elsewhere."""
    progress = partial(track, label="verifying", total=len(numbers), unit="sources")
    if executor is None:
        yield from progress(map(partial(_compare_source, work, Originals()), numbers))
        return
    size = min(MAX_BATCH, max(1, len(numbers) // 32))
    batches = [numbers[low : low + size] for low in range(0, len(numbers), size)]
    results = executor.map(partial(_compare_sources, work), batches)
    try:
        yield from progress(found for batch in results for found in batch)
    finally:
        if isinstance(results, Generator):
            results.close()  # while the executor is there to cancel what is not needed


def _compare_sources(work: _Work, numbers: list[int]) -> list[_Found]:
    originals = Originals()
    return [_compare_source(work, originals, number) for number in numbers]


def _compare_source(work: _Work, originals: Originals, number: int) -> _Found:
    """Compare all variables with one source."""
    groups = work.members.get(number, frozenset())
    source = work.sources[number]
    found = _Found({}, {})
    mine = [n for n, one in enumerate(work.referred) if number in one.placed.volumes]
    copied = [n for n, one in enumerate(work.copied) if one.group in groups]
    if not mine and not copied:
        return found
    try:
        with originals.opened(source) as opened:
            for n in mine:
                comparison = Comparison(
                    work.referred[n], opened, number, sample=work.sample, by_label=work.by_label
                )
                try:
                    found.referred[n] = comparison.run()
                except Unreadable as error:
                    found.referred[n] = _left(work.referred[n], number, source.url, str(error))
            for n in filter(partial(originals.is_new, opened), copied):
                found.copied[n] = compare_copy(work.copied[n], opened)
    except Unreadable as error:
        for n in mine:
            found.referred[n] = _left(work.referred[n], number, source.url, str(error))
        found.copied.update(dict.fromkeys(copied, str(error)))
    return found


def _left(referred: Referred, number: int, url: str, reason: str) -> Outcome:
    elements = referred.placed.volumes[number]
    return Outcome(uncompared=[Uncompared(referred.path, elements, reason, shown(url))])


def _gather(
    name: str, work: _Work, changed: tuple[Changed, ...], results: Iterable[_Found]
) -> Verification:
    """Put together what all sources gave."""
    outcomes: list[list[Outcome]] = [[] for _ in work.referred]
    gathered = [Gathered(copied) for copied in work.copied]
    for found in results:
        for n, outcome in found.referred.items():
            outcomes[n].append(outcome)
        for n, part in found.copied.items():
            gathered[n].add(part)
    variables: list[VariableResult] = []
    differences: list[Difference] = []
    uncompared: list[Uncompared] = []
    for referred, those in zip(work.referred, outcomes, strict=True):
        placed = referred.placed
        labelled = {dim for one in those for dim in one.labelled}
        labelled -= {dim for one in those for dim in one.unlabelled}
        variables.append(
            VariableResult(
                referred.path,
                False,
                referred.array.size,
                sum(one.compared for one in those),
                placed.constants,
                sum(1 for one in those if one.compared),
                tuple(dim for dim in referred.dims if dim in labelled),
            )
        )
        differences += [difference for one in those for difference in one.differences]
        uncompared += [left for one in those for left in one.uncompared]
        if placed.inline:
            reason = "copied; joining put values beside those of the sources"
            uncompared.append(Uncompared(referred.path, placed.inline, reason, copied=True))
    for one in gathered:
        told, different, left = one.result()
        variables.append(told)
        differences += different
        uncompared += left
    return Verification(
        name,
        len(work.members),
        work.sample,
        changed,
        tuple(variables),
        tuple(differences),
        tuple(uncompared),
    )


__all__ = ["Verification", "verify"]
