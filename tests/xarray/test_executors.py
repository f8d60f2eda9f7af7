"""Opening files in other threads and processes: the same datasets, the same errors."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import intarsia
from intarsia import progress
from intarsia.array import VirtualArray
from intarsia.errors import CorruptFile, IntarsiaError, NotAFile, NotHDF5, SourceUnreadable
from intarsia.xarray import pile, processes
from intarsia.xarray.batches import observe
from intarsia.xarray.pile import open_pile
from intarsia.xarray.processes import WorkerDied, Workers
from tests.compare import assert_identical
from tests.test_progress import Terminal
from tests.xarray.many import many_files

NESTED = {"combine": "nested", "concat_dim": "time"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths: list[str] = []
    for number in range(4):
        days = xr.date_range(f"2021-0{number + 1}-01", periods=3 + number)
        values = np.arange(days.size * 4.0).reshape(-1, 4) + 100 * number
        ds = xr.Dataset({"v": (("time", "x"), values)}, {"time": days, "x": np.arange(4)})
        packing = {"dtype": "i2", "scale_factor": 0.5 + number, "_FillValue": -9}
        paths.append(str(tmp_path / f"{number}.nc"))
        ds.to_netcdf(paths[-1], engine="h5netcdf", encoding={"v": packing})
    return paths


@contextmanager
def distributed() -> Iterator[Executor]:
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        yield executor


MAKE: dict[str, Any] = {
    "own": lambda: Workers(1),
    "threads": lambda: ThreadPoolExecutor(2),
    "spawn": lambda: ProcessPoolExecutor(1, mp_context=get_context("spawn")),
    "forkserver": lambda: ProcessPoolExecutor(1, mp_context=get_context("forkserver")),
    "dask.distributed": distributed,
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", MAKE)
def test_files_are_opened_elsewhere(files: list[str], kind: str, tmp_path: Path) -> None:
    expected = xr.concat([xr.load_dataset(path, engine="h5netcdf") for path in files], "time")
    with MAKE[kind]() as executor:
        ds = intarsia.open_mfdataset(files, executor=executor, **NESTED)
        data = ds.v.variable._data
        assert isinstance(data, VirtualArray)
        assert [data.segments.sources.url(n) for n in range(4)] == files
        assert_identical(ds.load(), expected)
        bad = tmp_path / "bad.nc"
        bad.write_text("no HDF5")
        with pytest.raises(NotHDF5, match=r"bad\.nc"):
            intarsia.open_mfdataset([files[0], bad], executor=executor, **NESTED)
        bad.write_bytes(b"")
        some = intarsia.open_mfdataset([*files, bad], executor=executor, on_error="skip", **NESTED)
        assert_identical(some.load(), expected)
        with pytest.raises(NotAFile, match=r"bad\.nc"):
            intarsia.open_mfdataset([bad], executor=executor, on_error="skip", **NESTED)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_opens_and_computes(files: list[str]) -> None:
    from dask.distributed import Client, LocalCluster

    expected = xr.concat([xr.load_dataset(path, engine="h5netcdf") for path in files], "time")
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        ds = intarsia.open_mfdataset(files, executor=client.get_executor(), **NESTED)
        assert_identical(ds.chunk({"time": 2}).compute(), expected)
        assert float(ds.chunk().v.sum()) == float(expected.v.sum())


# -- parallel= ---------------------------------------------------------------------------------


def test_parallel_opens_the_same(files: list[str]) -> None:
    expected = xr.concat([xr.load_dataset(path, engine="h5netcdf") for path in files], "time")
    with observe() as sent:
        assert_identical(intarsia.open_mfdataset(files, parallel=2, **NESTED).load(), expected)
        assert intarsia.check(files, parallel=1, **NESTED).ok
    assert (sent.files, sent.errors, sent.pickled) == (8, 0, 0)
    for nothing in (None, False):
        found = intarsia.open_mfdataset(files, parallel=nothing, **NESTED)
        assert_identical(found.load(), expected)
    found = intarsia.open_mfdataset(files, parallel=ThreadPoolExecutor, **NESTED)
    assert_identical(found.load(), expected)


@pytest.mark.parametrize(
    ("parallel", "error", "told"),
    [
        (0, ValueError, "at least 1"),
        (-2, ValueError, "at least 1"),
        ("lithops", ValueError, "'dask'"),
        ("dask", ValueError, "make a dask.distributed.Client"),
        (2.5, TypeError, "number of processes"),
        (object(), TypeError, "number of processes"),
    ],
)
def test_what_parallel_can_not_be(
    files: list[str], parallel: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        intarsia.open_mfdataset(files, parallel=parallel, **NESTED)


def test_one_way_at_a_time(files: list[str]) -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(TypeError, match="not both"):
        intarsia.open_mfdataset(files, parallel=2, executor=executor, **NESTED)
    with pytest.raises(TypeError, match="executor must be"):
        intarsia.open_mfdataset(files, executor=3, **NESTED)


# -- files that are bad, and files that end the process ----------------------------------------


def deadly(path: str) -> xr.Dataset:
    """Opens files, but those whose name says that reading them ends the process."""
    name = os.path.basename(path)
    if name.startswith("signal"):
        os.kill(os.getpid(), int(name.partition("-")[2]))
    return intarsia.open_dataset(path)


def slow(path: str) -> xr.Dataset:
    time.sleep(60)
    return intarsia.open_dataset(path)


def failing(path: str) -> xr.Dataset:
    raise RuntimeError("a bug")


def opened(paths: list[str], policy: Any = "raise", open_one: Any = deadly, **where: Any) -> Any:
    where = {"executor": None} | where
    return open_pile(paths, open_one, {}, preprocess=None, policy=policy, **where)


SEGV, KILL = f"signal-{int(signal.SIGSEGV)}", f"signal-{int(signal.SIGKILL)}"


def test_a_file_that_ends_its_process_is_named(tmp_path: Path) -> None:
    files = many_files(tmp_path, 4, fields=1)
    crash, killed = str(tmp_path / SEGV), str(tmp_path / KILL)
    pile = opened([*files[:2], crash, *files[2:], killed], "skip", parallel=1)
    assert pile.paths == files
    told = dict(pile.skipped)
    assert list(told) == [crash, killed]
    assert isinstance(told[crash], CorruptFile)
    assert str(told[crash]) == f"reading it ended the process, with signal SIGSEGV: {crash}"
    assert isinstance(told[killed], SourceUnreadable)
    assert "memory" in str(told[killed])


def test_an_executor_that_breaks_says_what_it_did(tmp_path: Path) -> None:
    files = many_files(tmp_path, 12)
    crash = str(tmp_path / SEGV)
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as executor:
        with pytest.raises(IntarsiaError, match=r"the executor broke .* parallel=") as caught:
            opened([*files[:5], crash, *files[5:]], "skip", executor=executor)
        assert crash in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        # it stays broken
        with pytest.raises(IntarsiaError, match=r"the executor broke"):
            opened(files, executor=executor)


def test_errors_that_are_none_of_ours_name_the_file(files: list[str]) -> None:
    with pytest.raises(RuntimeError, match="a bug") as caught:
        opened(files, open_one=failing, parallel=1)
    assert caught.value.__notes__ == [f"while {files[0]} was opened"]


def once(path: str) -> xr.Dataset:
    """Opens files, but the process that has the third of them ends, the first time."""
    marker = Path(path + ".tried")
    if path.endswith("2.nc") and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return intarsia.open_dataset(path)


def test_what_a_process_had_when_it_died_is_tried_again(tmp_path: Path) -> None:
    files = many_files(tmp_path, 6, fields=1)
    found = opened(files, open_one=once, parallel=2)
    assert Path(files[2] + ".tried").exists()
    assert found.paths == files
    assert found.skipped == []
    for path, ds in zip(files, found.datasets, strict=True):
        assert_identical(ds, xr.load_dataset(path, engine="h5netcdf"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_tries_again_too(tmp_path: Path) -> None:
    from dask.distributed import Client, LocalCluster

    files = many_files(tmp_path, 6, fields=1)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        found = opened(files, open_one=once, parallel=client)
    assert Path(files[2] + ".tried").exists()
    assert found.paths == files


@pytest.mark.parametrize("parallel", [None, 1])
@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: Any, terminal: bool
) -> None:
    files = many_files(tmp_path, 5, fields=1)
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(pile, "track", partial(progress.track, delay=0.0))
    intarsia.open_mfdataset(files, parallel=parallel, **NESTED)
    drawn = screen.getvalue()
    assert ("scanning [" in drawn and "100 % of 5 files" in drawn) == terminal
    assert terminal or drawn == ""


@pytest.mark.slow
def test_a_file_that_ends_its_process_is_an_error(tmp_path: Path) -> None:
    crash = str(tmp_path / SEGV)
    with pytest.raises(CorruptFile, match="SIGSEGV: .*signal-11"):
        opened([crash], parallel=1)


@pytest.mark.slow
def test_a_bad_file_among_many_is_named(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 200)
    Path(paths[137]).write_bytes(Path(paths[137]).read_bytes()[:3000])
    with observe() as sent, pytest.raises(CorruptFile, match=r"00137\.nc"):
        opened(paths, parallel=2)
    assert sent.errors == 1
    assert 0 < sent.waiting <= 5  # twice as many as there are processes, and one
    pile = opened(paths, "skip", parallel=2)
    assert pile.paths == [*paths[:137], *paths[138:]]
    assert [path for path, _ in pile.skipped] == [paths[137]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_names_bad_files_and_what_kills_its_workers(tmp_path: Path) -> None:
    import dask
    from dask.distributed import Client, LocalCluster

    paths = many_files(tmp_path, 200)
    Path(paths[137]).write_bytes(Path(paths[137]).read_bytes()[:3000])
    crash = str(tmp_path / KILL)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        with observe() as sent, pytest.raises(CorruptFile, match=r"00137\.nc"):
            opened(paths, parallel=client)
        assert sent.errors == 1
        assert sent.waiting <= 5
        pile = opened([*paths[:40], crash, *paths[40:60]], "skip", parallel="dask")
        assert pile.paths == paths[:60]
        ((path, error),) = pile.skipped
        assert path == crash
        assert "reading it ended each of the cluster's processes" in str(error)


# -- how much is under way ---------------------------------------------------------------------


class Counting(Executor):
    """Does nothing before it is asked for a result, and remembers what it was given."""

    count = 3

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.most = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        class Late(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                if not self.done():
                    self.set_result(fn(*args, **kwargs))
                return super().result(timeout)

        self.futures.append(Late())
        self.most = max(self.most, sum(not future.done() for future in self.futures))
        return self.futures[-1]


def test_few_batches_are_under_way_and_none_is_left(tmp_path: Path) -> None:
    paths = many_files(tmp_path, 60)
    executor = Counting()
    assert opened(paths, executor=executor).paths == paths
    assert executor.most == 7
    Path(paths[1]).write_bytes(b"")
    executor = Counting()
    with pytest.raises(NotAFile):
        opened(paths, executor=executor)
    assert len(executor.futures) == 7
    assert [future.cancelled() for future in executor.futures] == [False, *[True] * 6]


def test_processes_are_gone_afterwards(tmp_path: Path) -> None:
    with Workers(2) as workers:
        first, second = workers.submit(os.getpid), workers.submit(pow, 2, 5)
        assert second.result() == 32
        number = first.result()
        with pytest.raises(ZeroDivisionError):
            workers.submit(divmod, 1, 0).result()
        with pytest.raises(WorkerDied, match="exit code 4"):
            workers.submit(os._exit, 4).result()
        assert workers.submit(pow, 2, 6).result() == 64
    assert gone(number)
    with pytest.raises(RuntimeError, match="shut down"):
        workers.submit(pow, 1, 1)


def test_processes_that_can_not_start_blame_no_file(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "_BOOT", "raise SystemExit('no such place')")
    with pytest.raises(RuntimeError, match=r"could not start \(with exit code 1\)"):
        opened(files, "skip", parallel=1)
    assert "no such place" in capfd.readouterr().err


def gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


INTERRUPTED = """
import sys
from tests.xarray.test_executors import opened, slow

def script(path):  # defined in the main module
    return slow(path)

print("begun", flush=True)
try:
    opened([f"/{n}.nc" for n in range(50)], open_one=script, parallel=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(INTERRUPTED)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py"], env=env, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "interrupted\n"
    assert time.monotonic() - began < 10
