"""DQN written whole in JAX, in the style known from PureJaxRL: environment, replay and updates in one compiled scan.

The environment is gymnax's, and rounds are mapped over their random keys. Nothing depends on a condition: a block of
steps ends in an update, always, but for the blocks before learning starts. Random numbers of a block are drawn at once,
and a block is written to the replay memory at once, which therefore holds whole blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp

from job.clocks import measure_calls
from job.jax_dqn import OPTIMISER, Parameters, make_parameters, q_values, train_all, update
from job.settings import (
    BATCH,
    CAPACITY,
    FIRST_UPDATE,
    TARGET_EVERY,
    UPDATE_EVERY,
    Job,
    Transitions,
    exploration,
    job_of,
    job_parser,
)

FIRST_BLOCKS = FIRST_UPDATE // UPDATE_EVERY - 1  # without an update
SLOTS = -(-CAPACITY // UPDATE_EVERY) * UPDATE_EVERY


class Round(NamedTuple):
    """The state of a round between two blocks."""

    key: jax.Array
    situation: Any  # of the environments
    observation: jax.Array
    replay: Transitions
    parameters: Parameters
    target: Parameters
    moments: Any


def make_train(job: Job, environments: int) -> Callable[[jax.Array], Any]:
    """A round as a function of its random key, with so many environments side by side."""
    environment, settings = gymnax.make(job.gymnasium_id)
    size, actions = environment.observation_space(settings).shape[0], environment.num_actions
    moves = UPDATE_EVERY // environments  # of all environments, in a block
    reset = jax.vmap(environment.reset, (0, None))
    step = jax.vmap(environment.step, (0, 0, 0, None))

    def begin(key: jax.Array) -> Round:
        key, network_key, reset_key = jax.random.split(key, 3)
        parameters = make_parameters(network_key, (size, *job.hidden, actions))
        observation, situation = reset(jax.random.split(reset_key, environments), settings)
        rows, numbers = jnp.zeros((SLOTS, size)), jnp.zeros(SLOTS)
        replay = Transitions(rows, jnp.zeros(SLOTS, jnp.int32), numbers, rows, numbers)
        return Round(key, situation, observation, replay, parameters, parameters, OPTIMISER.init(parameters))

    def step_block(now: Round, block: jax.Array) -> tuple[Round, jax.Array]:
        key, explore_key, action_key, step_key = jax.random.split(now.key, 4)
        epsilon = exploration(block * UPDATE_EVERY, job.steps)
        draws = (
            jax.random.bernoulli(explore_key, epsilon, (moves, environments)),
            jax.random.randint(action_key, (moves, environments), 0, actions),
            jax.random.split(step_key, (moves, environments)),
        )

        def move(carry: tuple[Any, jax.Array], drawn: tuple) -> tuple[tuple[Any, jax.Array], Transitions]:
            situation, observation = carry
            explores, random_action, keys = drawn
            action = jnp.where(explores, random_action, q_values(now.parameters, observation).argmax(-1))
            following, situation, reward, terminated, _, info = step(keys, situation, action, settings)
            row = Transitions(observation, action, reward, info["final_observation"], terminated)
            return (situation, following), row

        (situation, observation), rows = jax.lax.scan(move, (now.situation, now.observation), draws)
        first = block * UPDATE_EVERY % SLOTS
        replay = jax.tree.map(functools.partial(_write, first), now.replay, rows)
        return now._replace(key=key, situation=situation, observation=observation, replay=replay), rows.reward.mean()

    def learn(now: Round, block: jax.Array) -> tuple[Round, jax.Array]:
        now, reward = step_block(now, block)
        key, batch_key = jax.random.split(now.key)
        made = (block + 1) * UPDATE_EVERY
        picks = jax.random.randint(batch_key, (BATCH,), 0, jnp.minimum(made, SLOTS))
        batch = jax.tree.map(lambda column: column[picks], now.replay)
        parameters, moments = update(now.parameters, now.target, now.moments, batch)
        copies = made % TARGET_EVERY == 0
        target = jax.tree.map(lambda old, new: jnp.where(copies, new, old), now.target, parameters)
        return now._replace(key=key, parameters=parameters, target=target, moments=moments), reward

    def train(key: jax.Array) -> Any:
        filled, _ = jax.lax.scan(step_block, begin(key), jnp.arange(FIRST_BLOCKS))
        last, rewards = jax.lax.scan(learn, filled, jnp.arange(FIRST_BLOCKS, job.steps // UPDATE_EVERY))
        return last.parameters, rewards

    return train


def _write(first: jax.Array, column: jax.Array, rows: jax.Array) -> jax.Array:
    flat = rows.reshape(UPDATE_EVERY, *column.shape[1:]).astype(column.dtype)
    return jax.lax.dynamic_update_slice_in_dim(column, flat, first, 0)


def prepare(job: Job, environments: int) -> Callable[[int], int]:
    train = train_all(make_train(job, environments), job.rounds)

    def run(seed: int) -> int:
        train(seed)
        return job.rounds * job.learning_steps

    return run


if __name__ == "__main__":
    parser = job_parser(__doc__)
    parser.add_argument(
        "--environments", type=int, choices=(1, 2, 4, 8, 16), default=1, help="stepped side by side in each round"
    )
    asked = parser.parse_args()
    measure_calls(job_of(asked), lambda: prepare(job_of(asked), asked.environments))
