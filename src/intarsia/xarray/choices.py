"""What was asked for when files were opened: written down, and held against what is asked later.

A file is decoded when it is scanned, so a store holds values as they were decoded then. Each source
keeps what was asked for (`intarsia.references.Source.scan`), and a store the union of these, so
that asking it for another decoding is refused instead of ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, cast

import numpy as np
import xarray as xr
from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder

from intarsia.array import VirtualArray
from intarsia.cf import Options
from intarsia.errors import CorruptStore, UnsupportedError
from intarsia.segments import SOURCE
from intarsia.xarray.internals import data_of, variables_of

__all__ = ["CHOICES", "check_choices", "choices_json", "choices_of", "with_choices"]

CHOICES = "intarsia_choices"
"""Key of `xarray.Dataset.encoding` for choices that no virtual array carries."""

DECODERS = tuple(field.name for field in fields(Options))
"""Arguments that say how to decode."""

_DEFAULTS = Options()

_CODERS: dict[type[Any], tuple[str, ...]] = {
    CFDatetimeCoder: ("use_cftime", "time_unit"),
    CFTimedeltaCoder: ("time_unit", "decode_via_units", "decode_via_dtype"),
}
"""Classes that xarray takes instead of True, and their parameters."""


def choices_json(options: Options, *, group: str | None, phony_dims: str | None) -> str:
    """Write down what differs from the defaults, as canonical JSON; empty where nothing does.

    Parameters
    ----------
    options
        How the file is decoded.
    group, phony_dims
        As for `open_dataset`.
    """
    chosen: dict[str, Any] = {}
    inside = "/".join(part for part in (group or "").split("/") if part)
    if inside:
        chosen["group"] = inside
    if phony_dims == "sort":
        chosen["phony_dims"] = phony_dims
    for name in DECODERS:
        value = getattr(options, name)
        if value is not getattr(_DEFAULTS, name):
            written = _written(value)
            if written != _default(name):
                chosen[name] = written
    return json.dumps(chosen, sort_keys=True, separators=(",", ":")) if chosen else ""


def _written(value: Any) -> Any:
    """One option as JSON; the same for all ways to say the same."""
    if isinstance(value, Mapping):
        by_name = cast("Mapping[Any, Any]", value)
        named = {str(name): _written(by_name[name]) for name in sorted(by_name, key=str)}
        return {"by_variable": named}
    parameters = _CODERS.get(cast("type[Any]", type(value)))
    if parameters is None:
        return value if value is None or isinstance(value, bool | str) else repr(value)
    told = {"coder": type(value).__name__, **{key: getattr(value, key) for key in parameters}}
    return True if told == _AS_TRUE else told


_AS_TRUE = {"coder": "CFDatetimeCoder", "use_cftime": None, "time_unit": "ns"}
"""The coder that xarray takes for ``decode_times=True``."""


def check_choices(
    recorded: Sequence[str],
    *,
    url: str,
    decode_cf: bool | None = None,
    phony_dims: str | None = None,
    **decoders: Any,
) -> None:
    """Refuse to open a store in another way than its sources were opened.

    Parameters
    ----------
    recorded
        What `choices_json` gave for the sources, each once.
    url
        Of the store, for messages.
    decode_cf, phony_dims, **decoders
        What is asked for; None where nothing is.

    Raises
    ------
    UnsupportedError
        Naming the first argument that differs, and both values.
    CorruptStore
        If what is recorded is nothing that `choices_json` gave.
    """
    given = [name for name, value in decoders.items() if value is not None]
    if decode_cf is False:
        given = list(DECODERS)
    asked = Options.parse(decode_cf=decode_cf, **decoders)
    wanted = {name: _written(getattr(asked, name)) for name in given}
    if phony_dims is not None:
        wanted["phony_dims"] = phony_dims
    for name, value in wanted.items():
        for choices in recorded or [""]:
            was = _chosen(choices).get(name, _default(name))
            if was == value:
                continue
            argument = f"{name}={_shown(value)}"
            if decode_cf is False:
                argument = f"decode_cf=False (and so {argument})"
            raise UnsupportedError(
                f"{argument} can't be had of a store that was made with {name}={_shown(was)}",
                url=url,
                remedy="open the files again, asking for that",
            )


@lru_cache(maxsize=64)
def _default(name: str) -> Any:
    return "access" if name == "phony_dims" else _written(getattr(_DEFAULTS, name))


@lru_cache(maxsize=64)
def _chosen(choices: str) -> Mapping[str, Any]:
    try:
        found: Any = json.loads(choices) if choices else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CorruptStore(f"what was chosen is not told by {choices[:80]!r}")
    return cast("dict[str, Any]", found)


def _shown(value: Any) -> str:
    """A choice as it was written in Python."""
    if not isinstance(value, dict):
        return repr(value)
    told = cast("dict[str, Any]", value)
    by_name = told.get("by_variable")
    if isinstance(by_name, dict):
        named = cast("dict[str, Any]", by_name).items()
        return f"{{{', '.join(f'{name!r}: {_shown(item)}' for name, item in named)}}}"
    parameters = ", ".join(f"{name}={item!r}" for name, item in told.items() if name != "coder")
    return f"{told.get('coder')}({parameters})"


def with_choices(dataset: xr.Dataset, choices: Iterable[str]) -> xr.Dataset:
    """Remember how variables that are loaded were decoded; virtual ones know by themselves.

    Parameters
    ----------
    dataset
        Its encoding is changed.
    choices
        What `choices_json` gave for its sources.
    """
    different = sorted(set(choices))
    if different not in ([], [""]):
        dataset.encoding[CHOICES] = tuple(different)
    return dataset


def choices_of(dataset: xr.Dataset) -> list[str]:
    """What was asked for when the sources of a dataset were opened, each choice once."""
    found: set[str] = set(dataset.encoding.get(CHOICES, ()))
    for variable in variables_of(dataset).values():
        data = data_of(variable)
        if isinstance(data, VirtualArray):
            segments = data.segments
            scans = segments.sources.scans
            for block in segments.blocks:
                numbers: list[int] = np.unique(block.column(SOURCE)).tolist()
                used = [number for number in numbers if number >= 0]
                found.update(["" if scans is None else scans[number] for number in used])
    return sorted(found)
