"""Variables that no reference can express: strings, bool, enum, complex and compound.

They exist to show that such a variable is given as xarray gives it, at no cost to its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import h5py
import numpy as np

from tests.unlike.brief import Brief

Kind = Literal[
    "vlen_str", "fixed_str", "char", "bool", "enum", "complex64", "complex128", "compound"
]

KINDS: tuple[Kind, ...] = get_args(Kind)
WEATHER = {"clear": 0, "cloudy": 1, "rain": 2, "missing": 255}


@dataclass(frozen=True, repr=False)
class SpecialVariable(Brief):
    """A variable of a type beyond plain numbers; `start` shifts its values per file."""

    name: str
    dims: tuple[str, ...]
    kind: Kind
    start: int = 0
    attrs: tuple[tuple[str, Any], ...] = ()
    chunks: tuple[int, ...] | None = None

    def values(self, shape: tuple[int, ...]) -> np.ndarray:
        """The elements, of the type they are stored in."""
        number = (np.arange(int(np.prod(shape))) + self.start).reshape(shape)
        match self.kind:
            case "vlen_str":
                strings = np.array([f"é{n}" * (n % 4) for n in number.ravel()], dtype=object)
                return strings.reshape(shape)
            case "fixed_str":
                return np.char.add("s", number.astype("U4")).astype("S6")
            case "char":
                return (65 + number % 26).astype("u1").view("S1")
            case "bool":
                return number % 3 == 0
            case "enum":
                return np.array(list(WEATHER.values()), "u1")[number % len(WEATHER)]
            case "complex64" | "complex128":
                return (number + 1j * (number + 0.5)).astype(self.kind)
            case "compound":
                out = np.zeros(shape, dtype=[("t", "<f8"), ("n", "<i4")])
                out["t"], out["n"] = number * 0.5, number
                return out

    def h5type(self, group: h5py.Group) -> Any:
        """The type of the dataset; an enum is committed to the group, as netCDF-4 does."""
        match self.kind:
            case "vlen_str":
                return h5py.string_dtype()
            case "fixed_str":
                return np.dtype("S6")
            case "char":
                return np.dtype("S1")
            case "bool":
                return np.dtype(bool)
            case "enum":
                if "weather_t" not in group:
                    group["weather_t"] = h5py.enum_dtype(WEATHER, basetype="u1")
                return group["weather_t"]
            case "complex64" | "complex128":
                return np.dtype(self.kind)
            case "compound":
                return np.dtype([("t", "<f8"), ("n", "<i4")])
