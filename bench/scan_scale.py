"""Opening very many small files as one dataset: one by one, in processes, in a cluster.

CPU of a cluster's workers is not counted, as they don't end with the work; "client ms" is what this
process spent, by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bench import inputs, peers
from bench.harness import Answer, Contender, Run
from bench.scale import FULL, LEAST, QUICK, Scale
from bench.session import Session
from bench.tables import Table

SIZES = {FULL: (10_000, 400), QUICK: (1_000, 60), LEAST: (6, 3)}
"""Files for Intarsia, and for the others, by scale."""

TEMPLATES = 8
"""Files that are written; the others are copies with other times."""

FACTS = {"client": ("client ms/file", ".2f"), "sent": ("B/file sent", ",.0f")}

ALONE = "Intarsia, one by one"
OWN = "Intarsia, own processes"
CLUSTER = "Intarsia, dask.distributed"
THEIRS = "VirtualiZarr, one by one"


class Open(Run):
    """Opens the files.

    Parameters
    ----------
    make
        Gives a function that opens them, and one that ends what it needs.
    paths
        The files.
    """

    def __init__(
        self,
        make: Callable[[], tuple[Callable[[Sequence[str]], Any], Callable[[], None]]],
        paths: Sequence[str],
    ) -> None:
        self.open, self.close = make()
        self.paths = paths
        self.open(paths[:2])  # everything that is made on first use

    def __call__(self, number: int) -> Answer:
        from intarsia.xarray.batches import observe

        with observe() as sent:
            began = time.process_time()
            dataset = self.open(self.paths)
            spent = time.process_time() - began
        assert dataset.sizes["time"] == len(self.paths) * inputs.STEPS
        facts = {"client": 1000 * spent / len(self.paths)}
        if sent.files:
            assert sent.files == len(self.paths)
            facts["sent"] = sent.per_file
        return Answer(len(self.paths), None, facts)

    def finish(self) -> dict[str, float]:
        """End what was started."""
        self.close()
        return {}


def _nothing() -> None:
    """There is nothing to end."""


def _by_intarsia(parallel: Any) -> Callable[[Sequence[str]], Any]:
    from intarsia import open_mfdataset

    return lambda paths: open_mfdataset(
        list(paths), combine="nested", concat_dim="time", parallel=parallel
    )


def one_by_one() -> tuple[Callable[[Sequence[str]], Any], Callable[[], None]]:
    return _by_intarsia(None), _nothing


def own_processes() -> tuple[Callable[[Sequence[str]], Any], Callable[[], None]]:
    return _by_intarsia(True), _nothing


def cluster() -> tuple[Callable[[Sequence[str]], Any], Callable[[], None]]:
    from dask.distributed import Client, LocalCluster

    from intarsia.xarray.processes import cores

    workers = LocalCluster(n_workers=cores(), threads_per_worker=1, dashboard_address=":0")
    client = Client(workers)

    def close() -> None:
        client.close()
        workers.close()

    return _by_intarsia(client), close


class Processes(ProcessPoolExecutor):
    """As many processes as there are processors, not forked: clients of object stores hang then."""

    def __init__(self) -> None:
        super().__init__(mp_context=get_context("spawn"))


def by_virtualizarr(parallel: Any) -> tuple[Callable[[Sequence[str]], Any], Callable[[], None]]:
    from virtualizarr import open_virtual_mfdataset
    from virtualizarr.parsers import HDFParser

    registry = peers.registry()

    def opened(paths: Sequence[str]) -> Any:
        return open_virtual_mfdataset(
            [f"file://{path}" for path in paths],
            registry=registry,
            parser=HDFParser(),
            combine="nested",
            concat_dim="time",
            compat="override",
            coords="minimal",
            data_vars="minimal",
            combine_attrs="override",
            loadable_variables=["time", "lat", "lon"],
            parallel=parallel,
        )

    return opened, _nothing


def virtualizarr_alone() -> tuple[Callable[[Sequence[str]], Any], Callable[[], None]]:
    return by_virtualizarr(False)


def virtualizarr_processes() -> tuple[Callable[[Sequence[str]], Any], Callable[[], None]]:
    return by_virtualizarr(Processes)


def files(folder: Path, count: int) -> str:
    """Files that follow each other in time; chunks lie elsewhere in each of the templates."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(4)
    model = folder / "model"
    models: list[bytes] = []
    for _ in range(min(TEMPLATES, count)):
        inputs.small_file(model, 0, (4, 6), rng)
        models.append(model.read_bytes())
    model.unlink()
    old = np.arange(float(inputs.STEPS)).tobytes()
    for number in range(count):
        times = np.arange(float(inputs.STEPS)) + inputs.STEPS * number
        data = models[number % len(models)].replace(old, times.tobytes())
        (folder / f"{number:05d}.nc").write_bytes(data)
    return str(folder)


def run(session: Session, scale: Scale) -> list[Table]:
    """Intarsia with all files, others with some."""
    count, few = SIZES[scale]
    folder = session.once(f"many-{count}", lambda path: files(path, count))
    paths = [f"{folder}/{number:05d}.nc" for number in range(count)]
    needs = peers.NEEDS["virtualizarr"]
    contenders = [
        Contender(ALONE, Open, (one_by_one, paths), 1),
        Contender(OWN, Open, (own_processes, paths), 1),
        Contender(CLUSTER, Open, (cluster, paths), 1, ("distributed",)),
        Contender(THEIRS, Open, (virtualizarr_alone, paths[:few]), 1, needs),
        Contender("VirtualiZarr, processes", Open, (virtualizarr_processes, paths[:few]), 1, needs),
    ]
    if scale is LEAST:  # tests should not have to start so many processes
        contenders = contenders[:2]
    table = session.table(
        f"Opening {count:,} small files of 13 variables as one dataset (others: {few})",
        "file",
        contenders,
        1,
    )
    table.facts = FACTS
    for name in (OWN, CLUSTER):
        found = table[name]
        alone = table[ALONE]
        if found is None or alone is None or scale is LEAST:  # few files have nothing in common
            continue
        table.at_most(f"{name}: under 2,000 bytes per file", found.facts["sent"], 2000)
        spent = found.facts["client"] / alone.facts["client"]
        table.at_most(f"{name}: the client spends a fifth of scanning at most", spent, 0.2)
    return [table]
