"""``xr.open_dataset(..., engine="intarsia")``: for reading.

To combine, use `intarsia.open_dataset`: xarray wraps what a backend returns, and loads such
variables when it concatenates them. ``ds.intarsia.virtual()`` takes the wrapping off again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, ClassVar, cast

import xarray as xr
from xarray.backends import BackendEntrypoint


class IntarsiaBackend(BackendEntrypoint):
    """xarray's way to `intarsia.open_dataset`; registered as engine ``"intarsia"``."""

    description: ClassVar[str] = "Unlike archival files as one dataset, bit for bit"
    open_dataset_parameters: ClassVar[tuple[str, ...] | None] = (
        "filename_or_obj",
        "drop_variables",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "use_cftime",
        "decode_timedelta",
        "group",
        "phony_dims",
        "loadable_variables",
        "unsupported",
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        **kwargs: Any,
    ) -> xr.Dataset:
        """Open a file; xarray makes the indexes and, where asked, the dask arrays."""
        # xarray imports every engine to open anything at all: only this one's use costs something
        from intarsia.xarray.opening import open_dataset

        return open_dataset(
            filename_or_obj,
            drop_variables=drop_variables,
            create_default_indexes=False,
            **kwargs,
        )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Never by itself: netCDF files have engines that users expect."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        path = os.fspath(cast("str | os.PathLike[str]", filename_or_obj))
        return path.endswith(".intarsia")
