"""Where episodes start, and that a task can be the body of a compiled loop."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srgdqn.tasks.cart_pole import CartPole
from srgdqn.tasks.mountain_car import MountainCar
from srgdqn.tasks.pendulum import Pendulum

DRAWS = 20_000

# The largest distance of an empirical distribution of so many draws from its own is below this but once in 10,000
# samples (Kolmogorov–Smirnov: 2.23 / sqrt(20,000)).
LARGEST_DISTANCE = 0.016

TASKS = [
    (MountainCar(), "MountainCar-v0", [(-0.6, -0.4), (0.0, 0.0)]),
    (Pendulum(), "Pendulum-v1", [(-np.pi, np.pi), (-1.0, 1.0)]),
    (CartPole(), "CartPole-v1", [(-0.05, 0.05)] * 4),
]


@pytest.mark.parametrize(("environment", "identifier", "ranges"), TASKS)
def test_starts_are_uniform_over_gymnasiums_ranges(
    environment: Any, identifier: str, ranges: list[Any], precision: str
) -> None:
    keys = jax.random.split(jax.random.key(0), DRAWS)
    starts = np.asarray(jax.jit(jax.vmap(environment.initial))(keys))
    assert starts.dtype == precision
    host: Any = gymnasium.make(identifier).unwrapped
    theirs = np.array([(host.reset(seed=seed), host.state)[1] for seed in range(200)])
    for component, (low, high) in enumerate(ranges):
        ours = np.sort(starts[:, component].astype(np.float64))
        assert low - 1e-6 <= min(ours[0], theirs[:, component].min())
        assert max(ours[-1], theirs[:, component].max()) <= high + 1e-6
        if low < high:
            distance = np.abs((ours - low) / (high - low) - (np.arange(DRAWS) + 0.5) / DRAWS).max()
            assert distance < LARGEST_DISTANCE
    correlations = np.corrcoef(starts[:, [low < high for low, high in ranges]].T)
    assert np.abs(np.atleast_2d(correlations) - np.eye(len(np.atleast_2d(correlations)))).max() < 0.04


@pytest.mark.parametrize("environment", [MountainCar(), Pendulum(), CartPole()], ids=lambda task: type(task).__name__)
def test_states_keep_their_type_in_a_loop_of_lanes(environment: Any, precision: str) -> None:
    """A carried state may not change its type; and nothing here depends on the lane's neighbours."""

    def step(state: jax.Array, action: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        reached = environment.transition(state, action, None)
        fresh = environment.initial(jax.random.key(1))
        done = environment.terminal(reached, None)
        row = environment.observation(reached, None), environment.reward(state, action, reached, None), done
        return jnp.where(done, fresh, reached), row

    @jax.jit
    def lanes(keys: jax.Array, actions: jax.Array) -> tuple[jax.Array, ...]:
        states = jax.vmap(environment.initial)(keys)
        return jax.vmap(lambda state, chosen: jax.lax.scan(step, state, chosen))(states, actions)[1]

    keys = jax.random.split(jax.random.key(0), 16)
    actions = jax.random.randint(jax.random.key(2), (16, 300), 0, environment.action_space.n)
    observations, rewards, terminals = (np.asarray(part) for part in lanes(keys, actions))
    assert observations.shape == (16, 300, *environment.observation_space.shape)
    assert observations.dtype == rewards.dtype == precision
    assert rewards.shape == terminals.shape == (16, 300)
    assert np.isfinite(rewards).all()
    low, high = environment.observation_space.low, environment.observation_space.high
    assert ((low - 1e-6 <= observations) & (observations <= high + 1e-6)).all()
    again = lanes(keys[::-1], actions[::-1])
    np.testing.assert_array_equal(observations[::-1], again[0])
