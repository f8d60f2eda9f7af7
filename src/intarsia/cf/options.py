"""Which conventions to decode: xarray's arguments, with xarray's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder

from intarsia.cf import upstream

type PerVariable[T] = T | Mapping[str, T]
"""One value for all variables, or one for each that is named (the others take the default)."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to decode: the arguments of `xarray.open_dataset` that its decoders take.

    The defaults are xarray's. `parse` makes one from what a user passed.
    """

    mask_and_scale: PerVariable[bool] = True
    decode_times: PerVariable[bool | CFDatetimeCoder] = True
    concat_characters: PerVariable[bool] = True
    decode_coords: bool | Literal["coordinates", "all"] = True
    use_cftime: PerVariable[bool] | None = None
    decode_timedelta: PerVariable[bool | CFTimedeltaCoder] | None = None

    @classmethod
    def parse(cls, *, decode_cf: bool | None = None, **decoders: Any) -> Options:
        """Resolve arguments as `xarray.open_dataset` does.

        Parameters
        ----------
        decode_cf : bool, optional
            False turns every decoder off, whatever the other arguments say.
        **decoders
            Fields of the class. None stands for the default.
        """
        every: dict[str, Any] = dict.fromkeys(field.name for field in fields(cls))
        unknown = decoders.keys() - every.keys()
        if unknown:
            raise TypeError(f"not among the decoding options: {', '.join(sorted(unknown))}")
        return cls(**upstream.resolve_decoders(decode_cf, tuple(every), **every | decoders))


DEFAULTS = Options()
"""What `xarray.open_dataset` does unless told otherwise."""


def of_variable(option: Any, name: str, default: Any) -> Any:
    """Look up what a `PerVariable` option is for one variable."""
    if isinstance(option, Mapping):
        by_name = cast("Mapping[str, Any]", option)
        return by_name.get(name, default)
    return option
