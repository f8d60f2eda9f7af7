"""Arguments that say where the containers of a store are: the same for every command on stores."""

from __future__ import annotations

import argparse
from typing import Any

PINS = ("mtime", "size", "sample", "none")


def add_containers(parser: Any, told: str) -> None:
    """Add ``--container`` to a parser, or to a group of one."""
    parser.add_argument(
        "--container", action="append", type=container, default=[], metavar="NAME=PATH",
        help=f"{told}; repeatable",
    )  # fmt: skip


def add_pins(parser: argparse.ArgumentParser) -> None:
    """Add ``--pin``."""
    parser.add_argument(
        "--pin", action="append", type=pin, default=[], metavar="NAME=WHAT",
        help="what is checked of the sources in a container before they are read: mtime (size and "
        "modification time), size, sample (size and some content) or none; repeatable",
    )  # fmt: skip


def container(text: str) -> tuple[str, str]:
    """Read a name and a path.

    Examples
    --------
    >>> container("sst=/data/sst")
    ('sst', '/data/sst')
    """
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not a place: write NAME=PATH")
    return name, path


def pin(text: str) -> tuple[str, str]:
    """Read a name and what is checked.

    Examples
    --------
    >>> pin("sst=size")
    ('sst', 'size')
    """
    name, equals, what = text.partition("=")
    if not (name and equals and what in PINS):
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=WHAT, with {', '.join(PINS)}")
    return name, what


def containers(args: argparse.Namespace) -> dict[str, Any]:
    """What the arguments say of containers, as `intarsia.open_dataset` takes it."""
    told: dict[str, dict[str, str]] = {}
    for name, path in args.container:
        told.setdefault(name, {})["location"] = path
    for name, what in getattr(args, "pin", ()):
        told.setdefault(name, {})["pin"] = what
    return dict(told)
