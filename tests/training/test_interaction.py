"""One step and what follows an episode's end, with a task that can be followed by heart."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box, Discrete

from srgdqn.errors import InputError
from srgdqn.training.interaction import Situation, action_count, begin_episode, observation_size, take_step


class Corridor(FuncEnv):
    """Places 0, 1, 2, …; action 1 goes on, 0 stays; place 3 is the end. The reward is 10 × from + to + action / 10."""

    observation_space = Box(0.0, 9.0, (2, 1), np.float32)
    action_space = Discrete(2)

    def initial(self, rng: Any, params: None = None) -> jax.Array:
        return jnp.zeros((), jnp.int32)

    def transition(self, state: jax.Array, action: Any, rng: Any, params: None = None) -> jax.Array:
        return state + action

    def observation(self, state: jax.Array, rng: Any, params: None = None) -> jax.Array:
        return jnp.array([[state], [2 * state]])

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: None = None) -> jax.Array:
        return 10.0 * state + next_state + action / 10

    def terminal(self, state: jax.Array, rng: Any, params: None = None) -> jax.Array:
        return state >= 3


KEY = jax.random.key(0)
FRESH = Situation(jnp.int32(0), jnp.zeros(2), jnp.int32(0))


def go(place: int, steps: int, action: int, time_limit: int | None) -> tuple[Situation, Any]:
    situation = Situation(jnp.int32(place), jnp.array([place, 2.0 * place]), jnp.int32(steps))
    return take_step(Corridor(), situation, jnp.int32(action), FRESH, time_limit, KEY)


def test_a_step_within_an_episode() -> None:
    after, step = go(place=1, steps=4, action=1, time_limit=9)
    assert (int(after.state), after.observation.tolist(), int(after.episode_steps)) == (2, [2.0, 4.0], 5)
    transition = step.transition
    assert transition.observation.tolist() == [1.0, 2.0]
    assert transition.next_observation.tolist() == [2.0, 4.0]
    assert float(transition.reward) == pytest.approx(10 * 1 + 2 + 0.1)
    assert (int(transition.action), float(transition.terminated)) == (1, 0.0)
    assert (bool(step.terminated), bool(step.truncated)) == (False, False)


@pytest.mark.parametrize("time_limit", [None, 5, 9])
def test_termination_keeps_the_terminal_observation_and_starts_afresh(time_limit: int | None) -> None:
    after, step = go(place=2, steps=4, action=1, time_limit=time_limit)
    assert (int(after.state), after.observation.tolist(), int(after.episode_steps)) == (0, [0.0, 0.0], 0)
    assert step.transition.next_observation.tolist() == [3.0, 6.0]
    assert float(step.transition.terminated) == 1.0
    # A terminal state reached with the last step allowed is terminated, not truncated.
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)


def test_truncation_starts_afresh_and_is_not_stored_as_termination() -> None:
    after, step = go(place=1, steps=4, action=1, time_limit=5)
    assert (int(after.state), after.observation.tolist(), int(after.episode_steps)) == (0, [0.0, 0.0], 0)
    assert step.transition.next_observation.tolist() == [2.0, 4.0]
    assert float(step.transition.terminated) == 0.0
    assert (bool(step.terminated), bool(step.truncated)) == (False, True)


class Rooms(Corridor):
    """The corridor, whose places are seen as one of 5 numbers that start at 2, and whose step length is a parameter."""

    observation_space = Discrete(5, start=2)

    def get_default_params(self, **kwargs: Any) -> int:
        return 2

    def initial(self, rng: Any, params: int) -> jax.Array:
        return jnp.asarray(params, jnp.int32)

    def transition(self, state: jax.Array, action: Any, rng: Any, params: int) -> jax.Array:
        return state + params * action

    def observation(self, state: jax.Array, rng: Any, params: int) -> jax.Array:
        return state

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: int) -> jax.Array:
        return next_state

    def terminal(self, state: jax.Array, rng: Any, params: int) -> jax.Array:
        return state >= 6


def test_discrete_observations_are_one_hot_and_parameters_are_passed_on() -> None:
    environment = Rooms()
    start = begin_episode(environment, KEY, jax.random.key(9))
    assert start.observation.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    after, step = take_step(environment, start, jnp.int32(1), start, None, KEY)
    assert after.observation.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert (float(step.transition.reward), step.transition.reward.dtype) == (4.0, jnp.float32)


@pytest.mark.parametrize(("environment", "size"), [(Corridor(), 2), (Rooms(), 5)])
def test_sizes(environment: FuncEnv, size: int) -> None:
    assert (observation_size(environment), action_count(environment)) == (size, 2)
    assert begin_episode(environment, KEY, jax.random.key(9)).observation.shape == (size,)


class Noisy(Corridor):
    """Everything random, each from the key it was given."""

    observation_space = Box(0.0, 1.0, (1,), np.float32)

    def initial(self, rng: Any, params: None = None) -> jax.Array:
        return jax.random.uniform(rng)

    def transition(self, state: jax.Array, action: Any, rng: Any, params: None = None) -> jax.Array:
        return jax.random.uniform(rng)

    def observation(self, state: jax.Array, rng: Any, params: None = None) -> jax.Array:
        return jax.random.uniform(rng)

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: None = None) -> jax.Array:
        return jax.random.uniform(rng)


def test_what_is_random_in_one_step_is_independent() -> None:
    environment = Noisy()
    start = begin_episode(environment, KEY, jax.random.key(9))
    after, step = take_step(environment, start, jnp.int32(0), start, None, jax.random.key(1))
    again, _ = take_step(environment, start, jnp.int32(0), start, None, jax.random.key(2))
    numbers = [
        start.state,
        start.observation[0],
        after.state,
        after.observation[0],
        step.transition.reward,
        again.state,
    ]
    assert len({float(number) for number in numbers}) == len(numbers)


def test_an_observation_of_another_size_than_its_space_is_refused() -> None:
    environment = Noisy()
    environment.observation = lambda *_, **__: jnp.zeros((3, 4))  # type: ignore[method-assign]
    with pytest.raises(InputError, match=r"observation of Noisy has shape \(3, 4\), but its space has"):
        begin_episode(environment, KEY, jax.random.key(9))


@pytest.mark.parametrize("name", ["reward", "terminal"])
def test_what_is_not_one_number_is_refused_by_name(name: str) -> None:
    environment = Noisy()
    setattr(environment, name, lambda *_, **__: jnp.zeros(1))
    start = begin_episode(environment, KEY, jax.random.key(9))
    with pytest.raises(InputError, match=rf"{name} of Noisy gives an array of shape \(1,\)"):
        take_step(environment, start, jnp.int32(0), start, None, KEY)
