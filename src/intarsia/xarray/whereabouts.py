"""Where the sources of virtual arrays are, and how they are reached, in a few words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from intarsia.array import VirtualArray
from intarsia.io.paths import is_url
from intarsia.io.placing import without_secrets
from intarsia.segments import SOURCE

__all__ = ["whereabouts"]

MANY = 3
"""Places that are told by name."""


def whereabouts(arrays: Iterable[VirtualArray]) -> str:
    """Folders, and buckets and hosts with their folders, with the options that are no secrets.

    Returns
    -------
    str
        ``"3 sources in s3://bucket/sst/ (region=eu-west-1)"``.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for array in arrays:
        sources = array.segments.sources
        blocks = array.segments.blocks
        used = {int(n) for block in blocks for n in np.unique(block.column(SOURCE)) if n >= 0}
        for number in sorted(used):
            home = sources.containers[number]
            access = None if sources.accesses is None else sources.accesses[number]
            told = ", ".join(f"{name}={value}" for name, value in access.public) if access else ""
            shown = without_secrets(home) if is_url(home) else home
            found.setdefault((shown, told), set()).add(sources.keys[number])
    named = [f"{home} ({told})" if told else home for home, told in list(found)[:MANY]]
    more = len(found) - len(named)
    if more > 0:
        named.append(f"{more:,} other place{'s'[: more > 1]}")
    count = sum(map(len, found.values()))
    text = f"{count:,} source{'s'[: count != 1]}"
    listed = " and ".join(filter(None, [", ".join(named[:-1]), *named[-1:]]))
    return f"{text} in {listed}" if listed else text
