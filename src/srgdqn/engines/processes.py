"""Calls in processes of this machine: for environments, most of which hold Python's lock while they step.

The processes are our own rather than `multiprocessing`'s, which would run the user's main module in each, or loky's
(docs/architecture.md says why).
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Literal

import cloudpickle

from srgdqn.engines.executor import Executor, Function, Item, Lost, OnMessage, Outcome, packed
from srgdqn.interrupts import left_to_the_parent

Kind = Literal["message", "outcome", "error"]

_POLL_SECONDS = 0.1
_STOP = b""
_MAIN = "from srgdqn.engines.processes import serve; serve({})"


class Processes(Executor):
    """An executor of processes. One that dies costs the call it was at, whose outcome is `Lost`."""

    remote = True
    shares_disk = True

    def _run(
        self,
        function: Function[Item, Outcome],
        items: Sequence[Item],
        on_message: OnMessage[Item],
        stopping: Callable[[], bool],
    ) -> Iterator[tuple[Item, Outcome | Lost]]:
        call, waiting = packed(function), deque((item, packed(item)) for item in items)
        idle: list[_Worker] = []
        busy: dict[Connection, tuple[_Worker, Item]] = {}
        asked, failure = False, None
        with contextlib.ExitStack() as started:
            while waiting or busy:
                if not asked and (failure is not None or stopping()):
                    asked = True
                    waiting.clear()
                    for worker, _ in busy.values():
                        worker.send(_STOP)
                while waiting and len(busy) < self.cores:
                    item, data = waiting.popleft()
                    worker = idle.pop() if idle else started.enter_context(_started(call))
                    busy[worker.connection] = worker, item
                    worker.send(data)
                dead = [each for each, (worker, _) in busy.items() if worker.process.poll() is not None]
                for connection in {*wait(list(busy), _POLL_SECONDS), *dead}:
                    assert isinstance(connection, Connection)
                    worker, item = busy[connection]
                    kind, content = worker.receive()
                    if kind == "message":
                        try:
                            on_message(item, content)
                        except Exception as error:
                            failure = failure or error
                        continue
                    del busy[connection]
                    if kind == "error":
                        failure = failure or content
                    else:
                        if not isinstance(content, Lost):
                            idle.append(worker)
                        yield item, content
        if failure is not None:
            raise failure


class _Worker:
    """A process, and the connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self.process, self.connection = process, connection

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # it died, which is noticed when it is read from
            self.connection.send_bytes(data)

    def receive(self) -> tuple[Kind, Any]:
        """What it sent last; a `Lost` outcome if it is dead."""
        with contextlib.suppress(EOFError, OSError):
            if self.connection.poll():  # a process that it has forked may hold the connection open
                answer: tuple[Kind, Any] = cloudpickle.loads(self.connection.recv_bytes())
                return answer
        return "outcome", Lost(f"it ended with code {self.process.wait()}")


@contextlib.contextmanager
def _started(call: bytes) -> Iterator[_Worker]:
    """A worker that knows the function; it is killed in the end."""
    mine, other = Pipe()
    with mine, other:
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN.format(other.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what an environment prints must not mix with what a command prints
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            pass_fds=[other.fileno()],
            start_new_session=True,  # Ctrl-C is for the parent alone
        )
        other.close()
        worker = _Worker(process, mine)
        try:
            worker.send(call)
            yield worker
        finally:
            process.kill()
            process.wait()


def serve(handle: int) -> None:
    """The main program of a worker: calls the function that it receives first with every item that follows."""
    left_to_the_parent()
    connection, items, stop = Connection(handle), queue.SimpleQueue[bytes](), threading.Event()

    def send(kind: Kind, content: Any) -> None:
        connection.send_bytes(cloudpickle.dumps((kind, content)))

    call = connection.recv_bytes()
    threading.Thread(target=_receive, args=(connection, items, stop), daemon=True).start()
    try:
        function = cloudpickle.loads(call)
        while True:
            send("outcome", function(cloudpickle.loads(items.get()), stop, lambda message: send("message", message)))
    except BaseException as error:  # also an environment's attempt to end the process
        send("error", _sendable(error))


def _receive(connection: Connection, items: queue.SimpleQueue[bytes], stop: threading.Event) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            data = connection.recv_bytes()
            if data == _STOP:
                stop.set()
            else:
                items.put(data)
    os._exit(1)  # the parent is gone, and whoever resumes its run must not find this process writing


def _sendable(error: BaseException) -> Exception:
    """The error with its traceback; another in its place where it cannot be pickled, or would end the parent."""
    try:
        error.add_note("".join(traceback.format_exception(error)))
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
