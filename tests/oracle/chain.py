"""Chains of operations: the same steps for a virtual dataset and for the oracle's loaded one.

A step is ``(name, argument)``; both are plain values, so that a chain prints, pickles and shrinks.
None of these steps needs a value of a data variable: on virtual arrays none may read one.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

Step = tuple[str, Any]
Chain = tuple[Step, ...]

ALONG = {"coords": "minimal", "compat": "override", "data_vars": "minimal", "join": "outer"}
"""Arguments of a concat along a dimension that the datasets have."""
ACROSS = ALONG | {"data_vars": "all"}
"""Arguments of a concat along a new dimension."""


def apply_chain(ds: xr.Dataset, chain: Chain) -> xr.Dataset:
    """`ds` after each step of `chain`."""
    for name, argument in chain:
        ds = STEPS[name](ds, argument)
    return ds


def _isel(ds: xr.Dataset, indexers: dict[str, Any]) -> xr.Dataset:
    return ds.isel(indexers)


def _transpose(ds: xr.Dataset, dims: tuple[str, ...]) -> xr.Dataset:
    return ds.transpose(*dims, ..., missing_dims="ignore")


def _expand_dims(ds: xr.Dataset, sizes: dict[str, int]) -> xr.Dataset:
    return ds.expand_dims(sizes)


def _rename(ds: xr.Dataset, names: dict[str, str]) -> xr.Dataset:
    return ds.rename(names)


def _select(ds: xr.Dataset, names: list[str]) -> xr.Dataset:
    return ds[names]


def _rotate(ds: xr.Dataset, argument: tuple[str, int]) -> xr.Dataset:
    """Cut along a dimension and put together the other way round: combining what was combined."""
    dim, at = argument
    parts = [ds.isel({dim: slice(at, None)}), ds.isel({dim: slice(None, at)})]
    return xr.concat(parts, dim, **ALONG)  # type: ignore[call-overload]


def _stack(ds: xr.Dataset, argument: tuple[str, str]) -> xr.Dataset:
    """Beside itself reversed along `reverse`, along a new dimension."""
    new, reverse = argument
    turned = ds.isel({reverse: slice(None, None, -1)}).drop_vars(reverse, errors="ignore")
    return xr.concat([ds.drop_vars(reverse, errors="ignore"), turned], new, **ACROSS)  # type: ignore[call-overload]


def _merge(ds: xr.Dataset, name: str) -> xr.Dataset:
    """Take one variable out, rename it, and merge it back beside the rest."""
    return xr.merge(
        [ds, ds[[name]].rename({name: f"{name}_again"})], compat="override", join="outer"
    )


def _outer(ds: xr.Dataset, argument: tuple[str, str, int]) -> xr.Dataset:
    """Two parts along `along` that hold different ends of `across`, joined by the outer labels."""
    along, across, cut = argument
    half = ds.sizes[along] // 2
    parts = [
        ds.isel({along: slice(None, half), across: slice(None, -cut or None)}),
        ds.isel({along: slice(half, None), across: slice(cut, None)}),
    ]
    return xr.concat(parts, along, **ALONG)  # type: ignore[call-overload]


def _reindex(ds: xr.Dataset, argument: tuple[str, list[float]]) -> xr.Dataset:
    dim, labels = argument
    return ds.reindex({dim: labels})


def _absent(ds: xr.Dataset, argument: tuple[str, str]) -> xr.Dataset:
    """Concat with a part of itself that lacks a variable."""
    dim, name = argument
    parts = [ds, ds.isel({dim: slice(0, 1)}).drop_vars(name)]
    return xr.concat(parts, dim, **ALONG)  # type: ignore[call-overload]


def _sortby(ds: xr.Dataset, name: str) -> xr.Dataset:
    return ds.sortby(name)


STEPS = {
    "isel": _isel,
    "transpose": _transpose,
    "expand_dims": _expand_dims,
    "rename": _rename,
    "select": _select,
    "rotate": _rotate,
    "stack": _stack,
    "merge": _merge,
    "outer": _outer,
    "reindex": _reindex,
    "absent": _absent,
    "sortby": _sortby,
}
