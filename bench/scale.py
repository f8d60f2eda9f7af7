"""How large the benchmarks are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes and repetitions.

    Parameters
    ----------
    rounds
        How often contenders take turns.
    slow_rounds
        The same for those that take seconds.
    tiny_chunks
        Chunks of 512 bytes in the file.
    few_chunks
        Those that everyone reads.
    big_chunks
        Chunks of 4 MiB.
    files
        Small files to scan.
    files_at_once
        Small files that are scanned in a round.
    combined
        Datasets to combine.
    series
        Small files that are selected from.
    saved
        Files of 250 chunks whose references are saved.
    """

    rounds: int
    slow_rounds: int
    tiny_chunks: int
    few_chunks: int
    big_chunks: int
    files: int
    files_at_once: int
    combined: int
    series: int
    saved: int


FULL = Scale(5, 2, 100_000, 3_000, 32, 200, 40, 10_000, 40, 400)
QUICK = Scale(2, 1, 20_000, 1_000, 8, 20, 10, 1_000, 10, 40)
LEAST = Scale(1, 1, 300, 100, 2, 4, 2, 12, 3, 2)
"""What the tests run."""
