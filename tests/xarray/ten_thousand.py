"""A pile of files opened in other processes, and what that took of this one.

Run as ``python -m tests.xarray.ten_thousand FOLDER KIND``: opens all that is in the folder, by
processes of its own or by a cluster's, saves the dataset beside it, and prints what was counted.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import intarsia
from intarsia.xarray.batches import observe
from intarsia.xarray.processes import cores

WARM = 300
"""Files that are opened before memory is looked at: imports, buffers of the network."""


@contextmanager
def own() -> Iterator[tuple[Any, int]]:
    yield True, cores()


@contextmanager
def cluster() -> Iterator[tuple[Any, int]]:
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        yield client, 2


KINDS = {"own": own, "cluster": cluster}


def peak() -> int:
    """Bytes of memory that this process has had at most."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the peak is not told here")


def main(folder: str, kind: str) -> None:
    paths = sorted(map(str, Path(folder).glob("*.nc")))
    told: dict[str, Any] = {"combine": "nested", "concat_dim": "time", "on_error": "skip"}
    with KINDS[kind]() as (parallel, workers):
        intarsia.open_mfdataset(paths[:WARM], parallel=parallel, **told)
        before = peak()
        with observe() as sent, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            ds = intarsia.open_mfdataset(paths, parallel=parallel, **told)
        grown = peak() - before
    ds.intarsia.save(f"{folder}.intarsia")
    found = {
        "workers": workers,
        "grown": grown,
        "files": sent.files,
        "errors": sent.errors,
        "pickled": sent.pickled,
        "per_file": sent.per_file,
        "waiting": sent.waiting,
        "warned": [str(one.message) for one in warned],
        "report": str(ds.intarsia.report()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
