"""The ways to an array, or to all of a group, that zarr-python and xarray have.

Knows nothing of Intarsia, so that it also runs where that is not installed.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import xarray as xr
import zarr
import zarr.api.asynchronous
import zarr.storage
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

type ArrayWay = Callable[[Path, str], Any]
"""To the values of one array, by the path of the store and the array's path in it."""

type GroupWay = Callable[[Path, str], Any]
"""To all that is in a group: values by name, or None where a way gives names only."""

FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"


def _group(store: Any) -> Any:
    return zarr.open_group(store, mode="r")


def _in_memory(path: Path) -> Any:
    make = default_buffer_prototype().buffer.from_bytes
    files = [member for member in path.rglob("*") if member.is_file()]
    return zarr.storage.MemoryStore(
        {file.relative_to(path).as_posix(): make(file.read_bytes()) for file in files}
    )


def _zipped(path: Path) -> Any:
    return zarr.storage.ZipStore(path.with_suffix(".zip"), mode="r")


def _asynchronously(path: Path, name: str) -> Any:
    async def read() -> Any:
        root = await zarr.api.asynchronous.open_group(path, mode="r")
        return await (await root.getitem(name)).getitem(...)

    return sync(read())


def _fused(path: Path, name: str) -> Any:
    with zarr.config.set({"codec_pipeline.path": FUSED}):
        return _group(path)[name][...]


def _parent_then_child(path: Path, name: str) -> Any:
    parent, _, child = name.rpartition("/")
    return _group(path / parent)[child][...]


ARRAY_WAYS: dict[str, ArrayWay] = {
    "open_array": lambda path, name: zarr.open_array(path / name, mode="r")[...],
    "open_array path=": lambda path, name: zarr.open_array(path, path=name, mode="r")[...],
    "open_array zarr_format=3": lambda path, name: zarr.open_array(
        path / name, mode="r", zarr_format=3
    )[...],
    "open_array r+": lambda path, name: zarr.open_array(path / name, mode="r+")[...],
    "open": lambda path, name: zarr.open(path / name, mode="r")[...],
    "open path=": lambda path, name: zarr.open(path, path=name, mode="r")[...],
    "open a": lambda path, name: zarr.open(path / name, mode="a")[...],
    "load": lambda path, name: zarr.load(path / name),
    "Array.open": lambda path, name: zarr.Array.open(str(path / name))[...],
    "group[name]": lambda path, name: _group(path)[name][...],
    "group[parent][name]": _parent_then_child,
    "group.get": lambda path, name: _group(path).get(name)[...],
    "asynchronous": _asynchronously,
    "fused pipeline": _fused,
    "MemoryStore": lambda path, name: _group(_in_memory(path))[name][...],
    "ZipStore": lambda path, name: _group(_zipped(path))[name][...],
    "dask": lambda path, name: dask.array.from_zarr(str(path / name)).compute(
        scheduler="synchronous"
    ),
}

WRITING_WAYS: dict[str, ArrayWay] = {
    "open_array a": lambda path, name: zarr.open_array(
        path / name, mode="a", shape=(4, 3), dtype="i2"
    ),
    "require_array": lambda path, name: zarr.open_group(path, mode="r+").require_array(
        name, shape=(4, 3), dtype="i2"
    ),
    "create_array": lambda path, name: zarr.open_group(path, mode="r+").create_array(
        name, shape=(4, 3), dtype="i2"
    ),
    "resize": lambda path, name: zarr.open_array(path / name, mode="r+").resize((1, 1)),
    "attributes": lambda path, name: zarr.open_group(path)[name].attrs.update({"a": 1}),
    "consolidate_metadata": lambda path, name: zarr.consolidate_metadata(
        (path / name).parent, zarr_format=3
    ),
}
"""Ways by which a guard could be lost; what is asked for is not what other arrays are like."""


def _values(arrays: Any) -> dict[str, Any]:
    return {name: found[...] for name, found in arrays if isinstance(found, zarr.Array)}


def _variables(opened: Any) -> dict[str, Any]:
    with opened:
        return {name: variable.values for name, variable in opened.variables.items()}


def _open_zarr(**options: Any) -> GroupWay:
    def read(path: Path, name: str) -> Any:
        return _variables(xr.open_zarr(path, group=name or None, **RAW, **options))

    return read


def _open_dataset(**options: Any) -> GroupWay:
    def read(path: Path, name: str) -> Any:
        options.setdefault("engine", "zarr")
        return _variables(xr.open_dataset(path, group=name or None, **RAW, **options))

    return read


def _tree(path: Path, name: str) -> Any:
    return _variables(
        xr.open_datatree(path, engine="zarr", group=name or None, consolidated=False, **RAW)
    )


RAW: Any = {"decode_times": False, "mask_and_scale": False}

GROUP_WAYS: dict[str, GroupWay] = {
    "arrays": lambda path, name: _values(_group(path / name).arrays()),
    "array_values": lambda path, name: {
        found.basename: found[...] for found in _group(path / name).array_values()
    },
    "array_keys": lambda path, name: dict.fromkeys(_group(path / name).array_keys()),
    "keys": lambda path, name: dict.fromkeys(_group(path / name).keys()),
    "iter": lambda path, name: dict.fromkeys(_group(path / name)),
    "members": lambda path, name: _values(_group(path / name).members()),
    "members of all": lambda path, name: _values(_group(path / name).members(max_depth=None)),
    "open_zarr": _open_zarr(),
    "open_zarr unchunked": _open_zarr(chunks=None),
    "open_zarr consolidated=False": _open_zarr(consolidated=False),
    "open_dataset": _open_dataset(),
    "open_dataset consolidated=False": _open_dataset(consolidated=False),
    "open_dataset chunks={}": _open_dataset(chunks={}),
    "open_datatree": _tree,
}

DROPPING_WAYS: dict[str, GroupWay] = {
    "open_zarr drop": _open_zarr(drop_variables=["sst", "chl", "flag", "z"]),
    "open_dataset drop": _open_dataset(drop_variables=["sst", "chl", "flag", "z"]),
}
"""These do not get at the rest of a group: xarray opens all arrays before it drops any."""

CONSOLIDATED_WAYS: dict[str, GroupWay] = {
    "open_consolidated": lambda path, name: _values(zarr.open_consolidated(path / name).arrays()),
    "open_group use_consolidated=True": lambda path, name: _values(
        zarr.open_group(path / name, mode="r", use_consolidated=True).arrays()
    ),
    "open_zarr consolidated=True": _open_zarr(consolidated=True),
    "open_dataset consolidated=True": _open_dataset(consolidated=True),
}
"""These insist on consolidated metadata, of which a store has none."""


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that a store brings about on purpose; no others."""
    with warnings.catch_warnings():
        # its own objects are no node of the hierarchy
        warnings.filterwarnings("ignore", r"Object at (.*/)?__intarsia__ is not recognized")
        # it has no consolidated metadata
        warnings.filterwarnings("ignore", "Failed to open Zarr store with consolidated metadata")
        yield


def outcome(read: Callable[..., Any], *place: Any) -> tuple[str, str]:
    """What came of it: ("refused", what was said), or ("read", a digest of the values)."""
    try:
        with quiet():
            found = read(*place)
    except Exception as error:  # noqa: BLE001  any error is a refusal; what it says is looked at
        return "refused", f"{type(error).__name__}: {error}"
    return "read", digest(found)


def digest(values: Any) -> str:
    """The same for the same values of the same type and shape."""
    if isinstance(values, dict):
        return json.dumps({name: digest(values[name]) for name in sorted(values)})
    array = np.asarray(values)
    texts = array.dtype.kind in "OUT"
    data = json.dumps(array.tolist()).encode() if texts else array.tobytes()
    kind = "text" if texts else array.dtype.str
    return f"{kind} {array.shape} {hashlib.sha256(data).hexdigest()[:16]}"
