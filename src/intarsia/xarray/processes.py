"""Processes that open files, and may die of it: only the task at hand is lost, and told apart.

An executor as those of `concurrent.futures`, with two differences. Where a process dies (a library
that crashes on a broken file, a system that runs out of memory), the one task it had fails with
`WorkerDied`, which says how it died; all other tasks go on, with another process in its place. And
the processes don't import the caller's main module, so that a script or a notebook needs no
``if __name__ == "__main__"``.

Each process is served by a thread here, which writes tasks to its input and reads results from its
output.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import IO, Any

__all__ = ["WorkerDied", "Workers", "cores", "serve"]

_BOOT = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from intarsia.xarray.processes import serve; serve()"
)
"""What a process runs. It finds modules where this one does."""


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


class WorkerDied(Exception):
    """The process that had the task ended before the task did.

    Parameters
    ----------
    code
        As `subprocess.Popen.returncode`.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    @property
    def crashed(self) -> bool:
        """Whether it was ended by what it did itself, and not from outside."""
        outside = {getattr(signal, name, None) for name in ("SIGKILL", "SIGTERM", "SIGHUP")}
        return self.code not in {-each for each in outside if each is not None}

    def __str__(self) -> str:
        if self.code >= 0:
            return f"with exit code {self.code}"
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            name = str(-self.code)
        return f"with signal {name}"


class Workers(Executor):
    """So many processes.

    Parameters
    ----------
    count
        How many there are at most; each is started when there is something to do for it.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"there must be at least one process, got {count}")
        self.count = count
        self._tasks: SimpleQueue[tuple[Future[Any], bytes] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._servers: list[_Server] = []
        self._closed = False

    def submit[**P, T](self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a process call `fn`; what that takes and gives crosses as pickles."""
        future: Future[T] = Future()
        task = _dumped((fn, args, kwargs))
        with self._lock:
            if self._closed:
                raise RuntimeError("the processes are shut down")
            self._tasks.put((future, task))
            if len(self._servers) < self.count:
                server = _Server(self._tasks)
                self._servers.append(server)
                server.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: when all is done, or at once where `cancel_futures` is true."""
        with self._lock:
            self._closed = True
            servers = list(self._servers)
        if cancel_futures:
            while not self._tasks.empty():
                task = self._tasks.get()
                if task is not None:
                    task[0].cancel()
            for server in servers:
                server.kill()
        for _ in servers:
            self._tasks.put(None)
        if wait:
            for server in servers:
                server.join()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool | None:
        self.shutdown(cancel_futures=kind is not None)
        return None


class _Server(threading.Thread):
    """Serves one process, and starts another where that dies."""

    def __init__(self, tasks: SimpleQueue[tuple[Future[Any], bytes] | None]) -> None:
        super().__init__(name="intarsia-worker", daemon=True)
        self._tasks = tasks
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._killed = False

    def run(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, data = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                done, value = self._ask(data)
            except BaseException as error:  # noqa: BLE001  told to the one who waits
                future.set_exception(error)
            else:
                if done:
                    future.set_result(value)
                else:
                    future.set_exception(value)
            del task, future
        if self._process is not None:
            _end(self._process)

    def kill(self) -> None:
        """End the process now."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def _ask(self, data: bytes) -> tuple[bool, Any]:
        process = self._process or self._new_process()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, data)
            answer = _receive(process.stdout)
        except (OSError, EOFError):
            self._process = None
            _end(process)
            raise WorkerDied(process.returncode) from None
        return pickle.loads(answer)

    def _new_process(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._killed:
                raise RuntimeError("the processes are shut down")
            # in a session of its own: Ctrl-C is for the caller, who ends this process
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=os.name == "posix",
            )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps([os.path.abspath(path) for path in sys.path]))
            process.stdin.flush()
            _receive(process.stdout)
        except (OSError, EOFError):
            self._process = None
            _end(process)
            raise RuntimeError(
                f"a process could not start ({WorkerDied(process.returncode)}); its last words are "
                "in the standard error"
            ) from None
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close what leads to a process, which ends it, and wait for that."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        try:
            pipe.close()
        except OSError:
            continue  # what it had not read is lost with it
    process.wait()


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    head = pipe.read(8)
    size = int.from_bytes(head, "little")
    data = pipe.read(size) if len(head) == 8 else b""
    if len(head) < 8 or len(data) < size:
        raise EOFError
    return data


def _dumped(task: Any) -> bytes:
    """Pickle a task; what the main module defines goes by its content, if that can be done."""
    data = pickle.dumps(task, 5)
    if b"__main__" in data:
        try:
            import cloudpickle  # pyright: ignore[reportMissingTypeStubs]
        except ImportError:
            return data
        return cloudpickle.dumps(task, 5)  # pyright: ignore
    return data


def serve() -> None:
    """Do the tasks that come from the standard input, until it ends: what a process does."""
    tasks = sys.stdin.buffer
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get among the results
    _send(results, b"")  # to say that it began: what ends it from now on is a task
    while True:
        try:
            data = _receive(tasks)
        except EOFError:
            return
        try:
            fn, args, kwargs = pickle.loads(data)
            answer = pickle.dumps((True, fn(*args, **kwargs)), 5)
        except Exception as error:  # noqa: BLE001  told to the one who asked
            answer = _told(error)
        try:
            _send(results, answer)
        except BrokenPipeError:
            return  # nobody asks any more


def _told(error: Exception) -> bytes:
    """An error as a pickle, if it can be one."""
    try:
        answer = pickle.dumps((False, error), 5)
        pickle.loads(answer)
    except Exception:  # noqa: BLE001  anything may be wrong with a strange exception
        answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")), 5)
    return answer
