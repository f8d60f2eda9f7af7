"""A scanned group as a dataset: the small and the timely loaded, the rest virtual."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from intarsia.array import VirtualArray, load_together
from intarsia.cf import (
    Options,
    RawVariable,
    UnrecognisedDecoding,
    VirtualVariable,
    decode,
    time_like,
)
from intarsia.encoding import Codec, Encoding
from intarsia.errors import IntarsiaError, UnsupportedVariable, UpstreamFault, shown
from intarsia.references import References, Sources
from intarsia.scan.protocol import Opaque, Scanned, ScannedVariable
from intarsia.xarray.choices import with_choices
from intarsia.xarray.notes import with_notes

type Unsupported = Literal["raise", "copy", "skip"]

LOADED_KINDS = "bcOSTUVMm"
"""Kinds of dtype that are loaded: bool, complex, objects, strings, compounds, times."""


def dataset_of(
    scanned: Scanned,
    options: Options,
    *,
    drop_variables: str | Iterable[str] | None = None,
    loadable_variables: str | Iterable[str] | None = None,
    unsupported: Unsupported = "raise",
) -> xr.Dataset:
    """Make a dataset of a scanned group, without indexes.

    Parameters
    ----------
    scanned
        The group.
    options
        How to decode it.
    drop_variables, loadable_variables, unsupported
        As for `open_dataset`.

    Raises
    ------
    UnsupportedVariable, UpstreamFault
        As for `open_dataset`.
    """
    path = shown(scanned.sources.url(0))
    asked = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
    dropped = set(asked)
    loaded = loadable_variables
    loaded = {loaded} if isinstance(loaded, str) else set(loaded or ())
    supported = replace(scanned, variables=_supported(scanned, dropped, unsupported))
    dataset = _decode(supported, options, dropped, loaded, unsupported)
    notes = [
        f"left out of {path}: {name!r}, {_reason(scanned, str(name))}"
        for name in scanned.variables
        if name not in dataset.variables and name not in asked
    ]
    dataset = with_choices(with_notes(dataset, notes), [scanned.sources[0].scan])
    dataset.encoding |= {"unlimited_dims": set(scanned.unlimited), "source": path}
    return dataset


def _supported(
    scanned: Scanned, dropped: set[str], unsupported: Unsupported
) -> dict[str, ScannedVariable]:
    """Settle what becomes of variables that no reference can express."""
    result: dict[str, ScannedVariable] = {}
    for name, variable in scanned.variables.items():
        data = variable.data
        if name in dropped or not isinstance(data, Opaque) or _copied(variable, data):
            result[name] = variable
            continue
        if unsupported == "skip":
            dropped.add(name)
        if unsupported == "copy" and data.loader is None:
            raise _unsupported(data, scanned.sources.url(0), name)
        if unsupported == "raise":
            variable = replace(variable, data=refusing(data, scanned.sources, name))
        result[name] = variable
    return result


def _reason(scanned: Scanned, name: str) -> str:
    """Why a variable was left out."""
    data = scanned.variables[name].data
    return data.reason if isinstance(data, Opaque) else "which xarray can't decode rightly"


def _copied(variable: ScannedVariable, data: Opaque) -> bool:
    """Whether a variable is of the kinds that are always loaded, and can be."""
    if data.loader is None:
        return False
    metadata: Mapping[str, Any] = getattr(variable.encoding.get("dtype"), "metadata", None) or {}
    return data.dtype.kind in LOADED_KINDS or "enum" in metadata or not data.shape


def _unsupported(data: Opaque, url: str, name: str) -> UnsupportedVariable:
    remedy = data.remedy or "drop it with drop_variables= or unsupported='skip'"
    return UnsupportedVariable(data.reason, url=url, array=name, remedy=remedy)


def refusing(
    data: Opaque,
    sources: Sources,
    name: str,
    kind: Literal["unsupported", "fault"] = "unsupported",
) -> VirtualArray:
    """A virtual array of the right shape and type that raises when it is read."""
    refusal = Codec.make("refused", kind=kind, reason=data.reason, remedy=data.remedy)
    if data.dtype.hasobject:
        # text of NumPy's newer type has no name that a reference could keep
        steps = (Codec.make("cast", dtype="|O" if data.dtype.kind == "T" else data.dtype.str),)
        encoding = Encoding((refusal,), np.dtype("V1"), steps)
    else:
        encoding = Encoding((refusal,), data.dtype)
    return VirtualArray.from_source(
        sources,
        0,
        data.shape,
        tuple(max(size, 1) for size in data.shape),
        encoding,
        np.zeros((), encoding.parameters),
        References.inlined(b""),
        name=name,
        notes=[f"reading it raises: {data.reason}"],
    )


def _decode(
    scanned: Scanned,
    options: Options,
    dropped: set[str],
    loadable: set[str],
    unsupported: Unsupported,
) -> xr.Dataset:
    """Load what has to be loaded, decode everything, and put it together as xarray does."""
    stubs = {name: _raw(variable, None) for name, variable in scanned.variables.items()}
    wanted = set(time_like(stubs, options)) | (loadable & scanned.variables.keys())
    for name, variable in scanned.variables.items():
        data = variable.data
        small = not data.shape or variable.dims == (name,)
        if small or data.dtype.kind in LOADED_KINDS or isinstance(data, Opaque):
            wanted.add(name)
    wanted -= {name for name in wanted if _refused(scanned.variables[name], name)}
    values = _load(scanned, (wanted - dropped) & scanned.variables.keys())
    while True:
        raw = {n: _raw(v, values.get(n)) for n, v in scanned.variables.items()}
        try:
            decoded = decode(
                raw, scanned.attrs, options, drop_variables=sorted(dropped), on_fault="collect"
            )
            break
        except UnrecognisedDecoding as found:
            values |= _load(scanned, set(found.reasons))
        except (ValueError, TypeError, OverflowError, KeyError) as error:
            raise UpstreamFault(
                f"xarray can't decode the file: {error}",
                url=scanned.sources.url(0),
                remedy="turn that decoding off (decode_times=False), or drop the variable",
            ) from error
    variables: dict[str, xr.Variable] = {}
    for name, variable in decoded.variables.items():
        if isinstance(variable, VirtualVariable):
            data = scanned.variables[name].data
            assert isinstance(data, VirtualArray)
            recipe = variable.recipe
            array = data.with_steps(recipe.steps, recipe.parameters)
            loaded = array.dtype.kind in LOADED_KINDS and not _refused(
                scanned.variables[name], name
            )
            values_or_array = array.load() if loaded else array
            variables[name] = variable.with_data(values_or_array)
        else:
            variables[name] = variable
            if getattr(variable.encoding.get("dtype"), "kind", "") == "T":
                del variable.encoding["dtype"]  # it follows from the values, and no store keeps it
    for name, fault in decoded.faults.items():
        if unsupported != "skip":
            variables[name] = _faulty(scanned, name, fault)
    coords = {n: v for n, v in variables.items() if n in decoded.coord_names or v.dims == (n,)}
    rest = {name: v for name, v in variables.items() if name not in coords}
    return xr.Dataset(rest, xr.Coordinates(coords, indexes={}), decoded.attrs)


def _faulty(scanned: Scanned, name: str, fault: UpstreamFault) -> xr.Variable:
    """A variable that xarray would decode wrongly: it appears as stored, and raises when read."""
    variable = scanned.variables[name]
    data = variable.data
    reason, remedy = fault.reason, fault.remedy or ""
    if isinstance(data, Opaque):
        reason = f"{data.reason}: {reason}"
        remedy = "drop it with drop_variables= or unsupported='skip'"
    if variable.dims == (name,):  # an index can't be made of it
        url = scanned.sources.url(0)
        raise UpstreamFault(reason, url=url, array=name, remedy=remedy) from fault.__cause__
    refused = Opaque(data.shape, data.dtype, reason, remedy)
    array = refusing(refused, scanned.sources, name, kind="fault")
    return xr.Variable(variable.dims, array, dict(variable.attrs))


def _refused(variable: ScannedVariable, name: str) -> bool:
    """Whether reading raises, and no index has to be made of the values."""
    data = variable.data
    if not isinstance(data, VirtualArray) or variable.dims == (name,):
        return False
    filters = data.segments.cases[0].encoding.filters
    return bool(filters) and filters[0].name == "refused"


def _raw(variable: ScannedVariable, values: npt.NDArray[Any] | None) -> RawVariable:
    data = variable.data
    dtype = data.dtype
    if isinstance(data, VirtualArray):
        dtype = _given(variable, data)
    return RawVariable(variable.dims, data.shape, dtype, variable.attrs, variable.encoding, values)


def _given(variable: ScannedVariable, data: VirtualArray) -> np.dtype[Any]:
    """Type of the values as xarray's store gives them."""
    stored = data.segments.cases[0].encoding.stored
    return stored.newbyteorder("=") if variable.native else stored


def _load(scanned: Scanned, names: set[str]) -> dict[str, npt.NDArray[Any]]:
    """Stored values of some variables, read together, in the byte order of xarray's store."""
    result: dict[str, npt.NDArray[Any]] = {}
    virtual: dict[str, VirtualArray] = {}
    for name in scanned.variables:
        if name not in names:
            continue
        data = scanned.variables[name].data
        if isinstance(data, VirtualArray):
            virtual[name] = data
        elif data.loader is not None:
            try:
                result[name] = data.loader()
            except IntarsiaError as error:
                url = scanned.sources[0].url
                raise error.located(array=name, url=url) from error.__cause__
    loaded = load_together(list(virtual.values()))
    for (name, array), values in zip(virtual.items(), loaded, strict=True):
        given = _given(scanned.variables[name], array)
        result[name] = values.astype(given, copy=False)
    return result
