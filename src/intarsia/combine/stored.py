"""Differences in how variables are stored and packed: all equal to xarray, but the raw ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from intarsia.combine.columns import Column, Group, regroup
from intarsia.combine.difference import Difference
from intarsia.combine.frozen import Typed, show
from intarsia.combine.scene import Scene
from intarsia.combine.summary import Packing, VariableSummary
from intarsia.encoding import Codec

__all__ = ["plain", "show_filters", "show_numbers", "stored_differences"]

_CHECKSUM = "fletcher32"
_UNPACKED = Packing()
_KINDS = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex", "V": "bytes"}


def stored_differences(column: Column, scene: Scene) -> Iterator[Difference]:
    """Find what differs in storage and packing of one variable."""
    if len(column.groups) > 1:
        yield from _storage(column, scene)
    if len(column.fine) > 1:
        yield from _packing(column, scene)
    yield from _partial_chunks(column, scene)
    skipping = column.by(lambda summary: summary.skipped_filters)
    if any(entry.value for entry in skipping):
        yield Difference.found(
            "skipped-filters", column.name, skipping, scene.url,
            lambda skips: "some chunks skip filters" if skips else "no chunk skips any",
        )  # fmt: skip
    padded = column.by(lambda summary: summary.padded)
    if any(entry.value for entry in padded):
        yield Difference.found(
            "padded", column.name, padded, scene.url,
            lambda short: "shorter than its dimension" if short else "as long as its dimension",
        )  # fmt: skip


def _storage(column: Column, scene: Scene) -> Iterator[Difference]:
    known = [entry for entry in column.groups if entry.value.layout is not None]

    def aspect(
        kind: str,
        key: Callable[[VariableSummary], Hashable],
        display: Callable[[Any], str] = str,
        long: Callable[[Any], str] | None = None,
        groups: list[Group] = known,
    ) -> Iterator[Difference]:
        found = regroup(groups, key)
        if len(found) > 1:
            yield Difference.found(kind, column.name, found, scene.url, display, long)

    yield from aspect("layout", _layout)
    yield from aspect("codec", _filters, show_filters, show_filters_long)
    yield from aspect("checksum", _has_checksum, lambda has: "checksums" if has else "none")
    chunked = [entry for entry in known if entry.value.chunks is not None]
    yield from aspect("chunks", _chunks, groups=chunked)
    filled = [entry for entry in known if entry.value.raw_fill is not None]
    yield from aspect("raw-fill", _raw_fill, groups=filled)
    stored = [entry for entry in column.groups if entry.value.stored is not None]
    ordered = [entry for entry in stored if _byte_order(entry.value) != "|"]
    yield from aspect("byte-order", _byte_order, _show_byte_order, groups=ordered)
    yield from aspect("stored-dtype", _stored, groups=stored)


def _packing(column: Column, scene: Scene) -> Iterator[Difference]:
    packings = column.by_fine(lambda summary: summary.packing or _UNPACKED)
    if len(packings) < 2:
        return

    def aspect(
        kind: str,
        key: Callable[[Packing], Hashable],
        display: Callable[[Any], str],
        long: Callable[[Any], str] | None = None,
    ) -> Iterator[Difference]:
        found = regroup(packings, key)
        if len(found) > 1:
            yield Difference.found(kind, column.name, found, scene.url, display, long)

    yield from aspect("scale-offset", _scale_offset, show_scale_offset, show_scale_offset_long)
    yield from aspect("fill", _fills, show_numbers)
    yield from aspect("unsigned", _unsigned, show)
    packings = [entry for entry in packings if _types(entry.value) != (None, None)]
    yield from aspect("packing-types", _types, show_types)


def _scale_offset(packing: Packing) -> Hashable:
    return plain(packing.scale), plain(packing.offset)


def _fills(packing: Packing) -> Hashable:
    return tuple(plain(fill) for fill in packing.fills)


def _unsigned(packing: Packing) -> Hashable:
    return plain(packing.unsigned)


def _types(packing: Packing) -> tuple[str | None, str | None]:
    return _type(packing.scale), _type(packing.offset)


def _partial_chunks(column: Column, scene: Scene) -> Iterator[Difference]:
    """Find chunks cut short where another file's part follows."""
    if scene.count < 2:
        return
    for dim in scene.concat_dims:

        def cut(shapes: Any, dim: str = dim) -> tuple[int, int] | None:
            dims, shape, chunks = shapes
            if chunks is None or dim not in dims:
                return None
            axis = dims.index(dim)
            return (shape[axis], chunks[axis]) if shape[axis] % chunks[axis] else None

        shapes = column.by_fine(lambda summary: (summary.dims, summary.shape, summary.chunks))
        found = [entry for entry in regroup(shapes, cut) if entry.value is not None]
        if found:
            yield Difference.found(
                "partial-chunks", column.name, found, scene.url,
                lambda pair: f"{pair[0]} in chunks of {pair[1]}", item=dim,
            )  # fmt: skip


def plain(frozen: Hashable) -> Hashable:
    """Give a frozen number as a NumPy scalar, NaN as ``"nan"``: equal where numbers are."""
    if not isinstance(frozen, Typed):
        return frozen
    value: Any = frozen.value
    if frozen.shape:
        return tuple("nan" if item != item else item for item in value.ravel())
    return "nan" if value != value else value


def show_numbers(values: Any) -> str:
    """Write a tuple of plain numbers: ``none``, ``-999`` or ``-999, 0``."""
    return ", ".join(str(value) for value in values) or "none"


def show_filters(filters: Any) -> str:
    """Write filters by their names, in the order of the writer: ``shuffle > zlib``."""
    return " > ".join(name for name, _ in filters) or "not compressed"


def show_filters_long(filters: Any) -> str:
    """Write filters with their configurations."""
    texts = [str(Codec(name, configuration)) for name, configuration in filters]
    return " > ".join(texts) or "not compressed"


def filter_keys(filters: tuple[Codec | str, ...]) -> Iterator[tuple[str, Any]]:
    """Give name and configuration of each filter, but for what follows from type and chunks."""
    for codec in filters:
        if isinstance(codec, str):
            yield codec, ()
        elif codec.name == "hdf5":
            pipeline: Any = codec.config.get("pipeline", ())
            for member in pipeline:
                yield str(member[-1]) or f"HDF5 filter {member[0]}", ()
        else:
            follows = ("elementsize", "shape", "dtype")
            kept = tuple(pair for pair in codec.configuration if pair[0] not in follows)
            yield codec.name, kept


def _layout(summary: VariableSummary) -> Hashable:
    return summary.layout


def _filters(summary: VariableSummary) -> Hashable:
    return tuple(key for key in filter_keys(summary.filters) if key[0] != _CHECKSUM)


def _has_checksum(summary: VariableSummary) -> bool:
    return any(key[0] == _CHECKSUM for key in filter_keys(summary.filters))


def _chunks(summary: VariableSummary) -> Hashable:
    return summary.chunks


def _raw_fill(summary: VariableSummary) -> Hashable:
    return plain(summary.raw_fill)


def _byte_order(summary: VariableSummary) -> str:
    assert summary.stored is not None
    return summary.stored.str[0]


def _stored(summary: VariableSummary) -> str:
    assert summary.stored is not None
    return summary.stored.newbyteorder("=").name


def _show_byte_order(order: str) -> str:
    return {"<": "little-endian", ">": "big-endian"}[order]


def _type(frozen: Hashable) -> str | None:
    """``"float32"``, without making a type of it: there may be as many scales as files."""
    return (
        f"{_KINDS[frozen.dtype[1]]}{8 * int(frozen.dtype[2:])}"
        if isinstance(frozen, Typed)
        else None
    )


def show_types(types: Any) -> str:
    """Write the types of scale and offset."""
    return f"scale {types[0] or 'none'}, offset {types[1] or 'none'}"


def show_scale_offset(pair: Any) -> str:
    """Write a pair of plain numbers: ``scale 0.01, offset 273.15``, or ``not packed``."""
    return _named(pair, str)


def show_scale_offset_long(pair: Any) -> str:
    """Write a pair of plain numbers with their types."""
    return _named(pair, lambda number: f"{number} ({getattr(number, 'dtype', 'text')})")


def _named(pair: Any, text: Callable[[Any], str]) -> str:
    named = zip(("scale", "offset"), pair, strict=True)
    parts = [f"{name} {text(number)}" for name, number in named if number is not None]
    return ", ".join(parts) or "not packed"
