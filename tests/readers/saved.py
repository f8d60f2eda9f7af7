"""The store that `by_hand` writes, written by Intarsia: of the same names, with real references."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

import intarsia
from intarsia.store import write
from intarsia.store.nodes import Group, Variable
from tests.readers import by_hand
from tests.readers.by_hand import Store

VIRTUAL = {"sst": "i2", "g/chl": "f4", "g/deeper/flag": "u1", "g/z": "f8"}


def save(path: Path) -> Store:
    """Write a store as a folder, and the same as a zip file beside it."""
    source = path.with_name("source.h5")
    rng = np.random.default_rng(7)
    with h5py.File(source, "w") as file:
        for name, dtype in VIRTUAL.items():
            values = rng.integers(1, 200, (4, 3)).astype(dtype)
            file.create_dataset(name.rpartition("/")[2], data=values, chunks=(1, 3))
        # so many chunks of unlike sizes that their places are written as a table
        many = np.where(rng.random((40, 500)) < 0.5, 0, rng.integers(0, 999, (40, 500)))
        file.create_dataset("many", data=many, chunks=(1, 500), compression="gzip")
    groups = {name: Group({}, {"title": name}) for name in ("/", "/g", "/g/deeper", "/copies")}
    groups["/"].attrs["title"] = path.name
    with intarsia.open_dataset(source) as opened:
        for name in (*VIRTUAL, "many"):
            parent, _, child = name.rpartition("/")
            data = opened[child].variable._data
            dims = ("time", "lat") if name != "many" else ("y", "x")
            groups[f"/{parent}"].variables[child] = Variable(dims, data, {"units": "1"})
    copied = by_hand.copied_values() | {"copies/wind speed": np.arange(3.0)}
    for name, values in copied.items():
        parent, _, child = name.rpartition("/")
        dims = tuple(f"dim_{size}" for size in values.shape)
        groups[f"/{parent}"].variables[child] = Variable(dims, values)
    for place in (path, path.with_suffix(".zip")):
        write.write(place, groups)
    copied["copies/wind=20speed"] = copied.pop("copies/wind speed")
    tables = {
        found.parent.relative_to(path).as_posix(): by_hand.read_table(found.parent)
        for found in path.glob("__intarsia__/**/zarr.json")
        if "sharding_indexed" in found.read_text()
    }
    assert tables
    return Store(path, (*VIRTUAL, "many"), copied, tables)
