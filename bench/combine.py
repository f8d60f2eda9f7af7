"""Combining very many datasets that are already open, virtual ones and plain ones.

The datasets are those of one small file, really opened, each made anew from a pickle (as an
executor of processes would hand them over), with a source, times, parameters and references of its
own. The plain ones hold as many values in memory. No values are read.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from xarray.indexes import PandasIndex

from bench import inputs
from bench.harness import Answer, Contender, Run
from bench.scale import Scale
from bench.session import Session
from bench.tables import Table

SIZE = (4, 4)
"""Latitudes and longitudes of the small file: combining does not depend on them."""

XARRAYS: dict[str, Any] = {
    "combine_attrs": "override",
    "join": "outer",
    "compat": "no_conflicts",
    "data_vars": "all",
    "coords": "different",
}
"""What `xarray.open_mfdataset` combines with by default."""


def virtual_datasets(path: str, count: int) -> list[xr.Dataset]:
    """As if opened from `count` files."""
    from intarsia import open_dataset

    blob = pickle.dumps(open_dataset(path))
    rng = np.random.default_rng(2)
    return [_moved(pickle.loads(blob), number, rng) for number in range(count)]


def _moved(dataset: xr.Dataset, number: int, rng: np.random.Generator) -> xr.Dataset:
    from intarsia.array import VirtualArray
    from intarsia.encoding import Case
    from intarsia.references import References, Source, Sources

    source = Source("/data/", f"file-{number:06d}.nc", 100_000 + number, 10**18 + number)
    sources = Sources.of([source])
    changed: dict[Any, Any] = {}
    for name, variable in dataset.variables.items():
        array = variable._data
        if not isinstance(array, VirtualArray):
            continue
        segments = array.segments
        (case,), (page,) = segments.cases, segments.pages
        rows = case.rows.copy()
        rows["scale"] += (number % 7) * 0.001
        count = len(page.offsets)
        shift, more = rng.integers(0, 64, (2, count), np.uint64)
        page = References.dense(page.offsets + shift, page.lengths + more)
        segments = replace(
            segments, cases=(Case(case.encoding, rows),), pages=(page,), sources=sources
        )
        moved = VirtualArray(segments, array.dtype, array.name, array.notes)
        changed[name] = variable._replace(data=moved)
    dataset = dataset._replace(variables={**dataset._variables, **changed})
    dataset.encoding["source"] = source.url
    return _at(dataset, number)


def _at(dataset: xr.Dataset, number: int) -> xr.Dataset:
    """The dataset, later."""
    time = dataset.variables["time"]
    later = time.values + np.timedelta64(inputs.STEPS * number, "D")
    index = PandasIndex(later, "time")
    moved = index.create_variables({"time": time})  # with its attributes and encoding
    return dataset._replace(
        variables={**dataset._variables, **moved}, indexes={**dataset._indexes, "time": index}
    )


def plain_datasets(path: str, count: int) -> list[xr.Dataset]:
    """The same with values in memory, of as many datasets."""
    blob = pickle.dumps(xr.open_dataset(path, engine="h5netcdf").load())
    return [_at(pickle.loads(blob), number) for number in range(count)]


class Combine(Run):
    """Combines the datasets.

    Parameters
    ----------
    make
        Makes them.
    combine
        Combines them.
    path, count
        For `make`.
    """

    def __init__(
        self,
        make: Callable[[str, int], list[xr.Dataset]],
        combine: Callable[[list[xr.Dataset]], xr.Dataset],
        path: str,
        count: int,
    ) -> None:
        self.combine = combine
        combine(make(path, 2))  # everything that is made on first use
        gc.collect()
        self.before = held()
        self.datasets = make(path, count)
        self.count = count
        self.last: xr.Dataset | None = None

    def __call__(self, number: int) -> Answer:
        self.last = None
        self.last = self.combine(list(self.datasets))
        assert self.last.sizes["time"] == self.count * inputs.STEPS
        return Answer(self.count)

    def finish(self) -> dict[str, float]:
        """What the result holds, once the datasets that it was made of are gone."""
        self.datasets = []
        gc.collect()
        now = held()
        facts = {
            "objects": now[0] - self.before[0],
            "blocks": (now[1] - self.before[1]) / self.count,
        }
        assert self.last is not None
        return facts | columns(self.last, self.count)


def held() -> tuple[int, int]:
    """Objects that the garbage collector knows, and blocks of memory of Python objects."""
    return len(gc.get_objects()), sys.getallocatedblocks()


def columns(dataset: xr.Dataset, count: int) -> dict[str, float]:
    """Bytes per reference of the columns, the parameters and the table of sources."""
    from intarsia.array import VirtualArray

    arrays = [v._data for v in dataset.variables.values() if isinstance(v._data, VirtualArray)]
    if not arrays:
        return {}
    references = count * inputs.STEPS * inputs.DATA_VARIABLES
    sources = {id(array.segments.sources): array.segments.sources for array in arrays}
    return {
        "columns": sum(array.segments.nbytes for array in arrays) / references,
        "parameters": sum(array.segments.parameter_nbytes for array in arrays) / references,
        "sources": sum(table.nbytes for table in sources.values()) / references,
    }


def by_intarsia(datasets: list[xr.Dataset]) -> xr.Dataset:
    """What `open_mfdataset` does once the files are open."""
    from intarsia.xarray import combining
    from intarsia.xarray.pile import Pile
    from intarsia.xarray.tidying import tidied

    paths = [dataset.encoding["source"] for dataset in datasets]
    pile = Pile(paths, [(number,) for number in range(len(paths))], datasets, [])
    asked = combining._resolve(
        "nested", "time", None, None, None, None, "override", "raise", None, None
    )
    decision = combining._decide(pile, asked)
    decision.raise_if_refused()
    return tidied(combining._combine(pile, asked, decision), pile, decision)


def by_xarray(datasets: list[xr.Dataset]) -> xr.Dataset:
    """What `xarray.open_mfdataset` does once the files are open."""
    return xr.combine_nested(datasets, "time", **XARRAYS)


def by_concat(datasets: list[xr.Dataset]) -> xr.Dataset:
    """The cheapest that xarray has."""
    return xr.concat(
        datasets, "time", coords="minimal", data_vars="minimal", compat="override",
        join="override", combine_attrs="override",
    )  # fmt: skip


def run(session: Session, scale: Scale) -> list[Table]:
    """Intarsia's way, xarray's ways with values in memory, xarray's way with virtual datasets."""
    rng = np.random.default_rng(3)
    path = session.once("one.nc", lambda p: inputs.small_file(p, 0, SIZE, rng))
    count = scale.combined
    ways: list[tuple[str, Any, Any]] = [
        ("Intarsia open_mfdataset, after opening", virtual_datasets, by_intarsia),
        ("xarray open_mfdataset, in memory", plain_datasets, by_xarray),
        ("xarray concat, in memory", plain_datasets, by_concat),
        ("xarray concat, of Intarsia's datasets", virtual_datasets, by_concat),
    ]
    table = session.table(
        f"Combining {count:,} datasets of 13 variables, 50 chunks each",
        "dataset",
        [
            # xarray's slower ways once
            Contender(name, Combine, (make, way, path, count), 1 if number in (1, 3) else 1000)
            for number, (name, make, way) in enumerate(ways)
        ],
        scale.slow_rounds,
    )
    table.facts = {
        "columns": ("B/ref columns", ".1f"),
        "parameters": ("B/ref parameters", ".2f"),
        "sources": ("B/ref sources", ".2f"),
        "objects": ("objects held", ",.0f"),
    }
    mine = ways[0][0]
    for theirs in (ways[1][0], ways[2][0]):
        table.at_most(f"not more CPU than {theirs}", table.ratio(mine, theirs), 1)
    held_by = table[mine]
    if held_by is not None:
        facts = held_by.facts
        table.at_most("under 40 bytes per reference in columns", facts["columns"], 40)
        table.at_most(
            "no Python object per chunk or dataset: under 1,000 held", facts["objects"], 1000
        )
    return [table]
