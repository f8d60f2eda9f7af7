"""Named families of unlike files: each a pile that archives really hold, and how to combine it.

Every file holds a part of one picture over ``(time, lat, lon)``; a family changes one thing from
file to file. `FAMILIES` maps a name to the family; `tests.unlike.strategies` changes everything at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.unlike.pipeline import PLUGINS
from tests.unlike.specs import (
    Attribute,
    FileSpec,
    Filter,
    GroupSpec,
    VariableSpec,
    dimension,
    text,
    typed,
    variable,
)
from tests.unlike.values import Position
from tests.unlike.write import write_file

LAT, LON = 3, 4
EXPLICIT = {"coords": "minimal", "compat": "override", "join": "outer", "data_vars": "minimal"}
GZIP, SHUFFLE, CHECKSUM = Filter("gzip"), Filter("shuffle"), Filter("fletcher32")


@dataclass(frozen=True)
class Family:
    """Files in the (nested) order they are combined in, and the arguments that combine them."""

    name: str
    files: tuple[Any, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Any]:
        """Write the files into `folder`; their paths, nested as `files` are."""

        def nested(item: Any) -> Any:
            if isinstance(item, FileSpec):
                return str(write_file(folder, item))
            return [nested(one) for one in item]

        return nested(self.files)


Change = Callable[[int, VariableSpec], VariableSpec]


def tile(
    name: str,
    start: Mapping[str, int],
    size: Mapping[str, int],
    extent: Mapping[str, int],
    change: Callable[[VariableSpec], VariableSpec] | None = None,
    *,
    epoch: str = "days since 2001-01-01",
    unlimited: bool = False,
    userblock: int = 0,
) -> FileSpec:
    """A file with the box from `start` of a picture of `extent`, its variable ``sst`` changed.

    The coordinates are numbered like the picture: time in days, lat from 10, lon from -5.
    """
    at = {d: (start.get(d, 0), size.get(d, extent[d])) for d in ("time", "lat", "lon")}
    sst = variable("sst", tuple(at), "<i2", position=Position.at(start, extent))
    sst = sst.with_attrs(units=text("K"), long_name=text("sea surface"))
    if change is not None:
        sst = change(sst)
    if unlimited and sst.chunks is None:
        sst = replace(sst, layout="chunked", chunks=(2, at["lat"][1], at["lon"][1]))
    labels = {d: tuple(range(i, i + n)) for d, (i, n) in at.items()}
    time = variable("time", ("time",), "<i4", literal=labels["time"], attrs={"units": text(epoch)})
    if unlimited:
        time = replace(time, layout="chunked", chunks=(4,))
    root = GroupSpec(
        dims=tuple(
            dimension(d, n, unlimited=unlimited and d == "time") for d, (_, n) in at.items()
        ),
        variables=(
            time,
            variable("lat", ("lat",), "<f4", literal=tuple(10 + i for i in labels["lat"])),
            variable("lon", ("lon",), "<f8", literal=tuple(i - 5 for i in labels["lon"])),
            sst,
        ),
        attrs=(("title", text("a picture in parts")), ("part", text(name))),
    )
    return FileSpec(name, root, userblock=userblock)


def part(
    index: int,
    lengths: Sequence[int],
    change: Change | None = None,
    *,
    lat: int = LAT,
    lon: int = LON,
    **options: Any,
) -> FileSpec:
    """Part `index` of a picture cut along time into `lengths`, its variable ``sst`` changed."""
    return tile(
        f"part{index}.nc",
        {"time": sum(lengths[:index])},
        {"time": lengths[index]},
        {"time": sum(lengths), "lat": lat, "lon": lon},
        None if change is None else lambda var: change(index, var),
        **options,
    )


def series(
    name: str, change: Change | None = None, *, lengths: Sequence[int] = (3, 2, 4), **options: Any
) -> Family:
    """A family of parts along time, each with `change` applied to its variable."""
    files = tuple(part(i, lengths, change, **options) for i in range(len(lengths)))
    return Family(name, files, {"combine": "nested", "concat_dim": "time", **EXPLICIT})


def chunked(
    var: VariableSpec, chunks: Sequence[int], *filters: Filter, **more: Any
) -> VariableSpec:
    """`var` with a chunked layout."""
    return replace(var, layout="chunked", chunks=tuple(chunks), filters=filters, **more)


def choose(*changes: Callable[[VariableSpec], VariableSpec]) -> Change:
    """Change file i by the i-th of `changes`, starting over at the end."""
    return lambda index, var: changes[index % len(changes)](var)


def attributes(**attrs: Attribute | None) -> Callable[[VariableSpec], VariableSpec]:
    return lambda var: var.with_attrs(**attrs)


def packed(
    scale: Attribute | None, offset: Attribute | None, fill: int | None = None, **more: Any
) -> Callable[[VariableSpec], VariableSpec]:
    """A change that packs: scale and offset as stated, `fill` as ``_FillValue`` of the own type."""

    def change(var: VariableSpec) -> VariableSpec:
        attrs = {"scale_factor": scale, "add_offset": offset, **more}
        if fill is not None:
            attrs["_FillValue"] = typed(fill, var.stored)
            sprinkled = replace(var.position, sprinkle=(fill,), every=5)
            var = replace(var, position=sprinkled, fill=fill)
        return var.with_attrs(**attrs)

    return change


def stored(dtype: str, **more: Any) -> Callable[[VariableSpec], VariableSpec]:
    return lambda var: replace(var, stored=dtype, **more)


def both(
    *changes: Callable[[VariableSpec], VariableSpec],
) -> Callable[[VariableSpec], VariableSpec]:
    def change(var: VariableSpec) -> VariableSpec:
        for one in changes:
            var = one(var)
        return var

    return change


def mapped(family: Family, change: Callable[[int, GroupSpec], GroupSpec], name: str) -> Family:
    """The family with each file's root group changed."""
    files = tuple(f.with_root(change(i, f.root)) for i, f in enumerate(family.files))
    return replace(family, name=name, files=files)


def f4(value: float) -> Attribute:
    return typed(value, "<f4")


def f8(value: float) -> Attribute:
    return typed(value, "<f8")


def _codecs(*pipelines: tuple[Filter, ...], chunks: Sequence[int] = (2, 2, 3)) -> Change:
    return lambda i, var: chunked(var, chunks, *pipelines[i % len(pipelines)])


def _masks(*masks: tuple[tuple[int, ...], int]) -> Change:
    return lambda _, var: chunked(
        replace(var, stored="<i4"), (2, 2, 3), SHUFFLE, GZIP, CHECKSUM, masks=masks
    )


def _holes(
    unwritten: Sequence[Any], pack: Callable[[VariableSpec], VariableSpec] | None = None
) -> Change:
    """File i lacks the chunks ``unwritten[i]``, with a raw fill of its own; maybe packed."""

    def change(index: int, var: VariableSpec) -> VariableSpec:
        var = chunked(var, (2, 2, 3), SHUFFLE, GZIP, unwritten=unwritten[index], fill=100 + index)
        return var if pack is None else replace(pack(var), fill=100 + index)

    return change


def six_cases() -> list[Family]:
    """The many-file cases: codecs, month lengths, ragged chunks, packing, dtypes."""
    months = (31, 28, 31)
    pack = choose(
        packed(f8(0.01), f8(273.15), -32768),
        packed(f8(0.02), f8(270.0), -999),
        packed(f4(0.005), f4(280.0), 7),
    )
    return [
        series("codec eras", _codecs((GZIP,), (SHUFFLE, GZIP), ())),
        series(
            "codec levels",
            _codecs((Filter("gzip", (1,)),), (Filter("gzip", (9,)),), (SHUFFLE, CHECKSUM)),
        ),
        series(
            "month lengths",
            lambda i, v: chunked(v, (months[i], LAT, LON), SHUFFLE, GZIP),
            lengths=months,
        ),
        series("month lengths, daily chunks", _codecs((GZIP,), chunks=(1, 3, 4)), lengths=months),
        series("ragged inner chunks", _codecs((GZIP,), chunks=(4, 3, 4)), lengths=(10, 10, 10)),
        series(
            "ragged in every dimension",
            _codecs((SHUFFLE, GZIP), chunks=(4, 2, 3)),
            lengths=(10, 10, 10),
            lat=5,
            lon=7,
        ),
        series("packing per file", pack),
        series(
            "packing per file, chunked",
            lambda i, v: chunked(pack(i, v), (2, 2, 3), SHUFFLE, GZIP),
        ),
        series(
            "dtype drift int16 with float32",
            choose(
                both(packed(f8(0.01), f8(1.5), -1)),
                stored("<f4"),
                both(packed(f4(0.5), None), stored("<i2")),
            ),
        ),
        series("dtype drift float32 with float64", choose(stored("<f4"), stored("<f8"))),
        series("dtype drift float64 with float32", choose(stored("<f8"), stored("<f4"))),
        series("dtype drift of plain integers", choose(*map(stored, ("<i2", "<i4", "<u2")))),
    ]


def layouts() -> list[Family]:
    """Where the bytes lie: layouts, chunk shapes, holes, masks, byte order, user block."""
    scale = packed(f8(0.01), f8(273.15), -5)
    units = [
        series(
            "layouts mixed",
            choose(
                lambda v: v,
                lambda v: replace(v, layout="compact"),
                lambda v: chunked(v, (2, 2, 3), GZIP),
                lambda v: replace(v, layout="external", pieces=2),
            ),
            lengths=(3, 2, 4, 2),
        ),
        series("compact", lambda _, v: replace(v, layout="compact")),
        series("external", lambda i, v: replace(v, layout="external", pieces=i + 1)),
        series("filter masks, shuffle skipped", _masks(((0, 0, 0), 1), ((0, 1, 0), 1))),
        series("filter masks, gzip skipped", _masks(((0, 0, 0), 2), ((0, 0, 1), 2))),
        series(
            "filter masks, one of several",
            _masks(*(((0, i % 2, i // 2), m) for i, m in enumerate((1, 6, 3, 7)))),
        ),
        series("filter masks, checksum skipped", _masks(((0, 0, 0), 4), ((0, 1, 1), 5))),
        series("filter order", _codecs((GZIP, SHUFFLE), (SHUFFLE, GZIP), (CHECKSUM, SHUFFLE))),
        series("never allocated, contiguous", lambda i, v: replace(v, unwritten="all", fill=i)),
        series("never allocated, chunked", _holes(["all", (), "all"])),
        series(
            "never allocated, packed",
            lambda i, v: replace(scale(v), unwritten="all", fill=(-5, 12, 13)[i]),
        ),
        series("partly written", _holes([((0, 0, 0),), ((0, 1, 1),), ((1, 0, 0), (1, 1, 1))])),
        series(
            "partly written, packed",
            _holes([((0, 0, 0),), ((0, 1, 1),), ((1, 0, 0), (1, 1, 1))], scale),
        ),
        series(
            "partly written, fill is the missing value",
            lambda i, v: (
                replace(scale(chunked(v, (1, 3, 4), GZIP)), unwritten=((i, 0, 0),))
                if i < 2
                else scale(v)
            ),
        ),
        series(
            "chunk shapes that differ in every dimension",
            lambda i, v: chunked(v, [(2, 1, 4), (1, 3, 2), (3, 2, 3)][i], GZIP),
        ),
        series("contiguous next to chunked", choose(lambda v: v, lambda v: chunked(v, (1, 3, 4)))),
        series("chunks larger than the data", _codecs((GZIP,), chunks=(4, 3, 4)), unlimited=True),
        series(
            "scattered chunks", lambda _, v: chunked(v, (1, 2, 2), SHUFFLE, GZIP, scattered=True)
        ),
        series("big-endian", choose(*map(stored, (">i2", "<i2", ">i4")))),
        series("big-endian floats", choose(*map(stored, (">f4", "<f4", ">f8")))),
        series(
            "big-endian, shuffled",
            lambda i, v: chunked(replace(v, stored=(">i4", "<i4", ">i4")[i]), (2, 2, 3), SHUFFLE),
        ),
        series("user block", _codecs((SHUFFLE, GZIP), (GZIP,)), userblock=512),
        series("user block, contiguous", userblock=1024),
        series(
            "user block, never allocated",
            lambda i, v: replace(v, unwritten="all" if i else (), fill=3),
            userblock=512,
        ),
        series("fletcher32", _codecs((CHECKSUM,), (SHUFFLE, GZIP, CHECKSUM), (CHECKSUM, GZIP))),
        series(
            "plug-in filters",
            lambda i, v: chunked(replace(v, stored="<i4"), (2, 2, 3), Filter([*PLUGINS][i])),
            lengths=(2,) * len(PLUGINS),
        ),
        series(
            "plug-in filters among others",
            _codecs(
                (SHUFFLE, Filter("zstd"), CHECKSUM),
                (Filter("scaleoffset"), Filter("lz4")),
                (CHECKSUM, Filter("bzip2"), Filter("blosc2")),
                (Filter("bitshuffle"), GZIP),
                (Filter("lzf"), Filter("blosc")),
            ),
            lengths=(2, 4, 3, 2, 2),
        ),
        series("fletcher32 of odd lengths", _codecs((CHECKSUM,), chunks=(1, 3, 1))),
        series(
            "shorter than its unlimited dimension",
            lambda i, v: chunked(
                v, (2, 2, 3), GZIP, shape=((3, 2, 4)[i] - (1, 0, 3)[i], LAT, LON), fill=40 + i
            ),
            unlimited=True,
        ),
        series(
            "shorter than its unlimited dimension, packed",
            lambda i, v: scale(
                chunked(v, (2, 2, 3), GZIP, shape=((3, 2, 4)[i] - (1, 2, 3)[i], LAT, LON))
            ),
            unlimited=True,
        ),
        series("one-element files", lengths=(1, 1, 1, 1)),
        series("an empty file among them", lengths=(2, 0, 3), unlimited=True),
        series("eight-byte integers", choose(*map(stored, ("<i8", "<u8", ">i8")))),
        series("bytes", choose(*map(stored, ("<i1", "<u1")))),
        series("halves", choose(*map(stored, ("<f2", "<f4", ">f2")))),
        series(
            "integers of 11 bits",
            lambda _, v: replace(v, stored="<i2", precision=11),
        ),
    ]
    return units


def filters() -> list[Family]:
    """Filters that HDF5 itself has to undo."""

    def change(*items: Filter, stored_as: str = "<i4", **more: Any) -> Change:
        return lambda i, v: chunked(replace(v, stored=stored_as), (2, 2, 4), *items, **more)

    szip, lzf, so, nbit = (Filter(n) for n in ("szip", "lzf", "scaleoffset", "nbit"))  # type: ignore[arg-type]
    return [
        series("szip", change(szip)),
        series("lzf", change(lzf)),
        series("lzf with shuffle and checksum", change(SHUFFLE, lzf, CHECKSUM)),
        series("scaleoffset of integers", change(so)),
        series(
            "scaleoffset of integers, big-endian, with fill", change(so, stored_as=">i2", fill=3)
        ),
        series("scaleoffset of floats", change(Filter("scaleoffset", (2,)), stored_as="<f4")),
        series("scaleoffset with gzip", change(so, GZIP)),
        series("nbit", change(nbit, stored_as="<i2", precision=11)),
        series("nbit of whole types", change(nbit, GZIP)),
        series(
            "lzf, some chunks skipped", change(SHUFFLE, lzf, masks=(((0, 0, 0), 1), ((0, 1, 0), 3)))
        ),
        series(
            "an era of each filter",
            choose(
                lambda v: chunked(v, (2, 2, 4), szip),
                lambda v: chunked(v, (2, 2, 4), SHUFFLE, lzf),
                lambda v: chunked(v, (2, 2, 4), so, GZIP),
                lambda v: chunked(v, (2, 2, 4), SHUFFLE, GZIP),
            ),
            lengths=(3, 2, 4, 2),
        ),
        series(
            "szip, packed, partly written",
            lambda i, v: replace(
                packed(f8(0.01 * (i + 1)), f8(10.0), -5)(
                    chunked(v, (2, 2, 4), szip, unwritten=((0, 1, 0),))
                ),
                fill=50 + i,
            ),
        ),
    ]


def meanings() -> list[Family]:
    """How values are meant: packing, missing values, unsigned, types of attributes."""
    many = typed((-1, -2, -3), "<i2")
    sprinkled = Position(sprinkle=(-1, -2, -3, 5), every=3)

    def sprinkle(var: VariableSpec) -> VariableSpec:
        return replace(var, position=replace(sprinkled, axes=var.position.axes))

    def unsigned(flag: str, stored_as: str, **attrs: Any) -> Callable[[VariableSpec], VariableSpec]:
        return lambda v: sprinkle(replace(v, stored=stored_as)).with_attrs(
            _Unsigned=text(flag), **attrs
        )

    return [
        series(
            "float32 and float64 attributes",
            choose(
                packed(f4(0.01), f4(273.15), -1),
                packed(f8(0.01), f8(273.15), -1),
                packed(f4(0.01), f8(273.15), -1),
            ),
        ),
        series(
            "scalar and one-element attributes",
            choose(
                packed(typed(0.01, "<f4", scalar=True), f4(1.5)),
                packed(f4(0.01), typed(1.5, "<f4", scalar=True)),
            ),
        ),
        series(
            "big-endian attributes",
            lambda i, v: packed(typed(0.01 + i, ">f4"), typed(273.15, ">f8"), -1)(
                replace(v, stored=">i2")
            ),
        ),
        series("scale without offset", choose(packed(f8(0.1), None), packed(None, f8(0.1)))),
        series(
            "packed and plain",
            choose(packed(f8(0.1), f8(1)), attributes(), packed(f4(0.1), f4(1), -1)),
        ),
        series(
            "fill drift",
            choose(
                both(sprinkle, attributes(_FillValue=typed(-1, "<i2"))),
                both(sprinkle, attributes(_FillValue=typed(-2, "<i2"))),
                both(sprinkle, attributes(missing_value=typed(-3, "<i2"))),
            ),
        ),
        series(
            "a fill in some files only",
            choose(both(sprinkle, attributes(_FillValue=typed(-1, "<i2"))), sprinkle),
        ),
        series(
            "fill and missing value differ",
            lambda i, v: sprinkle(v).with_attrs(
                _FillValue=typed(-1 - i, "<i2"), missing_value=typed(-3 + i, "<i2")
            ),
        ),
        series(
            "several missing values",
            choose(
                both(sprinkle, attributes(missing_value=many)),
                both(sprinkle, attributes(missing_value=typed((-2, 5), "<i2"))),
                both(sprinkle, attributes(missing_value=many, _FillValue=typed(5, "<i2"))),
            ),
        ),
        series(
            "several missing values, packed",
            lambda i, v: sprinkle(v).with_attrs(
                missing_value=many, scale_factor=f4(0.1 * (i + 1)), add_offset=f4(5)
            ),
        ),
        series(
            "fill value of a float",
            lambda i, v: replace(
                v, stored="<f4", position=replace(v.position, sprinkle=(1e20, -9999.0), every=3)
            ).with_attrs(_FillValue=f4((1e20, -9999.0, float("nan"))[i])),
        ),
        series(
            "fill value of another type",
            lambda i, v: sprinkle(v).with_attrs(_FillValue=(f4(-1), f8(-2), typed(-3, "<i4"))[i]),
        ),
        series(
            "unsigned",
            choose(
                unsigned("true", "<i1"),
                unsigned("true", "<i1", _FillValue=typed(-1, "<i1")),
                unsigned("false", "<u1"),
            ),
        ),
        series(
            "unsigned, packed",
            lambda i, v: unsigned(
                "true",
                "<i2",
                _FillValue=typed(-1 - i, "<i2"),
                scale_factor=f8(0.1 + i),
                add_offset=f4(3),
            )(v),
        ),
        series(
            "masked eight-byte integers",
            lambda i, v: sprinkle(replace(v, stored="<i8")).with_attrs(_FillValue=typed(-1, "<i8")),
        ),
    ]


FAMILIES: dict[str, Family] = {
    family.name: family for family in (*six_cases(), *layouts(), *filters(), *meanings())
}
