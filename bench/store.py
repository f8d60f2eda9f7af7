"""Saved references: writing them, opening them for one value, and reading them with zarr-python."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import h5py
import numpy as np
import xarray as xr

from bench import inputs, peers
from bench.harness import Answer, Contender, Run
from bench.scale import Scale
from bench.session import Session
from bench.tables import Table

CHUNKS = 250
"""Chunks in each file of the series."""

DIMS = ("time", "y", "x")


def series(folder: Path, count: int) -> str:
    """Files of one variable each, whose chunks are of different lengths."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(5)
    for number in range(count):
        steps = rng.integers(-2, 3, (CHUNKS, 8, 8), dtype=np.int16)
        with h5py.File(folder / f"{number:05d}.nc", "w", libver="latest") as file:
            variable = file.create_dataset(
                "v", data=np.cumsum(steps, axis=0, dtype=np.int16), chunks=(1, 8, 8),
                shuffle=True, compression=1,
            )  # fmt: skip
            variable.attrs["units"] = "K"
            for dim in DIMS:
                variable.dims[DIMS.index(dim)].label = dim
    return str(folder)


def files_of(folder: str) -> list[str]:
    """The files, in order."""
    return sorted(str(path) for path in Path(folder).glob("*.nc"))


def scanned(folder: str) -> xr.Dataset:
    """All files as one virtual dataset of Intarsia's."""
    from intarsia import open_mfdataset

    combined = open_mfdataset(files_of(folder), combine="nested", concat_dim="phony_dim_0")
    return combined.rename(dict(zip(combined["v"].dims, DIMS, strict=True)))


def manifest(folder: str) -> xr.Dataset:
    """The same as a virtual dataset of VirtualiZarr's; its manifest is made without a scan."""
    from virtualizarr.manifests import ChunkManifest, ManifestArray
    from virtualizarr.parsers import HDFParser

    files = files_of(folder)
    store = HDFParser()(url=f"file://{files[0]}", registry=peers.registry())
    first = store._group.arrays["v"]
    paths = np.empty((len(files) * CHUNKS, 1, 1), np.dtypes.StringDType())
    offsets = np.empty(paths.shape, np.uint64)
    lengths = np.empty(paths.shape, np.uint64)
    for number, path in enumerate(files):
        rows = slice(number * CHUNKS, (number + 1) * CHUNKS)
        with h5py.File(path) as file:
            found: list[Any] = []
            file["v"].id.chunk_iter(found.append)
        found.sort(key=lambda info: info.chunk_offset)
        paths[rows] = f"file://{path}"
        offsets[rows, 0, 0] = [info.byte_offset for info in found]
        lengths[rows, 0, 0] = [info.size for info in found]
    from virtualizarr.manifests.utils import copy_and_replace_metadata

    metadata = copy_and_replace_metadata(
        first.metadata, new_shape=[len(paths), 8, 8], new_dimension_names=DIMS
    )
    chunks = ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=lengths)
    return xr.Dataset({"v": (DIMS, ManifestArray(metadata, chunks), {"units": "K"})})


def size_of(path: str) -> int:
    """Bytes of a file or of all files in a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    )


# -- each way: make ready, save into an empty folder, open what was saved --------------------------


def save_intarsia(dataset: xr.Dataset, place: str) -> None:
    dataset.intarsia.save(f"{place}/s.intarsia")


def open_intarsia(place: str) -> xr.Dataset:
    from intarsia import open_dataset

    return open_dataset(f"{place}/s.intarsia")


def save_kerchunk_json(dataset: xr.Dataset, place: str) -> None:
    dataset.vz.to_kerchunk(f"{place}/refs.json", format="json")


def open_kerchunk_json(place: str) -> xr.Dataset:
    return _open_kerchunk(f"{place}/refs.json")


def save_kerchunk(dataset: xr.Dataset, place: str) -> None:
    dataset.vz.to_kerchunk(f"{place}/refs.parquet", format="parquet", record_size=10_000)


def open_kerchunk(place: str) -> xr.Dataset:
    return _open_kerchunk(f"{place}/refs.parquet")


def _open_kerchunk(path: str) -> xr.Dataset:
    from kerchunk.utils import refs_as_store

    return xr.open_zarr(refs_as_store(path), consolidated=False, zarr_format=2, chunks=None)


def save_icechunk(dataset: xr.Dataset, place: str) -> None:
    session = _repository(place, new=True).writable_session("main")
    dataset.vz.to_icechunk(session.store)
    session.commit("references")


def open_icechunk(place: str) -> xr.Dataset:
    store = _repository(place, new=False).readonly_session("main").store
    return xr.open_zarr(store, consolidated=False, zarr_format=3, chunks=None)


def _repository(place: str, *, new: bool) -> Any:
    import icechunk as ice

    ice.set_logs_filter("error")
    prefix = f"file://{Path(place).parent}/"
    configuration = ice.RepositoryConfig.default()
    store = ice.local_filesystem_store(prefix.removeprefix("file://"))
    configuration.set_virtual_chunk_container(ice.VirtualChunkContainer(prefix, store))
    make = ice.Repository.create if new else ice.Repository.open
    return make(
        ice.local_filesystem_storage(f"{place}/ice"),
        configuration,
        authorize_virtual_chunk_access={prefix: ice.Credentials.LocalFileSystemAccess()},
    )


type Ready = Callable[[str], xr.Dataset]
type Save = Callable[[xr.Dataset, str], None]
type Open = Callable[[str], xr.Dataset]

WAYS: dict[str, tuple[str, Ready, Save, Open]] = {
    "Intarsia": ("", scanned, save_intarsia, open_intarsia),
    "VirtualiZarr, Icechunk": ("icechunk", manifest, save_icechunk, open_icechunk),
    "VirtualiZarr, kerchunk Parquet": ("kerchunk", manifest, save_kerchunk, open_kerchunk),
    "VirtualiZarr, kerchunk JSON": (
        "kerchunk", manifest, save_kerchunk_json, open_kerchunk_json,
    ),
}  # fmt: skip


class Saving(Run):
    """Saves the references, each time into a folder of its own."""

    def __init__(self, name: str, folder: str, units: int) -> None:
        _, ready, self.save, _ = WAYS[name]
        self.dataset, self.folder, self.units = ready(folder), folder, units
        self.size = 0
        self(0)  # everything that is made on first use

    def __call__(self, number: int) -> Answer:
        place = mkdtemp(dir=self.folder, prefix="saved-")
        self.save(self.dataset, place)
        self.size = size_of(place)
        shutil.rmtree(place)
        return Answer(self.units)

    def finish(self) -> dict[str, float]:
        return {"bytes": self.size / self.units}


class Opening(Run):
    """Opens what was saved and takes one value, of another chunk in each round."""

    def __init__(self, name: str, folder: str, units: int) -> None:
        _, ready, save, self.open = WAYS[name]
        self.place = mkdtemp(dir=folder, prefix="saved-")
        save(ready(folder), self.place)
        self.units = units
        self(0)

    def __call__(self, number: int) -> Answer:
        dataset = self.open(self.place)
        value = dataset["v"].isel(time=(number * 7919) % self.units, y=3, x=4).values
        dataset.close()
        return Answer(1, value.astype("i2"))  # Zarr v2's fill value makes xarray decode floats


# -- zarr-python -----------------------------------------------------------------------------------


def array_of_intarsia(path: str, folder: str) -> Any:
    import zarr

    from intarsia import open_dataset, open_store

    store = f"{mkdtemp(dir=folder)}/s.intarsia"
    open_dataset(path).intarsia.save(store)
    return zarr.open_group(open_store(store), mode="r")["v"]


def array_of_manifest(path: str, folder: str) -> Any:
    import zarr
    from virtualizarr.parsers import HDFParser

    store = HDFParser()(url=f"file://{path}", registry=peers.registry())
    return zarr.open_group(store, mode="r", zarr_format=3)["v"]


class Zarr(Run):
    """Reads the first chunks of an array through zarr-python.

    Parameters
    ----------
    make
        Gives the array.
    path, folder
        The file, and a place for what is written.
    units
        Chunks to read.
    tuned
        Whether with the settings that are fastest, or as zarr-python comes.
    """

    def __init__(
        self, make: Callable[[str, str], Any], path: str, folder: str, units: int, tuned: bool
    ) -> None:
        self.units, self.tuned = units, tuned
        with peers.settings(tuned):
            self.array = make(path, folder)
            self.array[:1]

    def __call__(self, number: int) -> Answer:
        with peers.settings(self.tuned):
            return Answer(self.units, np.asarray(self.array[: self.units]))


def run(session: Session, scale: Scale) -> list[Table]:
    """Saving, opening, and the Zarr view."""
    count = scale.saved
    folder = session.once("series", lambda path: series(path, count))
    units = count * CHUNKS
    saving = session.table(
        f"Saving {units:,} references to {count} files",
        "reference",
        [
            Contender(
                name, Saving, (name, folder, units), scale.slow_rounds, peers.NEEDS.get(way[0], ())
            )
            for name, way in WAYS.items()
        ],
        scale.rounds,
    )
    saving.facts["bytes"] = ("B/reference", ".2f")
    saving.at_most(
        "not more CPU than Icechunk", saving.ratio("Intarsia", "VirtualiZarr, Icechunk"), 1
    )
    opening = session.table(
        f"Opening {units:,} saved references, and one value",
        "value",
        [
            Contender(
                name, Opening, (name, folder, units), scale.rounds, peers.NEEDS.get(way[0], ())
            )
            for name, way in WAYS.items()
        ],
        scale.rounds,
    )
    opening.at_most(
        "not more CPU than Icechunk", opening.ratio("Intarsia", "VirtualiZarr, Icechunk"), 1
    )
    few = scale.few_chunks
    path = session.once("tiny.nc", lambda p: inputs.cube(p, scale.tiny_chunks, inputs.TINY))
    contenders = [
        Contender(name, Zarr, (make, path, folder, few, tuned), scale.slow_rounds, needs)
        for name, make, tuned, needs in (
            ("Intarsia open_store", array_of_intarsia, False, ()),
            ("Intarsia open_store, tuned", array_of_intarsia, True, ()),
            ("VirtualiZarr ManifestStore", array_of_manifest, False, peers.NEEDS["virtualizarr"]),
            ("VirtualiZarr, tuned", array_of_manifest, True, peers.NEEDS["virtualizarr"]),
        )
    ]
    chunks = session.table(
        f"zarr-python: {few:,} chunks of 512 B", "chunk", contenders, scale.rounds
    )
    chunks.at_most(
        "not more CPU than VirtualiZarr's ManifestStore",
        chunks.ratio("Intarsia open_store", "VirtualiZarr ManifestStore"),
        1,
    )
    return [saving, opening, chunks]
