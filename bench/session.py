"""One run of benchmarks: where its files are, and how contenders run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import Contender, measure
from bench.tables import Table


@dataclass
class Session:
    """What the benchmarks of one run share.

    Parameters
    ----------
    folder
        For files.
    apart
        Whether contenders run in processes of their own.
    say
        Told what goes on.
    """

    folder: Path
    apart: bool = True
    say: Callable[[str], None] = print
    _made: dict[str, str] = field(default_factory=dict)

    def once(self, name: str, make: Callable[[Path], str]) -> str:
        """What `make` gives for a path in the folder; made only once."""
        if name not in self._made:
            self.say(f"making {name}")
            self._made[name] = make(self.folder / name)
        return self._made[name]

    def table(self, title: str, unit: str, contenders: Sequence[Contender], rounds: int) -> Table:
        """Let contenders take turns, and put what they did into a table."""
        self.say(title)
        return Table(title, unit, measure(contenders, rounds, apart=self.apart, say=self.say))
