"""Virtual datasets that VirtualiZarr has made in memory, as datasets of ours."""

# Parts of xarray's signatures are untyped, and manifests are objects of others.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray import conventions

from intarsia.access import Access
from intarsia.array import VirtualArray
from intarsia.cf import Options
from intarsia.codecs.zarr_chain import quietly
from intarsia.io.access import access_of
from intarsia.scan.protocol import Opaque, Scanned, ScannedVariable
from intarsia.scan.zarr.scanning import adopt
from intarsia.xarray import accessor as accessor  # registers ds.intarsia
from intarsia.xarray.choices import choices_json
from intarsia.xarray.indexing import with_default_indexes
from intarsia.xarray.internals import data_of, variables_of
from intarsia.xarray.notes import with_notes
from intarsia.xarray.opening import check_unsupported
from intarsia.xarray.scanned import Unsupported, dataset_of

__all__ = ["from_virtualizarr"]

WRITTEN = ("_FillValue", "missing_value", "scale_factor", "add_offset")
"""What VirtualiZarr writes out of the encoding of a virtual variable."""

PINS = (
    "adopted from VirtualiZarr: its files are pinned as they are now, as a manifest does not say "
    "of which state of them it was made"
)
UNTOLD = (
    "adopted from VirtualiZarr: what its manifests can't tell is lost: filters that single chunks "
    "skipped, compact, external and virtual layouts (which read as fill), and scales, offsets, "
    "fills and units that differed between files that were combined; and what its parsers of "
    "DMR++, FITS and HDF4 say wrongly (byte orders, numbers without dimensions, compressed images) "
    "can't be seen; opening the files with "
    "Intarsia keeps them"
)


def from_virtualizarr(
    vds: xr.Dataset,
    *,
    registry: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    decode_cf: bool | None = None,
    mask_and_scale: bool | Mapping[str, bool] | None = None,
    decode_times: Any = None,
    decode_timedelta: Any = None,
    use_cftime: bool | Mapping[str, bool] | None = None,
    concat_characters: bool | Mapping[str, bool] | None = None,
    decode_coords: bool | Literal["coordinates", "all"] | None = None,
    drop_variables: str | Iterable[str] | None = None,
    create_default_indexes: bool = True,
    loadable_variables: str | Iterable[str] | None = None,
    unsupported: Unsupported = "raise",
) -> xr.Dataset:
    """Take over a virtual dataset that VirtualiZarr has made.

    The dataset is what xarray would give if VirtualiZarr wrote it and xarray opened it, but
    virtual, to be combined with others and saved.

    Parameters
    ----------
    vds : xarray.Dataset
        With ``ManifestArray`` variables, and loaded ones beside them.
    registry, storage_options
        How the URLs in it are reached, as for `open_dataset`. Local paths need neither.
    decode_cf, mask_and_scale, decode_times, decode_timedelta, use_cftime : optional
    concat_characters, decode_coords, drop_variables, create_default_indexes : optional
    loadable_variables, unsupported : optional
        As for `open_dataset`; what is loaded already stays so.

    Returns
    -------
    xarray.Dataset
        What a manifest can't tell is said by its notes (``ds.intarsia.report()``).

    Raises
    ------
    TypeError
        If it is no dataset with ``ManifestArray`` variables.
    FormatError
        If metadata in it make no sense.
    UnsupportedVariable, UpstreamFault
        As for `open_dataset`.

    Examples
    --------
    >>> ds = intarsia.from_virtualizarr(vds)  # doctest: +SKIP
    """
    if not isinstance(vds, xr.Dataset):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"vds must be an xarray.Dataset, got a {type(vds).__name__}")
    options = Options.parse(
        decode_cf=decode_cf,
        mask_and_scale=mask_and_scale,
        decode_times=decode_times,
        decode_timedelta=decode_timedelta,
        use_cftime=use_cftime,
        concat_characters=concat_characters,
        decode_coords=decode_coords,
    )
    check_unsupported(unsupported)
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
    variables = {n: v for n, v in variables_of(vds).items() if n not in dropped}
    manifests = {n: v for n, v in variables.items() if is_manifest(data_of(v))}
    if not manifests:
        raise TypeError("vds has no variable that is a ManifestArray of VirtualiZarr")
    virtual = {
        str(name): (
            tuple(map(str, variable.dims)),
            variable.attrs | {k: variable.encoding[k] for k in WRITTEN if k in variable.encoding},
            data_of(variable),
        )
        for name, variable in manifests.items()
    }
    with quietly():
        sources, found = adopt(
            virtual,
            access=_accesses(storage_options, registry),
            notes=[PINS, UNTOLD],
            choices=choices_json(options, group=None, phony_dims=None),
        )
    loaded = {name: variable for name, variable in variables.items() if name not in manifests}
    stored = {str(name): _stored(str(name), variable) for name, variable in loaded.items()}
    every = {str(name): (stored | found)[str(name)] for name in variables}
    sizes = {str(dim): size for dim, size in vds.sizes.items()}
    scanned = Scanned(sources, every, dict(vds.attrs), sizes, frozenset(), "/")
    asked = {loadable_variables} if isinstance(loadable_variables, str) else loadable_variables
    dataset = dataset_of(
        scanned,
        options,
        loadable_variables={*(asked or ()), *stored},
        unsupported=unsupported,
    )
    dataset = dataset.set_coords([name for name in vds.coords if name in dataset.variables])
    dataset = with_notes(dataset, [PINS, UNTOLD])
    return with_default_indexes(dataset) if create_default_indexes else dataset


def is_manifest(data: Any) -> bool:
    """Whether data are a ``ManifestArray``."""
    return hasattr(data, "manifest") and hasattr(data, "metadata")


def _accesses(
    storage_options: Mapping[str, Any] | None, registry: Any
) -> Callable[[str], Access | None]:
    return lambda place: access_of(place, storage_options, registry)


def _stored(name: str, variable: xr.Variable) -> ScannedVariable:
    """A variable in memory, encoded as it would be written, with attributes as JSON has them."""
    variable = conventions.encode_cf_variable(variable, name=name)
    values: npt.NDArray[Any] = np.asarray(variable.values)
    attrs = {
        key: value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for key, value in variable.attrs.items()
    }
    if values.dtype.kind in "OTV":
        loader = _Held(values)
        data = Opaque(values.shape, values.dtype, "values in memory", loader=loader)
        encoding = {"dtype": values.dtype} if values.dtype.kind == "T" else {}
        return ScannedVariable(tuple(map(str, variable.dims)), data, attrs, encoding)
    array = VirtualArray.inline(values)
    return ScannedVariable(tuple(map(str, variable.dims)), array, attrs, {}, native=True)


class _Held:
    """Gives values that are in memory."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values

    def __call__(self) -> npt.NDArray[Any]:
        return self.values
