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

from ray_nodes import ADDRESS, Cluster
from srgdqn.adapters.defaults import defaults_of
from srgdqn.api import train_configured
from srgdqn.config import Configuration
from srgdqn.config.configure import configure
from srgdqn.engines.chunks_on_ray import strands_on_ray
from srgdqn.engines.host_on_ray import rounds_on_ray
from srgdqn.engines.on_ray import connected
from srgdqn.runs.checkpoint_manager import Keeping
from srgdqn.runs.result import Result
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


def deadly(cluster: Cluster, first: float, second: float) -> tuple[Callable[[Progress], None], Seen]:
    """A listener that kills a worker once so much is done, then a node; and what it did and heard."""
    seen: Seen = {"shares": [], "deaths": []}

    def listen(progress: Progress) -> None:
        seen["shares"].append(progress.share)
        if not seen["deaths"] and progress.share > first and cluster.kill_worker():
            seen["deaths"].append("worker")
        if seen["deaths"] == ["worker"] and progress.share > second:
            cluster.kill_node(0)
            seen["deaths"].append("node")

    return listen, seen


def compiled(folder: Path) -> Seen:
    """Rounds by the kernel and by XLA, with a worker killed, then a node."""
    cluster = Cluster()
    seen: Seen = {}
    for kernel, steps in (("native", 600_000), ("xla", 40_000)):
        configuration = run_of(kernel, steps=steps)
        listen, seen[kernel] = deadly(cluster, 0.1, 0.3)
        with connected(ADDRESS):
            keeping = Keeping(folder / kernel, every=0.5)
            engine: dict[str, Any] = dict(listener=listen, engine=strands_on_ray, workers=4, keeping=keeping)
            on_ray = train_configured(configuration, progress=False, **engine)
        cluster.add_node()
        here = train_configured(configuration, progress=False)
        seen[kernel] |= {
            "same": equal(here, on_ray),
            "strands": keeping.strands(),
            "phases": sorted(set(on_ray.timings["phase"].cast(str))),
        }
    return seen


def hosted(folder: Path) -> Seen:
    """Rounds on the host, with a worker killed, then a node."""
    cluster = Cluster()
    configuration = configure(
        "CartPole-v1", "srg-dqn", defaults=defaults_of("CartPole-v1"), rounds=4, steps=20_000, hidden=(8,)
    )
    listen, seen = deadly(cluster, 0.1, 0.4)
    with connected(ADDRESS):
        keeping = Keeping(folder / "hosted", every=0.5)
        engine: dict[str, Any] = dict(listener=listen, engine=rounds_on_ray, keeping=keeping)
        on_ray = train_configured(configuration, progress=False, **engine)
    here = train_configured(configuration, progress=False)
    return {**seen, "same": equal(here, on_ray), "strands": keeping.strands()}


def own(folder: Path) -> Seen:
    """An environment, a network and an estimator of the user's, defined in the main module; an interrupt."""
    with connected():
        engine: dict[str, Any] = dict(progress=False, engine=strands_on_ray, workers=2)
        configuration, task = levers(steps=20_000, lanes=8, rounds=16)
        given: dict[str, Any] = dict(environment=task.environment, network=STUBBORN)
        on_ray = train_configured(configuration, **given, **engine)
        here = train_configured(configuration, **given, progress=False)
        seen = {"same": equal(here, on_ray)}
        stop = threading.Event()
        engine["listener"] = lambda progress: stop.set()
        endless = train_configured(run_of("native", steps=100_000_000), **engine, stop=stop)
        seen["interrupted"] = endless.run.provenance["interrupted"]
        seen["reached"] = endless.rounds["steps"].to_list()
    return seen


if __name__ == "__main__":
    _, name, place = sys.argv
    print(json.dumps({each.__name__: each for each in (compiled, hosted, own)}[name](Path(place))))
