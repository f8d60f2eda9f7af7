"""The side that xarray users see: opening, combining, the accessor, the backend, lazy arrays."""

from intarsia.xarray.accessor import IntarsiaAccessor
from intarsia.xarray.combining import check, open_mfdataset
from intarsia.xarray.opening import open_dataset

__all__ = ["IntarsiaAccessor", "check", "open_dataset", "open_mfdataset"]
