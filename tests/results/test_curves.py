import numpy as np
import pytest

import srgdqn
from host_environments import SMALL
from srgdqn.figures.learning_panels import learning_panel
from srgdqn.results.curves import (
    Curve,
    curve,
    points_of,
    seconds_at,
)
from synthetic_runs import synthetic


def test_every_point_is_the_mean_of_its_window_over_rounds() -> None:
    result = synthetic(rounds=4, steps=5_500)
    drawn = curve(result)
    rewards = result.curves.sort("round", "step")["reward"].to_numpy().reshape(4, 6)
    np.testing.assert_array_equal(drawn.x, [1_000, 2_000, 3_000, 4_000, 5_000, 5_500])
    np.testing.assert_array_equal(drawn.values, rewards)
    np.testing.assert_allclose(drawn.mean(), rewards.mean(0))
    low, high = drawn.sd_band()
    np.testing.assert_allclose(high - drawn.mean(), rewards.std(0, ddof=1))
    np.testing.assert_allclose(drawn.mean() - low, rewards.std(0, ddof=1))


def test_what_comes_after_divergence_is_missing() -> None:
    result = synthetic(rounds=3, steps=5_000, diverged={1: 2_512})
    drawn = curve(result)
    # The piece of a window that the round still made is none that the others have.
    np.testing.assert_array_equal(drawn.x, [1_000, 2_000, 3_000, 4_000, 5_000])
    np.testing.assert_array_equal(drawn.counts, [3, 3, 2, 2, 2])
    assert np.isnan(drawn.values[1, 2:]).all()
    others = result.curves.filter(step=3_000).sort("round")["reward"].to_numpy()
    assert drawn.mean()[2] == pytest.approx(others.mean())


def test_the_interval_is_the_bootstrap_of_whole_rounds() -> None:
    values = np.random.default_rng(0).normal(size=(12, 5))
    values[3:, 4] = np.nan
    values[1:, 3] = np.nan
    low, high = Curve(np.arange(5.0), values).interval_band()
    generator = np.random.default_rng(9)
    drawn = values[:, :3][generator.integers(0, 12, (20_000, 12))].mean(1)
    expected = np.quantile(drawn, [0.025, 0.975], axis=0)
    np.testing.assert_allclose([low[:3], high[:3]], expected, atol=0.03)
    assert np.isnan([low[3], high[3]]).all()  # a single round tells nothing of its spread
    assert low[4] < values[:3, 4].mean() < high[4]
    assert low[4] >= values[:3, 4].min()


def test_returns_are_averaged_with_those_of_the_nine_episodes_before() -> None:
    result = synthetic("CartPole", rounds=2, episodes=25)
    drawn = curve(result, points="episodes", x="episodes")
    returns = result.episodes.sort("round", "episode")["return"].to_numpy().reshape(2, 25)
    expected = [[row[max(0, k - 9) : k + 1].mean() for k in range(25)] for row in returns]
    np.testing.assert_array_equal(drawn.x, np.arange(1, 26))
    np.testing.assert_allclose(drawn.values, expected)
    ends = result.episodes.sort("round", "episode")["step"].to_numpy().reshape(2, 25)
    np.testing.assert_allclose(curve(result, points="episodes", x="steps").x, ends.mean(0))


def test_points_are_episodes_only_if_every_budget_is() -> None:
    by_steps, by_episodes = synthetic("CartPole", steps=2_000), synthetic("CartPole", episodes=20)
    assert points_of([by_episodes]) == "episodes"
    assert points_of([by_steps]) == points_of([by_steps, by_episodes]) == "windows"
    # Rounds that end at steps of their own have no common shorter window.
    windows = curve(by_episodes)
    np.testing.assert_array_equal(windows.x % 1_000, 0)


def test_gymnasiums_environments_have_returns_at_the_ends_of_windows() -> None:
    result = srgdqn.train("CartPole-v1", "dqn-adam", rounds=1, progress=False, **{**SMALL, "steps": 100})
    assert points_of([result]) == "returns"
    assert points_of([result, synthetic(rounds=1, steps=2_000)]) == "windows"
    drawn = curve(result, points="returns")
    ends, returns = (result.episodes.sort("step")[name].to_numpy() for name in ("step", "return"))
    expected = {step: returns[ends <= step][-10:].mean() for step in range(20, 101, 20) if (ends <= step).any()}
    np.testing.assert_array_equal(drawn.x, list(expected))
    np.testing.assert_allclose(drawn.values, [list(expected.values())])
    assert learning_panel([result]).y_label.startswith("return per episode")


def test_queries_are_those_of_the_windows() -> None:
    result = synthetic(rounds=2, steps=5_000)
    np.testing.assert_allclose(curve(result, x="queries").x, [k * 1_000 // 16 * 96 for k in range(1, 6)])


def test_seconds_are_a_rounds_share_of_its_chunks() -> None:
    result = synthetic(rounds=5, lanes=4, steps=10_000)
    rows = result.timings.filter(phase="train").sort("step")
    first = rows.filter(first_round=0, rounds=4)["seconds"].to_numpy()
    second = rows.filter(first_round=4, rounds=1)["seconds"].to_numpy()
    ends = np.array([4_096, 8_192, 10_000])
    np.testing.assert_allclose(seconds_at(result, 2, ends), np.cumsum(first) / 4)
    np.testing.assert_allclose(seconds_at(result, 4, ends), np.cumsum(second))
    np.testing.assert_allclose(seconds_at(result, 4, np.array([2_048])), second[0] / 2)
    expected = (4 * np.cumsum(first)[-1] / 4 + np.cumsum(second)[-1]) / 5
    assert curve(result, x="seconds").x[-1] == pytest.approx(expected)
