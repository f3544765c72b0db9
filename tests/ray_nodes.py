"""A Ray cluster of several nodes on this machine, each with its own loopback address, and a gate that its calls wait at
until their worker or node was killed. Only behind the fence.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from srgdqn.engines.executor import Send
from srgdqn.engines.on_ray import Ray

PORT = 6399
ADDRESS = f"127.0.0.1:{PORT}"
_SECONDS = 120.0
_PAUSE = 0.6  # seconds, after which a call's next report is due, and a checkpoint where one is made every half second


class Cluster:
    """A head that computes nothing, and nodes of some cores each. Whoever connects needs its token."""

    def __init__(self, nodes: int = 2, cores: int = 1) -> None:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
        self._head = _start("--head", f"--port={PORT}", "--include-dashboard=false", cores=0, number=1)
        self.wait_for(0)
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._next = 2
        for _ in range(nodes):
            self.add_node(cores)

    def add_node(self, cores: int = 1) -> None:
        """Lets another node join, and waits until it has. Two that join at the same moment may want the same port."""
        self._nodes.append(_start(f"--address={ADDRESS}", cores=cores, number=self._next))
        self._next += 1
        self.wait_for(sum(node.poll() is None for node in self._nodes))

    def wait_for(self, nodes: int) -> None:
        """Waits until so many nodes beside the head are alive."""
        ask = "import ray; ray.init(address='auto', log_to_driver=False, logging_level='ERROR');"
        ask += "print(sum(node['Alive'] for node in ray.nodes()) - 1)"
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
            if answer.stdout.strip() == str(nodes):
                return
            time.sleep(0.2)
        raise TimeoutError(f"the cluster has not {nodes} nodes: {answer.stdout}{answer.stderr}")

    def kill_node(self, index: int) -> None:
        """Kills all processes of a node at once, as a power failure does."""
        for process in _descendants(self._nodes[index].pid):
            os.kill(process, signal.SIGKILL)
        self._nodes.pop(index).wait()


@dataclass(frozen=True)
class Gate:
    """Holds calls on Ray in the midst of their work, however quick the machine, until it is opened or they are asked to
    stop. Whoever is killed meanwhile was at work.
    """

    folder: Path
    free: int = 0  # calls that may end before it shuts

    @contextlib.contextmanager
    def shut(self) -> Iterator[None]:
        """All calls that this process makes meanwhile are held."""
        self.folder.mkdir()
        run = Ray.run

        def held(executor: Ray, function: Any, *given: Any, **named: Any) -> Any:
            return run(executor, partial(_held, self, function), *given, **named)

        with mock.patch.object(Ray, "run", held):
            yield

    def open(self) -> None:
        """Lets all calls go on."""
        (self.folder / "open").touch()

    def is_open(self) -> bool:
        return (self.folder / "open").exists() or len(list(self.folder.glob("ended-*"))) < self.free

    def held(self) -> list[Path]:
        """A file for each process that is held, named by its number."""
        return list(self.folder.glob("held-*"))

    def wait_for(self, calls: int) -> None:
        """Waits until so many calls are held."""
        end = time.monotonic() + _SECONDS
        while len(self.held()) < calls:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.held())} calls wait at the gate, not {calls}")
            time.sleep(0.02)

    def kill_worker(self) -> None:
        """Kills a process that is held."""
        held = self.held()[0]
        os.kill(int(held.name.removeprefix("held-")), signal.SIGKILL)
        held.unlink()

    def hold(self, stop: threading.Event) -> None:
        """In a call: waits at the gate."""
        if self.is_open():
            return
        held = self.folder / f"held-{os.getpid()}"
        held.touch()
        while not self.is_open() and not stop.is_set():
            time.sleep(0.02)
        held.unlink()


def _held(gate: Gate, function: Callable[..., Any], item: Any, stop: threading.Event, send: Send) -> Any:
    """A call that waits at the gate when it reports a second time, and otherwise at its end."""
    reports = 0

    def send_and_wait(message: Any) -> None:
        nonlocal reports
        send(message)
        reports += 1
        if reports == 1 and not gate.is_open():
            time.sleep(_PAUSE)
        elif reports == 2:
            gate.hold(stop)

    outcome = function(item, stop, send_and_wait)
    gate.hold(stop)
    (gate.folder / f"ended-{os.getpid()}-{time.time_ns()}").touch()
    return outcome


def kill_worker_and_node(cluster: Cluster, gate: Gate) -> list[str]:
    """Kills a worker, then a node, each while both nodes are at work; opens the gate, and says who died."""
    deaths = []
    try:
        gate.wait_for(2)
        gate.kill_worker()
        deaths.append("worker")
        gate.wait_for(2)  # the killed worker's call was made again
        cluster.kill_node(0)
        deaths.append("node")
    finally:
        gate.open()
    return deaths


@contextlib.contextmanager
def a_worker_and_a_node_dying(cluster: Cluster, folder: Path) -> Iterator[list[str]]:
    """Kills a worker and a node while this process computes on the cluster; afterwards, the list has who died."""
    gate, deaths = Gate(folder), list[str]()
    with gate.shut():
        killing = threading.Thread(target=lambda: deaths.extend(kill_worker_and_node(cluster, gate)))
        killing.start()
        yield deaths
        killing.join()


def _start(*words: str, cores: int, number: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words]
    command += [f"--node-ip-address=127.0.0.{number}", f"--num-cpus={cores}", "--disable-usage-stats", "--block"]
    command += [f"--object-store-memory={2**28}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _descendants(process: int) -> list[int]:
    """A process and all that came from it, of those that are alive."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # gone meanwhile
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [process]
    for each in found:
        found += parents.get(each, [])
    return found
