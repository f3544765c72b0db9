"""A Ray cluster of several nodes on this machine, each with its own loopback address. Only behind the fence."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

PORT = 6399
ADDRESS = f"127.0.0.1:{PORT}"
_SECONDS = 60.0


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
            told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
            if told.stdout.strip() == str(nodes):
                return
            time.sleep(0.2)
        raise TimeoutError(f"the cluster has not {nodes} nodes: {told.stdout}{told.stderr}")

    def kill_worker(self) -> bool:
        """Kills a process that is at a task, if there is one."""
        for process in _descendants(os.getpid()):
            try:
                title = Path(f"/proc/{process}/cmdline").read_bytes()
            except OSError:  # gone meanwhile
                continue
            if title.startswith(b"ray::perform"):
                os.kill(process, signal.SIGKILL)
                return True
        return False

    def kill_node(self, index: int) -> None:
        """Kills all processes of a node at once, as a power failure does."""
        for process in _descendants(self._nodes[index].pid):
            os.kill(process, signal.SIGKILL)
        self._nodes.pop(index).wait()


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
