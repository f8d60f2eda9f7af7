"""Sources of the network, copied here while they are compared: their libraries read files."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from intarsia.array.reprs import human
from intarsia.errors import SourceError
from intarsia.io.fetch import fetcher_for
from intarsia.io.paths import is_url
from intarsia.references import Source

MAX_COPY = 1 << 33
"""Larger sources are not copied."""

PIECE = 1 << 25
"""Bytes that are read at once."""


class NotCopied(Exception):
    """The source can't be had here; the message says why."""


_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}$")


@contextmanager
def here(source: Source) -> Generator[str]:
    """Path of a source on this machine, which of one in the network is that of a passing copy.

    Raises
    ------
    NotCopied
        If it can't be read, is too large, or there is no room for it.
    """
    if not is_url(source.container):
        yield source.url
        return
    with TemporaryDirectory(prefix="intarsia-") as folder:
        suffix = _SUFFIX.search(source.key.partition("?")[0])  # some formats go by it
        path = os.path.join(folder, f"source{suffix[0] if suffix else ''}")
        try:
            _copy(source, path)
        except SourceError as error:
            raise NotCopied(str(error)) from error
        except OSError as error:
            raise NotCopied(f"it can't be copied here: {error.strerror or error}") from error
        yield path


def _copy(source: Source, path: str) -> None:
    size = source.size
    if size < 0:
        from intarsia.io.remote import head

        size = head(source.url, source.access, 1)[0].size
    if size > MAX_COPY:
        raise NotCopied(
            f"it has {human(size)}, and no more than {human(MAX_COPY)} are copied here to be "
            "compared; copy it, and say where it is: containers={name: place}"
        )
    fetcher = fetcher_for(source)
    with open(path, "wb") as file:
        for offset in range(0, size, PIECE):
            (data,) = fetcher.read(source, [(offset, min(PIECE, size - offset))])
            file.write(data)
