"""Arguments that say where sources are, and how they are reached: the same for every command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from intarsia.access import PUBLIC_OPTIONS
from intarsia.io.overrides import PINS


def add_containers(parser: Any, told: str) -> None:
    """Add ``--container`` to a parser, or to a group of one."""
    parser.add_argument(
        "--container", action="append", type=container, default=[], metavar="NAME=PLACE",
        help=f"{told}: a path or a URL; repeatable",
    )  # fmt: skip


def add_pins(parser: argparse.ArgumentParser) -> None:
    """Add ``--pin``."""
    parser.add_argument(
        "--pin", action="append", type=pin, default=[], metavar="NAME=WHAT",
        help="what is checked of the sources in a container before they are read: mtime (size and "
        "modification time), size, sample (size and some content) or none; repeatable",
    )  # fmt: skip


def add_access(parser: Any) -> None:
    """Add ``--storage-option`` to a parser, or to a group of one."""
    parser.add_argument(
        "--storage-option", action="append", type=option, default=[], metavar="NAME=VALUE",
        help="how URLs are reached: region, endpoint, skip_signature=true, request_payer=true, "
        "...; repeatable. Others can see the arguments of a command: keys and tokens are better "
        "left to the environment (AWS_ACCESS_KEY_ID, ...), where they are found unnamed",
    )  # fmt: skip


def option(text: str) -> tuple[str, str]:
    """Read a name and a value.

    Examples
    --------
    >>> option("region=eu-west-1")
    ('region', 'eu-west-1')
    """
    name, equals, value = text.partition("=")
    if not (name and equals):  # what else it is may be a secret
        raise argparse.ArgumentTypeError("an option without a value: write NAME=VALUE")
    return name, value


def storage_options(args: argparse.Namespace) -> dict[str, Any] | None:
    """What the arguments say of how URLs are reached, as `intarsia.open_dataset` takes it."""
    return dict(args.storage_option) or None


_ALIASES = ("anon", "endpoint_url", "region_name", "requester_pays")
"""Other names of options that are no secrets."""


def shown(options: Mapping[str, Any]) -> str:
    """Options as Python has them, with an ellipsis for what could be a secret.

    Examples
    --------
    >>> shown({"region": "eu-west-1", "secret": "s3cr3t"})
    "{'region': 'eu-west-1', 'secret': ...}"
    """
    told = [
        f"{name!r}: {value!r}" if name in PUBLIC_OPTIONS or name in _ALIASES else f"{name!r}: ..."
        for name, value in options.items()
    ]
    return f"{{{', '.join(told)}}}"


def container(text: str) -> tuple[str, str]:
    """Read a name and a place.

    Examples
    --------
    >>> container("sst=/data/sst")
    ('sst', '/data/sst')
    """
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not a place: write NAME=PLACE")
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
