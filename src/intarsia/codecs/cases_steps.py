"""The steps and parameters of cases: JSON of `intarsia.codecs.cf`'s steps, strictly checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from intarsia.codecs.cases_types import (
    data_type_json,
    data_type_of,
    dtype_of,
    entries,
    fail,
    text_of,
    typestr,
)
from intarsia.encoding import RAW_FILL, Codec

__all__ = ["parameters_json", "parameters_of", "steps_json", "steps_of"]

MAX_STEPS = 64
MAX_FILLS = 64
CASTABLE = "biufcSU"
"""Kinds of types that may be cast, and cast to."""
_TESTS = ("isnan", "not")


def steps_json(steps: Sequence[Codec]) -> list[dict[str, Any]]:
    """Write steps down.

    Raises
    ------
    ValueError
        If there is one that has no form in JSON.
    """
    return [_step_json(step) for step in steps]


def _step_json(step: Codec) -> dict[str, Any]:
    config = step.config
    if step.name in _TESTS:
        return {"name": step.name}
    if step.name not in ("cast", "mask", "scale"):
        raise ValueError(f"there is no decoding step {step}")
    written: dict[str, Any] = {"data_type": data_type_json(np.dtype(config["dtype"]))}
    if step.name == "mask":
        written |= {"fills": config["fills"], "value": config["value"]}
    elif step.name == "scale":
        written |= {"scale": config["scale"], "offset": config["offset"]}
    return {"name": step.name, "configuration": written}


def steps_of(value: Any) -> tuple[Codec, ...]:
    """Read steps.

    Raises
    ------
    ValueError
        If they are not a list of known ones, with the configurations they have to have.
    """
    if not isinstance(value, list) or not value:
        raise fail("steps", cast("Any", value), "a list of at least one")
    steps = cast("list[Any]", value)
    if len(steps) > MAX_STEPS:
        raise ValueError(f"there are more than {MAX_STEPS} steps")
    return tuple(_step_of(step) for step in steps)


def _step_of(value: Any) -> Codec:
    step = entries(value, "a step", ("name",), ("configuration",))
    name, config = step["name"], step.get("configuration")
    if name in _TESTS:
        if "configuration" in step:
            raise ValueError(f"the step {name!r} has no configuration")
        return Codec.make(name, dtype="|b1")
    if name == "cast":
        entries(config, "a cast", ("data_type",))
        return Codec.make("cast", dtype=_type(config, CASTABLE))
    if name == "mask":
        mask = entries(config, "a mask", ("data_type", "fills", "value"))
        fills = mask["fills"]
        if type(fills) is not int or not 1 <= fills <= MAX_FILLS:
            raise fail("fills", fills, f"an integer from 1 to {MAX_FILLS}")
        if mask["value"] != "nan":
            raise fail("the value of a mask", mask["value"], "'nan'")
        return Codec.make("mask", dtype=_type(config, "f"), fills=fills, value="nan")
    if name == "scale":
        scale = entries(config, "a scale", ("data_type", "scale", "offset"))
        if type(scale["scale"]) is not bool or type(scale["offset"]) is not bool:
            raise fail("scale and offset", config, "booleans")
        return Codec.make(
            "scale", dtype=_type(config, "iufc"), scale=scale["scale"], offset=scale["offset"]
        )
    raise ValueError(f"there is no decoding step {text_of(name)}")


def _type(config: Any, kinds: str) -> str:
    dtype = data_type_of(config["data_type"])
    if dtype.kind not in kinds:
        raise ValueError(f"a step can't make {dtype}")
    return dtype.str


def parameters_json(parameters: np.dtype[Any]) -> list[list[str]]:
    """Write the type of a row of parameters down.

    Raises
    ------
    ValueError
        If it is not packed, or has types that Zarr has no words for.
    """
    names = parameters.names or ()
    if parameters.itemsize != sum(parameters[name].itemsize for name in names):
        raise ValueError("parameters must be packed")
    return [[name, typestr(parameters[name])] for name in names]


def parameters_of(value: Any, stored: np.dtype[Any], steps: Sequence[Codec]) -> np.dtype[Any]:
    """Read the type of a row of parameters, and check that the steps can be taken with it.

    Parameters
    ----------
    value
        JSON.
    stored
        Type that the steps begin with.
    steps
        What needs the parameters.

    Raises
    ------
    ValueError
        If the parameters are not those that the steps need, or of types that don't go with them.
    """
    needed = _needed(steps)
    if not isinstance(value, list) or len(cast("list[Any]", value)) != len(needed):
        raise fail("parameters", cast("Any", value), f"a list of {', '.join(needed)}")
    fields: list[tuple[str, np.dtype[Any]]] = []
    for pair in cast("list[Any]", value):
        if not isinstance(pair, list) or len(cast("list[Any]", pair)) != 2:
            raise fail("a parameter", cast("Any", pair), "a name and a type")
        name, typed = cast("list[Any]", pair)
        fields.append((str(name), dtype_of(typed)))
    names = [name for name, _ in fields]
    if sorted(names) != sorted(needed) or names[0] != RAW_FILL:
        raise fail("parameters", names, f"{', '.join(needed)}, the first one first")
    if fields[0][1] != stored:
        raise ValueError(f"{RAW_FILL} must be of the stored type {stored.str}")
    parameters = np.dtype(fields)
    _check_types(parameters, stored, steps)
    return parameters


def _needed(steps: Sequence[Codec]) -> list[str]:
    names: dict[str, None] = {RAW_FILL: None}
    for step in steps:
        config = step.config
        if step.name == "mask":
            names |= dict.fromkeys(f"fill_{i}" for i in range(config["fills"]))
        elif step.name == "scale":
            names |= {name: None for name in ("scale", "offset") if config[name]}
    return list(names)


def _check_types(parameters: np.dtype[Any], stored: np.dtype[Any], steps: Sequence[Codec]) -> None:
    before = stored.newbyteorder("=")
    for step in steps:
        config = step.config
        if step.name in _TESTS:
            kinds = "biufcMm" if step.name == "isnan" else "biufc"
            if before.kind not in kinds:
                raise ValueError(f"the step {step.name!r} can't be taken with {before}")
            before = np.dtype(bool)
            continue
        after = np.dtype(config["dtype"])
        # text may be no number, or not in the other's alphabet: what else is cast never fails
        castable = after.kind == before.kind if before.kind in "SU" else before.kind in CASTABLE
        if before != after and not castable:
            raise ValueError(f"{before} can't be cast to {after}")
        kinds = "biuf" if step.name == "mask" else "biufc"
        for name in _operands(step):
            operand = parameters[name]
            # a fill that doesn't fit is compared all the same; a factor that doesn't, NumPy refuses
            fits = operand.kind in kinds and (
                step.name == "mask"
                or np.can_cast(np.result_type(operand, after), after, "same_kind")
            )
            if not fits:
                raise ValueError(f"{name} of type {operand.str} can't go with {after}")
        before = after


def _operands(step: Codec) -> Iterator[str]:
    config = step.config
    if step.name == "mask":
        yield from (f"fill_{i}" for i in range(config["fills"]))
    elif step.name == "scale":
        yield from (name for name in ("scale", "offset") if config[name])
