"""Scores, against runs whose numbers are known: rounds that diverged are counted, and never left out of a score."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from srgdqn.errors import InputError
from srgdqn.sweeps.grid import check_score
from srgdqn.sweeps.scores import diverged_rounds, needs_chance, random_policy, row_of, score_of
from synthetic_runs import synthetic


def test_a_diverged_round_is_judged_by_its_last_evaluation() -> None:
    result = synthetic(rounds=4, steps=5_000, diverged={2: 1_700})
    means = []
    for number in range(4):
        mine = result.evaluations.filter(pl.col("round") == number)
        means.append(mine.filter(pl.col("step") == mine["step"].max())["return"].to_numpy().mean())
    score = score_of(result, "greedy-return", None)
    assert score.rounds == 4
    assert score.mean == pytest.approx(np.mean(means))


def test_a_diverged_round_has_the_random_policys_final_reward() -> None:
    result = synthetic(rounds=3, steps=5_000, diverged={1: 4_900})  # in the midst of the final stretch
    stretch = result.curves.filter(pl.col("step") > 4_000)
    rewards = [stretch.filter(pl.col("round") == number)["reward"].mean() for number in (0, 2)]
    score = score_of(result, "final-reward", -7.0)
    assert score.rounds == 3
    assert score.mean == pytest.approx(np.mean([rewards[0], -7.0, rewards[1]]))
    assert needs_chance(result, "final-reward")
    assert not needs_chance(result, "greedy-return")
    assert not needs_chance(synthetic(rounds=3, steps=5_000), "final-reward")


def test_a_row_counts_the_diverged() -> None:
    result = synthetic(rounds=5, steps=5_000, diverged={0: 1_500, 4: 2_500})
    row = row_of(result, "greedy-return", None)
    assert (row["rounds"], row["diverged"], row["final_reward_rounds"]) == (5, 2, 3)
    assert diverged_rounds(result) == {0, 4}
    assert row["score"] == row["greedy_return"]
    assert row["score_low"] <= row["score"] <= row["score_high"]


def test_the_random_policy_is_of_the_same_program() -> None:
    configuration = synthetic(steps=5_000).configuration
    random = random_policy(configuration)
    assert random.shape() == configuration.shape()
    assert (random.acting.epsilon_start, random.acting.epsilon_end) == (1.0, 1.0)
    assert (random.optimiser.eta, random.optimiser.alpha) == (0.0, 0.0)


def test_an_unknown_score() -> None:
    with pytest.raises(InputError, match="Did you mean 'greedy-return'"):
        check_score("greedy")
