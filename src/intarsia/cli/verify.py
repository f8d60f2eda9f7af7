"""``intarsia verify``: every source read again with its own library, and compared."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import intarsia
from intarsia.cli.combining import count, tolerance, workers
from intarsia.cli.places import (
    add_access,
    add_containers,
    add_pins,
    containers,
    storage_options,
)
from intarsia.cli.words import in_words
from intarsia.errors import IntarsiaError

if TYPE_CHECKING:
    from intarsia.xarray.verifying import Verification

POSITIONAL = " STORE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("store", metavar="STORE", help="a folder or zip file that is a store")
    parser.add_argument(
        "--sample", type=count, metavar="N",
        help="compare about N elements of each variable, spread over all sources, instead of all; "
        "the same ones each time",
    )  # fmt: skip
    parser.add_argument(
        "-v", "--variable", action="append", metavar="NAME",
        help="only this variable (/group/name in a group); repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--tolerance", type=tolerance, metavar="X",
        help="labels that differ by at most X are the same: what was given when combining",
    )  # fmt: skip
    parser.add_argument(
        "--no-labels", action="store_true",
        help="don't compare labels, where they were changed on purpose",
    )  # fmt: skip
    add_containers(parser, "where a container is now, if not where the store says")
    add_pins(parser)
    add_access(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument(
        "-j", "--jobs", type=count, default=1, metavar="N", help="compare in N processes"
    )


def run(args: argparse.Namespace) -> int:
    """Read every source again with its own library, and compare all values, bit for bit.

    First lists all sources that changed or are missing. Then compares what the store gives with
    what xarray reads of the same elements with h5netcdf, netCDF4, SciPy or zarr-python, opened as
    they were when the store was built: at the position that a value is taken from, and with the
    labels that the source has there. Files of the network are copied here for that, one after the
    other. Says of everything that could not be compared that, and why.

    Exits with 1 if a source changed, anything differs, or something that stays in the sources could
    not be compared; and says where.

    Examples
    --------
      # everything
      intarsia verify sst.intarsia

      # quickly: some elements of every source
      intarsia verify sst.intarsia --sample 1000 -j 4

      # sources that were moved, by a copy that did not keep their times
      intarsia verify sst.intarsia --container sst=/mnt/sst --pin sst=size

      # sources in a bucket at an endpoint of one's own, with keys from the environment
      intarsia verify sst.intarsia --storage-option endpoint=https://minio.example.org
    """
    try:
        with workers(args) as executor:
            result = intarsia.verify(
                args.store,
                sample=args.sample,
                variables=args.variable,
                tolerance=args.tolerance,
                by_label=not args.no_labels,
                containers=containers(args),
                storage_options=storage_options(args),
                executor=executor,
            )
    except IntarsiaError:
        raise
    except ValueError as error:  # no such variable, or storage option
        return args.parser.error(str(error))
    if args.json:
        print(json.dumps(result.to_dict(), indent=2))
    else:
        print(_near(result).text(shutil.get_terminal_size((100, 24)).columns))
    return result.status


def _near(result: Verification) -> Verification:
    """The result with paths as they are seen from here."""
    return replace(
        result,
        store=in_words(result.store),
        changed=tuple(
            replace(one, source=in_words(one.source), reason=in_words(one.reason))
            for one in result.changed
        ),
        differences=tuple(
            replace(one, source=in_words(one.source), stored=in_words(one.stored))
            for one in result.differences
        ),
        uncompared=tuple(
            replace(one, source=in_words(one.source or "") or None, reason=in_words(one.reason))
            for one in result.uncompared
        ),
    )
