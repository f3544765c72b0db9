"""Scores of rounds by hand, on tables small enough to add up."""

import numpy as np
import polars as pl

from srgdqn.paper.experiment import diverged_rounds, final_scores, first_half_scores, interval_text, mean_lengths
from srgdqn.results.result import Result
from srgdqn.results.statistics import Interval, log_sd_ratio_interval
from srgdqn.runs.run import Run
from synthetic_outcomes import planted_run
from synthetic_runs import synthetic


def with_rewards(*rounds: list[float], diverged: dict[int, int] | None = None) -> Result:
    """A run of ten windows with these rewards in each round."""
    run = planted_run("MountainCar", "srg-dqn", np.zeros(len(rounds)), diverged=diverged)
    given = pl.concat(
        [
            pl.DataFrame({"round": pl.Series([number] * 10, dtype=pl.Int32), "reward": rewards})
            .with_row_index("place")
            .select("round", (pl.col("place").cast(pl.Int64) * 1_000 + 1_000).alias("step"), "reward")
            for number, rewards in enumerate(rounds)
        ]
    )
    curves = (
        run.curves.drop("reward")
        .join(given, on=["round", "step"], how="left")
        .with_columns(pl.col("reward").fill_null(1e9))
    )
    # Rows may lie in any order.
    curves = curves.select(run.curves.columns).sample(fraction=1.0, shuffle=True, seed=0)
    return Result(Run(run.configuration, {**run.run.tables, "curves": curves}, run.run.parameters, run.run.provenance))


def test_the_last_fifth_and_the_first_half_by_hand() -> None:
    run = with_rewards([1, 2, 3, 4, 5, 6, 7, 8, 9, 11], [0, 0, 0, 0, 10, 100, 0, 0, -1, -2])
    np.testing.assert_allclose(final_scores(run, 0.0), [10.0, -1.5])
    np.testing.assert_allclose(first_half_scores(run, 0.0), [3.0, 2.0])


def test_a_round_that_diverged_scores_as_the_random_policy() -> None:
    """Even in its last window, and whatever it had got before."""
    run = with_rewards([1.0] * 10, [50.0] * 10, [7.0] * 10, diverged={1: 9_999, 2: 500})
    np.testing.assert_allclose(final_scores(run, -3.0), [1.0, -3.0, -3.0])
    np.testing.assert_allclose(first_half_scores(run, -3.0), [1.0, -3.0, -3.0])
    assert diverged_rounds(run) == 2
    assert diverged_rounds(with_rewards([1.0] * 10)) == 0


def test_the_last_hundred_episodes_by_hand() -> None:
    run = planted_run("CartPole", "svr-dqn", [2.0, 5.0, 9.0], earlies=[-100.0, 100.0, 0.0], diverged={2: 3_000})
    assert run.configuration.training.episodes == 120
    np.testing.assert_allclose(final_scores(run, 0.5), [2.0, 5.0, 0.5])


def test_lengths_are_means_over_all_episodes() -> None:
    run = synthetic("MountainCar", "srg-dqn", rounds=3, episodes=30, diverged={1: 900}, noise=1)
    lengths = [run.episodes.filter(round=number)["length"].to_numpy().mean() for number in (0, 2)]
    np.testing.assert_allclose(mean_lengths(run, 555.0), [lengths[0], 555.0, lengths[1]])


def test_an_unknown_interval_is_a_dash() -> None:
    assert interval_text(log_sd_ratio_interval(np.ones(4), np.arange(4.0))) == "–"
    assert interval_text(Interval(0.5, -0.25, 1.0)) == "+0.500 [-0.250, +1.000]"
    assert interval_text(Interval(0.5, -0.25, 1.0), ".0f") == "0 [-0, 1]"
