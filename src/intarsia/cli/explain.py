"""``intarsia explain``: what loading a selection of combined files would read."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from typing import Any

from intarsia.cli.combining import add_combining, files, keywords, opened, workers

_SELECTION = re.compile(
    r"(?P<dim>[^=]+)=(?:(?P<index>-?\d+)|(?P<start>-?\d*):(?P<stop>-?\d*)(?::(?P<step>-?\d*))?)"
)

POSITIONAL = " FILES..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_combining(parser)
    parser.add_argument(
        "--isel", action="append", type=selection, default=[], metavar="DIM=WHERE",
        help="select first: positions counted from 0, as time=3, time=0:10 or lat=::2; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "-v", "--variable", action="append", metavar="NAME", help="only this variable; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Say what loading would read: segments, chunks, requests and bytes.

    Opens and combines the files as intarsia.open_mfdataset does, and plans the load of all virtual
    variables, or of a selection of them, without carrying it out. Neighbouring chunks are read with
    one request, across variables too: the last line counts all variables loaded together.

    Examples
    --------
      # ten steps of a series
      intarsia explain 'sst/*.nc' --concat-dim time --isel time=0:10

      # one variable at one place, through all times
      intarsia explain 'sst/*.nc' --concat-dim time -v sst --isel lat=20 --isel lon=35

      # one file
      intarsia explain sst.nc
    """
    given = keywords(args)
    with workers(args) as executor:
        dataset = opened(files(args), {**given, "executor": executor})
    if args.variable:
        absent = [name for name in args.variable if name not in dataset.variables]
        if absent:
            args.parser.error(f"no variable {absent[0]!r}; there are {_listed(dataset.variables)}")
        dataset = dataset[args.variable]
    for dim, wanted in args.isel:
        if dim not in dataset.sizes:
            args.parser.error(f"no dimension {dim!r}; there are {_listed(dataset.sizes)}")
        size = dataset.sizes[dim]
        if isinstance(wanted, int) and not -size <= wanted < size:
            args.parser.error(f"--isel {dim}={wanted}: {dim!r} has {size} positions, from 0")
    explanation = dataset.intarsia.explain(dict(args.isel))
    if args.json:
        told = dataclasses.asdict(explanation)
        print(json.dumps({"together": told["total"], "variables": told["variables"]}, indent=2))
    else:
        print(explanation)
    return 0


def selection(text: str) -> tuple[str, int | slice]:
    """Read a selection along one dimension.

    Examples
    --------
    >>> selection("time=0:10"), selection("lat=-1"), selection("lon=::4")
    (('time', slice(0, 10, None)), ('lat', -1), ('lon', slice(None, None, 4)))
    """
    match = _SELECTION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a selection: write time=3, time=0:10 or lat=::2"
        )
    if match["index"] is not None:
        return match["dim"], int(match["index"])
    start, stop, step = (int(match[n]) if match[n] else None for n in ("start", "stop", "step"))
    if step == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a step can't be 0")
    return match["dim"], slice(start, stop, step)


def _listed(names: Any) -> str:
    return ", ".join(sorted(map(str, names)))
