"""References of kerchunk in Parquet: the metadata of all arrays, and a table per so many chunks.

``.zmetadata`` holds the metadata, and how many chunks a table has at most; the table of number
``n`` of an array is ``array/refs.n.parq``, with the columns ``path``, ``offset``, ``size`` and
``raw``. A table that is not there stands for chunks that were never written. One that can't be read
does not, and neither does one with fewer rows than it should have.
"""

# pandas' signatures are untyped in parts, and Parquet's readers altogether.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

from intarsia.errors import FormatError, IntarsiaError
from intarsia.scan.zarr.places import Places

__all__ = ["parquet_refs"]


def parquet_refs(places: Places) -> tuple[dict[str, Any], list[str]]:
    """All references by key, as JSON has them, and remarks.

    Raises
    ------
    FormatError
        If these are none, or broken.
    ImportError
        If what reads Parquet is not installed.
    """
    text = places.text(".zmetadata")
    try:
        told: Any = json.loads(text) if text is not None else None
        refs: dict[str, Any] = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in told["metadata"].items()
        }
        rows = int(told["record_size"])
        arrays = {
            key.removesuffix("/.zarray"): json.loads(value)
            for key, value in refs.items()
            if key.endswith("/.zarray")
        }
        grids = {name: _grid(array) for name, array in arrays.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"its .zmetadata are none of kerchunk ({type(error).__name__}: {error})",
            url=places.place,
        ) from error
    if rows < 1:
        raise FormatError(f"its tables have {rows} rows", url=places.place)
    notes: list[str] = []
    for name, grid in grids.items():
        separator = arrays[name].get("dimension_separator", ".")
        count = prod(grid)
        absent: list[int] = []
        for number in range(-(-count // rows)):
            begin = number * rows
            table = _table(places, f"{name}/refs.{number}.parq", min(rows, count - begin))
            if table is None:
                absent.append(number)
                continue
            refs |= {f"{name}/{_key(begin + row, grid, separator)}": value for row, value in table}
        if absent:
            notes.append(
                f"{name!r} has no table refs.{absent[0]}.parq"
                + (f" and {len(absent) - 1} others" if absent[1:] else "")
                + ": its chunks are taken for never written"
            )
    return refs, notes


def _grid(array: Any) -> tuple[int, ...]:
    pairs = zip(array["shape"], array["chunks"], strict=True)
    return tuple(-(-int(size) // (int(chunk) or 1)) for size, chunk in pairs)


def _key(number: int, grid: tuple[int, ...], separator: str) -> str:
    indices: list[int] = []
    for size in reversed(grid):
        number, index = divmod(number, size)
        indices.append(index)
    return separator.join(map(str, reversed(indices))) if grid else "0"


def _table(places: Places, key: str, count: int) -> Iterator[tuple[int, Any]] | None:
    """(row, reference) of those that are there; None where there is no such table."""
    data = places.text(key)
    if data is None:
        return None
    where = f"{places.place.rstrip('/')}/{key}"
    try:
        frame = _read(data)
        columns = {str(name): frame[name].to_numpy(dtype=object) for name in frame.columns}
    except (ImportError, IntarsiaError):
        raise
    except Exception as error:  # readers of Parquet raise what they like
        raise FormatError(
            f"this table of references can't be read ({type(error).__name__}: {error})", url=where
        ) from error
    if not columns.keys() & {"path", "raw"} or any(len(c) < count for c in columns.values()):
        raise FormatError(
            f"this table of references has {len(frame)} rows of {sorted(columns)}, where "
            f"{count} of path, offset, size and raw should be",
            url=where,
        )
    return _references(columns, count)


def _references(columns: dict[str, Any], count: int) -> Iterator[tuple[int, Any]]:
    nothing = np.full(count, None, object)
    paths, raws = columns.get("path", nothing), columns.get("raw", nothing)
    offsets, sizes = columns.get("offset", nothing), columns.get("size", nothing)
    for row in range(count):
        path, raw = paths[row], raws[row]
        if isinstance(raw, bytes | str):  # never base64, as texts in JSON may be
            yield row, raw if isinstance(raw, bytes) else raw.encode()
        elif isinstance(path, str):
            offset, size = int(offsets[row] or 0), int(sizes[row] or 0)
            yield row, [path, offset, size] if offset or size else [path]


def _read(data: bytes) -> Any:
    try:
        arrow: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        reader: Any = importlib.import_module("fastparquet")
        return reader.ParquetFile(BytesIO(data)).to_pandas()
    return arrow.read_table(BytesIO(data)).to_pandas()
