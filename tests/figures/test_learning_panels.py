from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from srgdqn.figures.charts import STYLES, Series, Style
from srgdqn.figures.learning_panels import ScoredRounds, default_axes, learning_panel, scored_series
from srgdqn.results.curves import AXES, curve
from synthetic_runs import synthetic


def test_series_have_positions_along_every_axis() -> None:
    results = [
        synthetic(algorithm=name, rounds=3, steps=5_000, noise=k) for k, name in enumerate(("srg-dqn", "dqn-sgd"))
    ]
    panel = learning_panel(results, group="corrected", band="sd")
    assert list(panel.x_labels) == ["steps", "queries", "seconds"]
    for result, series in zip(results, panel.series, strict=True):
        assert series.group == "corrected"
        for axis in panel.x_labels:
            np.testing.assert_array_equal(series.x[axis], curve(result, x=axis).x)  # type: ignore[arg-type]
        np.testing.assert_array_equal(series.y, curve(result).mean())
        np.testing.assert_array_equal([series.low, series.high], curve(result).sd_band())


def test_budgets_in_episodes_have_episodes_first() -> None:
    result = synthetic("CartPole", rounds=2, episodes=20)
    assert default_axes([result]) == AXES
    panel = learning_panel([result], band="none")
    assert next(iter(panel.x_labels)) == "episodes"
    np.testing.assert_array_equal(panel.series[0].x["episodes"], np.arange(1, 21))
    assert panel.series[0].low is None


def test_a_label_with_a_style_has_it_whatever_its_algorithm() -> None:
    results = [synthetic(algorithm="dqn-sgd", rounds=2, steps=2_000, seed=seed) for seed in (0, 1)]
    first, second = learning_panel(results, labels=("dqn-sgd", "random")).series
    assert (first.style, second.style) == (STYLES["dqn-sgd"], STYLES["random"])


@pytest.mark.parametrize(("counted", "label"), [(False, "srg-dqn"), (True, "srg-dqn (1 of 2 diverged)")])
def test_diverged_rounds_are_counted_on_request(counted: bool, label: str) -> None:
    result = synthetic(rounds=2, steps=4_000, diverged={1: 1_504})
    assert learning_panel([result], count_diverged=counted).series[0].label == label


# What all rounds score


def floor_of_minus_nine(values: Mapping[str, np.ndarray], diverged: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As if a diverged round scored -9."""
    return {name: np.where(diverged[name][:, None] & np.isnan(mine), -9.0, mine) for name, mine in values.items()}


WINDOWS = 10


def panel_with(stops: dict[int, int], **options: Any) -> tuple[np.ndarray, list[Series]]:
    """The rewards of ten rounds in ten windows, NaN once they have diverged, and the series of their panel."""
    result = synthetic(rounds=10, steps=1_000 * WINDOWS, diverged=stops, noise=3)
    beside = synthetic(algorithm="dqn-sgd", rounds=10, steps=1_000 * WINDOWS)
    rewards = np.full((10, WINDOWS), np.nan)
    for number, step, reward in result.curves.select("round", "step", "reward").iter_rows():
        if step % 1_000 == 0:
            rewards[number, step // 1_000 - 1] = reward
    panel = learning_panel([result, beside], band="sd", fill=floor_of_minus_nine, group="corrected", **options)
    return rewards, [series for series in panel.series if series.label.startswith("srg-dqn")]


def test_without_divergence_a_filled_panel_is_the_plain_one() -> None:
    rewards, (line,) = panel_with({})
    np.testing.assert_allclose(line.y, rewards.mean(0))
    np.testing.assert_allclose(line.high, rewards.mean(0) + rewards.std(0, ddof=1))
    assert (line.note, line.style, line.shown) == ("", STYLES["srg-dqn"], True)


def test_a_few_diverged_rounds_count_with_their_score_and_are_told_at_the_end() -> None:
    rewards, (line, survivors) = panel_with({1: 3_504, 7: 6_000})
    gone = np.isnan(rewards)
    assert gone.sum(0).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]  # a window that was not finished is none
    filled = np.where(gone, -9.0, rewards)
    np.testing.assert_allclose(line.y, filled.mean(0))
    np.testing.assert_allclose(line.low, filled.mean(0) - filled.std(0, ddof=1))
    assert (line.note, line.style) == ("8 of 10 left", STYLES["srg-dqn"])  # four fifths are enough
    assert (survivors.label, survivors.shown, survivors.group) == ("srg-dqn, survivors only", False, "corrected")
    np.testing.assert_allclose(survivors.y, np.nanmean(rewards, 0))
    np.testing.assert_array_equal(survivors.x["steps"], 1_000 * np.arange(1, 11))


def test_a_line_is_dashed_and_bare_from_where_fewer_than_four_fifths_are_left() -> None:
    stops = {0: 2_000, 1: 2_500, 2: 4_008, 3: 8_000}  # 9, 8 and 7 are left in the third, the third and the fifth window
    rewards, (head, tail, survivors) = panel_with(stops)
    filled = np.where(np.isnan(rewards), -9.0, rewards)
    assert np.isfinite(rewards).sum(0).tolist() == [10, 10, 8, 8, 7, 7, 7, 7, 6, 6]
    np.testing.assert_array_equal(head.x["steps"], [1_000, 2_000, 3_000, 4_000])
    np.testing.assert_array_equal(tail.x["steps"], 1_000 * np.arange(4, 11))  # the fourth is in both
    np.testing.assert_allclose(np.concatenate([head.y, tail.y[1:]]), filled.mean(0))
    assert head.y[-1] == tail.y[0]
    assert (head.label, head.group) == (tail.label, tail.group)
    assert (head.style.dashes, tail.style.dashes) == ("-", "--")
    assert head.style.color == tail.style.color
    assert head.low is not None
    assert len(head.low) == 4
    assert tail.low is tail.high is None
    assert (head.note, tail.note) == ("", "6 of 10 left")
    np.testing.assert_allclose(survivors.y, np.nanmean(rewards, 0))


def test_most_rounds_may_diverge_at_once_before_the_second_window() -> None:
    """There is no solid part of a single point."""
    rewards, (tail, survivors) = panel_with(dict.fromkeys(range(9), 1008))
    filled = np.where(np.isnan(rewards), -9.0, rewards)
    np.testing.assert_allclose(tail.y, filled.mean(0))
    assert (tail.style.dashes, tail.note) == ("--", "1 of 10 left")
    assert len(survivors.y) == WINDOWS


@pytest.mark.parametrize(("step", "points"), [(2_500, 2), (600, 0)])
def test_all_rounds_may_diverge(step: int, points: int) -> None:
    """The curve goes on as far as the other run's; that of survivors ends, or is missing."""
    _, (*lines, last) = panel_with(dict.fromkeys(range(10), step))
    curve, survivors = (lines[-1], last) if points else (last, None)
    np.testing.assert_allclose(curve.y[-8:], -9.0)
    assert curve.note == "none of 10 left"
    assert curve.x["steps"][-1] == 10_000
    assert np.isnan(curve.x["queries"][-8:]).all()  # nobody has spent that
    if survivors is not None:
        assert len(survivors.y) == points
        assert survivors.label.endswith("survivors only")


def test_lines_that_are_dashed_anyway_are_dashed_otherwise_then() -> None:
    rounds = ScoredRounds(np.array([[1.0, 2.0, np.nan]]), np.array([True]), np.array([[1.0, 2.0, 0.0]]))
    x = {"steps": np.arange(3.0)}
    for dashes, then in (("-", "--"), ("--", ":"), (":", "--"), ("-.", ":")):
        head, tail, _ = scored_series("a", Style("#000000", dashes), x, rounds)  # type: ignore[arg-type]
        assert (head.style.dashes, tail.style.dashes) == (dashes, then)


def test_a_round_that_lacks_a_point_without_having_diverged_is_left_out_and_not_lost() -> None:
    """As rounds that have had fewer episodes by the end of their budget."""
    values = np.array([[1.0, 3.0], [5.0, np.nan], [np.nan, np.nan]])
    rounds = ScoredRounds(values, np.array([False, False, True]), np.array([[1.0, 3.0], [5.0, np.nan], [0.0, 0.0]]))
    assert rounds.left.tolist() == [2, 2]
    (tail, survivors) = scored_series("a", Style("#000000"), {"steps": np.arange(2.0)}, rounds)
    np.testing.assert_allclose(tail.y, [2.0, 1.5])
    assert tail.note == "2 of 3 left"
    np.testing.assert_allclose(survivors.y, [3.0, 3.0])


def test_a_clipped_band_stays_within_the_rounds_own_values() -> None:
    values = np.array([[1.0, 100.0], [2.0, 1.0], [3.0, 1.0]])
    rounds = ScoredRounds(values, np.zeros(3, bool), values)
    x = {"episodes": np.arange(2.0)}
    (free,) = scored_series("a", Style("#000000"), x, rounds)
    (line,) = scored_series("a", Style("#000000"), x, rounds, clipped=True)
    assert free.low is not None
    assert line.low is not None
    assert line.high is not None
    assert free.low[1] < 0
    np.testing.assert_allclose(line.low, [1.0, 1.0])
    np.testing.assert_allclose(line.high, [3.0, 34 + np.std([100, 1, 1], ddof=1)])


def test_a_curve_without_points_is_none() -> None:
    nothing = np.empty((3, 0))
    rounds = ScoredRounds(nothing, np.zeros(3, bool), nothing)
    assert scored_series("a", Style("#000000"), {"steps": np.empty(0)}, rounds) == []


def test_returns_by_episode_go_on_to_the_last_episode_of_all() -> None:
    result = synthetic("CartPole", rounds=3, episodes=20, diverged={0: 1_000, 1: 1_000, 2: 1_200})
    whole = synthetic("CartPole", "dqn-sgd", rounds=3, episodes=20)
    panel = learning_panel([result, whole], fill=floor_of_minus_nine, band="none")
    tail = next(series for series in panel.series if series.note)
    assert tail.x["episodes"][-1] == 20
    assert tail.y[-1] == -9.0
    assert np.isnan(tail.x["steps"][-1])
