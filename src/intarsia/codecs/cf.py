"""Decode stored numbers as the CF conventions say, for many chunks in one pass.

Which steps a variable needs, and of which types, is xarray's decision (see `intarsia.cf`). This
module carries the steps out as xarray would, to the last bit, with one set of parameters per row
instead of one per variable:

``cast``
    ``data.astype(dtype)``.
``mask``
    ``data.astype(dtype)``, then ``value`` wherever an element equals ``fill_0``, ``fill_1``, ...
``scale``
    ``data.astype(dtype)``, then ``data *= scale`` and ``data += offset`` in place, each where the
    step has it.
``isnan``, ``not``
    ``np.isnan(data)`` and ``np.logical_not(data)``: tests of values that are decoded already.

The types of the parameters take part: NumPy (NEP 50) compares and multiplies in the type that
both operands promote to, so a float32 array times a float64 scale differs from the same times a
float32 scale in a quarter of all values.

Floating-point warnings are silenced, though xarray would let NumPy warn of an overflow: the rows
hold whole chunks, and so elements that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.encoding import Codec

__all__ = ["apply_steps"]

type Array = npt.NDArray[Any]

_TESTS = {"isnan": np.isnan, "not": np.logical_not}
"""Steps that give booleans."""

_BLOCK = 1 << 17
"""Elements per block: all steps of a block run while it is in the processor's cache."""


def apply_steps(steps: Sequence[Codec], data: Array, parameters: Array) -> Array:
    """Decode rows of stored elements.

    Parameters
    ----------
    steps : sequence of Codec
        ``cast``, ``mask``, ``scale``, ``isnan`` and ``not`` steps, in decoding order.
    data : ndarray, shape (n, elements)
        Stored elements, of any byte order. Not modified.
    parameters : structured ndarray, shape (n,) or (1,)
        The parameters of each row, or those of all rows. Fields that no step names are ignored.

    Returns
    -------
    ndarray, shape (n, elements)
        Of the type that the last step gives, in native byte order. Where there is nothing to do
        it is `data` itself.

    Raises
    ------
    ValueError
        If a step is unknown, or the number of parameter rows fits neither 1 nor n.
    """
    if len(parameters) not in (1, len(data)):
        raise ValueError(f"{len(parameters)} rows of parameters for {len(data)} rows of data")
    plan = _plan(tuple(steps), parameters.dtype)
    final = plan[-1].dtype if plan else data.dtype.newbyteorder("=")
    if data.dtype == final and all(step.name == "cast" and step.dtype == final for step in plan):
        return data
    result = np.empty(data.shape, final)
    source, target = data, result
    if len(parameters) == 1 and data.flags.c_contiguous:
        source, target = data.reshape(1, -1), result.reshape(1, -1)
    with np.errstate(all="ignore"):
        bound = [step.bind(parameters) for step in plan]
        for rows, columns in _blocks(*source.shape):
            _decode(bound, source[rows, columns], rows, target[rows, columns])
    return result


class _Step(NamedTuple):
    """A step, and where its operands are to be found in a row of parameters.

    Each of `fields` is (name, type to bring it to, whether that may change the value).
    """

    name: str
    dtype: np.dtype[Any]
    fields: tuple[tuple[str, np.dtype[Any], bool], ...] = ()
    value: float | int = 0

    def bind(self, parameters: Array) -> _Bound:
        return _Bound(
            self.name,
            self.dtype,
            [_column(parameters[name], dtype, lossy) for name, dtype, lossy in self.fields],
            self.value,
        )


class _Bound(NamedTuple):
    """A step with its operands, each of shape (n, 1) or (1, 1)."""

    name: str
    dtype: np.dtype[Any]
    operands: list[Array]
    value: float | int


@lru_cache(maxsize=1024)
def _plan(steps: tuple[Codec, ...], parameters: np.dtype[Any]) -> tuple[_Step, ...]:
    return tuple(step for codec in steps for step in _expand(codec, parameters))


def _expand(codec: Codec, parameters: np.dtype[Any]) -> Iterator[_Step]:
    config = codec.config
    if codec.name in _TESTS:
        yield _Step(codec.name, np.dtype(bool))
        return
    if codec.name not in ("cast", "mask", "scale"):
        raise ValueError(f"no such decoding step: {codec}")
    dtype = np.dtype(config["dtype"]).newbyteorder("=")
    yield _Step("cast", dtype)
    if codec.name == "mask":
        value = np.nan if config["value"] == "nan" else config["value"]
        names = [f"fill_{i}" for i in range(config["fills"])]
        fields = tuple(_fill_field(name, parameters[name], dtype) for name in names)
        yield _Step("mask", dtype, fields, value)
    elif codec.name == "scale":
        for name, operation in (("scale", "multiply"), ("offset", "add")):
            if config[name]:
                yield _Step(operation, dtype, ((name, parameters[name].newbyteorder("="), False),))


def _fill_field(
    name: str, dtype: np.dtype[Any], data: np.dtype[Any]
) -> tuple[str, np.dtype[Any], bool]:
    """Compare in the type of floating data, where NumPy would have to widen all of it."""
    if data.kind != "f":
        return name, dtype.newbyteorder("="), False
    return name, data, not np.can_cast(dtype, data, "safe")


def _column(field: Array, dtype: np.dtype[Any], lossy: bool) -> Array:
    """One parameter of all rows as a new array, since fields of packed records are not aligned.

    A fill that `dtype` can't represent equals no value of it: it becomes NaN, which doesn't either.
    """
    column = field.astype(dtype).reshape(-1, 1)
    if lossy:
        wide = np.result_type(field.dtype, dtype)
        given = field.astype(wide).reshape(-1, 1)
        column[column.astype(wide) != given] = np.nan
    return column


def _blocks(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Cut an array into blocks of about `_BLOCK` elements, along rows before columns."""
    height = max(1, _BLOCK // max(columns, 1))
    width = max(1, columns if height > 1 else _BLOCK)
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            yield slice(row, row + height), slice(column, column + width)


def _decode(steps: Sequence[_Bound], data: Array, rows: slice, out: Array) -> None:
    """Decode one block into `out`, which has the type of the last step."""
    ours = False  # whether `data` may be written to
    for name, dtype, operands, value in steps:
        if name == "cast":
            if data.dtype == dtype:
                continue
            if not ours and _is_reinterpretation(data.dtype, dtype):
                data = data.view(dtype.newbyteorder(data.dtype.byteorder))
                continue
        if name in _TESTS:
            data, ours = _TESTS[name](data), True
            continue
        if data.dtype != dtype or not ours:
            data, ours = _converted(data, dtype, out), True
        here = [operand[rows] if len(operand) > 1 else operand for operand in operands]
        if name == "mask":
            _mask(data, here, value)
        elif name == "multiply":
            np.multiply(data, here[0], out=data, casting="same_kind")
        elif name == "add":
            np.add(data, here[0], out=data, casting="same_kind")
    if data is not out:
        np.copyto(out, data, casting="unsafe")


def _converted(data: Array, dtype: np.dtype[Any], out: Array) -> Array:
    """``data.astype(dtype)``, into `out` if that has the type."""
    if dtype != out.dtype:
        return data.astype(dtype)
    np.copyto(out, data, casting="unsafe")
    return out


def _is_reinterpretation(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
    """Whether a cast keeps the bits: between integers of the same size."""
    return old.kind in "iu" and new.kind in "iu" and old.itemsize == new.itemsize


def _mask(data: Array, fills: Sequence[Array], value: float | int) -> None:
    condition: Array | None = None
    for fill in fills:
        equal = np.equal(data, fill)
        condition = equal if condition is None else np.logical_or(condition, equal, out=condition)
    if condition is not None:
        np.copyto(data, value, where=condition)
