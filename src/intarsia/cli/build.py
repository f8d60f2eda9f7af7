"""``intarsia build``: files combined, and saved as a small store that refers to them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from intarsia.cli.combining import add_combining, files, keywords, opened, workers
from intarsia.cli.places import add_containers
from intarsia.cli.words import in_words
from intarsia.errors import StoreError
from intarsia.io.paths import is_url

if TYPE_CHECKING:
    from intarsia.combine import Report

POSITIONAL = " FILES... -o STORE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_combining(parser)
    group = parser.add_argument_group("how to save", "as for ds.intarsia.save")
    group.add_argument(
        "-o", "--output", required=True, metavar="STORE",
        help="where the store goes: a folder (sst.intarsia), or a zip file (sst.intarsia.zip)",
    )  # fmt: skip
    group.add_argument("--overwrite", action="store_true", help="replace a store that is there")
    add_containers(group, "name the place where sources are, by which they can be found again")
    group.add_argument(
        "--sample", action="store_true",
        help="keep a digest of some content of each source, and check that instead of its "
        "modification time",
    )  # fmt: skip
    group.add_argument(
        "--max-copied", type=int, metavar="BYTES",
        help="most bytes that are loaded to be copied into the store",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Combine files, and save the result as a store that refers to them.

    The store holds where each value is, not the values; it opens in milliseconds, with
    intarsia.open_dataset or xarray.open_dataset. It appears when all of it is written, and what was
    there before stays until then. The files have to stay where they are, seen from the store. Of
    how URLs are reached, the store keeps what is no secret.

    Prints how large it is, which files were left out, and what else there is to know of it. Exits
    with 1, and writes nothing, if the files can't be combined as asked.

    Examples
    --------
      # files that follow one another in time
      intarsia build 'sst/*.nc' -o sst.intarsia --concat-dim time

      # leave out broken files; copy what no reference can express
      intarsia build 'sst/*.nc' -o sst.intarsia --concat-dim time --on-error skip --unsupported copy

      # one zip file, in place of the one before
      intarsia build tiles/*.nc -o tiles.intarsia.zip --overwrite

      # sources in a public bucket
      intarsia build 's3://bucket/*.nc' -o sst.intarsia --storage-option skip_signature=true

      # sources that may move: name their place, and know them by their content
      intarsia build /data/sst/*.nc -o sst.intarsia --container sst=/data/sst --sample
    """
    from intarsia.store.swap import check_place  # heavy, and not needed for the help

    given = keywords(args)
    paths = files(args)
    _check_output(args, paths)
    output = os.path.abspath(os.path.expanduser(args.output))
    check_place(output, overwrite=args.overwrite)  # before the files are looked at
    with workers(args) as executor:
        dataset = opened(paths, {**given, "executor": executor})
    report: Report = dataset.intarsia.report()
    how: dict[str, Any] = {"containers": dict(args.container), "sample": args.sample}
    if args.max_copied is not None:
        how["max_copied"] = args.max_copied
    summary = dataset.intarsia.save(output, "w" if args.overwrite else "w-", **how)
    if args.json:
        told = {**dataclasses.asdict(summary), "report": report.as_json()}
        print(json.dumps(told, indent=2))
        return 0
    print(in_words(str(summary)))
    lines = list(_notes(report))
    if lines:
        from intarsia.combine.text import lines_of

        width = shutil.get_terminal_size((100, 24)).columns
        print("\n".join(["", "Notes:", *(lines_of(in_words(line), width) for line in lines)]))
    return 0


def _check_output(args: argparse.Namespace, paths: list[Any]) -> None:
    """Refuse to write onto an input, be it under another name."""
    place = os.path.realpath(os.path.expanduser(args.output))
    flat: list[str] = []
    for path in paths:
        flat += path if isinstance(path, list) else [path]
    for path in flat:
        if not is_url(path) and os.path.realpath(os.path.expanduser(path)) == place:
            raise StoreError(
                "the store can't be written onto one of the files it is made of",
                url=path,
                remedy="give another --output",
            )


_SUBJECTS = ("'", '"', "files: ", "left out")
"""How remarks begin that say themselves what they are about."""


def _notes(report: Report) -> Iterator[str]:
    """What there is to know of the result, each thing once; `check` tells what is as in xarray."""
    seen: set[str] = set()
    for name, lines in (report.remarks or {}).items():
        for line in lines:
            if line not in seen and "; equal to xarray" not in line:
                seen.add(line)
                yield line if not name or line.startswith(_SUBJECTS) else f"{name!r}: {line}"
