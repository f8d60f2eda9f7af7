"""The Zarr codec `intarsia.cf`: packed numbers to values as the CF conventions say, bit for bit.

What it does to elements is `intarsia.codecs.cf`. Within a case of `intarsia.switch` the parameters
come with each part; here, where the codec stands for itself, they are in its configuration, as the
bytes of typed numbers in hexadecimal, for JSON's floats are not the same in all languages. See
``spec/cf.md``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayArrayCodec
from zarr.dtype import parse_dtype

from intarsia.codecs.cases import canonical
from intarsia.codecs.cases_steps import parameters_of, steps_json, steps_of
from intarsia.codecs.cases_types import data_type_json, data_type_of, dtype_of, entries, fail
from intarsia.codecs.cf import apply_steps
from intarsia.encoding import RAW_FILL, Encoding
from intarsia.errors import UnsupportedError

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import NDBuffer

__all__ = ["CFCodec"]

type Array = npt.NDArray[Any]

NAME = "intarsia.cf"


@dataclass(frozen=True)
class CFCodec(ArrayArrayCodec):
    """Decode packed numbers.

    Parameters
    ----------
    encoding
        Stored type, steps and types of the parameters; no filters.
    row
        The bytes of the parameters.
    """

    is_fixed_size = True

    encoding: Encoding
    row: bytes

    def __init__(
        self, *, data_type: Any, steps: Sequence[Any], parameters: Sequence[Sequence[str]]
    ) -> None:
        """Check a configuration.

        Parameters
        ----------
        data_type
            Zarr's name of the stored type.
        steps
            As in a case.
        parameters
            Name, type and bytes of each: as in a case, with the bytes in hexadecimal.

        Raises
        ------
        ValueError
            If it is refused, with the reason.
        """
        given = {"data_type": data_type, "steps": steps, "parameters": parameters}
        config = json.loads(canonical(given))
        typed = [_typed(entry) for entry in _list(config["parameters"])]
        if not typed or typed[0][0] != RAW_FILL:
            raise ValueError(f"the first parameter must be {RAW_FILL!r}")
        stored = dtype_of(typed[0][1])
        if stored.newbyteorder("=") != data_type_of(config["data_type"]):
            raise ValueError(f"{RAW_FILL} must be of the type {config['data_type']!r}")
        chain = steps_of(config["steps"])
        pairs = [[name, text] for name, text, _ in typed]
        encoding = Encoding.shared((), stored, chain, parameters_of(pairs, stored, chain))
        object.__setattr__(self, "encoding", encoding)
        object.__setattr__(self, "row", b"".join(data for _, _, data in typed))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the codec that array metadata describes.

        Raises
        ------
        ValueError
            If its configuration is refused, with the reason.
        """
        codec = entries(data, NAME, ("name", "configuration"))
        if codec["name"] != NAME:
            raise ValueError(f"the codec is {codec['name']!r}, not {NAME!r}")
        return cls(**entries(codec["configuration"], NAME, ("data_type", "steps", "parameters")))

    def to_dict(self) -> dict[str, Any]:
        """The codec as array metadata has it."""
        parameters = self.encoding.parameters
        names = parameters.names or ()
        configuration: dict[str, Any] = {
            "data_type": data_type_json(self.encoding.stored),
            "steps": steps_json(self.encoding.steps),
            "parameters": [
                [name, parameters[name].str, self._rows()[name].tobytes().hex()] for name in names
            ],
        }
        return {"name": NAME, "configuration": configuration}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Check that the steps give values of the array's type.

        Raises
        ------
        ValueError
            If they give another.
        """
        wanted = cast("np.dtype[Any]", array_spec.dtype.to_native_dtype()).newbyteorder("=")
        if self.encoding.dtype != wanted:
            raise ValueError(f"the steps give {self.encoding.dtype}, the array has {wanted}")
        return self

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        """The encoded array has the stored type, and the raw fill."""
        native = self.encoding.stored.newbyteorder("=")
        dtype: Any = parse_dtype(native, zarr_format=3)
        fill = self._rows()[RAW_FILL].astype(native)[0]
        return replace(chunk_spec, dtype=dtype, fill_value=fill)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Bytes of as many stored elements."""
        return prod(chunk_spec.shape) * self.encoding.stored.itemsize

    def _rows(self) -> Array:
        return np.frombuffer(self.row, self.encoding.parameters)

    def _decode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        stored = chunk_data.as_numpy_array()
        decoded = apply_steps(self.encoding.steps, stored.reshape(1, -1), self._rows())
        return chunk_spec.prototype.nd_buffer.from_numpy_array(decoded.reshape(stored.shape))

    async def _decode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer:
        return self._decode_sync(chunk_data, chunk_spec)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        values = chunk_data.as_numpy_array()
        wanted = np.ascontiguousarray(values, self.encoding.dtype).reshape(-1)
        stored = _encoded(self.encoding, self.row, wanted)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(stored.reshape(values.shape))

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> NDBuffer | None:
        return self._encode_sync(chunk_data, chunk_spec)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise fail("parameters", value, "a list")
    return cast("list[Any]", value)


def _typed(entry: Any) -> tuple[str, str, bytes]:
    """Name, type and bytes of a parameter."""
    values = _list(entry)
    if len(values) != 3 or not all(isinstance(value, str) for value in values):
        raise fail("a parameter", values, "a name, a type and bytes in hexadecimal")
    name, text, digits = cast("list[str]", values)
    dtype = dtype_of(text)
    if text[0] == ">":
        raise ValueError(f"{name[:64]} must be little-endian")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        data = b""
    if len(data) != dtype.itemsize or data.hex() != digits:
        raise fail(name[:64], digits, f"{dtype.itemsize} bytes in hexadecimal")
    return name, text, data


# -- encoding: only what decodes to the same bits again ------------------------------------------


def _encoded(encoding: Encoding, row: bytes, values: Array) -> Array:
    """Stored elements that decode to these values, bit for bit.

    Of stored types with 8 or 16 bits all values are tried; others only where all that the steps do
    is to cast.
    """
    native = encoding.stored.newbyteorder("=")
    rows = np.frombuffer(row, encoding.parameters)
    numbers = native.kind in "biufc" and encoding.dtype.kind in "biufc"
    if numbers and native.itemsize <= 2 and encoding.dtype.itemsize <= 8:
        stored, same = _looked_up(encoding, row, _bits(values))
        if encoding.dtype.kind == "f" and not same.all():
            # the NaN that masks give stands for all others that nothing decodes to
            nan = _bits(np.full(1, np.nan, encoding.dtype))
            usual, found = _looked_up(encoding, row, nan)
            empty = ~same & np.isnan(values) & found[0]
            stored, same = np.where(empty, usual, stored), same | empty
    elif numbers and all(step.name == "cast" for step in encoding.steps):
        with np.errstate(all="ignore"):
            stored = values.astype(native)
        again = apply_steps(encoding.steps, stored.reshape(1, -1), rows).reshape(-1)
        same = _bits(again) == _bits(values)
    else:
        raise UnsupportedError(
            f"values can't be encoded as {encoding}: {native} has too many values to try"
        )
    if not same.all():
        strange = values[np.argmin(same)]
        raise UnsupportedError(f"nothing of type {native} decodes to exactly {strange!r}")
    return stored


def _looked_up(encoding: Encoding, row: bytes, wanted: Array) -> tuple[Array, Array]:
    """A stored element for each value given by its bits, and whether it is the right one."""
    bits, raw = _inverse(encoding, row)
    found = np.minimum(np.searchsorted(bits, wanted), len(bits) - 1)
    return raw[found], bits[found] == wanted


@lru_cache(maxsize=16)
def _inverse(encoding: Encoding, row: bytes) -> tuple[Array, Array]:
    """Bits of all values that there are, sorted, and of each a stored element that gives it.

    Where several do, the raw fill is taken, or else the one whose bits are the smallest number.
    """
    native = encoding.stored.newbyteorder("=")
    rows = np.frombuffer(row, encoding.parameters)
    raw = np.arange(1 << 8 * native.itemsize).astype(f"u{native.itemsize}").view(native)
    fill: Array = rows[RAW_FILL].astype(native)
    raw = np.concatenate([fill, raw])  # the first of equals is kept
    decoded = apply_steps(encoding.steps, raw.reshape(1, -1), rows).reshape(-1)
    bits, first = np.unique(_bits(decoded), return_index=True)
    return bits, raw[first]


def _bits(values: Array) -> Array:
    """Values as integers, or as opaque bytes, that are equal where the bits are."""
    data = np.ascontiguousarray(values)
    if data.itemsize in (1, 2, 4, 8):
        return data.view(f"u{data.itemsize}")
    return data.view(np.dtype((np.void, data.itemsize)))
