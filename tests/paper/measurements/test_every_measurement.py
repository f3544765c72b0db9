"""What all measurements have in common: progress, being stopped, and rounds that diverge."""

from __future__ import annotations

import dataclasses
import threading
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from measured import watched
from srgdqn.interrupts import StopRequestedError
from srgdqn.paper.measurements import (
    anchors,
    dose_errors,
    exact_anchors,
    gradient_spread,
    step_times,
    theorem_1,
)
from tiny import tiny

pytestmark = pytest.mark.usefixtures("double")

STEPS = (48, 190)


def configuration(algorithm: str = "srg-dqn", **options: Any) -> Any:
    return tiny(
        algorithm, **{"rounds": 3, "inner_iterations": 8, "reward_scale": 0.5, "eta": 0.01, "alpha": 0.01, **options}
    )[0]


def looking(measurement: ModuleType, **options: Any) -> Any:
    """The plan of a measurement that looks at moments of a recorded run."""
    own = {"window": 48, "batches": 3, "picks": 2} if measurement is gradient_spread else {}
    return measurement.Plan(configuration(**options), STEPS, **own)


PLANS = {
    anchors: looking(anchors),
    dose_errors: dose_errors.Plan(configuration("sgd-inner-adam"), STEPS, ((1.0, 1),), 2),
    gradient_spread: looking(gradient_spread),
    exact_anchors: exact_anchors.Plan(configuration("svr-dqn-no-adam", steps=128, evaluation_interval=32)),
    step_times: step_times.Plan({"one": configuration()}, 5, 7),
    theorem_1: dataclasses.replace(theorem_1.TheoremPlan.quick(), problems=("convex",), multiples=(1.0,)),
}


@pytest.mark.parametrize(
    ("measurement", "beyond"),
    [
        (anchors, 0.0),  # while training
        (dose_errors, 0.4),  # while looking
        (gradient_spread, 0.5),
        *((exact_anchors, when) for when in (0.04, 0.53)),  # in the second and third of three arms
        (step_times, 0.0),
        (theorem_1, 0.0),
    ],
    ids=lambda given: given.__name__.rpartition(".")[2] if isinstance(given, ModuleType) else str(given),
)
def test_it_reports_its_progress_and_stops_when_asked_to(measurement: ModuleType, beyond: float) -> None:
    shares: list[float] = []
    stop = threading.Event()

    def report(share: float) -> None:
        shares.append(share)
        if share > beyond:
            stop.set()

    with pytest.raises(StopRequestedError):
        measurement.measure(PLANS[measurement], report, stop)
    assert shares == sorted(shares)
    assert beyond < shares[-1] < 1


LOOKING = pytest.mark.parametrize(
    "measurement", [anchors, gradient_spread], ids=lambda module: module.__name__.rpartition(".")[2]
)


@LOOKING
def test_rounds_that_diverged_are_counted_and_left_out(measurement: ModuleType) -> None:
    run, tables = watched(measurement, looking(measurement, rounds=6, eta=0.5, seed=1))
    assert 0 < len(run.finite) < 6
    assert diverged(tables) == 6 - len(run.finite)
    for name, table in tables.items():
        if name not in ("rounds", "curves", "bounds"):
            assert table["round"].unique().sort().to_list() == run.finite
    for name in ("distances", "anatomy", "errors", "redraws"):
        assert name not in tables or all(column.is_finite().all() for column in tables[name].select(pl.col(pl.Float64)))
    # Where all diverge, tables are empty and have their columns.
    _, empty = watched(measurement, looking(measurement, rounds=6, eta=1e30))
    assert diverged(empty) == 6
    for name, table in empty.items():
        assert table.schema == tables[name].schema
        assert table.is_empty() or name in ("rounds", "curves")


def diverged(tables: dict[str, pl.DataFrame]) -> int:
    return int(tables["rounds"]["diverged"].sum())
