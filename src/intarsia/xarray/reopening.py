"""Saved stores as datasets: what was saved, virtual again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import xarray as xr

from intarsia.array import VirtualArray, load_together
from intarsia.errors import CorruptStore, StoreError, StoreReplaced
from intarsia.store.nodes import Group
from intarsia.store.read import ATTEMPTS, read, read_group
from intarsia.xarray.choices import CHOICES, check_choices
from intarsia.xarray.indexing import INDEXES, with_default_indexes, with_indexes
from intarsia.xarray.internals import Variables, data_of, variables_of, with_data, with_parts
from intarsia.xarray.notes import NOTES

__all__ = ["reopened", "reopened_groups"]


def reopened(
    path: str,
    *,
    group: str | None = None,
    drop_variables: str | Iterable[str] | None = None,
    loadable_variables: str | Iterable[str] | None = None,
    containers: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
    create_default_indexes: bool = True,
    **choices: Any,
) -> xr.Dataset:
    """Open a group of a store.

    Parameters
    ----------
    path
        Absolute path of the store.
    group, drop_variables, loadable_variables, containers, create_default_indexes
        As for `open_dataset`.
    storage_options, registry
        How those sources are reached that are in the network, as for `open_dataset`.
    **choices
        How to decode; what is given has to be what was chosen when the sources were opened.

    Raises
    ------
    StoreError
        If there is no such store, or no such group in it, or it is damaged.
    UnsupportedError
        If it is to be decoded in another way.
    """
    inside = "/" + "/".join(part for part in (group or "").split("/") if part)
    try:
        _, content = read_group(
            path, inside, containers=containers, storage_options=storage_options, registry=registry
        )
    except KeyError as error:
        reason = f"the store has no group {inside!r}"
        raise StoreError(reason, url=path, remedy="see intarsia.open_datatree") from error
    opening = _Opening(path, drop_variables, loadable_variables, choices)
    dataset = opening.dataset(content)
    return opening.indexed(dataset, content) if create_default_indexes else dataset


def reopened_groups(
    path: str,
    *,
    group: str | None = None,
    drop_variables: str | Iterable[str] | None = None,
    loadable_variables: str | Iterable[str] | None = None,
    containers: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    registry: Any = None,
    create_default_indexes: bool = True,
    **choices: Any,
) -> dict[str, xr.Dataset]:
    """Open a group of a store and all groups in it.

    Parameters
    ----------
    path, group, drop_variables, loadable_variables, containers, create_default_indexes, **choices
    storage_options, registry
        As for `reopened`.

    Returns
    -------
    dict
        Datasets by path, seen from `group`, which itself is ``"/"``.

    Raises
    ------
    StoreError, UnsupportedError
        As for `reopened`.
    """
    inside = "/" + "/".join(part for part in (group or "").split("/") if part)
    how = {"containers": containers, "storage_options": storage_options, "registry": registry}
    groups = _groups(path, how, ATTEMPTS)
    if inside not in groups:
        raise StoreError(f"the store has no group {inside!r}", url=path)
    opening = _Opening(path, drop_variables, loadable_variables, choices)
    found: dict[str, xr.Dataset] = {}
    for where, content in groups.items():
        if where == inside or where.startswith(f"{inside.rstrip('/')}/"):
            dataset = opening.dataset(content)
            if create_default_indexes:
                dataset = opening.indexed(dataset, content)
            found["/" + where.removeprefix(inside).strip("/")] = dataset
    return found


def _groups(path: str, how: Mapping[str, Any], attempts: int) -> dict[str, Group]:
    """All groups, read anew where the store is replaced meanwhile."""
    try:
        return dict(read(path, **how).groups)
    except StoreReplaced:
        if attempts == 1:
            raise
    return _groups(path, how, attempts - 1)


@dataclass(frozen=True, slots=True)
class _Opening:
    """How groups of one store are opened; parameters are those of `reopened`."""

    path: str
    drop_variables: str | Iterable[str] | None
    loadable_variables: str | Iterable[str] | None
    choices: Mapping[str, Any]

    def dataset(self, group: Group) -> xr.Dataset:
        """The dataset of a group, without indexes."""
        check_choices(self._texts(group, CHOICES), url=self.path, **self.choices)
        dropped = self.drop_variables
        left_out = {dropped} if isinstance(dropped, str) else set(dropped or ())
        variables: Variables = {}
        for name, variable in group.variables.items():
            if name not in left_out:
                variables[name] = xr.Variable(
                    variable.dims, variable.data, variable.attrs, variable.encoding, fastpath=True
                )
        self._load(variables)
        coords: set[Hashable] = {
            name for name in variables if group.variables[str(name)].coordinate
        }
        dataset = with_parts(xr.Dataset(attrs=group.attrs), variables, coords, {})
        kept = {name: value for name, value in group.encoding.items() if name != INDEXES}
        dataset.encoding = {**kept, "source": self.path}
        for key in (NOTES, "unlimited_dims"):
            self._texts(group, key)
        return dataset

    def indexed(self, dataset: xr.Dataset, group: Group) -> xr.Dataset:
        """The dataset with the indexes that the saved one had."""
        if INDEXES not in group.encoding:
            return with_default_indexes(dataset)
        names = [name for name in self._texts(group, INDEXES) if name in variables_of(dataset)]
        try:
            return with_indexes(dataset, names)
        except ValueError as error:
            raise CorruptStore(f"an index can't be made: {error}", url=self.path) from error

    def _load(self, variables: Variables) -> None:
        asked = self.loadable_variables
        wanted = {asked} if isinstance(asked, str) else set(asked or ())
        virtual = {
            name: data_of(variable)
            for name, variable in variables.items()
            if name in wanted and isinstance(data_of(variable), VirtualArray)
        }
        for name, values in zip(virtual, load_together(list(virtual.values())), strict=True):
            variables[name] = with_data(variables[name], values)

    def _texts(self, group: Group, key: str) -> list[str]:
        """What a group's encoding says under a key that has to hold some texts."""
        found = group.encoding.get(key, ())
        several = isinstance(found, list | tuple | set | frozenset)
        listed = list(cast("Iterable[Any]", found)) if several else None
        if listed is None or not all(isinstance(item, str) for item in listed):
            raise CorruptStore(f"the encoding {key!r} is no list of texts", url=self.path)
        return listed
