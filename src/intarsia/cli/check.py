"""``intarsia check``: what differs between files, and whether they can be combined as asked."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace

import intarsia
from intarsia.cli.combining import add_combining, call, files, keywords, workers
from intarsia.cli.words import in_words

POSITIONAL = " FILES..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_combining(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Say what differs between files, and whether they can be combined as asked.

    Opens every file and prints each difference with what will be done about it: values equal
    xarray's, or the files are refused, or Intarsia differs from xarray on purpose. No values are
    read but those of coordinates.

    Exits with 1 if the files can't be combined as asked, and says why and which argument overrides.

    Examples
    --------
      # files that follow one another in time
      intarsia check 'sst/*.nc' --concat-dim time

      # files that know where they belong by their coordinates
      intarsia check tiles/*.nc

      # leave out broken files, and take longitudes that differ by rounding for the same
      intarsia check 'sst/*.nc' --concat-dim time --on-error skip --tolerance 1e-5

      # two dimensions: a row of files for each model run
      intarsia check 'run1/*.nc' 'run2/*.nc' --concat-dim run --concat-dim time

      # files of a public bucket
      intarsia check 's3://bucket/sst/*.nc' --concat-dim time --storage-option skip_signature=true

      # for a program
      intarsia check 'sst/*.nc' --concat-dim time --json
    """
    given = keywords(args)
    with workers(args) as executor:
        result = intarsia.check(files(args), executor=executor, **given)
    if args.json:
        print(json.dumps(result.as_json(), indent=2))
        return result.status
    left_out = (
        replace(one, url=in_words(one.url), reason=in_words(one.reason))
        for one in result.report.skipped
    )
    result = replace(
        result,
        report=replace(result.report, skipped=tuple(left_out)),
        problems=tuple(map(in_words, result.problems)),
    )
    print(result.text(shutil.get_terminal_size((100, 24)).columns))
    if result.ok:
        print(f"In Python: {call(args)}")
    return result.status
