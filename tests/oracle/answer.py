"""Answers one question: open files with xarray and h5netcdf, load, combine, select."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import hdf5plugin  # noqa: F401  # its filters are HDF5's from now on
import xarray as xr

from tests.oracle.chain import Chain, apply_chain

OPENING = frozenset(
    {
        "chunks",
        "concat_characters",
        "decode_cf",
        "decode_coords",
        "decode_timedelta",
        "decode_times",
        "drop_variables",
        "group",
        "mask_and_scale",
        "phony_dims",
        "use_cftime",
    }
)
COMBINING = frozenset({"compat", "join", "coords", "data_vars", "combine_attrs", "fill_value"})


@dataclass(frozen=True)
class Question:
    """What to open, how to combine it, and what to do with the result.

    `paths` is one path, or a (nested) list of paths with ``combine`` among `arguments`.
    """

    paths: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    chain: Chain = ()


def answer(question: Question) -> xr.Dataset:
    """The dataset asked for, loaded, without encodings."""
    single = isinstance(question.paths, str)
    ask = open_dataset if single else open_mfdataset
    return apply_chain(ask(question.paths, **question.arguments), question.chain)


def open_dataset(path: Any, **arguments: Any) -> xr.Dataset:
    """One file as xarray and h5netcdf give it, loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xr.open_dataset(path, engine="h5netcdf", cache=False, **arguments) as opened:
            return opened.load().drop_encoding()


def open_mfdataset(
    paths: Sequence[Any],
    *,
    combine: str = "by_coords",
    concat_dim: Any = None,
    preprocess: Callable[[xr.Dataset], xr.Dataset] | None = None,
    **arguments: Any,
) -> xr.Dataset:
    """What `xarray.open_mfdataset` means, on loaded datasets: no dask in between."""
    opening = {k: v for k, v in arguments.items() if k in OPENING}
    combining = {"combine_attrs": "override"}
    combining |= {k: v for k, v in arguments.items() if k in COMBINING}
    unknown = set(arguments) - set(opening) - set(combining)
    assert not unknown, f"the oracle does not know the arguments {sorted(unknown)}"
    opening.pop("chunks", None)

    def open_nested(item: Any) -> Any:
        if isinstance(item, list | tuple):
            return [open_nested(one) for one in item]
        opened = open_dataset(item, **opening)
        return opened if preprocess is None else preprocess(opened)

    datasets = open_nested(list(paths))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if combine == "nested":
            combined = xr.combine_nested(datasets, concat_dim, **combining)
        else:
            combined = xr.combine_by_coords(datasets, **combining)
    assert isinstance(combined, xr.Dataset)
    return combined.drop_encoding()
