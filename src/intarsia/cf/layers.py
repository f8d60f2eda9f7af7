"""The layers that xarray's decoders wrap around an array, read back as a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends import BackendArray
from xarray.core.indexing import (
    ExplicitIndexer,
    IndexingSupport,
    LazilyIndexedArray,
    explicit_indexing_adapter,
)

from intarsia.cf import upstream
from intarsia.cf.variables import RawVariable, Recipe
from intarsia.encoding import Codec


class StubRead(Exception):
    """xarray read the values of a variable that has none here."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Stub(BackendArray):
    """Stands for the stored values of a virtual variable, which nobody may read."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype

    def __getitem__(self, key: ExplicitIndexer) -> npt.NDArray[Any]:
        raise StubRead(self.name)


class _Memory(BackendArray):
    """Stored values that have been loaded, as a file would give them: decoded lazily too."""

    def __init__(self, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
        self.values = values
        self.shape = values.shape
        self.dtype = dtype  # may have metadata that `values` has lost

    def __getitem__(self, key: ExplicitIndexer) -> npt.NDArray[Any]:
        values: Any = explicit_indexing_adapter(
            key, self.shape, IndexingSupport.BASIC, self.values.__getitem__
        )
        if self.values.dtype.kind == "T" and isinstance(values, str):  # its only one, as in Zarr
            values = np.asarray(values, self.values.dtype)
        return values


def undecoded(name: str, raw: RawVariable) -> xr.Variable:
    """Make the variable that xarray's h5netcdf store would hand to the decoders."""
    if raw.data is None:
        array = _Stub(name, raw.shape, raw.dtype)
    else:
        array = _Memory(raw.data, raw.dtype)
    data: Any = LazilyIndexedArray(array)
    return xr.Variable(raw.dims, data, dict(raw.attrs), dict(raw.encoding), fastpath=True)


class Layer(NamedTuple):
    """One function that xarray would apply to the values of the layer below."""

    function: Any
    arguments: Mapping[str, Any]
    before: np.dtype[Any]
    after: np.dtype[Any]


def unwrap(data: Any) -> tuple[Any, list[Layer]]:
    """Take apart what xarray wrapped: the array inside, and the layers in order of application."""
    layers: list[Layer] = []
    while True:
        if type(data) is upstream.Elementwise and _is_partial(data.func):
            function, arguments = data.func.func, data.func.keywords
        elif type(data) in (upstream.NativeEndianness, upstream.Bool):
            function, arguments = np.asarray, {"dtype": data.dtype}
        else:
            return data, layers[::-1]
        layers.append(Layer(function, arguments, data.array.dtype, data.dtype))
        data = data.array


def _is_partial(function: Any) -> bool:
    """Whether all that a function is called with, but the data, are keyword arguments."""
    return isinstance(function, partial) and not cast("partial[Any]", function).args


class Unrecognised(Exception):
    """A layer that no step describes."""


def recipe_of(base: Any, layers: Sequence[Layer]) -> Recipe:
    """Describe layers by steps.

    Raises
    ------
    Unrecognised
        If there is one that no step describes.
    """
    if not (type(base) is LazilyIndexedArray and type(base.array) is _Stub):
        raise Unrecognised(f"xarray makes it a {type(base).__name__}")
    parameters: dict[str, np.generic] = {}
    steps = tuple(_step(layer, parameters) for layer in layers if not _only_swaps(layer))
    dtype: np.dtype[Any] = layers[-1].after if layers else base.dtype
    return Recipe(steps, parameters, dtype.newbyteorder("="))


def _only_swaps(layer: Layer) -> bool:
    """Whether a layer changes the byte order and no more, which steps leave to whoever runs them.

    xarray masks and scales big-endian floats as they are and swaps them last.
    """
    return layer.function is np.asarray and layer.before == layer.after.newbyteorder()


def _step(layer: Layer, parameters: dict[str, np.generic]) -> Codec:
    """Describe a layer by a codec, adding its numbers to `parameters`."""
    function, arguments, before, after = layer
    if after.kind not in "biufc" or np.dtype(arguments["dtype"]) != after:
        raise Unrecognised(f"xarray decodes it from {before} to {after}")
    dtype = after.newbyteorder("=")
    match function, arguments:
        case np.asarray, {"dtype": _, **others} if not others:
            return Codec.make("cast", dtype=dtype.str)
        case upstream.apply_mask, {
            "encoded_fill_values": encoded,
            "decoded_fill_value": decoded,
            "dtype": _,
            **others,
        } if dtype.kind == "f" and np.isnan(decoded) and not others:
            fills = [_number(fill, dtype) for fill in encoded]
            fills.sort(key=lambda fill: (fill.dtype.str, fill))
            parameters.update((f"fill_{i}", fill) for i, fill in enumerate(fills))
            return Codec.make("mask", dtype=dtype.str, fills=len(fills), value="nan")
        case upstream.scale_offset, {
            "scale_factor": scale,
            "add_offset": offset,
            "dtype": _,
            **others,
        } if not others:
            if scale is not None:
                parameters["scale"] = _number(scale, dtype)
            if offset is not None:
                parameters["offset"] = _number(offset, dtype)
            return Codec.make(
                "scale", dtype=dtype.str, scale=scale is not None, offset=offset is not None
            )
        case _:
            name = getattr(function, "__name__", repr(function))
            raise Unrecognised(f"xarray decodes it by {name}({', '.join(arguments)})")


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    """Give a number from an attribute the type with which it enters arithmetic with `dtype`."""
    if isinstance(value, np.integer | np.floating):
        return cast("np.generic", value)
    weak = type(value) in (int, float)  # Python's numbers take the type of the array
    if weak and dtype.kind == "f":
        return np.asarray(value).astype(dtype)[()]
    if weak and dtype.kind in "iu" and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return dtype.type(value)
    raise Unrecognised(f"{value!r} in its attributes is not a number that xarray can apply")
