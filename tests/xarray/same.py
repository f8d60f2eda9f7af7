"""Whether two objects are the same in everything, down to types, bits and what they share."""

from __future__ import annotations

import dataclasses
import pickle
import struct
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray.core.indexing import PandasIndexingAdapter
from xarray.indexes import PandasIndex

from intarsia.array import VirtualArray
from intarsia.errors import IntarsiaError

SLOTS: dict[type, tuple[str, ...]] = {
    xr.Dataset: (
        "_variables",
        "_coord_names",
        "_dims",
        "_indexes",
        "_attrs",
        "_encoding",
        "_close",
    ),
    xr.Variable: ("_dims", "_data", "_attrs", "_encoding"),
    xr.IndexVariable: ("_dims", "_data", "_attrs", "_encoding"),
    PandasIndex: ("index", "dim", "coord_dtype"),
    PandasIndexingAdapter: ("array", "_dtype"),
    VirtualArray: ("segments", "dtype", "name", "notes"),
}


def assert_same(one: Any, two: Any) -> None:
    """Assert it, naming the first place that differs."""
    _Comparison().compare(one, two, "it")


class _Comparison:
    def __init__(self) -> None:
        self._pairs: dict[int, int] = {}
        self._alive: list[Any] = []

    def compare(self, one: Any, two: Any, where: str) -> None:
        kind = type(one)
        assert kind is type(two), f"{where}: {kind} and {type(two)}"
        if isinstance(one, np.dtype):
            told = [(d, d.metadata, d.str, pickle.dumps(d)) for d in (one, two)]
            assert told[0] == told[1], f"{where}: {told}"
        elif isinstance(one, np.ndarray):
            self._shared(one, two, where)
            self._arrays(one, two, where)
        elif isinstance(one, np.generic):
            assert (one.dtype, one.tobytes()) == (two.dtype, two.tobytes()), where
        elif kind is float:
            assert struct.pack("d", one) == struct.pack("d", two), f"{where}: {one}, {two}"
        elif isinstance(one, pd.Index):
            assert one.dtype == two.dtype, f"{where}: {one.dtype}, {two.dtype}"
            assert one.identical(two), f"{where}: {one}, {two}"
            assert getattr(one, "freq", None) == getattr(two, "freq", None), where
        elif isinstance(one, IntarsiaError):
            assert (one.__dict__, str(one)) == (two.__dict__, str(two)), where
        elif kind in SLOTS or dataclasses.is_dataclass(one):
            self._shared(one, two, where)
            names = SLOTS.get(kind) or [field.name for field in dataclasses.fields(one)]
            for name in names:
                if name != "_hash":
                    parts = [getattr(each, name) for each in (one, two)]
                    if name in ("_attrs", "_encoding"):  # which xarray makes when asked for
                        parts = [part or None for part in parts]
                    self.compare(*parts, f"{where}.{name}")
        elif kind is dict:
            self._shared(one, two, where)
            assert list(one) == list(two), f"{where}: {list(one)}, {list(two)}"
            for name in one:
                self.compare(one[name], two[name], f"{where}[{name!r}]")
        elif isinstance(one, tuple | list):
            assert len(one) == len(two), where
            for number, (mine, other) in enumerate(zip(one, two, strict=True)):
                self.compare(mine, other, f"{where}[{number}]")
        else:
            assert one == two, f"{where}: {one!r}, {two!r}"

    def _arrays(self, one: Any, two: Any, where: str) -> None:
        assert one.shape == two.shape, f"{where}: {one.shape}, {two.shape}"
        self.compare(one.dtype, two.dtype, f"{where}.dtype")
        if one.dtype.hasobject:
            self.compare(one.ravel().tolist(), two.ravel().tolist(), where)
            return
        assert one.tobytes() == two.tobytes(), f"{where}: {one}, {two}"
        repeated = [array.strides == (0,) and len(array) > 1 for array in (one, two)]
        assert repeated[0] == repeated[1], f"{where}: one of them takes no room"

    def _shared(self, one: Any, two: Any, where: str) -> None:
        """Objects that are one object on one side are one on the other."""
        self._alive += [one, two]
        assert self._pairs.setdefault(id(one), id(two)) == id(two), f"{where}: not shared"
