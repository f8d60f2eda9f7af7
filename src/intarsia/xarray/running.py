"""Opening many files: here, or in batches in other processes, and what to do where those die."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, cast
from uuid import uuid4

import xarray as xr

from intarsia.array import VirtualArray
from intarsia.errors import CorruptFile, IntarsiaError, MissingPackage, SourceUnreadable
from intarsia.io.ahead import ahead
from intarsia.io.held import holding
from intarsia.xarray.batches import Batch, count, pack
from intarsia.xarray.batches_unpacking import Unpacker
from intarsia.xarray.internals import data_of, variables_of
from intarsia.xarray.processes import WorkerDied, Workers, cores

__all__ = ["opened_all", "workers_of"]

type Opener = Callable[[str], xr.Dataset]
type Result = xr.Dataset | IntarsiaError

MOST = 64
"""Files in a batch at most."""

HERE = 32
"""Files that are opened here before what they have in common is sought."""

ALONE = 128
"""So many files share it; fewer are left as they are."""

FIRST = 2
"""Files in a batch, as long as it is not known how long they take."""

SECONDS = 1.0
"""What a batch should take."""

SHOWN = 5
"""Files that a message names; the others are named in a note."""


def workers_of(parallel: Any, executor: Executor | None) -> AbstractContextManager[Executor | None]:
    """The executor that is asked for, as a context that ends what was started for it.

    Parameters
    ----------
    parallel
        As for `open_mfdataset`.
    executor
        The caller's own, which is left alone.
    """
    if executor is not None and parallel not in (None, False):
        raise TypeError("pass parallel= or executor=, not both")
    if executor is not None:
        if not hasattr(executor, "submit"):
            raise TypeError(f"executor must be a concurrent.futures.Executor, got {executor!r}")
        return nullcontext(executor)
    if parallel is None or parallel is False:
        return nullcontext()
    if parallel is True:
        return Workers(cores())
    if isinstance(parallel, int):
        if parallel < 1:
            raise ValueError(f"parallel must be at least 1, got {parallel}")
        return Workers(parallel)
    if isinstance(parallel, str):
        if parallel != "dask":
            raise ValueError(f"parallel must be True, a number or 'dask', got {parallel!r}")
        parallel = _current_client()
    if isinstance(parallel, type) and issubclass(parallel, Executor):
        return parallel()
    if isinstance(parallel, Executor):
        return nullcontext(parallel)
    of_client: Any = getattr(cast("Any", parallel), "get_executor", None)
    if of_client is not None:  # a Client of dask.distributed
        return nullcontext(of_client())
    raise TypeError(
        "parallel must be True, a number of processes, 'dask', a dask.distributed.Client or an "
        f"executor, got {parallel!r}"
    )


def _current_client() -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingPackage(
            "parallel='dask' needs dask.distributed, which is not installed",
            remedy="pip install 'intarsia[dask]'",
        ) from error
    try:
        return cast("Any", Client).current()
    except ValueError as error:
        raise ValueError(
            "parallel='dask' needs a cluster, and there is none: make a dask.distributed.Client "
            "first, or pass parallel=True for processes of this machine"
        ) from error


def opened_all(
    paths: Sequence[str],
    open_one: Opener,
    executor: Executor | None,
    *,
    shared: bool,
    stop: bool,
) -> Generator[Result]:
    """Open files, in their order; a dataset or an error for each.

    No more than a few batches are under way or waiting to be taken at a time. Closing the generator
    cancels those that have not begun.

    Parameters
    ----------
    paths
        The files.
    open_one
        Opens one; picklable, where `executor` has processes.
    executor
        Where to open them; None for here.
    shared
        Whether datasets may share attributes and loaded values (see `Unpacker`).
    stop
        Whether nothing is wanted after an error.
    """
    if executor is None:
        return _opened_here(paths, open_one, shared, stop)
    if isinstance(executor, ThreadPoolExecutor):
        return _Elsewhere(executor, open_one, None, stop).results(paths)
    return _Elsewhere(executor, open_one, Unpacker(shared=shared), stop).results(paths)


def _opened_here(
    paths: Sequence[str], open_one: Opener, shared: bool, stop: bool
) -> Generator[Result]:
    with ahead(paths):
        if len(paths) < ALONE:
            for path in paths:
                yield _attempt(open_one, path)
            return
        # so many datasets had better share what they can
        unpacker = Unpacker(shared=shared)
        for begin in range(0, len(paths), HERE):
            part = paths[begin : begin + HERE]
            yield from _sharing(part, _attempts(open_one, part, stop), unpacker)


def _sharing(paths: Sequence[str], results: list[Result], unpacker: Unpacker) -> Sequence[Result]:
    """Datasets that share what they can, where all of them can be packed."""
    if any(isinstance(result, xr.Dataset) and holds_store(result) for result in results):
        return results
    try:
        batch = pack(paths[: len(results)], results)
    except (pickle.PicklingError, TypeError, AttributeError):
        return results  # something that only this process has
    if batch.unpacked:
        return results
    packed = unpacker.unpack(batch, paths[: len(results)])
    # an error stays as it is, with all that led to it
    both = zip(results, packed, strict=True)
    return [new if isinstance(new, xr.Dataset) else old for old, new in both]


def holds_store(dataset: xr.Dataset) -> bool:
    """Whether sources are reached by an object store of the caller's, which is one of a kind."""
    for variable in variables_of(dataset).values():
        data = data_of(variable)
        if isinstance(data, VirtualArray):
            accesses = data.segments.sources.accesses or ()
            return any(access is not None and access.store is not None for access in accesses)
    return False


def opened_batch(open_one: Opener, paths: Sequence[str], stop: bool, call: str = "") -> Batch:
    """Open some files in a process.

    Parameters
    ----------
    open_one, paths
        What to do.
    stop
        Whether to leave off after an error.
    call
        Anything: some executors (dask's) give the result of an equal call again, also for a
        changed file.
    """
    began = time.perf_counter()
    results = opened_list(open_one, paths, stop)
    done = paths[: len(results)]
    batch = pack(done, results)
    return replace(batch, seconds=time.perf_counter() - began)


def opened_list(open_one: Opener, paths: Sequence[str], stop: bool, call: str = "") -> list[Result]:
    """Open some files in a thread: as `opened_batch`, but nothing needs to be packed."""
    with ahead(paths):
        return _attempts(open_one, paths, stop)


def _attempts(open_one: Opener, paths: Sequence[str], stop: bool) -> list[Result]:
    results: list[Result] = []
    for path in paths:
        results.append(_attempt(open_one, path))
        if stop and isinstance(results[-1], IntarsiaError):
            break
    return results


def _attempt(open_one: Opener, path: str) -> Result:
    """Open a file, or return the error that says why it can't be: it may cross processes."""
    try:
        with holding():
            return open_one(path)
    except IntarsiaError as error:
        return error
    except Exception as error:
        error.add_note(f"while {path} was opened")
        raise


class _Task(NamedTuple):
    """Files under way, and what will come of them."""

    paths: Sequence[str]
    future: Future[Any]


class _Elsewhere:
    """Opens files in an executor."""

    def __init__(
        self, executor: Executor, open_one: Opener, unpacker: Unpacker | None, stop: bool
    ) -> None:
        self._executor = executor
        self._open_one = open_one
        self._unpacker = unpacker
        self._stop = stop
        self._workers = _workers_in(executor)
        self._size = FIRST
        self._per_file = SECONDS  # the least so far: the first files pay for imports
        self._waiting: deque[_Task] = deque()

    def results(self, paths: Sequence[str]) -> Generator[Result]:
        """Results of files in their order."""
        place = 0
        waiting = self._waiting
        try:
            while place < len(paths) or waiting:
                while place < len(paths) and len(waiting) < 2 * self._workers + 1:
                    # the last batches are small, so that no worker is waited for long
                    left = len(paths) - place
                    size = max(min(self._size, -(-left // (2 * self._workers))), 1)
                    part = paths[place : place + size]
                    waiting.append(_Task(part, self._submitted(part)))
                    place += size
                task = waiting.popleft()
                try:
                    answer = task.future.result()
                except Exception as error:  # noqa: BLE001  raised again where it is of no use
                    yield from self._after(error, task)
                else:
                    yield from self._taken(task.paths, answer)
        finally:
            for task in waiting:
                task.future.cancel()

    def _submitted(self, paths: Sequence[str]) -> Future[Any]:
        work: Any = opened_list if self._unpacker is None else opened_batch
        try:
            return self._executor.submit(work, self._open_one, list(paths), self._stop, uuid4().hex)
        except BrokenExecutor as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def _taken(self, paths: Sequence[str], answer: Any) -> list[Result]:
        if self._unpacker is None:
            return answer
        batch: Batch = answer
        count(batch, len(self._waiting) + 1)
        self._per_file = min(self._per_file, batch.seconds / max(batch.count, 1))
        self._size = max(min(MOST, 4 * self._size, int(SECONDS / max(self._per_file, 1e-4))), 1)
        return self._unpacker.unpack(batch, paths[: batch.count])

    # -- where something died ------------------------------------------------------------------

    def _after(self, error: Exception, task: _Task) -> Iterator[Result]:
        """What is left to do after a batch was lost."""
        if isinstance(error, WorkerDied):
            # each process has one task at a time: of single files, it is known which one
            again = [_Task([path], self._submitted([path])) for path in task.paths]
            try:
                for one in again:
                    yield from self._alone(one)
            finally:
                for one in again:
                    one.future.cancel()
        elif _is_killed_worker(error):
            # tasks that wait in a worker that dies are suspects as well: nothing else may be there
            wait([other.future for other in self._waiting])
            for path in task.paths:
                yield from self._alone(_Task([path], self._submitted([path])))
        elif isinstance(error, BrokenExecutor):
            raise self._broken(error, task) from error
        else:
            raise error

    def _alone(self, task: _Task) -> list[Result]:
        (path,) = task.paths
        try:
            return self._taken(task.paths, task.future.result())
        except WorkerDied as error:
            if error.crashed:
                return [CorruptFile(f"reading it ended the process, {error}", url=path)]
            reason = f"the process that read it was ended, {error}"
            return [SourceUnreadable(reason, url=path, remedy="is there enough memory?")]
        except Exception as error:
            if not _is_killed_worker(error):
                raise
            reason = "reading it ended each of the cluster's processes that tried"
            return [CorruptFile(reason, url=path)]

    def _broken(self, error: BrokenExecutor, task: _Task) -> IntarsiaError:
        """What the executor was at when it broke; it takes tasks in their order."""
        lost = [other for other in self._waiting if other.future.done() and _failed(other.future)]
        under_way = [path for one in [task, *lost][: self._workers] for path in one.paths]
        shown = ", ".join(under_way[:SHOWN])
        more = f" and {len(under_way) - SHOWN} more" if len(under_way) > SHOWN else ""
        told = IntarsiaError(
            f"the executor broke ({str(error).rstrip('.') or type(error).__name__}) while it "
            f"opened {shown}{more}",
            remedy="pass parallel= instead, whose processes are started again, and which names "
            "the file",
        )
        if more:
            told.add_note("under way were:\n  " + "\n  ".join(under_way))
        return told


def _failed(future: Future[Any]) -> bool:
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)


def _is_killed_worker(error: Exception) -> bool:
    """Whether dask gave a task up because each worker that had it died."""
    kind = type(error)
    return kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed")


def _workers_in(executor: Any) -> int:
    """How many tasks an executor can do at a time."""
    count = getattr(executor, "count", None) or getattr(executor, "_max_workers", None)
    if isinstance(count, int):
        return max(count, 1)
    client: Any = getattr(executor, "_client", None)
    threads: Any = client.nthreads() if hasattr(client, "nthreads") else {}
    return max(sum(threads.values()), 1) if threads else cores()
