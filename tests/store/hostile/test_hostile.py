"""Damaged and hostile stores: right values, or an error that says so; promptly, and nothing else.

Each is read whole, by a process that is watched: by the clock, for memory, for what it opens and
runs. What may come of it:

- Where checksums tell of the damage (that is: of any that was not meant), the values are those of
  the sound store, or the error is one of the store's (`StoreError`). Never other values, and never
  an error that points at a source, which is as it was.
- Where the checksums were made right again, values are what the changed document says. Beside the
  store's own errors there may be those of what its references point to: bytes that are not there
  (`SourceError`), that do not decode (`ChunkError`), or that the HDF5 library can't decode
  (`UnsupportedError`).
- No other error, no crash, no more than two seconds of the processor, no more than 200 MB; no
  memory that nobody wrote to; no file opened but the store's and those of its containers, and none
  read outside of them that the store does not know; no code run, nothing written, no connection.

``INTARSIA_HOSTILE=20000 pytest -m slow tests/store/hostile`` reads as many.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.store.hostile.campaign import run, table, workplace
from tests.store.hostile.crafted import CRAFTED, LIGHT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watched by means of Linux")

COUNT = 200
SLOW_COUNT = int(os.environ.get("INTARSIA_HOSTILE", "2000"))


def check(first: int, count: int, seed: int) -> None:
    with workplace() as folder:
        outcomes = list(run(count, seed, folder, first=first))
    assert sorted(outcome["number"] for outcome in outcomes) == list(range(first, count))
    faults = [
        f"{outcome['number']} of seed {seed}, {outcome['store']}, {outcome['kind']}: {fault}"
        for outcome in outcomes
        for fault in outcome["faults"]
    ]
    assert not faults, "\n".join([*faults[:20], table(outcomes)])


def test_damaged_stores() -> None:
    check(-LIGHT, COUNT, seed=20)


@pytest.mark.slow
@pytest.mark.timeout(SLOW_COUNT)
def test_many_damaged_stores() -> None:
    check(-len(CRAFTED), SLOW_COUNT, seed=21)
