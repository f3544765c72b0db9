"""Training on a Ray cluster whose workers and nodes are killed, beside the same without Ray, as programs that run
behind the fence and print what they saw as JSON: `python ray_trainings.py NAME FOLDER`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray_nodes import ADDRESS, Cluster, Gate, a_worker_and_a_node_dying
from srgdqn.adapters.defaults import defaults_of
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.engines.on_ray import Ray
from srgdqn.engines.ray_connection import connected
from srgdqn.results.result import Result
from srgdqn.runs.checkpoint_manager import CheckpointManager
from srgdqn.session.prepare import prepare
from srgdqn.training.reports import Progress
from tiny import STUBBORN, TINY, bits, levers

Seen = dict[str, Any]


def equal(one: Result, other: Result) -> Seen:
    """Which tables are the same to the bit, and whether the parameters are."""
    tables = {
        name: table.equals(other.run.tables[name], null_equal=True)
        for name, table in one.run.tables.items()
        if name != "timings"
    }
    return {**tables, "parameters": bits(one.run.parameters) == bits(other.run.parameters)}


def run_of(kernel: str, **options: Any) -> Configuration:
    return configure(
        "CartPole", "srg-dqn", **{**TINY, "lanes": 8, "rounds": 32, "eta": 1e-5, "kernel": kernel, **options}
    )


def listening(shares: list[float]) -> Callable[[Progress], None]:
    """A listener that notes how much is done."""
    return lambda progress: shares.append(progress.share)


def compiled(folder: Path) -> Seen:
    """Rounds by the kernel and by XLA, with a worker killed, then a node."""
    cluster = Cluster()
    seen: Seen = {}
    for kernel in ("native", "xla"):
        configuration = run_of(kernel, steps=40_000)
        shares: list[float] = []
        manager = CheckpointManager(folder / kernel, every=0.5)
        with connected(ADDRESS), a_worker_and_a_node_dying(cluster, folder / f"{kernel}-gate") as deaths:
            engine: dict[str, Any] = dict(executor=Ray(), workers=4, manager=manager)
            on_ray = prepare(configuration).train(listener=listening(shares), **engine)
        cluster.add_node()
        here = prepare(configuration).train()
        seen[kernel] = {
            "deaths": deaths,
            "shares": shares,
            "same": equal(here, on_ray),
            "jobs": manager.jobs(),
            "phases": sorted(set(on_ray.timings["phase"].cast(str))),
        }
    return seen


def hosted(folder: Path) -> Seen:
    """Rounds on the host, with a worker killed, then a node."""
    cluster = Cluster()
    configuration = configure(
        "CartPole-v1", "srg-dqn", defaults=defaults_of("CartPole-v1"), rounds=4, steps=5_000, hidden=(8,)
    )
    shares: list[float] = []
    manager = CheckpointManager(folder / "hosted", every=0.5)
    with connected(ADDRESS), a_worker_and_a_node_dying(cluster, folder / "gate") as deaths:
        engine: dict[str, Any] = dict(executor=Ray(), manager=manager)
        on_ray = prepare(configuration).train(listener=listening(shares), **engine)
    here = prepare(configuration).train()
    return {"deaths": deaths, "shares": shares, "same": equal(here, on_ray), "jobs": manager.jobs()}


def own(folder: Path) -> Seen:
    """An environment, a network and an estimator of the user's, defined in the main module; an interrupt."""
    with connected():
        engine: dict[str, Any] = dict(executor=Ray(), workers=2)
        configuration, task = levers(steps=20_000, lanes=8, rounds=16)
        given: dict[str, Any] = dict(environment=task.environment, network=STUBBORN)
        on_ray = prepare(configuration, **given).train(**engine)
        here = prepare(configuration, **given).train()
        seen = {"same": equal(here, on_ray)}
        stop = threading.Event()
        engine["listener"] = lambda progress: stop.set()
        with Gate(folder / "gate").shut():  # it is not opened: only the interrupt lets the calls go on
            stopped = prepare(run_of("native", steps=40_000)).train(**engine, stop=stop)
        seen["interrupted"] = stopped.run.provenance["interrupted"]
        seen["reached"] = stopped.rounds["steps"].to_list()
    return seen


if __name__ == "__main__":
    _, name, place = sys.argv
    print(json.dumps({each.__name__: each for each in (compiled, hosted, own)}[name](Path(place))))
