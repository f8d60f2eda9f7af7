"""Files behind a network: a server of this machine that takes 50 ms for each answer.

It runs in a process of its own, answers as many requests at once as it is asked, and counts them.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench import inputs, peers
from bench.harness import Answer, Contender, Run
from bench.scale import FULL, LEAST, QUICK, Scale
from bench.session import Session
from bench.tables import Table

LATENCY = 0.05
"""Seconds before an answer begins."""

SIZES = {FULL: (100, 100, 20), QUICK: (20, 100, 5), LEAST: (3, 20, 2)}
"""Files, chunks of each, and files that are scanned in a round, by scale."""

NEEDS = peers.NEEDS["virtualizarr"]

FACTS = {"requests": ("requests", ",.0f"), "megabytes": ("MB sent", ".2f")}


def run(session: Session, scale: Scale) -> list[Table]:
    """Read all of one variable of many files, then scan some of them."""
    count, chunks, some = SIZES[scale]
    folder = session.once(f"remote-{count}", lambda folder: _files(folder, count, chunks))
    paths = sorted(str(path) for path in Path(folder).glob("*.nc"))
    with serving(folder) as root:
        total = count * chunks
        reading = session.table(
            f"Behind 50 ms: {total:,} chunks of 512 B in {count} files",
            "chunk",
            [
                Contender("Intarsia", Load, ("intarsia", root, paths, total)),
                Contender(
                    "VirtualiZarr, tuned",
                    Load,
                    ("virtualizarr", root, paths, total),
                    scale.slow_rounds,
                    NEEDS,
                ),
            ],
            scale.rounds,
        )
        scanning = session.table(
            f"Behind 50 ms: scan {some} files of {chunks} chunks, one after the other",
            "file",
            [
                Contender("Intarsia", Scan, ("intarsia", root, paths[:some]), scale.slow_rounds),
                Contender(
                    "VirtualiZarr",
                    Scan,
                    ("virtualizarr", root, paths[:some]),
                    scale.slow_rounds,
                    NEEDS,
                ),
            ],
            scale.slow_rounds,
        )
    for table in (reading, scanning):
        table.facts = FACTS
    wall = reading.ratio("VirtualiZarr, tuned", "Intarsia", "wall")
    if scale is not LEAST:  # there, nearly all is the time that a first connection takes
        reading.at_least("VirtualiZarr takes at least 10 times the time", wall, 10)
    return [reading, scanning]


def _files(folder: Path, count: int, chunks: int) -> str:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        inputs.cube(folder / f"{number:03d}.nc", chunks, inputs.TINY, number)
    return str(folder)


class _Counted(Run):
    """What a contender has the server do, beside what it takes."""

    def __init__(self, root: str) -> None:
        self.root = root

    def told(self) -> dict[str, float]:
        """What the server sent since it was last asked."""
        with urlopen(self.root + "told") as answer:
            return json.load(answer)


class Load(_Counted):
    """Loads a variable of files that are open already.

    Parameters
    ----------
    who
        ``"intarsia"`` or ``"virtualizarr"``.
    root
        URL of the files.
    paths
        The same files on this machine.
    units
        Chunks that are loaded.
    """

    def __init__(self, who: str, root: str, paths: Sequence[str], units: int) -> None:
        super().__init__(root)
        self.units = units
        self.tuned = who == "virtualizarr"
        urls = [root + Path(path).name for path in paths]
        make: Callable[..., peers.Opener] = _manifest_store if self.tuned else _intarsia
        with peers.settings(self.tuned):
            self.open = make(urls, paths, root)
            self.open()["v"].isel(time=slice(-1, None)).compute()  # what is made on first use

    def __call__(self, number: int) -> Answer:
        self.told()
        with peers.settings(self.tuned):
            values = self.open()["v"].compute().values
        return Answer(self.units, values, self.told())


def _intarsia(urls: Sequence[str], paths: Sequence[str], root: str) -> peers.Opener:
    return peers.intarsia(urls)


def _manifest_store(urls: Sequence[str], paths: Sequence[str], root: str) -> peers.Opener:
    """Scanned on this machine, and then told where the files are: as good as scanned there."""
    local = peers.concatenated(paths, peers.registry())
    names = {f"file://{path}": url for path, url in zip(paths, urls, strict=True)}
    moved = local.vz.rename_paths(lambda path: names[path])
    store = peers.stored(moved, _registry(root))
    import xarray as xr

    return lambda: xr.open_zarr(store, consolidated=False, zarr_format=3, chunks=None)


def _registry(root: str) -> Any:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import HTTPStore

    store = HTTPStore(root, client_options={"allow_http": True})
    return ObjectStoreRegistry({root.rstrip("/"): store})


class Scan(_Counted):
    """Opens files, one after the other."""

    def __init__(self, who: str, root: str, paths: Sequence[str]) -> None:
        super().__init__(root)
        self.urls = [root + Path(path).name for path in paths]
        if who == "virtualizarr":
            from virtualizarr import open_virtual_dataset
            from virtualizarr.parsers import HDFParser

            access = _registry(root)
            self.open = lambda url: open_virtual_dataset(url, registry=access, parser=HDFParser())
        else:
            from intarsia import open_dataset

            self.open = open_dataset
        self.open(self.urls[-1])

    def __call__(self, number: int) -> Answer:
        self.told()
        opened = [self.open(url) for url in self.urls]
        shapes = {url: opened[n]["v"].shape for n, url in enumerate(self.urls)}
        return Answer(len(opened), shapes, self.told())


@contextmanager
def serving(folder: str) -> Generator[str]:
    """URL of a server of the files in a folder, with a slash at its end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, folder), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join(10)
        ours.close()


def _serve(pipe: Connection, folder: str) -> None:
    from tests.io.http_server import Answer as Response
    from tests.io.http_server import Request, Server, serve

    server = Server(LATENCY)
    for path in Path(folder).glob("*.nc"):
        server.put(path.name, path.read_bytes())
    sent = [0, 0]

    def count(request: Request, answer: Response) -> Response:
        if request.path == "/told":
            told = {"requests": sent[0], "megabytes": sent[1] / 1e6}
            sent[:] = 0, 0
            return Response(200, {}, json.dumps(told).encode(), delay=-LATENCY)
        sent[0] += 1
        sent[1] += len(answer.body)
        return answer

    server.fault = count
    asyncio.run(serve(server, lambda: pipe.send(server.url), asyncio.Event()))
