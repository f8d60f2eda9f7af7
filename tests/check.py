"""Compares Intarsia with the oracle: the same files, the same arguments, the same steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import xarray as xr

import intarsia
from intarsia.array import LazyArray
from tests import oracle
from tests.compare import assert_identical
from tests.oracle import Chain, apply_chain

OURS = frozenset({"executor", "on_conflict", "on_error", "unsupported", "loadable_variables"})
"""Arguments that xarray does not have; the oracle is asked without them."""
TOLERATED = (
    r".* has multiple fill values",  # xarray's own words for what a file holds
    r"The 'phony_dims' kwarg now defaults to 'access'",
)


@contextmanager
def tolerant() -> Iterator[None]:
    """Warnings that xarray's decoders give about the files themselves pass; others stay errors."""
    with warnings.catch_warnings():
        for message in TOLERATED:
            warnings.filterwarnings("ignore", message=message)
        yield


def is_virtual(ds: xr.Dataset, name: str) -> bool:
    """Whether a variable's values are still in the files."""
    return isinstance(ds.variables[name]._data, LazyArray)


def open_both(paths: Any, **arguments: Any) -> tuple[xr.Dataset, xr.Dataset]:
    """Intarsia's dataset and the oracle's; one path, or a list of them to combine."""
    single = not isinstance(paths, list | tuple)
    ours = intarsia.open_dataset if single else intarsia.open_mfdataset
    theirs = oracle.open_dataset if single else oracle.open_mfdataset
    with tolerant():
        actual = ours(paths, **arguments)
    return actual, theirs(paths, **{k: v for k, v in arguments.items() if k not in OURS})


def check_equal(
    paths: Any, chains: Iterable[Chain] = (), virtual: Iterable[str] = (), **arguments: Any
) -> xr.Dataset:
    """Assert that Intarsia and the oracle agree on the whole, and after each chain of steps.

    Parameters
    ----------
    paths
        One path, or a (nested) list of paths.
    chains
        Steps (see `tests.oracle.chain`) applied to both sides, each to the whole anew.
    virtual
        Variables that have to be virtual when opened, and still after each chain.
    **arguments
        For both sides.

    Returns
    -------
    Dataset
        Intarsia's, virtual as it was opened.
    """
    actual, expected = open_both(paths, **arguments)
    check_chains(actual, expected, chains, virtual)
    return actual


def check_chains(
    actual: xr.Dataset,
    expected: xr.Dataset,
    chains: Iterable[Chain] = (),
    virtual: Iterable[str] = (),
) -> None:
    """`check_equal` on datasets that are open already."""
    names = list(virtual)
    for chain in ((), *chains):
        ours, theirs = apply_chain(actual, chain), apply_chain(expected, chain)
        for name in names:
            assert name not in ours or is_virtual(ours, name), f"{name} was loaded by {chain}"
        try:
            assert_identical(ours, theirs)
        except AssertionError as error:
            error.add_note(f"after {chain}" if chain else "the whole as opened")
            raise
