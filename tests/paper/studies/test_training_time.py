"""The section on training time; how rounds reach a threshold is tested with the confirmation."""

import numpy as np
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.cells import MeasurementCell
from srgdqn.paper.scale import CONTROLS, PAPER_SCALE, SETS
from srgdqn.paper.studies import training_time
from synthetic_outcomes import TASKS, world


def test_timing_runs_alone_with_every_algorithm_of_the_paper() -> None:
    cells = training_time.cells(PAPER_SCALE, "corrected")
    (timing,) = (cell for cell in cells if isinstance(cell, MeasurementCell))
    assert timing.name == "step-times-corrected"
    assert timing.alone
    assert timing.plan.turns == PAPER_SCALE.timing_turns
    assert set(timing.plan.configurations) == {f"{task}-{name}" for task in TASKS for name in (*PAPER, *CONTROLS)}
    for task in TASKS:  # lanes counted alike, in the timing as in the runs
        widths = {c.training.lanes for name, c in timing.plan.configurations.items() if name.startswith(task)}
        runs = {c.configuration.training.lanes for c in cells if c is not timing and c.configuration.task.task == task}
        assert len(widths | runs) == 1


def test_the_section_counts_who_reached_it(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = {"corrected": dict.fromkeys(TASKS, 1.0)}
    monkeypatch.setattr(training_time, "read_thresholds", lambda: thresholds)
    section = training_time.show(PAPER_SCALE, ("corrected",), world(True))
    rows = {(row["task"], row["algorithm"]): row for row in section.tables[0].frame.to_dicts()}
    assert len(rows) == 12
    mine, theirs = rows["Pendulum", "srg-dqn"], rows["Pendulum", "svr-dqn"]
    assert (mine["reached"], mine["threshold"], mine["µs per step"]) == ("24 of 24", "1.000", "1.00")
    # Every round is there from its first window of 1,000 steps on: a thousandth of a second.
    assert (mine["mean milliseconds"], mine["diverged"]) == ("1.00", "0 of 24 [0 %, 14 %]")
    assert theirs["reached"] != "24 of 24"
    curve = next(series for series in section.charts[0].panels[1].series if series.label == "srg-dqn")
    assert curve.y[-1] == 1.0
    np.testing.assert_allclose(curve.x["milliseconds"][1:-1], 1.0)


def test_released_thresholds_are_there_for_all_sets_and_tasks() -> None:
    found = training_time.read_thresholds()
    assert set(found) == set(SETS)
    assert all(set(each) == set(TASKS) for each in found.values())
