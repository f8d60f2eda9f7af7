"""What a forked child must not take over: locks that others held are never released there."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["after_fork"]


def after_fork[F: Callable[[], object]](renew: F) -> F:
    """Have a function called in each forked child, before anything else there; a decorator."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return renew
