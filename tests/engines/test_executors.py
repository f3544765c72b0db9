"""Threads and processes keep the promises of an executor; those of Ray are tested on clusters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from srgdqn.engines.executor import CallsInterruptedError, Executor, Lost
from srgdqn.engines.on_ray import Ray
from srgdqn.engines.processes import Processes
from srgdqn.engines.threads import Threads
from srgdqn.errors import InputError

each_executor = pytest.mark.parametrize("executor", [Threads(2), Processes(2)], ids=["threads", "processes"])


@each_executor
def test_messages_come_in_order_and_before_the_outcome(executor: Executor) -> None:
    def squared(item: int, stop: threading.Event, send: Callable[[Any], None]) -> int:
        for part in range(3):
            send(part)
        return item**2

    heard: dict[int, list[int]] = {item: [] for item in range(9)}
    outcomes = {}
    for item, outcome in executor.run(squared, range(9), on_message=lambda item, part: heard[item].append(part)):
        assert heard[item] == [0, 1, 2]
        outcomes[item] = outcome
    assert outcomes == {item: item**2 for item in range(9)}
    assert list(executor.run(squared, [])) == []


def waiting_for(folder: Path, name: str) -> Callable[[], bool]:
    """Whether a file is there within 20 seconds."""

    def wait() -> bool:
        end = time.monotonic() + 20
        while not (folder / name).exists() and time.monotonic() < end:
            time.sleep(0.01)
        return (folder / name).exists()

    return wait


@each_executor
def test_calls_run_at_the_same_time(executor: Executor, tmp_path: Path) -> None:
    waits = [waiting_for(tmp_path, "1"), waiting_for(tmp_path, "0")]

    def meet(item: int, stop: threading.Event, send: Any) -> bool:
        (tmp_path / str(item)).touch()
        return waits[item]()

    assert dict(executor.run(meet, [0, 1])) == {0: True, 1: True}


@each_executor
def test_an_error_is_raised_once_the_others_were_stopped(executor: Executor, tmp_path: Path) -> None:
    other_runs = waiting_for(tmp_path, "runs")

    def work(item: int, stop: threading.Event, send: Any) -> None:
        if item == 0:
            other_runs()
            raise InputError("broken.")
        (tmp_path / "runs").touch()
        while not stop.is_set():
            time.sleep(0.01)
        (tmp_path / f"stopped-{item}").touch()

    with pytest.raises(InputError, match=r"broken\."):
        list(executor.run(work, range(9)))
    assert (tmp_path / "stopped-1").exists()
    assert len(list(tmp_path.iterdir())) <= 3  # at most one other call had begun


@pytest.mark.parametrize("how", ["stopping", "ctrl-c"])
@pytest.mark.parametrize("executor", [Threads(1), Threads(2), Processes(2)], ids=["here", "threads", "processes"])
def test_stopping_yields_what_runs_and_begins_nothing_more(executor: Executor, how: str) -> None:
    def work(item: int, stop: threading.Event, send: Callable[[Any], None]) -> str:
        send("begun")
        while not stop.is_set():
            time.sleep(0.01)
        return "stopped"

    asked = threading.Event()

    def ask(item: int, message: str) -> None:
        if how == "stopping":
            asked.set()
        elif not asked.is_set():
            asked.set()
            os.kill(os.getpid(), signal.SIGINT)

    outcomes = []
    try:
        for item, outcome in executor.run(
            work, range(50), on_message=ask, stopping=lambda: how == "stopping" and asked.is_set()
        ):
            outcomes.append((item, outcome))
        interrupted = False
    except CallsInterruptedError:
        interrupted = True
    assert interrupted == (how == "ctrl-c")
    assert 1 <= len(outcomes) <= 2
    assert {outcome for _, outcome in outcomes} == {"stopped"}


def test_what_asks_a_thread_to_stop_cannot_be_waited_for() -> None:
    """Ctrl-C would wake nobody."""
    with pytest.raises(NotImplementedError, match="ask is_set"):
        list(Threads(1).run(lambda item, stop, send: stop.wait(), [0]))


def test_ctrl_c_ends_connecting_to_ray_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connected(address: str | None) -> Iterator[None]:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        pytest.fail("it went on")
        yield

    monkeypatch.setattr("srgdqn.engines.on_ray.connected", connected)
    with pytest.raises(KeyboardInterrupt):
        list(Ray().run(lambda item, stop, send: item, [0]))


def test_a_process_that_dies_costs_its_own_call() -> None:
    """Also where a process that it has forked outlives it."""

    def deadly(item: int, stop: threading.Event, send: Any) -> int:
        if item % 3 == 1:
            if item == 4 and os.fork() == 0:
                time.sleep(3)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    outcomes = dict(Processes(2).run(deadly, range(6)))
    lost = Lost("it ended with code -9")
    assert outcomes == {0: 0, 1: lost, 2: 2, 3: 3, 4: lost, 5: 5}


def test_what_would_end_the_caller_or_cannot_be_pickled_is_raised_as_an_error() -> None:
    class OddError(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("not me")

    def leave(item: int, stop: threading.Event, send: Any) -> None:
        raise SystemExit(3) if item else OddError("strange")

    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        list(Processes(1).run(leave, [1]))
    with pytest.raises(RuntimeError, match="OddError: strange"):
        list(Processes(1).run(leave, [0]))


def test_what_cannot_be_pickled_is_refused_before_a_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", None)
    lock = threading.Lock()
    with pytest.raises(InputError, match=r"cannot be handed to another process .*Give what can be pickled"):
        list(Processes(1).run(lambda item, stop, send: lock.locked(), [0]))


SCRIPT = """
import os, sys, time
from srgdqn.engines.processes import Processes

print("the script runs", flush=True)

def work(item, stop, send):
    print("printed by a call")
    send(os.getpid())
    time.sleep(60)

list(Processes(1).run(work, [0], on_message=lambda item, process: print(process, flush=True)))
"""


def test_a_worker_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """The main module needs no guard and is run once, and what a call prints is not mixed with what it prints."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    lines = [parent.stdout.readline() for _ in range(2)]
    parent.kill()
    rest, _ = parent.communicate()
    assert (lines[0], rest) == ("the script runs\n", "")
    end = time.monotonic() + 20
    while Path(f"/proc/{int(lines[1])}/cmdline").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{int(lines[1])}/cmdline").exists()
