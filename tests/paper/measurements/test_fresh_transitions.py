"""Fresh transitions of a policy, against Gymnasium's own environment."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import reference
from srgdqn.learner.networks import make_network
from srgdqn.paper.measurements.anchors import fresh_transitions
from tiny import TIME_LIMIT, tiny
from translation import to_parameters

pytestmark = pytest.mark.usefixtures("double")

STEPS = 120


@functools.cache
def fresh_program(reward_scale: float) -> Any:
    configuration, task = tiny()
    network = make_network(configuration.network, 4, 2)
    return jax.jit(
        lambda theta, exploration, key: fresh_transitions(
            task, network, theta, exploration, key, steps=STEPS, reward_scale=reward_scale
        )
    )


def fresh(seed: int, exploration: float, reward_scale: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """θ of a random network, and rows of its policy."""
    theta, _, _ = reference.random_problem(seed, (4, 4, 2), 1, 1)
    rows = fresh_program(reward_scale)(to_parameters(theta, (4, 4, 2)), exploration, jax.random.key(seed))
    return theta, np.asarray(rows)


def shaped_reward(position: float, angle: float) -> float:
    """The readings' row 18, first option."""
    limit = np.deg2rad(12)
    return (2.4 - abs(position)) / 2.4 - 0.8 + (limit - abs(angle)) / limit - 0.5


@pytest.mark.parametrize("seed", range(2))
def test_without_exploration_they_are_the_greedy_policys_in_gymnasium(seed: int) -> None:
    theta, rows = fresh(seed, 0.0)
    o = reference.Options((4, 4, 2))
    environment: Any = gymnasium.make("CartPole-v1").unwrapped
    length = 0
    for step, row in enumerate(rows):
        seen, next_seen, (action, reward, terminal) = row[:4], row[4:8], row[8:]
        if length == 0:
            assert np.abs(seen).max() <= 0.05
            assert (np.abs(seen) > 0).all()
        else:
            np.testing.assert_array_equal(seen, rows[step - 1, 4:8])
        assert action == np.argmax(reference.q_values(o, theta, seen))
        environment.reset()
        environment.state = seen
        _, _, ended, _, _ = environment.step(int(action))
        np.testing.assert_allclose(next_seen, environment.state, rtol=1e-6, atol=1e-7)
        assert terminal == ended
        assert reward == pytest.approx(0.5 * shaped_reward(next_seen[0], next_seen[2]), abs=1e-6)
        length += 1
        if ended or length == TIME_LIMIT:
            length = 0


def test_with_exploration_actions_are_random_as_often_as_asked() -> None:
    """A random action is the greedy one half the time."""
    o = reference.Options((4, 4, 2))
    for exploration in (0.3, 1.0):
        other = count = 0
        for seed in range(10):
            theta, rows = fresh(seed, exploration)
            greedy = [int(np.argmax(reference.q_values(o, theta, row[:4]))) for row in rows]
            other += int((rows[:, 8] != greedy).sum())
            count += STEPS
        share = exploration / 2
        assert abs(other / count - share) < 4 * np.sqrt(share * (1 - share) / count)
