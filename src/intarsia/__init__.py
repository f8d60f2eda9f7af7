"""Opens a pile of unlike files as one xarray dataset, without copying them, bit for bit.

>>> import intarsia
>>> ds = intarsia.open_mfdataset("sst/*.nc", combine="nested", concat_dim="time")

The names below load on first use, so that ``import intarsia`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intarsia import errors as errors
    from intarsia.store.zarr_store import open_store as open_store
    from intarsia.xarray.adopting import from_virtualizarr as from_virtualizarr
    from intarsia.xarray.combining import check as check
    from intarsia.xarray.combining import open_mfdataset as open_mfdataset
    from intarsia.xarray.opening import open_dataset as open_dataset
    from intarsia.xarray.trees import open_datatree as open_datatree
    from intarsia.xarray.verifying import verify as verify

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "check",
    "errors",
    "from_virtualizarr",
    "open_dataset",
    "open_datatree",
    "open_mfdataset",
    "open_store",
    "verify",
]

# Public name -> the module that defines it.
_PUBLIC = {
    "check": "intarsia.xarray.combining",
    "from_virtualizarr": "intarsia.xarray.adopting",
    "open_dataset": "intarsia.xarray.opening",
    "open_datatree": "intarsia.xarray.trees",
    "open_mfdataset": "intarsia.xarray.combining",
    "open_store": "intarsia.store.zarr_store",
    "verify": "intarsia.xarray.verifying",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    elif name == "errors":
        value = importlib.import_module("intarsia.errors")
    else:
        raise AttributeError(f"module 'intarsia' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
