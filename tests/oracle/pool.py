"""Processes that answer questions apart from the tests, and are replaced when a file kills them."""

from __future__ import annotations

import multiprocessing as mp
import queue
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import xarray as xr

from tests.oracle.answer import Question, answer


class OracleError(Exception):
    """The oracle raised; `kind` is the type's name, as the type itself may not travel."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class OracleCrashed(Exception):
    """The oracle's process died or did not answer in time."""


class OraclePool:
    """A few spawned processes, started when first needed and kept until closed.

    Parameters
    ----------
    workers
        Most processes at once. Several threads may ask at the same time.
    timeout
        Seconds until a process that does not answer is given up and replaced.
    """

    def __init__(self, workers: int = 1, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(None)

    def ask(self, question: Question) -> xr.Dataset:
        """The answer to `question`.

        Raises
        ------
        OracleError
            xarray raised.
        OracleCrashed
            The process died (the exit code is named) or took too long; the next question is
            answered by a new one.
        """
        worker = self._idle.get()
        if worker is None:
            worker = _Worker()
        try:
            kind, content = worker.ask(question, self._timeout)
        except BaseException:
            worker.stop()
            self._idle.put(None)
            raise
        self._idle.put(worker)
        if kind != "answer":
            raise OracleError(kind, content)
        return content

    def close(self) -> None:
        """End every process that is not answering."""
        waiting: list[_Worker | None] = []
        while not self._idle.empty():
            waiting.append(self._idle.get())
        for worker in waiting:
            if worker is not None:
                worker.stop()
            self._idle.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Worker:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, question: Question, timeout: float) -> tuple[str, Any]:
        try:
            self._pipe.send(question)
            if not self._pipe.poll(timeout):
                raise OracleCrashed(f"no answer within {timeout:g} s")
            return self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self._process.join(5)
            message = f"the oracle's process died with exit code {self._process.exitcode}"
            raise OracleCrashed(message) from error

    def stop(self) -> None:
        self._pipe.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join(5)
        self._process.close()


def _serve(pipe: Connection) -> None:
    """Answer questions until the pipe closes."""
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        try:
            reply: tuple[str, Any] = ("answer", answer(question))
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker hears of it
            reply = (type(error).__name__, str(error))
        pipe.send(reply)
