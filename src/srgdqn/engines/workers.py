"""Rounds shared out among processes, as most environments hold Python's lock while they step.

The processes are our own rather than `multiprocessing`'s, which would run the user's main module once more in each.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable

import equinox as eqx
import jax

from srgdqn.adapters.failures import described
from srgdqn.config import Configuration
from srgdqn.engines.host_job import job_of
from srgdqn.engines.messages import packed, receive, send, send_packed
from srgdqn.errors import InputError
from srgdqn.learner.networks import NetworkFactory, make_network
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.training.host.task import HostTask
from srgdqn.training.host.train_round import RoundOutcome
from srgdqn.training.reports import RoundReport, SharedProgress

_JAX_OPTIONS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
_POLL_SECONDS = 0.1


def train_in_processes(
    configuration: Configuration,
    task: HostTask,
    user_network: eqx.Module | NetworkFactory | None,
    workers: int,
    shared: SharedProgress,
    stopping: Callable[[], bool],
    measure_noise: bool,
    manager: CheckpointManager | None = None,
) -> list[RoundOutcome]:
    """Trains every round in one of so many processes. One that dies costs the round it was at; the others go on with
    the rest, as long as there are any. Each keeps its own rounds, where `manager` says.
    """
    # What is wrong with a network is found here, once, rather than in every process.
    make_network(configuration.network, task.network_input, task.actions.count, user_network)
    job = _packed_job(configuration, task, user_network, measure_noise, manager)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(configuration.training.rounds):
        waiting.put(number)
    told: queue.SimpleQueue[RoundOutcome | None] = queue.SimpleQueue()  # None: a worker has nothing left to do
    processes = [_start() for _ in range(workers)]
    threads = [
        threading.Thread(target=_attend, args=(process, job, waiting, told, shared), daemon=True)
        for process in processes
    ]
    for thread in threads:
        thread.start()
    outcomes: list[RoundOutcome] = []
    at_work, asked = workers, False
    try:
        while at_work:
            if stopping() and not asked:
                asked = True
                _empty(waiting)
                for process in processes:
                    _tell_to_stop(process)
            try:
                outcome = told.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if outcome is None:
                at_work -= 1
            else:
                outcomes.append(outcome)
    except KeyboardInterrupt:  # a second one: whoever has not come to an end is not waited for
        asked = True
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):  # what it was still to be told has nowhere to go
                    pipe.close()
    if not asked:
        done = {outcome.number for outcome in outcomes}
        outcomes += [
            _lost(number, "no process was left for it")
            for number in range(configuration.training.rounds)
            if number not in done
        ]
    return outcomes


def _packed_job(
    configuration: Configuration,
    task: HostTask,
    user_network: eqx.Module | NetworkFactory | None,
    measure_noise: bool,
    manager: CheckpointManager | None,
) -> bytes:
    job = job_of(configuration, task, user_network, measure_noise, manager)
    try:
        return packed((job, {name: jax.config.values[name] for name in _JAX_OPTIONS}))
    except Exception as error:  # whatever of the user's cannot be pickled
        raise InputError(
            f"the environment {task.name}, or a network or an estimator of yours, cannot be handed to another process "
            f"({described(error)}). Give what can be pickled, or train one round."
        ) from error


def _lost(number: int, why: str) -> RoundOutcome:
    return RoundOutcome(number, {}, {}, False, f"the process that trained round {number} failed: {why}")


def _start() -> subprocess.Popen[bytes]:
    surroundings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "srgdqn.engines.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=surroundings,
        start_new_session=True,  # Ctrl-C is for us alone to hear
    )


def _attend(
    process: subprocess.Popen[bytes],
    job: bytes,
    waiting: queue.SimpleQueue[int],
    told: queue.SimpleQueue[RoundOutcome | None],
    shared: SharedProgress,
) -> None:
    """Hands one worker rounds until there are none, and passes on what it tells."""
    assert process.stdin is not None
    assert process.stdout is not None
    number = None
    try:
        send_packed(process.stdin, job)
        while (number := _next(waiting)) is not None:
            listener, unread = shared.of(number), collections.deque[RoundReport]()

            def read(unread: collections.deque[RoundReport] = unread) -> list[RoundReport]:
                return [unread.popleft() for _ in range(len(unread))]

            send(process.stdin, number)
            while True:
                kind, *content = receive(process.stdout)
                if kind == "progress":
                    unread.extend(content[2])
                    listener(content[1]._replace(reports=read))
                elif kind == "outcome":
                    told.put(content[1])
                    break
                else:
                    told.put(_lost(number, content[0]))
                    return
        _tell_to_stop(process)
        receive(process.stdout)  # it has nothing to tell, but ends in its own time
    except (EOFError, OSError):
        if number is not None:
            told.put(_lost(number, f"it ended with code {process.wait()}"))
    except Exception as error:  # of who listens
        if number is not None:
            told.put(_lost(number, described(error)))
    finally:
        told.put(None)


def _next(waiting: queue.SimpleQueue[int]) -> int | None:
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None


def _empty(waiting: queue.SimpleQueue[int]) -> None:
    while _next(waiting) is not None:
        pass


def _tell_to_stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it is gone already
        send(process.stdin, "stop")
