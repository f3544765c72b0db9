"""Steps to the threshold on curves made by hand."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.cells import MeasurementCell
from srgdqn.paper.scale import PAPER_SCALE
from srgdqn.paper.studies import training_time
from srgdqn.paper.studies.training_time import seconds_to_threshold
from srgdqn.results.result import Result
from srgdqn.runs.run import Run
from synthetic_outcomes import PILOT, TASKS, planted_run, step_times, world


def with_curves(task: str, column: str, *rounds: list[float], diverged: dict[int, int] | None = None) -> Result:
    """The first values of each round's windows or episodes; what it was planted with, 0, from there on."""
    run = planted_run(task, "srg-dqn", np.zeros(len(rounds)), diverged=diverged)
    name = "curves" if column == "reward" else "episodes"
    table = run.run.tables[name].sort("round", "step")
    values = []
    for number, given in enumerate(rounds):
        count = table.filter(round=number).height
        values += [*given[:count], *[0.0] * (count - len(given))]
    tables = {**run.run.tables, name: table.with_columns(pl.Series(column, values, dtype=pl.Float64)).reverse()}
    return Result(Run(run.configuration, tables, run.run.parameters, run.run.provenance))


def outcomes_of(task: str, run: Result, cost: float = 1e-3, other: Result | None = None) -> dict[str, Any]:
    """The run as SRG-DQN's, beside others of the paper's algorithms; a step of these costs a microsecond."""
    beside = {f"{task}-{name}-corrected": run if other is None else other for name in PAPER}
    return {**beside, f"{task}-srg-dqn-corrected": run, "step-times-corrected": step_times({"srg-dqn": cost})}


def test_windows_are_averaged_by_five() -> None:
    run = with_curves(
        "MountainCar",
        "reward",
        [5.0] * 10,  # from the first average on
        [0, 0, 0, 0, 0, 5, 5, 5, 5, 5],  # after four of five, which average to 4
        [20.0, 0, 0, 0, 0, 0, 0, 0, 0, 0],  # one high window makes an average of 4
        [3.9] * 10,  # never
    )
    spent, reached = seconds_to_threshold(outcomes_of("MountainCar", run), "corrected", "MountainCar", "srg-dqn", 4.0)
    # The median of three turns' costs, of which one is an outlier, is a thousandth of a second.
    np.testing.assert_allclose(spent, [5.0, 9.0, 5.0, 10.0])
    assert reached.tolist() == [True, True, True, False]


def test_episodes_are_averaged_by_ten() -> None:
    run = with_curves("CartPole", "return", [8.0] * 120, [0.0] * 30 + [8.0] * 90, [7.0] * 120)
    spent, reached = seconds_to_threshold(outcomes_of("CartPole", run, 1.0), "corrected", "CartPole", "srg-dqn", 8.0)
    # Episodes have 50 steps: the tenth ends at 500, the fortieth at 2,000, and the last at 6,000.
    np.testing.assert_allclose(spent, [500, 2_000, 6_000])
    assert reached.tolist() == [True, True, False]


def test_a_round_that_diverged_before_is_no_fast_one() -> None:
    lost = {0: 3_000, 1: 3_008}
    some = with_curves("Pendulum", "reward", [9.0] * 3, [9.0] * 3, [9.0] * 10, diverged=lost)
    spent, reached = seconds_to_threshold(outcomes_of("Pendulum", some), "corrected", "Pendulum", "srg-dqn", 4.0)
    np.testing.assert_allclose(spent, [10.0, 10.0, 5.0])  # of which 10.0 are 10,000 steps at a thousandth of a second
    assert reached.tolist() == [False, False, True]
    # Where every round diverged it counts with the longest round of the other algorithms.
    every = with_curves("Pendulum", "reward", [9.0] * 3, [9.0] * 3, diverged=lost)
    outcomes = outcomes_of("Pendulum", every, other=some)
    spent, reached = seconds_to_threshold(outcomes, "corrected", "Pendulum", "srg-dqn", 4.0)
    np.testing.assert_allclose(spent, [10.0, 10.0])
    assert not reached.any()


def test_a_round_that_diverges_later_has_to_be_trained_again() -> None:
    run = with_curves("Pendulum", "reward", [9.0] * 8, [9.0] * 10, diverged={0: 8_000})
    spent, reached = seconds_to_threshold(outcomes_of("Pendulum", run), "corrected", "Pendulum", "srg-dqn", 4.0)
    np.testing.assert_allclose(spent, [10.0, 5.0])
    assert reached.tolist() == [False, True]


def test_being_cheap_is_not_being_fast() -> None:
    """DQN with SGD, a thousand times cheaper by the step, never gets there: it counts at the dearest one's cost."""
    there, never = with_curves("Pendulum", "reward", [9.0] * 10), with_curves("Pendulum", "reward", [0.0] * 10)
    outcomes = {**outcomes_of("Pendulum", there), "Pendulum-dqn-sgd-corrected": never}
    ours, theirs = (
        seconds_to_threshold(outcomes, "corrected", "Pendulum", name, 4.0)[0] for name in ("srg-dqn", "dqn-sgd")
    )
    np.testing.assert_allclose([ours, theirs], [[5.0], [10.0]])


def test_short_episodes_that_never_get_there_are_not_fast_either() -> None:
    short = planted_run("CartPole", "srg-dqn", [0.0, 0.0], lengths=[10, 12])
    long = planted_run("CartPole", "svr-dqn", [9.0, 9.0], lengths=[100, 150])
    outcomes = outcomes_of("CartPole", short, cost=1.0, other=long)
    spent, reached = seconds_to_threshold(outcomes, "corrected", "CartPole", "srg-dqn", 4.0)
    np.testing.assert_allclose(spent, 120 * 150)
    assert not reached.any()


def test_timing_runs_alone_with_every_algorithm_of_the_paper() -> None:
    cells = training_time.cells(PAPER_SCALE, "corrected")
    (timing,) = (cell for cell in cells if isinstance(cell, MeasurementCell))
    assert timing.name == "step-times-corrected"
    assert timing.alone
    assert timing.plan.turns == PAPER_SCALE.timing_turns
    assert set(timing.plan.configurations) == {f"{task}-{name}" for task in TASKS for name in PAPER}
    for task in TASKS:  # lanes counted alike, in the timing as in the runs
        widths = {c.training.lanes for name, c in timing.plan.configurations.items() if name.startswith(task)}
        runs = {c.configuration.training.lanes for c in cells if c is not timing and c.configuration.task.task == task}
        assert len(widths | runs) == 1


def test_the_section_counts_who_reached_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_time, "read_pilot", lambda: PILOT)
    outcomes = world(True)
    section = training_time.show(PAPER_SCALE, ("corrected",), outcomes)
    rows = {(row["task"], row["algorithm"]): row for row in section.tables[0].frame.to_dicts()}
    assert len(rows) == 12
    mine = rows["Pendulum", "srg-dqn"]
    assert (mine["reached"], mine["threshold"], mine["µs per step"]) == ("24 of 24", "1.000", "1.00")
    assert (mine["geometric mean of seconds"], mine["diverged"]) == ("0.005", "0 of 24 [0 %, 14 %]")
    panel = section.charts[0].panels[1]
    curve = next(series for series in panel.series if series.label == "srg-dqn")
    assert curve.y[-1] == 1.0
    np.testing.assert_allclose(curve.x["seconds"][1:-1], 5e-3)
