"""Requests of forked processes, made by a fresh process of their own.

The client's threads do not survive a fork, nor can it start others: whoever uses it in a child of a
process that had used it waits for ever. Such a child therefore starts a helper, which imports all
anew, makes the requests, and ends with the child. They talk through a pair of sockets that no other
process has.
"""

from __future__ import annotations

import atexit
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from intarsia.errors import SourceUnreadable
from intarsia.io.remote_clients import Patience, patience
from intarsia.io.remote_pool import submit

__all__ = ["is_needed", "relayed"]

_state = {"running": False, "inherited": False}
_lock = threading.Lock()
_relays: dict[int, _Relay] = {}


def is_needed() -> bool:
    """Whether this process can't use the client itself."""
    return _state["inherited"]


def relayed(module: str, name: str, *arguments: Any) -> Any:
    """What a function of ours gives in the helper, whose errors are raised here.

    Parameters
    ----------
    module, name
        Of the function.
    arguments
        Picklable, as is the result.
    """
    with _lock:
        relay = _relays.get(os.getpid())
        if relay is None or relay.ended:
            relay = _relays[os.getpid()] = _Relay()
    return relay.call(module, name, arguments)


class _Relay:
    """The helper, seen from the process that it serves."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SCRIPT, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for those who asked
            )
        self.connection = Connection(ours.detach())
        self.lock = threading.Lock()
        self.numbers = count()
        self.waiting: dict[int, Future[Any]] = {}
        self.ended = False
        self.connection.send(patience)
        threading.Thread(target=self._listen, name="intarsia-relay", daemon=True).start()
        atexit.register(self._close)

    def call(self, module: str, name: str, arguments: tuple[Any, ...]) -> Any:
        future: Future[Any] = Future()
        try:
            with self.lock:
                number = next(self.numbers)
                self.waiting[number] = future
                if self.ended:
                    raise EOFError
                self.connection.send((number, module, name, arguments))
        except (EOFError, OSError):
            self._end()
        except (TypeError, AttributeError, ValueError, pickle.PicklingError) as error:
            raise SourceUnreadable(
                "this process was forked from one that had read from the network, and its store "
                f"can't be handed to another ({type(error).__name__})",
                remedy="start processes by 'spawn' or 'forkserver'",
            ) from None
        return future.result()

    def _listen(self) -> None:
        try:
            while True:
                number, is_right, result = self.connection.recv()
                with self.lock:
                    future = self.waiting.pop(number)
                if is_right:
                    future.set_result(result)
                else:
                    future.set_exception(result)
        except (EOFError, OSError):
            self._end()

    def _end(self) -> None:
        """Nobody answers any more."""
        with self.lock:
            self.ended = True
            waiting = list(self.waiting.values())
            self.waiting.clear()
        for future in waiting:
            future.set_exception(SourceUnreadable("the process that reads for this one ended"))

    def _close(self) -> None:
        with self.lock:
            self.ended = True
        # the helper ends when nobody can ask it any more; the listener holds the connection
        with socket.socket(fileno=os.dup(self.connection.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)
        self.process.wait(10)


_SCRIPT = "import sys; from intarsia.io.remote_relay import serve; serve(int(sys.argv[1]))"


def serve(descriptor: int) -> None:
    """Be the helper of the process at the other end, until it ends."""
    connection = Connection(descriptor)
    lock = threading.Lock()
    try:
        said: Patience = connection.recv()
        for name in Patience.__slots__:
            setattr(patience, name, getattr(said, name))
        while True:
            submit(partial(_answer, connection, lock, *connection.recv()))
    except (EOFError, OSError):
        os._exit(0)  # what is still under way is for nobody


def _answer(
    connection: Connection,
    lock: threading.Lock,
    number: int,
    module: str,
    name: str,
    arguments: tuple[Any, ...],
) -> None:
    try:
        function: Callable[..., Any] = getattr(import_module(module), name)
        answer = (number, True, function(*arguments))
    except Exception as error:  # noqa: BLE001 - raised by who asked
        answer = (number, False, error)
    with lock:
        connection.send(answer)


def _before_fork() -> None:
    _state["running"] = _state["inherited"] or _client_runs()


def _client_runs() -> bool:
    """Whether the client has threads, whoever used it."""
    if "obstore" not in sys.modules:
        return False
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        return True  # this system doesn't tell
    for task in tasks:
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="ascii", errors="replace") as file:
                if file.read().startswith("tokio"):
                    return True
        except OSError:
            continue  # it ended meanwhile
    return False


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _relays.clear()
    _state["inherited"] = _state["running"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
