"""Whether a parser is called from here: what is mended in it is mended for nobody else."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["calling", "is_called_here"]

_calling: ContextVar[bool] = ContextVar("calling", default=False)


@contextmanager
def calling() -> Generator[None]:
    """A parser is called meanwhile, by this thread."""
    token = _calling.set(True)
    try:
        yield
    finally:
        _calling.reset(token)


def is_called_here() -> bool:
    """Whether the parser that asks was called so."""
    return _calling.get()
