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

from xarray.coders import CFDatetimeCoder, CFTimedeltaCoder

from intarsia.cf import Options
from intarsia.errors import UnsupportedError

__all__ = ["check_choices", "choices_json", "union_of"]

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
    return json.loads(choices) if choices else {}


def _shown(value: Any) -> str:
    """A choice as it was written in Python."""
    if not isinstance(value, dict):
        return repr(value)
    told = cast("dict[str, Any]", value)
    if "by_variable" in told:
        inner = ", ".join(f"{k!r}: {_shown(v)}" for k, v in told["by_variable"].items())
        return f"{{{inner}}}"
    return f"{told['coder']}({', '.join(f'{k}={v!r}' for k, v in told.items() if k != 'coder')})"


def union_of(choices: Iterable[str]) -> list[str]:
    """Different choices, each once, in order."""
    return sorted(set(choices))
