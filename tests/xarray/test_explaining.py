"""What `explain` says a load would read is what a load reads."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import intarsia
from intarsia.errors import UnsupportedVariable
from intarsia.io.fetch import observe


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "a.nc"
    with h5py.File(place, "w") as file:
        for name in ("x", "y"):
            file.create_dataset(name, data=np.arange(6.0)).make_scale(name)
        for name in ("one", "two"):
            data = np.arange(36.0).reshape(6, 6)
            made = file.create_dataset(name, data=data, chunks=(2, 3), compression="gzip")
            made.dims[0].attach_scale(file["x"])
            made.dims[1].attach_scale(file["y"])
    return place


@pytest.mark.parametrize("chosen", [{}, {"x": slice(0, 2)}, {"x": 3, "y": 3}, {"x": slice(0, 0)}])
def test_explained_is_read(path: Path, chosen: dict) -> None:
    ds = intarsia.open_dataset(path)[["one", "two"]]
    told = ds.intarsia.explain(chosen)
    with observe() as reads:
        ds.isel(chosen).load()
    assert (told.requests, told.nbytes) == (reads.requests, reads.nbytes)
    assert told.total.nbytes == ds.isel(chosen)[["one", "two"]].drop_vars(["x", "y"]).nbytes
    assert set(told.variables) == {"one", "two"}
    for cost in told.variables.values():
        assert cost.requests <= told.requests


def test_what_can_not_be_read_is_said(tmp_path: Path) -> None:
    place = tmp_path / "a.nc"
    with h5py.File(place, "w") as file:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((4,))
        made.set_filter(305, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file.id, b"bad", h5py.h5t.STD_I32LE, space, made)
        file["good"] = np.arange(4)
    ds = intarsia.open_dataset(place, phony_dims="sort")
    told = ds.intarsia.explain()
    assert told.variables["bad"].refused
    assert told.variables["good"].refused is None
    assert "bad can't be read" in repr(told)
    assert "bad can&#x27;t be read" in told._repr_html_()
    with pytest.raises(UnsupportedVariable, match="bad"):
        ds.bad.load()


def test_nothing_virtual_says_so(path: Path) -> None:
    ds = intarsia.open_dataset(path).load()
    assert "Nothing here is virtual" in repr(ds.intarsia.explain())
    assert "nothing here is virtual" in repr(ds.intarsia)
    assert "Nothing here is virtual" in str(ds.intarsia.report())
