"""Shows how far long work has come, on a terminal only, and only when it takes long.

Two forms of one thing, an iterator and a context::

    for path in track(paths, "scanning"):
        ...

    with Progress("reading", total=len(ranges)) as progress:
        ...                     # from any thread:
        progress.advance()

Nothing is written where the stream is no terminal (a log, a notebook, a pipe), before `DELAY`
seconds have passed, or while another bar is shown: work inside other work belongs to the outer bar.
The bar is wiped when the work ends, however it ends. No thread draws: `advance` does, at most
every `INTERVAL` seconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from types import TracebackType
from typing import Self, TextIO

__all__ = ["DELAY", "INTERVAL", "Progress", "track"]

DELAY = 1.0
"""Seconds before a bar first appears."""

INTERVAL = 0.1
"""Seconds between two drawings."""

_WIPE = "\r\x1b[K"
_BAR = 24


class Progress:
    """A bar for work of known or unknown length.

    Parameters
    ----------
    label : str
        What is being done: ``"scanning"``.
    total : int, optional
        How many steps there are. Without it, the bar only counts.
    unit : str, default: ""
        What is counted: ``"files"``.
    stream : text stream, optional
        Where to draw; by default what ``sys.stderr`` is on entering.
    delay : float, default: DELAY
        Seconds before the bar first appears.
    clock : callable, default: time.monotonic
        Gives the time in seconds.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        unit: str = "",
        stream: TextIO | None = None,
        delay: float = DELAY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done = 0
        self._stream = stream
        self._delay = delay
        self._clock = clock
        self._lock = threading.Lock()
        self._begun = 0.0
        self._next = float("inf")  # when to draw again: not before entering

    def __enter__(self) -> Self:
        if self._stream is None:
            self._stream = sys.stderr
        self._begun = self._clock()
        if _is_terminal(self._stream):
            self._next = self._begun + self._delay
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._next = float("inf")
            if _shown.get("bar") is self:
                self._write(_WIPE)
                del _shown["bar"]

    def advance(self, steps: int = 1) -> None:
        """Count `steps` more as done, and draw the bar when it is due. Safe from any thread."""
        with self._lock:
            self.done += steps
            now = self._clock()
            if now >= self._next and _shown.setdefault("bar", self) is self:
                self._next = now + INTERVAL
                self._draw(now - self._begun)

    def _draw(self, elapsed: float) -> None:
        assert self._stream is not None
        width = _columns(self._stream) - 1  # a line that wraps could not be wiped
        self._write(_WIPE + self._line(elapsed)[:width])

    def _line(self, elapsed: float) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if not self.total:
            return f"{self.label}: {self.done:,}{unit}, {_duration(elapsed)}"
        part = min(self.done / self.total, 1.0)
        filled = round(part * _BAR)
        bar = "#" * filled + "-" * (_BAR - filled)
        left = f", {_duration(elapsed / part - elapsed)} left" if 0 < part < 1 else ""
        return f"{self.label} [{bar}] {int(part * 100):3d} % of {self.total:,}{unit}{left}"

    def _write(self, text: str) -> None:
        assert self._stream is not None
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # The terminal has gone, or the stream was closed. The work matters, the bar does not.
            self._next = float("inf")


def track[T](
    items: Iterable[T],
    label: str,
    total: int | None = None,
    *,
    unit: str = "",
    stream: TextIO | None = None,
    delay: float = DELAY,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """Yield `items`, showing how many have been taken.

    Parameters
    ----------
    items : iterable
        What to go through.
    label, total, unit, stream, delay, clock
        As for `Progress`; `total` is by default the length of `items`, where it has one.

    Yields
    ------
    object
        Each of `items`, counted as done when the next one is asked for.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(label, total, unit=unit, stream=stream, delay=delay, clock=clock) as progress:
        for item in items:
            yield item
            progress.advance()


# The bar that is shown: one line holds one bar, the first that came. A dict and not a lock, since
# setdefault is atomic, and a lock could be held by another thread at the moment of a fork.
_shown: dict[str, Progress] = {}


def _is_terminal(stream: TextIO | None) -> bool:
    # sys.stderr is None under pythonw, and isatty raises ValueError once a stream is closed.
    if stream is None or stream.closed or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80  # says it is a terminal, but has no size


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
