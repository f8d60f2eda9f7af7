"""The parts of xarray that this package leans on, private ones included, all in one place.

`tests/test_cf.py` shows that each still does what is taken for granted here. They are named `Any`,
because what xarray says of their types is not complete.
"""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import xarray as xr
from xarray import conventions
from xarray.backends import api
from xarray.coding import common, times, variables

resolve_decoders: Any = api._resolve_decoders_kwargs
"""``(decode_cf, names, **decoders)``: the arguments for a backend; None is left out."""

decode_variables: Any = conventions.decode_cf_variables
"""The decoder: ``(variables, attrs, ...) -> (variables, attrs, names of coordinates)``."""

STUMBLED = "Raised while decoding variable"
"""How a note begins that `decode_variables` adds to an error; the variable's repr follows."""

update_bounds_attributes: Any = conventions._update_bounds_attributes
"""Copy units and calendar of time coordinates to their bounds, in place; looks at ``.attrs``."""

RELATIONS = frozenset({"coordinates", *conventions.CF_RELATED_DATA})
"""Keys of an encoding that say which variables belong to the one encoded."""

# Layers: each has `array` and `dtype`; the first has `func`, a partial of one of the functions.
Elementwise: Any = common._ElementwiseFunctionArray
NativeEndianness: Any = variables.NativeEndiannessArray
Bool: Any = variables.BoolTypeArray

apply_mask: Any = variables._apply_mask
"""``(data, encoded_fill_values, decoded_fill_value, dtype)``."""

scale_offset: Any = variables._scale_offset_decoding
"""``(data, scale_factor, add_offset, dtype)``."""

decode_datetime: Any = times.decode_cf_datetime
decode_timedelta: Any = times.decode_cf_timedelta
has_timedelta_dtype: Any = times.has_timedelta64_encoding_dtype
TIMEDELTA_UNITS: frozenset[str] = frozenset(times.TIME_UNITS)


def wrapped(variable: xr.Variable) -> Any:
    """Give the array of a variable as it is, where ``variable.data`` would load it."""
    return variable._data
