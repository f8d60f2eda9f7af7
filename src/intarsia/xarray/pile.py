"""Piles of files: named by globs and nested lists, opened one by one or by an executor."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal

import xarray as xr

from intarsia.errors import IntarsiaError, SourceMissing, shown
from intarsia.io.access import access_of
from intarsia.io.matching import matching
from intarsia.io.paths import is_url, place_of
from intarsia.progress import track
from intarsia.xarray.running import opened_all, workers_of

type Nested = str | os.PathLike[str] | Sequence[Nested]
type Place = tuple[int, ...]
type Located = tuple[Place, str]


@dataclass(slots=True)
class Pile:
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

    def warn(self) -> None:
        """Warn of each file that was left out."""
        for path, error in self.skipped:
            warnings.warn(f"left out {shown(path)}: {error}", UserWarning, stacklevel=3)


def _expand(paths: Nested, told: Mapping[str, Any]) -> Iterator[Located]:
    """Files and their places in the nested lists; a glob is a sorted list."""
    if isinstance(paths, str | os.PathLike):
        pattern = place_of(paths)  # pyright: ignore[reportUnknownArgumentType]
        found = _matching(pattern, told)
        if not found:
            raise SourceMissing("no files match", url=pattern, remedy="check the pattern")
        for number, path in enumerate(found):
            yield (number,), path
        return
    for number, item in enumerate(paths):
        if isinstance(item, str | os.PathLike):
            yield (number,), place_of(item)  # pyright: ignore[reportUnknownArgumentType]
        else:
            for place, path in _expand(item, told):
                yield (number, *place), path


def _matching(pattern: str, told: Mapping[str, Any]) -> list[str]:
    """What a pattern matches, or itself where it is none."""
    if is_url(pattern):
        from intarsia.io.listing import expand  # its client takes its time to import

        access = access_of(pattern, told.get("storage_options"), told.get("registry"))
        return expand(pattern, access)
    return matching(pattern) if glob.has_magic(pattern) else [pattern]


def open_pile(
    paths: Nested,
    open_one: Callable[[str], xr.Dataset],
    open_kwargs: Mapping[str, Any],
    *,
    preprocess: Callable[[xr.Dataset], xr.Dataset] | None,
    executor: Executor | None,
    policy: Literal["raise", "skip"],
    parallel: Any = None,
) -> Pile:
    """Open files, in the order of the combination.

    Parameters
    ----------
    paths
        A glob, or (nested) lists of files.
    open_one
        Opens a file; picklable, where `executor` is one of processes.
    open_kwargs
        What it is told: how the URL of a pattern is reached.
    preprocess
        Applied to each dataset, here and not in the executor.
    executor
        Opens the files, or None.
    policy
        Whether files that can't be opened are left out.
    parallel
        As for `open_mfdataset`, in place of `executor`.
    """
    listed = list(_expand(paths, open_kwargs))
    if not listed:
        raise SourceMissing("no files to open", remedy="check the pattern or the list")
    files = [path for _, path in listed]
    pile = Pile([], [], [], [])
    with workers_of(parallel, executor) as where:
        results = opened_all(
            files, open_one, where, shared=preprocess is None, stop=policy == "raise"
        )
        progress = track(results, "scanning", len(files), unit="files")
        try:
            for (place, path), result in zip(listed, progress, strict=True):
                if isinstance(result, IntarsiaError):
                    if policy == "raise":
                        raise result
                    pile.skipped.append((path, result))
                    continue
                dataset = result if preprocess is None else _checked(preprocess(result), path)
                pile.paths.append(path)
                pile.places.append(place)
                pile.datasets.append(dataset)
        finally:
            results.close()  # while the executor is there to cancel what is not needed
    if not pile.datasets and policy == "skip" and pile.skipped:
        path, error = pile.skipped[0]
        error.add_note(f"none of {len(files)} files could be opened; this is the first error")
        raise error
    return pile


def _checked(result: Any, path: str) -> xr.Dataset:
    """What ``preprocess`` returned, if it is a dataset."""
    if not isinstance(result, xr.Dataset):
        raise TypeError(f"preprocess must return a Dataset; for {path} it returned {result!r}")
    return result


def policy_of(on_error: str | None, errors: str | None) -> Literal["raise", "skip"]:
    """What to do with files that can't be opened, from the two names of that argument."""
    if on_error is not None and errors is not None:
        raise TypeError("on_error and errors are two names of one argument: pass one of them")
    if on_error not in (None, "raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
    if errors not in (None, "raise", "warn", "ignore"):
        raise ValueError(f"errors must be 'raise', 'warn' or 'ignore', got {errors!r}")
    return "skip" if on_error == "skip" or errors in ("warn", "ignore") else "raise"
