"""Why an anchor is inaccurate (claim C11): how far apart the gradients at one θ are.

There are those on D, on the replay that D was drawn from, on all recorded transitions, and on fresh transitions of the
present policy.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from srgdqn.config import Configuration
from srgdqn.learner.exploration import epsilon_greedy
from srgdqn.learner.networks import Network, Parameters
from srgdqn.learner.replay import pack
from srgdqn.paper.measurements.recorded import exact_gradient
from srgdqn.tasks import Task
from srgdqn.training.interaction import Situation, action_count, begin_episode, take_step


class AnchorError(NamedTuple):
    """Squared distances between gradients at one θ.

    Fresh transitions are a sample, and so is the replay: their errors must not pass for drift. The product of the
    distances from two independent fresh samples is free of these samples' errors, and half of their squared distance
    from each other estimates that of a sample as long as they are, the replay. What is left may come out below 0.
    """

    sampling: Float[Array, ""]  # D against the replay
    unseen: Float[Array, ""]  # the replay against all recorded: the paper's first reason
    drift: Float[Array, ""]  # the replay against the present policy: the paper's second reason
    total: Float[Array, ""]  # D against all recorded


def anchor_error(
    configuration: Configuration,
    network: Network,
    theta: Parameters,
    batch: Float[Array, "N width"],
    replay: Float[Array, "filled width"],
    recording: Float[Array, "steps width"],
    fresh: Float[Array, "2 fresh width"],
) -> AnchorError:
    """The squared distances at θ; all transitions are packed rows."""
    on_batch, on_replay, on_all, on_one, on_other = (
        exact_gradient(configuration, network, theta, rows) for rows in (batch, replay, recording, *fresh)
    )
    return AnchorError(
        sampling=_squared_distance(on_batch, on_replay),
        unseen=_squared_distance(on_replay, on_all),
        drift=optax.tree.vdot(optax.tree.sub(on_replay, on_one), optax.tree.sub(on_replay, on_other))
        - _squared_distance(on_one, on_other) / 2,
        total=_squared_distance(on_batch, on_all),
    )


def fresh_transitions(
    task: Task,
    network: Network,
    theta: Parameters,
    exploration: Float[Array, ""] | float,
    key: PRNGKeyArray,
    *,
    steps: int,
    reward_scale: Array | float = 1.0,
) -> Float[Array, "steps width"]:
    """Packed transitions of the ε-greedy policy of θ, from a fresh episode on."""
    environment = task.environment
    first, rest = jax.random.split(key)

    def step(situation: Situation, step_key: PRNGKeyArray) -> tuple[Situation, Array]:
        explore, act, episode, observe, move = jax.random.split(step_key, 5)
        q_values = network.q_values(theta, situation.observation[None])[0]
        random_action = jax.random.randint(act, (), 0, action_count(environment))
        action = epsilon_greedy(q_values, jnp.asarray(exploration), jax.random.uniform(explore), random_action)
        fresh = begin_episode(environment, episode, observe)
        after, outcome = take_step(environment, situation, action, fresh, task.time_limit, move)
        made = outcome.transition
        return after, pack(made._replace(reward=made.reward * reward_scale))

    start = begin_episode(environment, *jax.random.split(first))
    return jax.lax.scan(step, start, jax.random.split(rest, steps))[1]


def _squared_distance(a: Parameters, b: Parameters) -> Float[Array, ""]:
    return optax.tree.norm(optax.tree.sub(a, b), squared=True)
