"""Families whose files differ in structure: times, variables, coordinates, dims, groups.

`STRUCTURES` maps a name to the family, as `tests.unlike.families.FAMILIES` does for storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.unlike.families import (
    EXPLICIT,
    GZIP,
    LAT,
    LON,
    SHUFFLE,
    Family,
    chunked,
    f4,
    f8,
    mapped,
    packed,
    series,
    tile,
)
from tests.unlike.special import KINDS, SpecialVariable
from tests.unlike.specs import (
    Dimension,
    FileSpec,
    GroupSpec,
    VariableSpec,
    dimension,
    text,
    typed,
    variable,
)
from tests.unlike.values import Position

EPOCHS = ("days since 2001-01-01", "hours since 2001-01-02 06:00:00", "seconds since 1970-1-1")
EVERYWHERE = EXPLICIT | {"data_vars": "all"}
SIDE = {"time": 3, "lat": 2, "lon": 3}


def along_time(name: str, files: Sequence[FileSpec], **arguments: Any) -> Family:
    return Family(
        name, tuple(files), {"combine": "nested", "concat_dim": "time", **EXPLICIT, **arguments}
    )


def _numbers(
    name: str, dims: Sequence[str], stored: str, values: Any, units: str | None, **attrs: Any
) -> VariableSpec:
    if units is not None:
        attrs["units"] = text(units)
    return variable(name, dims, stored, literal=values, attrs=attrs)


def times() -> list[Family]:
    """An epoch per file, in several types, with bounds that inherit it."""
    base = series("")
    per_unit = (1, 24, 86400)
    shift = (0, -30, 11323 * 86400)  # what each epoch lies before or after the first, in its units

    def numbers(i: int, group: GroupSpec, ahead: float = 0.0) -> list[float]:
        days = range(sum((3, 2, 4)[:i]), sum((3, 2, 4)[: i + 1]))
        return [(d + ahead) * per_unit[i] + shift[i] for d in days]

    def epochs(stored: Sequence[str]) -> Any:
        def change(i: int, group: GroupSpec) -> GroupSpec:
            return group.with_variables(
                _numbers("time", ("time",), stored[i], tuple(numbers(i, group)), EPOCHS[i])
            )

        return change

    def bounds(i: int, group: GroupSpec) -> GroupSpec:
        edges = tuple(zip(numbers(i, group), numbers(i, group, 0.5), strict=True))
        time = _numbers(
            "time", ("time",), "<f8", tuple(numbers(i, group)), EPOCHS[i], bounds=text("time_bnds")
        )
        group = replace(group, dims=(*group.dims, dimension("bnds", 2)))
        return group.with_variables(
            time, variable("time_bnds", ("time", "bnds"), "<f8", literal=edges)
        )

    def calendar(i: int, group: GroupSpec) -> GroupSpec:
        days = tuple(range(30 * i, 30 * i + group.size("time")))
        epoch = ("days since 1850-01-01", "days since 1850-2-30")[i % 2]
        return group.with_variables(
            _numbers("time", ("time",), "<i4", days, epoch, calendar=text("360_day"))
        )

    def lead(i: int, group: GroupSpec) -> GroupSpec:
        unit, stored = (("hours", "<i4"), ("minutes", "<i2"), ("days", "<f4"))[i]
        steps = tuple(range(1, 1 + group.size("time")))
        return group.with_variables(_numbers("lead", ("time",), stored, steps, unit))

    def date(i: int, group: GroupSpec) -> GroupSpec:
        """A data variable of times, chunked and packed with a fill."""
        var = variable(
            "seen",
            ("lat", "lon"),
            "<f8",
            chunks=(2, 2),
            filters=(GZIP,),
            attrs={"units": text(EPOCHS[i]), "_FillValue": f8(5)},
            position=Position(base=3 * i),
        )
        return group.with_variables(var)

    undecoded = mapped(base, bounds, "")
    return [
        mapped(base, epochs(("<i4", "<i4", "<i8")), "epoch per file"),
        mapped(base, epochs(("<f8", "<f4", "<f8")), "epoch per file, floats"),
        mapped(base, epochs((">i4", "<i2", ">f8")), "epoch per file, types and byte orders"),
        mapped(base, bounds, "bounds inherit the epoch"),
        mapped(base, calendar, "360-day calendar, epoch per file"),
        replace(
            mapped(base, lead, "timedelta units per file"),
            arguments={**base.arguments, "decode_timedelta": True},
        ),
        replace(
            mapped(base, date, "a data variable of times"),
            arguments={**base.arguments, "data_vars": "all"},
        ),
        replace(
            undecoded,
            name="times not decoded",
            files=undecoded.files[:1] * 2,  # other units would be a conflict
            arguments={**base.arguments, "decode_times": False},
        ),
    ]


def variables() -> list[Family]:
    """Variables that are absent, static, scalar, or differ in what they depend on."""
    base = series("")

    def absent(stored: str, missing: Sequence[int]) -> Any:
        def change(i: int, group: GroupSpec) -> GroupSpec:
            extra = variable(
                "extra", ("time", "lat"), stored, chunks=(2, 2), filters=(GZIP,)
            ).with_attrs(units=text("1"))
            extra = replace(extra, position=Position(base=100 * i))
            return group if i in missing else group.with_variables(extra)

        return change

    def absent_packed(i: int, group: GroupSpec) -> GroupSpec:
        extra = packed(f8(0.1), f8(5.0), -1)(variable("extra", ("time", "lat"), "<i2"))
        return group.with_variables(extra) if i == 1 else group

    def static(i: int, group: GroupSpec) -> GroupSpec:
        mask = variable("mask", ("lat", "lon"), ("<i1", ">i2", "<i1")[i], layout="compact")
        if i == 1:
            mask = chunked(mask, (2, 3), SHUFFLE, GZIP)
        area = variable("area", ("lat",), ("<f4", "<f4", ">f4")[i])
        number = variable("number", (), "<f8", literal=5.5)
        return group.with_variables(mask, area, number)

    def scalars(i: int, group: GroupSpec) -> GroupSpec:
        return group.with_variables(
            variable("level", (), ("<f4", "<i2", "<f8")[i], literal=10 + i),
            variable("flag", (), "<i2", literal=i),
        )

    def coordinate(i: int, group: GroupSpec) -> GroupSpec:
        sst = group["sst"]
        assert isinstance(sst, VariableSpec)
        area = variable("area", ("lat", "lon"), ("<f8", ">f8", "<f8")[i])
        if i == 1:
            area = chunked(area, (2, 3), GZIP)
        return group.with_variables(sst.with_attrs(coordinates=text("area")), area)

    def turned(i: int, group: GroupSpec) -> GroupSpec:
        sst = group["sst"]
        assert isinstance(sst, VariableSpec)
        dims = [("time", "lat", "lon"), ("lon", "time", "lat"), ("lat", "lon", "time")][i]
        sst = replace(sst, dims=dims)
        return group.with_variables(chunked(sst, (2, 2, 2), SHUFFLE, GZIP) if i == 1 else sst)

    absent_types = ("<i2", "<i4", "<f4", "<f8", "<u1", "<i8", ">i2")
    return [
        *(
            replace(
                mapped(base, absent(t, [1]), f"a variable absent, {t}"), arguments=base.arguments
            )
            for t in absent_types
        ),
        mapped(base, absent("<f4", [0, 2]), "a variable in the second file only"),
        mapped(base, absent_packed, "a packed variable in the second file only"),
        replace(
            mapped(base, static, "static variables broadcast"),
            arguments=base.arguments | EVERYWHERE,
        ),
        mapped(base, static, "static variables kept"),
        replace(
            mapped(base, static, "static variables compared"),
            arguments=base.arguments | {"compat": "equals", "data_vars": "different"},
        ),
        replace(mapped(base, scalars, "scalars along time"), arguments=base.arguments | EVERYWHERE),
        mapped(base, coordinate, "a static coordinate of two dims"),
        replace(
            mapped(base, coordinate, "a static coordinate, compared"),
            arguments=base.arguments | {"coords": "different", "compat": "equals"},
        ),
        mapped(base, turned, "dims transposed"),
        replace(
            base, name="a list that is not in order", files=tuple(base.files[i] for i in (2, 0, 1))
        ),
        replace(base, name="the same file twice", files=(base.files[0], *base.files)),
    ]


def coordinates() -> list[Family]:
    """Coordinates that differ, joined by an explicit ``join`` as xarray joins them."""
    base = series("")

    def latitude(values: Sequence[Any], reverse: int | None = None) -> Any:
        def change(i: int, group: GroupSpec) -> GroupSpec:
            sst = group["sst"]
            assert isinstance(sst, VariableSpec)
            if i == reverse:
                axes = tuple(
                    (d, n - 1, -1, n) if d == "lat" else (d, s, k, n)
                    for d, s, k, n in sst.position.axes
                )
                sst = replace(sst, position=replace(sst.position, axes=axes))
            lat = variable("lat", ("lat",), "<f4", literal=tuple(values[i]))
            return group.with_variables(lat, sst)

        return change

    up, down = (10, 11, 12), (12, 11, 10)
    jitter, other = (10, 11.000001, 12), (11, 12, 13)
    flip, shake, move = ((up, x, up) for x in (down, jitter, other))
    found = [
        replace(
            mapped(base, latitude(values, 1 if values is flip else None), f"{what}, join={join}"),
            arguments=base.arguments | {"join": join},
        )
        for what, values in (("reversed", flip), ("jitter", shake), ("another range", move))
        for join in ("outer", "inner", "left", "right", "override")
    ]
    lengths = [(("time", 3), ("lat", n)) for n in (3, 2, 4)]
    tiles = [
        tile(f"t{i}.nc", {"time": 3 * i}, dict(size), {"time": 9, "lat": 4, "lon": LON})
        for i, size in enumerate(lengths)
    ]
    found += [
        along_time(f"another length, join={join}", tiles, join=join)
        for join in ("outer", "inner", "left")
    ]
    return found


def mosaics() -> list[Family]:
    """Concat along two and three dimensions, with and without holes, by order or coordinates."""
    extent = {"time": 6, "lat": 4, "lon": 6}

    def at(t: int, y: int, x: int) -> FileSpec:
        start = {"time": 3 * t, "lat": 2 * y, "lon": 3 * x}
        storage = [
            lambda v: v,
            lambda v: chunked(v, (2, 2, 2), SHUFFLE, GZIP),
            lambda v: chunked(replace(v, stored=">i4"), (1, 2, 3), GZIP),
            lambda v: replace(v, layout="compact"),
        ]
        return tile(f"tile{t}{y}{x}.nc", start, SIDE, extent, storage[(t + 2 * y + x) % 4])

    grid = [[at(t, 0, x) for x in range(2)] for t in range(2)]
    cube = [[[at(t, y, x) for x in range(2)] for y in range(2)] for t in range(2)]
    flat = [f for plane in cube for row in plane for f in row]
    nested = {"combine": "nested", **EXPLICIT}
    hole = [[at(0, 0, 0), at(0, 0, 1)], [at(0, 1, 0)]]
    by_coords = {"combine": "by_coords", **EXPLICIT}
    merged = {"combine": "nested", "concat_dim": None, "join": "outer"}
    return [
        Family("two dimensions", tuple(grid), {**nested, "concat_dim": ["time", "lon"]}),
        Family("three dimensions", tuple(cube), {**nested, "concat_dim": ["time", "lat", "lon"]}),
        Family("two dimensions by coords", tuple(grid[1] + grid[0]), by_coords),
        Family("three dimensions by coords", tuple(flat[::-1]), by_coords),
        Family(
            "a mosaic with a hole, merged",
            tuple(f for row in hole for f in row),
            merged | {"compat": "no_conflicts"},
        ),
        Family(
            "scattered tiles, joined",
            (at(0, 0, 0), at(0, 1, 1)),
            {**nested, "concat_dim": "time"},
        ),
        Family(
            "scattered tiles of unlike dtypes, joined",
            (at(0, 0, 1), at(1, 0, 0), at(1, 1, 0)),
            {**nested, "concat_dim": "time"},
        ),
    ]


def specials() -> list[Family]:
    """Strings, booleans, enums, complex and compound values beside virtual ones."""

    def change(i: int, group: GroupSpec) -> GroupSpec:
        names = [SpecialVariable(f"v_{k}", ("time", "lat"), k, start=10 * i) for k in KINDS]
        return group.with_variables(*names)

    def one(kind: Any) -> Any:
        return lambda i, group: group.with_variables(
            SpecialVariable("v", ("time",), kind, start=10 * i)
        )

    base = series("")
    return [
        mapped(base, change, "special types together"),
        *(mapped(base, one(kind), f"special type {kind}") for kind in KINDS),
    ]


def phony() -> list[Family]:
    """No dimension scales: the reader numbers the dimensions."""

    def file(i: int, sizes: Sequence[int]) -> FileSpec:
        dims: tuple[Dimension, ...] = tuple(
            dimension(d, n) for d, n in zip(("a", "b", "c"), sizes, strict=True)
        )
        root = GroupSpec(
            dims=dims,
            variables=(
                variable("u", ("a", "b"), "<i2", chunks=(2, 2), filters=(GZIP,)),
                variable("v", ("b", "c"), ">f4"),
                variable("w", ("a", "b", "c"), "<f8", position=Position(base=50 * i)),
            ),
            scales=False,
        )
        return FileSpec(f"phony{i}.h5", root)

    def files(*shapes: Sequence[int]) -> tuple[FileSpec, ...]:
        return tuple(file(i, s) for i, s in enumerate(shapes))

    arguments = {"combine": "nested", "concat_dim": "phony_dim_0", **EXPLICIT}
    return [
        Family(
            "phony dims, as accessed",
            files((2, 3, 4), (3, 3, 4)),
            arguments | {"phony_dims": "access"},
        ),
        Family(
            "phony dims, sorted", files((2, 3, 4), (5, 3, 4)), arguments | {"phony_dims": "sort"}
        ),
        Family(
            "phony dims of equal sizes",
            files((3, 3, 3), (3, 3, 3)),
            arguments | {"phony_dims": "sort"},
        ),
    ]


def groups() -> list[Family]:
    """The picture in a group below the root, whose dimensions the root defines in part."""
    base = series("")

    def change(i: int, group: GroupSpec) -> GroupSpec:
        inner = replace(group, name="inner")
        above = variable("above", ("x",), "<f4", position=Position(base=i))
        return GroupSpec(dims=(dimension("x", 2),), variables=(above,), groups=(inner,))

    def inherit(i: int, group: GroupSpec) -> GroupSpec:
        lat, lon = (d for d in group.dims if d.name in ("lat", "lon"))
        inner = replace(
            group.without("lat", "lon"),
            name="inner",
            dims=tuple(d for d in group.dims if d.name == "time"),
        )
        sizes = {"time": group.size("time"), "lat": LAT, "lon": LON}
        sst = group["sst"]
        assert isinstance(sst, VariableSpec)
        inner = inner.with_variables(replace(sst, shape=tuple(sizes[d] for d in sst.dims)))
        return GroupSpec(dims=(lat, lon), variables=(group["lat"], group["lon"]), groups=(inner,))

    return [
        replace(mapped(base, change, "in a group"), arguments=base.arguments | {"group": "inner"}),
        replace(
            mapped(base, change, "in a group, named from the root"),
            arguments=base.arguments | {"group": "/inner"},
        ),
        replace(
            mapped(base, change, "the root beside a group"),
            arguments=base.arguments | {"concat_dim": "x"},
        ),
        replace(
            mapped(base, inherit, "in a group, dims inherited"),
            arguments=base.arguments | {"group": "inner"},
        ),
    ]


def options() -> list[Family]:
    """The same files, opened with options of xarray's."""
    scaled = series(
        "",
        lambda i, v: packed(f4(0.1 * (i + 1)), f8(2.0), -1)(v).with_attrs(
            valid_min=typed(0, "<i2"), grid_mapping=text("crs")
        ),
    )

    def with_crs(_: int, group: GroupSpec) -> GroupSpec:
        return group.with_variables(
            variable(
                "crs", (), "<i4", literal=0, attrs={"grid_mapping_name": text("latitude_longitude")}
            )
        )

    base = mapped(scaled, with_crs, "")
    # undecoded packing differs between the files, so that each is combined with itself only
    alone = replace(base, files=base.files[:1] * 2)
    return [
        replace(
            alone, name="mask_and_scale=False", arguments=base.arguments | {"mask_and_scale": False}
        ),
        replace(alone, name="decode_cf=False", arguments=base.arguments | {"decode_cf": False}),
        replace(
            base, name="decode_coords=all", arguments=base.arguments | {"decode_coords": "all"}
        ),
        replace(
            base, name="decode_coords=False", arguments=base.arguments | {"decode_coords": False}
        ),
        replace(
            base,
            name="drop_variables",
            arguments=base.arguments | {"drop_variables": ["crs", "lat"]},
        ),
        replace(
            base, name="combine_attrs=drop", arguments=base.arguments | {"combine_attrs": "drop"}
        ),
        replace(
            base,
            name="combine_attrs=drop_conflicts",
            arguments=base.arguments | {"combine_attrs": "drop_conflicts"},
        ),
        replace(
            base,
            name="combine_attrs=override",
            arguments=base.arguments | {"combine_attrs": "override"},
        ),
    ]


STRUCTURES: dict[str, Family] = {
    family.name: family
    for family in (
        *times(),
        *variables(),
        *coordinates(),
        *mosaics(),
        *specials(),
        *phony(),
        *groups(),
        *options(),
    )
}
