"""Many files as one dataset: opened, compared, refused where they conflict, combined by xarray."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr

from intarsia.array import LazyArray, VirtualArray
from intarsia.combine import CheckResult, Decision, Options, Report, Summarizer, decide
from intarsia.errors import IntarsiaError, SourceMissing
from intarsia.io.fetch import fetcher_for
from intarsia.lookup import touches
from intarsia.progress import track
from intarsia.references import STORED, Sources
from intarsia.xarray.concatenating import combine_apart
from intarsia.xarray.opening import chunk, open_dataset
from intarsia.xarray.summaries import summarise

type Nested = str | os.PathLike[str] | Sequence[Nested]
type Place = tuple[int, ...]


def open_mfdataset(
    paths: Nested,
    chunks: Any = None,
    concat_dim: Any = None,
    *,
    combine: Literal["by_coords", "nested"] = "by_coords",
    compat: str | None = None,
    data_vars: Any = None,
    coords: Any = None,
    join: str | None = None,
    combine_attrs: Any = "override",
    attrs_file: str | os.PathLike[str] | None = None,
    preprocess: Callable[[xr.Dataset], xr.Dataset] | None = None,
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
    executor : concurrent.futures.Executor, optional
        Opens the files in parallel. HDF5 allows one thread at a time, so that processes help and
        threads do not.
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
    asked = _resolve(
        combine, concat_dim, compat, data_vars, coords, join, combine_attrs, on_conflict,
        tolerance, align,
    )  # fmt: skip
    opened = _open_all(
        paths,
        partial(open_dataset, **open_kwargs),
        preprocess=preprocess,
        executor=executor,
        policy=_policy(on_error, errors),
    )
    decision = _decide(opened, asked)
    decision.raise_if_refused()
    opened.datasets = _adjusted(opened.datasets, decision)
    combined = _combine(opened, asked, decision)
    if attrs_file is not None:
        wanted = os.path.abspath(os.path.expanduser(os.fspath(attrs_file)))
        if wanted not in opened.paths:
            raise ValueError(f"attrs_file {wanted!r} is not among the files")
        combined.attrs = dict(opened.datasets[opened.paths.index(wanted)].attrs)
    combined = _tidy(combined, opened, decision)
    if errors == "warn":
        _warn(opened)
    return combined if chunks is None else chunk(combined, chunks)


def check(
    paths: Nested,
    concat_dim: Any = None,
    *,
    combine: Literal["by_coords", "nested"] | None = None,
    preprocess: Callable[[xr.Dataset], xr.Dataset] | None = None,
    executor: Executor | None = None,
    join: str | None = None,
    compat: str | None = None,
    data_vars: Any = None,
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
    paths, concat_dim, preprocess, executor, join, compat, data_vars, coords, combine_attrs
    on_error, on_conflict, tolerance, align, **open_kwargs
        As for `open_mfdataset`.
    combine : {"by_coords", "nested"}, optional
        "nested" where `concat_dim` is given, else "by_coords".

    Returns
    -------
    CheckResult
        Prints as a table; ``ok`` says whether the files can be combined as asked.
    """
    if combine is None:
        combine = "by_coords" if concat_dim is None else "nested"
    asked = _resolve(
        combine, concat_dim, compat, data_vars, coords, join, combine_attrs, on_conflict,
        tolerance, align,
    )  # fmt: skip
    opened = _open_all(
        paths,
        partial(open_dataset, **open_kwargs),
        preprocess=preprocess,
        executor=executor,
        policy="skip",
    )
    decision = _decide(opened, asked)
    problem: Exception | None = None
    if not decision.refused and opened.datasets and not (opened.skipped and on_error == "raise"):
        try:
            opened.datasets = _adjusted(opened.datasets, decision)
            _combine(opened, asked, decision)
        except (ValueError, TypeError, IntarsiaError) as error:
            problem = error  # what xarray itself refuses
    return CheckResult.of(decision, skipped=opened.skipped, on_error=on_error, problem=problem)


# -- what was asked --------------------------------------------------------------------------------


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
    given = {"compat": compat, "data_vars": data_vars, "coords": coords, "join": join}
    given = {name: value for name, value in given.items() if value is not None}
    given["combine_attrs"] = combine_attrs
    # which defaults xarray would take: the option for the new ones changes them
    new = bool(xr.get_options()["use_new_combine_kwarg_defaults"])
    defaults: dict[str, Any] = (
        {"data_vars": None, "coords": "minimal", "compat": "override"}
        if new
        else {"data_vars": "all", "coords": "different", "compat": "no_conflicts"}
    )
    options: dict[str, Any] = defaults | {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if name != "join"
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
        dims = tuple(concat_dim) if many else (concat_dim,)
    return _Asked(combine, dims, given, options)


def _policy(on_error: str | None, errors: str | None) -> Literal["raise", "skip"]:
    if on_error is not None and errors is not None:
        raise TypeError("on_error and errors are two names of one argument: pass one of them")
    if on_error not in (None, "raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
    if errors not in (None, "raise", "warn", "ignore"):
        raise ValueError(f"errors must be 'raise', 'warn' or 'ignore', got {errors!r}")
    return "skip" if on_error == "skip" or errors in ("warn", "ignore") else "raise"


# -- opening ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Opened:
    """What was opened, and what could not be.

    Parameters
    ----------
    paths, places, datasets
        One per opened file: its path, its place in the nested lists, the dataset.
    skipped
        (path, error) of the others.
    """

    paths: list[str]
    places: list[Place]
    datasets: list[xr.Dataset]
    skipped: list[tuple[str, IntarsiaError]]


def _expand(paths: Nested) -> Iterator[tuple[Place, str]]:
    """Files and their places in the nested lists; a glob is a sorted list."""
    if isinstance(paths, str | os.PathLike):
        pattern = os.path.abspath(os.path.expanduser(os.fspath(paths)))
        found = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        if not found:
            raise SourceMissing("no files match", url=pattern, remedy="check the pattern")
        for number, path in enumerate(found):
            yield (number,), path
        return
    for number, item in enumerate(paths):
        if isinstance(item, str | os.PathLike):
            yield (number,), os.path.abspath(os.path.expanduser(os.fspath(item)))
        else:
            for place, path in _expand(item):
                yield (number, *place), path


def _open_all(
    paths: Nested,
    open_one: Callable[[str], xr.Dataset],
    *,
    preprocess: Callable[[xr.Dataset], xr.Dataset] | None,
    executor: Executor | None,
    policy: Literal["raise", "skip"],
) -> _Opened:
    listed = list(_expand(paths))
    if not listed:
        raise SourceMissing("no files to open", remedy="check the pattern or the list")
    files = [path for _, path in listed]
    attempt = partial(_attempt, open_one)
    results: Iterable[xr.Dataset | IntarsiaError]
    results = map(attempt, files) if executor is None else executor.map(attempt, files)
    opened = _Opened([], [], [], [])
    progress = track(results, "scanning", len(files), unit="files")
    for (place, path), result in zip(listed, progress, strict=True):
        if isinstance(result, IntarsiaError):
            if policy == "raise":
                raise result
            opened.skipped.append((path, result))
            continue
        opened.paths.append(path)
        opened.places.append(place)
        opened.datasets.append(result if preprocess is None else preprocess(result))
    if not opened.datasets and policy == "skip" and opened.skipped:
        path, error = opened.skipped[0]
        error.add_note(f"none of {len(files)} files could be opened; this is the first error")
        raise error
    return opened


def _attempt(open_one: Callable[[str], xr.Dataset], path: str) -> xr.Dataset | IntarsiaError:
    """Open a file, or return the error that says why it can't be: it may cross processes."""
    try:
        return open_one(path)
    except IntarsiaError as error:
        return error


def _warn(opened: _Opened) -> None:
    import warnings

    for path, error in opened.skipped:
        warnings.warn(f"left out {path}: {error}", UserWarning, stacklevel=3)


# -- deciding and combining ------------------------------------------------------------------------


def _decide(opened: _Opened, asked: _Asked) -> Decision:
    make = Summarizer()
    summaries = [
        summarise(dataset, path, make)
        for dataset, path in zip(opened.datasets, opened.paths, strict=True)
    ]
    tiles = None
    if asked.combine == "nested" and len(asked.concat_dims) > 1:
        tiles = opened.places
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
            dataset = dataset.assign_coords({dim: datasets[adjustment.reference][dim]})
        result[adjustment.source] = dataset
    return result


def _combine(opened: _Opened, asked: _Asked, decision: Decision) -> xr.Dataset:
    datasets = _interned(opened.datasets, asked)
    if asked.combine == "by_coords":
        run = partial(_by_coords, given=asked.given)
        names = {frozenset(map(str, dataset.data_vars)) for dataset in datasets}
        one = len(decision.concat_dims) == 1 and len(names) == 1
    else:
        run = partial(_nested, places=opened.places, asked=asked)
        one = len(asked.concat_dims) == 1 and isinstance(asked.concat_dims[0], str)
    if one and "join" not in asked.given:
        dim = decision.concat_dims[0]
        return combine_apart(datasets, dim, asked.given["combine_attrs"], run)
    return run(datasets)


def _by_coords(datasets: list[xr.Dataset], given: dict[str, Any]) -> xr.Dataset:
    result = xr.combine_by_coords(datasets, **given)
    assert isinstance(result, xr.Dataset)
    return result


def _nested(datasets: list[xr.Dataset], places: Sequence[Place], asked: _Asked) -> xr.Dataset:
    nested: Any = _nest(dict(zip(places, datasets, strict=True)))
    dims: Any = list(asked.concat_dims)
    return xr.combine_nested(nested, dims, **asked.given)


def _nest(tiles: dict[Place, xr.Dataset]) -> Any:
    """Nested lists again, without those that were skipped."""
    if len(tiles) == 1 and () in tiles:
        return tiles[()]
    rows: dict[int, dict[Place, xr.Dataset]] = {}
    for place, dataset in tiles.items():
        rows.setdefault(place[0], {})[place[1:]] = dataset
    return [_nest(rows[number]) for number in sorted(rows)]


def _interned(datasets: list[xr.Dataset], asked: _Asked) -> list[xr.Dataset]:
    """Coordinates that are proven equal become one object, so that xarray need not load them.

    Equal means: the same encoding, parameters and stored bytes. What is not proven equal is left
    to xarray, which compares values.
    """
    if len(datasets) < 2:
        return datasets
    seen: dict[Any, Any] = {}
    result: list[xr.Dataset] = []
    for dataset in datasets:
        replaced: dict[Any, xr.Variable] = {}
        for name in dataset._coord_names:
            variable = dataset._variables[name]
            data = variable._data
            if name in dataset._indexes or set(variable.dims) & set(asked.concat_dims):
                continue
            key: Any
            if isinstance(data, VirtualArray):
                key = (name, variable.dims, content_digest(data))
            elif isinstance(data, np.ndarray) and not data.dtype.hasobject:
                key = (name, variable.dims, data.shape, data.dtype.str, data.tobytes())
            else:
                continue
            first = seen.setdefault(key, data)
            if first is not data:
                replaced[name] = variable._replace(data=first)
        if replaced:
            dataset = dataset._replace(variables={**dataset._variables, **replaced})
        result.append(dataset)
    return result


def content_digest(array: VirtualArray) -> bytes:
    """Digest of an array's encodings, parameters and stored bytes: equal digests, equal values.

    The bytes are read, but not decoded.
    """
    found = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=16)
    segments = array.segments
    for case in segments.cases:
        found.update(repr(case.encoding).encode() + case.rows.tobytes())
    itemsizes = np.array([case.encoding.stored.itemsize for case in segments.cases])
    for block in segments.blocks:
        matrix = block.matrix()
        found.update(matrix[:, [0, 1, 6]].tobytes() + matrix[:, 7:].tobytes())
        touched = touches(block, segments.pages, itemsizes)
        found.update(touched.state.tobytes() + touched.mask.tobytes() + touched.chunk.tobytes())
        order = np.arange(len(touched))
        for number in np.unique(touched.source[touched.state == STORED]):
            mine = order[(touched.source == number) & (touched.state == STORED)]
            source = segments.sources[int(number)]
            ranges = [(int(touched.offset[n]), int(touched.length[n])) for n in mine]
            for data in fetcher_for(source).read(source, ranges):
                found.update(len(data).to_bytes(8, "little") + hashlib.blake2b(data).digest())
        for page in segments.pages:
            found.update(page.inline)
    return found.digest()


# -- after combining -------------------------------------------------------------------------------


def _tidy(combined: xr.Dataset, opened: _Opened, decision: Decision) -> xr.Dataset:
    """One source table for all variables, encodings that all files share, and the notes."""
    arrays = {
        name: variable._data
        for name, variable in combined._variables.items()
        if isinstance(variable._data, VirtualArray)
    }
    tables = [array.segments.sources for array in arrays.values()]
    united, maps = Sources.union(tables) if tables else (None, [])
    notes = Report.notes(decision, opened.skipped)
    variables: dict[Any, xr.Variable] = {}
    for (name, array), numbers in zip(arrays.items(), maps, strict=True):
        segments = array.segments
        if numbers is not None and united is not None:
            segments = segments.renumbered(united, numbers)
        array = VirtualArray(segments, array.dtype, array.name, array.notes)
        array = array.with_notes(*notes.get(str(name), ()), *notes.get("", ()))
        variables[name] = combined._variables[name]._replace(data=array)
    for name, variable in combined._variables.items():
        if not isinstance(variable._data, LazyArray):
            kept = _shared_encoding(name, opened.datasets, variable)
            variables[name] = variable._replace(encoding=kept)
    result = combined._replace(variables={**combined._variables, **variables})
    result.encoding = {}
    unlimited = [set(ds.encoding.get("unlimited_dims", ())) for ds in opened.datasets]
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
        other = dataset._variables.get(name)
        if other is not None:
            theirs = other.encoding
            kept = {k: v for k, v in kept.items() if k in theirs and _same(v, theirs[k])}
    return kept


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return bool(np.array_equal(one, two))
    return type(one) is type(two) and bool(one == two or (one != one and two != two))
