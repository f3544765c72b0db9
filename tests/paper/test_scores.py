"""Scores of rounds by hand, on tables small enough to add up."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from srgdqn.paper.experiment import RANDOM, diverged_rounds, interval_text, mean_text
from srgdqn.paper.scores import REFERENCE, diverged_mask, filled_windows, matrix_of, values_of
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
    np.testing.assert_allclose(values_of(run, "final").means, [10.0, -1.5])
    np.testing.assert_allclose(values_of(run, "first half").means, [3.0, 2.0])


def test_a_round_that_diverged_has_no_value() -> None:
    """Even if in its last window, and whatever it had got before; but for what was over by then."""
    run = with_rewards([1.0] * 10, [50.0] * 10, [7.0] * 10, diverged={1: 9_999, 2: 500})
    np.testing.assert_allclose(values_of(run, "final").means, [1.0, np.nan, np.nan])
    np.testing.assert_allclose(values_of(run, "first half").means, [1.0, 50.0, np.nan])
    assert diverged_rounds(run) == 2
    assert diverged_rounds(with_rewards([1.0] * 10)) == 0


def test_the_last_hundred_episodes_by_hand() -> None:
    run = planted_run("CartPole", "svr-dqn", [2.0, 5.0, 9.0], earlies=[-100.0, 100.0, 0.0], diverged={2: 3_000})
    assert run.configuration.training.episodes == 120
    np.testing.assert_allclose(values_of(run, "final").means, [2.0, 5.0, np.nan])


def test_lengths_are_means_over_all_episodes() -> None:
    run = synthetic("MountainCar", "srg-dqn", rounds=3, episodes=30, diverged={1: 900}, noise=1)
    lengths = [run.episodes.filter(round=number)["length"].to_numpy().mean() for number in (0, 2)]
    np.testing.assert_allclose(values_of(run, "length").means, [lengths[0], np.nan, lengths[1]])


def test_an_unknown_interval_is_told_in_words() -> None:
    assert interval_text(log_sd_ratio_interval(np.ones(4), np.arange(4.0))) == "cannot be computed"
    assert mean_text(np.empty(0)) == "no round left"
    assert interval_text(Interval(0.5, -0.25, 1.0)) == "+0.500 [-0.250, +1.000]"
    assert interval_text(Interval(0.5, -0.25, 1.0), ".0f") == "0 [-0, 1]"


# What diverged rounds have in every window


def test_a_diverged_round_has_the_worst_of_each_window_by_hand() -> None:
    nan = np.nan
    windows = {
        "srg-dqn": np.array([[5.0, 5.0, 5.0], [4.0, nan, nan], [9.0, 1.0, 8.0]]),
        "svr-dqn": np.array([[6.0, 3.0, 7.0], [-9.0, -9.0, nan]]),  # a round that diverged later is no finished one
        "dqn-adam": np.array([[-5.0, -5.0, -5.0], [nan, nan, nan]]),  # no arm that the worst is taken from
        RANDOM: np.array([[0.0, 0.0, 0.0], [8.0, 8.0, 12.0]]),
    }
    diverged = {
        "srg-dqn": np.array([False, True, False]),
        "svr-dqn": np.array([False, True]),
        "dqn-adam": np.array([False, True]),
        RANDOM: np.zeros(2, bool),
    }
    found = filled_windows(windows, diverged)
    # Random is worst in the first window, a round of SRG-DQN in the second, one of its others in the third.
    np.testing.assert_array_equal(found["srg-dqn"], [[5.0, 5.0, 5.0], [4.0, 1.0, 5.0], [9.0, 1.0, 8.0]])
    np.testing.assert_array_equal(found["svr-dqn"], [[6.0, 3.0, 7.0], [-9.0, -9.0, 5.0]])
    np.testing.assert_array_equal(found["dqn-adam"], [[-5.0, -5.0, -5.0], [4.0, 1.0, 5.0]])
    np.testing.assert_array_equal(found[RANDOM], windows[RANDOM])
    longest = filled_windows(windows, diverged, max)
    np.testing.assert_array_equal(longest["srg-dqn"][1], [4.0, 5.0, 8.0])
    np.testing.assert_array_equal(longest["dqn-adam"][1], [9.0, 5.0, 8.0])
    among = filled_windows(windows, diverged, among=("dqn-adam",))
    np.testing.assert_array_equal(among["srg-dqn"][1], [4.0, -5.0, -5.0])


def test_where_nobody_finished_the_random_policys_mean_is_taken() -> None:
    windows = {"srg-dqn": np.array([[1.0, np.nan], [np.nan, np.nan]]), RANDOM: np.array([[1.0, 2.0], [3.0, 6.0]])}
    found = filled_windows(windows, {"srg-dqn": np.ones(2, bool), RANDOM: np.zeros(2, bool)})
    np.testing.assert_array_equal(found["srg-dqn"], [[1.0, 4.0], [2.0, 4.0]])


def test_what_a_round_lacks_without_having_diverged_stays_missing() -> None:
    nan = np.nan
    windows = {"srg-dqn": np.array([[1.0, nan], [nan, nan]]), RANDOM: np.array([[3.0, nan], [5.0, nan]])}
    found = filled_windows(windows, {"srg-dqn": np.array([False, True]), RANDOM: np.zeros(2, bool)}, max)
    np.testing.assert_array_equal(found["srg-dqn"], [[1.0, nan], [4.0, nan]])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("worst", [min, max])
def test_filled_windows_against_plain_loops(seed: int, worst: Callable[..., float]) -> None:
    rng = np.random.default_rng(seed)
    windows, diverged = {}, {}
    for name in (*REFERENCE[1:4], "dqn-gd", RANDOM):
        windows[name] = rng.normal(size=(6, 7))
        diverged[name] = rng.random(6) < (0.0 if name == RANDOM else 0.4)
        for row in np.flatnonzero(diverged[name]):
            windows[name][row, rng.integers(0, 7) :] = np.nan
    found = filled_windows(windows, diverged, worst)
    for name, mine in windows.items():
        for row in range(6):
            for window in range(7):
                value = mine[row, window]
                if np.isnan(value):
                    others = [
                        windows[arm][each, window]
                        for arm in REFERENCE[1:4]
                        for each in range(6)
                        if not diverged[arm][each]
                    ]
                    value = worst([*others, sum(windows[RANDOM][:, window]) / 6])
                assert found[name][row, window] == pytest.approx(value)


def test_a_matrix_has_means_by_round_and_point() -> None:
    rows = pl.DataFrame(
        {
            "round": [3, 1, 1, 3, 3],
            "step": [20, 10, 10, 10, 15],  # 15 is no point of the grid
            "success": [True, True, False, False, True],
        }
    )
    found = matrix_of(rows, "step", "success", pl.Series([3, 1, 2]), np.array([10, 20]))
    np.testing.assert_array_equal(found, [[0.5, np.nan], [np.nan, np.nan], [0.0, 1.0]])


def test_which_rounds_diverged_is_told_in_their_order() -> None:
    run = planted_run("Pendulum", "srg-dqn", np.zeros(4), diverged={2: 3_000, 0: 5_000})
    assert diverged_mask(run).tolist() == [True, False, True, False]


def test_the_first_half_is_that_of_the_budget_even_if_every_round_diverged() -> None:
    run = planted_run("Pendulum", "srg-dqn", np.ones(3), diverged={0: 2_000, 1: 4_900, 2: 8_000})
    assert run.configuration.training.steps == 10_000
    np.testing.assert_array_equal(values_of(run, "first half").diverged, [True, True, False])
