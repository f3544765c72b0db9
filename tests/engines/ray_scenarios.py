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

from srgdqn.engines.on_ray import connected, run_on_ray
from srgdqn.engines.ray_task import Tell
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


def squared(thing: int, stop: threading.Event, tell: Tell) -> int:
    for part in range(3):
        tell((thing, part))
    return thing**2


def surroundings(thing: int, stop: threading.Event, tell: Tell) -> Seen:
    """Two calls that are there together, and what each of them is in."""
    tell(thing)
    time.sleep(2.0)
    return {"process": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS"), "began": time.time() - 2.0}


def refusing(thing: int, stop: threading.Event, tell: Tell) -> bool:
    """The first raises once another is under way, which waits to be stopped."""
    if thing == 0:
        time.sleep(1.5)
        raise InputError("the first one is not wanted.")
    return stop.wait(timeout=60)


def counting(place: tuple[str, int], stop: threading.Event, tell: Tell) -> int:
    """Writes a line in a folder as often as it is begun, and again when it is told to stop."""
    folder, thing = place
    with (Path(folder) / f"begun-{thing}").open("a") as file:
        file.write("begun\n")
    if thing > 0 and stop.wait(timeout=60):
        with (Path(folder) / f"stopped-{thing}").open("a") as file:
            file.write("stopped\n")
    return thing


def leaving_a_sign(place: tuple[str, int], stop: threading.Event, tell: Tell) -> int:
    folder, thing = place
    (Path(folder) / f"done-{thing}").touch()
    return thing


def saved_while_interrupted(folder: Path) -> tuple[list[int], bool]:
    """The outcomes that are handed on where Ctrl-C comes while the first one is saved, and all others are done."""
    saved: list[int] = []
    ready = False
    try:
        for _, outcome in run_on_ray(leaving_a_sign, [(str(folder), thing) for thing in range(6)]):
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


def crashing(thing: int, stop: threading.Event, tell: Tell) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return thing


def slow(place: tuple[str, int], stop: threading.Event, tell: Tell) -> int:
    """Two seconds of work that leaves its process's number in a folder at the start, and a word at the end."""
    folder, thing = place
    (Path(folder) / f"process-{thing}-{os.getpid()}-{time.time_ns()}").touch()
    tell(os.getpid())
    for _ in range(20):
        time.sleep(0.1)
        (Path(folder) / "alive").write_text(str(time.time()))
    return thing**2


# Scenarios


def own(folder: Path) -> Seen:
    """A Ray of our own, and whatever can be asked of one."""
    seen: Seen = {}
    handler = signal.getsignal(signal.SIGTERM)
    with connected():
        import ray  # not before: what silences it is set there

        heard: list[Any] = []
        seen["outcomes"] = dict(run_on_ray(squared, range(8), hear=lambda thing, told: heard.append((thing, told))))
        seen["heard"] = heard
        seen["together"] = [outcome for _, outcome in run_on_ray(surroundings, [0, 1])]
        seen["listening"] = listening()
        try:
            list(run_on_ray(refusing, [0, 1]))
        except InputError as error:
            seen["raised"] = str(error)
        outcomes = run_on_ray(counting, [(str(folder), thing) for thing in range(50)])
        next(outcomes)
        try:
            outcomes.throw(KeyboardInterrupt)
        except KeyboardInterrupt:
            seen["interrupted"] = True
        seen["saved"], seen["ready"] = saved_while_interrupted(folder)
        seen["crashed"] = refusal(lambda: list(run_on_ray(crashing, [0], retries=1)))
        lock = threading.Lock()

        def holding(thing: int, stop: threading.Event, tell: Tell) -> int:
            with lock:
                return thing

        seen["not pickled"] = refusal(lambda: list(run_on_ray(holding, [0])))
        seen["still there"] = ray.is_initialized()
    seen["left"] = ray.is_initialized()
    seen["handler kept"] = signal.getsignal(signal.SIGTERM) == handler
    seen["nothing"] = list(run_on_ray(squared, []))
    seen["no cluster"] = refusal(lambda: list(run_on_ray(squared, [1], address="127.0.0.1:1")))
    seen["client"] = refusal(lambda: list(run_on_ray(squared, [1], address="ray://127.0.0.1:10001")))
    return seen


def deaths(folder: Path) -> Seen:
    """A worker killed, then a node, while calls run on two nodes."""
    from ray_nodes import ADDRESS, Cluster, a_worker_and_a_node_dying

    things = [(str(folder), thing) for thing in range(10)]
    with a_worker_and_a_node_dying(Cluster(), folder / "gate") as died:
        outcomes = {thing: outcome for (_, thing), outcome in run_on_ray(slow, things, address=ADDRESS)}
    began = [path.name.split("-")[1] for path in folder.glob("process-*")]
    return {"outcomes": outcomes, "deaths": died, "begun": len(began), "things": len(set(began))}


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
    seen: Seen = {"refused": refusal(lambda: list(run_on_ray(squared, [1], address=ADDRESS)))}
    token = os.environ.pop("RAY_AUTH_TOKEN")
    asked = [sys.executable, __file__, "stranger", str(folder)]
    seen["stranger"] = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False).stdout
    os.environ["RAY_AUTH_TOKEN"] = token
    return seen


def stranger(folder: Path) -> Seen:
    """Somebody without the cluster's token."""
    from ray_nodes import ADDRESS

    return {"refused": refusal(lambda: list(run_on_ray(squared, [1], address=ADDRESS)))}


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
    things = [(str(folder), thing) for thing in range(4)]
    outcomes = {thing: outcome for (_, thing), outcome in run_on_ray(slow, things, address=ADDRESS)}
    return {"calls ended with their driver": calls_ended, "outcomes": outcomes}


def driver(folder: Path) -> Seen:
    """The driver that is killed."""
    from ray_nodes import ADDRESS

    return dict(run_on_ray(slow, [(str(folder), thing) for thing in range(100)], address=ADDRESS))


if __name__ == "__main__":
    _, name, folder = sys.argv
    scenarios = {each.__name__: each for each in (own, deaths, unlike, stranger, resumed, driver)}
    print(json.dumps(scenarios[name](Path(folder))))
