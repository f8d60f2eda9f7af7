"""Arguments that say how to open and combine files: the same for every command that does so."""

from __future__ import annotations

import argparse
import glob
import os
import re
from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import intarsia
from intarsia.cli.places import add_access, shown, storage_options
from intarsia.errors import IntarsiaError, SourceMissing
from intarsia.io.access import access_of
from intarsia.io.listing import expand
from intarsia.io.matching import matching
from intarsia.io.paths import is_url

__all__ = [
    "add_combining",
    "call",
    "count",
    "files",
    "keywords",
    "opened",
    "tolerance",
    "workers",
]

_DURATION = re.compile(r"(?P<number>\d+)(?P<unit>ns|us|ms|s|m|h|D)")

JOINS = ("outer", "inner", "left", "right", "exact", "override")


def add_combining(parser: argparse.ArgumentParser) -> None:
    """Add the paths, and all that `intarsia.open_mfdataset` takes and a shell can say."""
    parser.add_argument(
        "paths", nargs="+", metavar="FILES",
        help="files or URLs, or patterns of them in quotes ('sst/*.nc', 's3://bucket/sst/*.nc'); "
        "sorted within a pattern",
    )  # fmt: skip
    group = parser.add_argument_group("how to combine", "as for intarsia.open_mfdataset")
    group.add_argument(
        "--concat-dim", action="append", metavar="DIM",
        help="put the files one after another along DIM (combine='nested'). Given twice, each of "
        "FILES is a row: rows are joined along the first DIM, files of a row along the second. "
        "Without it, coordinates say where files belong (combine='by_coords')",
    )  # fmt: skip
    group.add_argument("--combine", choices=("by_coords", "nested"), help="see --concat-dim")
    group.add_argument(
        "--join", choices=JOINS,
        help="how to align coordinates that differ; without it, those are refused",
    )  # fmt: skip
    group.add_argument(
        "--tolerance", type=tolerance, metavar="X",
        help="coordinates that differ by at most X are the same: a number in their units, or a "
        "duration for times (30s, 12h, 1D)",
    )  # fmt: skip
    group.add_argument("--align", choices=("flip",), help="turn reversed coordinates round")
    group.add_argument(
        "--on-conflict", choices=("raise", "first"), default="raise",
        help="where units, grid mappings or calendars differ: refuse (raise, the default), or keep "
        "what the first file says",
    )  # fmt: skip
    group.add_argument(
        "--on-error", choices=("raise", "skip"), default="raise",
        help="files that can't be opened: a problem (raise, the default), or left out",
    )  # fmt: skip
    for name, told in (
        ("data-vars", "which data variables to concatenate: all, minimal, different"),
        ("coords", "which coordinates to concatenate: all, minimal, different"),
        ("compat", "how to compare variables that are not concatenated: no_conflicts, equals, ..."),
        ("combine-attrs", "how to combine attributes: override, drop, drop_conflicts, ..."),
    ):
        group.add_argument(f"--{name}", metavar="HOW", help=f"{told} (xarray's meanings)")
    group = parser.add_argument_group("how to open", "as for intarsia.open_dataset")
    group.add_argument("--group", help="path of the HDF5 group to open")
    group.add_argument(
        "--drop-variables", action="append", metavar="NAME", help="leave a variable out; repeatable"
    )
    group.add_argument(
        "--unsupported", choices=("raise", "copy", "skip"),
        help="variables that no reference can express: raise when read (the default), copy, skip",
    )  # fmt: skip
    group.add_argument("--phony-dims", choices=("sort", "access"), help="name plain HDF5's dims")
    group.add_argument("--no-mask-and-scale", action="store_true", help="leave numbers packed")
    group.add_argument("--no-decode-times", action="store_true", help="leave times as numbers")
    group.add_argument("--use-cftime", action="store_true", help="decode times to cftime objects")
    add_access(group)
    group.add_argument(
        "-j", "--jobs", type=count, default=1, metavar="N", help="open files in N processes"
    )


def tolerance(text: str) -> Any:
    """Read a number, or a duration.

    Returns
    -------
    float or numpy.timedelta64

    Examples
    --------
    >>> tolerance("1e-6")
    1e-06
    >>> tolerance("30s")
    np.timedelta64(30,'s')
    """
    match = _DURATION.fullmatch(text)
    if match is not None:
        import numpy as np  # heavy, and needed for this alone

        unit: Any = match["unit"]
        return np.timedelta64(int(match["number"]), unit)
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor a duration (30s, 12h, 1D)"
        ) from None


def count(text: str) -> int:
    """Read a number of things of which there is one at least."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


def files(args: argparse.Namespace) -> list[Any]:
    """Find the files that the arguments name, in order; rows of them for two dimensions.

    Raises
    ------
    SourceMissing
        If a pattern matches nothing.
    SystemExit
        With status 2, if a storage option makes no sense.
    """
    rows = [_expanded(path, args) for path in args.paths]
    if len(args.concat_dim or ()) > 1:
        return rows
    return [path for row in rows for path in row]


def _expanded(path: str, args: argparse.Namespace) -> list[str]:
    options = storage_options(args)
    if is_url(path) or options:
        try:
            access = access_of(path, options)
        except ValueError as error:  # which never tells what the options hold
            return args.parser.error(f"--storage-option: {error}")
        found = expand(path, access)
        if not found:
            raise SourceMissing("nothing matches", url=path, remedy="check the pattern")
        return found
    if not glob.has_magic(path) or os.path.exists(path):
        return [path]
    found = matching(os.path.expanduser(path))
    if not found:
        raise SourceMissing("no files match", url=path, remedy="check the pattern")
    return found


def keywords(args: argparse.Namespace) -> dict[str, Any]:
    """Give the arguments that were given as keywords of `intarsia.open_mfdataset`.

    Raises
    ------
    SystemExit
        With status 2, if they contradict each other.
    """
    dims: list[str] = args.concat_dim or []
    if dims and args.combine == "by_coords":
        args.parser.error("--concat-dim goes with --combine nested, not with by_coords")
    if len(dims) > 2:
        args.parser.error("--concat-dim can be given twice at most")
    if len(set(dims)) < len(dims):
        args.parser.error(f"--concat-dim {dims[0]} is given twice: name two dimensions")
    given: dict[str, Any] = {}
    if dims:
        given["concat_dim"] = dims[0] if len(dims) == 1 else dims
    given["combine"] = args.combine or ("nested" if dims else None)
    for name in (
        "join", "tolerance", "align", "data_vars", "coords", "compat", "combine_attrs", "group",
        "drop_variables", "unsupported", "phony_dims",
    ):  # fmt: skip
        given[name] = getattr(args, name)
    for name in ("on_conflict", "on_error"):
        value = getattr(args, name)
        given[name] = None if value == "raise" else value
    if args.no_mask_and_scale:
        given["mask_and_scale"] = False
    if args.no_decode_times:
        given["decode_times"] = False
    if args.use_cftime:
        given["use_cftime"] = True
    given["storage_options"] = storage_options(args)
    return {name: value for name, value in given.items() if value is not None}


def call(args: argparse.Namespace) -> str:
    """Write what the arguments ask for in Python.

    Examples
    --------
    >>> from intarsia.cli.parser import make_parser
    >>> call(make_parser().parse_args(["check", "sst/*.nc", "--concat-dim", "time"]))
    "intarsia.open_mfdataset('sst/*.nc', concat_dim='time', combine='nested')"
    """
    one = len(args.paths) == 1
    parts = [repr(args.paths[0]) if one and len(args.concat_dim or ()) < 2 else "files"]
    parts += [
        f"{name}={shown(value) if name == 'storage_options' else repr(value)}"
        for name, value in keywords(args).items()
    ]
    return f"intarsia.open_mfdataset({', '.join(parts)})"


def opened(paths: list[Any], given: dict[str, Any]) -> Any:
    """Open and combine files.

    Raises
    ------
    IntarsiaError
        If they can't be combined as asked, also where it is xarray that refuses.
    """
    try:
        return intarsia.open_mfdataset(paths, **given)
    except IntarsiaError:
        raise
    except ValueError as error:
        # what xarray refuses by itself
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise IntarsiaError(
            f"can't be combined as asked: {reason}", remedy="`intarsia check` may say more"
        ) from error


@contextmanager
def workers(args: argparse.Namespace) -> Generator[Executor | None]:
    """Give the processes that were asked for; None for this one."""
    if args.jobs == 1:
        yield None
        return
    from intarsia.xarray.processes import Workers  # xarray takes its time, the help needs none

    with Workers(args.jobs) as executor:
        yield executor
