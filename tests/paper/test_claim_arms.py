"""What claims were judged by, on made-up outcomes."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from srgdqn.config.algorithms import PAPER
from srgdqn.paper.claim_arms import (
    anchor_rows,
    arm_rows,
    mean_interval,
    measurement_rows,
    steadiness_rows,
    survivor_rows,
)
from srgdqn.paper.claims.cases import Exact, judged
from srgdqn.paper.scale import CONFIRMATION
from synthetic_cases import ARMS, DOSES, ROUNDS, TASKS, diverging, values, world

CUT = dict.fromkeys(ARMS, 0.25)


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    found = replace(diverging(), cut=CUT)
    return arm_rows(found, judged(found, "mnih", 500), "mnih")


def test_every_claim_about_performance_has_its_arms(rows: list[dict]) -> None:
    arms = {claim: [row["arm"] for row in rows if row["claim"] == claim] for claim in {row["claim"] for row in rows}}
    assert set(arms) == {"C1", "C2", "C3", "C4", "C5a", "C5b", "C5c", "C6", "C10", "C12"}
    assert set(arms["C1"]) == {"exact", "ordinary"}
    assert set(arms["C4"]) == set(arms["C6"]) == set(PAPER)
    assert len(arms["C10"]) == 9
    assert len(arms["C12"]) == len(DOSES)


def test_means_divergence_and_learning_are_told(rows: list[dict]) -> None:
    found = {(row["claim"], row["arm"]): row for row in rows}
    exact = found["C1", "exact"]
    assert exact["diverged"] == "8 of 40 [10 %, 35 %]"
    assert (exact["has learned"], exact["beats the random policy"]) == ("yes", "yes")
    srg = world().final["Pendulum"]["srg-dqn"].means
    assert found["C3", "srg-dqn"]["mean [95 %]"].startswith(f"{srg.mean():.4g} [")
    assert found["C6", "srg-dqn"]["beside"] == "25% of the episodes were cut"
    assert found["C10", "CartPole: srg-dqn"]["beside"].startswith(f"{ROUNDS} of {ROUNDS} ")
    assert found["C10", "CartPole: srg-dqn"]["what"] == "milliseconds"
    stuck = replace(world(cut=CUT), final={task: dict.fromkeys(ARMS, values(1.0, 0.1, 0)) for task in TASKS})
    told = arm_rows(stuck, judged(stuck, "mnih", 500), "mnih")
    assert {row["has learned"] for row in told if row["claim"] in ("C2", "C5b")} == {"no"}


def test_survivors_are_told_beside_all_rounds() -> None:
    lost = values(3.0, 0.1, 4, lost=10)
    first = {"Pendulum": {**dict.fromkeys(ARMS, values(1.0, 0.1, 3)), "srg-dqn": lost}}
    rows = survivor_rows(world(first_half=first), "mnih")
    row = next(row for row in rows if row["contrast"] == "first-half reward over svr-dqn, Pendulum")
    apart = lost.means[10:] - values(1.0, 0.1, 3).means[10:]
    assert row["finished in both [95 %]"].startswith(f"{apart.mean():+.4g} [")
    assert (row["rounds"], row["in both"]) == (ROUNDS, ROUNDS - 10)
    assert {row["claim"] for row in rows} == {"C3", "C6", "C10", "C12"}
    assert row["all rounds [95 %]"] != row["finished in both [95 %]"]


def test_nothing_is_told_of_what_was_not_measured() -> None:
    found = replace(world(), exact=None, distances=None, spreads=None, doses=None, lengths={}, reaching={})
    assert measurement_rows(found, "mnih", CONFIRMATION) == []
    assert {row["claim"] for row in survivor_rows(found, "mnih")} == {"C3"}


def test_diverged_rounds_of_measured_runs_are_counted() -> None:
    found = world()
    assert found.distances is not None
    lost = found.distances._replace(diverged={"svr-dqn": 0.1, "srg-dqn": 0.0})
    rows = measurement_rows(replace(found, distances=lost), "mnih", CONFIRMATION)
    assert [row["diverged"][:7] for row in rows] == ["5 of 50", "0 of 50", "0 of 10", "0 of 10"]  # the last two of 100


def test_the_error_of_sampled_anchors_by_step() -> None:
    table = pl.DataFrame(
        {"round": [0, 1, 2] * 2, "step": [20, 20, 20, 10, 10, 10], "error": [0.1, 0.2, 0.3, 0.5, 0.5, 0.5]}
    )
    rows = anchor_rows({"anchors": table}, "mnih")
    assert [row["step"] for row in rows] == [10, 20]
    assert [row["median"] for row in rows] == ["50.0%", "20.0%"]


def test_the_standard_deviations_behind_steadiness_are_what_it_compares() -> None:
    found = world()
    spreads = {row["arm"]: row["S"] for row in steadiness_rows(found, "mnih")}
    (judgement,) = judged(found, "mnih", 500, only=["C1"])
    (ratio,) = [each for each in judgement.contrasts if each.label == "steadiness over rounds"]
    assert np.log(spreads["ordinary"] / spreads["exact"]) == pytest.approx(ratio.interval.estimate)
    lost = steadiness_rows(diverging(), "mnih")
    assert {(row["readings"], row["finished in both"]) for row in lost} == {("mnih", "32 of 40")}


def test_of_one_round_there_is_no_standard_deviation() -> None:
    lost = np.full((1, 20), np.nan)
    values = {arm: np.concatenate([np.ones((1, 20)), lost]) for arm in ("exact", "ordinary")}
    rows = steadiness_rows(replace(world(), exact=Exact(values, np.zeros(2), np.zeros(2))), "mnih")
    assert [(row["S"], row["finished in both"]) for row in rows] == [(None, "1 of 2")] * 2
    assert steadiness_rows(replace(world(), exact=None), "mnih") == []


def test_one_round_has_no_interval() -> None:
    assert np.isnan(mean_interval(np.ones(1), 0)).all()
    assert mean_interval(np.ones(5), 0) == (1.0, 1.0, 1.0)
