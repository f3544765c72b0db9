"""Greedy evaluation on the raw reward: the same protocol for every round of every algorithm.

Each evaluation plays `evaluation_episodes` episodes without exploration, from starts that depend on the run's seed and
the episode's number alone, each for at most the task's evaluation limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.normalisation import Normaliser, normalise_observation
from srgdqn.tasks import Task
from srgdqn.training.interaction import Situation, begin_episode, take_step

STREAM = 0xE7A1
"""Keeps the evaluation's random numbers apart from the rounds'."""
FRESH_STREAM = 0xF4E50
"""Likewise, of the episodes that are played at the end with the policies that the others chose."""
FRESH_EVALUATIONS = 4
"""How many times as many these are."""


class Evaluation(NamedTuple):
    """One row per episode."""

    total_reward: Float[Array, " episodes"]
    length: Int[Array, " episodes"]
    terminated: Bool[Array, " episodes"]


class EvaluationKeys(NamedTuple):
    """Random keys, one per episode."""

    start: PRNGKeyArray
    steps: PRNGKeyArray
    first_observation: PRNGKeyArray


def evaluation_keys(seed: int, episodes: int, stream_number: int = STREAM) -> EvaluationKeys:
    """The random keys of the evaluation episodes of a run."""
    stream = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), stream_number)
    parts = [jax.random.fold_in(stream, part) for part in (2**32 - 1, 2**32 - 2)]
    return EvaluationKeys(jax.random.split(stream, episodes), *(jax.random.split(part, episodes) for part in parts))


def fresh_keys(seed: int, episodes: int) -> list[EvaluationKeys]:
    """Those of the episodes at its end, by evaluations of so many."""
    return [evaluation_keys(seed, episodes, FRESH_STREAM + place) for place in range(FRESH_EVALUATIONS)]


def evaluate_greedily(
    task: Task, network: Network, parameters: Parameters, normaliser: Normaliser, keys: EvaluationKeys
) -> Evaluation:
    """Plays one episode per key with the greedy policy of one round."""

    def greedy(count: Array, observations: Array) -> Array:
        del count
        seen = normalise_observation(normaliser, observations)
        return jnp.argmax(network.q_values(parameters, seen), axis=-1).astype(jnp.int32)

    return play(task, greedy, keys)


def play(task: Task, policy: Callable[[Array, Array], Array], keys: EvaluationKeys) -> Evaluation:
    """Plays one episode per key with a policy: from the number of a step and all observations to all actions."""
    environment, limit = task.raw, task.evaluation_limit
    starts = jax.vmap(begin_episode, (None, 0, 0))(environment, keys.start, keys.first_observation)

    def step(carry: tuple[Array, Situation, Evaluation]) -> tuple[Array, Situation, Evaluation]:
        count, situations, played = carry
        actions = policy(count, situations.observation)
        step_keys = jax.vmap(jax.random.fold_in, (0, None))(keys.steps, count)
        after, outcome = jax.vmap(lambda s, a, fresh, key: take_step(environment, s, a, fresh, None, key))(
            situations, actions, situations, step_keys
        )
        open_ = ~played.terminated
        return (
            count + 1,
            after,
            Evaluation(
                played.total_reward + jnp.where(open_, outcome.transition.reward, 0),
                played.length + open_,
                played.terminated | outcome.terminated,
            ),
        )

    def unfinished(carry: tuple[Array, Situation, Evaluation]) -> Array:
        count, _, played = carry
        return (count < limit) & ~played.terminated.all()

    episodes = keys.start.shape[0]
    nothing = Evaluation(jnp.zeros(episodes), jnp.zeros(episodes, jnp.int32), jnp.zeros(episodes, bool))
    return jax.lax.while_loop(unfinished, step, (jnp.zeros((), jnp.int32), starts, nothing))[2]
