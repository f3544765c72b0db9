"""What is run for the verdicts, and what of it they are taken by: numbers by hand, and a whole run in small."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.paper import confirmation
from srgdqn.paper.cells import QUIET, MeasurementCell, RunCell
from srgdqn.paper.claims.cases import CLAIMS_OF_A_SET
from srgdqn.paper.claims.evidence import find_evidence, write_evidence
from srgdqn.paper.confirmation import (
    ARMS,
    PILOT,
    SETS,
    cells,
    confirm,
    cut_share,
    exact_of,
    task_cells,
    threshold_of,
    thresholds_json,
)
from srgdqn.paper.scale import CONFIRMATION, CONTROLS, QUICK
from srgdqn.paper.studies.figure_2 import cell_name
from srgdqn.paper.studies.training_time import first_steps, reaching_of
from synthetic_outcomes import planted_run

# The design


def test_seeds_and_rounds_are_those_of_the_readings_page() -> None:
    assert CONFIRMATION.seed == 40_001
    assert dict(CONFIRMATION.rounds) == {"MountainCar": 3_000, "Pendulum": 1_000, "CartPole": 2_000}
    names = ("exact_rounds", "episode_rounds", "spread_rounds", "anchor_rounds", "dose_rounds")
    by_claim = tuple(getattr(CONFIRMATION, name) for name in names)
    assert by_claim == (40, 100, 100, 50, 400)
    assert (CONFIRMATION.exact_steps, CONFIRMATION.dose_steps) == (100_000, 100_000)
    assert PILOT.seed == 10_000


@pytest.mark.parametrize("given", SETS, ids=lambda given: given.name)
def test_every_run_has_the_set_s_readings_and_fresh_seeds(given: confirmation.ReadingSet) -> None:
    listed = cells(CONFIRMATION, given)
    assert len({cell.name for cell in listed}) == len(listed)
    for cell in listed:
        if isinstance(cell, RunCell):
            configuration = cell.configuration
        elif isinstance(cell, MeasurementCell) and hasattr(cell.plan, "configuration"):
            configuration = cell.plan.configuration
        else:
            continue
        assert (configuration.training.seed, configuration.readings) == (40_001, given.readings)
        period = {"mnih": 100, "mnih-20": 20}.get(given.name)
        if period is not None:
            assert configuration.gradients.target == "hard"
            assert configuration.gradients.target_period == period


def test_yardsticks_run_as_often_as_the_arms_under_the_same_conditions() -> None:
    by_name = {cell.name: cell.configuration for cell in task_cells(CONFIRMATION, SETS[0])}
    for task in CONFIRMATION.rounds:
        same = {
            (
                by_name[cell_name(task, "corrected", arm)].task,
                dataclasses.replace(by_name[cell_name(task, "corrected", arm)].training, lanes=1),
            )
            for arm in ARMS
        }
        assert len(same) == 1


# Numbers by hand


def test_a_threshold_is_reached_where_the_mean_of_all_later_windows_is_above_it() -> None:
    rng = np.random.default_rng(0)
    values, ends = rng.normal(size=(200, 7)), np.cumsum(rng.integers(1, 9, (200, 7)), 1)
    found = first_steps(values, ends, 0.2)
    for row in range(200):
        there = [k for k in range(7) if values[row, k:].mean() >= 0.2]
        assert found[row] == (ends[row, there[0]] if there else np.inf)
    assert 0 < np.isinf(found).sum() < 200


def test_what_never_gets_there_counts_as_the_longest_round_at_the_dearest_cost() -> None:
    ours = planted_run("CartPole", "srg-dqn", [50.0, 0.0, 50.0], lengths=[10, 10, 10], diverged={2: 300})
    theirs = planted_run("CartPole", "dqn-sgd", [0.0, 0.0, 0.0], lengths=[70, 30, 20])
    found = reaching_of({"srg-dqn": ours, "dqn-sgd": theirs}, {"srg-dqn": 2.0, "dqn-sgd": 5.0}, 25.0)
    never = 120 * 70 * 5.0
    np.testing.assert_array_equal(found["srg-dqn"].reached, [True, False, False])
    np.testing.assert_array_equal(found["srg-dqn"].diverged, [False, False, True])
    assert found["srg-dqn"].seconds[0] < 120 * 10 * 2.0
    np.testing.assert_array_equal(found["srg-dqn"].seconds[1:], [never, never])
    np.testing.assert_array_equal(found["dqn-sgd"].seconds, [never] * 3)
    assert not found["dqn-sgd"].reached.any()


def test_a_threshold_is_halfway_from_the_untrained_agent_to_the_best_of_four() -> None:
    centres = {"untrained": 1.0, "random": 2.0, "svr-dqn": 7.0, "sgd-inner": 100.0}
    outcomes = {
        cell_name("MountainCar", "corrected", arm): planted_run(
            "MountainCar",
            arm if arm not in ("random", "untrained") else "dqn-sgd",
            [centres.get(arm, 3.0)] * 4,
            diverged={0: 500} if arm == "svr-dqn" else None,
        )
        for arm in ARMS
    }
    # A diverged round of the best scores the worst of the finished ones, or the random policy: 2.
    assert threshold_of(outcomes, "MountainCar", "corrected") == pytest.approx((1.0 + (3 * 7.0 + 2.0) / 4) / 2)


def test_episodes_that_were_cut_are_counted() -> None:
    run = planted_run("MountainCar", "srg-dqn", [1.0, 1.0], episodes=4)
    endings = pl.Series("ending", ["censored", "terminated", "terminated", "terminated"] * 2)
    tables = {**run.run.tables, "episodes": run.episodes.with_columns(endings)}
    assert cut_share(type(run)(dataclasses.replace(run.run, tables=tables))) == 0.25


def exact_tables(diverged: list[tuple[str, int, int]]) -> dict[str, pl.DataFrame]:
    """Two rounds with evaluations at steps 10, 20 and 30 that say arm, round and step."""
    rows = [
        {"arm": arm, "round": number, "step": step, "reward": 100 * (arm == "exact") + 10 * number + step / 10}
        for arm in ("ordinary", "exact")
        for number in range(3)
        for step in (10, 20, 30)
    ]
    lost = {(arm, number) for arm, number, _ in diverged} | {
        ("exact", number) for arm, number, _ in diverged if arm == "ordinary"
    }
    rounds = [
        {"arm": arm, "round": number, "diverged": (arm, number) in lost}
        for arm in ("ordinary", "exact")
        for number in range(3)
    ]
    yardsticks = [
        {"arm": arm, "round": number, "reward": value + number}
        for arm, value in (("random", 0.5), ("untrained", 0.25))
        for number in range(3)
    ]
    return {
        "evaluations": pl.DataFrame(rows),
        "rounds": pl.DataFrame(rounds),
        "diverged": pl.DataFrame(diverged, schema={"arm": str, "round": int, "step": int}, orient="row"),
        "yardsticks": pl.DataFrame(yardsticks),
    }


def test_what_was_evaluated_since_a_round_diverged_does_not_count() -> None:
    """A round whose recording ends early has no exact anchors from there on either."""
    found = exact_of(exact_tables([("exact", 0, 15), ("ordinary", 2, 25)]))
    nan = np.nan
    np.testing.assert_array_equal(found.values["ordinary"], [[1, 2, 3], [11, 12, 13], [21, 22, nan]])
    np.testing.assert_array_equal(found.values["exact"], [[101, nan, nan], [111, 112, 113], [121, 122, nan]])
    np.testing.assert_array_equal(found.random, [0.5, 1.5, 2.5])
    np.testing.assert_array_equal(found.untrained, [0.25, 1.25, 2.25])


# A whole run in small

TINY = dataclasses.replace(
    QUICK,
    name="tiny",
    seed=10_007,
    rounds=dict.fromkeys(CONFIRMATION.rounds, 3),
    exact_steps=2_000,
    anchor_steps=4_000,
    spread_rounds=3,
    spread_steps=20_000,
    doses=((0.0, 1), (1.0, 1), (1.0, 64)),
    dose_rounds=3,
    dose_steps=3_000,
    episodes=3,
    shorter={"MountainCar": {"steps": 3_000}, "Pendulum": {"steps": 3_000}, "CartPole": {"episodes": 105}},
)


@pytest.mark.slow
def test_a_small_run_is_judged_stored_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = {each.name: dict.fromkeys(CONFIRMATION.rounds, 0.0) for each in SETS}
    monkeypatch.setattr(confirmation, "read_thresholds", lambda: thresholds)
    sets = SETS[2:]
    found = confirm(tmp_path, QUIET, TINY, sets, resamples=200)
    for given in sets:
        verdicts = {each.name: each.verdict for each in found.judgements[given.name]}
        assert len(verdicts) == (CLAIMS_OF_A_SET + 1 if given.whole else 7)
        assert set(verdicts.values()) <= {"holds", "fails", "undecided", "moot"}
    scores = {table.name: table.frame for table in found.tables}["confirmation-scores"]
    assert set(scores.filter(pl.col("readings") == "mnih")["arm"]) == {*ARMS, *CONTROLS} > set(PAPER)
    write_evidence(found, tmp_path)
    stored = find_evidence("confirmation", tmp_path)
    assert stored is not None
    assert repr(stored.judgements) == repr(found.judgements)  # NaN equals nothing
    computed: list[Any] = []
    monkeypatch.setattr(RunCell, "compute", lambda *given: computed.append(given))
    monkeypatch.setattr(MeasurementCell, "compute", lambda *given: computed.append(given))
    again = confirm(tmp_path, QUIET, TINY, sets, resamples=200)
    assert computed == []
    assert repr(again.judgements) == repr(found.judgements)


def test_thresholds_are_written_with_their_seeds() -> None:
    content = json.loads(thresholds_json({"corrected": {"MountainCar": 0.25}}))
    assert content == {
        "seed": 10_000,
        "rounds": dict.fromkeys(CONFIRMATION.rounds, 200),
        "thresholds": {"corrected": {"MountainCar": 0.25}},
    }
