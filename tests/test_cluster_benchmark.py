"""The simulation of a cluster, held to what can be known without one; and the benchmark runs."""

import doctest
import importlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fenced import need_a_fence

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True, scope="module")
def simulation() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("cluster_simulation")
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_examples_are_true(simulation: Any) -> None:
    assert doctest.testmod(simulation).failed == 0


@given(
    lengths=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=30), nodes=st.integers(1, 4), cores=st.integers(1, 3)
)
def test_no_order_beats_the_bounds_of_scheduling(simulation: Any, lengths: list[float], nodes: int, cores: int) -> None:
    """A list schedule ends after the longest call and the mean load, and no later than both together (Graham, 1966)."""
    seconds, machines = simulation.simulate(lengths, nodes, cores, simulation.Costs()).seconds, nodes * cores
    assert seconds >= max(max(lengths), sum(lengths) / machines) - 1e-9
    assert seconds <= sum(lengths) / machines + (1 - 1 / machines) * max(lengths) + 1e-9


def test_every_cost_is_paid_where_it_arises(simulation: Any) -> None:
    costs = simulation.Costs(call=0.5, around=0.25, warm_up=2.0, connecting=1.0)
    # One core: a driver that waits for nobody, one warm-up, and what surrounds each of three calls.
    assert simulation.simulate([10.0] * 3, 1, 1, costs).seconds == 1.0 + 2.0 + 3 * (0.5 + 10.0 + 0.25)


def test_what_dies_is_done_again_from_its_checkpoint(simulation: Any) -> None:
    """One call of 1,000 s on one node that dies about every 1,500 s."""
    deadly = simulation.Costs(between_deaths=1_500.0, noticing=10.0, repairing=50.0)
    anew = [simulation.simulate([1_000.0], 1, 1, deadly, seed) for seed in range(300)]
    resumed = [simulation.simulate([1_000.0], 1, 1, deadly._replace(kept_every=10.0), seed) for seed in range(300)]
    # Each try lasts until the end or a death: (e^(λt) − 1) / λ of work on average, and the repair after every death.
    work, deaths = (math.exp(1_000 / 1_500) - 1) * 1_500, math.exp(1_000 / 1_500) - 1
    assert sum(made.seconds for made in anew) / 300 == pytest.approx(work + deaths * 50, rel=0.1)
    assert all(0 <= made.lost <= 10 * made.deaths for made in resumed)
    assert sum(made.seconds for made in resumed) / 300 == pytest.approx(1_000 + 1_000 / 1_500 * 55, rel=0.05)


@pytest.mark.cluster
def test_clusters_are_measured_and_simulated(tmp_path: Path) -> None:
    need_a_fence()
    out = tmp_path / "cluster.json"
    command = [sys.executable, str(BENCHMARKS / "cluster.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert set(report["checks"]) == {"1", "2"}
    for check in report["checks"].values():
        assert 0.2 < check["ratio"]["median"] < 5
        assert check["ratio"]["turns"] == [check["foretold"][0] / check["measured"]["turns"][0]]
    assert [each["nodes"] for each in report["simulated"]] == [1, 10, 100, 1_000] * 2
    assert all(0 < each["efficiency"] <= 1 for each in report["simulated"])
