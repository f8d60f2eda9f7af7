"""Random unlike files, all differences at once: Intarsia equals xarray, bit for bit.

So it does after the whole was saved and reopened, through zarr-python, and through dask.

By default a fixed number of cases that are the same in every run. A long run::

    INTARSIA_DIFFERENTIAL_EXAMPLES=1000 pytest tests/test_differential.py -m slow

draws that many new ones (the seed is printed on failure; ``--hypothesis-seed=N`` repeats a run).
With ``INTARSIA_DIFFERENTIAL_SHRINK=1`` a failing case is made as small as it can be.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from hypothesis import HealthCheck, Phase, assume, event, given, settings
from hypothesis import strategies as st

import intarsia
from tests import oracle
from tests.check import is_virtual, tolerant
from tests.compare import assert_identical
from tests.oracle import apply_chain
from tests.through import check_store
from tests.unlike.strategies import Pile, chains, unlike_files

ASKED = os.environ.get("INTARSIA_DIFFERENTIAL_EXAMPLES")
EXAMPLES = 40
# Shrinking takes minutes, which a run that is to end in time does not have.
PHASES = (
    (Phase.generate, Phase.shrink)
    if "INTARSIA_DIFFERENTIAL_SHRINK" in os.environ
    else (Phase.generate,)
)

SETTINGS: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "phases": PHASES,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


def _check(pile: Pile, data: Any, folder: Path) -> None:
    paths = pile.write(folder)
    try:
        expected = oracle.open_mfdataset(paths, **pile.arguments)
    except (ValueError, TypeError, OverflowError, KeyError) as error:
        event(f"xarray can't: {error}")
        assume(False)
        raise
    with tolerant():
        actual = intarsia.open_mfdataset(paths, **pile.arguments)
    assert_identical(actual, expected)
    _check_virtual(actual, expected)
    for _ in range(2):
        chain = data.draw(chains(expected), label="chain")
        with tolerant():
            ours = apply_chain(actual, chain)
        assert_identical(ours, apply_chain(expected, chain))
    check_store(actual, expected, folder, chain)


def _check_virtual(actual: xr.Dataset, expected: xr.Dataset) -> None:
    """Numbers along time have not been loaded."""
    for name, var in expected.data_vars.items():
        if var.dtype.kind in "iuf" and var.ndim and var.size and str(name).startswith("v"):
            assert is_virtual(actual, str(name)), f"{name} was loaded"


@pytest.mark.timeout(300)
@settings(max_examples=EXAMPLES, derandomize=True, **SETTINGS)
@given(pile=unlike_files(), data=st.data())
def test_unlike_files_equal_xarray(pile: Pile, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _check(pile, data, Path(folder))


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(ASKED is None, reason="INTARSIA_DIFFERENTIAL_EXAMPLES is not set")
@settings(max_examples=int(ASKED or 1), **SETTINGS)
@given(pile=unlike_files(), data=st.data())
def test_many_unlike_files_equal_xarray(pile: Pile, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _check(pile, data, Path(folder))
