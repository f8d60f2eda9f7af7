"""Datasets as the groups of a store: what stays virtual, what is copied, what is refused.

Virtual variables are saved as references where the format has a case for how they are stored; what
is in memory, or has to be loaded (dask arrays, lazy arrays of other engines, virtual values of
other types), is copied. Encodings are kept as xarray has them, but for entries that tell where a
variable was read from, or that are objects of another library (`DROPPED`); others that can't be
kept exactly are refused by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import LazyArray, VirtualArray, load_together
from intarsia.cf import ENUM, enum_of
from intarsia.codecs.cases import case_json
from intarsia.encoding import Case
from intarsia.errors import UnsupportedError, UnsupportedVariable
from intarsia.io.paths import local_path
from intarsia.io.placing import without_secrets
from intarsia.segments import CASE
from intarsia.store.dtypes import dtype_to_json
from intarsia.store.nodes import Group, Variable
from intarsia.store.write import Summary, write
from intarsia.xarray.choices import CHOICES, choices_of
from intarsia.xarray.indexing import INDEXES, default_names, indexed_names
from intarsia.xarray.internals import (
    computed,
    coords_of,
    data_of,
    dtype_of,
    in_memory,
    is_index,
    is_lazy,
    multi_index_of,
    qualified_name,
    values_of,
    variables_of,
)
from intarsia.xarray.notes import NOTES, notes_of

MAX_COPIED = 1 << 30
"""Bytes that are loaded in order to be copied, unless the caller allows more."""

GROWING = "unlimited_dims"
"""xarray's key of a dataset's encoding."""

REFERRED = "biufc"
"""Kinds of type of which a store has references."""

DROPPED = frozenset(
    [
        "source",  # where this one file was
        "original_shape",
        "preferred_chunks",  # of whoever read it
        "chunks",
        "shards",
        "compressor",  # objects of zarr
        "compressors",
        "filters",
        "serializer",
    ]
)
"""Entries of an encoding that are not saved."""


def save(
    datasets: Mapping[str, xr.Dataset],
    path: str | os.PathLike[str],
    *,
    mode: Literal["w-", "w"] = "w-",
    containers: Mapping[str, str] | None = None,
    sample: bool = False,
    max_copied: int = MAX_COPIED,
) -> Summary:
    """Save datasets as the groups of a store.

    Parameters
    ----------
    datasets
        By absolute path of the group, unwrapped (see `IntarsiaAccessor.virtual`).
    path, mode, containers, sample, max_copied
        As for `IntarsiaAccessor.save`.
    """
    path = local_path(path)
    if max_copied < 0:
        raise ValueError(f"max_copied must be 0 or more, got {max_copied!r}")
    for where in datasets:
        if not {".", ".."}.isdisjoint(where.split("/")):  # trees would follow them
            raise ValueError(f"the path of a group can't hold '.' or '..': {where!r}")
    local = _Local(path, datasets.values())
    loading = _Loading(max_copied)
    planned = {where: _planned(dataset, loading) for where, dataset in datasets.items()}
    loading.run()
    groups = {where: _group(datasets[where], planned[where], local) for where in datasets}
    for where in list(groups):  # groups above that hold nothing
        parts = where.strip("/").split("/")
        for depth in range(len(parts)):
            groups.setdefault("/" + "/".join(parts[:depth]), Group())
    return write(path, groups, mode=mode, containers=containers, sample=sample)


type Values = Callable[[], Any]


def _planned(dataset: xr.Dataset, loading: _Loading) -> dict[str, Values]:
    """Check all variables of a dataset, and find out which have to be loaded."""
    found: dict[str, Values] = {}
    for name, variable in variables_of(dataset).items():
        if not isinstance(name, str):
            reason = f"its name {name!r} is of type {type(name).__name__}, not str"
            raise UnsupportedVariable(reason, array=repr(name), remedy="rename it")
        for dim in variable.dims:
            if not isinstance(dim, str):
                reason = f"its dimension {dim!r} is of type {type(dim).__name__}, not str"
                raise UnsupportedVariable(reason, array=name, remedy="rename the dimension")
        if len(set(variable.dims)) != len(variable.dims):
            reason = f"its dimensions {variable.dims} are not all different"
            raise UnsupportedVariable(reason, array=name, remedy="drop it")
        stacked = multi_index_of(dataset, name)
        if stacked is not None:
            raise UnsupportedVariable(
                "a MultiIndex can't be saved",
                array=stacked,
                remedy=f"make coordinates of its levels with reset_index({stacked!r})",
            )
        found[name] = _values(name, variable, loading)
    return found


def _values(name: str, variable: xr.Variable, loading: _Loading) -> Values:
    data = data_of(variable)
    if isinstance(data, VirtualArray):
        cases = used_cases(data)
        for case in cases:
            _refuse(name, case)
        if data.dtype.kind in REFERRED and all(map(_is_known, cases)):
            return lambda: data
        return loading.later(name, data, data.nbytes)
    dtype: Any = dtype_of(variable)
    if isinstance(dtype, np.dtype):  # else one of pandas' own
        if type(data) is np.ndarray:
            return lambda: data
        if is_index(variable):
            return lambda: values_of(variable)
        if is_lazy(variable):
            return loading.later(name, variable, 0 if in_memory(variable) else variable.nbytes)
    is_numpy = isinstance(dtype, np.dtype)
    raise UnsupportedVariable(
        f"values of type {qualified_name(data) if is_numpy else repr(dtype)}",
        array=name,
        remedy="make a NumPy array of them, or drop it",
    )


def used_cases(array: VirtualArray) -> list[Case]:
    """The cases that segments of an array point to: others may be left from what was cut away."""
    segments = array.segments
    numbers = {int(n) for block in segments.blocks for n in np.unique(block.column(CASE))}
    return [segments.cases[number] for number in sorted(numbers)]


def _refuse(name: str, case: Case) -> None:
    """Refuse what can't be read: in a store it would be lost."""
    filters = case.encoding.filters
    if filters and filters[0].name == "refused":
        told = filters[0].config
        remedy = told.get("remedy") or (
            "open the files with unsupported='copy' to save its values, or drop it: "
            "unsupported='skip', or drop_vars()"
        )
        raise UnsupportedVariable(f"it can't be read: {told['reason']}", array=name, remedy=remedy)


def _is_known(case: Case) -> bool:
    """Whether the format has a case for an encoding; if not, values are copied."""
    try:
        case_json(case.encoding)
    except ValueError:
        return False
    return True


class _Loading:
    """What has to be loaded to be copied: all together, if it is not too much.

    Parameters
    ----------
    limit
        Bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[str, int] = {}
        self._virtual: list[LazyArray] = []
        self._other: list[xr.Variable] = []
        self._loaded: dict[int, npt.NDArray[Any]] = {}

    def later(self, name: str, what: Any, nbytes: int) -> Values:
        """Note that something will have to be loaded; gives its values when that is done."""
        self._sizes[name] = self._sizes.get(name, 0) + nbytes
        if isinstance(what, LazyArray):
            self._virtual.append(what)
        else:
            self._other.append(what)
        return lambda: self._loaded[id(what)]

    def run(self) -> None:
        """Load everything.

        Raises
        ------
        UnsupportedVariable
            If it is too much, naming the largest.
        """
        total = sum(self._sizes.values())
        if total > self._limit:
            name = max(self._sizes, key=self._sizes.__getitem__)
            raise UnsupportedVariable(
                f"{total:,} bytes would have to be loaded to be copied into the store, "
                f"{self._sizes[name]:,} of them for this variable; the limit is {self._limit:,}",
                array=name,
                remedy="save it before it is computed or chunked, while it is virtual; drop it; "
                "or pass max_copied=",
            )
        for array, values in zip(self._virtual, load_together(self._virtual), strict=True):
            self._loaded[id(array)] = values
        for variable, values in zip(self._other, computed(self._other), strict=True):
            self._loaded[id(variable)] = values


def _group(dataset: xr.Dataset, planned: Mapping[str, Values], local: _Local) -> Group:
    coords = coords_of(dataset)
    variables: dict[str, Variable] = {}
    nameless: list[str] = []
    for name, values in planned.items():
        variable = variables_of(dataset)[name]
        data = values()
        if isinstance(data, VirtualArray) and data.notes:
            data = data.replaced(data.segments, frozenset(map(local.text, data.notes)))
        encoding = kept_encoding(variable.encoding)
        reason = _without_names(encoding)
        if reason is not None:
            nameless.append(f"{name!r}: the names of its enumeration are not kept: {reason}")
        variables[name] = Variable(
            tuple(str(dim) for dim in variable.dims),
            data,
            dict(variable.attrs),
            encoding,
            name in coords,
        )
    encoding = kept_encoding(dataset.encoding)
    if GROWING in encoding:
        encoding[GROWING] = _growing(encoding[GROWING])
    notes = tuple(local.text(note) for note in (*notes_of(dataset), *nameless))
    encoding |= {NOTES: notes} if notes else {}
    encoding.pop(CHOICES, None)
    choices = choices_of(dataset)
    encoding |= {CHOICES: tuple(choices)} if choices not in ([], [""]) else {}
    indexed = indexed_names(dataset)
    if sorted(indexed) != sorted(default_names(dataset)):
        encoding[INDEXES] = indexed
    return Group(variables, dict(dataset.attrs), encoding)


def _growing(said: Any) -> Any:
    """Names of dimensions that can grow; xarray takes one name, none, or anything to go through."""
    if isinstance(said, list | tuple | set | frozenset):
        named: Any = said  # pyright: ignore[reportUnknownVariableType]
    else:
        several = isinstance(said, Iterable) and not isinstance(said, str)
        named = set() if said is None else set(said) if several else {said}  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    if not all(isinstance(name, str) for name in named):
        raise UnsupportedError(
            f"the encoding {GROWING!r} can't be kept exactly: {said!r} names what is no str",
            remedy="delete it, or name dimensions",
        )
    return named


def kept_encoding(encoding: Mapping[Hashable, Any]) -> dict[Any, Any]:
    """Entries of an encoding that a store keeps."""
    return {name: value for name, value in encoding.items() if name not in DROPPED}


def _without_names(encoding: dict[Any, Any]) -> str | None:
    """Take the names of an enumeration out where no store can keep them; gives the reason."""
    enum = enum_of(encoding)
    if enum is None:
        return None
    try:
        dtype_to_json(enum)
    except UnsupportedError as error:
        if encoding.get("dtype") is enum:
            encoding["dtype"] = np.dtype(enum.str)
        encoding.pop(ENUM, None)
        return error.reason
    return None


class _Local:
    """Paths in remarks as they are seen from the store: no folders of the one who saves.

    URLs in them are told without what lets one in.

    Parameters
    ----------
    path
        Of the store.
    datasets
        Whose remarks will be told.
    """

    def __init__(self, path: str, datasets: Iterable[xr.Dataset]) -> None:
        self._home = os.path.dirname(path)
        self._user = os.path.expanduser("~")
        folders: set[str] = set()
        for dataset in datasets:
            for variable in variables_of(dataset).values():
                data = data_of(variable)
                if isinstance(data, VirtualArray):
                    folders.update(data.segments.sources.containers)
            source = dataset.encoding.get("source")
            if isinstance(source, str) and os.path.isabs(source):
                folders.add(os.path.dirname(source))
        self._folders = sorted((f.rstrip("/") + "/" for f in folders if "://" not in f), key=len)

    def text(self, remark: str) -> str:
        """A remark with the paths in it made relative."""
        remark = without_secrets(remark)
        for folder in reversed(self._folders):
            near = os.path.relpath(folder, self._home)
            remark = remark.replace(folder, "" if near == "." else f"{near}/")
        for folder, near in ((self._home, ""), (self._user, "~/")):
            if len(folder) > 1:
                remark = remark.replace(f"{folder}/", near)
        return remark
