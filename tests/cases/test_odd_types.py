"""HDF5 types, links and layouts beyond netCDF: as xarray gives them, or refused by name alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import intarsia
from intarsia.errors import IntarsiaError, UnsupportedVariable, UpstreamFault
from tests import oracle
from tests.check import is_virtual, tolerant
from tests.compare import assert_identical

PHONY: dict[str, Any] = {"phony_dims": "sort"}


def _vlen_numbers(file: h5py.File) -> None:
    made = file.create_dataset("odd", (3,), h5py.vlen_dtype("i4"))
    for i in range(3):
        made[i] = np.arange(i + 1)


def _references(file: h5py.File) -> None:
    made = file.create_dataset("odd", (1,), h5py.ref_dtype)
    made[0] = file["good"].ref


def _opaque(file: h5py.File) -> None:
    file["odd"] = np.array([b"abcd", b"efgh"], "V4")


def _array_type(file: h5py.File) -> None:
    made = file.create_dataset("odd", (2,), np.dtype(("<i4", (3,))))
    made[...] = np.arange(6).reshape(2, 3)


def _long_double(file: h5py.File) -> None:
    file["odd"] = np.arange(3, dtype=np.longdouble)


def _null_space(file: h5py.File) -> None:
    file["odd"] = h5py.Empty("f4")


def _bitfield(file: h5py.File) -> None:
    space = h5py.h5s.create_simple((4,))
    h5py.h5d.create(file.id, b"odd", h5py.h5t.STD_B16LE, space)


def _shifted_integer(file: h5py.File) -> None:
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(20)
    kind.set_offset(5)
    made = h5py.h5d.create(file.id, b"odd", kind, h5py.h5s.create_simple((4,)))
    h5py.Dataset(made)[...] = [-3, 2, 1000, -70000]


def _padded_integer(file: h5py.File) -> None:
    kind = h5py.h5t.STD_U16LE.copy()
    kind.set_precision(12)
    made = h5py.h5d.create(file.id, b"odd", kind, h5py.h5s.create_simple((4,)))
    h5py.Dataset(made)[...] = [1, 2, 4095, 7]


def _odd_float(file: h5py.File) -> None:
    """A float of a layout that NumPy lacks (bfloat16)."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    made = h5py.h5d.create(file.id, b"odd", kind, h5py.h5s.create_simple((3,)))
    h5py.Dataset(made)[...] = [1.5, -2.0, 1e20]


def _big_compound(file: h5py.File) -> None:
    file["odd"] = np.array([(1, 2.5), (3, 4.5)], dtype=[("a", ">i2"), ("b", ">f8")])


def _nested_compound(file: h5py.File) -> None:
    inner = np.dtype([("x", "<i2"), ("y", "<f4", (2,))])
    file["odd"] = np.zeros(3, dtype=[("in", inner), ("s", "S3")])


def _integer_enum(file: h5py.File) -> None:
    kind = h5py.enum_dtype({"no": -1, "yes": 1}, basetype=">i2")
    file.create_dataset("odd", data=np.array([1, -1], ">i2"), dtype=kind)


def _utf8_fixed(file: h5py.File) -> None:
    kind = h5py.string_dtype("utf-8", 5)
    file.create_dataset("odd", (2,), kind)[...] = np.array(["é".encode(), b"abc"], kind)


def _soft_link(file: h5py.File) -> None:
    file["inner/source"] = np.arange(3, dtype="i2")
    file["odd"] = h5py.SoftLink("/inner/source")


def _hard_link(file: h5py.File) -> None:
    file["odd"] = file["good"]


def _scalar_string(file: h5py.File) -> None:
    file["odd"] = "a string"


def _five_dims(file: h5py.File) -> None:
    file.create_dataset(
        "odd", data=np.arange(2 * 3 * 4 * 5 * 6).reshape(2, 3, 4, 5, 6), chunks=True
    )


ODD: list[Callable[[h5py.File], None]] = [
    _vlen_numbers,
    _references,
    _opaque,
    _array_type,
    _long_double,
    _null_space,
    _bitfield,
    _shifted_integer,
    _padded_integer,
    _odd_float,
    _big_compound,
    _nested_compound,
    _integer_enum,
    _utf8_fixed,
    _soft_link,
    _hard_link,
    _scalar_string,
    _five_dims,
]


@pytest.mark.parametrize("make", ODD, ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("unsupported", ["raise", "copy", "skip"])
def test_an_odd_variable_concerns_itself_alone(
    tmp_path: Path, make: Callable[[h5py.File], None], unsupported: Any
) -> None:
    path = tmp_path / "odd.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(5, dtype="<f8")
        make(file)
    try:
        expected = oracle.open_dataset(path, **PHONY)
        alone = expected
    except Exception as error:  # noqa: BLE001 - whatever xarray makes of it
        expected = None
        alone = oracle.open_dataset(path, drop_variables="odd", **PHONY)
        assert not isinstance(error, MemoryError)
    try:
        with tolerant():
            ds = intarsia.open_dataset(path, unsupported=unsupported, **PHONY)
    except UnsupportedVariable as error:
        assert unsupported == "copy"
        assert "odd" in str(error)
        return
    assert_identical(ds[["good"]].load(), alone[["good"]])
    if "odd" not in ds:
        assert unsupported == "skip" or expected is None or "odd" not in expected
        return
    try:
        loaded = ds[["odd"]].load()
    except IntarsiaError as error:
        assert unsupported == "raise" or isinstance(error, UpstreamFault)
        assert "odd" in str(error)
        assert str(path) in str(error)
        return
    if expected is not None and make is not _references:  # references to one object are not equal
        assert_identical(loaded, expected[["odd"]])


def test_an_hdf5_virtual_dataset_is_virtual_here_too(tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((2, 4), "<i4")
    for i in range(2):
        with h5py.File(tmp_path / f"source{i}.h5", "w") as file:
            file["v"] = np.arange(4, dtype="<i4") + 10 * i
        layout[i] = h5py.VirtualSource(str(tmp_path / f"source{i}.h5"), "v", (4,))
    path = tmp_path / "virtual.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(3)
        file.create_virtual_dataset("odd", layout)
    ds = intarsia.open_dataset(path, **PHONY)
    assert is_virtual(ds, "odd")
    assert_identical(ds.load(), oracle.open_dataset(path, **PHONY))


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    """What xarray says of it is said here too, or the rest is given."""
    path = tmp_path / "link.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(3)
        file["odd"] = h5py.SoftLink("/nowhere")
    try:
        ds = intarsia.open_dataset(path, **PHONY)
    except IntarsiaError as error:
        assert str(path) in str(error)
        return
    assert ds.good.values.tolist() == [0, 1, 2]


def test_an_external_link(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["v"] = np.arange(4.0)
    path = tmp_path / "link.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(3)
        file["odd"] = h5py.ExternalLink("other.h5", "/v")
    ds = intarsia.open_dataset(path, **PHONY)
    assert is_virtual(ds, "odd")
    assert_identical(ds.load(), oracle.open_dataset(path, **PHONY))
