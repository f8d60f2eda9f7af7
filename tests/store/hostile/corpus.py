"""The stores that are damaged: small, and with one of everything that a store can hold."""

from __future__ import annotations

import datetime
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cftime
import h5py
import numpy as np
import xarray as xr

import intarsia
from intarsia.array import VirtualArray
from intarsia.encoding import Codec, Encoding
from intarsia.references import References, Sources
from intarsia.store import copies, packing, tables, zarrays
from intarsia.store.nodes import Group, Variable
from intarsia.store.write import write
from intarsia.xarray.internals import data_of, variables_of
from tests.algebra import lay_out

type Groups = dict[str, Group]

STORES = ("mixed.intarsia", "tables.intarsia", "saved.intarsia", "mixed.zip", "tables.zip")
"""What `build` makes, in the folder `home`; `home/in` and `out` hold the sources."""


@contextmanager
def small_parts() -> Iterator[None]:
    """Cut tables and copied arrays into many parts, though all of them are small.

    What cuts tables has to be the same when they are read.
    """
    changes: list[tuple[Any, str, int]] = [
        (tables, "ROWS", 64),
        (tables, "SHARD_ROWS", 256),
        (zarrays, "CHUNK_BYTES", 256),
        (packing, "FEW_BYTES", 64),
    ]
    before = [getattr(module, name) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(changes, before, strict=True):
            setattr(module, name, value)


@contextmanager
def small_runs() -> Iterator[None]:
    """Cut runs of bytes into many chunks, when they are written."""
    before, copies.MAX_CHUNK = copies.MAX_CHUNK, 2048
    try:
        yield
    finally:
        copies.MAX_CHUNK = before


def build(folder: Path) -> Path:
    """Make all stores and their sources; gives the folder with the stores."""
    home, out = folder / "home", folder / "out"
    (home / "in" / "deep").mkdir(parents=True)
    out.mkdir()
    (folder / "secret").write_bytes(b"what no store may read" * 100)
    with small_parts(), small_runs():
        mixed, explicit = _mixed(home, out), _tables(home / "in", out)
        _saved(home, home / "saved.intarsia")
        for name in STORES:
            if name.startswith("saved"):
                continue
            groups = mixed if name.startswith("mixed") else explicit
            named = {"near": str(home / "in")} if name.startswith("tables") else None
            write(home / name, groups, containers=named, sample=name == "tables.zip")
    return home


def copied(home: Path, folder: Path) -> Path:
    """The stores and their sources in another folder, with the times of the sources."""
    shutil.copytree(home.parent, folder, copy_function=shutil.copy2)
    return folder / home.name


# -- variables of every kind -----------------------------------------------------------------------


def _mixed(home: Path, out: Path) -> Groups:
    """Files in two containers, opened and combined; groups; copied values of every type."""
    generator = np.random.default_rng(7)
    paths: list[Path] = []
    for number in range(6):
        path = (home / "in" / "deep" if number % 2 else out) / f"f{number}.nc"
        ds = xr.Dataset(
            {"t": (("time", "y", "x"), generator.random((2, 5, 6)).astype("f4"))},
            coords={"time": np.arange(2) + 2 * number, "y": np.arange(5.0)},
        )
        encoding: dict[str, Any] = {"zlib": True, "dtype": "i2", "chunksizes": (1, 3, 4)}
        encoding |= {"scale_factor": 0.01 + number * 1e-3, "_FillValue": -9 - number}
        ds.to_netcdf(path, engine="h5netcdf", encoding={"t": encoding})
        paths.append(path)
    opened = intarsia.open_mfdataset(paths, combine="nested", concat_dim="time")
    found = {name: data_of(variable) for name, variable in variables_of(opened).items()}
    packed: VirtualArray = found["t"]
    filtered = intarsia.open_dataset(_filtered(home / "in" / "filtered.h5"))
    kinds = {str(n): data_of(v) for n, v in variables_of(filtered).items()}
    root = {
        "t": Variable(("time", "y", "x"), packed, {"units": "K", "n": np.float32(0.1)}),
        "turned": Variable(("x2", "time2", "y2"), packed[::-1, 1:4, ::2].transpose(2, 0, 1)),
        "picked": Variable(("p", "y", "x"), packed[[0, 7, 7, 3]]),
        "joined": Variable(("p2", "y", "x"), _joined(packed, generator)),
        "time": Variable(("time",), np.arange("2000-01-01", "2000-01-13", dtype="M8[D]")
                         .astype("M8[ns]"), {}, {"units": "days since 1970-01-01"}, True),
        "y": Variable(("y",), np.arange(5.0), {"axis": "Y"}, {}, True),
        "wide y|x": Variable(("y", "x"), generator.random((5, 6)).astype("f4").astype("c8")),
        "__hidden": Variable((), np.array(7, "u2")),
    }  # fmt: skip
    deep = {name: Variable(tuple(f"{name}{d}" for d in range(v.ndim)), v)
            for name, v in kinds.items()}  # fmt: skip
    attrs = {"title": "all", "history": ["a", "b"], "fills": np.array([1, 2], ">i2")}
    return {
        "/": Group(root, attrs, {"unlimited_dims": {"time"}}),
        "/a": Group(_copies(generator), _attributes()),
        "/a/b c": Group(deep, {"é": "ü"}),
        "/empty/.x": Group(),
    }


def _joined(packed: VirtualArray, generator: np.random.Generator) -> VirtualArray:
    """Bytes in the store itself, a constant, and a part of the files, as one array."""
    inline = VirtualArray.inline(generator.random((2, 5, 6)).astype("f4"))
    few = VirtualArray.inline(np.arange(5, dtype="f4").reshape(1, 5, 1))
    spread = np.broadcast_to(few, (1, 5, 6))
    constant = VirtualArray.full((1, 5, 6), 3.5, "f4")
    return np.concatenate([inline, packed[2:4], constant, spread])  # type: ignore[return-value]


def _filtered(path: Path) -> Path:
    """One file with the layouts and filters of HDF5."""
    values = np.arange(120, dtype="i4").reshape(10, 12)
    with h5py.File(path, "w") as file:
        made: dict[str, dict[str, Any]] = {
            "contiguous": {},
            "sparse": {"chunks": (3, 4), "compression": "gzip"},
            "sums": {"chunks": (5, 5), "shuffle": True, "compression": "gzip", "fletcher32": True},
            "lzf": {"chunks": (4, 12), "compression": "lzf", "shuffle": True},
            "offset": {"chunks": (4, 6), "scaleoffset": 0},
        }
        if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
            made["szip"] = {"chunks": (4, 8), "compression": "szip"}
        for name, options in made.items():
            dataset = file.create_dataset(name, (10, 12), "i4", fillvalue=-1, **options)
            if name != "sparse":
                dataset[...] = values
            else:
                dataset[3:5, 2:9] = values[3:5, 2:9]
        file.create_dataset("never", (4, 3), "f8", chunks=(2, 3), fillvalue=2.5)
        big = file.create_dataset("big", (6, 4), ">f8", chunks=(4, 3), compression="gzip")
        big[...] = values[:6, :4]
        narrow = h5py.h5t.STD_I32LE.copy()
        narrow.set_precision(20)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 6))
        plist.set_filter(h5py.h5z.FILTER_NBIT, 0, ())
        space = h5py.h5s.create_simple((10, 12))
        nbit = h5py.h5d.create(file.id, b"nbit", narrow, space, plist)
        nbit.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values))
    return path


def _copies(generator: np.random.Generator) -> dict[str, Variable]:
    texts = np.array(["", "a", "été", "a longer one" * 9] * 12, object)
    holed = texts.copy()
    holed[[3, 4]] = None
    holed[20] = float("nan")
    dates = np.array([cftime.DatetimeNoLeap(2001, 1 + n % 12, 1 + n) for n in range(20)], object)
    late = dates.copy()
    late[4] = None
    values: dict[str, np.ndarray] = {
        "f8": generator.random((7, 9)),
        "f2": np.arange(5, dtype="f2"),
        "i1": np.arange(-3, 3, dtype="i1"),
        "u8": np.array([2**64 - 1, 0, 2**53 + 1], "u8"),
        "b": generator.random((5, 5)) > 0.5,
        "c16": generator.random(4) + 1j,
        "big": np.arange(4, dtype=">i4"),
        "none": np.zeros((0, 3), "i2"),
        "days": np.arange(20).astype("m8[D]"),
        "odd": np.arange(9).astype("m8[us]"),
        "text": texts,
        "U": texts.astype("U"),
        "S": np.array([b"a", b"bc\xff", b""] * 10),
        "bytes": np.array([b"a\0b", b"\xe9t\xe9"], object),
        "new": texts.astype(np.dtypes.StringDType()),
        "holed": holed,
        "dates": dates,
        "late": late,
        "scalar": np.array("one", "U5"),
    }
    return {
        name: Variable(tuple(f"{name}_{d}" for d in range(data.ndim)), data, {"of": name})
        for name, data in values.items()
    }


def _attributes() -> dict[str, Any]:
    return {
        "text": "a",
        "broken": "a\ud800",
        "nothing": None,
        "true": True,
        "huge": 10**30,
        "nan": float("nan"),
        "bytes": b"\x00\xff",
        "scalar": np.int16(3),
        "when": np.datetime64("2001-02-03", "ns"),
        "array": np.arange(6, dtype=">u2").reshape(2, 3),
        "texts": np.array(["a", "bc"]),
        "objects": np.array(["a", None, 1], object),
        "tuple": (1, (2.5, "x")),
        "set": {1, 2},
        "nested": {"a": [1, {"b": 2}]},
        "dtype": np.dtype([("x", "<i4"), ("y", "<f4", (2,))]),
        "string": h5py.string_dtype(),
        "class": np.float32,
        "when too": str(datetime.date(2001, 1, 1)),
    }


def _saved(home: Path, path: Path) -> None:
    """What a user saves: with indexes, remarks, and other decoding than the usual."""
    files = sorted((home / "in" / "deep").glob("*.nc"))
    ds = intarsia.open_mfdataset(files, combine="nested", concat_dim="time")
    raw = intarsia.open_dataset(files[0], mask_and_scale=False)
    ds["raw"] = raw["t"].rename(time="start").drop_vars("start")
    ds = ds.assign_coords(station=("y", [f"station {n}" for n in range(5)])).set_xindex("station")
    ds["grid"] = ((), 0, {"grid_mapping_name": "latitude_longitude"})
    ds["t"].encoding["grid_mapping"] = "grid"
    ds.intarsia.save(path)


# -- tables ----------------------------------------------------------------------------------------


def _tables(near: Path, out: Path) -> Groups:
    """Tables too long and too irregular to be rules, of sources, segments and references."""
    generator = np.random.default_rng(8)
    variables = {
        "explicit": Variable(("a", "b"), _explicit(near / "explicit.bin", generator)),
        "many": Variable(("a2", "b2"), _many(near, out, generator)),
        "scaled": Variable(("n",), _scaled(out / "scaled.bin", generator)),
        "woven": Variable(("a3", "b3"), _woven(near / "woven.bin", generator)),
        "held": Variable(("h",), _held(generator)),
        "label": Variable(("n2",), np.array([f"number {n}" for n in range(80)], object)),
    }
    return {"/": Group(variables, {"title": "tables"})}


def _explicit(path: Path, generator: np.random.Generator) -> VirtualArray:
    """Chunks in no order, of several lengths, some with a filter left out."""
    shape, chunks = (50, 42), (2, 3)
    values = generator.integers(0, 1000, shape).astype("<i2")
    count = 25 * 14
    offsets, lengths = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    masks = np.zeros(count, np.uint32)
    data = bytearray(b"head")
    for number in generator.permutation(count):
        row, column = divmod(int(number), 14)
        block = values[2 * row : 2 * row + 2, 3 * column : 3 * column + 3].tobytes()
        masks[number] = generator.random() < 0.2
        stored = block if masks[number] else zlib.compress(block, 1)
        offsets[number], lengths[number] = len(data), len(stored)
        data += stored + bytes(int(generator.integers(0, 5)))
    path.write_bytes(bytes(data))
    encoding = Encoding((Codec.make("zlib"),), values.dtype)
    return VirtualArray.from_source(
        Sources.of_file(path), 0, shape, chunks, encoding, np.zeros((), encoding.parameters),
        References.dense(offsets, lengths, masks),
    )  # fmt: skip


def _many(near: Path, out: Path, generator: np.random.Generator) -> VirtualArray:
    """Pieces of many files in no order."""
    parts: list[Any] = []
    for number in range(90):
        path = (out if number % 3 else near) / f"{'long' * (number % 5)}{number}.bin"
        values = generator.integers(0, 9, (3, 4)).astype("i4")
        level = [None, 1][number % 2]
        array, _ = lay_out(path, values, (2, 2), zlevel=level, absent=[number % 5])
        row, column = generator.integers(0, 2, 2).tolist()
        parts.append(array[row : row + 2, column : column + 3])
    generator.shuffle(parts)
    sides = [np.concatenate(parts[n::3]) for n in range(3)]
    return np.concatenate(sides, axis=1)  # type: ignore[return-value]


def _scaled(path: Path, generator: np.random.Generator) -> VirtualArray:
    """One element per chunk, each with its own scale."""
    path.write_bytes(np.arange(70, dtype="<i2").tobytes())
    steps = (
        Codec.make("mask", dtype="<f8", fills=2, value="nan"),
        Codec.make("scale", dtype="<f8", scale=True, offset=True),
    )
    fields = [("raw_fill", "<i2"), ("fill_0", "<i2"), ("fill_1", "<f4")]
    fields += [("scale", "<f8"), ("offset", "<f4")]
    encoding = Encoding((), np.dtype("<i2"), steps, np.dtype(fields))
    sources = Sources.of_file(path)
    parts: list[Any] = []
    for number in range(70):
        row = np.zeros((), encoding.parameters)
        row["scale"], row["offset"] = generator.random(2)
        row["fill_0"], row["fill_1"] = -1, number % 7 and -5
        parts.append(
            VirtualArray.from_source(
                sources, 0, (1,), (1,), encoding, row, References.contiguous(2 * number, 2)
            )
        )
    return np.concatenate(parts)  # type: ignore[return-value]


def _woven(path: Path, generator: np.random.Generator) -> VirtualArray:
    """Pieces of several shapes of a file most of which was never written."""
    values = generator.random((30, 30)).astype("f4")
    absent = [n for n in range(100) if n % 4]
    array: Any
    array, _ = lay_out(path, values, (3, 3), form="sparse", absent=absent, zlevel=1, fill=-1)
    left = np.concatenate([array[::-2, 3:5], array[4:9, :2]])
    right = np.concatenate([array[:3, ::3], array[12:29:2, 5:15], array[7:15, 20:10:-1]])
    return np.concatenate([left, right], axis=1)  # type: ignore[return-value]


def _held(generator: np.random.Generator) -> VirtualArray:
    """Many chunks of bytes in the store itself."""
    parts = [VirtualArray.inline(generator.random(3 + n % 4)) for n in range(40)]
    return np.concatenate(parts)  # type: ignore[return-value]
