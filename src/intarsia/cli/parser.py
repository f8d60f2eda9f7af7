"""The commands and their arguments; what ``--help`` says is what the commands' docstrings say."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any

import intarsia
from intarsia.cli import build, check, demo, explain, info, verify

COMMANDS: dict[str, Any] = {
    "check": check,
    "explain": explain,
    "build": build,
    "info": info,
    "verify": verify,
    "demo": demo,
}
"""The module of each command."""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the whole command line. Each command sets ``run``, to be called with it.

    Examples
    --------
    >>> args = make_parser().parse_args(["check", "sst/*.nc", "--concat-dim", "time"])
    >>> args.command, args.paths, args.concat_dim
    ('check', ['sst/*.nc'], ['time'])
    """
    parser = argparse.ArgumentParser(
        "intarsia",
        description="Opens a pile of unlike files (netCDF, HDF5, Zarr, TIFF, ...) as one dataset, "
        "without copying them, bit for bit.",
        epilog="examples:\n"
        "  intarsia check 'sst/*.nc' --concat-dim time\n"
        "  intarsia build 'sst/*.nc' --concat-dim time -o sst.intarsia\n"
        "  intarsia verify sst.intarsia --sample 1000\n"
        "  intarsia demo\n\n"
        "`intarsia COMMAND --help` tells all about one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"intarsia {intarsia.__version__}")
    commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    for name, module in COMMANDS.items():
        told, examples = _help(module.run)
        command = commands.add_parser(
            name,
            help=told.partition("\n")[0].rstrip("."),
            usage=f"intarsia {name} [options]{module.POSITIONAL}",
            description=told,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(command)
        command.add_argument(
            "--debug", action="store_true", help="show where in the code an error arises"
        )
        command.set_defaults(run=module.run, parser=command)
    return parser


def _help(run: Callable[[argparse.Namespace], int]) -> tuple[str, str]:
    """Take a command's docstring apart: what it does, and the examples."""
    told, _, examples = (inspect.getdoc(run) or "").partition("\n\nExamples\n--------\n")
    return told, examples
