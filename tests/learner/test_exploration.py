from typing import Any

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from srgdqn.config import ActingSettings
from srgdqn.learner.exploration import epsilon, epsilon_greedy

SHARES = st.floats(0, 1, width=32)


@given(start=SHARES, end=SHARES, fraction=st.floats(0.125, 1, width=32), progress=st.floats(0, 2, width=32))
def test_epsilon_is_a_straight_line_and_then_flat(start: float, end: float, fraction: float, progress: float) -> None:
    settings = ActingSettings(epsilon_start=start, epsilon_end=end, epsilon_fraction=fraction)
    by_hand = end if progress >= fraction else start * (1 - progress / fraction) + end * (progress / fraction)
    assert float(epsilon(settings, np.float32(progress))) == pytest.approx(by_hand, abs=1e-6)


def act(q_values: Any, probability: float, draws: np.ndarray, actions: np.ndarray) -> np.ndarray:
    rows = [np.broadcast_to(np.asarray(q_values, np.float32), (len(draws), len(q_values)))]
    return np.asarray(jnp.vectorize(epsilon_greedy, signature="(a),(),(),()->()")(*rows, probability, draws, actions))


def test_without_exploration_the_best_action_is_taken_and_of_equals_the_first() -> None:
    draws, actions = np.linspace(0, 0.999, 50, dtype=np.float32), np.arange(50, dtype=np.int32) % 4
    assert set(act([0.0, 3.0, 1.0, 2.0], 0.0, draws, actions)) == {1}
    assert set(act([0.0, 2.0, 2.0, 2.0], 0.0, draws, actions)) == {1}
    assert set(act([5.0, 5.0, 5.0, 5.0], 0.0, draws, actions)) == {0}


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_how_often_each_action_is_taken(probability: float) -> None:
    random = np.random.default_rng(0)
    draws, actions = random.random(20_000, np.float32), random.integers(4, size=20_000, dtype=np.int32)
    taken = np.bincount(act([0.0, 3.0, 1.0, 2.0], probability, draws, actions), minlength=4) / 20_000
    expected = np.full(4, probability / 4) + np.array([0, 1 - probability, 0, 0])
    assert taken == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(20_000))
