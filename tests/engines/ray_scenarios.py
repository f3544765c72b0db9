"""What the tests of the Ray engine look at, as programs that run behind the fence and print what they saw as JSON:
`python ray_scenarios.py NAME [FOLDER]`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from srgdqn.engines.executor import Send
from srgdqn.engines.on_ray import Ray
from srgdqn.engines.ray_connection import connected
from srgdqn.errors import InputError

Seen = dict[str, Any]


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def refusal(function: Callable[[], Any]) -> str:
    try:
        function()
    except InputError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def listening() -> list[str]:
    """The addresses that something listens on, beside IPv6's."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sorted({row[1].split(":")[0] for row in rows if row[3] == "0A"})


# Calls


def squared(item: int, stop: threading.Event, send: Send) -> int:
    for part in range(3):
        send((item, part))
    return item**2


def surroundings(item: int, stop: threading.Event, send: Send) -> Seen:
    """Two calls that are there together, and what each of them is in."""
    send(item)
    time.sleep(2.0)
    return {"process": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS"), "began": time.time() - 2.0}


def refusing(item: int, stop: threading.Event, send: Send) -> bool:
    """The first raises once another is under way, which waits to be stopped."""
    if item == 0:
        time.sleep(1.5)
        raise InputError("the first one is not wanted.")
    return stop.wait(timeout=60)


def counting(place: tuple[str, int], stop: threading.Event, send: Send) -> int:
    """Writes a line in a folder as often as it is begun, and again when it is told to stop."""
    folder, item = place
    with (Path(folder) / f"begun-{item}").open("a") as file:
        file.write("begun\n")
    if item > 0 and stop.wait(timeout=60):
        with (Path(folder) / f"stopped-{item}").open("a") as file:
            file.write("stopped\n")
    return item


def leaving_a_sign(place: tuple[str, int], stop: threading.Event, send: Send) -> int:
    folder, item = place
    (Path(folder) / f"done-{item}").touch()
    return item


def saved_while_interrupted(folder: Path) -> tuple[list[int], bool]:
    """The outcomes that are handed on where Ctrl-C comes while the first one is saved, and all others are done."""
    saved: list[int] = []
    ready = False
    try:
        for _, outcome in Ray().run(leaving_a_sign, [(str(folder), item) for item in range(6)]):
            if not saved:
                ready = wait_until(lambda: len(list(folder.glob("done-*"))) == 6)
                time.sleep(1.0)  # until they have reached the driver
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
            saved.append(outcome)
    except KeyboardInterrupt:
        saved.sort()
        return saved, ready
    raise AssertionError("the interrupt was lost")


def crashing(item: int, stop: threading.Event, send: Send) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return item


def slow(place: tuple[str, int], stop: threading.Event, send: Send) -> int:
    """Two seconds of work that leaves its process's number in a folder at the start, and a word at the end."""
    folder, item = place
    (Path(folder) / f"process-{item}-{os.getpid()}-{time.time_ns()}").touch()
    send(os.getpid())
    for _ in range(20):
        time.sleep(0.1)
        (Path(folder) / "alive").write_text(str(time.time()))
    return item**2


# Scenarios


def own(folder: Path) -> Seen:
    """A Ray of our own, and whatever can be asked of one."""
    seen: Seen = {}
    handler = signal.getsignal(signal.SIGTERM)
    with connected():
        import ray  # not before: what silences it is set there

        heard: list[Any] = []
        seen["outcomes"] = dict(
            Ray().run(squared, range(8), on_message=lambda item, message: heard.append((item, message)))
        )
        seen["heard"] = heard
        seen["together"] = [outcome for _, outcome in Ray().run(surroundings, [0, 1])]
        seen["listening"] = listening()
        try:
            list(Ray().run(refusing, [0, 1]))
        except InputError as error:
            seen["raised"] = str(error)
        counted = Ray().run(counting, [(str(folder), item) for item in range(50)])
        next(counted)
        try:
            counted.throw(KeyboardInterrupt)
        except KeyboardInterrupt:
            seen["interrupted"] = True
        seen["saved"], seen["ready"] = saved_while_interrupted(folder)
        seen["crashed"] = refusal(lambda: list(Ray(retries=1).run(crashing, [0])))
        lock = threading.Lock()

        def holding(item: int, stop: threading.Event, send: Send) -> int:
            with lock:
                return item

        seen["not pickled"] = refusal(lambda: list(Ray().run(holding, [0])))
        seen["still there"] = ray.is_initialized()
    seen["left"] = ray.is_initialized()
    seen["handler kept"] = signal.getsignal(signal.SIGTERM) == handler
    seen["nothing"] = list(Ray().run(squared, []))
    seen["no cluster"] = refusal(lambda: list(Ray("127.0.0.1:1").run(squared, [1])))
    seen["client"] = refusal(lambda: list(Ray("ray://127.0.0.1:10001").run(squared, [1])))
    return seen


def deaths(folder: Path) -> Seen:
    """A worker killed, then a node, while calls run on two nodes."""
    from ray_nodes import ADDRESS, Cluster, a_worker_and_a_node_dying

    items = [(str(folder), item) for item in range(10)]
    with a_worker_and_a_node_dying(Cluster(), folder / "gate") as died:
        outcomes = {item: outcome for (_, item), outcome in Ray(ADDRESS).run(slow, items)}
    began = [path.name.split("-")[1] for path in folder.glob("process-*")]
    return {"outcomes": outcomes, "deaths": died, "begun": len(began), "items": len(set(began))}


def unlike(folder: Path) -> Seen:
    """A cluster whose nodes have another C compiler than the driver."""
    from ray_nodes import ADDRESS, Cluster

    other = folder / "cc"
    other.write_text("#!/bin/sh\necho another compiler\n")
    other.chmod(0o755)
    mine = os.environ.pop("CC", None)
    os.environ["CC"] = str(other)
    Cluster(nodes=1)
    del os.environ["CC"]
    if mine is not None:
        os.environ["CC"] = mine
    seen: Seen = {"refused": refusal(lambda: list(Ray(ADDRESS).run(squared, [1])))}
    token = os.environ.pop("RAY_AUTH_TOKEN")
    asked = [sys.executable, __file__, "stranger", str(folder)]
    seen["stranger"] = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False).stdout
    os.environ["RAY_AUTH_TOKEN"] = token
    return seen


def stranger(folder: Path) -> Seen:
    """Somebody without the cluster's token."""
    from ray_nodes import ADDRESS

    return {"refused": refusal(lambda: list(Ray(ADDRESS).run(squared, [1])))}


def resumed(folder: Path) -> Seen:
    """A driver killed while its calls run, and another that takes its place."""
    from ray_nodes import ADDRESS, Cluster

    Cluster()
    first = subprocess.Popen([sys.executable, __file__, "driver", str(folder)])
    assert wait_until((folder / "alive").exists)
    first.kill()
    first.wait()
    time.sleep(1.0)
    last = (folder / "alive").read_text()
    time.sleep(1.0)
    calls_ended = (folder / "alive").read_text() == last
    items = [(str(folder), item) for item in range(4)]
    outcomes = {item: outcome for (_, item), outcome in Ray(ADDRESS).run(slow, items)}
    return {"calls ended with their driver": calls_ended, "outcomes": outcomes}


def driver(folder: Path) -> Seen:
    """The driver that is killed."""
    from ray_nodes import ADDRESS

    return dict(Ray(ADDRESS).run(slow, [(str(folder), item) for item in range(100)]))


if __name__ == "__main__":
    _, name, folder = sys.argv
    scenarios = {each.__name__: each for each in (own, deaths, unlike, stranger, resumed, driver)}
    print(json.dumps(scenarios[name](Path(folder))))
