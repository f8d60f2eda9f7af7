"""The threads that decode: as many as there are cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from intarsia.forks import after_fork

__all__ = ["submit"]


def submit[T](work: Callable[[], T]) -> Future[T]:
    """Have something done by the pool, or at once where the interpreter is ending."""
    try:
        return _pool().submit(work)
    except RuntimeError:  # no thread can be started any more
        future: Future[T] = Future()
        future.set_result(work())
        return future


_pool_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """The process's own threads: made on first use, and anew after a fork."""
    with _pool_lock:
        pool = _pools.get(os.getpid())
        if pool is None:
            _pools.clear()
            pool = ThreadPoolExecutor(max(2, _cores()), thread_name_prefix="intarsia")
            _pools[os.getpid()] = pool
        return pool


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@after_fork
def _after_fork() -> None:
    """A lock held by another thread at the fork would never be released in the child."""
    global _pool_lock
    _pool_lock = threading.Lock()
    _pools.clear()
