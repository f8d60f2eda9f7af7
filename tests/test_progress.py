"""Progress bars, drawn on a terminal made of a string and timed by a clock made of numbers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from intarsia import progress
from intarsia.progress import Progress, track


class Terminal(io.StringIO):
    """A terminal that remembers all that was written to it."""

    def isatty(self) -> bool:
        return True

    def drawn(self) -> list[str]:
        return self.getvalue().split("\r\x1b[K")[1:]


class Clock:
    """Time that passes by a fixed step whenever it is asked for."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 100.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture(autouse=True)
def real_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TERM", "xterm")
    yield
    assert not progress._shown


def test_track_yields_everything_and_draws_when_due() -> None:
    terminal = Terminal()
    items = list(track(range(5), "scanning", unit="files", stream=terminal, clock=Clock(0.4)))
    assert items == [0, 1, 2, 3, 4]
    assert terminal.drawn() == [
        "scanning [##############----------]  60 % of 5 files, 0:00 left",
        "scanning [###################-----]  80 % of 5 files, 0:00 left",
        "scanning [########################] 100 % of 5 files",
        "",
    ]


def test_unknown_length_counts() -> None:
    terminal = Terminal()
    items = track(iter("abc"), "reading", unit="chunks", stream=terminal, clock=Clock(40.0))
    assert "".join(items) == "abc"
    assert terminal.drawn()[0] == "reading: 1 chunks, 0:40"
    assert terminal.drawn()[-2:] == ["reading: 3 chunks, 2:00", ""]


def test_says_how_long_it_will_take() -> None:
    terminal = Terminal()
    with Progress("scanning", 1000, stream=terminal, clock=Clock(60.0)) as bar:
        bar.advance(4)
    assert "0 % of 1,000, 4:09:00 left" in terminal.drawn()[0]


def test_short_work_shows_nothing() -> None:
    terminal = Terminal()
    list(track(range(9), "scanning", stream=terminal, clock=Clock(0.1)))
    assert terminal.getvalue() == ""


def test_draws_seldom() -> None:
    terminal = Terminal()
    list(track(range(10_000), "scanning", stream=terminal, delay=0, clock=Clock(0.001)))
    assert 90 <= len(terminal.drawn()) <= 101


def test_no_terminal_nothing_written(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    list(track(range(3), "scanning", stream=log, clock=Clock(9.0)))
    assert log.getvalue() == ""
    closed = Terminal()
    closed.close()
    list(track(range(3), "scanning", stream=closed, clock=Clock(9.0)))
    monkeypatch.setattr(sys, "stderr", None)
    assert list(track(range(3), "scanning", clock=Clock(9.0))) == [0, 1, 2]


def test_dumb_terminal_nothing_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    list(track(range(3), "scanning", stream=terminal, clock=Clock(9.0)))
    assert terminal.getvalue() == ""


def test_default_stream_is_stderr_at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    list(track(range(3), "scanning", clock=Clock(9.0)))
    assert terminal.drawn()[-1] == ""
    assert len(terminal.drawn()) == 4


def test_the_outer_bar_is_the_one_shown() -> None:
    terminal = Terminal()
    clock = Clock(2.0)
    for _ in track(range(2), "outer", stream=terminal, clock=clock):
        list(track(range(2), "inner", stream=terminal, clock=clock))
    # The inner bar has the line until the outer one is drawn for the first time.
    shown = [line.split(" ")[0] for line in terminal.drawn()]
    assert shown == ["inner", "inner", "", "outer", "outer", ""]


def test_wiped_when_the_work_fails_or_stops() -> None:
    terminal = Terminal()
    with (
        pytest.raises(ZeroDivisionError),
        Progress("reading", 2, stream=terminal, clock=Clock(9.0)) as bar,
    ):
        bar.advance()
        raise ZeroDivisionError
    assert terminal.drawn()[-1] == ""

    terminal = Terminal()
    items = track(range(9), "reading", stream=terminal, clock=Clock(9.0))
    next(items), next(items)
    items.close()
    assert len(terminal.drawn()) == 2
    assert terminal.drawn()[-1] == ""


def test_a_terminal_that_goes_away_does_not_stop_the_work() -> None:
    class Broken(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    assert list(track(range(3), "reading", stream=Broken(), clock=Clock(9.0))) == [0, 1, 2]


def test_advance_from_many_threads() -> None:
    terminal = Terminal()
    with Progress("reading", 4000, stream=terminal, delay=0) as bar, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: bar.advance(), range(4000)))
    assert bar.done == 4000
    assert terminal.drawn()[-1] == ""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_a_real_terminal_of_few_columns() -> None:
    import fcntl
    import struct
    import termios

    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    code = "from intarsia.progress import track; list(track(range(3), 'scanning', delay=0))"
    subprocess.run([sys.executable, "-c", code], stderr=writer, check=True)
    os.close(writer)
    written = os.read(reader, 10_000).decode()
    os.close(reader)
    lines = written.split("\r\x1b[K")[1:]
    assert lines[0] == "scanning [########-"
    assert lines[-1] == ""
