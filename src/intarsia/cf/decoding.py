"""Decode all variables of a group at once, by xarray's own decoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import xarray as xr

from intarsia.cf import upstream
from intarsia.cf.enums import kept_enum
from intarsia.cf.faults import fault_in
from intarsia.cf.layers import StubRead, Unrecognised, recipe_of, undecoded, unwrap
from intarsia.cf.options import DEFAULTS, Options
from intarsia.cf.variables import Decoded, RawVariable, UnrecognisedDecoding, VirtualVariable
from intarsia.errors import UpstreamFault


def decode(
    variables: Mapping[str, RawVariable],
    attrs: Mapping[str, Any],
    options: Options = DEFAULTS,
    *,
    drop_variables: str | Iterable[str] | None = None,
    on_fault: Literal["raise", "collect"] = "raise",
) -> Decoded:
    """Decode all variables of a group at once, as `xarray.open_dataset` would.

    Parameters
    ----------
    variables : mapping of str to RawVariable
        All of the group, those to be dropped included: xarray looks at them too (a bounds
        variable takes the units of a time coordinate that is dropped).
    attrs : mapping
        Attributes of the group.
    options : Options
        What to decode.
    drop_variables : str or iterable of str, optional
        Variables to leave out.
    on_fault : {"raise", "collect"}
        What to do with variables that xarray is known to decode wrongly, or can't decode: raise
        for the first, or leave them out of the result and put the errors into `Decoded.faults`.

    Returns
    -------
    Decoded

    Raises
    ------
    UnrecognisedDecoding
        If variables without `RawVariable.data` need to be loaded.
    UpstreamFault
        See `on_fault`.
    """
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
    faults: dict[str, UpstreamFault] = {}
    while True:
        arrays = {name: undecoded(name, raw) for name, raw in variables.items()}
        try:
            found, group_attrs, coord_names = upstream.decode_variables(
                arrays,
                dict(attrs),
                concat_characters=options.concat_characters,
                mask_and_scale=options.mask_and_scale,
                decode_times=options.decode_times,
                decode_coords=options.decode_coords,
                drop_variables=sorted(dropped),
                use_cftime=options.use_cftime,
                decode_timedelta=options.decode_timedelta,
            )
            break
        except StubRead as read:
            reason = "xarray looks at its values to decode it"
            raise UnrecognisedDecoding({read.name: reason}) from None
        except Exception as error:
            name = _stumbled_over(error, variables.keys() - dropped)
            if on_fault == "raise" or name is None:
                raise
            faults[name] = _undecodable(name, error)
            dropped.add(name)
    decoded: dict[str, xr.Variable | VirtualVariable] = {}
    unrecognised: dict[str, str] = {}
    for name, variable in found.items():
        base, layers = unwrap(upstream.wrapped(variable))
        fault = fault_in(name, variable.encoding, layers)
        if fault is not None:
            if on_fault == "raise":
                raise fault
            faults[name] = fault
        elif variables[name].data is not None:
            try:
                decoded[name] = variable.load()  # pyright: ignore[reportUnknownMemberType]
            except Exception as error:
                if on_fault == "raise":
                    error.add_note(f"Raised while decoding the values of variable {name!r}")
                    raise
                faults[name] = _undecodable(name, error)
        else:
            try:
                recipe = recipe_of(base, layers)
            except Unrecognised as error:
                unrecognised[name] = str(error)
                continue
            encoding = {k: v for k, v in variable.encoding.items() if k in upstream.RELATIONS}
            encoding |= kept_enum(variable.encoding, recipe.dtype, as_stored=not recipe.steps)
            decoded[name] = VirtualVariable(variable.dims, variable.attrs, encoding, recipe)
    if unrecognised:
        raise UnrecognisedDecoding(unrecognised)
    coordinates = (
        name for name, var in decoded.items() if name in coord_names or var.dims == (name,)
    )
    return Decoded(decoded, dict(group_attrs), frozenset(coordinates), faults)


def _stumbled_over(error: Exception, names: Iterable[str]) -> str | None:
    """The variable that xarray was decoding, as a note says that it adds to the error."""
    notes: list[str] = getattr(error, "__notes__", [])
    for name in names:
        if any(note.startswith(f"{upstream.STUMBLED} {name!r} with value") for note in notes):
            return name
    return None


def _undecodable(name: str, error: Exception) -> UpstreamFault:
    fault = UpstreamFault(
        f"xarray can't decode the values: {type(error).__name__}: {error}",
        array=name,
        remedy="drop it, or turn the decoding that fails off for it",
    )
    fault.__cause__ = error
    return fault
