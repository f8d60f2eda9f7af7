"""What xarray is known to decode wrongly, recognised by the layers that it chose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from intarsia.cf import upstream
from intarsia.cf.layers import Layer
from intarsia.errors import UpstreamFault


def fault_in(
    name: str, encoding: Mapping[Any, Any], layers: Iterable[Layer]
) -> UpstreamFault | None:
    """Recognise what xarray is known to decode wrongly.

    The faults, all in xarray 2026.9:

    - The fill of big-endian data with ``_Unsigned`` is byte-swapped, so that other values are
      masked than those that are missing.
    - Data with a fill and an integer ``scale_factor`` can't be read: NaN does not fit in integers.
    - An integer ``scale_factor`` makes xarray cast the stored numbers to its type, whether or not
      they fit: fractions are cut off, large numbers wrap.
    - Durations ("days") stored as integers with a fill are prepared to be decoded, with -2**63
      for missing, and then are not, unless ``decode_timedelta`` is given.

    Parameters
    ----------
    name : str
        Of the variable.
    encoding : mapping
        Of the variable, after decoding.
    layers : iterable of Layer
        What xarray chose to do with its values.
    """
    undo = f"pass mask_and_scale={{{name!r}: False}} to get the stored numbers, or drop it"
    missing_time = False
    for function, arguments, before, after in layers:
        if function is np.asarray and after.kind == "u":
            if _swaps(encoding.get("_FillValue"), before):
                reason = "xarray byte-swaps the _FillValue of big-endian _Unsigned data"
                return UpstreamFault(reason, array=name, remedy=undo)
        elif function is upstream.apply_mask and after.kind in "iu":
            missing_time = arguments["decoded_fill_value"] == np.iinfo(np.int64).min
            if not missing_time:
                reason = "xarray can't read data with a fill and an integer scale_factor"
                return UpstreamFault(reason, array=name, remedy=undo)
        elif function is upstream.scale_offset and after.kind in "iu":
            if not np.can_cast(before, after, "safe"):
                reason = f"xarray casts {before} data to {after}, the type of its scale_factor"
                return UpstreamFault(reason, array=name, remedy=undo)
        elif function in (upstream.decode_datetime, upstream.decode_timedelta):
            missing_time = False
    if missing_time:
        reason = "xarray gives -2**63 for the missing values of durations stored as integers"
        remedy = "pass decode_timedelta=True for durations, or False for numbers"
        return UpstreamFault(reason, array=name, remedy=remedy)
    return None


def _swaps(fill: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a fill of non-native data reads as another number in native byte order."""
    if fill is None or dtype.isnative or dtype.kind != "i":
        return False
    with np.errstate(invalid="ignore"):  # xarray has warned of a fill that doesn't fit
        stored = np.asarray(fill).astype(dtype)
    return bool(np.any(stored.byteswap() != stored))
