"""Many files as one dataset: opened, compared, refused where they conflict, combined by xarray."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from inspect import signature
from math import prod
from typing import Any, Literal, cast

import xarray as xr

from intarsia.combine import CheckResult, Decision, Options, Summarizer, decide
from intarsia.errors import IntarsiaError, shown
from intarsia.xarray.concatenating import combine_apart
from intarsia.xarray.internals import assigned, combine_nested, new_defaults
from intarsia.xarray.interning import interned
from intarsia.xarray.notes import remarks_on
from intarsia.xarray.opening import chunk, open_dataset, place_of
from intarsia.xarray.pile import Nested, Pile, Place, open_pile, policy_of
from intarsia.xarray.summaries import summarise
from intarsia.xarray.tidying import tidied


class _Default(Enum):
    """Stands for an argument that was not given, where None means something."""

    AS_XARRAY = "as xarray"

    def __repr__(self) -> str:
        return "<as xarray>"


AS_XARRAY = _Default.AS_XARRAY


def open_mfdataset(
    paths: Nested,
    chunks: Any = None,
    concat_dim: Any = None,
    *,
    combine: Literal["by_coords", "nested"] = "by_coords",
    compat: str | None = None,
    data_vars: Any = AS_XARRAY,
    coords: Any = None,
    join: str | None = None,
    combine_attrs: Any = "override",
    attrs_file: str | os.PathLike[str] | None = None,
    preprocess: Callable[[xr.Dataset], xr.Dataset] | None = None,
    parallel: Any = None,
    executor: Executor | None = None,
    on_error: Literal["raise", "skip"] | None = None,
    errors: Literal["raise", "warn", "ignore"] | None = None,
    on_conflict: Literal["raise", "first"] = "raise",
    tolerance: Any = None,
    align: Literal["flip"] | None = None,
    **open_kwargs: Any,
) -> xr.Dataset:
    """Open many files as one dataset whose large variables are virtual.

    The result equals xarray opening each file with ``engine="h5netcdf"`` and combining the values
    with the same arguments, bit for bit. Differences that would make that result wrong or
    surprising are refused.

    Parameters
    ----------
    paths : str, path or nested sequence of them
        A glob, or files in the order (for ``combine="nested"``: the nesting) of the combination.
    chunks : int, dict, "auto" or None, default: None
        None leaves variables virtual, where xarray would make dask arrays.
    concat_dim, combine, compat, data_vars, coords, combine_attrs, attrs_file, preprocess
        As for `xarray.open_mfdataset`, with the installed xarray's defaults.
    join : str, optional
        As xarray's where it is given. Where it is not, coordinates that differ (jitter, reversed,
        other length) are refused.
    parallel : bool, int, "dask", Client or executor, optional
        Opens the files in parallel: True in as many processes as there are processors, a number in
        so many, "dask" or a `dask.distributed.Client` in its cluster. A process that dies is
        replaced, and the file that it died of is named (or left out, see `on_error`).
    executor : concurrent.futures.Executor, optional
        Opens the files, in place of `parallel`. HDF5 allows one thread at a time, so that processes
        help and threads do not.
    on_error : {"raise", "skip"}, default: "raise"
        What to do with files that can't be opened: raise, or combine the others and say so in the
        report. xarray's ``errors=`` ("raise", "warn", "ignore") is another name for it.
    on_conflict : {"raise", "first"}, default: "raise"
        What to do where files disagree on units, grid mapping or calendars: refuse, or let xarray
        keep what the first file says.
    tolerance : float or timedelta64, optional
        Coordinates that differ by at most this much are taken for the first file's.
    align : {"flip"}, optional
        Turn files round whose coordinate is the first's, reversed.
    **open_kwargs
        As for `open_dataset`.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    SourceError, FormatError
        If a file can't be opened, naming it.
    CombineConflict, AlignmentConflict
        If files differ in what can't be combined, naming the variable, both values, both files and
        the argument that overrides.

    Examples
    --------
    >>> ds = intarsia.open_mfdataset(
    ...     "sst/*.nc", concat_dim="time", combine="nested"
    ... )  # doctest: +SKIP
    """
    _check_names(open_kwargs, "open_mfdataset")
    asked = _resolve(
        combine, concat_dim, compat, data_vars, coords, join, combine_attrs, on_conflict,
        tolerance, align,
    )  # fmt: skip
    pile = open_pile(
        paths,
        partial(open_dataset, **open_kwargs),
        open_kwargs,
        preprocess=preprocess,
        parallel=parallel,
        executor=executor,
        policy=policy_of(on_error, errors),
    )
    if asked.combine == "nested":
        _check_nesting(pile, asked)
    decision = _decide(pile, asked)
    decision.raise_if_refused()
    pile = replace(pile, datasets=_adjusted(pile.datasets, decision))
    combined = _combine(pile, asked, decision)
    if attrs_file is not None:
        wanted = place_of(attrs_file)
        if wanted not in pile.paths:
            raise ValueError(f"attrs_file {wanted!r} is not among the files")
        combined.attrs = dict(pile.datasets[pile.paths.index(wanted)].attrs)
    combined = tidied(combined, pile, decision)
    if errors == "warn":
        pile.warn()
    return combined if chunks is None else chunk(combined, chunks)


def check(
    paths: Nested,
    concat_dim: Any = None,
    *,
    combine: Literal["by_coords", "nested"] | None = None,
    preprocess: Callable[[xr.Dataset], xr.Dataset] | None = None,
    parallel: Any = None,
    executor: Executor | None = None,
    join: str | None = None,
    compat: str | None = None,
    data_vars: Any = AS_XARRAY,
    coords: Any = None,
    combine_attrs: Any = "override",
    on_error: Literal["raise", "skip"] = "raise",
    on_conflict: Literal["raise", "first"] = "raise",
    tolerance: Any = None,
    align: Literal["flip"] | None = None,
    **open_kwargs: Any,
) -> CheckResult:
    """Say what differs between files, and what `open_mfdataset` would do about it.

    Parameters
    ----------
    paths, concat_dim, preprocess, parallel, executor, join, compat, data_vars, coords
    combine_attrs, on_error, on_conflict, tolerance, align, **open_kwargs
        As for `open_mfdataset`.
    combine : {"by_coords", "nested"}, optional
        "nested" where `concat_dim` is given, else "by_coords".

    Returns
    -------
    CheckResult
        Prints as a table; ``ok`` says whether the files can be combined as asked.
    """
    _check_names(open_kwargs, "check")
    if combine is None:
        combine = "by_coords" if concat_dim is None else "nested"
    asked = _resolve(
        combine, concat_dim, compat, data_vars, coords, join, combine_attrs, on_conflict,
        tolerance, align,
    )  # fmt: skip
    pile = open_pile(
        paths,
        partial(open_dataset, **open_kwargs),
        open_kwargs,
        preprocess=preprocess,
        parallel=parallel,
        executor=executor,
        policy="skip",
    )
    if asked.combine == "nested" and not pile.skipped:
        _check_nesting(pile, asked)
    decision = _decide(pile, asked)
    problem: Exception | None = None
    if not decision.refused and pile.datasets and not (pile.skipped and on_error == "raise"):
        try:
            pile = replace(pile, datasets=_adjusted(pile.datasets, decision))
            _combine(pile, asked, decision)
        except (ValueError, TypeError, IntarsiaError) as error:
            problem = error  # what xarray itself refuses
    return CheckResult.of(
        decision,
        skipped=pile.skipped,
        on_error=on_error,
        problem=problem,
        remarks=remarks_on(pile.datasets),
    )


# -- what was asked --------------------------------------------------------------------------------

XARRAYS_ALONE = {
    "engine": "there is one reader for all files",
    "backend_kwargs": "pass its entries as arguments",
    "cache": "load() keeps values",
    "lock": "reading needs none",
    "inline_array": "call chunk() on the result",
    "chunked_array_type": "call chunk() on the result",
    "from_array_kwargs": "call chunk() on the result",
}
"""Arguments that xarray has and that mean nothing here, and what to do instead."""


def _check_names(arguments: dict[str, Any], function: str) -> None:
    """Refuse unknown arguments before a file is opened."""
    known = signature(open_dataset).parameters
    for name in arguments:
        if name not in known or name in ("filename_or_obj", "chunks"):
            hint = f": {XARRAYS_ALONE[name]}" if name in XARRAYS_ALONE else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """Arguments for xarray as they were given, and resolved for the decision."""

    combine: Literal["by_coords", "nested"]
    concat_dims: tuple[Any, ...]
    given: dict[str, Any]
    options: dict[str, Any]


def _resolve(
    combine: Literal["by_coords", "nested"],
    concat_dim: Any,
    compat: str | None,
    data_vars: Any,
    coords: Any,
    join: str | None,
    combine_attrs: Any,
    on_conflict: Literal["raise", "first"],
    tolerance: Any,
    align: Literal["flip"] | None,
) -> _Asked:
    if combine not in ("by_coords", "nested"):
        raise ValueError(f"combine must be 'by_coords' or 'nested', got {combine!r}")
    if combine == "by_coords" and concat_dim is not None:
        raise ValueError(
            "concat_dim has no effect with combine='by_coords'; pass combine='nested' with it"
        )
    passed = {"compat": compat, "coords": coords, "join": join}
    given: dict[str, Any] = {name: value for name, value in passed.items() if value is not None}
    if data_vars is not AS_XARRAY:  # None is a choice of its own here
        given["data_vars"] = data_vars
    given["combine_attrs"] = combine_attrs
    # which defaults xarray would take: the option for the new ones changes them
    new = new_defaults()
    defaults: dict[str, Any] = (
        {"data_vars": None, "coords": "minimal", "compat": "override"}
        if new
        else {"data_vars": "all", "coords": "different", "compat": "no_conflicts"}
    )
    options = defaults | {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        for name, value in given.items()
    }
    options |= {
        "join": join,
        "on_conflict": on_conflict,
        "tolerance": tolerance,
        "align": align,
    }
    dims: tuple[Any, ...] = ()
    if combine == "nested":
        many = isinstance(concat_dim, list | tuple)
        dims = tuple(cast("Sequence[Any]", concat_dim)) if many else (concat_dim,)
    return _Asked(combine, dims, given, options)


# -- deciding and combining ------------------------------------------------------------------------


def _decide(pile: Pile, asked: _Asked) -> Decision:
    make = Summarizer()
    summaries = [
        summarise(dataset, path, make)
        for dataset, path in zip(pile.datasets, pile.paths, strict=True)
    ]
    tiles = None
    if asked.combine == "nested" and len(asked.concat_dims) > 1:
        tiles = pile.places
    dims = tuple(None if dim is None else _dim_name(dim) for dim in asked.concat_dims)
    options = Options(combine=asked.combine, concat_dims=dims, tiles=tiles, **asked.options)
    return decide(summaries, options)


def _dim_name(dim: Any) -> str:
    """Xarray takes a DataArray or an Index for a new dimension: its name counts."""
    return str(getattr(dim, "name", dim))


def _adjusted(datasets: list[xr.Dataset], decision: Decision) -> list[xr.Dataset]:
    """Carry out what `tolerance` and `align` ask."""
    result = list(datasets)
    for adjustment in decision.adjustments:
        dim = adjustment.dim
        dataset = result[adjustment.source]
        if adjustment.flip:
            dataset = dataset.isel({dim: slice(None, None, -1)})
        if adjustment.relabel:
            dataset = assigned(dataset, {dim: datasets[adjustment.reference][dim]})
        result[adjustment.source] = dataset
    return result


def _combine(pile: Pile, asked: _Asked, decision: Decision) -> xr.Dataset:
    datasets = interned(
        pile.datasets,
        decision.concat_dims,
        compat=asked.options["compat"],
        coords=asked.options["coords"],
        data_vars=asked.options["data_vars"],
    )
    if asked.combine == "by_coords":
        run = partial(_by_coords, given=asked.given)
        names = {frozenset(map(str, dataset.data_vars)) for dataset in datasets}
        one = len(decision.concat_dims) == 1 and len(names) == 1
    else:
        run = partial(_nested, places=pile.places, asked=asked)
        one = len(asked.concat_dims) == 1 and isinstance(asked.concat_dims[0], str)
    # variables that are treated by their names, and global attributes, are xarray's to see
    named = [asked.options[option] for option in ("data_vars", "coords")]
    if not all(isinstance(option, str | None) for option in named):
        return run(datasets)
    if one and asked.options["compat"] != "identical":
        return combine_apart(
            datasets,
            decision.concat_dims[0],
            run,
            combine_attrs=asked.given["combine_attrs"],
            aligned="join" not in asked.given,
            in_order=asked.combine == "nested",
        )
    return run(datasets)


def _by_coords(datasets: list[xr.Dataset], given: dict[str, Any]) -> xr.Dataset:
    result = xr.combine_by_coords(datasets, **given)
    assert isinstance(result, xr.Dataset)
    return result


def _nested(datasets: list[xr.Dataset], places: Sequence[Place], asked: _Asked) -> xr.Dataset:
    nested: Any = _nest(dict(zip(places, datasets, strict=True)))
    return combine_nested(nested, list(asked.concat_dims), asked.given)


def _check_nesting(pile: Pile, asked: _Asked) -> None:
    """As many dimensions as the lists are deep; and a file that is left out may leave a hole."""
    for place, path in zip(pile.places, pile.paths, strict=True):
        if len(place) != len(asked.concat_dims):
            raise ValueError(
                f"concat_dim names {len(asked.concat_dims)} dimension(s), but the lists of files "
                f"are nested {len(place)} deep (at {shown(path)})"
            )
    places = set(pile.places)
    sizes = [len({place[axis] for place in places}) for axis in range(len(asked.concat_dims))]
    if pile.skipped and len(sizes) > 1 and len(places) != prod(sizes):
        path, error = pile.skipped[0]
        error.add_note(f"leaving {path} out would leave a hole in the nested lists of files")
        raise error


def _nest(tiles: dict[Place, xr.Dataset]) -> Any:
    """Nested lists again, without those that were skipped."""
    if len(tiles) == 1 and () in tiles:
        return tiles[()]
    rows: dict[int, dict[Place, xr.Dataset]] = {}
    for place, dataset in tiles.items():
        rows.setdefault(place[0], {})[place[1:]] = dataset
    return [_nest(rows[number]) for number in sorted(rows)]
