"""The command ``intarsia``: a thin layer that reads arguments, calls the library and prints.

Nothing heavy is imported before a command needs it, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from intarsia.cli.parser import make_parser
from intarsia.cli.words import in_words
from intarsia.errors import IntarsiaError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        Exit status: 0 if all is well, 1 if it isn't (the files can't be combined, a case is not
        equal), 130 after Ctrl-C.

    Raises
    ------
    SystemExit
        With status 2, if the arguments make no sense; with 0 after ``--help`` and ``--version``.
    """
    args, rest = make_parser().parse_known_args(argv)
    if rest:
        args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    with warnings.catch_warnings():
        # they tell programmers of arguments that will change: there is no program to change here
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = _show_warning
        try:
            return args.run(args)
        except IntarsiaError as error:
            if args.debug:
                raise
            for told in (error, *getattr(error, "__notes__", ())):
                print(f"intarsia: {in_words(str(told))}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:
            # who read our output has gone: let Python's own flush at exit go nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning as a line of the command, not of a module."""
    print(f"intarsia: warning: {message}", file=file or sys.stderr)
