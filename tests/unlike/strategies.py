"""Random unlike files: every difference at once, yet such that xarray itself can combine them.

`unlike_files` draws a `Pile`: files that hold parts of one picture along time, each storing each
variable in its own way, and the arguments to combine them. `chains` draws steps to apply to the
result. What xarray itself gets wrong (see `tests.cases.test_conflicts`) is not drawn.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st

from tests.oracle.chain import Chain, Step, apply_chain
from tests.unlike.special import KINDS, SpecialVariable
from tests.unlike.specs import (
    Attribute,
    FileSpec,
    Filter,
    GroupSpec,
    VariableSpec,
    chunk_grid,
    dimension,
    text,
    typed,
    variable,
)
from tests.unlike.values import Position
from tests.unlike.write import write_file

Draw = Callable[..., Any]

INTEGERS = ("<i1", "<u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">u8")
FLOATS = ("<f4", ">f4", "<f8", ">f8", "<f2")
PACKED = ("<i1", "<u1", "<i2", ">i2", "<u2", "<i4", "<i8")
UNSIGNED = ("<i1", "<i2")  # big-endian ones with a fill are among xarray's faults
GZIP, SHUFFLE, CHECKSUM, LZF = (
    Filter("gzip"),
    Filter("shuffle"),
    Filter("fletcher32"),
    Filter("lzf"),
)
PIPELINES = (
    (),
    (GZIP,),
    (SHUFFLE, Filter("gzip", (1,))),
    (SHUFFLE, GZIP, CHECKSUM),
    (CHECKSUM, GZIP),
    (GZIP, SHUFFLE),
    (SHUFFLE,),
    (SHUFFLE, LZF),
    (SHUFFLE, Filter("zstd"), CHECKSUM),
    (Filter("blosc"),),
    (Filter("bitshuffle"), GZIP),
    (Filter("szip", (2,)),),
    (Filter("scaleoffset"),),
    (Filter("nbit"), GZIP),
)
EPOCHS = (
    ("days since 2001-01-01", 1, 0),
    ("days since 2000-12-31 12:00:00", 1, 0.5),
    ("hours since 2001-01-02", 24, -24),
    ("seconds since 2001-01-01 00:00:00", 86400, 0),
)
SHAPES = (
    ("time", "lat", "lon"),
    ("time", "lat"),
    ("lon", "time"),
    ("time",),
    ("lat", "time", "lon"),
)


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"mask_and_scale": False},
    {"decode_times": False},
    {"decode_cf": False},
    {"decode_coords": False},
)


@dataclass(frozen=True)
class Pile:
    """Files, and the arguments that combine them."""

    files: tuple[FileSpec, ...]
    arguments: Mapping[str, Any]

    def write(self, folder: Path) -> list[str]:
        return [str(write_file(folder, spec)) for spec in self.files]


@st.composite
def unlike_files(draw: Draw) -> Pile:
    """A pile of one to four files that differ in everything xarray can combine."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    sizes = {"lat": draw(st.integers(1, 3)), "lon": draw(st.integers(1, 4))}
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    labelled = {d: draw(st.sampled_from((True, True, False))) for d in ("lat", "lon")}
    static = draw(st.sampled_from((None, "data", "coordinate")))
    dates = draw(st.integers(0, 3)) == 0
    special = draw(st.sampled_from((None, None, *KINDS)))
    holes = _absences(draw, len(lengths), len(shapes))
    by_coords = len(lengths) > 1 and draw(st.sampled_from((False, False, True)))
    if by_coords and holes and special in ("bool", "compound"):
        special = None  # xarray would then merge it with holes, for which its type has no value
    files = []
    for i, length in enumerate(lengths):
        extent = {"time": sum(lengths), **sizes}
        start = {"time": sum(lengths[:i])}
        size = {"time": length, **sizes}
        unlimited = draw(st.booleans())
        variables: list[Any] = [_time(draw, start["time"], length, unlimited)]
        variables += [_axis(draw, d, n) for d, n in sizes.items() if labelled[d]]
        for k, dims in enumerate(shapes):
            if (i, k) not in holes:
                name = f"v{k}"
                position = Position.at(start, extent, base=100 * k)
                variables.append(_variable(draw, name, dims, size, position, unlimited))
        if static is not None:
            variables.append(_static(draw, sizes))
        if static == "coordinate":
            variables = [_pointing(v) for v in variables]
        if dates:
            variables.append(_dates(draw, size, 50 * i, unlimited))
        if special is not None:
            variables.append(SpecialVariable("special", ("time",), special, start=10 * i))
        root = GroupSpec(
            dims=tuple(
                dimension(d, n, unlimited=unlimited and d == "time") for d, n in size.items()
            ),
            variables=tuple(variables),
            attrs=(("title", text("parts")), ("number", typed(i, "<i4"))),
        )
        userblock = draw(st.sampled_from((0, 0, 0, 512)))
        libver = draw(st.sampled_from(("earliest", "latest")))
        files.append(FileSpec(f"f{i}.nc", root, userblock=userblock, libver=libver))
    coords, compat = draw(
        st.sampled_from((("minimal", "override"), ("minimal", "equals"), ("different", "equals")))
    )
    arguments: dict[str, Any] = {
        "coords": coords,
        "compat": compat,
        "join": draw(st.sampled_from(("outer", "exact", "override", "inner", "left"))),
        "data_vars": draw(st.sampled_from(("minimal", "all"))),
        "combine_attrs": draw(st.sampled_from(("override", "drop", "drop_conflicts"))),
    }
    if len(files) == 1:  # undecoded files that differ are refused
        arguments |= draw(st.sampled_from(OPTIONS))
    if by_coords:
        arguments |= {"combine": "by_coords"}
    else:
        arguments |= {"combine": "nested", "concat_dim": "time"}
        files = draw(st.permutations(files))
    return Pile(tuple(files), arguments)


def _absences(draw: Draw, files: int, variables: int) -> set[tuple[int, int]]:
    """(file, variable) pairs that are absent; no variable is absent everywhere."""
    if files == 1 or draw(st.integers(0, 3)):
        return set()
    k = draw(st.integers(0, variables - 1))
    gone = draw(st.sets(st.integers(0, files - 1), min_size=1, max_size=files - 1))
    return {(i, k) for i in gone}


def _time(draw: Draw, start: int, length: int, unlimited: bool) -> VariableSpec:
    units, per_day, shift = draw(st.sampled_from(EPOCHS))
    numbers = tuple((start + i) * per_day + shift for i in range(length))
    whole = all(float(n).is_integer() for n in numbers)
    stored = draw(st.sampled_from(("<i4", "<f8", ">i8") if whole else ("<f8", ">f4")))
    var = variable("time", ("time",), stored, literal=numbers, attrs={"units": text(units)})
    return replace(var, layout="chunked", chunks=(2,)) if unlimited else var


def _axis(draw: Draw, dim: str, size: int) -> VariableSpec:
    stored = draw(st.sampled_from(("<f4", ">f4")))
    layout = draw(st.sampled_from(("contiguous", "compact")))
    return variable(dim, (dim,), stored, literal=tuple(range(10, 10 + size)), layout=layout)


def _static(draw: Draw, sizes: Mapping[str, int]) -> VariableSpec:
    """A variable without time, the same in every file, and stored in its own way in each."""
    var = variable("mask", ("lat", "lon"), draw(st.sampled_from(("<i2", ">i2"))))
    return _stored(draw, var, sizes, unlimited=False, holes=False)


def _pointing(var: Any) -> Any:
    """`var`, naming the static variable as its coordinate."""
    if not isinstance(var, VariableSpec) or not var.name.startswith("v"):
        return var
    return var.with_attrs(coordinates=text("mask"))


def _dates(draw: Draw, size: Mapping[str, int], start: int, unlimited: bool) -> VariableSpec:
    """Times that are data, with or without a missing value among them."""
    units, _, _ = draw(st.sampled_from(EPOCHS))
    var = VariableSpec("seen", ("time",), draw(st.sampled_from(("<i4", "<f8", "<i2"))))
    var = replace(var.with_attrs(units=text(units)), position=Position(base=start))
    if draw(st.booleans()):
        fill = typed(start, var.stored)
        var = replace(
            var.with_attrs(_FillValue=fill),
            position=Position(base=start, sprinkle=(start,), every=2),
        )
    return _stored(draw, var, size, unlimited=unlimited, holes=False)


def _variable(
    draw: Draw,
    name: str,
    dims: tuple[str, ...],
    size: Mapping[str, int],
    position: Position,
    unlimited: bool,
) -> VariableSpec:
    order = draw(st.permutations(dims)) if draw(st.integers(0, 3)) == 0 else dims
    meaning = draw(st.sampled_from((_plain, _plain, _scaled, _scaled, _filled, _unsigned)))
    var = meaning(draw, VariableSpec(name, tuple(order), position=position))
    var = var.with_attrs(units=text("K"))
    if draw(st.booleans()):
        var = var.with_attrs(comment=text(draw(st.sampled_from(("one", "two")))))
    return _stored(draw, var, size, unlimited=unlimited, holes=True)


# ------------------------------------------------------------------------------- what it means


def _plain(draw: Draw, var: VariableSpec) -> VariableSpec:
    return _sprinkled(draw, replace(var, stored=draw(st.sampled_from((*INTEGERS, *FLOATS)))))


def _scaled(draw: Draw, var: VariableSpec) -> VariableSpec:
    """Packed integers: scale, offset, or both, in types of their own, with or without fills."""
    var = replace(var, stored=draw(st.sampled_from(PACKED)))
    numbers = st.sampled_from((0.01, 0.1, 1.0, 0.005, 2.5, 1 / 3, -0.1, 273.15, 1e-5))
    either = draw(st.sampled_from(("scale", "offset", "both", "both")))
    if either != "offset":
        var = var.with_attrs(scale_factor=_number(draw, draw(numbers)))
    if either != "scale":
        var = var.with_attrs(add_offset=_number(draw, draw(numbers)))
    return _with_fills(draw, var) if draw(st.booleans()) else var


def _filled(draw: Draw, var: VariableSpec) -> VariableSpec:
    """Integers or floats that are only masked."""
    return _with_fills(draw, replace(var, stored=draw(st.sampled_from((*INTEGERS, *FLOATS)))))


def _unsigned(draw: Draw, var: VariableSpec) -> VariableSpec:
    var = replace(var, stored=draw(st.sampled_from(UNSIGNED))).with_attrs(_Unsigned=text("true"))
    if draw(st.booleans()):
        var = var.with_attrs(scale_factor=_number(draw, 0.1), add_offset=_number(draw, 3.0))
    if draw(st.booleans()):
        fill = draw(st.sampled_from((-1, 5, -128)))
        var = replace(
            var.with_attrs(_FillValue=typed(fill, var.stored)),
            position=replace(var.position, sprinkle=(fill,), every=4),
        )
    return _sprinkled(draw, var)


def _with_fills(draw: Draw, var: VariableSpec) -> VariableSpec:
    """``_FillValue``, ``missing_value`` of one or several, that occur among the values."""
    info: Any = np.iinfo(var.dtype) if var.dtype.kind in "iu" else np.finfo(var.dtype)
    floats = (-999.0, 1e4, float("nan"))
    fills = floats if var.dtype.kind == "f" else (int(info.min), int(info.max), 3, 7)
    chosen = draw(st.lists(st.sampled_from(fills), min_size=1, max_size=3, unique_by=repr))
    which = draw(st.sampled_from(("_FillValue", "missing_value", "vector", "both", "other type")))
    if which == "other type":
        exact = var.dtype.kind != "f" and abs(chosen[0]) < 2**63
        other = draw(st.sampled_from(("<f8", "<i8") if exact else ("<f8", "<f4")))
        var = var.with_attrs(_FillValue=typed(chosen[0], other))
    if which in ("_FillValue", "both"):
        var = var.with_attrs(_FillValue=typed(chosen[0], var.stored))
    if which in ("missing_value", "both"):
        var = var.with_attrs(missing_value=typed(chosen[-1], var.stored))
    if which == "vector":
        var = var.with_attrs(missing_value=typed(tuple(chosen), var.stored))
    every = draw(st.sampled_from((2, 5)))
    return replace(var, position=replace(var.position, sprinkle=tuple(chosen), every=every))


def _number(draw: Draw, value: float) -> Attribute:
    stored = draw(st.sampled_from(("<f4", "<f8", "<f8", ">f4")))
    return typed(value, stored, scalar=draw(st.booleans()))


def _sprinkled(draw: Draw, var: VariableSpec) -> VariableSpec:
    """Extremes of the type among the values, unless something is sprinkled already."""
    if var.position.sprinkle or draw(st.booleans()):
        return var
    if var.dtype.kind == "f":
        some: tuple[Any, ...] = (float("nan"), float("inf"), -0.0, 1e-7)
    else:
        info = np.iinfo(var.dtype)
        some = (int(info.min), int(info.max), 0)
    return replace(var, position=replace(var.position, sprinkle=some, every=5))


# --------------------------------------------------------------------------------- how it lies


def _stored(
    draw: Draw, var: VariableSpec, size: Mapping[str, int], *, unlimited: bool, holes: bool
) -> VariableSpec:
    """`var` with a layout, chunks, filters, masks and holes."""
    if holes and draw(st.booleans()):
        # a raw fill of the file's own, within the type
        var = replace(var, fill=draw(st.sampled_from((0, 1, 7, 100))))
    growing = unlimited and "time" in var.dims
    layouts = (
        ("chunked",) if growing else ("contiguous", "compact", "external", "chunked", "chunked")
    )
    layout = draw(st.sampled_from(layouts))
    if layout != "chunked":
        var = replace(var, layout=layout)
        if layout == "external":
            return replace(var, pieces=draw(st.integers(1, 2)))
        never = holes and layout == "contiguous" and draw(st.integers(0, 5)) == 0
        return replace(var, unwritten="all") if never else var
    shape = [size[d] for d in var.dims]
    if growing and draw(st.integers(0, 2)) == 0:
        shape[var.dims.index("time")] = draw(st.integers(1, size["time"]))
        var = replace(var, shape=tuple(shape))
    over = {d: 2 if growing and d == "time" else 0 for d in var.dims}
    chunks = tuple(draw(st.integers(1, size[d] + over[d])) for d in var.dims)
    filters = draw(st.sampled_from(_possible(var, math.prod(chunks))))
    var = replace(var, layout="chunked", chunks=chunks, filters=filters)
    grid = list(chunk_grid(shape, chunks))
    if filters and draw(st.booleans()):
        some = draw(st.lists(st.sampled_from(grid), max_size=3, unique=True))
        full = 2 ** len(filters) - 1
        masks = tuple((index, draw(st.integers(1, full))) for index in some)
        var = replace(var, masks=masks)
    if holes and draw(st.integers(0, 2)) == 0:
        gone = draw(st.lists(st.sampled_from(grid), max_size=3, unique=True))
        everything = draw(st.integers(0, 4)) == 0
        masks = tuple((i, m) for i, m in var.masks if not everything and i not in gone)
        var = replace(var, unwritten="all" if everything else tuple(gone), masks=masks)
    return replace(var, scattered=draw(st.booleans()))


def _possible(var: VariableSpec, elements: int) -> list[tuple[Filter, ...]]:
    """Pipelines that HDF5 can write for the type and chunk size."""
    found = []
    for pipeline in PIPELINES:
        names = {item.name for item in pipeline}
        if "szip" in names and elements < 2:
            continue
        if "scaleoffset" in names and (var.dtype.kind == "f" or var.position.sprinkle):
            continue  # not for NaN; and integers past half of their range overflow inside HDF5
        if "nbit" in names and var.dtype.kind == "f" and var.dtype.itemsize == 2:
            continue
        found.append(pipeline)
    return found


# ------------------------------------------------------------------------------------- chains

LARGEST = 4000
"""Elements of a variable beyond which no step is drawn that makes it larger."""


@st.composite
def chains(draw: Draw, ds: xr.Dataset, most: int = 4) -> Chain:
    """Steps that xarray can apply to `ds`, each drawn for what the steps before have made of it."""
    chain: list[Step] = []
    for number in range(draw(st.integers(0, most))):
        step = draw(steps(ds, number))
        if step is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ds = apply_chain(ds, (step,))
        except (ValueError, TypeError, KeyError):
            continue  # labels that occur twice, types that can't have holes, ...
        chain.append(step)
    return tuple(chain)


@st.composite
def steps(draw: Draw, ds: xr.Dataset, number: int) -> Step | None:
    """One step for `ds`, or None where the kind drawn does not apply."""
    dims = [str(d) for d in ds.sizes if ds.sizes[d]]
    if not dims or not ds.data_vars:
        return None
    dim = draw(st.sampled_from(dims))
    name = draw(st.sampled_from([str(n) for n in ds.data_vars]))
    small = max(v.size for v in ds.data_vars.values()) <= LARGEST
    plain = all(v.dtype.kind in "iufMm" for v in ds.variables.values())
    labels = [str(d) for d in ds.indexes if d in dims and ds.indexes[d].is_unique and d != "time"]
    kinds = ["isel", "isel", "isel", "transpose", "rotate", "rename", "select"]
    if small:
        kinds += ["expand_dims", "stack", "merge"]
    if plain and small:
        kinds += ["absent", *(["reindex", "outer"] if labels else [])]
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "isel":
            chosen = draw(st.lists(st.sampled_from(dims), min_size=1, max_size=3, unique=True))
            return (kind, {d: draw(_indexer(ds.sizes[d])) for d in chosen})
        case "transpose":
            return (kind, tuple(draw(st.permutations(dims))[: draw(st.integers(1, len(dims)))]))
        case "expand_dims":
            return (kind, {f"new{number}": draw(st.integers(1, 2))})
        case "rotate":
            return (kind, (dim, draw(st.integers(0, ds.sizes[dim]))))
        case "stack":
            return (kind, (f"new{number}", dim))
        case "merge":
            return (kind, name)
        case "rename":
            return (kind, {name: f"{name}_{number}"})
        case "select":
            return (
                kind,
                draw(st.lists(st.sampled_from(list(ds.data_vars)), min_size=1, unique=True)),
            )
        case "absent":
            return (kind, (dim, name))
        case "reindex":
            across = draw(st.sampled_from(labels))
            known = [float(x) for x in ds.indexes[across]]
            wanted = draw(st.permutations([*known, 99.0]))
            return (kind, (across, wanted[: draw(st.integers(1, len(wanted)))]))
        case _:
            along = [d for d in dims if d not in labels and ds.sizes[d] > 1]
            if not along:
                return None
            across = draw(st.sampled_from(labels))
            cut = draw(st.integers(0, max(ds.sizes[across] - 1, 0)))
            return (kind, (draw(st.sampled_from(along)), across, cut))


@st.composite
def _indexer(draw: Draw, size: int) -> Any:
    """An integer, a slice with any step, or (rarely) a list of positions."""
    kind = draw(st.sampled_from(("slice", "slice", "slice", "integer", "list")))
    if kind == "integer":
        return draw(st.integers(-size, size - 1))
    if kind == "list":
        return draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=4))
    ends = st.one_of(st.none(), st.integers(-size - 1, size + 1))
    step = draw(st.sampled_from((None, 1, 2, 3, -1, -2, -3)))
    return slice(draw(ends), draw(ends), step)
