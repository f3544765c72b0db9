"""What a diverged round scores, by hand: never more than any round that finished."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srgdqn.paper.scores import RANDOM, REFERENCE, Values, scored, values_of
from synthetic_outcomes import EPISODES, planted_run


def arm(*means: float, lost: tuple[int, ...] = ()) -> Values:
    values = np.array(means, float)
    diverged = np.isin(np.arange(len(values)), lost)
    return Values(np.where(diverged, np.nan, values)[:, None] * np.ones(3), diverged)


def test_a_diverged_round_scores_the_worst_finished_one_of_the_reference_arms() -> None:
    arms = {
        "srg-dqn": arm(5.0, 9.0, 7.0, lost=(1,)),
        "dqn-sgd": arm(2.0, 3.0, 4.0),
        "dqn-adam": arm(-50.0, 8.0, 0.0, lost=(2,)),  # no arm that the score of diverged rounds is taken from
        RANDOM: arm(6.0, 6.0, 6.0),
    }
    found = scored(arms)
    np.testing.assert_array_equal(found["srg-dqn"].values, [5.0, 2.0, 7.0])
    np.testing.assert_array_equal(found["dqn-adam"].values, [-50.0, 8.0, 2.0])
    np.testing.assert_array_equal(found["srg-dqn"].diverged, [False, True, False])
    assert found["srg-dqn"].share == pytest.approx(1 / 3)


def test_the_random_policys_mean_is_taken_where_it_is_worse_or_nobody_finished() -> None:
    below = scored({"srg-dqn": arm(5.0, 0.0, lost=(1,)), RANDOM: arm(1.0, 3.0)})
    np.testing.assert_array_equal(below["srg-dqn"].values, [5.0, 2.0])
    nobody = scored({"srg-dqn": arm(0.0, 0.0, lost=(0, 1)), RANDOM: arm(1.0, 3.0)})
    np.testing.assert_array_equal(nobody["srg-dqn"].values, [2.0, 2.0])


def test_of_lengths_the_longest_is_the_worst() -> None:
    found = scored({"srg-dqn": arm(100.0, 0.0, lost=(1,)), "svr-dqn": arm(900.0, 3.0), RANDOM: arm(200.0, 200.0)}, max)
    np.testing.assert_array_equal(found["srg-dqn"].values, [100.0, 900.0])


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=6), st.integers(-9, 9), st.data())
def test_divergence_is_never_a_gain(values: list[int], chance: int, data: st.DataObject) -> None:
    """With whole numbers, whose means are exact."""
    lost = tuple(data.draw(st.sets(st.integers(0, len(values) - 1))))
    name = data.draw(st.sampled_from(REFERENCE))
    found = scored({name: arm(*values, lost=lost), RANDOM: arm(chance, chance)})[name]
    finished = found.values[~found.diverged]
    for diverged in found.values[found.diverged]:
        assert diverged <= chance
        assert (diverged <= finished).all()


def test_a_round_is_diverged_for_a_score_if_it_was_before_that_scores_last_step() -> None:
    run = planted_run(
        "MountainCar", "srg-dqn", [1.0, 2.0, 3.0], earlies=[10.0, 20.0, 30.0], diverged={1: 7_000, 2: 3_000}
    )
    final, first = values_of(run, "final"), values_of(run, "first half")
    np.testing.assert_array_equal(final.diverged, [False, True, True])
    np.testing.assert_array_equal(first.diverged, [False, False, True])
    np.testing.assert_allclose(final.means, [1.0, np.nan, np.nan])
    np.testing.assert_allclose(first.means, [10.0, 20.0, np.nan])
    assert final.windows.shape == (3, 2)
    assert first.windows.shape == (3, 5)


def test_under_an_episode_budget_the_last_hundred_returns_and_all_lengths_count() -> None:
    run = planted_run("CartPole", "srg-dqn", [4.0, 5.0], earlies=[-9.0, -9.0], lengths=[30.0, 40.0])
    final, lengths = values_of(run, "final"), values_of(run, "length")
    assert final.windows.shape == (2, 100)
    np.testing.assert_allclose(final.means, [4.0, 5.0])
    assert lengths.windows.shape == (2, EPISODES)


def test_where_every_round_diverged_there_are_no_values() -> None:
    run = planted_run("Pendulum", "srg-dqn", [1.0, 2.0], diverged={0: 2_000, 1: 9_000})
    found = values_of(run, "final")
    assert found.diverged.all()
    assert np.isnan(found.means).all()
