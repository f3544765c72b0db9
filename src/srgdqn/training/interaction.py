"""One step of a functional environment and what follows an episode's end: termination apart from truncation, reset."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from srgdqn.errors import InputError
from srgdqn.learner.gradients import Transitions


class Situation(NamedTuple):
    """Where a round stands in its environment."""

    state: Any
    observation: Float[Array, " size"]
    episode_steps: Int[Array, ""]


class Step(NamedTuple):
    """What one step gave."""

    transition: Transitions
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


def observation_size(environment: FuncEnv) -> int:
    """The length of an observation as the network sees it: flat, and one-hot where it is one of n."""
    return gym.spaces.flatdim(environment.observation_space)


def action_count(environment: FuncEnv) -> int:
    """How many actions there are."""
    return gym.spaces.flatdim(environment.action_space)


def begin_episode(environment: FuncEnv, key: PRNGKeyArray, observation_key: PRNGKeyArray) -> Situation:
    """A fresh episode. Environments split their keys as they like, so the state and the observation have one each."""
    state = environment.initial(key, **_parameters(environment))
    observation = _observe(environment, state, observation_key)
    return Situation(state, observation, jnp.zeros((), jnp.int32))


def take_step(
    environment: FuncEnv,
    situation: Situation,
    action: Int[Array, ""],
    fresh: Situation,
    time_limit: Int[Array, ""] | np.ndarray | int | None,
    key: PRNGKeyArray,
) -> tuple[Situation, Step]:
    """The situation after an action (`fresh` where that ended the episode), and what the step gave."""
    extra = _parameters(environment)
    transition_key, observation_key, reward_key, terminal_key = jax.random.split(key, 4)
    state = environment.transition(situation.state, action, transition_key, **extra)
    reward = environment.reward(situation.state, action, state, reward_key, **extra)
    terminated = jnp.asarray(environment.terminal(state, terminal_key, **extra), bool)
    observation = _observe(environment, state, observation_key)
    for name, value in (("reward", reward), ("terminal", terminated)):
        if jnp.shape(value) != ():
            raise InputError(
                f"{name} of {type(environment).__name__} gives an array of shape {jnp.shape(value)}, but must give one "
                "number. Index or squeeze it."
            )
    steps = situation.episode_steps + 1
    truncated = jnp.zeros((), bool) if time_limit is None else ~terminated & (steps >= time_limit)
    dtype = observation.dtype
    transition = Transitions(
        situation.observation, action, jnp.asarray(reward, dtype), observation, terminated.astype(dtype)
    )
    ended = terminated | truncated
    after = jax.tree.map(
        lambda new, old: jnp.where(ended, new, old.astype(new.dtype)), fresh, Situation(state, observation, steps)
    )
    return after, Step(transition, terminated, truncated)


def _observe(environment: FuncEnv, state: Any, key: PRNGKeyArray) -> Array:
    observation = environment.observation(state, key, **_parameters(environment))
    space = environment.observation_space
    dtype = jnp.result_type(float)
    if isinstance(space, gym.spaces.Discrete):
        return jax.nn.one_hot(jnp.asarray(observation) - int(space.start), int(space.n), dtype=dtype)
    if jnp.size(observation) != observation_size(environment):
        raise InputError(
            f"an observation of {type(environment).__name__} has shape {jnp.shape(observation)}, but its space has "
            f"{space.shape}. Make both the same."
        )
    return jnp.ravel(jnp.asarray(observation, dtype))


def _parameters(environment: FuncEnv) -> dict[str, Any]:
    # An environment without parameters of its own may not accept the argument's being None.
    parameters = getattr(environment, "default_params", None)
    return {} if parameters is None else {"params": parameters}
