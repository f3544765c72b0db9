"""Many machines: what a call on Ray costs, whether a simulation foretells what was measured, and what it foretells for
10, 100 and 1,000 nodes.

    python benchmarks/cluster.py [--quick] [--out FILE]

Cells of Figure 2 run one after the other in one process, then on Ray clusters of one and of two nodes of
one core each, here. Everything happens in a network namespace, as Ray listens on more than loopback; Linux alone has
such, and root or unprivileged user namespaces are needed. Without Ray: pip install 'srgdqn[ray]'.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cluster_simulation import Costs, Made, simulate
from measuring import circumstances, spread
from reporting import Bar, Panel, between, place_for, print_table, write_report
from srgdqn.engines.on_ray import Ray
from srgdqn.engines.ray_connection import connected
from srgdqn.engines.threads import Threads
from srgdqn.kernel.program_cache import enable_program_cache
from srgdqn.paper.scale import PAPER_SCALE, QUICK
from srgdqn.paper.studies import EXPERIMENTS
from srgdqn.runs.provenance import LOCAL

FENCED = "SRGDQN_BENCHMARK_FENCED"
NODES = (1, 10, 100, 1_000)
CORES = 16  # of a node in the simulation
# Everything that the paper's reproduction computes (--confirm --tuned --readings), as released: cells, and seconds of
# one core.
PAPER = (751, 7_000.0)
MANY = 100_000
STRAGGLING, SLOWER = 0.01, 4.0  # the share of calls that take so many times as long, and how many
BETWEEN_DEATHS = 7_200.0  # seconds until a node dies, on average: as those that are rented cheaply and taken away


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few cells and calls: only whether it runs")
    parser.add_argument("--turns", type=int, default=3, help="how often each cluster is measured")
    parser.add_argument("--out", type=Path, default=place_for(__file__))
    options = parser.parse_args()
    if find_spec("ray") is None:
        raise SystemExit("Ray is not installed. Run: pip install 'srgdqn[ray]'.")
    if FENCED not in os.environ:
        raise SystemExit(_fenced())
    enable_program_cache()
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # jax's: nothing comes of these but other programs
    calls, turns = (100, 1) if options.quick else (2_000, options.turns)
    cells = EXPERIMENTS["figure-2"].cells(QUICK if options.quick else PAPER_SCALE, "corrected")
    cells = cells[:3] if options.quick else cells[:12]

    lengths, costs = _lengths(cells), _costs(calls)
    about = circumstances()
    about["peers"]["ray"] = metadata.version("ray")
    report: dict[str, Any] = {"circumstances": about, "cells": lengths, "costs": costs._asdict()}
    rows, checks = [], {}
    for nodes in (1, 2):
        measured = [_makespan(cells, nodes) for _ in range(turns)]
        # Nodes here share this machine's cores with the driver and with others: what cells took there is measured, too.
        foretold = [simulate([each[cell.name] for cell in cells], nodes, 1, costs).seconds for _, each in measured]
        seconds = spread([turn for turn, _ in measured])
        ratios = spread([one / turn for one, (turn, _) in zip(foretold, measured, strict=True)])
        slower = spread([sum(each.values()) / sum(lengths.values()) for _, each in measured])
        checks[nodes] = {"measured": seconds, "foretold": foretold, "ratio": ratios, "slower": slower}
        columns = (f"{seconds['median']:.1f} s", f"{statistics.median(foretold):.1f} s", f"{ratios['median']:.2f}")
        rows.append((str(nodes), *columns, between(ratios, ".2f"), f"{slower['median']:.2f}"))
    print_table(
        f"{len(cells)} cells on nodes of one core",
        ("nodes", "measured", "simulated", "ratio", "lowest to highest turn", "a cell's time × alone"),
        rows,
    )
    print_table(
        "What Ray costs here",
        ("what", "seconds"),
        [
            ("a call, of the driver's time", f"{costs.call:.4f}"),
            ("a call, of the time of the core that it runs on", f"{costs.around:.4f}"),
            ("the first call of a process (its start, imports, the kernel)", f"{costs.warm_up:.2f}"),
            ("a run of one empty call", f"{costs.connecting:.2f}"),
        ],
    )
    report["checks"], report["simulated"] = checks, _foretold(lengths, costs, quick=options.quick)
    write_report(options.out, report, _panels(report["simulated"]))


def _fenced() -> int:
    """Runs this program once more, with loopback for a network and no process that outlives it."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    fence = ["unshare", *as_root, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    missing = [name for name in ("unshare", "ip") if shutil.which(name) is None]
    if missing or subprocess.run([*fence, "true"], capture_output=True, check=False).returncode != 0:
        raise SystemExit("no network namespace can be made here, in which Ray would be confined to this machine.")
    words = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        surroundings = {**os.environ, FENCED: "1", "RAY_TMPDIR": folder}
        return subprocess.run([*fence, *words], env=surroundings, check=False).returncode


def _compute(cell: Any, stop: threading.Event, send: Any) -> float:
    """The seconds that a cell takes."""
    enable_program_cache()
    start = time.perf_counter()
    cell.compute(lambda share: None, stop, None, LOCAL)
    return time.perf_counter() - start


def _wake(item: int, stop: threading.Event, send: Any) -> None:
    """Nothing, in a process that is ready to train: the kernel is loaded, and everything imported."""
    import srgdqn.api  # noqa: F401
    from srgdqn.kernel.build import library

    library()


def _lengths(cells: Sequence[Any]) -> dict[str, float]:
    """The seconds of each cell, one after the other in one process; the better of two times, as others disturb."""
    first, second = ({cell.name: each for cell, each in Threads(1).run(_compute, cells)} for _ in range(2))
    return {name: min(seconds, second[name]) for name, seconds in first.items()}


def _costs(calls: int) -> Costs:
    """What calls cost on one node of one core, whose process is new."""

    def seconds(count: int) -> float:
        start = time.perf_counter()
        list(Ray().run(_wake, range(count)))
        return time.perf_counter() - start

    with _cluster(1) as address, connected(address):
        first = seconds(1)
        again = statistics.median(seconds(1) for _ in range(5))
        before = time.process_time()
        around = (seconds(calls) - again) / calls
        # The driver works on several threads at once: it may be faster than this.
        mine = (time.process_time() - before) / calls
        return Costs(call=mine, around=around, warm_up=first - again, connecting=again)


def _makespan(cells: Sequence[Any], nodes: int) -> tuple[float, dict[str, float]]:
    """The seconds that cells take on so many nodes of one core, and each of them by name."""
    with _cluster(nodes) as address, connected(address):
        start = time.perf_counter()
        made = {cell.name: seconds for cell, seconds in Ray().run(_compute, cells)}
        return time.perf_counter() - start, made


@contextmanager
def _cluster(nodes: int) -> Iterator[str]:
    """A cluster with a head that computes nothing, and so many nodes of one core each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, node_ip_address="127.0.0.1", include_dashboard=False)
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        cluster.shutdown()


def _foretold(lengths: dict[str, float], costs: Costs, *, quick: bool) -> list[dict[str, Any]]:
    """Makespans of two jobs on clusters of several sizes, with what costs time added one after the other."""
    count, seconds = PAPER
    jobs = {f"the paper, {count} cells": (count, seconds / count)}
    many = 1_000 if quick else MANY
    jobs[f"{many:,} cells"] = (many, seconds / count)
    found, rows = [], []
    mean = statistics.mean(lengths.values())
    shapes = [length / mean for length in lengths.values()]
    for job, (number, length) in jobs.items():
        chance = random.Random(1)
        cells = [length * chance.choice(shapes) for _ in range(number)]
        straggling = [each * (SLOWER if chance.random() < STRAGGLING else 1.0) for each in cells]
        deadly = costs._replace(between_deaths=BETWEEN_DEATHS, noticing=17.0, kept_every=60.0)
        for nodes in NODES:
            made: dict[str, Made] = {
                "ideal": simulate(cells, nodes, CORES, Costs()),
                "with Ray": simulate(cells, nodes, CORES, costs),
                "and stragglers": simulate(straggling, nodes, CORES, costs),
                "and deaths": simulate(straggling, nodes, CORES, deadly),
            }
            ended = made["and deaths"].seconds
            efficiency = sum(straggling) / (ended * nodes * CORES)
            spent = {what: each.seconds for what, each in made.items()}
            row = {"job": job, "nodes": nodes, "seconds": spent, "efficiency": efficiency}
            found.append({**row, "speed_up": sum(straggling) / ended, "deaths": made["and deaths"].deaths})
            rows.append(
                (
                    job,
                    f"{nodes:,}",
                    *(_time(each) for each in spent.values()),
                    str(made["and deaths"].deaths),
                    f"{sum(straggling) / ended:,.0f}",
                    f"{efficiency:.0%}",
                )
            )
    columns = (
        "job",
        "nodes",
        "ideal",
        "with Ray",
        "and stragglers",
        "and deaths",
        "nodes that died",
        "× one core",
        "efficiency",
    )
    print_table(f"Simulated: nodes of {CORES} cores", columns, rows)
    return found


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _panels(simulated: Sequence[dict[str, Any]]) -> list[Panel]:
    panels = []
    for job in dict.fromkeys(each["job"] for each in simulated):
        mine = [each for each in simulated if each["job"] == job]
        bars = [Bar(f"{each['nodes']:,} nodes", spread([each["speed_up"]]), True) for each in mine]
        panels.append(Panel(job, "times as fast as one core", bars))
    return panels


if __name__ == "__main__":
    main()
